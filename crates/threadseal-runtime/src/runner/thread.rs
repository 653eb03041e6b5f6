//! One thread: its files, from the first to the final seal.
//!
//! ```text
//! registry `created` ─► folder ─► capabilities.md ─► line 1, seal 0 ─► thread.json ─► registry `running`
//!        ─► loop ─► terminal event, final seal ─► thread.json ─► registry: how it ended
//! ```
//! The record is the truth: thread.json and the registry follow it. A thread whose record cannot be written
//! ends at once, as far as it got.

use super::brood::Brood;
use super::child::{ChildTool, Cradle};
use super::cycle::{Course, Cycle, End, Progress, Surroundings};
use super::desk::Desk;
use super::engine::{Engine, Order, Ran};
use super::prepare::{Inherited, Plan};
use super::recovery::Configured;
use super::resume::Predecessor;
use super::returning::Returning;
use crate::bounds::{MAX_ID_ATTEMPTS, POLL_INTERVAL};
use crate::config::models::Prices;
use crate::journal::{Journal, Origin};
use crate::limit::Cost;
use crate::model::{ChatMessage, Usage, sealed};
use crate::money::Nanos;
use crate::process_id::ProcessId;
use crate::project::ThreadFolder;
use crate::registry::{NewThread, Origin as Descent};
use crate::signed_file::SignedFile;
use crate::status::Status;
use crate::thread_meta::{ThreadMeta, capabilities_file};
use crate::toolbox::{Cancel, Parentage};
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
use threadseal::transcript::render::{self, Cover};
use threadseal_store::atomic;

