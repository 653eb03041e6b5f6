//! `thread cancel`: a signed request, which whoever runs the thread looks for.

use crate::context::Context;
use crate::engine::{EngineArgs, engine};
use crate::exit::{Exit, Outcome};
use crate::output::Out;
use crate::render::clean::Clean;
use clap::Args;
use serde_json::json;
use threadseal::record::ThreadId;

/// What `thread cancel` takes.
#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// The thread
    #[arg(value_name = "THREAD")]
    thread: String,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Asks; `thread wait` tells when it has ended.
pub(super) fn run(args: &CancelArgs, context: &Context, out: &mut Out) -> Outcome {
    let id = ThreadId::parse(&args.thread)?;
    engine(&args.engine, context)?.request_cancel(&id)?;
    if context.json {
        out.json(&json!({"schema": "threadseal.thread-cancel/1", "thread_id": id.as_str(), "cancelled": true}));
    } else {
        out.line(format_args!("cancelling  {}", Clean(id.as_str())));
    }
    Ok(Exit::Done)
}
