//! One thread: its files, from the first to the final seal.
//!
//! ```text
//! registry `created` ─► folder ─► capabilities.md ─► line 1, seal 0 ─► thread.json ─► registry `running`
//!        ─► loop ─► terminal event, final seal ─► thread.json ─► registry: how it ended
//! ```
//! The record is the truth: thread.json and the registry follow it. A thread whose record cannot be written
//! ends at once, as far as it got.

use super::account::{Account, Files};
use super::brood::Brood;
use super::child::{ChildTool, Cradle};
use super::cycle::{Course, Cycle, End, Pause};
use super::desk::Desk;
use super::edges;
use super::engine::{Engine, Order, Ran};
use super::handoff::HandedOver;
use super::hooks::{AtDesk, Reflexes, ThreadCallees};
use super::orchestrator::OrchestratorTool;
use super::prepare::{Inherited, Plan};
use super::recovery::Configured;
use super::returning::Returning;
use super::succession::Predecessor;
use super::summary::{Preferring, SummaryTool};
use super::walker::GraphTools;
use crate::bounds::{MAX_ID_ATTEMPTS, POLL_INTERVAL};
use crate::context::{Counter, Fill, Meter};
use crate::hook_control::Scope;
use crate::journal::{Journal, Origin};
use crate::limit::{Cost, LimitHit};
use crate::model::{ChatMessage, Usage, sealed};
use crate::money::Nanos;
use crate::process_id::ProcessId;
use crate::project::ThreadFolder;
use crate::registry::{NewThread, Origin as Descent};
use crate::signed_file::SignedFile;
use crate::status::Status;
use crate::thread_meta::{ThreadMeta, capabilities_file};
use crate::toolbox::{Cancel, Parentage, Tool, Toolbox};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use threadseal::canon::{json, python};
use threadseal::digest::Digest;
use threadseal::document::{DocumentKind, ItemType};
use threadseal::error::Error;
use threadseal::ledger::Parent;
use threadseal::record::{RecordId, ThreadId};
use threadseal::time::Timestamp;
use threadseal::transcript::Ending;
use threadseal::transcript::manifest::Manifest;
use threadseal_store::atomic;

/// Permission bits of a thread's folder: what an agent saw and did is its owner's business.
pub(super) const FOLDER_MODE: u32 = 0o700;

/// The thread that starts another one.
pub(super) struct ParentThread<'a> {
    pub(super) id: &'a ThreadId,
    pub(super) inherited: &'a Inherited,
    pub(super) record: &'a mut dyn Parentage,
    pub(super) ledger: Parent,
}

/// What a thread begins with.
#[derive(Default)]
pub(super) struct Start<'p> {
    /// The conversation; its last message is what the model is asked first.
    pub(super) messages: Vec<ChatMessage>,
    /// How many of them come from the predecessor.
    pub(super) inherited: usize,
    /// Who started it.
    pub(super) parent: Option<ParentThread<'p>>,
    /// Whom it continues.
    pub(super) predecessor: Option<Box<dyn Predecessor + 'p>>,
    /// What its record says first.
    pub(super) notes: Vec<(&'static str, Value)>,
    /// What the threads used that handed themselves over to it, where limits go on from there.
    pub(super) carried: Cost,
    /// Did a thread hand itself over to it?
    pub(super) handed: bool,
}

impl<'p> Start<'p> {
    /// A thread that begins with its directive's prompt.
    fn afresh(plan: &Plan, parent: Option<ParentThread<'p>>) -> Self {
        Self {
            messages: vec![ChatMessage::User(plan.prompt.clone())],
            parent,
            ..Self::default()
        }
    }
}

impl Engine {
    /// Runs a thread that nobody but the caller started.
    ///
    /// # Errors
    /// Kind `InvalidInput` or `Refused` before anything was written; `External` when the record could not be
    /// written to its end.
    pub fn run(&self, order: &Order) -> Result<Ran, Error> {
        self.run_with(order, None, |plan| Ok(Start::afresh(plan, None)))
    }

