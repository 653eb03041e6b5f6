//! Reads the records of a run that stopped, before any change.
//!
//! ```text
//! transcript: its seals hold ─► course        tail, step ledger: only which calls began
//! thread.json, capabilities.md, state file: verified, and they agree with the record
//! ```
//! Nothing here writes. From unsealed events only the names of calls are taken. An attacker can
//! write there that a call has a result. A call that began may have been carried out.

use super::super::orchestrator::Records;
use super::super::parent::Inherited;
use super::super::services::Services;
use super::begun_calls::{Began, in_ledger, in_tail};
use super::walk::KIND;
use crate::bounds::{MAX_CONVERSATION_BYTES, MAX_TAIL_EVENTS};
use crate::config::coordination::Integrity;
use crate::config::missing::SignedSettings;
use crate::graph_state::{Course, Standing, agrees, step_of};
use crate::model::dynamic;
use crate::no_links::refuse_links;
use crate::project::ThreadFolder;
use crate::registry::Thread;
use crate::signed_file::{read_verified, refused};
use crate::status::Status;
use crate::thread_meta::ThreadMeta;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use threadseal_core::canon::json::parse_python;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::{MAX_DOCUMENT_BYTES, MAX_EVENT_TYPE_BYTES};
use threadseal_core::record::{Head, ThreadId};
use threadseal_core::report::Verdict;
use threadseal_formats::document::{DocumentKind, ItemType, Options};
use threadseal_formats::transcript::event::{is_link, is_terminal};
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_store::read::read_small;
use threadseal_verify::Need;

/// A run that stopped, as its verified records have it.
pub(super) struct StoppedRun {
    pub(super) id: ThreadId,
    pub(super) folder: ThreadFolder,
    pub(super) manifest: Manifest,
    /// Its last seal.
    pub(super) head: Head,
    /// Does the record end the run?
    pub(super) ended: bool,
    pub(super) course: Course,
    /// The settings that it used under a signature.
    pub(super) settings: SignedSettings,
    /// The bytes after its last seal, which a lenient project leaves aside.
    pub(super) tail: Vec<u8>,
    /// Calls of the unfinished step that began and have no result in the record, by their ids.
    pub(super) unresolved: BTreeMap<String, Began>,
    /// The thread that started it.
    pub(super) parent: Option<ThreadId>,
    pub(super) inherited: Option<Inherited>,
}

/// A run for people, as its verified record has it.
#[derive(Debug, Clone)]
pub struct ShownGraph {
    /// The run.
    pub course: Course,
    /// Calls that began and have no result in the record: the called item, and the key.
    pub unresolved: Vec<String>,
    /// Its last seal.
    pub head: Head,
    /// The number of bytes after that.
    pub tail_bytes: usize,
}

/// Events of a record in their order.
type Events = Vec<(String, Value)>;

/// A transcript of which every seal holds.
struct Sealed {
    manifest: Manifest,
    head: Head,
    events: Events,
    /// The bytes after the last seal.
    tail: Vec<u8>,
    /// Does it keep bytes that were adopted, or lack bodies?
    is_partial: bool,
}

impl Sealed {
    /// Is every byte under a seal, where the project wants that? A tail may claim that a step is
    /// over. `thread recover` sets it aside, and names it in the record.
    fn is_whole(&self, services: &Services, id: &ThreadId) -> Result<(), Error> {
        if services.config.coordination.transcript_integrity == Integrity::Lenient {
            return Ok(());
        }
        if self.is_partial {
            return Err(Error::refused(format!(
                "the record of {id} is {}, and transcript_integrity is strict",
                Verdict::Partial
            )));
        }
        if self.tail.is_empty() {
            return Ok(());
        }
        let named = tail_events(&self.tail).join(", ");
        Err(Error::refused(format!(
            "the record of {id} is {}: {} bytes after its last seal ({named}); hint: threadseal thread recover {id}",
            Verdict::UnsignedTail,
            self.tail.len()
        )))
    }
}

/// The types of the events after a seal, for people. A torn or strange line has none.
pub(super) fn tail_events(tail: &[u8]) -> Vec<String> {
    let lines = tail.split(|byte| *byte == b'\n');
    let kind = |line| {
        let event = serde_json::from_slice::<Value>(line).ok();
        let kind = event.and_then(|event| event["event_type"].as_str().map(str::to_owned));
        kind.filter(|kind| kind.len() <= MAX_EVENT_TYPE_BYTES)
            .unwrap_or_else(|| "no event".to_owned())
    };
    let lines = lines.filter(|line| !line.is_empty());
    lines.take(MAX_TAIL_EVENTS).map(kind).collect()
}

