//! `transcript export`: writes the bytes of a record from its store, or the record as a log for
//! other tools.
//!
//! ```text
//! threadseal transcript export s3://…#demo/greet-1 --out greet.jsonl
//! threadseal transcript export greet.jsonl --redact --turn 2 ─► a copy without the texts of turn 2
//! threadseal transcript export greet.jsonl --as-log DIR ─► C2SP tlog-tiles: DIR/checkpoint, …
//! ```

use crate::context::Context;
use crate::escaped_search::{says, staying};
use crate::events::Event;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::render::clean::Clean;
use crate::render::json::VerifyOutput;
use crate::render::text::counted;
use crate::verifying;
use clap::Args;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::slice;
use threadseal_core::encoding::base64;
use threadseal_core::report::{CheckResult, Report};
use threadseal_formats::transcript::VerifyOptions;
use threadseal_formats::transcript::as_log::RecordLog;
use threadseal_formats::transcript::copy;
use threadseal_formats::transcript::event::RESERVED;
use threadseal_store::atomic::{self, NewFile, PRIVATE_FILE};
use threadseal_store::read::{RegularFile, Source as _, Stability};
use threadseal_store::sys::path_text;
use threadseal_store::{bodies, examine};
use threadseal_verify::Need;
use threadseal_verify::trust_locality::Locality;
use threadseal_verify::verifier::MAX_TAKEN_UP_BYTES;

/// What `transcript export` takes.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// STORE#NAME, or a file
    #[arg(value_name = "TRANSCRIPT")]
    from: PathBuf,
    /// New file to write [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Verify the record and write it into a new folder as a C2SP tlog-tiles log: its lines are the
    /// entries, its last seal is the checkpoint
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    as_log: Option<PathBuf>,
    /// Verify the record and write a copy with lines left out, each represented by its leaf hash;
    /// `check-proof` verifies the copy
    #[arg(long, conflicts_with = "as_log", requires = "leave_out")]
    redact: bool,
    #[command(flatten)]
    leave_out: LeaveOut,
}

/// What a copy leaves out; seals and the recorder's own lines stay.
#[derive(Debug, Args)]
#[group(id = "leave_out", multiple = true)]
struct LeaveOut {
    /// Leave out this line; repeatable
    #[arg(long = "line", value_name = "N", requires = "redact")]
    lines: Vec<u64>,
    /// Leave out the events of this turn, from 1; repeatable
    #[arg(long = "turn", value_name = "N", requires = "redact")]
    turns: Vec<u64>,
    /// Leave out events whose texts contain this; repeatable
    #[arg(long = "match", value_name = "TEXT", requires = "redact")]
    texts: Vec<String>,
}

#[derive(Serialize)]
struct LogOutput<'a> {
    schema: &'static str,
    /// The report on the record; only a verified one becomes a log.
    result: &'a Report,
    origin: Option<String>,
    vkey: Option<String>,
    size: Option<u64>,
    root: Option<String>,
}

#[derive(Serialize)]
struct CopyOutput<'a> {
    schema: &'static str,
    /// The report on the record; only a verified one is copied.
    result: &'a Report,
    /// The copy, if there is one.
    path: Option<String>,
    left_out: u64,
    /// Names of the checks of the record that the copy does not allow.
    skipped: Vec<&'a str>,
}

/// Writes the bytes of a record against which there is no evidence. The copy is the same record:
/// `verify` judges it further.
pub(super) fn run(args: &ExportArgs, context: &Context, out: &mut Out) -> Outcome {
    if let Some(folder) = &args.as_log {
        return as_log(&args.from, folder, context, out);
    }
    if args.redact {
        return redacted(args, context, out);
    }
    let verifier = verifying::verifier_of_home(context)?;
    let opened = verifier.open_transcript(&args.from)?;
    let report = &opened.result.report;
    if report.verdict.is_evidence() {
        let exit = Exit::from_code(report.verdict.exit_code());
        out.because(report);
        if context.json {
            out.json_line(&VerifyOutput::new(
                slice::from_ref(report),
                &[],
                0,
                exit.code(),
            ));
        }
        refuse(report, "nothing was written");
        return Ok(exit);
    }
    let file = opened.file;
    bodies_first(args, &file, context)?;
    let mut to = match &args.out {
        Some(path) => Some(NewFile::begin(&*context.fs, path, PRIVATE_FILE)?),
        None => None,
    };
    let (mut chunks, mut chunk) = (file.chunks(), Vec::new());
    loop {
        chunks.next_chunk(&mut chunk)?;
        if chunk.is_empty() {
            break;
        }
        match &mut to {
            Some(to) => to.write(&chunk)?,
            None => out.bytes(&chunk),
        }
    }
    if file.stability()? == Stability::Changed {
        let text = "the record changed while it was written; hint: export it again";
        return Err(Failure::new(text).about(&args.from));
    }
    if let Some(to) = to {
        to.commit_new()?;
    }
    Ok(Exit::Done)
}

/// Writes the detached bodies first: without them the copy would look like a record that lost them.
fn bodies_first(args: &ExportArgs, file: &RegularFile, context: &Context) -> Result<(), Failure> {
    let first = examine::first_line(file)?.unwrap_or_default();
    if !bodies::is_detached(&first) {
        return Ok(());
    }
    let to = args.out.as_deref().ok_or_else(|| {
        let text =
            "the bodies are detached; hint: add --out FILE, and the bodies are written beside it";
        Failure::new(text).about(file.path())
    })?;
    if to.exists() {
        return Err(Failure::new("the file exists already").about(to));
    }
    let text = bodies::text_for_copy(&*context.fs, file, MAX_TAKEN_UP_BYTES)?;
    if !text.is_empty() {
        atomic::create_new(&*context.fs, &bodies::place_of(to), &text, PRIVATE_FILE)?;
    }
    Ok(())
}

