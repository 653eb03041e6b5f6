//! [`RunRecorder`]: the steps of one run, each record stamped with run, actor, session and time.
//!
//! ```text
//! start ─► "started" record ─► the effect runs ─► finish
//!       ─► "completed" | "waiting" | "failed" | "cancelled"
//! ```
//! The start of a step is durable before its effect runs. Ends may be held back until the next start
//! or [`RunRecorder::flush`] ([`RunRecorder::with_held_ends`]): without its end a step is one that
//! started, and its effect is not repeated. They are held in memory, not written: of several writes
//! without a sync between them power loss may keep a later one, and the ledger would be `tampered`.
//!
//! Both records of a step have its `step_id`, `started_at`, `attempt` and `idempotency_key`, as
//! `AbstractRuntime` writes them (`core/runtime.py`). If the process dies before a step is
//! finished, the record stays a lone `started`, which is the truth. AbstractRuntime stamps every
//! record with the run's actor, also a person's answer. Here the record names the actual actor
//! ([`RunRecorder::resumed_by`]).

use super::{ChainedLedger, StoredRecord, Tip};
use crate::host::Host;
use crate::random;
use std::sync::{Mutex, PoisonError};
use threadseal_core::canon::json::{Text, Value};
use threadseal_core::error::Error;
use threadseal_formats::ledger::{
    Effect, Genesis, RunId, StepRecord, WaitState, step_id_from_random,
};

/// Records that wait at most.
const MAX_HELD_RECORDS: usize = 64;

/// Records the steps of one run.
#[derive(Debug)]
pub struct RunRecorder<C> {
    ledger: C,
    host: Host,
    run: RunId,
    actor_id: Option<String>,
    session_id: Option<String>,
    /// Records that wait for the next start; None where each is appended at once.
    held: Option<Mutex<Vec<StepRecord>>>,
}

/// A step that was started and not finished yet.
#[must_use = "a step that is not finished stays started for ever"]
#[derive(Debug)]
pub struct OpenStep {
    record: StepRecord,
}

impl OpenStep {
    /// The step as it was started.
    pub fn record(&self) -> &StepRecord {
        &self.record
    }
}

/// The work of a step.
#[derive(Debug, Clone)]
pub struct Step {
    /// The node of the workflow.
    pub node_id: String,
    /// The effect that it requests.
    pub effect: Option<Effect>,
    /// Which attempt, from 1.
    pub attempt: u64,
    /// The same for all attempts at one effect.
    pub idempotency_key: Option<String>,
}

impl Step {
    /// The first attempt of a node's effect.
    pub fn new(node_id: impl Into<String>, effect: Option<Effect>) -> Self {
        Self {
            node_id: node_id.into(),
            effect,
            attempt: 1,
            idempotency_key: None,
        }
    }
}

/// An answer to a wait.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The node that waited.
    pub node_id: String,
    /// The actor that answered.
    pub actor_id: String,
    /// `effect.payload` of the record: the wait, and the answer to it.
    pub payload: Value,
}

impl<C: ChainedLedger> RunRecorder<C> {
    /// The recorder of a new run, whose first record is `genesis`, stamped with the run's actor and
    /// session. `actor_id` is the actor that runs it.
    ///
    /// # Errors
    /// Kind `Refused` when the run has records already; otherwise as
    /// [`ChainedLedger::append_batch`].
    pub fn create(
        ledger: C,
        host: Host,
        run: RunId,
        actor_id: Option<String>,
        session_id: Option<String>,
        genesis: &Genesis,
    ) -> Result<Self, Error> {
        let recorder = Self {
            ledger,
            host,
            run,
            actor_id,
            session_id,
            held: None,
        };
        let id = step_id_from_random(random::array(&*recorder.host.random)?);
        let first = genesis.to_record(recorder.run.clone(), id, recorder.actor_id.clone());
        if recorder.ledger.begin(&recorder.stamped(first))?.is_none() {
            return Err(Error::refused(format!(
                "run {} has begun already",
                recorder.run
            )));
        }
        Ok(recorder)
    }

    /// The recorder of a run that continues, in this process or after another.
    pub fn resume(
        ledger: C,
        host: Host,
        run: RunId,
        actor_id: Option<String>,
        session_id: Option<String>,
    ) -> Self {
        Self {
            ledger,
            host,
            run,
            actor_id,
            session_id,
            held: None,
        }
    }

    /// The same, whose ends of steps wait for the next start, or for a flush.
    #[must_use]
    pub fn with_held_ends(mut self) -> Self {
        self.held = Some(Mutex::default());
        self
    }

    /// Appends all records that wait.
    ///
    /// # Errors
    /// As [`ChainedLedger::append_batch`].
    pub fn flush(&self) -> Result<(), Error> {
        self.append_behind(Vec::new()).map(drop)
    }

    /// The run.
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// The ledger that is written.
    pub fn ledger(&self) -> &C {
        &self.ledger
    }

    /// The end of the ledger.
    ///
    /// # Errors
    /// As [`super::LedgerStore::tip`].
    pub fn tip(&self) -> Result<Tip, Error> {
        let tip = self.ledger.records().tip(&self.run)?;
        Ok(tip.unwrap_or_default())
    }

