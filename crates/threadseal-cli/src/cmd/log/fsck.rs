//! `log fsck`: is every file of the log as its checkpoint says?

use super::existing;
use crate::context::{Context, object_storage_settings};
use crate::exit::{Exit, Outcome};
use crate::output::Out;
use crate::render::clean::Clean;
use clap::Args;
use serde::Serialize;
use threadseal_store::objects;

/// What `log fsck` takes.
#[derive(Debug, Args)]
pub(crate) struct FsckArgs {
    /// A published copy instead: s3://…, gs://…, az://… or object+file:DIR
    #[arg(value_name = "STORE")]
    store: Option<String>,
}

#[derive(Serialize)]
struct FsckOutput {
    schema: &'static str,
    entries: u64,
    faults: Vec<String>,
    more: u64,
}

/// Reads all of it; exits 1 where something is wrong.
pub(super) fn run(args: &FsckArgs, context: &Context, out: &mut Out) -> Outcome {
    let log = existing(context)?;
    let checked = match &args.store {
        None => log.fsck()?,
        Some(store) => {
            let store = objects::open(store, &object_storage_settings())?;
            log.check_mirror(&*store)?
        }
    };
    let exit = match checked.faults.is_empty() {
        true => Exit::Done,
        false => Exit::Evidence,
    };
    if context.json {
        out.json(&FsckOutput {
            schema: "threadseal.log.fsck/1",
            entries: checked.entries,
            faults: checked.faults,
            more: checked.more,
        });
        return Ok(exit);
    }
    for fault in &checked.faults {
        out.line(Clean(fault));
    }
    if checked.more > 0 {
        out.line(format_args!("{} more", checked.more));
    }
    if checked.faults.is_empty() && !context.quiet {
        out.line(format_args!("clean: {} entries", checked.entries));
    }
    Ok(exit)
}
