//! Continues a thread that ended, on request: by resuming it, or by handing it over.
//!
//! ```text
//! end of the chain ─► ended or suspended? ─► lock
//!   ─► the whole chain, its files and its parent verified
//!   ─► directive, inputs, model, limits under the parent's as for any thread
//!   ─► conversation, continuation prompt
//!   ─► successor exists ─► link sealed in the old record ─► registry, budget, thread.json
//! ```
//! A successor of a resumed thread gets the whole conversation; one of a handed-over thread gets
//! the part that fits (`context::trim`). Until the successor is made nothing is written: a refusal
//! changes nothing. Limits begin anew.
//!
//! Seed 001, "User-Driven Resumption", "Automatic Handoff"; seed 000 §4, "Integration with
//! resume/handoff".

use super::continuation::{Given, given_inputs, with_unresolved};
use super::handoff;
use super::held_record;
use super::lifecycle::{Origin, Prepared};
use super::order::{Fixed, Order, Ran, ResumeMode, Resumption};
use super::parent::Inherited;
use super::recap;
use super::rye_thread;
use super::services::Services;
use super::starter::Starter;
use super::succession::{Ended, preview, resumable};
use super::thread::{ThreadRun, ThreadStart};
use crate::history::{Archive, VerifiedChain, VerifiedThread};
use crate::item::ItemId;
use serde_json::{Value, json};
use threadseal_core::error::Error;
use threadseal_core::record::{Head, ThreadId};
use threadseal_formats::transcript::Link;
use threadseal_store::recorder::Recorder;

/// A thread or a run that may be continued, by its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resumable {
    /// The thread at which the chain ends.
    pub(crate) last: ThreadId,
    /// The seal with which its record ends.
    pub(crate) head: Head,
    /// Its directive or graph.
    pub(crate) item: ItemId,
}

/// The thread at which the chain of `thread` ends, if records and registry permit
/// `Engine::resume` to continue it. Takes no lock and writes nothing.
///
/// # Errors
/// As `Engine::resume`.
pub(crate) fn may_go_on_from(archive: &Archive<'_>, thread: &ThreadId) -> Result<Resumable, Error> {
    let last = resumable(archive.registry, thread)?.id;
    if archive.is_original(&last)? {
        let text =
            format!("{last} is a thread of Rye: it can only be continued where its files are");
        return Err(Error::refused(text));
    }
    let chain = archive.chain(&last)?;
    leads_on(&chain, thread)?;
    Ok(Resumable {
        head: chain.last().record().head(),
        item: directive_of(&chain)?,
        last,
    })
}

/// May the last of these threads be continued, and does `thread` lead to it?
fn leads_on(chain: &VerifiedChain, thread: &ThreadId) -> Result<(), Error> {
    may_go_on(chain.last())?;
    match chain.has(thread) {
        true => Ok(()),
        false => Err(Error::refused(format!(
            "the records of {} do not lead to {thread}",
            chain.last().record().id()
        ))),
    }
}

