//! [`Lifecycle`]: the phases that a model thread and a graph run share.
//!
//! ```text
//! prepare   helpers, checks ─► Plan                       nothing is written
//! start     registry `created` ─► budget ─► folder ─► capabilities.md ─► line 1, seal 0
//!             ─► thread.json ─► first events ─► registry `running`
//!             ─► of a successor: link in the record before ─► registry, budget, its thread.json
//! drive     requests to cancel are heeded ─► the work of the runnable
//! finish    terminal event, final seal ─► files ─► registry, budget: the end
//! ```
//! To resume is to start with a [`Predecessor`]. A recovery needs no runnable: see `recover`.
//! The record is the truth: files and rows follow it. A thread whose record cannot be written ends
//! at once, at its last recorded event.

use super::accounts::{note_end, set_aside};
use super::derived_files::{DerivedFiles, FOLDER_MODE, new_entry, write_capabilities};
use super::helpers::Helpers;
use super::order::{Fixed, Ran};
use super::parent::{Inherited, ParentThread};
use super::plan::Plan;
use super::record_writer::RecordWriter;
use super::services::Services;
use super::starter::Starter;
use super::stop;
use super::succession::Predecessor;
use crate::history::TIMES_UNASKED;
use crate::journal::{Journal, Origin as LedgerOrigin};
use crate::left_file::LeftFile;
use crate::model::sealed;
use crate::process_id::ProcessId;
use crate::project_id;
use crate::registry::{NewThread, Origin as Descent, create_free};
use crate::signed_file::SignedFile;
use crate::status::Status;
use crate::thread_meta::ThreadMeta;
use crate::toolbox::Cancel;
use serde_json::{Map, Value};
use std::sync::Arc;
use threadseal_core::canon::{json as strict, python};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::record::{RecordId, ThreadId};
use threadseal_core::time::Timestamp;
use threadseal_formats::document::DocumentKind;
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_store::atomic;

/// The steps in which a thread and a graph run differ.
pub(super) trait Runnable: Sized {
    type Order;
    /// The part of the plan that only it has.
    type Subject;
    /// Its state at the beginning.
    type Start;
    type End;

    /// The refusal where no id is free.
    const NO_ID: &'static str;

    fn cancel(order: &Self::Order) -> &Cancel;

    /// Checks an order.
    ///
    /// # Errors
    /// Kind `InvalidInput` or `Refused`, with what to change.
    fn prepare(
        services: &Services,
        order: &Self::Order,
        parent: Option<&Inherited>,
        helpers: &Helpers,
    ) -> Result<Plan<Self::Subject>, Error>;

    /// The first part of its id; milliseconds follow.
    fn name(plan: &Plan<Self::Subject>) -> String;

    fn model(plan: &Plan<Self::Subject>) -> Option<&str>;

    /// Its own members of line 1.
    fn line_1(plan: &Plan<Self::Subject>, start: &Self::Start) -> Map<String, Value>;

