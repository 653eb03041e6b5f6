//! Links between threads: what a record seals of the threads that it started, continues, or was continued by.
//!
//! ```text
//! <threads>/<id>/transcript.jsonl  line 1 {parent, predecessor: head; meta: whose}   the thread had that seal before
//!                                  child_thread_started {child_thread_id, child_record}  that child may have begun
//!                                  child_thread_ended {child_thread_id, head}        the child ended with that seal
//!                                  thread_handoff | thread_resumed {new_thread_id}, sealed with `successor`
//!                                                                                    that record is older than the link
//!     ─► <threads>/<that id>/transcript.jsonl is that record, and has that seal
//! ```
//! A folder that is gone as a whole leaves no neighbour as evidence. A transcript that is elsewhere than among the
//! threads of a project was copied out: nothing is missed there. A child of which no record seals
//! the end may never have begun: it is gone where this host or its log knows a seal of it, else the
//! link is open. So is a link that only one side records.

use super::context::{Context, shown};
use super::file_result::FileResult;
use super::pruned::Pruned;
use super::transcript;
use crate::error::VerifyError;
use crate::inputs::Candidate;
use crate::layout::{THREADS, TRANSCRIPT_FILE};
use crate::request::VerifyRequest;
use rayon::prelude::*;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use threadseal_core::record::{ExpectedHead, Head, RecordId, ThreadId};
use threadseal_core::report::{Finding, FindingCode, Format, Profile, Report, Verdict};
use threadseal_formats::transcript::manifest::{self, Manifest};
use threadseal_formats::transcript::rye;
use threadseal_store::examine::first_line;
use threadseal_store::heads::HeadStore;
use threadseal_store::read::{RegularFile, Source as _, open_regular};
use threadseal_store::tombstones;

/// The events that name other threads, a child's start and end among them.
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
struct LinkedThread {
    link: Link,
    thread: ThreadId,
    record: RecordId,
    /// A seal of it; of a successor none is named.
    head: Option<Head>,
    /// The statement of the record about it.
    claim: &'static str,
}

