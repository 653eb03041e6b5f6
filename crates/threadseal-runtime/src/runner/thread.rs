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
use super::cycle::{Course, Cycle, End};
use super::desk::Desk;
use super::edges;
use super::engine::{Engine, Order, Ran};
use super::hooks::{AtDesk, Reflexes, ThreadCallees};
use super::orchestrator::OrchestratorTool;
use super::prepare::{Inherited, Plan};
use super::recovery::Configured;
use super::resume::Predecessor;
use super::returning::Returning;
use super::summary::{Preferring, SummaryTool};
use super::walker::GraphTools;
use crate::bounds::{MAX_ID_ATTEMPTS, POLL_INTERVAL};
use crate::hook_control::Scope;
use crate::journal::{Journal, Origin};
use crate::limit::Cost;
use crate::model::{ChatMessage, sealed};
use crate::money::Nanos;
use crate::process_id::ProcessId;
use crate::project::ThreadFolder;
use crate::registry::{NewThread, Origin as Descent};
use crate::signed_file::SignedFile;
use crate::status::Status;
use crate::thread_meta::{ThreadMeta, capabilities_file};
use crate::toolbox::{Cancel, Parentage, Tool, Toolbox};
use serde_json::{Value, json};
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
pub(super) struct Start<'p> {
    /// The conversation; its last message is what the model is asked first.
    pub(super) messages: Vec<ChatMessage>,
    /// How many of them come from the predecessor.
    pub(super) inherited: usize,
    /// Who started it.
    pub(super) parent: Option<ParentThread<'p>>,
    /// Whom it continues.
    pub(super) predecessor: Option<Predecessor>,
}

impl<'p> Start<'p> {
    /// A thread that begins with its directive's prompt.
    fn afresh(plan: &Plan, parent: Option<ParentThread<'p>>) -> Self {
        Self {
            messages: vec![ChatMessage::User(plan.prompt.clone())],
            inherited: 0,
            parent,
            predecessor: None,
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

    /// Checks `order` under what a parent left, lets `start` say what the thread begins with, and runs it.
    pub(super) fn run_with<'p>(
        &self,
        order: &Order,
        inherited: Option<&Inherited>,
        start: impl FnOnce(&mut Plan) -> Result<Start<'p>, Error>,
    ) -> Result<Ran, Error> {
        self.begin_with(order, inherited, start)?.run()
    }

    /// As [`Engine::run_with`], up to where the model is first asked.
    fn begin_with<'p>(
        &self,
        order: &Order,
        inherited: Option<&Inherited>,
        start: impl FnOnce(&mut Plan) -> Result<Start<'p>, Error>,
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
        let start = start(&mut plan)?;
        plan.tools.children(&children);
        let thread = self.begin(plan, start)?;
        for cradle in [cradle, helpers] {
            cradle.belongs_to(&thread.id, thread.plan.inheritance());
        }
        graphs.belongs_to(&thread.id, thread.plan.inheritance());
        summary.belongs_to(&thread.id, thread.plan.tools.capabilities().clone());
        Ok(Begun {
            thread,
            children,
            cancel,
            brood,
            desk,
        })
    }