/// Reads and verifies everything of the run `id`.
///
/// # Errors
/// Kind `Refused` when it did not stop, or a part of it does not verify or contradicts its
/// record.
pub(super) fn read(services: &Services, id: &ThreadId) -> Result<StoppedRun, Error> {
    let unknown = || Error::refused(format!("no run {id} is registered here"));
    let row = services.registry.get(id)?.ok_or_else(unknown)?;
    let folder = services.project.thread(id);
    services.project.inside(&*services.host.fs, folder.path())?;
    refuse_links(&*services.host.fs, &folder)?;
    let sealed = sealed(services, &folder, id)?;
    sealed.is_whole(services, id)?;
    services.belongs_here(&folder.transcript(), &sealed.manifest)?;
    let course = stopped_course(services, id, &row, &sealed)?;
    is_linked(services, id, &sealed.manifest, &course)?;
    let ended = sealed.events.iter().any(|(kind, _)| is_terminal(kind));
    let meta = ThreadMeta::read(
        &services.host,
        &folder,
        id,
        Some(&sealed.manifest),
        &services.trust,
    )?;
    if meta.get().directive != course.graph {
        return Err(Error::refused(format!(
            "{id} is a run of another graph than its record names"
        )));
    }
    same_capabilities(services, &folder, &sealed.manifest)?;
    same_state(services, id, &row, &sealed, &course)?;
    let began = began(services, &folder, &sealed, &course)?;
    has_children(services, id, &sealed)?;
    let inherited = parent_of(services, &row, sealed.manifest.parent)?;
    let used = sealed.events.iter().filter(|(kind, _)| kind == "item_used");
    Ok(StoppedRun {
        id: id.clone(),
        settings: SignedSettings::of(used.map(|(_, payload)| payload.clone())),
        folder,
        head: sealed.head,
        manifest: sealed.manifest,
        tail: sealed.tail,
        ended,
        course,
        unresolved: began,
        parent: row
            .parent
            .map(|parent| ThreadId::parse(&parent))
            .transpose()?,
        inherited,
    })
}

/// A run as its record has it, whether it stopped or not.
///
/// # Errors
/// Kind `Refused` when its transcript or its step ledger does not verify.
pub(in crate::runner) fn show(services: &Services, id: &ThreadId) -> Result<ShownGraph, Error> {
    let folder = services.project.thread(id);
    services.project.inside(&*services.host.fs, folder.path())?;
    let sealed = sealed(services, &folder, id)?;
    is_run(id, &sealed.manifest)?;
    let course = course(&sealed.events, None)?;
    let began = began(services, &folder, &sealed, &course)?;
    let unresolved = began.values();
    let unresolved = unresolved.map(|call| format!("{} {}", call.item, call.key));
    Ok(ShownGraph {
        unresolved: unresolved.collect(),
        course,
        head: sealed.head,
        tail_bytes: sealed.tail.len(),
    })
}

/// Calls of the step that is not over that began and have no result in the record.
fn began(
    services: &Services,
    folder: &ThreadFolder,
    sealed: &Sealed,
    course: &Course,
) -> Result<BTreeMap<String, Began>, Error> {
    let mut began = in_tail(&sealed.tail);
    let named = sealed.events.iter().rev();
    let named = named.map(|(_, payload)| &payload["ledger"]);
    let mut named = named.into_iter();
    let named = named.find(|ledger| !ledger.is_null());
    let records = Records::from(services);
    began.extend(in_ledger(
        records.grounds(),
        folder,
        &sealed.manifest,
        named,
    )?);
    for (call, open) in course.open_calls() {
        began.insert(
            call.to_owned(),
            Began {
                item: open.item.clone(),
                key: open.key.clone(),
            },
        );
    }
    let hooks = settled_hooks(&sealed.events);
    let open = sealed
        .events
        .iter()
        .filter(|(kind, _)| kind == "hook_call_start");
    for (_, payload) in open {
        let text = |name: &str| payload[name].as_str().unwrap_or_default().to_owned();
        began.insert(
            text("call_id"),
            Began {
                item: text("item_id"),
                key: text("idempotency_key"),
            },
        );
    }
    began.retain(|call, _| {
        if hooks.contains(call.as_str()) {
            return false;
        }
        let over = step_of(call).is_some_and(|step| step <= course.steps_over());
        !over && (course.known(call).is_none() || course.is_unknown(call))
    });
    Ok(began)
}

