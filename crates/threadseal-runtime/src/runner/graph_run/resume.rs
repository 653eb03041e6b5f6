//! Continues a run that stopped, in a new one, from a state that verifies.
//!
//! ```text
//! everything of it verified and compared (`stopped_run`)
//!   ─► the graph is the same file, inputs, limits, tools as for any run
//!   ─► unresolved calls: decided, or refused ─► lock; the record's end is unchanged
//!   ─► a run whose process died gets its end
//!   ─► successor exists, with the same state, node and calls ─► link sealed
//! ```
//! Until the lock nothing is written: a refusal changes nothing, and ends no run. Until the link
//! the run can be continued as before.

use super::super::engine::{Engine, Ran};
use super::super::recover;
use super::super::succession::{link_to, preview};
use super::call::{Settled, Settlement};
use super::prepare::GraphPlan;
use super::stopped_run::StoppedRun;
use super::{GraphOrder, Origin};
use crate::graph_journal::GraphJournal;
use crate::graph_state::{Course, Position, Standing};
use crate::item::ItemId;
use crate::limit::Limits;
use crate::model::dynamic;
use crate::no_links::NoLinks;
use crate::project_id;
use crate::signed_file::SignedFile;
use crate::status::Status;
use crate::thread_meta::{ThreadMeta, TrustedMeta};
use crate::toolbox::Cancel;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use threadseal_core::error::Error;
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_formats::document::DocumentKind;
use threadseal_formats::transcript::{Link, VerifyOptions};
use threadseal_store::recorder::{Recorder, TailPolicy};

/// A run to continue.
#[derive(Debug, Clone)]
pub struct GraphResumption {
    /// The run.
    pub run: ThreadId,
    /// The decision about calls of which it is unknown whether they were carried out.
    pub unresolved: Unresolved,
    /// Limits that count before the graph's own.
    pub limits: Limits,
    /// Stops it.
    pub cancel: Cancel,
}

/// The decision about unresolved calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unresolved {
    /// Name them, and do nothing.
    #[default]
    Refuse,
    /// They count as made, without a result.
    Skip,
    /// They count as failed.
    Fail,
}

impl Unresolved {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Skip => "skip",
            Self::Fail => "fail",
        }
    }

    /// The decision of a word.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        [Self::Refuse, Self::Skip, Self::Fail]
            .into_iter()
            .find(|decided| decided.as_str() == word)
    }
}

/// The run that another one continues: held until the link is written.
pub(super) struct Before {
    id: ThreadId,
    recorder: Recorder,
    meta: TrustedMeta,
    path: PathBuf,
    parent: Option<Head>,
    parent_id: Option<String>,
    course: Course,
    settled: Settled,
    names_project: bool,
}

impl Engine {
    /// Continues a run that failed, was stopped or suspended, or whose process died.
    ///
    /// # Errors
    /// Kind `Refused` when a part of it does not verify or contradicts its record, or when the
    /// graph's file changed. Also when calls are unresolved without a decision. Nothing is changed
    /// then. Otherwise as [`Engine::run_graph`].
    pub fn resume_graph(&self, wanted: &GraphResumption) -> Result<Ran, Error> {
        let past = self.past_of(&wanted.run)?;
        let order = past.order(wanted)?;
        let inherited = past.inherited.clone();
        let engine = self.going_on_from(Some(&past.manifest));
        engine.walk_with(&order, inherited.as_ref(), &|| (), |plan| {
            past.same_graph(plan)?;
            let settled = past.settled(plan, wanted.unresolved)?;
            Ok(Origin {
                parent: None,
                before: Some(engine.take(past, settled)?),
            })
        })
    }

    /// Takes the lock of the old record, whose last line must be unchanged. Gives it an end if it
    /// has none.
    fn take(&self, past: StoppedRun, settled: Settled) -> Result<Before, Error> {
        let options = VerifyOptions {
            trust: &self.trust,
            now: self.host.clock.now()?,
            held_since: None,
            thread: Some(&past.id),
        };
        let policy = match past.ended {
            true => TailPolicy::Refuse,
            false => TailPolicy::SetAside,
        };
        let (host, keys) = (NoLinks::host(&self.host), self.keys.clone());
        let transcript = past.folder.transcript();
        let mut recorder = Recorder::open(host, &transcript, keys, &options, policy)?.recorder;
        if recorder.state().head() != Some(&past.head) {
            return Err(Error::refused(
                "somebody wrote the record meanwhile; try again",
            ));
        }
        let path = past.folder.metadata();
        let standing = self.registry.get(&past.id)?;
        let running = standing.and_then(|row| row.status.ok()) == Some(Status::Running);
        if !past.ended {
            let open = past.unresolved.iter();
            let open: Vec<Value> = open
                .map(|(id, began)| {
                    json!({"call_id": id, "tool": began.item, "item_id": began.item,
                           "idempotency_key": began.key})
                })
                .collect();
            recover::end(&mut recorder, &open, recover::CAUSE)?;
        }
        if running {
            let status = match past.course.standing {
                Standing::Cancelled => Status::Cancelled,
                Standing::Suspended => Status::Suspended,
                _ => Status::Error,
            };
            self.close(&past.id, &path, status)?;
        }
        let manifest = Some(&past.manifest);
        let meta = ThreadMeta::read(&self.host, &past.folder, &past.id, manifest, &self.trust)?;
        Ok(Before {
            recorder,
            meta,
            path,
            parent: past.manifest.parent,
            parent_id: past.parent_id,
            course: past.course,
            settled,
            names_project: project_id::is_named(&past.manifest),
            id: past.id,
        })
    }
}

