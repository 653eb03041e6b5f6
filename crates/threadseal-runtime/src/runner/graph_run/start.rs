//! The files of a run, made in the order in which a thread's are.
//!
//! ```text
//! row, budget, folder, capabilities.md ─► line 1, graph_started, settlements, seal
//!   ─► thread.json, `running`
//!   ─► of a successor: the link in the record before ─► registry, its thread.json
//! ```
//! The link is written once the run exists. A failure before it leaves the earlier run unchanged,
//! and a run that no link names is never resumed.

use super::super::children::Children;
use super::super::engine::Engine;
use super::super::thread::{FOLDER_MODE, ParentThread, in_line_1};
use super::files::Files;
use super::prepare::GraphPlan;
use super::resume::Before;
use super::walk::GraphRun;
use crate::graph_journal::GraphJournal;
use crate::graph_state::{Course, Position};
use crate::journal::{Journal, Origin as LedgerOrigin};
use crate::process_id::ProcessId;
use crate::project::ProjectId;
use crate::project_id;
use crate::registry::{NewThread, Origin as Descent, create_free};
use crate::signed_file::SignedFile;
use crate::status::Status;
use crate::thread_meta::ThreadMeta;
use crate::toolbox::Tool;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::record::{RecordId, ThreadId};
use threadseal_core::time::Timestamp;
use threadseal_formats::document::{DocumentKind, ItemType};
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_store::atomic;

/// The word in line 1 that marks the thread as a graph run.
pub(super) const KIND: &str = "graph";

struct Made {
    id: ThreadId,
    record: RecordId,
    created_at: Timestamp,
    project: ProjectId,
}

#[derive(Default)]
pub(super) struct Origin<'p> {
    pub(super) parent: Option<ParentThread<'p>>,
    /// The run that it continues.
    pub(super) before: Option<Before>,
}

impl Engine {
    /// Creates the files of a run.
    pub(super) fn begin_graph(
        &self,
        plan: GraphPlan,
        origin: Origin<'_>,
        child: Arc<dyn Tool>,
        children: Arc<Children>,
    ) -> Result<GraphRun, Error> {
        let project = self.own_project()?;
        let record = self.host.new_record()?;
        let created_at = self.host.clock.now()?;
        let id = self.register_graph(&plan, &origin, record)?;
        let made = Made {
            id: id.clone(),
            record,
            created_at,
            project,
        };
        let begun = self.begin_graph_as(made, plan, origin, child, children);
        if begun.is_err() {
            // The first error is the one to report, even if this note fails.
            let created = Some(Status::Created);
            let _ = self
                .registry
                .set_status(&id, created, Status::Error, created_at);
            let _ = self.budgets.release(&id, Status::Error, created_at);
        }
        begun
    }

    fn begin_graph_as(
        &self,
        made: Made,
        mut plan: GraphPlan,
        mut origin: Origin<'_>,
        child: Arc<dyn Tool>,
        children: Arc<Children>,
    ) -> Result<GraphRun, Error> {
        let Made {
            id,
            record,
            created_at,
            project,
        } = made;
        let parent = origin.parent.as_ref().map(|parent| parent.id.clone());
        plan.limits.spend =
            Some(self.set_aside(&id, parent.as_ref(), plan.limits.spend, created_at)?);
        let folder = self.project.thread(&id);
        self.project.inside(&*self.host.fs, folder.path())?;
        atomic::create_directories(&*self.host.fs, folder.path(), FOLDER_MODE)?;
        let capabilities = self.write_capabilities(&plan.tools, &folder)?;
        let meta = meta_of(&plan, &id, created_at);
        let mut files = Files {
            entry: self.entry_of(&meta)?,
            state: self.state_of(&plan, &id)?,
            file: SignedFile::new(&self.host, &folder.metadata(), DocumentKind::Json, None)?,
            meta,
            parent: parent.as_ref().map(|parent| parent.as_str().to_owned()),
        };
        let mut manifest = self.graph_manifest(&plan, record, &capabilities, project, &origin)?;
        let mut ledger = LedgerOrigin {
            directive_sha256: Some(plan.sha256),
            inputs_sha256: Some(Digest::of(
                Value::Object(plan.inputs.clone()).to_string().as_bytes(),
            )),
            parent: None,
        };
        if let Some(parent) = origin.parent {
            manifest.parent = Some(parent.record.child_begins(&id, &record, plan.id.as_str())?);
            ledger.parent = Some(parent.ledger);
        }
        if let Some(before) = &origin.before {
            manifest.parent = before.parent();
            files.parent = before.parent_id();
            manifest.predecessor = before.head();
        }
        let keys = self.keys.clone();
        let journal = Journal::begin(&self.host, &folder, id.clone(), manifest, keys, ledger)?;
        let started = started(&plan, &id, origin.before.as_ref().map(Before::course))?;
        let mut journal = GraphJournal::begin(journal, &started)?;
        // Under the same seal as the begin: even if this run dies early, its successor learns it.
        if let Some(before) = &origin.before {
            before.tell(&mut journal)?;
        }
        for used in &plan.used {
            let used =
                serde_json::to_value(used).map_err(|error| Error::invalid(error.to_string()))?;
            journal.tell("item_used", &used)?;
        }
        for risk in &plan.risks {
            let event = json!({"capability": risk.capability.as_str(), "risk": risk.risk});
            journal.tell("risk_unacknowledged", &event)?;
        }
        journal.seal()?;
        files.write_meta(self)?;
        let now = self.host.clock.now()?;
        let created = Some(Status::Created);
        self.registry
            .set_status(&id, created, Status::Running, now)?;
        let mut walk = GraphRun {
            engine: self.clone(),
            plan,
            id,
            record: Arc::new(Mutex::new(journal)),
            files,
            child,
            children,
            keys: BTreeMap::new(),
            began: self.host.clock.elapsed(),
            own_steps: 0,
        };
        if let Some(mut before) = origin.before.take() {
            if let Err(error) = before.follow(self, &walk.id, record) {
                // It is never resumed, for no link names it; it ends all the same.
                walk.fail(&error);
                return Err(error);
            }
            walk.keys = before.keys();
        }
        Ok(walk)
    }

