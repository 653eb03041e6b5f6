//! The loop of one thread: ask, run the model's calls, seal, repeat.
//!
//! ```text
//! limits before ─► money held ─► seal of the turn before ─► ask (again, if it may pass) ─► pay
//!      ▲                                                                             │
//!      │                               no calls ─► completed                         │ calls
//!      └── limits after ◄── intents durable ─► run, some at once ─► results ◄────────┘
//!                                     directive_return ─► completed, with outputs
//! ```
//! A thread that is over a limit is never completed, and the calls of that answer do not run.
//! Hooks are asked at each event on the way (`after_step`, `error`, `limit`, `directive_return`)
//! and may decide as the table permits. Without a decision, a limit that is hit ends the
//! thread, as does an error that does not pass. A thread that is cancelled, or whose time is over,
//! ends once its running calls were stopped. Each way out is an [`End`]: the caller writes the
//! terminal event and the final seal.

mod calls;

use super::allowance::{Allowed, Attempt, Bill, Short};
use super::hooks::{Decision, HookRunner, ThreadHookRecord};
use super::record_writer::RecordWriter;
use super::returning::Returning;
use super::services::Progress;
use crate::bounds::MAX_RECORDED_TEXT_BYTES;
use crate::context::{Fill, Window};
use crate::hook_control::Control;
use crate::journal::{Journal, Requested};
use crate::limit::{Cost, LimitHit, Limits, When};
use crate::model::{Answer, ChatMessage, Model, ModelError, Request, Stop, ToolCall, Usage};
use crate::money::Nanos;
use crate::secrets::{self, Secrets};
use crate::toolbox::{Cancel, Stopped, Toolbox};
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_store::clock::Clock;

pub(crate) struct Cycle<'a> {
    /// Names the thread: part of each call's idempotency key.
    pub(crate) thread: &'a str,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) model: &'a dyn Model,
    pub(crate) max_output_tokens: u32,
    pub(crate) system: Option<&'a str>,
    pub(crate) tools: &'a Toolbox,
    pub(crate) returning: Returning<'a>,
    pub(crate) limits: Limits,
    pub(crate) cancel: &'a Cancel,
    pub(crate) recovery: &'a dyn Recovery,
    /// Where calls and children that run in parallel have their events recorded.
    pub(crate) writer: &'a RecordWriter,
    pub(crate) hook_runner: &'a HookRunner<'a>,
    /// The token of the lease under which it runs: part of each call's key.
    pub(crate) fence: Option<u64>,
    /// The values that its record does not repeat.
    pub(crate) secrets: &'a Secrets,
    /// Calls that an earlier worker began, by their keys without a token. It is unknown whether
    /// they were carried out, and they do not begin again.
    pub(crate) unresolved: &'a HashSet<String>,
}

/// The surroundings of the loop: money, derived files and observers.
pub(crate) trait Surroundings {
    /// Permits a request, and sets money aside for it; else the limit that it would exceed.
    ///
    /// # Errors
    /// When the money was not set aside: the request must not be made.
    fn allow(
        &mut self,
        attempt: Attempt,
        request: &Request<'_>,
        tokens_left: Option<u64>,
    ) -> Result<Result<Allowed, Short>, Error>;

    /// Pays for an attempt, whose request had so many messages; returns the amount.
    ///
    /// # Errors
    /// When it was not recorded: the thread must not continue.
    fn settle(
        &mut self,
        attempt: Attempt,
        messages: usize,
        allowed: &Allowed,
        bill: Bill,
    ) -> Result<Nanos, Error>;

    /// The cost of children so far, and their number.
    fn children(&self) -> (Nanos, u64);

    /// A turn is over and everything of it is recorded.
    ///
    /// # Errors
    /// When the files derived from the record could not be written.
    fn turn_over(&mut self, journal: &mut Journal, cost: &Cost) -> Result<(), Error>;

    /// How full the model's window is, where it has one.
    fn window(&mut self, _messages: &[ChatMessage], _last: &Usage) -> Option<Window> {
        None
    }