impl StoppedRun {
    pub(super) fn order(&self, wanted: &GraphResumption) -> Result<GraphOrder, Error> {
        Ok(GraphOrder {
            graph: ItemId::parse(&self.course.graph)?,
            inputs: self.course.inputs.clone(),
            limits: wanted.limits,
            cancel: wanted.cancel.clone(),
        })
    }

    /// May another run continue it, by this plan and this decision?
    pub(super) fn may_go_on(&self, plan: &GraphPlan, decided: Unresolved) -> Result<(), Error> {
        self.same_graph(plan)?;
        self.settled(plan, decided).map(drop)
    }

    /// Is the graph the very file that the run began with?
    fn same_graph(&self, plan: &GraphPlan) -> Result<(), Error> {
        let meta = dynamic(&self.manifest.meta)?;
        if meta["graph_sha256"] == plan.sha256.to_hex() {
            return Ok(());
        }
        let text = format!(
            "the file of graph {} is another one than {} began with: run it anew",
            plan.id, self.id
        );
        Err(Error::refused(text))
    }

    /// The settlements for the calls of the step that was left.
    fn settled(&self, plan: &GraphPlan, unresolved: Unresolved) -> Result<Settled, Error> {
        if matches!(self.course.at, Position::End(_)) {
            return Err(Error::refused(
                "the run came to the graph's end: there is nothing to go on with",
            ));
        }
        let node = plan.graph.node(self.course.at.node());
        let node =
            node.ok_or_else(|| Error::refused("the graph has no node at which the run stands"))?;
        let mut settled = Settled::new();
        for (id, known) in self.course.known_calls() {
            let (item, outcome) = (known.item.clone(), known.outcome.clone());
            let settlement = match (self.course.given_up(id), unresolved) {
                // Its state is as unknown as when it was given up.
                (Some(key), Unresolved::Skip) => Settlement::Skip {
                    item,
                    key: key.to_owned(),
                },
                (Some(key), _) => Settlement::Fail {
                    item,
                    key: key.to_owned(),
                },
                // A failed call is tried again: that is the purpose of continuing.
                (None, _) if outcome.error.is_some() => continue,
                (None, _) => Settlement::Known {
                    item,
                    outcome,
                    from: self.id.as_str().to_owned(),
                },
            };
            settled.insert(id.to_owned(), settlement);
        }
        for (id, began) in &self.unresolved {
            let (item, key) = (began.item.clone(), began.key.clone());
            let settlement = match unresolved {
                // A hook that was asked is no call of the node.
                _ if node.idempotent && !id.starts_with("hook_") => {
                    Settlement::Repeat { item, key }
                }
                Unresolved::Refuse => return Err(self.unresolved_refusal()),
                Unresolved::Skip => Settlement::Skip { item, key },
                Unresolved::Fail => Settlement::Fail { item, key },
            };
            settled.insert(id.clone(), settlement);
        }
        Ok(settled)
    }
}

impl Before {
    pub(super) fn id(&self) -> &ThreadId {
        &self.id
    }

    pub(super) fn course(&self) -> &Course {
        &self.course
    }

    /// The parent's seal that its line 1 names: its successor's parent, too.
    pub(super) fn parent(&self) -> Option<Head> {
        self.parent
    }

    pub(super) fn parent_id(&self) -> Option<String> {
        self.parent_id.clone()
    }

    /// Its last seal, which its successor's line 1 names.
    pub(super) fn head(&self) -> Option<Head> {
        self.recorder.state().head().copied()
    }

    /// Records that the earlier run names no project, and the settlements for calls of the step
    /// that was left. A hook that was asked is no call of the step.
    pub(super) fn tell(&self, journal: &mut GraphJournal) -> Result<(), Error> {
        if !self.names_project {
            let note = project_id::unnamed(&self.id);
            journal.tell(note.0, &note.1)?;
        }
        let calls = self.settled.iter();
        for (id, settlement) in calls.filter(|(id, _)| !id.starts_with("hook_")) {
            let (kind, payload) = settlement.event(id);
            journal.tell(kind, &payload)?;
        }
        Ok(())
    }

    /// The keys under which calls are made again.
    pub(super) fn keys(&self) -> BTreeMap<String, String> {
        let calls = self.settled.iter();
        let again = calls.filter_map(|(id, settlement)| match settlement {
            Settlement::Repeat { key, .. } => Some((id.clone(), key.clone())),
            _ => None,
        });
        again.collect()
    }

    /// Seals that `successor`, which exists, continues this run; then updates the registry and its
    /// thread.json.
    pub(super) fn follow(
        &mut self,
        engine: &Engine,
        successor: &ThreadId,
        record: RecordId,
    ) -> Result<(), Error> {
        let where_it_is = format!("step {} at {}", self.course.step, self.course.at.node());
        let said = json!({"directive": self.meta.get().directive, "message_preview": preview(&where_it_is)});
        let (payload, ext) = link_to(successor, record, &said)?;
        self.recorder.link(Link::Resumed, &payload, ext)?;
        let now = engine.host.clock.now()?;
        engine.registry.link(&self.id, successor, now)?;
        let Some(head) = self.meta.head() else {
            return Ok(());
        };
        let mut file = SignedFile::after(&engine.host, &self.path, DocumentKind::Json, None, head)?;
        let mut meta = self.meta.get().clone();
        meta.status = Status::Continued;
        meta.updated_at = now;
        let thread = Some(&self.id);
        file.write(&engine.host, &engine.keys, thread, &meta.to_bytes())
            .map(drop)
    }
}
