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

use super::engine::{Engine, Order, Ran};
use super::graph_run::GraphTools;
use super::prepare::Plan;
use super::recap::Recap;
use super::resume::{Given, with_unresolved};
use super::succession::{Predecessor, link_to};
use super::thread::{Begun, ParentThread, Start, ThreadRun, no_room};
use crate::context::Fill;
use crate::history::VerifiedChain;
use crate::item::ItemId;
use crate::model::ChatMessage;
use crate::status::Status;
use crate::toolbox::Parentage as _;
use serde_json::{Value, json};
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_core::time::Timestamp;
use threadseal_formats::transcript::{Ending, Link};

/// The message that a successor gets.
const GO_ON: &str =
    "The model's window was full. Go on with the directive where the conversation above ends.";

pub(super) enum HandedOver {
    /// The thread that continues.
    To(Box<Begun>),
    /// No thread continues: this one waits for a person's decision.
    Refused(Box<Ran>),
}

impl Begun {
    /// Hands the thread over, or suspends it where no thread may continue.
    ///
    /// # Errors
    /// When nothing can be recorded any more, or the successor could not be entered everywhere.
    pub(super) fn hand_over(&mut self, fill: Fill) -> Result<HandedOver, Error> {
        // Events that hooks recorded since are handed over, too: they are read from sealed bytes.
        self.thread.journal.seal()?;
        let mut linked = false;
        let refused = match self.successor(&mut linked) {
            Ok(next) => return Ok(HandedOver::To(Box::new(next))),
            Err(error) if linked => return Err(error),
            Err(error) => error,
        };
        let why = json!({"error": refused.to_string()});
        self.thread.journal.event("handoff_refused", &why)?;
        let cost = self.thread.cost;
        let mut ran = self.thread.finish(no_room(fill), cost)?;
        ran.error = Some(format!("the thread cannot hand itself over: {refused}"));
        Ok(HandedOver::Refused(Box::new(ran)))
    }

    /// The successor of this thread, linked.
    fn successor(&mut self, linked: &mut bool) -> Result<Begun, Error> {
        let engine = self.thread.engine.clone();
        let chain = engine.archive().chain(&self.thread.id)?;
        if self.thread.journal.head() != Some(&chain.last().record().head()) {
            return Err(Error::refused(format!(
                "the record of {} is not the one that this process writes",
                self.thread.id
            )));
        }
        let parent = chain
            .parent()
            .map(|parent| (parent.id.clone(), parent.head));
        let inherited = self.inherited.clone();
        let directive = ItemId::parse(&self.thread.plan.directive_id)?;
        let next = Order {
            inputs: engine.given_inputs(&directive, self.thread.plan.inputs.clone())?,
            directive,
            limits: self.thread.plan.limits,
            cancel: self.cancel.clone(),
        };
        // Before a summary costs anything.
        let graphs = Arc::new(GraphTools::new(engine.clone(), Arc::clone(&self.children)));
        engine.prepare(&next, inherited.as_ref(), Vec::new(), &graphs)?;
        let summary = self.summary_of(&chain)?;
        let old = &mut self.thread;
        let carried = old.carried.and(&old.cost);
        engine.begin_with(&next, inherited.as_ref(), |plan| {
            let given = engine.given_of(plan, &chain, summary.as_ref(), &old.id)?;
            Ok(Start {
                messages: given.messages,
                inherited: given.inherited,
                notes: given.notes,
                carried,
                handed: true,
                predecessor: Some(Box::new(Live {
                    turns: given.turns,
                    old,
                    parent,
                    linked,
                })),
                parent: None,
            })
        })
    }

    /// The summary, by a child of the thread: its parent's limits and money count.
    fn summary_of(&mut self, chain: &VerifiedChain) -> Result<Option<Recap>, Error> {
        let engine = self.thread.engine.clone();
        let old = &mut self.thread;
        let inherited = old.inheritance();
        let ledger = old.journal.ledger()?;
        let parent = ParentThread {
            id: &old.id,
            inherited: &inherited,
            record: &mut old.journal,
            ledger,
        };
        let (summary, ran) = engine.summarise_as(chain, &self.cancel, Some(parent))?;
        if let Some(ran) = ran {
            let spend = ran.total().spend;
            self.children.begun();
            self.children.ended(spend);
            old.cost.spend = old.cost.spend.saturating_add(spend);
            old.cost.spawns += 1;
            old.journal
                .child_ended(&ran.thread, ran.status.as_str(), &ran.head)?;
            old.journal.seal()?;
        }
        Ok(summary)
    }
}

impl Engine {
    /// The conversation for the successor: the part that fits, and the message to continue.
    fn given_of(
        &self,
        plan: &mut Plan,
        chain: &VerifiedChain,
        summary: Option<&Recap>,
        old: &ThreadId,
    ) -> Result<Given, Error> {
        let mut given = Given::of(self, plan, chain, true);
        let message = summary.map_or(GO_ON.to_owned(), |summary| summary.before(GO_ON));
        // The part of the conversation about them may be cut off.
        let message = with_unresolved(message, chain.unresolved());
        let continuation = self.continuation(plan, old, &message)?;
        given.notes.extend(continuation.notes);
        if let Some(summary) = summary {
            summary.note(plan, &mut given.notes);
        }
        given.messages.push(ChatMessage::User(continuation.text));
        Ok(given)
    }
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
        let said = json!({"directive": old.plan.directive_id, "trailing_turns": self.turns});
        let (_, ext) = link_to(successor, record, &said)?;
        let mut payload = json!({"new_thread_id": successor.as_str()});
        if let (Value::Object(payload), Value::Object(said)) = (&mut payload, said) {
            payload.extend(said);
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
        engine: &Engine,
        successor: &ThreadId,
        now: Timestamp,
    ) -> Result<(), Error> {
        let old = &mut *self.old;
        engine.registry.set_cost(&old.id, &old.cost, now)?;
        engine.registry.link(&old.id, successor, now)?;
        engine.budgets.transfer(&old.id, successor, now)?;
        old.files.meta.status = Status::Continued;
        old.files.meta.cost = Some(old.cost);
        old.files.write(engine)?;
        old.files.write_entry(engine, &old.journal)
    }
}
