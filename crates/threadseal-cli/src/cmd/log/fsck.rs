//! `log fsck`: is every file of the log as its checkpoint says?

use super::existing;
use crate::context::{Context, object_storage_settings};
use crate::exit::{Exit, Outcome};
use crate::output::Out;
use crate::render::clean::Clean;
use crate::seal_log;
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
    #[serde(skip_serializing_if = "is_zero")]
    set_aside: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Reads all of it; exits 1 where something is wrong.
pub(super) fn run(args: &FsckArgs, context: &Context, out: &mut Out) -> Outcome {
    let log = existing(context)?;
    // What waited and was set aside is no part of the log, and no fault of it.
    let (checked, set_aside) = match &args.store {
        None => (log.fsck()?, log.set_aside()?.lines),
        Some(store) => {
            let store = objects::open(store, &object_storage_settings())?;
            (log.check_mirror(&*store)?, 0)
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
            set_aside,
        });
        return Ok(exit);
    }
    for fault in &checked.faults {
        out.line(Clean(fault));
    }
    if checked.more > 0 {
        out.line(format_args!("{} more", checked.more));
    }
    if set_aside > 0 {
        out.line(format_args!(
            "{}; see: threadseal log status",
            seal_log::set_aside_text(set_aside)
        ));
    }
    if checked.faults.is_empty() && !context.quiet {
        out.line(format_args!("clean: {} entries", checked.entries));
    }
    Ok(exit)
}
