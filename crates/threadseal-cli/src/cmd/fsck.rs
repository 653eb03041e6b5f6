//! `fsck`: checks the stored ledgers and transcripts, and repairs torn ones where possible.

use super::ledger::place;
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use crate::record;
use crate::render::clean::Clean;
use crate::render::text::counted;
use crate::verifying;
use clap::Args;
use serde::Serialize;
use std::collections::BTreeSet;
use threadseal_core::record::{RecordId, RecordKind};
use threadseal_core::report::Report;
use threadseal_core::trust::Trust;
use threadseal_formats::ledger::{RunId, record_in_place};
use threadseal_store::address::{self, Intent};
use threadseal_store::examine::{first_line, native_record};
use threadseal_store::fsck::Fault;
use threadseal_store::ledger::{FsckReport, LedgerStore};
use threadseal_store::read::RegularFile;
use threadseal_store::transcripts;

/// What `fsck` takes.
#[derive(Debug, Args)]
pub(crate) struct FsckArgs {
    /// A folder of ledgers, file:DIR, sqlite:FILE, postgres://… or s3://…; STORE#NAME for a
    /// transcript
    #[arg(value_name = "STORE")]
    store: String,
    /// The run [default: all; in object storage also all transcripts]
    #[arg(long, value_name = "ID", value_parser = RunId::parse)]
    run: Option<RunId>,
    /// Repair provably torn writes; change nothing else
    #[arg(long)]
    repair: bool,
}

#[derive(Serialize)]
struct FsckOutput {
    schema: &'static str,
    runs: Vec<RunOutput>,
    transcripts: Vec<TranscriptOutput>,
}

#[derive(Serialize)]
struct RunOutput {
    run: String,
    records: u64,
    clean: bool,
    faults: Vec<FaultOutput>,
    more: u64,
}

#[derive(Serialize)]
struct TranscriptOutput {
    name: String,
    bytes: u64,
    clean: bool,
    faults: Vec<FaultOutput>,
    more: u64,
}

#[derive(Serialize)]
struct FaultOutput {
    code: &'static str,
    at: Option<u64>,
    message: String,
    repaired: bool,
}

/// Checks each run and transcript, and what this home sealed in the store; exits 1 if an error
/// remains.
pub(crate) fn run(args: &FsckArgs, context: &Context, out: &mut Out) -> Outcome {
    let is_folder = address::folder_of(&args.store)?.is_some_and(|folder| folder.is_dir());
    let names_one = address::is_address(&args.store) && args.store.contains('#') && !is_folder;
    let Stored {
        runs,
        strays,
        records,
        gone,
    } = match names_one {
        true => Stored {
            records: transcripts(args)?,
            ..Stored::default()
        },
        false => all(args, context)?,
    };
    if runs.is_empty() && records.is_empty() && strays.is_empty() && gone.is_empty() {
        return Err(Failure::new("no run was found"));
    }
    let clean = strays.is_empty()
        && gone.is_empty()
        && runs.iter().all(FsckReport::is_clean)
        && records.iter().all(transcripts::FsckReport::is_clean);
    let exit = if clean { Exit::Done } else { Exit::Evidence };
    if context.json {
        out.json(&FsckOutput {
            schema: "threadseal.fsck/1",
            runs: runs
                .iter()
                .map(shown_run)
                .chain(strays.iter().map(|name| shown_stray(name)))
                .chain(gone.iter().map(shown_gone))
                .collect(),
            transcripts: records.iter().map(shown_transcript).collect(),
        });
        return Ok(exit);
    }
    for report in &runs {
        let what = counted(report.records, "record", "records");
        print(
            report.run.as_str(),
            &what,
            &report.faults,
            report.more,
            context,
            out,
        );
    }
    for name in &strays {
        print(name, "no run", &[bad_name()], 0, context, out);
    }
    for report in &gone {
        let name = report
            .record
            .map_or_else(String::new, |record| record.to_string());
        print(&name, "a record", &[missing(report)], 0, context, out);
    }
    for report in &records {
        let what = format!("{} bytes", report.bytes);
        print(
            report.name.as_str(),
            &what,
            &report.faults,
            report.more,
            context,
            out,
        );
    }
    Ok(exit)
}

/// The content of a store.
#[derive(Default)]
struct Stored {
    runs: Vec<FsckReport>,
    /// Names that fit no run.
    strays: Vec<String>,
    records: Vec<transcripts::FsckReport>,
    /// Records that this home sealed there, and that are not there.
    gone: Vec<Report>,
}

/// The most names without a run that are listed.
const MAX_STRAYS: usize = 64;

