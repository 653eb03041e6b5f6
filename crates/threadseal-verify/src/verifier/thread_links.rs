//! Links between threads: what a record seals of the threads that it started, continues, or was continued by.
//!
//! ```text
//! <threads>/<id>/transcript.jsonl  line 1 {parent, predecessor: head; meta: whose}   the thread had that seal before
//!                                  child_thread_started {child_thread_id, child_record}  that child may have begun
//!                                  child_thread_ended {child_thread_id, head}        the child ended with that seal
//!                                  thread_handoff | thread_resumed {new_thread_id}, sealed with `successor`
//!                                                                                    that record stood before the link did
//!     ─► <threads>/<that id>/transcript.jsonl is that record, and has that seal
//! ```
//! A folder that is gone as a whole leaves no neighbour as evidence. A transcript that is elsewhere than among the
//! threads of a project was copied out: nothing is missed there. A child of which no record seals the end may never
//! have begun: it is gone where this host or its log knows a seal of it, else the link is open. So is one of which only one side tells.

use super::pruned::Pruned;
use super::{FileResult, Verifier, shown, transcript};
use crate::error::VerifyError;
use crate::inputs::Candidate;
use crate::layout::{THREADS, TRANSCRIPT_FILE};
use crate::request::VerifyRequest;
use rayon::prelude::*;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use threadseal_core::record::{ExpectedHead, Head, RecordId, ThreadId};
use threadseal_core::report::{Finding, Report, Verdict};
use threadseal_formats::transcript::manifest::{self, Manifest};
use threadseal_store::examine::first_line;
use threadseal_store::heads::HeadStore;
use threadseal_store::read::{RegularFile, Source as _, open_regular};
use threadseal_store::tombstones;

/// The events that name kin, a child's beginning and end among them.
const STARTED: &str = "child_thread_started";
const ENDED: &str = "child_thread_ended";
const LINKS: [&str; 2] = ["thread_handoff", "thread_resumed"];

/// The event of a seal.
const SEAL: &str = "checkpoint";

/// The kind of an event is within so many bytes of its line.
const MAX_KIND_OFFSET: usize = 1024;

/// Which way a link leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    /// To a parent or predecessor.
    Before,
    /// To the parent of the thread that it continues.
    Inherited,
    /// To a child that was to begin.
    Begun,
    /// To a child that ended.
    Ended,
    /// To the thread that continues it.
    Successor,
}

/// A thread as another one's record has it.
struct Kin {
    link: Link,
    thread: ThreadId,
    record: RecordId,
    /// A seal of it; of a successor none is named.
    head: Option<Head>,
    /// The statement of the record about it.
    said: &'static str,
}

/// What became of a link.
enum Told {
    /// The other thread is not what it was.
    Wrong(Box<Report>),
    /// Only one side of the link is known to be there; the other one was pruned.
    Open(Finding),
}

/// A report for each thread that is not what the record of another one seals; a record with a link of which only its own side is
/// there gets a finding.
///
/// # Errors
/// When a file cannot be read.
pub(super) fn missing(
    verifier: &Verifier,
    candidates: &[Candidate],
    seen: &mut [FileResult],
) -> Result<Vec<Report>, VerifyError> {
    let here: BTreeMap<RecordId, Option<Head>> = seen
        .iter()
        .flat_map(FileResult::reports)
        .filter(|report| report.format == "transcript")
        .filter_map(|report| Some((report.record?, report.head)))
        .collect();
    let pairs = candidates.par_iter().zip(seen.par_iter());
    let sealed: Vec<Option<Sealed>> = pairs
        .map(|(candidate, seen)| sealed(verifier, candidate, seen.reports()))
        .collect::<Result<_, VerifyError>>()?;
    let named: BTreeMap<RecordId, BTreeSet<RecordId>> = sealed
        .iter()
        .flatten()
        .map(|sealed| (sealed.record, sealed.after().collect()))
        .collect();
    let of_each = sealed
        .par_iter()
        .map(|sealed| -> Result<Vec<Told>, VerifyError> {
            let kin = sealed
                .iter()
                .flat_map(|sealed| sealed.kin.iter().map(move |kin| (sealed, kin)));
            let told = kin.map(|(sealed, kin)| judge(verifier, sealed, kin, &here, &named));
            told.filter_map(Result::transpose).collect()
        });
    let of_each: Vec<Vec<Told>> = of_each.collect::<Result<_, VerifyError>>()?;
    // Of one that is gone, parent, predecessor and children tell; it is gone once.
    let (mut gone, mut wrong) = (BTreeSet::new(), Vec::new());
    for (told, seen) in of_each.into_iter().zip(seen) {
        for told in told {
            match told {
                Told::Wrong(report) if gone.insert((report.path.clone(), report.record)) => {
                    wrong.push(*report);
                }
                Told::Wrong(_) => {}
                Told::Open(finding) => {
                    if let FileResult::Reports(reports) = seen
                        && let Some(report) = reports.iter_mut().find(|report| holds(report))
                    {
                        report.find(finding);
                    }
                }
            }
        }
    }
    Ok(wrong)
}