    /// Begins the child of `parent`.
    pub(super) fn begin_under(
        &self,
        order: &Order,
        parent: ParentThread<'_>,
    ) -> Result<Begun, Error> {
        let inherited = parent.inherited;
        self.begin_with(order, Some(inherited), |plan| {
            Ok(Start::afresh(plan, Some(parent)))
        })
    }

    /// Checks `order` under what a parent left, lets `start` say what the thread begins with, and runs it; if it hands
    /// itself over, to the end of the last one.
    pub(super) fn run_with<'p>(
        &self,
        order: &Order,
        inherited: Option<&Inherited>,
        start: impl FnOnce(&mut Plan) -> Result<Start<'p>, Error>,
    ) -> Result<Ran, Error> {
        self.begin_with(order, inherited, start)?.run()
    }

    /// As [`Engine::run_with`], up to where the model is first asked.
    pub(super) fn begin_with<'p>(
        &self,
        order: &Order,
        inherited: Option<&Inherited>,
        start: impl FnOnce(&mut Plan) -> Result<Start<'p>, Error>,
    ) -> Result<Begun, Error> {
        self.begin_by(order, inherited, |mut plan| {
            let start = start(&mut plan)?;
            self.begin(plan, start)
        })
    }

    /// Checks `order`, has `make` make a thread of it, and puts beside that what it needs.
    pub(super) fn begin_by(
        &self,
        order: &Order,
        inherited: Option<&Inherited>,
        make: impl FnOnce(Plan) -> Result<Running, Error>,
    ) -> Result<Begun, Error> {
        let cancel = order.cancel.below();
        let (desk, brood) = (Desk::new(), Arc::new(Brood::of(&cancel)));
        let cradle = Cradle::new(self.clone(), Arc::clone(&brood), desk.window());
        let cradle = Arc::new(cradle);
        let children: Arc<dyn Tool> = Arc::new(ChildTool::new(Arc::clone(&cradle)));
        let helpers = Cradle::new(self.summarising(), Arc::clone(&brood), desk.window());
        let helpers = Arc::new(helpers);
        let summary = Arc::new(SummaryTool::new(self.clone(), Arc::clone(&helpers)));
        let orchestrator = OrchestratorTool::new(Arc::clone(&cradle));
        let more: Vec<Arc<dyn Tool>> = vec![
            Arc::clone(&children),
            Arc::clone(&summary) as _,
            Arc::new(orchestrator),
        ];
        let graphs = Arc::new(GraphTools::new(self.clone(), Arc::clone(&brood)));
        let mut plan = self.prepare(order, inherited, more, &graphs)?;
        plan.tools.children(&children);
        let thread = make(plan)?;
        for cradle in [cradle, helpers] {
            cradle.belongs_to(&thread.id, thread.inheritance());
        }
        graphs.belongs_to(&thread.id, thread.plan.inheritance());
        summary.belongs_to(&thread.id, thread.plan.tools.capabilities().clone());
        Ok(Begun {
            thread,
            children,
            cancel,
            brood,
            desk,
            inherited: inherited.cloned(),
        })
    }

    /// The same, with the models that the settings name for summaries.
    pub(super) fn summarising(&self) -> Self {
        let mut engine = self.clone();
        if let Some(name) = &self.config.coordination.summary_model {
            engine.models = Arc::new(Preferring {
                inner: Arc::clone(&self.models),
                name: name.clone(),
            });
        }
        engine
    }

    /// Makes the thread's files.
    fn begin(&self, plan: Plan, start: Start<'_>) -> Result<Running, Error> {
        let record = self.host.new_record()?;
        let created_at = self.host.clock.now()?;
        if let Some(predecessor) = &start.predecessor {
            predecessor.enroll(self, created_at)?;
        }
        let id = self.register(&plan, &start, record)?;
        let begun = self.begin_as(id.clone(), plan, start, record, created_at);
        if begun.is_err() {
            // What went wrong is what to tell, whatever becomes of this note.
            let _ = self
                .registry
                .set_status(&id, Some(Status::Created), Status::Error, created_at);
            let _ = self.budgets.release(&id, Status::Error, created_at);
        }
        begun
    }

    fn begin_as(
        &self,
        id: ThreadId,
        mut plan: Plan,
        start: Start<'_>,
        record: RecordId,
        created_at: Timestamp,
    ) -> Result<Running, Error> {
        let parent = start.parent.as_ref().map(|parent| parent.id);
        let predecessor = start.predecessor.as_ref();
        if !predecessor.is_some_and(|predecessor| predecessor.funds()) {
            plan.limits.spend = Some(self.set_aside(&id, parent, plan.limits.spend, created_at)?);
        }
        let folder = self.project.thread(&id);
        self.project.inside(&*self.host.fs, folder.path())?;
        atomic::create_directories(&*self.host.fs, folder.path(), FOLDER_MODE)?;
        let capabilities = self.write_capabilities(&plan.tools, &folder)?;
        let mut manifest = self.manifest(&plan, record)?;
        manifest.meta = in_line_1(&meta_of(&plan, &start, capabilities))?;
        let mut origin = Origin {
            directive_sha256: Some(plan.directive_sha256),
            inputs_sha256: Some(Digest::of(
                Value::Object(plan.inputs.clone()).to_string().as_bytes(),
            )),
            parent: None,
        };
        if let Some(parent) = start.parent {
            manifest.parent = Some(
                parent
                    .record
                    .child_begins(&id, &record, &plan.directive_id)?,
            );
            origin.parent = Some(parent.ledger);
        }
        if let Some(predecessor) = &start.predecessor {
            manifest.parent = predecessor.parent();
            manifest.predecessor = predecessor.head();
        }
        let keys = self.keys.clone();
        let mut journal = Journal::begin(&self.host, &folder, id.clone(), manifest, keys, origin)?;
        for (kind, payload) in &start.notes {
            journal.event(kind, payload)?;
        }
        let meta = ThreadMeta {
            thread_id: id.clone(),
            directive: plan.directive_id.clone(),
            status: Status::Running,
            created_at,
            updated_at: created_at,
            model: Some(plan.chosen.model.name().to_owned()),
            limits: plan.limits,
            capabilities: plan.tools.capabilities().clone(),
            cost: None,
            outputs: None,
        };
        let file = SignedFile::new(&self.host, &folder.metadata(), DocumentKind::Json, None)?;
        let mut files = Files {
            entry: self.entry_of(&meta)?,
            meta,
            file,
        };
        files.write(self)?;
        let now = self.host.clock.now()?;
        self.registry
            .set_status(&id, Some(Status::Created), Status::Running, now)?;
        let predecessor = start.predecessor;
        let mut running = Running {
            engine: self.clone(),
            messages: start.messages,
            continues: predecessor.as_ref().map(|before| before.id().clone()),
            id,
            plan,
            journal,
            files,
            before: Cost::default(),
            unresolved: HashSet::new(),
            note: None,
            carried: start.carried,
            cost: Cost::default(),
            handed: start.handed,
            inherited: start.inherited,
            warnings: warnings_of(&start.notes),
        };
        if let Some(mut predecessor) = predecessor
            && let Err(error) = running.follow(&mut *predecessor, record)
        {
            // Nobody resumes it, for no link names it; it ends all the same.
            let _ = running.finish(End::Failed(error.to_string()), Cost::default());
            return Err(error);
        }
        Ok(running)
    }

    /// Gives the thread its budget: its own limit, of a child's at most what its parent has left.
    pub(super) fn set_aside(
        &self,
        id: &ThreadId,
        parent: Option<&ThreadId>,
        limit: Option<Nanos>,
        now: Timestamp,
    ) -> Result<Nanos, Error> {
        let limit = limit.unwrap_or(Nanos::MAX);
        let Some(parent) = parent else {
            self.budgets.register(id, limit, now)?;
            return Ok(limit);
        };
        let left = self.budgets.get(parent)?.map(|budget| budget.remaining);
        let amount = limit.min(left.unwrap_or_default());
        if amount == Nanos::ZERO && limit != Nanos::ZERO {
            return Err(Error::refused(
                "spend_exceeded: the parent has no money left",
            ));
        }
        self.budgets.reserve(id, parent, amount, now)?;
        Ok(amount)
    }

    /// Takes an id that is free: `<directive>-<milliseconds since 1970>`.
    fn register(
        &self,
        plan: &Plan,
        start: &Start<'_>,
        record: RecordId,
    ) -> Result<ThreadId, Error> {
        let origin = match (&start.parent, &start.predecessor) {
            (Some(parent), _) => Descent::Child {
                parent: parent.id,
                max_spawns: parent.inherited.limits.spawns,
            },
            (None, Some(predecessor)) => Descent::Successor {
                of: predecessor.id(),
            },
            (None, None) => Descent::Root,
        };
        let first = self.host.clock.now()?.as_micros() / 1000;
        for millis in first..first + MAX_ID_ATTEMPTS {
            let id = ThreadId::parse(&format!("{}-{millis}", plan.directive_id))?;
            if self.registry.get(&id)?.is_some() {
                continue;
            }
            let new = NewThread {
                id: &id,
                directive: &plan.directive_id,
                origin,
                model: Some(plan.chosen.model.name()),
                record: Some(record),
                process: ProcessId::own().map(|own| own.to_row()),
            };
            self.registry.create(&new, self.host.clock.now()?)?;
            return Ok(id);
        }
        Err(Error::refused(
            "too many threads of this directive begin at this moment",
        ))
    }

    /// The knowledge entry of a thread, which is not there yet.
    pub(super) fn entry_of(&self, meta: &ThreadMeta) -> Result<SignedFile, Error> {
        let directive = ThreadId::parse(&meta.directive)?;
        let path = self.project.knowledge_entry(&directive, &meta.thread_id);
        self.project.inside(&*self.host.fs, &path)?;
        if let Some(folder) = path.parent() {
            atomic::create_directories(&*self.host.fs, folder, FOLDER_MODE)?;
        }
        SignedFile::new(
            &self.host,
            &path,
            DocumentKind::Markdown,
            Some(ItemType::Knowledge),
        )
    }

    pub(super) fn write_capabilities(
        &self,
        tools: &Toolbox,
        folder: &ThreadFolder,
    ) -> Result<Digest, Error> {
        let text = capabilities_file(&tools.schemas(), tools.capabilities());
        let path = folder.capabilities();
        let kind = DocumentKind::Markdown;
        let mut file = SignedFile::new(&self.host, &path, kind, Some(ItemType::Knowledge))?;
        file.write(&self.host, &self.keys, None, text.as_bytes())?;
        let bytes = threadseal_store::read::read_small(
            &*self.host.fs,
            &path,
            threadseal::limits::MAX_DOCUMENT_BYTES,
        )?;
        Ok(Digest::of(&bytes))
    }

    fn manifest(&self, plan: &Plan, record: RecordId) -> Result<Manifest, Error> {
        let (native, rye) = (*self.keys.native.public_key(), *self.keys.rye.public_key());
        let mut manifest = Manifest::new(record, native, rye);
        manifest.directive = Some(plan.directive_id.clone());
        manifest.model = Some(plan.chosen.model.name().to_owned());
        manifest.capabilities = plan.tools.capabilities().to_texts();
        manifest.limits = in_line_1(&plan.limits.to_json())?;
        Ok(manifest)
    }
}

