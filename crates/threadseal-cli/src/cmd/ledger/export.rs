//! `ledger export`: writes a run as lines, or with the runs below it as a history bundle.
//!
//! It copies the stored bytes, unless there is evidence against them. With `--verified`, which suits
//! programs that read a ledger, it writes only what verifies.

use super::place::{self, Place};
use super::vouched::{self, Vouched};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::render::json::VerifyOutput;
use clap::{Args, ValueEnum};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::slice;
use threadseal_core::canon::json::{self, Value};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::{MAX_BUNDLE_RUNS, MAX_SOURCE_BYTES};
use threadseal_core::report::Report;
use threadseal_formats::ledger::{Records, RunId, RunState, write_bundle};
use threadseal_store::atomic::NewFile;
use threadseal_store::read::open_regular;

/// Mode of a new file: only its user may read the actions of an agent.
const EXPORT_MODE: u32 = 0o600;

/// What `ledger export` takes.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// A file of records, a bundle, an SQLite file, a folder, or file:DIR, sqlite:FILE, postgres://… or s3://…
    #[arg(value_name = "LEDGER")]
    ledger: String,
    /// The run [default: the only one]
    #[arg(long, value_name = "ID", value_parser = RunId::parse)]
    run: Option<RunId>,
    /// Format to write
    #[arg(long, value_enum, default_value = "jsonl")]
    to: FormArg,
    /// File with the run's state in AbstractRuntime's form, for the head of a bundle
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// New file to write [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write nothing unless the whole ledger verifies, by the home's trust and known heads
    #[arg(long)]
    verified: bool,
}

/// `--to`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormArg {
    /// One record in each line, as AbstractRuntime's file store reads it
    Jsonl,
    /// AbstractRuntime's run history bundle, version 1, with the run and all runs that it started
    Bundle,
}

/// Writes the records unchanged, or none at all.
pub(super) fn run(args: &ExportArgs, context: &Context, out: &mut Out) -> Outcome {
    let place = place::readable(&args.ledger, context)?;
    let run = place.one(args.run.as_ref())?;
    let runs = match args.to {
        FormArg::Jsonl => vec![run.clone()],
        FormArg::Bundle => descendants(&place, run.clone())?,
    };
    let records: Box<dyn Records> = if args.verified {
        match Vouched::read(&place, &args.ledger, &runs, context)? {
            Ok(vouched) => Box::new(vouched),
            Err(report) => return Ok(refused(&report, context, out)),
        }
    } else {
        if let Some(report) = vouched::evidence(&place, &args.ledger, &runs, context)? {
            return Ok(refused(&report, context, out));
        }
        Box::new(Of(&place))
    };
    let mut file = match &args.out {
        Some(path) => Some(NewFile::begin(&*context.fs, path, EXPORT_MODE)?),
        None => None,
    };
    let mut put = |bytes: &[u8]| match &mut file {
        Some(file) => file.write(bytes),
        None => {
            out.bytes(bytes);
            Ok(())
        }
    };
    match args.to {
        FormArg::Jsonl => records.each(&run, &mut |line| {
            put(line)?;
            put(b"\n")
        })?,
        FormArg::Bundle => {
            let state = state(args.state.as_deref(), &run, context)?;
            write_bundle(&runs, state.as_ref(), context.now()?, &*records, &mut put)?;
        }
    }
    if let Some(file) = file {
        file.commit_new()?;
    }
    Ok(Exit::Done)
}

/// Reports why nothing is written; the exit is the verdict's.
fn refused(report: &Report, context: &Context, out: &mut Out) -> Exit {
    let verdict = report.verdict;
    let exit = Exit::from_code(verdict.exit_code());
    if context.json {
        out.json_line(&VerifyOutput::new(
            slice::from_ref(report),
            &[],
            0,
            exit.code(),
        ));
    } else {
        complain(&format!(
            "{} is {verdict}: nothing was written; hint: threadseal ledger verify",
            report.path
        ));
    }
    exit
}

struct Of<'p>(&'p Place);

impl Records for Of<'_> {
    fn each(
        &self,
        run: &RunId,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.0.each(run, take)
    }
}

fn state(path: Option<&Path>, run: &RunId, context: &Context) -> Result<Option<RunState>, Failure> {
    let Some(path) = path else { return Ok(None) };
    let bytes = open_regular(&*context.fs, path)?.read_whole(MAX_SOURCE_BYTES)?;
    let about = |error: String| Failure::new(error).about(path);
    let document = json::parse_python(&bytes).map_err(|error| about(error.to_string()))?;
    let state = RunState::from_value(document.value).map_err(|error| about(error.to_string()))?;
    if state.run_id != *run {
        return Err(about(format!("this is the state of run {}", state.run_id)));
    }
    Ok(Some(state))
}

/// The run and all runs that its records, and theirs, claim to have started, each once.
fn descendants(place: &Place, root: RunId) -> Result<Vec<RunId>, Failure> {
    let here = place.runs()?;
    let runs = RefCell::new(vec![root]);
    let mut next = 0;
    loop {
        let Some(run) = runs.borrow().get(next).cloned() else {
            break;
        };
        next += 1;
        place.each(&run, &mut |line| {
            let Some(child) = started(line) else {
                return Ok(());
            };
            let mut runs = runs.borrow_mut();
            if here.contains(&child) && !runs.contains(&child) {
                if runs.len() == MAX_BUNDLE_RUNS {
                    let text = format!("more than {MAX_BUNDLE_RUNS} runs");
                    return Err(Error::new(ErrorKind::Limit, text));
                }
                runs.push(child);
            }
            Ok(())
        })?;
    }
    Ok(runs.into_inner())
}

/// The run that a record claims to have started.
fn started(line: &[u8]) -> Option<RunId> {
    memchr::memmem::find(line, b"sub_run_id")?;
    let record = json::parse_python(line).ok()?.value;
    let child = record.get("result")?.get("sub_run_id")?;
    RunId::parse(Value::as_str(child)?).ok()
}
