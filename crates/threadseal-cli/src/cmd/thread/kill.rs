//! `thread kill`: ends the process that writes a thread's record, or revokes the lease of its
//! worker.

use crate::context::Context;
use crate::engine::{HoldArgs, holding};
use crate::exit::{Exit, Outcome};
use crate::fleet::DatabaseArgs;
use crate::output::Out;
use crate::render::clean::Clean;
use clap::Args;
use serde_json::json;
use threadseal_core::record::ThreadId;
use threadseal_runtime::bounds::LEASE_TIME;
use threadseal_runtime::runner::Killed;

/// What `thread kill` takes.
#[derive(Debug, Args)]
pub(crate) struct KillArgs {
    /// The thread
    #[arg(value_name = "THREAD")]
    thread: String,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    hold: HoldArgs,
}

/// Ends it; its threads are recovered.
pub(super) fn run(args: &KillArgs, context: &Context, out: &mut Out) -> Outcome {
    let id = ThreadId::parse(&args.thread)?;
    let fleet = args.database.open(context)?;
    let engine = holding(&args.hold, context, fleet.as_ref())?;
    let status = match &fleet {
        Some(fleet) => {
            let worker = format!("kill {}", std::process::id());
            fleet
                .kill(&engine, &id, &worker, LEASE_TIME)?
                .status
                .as_str()
        }
        None => match engine.kill(&id)? {
            Killed::Ended(status) | Killed::Process(status) => status.as_str(),
            Killed::Asked => "cancelling",
        },
    };
    if context.json {
        out.json(&json!({"schema": "threadseal.thread.kill/1", "thread_id": id.as_str(), "status": status}));
    } else {
        out.line(format_args!("{status}  {}", Clean(id.as_str())));
    }
    Ok(Exit::Done)
}
