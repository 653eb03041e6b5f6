//! `log head`: prints the signed checkpoint in the format of C2SP tlog-checkpoint.

use super::existing;
use crate::context::Context;
use crate::exit::{Exit, Outcome};
use crate::output::Out;
use clap::Args;
use serde::Serialize;
use threadseal_core::encoding::base64;

/// What `log head` takes.
#[derive(Debug, Args)]
pub(crate) struct HeadArgs {
    /// Also write tiles and checkpoint, for programs that read the log's files
    #[arg(long)]
    write: bool,
}

#[derive(Serialize)]
struct HeadOutput {
    schema: &'static str,
    origin: String,
    size: u64,
    root: String,
    /// The unchanged signed note.
    checkpoint: String,
    /// Were tiles and checkpoint written?
    written: bool,
}

pub(super) fn run(args: &HeadArgs, context: &Context, out: &mut Out) -> Outcome {
    let log = existing(context)?;
    if args.write {
        log.fold()?;
    }
    let view = log.view()?;
    let checkpoint = view.checkpoint().to_string();
    if context.json {
        let value = HeadOutput {
            schema: "threadseal.log.head/1",
            origin: log.description().id.origin(),
            size: view.tree().size,
            root: base64(view.tree().root.as_bytes()),
            checkpoint,
            written: args.write,
        };
        out.json(&value);
    } else {
        out.bytes(checkpoint.as_bytes());
    }
    Ok(Exit::Done)
}
