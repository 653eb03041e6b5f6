//! The files that belong beside the transcript of a thread, and their contents.
//!
//! ```text
//! <thread_id>/transcript.jsonl ─ line 1: meta.capabilities_sha256 ─► capabilities.md has that digest
//!                              │                                     thread.json agrees with line 1
//!                              └ terminal event: ledger ───────────► ledger_<record>.jsonl ends with that record
//! ```
//! Each file may verify alone; only the record that names it shows that one was deleted or came from
//! elsewhere. The other way round, a natively sealed `thread.json` and a ledger in the folder of a thread tell that it
//! had a transcript: both are written after its line 1. A transcript outside of its thread's folder was copied out: nothing is missed there.
//! The neighbours themselves are verified as files of their own.

use super::context::{Context, shown};
use super::file_result::FileResult;
use super::ledger;
use crate::error::VerifyError;
use crate::inputs::Candidate;
use crate::layout::{CAPABILITIES_FILE, THREAD_FILE, THREADS, TRANSCRIPT_FILE};
use crate::limit::Limits;
use crate::request::RequestedProfile;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use threadseal_core::digest::Digest;
use threadseal_core::limits::MAX_DOCUMENT_BYTES;
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_core::report::{Finding, FindingCode, Format, Profile, Report, Verdict};
use threadseal_formats::ledger::RunId;
use threadseal_store::examine::first_line;
use threadseal_store::read::{RegularFile, Source as _, open_regular, read_small};

/// How far from the end of the sealed part its terminal event may begin: links to successors follow it.
const MAX_ENDING_BYTES: u64 = 4 << 20;

/// What line 1 and the terminal event of a thread's transcript name.
struct Named {
    thread: ThreadId,
    capabilities: Digest,
    manifest: Value,
    /// Its file, how many records, the hash of the last.
    ledger: Option<(String, u64, String)>,
}

/// A report for each neighbour of the transcript in `file` that is not there, or differs from the record.
///
/// # Errors
/// When a file cannot be read.
pub(super) fn beside(
    context: &Context,
    file: &RegularFile,
    report: &Report,
) -> Result<Vec<Report>, VerifyError> {
    let (Verdict::Verified | Verdict::UnsignedTail, Some(head)) = (report.verdict, report.head)
    else {
        return Ok(Vec::new());
    };
    let Some(named) = named(file, head.size)? else {
        return Ok(Vec::new());
    };
    let Some(folder) = file.path().parent() else {
        return Ok(Vec::new());
    };
    if !is_of_thread(file.path(), &named.thread) {
        return Ok(Vec::new());
    }
    let mut reports = Vec::new();
    for (name, fault) in [
        (CAPABILITIES_FILE, differs_capabilities as Differs),
        (THREAD_FILE, differs_metadata),
    ] {
        let path = folder.join(name);
        // A thread that is being made has its line 1, sealed, and then its thread.json; nothing else happens before.
        if name == THREAD_FILE && head.seq == 0 && !context.exists(&path) {
            continue;
        }
        let fault = if context.is_file(&path) {
            fault(
                &named,
                &read_small(&*context.host.fs, &path, MAX_DOCUMENT_BYTES)?,
            )
        } else {
            Some(Fault::Missing)
        };
        reports.extend(fault.map(|fault| told(context, &path, &head, &fault)));
    }
    if let Some((name, count, hash)) = &named.ledger {
        let path = folder.join(name);
        let fault = ledger_fault(context, &path, *count, hash)?;
        reports.extend(fault.map(|fault| told(context, &path, &head, &fault)));
    }
    Ok(reports)
}

/// The ledger beside the transcript in `file`, `covered` bytes of which are sealed, and the head that its terminal event names as its last.
///
/// # Errors
/// When the file cannot be read.
pub(super) fn ledger_end(
    file: &RegularFile,
    covered: u64,
) -> Result<Option<(PathBuf, Head)>, VerifyError> {
    let named = named(file, covered)?;
    let named = named.filter(|named| is_of_thread(file.path(), &named.thread));
    Ok(named.and_then(|named| {
        let (name, count, hash) = named.ledger?;
        let run = name.strip_prefix("ledger_")?.strip_suffix(".jsonl")?;
        let head = Head {
            record: RunId::parse(run).ok()?.record_id(),
            seq: count.checked_sub(1)?,
            size: count,
            line: Digest::parse_hex(&hash)?,
        };
        Some((file.path().with_file_name(name), head))
    }))
}

