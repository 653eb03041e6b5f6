//! Children of threads: a parent's record seals the last seal of each child that ended.
//!
//! ```text
//! <threads>/<parent>/transcript.jsonl ─ child_thread_ended {child_thread_id, head}
//!     ─► <threads>/<child>/transcript.jsonl is that record, and has that seal
//! ```
//! A folder that is gone as a whole leaves no neighbour that could tell of it. What lies elsewhere than among the
//! threads of a project was copied out: nothing is missed there. A child of which no record seals the end may never
//! have begun.

use super::{Asked, Examiner, Seen, reports_of, shown, transcript};
use crate::exit::Failure;
use crate::walk::Candidate;
use indicatif::ProgressBar;
use rayon::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use threadseal::record::{ExpectedHead, Head, RecordId, ThreadId};
use threadseal::report::{Finding, Report, Verdict};
use threadseal_runtime::project::TRANSCRIPT_FILE;
use threadseal_store::examine::{first_line, native_record};
use threadseal_store::read::{RegularFile, Source as _, open_regular};

/// Where the threads of a project lie.
const THREADS: &str = ".ai/agent/threads";

/// The event that seals a child's end.
const ENDED: &str = "child_thread_ended";

/// In so many bytes of a line stands what kind of event it is.
const MAX_KIND_OFFSET: usize = 1024;

/// A child as its parent's record has it.
struct Child {
    path: PathBuf,
    head: Head,
    parent: RecordId,
}

/// A report for each child that is not what its parent's record seals.
///
/// # Errors
/// When a file cannot be read.
pub(super) fn missing(
    examiner: &Examiner,
    candidates: &[Candidate],
    seen: &[Seen],
) -> Result<Vec<Report>, Failure> {
    let here: BTreeMap<RecordId, Option<Head>> = seen
        .iter()
        .flat_map(reports_of)
        .filter(|report| report.format == "transcript")
        .filter_map(|report| Some((report.record?, report.head)))
        .collect();
    let pairs = candidates.par_iter().zip(seen.par_iter());
    let of_each = pairs.map(|(candidate, seen)| -> Result<Vec<Report>, Failure> {
        let children = children(examiner, candidate, reports_of(seen))?;
        let told = children.iter().map(|child| judge(examiner, child, &here));
        told.filter_map(Result::transpose).collect()
    });
    let told: Vec<Vec<Report>> = of_each.collect::<Result<_, Failure>>()?;
    Ok(told.into_iter().flatten().collect())
}

/// The children whose end the transcript `candidate` seals.
fn children(
    examiner: &Examiner,
    candidate: &Candidate,
    reports: &[Report],
) -> Result<Vec<Child>, Failure> {
    let holds = |report: &&Report| {
        let sealed = matches!(
            report.verdict,
            Verdict::Verified | Verdict::UnsignedTail | Verdict::Open
        );
        sealed && report.format == "transcript" && report.profile == "native"
    };
    let report = reports.iter().find(holds);
    let is_transcript = candidate.path.ends_with(TRANSCRIPT_FILE) && !candidate.named;
    let (true, Some(head)) = (is_transcript, report.and_then(|report| report.head)) else {
        return Ok(Vec::new());
    };
    let Some(threads) = threads_around(examiner, &candidate.path) else {
        return Ok(Vec::new());
    };
    let file = open_regular(&*examiner.host.fs, &candidate.path)?;
    let mut children = Vec::new();
    for (child, last) in ends(&file, head.size)? {
        children.push(Child {
            path: threads.join(child.as_str()).join(TRANSCRIPT_FILE),
            head: last,
            parent: head.record,
        });
    }
    Ok(children)
}

/// The folder of threads that a transcript lies in, as it was named where that tells.
fn threads_around(examiner: &Examiner, path: &Path) -> Option<PathBuf> {
    let real = PathBuf::from(examiner.host.place(path));
    let mut above = path.ancestors().chain(real.ancestors());
    above
        .find(|above| above.ends_with(THREADS))
        .map(Path::to_owned)
}

/// Children and their last seals, of the first `sealed` bytes.
fn ends(file: &RegularFile, sealed: u64) -> Result<Vec<(ThreadId, Head)>, Failure> {
    let (mut chunks, mut buffer, mut line) = (file.range(0, sealed), Vec::new(), Vec::new());
    let mut found = Vec::new();
    loop {
        chunks.next_chunk(&mut buffer)?;
        if buffer.is_empty() {
            return Ok(found);
        }
        let mut rest = buffer.as_slice();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            line.extend_from_slice(&rest[..end]);
            found.extend(end_of(&line));
            line.clear();
            rest = &rest[end + 1..];
        }
        line.extend_from_slice(rest);
    }
}

fn end_of(line: &[u8]) -> Option<(ThreadId, Head)> {
    let beginning = &line[..line.len().min(MAX_KIND_OFFSET)];
    let mut places = beginning.windows(ENDED.len());
    places.find(|place| *place == ENDED.as_bytes())?;
    let event: Value = serde_json::from_slice(line).ok()?;
    let payload = &event["payload"];
    let child = ThreadId::parse(payload["child_thread_id"].as_str()?).ok()?;
    let head = Head::parse(payload["head"].as_str()?)?;
    (event["event_type"] == ENDED).then_some((child, head))
}

/// What is wrong with a child, if anything is.
fn judge(
    examiner: &Examiner,
    child: &Child,
    here: &BTreeMap<RecordId, Option<Head>>,
) -> Result<Option<Report>, Failure> {
    let file = open_regular(&*examiner.host.fs, &child.path).ok();
    let first = file.as_ref().map(first_line).transpose()?.flatten();
    let record = first.as_deref().and_then(native_record);
    let Some(file) = file.filter(|_| record == Some(child.head.record)) else {
        // Elsewhere it verifies as what it is.
        return Ok((!here.contains_key(&child.head.record)).then(|| gone(examiner, child)));
    };
    if here.get(&child.head.record) == Some(&Some(child.head)) {
        return Ok(None);
    }
    // It was gone on with since, or is older than its end.
    let asking = Examiner {
        asked: Asked {
            expect_head: Some(ExpectedHead::Head(child.head)),
            exact_head: false,
            thread: None,
            ..examiner.asked.clone()
        },
        host: examiner.host.clone(),
        bar: ProgressBar::hidden(),
        now: examiner.now,
        among_many: examiner.among_many,
        is_shared: examiner.is_shared,
    };
    let mut report = transcript::native(&asking, &file)?.report;
    report.path = shown(&child.path);
    let about_head = |finding: &Finding| finding.code.starts_with("head_");
    Ok(report.findings.iter().any(about_head).then_some(report))
}

fn gone(examiner: &Examiner, child: &Child) -> Report {
    let mut report = Report::begin("transcript", "native");
    report.path = shown(&child.path);
    report.trust = Some(examiner.asked.trust.digest());
    report.record = Some(child.head.record);
    let message = format!(
        "record {} seals the end of this thread at {}, and it is nowhere in what was looked at",
        child.parent, child.head
    );
    report.hold_because(Verdict::Missing, Finding::error("record_missing", message));
    report
}
