//! A thread that runs: its first event after seal 0, its loop, and the hooks of its end.

use super::super::account::{Account, Files};
use super::super::children::Children;
use super::super::cycle::{Course, Cycle, End};
use super::super::engine::Engine;
use super::super::hooks::{HookRunner, ThreadCallees, ThreadHookRecord};
use super::super::lifecycle_hooks;
use super::super::prepare::{Inherited, Plan};
use super::super::record_writer::RecordWriter;
use super::super::recovery::Configured;
use super::super::returning::Returning;
use super::super::succession::Predecessor;
use super::Went;
use crate::bounds::POLL_INTERVAL;
use crate::context::{Counter, Meter};
use crate::hook_control::Scope;
use crate::journal::Journal;
use crate::limit::{Cost, Limits};
use crate::model::{ChatMessage, Usage};
use crate::money::Nanos;
use crate::toolbox::{Cancel, Tool};
use serde_json::json;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_core::record::{RecordId, ThreadId};

/// The helpers of a thread that runs.
pub(super) struct Beside<'a> {
    pub(super) cancel: &'a Cancel,
    pub(super) children: &'a Children,
    pub(super) writer: &'a RecordWriter,
    pub(super) child_tool: &'a Arc<dyn Tool>,
}

pub(in crate::runner) struct ThreadRun {
    pub(in crate::runner) engine: Engine,
    pub(in crate::runner) messages: Vec<ChatMessage>,
    /// The thread that it continues.
    pub(in crate::runner) continues: Option<ThreadId>,
    pub(in crate::runner) id: ThreadId,
    pub(in crate::runner) plan: Plan,
    pub(in crate::runner) journal: Journal,
    pub(in crate::runner) files: Files,
    /// The use of the threads that handed themselves over to it.
    pub(in crate::runner) carried: Cost,
    /// Its own use, once its loop is over.
    pub(in crate::runner) cost: Cost,
    pub(in crate::runner) handed: bool,
    pub(in crate::runner) inherited: usize,
    pub(in crate::runner) warnings: Vec<String>,
    /// Its use before this process took it over.
    pub(in crate::runner) before: Cost,
    /// Calls of before that do not begin again ([`Cycle::unresolved`]).
    pub(in crate::runner) unresolved: HashSet<String>,
    /// The text for the model about them.
    pub(in crate::runner) note: Option<String>,
}

impl ThreadRun {
    /// The inheritance of its children: without the spawns and time that its chain has spent, and
    /// the time of other workers.
    pub(in crate::runner) fn inheritance(&self) -> Inherited {
        let mut left = self.plan.inheritance();
        let Limits {
            spawns,
            duration_seconds: time,
            ..
        } = &mut left.limits;
        *spawns = spawns.map(|spawns| spawns.saturating_sub(self.carried.spawns));
        let gone = self.carried.elapsed.saturating_add(self.before.elapsed);
        let seconds = gone.as_secs() + u64::from(gone.subsec_nanos() > 0);
        *time = time.map(|time| time.saturating_sub(seconds));
        left
    }