/// A thread that has begun, and of which the model was asked nothing yet.
pub(super) struct Begun {
    pub(super) thread: Running,
    /// The tool by which it starts others.
    pub(super) children: Arc<dyn Tool>,
    pub(super) cancel: Cancel,
    pub(super) brood: Arc<Brood>,
    pub(super) desk: Desk,
    /// What its parent left to it, and so to whoever goes on from it.
    pub(super) inherited: Option<Inherited>,
}

/// How a loop went.
enum Went {
    /// The thread has ended or is suspended.
    Ended(Box<Ran>),
    /// The model's window is full: another thread shall go on.
    Full(Fill),
}

impl Begun {
    /// Which thread it is.
    pub(super) fn id(&self) -> &ThreadId {
        &self.thread.id
    }

    /// Runs it to its end; if it hands itself over, to the end of the last one.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub(super) fn run(self) -> Result<Ran, Error> {
        let mut begun = self;
        loop {
            let fill = match begun.run_alone()? {
                Went::Ended(ran) => return Ok(*ran),
                Went::Full(fill) => fill,
            };
            match begun.hand_over(fill)? {
                HandedOver::To(next) => begun = *next,
                HandedOver::Refused(ran) => return Ok(*ran),
            }
        }
    }

    fn run_alone(&mut self) -> Result<Went, Error> {
        let (engine, desk) = (&self.thread.engine, self.desk.window());
        let attendant = engine.attend(&self.thread.id, &self.cancel, desk);
        let beside = Beside {
            cancel: &self.cancel,
            brood: &self.brood,
            desk: &self.desk,
            children: &self.children,
        };
        let went = self.thread.run(&beside);
        drop(attendant);
        went
    }

    /// Ends it at once as `end` says.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub(super) fn end(mut self, end: End) -> Result<Ran, Error> {
        self.thread.finish(end, Cost::default())
    }

    /// Ends it at once.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub(super) fn fail(mut self, why: &str) -> Result<Ran, Error> {
        let end = End::Failed(why.to_owned());
        self.thread.finish(end, Cost::default())
    }
}