/// What became of a link.
enum LinkFault {
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
    context: &Context,
    candidates: &[Candidate],
    seen: &mut [FileResult],
) -> Result<Vec<Report>, VerifyError> {
    let here: BTreeMap<RecordId, Option<Head>> = seen
        .iter()
        .flat_map(FileResult::reports)
        .filter(|report| report.format == Format::Transcript)
        .filter_map(|report| Some((report.record?, report.head)))
        .collect();
    let pairs = candidates.par_iter().zip(seen.par_iter());
    let sealed: Vec<Option<Sealed>> = pairs
        .map(|(candidate, seen)| sealed(context, candidate, seen.reports()))
        .collect::<Result<_, VerifyError>>()?;
    let named: BTreeMap<RecordId, BTreeSet<RecordId>> = sealed
        .iter()
        .flatten()
        .map(|sealed| (sealed.record, sealed.after().collect()))
        .collect();
    let of_each = sealed
        .par_iter()
        .map(|sealed| -> Result<Vec<LinkFault>, VerifyError> {
            let linked = sealed
                .iter()
                .flat_map(|sealed| sealed.linked.iter().map(move |linked| (sealed, linked)));
            let fault =
                linked.map(|(sealed, linked)| judge(context, sealed, linked, &here, &named));
            fault.filter_map(Result::transpose).collect()
        });
    let of_each: Vec<Vec<LinkFault>> = of_each.collect::<Result<_, VerifyError>>()?;
    // Of one that is gone, parent, predecessor and children tell; it is gone once.
    let (mut gone, mut wrong) = (BTreeSet::new(), Vec::new());
    for (fault, seen) in of_each.into_iter().zip(seen) {
        for fault in fault {
            match fault {
                LinkFault::Wrong(report) if gone.insert((report.path.clone(), report.record)) => {
                    wrong.push(*report);
                }
                LinkFault::Wrong(_) => {}
                LinkFault::Open(finding) => {
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
    for linked in links_of(file, sealed)? {
        let known = heads.fetch(&linked.record)?;
        let is_over = match (linked.link, known) {
            (Link::Before | Link::Inherited, _) => true,
            (_, Some(known)) => known.is_final,
            // Its end is sealed here.
            (Link::Ended, None) => true,
            // It may never have begun, or be another host's.
            (Link::Begun | Link::Successor, None) => false,
        };
        if !is_over {
            let (thread, record, claim) = (&linked.thread, linked.record, linked.claim);
            let text = format!(
                "it {claim}, but no end of that thread is known here: {thread}, record {record}"
            );
            return Ok(Some(text));
        }
    }
    Ok(None)
}

/// A record among the threads of a project, and the threads that it names.
struct Sealed {
    record: RecordId,
    threads: PathBuf,
    linked: Vec<LinkedThread>,
}

impl Sealed {
    /// The records that it names as later ones.
    fn after(&self) -> impl Iterator<Item = RecordId> {
        let is_after =
            |linked: &&LinkedThread| !matches!(linked.link, Link::Before | Link::Inherited);
        let after = self.linked.iter().filter(is_after);
        after.map(|linked| linked.record)
    }
}

/// Is it of a native transcript of which what is sealed holds?
fn holds(report: &Report) -> bool {
    let sealed = matches!(
        report.verdict,
        Verdict::Verified | Verdict::UnsignedTail | Verdict::Open
    );
    sealed && report.format == Format::Transcript && report.profile == Profile::Native
}

/// The threads that the transcript `candidate` names under its seals; None where it is no such record.
fn sealed(
    context: &Context,
    candidate: &Candidate,
    reports: &[Report],
) -> Result<Option<Sealed>, VerifyError> {
    let report = reports.iter().find(|report| holds(report));
    let is_transcript = candidate.path.ends_with(TRANSCRIPT_FILE) && !candidate.named;
    let (true, Some(head)) = (is_transcript, report.and_then(|report| report.head)) else {
        return Ok(None);
    };
    let Some(threads) = threads_around(context, &candidate.path) else {
        return Ok(None);
    };
    let file = open_regular(&*context.host.fs, &candidate.path)?;
    Ok(Some(Sealed {
        record: head.record,
        threads,
        linked: links_of(&file, head.size)?,
    }))
}

/// The folder of threads around a transcript, as it was named if that has one.
fn threads_around(context: &Context, path: &Path) -> Option<PathBuf> {
    let real = PathBuf::from(context.host.place(path));
    let mut above = path.ancestors().chain(real.ancestors());
    above
        .find(|above| above.ends_with(THREADS))
        .map(Path::to_owned)
}

/// What the first `sealed` bytes say of other threads.
fn links_of(file: &RegularFile, sealed: u64) -> Result<Vec<LinkedThread>, VerifyError> {
    let (mut chunks, mut buffer, mut line) = (file.range(0, sealed), Vec::new(), Vec::new());
    let mut found = LinkReader::default();
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
struct LinkReader {
    begun: bool,
    linked: Vec<LinkedThread>,
    /// The thread that a link named; the seal after it names the record.
    successor_thread: Option<ThreadId>,
}

impl LinkReader {
    /// Of a child that ended, the end is what counts.
    fn done(mut self) -> Vec<LinkedThread> {
        let ended = self
            .linked
            .iter()
            .filter(|linked| linked.link == Link::Ended);
        let ended: BTreeSet<RecordId> = ended.map(|linked| linked.record).collect();
        self.linked
            .retain(|linked| linked.link != Link::Begun || !ended.contains(&linked.record));
        self.linked
    }

    fn look(&mut self, line: &[u8]) {
        if !std::mem::replace(&mut self.begun, true) {
            self.linked
                .extend(manifest::parse_line(line).iter().flat_map(before));
            return;
        }
        let beginning = &line[..line.len().min(MAX_KIND_OFFSET)];
        let names = |kind: &str| memchr::memmem::find(beginning, kind.as_bytes()).is_some();
        let is_asked = names(STARTED)
            || names(ENDED)
            || LINKS.into_iter().any(names)
            || (self.successor_thread.is_some() && names(SEAL));
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
                self.linked
                    .extend(child.map(|(thread, record)| LinkedThread {
                        link: Link::Begun,
                        thread,
                        record,
                        head: None,
                        claim: "seals the start of this thread",
                    }));
            }
            Some(ENDED) => {
                let head = payload["head"].as_str().and_then(Head::parse);
                let child = thread("child_thread_id").zip(head);
                self.linked.extend(child.map(|(thread, head)| LinkedThread {
                    link: Link::Ended,
                    thread,
                    record: head.record,
                    head: Some(head),
                    claim: "seals the end of this thread",
                }));
            }
            Some(kind) if LINKS.contains(&kind) => self.successor_thread = thread("new_thread_id"),
            Some(SEAL) => {
                let named = payload["seal"]["ext"]["successor"].as_str();
                let named = named.and_then(RecordId::parse_hex);
                self.linked
                    .extend(
                        self.successor_thread
                            .take()
                            .zip(named)
                            .map(|(thread, record)| LinkedThread {
                                link: Link::Successor,
                                thread,
                                record,
                                head: None,
                                claim: "seals that this thread continues it",
                            }),
                    );
            }
            _ => {}
        }
    }
}

/// The threads that line 1 names, with the seals that they had then.
fn before(manifest: &Manifest) -> Vec<LinkedThread> {
    let named = |head: Option<Head>, whose: &str, claim| {
        let thread = manifest.meta.get(whose)?.as_str()?;
        Some(LinkedThread {
            link: Link::Before,
            thread: ThreadId::parse(thread).ok()?,
            record: head?.record,
            head,
            claim,
        })
    };
    let parent = named(
        manifest.parent,
        "parent_thread",
        "names this thread as its parent",
    );
    let predecessor = named(
        manifest.predecessor,
        "predecessor_thread",
        "continues this thread",
    );
    let parent = parent.map(|parent| match manifest.predecessor {
        None => parent,
        Some(_) => LinkedThread {
            link: Link::Inherited,
            ..parent
        },
    });
    parent.into_iter().chain(predecessor).collect()
}

/// The fault of the thread that `sealed` names, if it has one.
fn judge(
    context: &Context,
    sealed: &Sealed,
    linked: &LinkedThread,
    here: &BTreeMap<RecordId, Option<Head>>,
    named: &BTreeMap<RecordId, BTreeSet<RecordId>>,
) -> Result<Option<LinkFault>, VerifyError> {
    let path = sealed
        .threads
        .join(linked.thread.as_str())
        .join(TRANSCRIPT_FILE);
    let is_there = context.is_file(&path);
    let file = is_there.then(|| open_regular(&*context.host.fs, &path));
    let file = file.transpose()?;
    let first = file.as_ref().map(first_line).transpose()?.flatten();
    let found = first.as_deref().map(FirstLine::of);
    let (Some(file), Some(first)) = (file, found.filter(|first| first.record() == linked.record))
    else {
        // Elsewhere it verifies as what it is.
        let is_here = here.contains_key(&linked.record);
        let pruned = Pruned::at(context, &[tombstones::place_of(&path)])?;
        if let (false, Some(note)) = (
            is_here,
            pruned.explain_pruned(&linked.record, linked.head.as_ref()),
        ) {
            return Ok(Some(LinkFault::Open(note)));
        }
        let may_never_have_been = linked.link == Link::Begun;
        return Ok(match (is_here, may_never_have_been) {
            (true, _) => None,
            (false, false) => Some(gone(context, sealed, linked, &path)),
            (false, true) if context.host.heads.fetch(&linked.record)?.is_some() => {
                Some(gone(context, sealed, linked, &path))
            }
            (false, true) => Some(open(linked, "no seal of that record is known here")),
        });
    };
    let names_back = match linked.link {
        Link::Before => named
            .get(&linked.record)
            .is_none_or(|after| after.contains(&sealed.record)),
        Link::Begun => first.names(|manifest| manifest.parent, sealed),
        // Its end may be sealed by the thread that continues its parent.
        Link::Inherited | Link::Ended => true,
        Link::Successor => first.names(|manifest| manifest.predecessor, sealed),
    };
    if !names_back {
        return Ok(Some(open(linked, "that record does not name this one")));
    }
    let Some(head) = linked
        .head
        .filter(|_| here.get(&linked.record) != Some(&linked.head))
    else {
        return Ok(None);
    };
    // It was gone on with since, or is older than it was.
    let asking = context.with(VerifyRequest {
        expect_head: Some(ExpectedHead::Head(head)),
        exact_head: false,
        thread: None,
        ..context.request.clone()
    });
    let mut report = match first {
        FirstLine::Native(_) => transcript::native(&asking, &file)?.report,
        FirstLine::Rye(_) => transcript::rye(&asking, &file)?.report,
    };
    report.path = shown(&path);
    let about_head = |finding: &Finding| finding.code.is_about_head();
    let is_wrong = report.findings.iter().any(about_head);
    Ok(is_wrong.then(|| LinkFault::Wrong(Box::new(report))))
}

/// The first line of a transcript.
enum FirstLine {
    Native(Box<Manifest>),
    /// Rye's records name no other.
    Rye(RecordId),
}

impl FirstLine {
    fn of(line: &[u8]) -> Self {
        match manifest::parse_line(line) {
            Some(manifest) => Self::Native(Box::new(manifest)),
            None => Self::Rye(rye::record_id(line)),
        }
    }

    fn record(&self) -> RecordId {
        match self {
            Self::Native(manifest) => manifest.record,
            Self::Rye(record) => *record,
        }
    }

    /// Does it name this record there?
    fn names(&self, whose: impl Fn(&Manifest) -> Option<Head>, sealed: &Sealed) -> bool {
        match self {
            Self::Native(manifest) => {
                whose(manifest).is_some_and(|head| head.record == sealed.record)
            }
            Self::Rye(_) => true,
        }
    }
}

fn open(linked: &LinkedThread, why: &str) -> LinkFault {
    let link = match linked.link {
        Link::Before | Link::Inherited => "it names the thread before it",
        Link::Begun | Link::Ended => "it names its child",
        Link::Successor => "it names the thread that continues it",
    };
    let (thread, record) = (&linked.thread, linked.record);
    let text = format!("{link}, {thread}, record {record}: {why}");
    LinkFault::Open(Finding::warning(FindingCode::LinkOpen, text))
}

fn gone(context: &Context, sealed: &Sealed, linked: &LinkedThread, path: &Path) -> LinkFault {
    let mut report = Report::begin(Format::Transcript, Profile::Native);
    report.path = shown(path);
    report.trust = Some(context.request.trust.digest());
    report.record = Some(linked.record);
    let at = linked
        .head
        .map_or_else(String::new, |head| format!(" at {head}"));
    let message = format!(
        "record {} {}{at}, but no searched path contains it",
        sealed.record, linked.claim
    );
    report.downgrade(
        Verdict::Missing,
        Finding::error(FindingCode::RecordMissing, message),
    );
    LinkFault::Wrong(Box::new(report))
}