/// A report for each transcript of which only neighbours are left.
pub(super) fn left(
    context: &Context,
    candidates: &[Candidate],
    seen: &[FileResult],
) -> Vec<Report> {
    let mut told = BTreeMap::new();
    if context.request.profile == RequestedProfile::Observed {
        return Vec::new();
    }
    for (candidate, seen) in candidates.iter().zip(seen) {
        let Some(folder) = candidate.path.parent() else {
            continue;
        };
        let path = folder.join(TRANSCRIPT_FILE);
        // A link may lead to anything: a thread's record is in its folder.
        if candidate.named || context.is_walked(&path) {
            continue;
        }
        if let Some(fault) = left_by(context, &candidate.path, folder, seen.reports()) {
            told.entry(path).or_insert(fault);
        }
    }
    let report = |(path, (record, neighbour)): (PathBuf, (Option<RecordId>, String))| {
        let mut report = Report::begin(Format::Transcript, Profile::Native);
        report.path = shown(&path);
        report.trust = Some(context.request.trust.digest());
        report.record = record;
        let (code, text) = match record {
            Some(record) => (
                FindingCode::RecordMissing,
                format!("{neighbour} beside it belongs to record {record}, which is missing"),
            ),
            None => (
                FindingCode::CompanionMissing,
                format!("{neighbour} beside it belongs to a thread whose record is missing"),
            ),
        };
        report.downgrade(Verdict::Missing, Finding::error(code, text));
        report
    };
    told.into_iter().map(report).collect()
}

/// The record of which `path` is evidence, if it is, and the file name that shows it.
fn left_by(
    context: &Context,
    path: &Path,
    folder: &Path,
    reports: &[Report],
) -> Option<(Option<RecordId>, String)> {
    let name = path.file_name()?.to_str()?;
    if let Some(run) = name
        .strip_prefix("ledger_")
        .and_then(|rest| rest.strip_suffix(".jsonl"))
    {
        let record = RecordId::parse_hex(run)?;
        return is_folder_of_thread(context, folder).then(|| (Some(record), name.to_owned()));
    }
    let sealed = |report: &Report| report.profile == Profile::Native && report.head.is_some();
    if name != THREAD_FILE || !reports.iter().any(sealed) {
        return None;
    }
    let bytes = read_small(&*context.host.fs, path, MAX_DOCUMENT_BYTES).ok()?;
    let metadata: Value = serde_json::from_slice(&bytes).ok()?;
    let thread = ThreadId::parse(metadata["thread_id"].as_str()?).ok()?;
    folder
        .ends_with(thread.as_str())
        .then(|| (None, name.to_owned()))
}

/// A ledger that was copied out alone misses nothing.
fn is_folder_of_thread(context: &Context, folder: &Path) -> bool {
    let beside = |name: &str| context.exists(&folder.join(name));
    beside(THREAD_FILE)
        || beside(CAPABILITIES_FILE)
        || folder.ancestors().any(|above| above.ends_with(THREADS))
}