/// Why the record in `file`, `sealed` bytes of which hold, is not over yet: a thread that it started, or that continues it, has
/// no end that this host knows.
///
/// # Errors
/// When the file or the heads cannot be read.
pub fn unfinished(
    heads: &dyn HeadStore,
    file: &RegularFile,
    sealed: u64,
) -> Result<Option<String>, VerifyError> {
    for kin in kin_of(file, sealed)? {
        let known = heads.fetch(&kin.record)?;
        let is_over = match (kin.link, known) {
            (Link::Before | Link::Inherited, _) => true,
            (_, Some(known)) => known.is_final,
            // Its end is sealed here.
            (Link::Ended, None) => true,
            // It may never have begun, or be another host's.
            (Link::Begun | Link::Successor, None) => false,
        };
        if !is_over {
            let (thread, record, said) = (&kin.thread, kin.record, kin.said);
            let text =
                format!("it {said}, and no end of that is known here: {thread}, record {record}");
            return Ok(Some(text));
        }
    }
    Ok(None)
}

/// A record among the threads of a project, and the kin that it seals.
struct Sealed {
    record: RecordId,
    threads: PathBuf,
    kin: Vec<Kin>,
}

impl Sealed {
    /// The records that it names as later ones.
    fn after(&self) -> impl Iterator<Item = RecordId> {
        let is_after = |kin: &&Kin| !matches!(kin.link, Link::Before | Link::Inherited);
        let after = self.kin.iter().filter(is_after);
        after.map(|kin| kin.record)
    }
}

/// Is it of a native transcript of which what is sealed holds?
fn holds(report: &Report) -> bool {
    let sealed = matches!(
        report.verdict,
        Verdict::Verified | Verdict::UnsignedTail | Verdict::Open
    );
    sealed && report.format == "transcript" && report.profile == "native"
}

/// The kin that the transcript `candidate` seals; None where it is no such record.
fn sealed(
    verifier: &Verifier,
    candidate: &Candidate,
    reports: &[Report],
) -> Result<Option<Sealed>, VerifyError> {
    let report = reports.iter().find(|report| holds(report));
    let is_transcript = candidate.path.ends_with(TRANSCRIPT_FILE) && !candidate.named;
    let (true, Some(head)) = (is_transcript, report.and_then(|report| report.head)) else {
        return Ok(None);
    };
    let Some(threads) = threads_around(verifier, &candidate.path) else {
        return Ok(None);
    };
    let file = open_regular(&*verifier.host.fs, &candidate.path)?;
    Ok(Some(Sealed {
        record: head.record,
        threads,
        kin: kin_of(&file, head.size)?,
    }))
}

/// The folder of threads around a transcript, as it was named if that has one.
fn threads_around(verifier: &Verifier, path: &Path) -> Option<PathBuf> {
    let real = PathBuf::from(verifier.host.place(path));
    let mut above = path.ancestors().chain(real.ancestors());
    above
        .find(|above| above.ends_with(THREADS))
        .map(Path::to_owned)
}

