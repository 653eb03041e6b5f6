//! Continues a thread of Rye, to whose record nothing may be written any more.
//!
//! ```text
//! transcript of Rye ─► verified? ─► its thread.json and capabilities.md, if they exist
//!     ─► parent's thread.json
//!   resume   ─► a successor with its conversation
//!   adopt    ─► a thread of ours with its conversation and its end:
//!               from now on it is resumed as any other
//! line 1 names the seal up to which it was verified;
//! event thread_adopted lists verified and unverified parts
//! ```
//! Rye never seals the end of a thread. `thread_completed` follows the last checkpoint, so that no
//! finished thread verifies to its end. Resuming takes threads that do verify. Adopting also takes
//! a record whose tail contains only such an end. Any other tail is refused, or, with
//! `transcript_integrity: lenient`, taken and marked.
//!
//! Seed 000 §4; seed 001, "User-Driven Resumption".

use super::continuation::Given;
use super::cycle::End;
use super::handoff;
use super::lifecycle::{Origin, Prepared};
use super::order::{Fixed, Order, Ran, Resumption};
use super::parent::Inherited;
use super::services::Services;
use super::starter::Starter;
use super::succession::Predecessor;
use super::thread::{ThreadRun, ThreadStart};
use crate::config::coordination::Integrity;
use crate::history::{Archive, VerifiedChain, VerifiedRecord};
use crate::item::ItemId;
use crate::limit::Limits;
use crate::model::ChatMessage;
use crate::registry::{NewThread, Origin as Descent};
use crate::status::Status;
use crate::thread_meta::{ThreadMeta, TrustedMeta};
use crate::toolbox::Cancel;
use serde_json::{Map, Value, json};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_core::report::Verdict;
use threadseal_core::time::Timestamp;
use threadseal_formats::transcript::event::is_terminal;

/// Events that Rye's hooks write when a thread is over, beside the end.
const AT_THE_END: [&str; 1] = ["checkpoint_saved"];

/// A thread of Rye to bring in.
#[derive(Debug, Clone)]
pub struct Adoption {
    /// Which thread.
    pub thread: ThreadId,
    /// The directive that it runs, where no thread.json names it.
    pub directive: Option<ItemId>,
    /// Its inputs: Rye does not record them.
    pub inputs: Map<String, Value>,
    /// Stops it.
    pub cancel: Cancel,
}

/// A thread of Rye that verified as far as it is taken.
struct Original {
    chain: VerifiedChain,
    directive: ItemId,
    inherited: Option<(ThreadId, Inherited)>,
    status: Status,
    /// The facts about it for the new record.
    facts: Value,
}

/// A thread of Rye that may be adopted.
#[derive(Debug)]
pub(crate) struct Adoptable {
    /// The directive that it runs.
    pub(crate) directive: ItemId,
    /// The seal with which its record ends.
    pub(crate) head: Head,
}

/// Would [`adopt`] take it? Writes nothing.
///
/// # Errors
/// As [`adopt`].
pub(super) fn check(services: &Services, wanted: &Adoption) -> Result<Adoptable, Error> {
    let original = adoptable(services, wanted)?;
    Ok(Adoptable {
        head: original.chain.last().record().head(),
        directive: original.directive,
    })
}

/// Brings a finished thread of Rye in: as a thread of ours that has its conversation and its
/// end.
///
/// # Errors
/// Kind `Refused` when it is no such thread, has not ended, does not verify except for its end, or
/// is not what an order fixed: nothing is changed then. Otherwise as `Engine::run`.
pub(super) fn adopt(
    services: &Services,
    starter: Starter,
    wanted: &Adoption,
    fixed: Option<&Fixed>,
) -> Result<Ran, Error> {
    let original = adoptable(services, wanted)?;
    let order = Order {
        directive: original.directive.clone(),
        inputs: wanted.inputs.clone(),
        limits: Limits::default(),
        cancel: wanted.cancel.clone(),
    };
    let mut prepared = original.prepare(services, starter, &order)?;
    if let Some(fixed) = fixed {
        fixed.continues(&original.chain.last().record().head())?;
        fixed.bind(&mut prepared.plan)?;
    }
    let end = original.end();
    let given = Given::of(services, &prepared.plan, &original.chain, false);
    let (mut origin, start) = original.start(given);
    origin.record = fixed.map(|fixed| fixed.record);
    prepared.start(origin, start)?.finish(end)
}

fn adoptable(services: &Services, wanted: &Adoption) -> Result<Original, Error> {
    if !services.archive().is_original(&wanted.thread)? {
        return Err(Error::refused(format!(
            "{} is a ThreadSeal thread: it is resumed without adoption",
            wanted.thread
        )));
    }
    original(services, &wanted.thread, wanted.directive.as_ref(), true)
}