    /// Passes progress to observers.
    fn progress(&mut self, progress: Progress<'_>);
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Judgement {
    /// Its name: `rate_limited`, `permanent_auth`, …
    pub(crate) code: String,
    /// `transient`, `rate_limited`, `permanent`, …
    pub(crate) category: String,
    pub(crate) retryable: bool,
    /// How long to wait before another attempt; None: there is none.
    pub(crate) retry: Option<Duration>,
    /// The same if a hook wants another attempt, regardless of its chances; None: there were
    /// enough.
    pub(crate) again: Option<Duration>,
}

pub(crate) trait Recovery: Send + Sync {
    /// The judgement after `attempts` attempts, of which the last ended in `error`.
    fn judge(&self, error: &ModelError, attempts: u32) -> Judgement;
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum End {
    /// The model finished: its text, and its named outputs.
    Completed {
        text: String,
        outputs: Option<Map<String, Value>>,
    },
    /// It cannot continue.
    Failed(String),
    /// It must not continue until a person decides.
    Suspended(Box<Pause>),
    /// It is at a limit, or over it.
    LimitReached(Box<Reached>),
    /// The model's window is full: another thread continues.
    Full(Fill),
    /// It was stopped on request.
    Cancelled,
}

/// A limit that ends a thread, and what the thread gave before.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reached {
    pub(crate) hit: LimitHit,
    pub(crate) text: String,
    pub(crate) outputs: Option<Map<String, Value>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pause {
    /// `limit`, `error`, or `approval` where a hook wants it.
    pub(crate) reason: &'static str,
    /// In words.
    pub(crate) why: String,
    pub(crate) hit: Option<LimitHit>,
    /// Does it ask a person for more?
    pub(crate) escalates: bool,
}

pub(crate) struct Course {
    /// All messages, the next question included.
    pub(crate) messages: Vec<ChatMessage>,
    /// Its use so far, children included.
    pub(crate) cost: Cost,
    /// The use of the threads that handed themselves over to it: limits count both.
    pub(crate) carried: Cost,
    pub(crate) own: Nanos,
    /// When it began, by the clock's steady time.
    pub(crate) began: Duration,
    /// How long it had run before this process took it over.
    pub(crate) before: Duration,
    /// The twentieths of the window for which hooks were asked.
    pub(crate) pressure: u64,
}

impl Course {
    pub(crate) fn elapsed(&self, clock: &dyn Clock) -> Duration {
        let here = clock.elapsed().saturating_sub(self.began);
        here.saturating_add(self.before)
    }
}

impl Cycle<'_> {
    /// Runs to an end.
    ///
    /// # Errors
    /// When nothing can be recorded any more: there is no honest end then.
    pub(crate) fn run(
        &self,
        course: &mut Course,
        journal: &mut Journal,
        around: &mut dyn Surroundings,
    ) -> Result<End, Error> {
        loop {
            if let Some(end) = self.stopped(course, journal, around, When::BeforeTurn)? {
                return Ok(end);
            }
            // Children that ended meanwhile.
            self.writer.serve(journal);
            around.progress(Progress::Asking(&course.cost));
            let began = self.clock.elapsed();
            let (answer, allowed) = match self.asked(course, journal, around)? {
                Ok(answered) => answered,
                Err(end) => {
                    self.count(course, around);
                    return Ok(end);
                }
            };
            let usage = &answer.usage;
            course
                .cost
                .add_turn(usage.input_tokens, usage.output_tokens);
            self.count(course, around);
            let said = ChatMessage::Assistant {
                text: answer.text.clone(),
                calls: answer.calls.clone(),
            };
            course.messages.push(said);
            if let Some(hit) = self.exceeded(&course.carried, &course.cost) {
                self.run_none(&answer.calls, course, journal)?;
                return self.limited(hit, Given::of(answer.text), &course.cost, journal);
            }
            if let (Stop::Truncated, Some(limiting)) = (answer.stop, allowed.clamped) {
                let hit = limiting.hit(&self.limits, &course.carried.and(&course.cost));
                return self.limited(hit, Given::of(answer.text), &course.cost, journal);
            }
            let end = match said_all(&answer) {
                Some(end) => Some(end),
                None => self.call_all(&answer.calls, course, journal, around)?,
            };
            let took = self.clock.elapsed().saturating_sub(began);
            around.progress(Progress::Turned(took));
            if let Some(end) = end {
                self.count(course, around);
                return self.settled(end, &course.carried, &course.cost, journal);
            }
            let step = json!({"cost": course.cost.to_json(), "turn": journal.turn()});
            let decision = self.fire("after_step", &step, journal)?;
            self.count(course, around);
            around.turn_over(journal, &course.cost)?;
            if let Some(end) = decision.as_ref().and_then(ended_by) {
                return Ok(end);
            }
            if let Some(end) = self.stopped(course, journal, around, When::AfterTurn)? {
                return Ok(end);
            }
            match around.window(&course.messages, &answer.usage) {
                Some(Window::Full(fill)) => {
                    // Limits that leave no turn to a successor stop the thread here: such a
                    // successor would be useless.
                    if let Some(end) = self.stopped(course, journal, around, When::BeforeTurn)? {
                        return Ok(end);
                    }
                    return self.filled(fill, course, journal);
                }
                Some(Window::Open(fill)) => {
                    if let Some(end) = self.pressed(fill, course, journal)? {
                        return Ok(end);
                    }
                }
                None => {}
            }
        }
    }

    /// Asks the hooks of `context_window_pressure`, once for each twentieth of the window that the
    /// conversation reaches.
    fn pressed(
        &self,
        fill: Fill,
        course: &mut Course,
        journal: &mut Journal,
    ) -> Result<Option<End>, Error> {
        if fill.twentieths() <= course.pressure {
            return Ok(None);
        }
        course.pressure = fill.twentieths();
        let mut event = fill.pressure();
        event["turn"] = journal.turn().into();
        event["cost"] = course.cost.to_json();
        let decision = self.fire("context_window_pressure", &event, journal)?;
        Ok(decision.as_ref().and_then(ended_by))
    }

    /// Records that the model's window is full, and asks the hooks.
    pub(crate) fn filled(
        &self,
        fill: Fill,
        course: &Course,
        journal: &mut Journal,
    ) -> Result<End, Error> {
        let mut reached = fill.to_json();
        journal.event("context_limit_reached", &reached)?;
        reached["cost"] = course.cost.to_json();
        let decision = self.fire("context_limit_reached", &reached, journal)?;
        let ended = decision.as_ref().and_then(ended_by);
        Ok(ended.unwrap_or(End::Full(fill)))
    }

    /// Time and children's money, as they are now.
    fn count(&self, course: &mut Course, around: &dyn Surroundings) {
        course.cost.elapsed = course.elapsed(self.clock);
        let (children, spawns) = around.children();
        course.cost.spend = course.own.saturating_add(children);
        course.cost.spawns = spawns;
    }

    /// Asks the hooks of an event for a decision.
    fn fire(
        &self,
        event: &str,
        more: &Value,
        journal: &mut Journal,
    ) -> Result<Option<Decision>, Error> {
        let mut record = ThreadHookRecord {
            journal,
            writer: self.writer,
        };
        Ok(self.hook_runner.fire(event, more, &mut record)?.decision)
    }

    fn stopped(
        &self,
        course: &mut Course,
        journal: &mut Journal,
        around: &dyn Surroundings,
        when: When,
    ) -> Result<Option<End>, Error> {
        self.count(course, around);
        if self.cancel.is_set() {
            return self.given_up(course, journal).map(Some);
        }
        let used = course.carried.and(&course.cost);
        match self.limits.check(when, &used) {
            Some(hit) => self
                .limited(hit, Given::default(), &course.cost, journal)
                .map(Some),
            None => Ok(None),
        }
    }

    /// How a thread ends that was stopped: at its limit where its own time is over; else it is
    /// cancelled, on request or with its parent.
    fn given_up(&self, course: &Course, journal: &mut Journal) -> Result<End, Error> {
        let cost = Cost {
            elapsed: course.elapsed(self.clock),
            ..course.cost
        };
        let used = course.carried.and(&cost);
        match self.limits.check(When::BeforeTurn, &used) {
            Some(hit) if self.cancel.why() == Some(Stopped::Late) => {
                self.limited(hit, Given::default(), &cost, journal)
            }
            _ => Ok(End::Cancelled),
        }
    }

    /// The limit that this use exceeds.
    pub(crate) fn exceeded(&self, carried: &Cost, cost: &Cost) -> Option<LimitHit> {
        self.limits.check(When::AfterTurn, &carried.and(cost))
    }

    /// A thread that is over a limit has not completed: hooks are asked about that limit.
    ///
    /// # Errors
    /// When nothing can be recorded any more.
    pub(crate) fn settled(
        &self,
        end: End,
        carried: &Cost,
        cost: &Cost,
        journal: &mut Journal,
    ) -> Result<End, Error> {
        match (end, self.exceeded(carried, cost)) {
            (End::Completed { text, outputs }, Some(hit)) => {
                self.limited(hit, Given { text, outputs }, cost, journal)
            }
            (end, _) => Ok(end),
        }
    }

    /// Asks the hooks about a limit that is hit.
    fn limited(
        &self,
        hit: LimitHit,
        given: Given,
        cost: &Cost,
        journal: &mut Journal,
    ) -> Result<End, Error> {
        let mut context = hit.to_json();
        context["cost"] = cost.to_json();
        let decision = self.fire("limit", &context, journal)?;
        Ok(at_limit(hit, given, decision))
    }

    /// Asks until there is an answer, or an error that does not pass. Each attempt is paid for.
    fn asked(
        &self,
        course: &mut Course,
        journal: &mut Journal,
        around: &mut dyn Surroundings,
    ) -> Result<Result<(Answer, Allowed), End>, Error> {
        let mut schemas = self.tools.schemas();
        schemas.extend(self.returning.schema());
        let request = Request {
            system: self.system,
            messages: &course.messages,
            tools: &schemas,
            max_output_tokens: self.max_output_tokens,
            cancel: self.cancel,
        };
        let messages = course.messages.len();
        for attempts in 1.. {
            let attempt = Attempt {
                turn: course.cost.turns + 1,
                number: attempts,
            };
            let used = course.carried.and(&course.cost);
            let left = self.limits.tokens;
            let left = left.map(|most| most.saturating_sub(used.tokens()));
            let allowed = match around.allow(attempt, &request, left)? {
                Ok(allowed) => allowed,
                Err(short) => {
                    let hit = short.hit(&self.limits, &used);
                    let end = self.limited(hit, Given::default(), &course.cost, journal);
                    return end.map(Err);
                }
            };
            let requested = Requested {
                model: self.model.name(),
                max_output_tokens: allowed.max_output_tokens,
                held: allowed.held,
            };
            let step = match attempts {
                1 => {
                    let (text, role) = last_said(&course.messages);
                    journal.ask(text, role, &requested)?
                }
                _ => journal.ask_again(attempts.into(), &requested)?,
            };
            let mut shown = self.secrets.streaming();
            let mut show = |text: &str| {
                if !text.is_empty() {
                    around.progress(Progress::Text(text));
                }
            };
            let request = Request {
                max_output_tokens: allowed.max_output_tokens,
                ..request
            };
            let answer = self
                .model
                .ask(&request, &mut |text| show(&shown.push(text)));
            show(&shown.finish());
            let answer = self.masked(answer, journal)?;
            let bill = bill_of(&answer);
            let recorded = match answer.and_then(recordable) {
                Ok(mut answer) => {
                    tell_apart(&mut answer.calls, journal.turn());
                    journal.answered(step, &answer).map(|()| Ok(answer))
                }
                Err(error) => journal
                    .unanswered(step, &error.message)
                    .map(|()| Err(error)),
            };
            // It is paid for in any case.
            let spent = around.settle(attempt, messages, &allowed, bill)?;
            course.own = course.own.saturating_add(spent);
            if spent > allowed.held {
                let beyond = json!({"turn": attempt.turn, "attempt": attempts,
                                    "held": allowed.held.to_real(), "charged": spent.to_real()});
                journal.event("charged_beyond", &beyond)?;
            }
            let error = match recorded? {
                Ok(answer) => return Ok(Ok((answer, allowed))),
                Err(error) => error,
            };
            if let Bill::Used(usage) = bill {
                let cost = &mut course.cost;
                cost.input_tokens = cost.input_tokens.saturating_add(usage.input_tokens);
                cost.output_tokens = cost.output_tokens.saturating_add(usage.output_tokens);
            }
            course.cost.spend = course.cost.spend.saturating_add(spent);
            if self.cancel.is_set() {
                return self.given_up(course, journal).map(Err);
            }
            let judgement = self.recovery.judge(&error, attempts);
            journal.event(
                "error_classified",
                &json!({"error_code": judgement.code, "category": judgement.category,
                        "retryable": judgement.retry.is_some(), "attempt": attempts,
                        "message": error.message}),
            )?;
            around.progress(Progress::Failed(&judgement.category));
            let context = json!({
                "error": error.to_value()["error"], "status_code": error.status, "attempt": attempts,
                "classification": {"code": judgement.code, "category": judgement.category,
                                   "retryable": judgement.retryable},
                "cost": course.cost.to_json(),
            });
            let decision = self.fire("error", &context, journal)?;
            let wait = match at_error(&judgement, &error, decision) {
                Ok(wait) => wait,
                Err(end) => return Ok(Err(end)),
            };
            around.progress(Progress::Retrying(&judgement.code, wait));
            if self.cancel.within(wait) {
                return self.given_up(course, journal).map(Err);
            }
        }
        Ok(Err(End::Failed("too many attempts".to_owned())))
    }
}

impl Cycle<'_> {
    /// An answer or an error without secrets, before anything records or uses it.
    fn masked(
        &self,
        mut answer: Result<Answer, ModelError>,
        journal: &mut Journal,
    ) -> Result<Result<Answer, ModelError>, Error> {
        let (count, place) = match &mut answer {
            Ok(answer) => (answer.mask(self.secrets), "model"),
            Err(error) => (error.mask(self.secrets), "error"),
        };
        self.note_replaced(count, place, journal)?;
        Ok(answer)
    }

    fn note_replaced(&self, count: u64, place: &str, journal: &mut Journal) -> Result<(), Error> {
        if count == 0 {
            return Ok(());
        }
        let (kind, payload) = secrets::event(count, place, journal.turn());
        journal.event(kind, &payload)
    }
}

/// How a decision of a hook ends the thread, if it does.
pub(crate) fn ended_by(decision: &Decision) -> Option<End> {
    match decision.control {
        Control::Fail => Some(End::Failed(decision.said("a hook ends the thread"))),
        Control::Abort => Some(End::Cancelled),
        Control::Suspend | Control::Escalate => Some(End::Suspended(Box::new(Pause {
            reason: "approval",
            why: decision.said("a hook suspends the thread"),
            hit: None,
            escalates: decision.control == Control::Escalate,
        }))),
        Control::Retry | Control::Continue | Control::Skip => None,
    }
}

/// What a thread gave before a limit ended it.
#[derive(Default)]
pub(crate) struct Given {
    pub(crate) text: String,
    pub(crate) outputs: Option<Map<String, Value>>,
}

impl Given {
    fn of(text: String) -> Self {
        Self {
            text,
            outputs: None,
        }
    }
}

/// Hooks decide only how a thread stops at a limit, not whether.
pub(crate) fn at_limit(hit: LimitHit, given: Given, decision: Option<Decision>) -> End {
    match decision {
        Some(decision) if decision.control == Control::Fail => {
            End::Failed(decision.said(&hit.to_string()))
        }
        Some(decision) if decision.control == Control::Abort => End::Cancelled,
        Some(decision) if decision.control == Control::Suspend => End::Suspended(Box::new(Pause {
            reason: "limit",
            why: hit.to_string(),
            hit: Some(hit),
            escalates: false,
        })),
        _ => End::LimitReached(Box::new(Reached {
            hit,
            text: given.text,
            outputs: given.outputs,
        })),
    }
}

/// How long to wait before the next attempt, or how the thread ends. Without a decision the
/// classification counts.
fn at_error(
    judgement: &Judgement,
    error: &ModelError,
    decision: Option<Decision>,
) -> Result<Duration, End> {
    let failed = || End::Failed(format!("{}: {}", judgement.code, error.for_people()));
    let Some(decision) = decision else {
        return judgement.retry.ok_or_else(failed);
    };
    match decision.control {
        // There are never more attempts than the settings allow.
        Control::Retry => judgement.again.ok_or_else(failed),
        Control::Abort => Err(End::Cancelled),
        Control::Suspend | Control::Escalate => Err(End::Suspended(Box::new(Pause {
            reason: "error",
            why: format!("{}: {}", judgement.code, error.for_people()),
            hit: None,
            escalates: decision.control == Control::Escalate,
        }))),
        _ => {
            let why = decision.said(&error.message);
            Err(End::Failed(format!("{}: {why}", judgement.code)))
        }
    }
}

/// How an answer ends the thread, if it does: calls of a cut-off or withheld answer do not run.
fn said_all(answer: &Answer) -> Option<End> {
    match answer.stop {
        Stop::Filtered => Some(End::Failed("the provider withheld the answer".to_owned())),
        Stop::Truncated => Some(End::Failed(
            "the answer was cut off at its longest".to_owned(),
        )),
        _ if !answer.calls.is_empty() => None,
        _ => Some(End::Completed {
            text: answer.text.clone(),
            outputs: None,
        }),
    }
}

/// Refuses an answer of which a part is too long to be recorded: it is an error like any other.
fn recordable(answer: Answer) -> Result<Answer, ModelError> {
    let call = |call: &ToolCall| call.id.len() + call.name.len() + call.input.to_string().len();
    let reasoning = answer.reasoning.as_ref().map_or(0, String::len);
    let longest = answer
        .calls
        .iter()
        .map(call)
        .fold(answer.text.len().max(reasoning), usize::max);
    if longest <= MAX_RECORDED_TEXT_BYTES {
        return Ok(answer);
    }
    Err(ModelError {
        kind: "ProtocolError".to_owned(),
        message: format!("a part of the answer has more than {MAX_RECORDED_TEXT_BYTES} bytes"),
        ..ModelError::default()
    })
}

/// What is paid for an attempt, also for an answer that is too long to be recorded.
fn bill_of(answer: &Result<Answer, ModelError>) -> Bill {
    match answer {
        Ok(answer) => Bill::Used(answer.usage),
        Err(error) if error.began => Bill::Held,
        Err(_) => Bill::Nothing,
    }
}

/// Gives each call an id of its own: some providers give none, and results are found by it.
fn tell_apart(calls: &mut [ToolCall], turn: u64) {
    let calls_in_all = calls.len();
    let mut seen = HashSet::new();
    for (place, call) in calls.iter_mut().enumerate() {
        let mut number = place;
        while call.id.is_empty() || !seen.insert(call.id.clone()) {
            call.id = format!("call_{turn}_{number}");
            number += calls_in_all;
        }
    }
}

/// The last message for the model, and its role.
fn last_said(messages: &[ChatMessage]) -> (&str, &'static str) {
    match messages.last() {
        Some(ChatMessage::ToolResult { content, .. }) => (content, "tool"),
        Some(ChatMessage::User(text) | ChatMessage::Assistant { text, .. }) => (text, "user"),
        None => ("", "user"),
    }
}

#[cfg(test)]
mod tests;
