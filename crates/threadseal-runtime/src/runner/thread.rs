//! [`ThreadRun`]: a thread that asks a model.

use super::account::Account;
use super::children::ParentEnd;
use super::cycle::{Course, Cycle, End, Given, Pause, at_limit};
use super::derived_files::DerivedFiles;
use super::helpers::Helpers;
use super::hooks::{HookRunner, ThreadCallees, ThreadHookRecord};
use super::lifecycle::{BegunRecord, Lifecycle, Runnable};
use super::lifecycle_hooks;
use super::order::{Order, Ran};
use super::parent::Inherited;
use super::record_writer::RecordWriter;
use super::recovery::Configured;
use super::returning::Returning;
use super::services::{Notice, Services};
use super::thread_plan::{self, Prompted, ThreadPlan};
use crate::bounds::POLL_INTERVAL;
use crate::context::{Counter, Fill, InputBound, Meter, Window};
use crate::hook_control::Scope;
use crate::journal::Journal;
use crate::left_file::LeftFile;
use crate::limit::{Cost, LimitHit, Limits};
use crate::model::{ChatMessage, Usage};
use crate::money::Nanos;
use crate::status::Status;
use crate::toolbox::Cancel;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_formats::transcript::Ending;

pub(super) type Thread = Lifecycle<ThreadRun>;

pub(super) struct ThreadRun {
    pub(super) services: Services,
    pub(super) id: ThreadId,
    pub(super) plan: ThreadPlan,
    pub(super) journal: Journal,
    pub(super) files: DerivedFiles,
    pub(super) start: ThreadStart,
    /// The thread that it continues.
    pub(super) continues: Option<ThreadId>,
    /// Its own use, once its loop is over.
    pub(super) cost: Cost,
    pub(super) warnings: Vec<String>,
    /// What an earlier worker left of it.
    pub(super) taken_over: TakenOver,
}

#[derive(Default)]
pub(super) struct ThreadStart {
    /// The conversation; its last message is the first question to the model.
    pub(super) messages: Vec<ChatMessage>,
    /// How many of them come from the predecessor.
    pub(super) inherited: usize,
    /// The use of the threads that handed themselves over to it, where limits count them.
    pub(super) carried: Cost,
    /// Did a thread hand itself over to it?
    pub(super) handed: bool,
}

impl ThreadStart {
    /// A thread that begins with its directive's prompt.
    pub(super) fn afresh(plan: &ThreadPlan) -> Self {
        Self {
            messages: vec![ChatMessage::User(plan.subject.prompt.clone())],
            ..Self::default()
        }
    }
}

#[derive(Default)]
pub(super) struct TakenOver {
    /// Its use before this process took it over.
    pub(super) cost: Cost,
    /// Calls of before that do not begin again ([`Cycle::unresolved`]).
    pub(super) unresolved: HashSet<String>,
    /// The text for the model about them.
    pub(super) note: Option<String>,
}

impl Runnable for ThreadRun {
    type Order = Order;
    type Subject = Prompted;
    type Start = ThreadStart;
    type End = End;

    const NO_ID: &'static str = "too many threads of this directive begin at this moment";

    fn cancel(order: &Order) -> &Cancel {
        &order.cancel
    }

    fn prepare(
        services: &Services,
        order: &Order,
        parent: Option<&Inherited>,
        helpers: &Helpers,
    ) -> Result<ThreadPlan, Error> {
        thread_plan::prepare(services, order, parent, helpers)
    }

    fn name(plan: &ThreadPlan) -> String {
        plan.item.as_str().to_owned()
    }

    fn model(plan: &ThreadPlan) -> Option<&str> {
        Some(plan.subject.chosen.model.name())
    }

    fn line_1(_: &ThreadPlan, start: &ThreadStart) -> Map<String, Value> {
        let mut own = Map::from_iter([("inherited_messages".to_owned(), start.inherited.into())]);
        if start.carried != Cost::default() {
            own.insert("carried".to_owned(), start.carried.to_json());
        }
        own
    }