/// The transcript, if all its seals hold: the part under the last one. What follows it is searched for calls only.
fn sealed(services: &Services, folder: &ThreadFolder, id: &ThreadId) -> Result<Sealed, Error> {
    let path = folder.transcript();
    let verifier = Records::from(services).verifier(id)?;
    let opened = verifier.open_verified_within(&path, Need::Vouched, MAX_CONVERSATION_BYTES);
    let record = opened.map_err(|error| refused(error, &path, &services.host))?;
    let refuse = |why: &str| Error::refused(format!("{}: {why}", path.display()));
    let manifest = record.manifest().cloned();
    let lines = record.lines()?;
    let events = lines.iter().map(|line| event(&line.bytes));
    let [sealed, _] = record.tail();
    let sealed = usize::try_from(sealed).map_err(|_| refuse("it is too large"))?;
    Ok(Sealed {
        manifest: manifest.ok_or_else(|| refuse("its first line is not a manifest"))?,
        head: record.head(),
        is_partial: record.report().verdict == Verdict::Partial,
        events: events.collect::<Result<_, _>>()?,
        tail: record.bytes().get(sealed..).unwrap_or_default().to_vec(),
    })
}

/// The course of a run that stopped and has no successor.
fn stopped_course(
    services: &Services,
    id: &ThreadId,
    row: &Thread,
    sealed: &Sealed,
) -> Result<Course, Error> {
    is_run(id, &sealed.manifest)?;
    let mut links = sealed.events.iter().filter(|(kind, _)| is_link(kind));
    let successor = links.find_map(|(_, payload)| payload["new_thread_id"].as_str());
    if let Some(successor) = successor {
        // A link is written once its successor exists: a missing successor was removed.
        let folder = services.project.thread(&ThreadId::parse(successor)?);
        let there = services.host.fs.metadata(&folder.transcript()).is_ok();
        return Err(Error::refused(match there {
            true => format!("{id} is continued by {successor}; hint: resume that run"),
            false => format!("{id} is continued by {successor}, whose record is missing"),
        }));
    }
    let course = course(&sealed.events, None)?;
    if matches!(
        course.standing,
        Standing::Completed | Standing::CompletedWithErrors
    ) {
        return Err(Error::refused(format!(
            "{id} is complete: there is nothing to resume"
        )));
    }
    let ended = sealed.events.iter().any(|(kind, _)| is_terminal(kind));
    let standing = row.standing()?;
    let may = match standing {
        Status::Created => false,
        Status::Running => true,
        other => ended && other.is_resumable(),
    };
    match may {
        true => Ok(course),
        false => Err(Error::refused(format!(
            "{id} is {standing}: it cannot be resumed"
        ))),
    }
}

/// Does the earlier run's record name this one as its successor? A run that died before that is
/// never continued: the earlier run was left unchanged.
fn is_linked(
    services: &Services,
    id: &ThreadId,
    manifest: &Manifest,
    course: &Course,
) -> Result<(), Error> {
    let (head, before) = match (manifest.predecessor, &course.resumed_from) {
        (None, None) => return Ok(()),
        (Some(head), Some(before)) => (head, ThreadId::parse(before)?),
        _ => {
            let text = format!("the record of {id} does not name its predecessor");
            return Err(Error::refused(text));
        }
    };
    let earlier = services.archive().record(&before, Some(head))?;
    let mut links = earlier.successors().iter();
    match links.any(|link| link.thread == id.as_str() && link.record == Some(manifest.record)) {
        true => Ok(()),
        false => Err(Error::refused(format!(
            "{id} names the predecessor {before}, whose record does not name this successor; hint: resume the predecessor"
        ))),
    }
}

/// Are the children there whose end the record seals?
fn has_children(services: &Services, id: &ThreadId, sealed: &Sealed) -> Result<(), Error> {
    let mut ended = sealed.events.iter();
    ended.try_for_each(|(kind, payload)| {
        let text = |name: &str| payload[name].as_str();
        let head = text("head").and_then(Head::parse);
        match (kind.as_str(), text("child_thread_id"), head) {
            ("child_thread_ended", Some(child), Some(head)) => {
                services.archive().child(id, child, head).map(drop)
            }
            _ => Ok(()),
        }
    })
}

/// Does `capabilities.md` match the digest in line 1?
fn same_capabilities(
    services: &Services,
    folder: &ThreadFolder,
    manifest: &Manifest,
) -> Result<(), Error> {
    let path = folder.capabilities();
    let bytes = read_small(&*services.host.fs, &path, MAX_DOCUMENT_BYTES)?;
    let meta = dynamic(&manifest.meta)?;
    if meta["capabilities_sha256"] == Digest::of(&bytes).to_hex() {
        return Ok(());
    }
    let text = format!(
        "{} is not the file that line 1 of the transcript names",
        path.display()
    );
    Err(Error::refused(text))
}