    /// Takes an id that is free: the graph's with `-` for `/`, and the milliseconds since 1970.
    /// (Rye uses seconds, which two runs may share.)
    fn register_graph(
        &self,
        plan: &GraphPlan,
        origin: &Origin<'_>,
        record: RecordId,
    ) -> Result<ThreadId, Error> {
        let descent = match (&origin.parent, &origin.before) {
            (Some(parent), _) => Descent::Child {
                parent: parent.id,
                max_spawns: parent.inherited.limits.spawns,
            },
            (None, Some(before)) => Descent::Successor { of: before.id() },
            (None, None) => Descent::Root,
        };
        let name = plan.id.as_str().replace('/', "-");
        let new = NewThread {
            id: &ThreadId::parse(&name)?,
            directive: plan.id.as_str(),
            origin: descent,
            model: None,
            record: Some(record),
            process: ProcessId::own().map(|own| own.to_row()),
        };
        let id = create_free(&*self.registry, &name, &new, self.host.clock.now()?)?;
        id.ok_or_else(|| Error::refused("too many runs of this graph begin at this moment"))
    }

    /// The state file of a run, which is not there yet.
    fn state_of(&self, plan: &GraphPlan, id: &ThreadId) -> Result<SignedFile, Error> {
        let path = self
            .project
            .graph_state(&ThreadId::parse(plan.id.as_str())?, id);
        self.project.inside(&*self.host.fs, &path)?;
        if let Some(folder) = path.parent() {
            atomic::create_directories(&*self.host.fs, folder, FOLDER_MODE)?;
        }
        let kind = DocumentKind::Markdown;
        SignedFile::new(&self.host, &path, kind, Some(ItemType::Knowledge))
    }

    fn graph_manifest(
        &self,
        plan: &GraphPlan,
        record: RecordId,
        capabilities: &Digest,
        project: ProjectId,
        origin: &Origin<'_>,
    ) -> Result<Manifest, Error> {
        let (native, rye) = (*self.keys.native.public_key(), *self.keys.rye.public_key());
        let mut manifest = Manifest::new(record, native, rye);
        manifest.directive = Some(plan.id.as_str().to_owned());
        manifest.capabilities = plan.tools.capabilities().to_texts();
        manifest.limits = in_line_1(&plan.limits.to_json())?;
        manifest.bodies = self.config.coordination.transcript_bodies;
        let mut meta = json!({
            "capabilities_sha256": capabilities.to_hex(),
            "graph_sha256": plan.sha256.to_hex(),
            "inputs": plan.inputs,
            "kind": KIND,
            project_id::MEMBER: project.to_string(),
        });
        let before = origin.before.as_ref();
        if let Some(before) = before {
            meta["predecessor_thread"] = before.id().as_str().into();
        }
        let parent = origin.parent.as_ref();
        let parent = parent.map(|parent| parent.id.as_str().to_owned());
        if let Some(parent) = parent.or_else(|| before?.parent_id()) {
            meta["parent_thread"] = parent.into();
        }
        manifest.meta = in_line_1(&meta)?;
        Ok(manifest)
    }
}

fn meta_of(plan: &GraphPlan, id: &ThreadId, created_at: Timestamp) -> ThreadMeta {
    ThreadMeta {
        thread_id: id.clone(),
        directive: plan.id.as_str().to_owned(),
        status: Status::Running,
        created_at,
        updated_at: created_at,
        model: None,
        limits: plan.limits,
        capabilities: plan.tools.capabilities().clone(),
        cost: None,
        outputs: None,
    }
}

/// The payload of `graph_started`: the run's start, and its values.
fn started(plan: &GraphPlan, id: &ThreadId, before: Option<&Course>) -> Result<Value, Error> {
    let mut started =
        json!({"graph_id": plan.id.as_str(), "graph_run_id": id.as_str(), "inputs": plan.inputs});
    let Some(before) = before else {
        let start = plan.graph.start();
        let start = start.ok_or_else(|| Error::invalid("the graph has no first node"))?;
        started["start_node"] = start.name.as_str().into();
        started["state"] = Value::Object(plan.graph.state.clone());
        started["step"] = 0.into();
        return Ok(started);
    };
    // A step that is not over begins once more, under its own number.
    let within = matches!(before.at, Position::Within(_));
    started["start_node"] = before.at.node().into();
    started["state"] = Value::Object(before.state.clone());
    started["step"] = (before.step - u64::from(within)).into();
    started["resumed_from"] = before.run.as_str().into();
    started["passed_over"] = before.passed_over.into();
    Ok(started)
}
