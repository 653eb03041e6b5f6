//! The calls of a model: in its order, and in parallel where the tools declare that this is safe.
//!
//! ```text
//! calls ─► the longest run of calls that may be parallel, else one
//!   ─► all their starts, durable with one sync ─► each on an OS thread of its own
//!   ─► results, in the order of the calls
//! ```
//! Each call gets a result, also one that does not run: models refuse a conversation with open
//! calls.

use super::{Course, Cycle, End, Progress, Surroundings, ended_by};
use crate::bounds::{MAX_CALLS_PER_TURN, MAX_PARALLEL_CALLS, MAX_RECORDED_TEXT_BYTES};
use crate::history::UNRESOLVED;
use crate::hook_control::Control;
use crate::journal::{Intent, Journal};
use crate::model::{ChatMessage, ToolCall};
use crate::toolbox::{Invocation, Outcome, Permitted};
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};
use threadseal_core::error::Error;

impl Cycle<'_> {
    pub(super) fn call_all(
        &self,
        calls: &[ToolCall],
        course: &mut Course,
        journal: &mut Journal,
        around: &mut dyn Surroundings,
    ) -> Result<Option<End>, Error> {
        let (mut end, mut stopped) = (None, false);
        let mut place = 0;
        while let Some(call) = calls.get(place) {
            let outcome = match &end {
                Some(End::Cancelled) => self.not_run(call, journal, "the thread was cancelled")?,
                Some(_) => self.not_run(call, journal, "the thread has returned")?,
                None if let Some(why) = self.cancel.why() => {
                    stopped = true;
                    self.not_run(call, journal, &why.to_string())?
                }
                None if place >= MAX_CALLS_PER_TURN => {
                    let why = format!("at most {MAX_CALLS_PER_TURN} calls in one answer");
                    self.not_run(call, journal, &why)?
                }
                None if self.returning.is(call) => {
                    let (outcome, outputs) = self.returned(call, course, journal)?;
                    end = outputs;
                    outcome
                }
                None => match self.permitted(call, journal) {
                    Err(why) => self.not_run(call, journal, &why)?,
                    Ok(first) => {
                        let last = calls.len().min(MAX_CALLS_PER_TURN);
                        let batch = self.at_once(first, &calls[place + 1..last], journal);
                        let batched = &calls[place..place + batch.len()];
                        for call in batched {
                            around.progress(Progress::Calling(&course.cost, &call.name));
                        }
                        for (call, outcome) in
                            batched.iter().zip(self.run_all(batched, &batch, journal)?)
                        {
                            course.messages.push(result_of(call, &outcome));
                        }
                        place += batch.len();
                        continue;
                    }
                },
            };
            course.messages.push(result_of(call, &outcome));
            place += 1;
        }
        match stopped && end.is_none() {
            true => self.given_up(course, journal).map(Some),
            false => Ok(end),
        }
    }

    /// Answers the calls of an answer that went over a limit.
    pub(super) fn run_none(
        &self,
        calls: &[ToolCall],
        course: &mut Course,
        journal: &mut Journal,
    ) -> Result<(), Error> {
        for call in calls {
            let outcome = self.not_run(call, journal, "the thread is over its limit")?;
            course.messages.push(result_of(call, &outcome));
        }
        Ok(())
    }

    /// The next call, and the later ones that may run at the same time.
    fn at_once(&self, first: Permitted, behind: &[ToolCall], journal: &Journal) -> Vec<Permitted> {
        let parallel = |call: &Permitted| call.tool.parallel(&call.input);
        let alone = !parallel(&first);
        let mut batch = vec![first];
        if alone {
            return batch;
        }
        let behind = behind.iter().take(MAX_PARALLEL_CALLS - 1);
        let permitted = behind.map_while(|call| match self.returning.is(call) {
            true => None,
            false => self.permitted(call, journal).ok().filter(parallel),
        });
        batch.extend(permitted);
        batch
    }

    fn run_all(
        &self,
        calls: &[ToolCall],
        batch: &[Permitted],
        journal: &mut Journal,
    ) -> Result<Vec<Outcome>, Error> {
        let keys: Vec<String> = calls.iter().map(|call| self.key(call, journal)).collect();
        let intents: Vec<Intent<'_>> = calls
            .iter()
            .zip(batch)
            .zip(&keys)
            .map(|((call, permitted), key)| Intent {
                call,
                tool: permitted.tool.id(),
                key,
            })
            .collect();
        let steps = journal.intend_all(&intents)?;
        let replaced = AtomicU64::new(0);
        let ran = self.writer.run(journal, batch.len(), &|place, handle| {
            let permitted = &batch[place];
            let began = self.clock.elapsed();
            let mut outcome = permitted.tool.run(&mut Invocation {
                idempotency_key: &keys[place],
                input: &permitted.input,
                cancel: self.cancel,
                record: handle,
            });
            let millis = self.clock.elapsed().saturating_sub(began).as_millis();
            replaced.fetch_add(outcome.mask(self.secrets), Ordering::Relaxed);
            let outcome = outcome.bounded(MAX_RECORDED_TEXT_BYTES);
            (outcome, u64::try_from(millis).unwrap_or(u64::MAX))
        });
        let mut outcomes = Vec::with_capacity(ran.len());
        for ((step, call), (outcome, millis)) in steps.into_iter().zip(calls).zip(ran) {
            journal.done(step, call, &outcome, millis)?;
            outcomes.push(outcome);
        }
        self.note_replaced(replaced.into_inner(), "tool", journal)?;
        Ok(outcomes)
    }

    /// The name of a call, the same for all attempts.
    fn name(&self, call: &ToolCall, journal: &Journal) -> String {
        format!("{}/{}/{}", self.thread, journal.turn(), call.id)
    }

    /// Its idempotency key: its name, and under a lease the token of that.
    fn key(&self, call: &ToolCall, journal: &Journal) -> String {
        let name = self.name(call, journal);
        match self.fence {
            Some(token) => format!("{name}#{token}"),
            None => name,
        }
    }

    /// The tool of a call, or why it does not run. Of some calls it is unknown whether they were
    /// carried out already.
    fn permitted(&self, call: &ToolCall, journal: &Journal) -> Result<Permitted, String> {
        match self.unresolved.contains(&self.name(call, journal)) {
            true => Err(UNRESOLVED.to_owned()),
            false => self.tools.find(call),
        }
    }

    /// Records a call that does not run, and why.
    fn not_run(&self, call: &ToolCall, journal: &mut Journal, why: &str) -> Result<Outcome, Error> {
        let key = self.key(call, journal);
        let step = journal.intend(call, &call.name, &key)?;
        let outcome = Outcome::failed(why);
        journal.done(step, call, &outcome, 0)?;
        Ok(outcome)
    }

    fn returned(
        &self,
        call: &ToolCall,
        course: &Course,
        journal: &mut Journal,
    ) -> Result<(Outcome, Option<End>), Error> {
        let outputs = match self.returning.outputs(&call.input) {
            Ok(outputs) => outputs,
            Err(why) => return Ok((self.not_run(call, journal, &why)?, None)),
        };
        let context = json!({"outputs": outputs, "cost": course.cost.to_json()});
        if let Some(decision) = self.fire("directive_return", &context, journal)? {
            if decision.control == Control::Retry {
                let why = decision.said("a hook refuses this return");
                return Ok((self.not_run(call, journal, &why)?, None));
            }
            if let Some(end) = ended_by(&decision) {
                let outcome = self.not_run(call, journal, "a hook ends the thread")?;
                return Ok((outcome, Some(end)));
            }
        }
        // A guard that was stopped has not let this pass.
        if let Some(why) = self.cancel.why() {
            return Ok((self.not_run(call, journal, &why.to_string())?, None));
        }
        let key = self.key(call, journal);
        let step = journal.intend(call, &call.name, &key)?;
        let outcome = Outcome::ok("returned");
        journal.done(step, call, &outcome, 0)?;
        let event = json!({"outputs": outputs, "cost": course.cost.to_json()});
        journal.event("directive_return", &event)?;
        let end = End::Completed {
            text: String::new(),
            outputs: Some(outputs),
        };
        Ok((outcome, Some(end)))
    }
}

fn result_of(call: &ToolCall, outcome: &Outcome) -> ChatMessage {
    ChatMessage::ToolResult {
        call_id: call.id.clone(),
        tool: call.name.clone(),
        content: outcome.error.clone().unwrap_or_else(|| outcome.text()),
    }
}
