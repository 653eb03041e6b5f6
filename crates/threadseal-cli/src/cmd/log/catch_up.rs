//! `log catch-up`: imports missing entries from a newer copy of the log.

use super::existing;
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use crate::render::text::entries;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// What `log catch-up` takes.
#[derive(Debug, Args)]
pub(crate) struct CatchUpArgs {
    /// Folder of the copy, which contains `journal` and `tile`
    #[arg(value_name = "DIR")]
    copy: PathBuf,
}

#[derive(Serialize)]
struct CatchUpOutput {
    schema: &'static str,
    came: u64,
    size: u64,
}

/// Imports the entries if the copy continues this log and the second place.
pub(super) fn run(args: &CatchUpArgs, context: &Context, out: &mut Out) -> Outcome {
    let log = existing(context)?;
    // A published log has no journal, from which a home could continue.
    if !args.copy.join("journal").exists() {
        let text = "no journal; hint: name the log's folder in a copy of a home (log/ID below it); to check a published copy: \
                    threadseal log fsck STORE";
        return Err(Failure::new(text).about(&args.copy));
    }
    let came = log.catch_up(&args.copy)?;
    let size = log.view()?.tree().size;
    if context.json {
        let value = CatchUpOutput {
            schema: "threadseal.log.catch-up/1",
            came,
            size,
        };
        out.json(&value);
    } else if came == 0 && !context.quiet {
        out.line(format_args!(
            "nothing to import: the log has {}",
            entries(size)
        ));
    } else if !context.quiet {
        out.line(format_args!(
            "{} imported; the log has {size}",
            entries(came)
        ));
    }
    Ok(Exit::Done)
}
