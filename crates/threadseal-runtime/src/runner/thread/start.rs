//! The files of a thread, from the registry's row to seal 0 and the files beside it.
//!
//! Order: row, budget, folder, capabilities.md, line 1, thread.json. A failure on the way leaves a
//! row that records it.

use super::super::account::Files;
use super::super::cycle::End;
use super::super::engine::Engine;
use super::super::prepare::Plan;
use super::{Start, ThreadRun};
use crate::journal::{Journal, Origin};
use crate::limit::Cost;
use crate::model::sealed;
use crate::money::Nanos;
use crate::process_id::ProcessId;
use crate::project::{ProjectId, ThreadFolder};
use crate::project_id;
use crate::registry::{NewThread, Origin as Descent, create_free};
use crate::signed_file::SignedFile;
use crate::status::Status;
use crate::thread_meta::{ThreadMeta, capabilities_file};
use crate::toolbox::Toolbox;
use serde_json::{Value, json};
use std::collections::HashSet;
use threadseal_core::canon::{json, python};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::record::{RecordId, ThreadId};
use threadseal_core::time::Timestamp;
use threadseal_formats::document::{DocumentKind, ItemType};
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_store::atomic;

/// Permission bits of a thread's folder: only its owner may see the data and actions of an agent.
pub(in crate::runner) const FOLDER_MODE: u32 = 0o700;

impl Engine {
    /// Creates the thread's files.
    pub(super) fn begin(&self, plan: Plan, start: Start<'_>) -> Result<ThreadRun, Error> {
        let project = self.own_project()?;
        let record = self.host.new_record()?;
        let created_at = self.host.clock.now()?;
        if let Some(predecessor) = &start.predecessor {
            predecessor.enroll(self, created_at)?;
        }
        let id = self.register(&plan, &start, record)?;
        let begun = self.begin_as(id.clone(), plan, start, record, created_at, project);
        if begun.is_err() {
            // The first error is the one to report, even if this note fails.
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
        project: ProjectId,
    ) -> Result<ThreadRun, Error> {
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
        manifest.meta = in_line_1(&meta_of(&plan, &start, capabilities, project))?;
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
            unshown: None,
            meta,
            file,
        };
        files.write(self)?;
        let now = self.host.clock.now()?;
        self.registry
            .set_status(&id, Some(Status::Created), Status::Running, now)?;
        let predecessor = start.predecessor;
        let mut running = ThreadRun {
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
            // It is never resumed, for no link names it; it ends all the same.
            let _ = running.finish(End::Failed(error.to_string()), Cost::default());
            return Err(error);
        }
        Ok(running)
    }

    /// Gives the thread its budget: its own limit, for a child at most the rest of its parent's.
    pub(in crate::runner) fn set_aside(
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
        let new = NewThread {
            id: &ThreadId::parse(&plan.directive_id)?,
            directive: &plan.directive_id,
            origin,
            model: Some(plan.chosen.model.name()),
            record: Some(record),
            process: ProcessId::own().map(|own| own.to_row()),
        };
        let now = self.host.clock.now()?;
        let id = create_free(&*self.registry, &plan.directive_id, &new, now)?;
        id.ok_or_else(|| Error::refused("too many threads of this directive begin at this moment"))
    }

    /// The knowledge entry of a thread, which is not there yet.
    pub(in crate::runner) fn entry_of(&self, meta: &ThreadMeta) -> Result<SignedFile, Error> {
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

    pub(in crate::runner) fn write_capabilities(
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
            threadseal_core::limits::MAX_DOCUMENT_BYTES,
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
        manifest.bodies = self.config.coordination.transcript_bodies;
        Ok(manifest)
    }
}

/// The further members of line 1.
fn meta_of(plan: &Plan, start: &Start<'_>, capabilities: Digest, project: ProjectId) -> Value {
    let mut meta = json!({
        "capabilities_sha256": capabilities.to_hex(),
        "inherited_messages": start.inherited,
        "inputs": plan.inputs,
        project_id::MEMBER: project.to_string(),
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

/// The warnings for a person from a record's first events.
fn warnings_of(notes: &[(&'static str, Value)]) -> Vec<String> {
    let told = notes
        .iter()
        .filter(|(kind, _)| *kind != "conversation_opened");
    told.map(|(kind, payload)| format!("{kind}: {payload}"))
        .collect()
}

/// A value of the runtime as line 1 contains values: in its written spelling, members sorted.
pub(in crate::runner) fn in_line_1(value: &Value) -> Result<json::Value, Error> {
    Ok(json::parse(&python::rye(&sealed(value)?))?)
}
