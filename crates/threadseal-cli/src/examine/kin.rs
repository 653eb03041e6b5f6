//! Kin of threads: what a record seals of the threads that it began, goes on from, or handed itself over to.
//!
//! ```text
//! <threads>/<id>/transcript.jsonl  line 1 {parent, predecessor: head; meta: whose}   the thread had that seal before
//!                                  child_thread_ended {child_thread_id, head}        the child ended with that seal
//!                                  thread_handoff | thread_resumed {new_thread_id}, sealed with `successor`
//!                                                                                    that record stood before the link did
//!     ─► <threads>/<that id>/transcript.jsonl is that record, and has that seal
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
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use threadseal::record::{ExpectedHead, Head, RecordId, ThreadId};
use threadseal::report::{Finding, Report, Verdict};
use threadseal::transcript::manifest::{self, Manifest};
use threadseal_runtime::project::TRANSCRIPT_FILE;
use threadseal_store::examine::{first_line, native_record};
use threadseal_store::read::{RegularFile, Source as _, open_regular};

/// Where the threads of a project lie.
const THREADS: &str = ".ai/agent/threads";

/// The events that name kin, the child's end among them.
const ENDED: &str = "child_thread_ended";
const LINKS: [&str; 2] = ["thread_handoff", "thread_resumed"];

/// The event of a seal.
const SEAL: &str = "checkpoint";

/// In so many bytes of a line stands what kind of event it is.
const MAX_KIND_OFFSET: usize = 1024;

/// A thread as another one's record has it.
struct Kin {
    thread: ThreadId,
    record: RecordId,
    /// A seal of it; of a successor none is named.
    head: Option<Head>,
    /// What the record says of it.
    said: &'static str,
}

/// A report for each thread that is not what the record of another one seals.
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
        let Some(sealed) = sealed(examiner, candidate, reports_of(seen))? else {
            return Ok(Vec::new());
        };
        let told = sealed
            .kin
            .iter()
            .map(|kin| judge(examiner, &sealed, kin, &here));
        told.filter_map(Result::transpose).collect()
    });
    let told: Vec<Vec<Report>> = of_each.collect::<Result<_, Failure>>()?;
    // Of one that is gone, parent, predecessor and children tell; it is gone once.
    let mut gone = BTreeSet::new();
    let told = told.into_iter().flatten();
    Ok(told
        .filter(|report| gone.insert((report.path.clone(), report.record)))
        .collect())
}

/// A record among the threads of a project, and the kin that it seals.
struct Sealed {
    record: RecordId,
    threads: PathBuf,
    kin: Vec<Kin>,
}

/// The kin that the transcript `candidate` seals; None where it is no such record.
fn sealed(
    examiner: &Examiner,
    candidate: &Candidate,
    reports: &[Report],
) -> Result<Option<Sealed>, Failure> {
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
        return Ok(None);
    };
    let Some(threads) = threads_around(examiner, &candidate.path) else {
        return Ok(None);
    };
    let file = open_regular(&*examiner.host.fs, &candidate.path)?;
    Ok(Some(Sealed {
        record: head.record,
        threads,
        kin: kin_of(&file, head.size)?,
    }))
}

/// The folder of threads that a transcript lies in, as it was named where that tells.
fn threads_around(examiner: &Examiner, path: &Path) -> Option<PathBuf> {
    let real = PathBuf::from(examiner.host.place(path));
    let mut above = path.ancestors().chain(real.ancestors());
    above
        .find(|above| above.ends_with(THREADS))
        .map(Path::to_owned)
}

/// What the first `sealed` bytes say of other threads.
fn kin_of(file: &RegularFile, sealed: u64) -> Result<Vec<Kin>, Failure> {
    let (mut chunks, mut buffer, mut line) = (file.range(0, sealed), Vec::new(), Vec::new());
    let mut found = Found::default();
    loop {
        chunks.next_chunk(&mut buffer)?;
        if buffer.is_empty() {
            return Ok(found.kin);
        }
        let mut rest = buffer.as_slice();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            line.extend_from_slice(&rest[..end]);
            found.look(&line);
            line.clear();
            rest = &rest[end + 1..];
        }
        line.extend_from_slice(rest);
    }
}

/// What was found so far.
#[derive(Default)]
struct Found {
    begun: bool,
    kin: Vec<Kin>,
    /// Whom a link named; the seal behind it names the record.
    linked: Option<ThreadId>,
}

