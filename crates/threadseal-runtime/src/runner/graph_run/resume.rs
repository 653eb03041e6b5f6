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

use super::super::accounts::left_of;
use super::super::held_record;
use super::super::lifecycle::{Origin, Prepared};
use super::super::order::{Fixed, GraphOrder, GraphResumption, Ran, Unresolved};
use super::super::recover;
use super::super::resume::Resumable;
use super::super::services::{Notice, Services};
use super::super::starter::Starter;
use super::super::succession::{Ended, preview};
use super::super::thread::warnings_of;
use super::call::{Settled, Settlement};
use super::run::{GraphPlan, GraphRun};
use super::stopped_run::{self, StoppedRun};
use super::walk::GraphStart;
use crate::cancel::Cancel;
use crate::graph_state::{Position, Standing};
use crate::item::ItemId;
use crate::model::dynamic;
use crate::project_id;
use crate::status::Status;
use crate::thread_meta::ThreadMeta;
use serde_json::{Value, json};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_formats::transcript::Link;
use threadseal_store::recorder::TailPolicy;

/// Continues a run that failed, was stopped or suspended, or whose process died; under an order of
/// a database only as that fixes it. `unasked`: how often in a row no person asked.
///
/// # Errors
/// As `Engine::resume_graph`.
pub(in crate::runner) fn resume(
    services: &Services,
    starter: Starter,
    wanted: &GraphResumption,
    fixed: Option<&Fixed>,
    unasked: u64,
) -> Result<Ran, Error> {
    let stopped = stopped_run::read(services, &wanted.run)?;
    if let Some(fixed) = fixed {
        fixed.continues(&stopped.head)?;
    }
    let services = services.for_successor(Some(&stopped.manifest));
    let mut prepared = stopped.prepare(&services, starter, wanted)?;
    if let Some(fixed) = fixed {
        fixed.bind(&mut prepared.plan)?;
    }
    let settled = stopped.settled(&prepared.plan, wanted.unresolved)?;
    let again = settled
        .iter()
        .filter_map(|(id, settlement)| match settlement {
            Settlement::Repeat { key, .. } => Some((id.clone(), key.clone())),
            _ => None,
        });
    let start = GraphStart {
        before: Some(stopped.course.clone()),
        keys: again.collect(),
    };
    let left = stopped.set_aside();
    let missing = stopped.settings.missing(&services.config.used);
    let mut warnings = warnings_of(missing.as_slice());
    warnings.extend(left.as_ref().map(|left| warning(&stopped.id, left)));
    let origin = Origin {
        parent: None,
        record: fixed.map(|fixed| fixed.record),
        unasked,
        notes: notes(&stopped, missing, left, &settled),
        predecessor: Some(Box::new(take(&services, stopped)?)),
    };
    let mut ran = prepared.start(origin, start)?.run()?;
    ran.warnings.extend(warnings);
    Ok(ran)
}

/// Continues a run whose worker or process was lost, with what is left of its limits: no person
/// decided about it.
///
/// # Errors
/// As [`resume`]; kind `Refused` where a call has no known outcome and its node may not repeat it.
pub(in crate::runner) fn go_on(
    services: &Services,
    starter: Starter,
    run: &ThreadId,
    cancel: &Cancel,
    unasked: u64,
) -> Result<Ran, Error> {
    let stopped = stopped_run::read(services, run)?;
    let wanted = GraphResumption {
        run: run.clone(),
        unresolved: Unresolved::Refuse,
        limits: left_of(services, run, Some(&stopped.manifest))?,
        cancel: cancel.clone(),
    };
    resume(services, starter, &wanted, None, unasked)
}

/// For people: what a lenient project left aside of a record.
fn warning(id: &ThreadId, left: &Value) -> String {
    let named = left["events"].as_array().into_iter().flatten();
    let named: Vec<&str> = named.filter_map(Value::as_str).collect();
    format!(
        "{} bytes after the last seal of {id} were left aside, and nothing of them counts: {}",
        left["bytes"],
        named.join(", ")
    )
}

/// Would [`resume`] continue, and from where? Takes no lock and writes nothing.
///
/// # Errors
/// As [`resume`].
pub(in crate::runner) fn check(
    services: &Services,
    starter: Starter,
    wanted: &GraphResumption,
) -> Result<Resumable, Error> {
    let stopped = stopped_run::read(services, &wanted.run)?;
    let prepared = stopped.prepare(services, starter, wanted)?;
    stopped.settled(&prepared.plan, wanted.unresolved)?;
    Ok(Resumable {
        last: stopped.id,
        head: stopped.head,
        item: prepared.plan.item,
    })
}

