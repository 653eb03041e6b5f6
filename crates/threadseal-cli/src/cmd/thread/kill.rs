//! `thread kill`: ends the process that writes a thread's record.

use crate::context::Context;
use crate::engine::{EngineArgs, engine};
use crate::exit::{Exit, Outcome};
use crate::output::Out;
use crate::render::clean::Clean;
use clap::Args;
use serde_json::json;
use threadseal::record::ThreadId;
use threadseal_runtime::runner::Killed;

/// What `thread kill` takes.
#[derive(Debug, Args)]
pub(crate) struct KillArgs {
    /// The thread
    #[arg(value_name = "THREAD")]
    thread: String,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Ends it; its threads are recovered.
pub(super) fn run(args: &KillArgs, context: &Context, out: &mut Out) -> Outcome {
    let id = ThreadId::parse(&args.thread)?;
    let status = match engine(&args.engine, context)?.kill(&id)? {
        Killed::Ended(status) | Killed::Process(status) => status.as_str(),
        Killed::Asked => "cancelling",
    };
    if context.json {
        out.json(&json!({"schema": "threadseal.thread-kill/1", "thread_id": id.as_str(), "status": status}));
    } else {
        out.line(format_args!("{status}  {}", Clean(id.as_str())));
    }
    Ok(Exit::Done)
}