/// What a thread that runs has beside it.
struct Beside<'a> {
    cancel: &'a Cancel,
    brood: &'a Brood,
    desk: &'a Desk,
    children: &'a Arc<dyn Tool>,
}

/// A thread that runs.
pub(super) struct Running {
    pub(super) engine: Engine,
    pub(super) messages: Vec<ChatMessage>,
    /// Whom it goes on from.
    pub(super) continues: Option<ThreadId>,
    pub(super) id: ThreadId,
    pub(super) plan: Plan,
    pub(super) journal: Journal,
    pub(super) files: Files,
    /// What the threads used that handed themselves over to it.
    pub(super) carried: Cost,
    /// What it used itself, when its loop is over.
    pub(super) cost: Cost,
    pub(super) handed: bool,
    pub(super) inherited: usize,
    pub(super) warnings: Vec<String>,
    /// What it used before this process took it over.
    pub(super) before: Cost,
    /// Calls of before that do not begin again ([`Cycle::unresolved`]).
    pub(super) unresolved: HashSet<String>,
    /// What the model is told of them.
    pub(super) note: Option<String>,
}

impl Running {
    /// What it leaves to its children; what its chain has spent of the spawns is gone.
    fn inheritance(&self) -> Inherited {
        let mut left = self.plan.inheritance();
        let spawns = &mut left.limits.spawns;
        *spawns = spawns.map(|spawns| spawns.saturating_sub(self.carried.spawns));
        left
    }

