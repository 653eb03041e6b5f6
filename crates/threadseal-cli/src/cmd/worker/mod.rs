//! `worker`: takes orders from a database and runs their threads.
//!
//! ```text
//! threadseal run demo/greet --database postgres://… --detach      queues an order
//! threadseal worker --database postgres://…                       on any number of machines
//! threadseal worker --database postgres://… --status              what waits, who holds what
//! ```
//! An order counts by its signature: by this home's own key, or by one named with --orders-from.
//! No state of a thread is on this machine: if it is lost, another worker continues. All workers of
//! a database have the same keys, and the same project.

mod metrics;
mod status;

use crate::context::{self, Context};
use crate::engine::{EngineArgs, engine_in};
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::fleet::DatabaseArgs;
use crate::key_status;
use crate::output::Out;
use crate::render::clean::Clean;
use crate::verifying;
use clap::Args;
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_core::key::{KeyId, PublicKey};
use threadseal_runtime::bounds::LEASE_TIME;
use threadseal_runtime::fleet::{Monitor, Worker};
use threadseal_runtime::toolbox::Cancel;

/// What `worker` takes.
#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Name of this worker, for people [default: its process number]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Time that an order is held without a renewal, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = LEASE_TIME.as_secs_f64())]
    lease: f64,
    /// Carry out orders of this key, which must be trusted: PEM file, 64 hex digits of the key or
    /// of its id, did:key, or a name of the trust store; repeatable [default: this home's key]
    #[arg(long, value_name = "KEY")]
    orders_from: Vec<String>,
    /// Exit when no order is left
    #[arg(long)]
    until_idle: bool,
    /// Serve /metrics for Prometheus and /healthz at this address; port 0 picks a free port
    /// (127.0.0.1:9464 is for this machine alone). Nothing protects them: who reaches the address reads them
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Show orders, leases, threads and spending of the database, and exit
    #[arg(long, conflicts_with_all = ["name", "lease", "orders_from", "until_idle", "metrics"])]
    status: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

pub(super) fn run(args: &WorkerArgs, context: &Context, out: &mut Out) -> Outcome {
    if args.status {
        return status::run(&args.database.required(context)?, context, out);
    }
    let cancel = Cancel::default();
    context::cancel_on_interrupt(&cancel.flag())?;
    let fleet = args.database.required(context)?;
    let engine = engine_in(&args.engine, context, Some(&fleet))?;
    let name = args.name.clone();
    let lease = Duration::try_from_secs_f64(args.lease)
        .map_err(|_| Failure::new("--lease must be a number of seconds"))?;
    let key = engine.services.keys.native.public_key();
    // The key may end while this runs.
    let may_seal =
        || key_status::refuse(key, context).map_err(|why| Error::refused(why.to_string()));
    let worker = Worker {
        fleet: &fleet,
        engine: &engine,
        name: name.unwrap_or_else(|| std::process::id().to_string()),
        lease,
        orders_from: givers(args, key, context)?,
        limits: args.engine.limits()?,
        may_seal: &may_seal,
        until_idle: args.until_idle,
        cancel,
    };
    let work = || worker.work(&mut |left| complain(&format!("{}", Clean(left))));
    let tally = match args.metrics {
        Some(address) => {
            let version = env!("CARGO_PKG_VERSION");
            let monitor = Monitor::new(&fleet, &worker.name, lease, version)?;
            metrics::serving(address, monitor, work)?
        }
        None => work()?,
    };
    if context.json {
        out.json(&json!({"schema": "threadseal.worker/1", "done": tally.done,
                         "taken_over": tally.taken_over, "left": tally.left,
                         "set_aside": tally.set_aside}));
    } else if !context.quiet {
        complain(&format!(
            "{} orders done, {} taken over, {} left to others, {} set aside",
            tally.done, tally.taken_over, tally.left, tally.set_aside
        ));
    }
    Ok(Exit::Done)
}

/// The keys whose orders are carried out.
fn givers(args: &WorkerArgs, own: &PublicKey, context: &Context) -> Result<Vec<KeyId>, Failure> {
    let named = args.orders_from.iter();
    let named = named.map(|key| Ok(verifying::public_key(key, context)?.key_id()));
    match args.orders_from.is_empty() {
        true => Ok(vec![own.key_id()]),
        false => named.collect(),
    }
}