/// Resumes a thread of Rye that verifies to its end.
///
/// # Errors
/// As `Engine::resume`.
pub(super) fn resume(
    services: &Services,
    starter: Starter,
    wanted: &Resumption,
    id: &ThreadId,
) -> Result<Ran, Error> {
    let original = original(services, id, None, false)?;
    let order = Order {
        directive: original.directive.clone(),
        inputs: Map::new(),
        limits: wanted.limits,
        cancel: wanted.cancel.clone(),
    };
    let mut prepared = original.prepare(services, starter, &order)?;
    let plan = &mut prepared.plan;
    let given = Given::of(services, plan, &original.chain, false);
    let given = given.ask(services, plan, id, &wanted.message, None)?;
    let (origin, start) = original.start(given);
    handoff::run(prepared.start(origin, start)?)
}

/// Verifies a thread of Rye. `adopting`: its end may follow its last seal.
fn original(
    services: &Services,
    id: &ThreadId,
    directive: Option<&ItemId>,
    adopting: bool,
) -> Result<Original, Error> {
    let lenient = services.config.coordination.transcript_integrity == Integrity::Lenient;
    let tolerant = Archive {
        integrity: Integrity::Lenient,
        ..services.archive()
    };
    let strict = Archive {
        integrity: Integrity::Strict,
        ..services.archive()
    };
    let chain = match adopting || lenient {
        true => tolerant.chain(id)?,
        false => strict.chain(id).map_err(|error| {
            let text = format!(
                "{error}; hint: to adopt a finished thread of Rye: threadseal thread adopt"
            );
            Error::new(error.kind(), text)
        })?,
    };
    let record = chain.last().record();
    let tail = tail_of(record)?;
    if tail.says_more && !lenient {
        return Err(Error::refused(format!(
            "{} is {}: the bytes after its last seal contain more than the thread's end",
            record.path().display(),
            record.report().verdict
        )));
    }
    let row = services.registry.get(id)?;
    if let Some(row) = &row {
        let status = row.standing()?;
        if !status.is_resumable() || row.continuation.is_some() {
            return Err(Error::refused(format!(
                "{id} is {status}: it cannot be continued"
            )));
        }
    }
    let meta = chain.last().meta().map(TrustedMeta::get);
    let status = meta
        .map(|meta| meta.status)
        .or(record.ended())
        .or(tail.ended);
    let status = status.filter(|status| status.is_resumable());
    let status =
        status.ok_or_else(|| Error::refused(format!("nothing shows that {id} has ended")))?;
    let named = match (meta, directive) {
        (Some(meta), Some(given)) if meta.directive != given.as_str() => {
            return Err(Error::refused(format!(
                "{id} runs {}, not {given}, according to its thread.json",
                meta.directive
            )));
        }
        (Some(meta), _) => ItemId::parse(&meta.directive)?,
        (None, Some(given)) => given.clone(),
        (None, None) => {
            return Err(Error::refused(format!(
                "no thread.json names the directive of {id}; hint: threadseal thread adopt --directive"
            )));
        }
    };
    let parent = row.and_then(|row| row.parent);
    Ok(Original {
        facts: facts(record, &tail, &chain),
        inherited: parent
            .map(|parent| left_by(services, &parent))
            .transpose()?,
        directive: named,
        status,
        chain,
    })
}

/// The inheritance from a parent of Rye, by its signed thread.json: Rye's records do not name
/// the parent of a thread.
fn left_by(services: &Services, parent: &str) -> Result<(ThreadId, Inherited), Error> {
    let id = ThreadId::parse(parent)?;
    let folder = services.project.find_thread(&*services.host.fs, &id)?;
    let folder = folder.ok_or_else(|| Error::refused(format!("{id} has no files here")))?;
    let meta = ThreadMeta::read(&services.host, &folder, &id, None, &services.trust)?;
    let left = Inherited {
        limits: meta.get().limits,
        capabilities: meta.get().capabilities.clone(),
    };
    Ok((id, left))
}

impl Original {
    fn prepare(
        &self,
        services: &Services,
        starter: Starter,
        order: &Order,
    ) -> Result<Prepared<ThreadRun>, Error> {
        let inherited = self.inherited.as_ref().map(|(_, left)| left);
        Prepared::new(services, starter, order, inherited)
    }

    fn start(self, mut given: Given) -> (Origin<'static>, ThreadStart) {
        given.notes.insert(0, ("thread_adopted", self.facts));
        let record = self.chain.last().record();
        let origin = Origin {
            parent: None,
            record: None,
            unasked: 0,
            notes: given.notes,
            predecessor: Some(Box::new(Foreign {
                id: record.id().clone(),
                head: record.head(),
                directive: self.directive.as_str().to_owned(),
                parent: self.inherited.map(|(id, _)| id),
                status: self.status,
            })),
        };
        let start = ThreadStart {
            messages: given.messages,
            inherited: given.inherited,
            ..ThreadStart::default()
        };
        (origin, start)
    }

