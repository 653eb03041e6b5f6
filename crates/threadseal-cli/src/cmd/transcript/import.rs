//! `transcript import`: copies a native record into a store, byte for byte.
//!
//! ```text
//! file ─► verify it whole ─► store, if the name is free
//! ```
//! It refuses a record with evidence against it.

use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use crate::record;
use crate::verifying;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use threadseal_core::report::{Report, Verdict};
use threadseal_store::address::Intent;
use threadseal_store::read::{RegularFile, Stability};
use threadseal_store::transcripts::RecordName;
use threadseal_store::{bodies, examine};
use threadseal_verify::detect::{self, Kind};

/// What `transcript import` takes.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// A native transcript, or STORE#NAME
    #[arg(value_name = "TRANSCRIPT")]
    from: PathBuf,
    /// The store, or STORE#NAME [default name: the file's name without .jsonl]
    #[arg(value_name = "STORE")]
    to: String,
}

#[derive(Serialize)]
struct ImportOutput {
    schema: &'static str,
    name: String,
    bytes: u64,
    verdict: Verdict,
    head: Option<String>,
}

/// Verifies, then writes.
pub(super) fn run(args: &ImportArgs, context: &Context, out: &mut Out) -> Outcome {
    let (file, report) = whole(&args.from, context)?;
    if bodies::is_detached(&examine::first_line(&file)?.unwrap_or_default()) {
        let text =
            "the bodies are detached, and the store would receive the transcript without them";
        return Err(Failure::new(text).about(&args.from));
    }
    let (store, name) = record::store(&args.to, Intent::Write)?;
    let name = match name {
        Some(name) => name,
        None => name_of(&args.from)?,
    };
    store.import(&name, &mut file.chunks())?;
    if file.stability()? == Stability::Changed {
        let text = "the file changed during the import; verify the record in the store";
        return Err(Failure::new(text).about(&args.from));
    }
    let head = report.head.map(|head| head.to_string());
    if context.json {
        out.json(&ImportOutput {
            schema: "threadseal.transcript.import/1",
            name: name.to_string(),
            bytes: file.size(),
            verdict: report.verdict,
            head,
        });
    } else if !context.quiet {
        out.line(head.unwrap_or_default());
    }
    Ok(Exit::Done)
}

/// Reads a native record, and refuses one with evidence against it.
///
/// # Errors
/// When it cannot be read, is no native record, or is refused.
pub(super) fn whole(path: &Path, context: &Context) -> Result<(RegularFile, Report), Failure> {
    let verifier = verifying::verifier_of_home(context)?;
    if detect::kind(&record::open(&*context.fs, path)?)? != Some(Kind::Native) {
        return Err(Failure::new("not a native transcript").about(path));
    }
    let taken = verifier.open_transcript(path)?;
    let (file, report) = (taken.file, taken.result.report);
    match report.verdict.exit_code() {
        1 => {
            let hint = "; hint: threadseal verify";
            Err(Failure::refused("the transcript", &report, hint).about(path))
        }
        _ => Ok((file, report)),
    }
}

fn name_of(path: &Path) -> Result<RecordName, Failure> {
    if let Some(address) = record::address_of(path) {
        return Ok(record::one(address, Intent::Read)?.1);
    }
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.unwrap_or_default();
    Ok(RecordName::parse(
        name.strip_suffix(".jsonl").unwrap_or(name),
    )?)
}