    /// Has the predecessor's record name this one, and lets all else follow.
    fn follow(
        &mut self,
        predecessor: &mut (dyn Predecessor + '_),
        record: RecordId,
    ) -> Result<(), Error> {
        predecessor.link(&self.id, record)?;
        let now = self.engine.host.clock.now()?;
        predecessor.settle(&self.engine, &self.id, now)
    }

    fn run(&mut self, beside: &Beside<'_>) -> Result<Went, Error> {
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

    /// From the first event after seal 0 to what hooks do at the end. `cost` is what it used, also after an error.
    fn live(&mut self, beside: &Beside<'_>, cost: &mut Cost) -> Result<End, Error> {
        let (engine, plan, id) = (&self.engine, &self.plan, &self.id);
        let (cancel, brood, desk) = (beside.cancel, beside.brood, beside.desk);
        let callees = ThreadCallees {
            engine,
            tools: &plan.tools,
            child: beside.children,
        };
        let reflexes = Reflexes {
            hooks: &plan.hooks,
            callees: &callees,
            scope: Scope::Thread,
            thread: id.as_str(),
            clock: &*engine.host.clock,
            cancel,
            facts: edges::facts(plan, id, self.continues.as_ref()),
        };
        let journal = &mut self.journal;
        let continues = self.continues.is_some();
        let mut record = AtDesk {
            journal: &mut *journal,
            desk,
        };
        // Whoever takes over a thread that was asked something finds its first message in the record.
        let opened = match self.before.turns {
            0 => edges::open(plan, continues, &reflexes, &mut record, &mut self.messages)?,
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
            desk,
            reflexes: &reflexes,
            fence: engine.host.heads.fence(),
            unresolved: &self.unresolved,
        };
        let mut around = Account {
            engine,
            id,
            prices: plan.chosen.prices,
            brood,
            files: &mut self.files,
            meter: Meter::new(
                Counter::of_model(plan.chosen.model.name()),
                plan.chosen.context_window,
                engine.config.coordination.trigger_threshold,
                system.as_deref(),
                &plan.tools.schemas(),
            ),
        };
        // A resumed thread may begin with more than fits; one that was handed over takes a turn first.
        let resumed = self.inherited > 0 && !self.handed && opened.is_none();
        let first = resumed.then(|| around.meter.full(&course.messages, &Usage::default()));
        let ran = match (opened, first.flatten()) {
            (Some(end), _) => Ok(end),
            (None, Some(fill)) => {
                // Whoever goes on must hear what was to be asked.
                let asked = course.messages.last().map_or("", ChatMessage::text);
                journal.event("cognition_in", &json!({"text": asked, "role": "user"}))?;
                cycle.filled(fill, &course, journal)
            }
            (None, None) => cycle.run(&mut course, journal, &mut around),
        };
        let completed = matches!(ran, Ok(End::Completed { .. } | End::Full(_)));
        let limit = plan.limits.duration_seconds.map(Duration::from_secs);
        let elapsed = || engine.host.clock.elapsed().saturating_sub(course.began);
        let late = || limit.is_some_and(|limit| elapsed() > limit);
        // Its record ends after those of its children. What they do was asked for, unless the thread failed.
        let wait = |journal: &mut Journal| {
            while brood.is_busy() {
                if !completed || late() {
                    brood.cancel().set();
                }
                desk.serve_for(POLL_INTERVAL, journal);
            }
            desk.serve(journal);
            brood.spent()
        };
        let total = |own: Nanos, (spent, spawns): (Nanos, u64), cost: &mut Cost| {
            cost.spend = own.saturating_add(spent);
            cost.spawns = spawns;
        };
        *cost = course.cost;
        total(course.own, wait(journal), cost);
        let end = ran?;
        let mut record = AtDesk {
            journal: &mut *journal,
            desk,
        };
        let closed = edges::close(&end, cost, &reflexes, &mut record);
        // What hooks began counts, too, and ends before the thread.
        total(course.own, wait(journal), cost);
        closed.map(|()| end)
    }

    /// Writes how it ended: record first, then what follows it.
    pub(super) fn finish(&mut self, end: End, cost: Cost) -> Result<Ran, Error> {
        let (ending, status, more) = match &end {
            End::Completed { .. } => (Ending::Completed, Status::Completed, json!({})),
            End::Failed(why) => (Ending::Error, Status::Error, json!({"error": why})),
            End::Cancelled => (
                Ending::Cancelled,
                Status::Cancelled,
                json!({"reason": "cancelled"}),
            ),
            End::Full(fill) => return self.finish(no_room(*fill), cost),
            End::Suspended(pause) => {
                let more = edges::suspended(pause, &mut self.journal)?;
                (Ending::Suspended, Status::Suspended, more)
            }
        };
        let head = self.journal.end(ending, &cost, more)?;
        let (text, outputs, error) = match end {
            End::Completed { text, outputs } => (text, outputs, None),
            End::Failed(why) => (String::new(), None, Some(why)),
            End::Cancelled => (String::new(), None, Some("cancelled".to_owned())),
            End::Suspended(pause) => (String::new(), None, Some(pause.why)),
            End::Full(_) => (String::new(), None, None),
        };
        let ran = Ran {
            thread: self.id.clone(),
            status,
            text,
            outputs,
            error,
            cost,
            carried: self.carried,
            head,
            warnings: self.warnings.clone(),
        };
        self.settle(&ran)?;
        Ok(ran)
    }

    pub(super) fn settle(&mut self, ran: &Ran) -> Result<(), Error> {
        let engine = &self.engine;
        self.files.meta.status = ran.status;
        self.files.meta.cost = Some(ran.cost);
        self.files.meta.outputs.clone_from(&ran.outputs);
        self.files.write(engine)?;
        self.files.write_entry(engine, &self.journal)?;
        engine.note_end(ran)
    }
}

impl Engine {
    /// What budgets and registry say of a thread that has ended.
    pub(super) fn note_end(&self, ran: &Ran) -> Result<(), Error> {
        let (id, now) = (&ran.thread, self.host.clock.now()?);
        self.registry.set_cost(id, &ran.cost, now)?;
        self.registry.set_result(id, &ran.to_json(), now)?;
        if ran.status.is_terminal() && self.budgets.get(id)?.is_some() {
            self.budgets.release(id, ran.status, now)?;
        }
        self.registry
            .set_status(id, Some(Status::Running), ran.status, now)
            .map(drop)
    }
}

/// What line 1 says beside its own members.
fn meta_of(plan: &Plan, start: &Start<'_>, capabilities: Digest) -> Value {
    let mut meta = json!({
        "capabilities_sha256": capabilities.to_hex(),
        "inherited_messages": start.inherited,
        "inputs": plan.inputs,
    });
    let predecessor = start.predecessor.as_ref();
    if let Some(predecessor) = predecessor {
        meta["predecessor_thread"] = predecessor.id().as_str().into();
    }
    let parent = start.parent.as_ref().map(|parent| parent.id);
    if let Some(parent) = parent.or_else(|| predecessor?.parent_thread()) {
        meta["parent_thread"] = parent.as_str().into();
    }
    if start.carried != Cost::default() {
        meta["carried"] = start.carried.to_json();
    }
    meta
}

/// What of a record's first words a person should hear.
fn warnings_of(notes: &[(&'static str, Value)]) -> Vec<String> {
    let told = notes
        .iter()
        .filter(|(kind, _)| *kind != "conversation_opened");
    told.map(|(kind, payload)| format!("{kind}: {payload}"))
        .collect()
}

/// A window that is full, and nobody to go on.
pub(super) fn no_room(fill: Fill) -> End {
    let hit = LimitHit {
        code: "context_limit_reached",
        current: fill.used.into(),
        max: fill.window.into(),
    };
    End::Suspended(Box::new(Pause {
        reason: "limit",
        why: format!("{}: {} of {}", hit.code, hit.current, hit.max),
        hit: Some(hit),
        escalates: true,
    }))
}

/// A value of the runtime as line 1 holds values: in the spelling in which it is written, members sorted.
pub(super) fn in_line_1(value: &Value) -> Result<json::Value, Error> {
    Ok(json::parse(&python::rye(&sealed(value)?))?)
}
