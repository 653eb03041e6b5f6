//! A thread whose model's window is full hands itself over.
//!
//! ```text
//! context_limit_reached, seal ─► own record, its chain and its parent verified
//!   ─► summary ─► the fitting end of the conversation
//!   ─► successor exists, its line 1 names this seal ─► thread_handoff, sealed
//!   ─► thread_continued, final seal ─► registry, budget, thread.json
//!   ─► the successor runs, within the rest of the limits
//! ```
//! A failure before the link leaves the thread unchanged: it is suspended, and a person may resume
//! it. A person's handoff of a thread that ended is in `resume`.
//!
//! Seed 001, "Automatic Handoff (Continuation)".

use super::continuation::{Given, given_inputs, with_unresolved};
use super::cycle::End;
use super::lifecycle::{Driven, Origin, Prepared};
use super::order::{Order, Ran};
use super::parent::ParentThread;
use super::recap::{self, Recap};
use super::services::{Notice, Services};
use super::succession::{Predecessor, link_to};
use super::thread::{Thread, ThreadRun, ThreadStart};
use crate::history::VerifiedChain;
use crate::status::Status;
use crate::toolbox::Parentage as _;
use serde_json::{Value, json};
use threadseal_core::error::Error;
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_core::time::Timestamp;
use threadseal_formats::transcript::{Ending, Link};

/// The message that a successor gets.
const GO_ON: &str =
    "The model's window was full. Go on with the directive where the conversation above ends.";

enum HandedOver {
    /// The thread that continues.
    To(Box<Thread>),
    /// No thread continues: this one waits for a person's decision.
    Refused(Box<Ran>),
}

/// Runs a thread to its end; if it hands itself over, to the end of the last one.
///
/// # Errors
/// As `Engine::run`.
pub(super) fn run(mut thread: Thread) -> Result<Ran, Error> {
    loop {
        let end = match thread.drive()? {
            Driven::Ended(ran) => return Ok(*ran),
            Driven::HandsOver(end) => end,
        };
        match hand_over(&mut thread, end)? {
            HandedOver::To(next) => thread = *next,
            HandedOver::Refused(ran) => return Ok(*ran),
        }
    }
}

/// Hands the thread over, or suspends it where no thread may continue.
///
/// # Errors
/// When nothing can be recorded any more, or the successor could not be entered everywhere.
fn hand_over(thread: &mut Thread, end: End) -> Result<HandedOver, Error> {
    // Events that hooks recorded since are handed over, too: they are read from sealed bytes.
    thread.run.journal.seal()?;
    let mut linked = false;
    let refused = match successor(thread, &mut linked) {
        Ok(next) => {
            let notice = Notice::HandedOver(&next.run.id);
            thread.services.announce(&thread.run.id, notice);
            return Ok(HandedOver::To(Box::new(next)));
        }
        Err(error) if linked => return Err(error),
        Err(error) => error,
    };
    let why = refused.to_string();
    let notice = Notice::HandoffRefused(&why);
    thread.services.announce(&thread.run.id, notice);
    let why = json!({ "error": why });
    thread.run.journal.event("handoff_refused", &why)?;
    let mut ran = thread.finish(end)?;
    ran.error = Some(format!("the thread cannot hand itself over: {refused}"));
    Ok(HandedOver::Refused(Box::new(ran)))
}

