//! The end of a thread: terminal event and final seal, then the files and rows derived from the
//! record.

use super::super::cycle::{End, Pause};
use super::super::engine::{Engine, Ran};
use super::super::lifecycle_hooks;
use super::ThreadRun;
use crate::context::Fill;
use crate::limit::{Cost, LimitHit};
use crate::status::Status;
use serde_json::json;
use threadseal_core::error::Error;
use threadseal_formats::transcript::Ending;

impl ThreadRun {
    /// Writes its end: record first, then the files and rows derived from it.
    pub(in crate::runner) fn finish(&mut self, end: End, cost: Cost) -> Result<Ran, Error> {
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
                let more = lifecycle_hooks::suspended(pause, &mut self.journal)?;
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
        let mut ran = Ran {
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
        ran.warnings.extend(self.files.unshown.take());
        Ok(ran)
    }

    pub(in crate::runner) fn settle(&mut self, ran: &Ran) -> Result<(), Error> {
        let engine = &self.engine;
        self.files.meta.status = ran.status;
        self.files.meta.cost = Some(ran.cost);
        self.files.meta.outputs.clone_from(&ran.outputs);
        self.files.write(engine)?;
        engine.note_end(ran)?;
        self.files.write_entry(engine, &self.journal)
    }
}

impl Engine {
    /// Notes the end of a thread in budgets and registry.
    pub(in crate::runner) fn note_end(&self, ran: &Ran) -> Result<(), Error> {
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

/// A window that is full, without a successor.
pub(in crate::runner) fn no_room(fill: Fill) -> End {
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
