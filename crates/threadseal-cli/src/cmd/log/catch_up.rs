//! `log catch-up`: what a copy of the log has beyond it.

use super::existing;
use crate::context::Context;
use crate::exit::{Exit, Outcome};
use crate::output::Out;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// What `log catch-up` takes.
#[derive(Debug, Args)]
pub(crate) struct CatchUpArgs {
    /// The folder of the copy: the one with `journal` and `tile`
    #[arg(value_name = "DIR")]
    copy: PathBuf,
}

#[derive(Serialize)]
struct CatchUpOutput {
    schema: &'static str,
    came: u64,
    size: u64,
}

/// Takes it over, if it continues this log and the second place.
pub(super) fn run(args: &CatchUpArgs, context: &Context, out: &mut Out) -> Outcome {
    let log = existing(context)?;
    let came = log.catch_up(&args.copy)?;
    let size = log.view()?.tree().size;
    if context.json {
        out.json(&CatchUpOutput {
            schema: "threadseal.log.catch-up/1",
            came,
            size,
        });
    } else if !context.quiet {
        out.line(format_args!("{came} entries came; the log has {size}"));
    }
    Ok(Exit::Done)
}