/// Reports that the record is not verified; `what` states which result needs a
/// verified one.
fn refuse(report: &Report, what: &str) {
    complain(&format!(
        "{} is {}: {what}; hint: threadseal verify",
        report.path, report.verdict
    ));
}

/// Writes a copy of a verified record, without the selected lines; nothing if the record is not
/// verified.
fn redacted(args: &ExportArgs, context: &Context, out: &mut Out) -> Outcome {
    if context.json && args.out.is_none() {
        let text = "a copy is not JSON; hint: add --out, or remove --json";
        return Err(Failure::new(text));
    }
    let opened = verifying::open(&args.from, Need::Whole, context)?;
    let report = match &opened {
        Ok(record) => record.report(),
        Err(report) => report,
    };
    let exit = Exit::from_code(report.verdict.exit_code());
    out.because(report);
    let mut output = CopyOutput {
        schema: "threadseal.transcript.copy/1",
        result: report,
        path: None,
        left_out: 0,
        skipped: Vec::new(),
    };
    let Ok(record) = &opened else {
        if context.json {
            out.json(&output);
        }
        refuse(
            report,
            "only a verified record can be copied with lines left out",
        );
        return Ok(exit);
    };
    let bytes = record.bytes();
    let (leave, own) = left_out(&args.leave_out, bytes);
    if !own.is_empty() && !context.quiet {
        complain(&format!(
            "note: {}",
            staying("the recorder's own lines", &own)
        ));
    }
    let copied = copy::make(record.verified(), bytes, &|number, _| {
        leave.contains(&number)
    })?;
    let Some(path) = &args.out else {
        out.bytes(&copied);
        return Ok(exit);
    };
    atomic::create_new(&*context.fs, path, &copied, PRIVATE_FILE)?;
    let trust = verifying::gather(&[], &[], &Locality::to(&[], false, &context.fs), context)?;
    let options = VerifyOptions {
        trust: &trust,
        now: context.now()?,
        held_since: None,
        thread: None,
    };
    let checked = copy::check(&copied, &options);
    let skipped = checked.report.checks.iter();
    let skipped = skipped.filter(|check| check.result == CheckResult::Skipped);
    output.path = Some(path_text(path));
    output.left_out = checked.left_out;
    output.skipped = skipped.map(|check| check.name.as_str()).collect();
    if context.json {
        out.json(&output);
    } else if !context.quiet {
        let path = path_text(path);
        let path = Clean(&path);
        let left_out = counted(output.left_out, "line", "lines");
        out.line(format_args!("{path}: {left_out} left out"));
        out.line(format_args!(
            "cannot be checked from the copy: {}",
            output.skipped.join(", ")
        ));
        out.line(format_args!("check: threadseal check-proof {path}"));
    }
    Ok(exit)
}

/// First, the numbers of the selected lines: by number, by turn, or by text, except for the
/// recorder's own. Then, the recorder's own lines that contain the texts.
fn left_out(chosen: &LeaveOut, record: &[u8]) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let mut leave: BTreeSet<u64> = chosen.lines.iter().copied().collect();
    let (mut own, mut turn) = (BTreeSet::new(), 0);
    let lines = record.split(|byte| *byte == b'\n');
    for (line, number) in lines.zip(1..) {
        let event = Event::alone(number, line);
        turn += u64::from(event.event_type == "cognition_in");
        let is_said = || {
            let mut texts = chosen.texts.iter();
            texts.any(|text| says(event.payload(), text))
        };
        if RESERVED.contains(&event.event_type.as_str()) {
            own.extend(is_said().then_some(number));
        } else if chosen.turns.contains(&turn) || is_said() {
            leave.insert(number);
        }
    }
    (leave, own)
}

/// Writes a verified record as a log; nothing if the record is not verified.
fn as_log(path: &Path, folder: &Path, context: &Context, out: &mut Out) -> Outcome {
    let opened = verifying::open(path, Need::Whole, context)?;
    let report = match &opened {
        Ok(record) => record.report(),
        Err(report) => report,
    };
    let exit = Exit::from_code(report.verdict.exit_code());
    out.because(report);
    let mut output = LogOutput {
        schema: "threadseal.transcript.as-log/1",
        result: report,
        origin: None,
        vkey: None,
        size: None,
        root: None,
    };
    let Ok(record) = &opened else {
        if context.json {
            out.json(&output);
        }
        refuse(report, "only a verified record can be written as a log");
        return Ok(exit);
    };
    let log = RecordLog::open(record.verified(), record.bytes())
        .map_err(|e| Failure::from(e).about(path))?;
    threadseal_log::write_record_log(&context.fs, folder, &log)?;
    let tree = log.tree();
    let (origin, vkey) = (log.key().name().to_string(), log.key().to_string());
    if context.json {
        output.origin = Some(origin);
        output.vkey = Some(vkey);
        output.size = Some(tree.size);
        output.root = Some(base64(tree.root.as_bytes()));
        out.json(&output);
    } else if !context.quiet {
        out.line(format_args!("key      {vkey}"));
        out.line(format_args!("entries  {}", tree.size));
    }
    Ok(Exit::Done)
}