/// Continues a thread that ended or was suspended; under an order of a database only as that fixes
/// it. `unasked`: how often in a row no person asked.
///
/// # Errors
/// As `Engine::resume`.
pub(super) fn resume(
    services: &Services,
    starter: Starter,
    wanted: &Resumption,
    way: ResumeMode,
    fixed: Option<&Fixed>,
    unasked: u64,
) -> Result<Ran, Error> {
    let last = resumable(&*services.registry, &wanted.thread)?;
    if fixed.is_none() && services.archive().is_original(&last.id)? {
        return rye_thread::resume(services, starter, wanted, &last.id);
    }
    let recorder = held_record::hold(services, &last.id)?;
    let chain = services.archive().chain(&last.id)?;
    if Some(&chain.last().record().head()) != recorder.state().head() {
        return Err(Error::refused(format!(
            "the record of {} changed while it was verified",
            last.id
        )));
    }
    leads_on(&chain, &wanted.thread)?;
    if let Some(fixed) = fixed {
        fixed.continues(&chain.last().record().head())?;
    }
    let services = services.for_successor(chain.last().record().manifest());
    let order = order_of(&services, &chain, wanted)?;
    let inherited = Inherited::of_chain(&chain);
    let summary = match way {
        ResumeMode::HandOver => {
            recap::summarise(&services, starter, &chain, &wanted.cancel, None)?.0
        }
        ResumeMode::Resume => None,
    };
    let mut prepared = Prepared::<ThreadRun>::new(&services, starter, &order, inherited.as_ref())?;
    let plan = &mut prepared.plan;
    if let Some(fixed) = fixed {
        fixed.bind(plan)?;
    }
    let id = chain.last().record().id().clone();
    let message = match &summary {
        Some(summary) => summary.before(&wanted.message),
        None => wanted.message.clone(),
    };
    let message = match way {
        // The conversation already reports the calls of earlier threads.
        ResumeMode::Resume => with_unresolved(message, &chain.last().record().unresolved()),
        ResumeMode::HandOver => with_unresolved(message, chain.unresolved()),
    };
    let given = Given::of(&services, plan, &chain, way == ResumeMode::HandOver);
    let given = given.ask(&services, plan, &id, &message, summary.as_ref())?;
    let directive = plan.item.as_str();
    let (link, members) = match way {
        ResumeMode::Resume => (
            Link::Resumed,
            json!({"directive": directive, "message_preview": preview(&wanted.message)}),
        ),
        ResumeMode::HandOver => (
            Link::Handoff,
            json!({"directive": directive, "trailing_turns": given.turns}),
        ),
    };
    let origin = Origin {
        parent: None,
        predecessor: Some(Box::new(ended(chain, recorder, link, members)?)),
        record: fixed.map(|fixed| fixed.record),
        unasked,
        notes: given.notes,
    };
    let start = ThreadStart {
        messages: given.messages,
        inherited: given.inherited,
        ..ThreadStart::default()
    };
    handoff::run(prepared.start(origin, start)?)
}

/// The order of the last thread of a chain, by its record.
fn order_of(
    services: &Services,
    chain: &VerifiedChain,
    wanted: &Resumption,
) -> Result<Order, Error> {
    let directive = directive_of(chain)?;
    Ok(Order {
        inputs: given_inputs(services, &directive, chain.last().inputs()?)?,
        directive,
        limits: wanted.limits,
        cancel: wanted.cancel.clone(),
    })
}

/// The directive of the last thread of a chain.
fn directive_of(chain: &VerifiedChain) -> Result<ItemId, Error> {
    let manifest = chain.last().record().manifest();
    let directive = manifest.and_then(|manifest| manifest.directive.as_deref());
    ItemId::parse(directive.ok_or_else(|| Error::refused("the record names no directive"))?)
}

/// The last thread of a chain as a predecessor.
fn ended(
    chain: VerifiedChain,
    recorder: Recorder,
    link: Link,
    members: Value,
) -> Result<Ended, Error> {
    let parent = chain.parent();
    let parent = parent.map(|parent| (parent.id.clone(), parent.head));
    let (thread, _) = chain.into_parts();
    let id = thread.record().id().clone();
    let path = thread.folder().metadata();
    let (_, meta) = thread.into_parts();
    Ok(Ended {
        meta: meta.ok_or_else(|| Error::refused(format!("{id} has no thread.json")))?,
        id,
        recorder,
        path,
        parent,
        link,
        members,
        releases_budget: true,
    })
}

/// Has the record ended its thread, and has the thread no successor? The registry proves neither.
fn may_go_on(thread: &VerifiedThread) -> Result<(), Error> {
    let record = thread.record();
    let id = record.id();
    if record.ended().is_none() {
        let text = format!(
            "the record of {id} does not contain the end of its thread; hint: threadseal thread recover"
        );
        return Err(Error::refused(text));
    }
    match record.successors().first() {
        None => Ok(()),
        Some(successor) => Err(Error::refused(format!(
            "{id} is continued by {}, which the registry does not record",
            successor.thread
        ))),
    }
}