    /// The same, with the models that the settings name for summaries.
    fn summarising(&self) -> Self {
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
        plan.limits.spend = Some(self.set_aside(&id, parent, plan.limits.spend, created_at)?);
        let folder = self.project.thread(&id);
        self.project.inside(&*self.host.fs, folder.path())?;
        atomic::create_directories(&*self.host.fs, folder.path(), FOLDER_MODE)?;
        let capabilities = self.write_capabilities(&plan.tools, &folder)?;
        let mut manifest = self.manifest(&plan, record)?;
        manifest.meta = in_line_1(&json!({
            "capabilities_sha256": capabilities.to_hex(),
            "inherited_messages": start.inherited,
            "inputs": plan.inputs,
        }))?;
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
        let mut predecessor = start.predecessor;
        if let Some(predecessor) = &mut predecessor {
            manifest.parent = predecessor.parent();
            manifest.predecessor = Some(predecessor.hand_on(&id, record)?);
        }
        let keys = self.keys.clone();
        let journal = Journal::begin(&self.host, &folder, id.clone(), manifest, keys, origin)?;
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
        let continues = predecessor.as_ref().map(|before| before.id().clone());
        if let Some(predecessor) = predecessor {
            self.registry.link(predecessor.id(), &id, now)?;
            predecessor.settle(self)?;
        }
        Ok(Running {
            engine: self.clone(),
            messages: start.messages,
            continues,
            id,
            plan,
            journal,
            files,
        })
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
    thread: Running,
    /// The tool by which it starts others.
    children: Arc<dyn Tool>,
    cancel: Cancel,
    brood: Arc<Brood>,
    desk: Desk,
}

impl Begun {
    /// Which thread it is.
    pub(super) fn id(&self) -> &ThreadId {
        &self.thread.id
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub(super) fn run(mut self) -> Result<Ran, Error> {
        let (engine, desk) = (&self.thread.engine, self.desk.window());
        let attendant = engine.attend(&self.thread.id, &self.cancel, desk);
        let beside = Beside {
            cancel: &self.cancel,
            brood: &self.brood,
            desk: &self.desk,
            children: &self.children,
        };
        let ran = self.thread.run(&beside);
        drop(attendant);
        ran
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
struct Running {
    engine: Engine,
    messages: Vec<ChatMessage>,
    /// Whom it goes on from.
    continues: Option<ThreadId>,
    id: ThreadId,
    plan: Plan,
    journal: Journal,
    files: Files,
}

impl Running {
    fn run(&mut self, beside: &Beside<'_>) -> Result<Ran, Error> {
        let mut cost = Cost::default();
        match self.live(beside, &mut cost) {
            Ok(end) => self.finish(end, cost),
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
        let opened = edges::open(plan, continues, &reflexes, &mut record, &mut self.messages)?;
        let mut course = Course {
            messages: std::mem::take(&mut self.messages),
            cost: Cost::default(),
            own: Nanos::ZERO,
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
        };
        let mut around = Account {
            engine,
            id,
            prices: plan.chosen.prices,
            brood,
            files: &mut self.files,
        };
        let ran = match opened {
            Some(end) => Ok(end),
            None => cycle.run(&mut course, journal, &mut around),
        };
        let completed = matches!(ran, Ok(End::Completed { .. }));
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
    fn finish(&mut self, end: End, cost: Cost) -> Result<Ran, Error> {
        let (ending, status, more) = match &end {
            End::Completed { .. } => (Ending::Completed, Status::Completed, json!({})),
            End::Failed(why) => (Ending::Error, Status::Error, json!({"error": why})),
            End::Cancelled => (
                Ending::Cancelled,
                Status::Cancelled,
                json!({"reason": "cancelled"}),
            ),
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
        };
        let ran = Ran {
            thread: self.id.clone(),
            status,
            text,
            outputs,
            error,
            cost,
            head,
        };
        self.settle(&ran)?;
        Ok(ran)
    }

    fn settle(&mut self, ran: &Ran) -> Result<(), Error> {
        let engine = &self.engine;
        self.files.meta.status = ran.status;
        self.files.meta.cost = Some(ran.cost);
        self.files.meta.outputs.clone_from(&ran.outputs);
        self.files.write(engine)?;
        self.files.write_entry(engine, &self.journal)?;
        let now = engine.host.clock.now()?;
        engine.registry.set_cost(&self.id, &ran.cost, now)?;
        engine.registry.set_result(&self.id, &ran.to_json(), now)?;
        if ran.status.is_terminal() {
            engine.budgets.release(&self.id, ran.status, now)?;
        }
        engine
            .registry
            .set_status(&self.id, Some(Status::Running), ran.status, now)
            .map(drop)
    }
}

/// A value of the runtime as line 1 holds values: in the spelling in which it is written, members sorted.
pub(super) fn in_line_1(value: &Value) -> Result<json::Value, Error> {
    Ok(json::parse(&python::rye(&sealed(value)?))?)
}