/// What the first `sealed` bytes say of other threads.
fn kin_of(file: &RegularFile, sealed: u64) -> Result<Vec<Kin>, VerifyError> {
    let (mut chunks, mut buffer, mut line) = (file.range(0, sealed), Vec::new(), Vec::new());
    let mut found = Found::default();
    loop {
        chunks.next_chunk(&mut buffer)?;
        if buffer.is_empty() {
            return Ok(found.done());
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
    /// The thread that a link named; the seal after it names the record.
    linked: Option<ThreadId>,
}

impl Found {
    /// Of a child that ended, the end is what counts.
    fn done(mut self) -> Vec<Kin> {
        let ended = self.kin.iter().filter(|kin| kin.link == Link::Ended);
        let ended: BTreeSet<RecordId> = ended.map(|kin| kin.record).collect();
        self.kin
            .retain(|kin| kin.link != Link::Begun || !ended.contains(&kin.record));
        self.kin
    }

    fn look(&mut self, line: &[u8]) {
        if !std::mem::replace(&mut self.begun, true) {
            self.kin
                .extend(manifest::parse_line(line).iter().flat_map(before));
            return;
        }
        let beginning = &line[..line.len().min(MAX_KIND_OFFSET)];
        let names = |kind: &str| memchr::memmem::find(beginning, kind.as_bytes()).is_some();
        let is_asked = names(STARTED)
            || names(ENDED)
            || LINKS.into_iter().any(names)
            || (self.linked.is_some() && names(SEAL));
        let event: Value = match is_asked.then(|| serde_json::from_slice(line)) {
            Some(Ok(event)) => event,
            _ => return,
        };
        let payload = &event["payload"];
        let thread = |name: &str| ThreadId::parse(payload[name].as_str()?).ok();
        match event["event_type"].as_str() {
            Some(STARTED) => {
                let record = payload["child_record"].as_str();
                let record = record.and_then(RecordId::parse_hex);
                let child = thread("child_thread_id").zip(record);
                self.kin.extend(child.map(|(thread, record)| Kin {
                    link: Link::Begun,
                    thread,
                    record,
                    head: None,
                    said: "seals that this thread began",
                }));
            }
            Some(ENDED) => {
                let head = payload["head"].as_str().and_then(Head::parse);
                let child = thread("child_thread_id").zip(head);
                self.kin.extend(child.map(|(thread, head)| Kin {
                    link: Link::Ended,
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
                        link: Link::Successor,
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
            link: Link::Before,
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
    let parent = parent.map(|parent| match manifest.predecessor {
        None => parent,
        Some(_) => Kin {
            link: Link::Inherited,
            ..parent
        },
    });
    parent.into_iter().chain(predecessor).collect()
}

/// What is wrong with a thread of which `sealed` tells, if anything is.
fn judge(
    verifier: &Verifier,
    sealed: &Sealed,
    kin: &Kin,
    here: &BTreeMap<RecordId, Option<Head>>,
    named: &BTreeMap<RecordId, BTreeSet<RecordId>>,
) -> Result<Option<Told>, VerifyError> {
    let path = sealed
        .threads
        .join(kin.thread.as_str())
        .join(TRANSCRIPT_FILE);
    let is_there = verifier.is_file(&path);
    let file = is_there.then(|| open_regular(&*verifier.host.fs, &path));
    let file = file.transpose()?;
    let first = file.as_ref().map(first_line).transpose()?.flatten();
    let manifest = first.as_deref().and_then(manifest::parse_line);
    let is_it = |manifest: &Manifest| manifest.record == kin.record;
    let (Some(file), Some(manifest)) = (file, manifest.filter(is_it)) else {
        // Elsewhere it verifies as what it is.
        let is_here = here.contains_key(&kin.record);
        let pruned = Pruned::at(verifier, &[tombstones::place_of(&path)])?;
        if let (false, Some(note)) = (
            is_here,
            pruned.explain_pruned(&kin.record, kin.head.as_ref()),
        ) {
            return Ok(Some(Told::Open(note)));
        }
        let may_never_have_been = kin.link == Link::Begun;
        return Ok(match (is_here, may_never_have_been) {
            (true, _) => None,
            (false, false) => Some(gone(verifier, sealed, kin, &path)),
            (false, true) if verifier.host.heads.fetch(&kin.record)?.is_some() => {
                Some(gone(verifier, sealed, kin, &path))
            }
            (false, true) => Some(open(kin, "no seal of that record is known here")),
        });
    };
    let names_back = match kin.link {
        Link::Before => named
            .get(&kin.record)
            .is_none_or(|after| after.contains(&sealed.record)),
        Link::Begun => names(manifest.parent, sealed),
        // Its end may be sealed by the thread that continues its parent.
        Link::Inherited | Link::Ended => true,
        Link::Successor => names(manifest.predecessor, sealed),
    };
    if !names_back {
        return Ok(Some(open(kin, "that record does not name this one")));
    }
    let Some(head) = kin
        .head
        .filter(|_| here.get(&kin.record) != Some(&kin.head))
    else {
        return Ok(None);
    };
    // It was gone on with since, or is older than it was.
    let asking = verifier.with(VerifyRequest {
        expect_head: Some(ExpectedHead::Head(head)),
        exact_head: false,
        thread: None,
        ..verifier.request.clone()
    });
    let mut report = transcript::native(&asking, &file)?.report;
    report.path = shown(&path);
    let about_head = |finding: &Finding| finding.code.starts_with("head_");
    let is_wrong = report.findings.iter().any(about_head);
    Ok(is_wrong.then(|| Told::Wrong(Box::new(report))))
}

fn names(head: Option<Head>, sealed: &Sealed) -> bool {
    head.is_some_and(|head| head.record == sealed.record)
}

fn open(kin: &Kin, why: &str) -> Told {
    let link = match kin.link {
        Link::Before | Link::Inherited => "it names the thread before it",
        Link::Begun | Link::Ended => "it names its child",
        Link::Successor => "it names the thread that goes on",
    };
    let (thread, record) = (&kin.thread, kin.record);
    let text = format!("{link}, {thread}, record {record}: {why}");
    Told::Open(Finding::warning("link_open", text))
}

fn gone(verifier: &Verifier, sealed: &Sealed, kin: &Kin, path: &Path) -> Told {
    let mut report = Report::begin("transcript", "native");
    report.path = shown(path);
    report.trust = Some(verifier.request.trust.digest());
    report.record = Some(kin.record);
    let at = kin
        .head
        .map_or_else(String::new, |head| format!(" at {head}"));
    let message = format!(
        "record {} {}{at}, and it is nowhere in what was looked at",
        sealed.record, kin.said
    );
    report.hold_because(Verdict::Missing, Finding::error("record_missing", message));
    Told::Wrong(Box::new(report))
}