/// The notes for the successor: that the earlier run names no project, which of its settings are
/// gone, what was left aside of its record, and the settlements for calls of the step that was left.
/// A hook that was asked is no call of the step.
fn notes(
    stopped: &StoppedRun,
    missing: Option<(&'static str, Value)>,
    left: Option<Value>,
    settled: &Settled,
) -> Vec<(&'static str, Value)> {
    let is_named = project_id::is_named(&stopped.manifest);
    let unnamed = (!is_named).then(|| project_id::unnamed(&stopped.id));
    let calls = settled.iter().filter(|(id, _)| !id.starts_with("hook_"));
    let calls = calls.map(|(id, settlement)| settlement.event(id));
    let left = left.map(|left| (TAIL_SET_ASIDE, left));
    let first = unnamed.into_iter().chain(missing).chain(left);
    first.chain(calls).collect()
}

/// Takes the lock of the old record, whose last line must be unchanged. Gives it an end if it
/// has none.
fn take(services: &Services, stopped: StoppedRun) -> Result<Ended, Error> {
    // A tail is here only in a lenient project, which announces it.
    let policy = match stopped.ended && stopped.tail.is_empty() {
        true => TailPolicy::Refuse,
        false => TailPolicy::SetAside,
    };
    let opened = held_record::open(services, &stopped.id, policy)?;
    // What was set aside may have been sealed since: the report is from before.
    let (found, mut recorder) = (opened.report.head, opened.recorder);
    if found != Some(stopped.head) {
        return Err(Error::refused(
            "another process wrote the record meanwhile; try again",
        ));
    }
    if let Some(moved) = &opened.moved {
        let notice = Notice::SetAside(moved.length, &moved.path);
        services.announce(&stopped.id, notice);
    }
    let path = stopped.folder.metadata();
    let row = services.registry.get(&stopped.id)?;
    let running = row.and_then(|row| row.status.ok()) == Some(Status::Running);
    if !stopped.ended {
        let open = stopped.unresolved.iter();
        let open: Vec<Value> = open
            .map(|(id, began)| {
                json!({"call_id": id, "tool": began.item, "item_id": began.item,
                       "idempotency_key": began.key})
            })
            .collect();
        recover::end(&mut recorder, &open, recover::CAUSE)?;
        let notice = Notice::Recovered(Status::Error, open.len());
        services.announce(&stopped.id, notice);
    }
    if running {
        let status = match stopped.course.standing {
            Standing::Cancelled => Status::Cancelled,
            Standing::Suspended => Status::Suspended,
            Standing::LimitReached => Status::LimitReached,
            _ => Status::Error,
        };
        recover::close(services, &stopped.id, &path, status)?;
    }
    let manifest = Some(&stopped.manifest);
    let trust = &services.trust;
    let meta = ThreadMeta::read(
        &services.host,
        &stopped.folder,
        &stopped.id,
        manifest,
        trust,
    )?;
    let course = &stopped.course;
    let position = format!("step {} at {}", course.step, course.at.node());
    Ok(Ended {
        recorder,
        link: Link::Resumed,
        members: json!({"directive": meta.get().directive, "message_preview": preview(&position)}),
        meta,
        path,
        parent: stopped
            .parent
            .map(|parent| (parent, stopped.manifest.parent)),
        releases_budget: false,
        id: stopped.id,
    })
}

/// The event of a successor about the bytes that its project left aside.
const TAIL_SET_ASIDE: &str = "tail_set_aside";

impl StoppedRun {
    /// What is left aside of its record: bytes that no seal covers.
    fn set_aside(&self) -> Option<Value> {
        let tail = &self.tail;
        (!tail.is_empty()).then(|| {
            json!({"thread_id": self.id.as_str(), "bytes": tail.len(),
                   "sha256": Digest::of(tail).to_hex(),
                   "events": stopped_run::tail_events(tail)})
        })
    }

    /// Admits the same graph with the same inputs.
    fn prepare(
        &self,
        services: &Services,
        starter: Starter,
        wanted: &GraphResumption,
    ) -> Result<Prepared<GraphRun>, Error> {
        let order = GraphOrder {
            graph: ItemId::parse(&self.course.graph)?,
            inputs: self.course.inputs.clone(),
            limits: wanted.limits,
            cancel: wanted.cancel.clone(),
        };
        let prepared = Prepared::new(services, starter, &order, self.inherited.as_ref())?;
        self.same_graph(&prepared.plan)?;
        Ok(prepared)
    }

    /// Is the graph the very file that the run began with?
    fn same_graph(&self, plan: &GraphPlan) -> Result<(), Error> {
        let meta = dynamic(&self.manifest.meta)?;
        if meta["graph_sha256"] == plan.sha256.to_hex() {
            return Ok(());
        }
        let text = format!(
            "the file of graph {} is another one than {} started with; hint: start a new run",
            plan.item, self.id
        );
        Err(Error::refused(text))
    }

    /// The settlements for the calls of the step that was left.
    fn settled(&self, plan: &GraphPlan, unresolved: Unresolved) -> Result<Settled, Error> {
        if matches!(self.course.at, Position::End(_)) {
            return Err(Error::refused(
                "the run reached the end of the graph: there is nothing to resume",
            ));
        }
        let node = plan.subject.node(self.course.at.node());
        let node = node.ok_or_else(|| {
            Error::refused("the graph does not have the node at which the run stopped")
        })?;
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