/// The successor of this thread, linked.
fn successor(thread: &mut Thread, linked: &mut bool) -> Result<Thread, Error> {
    let services = thread.services.clone();
    let old = &thread.run;
    let chain = services.archive().chain(&old.id)?;
    if old.journal.head() != Some(&chain.last().record().head()) {
        return Err(Error::refused(format!(
            "the record of {} is not the one that this process writes",
            old.id
        )));
    }
    let parent = chain
        .parent()
        .map(|parent| (parent.id.clone(), parent.head));
    let next = Order {
        directive: old.plan.item.clone(),
        inputs: given_inputs(&services, &old.plan.item, old.plan.inputs.clone())?,
        limits: old.plan.limits,
        cancel: thread.helpers.asked.clone(),
    };
    // Before a summary costs anything.
    let (starter, inherited) = (thread.helpers.starter, thread.inherited.as_ref());
    let mut prepared = Prepared::<ThreadRun>::new(&services, starter, &next, inherited)?;
    let summary = summary_of(thread, &chain)?;
    let old = &mut thread.run;
    let plan = &mut prepared.plan;
    let message = summary
        .as_ref()
        .map_or(GO_ON.to_owned(), |summary| summary.before(GO_ON));
    // The part of the conversation about them may be cut off.
    let message = with_unresolved(message, chain.unresolved());
    let given = Given::of(&services, plan, &chain, true);
    let given = given.ask(&services, plan, &old.id, &message, summary.as_ref())?;
    let start = ThreadStart {
        messages: given.messages,
        inherited: given.inherited,
        carried: old.start.carried.and(&old.cost),
        handed: true,
    };
    let origin = Origin {
        parent: None,
        record: None,
        unasked: chain.last().record().times_unasked()?,
        notes: given.notes,
        predecessor: Some(Box::new(Live {
            turns: given.turns,
            old,
            parent,
            linked,
        })),
    };
    prepared.start(origin, start)
}

/// The summary, by a child of the thread: its parent's limits and money count.
fn summary_of(thread: &mut Thread, chain: &VerifiedChain) -> Result<Option<Recap>, Error> {
    let (old, helpers) = (&mut thread.run, &thread.helpers);
    let inherited = old.inheritance();
    let ledger = old.journal.ledger()?;
    let parent = ParentThread {
        id: &old.id,
        inherited: &inherited,
        record: &mut old.journal,
        ledger,
    };
    let (services, cancel) = (&thread.services, &helpers.cancel);
    let (summary, ran) = recap::summarise(services, helpers.starter, chain, cancel, Some(parent))?;
    if let Some(ran) = ran {
        let spend = ran.total().spend;
        helpers.children.begun();
        helpers.children.ended(spend);
        old.cost.spend = old.cost.spend.saturating_add(spend);
        old.cost.spawns += 1;
        old.journal
            .child_ended(&ran.thread, ran.status.as_str(), &ran.head)?;
        old.journal.seal()?;
    }
    Ok(summary)
}

/// A running thread that hands itself over.
struct Live<'a> {
    old: &'a mut ThreadRun,
    parent: Option<(ThreadId, Option<Head>)>,
    turns: u64,
    linked: &'a mut bool,
}

impl Predecessor for Live<'_> {
    fn id(&self) -> &ThreadId {
        &self.old.id
    }

    fn head(&self) -> Option<Head> {
        self.old.journal.head().copied()
    }

    fn parent(&self) -> Option<Head> {
        self.parent.as_ref().and_then(|(_, head)| *head)
    }

    fn parent_thread(&self) -> Option<&ThreadId> {
        self.parent.as_ref().map(|(id, _)| id)
    }

    fn funds(&self) -> bool {
        true
    }

    fn link(&mut self, successor: &ThreadId, record: RecordId) -> Result<(), Error> {
        let old = &mut *self.old;
        let members = json!({"directive": old.plan.item.as_str(), "trailing_turns": self.turns});
        let (_, ext) = link_to(successor, record, &members)?;
        let mut payload = json!({"new_thread_id": successor.as_str()});
        if let (Value::Object(payload), Value::Object(members)) = (&mut payload, members) {
            payload.extend(members);
        }
        // A half-written record is no state to continue from.
        *self.linked = true;
        old.journal.link(Link::Handoff, &payload, ext)?;
        let more = json!({"new_thread_id": successor.as_str()});
        old.journal
            .end(Ending::Continued, &old.cost, more)
            .map(drop)
    }

    fn settle(
        &mut self,
        services: &Services,
        successor: &ThreadId,
        now: Timestamp,
    ) -> Result<(), Error> {
        let old = &mut *self.old;
        services.registry.set_cost(&old.id, &old.cost, now)?;
        services.registry.link(&old.id, successor, now)?;
        services.budgets.transfer(&old.id, successor, now)?;
        old.files.meta.status = Status::Continued;
        old.files.meta.cost = Some(old.cost);
        old.files.write(services)?;
        old.files.write_entry(services, &old.journal)
    }
}