impl Found {
    fn look(&mut self, line: &[u8]) {
        if !std::mem::replace(&mut self.begun, true) {
            self.kin
                .extend(manifest::parse_line(line).iter().flat_map(before));
            return;
        }
        let beginning = &line[..line.len().min(MAX_KIND_OFFSET)];
        let names = |kind: &str| memchr::memmem::find(beginning, kind.as_bytes()).is_some();
        let is_asked =
            names(ENDED) || LINKS.into_iter().any(names) || (self.linked.is_some() && names(SEAL));
        let event: Value = match is_asked.then(|| serde_json::from_slice(line)) {
            Some(Ok(event)) => event,
            _ => return,
        };
        let payload = &event["payload"];
        let thread = |name: &str| ThreadId::parse(payload[name].as_str()?).ok();
        match event["event_type"].as_str() {
            Some(ENDED) => {
                let head = payload["head"].as_str().and_then(Head::parse);
                let child = thread("child_thread_id").zip(head);
                self.kin.extend(child.map(|(thread, head)| Kin {
                    thread,
                    record: head.record,
                    head: Some(head),
                    said: "seals the end of this thread",
                }));
            }
            Some(kind) if LINKS.contains(&kind) => self.linked = thread("new_thread_id"),
            Some(SEAL) => {
                let named = payload["seal"]["ext"]["successor"].as_str();
                let named = named.and_then(RecordId::parse_hex);
                self.kin
                    .extend(self.linked.take().zip(named).map(|(thread, record)| Kin {
                        thread,
                        record,
                        head: None,
                        said: "seals that this thread goes on from it",
                    }));
            }
            _ => {}
        }
    }
}

/// The threads that line 1 names, with the seals that they had then.
fn before(manifest: &Manifest) -> Vec<Kin> {
    let named = |head: Option<Head>, whose: &str, said| {
        let thread = manifest.meta.get(whose)?.as_str()?;
        Some(Kin {
            thread: ThreadId::parse(thread).ok()?,
            record: head?.record,
            head,
            said,
        })
    };
    let parent = named(
        manifest.parent,
        "parent_thread",
        "names this thread its parent",
    );
    let predecessor = named(
        manifest.predecessor,
        "predecessor_thread",
        "goes on from this thread",
    );
    parent.into_iter().chain(predecessor).collect()
}

/// What is wrong with a thread of which `sealed` tells, if anything is.
fn judge(
    examiner: &Examiner,
    sealed: &Sealed,
    kin: &Kin,
    here: &BTreeMap<RecordId, Option<Head>>,
) -> Result<Option<Report>, Failure> {
    let path = sealed
        .threads
        .join(kin.thread.as_str())
        .join(TRANSCRIPT_FILE);
    let file = open_regular(&*examiner.host.fs, &path).ok();
    let first = file.as_ref().map(first_line).transpose()?.flatten();
    let record = first.as_deref().and_then(native_record);
    let Some(file) = file.filter(|_| record == Some(kin.record)) else {
        // Elsewhere it verifies as what it is.
        return Ok((!here.contains_key(&kin.record)).then(|| gone(examiner, sealed, kin, &path)));
    };
    let Some(head) = kin
        .head
        .filter(|_| here.get(&kin.record) != Some(&kin.head))
    else {
        return Ok(None);
    };
    // It was gone on with since, or is older than it was.
    let asking = Examiner {
        asked: Asked {
            expect_head: Some(ExpectedHead::Head(head)),
            exact_head: false,
            thread: None,
            ..examiner.asked.clone()
        },
        host: examiner.host.clone(),
        log: examiner.log.clone(),
        bar: ProgressBar::hidden(),
        now: examiner.now,
        among_many: examiner.among_many,
        is_shared: examiner.is_shared,
        joined: std::sync::Arc::clone(&examiner.joined),
    };
    let mut report = transcript::native(&asking, &file)?.report;
    report.path = shown(&path);
    let about_head = |finding: &Finding| finding.code.starts_with("head_");
    Ok(report.findings.iter().any(about_head).then_some(report))
}

fn gone(examiner: &Examiner, sealed: &Sealed, kin: &Kin, path: &Path) -> Report {
    let mut report = Report::begin("transcript", "native");
    report.path = shown(path);
    report.trust = Some(examiner.asked.trust.digest());
    report.record = Some(kin.record);
    let at = kin
        .head
        .map_or_else(String::new, |head| format!(" at {head}"));
    let message = format!(
        "record {} {}{at}, and it is nowhere in what was looked at",
        sealed.record, kin.said
    );
    report.hold_because(Verdict::Missing, Finding::error("record_missing", message));
    report
}
