//! `thread cancel`: writes a signed request for the process of the thread, also on another machine.

use crate::context::Context;
use crate::engine::{HoldArgs, holding};
use crate::exit::{Exit, Outcome};
use crate::fleet::{Cancelled, DatabaseArgs};
use crate::output::Out;
use crate::render::clean::Clean;
use clap::Args;
use serde_json::json;
use threadseal_core::record::ThreadId;

/// What `thread cancel` takes.
#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// The thread; with --database also the number of an order that `run --detach` printed
    #[arg(value_name = "THREAD")]
    thread: String,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    hold: HoldArgs,
}

/// Writes the request; `thread wait` reports the end. An order that no worker has taken ends at
/// once.
pub(super) fn run(args: &CancelArgs, context: &Context, out: &mut Out) -> Outcome {
    let fleet = args.database.open(context)?;
    let engine = holding(&args.hold, context, fleet.as_ref())?;
    let order = args.thread.parse::<i64>().ok();
    let cancelled = match (&fleet, order) {
        (Some(fleet), Some(order)) => fleet.cancel_order(&engine, order)?,
        (Some(fleet), None) => fleet.cancel(&engine, &ThreadId::parse(&args.thread)?)?,
        (None, _) => {
            let id = ThreadId::parse(&args.thread)?;
            engine.request_cancel(&id)?;
            Cancelled::Asked(id)
        }
    };
    let schema = "threadseal.thread.cancel/1";
    match cancelled {
        Cancelled::Asked(id) if context.json => {
            out.json(&json!({"schema": schema, "thread_id": id.as_str(), "cancelled": true}));
        }
        Cancelled::Asked(id) => out.line(format_args!("cancelling  {}", Clean(id.as_str()))),
        Cancelled::Order(order) if context.json => {
            out.json(&json!({"schema": schema, "order": order, "cancelled": true}));
        }
        Cancelled::Order(order) => out.line(format_args!("cancelled  order {order}")),
    }
    Ok(Exit::Done)
}