    /// The record of an earlier attempt that completed, so that the effect need not run again.
    ///
    /// # Errors
    /// As [`super::LedgerStore::find_completed`].
    pub fn find_completed(&self, idempotency_key: &str) -> Result<Option<StoredRecord>, Error> {
        let store = self.ledger.records();
        store.find_completed(&self.run, idempotency_key)
    }

    /// Records that a step is about to run.
    ///
    /// # Errors
    /// As [`ChainedLedger::append_batch`].
    pub fn start(&self, step: Step) -> Result<OpenStep, Error> {
        let record = self.new_record(step)?;
        self.append_behind(vec![record.clone()])?;
        Ok(OpenStep { record })
    }

    /// Records that these steps are about to run, all or none, with one sync.
    ///
    /// # Errors
    /// As [`RunRecorder::start`].
    pub fn start_all(&self, steps: Vec<Step>) -> Result<Vec<OpenStep>, Error> {
        let records = steps.into_iter().map(|step| self.new_record(step));
        let records = records.collect::<Result<Vec<_>, _>>()?;
        self.append_behind(records.clone())?;
        let open = records.into_iter().map(|record| OpenStep { record });
        Ok(open.collect())
    }

    /// Records that a step runs whose effect changes nothing elsewhere; it may wait as an end may.
    ///
    /// # Errors
    /// As [`RunRecorder::start`].
    pub fn note_start(&self, step: Step) -> Result<OpenStep, Error> {
        let record = self.new_record(step)?;
        self.append(record.clone())?;
        Ok(OpenStep { record })
    }

    /// Records the result of a step.
    ///
    /// # Errors
    /// As [`ChainedLedger::append_batch`]; here and below.
    pub fn succeed(&self, step: OpenStep, result: Option<Value>) -> Result<(), Error> {
        let mut record = step.record;
        record.finish_success(result, self.host.clock.now()?);
        self.append(record)
    }

    /// Records why a step failed.
    ///
    /// # Errors
    /// As [`RunRecorder::succeed`].
    pub fn fail(&self, step: OpenStep, error: &str) -> Result<(), Error> {
        let mut record = step.record;
        record.finish_failure(error, self.host.clock.now()?);
        self.append(record)
    }

    /// Records that a step was stopped, with known details.
    ///
    /// # Errors
    /// As [`RunRecorder::succeed`].
    pub fn cancel(&self, step: OpenStep, details: Vec<(Text, Value)>) -> Result<(), Error> {
        let mut record = step.record;
        record.finish_cancelled(details, self.host.clock.now()?);
        self.append(record)
    }

    /// Records that a step waits, with the reason.
    ///
    /// # Errors
    /// As [`RunRecorder::succeed`].
    pub fn wait(&self, step: OpenStep, wait: &WaitState) -> Result<(), Error> {
        let mut record = step.record;
        record.finish_waiting(wait, self.host.clock.now()?);
        self.append(record)
    }

    /// Records the answer to a wait: a `resume` record in the answerer's own name.
    ///
    /// # Errors
    /// As [`RunRecorder::succeed`].
    pub fn resumed_by(&self, answer: Answer) -> Result<(), Error> {
        let effect = Effect::new("resume", answer.payload);
        let mut record = self.new_record(Step::new(answer.node_id, Some(effect)))?;
        record.actor_id = Some(answer.actor_id);
        let resumed = Value::Object(vec![("resumed".into(), true.into())]);
        record.finish_success(Some(resumed), self.host.clock.now()?);
        self.append(record)
    }

    fn new_record(&self, step: Step) -> Result<StepRecord, Error> {
        let id = step_id_from_random(random::array(&*self.host.random)?);
        let now = self.host.clock.now()?;
        let run = self.run.clone();
        let mut record = StepRecord::start(run, id, step.node_id, step.effect, now);
        record.attempt = step.attempt;
        record.idempotency_key = step.idempotency_key;
        Ok(self.stamped(record))
    }

    fn stamped(&self, mut record: StepRecord) -> StepRecord {
        record.run_id = self.run.clone();
        record.actor_id.clone_from(&self.actor_id);
        record.session_id.clone_from(&self.session_id);
        record
    }

    fn append(&self, record: StepRecord) -> Result<(), Error> {
        let Some(held) = &self.held else {
            return self.ledger.append(&record).map(drop);
        };
        let mut waiting = held.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(record);
        let many = waiting.len() >= MAX_HELD_RECORDS;
        drop(waiting);
        match many {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Appends what waits, and these records behind it, durably with one sync. What could not be
    /// appended waits no longer: whether it is stored is unknown.
    fn append_behind(&self, records: Vec<StepRecord>) -> Result<(), Error> {
        let waiting = self.held.as_ref().map(|held| {
            let mut waiting = held.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *waiting)
        });
        let mut all = waiting.unwrap_or_default();
        all.extend(records);
        match all.is_empty() {
            true => Ok(()),
            false => self.ledger.append_batch(&self.run, &all).map(drop),
        }
    }
}
