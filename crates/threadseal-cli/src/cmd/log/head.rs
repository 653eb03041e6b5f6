//! `log head`: the signed checkpoint, as C2SP tlog-checkpoint has it.

use super::existing;
use crate::context::Context;
use crate::exit::{Exit, Outcome};
use crate::output::Out;
use clap::Args;

/// What `log head` takes.
#[derive(Debug, Args)]
pub(crate) struct HeadArgs {
    /// Also write tiles and checkpoint, for programs that read the log's files
    #[arg(long)]
    write: bool,
}

/// Prints the note.
pub(super) fn run(args: &HeadArgs, context: &Context, out: &mut Out) -> Outcome {
    let log = existing(context)?;
    if args.write {
        log.fold()?;
    }
    out.bytes(log.view()?.checkpoint().to_string().as_bytes());
    Ok(Exit::Done)
}