    /// Writes the first events after seal 0.
    ///
    /// # Errors
    /// When they cannot be recorded.
    fn open(
        begun: BegunRecord,
        plan: Plan<Self::Subject>,
        start: Self::Start,
        notes: &[(&'static str, Value)],
        helpers: &Helpers,
    ) -> Result<Self, Error>;

    fn id(&self) -> &ThreadId;

    fn files(&mut self) -> &mut DerivedFiles;

    /// The step ledger as this process leaves it.
    fn ledger(&self) -> LeftFile;

    /// Writes the events that were requested meanwhile.
    fn serve(&mut self, writer: &RecordWriter);

    /// Gives the helpers their owner.
    fn own(&self, helpers: &Helpers);

    /// Works to an end.
    ///
    /// # Errors
    /// When nothing can be recorded any more.
    fn work(&mut self, helpers: &mut Helpers) -> Result<Self::End, Error>;

    /// Does another thread continue after this end?
    fn hands_over(_end: &Self::End) -> bool {
        false
    }

    fn failed(why: String) -> Self::End;

    /// Writes the terminal event and the final seal.
    ///
    /// # Errors
    /// When they cannot be written.
    fn end(&mut self, end: Self::End) -> Result<Ran, Error>;

    /// Writes the files that must exist before the registry shows the end.
    ///
    /// # Errors
    /// When one cannot be written.
    fn write_files(&mut self, ran: &Ran) -> Result<(), Error>;

    /// Writes the files that may follow after it, and adds warnings.
    ///
    /// # Errors
    /// When one cannot be written.
    fn write_last_files(&mut self, _ran: &mut Ran) -> Result<(), Error> {
        Ok(())
    }
}

/// Where a thread comes from.
#[derive(Default)]
pub(super) struct Origin<'p> {
    pub(super) parent: Option<ParentThread<'p>>,
    pub(super) predecessor: Option<Box<dyn Predecessor + 'p>>,
    /// Its record, where an order of a database fixes it.
    pub(super) record: Option<RecordId>,
    /// How often in a row its chain was resumed unasked; 0 where a person asks.
    pub(super) unasked: u64,
    /// The first events of its record.
    pub(super) notes: Vec<(&'static str, Value)>,
}

impl<'p> Origin<'p> {
    pub(super) fn under(parent: ParentThread<'p>) -> Self {
        Self {
            parent: Some(parent),
            ..Self::default()
        }
    }

    /// A thread that an order of a database begins.
    pub(super) fn fixed(fixed: &Fixed) -> Self {
        Self {
            record: Some(fixed.record),
            ..Self::default()
        }
    }
}

/// A record that has its line 1 and seal 0.
pub(super) struct BegunRecord {
    pub(super) services: Services,
    pub(super) id: ThreadId,
    pub(super) journal: Journal,
    pub(super) files: DerivedFiles,
    /// The thread whose child this one is, or its predecessor was.
    pub(super) parent: Option<ThreadId>,
    pub(super) predecessor: Option<ThreadId>,
}

/// An order that was admitted.
pub(super) struct Prepared<R: Runnable> {
    pub(super) services: Services,
    pub(super) helpers: Helpers,
    pub(super) plan: Plan<R::Subject>,
    pub(super) inherited: Option<Inherited>,
}

/// A thread or a graph run that has begun.
pub(super) struct Lifecycle<R> {
    pub(super) services: Services,
    pub(super) run: R,
    pub(super) helpers: Helpers,
    /// Its inheritance from its parent, which its successor inherits too.
    pub(super) inherited: Option<Inherited>,
}

pub(super) enum Driven<E> {
    /// It has ended or is suspended.
    Ended(Box<Ran>),
    /// Another thread shall continue.
    HandsOver(E),
}

/// The identity of a thread that is being made.
struct ThreadIdentity {
    id: ThreadId,
    record: RecordId,
    created_at: Timestamp,
    project: String,
}

impl<R: Runnable> Prepared<R> {
    /// Checks `order` under a parent's inheritance.
    ///
    /// # Errors
    /// Kind `InvalidInput` or `Refused`, with what to change.
    pub(super) fn new(
        services: &Services,
        starter: Starter,
        order: &R::Order,
        inherited: Option<&Inherited>,
    ) -> Result<Self, Error> {
        let helpers = Helpers::new(services, starter, R::cancel(order));
        let plan = R::prepare(services, order, inherited, &helpers)?;
        Ok(Self {
            services: services.clone(),
            helpers,
            plan,
            inherited: inherited.cloned(),
        })
    }

    /// Creates its record and its files.
    ///
    /// # Errors
    /// When that fails. The registry's row then has the status `error`.
    pub(super) fn start(self, origin: Origin<'_>, start: R::Start) -> Result<Lifecycle<R>, Error> {
        let services = self.services.clone();
        let project = services.own_project()?.to_string();
        let record = match origin.record {
            Some(record) => unused(&services, record)?,
            None => services.host.new_record()?,
        };
        let created_at = services.host.clock.now()?;
        if let Some(predecessor) = &origin.predecessor {
            predecessor.enroll(&services, created_at)?;
        }
        let id = register::<R>(&services, &self.plan, &origin, record)?;
        let made = ThreadIdentity {
            id: id.clone(),
            record,
            created_at,
            project,
        };
        let started = self.start_as(made, origin, start);
        if started.is_err() {
            // The first error is the one to report, even if this note fails.
            let created = Some(Status::Created);
            let _ = services
                .registry
                .set_status(&id, created, Status::Error, created_at);
            let _ = services.budgets.release(&id, Status::Error, created_at);
        }
        started
    }

    fn start_as(
        mut self,
        made: ThreadIdentity,
        mut origin: Origin<'_>,
        start: R::Start,
    ) -> Result<Lifecycle<R>, Error> {
        let services = &self.services;
        let (id, created_at) = (made.id.clone(), made.created_at);
        let parent = origin.parent.as_ref().map(|parent| parent.id);
        let predecessor = origin.predecessor.as_deref();
        if !predecessor.is_some_and(Predecessor::funds) {
            let limit = (self.plan.limits.spend, self.plan.declares_spend);
            self.plan.limits.spend = Some(set_aside(services, &id, parent, limit, created_at)?);
        }
        let plan = &self.plan;
        let parent = parent.or_else(|| predecessor?.parent_thread()).cloned();
        let folder = services.project.thread(&id);
        services.project.inside(&*services.host.fs, folder.path())?;
        atomic::create_directories(&*services.host.fs, folder.path(), FOLDER_MODE)?;
        let capabilities = write_capabilities(services, &plan.tools, &folder)?;
        let mut manifest = manifest::<R>(services, plan, made.record)?;
        let mut line_1 = R::line_1(plan, &start);
        for (name, value) in [
            ("capabilities_sha256", capabilities.to_hex().into()),
            ("inputs", Value::Object(plan.inputs.clone())),
            (project_id::MEMBER, made.project.into()),
        ] {
            line_1.insert(name.to_owned(), value);
        }
        if let Some(predecessor) = predecessor {
            let id = predecessor.id().as_str().into();
            line_1.insert("predecessor_thread".to_owned(), id);
        }
        if origin.unasked > 0 {
            line_1.insert(TIMES_UNASKED.to_owned(), origin.unasked.into());
        }
        if let Some(parent) = &parent {
            line_1.insert("parent_thread".to_owned(), parent.as_str().into());
        }
        manifest.meta = in_line_1(&Value::Object(line_1))?;
        let mut ledger = LedgerOrigin {
            directive_sha256: Some(plan.sha256),
            inputs_sha256: Some(Digest::of(
                Value::Object(plan.inputs.clone()).to_string().as_bytes(),
            )),
            parent: None,
        };
        if let Some(parent) = origin.parent.take() {
            let begun = parent
                .record
                .child_begins(&id, &made.record, plan.item.as_str())?;
            manifest.parent = Some(begun);
            ledger.parent = Some(parent.ledger);
        }
        if let Some(predecessor) = predecessor {
            manifest.parent = predecessor.parent();
            manifest.predecessor = predecessor.head();
        }
        let keys = services.keys.clone();
        let journal = Journal::begin(&services.host, &folder, id.clone(), manifest, keys, ledger)?;
        let meta = ThreadMeta {
            thread_id: id.clone(),
            directive: plan.item.as_str().to_owned(),
            status: Status::Running,
            created_at,
            updated_at: created_at,
            model: R::model(plan).map(str::to_owned),
            limits: plan.limits,
            capabilities: plan.tools.capabilities().clone(),
            cost: None,
            outputs: None,
        };
        let path = folder.metadata();
        let mut begun = BegunRecord {
            services: services.clone(),
            files: DerivedFiles {
                file: SignedFile::new(&services.host, &path, DocumentKind::Json, None)?,
                entry: new_entry(services, &meta)?,
                meta,
                unshown: None,
            },
            journal,
            parent,
            predecessor: predecessor.map(|predecessor| predecessor.id().clone()),
            id,
        };
        // Each later seal of the record shows that this file must be there.
        begun.files.write(services)?;
        let run = R::open(begun, self.plan, start, &origin.notes, &self.helpers)?;
        let now = services.host.clock.now()?;
        services
            .registry
            .set_status(run.id(), Some(Status::Created), Status::Running, now)?;
        let mut started = Lifecycle::of(self.services, run, self.helpers, self.inherited);
        if let Some(mut predecessor) = origin.predecessor
            && let Err(error) = started.follow(&mut *predecessor, made.record)
        {
            // It is never resumed, for no link names it; it ends all the same.
            let _ = started.finish(R::failed(error.to_string()));
            return Err(error);
        }
        Ok(started)
    }
}

impl<R: Runnable> Lifecycle<R> {
    /// A thread that has begun, with its helpers.
    pub(super) fn of(
        services: Services,
        run: R,
        helpers: Helpers,
        inherited: Option<Inherited>,
    ) -> Self {
        run.own(&helpers);
        Self {
            services,
            run,
            helpers,
            inherited,
        }
    }

    /// Has the predecessor's record name this one, and lets all else follow.
    fn follow(
        &mut self,
        predecessor: &mut (dyn Predecessor + '_),
        record: RecordId,
    ) -> Result<(), Error> {
        let id = self.run.id();
        predecessor.link(id, record)?;
        let now = self.services.host.clock.now()?;
        predecessor.settle(&self.services, id, now)
    }

    /// Works to an end, and writes it unless another thread shall continue.
    ///
    /// # Errors
    /// When the record could not be written to its end.
    pub(super) fn drive(&mut self) -> Result<Driven<R::End>, Error> {
        let begun = self.begin_places();
        let (id, helpers) = (self.run.id(), &self.helpers);
        let (writer, places) = (helpers.writer.handle(), Arc::clone(&helpers.places));
        let attendant = stop::attend(&self.services, id, &helpers.asked, writer, places);
        let driven = match begun.and_then(|()| self.run.work(&mut self.helpers)) {
            Ok(end) if R::hands_over(&end) => Ok(Driven::HandsOver(end)),
            Ok(end) => self.finish(end).map(|ran| Driven::Ended(Box::new(ran))),
            Err(error) => {
                // The record may still take an end; if not, the thread is to be recovered.
                let _ = self.finish(R::failed(error.to_string()));
                Err(error)
            }
        };
        drop(attendant);
        driven
    }

    /// From here on a change of what it leaves outside of its record is noticed.
    fn begin_places(&mut self) -> Result<(), Error> {
        let (id, ledger) = (self.run.id().clone(), self.run.ledger());
        let files = self.run.files();
        let (began, meta) = (files.meta.created_at, files.file.left());
        self.helpers.places.begin(&id, began, meta, ledger)
    }

    /// Works to its end, also where another thread would continue.
    ///
    /// # Errors
    /// As [`Lifecycle::drive`].
    pub(super) fn run(mut self) -> Result<Ran, Error> {
        match self.drive()? {
            Driven::Ended(ran) => Ok(*ran),
            Driven::HandsOver(end) => self.finish(end),
        }
    }

    /// Writes its end: record first, then the files and rows derived from it.
    ///
    /// # Errors
    /// When one of them cannot be written.
    pub(super) fn finish(&mut self, end: R::End) -> Result<Ran, Error> {
        self.helpers.places.look();
        self.run.serve(&self.helpers.writer);
        let mut ran = self.run.end(end)?;
        // The record has its end: what changed since is only announced.
        self.helpers.places.close();
        let meta = &mut self.run.files().meta;
        meta.status = ran.status;
        meta.outputs.clone_from(&ran.outputs);
        self.run.write_files(&ran)?;
        note_end(&self.services, &ran)?;
        self.run.write_last_files(&mut ran)?;
        Ok(ran)
    }
}

/// The record of an order, if it was never sealed: each order runs once.
fn unused(services: &Services, record: RecordId) -> Result<RecordId, Error> {
    match services.host.heads.fetch(&record)? {
        None => Ok(record),
        Some(_) => Err(Error::refused(format!(
            "the order was carried out before, in record {record}"
        ))),
    }
}

/// Takes an id that is free: `<name>-<milliseconds since 1970>`. (Rye uses seconds, which two runs
/// of a graph may share.)
fn register<R: Runnable>(
    services: &Services,
    plan: &Plan<R::Subject>,
    origin: &Origin<'_>,
    record: RecordId,
) -> Result<ThreadId, Error> {
    let descent = match (&origin.parent, &origin.predecessor) {
        (Some(parent), _) => Descent::Child {
            parent: parent.id,
            max_spawns: parent.inherited.limits.spawns,
        },
        (None, Some(predecessor)) => Descent::Successor {
            of: predecessor.id(),
        },
        (None, None) => Descent::Root,
    };
    let name = R::name(plan);
    let new = NewThread {
        id: &ThreadId::parse(&name)?,
        directive: plan.item.as_str(),
        origin: descent,
        model: R::model(plan),
        record: Some(record),
        process: ProcessId::own().map(|own| own.to_row()),
        most_running: Some(services.config.resilience.max_total_threads),
    };
    let id = create_free(&*services.registry, &name, &new, services.host.clock.now()?)?;
    id.ok_or_else(|| Error::refused(R::NO_ID))
}

fn manifest<R: Runnable>(
    services: &Services,
    plan: &Plan<R::Subject>,
    record: RecordId,
) -> Result<Manifest, Error> {
    let keys = &services.keys;
    let (native, rye) = (*keys.native.public_key(), *keys.rye.public_key());
    let mut manifest = Manifest::new(record, native, rye);
    manifest.directive = Some(plan.item.as_str().to_owned());
    manifest.model = R::model(plan).map(str::to_owned);
    manifest.capabilities = plan.tools.capabilities().to_texts();
    manifest.limits = in_line_1(&plan.limits.to_json())?;
    manifest.bodies = services.config.coordination.transcript_bodies;
    Ok(manifest)
}

/// A value of the runtime as line 1 contains values: in its written spelling, members sorted.
fn in_line_1(value: &Value) -> Result<strict::Value, Error> {
    Ok(strict::parse(&python::rye(&sealed(value)?))?)
}
