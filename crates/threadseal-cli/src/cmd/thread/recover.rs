//! `thread recover`: ends a thread whose process is gone, and records why.

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

/// What `thread recover` takes.
#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {
    /// The thread
    #[arg(value_name = "THREAD")]
    thread: String,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    hold: HoldArgs,
}

/// Recovers the thread, and lists the calls whose outcome is unknown.
pub(super) fn run(args: &RecoverArgs, context: &Context, out: &mut Out) -> Outcome {
    let id = ThreadId::parse(&args.thread)?;
    let fleet = args.database.open(context)?;
    let engine = holding(&args.hold, context, fleet.as_ref())?;
    let recovered = match &fleet {
        Some(fleet) => {
            let worker = format!("recover {}", std::process::id());
            fleet.recover(&engine, &id, &worker, LEASE_TIME)?
        }
        None => engine.recover(&id)?,
    };
    let tail = recovered
        .tail
        .as_ref()
        .map(|path| path.display().to_string());
    if context.json {
        out.json(&json!({"schema": "threadseal.thread.recover/1", "thread_id": id.as_str(),
                         "status": recovered.status.as_str(),
                         "head": recovered.head.map(|head| head.to_string()), "unresolved": recovered.unresolved, "tail": tail}));
        return Ok(Exit::Done);
    }
    out.line(format_args!(
        "{}  {}",
        recovered.status.as_str(),
        Clean(id.as_str())
    ));
    for call in &recovered.unresolved {
        let text = |name: &str| call[name].as_str().unwrap_or("-").to_owned();
        out.line(format_args!(
            "unresolved  {}  {}",
            Clean(&text("item_id")),
            Clean(&text("idempotency_key"))
        ));
    }
    if let Some(tail) = tail {
        out.line(format_args!("set aside  {}", Clean(&tail)));
    }
    Ok(Exit::Done)
}