    /// Has the predecessor's record name this one, and lets all else follow.
    pub(super) fn follow(
        &mut self,
        predecessor: &mut (dyn Predecessor + '_),
        record: RecordId,
    ) -> Result<(), Error> {
        predecessor.link(&self.id, record)?;
        let now = self.engine.host.clock.now()?;
        predecessor.settle(&self.engine, &self.id, now)
    }

    pub(super) fn run(&mut self, beside: &Beside<'_>) -> Result<Went, Error> {
        let mut cost = Cost::default();
        let lived = self.live(beside, &mut cost);
        self.cost = cost;
        match lived {
            Ok(End::Full(fill)) => Ok(Went::Full(fill)),
            Ok(end) => Ok(Went::Ended(Box::new(self.finish(end, cost)?))),
            Err(error) => {
                // The record may still take an end; if not, the thread is to be recovered.
                let _ = self.finish(End::Failed(error.to_string()), cost);
                Err(error)
            }
        }
    }

    /// From the first event after seal 0 to the hooks of the end. `cost` is its use, also after an
    /// error.
    fn live(&mut self, beside: &Beside<'_>, cost: &mut Cost) -> Result<End, Error> {
        let (engine, plan, id) = (&self.engine, &self.plan, &self.id);
        let (cancel, children, writer) = (beside.cancel, beside.children, beside.writer);
        let callees = ThreadCallees {
            engine,
            tools: &plan.tools,
            child: beside.child_tool,
        };
        let hook_runner = HookRunner {
            hooks: &plan.hooks,
            callees: &callees,
            scope: Scope::Thread,
            thread: id.as_str(),
            clock: &*engine.host.clock,
            cancel,
            facts: lifecycle_hooks::facts(plan, id, self.continues.as_ref()),
        };
        let journal = &mut self.journal;
        let continues = self.continues.is_some();
        let mut record = ThreadHookRecord {
            journal: &mut *journal,
            writer,
        };
        // When a thread is taken over after its first request, the record contains its first
        // message.
        let opened = match self.before.turns {
            0 => lifecycle_hooks::open(
                plan,
                continues,
                &hook_runner,
                &mut record,
                &mut self.messages,
            )?,
            _ => None,
        };
        self.messages
            .extend(self.note.take().map(ChatMessage::User));
        let mut course = Course {
            messages: std::mem::take(&mut self.messages),
            cost: self.before,
            carried: self.carried,
            own: self.before.spend,
            began: engine.host.clock.elapsed(),
            before: self.before.elapsed,
        };
        let system = plan.layers.system_prompt();
        let cycle = Cycle {
            thread: id.as_str(),
            clock: &*engine.host.clock,
            model: &*plan.chosen.model,
            max_output_tokens: plan.chosen.max_output_tokens,
            system: system.as_deref(),
            tools: &plan.tools,
            returning: Returning(&plan.directive),
            limits: plan.limits,
            cancel,
            recovery: &Configured::new(&engine.config),
            writer,
            hook_runner: &hook_runner,
            fence: engine.host.heads.fence(),
            unresolved: &self.unresolved,
        };
        let mut around = Account {
            engine,
            id,
            prices: plan.chosen.prices,
            children,
            files: &mut self.files,
            meter: Meter::new(
                Counter::of_model(plan.chosen.model.name()),
                plan.chosen.context_window,
                engine.config.coordination.trigger_threshold,
                system.as_deref(),
                &plan.tools.schemas(),
            ),
        };
        // A resumed thread may begin with more than fits; one that was handed over takes a turn
        // first.
        let resumed = self.inherited > 0 && !self.handed && opened.is_none();
        let first = resumed.then(|| around.meter.full(&course.messages, &Usage::default()));
        let ran = match (opened, first.flatten()) {
            (Some(end), _) => Ok(end),
            (None, Some(fill)) => {
                // A successor must receive the question that was due.
                let asked = course.messages.last().map_or("", ChatMessage::text);
                journal.event("cognition_in", &json!({"text": asked, "role": "user"}))?;
                cycle.filled(fill, &course, journal)
            }
            (None, None) => cycle.run(&mut course, journal, &mut around),
        };
        let completed = matches!(ran, Ok(End::Completed { .. } | End::Full(_)));
        let limit = plan.limits.duration_seconds.map(Duration::from_secs);
        let spent = || {
            let own = course.elapsed(&*engine.host.clock);
            course.carried.elapsed.saturating_add(own)
        };
        let late = || limit.is_some_and(|limit| spent() > limit);
        // Its record ends after those of its children. Their work was requested, unless the thread
        // failed.
        let wait = |journal: &mut Journal| {
            while children.is_busy() {
                if !completed || late() {
                    children.cancel().set();
                }
                writer.serve_for(POLL_INTERVAL, journal);
            }
            writer.serve(journal);
            children.spent()
        };
        let total = |own: Nanos, (spent, spawns): (Nanos, u64), cost: &mut Cost| {
            cost.spend = own.saturating_add(spent);
            cost.spawns = spawns;
        };
        *cost = course.cost;
        total(course.own, wait(journal), cost);
        let end = ran?;
        let mut record = ThreadHookRecord {
            journal: &mut *journal,
            writer,
        };
        let most = lifecycle_hooks::time_of_end(plan.limits.duration_seconds, spent());
        let closed = lifecycle_hooks::close(&end, cost, most, &hook_runner, &mut record);
        // Work that hooks began counts, too, and ends before the thread.
        total(course.own, wait(journal), cost);
        closed.map(|()| end)
    }
}