/// The ledgers of a store; object storage may also hold transcripts.
fn all(args: &FsckArgs, context: &Context) -> Result<Stored, Failure> {
    // A check must not create a store that does not exist.
    let there = place::readable(&args.store, context)?;
    let strays = there.store()?.strays(MAX_STRAYS)?;
    let (runs, strays) = match &args.run {
        Some(run) => (vec![run.clone()], Vec::new()),
        None => (there.runs()?, strays),
    };
    let gone = match &args.run {
        Some(_) => Vec::new(),
        None => gone(there.store()?, &runs, args, context)?,
    };
    drop(there);
    let store = place::writable(&args.store, context)?;
    let records = match args.run.is_none() && address::is_object_storage(&args.store) {
        true => transcripts(args)?,
        false => Vec::new(),
    };
    Ok(Stored {
        runs: store.fsck_runs(&runs, args.repair)?,
        strays,
        records,
        gone,
    })
}

/// Reports of the records that this home sealed in the store, and that are not there.
fn gone(
    store: &dyn LedgerStore,
    runs: &[RunId],
    args: &FsckArgs,
    context: &Context,
) -> Result<Vec<Report>, Failure> {
    let Some(own) = store.place() else {
        return Ok(Vec::new());
    };
    let verifier = verifying::verifier_by(Trust::default(), context)?;
    let mut here = BTreeSet::new();
    for run in runs {
        let record = run.record_id();
        here.extend([record, record_in_place(&record, &own)]);
    }
    let gone_from = |kind, here: &BTreeSet<RecordId>| {
        verifier.gone_from(kind, &args.store, Some(own.as_str()), here)
    };
    let mut gone = gone_from(RecordKind::Ledger, &here)?;
    if address::is_object_storage(&args.store) {
        let (store, _) = record::store(&args.store, Intent::Read)?;
        let mut here = BTreeSet::new();
        for name in record::names(&*store)? {
            let file = store.read(&name)?;
            here.extend(file.map(|file| record_in(&file)).transpose()?.flatten());
        }
        gone.extend(gone_from(RecordKind::Transcript, &here)?);
    }
    Ok(gone)
}

/// The record that the first line of a transcript names.
fn record_in(file: &RegularFile) -> Result<Option<RecordId>, Failure> {
    let line = first_line(file)?;
    Ok(line.as_deref().and_then(native_record))
}

fn missing(report: &Report) -> Fault {
    let message = report.findings.first().map(|found| found.message.clone());
    Fault {
        code: "missing",
        at: None,
        message: message.unwrap_or_default(),
        repaired: false,
    }
}

fn shown_gone(report: &Report) -> RunOutput {
    RunOutput {
        run: report
            .record
            .map_or_else(String::new, |record| record.to_string()),
        records: 0,
        clean: false,
        faults: shown(&[missing(report)]),
        more: 0,
    }
}

fn bad_name() -> Fault {
    Fault {
        code: "bad_name",
        at: None,
        message: "an object is stored under a name that is not a run id".into(),
        repaired: false,
    }
}

fn shown_stray(name: &str) -> RunOutput {
    RunOutput {
        run: name.to_owned(),
        records: 0,
        clean: false,
        faults: shown(&[bad_name()]),
        more: 0,
    }
}

fn transcripts(args: &FsckArgs) -> Result<Vec<transcripts::FsckReport>, Failure> {
    let (store, name) = record::store(&args.store, Intent::Read)?;
    let names = match name {
        Some(name) => vec![name],
        None => record::names(&*store)?,
    };
    let mut reports = Vec::new();
    for name in &names {
        reports.push(store.fsck(name, args.repair)?);
    }
    Ok(reports)
}

fn shown_run(report: &FsckReport) -> RunOutput {
    RunOutput {
        run: report.run.to_string(),
        records: report.records,
        clean: report.is_clean(),
        faults: shown(&report.faults),
        more: report.more,
    }
}

fn shown_transcript(report: &transcripts::FsckReport) -> TranscriptOutput {
    TranscriptOutput {
        name: report.name.to_string(),
        bytes: report.bytes,
        clean: report.is_clean(),
        faults: shown(&report.faults),
        more: report.more,
    }
}

fn shown(faults: &[Fault]) -> Vec<FaultOutput> {
    let faults = faults.iter().map(|fault| FaultOutput {
        code: fault.code,
        at: fault.at,
        message: fault.message.clone(),
        repaired: fault.repaired,
    });
    faults.collect()
}

fn print(name: &str, what: &str, faults: &[Fault], more: u64, context: &Context, out: &mut Out) {
    let name = Clean(name);
    if faults.is_empty() && more == 0 {
        if !context.quiet {
            out.line(format!("{name}  {what}, nothing wrong"));
        }
        return;
    }
    out.line(format!("{name}  {what}"));
    for fault in faults {
        let at = fault.at.map_or(String::new(), |at| format!(" at {at}"));
        let done = if fault.repaired { "  (mended)" } else { "" };
        out.line(format!(
            "  {}{at}: {}{done}",
            fault.code,
            Clean(&fault.message)
        ));
    }
    if more > 0 {
        out.line(format!("  and {more} more"));
    }
}