/// Permission bits of a thread's folder: what an agent saw and did is its owner's business.
const FOLDER_MODE: u32 = 0o700;

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
        let children = ChildTool::new(Arc::clone(&cradle));
        let mut plan = self.prepare(order, inherited, vec![Arc::new(children)])?;
        let start = start(&mut plan)?;
        let thread = self.begin(plan, start)?;
        cradle.belongs_to(&thread.id, thread.plan.inheritance());
        Ok(Begun {
            thread,
            cancel,
            brood,
            desk,
        })
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
        let capabilities = self.write_capabilities(&plan, &folder)?;
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
        if let Some(predecessor) = predecessor {
            self.registry.link(predecessor.id(), &id, now)?;
            predecessor.settle(self)?;
        }
        Ok(Running {
            engine: self.clone(),
            messages: start.messages,
            id,
            plan,
            journal,
            files,
        })
    }

    /// Gives the thread its budget: its own limit, of a child's at most what its parent has left.
    fn set_aside(
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
    fn entry_of(&self, meta: &ThreadMeta) -> Result<SignedFile, Error> {
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

    fn write_capabilities(&self, plan: &Plan, folder: &ThreadFolder) -> Result<Digest, Error> {
        let text = capabilities_file(&plan.tools.schemas(), plan.tools.capabilities());
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
        let ran = self.thread.run(&self.cancel, &self.brood, &self.desk);
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

/// A thread that runs.
struct Running {
    engine: Engine,
    messages: Vec<ChatMessage>,
    id: ThreadId,
    plan: Plan,
    journal: Journal,
    files: Files,
}

/// `thread.json` and the knowledge entry, written again and again.
struct Files {
    meta: ThreadMeta,
    file: SignedFile,
    entry: SignedFile,
}

impl Files {
    fn write(&mut self, engine: &Engine) -> Result<(), Error> {
        self.meta.updated_at = engine.host.clock.now()?;
        let bytes = self.meta.to_bytes();
        let thread = Some(&self.meta.thread_id);
        self.file
            .write(&engine.host, &engine.keys, thread, &bytes)
            .map(drop)
    }

    /// Rewrites the thread for readers.
    fn write_entry(&mut self, engine: &Engine, journal: &Journal) -> Result<(), Error> {
        let meta = &self.meta;
        let cost = meta.cost.unwrap_or_default();
        let text = journal.entry(&Cover {
            thread: &meta.thread_id,
            directive: &meta.directive,
            status: meta.status.as_str(),
            model: meta.model.as_deref().unwrap_or_default(),
            cost: render::Cost {
                turns: cost.turns,
                input_tokens: cost.input_tokens,
                output_tokens: cost.output_tokens,
                spend: cost.spend.to_real(),
                elapsed_seconds: cost.elapsed.as_secs_f64(),
            },
            permissions: &meta.capabilities.to_texts(),
        });
        let thread = Some(&meta.thread_id);
        let (host, keys) = (&engine.host, &engine.keys);
        self.entry
            .write(host, keys, thread, text.as_bytes())
            .map(drop)
    }
}

impl Running {
    fn run(&mut self, cancel: &Cancel, brood: &Brood, desk: &Desk) -> Result<Ran, Error> {
        for used in &self.plan.used {
            let used =
                serde_json::to_value(used).map_err(|error| Error::invalid(error.to_string()))?;
            self.journal.event("item_used", &used)?;
        }
        for risk in &self.plan.risks {
            let event = json!({"capability": risk.capability.as_str(), "risk": risk.risk});
            self.journal.event("risk_unacknowledged", &event)?;
        }
        let engine = self.engine.clone();
        let mut course = Course {
            messages: std::mem::take(&mut self.messages),
            cost: Cost::default(),
            own: Nanos::ZERO,
            began: engine.host.clock.elapsed(),
        };
        let cycle = Cycle {
            thread: self.id.as_str(),
            clock: &*engine.host.clock,
            model: &*self.plan.chosen.model,
            max_output_tokens: self.plan.chosen.max_output_tokens,
            system: None,
            tools: &self.plan.tools,
            returning: Returning(&self.plan.directive),
            limits: self.plan.limits,
            cancel,
            recovery: &Configured::new(&engine.config),
            desk,
        };
        let mut around = Account {
            engine: &engine,
            id: &self.id,
            prices: self.plan.chosen.prices,
            brood,
            files: &mut self.files,
        };
        let ran = cycle.run(&mut course, &mut self.journal, &mut around);
        let ended = matches!(ran, Ok(End::Completed { .. }));
        let limit = self.plan.limits.duration_seconds.map(Duration::from_secs);
        let elapsed = || engine.host.clock.elapsed().saturating_sub(course.began);
        let late = || limit.is_some_and(|limit| elapsed() > limit);
        // Its record ends after those of its children. What they do was asked for, unless the thread failed.
        while brood.is_busy() {
            if !ended || late() {
                brood.cancel().set();
            }
            desk.serve_for(POLL_INTERVAL, &mut self.journal);
        }
        desk.serve(&mut self.journal);
        let (children, spawns) = brood.spent();
        course.cost.spend = course.own.saturating_add(children);
        course.cost.spawns = spawns;
        match ran {
            Ok(end) => self.finish(end, course.cost),
            Err(error) => {
                // The record may still take an end; if not, the thread is to be recovered.
                let _ = self.finish(End::Failed(error.to_string()), course.cost);
                Err(error)
            }
        }
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
            End::Suspended(hit) => {
                self.journal
                    .event("limit_escalation_requested", &hit.to_json())?;
                let more = json!({"suspend_reason": "limit", "limit": hit.to_json()});
                (Ending::Suspended, Status::Suspended, more)
            }
        };
        let head = self.journal.end(ending, &cost, more)?;
        let (text, outputs, error) = match end {
            End::Completed { text, outputs } => (text, outputs, None),
            End::Failed(why) => (String::new(), None, Some(why)),
            End::Cancelled => (String::new(), None, Some("cancelled".to_owned())),
            End::Suspended(hit) => (
                String::new(),
                None,
                Some(format!("{}: {} of {}", hit.code, hit.current, hit.max)),
            ),
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

/// What surrounds a thread's loop.
struct Account<'a> {
    engine: &'a Engine,
    id: &'a ThreadId,
    prices: Prices,
    brood: &'a Brood,
    files: &'a mut Files,
}

impl Surroundings for Account<'_> {
    fn charge(&mut self, turn: u64, usage: &Usage) -> Result<Nanos, Error> {
        let amount = self.prices.cost(&usage.tokens());
        let now = self.engine.host.clock.now()?;
        let budgets = &self.engine.budgets;
        budgets.commit(self.id, &format!("turn {turn}"), amount, now)?;
        Ok(amount)
    }

    fn children(&self) -> (Nanos, u64) {
        self.brood.spent()
    }

    fn turn_over(&mut self, journal: &mut Journal, cost: &Cost) -> Result<(), Error> {
        self.files.meta.cost = Some(*cost);
        self.files.write(self.engine)?;
        self.files.write_entry(self.engine, journal)?;
        let now = self.engine.host.clock.now()?;
        self.engine.registry.set_cost(self.id, cost, now)
    }

    fn progress(&mut self, progress: Progress<'_>) {
        self.engine.watch.progress(self.id, progress);
    }
}

/// A value of the runtime as line 1 holds values: in the spelling in which it is written, members sorted.
fn in_line_1(value: &Value) -> Result<json::Value, Error> {
    Ok(json::parse(&python::rye(&sealed(value)?))?)
}
