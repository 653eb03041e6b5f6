//! `log fsck`: checks every file of the log against its checkpoint.

use super::existing;
use crate::context::{Context, object_storage_settings};
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::render::clean::Clean;
use crate::render::text::entries;
use crate::seal_log;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use threadseal_core::tlog::conflict::Conflict;
use threadseal_store::atomic::{self, PRIVATE_FILE};
use threadseal_store::objects;
use threadseal_store::sys::path_text;

/// What `log fsck` takes.
#[derive(Debug, Args)]
pub(crate) struct FsckArgs {
    /// Check a published copy instead: s3://…, gs://…, az://… or object+file:DIR
    #[arg(value_name = "STORE")]
    store: Option<String>,
    /// New file for the evidence against the log's key, if the published copy and the log diverge
    #[arg(long, value_name = "FILE", requires = "store")]
    evidence: Option<PathBuf>,
}

#[derive(Serialize)]
struct FsckOutput {
    schema: &'static str,
    entries: u64,
    faults: Vec<String>,
    more: u64,
    #[serde(skip_serializing_if = "is_zero")]
    set_aside: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Reads the whole log; exits 1 if it finds an error.
pub(super) fn run(args: &FsckArgs, context: &Context, out: &mut Out) -> Outcome {
    let log = existing(context)?;
    // Lines of the spool that were set aside are not part of the log, and no fault of it.
    let (checked, set_aside, conflict) = match &args.store {
        None => (log.fsck()?, log.set_aside()?.lines, None),
        Some(store) => {
            let store = objects::open(store, &object_storage_settings())?;
            let checked = log.check_mirror(&*store)?;
            let conflict = args.evidence.as_ref();
            let conflict = conflict.map(|_| log.conflict_with(&*store)).transpose()?;
            (checked, 0, conflict.flatten())
        }
    };
    let evidence = written(args.evidence.as_deref(), conflict, context)?;
    let exit = match checked.faults.is_empty() {
        true => Exit::Done,
        false => Exit::Evidence,
    };
    if context.json {
        let value = FsckOutput {
            schema: "threadseal.log.fsck/1",
            entries: checked.entries,
            faults: checked.faults,
            more: checked.more,
            set_aside,
            evidence,
        };
        out.json(&value);
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
            "{}; hint: threadseal log status",
            seal_log::set_aside_text(set_aside)
        ));
    }
    if checked.faults.is_empty() && !context.quiet {
        out.line(format_args!("clean: {}", entries(checked.entries)));
    }
    Ok(exit)
}

/// Writes the requested evidence, and returns its file if there is any evidence.
fn written(
    to: Option<&Path>,
    conflict: Option<Conflict>,
    context: &Context,
) -> Result<Option<String>, Failure> {
    let Some(to) = to else {
        return Ok(None);
    };
    let Some(conflict) = conflict else {
        complain(
            "note: no evidence was written: the log and the copy do not prove that two histories were signed",
        );
        return Ok(None);
    };
    atomic::create_new(
        &*context.fs,
        to,
        conflict.to_string().as_bytes(),
        PRIVATE_FILE,
    )?;
    let path = path_text(to);
    complain(&format!(
        "note: {} proves that the key of the log signed two histories; hint: check it with threadseal check-proof",
        Clean(&path)
    ));
    Ok(Some(path))
}