/// Does the state file verify, and agree with the record?
fn same_state(
    services: &Services,
    id: &ThreadId,
    row: &Thread,
    sealed: &Sealed,
    course_now: &Course,
) -> Result<(), Error> {
    let path = services
        .project
        .graph_state(&ThreadId::parse(&course_now.graph)?, id);
    services.project.inside(&*services.host.fs, &path)?;
    if services.host.fs.symlink_metadata(&path).is_err() {
        // It is written before the first step.
        let stepped = sealed.events.iter().any(|(kind, _)| kind == "step_started");
        return match stepped {
            false => Ok(()),
            true => Err(Error::refused(format!(
                "the state file {} is missing",
                path.display()
            ))),
        };
    }
    let shown = path.to_string_lossy();
    let options = Options {
        path: &shown,
        item_type: Some(ItemType::Knowledge),
        ..Options::new(
            DocumentKind::Markdown,
            &services.trust,
            services.host.clock.now()?,
        )
    };
    let checked = read_verified(&services.host, &path, &options)?;
    if checked.head.is_none() {
        return Err(Error::refused(format!(
            "the state file {shown} has no native seal"
        )));
    }
    let text = String::from_utf8(checked.bytes);
    let text = text.map_err(|_| Error::refused("the state file is not text"))?;
    let text = without_signatures(&text);
    agrees(text, row.parent.as_deref(), &sealed.head, &|until| {
        course(&sealed.events, until)
    })
}

/// The parent's inheritance to a thread whose verified line 1 names the parent's seal `head`.
fn parent_of(
    services: &Services,
    thread: &Thread,
    head: Option<Head>,
) -> Result<Option<Inherited>, Error> {
    let parent = services.archive().parent_named(&thread.id, head, None)?;
    Ok(parent.map(|parent| Inherited {
        limits: parent.limits,
        capabilities: parent.capabilities,
    }))
}

fn is_run(id: &ThreadId, manifest: &Manifest) -> Result<(), Error> {
    match dynamic(&manifest.meta)?["kind"] == KIND {
        true => Ok(()),
        false => Err(Error::refused(format!(
            "{id} is not a run of a graph; hint: threadseal thread"
        ))),
    }
}

/// An event as a run wrote it.
fn event(line: &[u8]) -> Result<(String, Value), Error> {
    let refuse = || Error::refused("the transcript contains a line that is not an event");
    let event = parse_python(line).map_err(|_| refuse())?.value;
    let kind = event.get("event_type").and_then(|kind| kind.as_str());
    let kind = kind.ok_or_else(refuse)?.to_owned();
    let payload = event.get("payload").ok_or_else(refuse)?;
    // Line 1 and seals do not come from the graph, and contain values that no graph has.
    let payload = match kind.as_str() {
        "thread_started" | "checkpoint" => Value::Null,
        _ => dynamic(payload)?,
    };
    Ok((kind, payload))
}

fn course(events: &Events, until: Option<u64>) -> Result<Course, Error> {
    let events = events
        .iter()
        .map(|(kind, payload)| (kind.as_str(), payload));
    Course::read(events, until)
}

/// The text after the line of the signatures, Rye's and the native one.
fn without_signatures(text: &str) -> &str {
    text.split_once('\n').map_or("", |(_, body)| body)
}

impl StoppedRun {
    /// The refusal when calls are unresolved: each of them, and the possible decisions.
    pub(super) fn unresolved_refusal(&self) -> Error {
        let calls = self.unresolved.iter();
        let calls: Vec<String> = calls
            .map(|(id, began)| format!("{} ({id}, key {})", began.item, began.key))
            .collect();
        Error::new(
            ErrorKind::Refused,
            format!(
                "it is not known whether these calls were carried out: {}; hint: check them, then use --skip-unresolved (they count \
                 as made) or --fail-unresolved (they count as failed)",
                calls.join(", ")
            ),
        )
    }
}

/// Calls of hooks whose result is known: an unknown one is settled once the run has passed it.
pub(super) fn settled_hooks(events: &[(String, Value)]) -> HashSet<&str> {
    let (mut settled, mut unknown) = (HashSet::new(), Vec::new());
    for (kind, payload) in events {
        match (kind.as_str(), payload["call_id"].as_str()) {
            ("hook_call_result", Some(id)) if payload["unknown"] == true => unknown.push(id),
            ("hook_call_result", Some(id)) => drop(settled.insert(id)),
            ("step_completed", _) => settled.extend(unknown.drain(..)),
            _ => {}
        }
    }
    settled
}