    fn open(
        begun: BegunRecord,
        plan: ThreadPlan,
        start: ThreadStart,
        notes: &[(&'static str, Value)],
        _: &Helpers,
    ) -> Result<Self, Error> {
        let mut journal = begun.journal;
        for (kind, payload) in notes {
            journal.event(kind, payload)?;
        }
        let mut warnings = warnings_of(notes);
        let ignored = plan.subject.directive.ignored.iter();
        warnings.extend(ignored.map(|(place, name)| format!("{place}: <{name}> has no effect")));
        let now = begun.services.host.clock.now()?;
        let listed = plan.subject.chosen.listed.as_ref();
        if let Some(listed) = listed.filter(|listed| listed.is_old(now)) {
            let model = plan.subject.chosen.model.name();
            let old = json!({"model": model, "as_of": listed.as_of, "source": listed.source});
            journal.event("prices_old", &old)?;
            warnings.push(format!(
                "the prices of {model} are of {}; hint: --price, or prices in .ai/config/agent/models.yaml",
                listed.as_of
            ));
        }
        Ok(Self {
            services: begun.services,
            id: begun.id,
            plan,
            journal,
            files: begun.files,
            start,
            continues: begun.predecessor,
            cost: Cost::default(),
            warnings,
            taken_over: TakenOver::default(),
        })
    }

    fn id(&self) -> &ThreadId {
        &self.id
    }

    fn files(&mut self) -> &mut DerivedFiles {
        &mut self.files
    }

    fn ledger(&self) -> LeftFile {
        self.journal.ledger_file()
    }

    fn serve(&mut self, writer: &RecordWriter) {
        writer.serve(&mut self.journal);
    }

    fn own(&self, helpers: &Helpers) {
        helpers.belongs_to(&self.id, self.plan.inheritance(), self.inheritance());
        let capabilities = self.plan.tools.capabilities().clone();
        let summary = &self.plan.subject.summary;
        summary.belongs_to(&self.id, capabilities, self.inheritance());
    }

    fn work(&mut self, helpers: &mut Helpers) -> Result<End, Error> {
        let mut cost = Cost::default();
        let end = self.live(helpers, &mut cost);
        self.cost = cost;
        end
    }

    fn hands_over(end: &End) -> bool {
        matches!(end, End::Full(_))
    }

    fn failed(why: String) -> End {
        End::Failed(why)
    }

    fn end(&mut self, end: End) -> Result<Ran, Error> {
        let (ending, status, more) = match &end {
            End::Completed { .. } => (Ending::Completed, Status::Completed, json!({})),
            End::Failed(why) => (Ending::Error, Status::Error, json!({"error": why})),
            End::Cancelled => (
                Ending::Cancelled,
                Status::Cancelled,
                json!({"reason": "cancelled"}),
            ),
            End::Full(fill) => return self.end(no_room(*fill)),
            End::Suspended(pause) => {
                let more = lifecycle_hooks::suspended(pause, &mut self.journal)?;
                (Ending::Suspended, Status::Suspended, more)
            }
            End::LimitReached(reached) => {
                let more = lifecycle_hooks::limit_reached(&reached.hit, &mut self.journal)?;
                (Ending::Suspended, Status::LimitReached, more)
            }
        };
        let head = self.journal.end(ending, &self.cost, more)?;
        if let Some(text) = self.plan.subject.directive.outcome(status) {
            self.services.announce(&self.id, Notice::Outcome(text));
        }
        let (text, outputs, error) = match end {
            End::Completed { text, outputs } => (text, outputs, None),
            End::Failed(why) => (String::new(), None, Some(why)),
            End::Cancelled => (String::new(), None, Some("cancelled".to_owned())),
            End::Suspended(pause) => (String::new(), None, Some(pause.why)),
            End::LimitReached(reached) => {
                (reached.text, reached.outputs, Some(reached.hit.to_string()))
            }
            End::Full(_) => (String::new(), None, None),
        };
        Ok(Ran {
            thread: self.id.clone(),
            status,
            text,
            outputs,
            error,
            cost: self.cost,
            carried: self.start.carried,
            head,
            warnings: self.warnings.clone(),
        })
    }

    fn write_files(&mut self, ran: &Ran) -> Result<(), Error> {
        self.files.meta.cost = Some(ran.cost);
        self.files.write(&self.services)
    }

    fn write_last_files(&mut self, ran: &mut Ran) -> Result<(), Error> {
        self.files.write_entry(&self.services, &self.journal)?;
        ran.warnings.extend(self.files.unshown.take());
        Ok(())
    }
}

impl ThreadRun {
    /// The inheritance of its children: without the spawns and time that its chain has spent, and
    /// the time of other workers.
    pub(super) fn inheritance(&self) -> Inherited {
        let mut left = self.plan.inheritance();
        let Limits {
            spawns,
            duration_seconds: time,
            ..
        } = &mut left.limits;
        let carried = &self.start.carried;
        *spawns = spawns.map(|spawns| spawns.saturating_sub(carried.spawns));
        let gone = carried.elapsed.saturating_add(self.taken_over.cost.elapsed);
        let seconds = gone.as_secs() + u64::from(gone.subsec_nanos() > 0);
        *time = time.map(|time| time.saturating_sub(seconds));
        left
    }

    /// From the first event after seal 0 to the hooks of the end. `cost` is its use, also after an
    /// error.
    fn live(&mut self, helpers: &Helpers, cost: &mut Cost) -> Result<End, Error> {
        let (services, plan, id) = (&self.services, &self.plan, &self.id);
        let (cancel, writer) = (&helpers.cancel, &helpers.writer);
        let began = services.host.clock.elapsed();
        let gone = self.start.carried.elapsed;
        let gone = gone.saturating_add(self.taken_over.cost.elapsed);
        let most = plan.limits.duration_seconds.map(Duration::from_secs);
        let left = most.map(|most| most.saturating_sub(gone));
        helpers.may_take(left, &services.host.clock);
        let children = &*helpers.children;
        let callees = ThreadCallees {
            services,
            tools: &plan.tools,
            child: &helpers.child_tool,
        };
        let hook_runner = HookRunner {
            hooks: &plan.hooks,
            callees: &callees,
            scope: Scope::Thread,
            thread: id.as_str(),
            clock: &*services.host.clock,
            cancel,
            end: &helpers.end,
            secrets: &services.secrets,
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
        let opened = match self.taken_over.cost.turns {
            0 => lifecycle_hooks::open(
                plan,
                continues,
                &hook_runner,
                &mut record,
                &mut self.start.messages,
            )?,
            _ => None,
        };
        self.start
            .messages
            .extend(self.taken_over.note.take().map(ChatMessage::User));
        let mut course = Course {
            messages: std::mem::take(&mut self.start.messages),
            cost: self.taken_over.cost,
            carried: self.start.carried,
            own: self.taken_over.cost.spend,
            began,
            before: self.taken_over.cost.elapsed,
            pressure: 0,
        };
        let system = plan.subject.layers.system_prompt();
        let cycle = Cycle {
            thread: id.as_str(),
            clock: &*services.host.clock,
            model: &*plan.subject.chosen.model,
            max_output_tokens: plan.subject.chosen.max_output_tokens,
            system: system.as_deref(),
            tools: &plan.tools,
            returning: Returning(&plan.subject.directive),
            limits: plan.limits,
            cancel,
            recovery: &Configured::new(&services.config),
            writer,
            hook_runner: &hook_runner,
            fence: services.host.heads.fence(),
            secrets: &services.secrets,
            unresolved: &self.taken_over.unresolved,
        };
        let mut around = Account {
            services,
            id,
            model: &*plan.subject.chosen.model,
            prices: plan.subject.chosen.prices,
            children,
            places: &helpers.places,
            files: &mut self.files,
            meter: Meter::new(
                Counter::of_model(plan.subject.chosen.model.name()),
                plan.subject.chosen.context_window,
                services.config.coordination.trigger_threshold,
                system.as_deref(),
                &plan.tools.schemas(),
            ),
            bound: InputBound::new(Counter::of_model(plan.subject.chosen.model.name())),
            least: services.config.agent.min_output_tokens,
        };
        // A resumed thread may begin with more than fits; one that was handed over takes a turn
        // first.
        let resumed = self.start.inherited > 0 && !self.start.handed && opened.is_none();
        let first = resumed.then(|| around.meter.window(&course.messages, &Usage::default()));
        let ran = match (opened, first) {
            (Some(end), _) => Ok(end),
            (None, Some(Window::Full(fill))) => {
                // A successor must receive the question that was due.
                let asked = course.messages.last().map_or("", ChatMessage::text);
                journal.event("cognition_in", &json!({"text": asked, "role": "user"}))?;
                cycle.filled(fill, &course, journal)
            }
            (None, _) => cycle.run(&mut course, journal, &mut around),
        };
        let parent = match &ran {
            Ok(End::Completed { .. } | End::Full(_)) => ParentEnd::Complete,
            Ok(End::Cancelled) => ParentEnd::Cancel,
            _ => ParentEnd::Error,
        };
        // Its record ends after those of its children.
        let wait = |journal: &mut Journal| {
            while children.is_busy() {
                children.thread_ends(parent);
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
        // The wait for children counts.
        cost.elapsed = course.elapsed(&*services.host.clock);
        let end = cycle.settled(ran?, &course.carried, cost, journal)?;
        let mut record = ThreadHookRecord {
            journal: &mut *journal,
            writer,
        };
        let closed = lifecycle_hooks::close(&end, cost, &hook_runner, &mut record);
        // Work that hooks began counts, too, and ends before the thread.
        total(course.own, wait(journal), cost);
        closed?;
        Ok(match (end, cycle.exceeded(&course.carried, cost)) {
            (End::Completed { text, outputs }, Some(hit)) => {
                at_limit(hit, Given { text, outputs }, None)
            }
            (end, _) => end,
        })
    }
}

/// A window that is full, without a successor.
pub(super) fn no_room(fill: Fill) -> End {
    let hit = LimitHit {
        code: "context_limit_reached",
        current: fill.used.into(),
        max: fill.window.into(),
        needed: None,
    };
    End::Suspended(Box::new(Pause {
        reason: "limit",
        why: hit.to_string(),
        hit: Some(hit),
        escalates: true,
    }))
}

/// The warnings for a person from a record's first events.
pub(super) fn warnings_of(notes: &[(&'static str, Value)]) -> Vec<String> {
    let shown = notes
        .iter()
        .filter(|(kind, _)| *kind != "conversation_opened");
    shown
        .map(|(kind, payload)| format!("{kind}: {payload}"))
        .collect()
}