/// What is wrong with a neighbour.
enum Fault {
    Missing,
    Differs(&'static str),
}

type Differs = fn(&Named, &[u8]) -> Option<Fault>;

fn differs_capabilities(named: &Named, bytes: &[u8]) -> Option<Fault> {
    (Digest::of(bytes) != named.capabilities)
        .then_some(Fault::Differs("its digest differs from the one in line 1"))
}

fn differs_metadata(named: &Named, bytes: &[u8]) -> Option<Fault> {
    let Ok(metadata) = serde_json::from_slice::<Value>(bytes) else {
        return Some(Fault::Differs("it is not JSON"));
    };
    if metadata["thread_id"] != named.thread.as_str() {
        return Some(Fault::Differs("it belongs to another thread"));
    }
    let texts = ["directive", "capabilities"];
    let mut same = texts
        .iter()
        .all(|name| metadata[*name] == named.manifest[*name]);
    // One number may be spelled in two ways.
    let limits = |value: &Value| Limits::from_json(&value["limits"]).ok();
    same &= limits(&metadata).is_some_and(|found| Some(found) == limits(&named.manifest));
    (!same).then_some(Fault::Differs(
        "its directive, capabilities or limits differ from line 1",
    ))
}

fn ledger_fault(
    context: &Context,
    path: &Path,
    count: u64,
    hash: &str,
) -> Result<Option<Fault>, VerifyError> {
    if !context.is_file(path) {
        return Ok(Some(Fault::Missing));
    }
    let file = open_regular(&*context.host.fs, path)?;
    let tip = ledger::ledger_file(context, &file)?.tip;
    let same = tip.is_some_and(|tip| tip.count == count && tip.hash.to_hex() == hash);
    Ok((!same).then_some(Fault::Differs(
        "it does not end with the record that the transcript's last event names",
    )))
}

/// Is it the transcript of its thread's folder? Thread ids have several parts.
fn is_of_thread(path: &Path, thread: &ThreadId) -> bool {
    path.file_name().is_some_and(|name| name == TRANSCRIPT_FILE)
        && path
            .parent()
            .is_some_and(|folder| folder.ends_with(thread.as_str()))
}

/// What the record names; None where no runtime wrote it.
fn named(file: &RegularFile, covered: u64) -> Result<Option<Named>, VerifyError> {
    let Some(line) = first_line(file)? else {
        return Ok(None);
    };
    let Ok(line) = serde_json::from_slice::<Value>(&line) else {
        return Ok(None);
    };
    let manifest = &line["payload"];
    let capabilities = manifest["meta"]["capabilities_sha256"]
        .as_str()
        .and_then(Digest::parse_hex);
    let thread = line["thread_id"].as_str().map(ThreadId::parse);
    let (Some(capabilities), Some(Ok(thread))) = (capabilities, thread) else {
        return Ok(None);
    };
    Ok(Some(Named {
        thread,
        capabilities,
        manifest: manifest.clone(),
        ledger: ledger_of(file, covered)?,
    }))
}

/// The ledger that the terminal event names, which ends within the last [`MAX_ENDING_BYTES`] that are sealed.
fn ledger_of(
    file: &RegularFile,
    covered: u64,
) -> Result<Option<(String, u64, String)>, VerifyError> {
    let start = covered.saturating_sub(MAX_ENDING_BYTES);
    let (mut chunks, mut buffer, mut ending) = (file.range(start, covered), Vec::new(), Vec::new());
    loop {
        chunks.next_chunk(&mut buffer)?;
        if buffer.is_empty() {
            break;
        }
        ending.extend_from_slice(&buffer);
    }
    let lines = ending.rsplit(|byte| *byte == b'\n');
    let events = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    for event in events {
        let ledger = &event["payload"]["ledger"];
        let is_end = event["event_type"]
            .as_str()
            .is_some_and(|kind| kind.starts_with("thread_"));
        if let (true, Some(run), Some(count), Some(hash)) = (
            is_end,
            ledger["run_id"].as_str(),
            ledger["count"].as_u64(),
            ledger["head"].as_str(),
        ) {
            return Ok(Some((
                format!("ledger_{run}.jsonl"),
                count,
                hash.to_owned(),
            )));
        }
    }
    Ok(None)
}

fn told(context: &Context, path: &Path, head: &Head, fault: &Fault) -> Report {
    let format = if path.extension().is_some_and(|ending| ending == "md") {
        Format::Text
    } else if path.extension().is_some_and(|ending| ending == "jsonl") {
        Format::Ledger
    } else {
        Format::Json
    };
    let mut report = Report::begin(format, Profile::Native);
    report.path = shown(path);
    report.trust = Some(context.request.trust.digest());
    let record = head.record;
    match fault {
        Fault::Missing => report.downgrade(
            Verdict::Missing,
            Finding::error(
                FindingCode::CompanionMissing,
                format!("record {record} beside it names it, but it is missing"),
            ),
        ),
        Fault::Differs(why) => report.downgrade(
            Verdict::Tampered,
            Finding::error(
                FindingCode::CompanionDiffers,
                format!("it is not the file that record {record} beside it names: {why}"),
            ),
        ),
    }
    report
}