    /// The end of a thread that ends as this one did.
    fn end(&self) -> End {
        match self.status {
            Status::Completed | Status::CompletedWithErrors => {
                let said = self.chain.messages().iter().rev();
                let mut said = said.filter_map(|message| match message {
                    ChatMessage::Assistant { text, .. } => Some(text.clone()),
                    _ => None,
                });
                let meta = self.chain.last().meta();
                End::Completed {
                    text: said.next().unwrap_or_default(),
                    outputs: meta.and_then(|meta| meta.get().outputs.clone()),
                }
            }
            Status::Cancelled | Status::Killed => End::Cancelled,
            status => End::Failed(format!("the original ended as {status}")),
        }
    }
}

/// A thread of Rye: its record stays unchanged.
struct Foreign {
    id: ThreadId,
    head: Head,
    directive: String,
    parent: Option<ThreadId>,
    status: Status,
}

impl Predecessor for Foreign {
    fn id(&self) -> &ThreadId {
        &self.id
    }

    fn head(&self) -> Option<Head> {
        Some(self.head)
    }

    fn parent(&self) -> Option<Head> {
        None
    }

    fn parent_thread(&self) -> Option<&ThreadId> {
        self.parent.as_ref()
    }

    fn enroll(&self, services: &Services, now: Timestamp) -> Result<(), Error> {
        if services.registry.get(&self.id)?.is_some() {
            return Ok(());
        }
        let new = NewThread {
            id: &self.id,
            directive: &self.directive,
            origin: Descent::Root,
            model: None,
            record: None,
            process: None,
            most_running: None,
        };
        services.registry.create(&new, now)?;
        services
            .registry
            .set_status(&self.id, None, Status::Running, now)?;
        services
            .registry
            .set_status(&self.id, None, self.status, now)
            .map(drop)
    }

    fn link(&mut self, _: &ThreadId, _: RecordId) -> Result<(), Error> {
        Ok(())
    }

    fn settle(
        &mut self,
        services: &Services,
        successor: &ThreadId,
        now: Timestamp,
    ) -> Result<(), Error> {
        services.registry.link(&self.id, successor, now)
    }
}

/// The events after the last seal of a record of Rye.
struct Tail {
    events: Vec<String>,
    ended: Option<Status>,
    /// Is there anything but the end of a thread?
    says_more: bool,
}

fn tail_of(record: &VerifiedRecord) -> Result<Tail, Error> {
    let mut tail = Tail {
        events: Vec::new(),
        ended: None,
        says_more: false,
    };
    let bytes = record.tail();
    let torn = !bytes.is_empty() && !bytes.ends_with(b"\n");
    for line in bytes.split(|byte| *byte == b'\n') {
        if line.is_empty() {
            continue;
        }
        let event: Option<Value> = serde_json::from_slice(line).ok();
        let kind = event
            .as_ref()
            .and_then(|event| event["event_type"].as_str());
        let own = event
            .as_ref()
            .is_some_and(|event| event["thread_id"] == record.id().as_str());
        match kind {
            Some(kind) if own && is_terminal(kind) => {
                tail.ended = Some(match kind {
                    "thread_completed" => Status::Completed,
                    "thread_cancelled" => Status::Cancelled,
                    _ => Status::Error,
                });
                tail.events.push(kind.to_owned());
            }
            Some(kind) if own && AT_THE_END.contains(&kind) => tail.events.push(kind.to_owned()),
            Some(kind) => {
                tail.says_more = true;
                tail.events.push(kind.to_owned());
            }
            None => {
                return Err(Error::refused(format!(
                    "{} is {}: a line after its last seal is not an event",
                    record.path().display(),
                    record.report().verdict
                )));
            }
        }
    }
    if torn {
        return Err(Error::refused(format!(
            "{} is {}: its last line was cut off",
            record.path().display(),
            record.report().verdict
        )));
    }
    Ok(tail)
}

/// The payload of `thread_adopted`.
fn facts(record: &VerifiedRecord, tail: &Tail, chain: &VerifiedChain) -> Value {
    let report = record.report();
    let signers: Vec<&str> = report
        .signers
        .iter()
        .map(|signer| signer.key.as_str())
        .collect();
    let head = record.head();
    let papers = match chain.last().meta() {
        Some(_) => "verified",
        None => "absent",
    };
    let mut unverified = json!({
        "bytes": record.tail().len(),
        "sha256": Digest::of(record.tail()).to_hex(),
        "events": tail.events,
        "taken": record.unverified_bytes() > 0 && tail.says_more,
    });
    if record.tail().is_empty() {
        unverified = Value::Null;
    }
    json!({
        "thread_id": record.id().as_str(),
        "format": "rye",
        "verdict": report.verdict,
        "head": head.to_string(),
        "signers": signers,
        "thread_json": papers,
        "verified": {"bytes": head.size},
        "unverified": unverified,
        "end_sealed": record.ended().is_some() && report.verdict == Verdict::Verified,
        "inputs": "as given by whoever adopted it",
    })
}
