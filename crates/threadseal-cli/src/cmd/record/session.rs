//! One record while it is written: lines in, answers out (`spec/record-protocol.md` §3 to §6).
//!
//! ```text
//! take ─► refused ────────────────────────┐
//!      └► appended ─┐                     ├─► answered in the order of the lines
//! commit ─► flush ──┴─ "written" ─────────┘
//!        └► fsync ──── "durable": one for all lines so far
//! seal ─► commit ─► checkpoint, durable, published ─► "sealed"
//! end ─► commit ─► terminal event and final seal ─► "ended"
//! ```
//! Invariants:
//! * An answer is put only after the call that makes it true has returned.
//! * After the recorder failed, nothing more is written, and the only answer is `ended` without a
//!   status. Its seal is the last one that was answered.

use super::answer::{
    Answer, Answers, EndCause, Ended, Recording, SealCause, SealedAt, SetAside, To, Trouble,
};
use super::input::{Cut, Lines};
use super::request::{self, Begin, Code, MAX_INPUT_LINE_BYTES, Refusal, Request};
use crate::exit::{Exit, Failure};
use serde_json::json;
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::Head;
use threadseal_formats::transcript::Ending;
use threadseal_formats::transcript::event::{EventType, Payload};
use threadseal_formats::transcript::ext::Ext;
use threadseal_store::clock::{Clock as _, SystemClock};
use threadseal_store::recorder::Recorder;
use threadseal_store::sys::{self, path_text};

/// The name of the protocol.
const PROTOCOL: &str = "threadseal-record/1";
/// Most bytes of a record without a seal, a line more or less: a tail of this size can be adopted.
pub(super) const MAX_UNSEALED_BYTES: u64 = 64 << 20;
/// The event that begins a turn of a model.
const QUESTION: &str = "cognition_in";

/// When seals are made, and what ends the record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Policy {
    /// Most lines without a seal.
    pub(super) every: u64,
    /// Longest time of a line without a seal.
    pub(super) after: Duration,
    /// Does a refused line end the record?
    pub(super) strict: bool,
    /// The ending of a record whose input ends without one, if the caller chose it.
    pub(super) on_eof: Option<Ending>,
}

/// A record that has begun, or was opened again.
pub(super) struct Started {
    pub(super) recorder: Recorder,
    /// Was it opened again?
    pub(super) resumed: bool,
    /// The last seal of the record that this one continues.
    pub(super) continues: Option<Head>,
    pub(super) set_aside: Option<SetAside>,
    pub(super) adopted: Option<[u64; 2]>,
}

/// Begins the record of a `begin` line.
pub(super) type Starter<'a> = dyn FnMut(&Begin) -> Result<Started, Failure> + 'a;

/// Why no line is taken any more.
#[derive(Debug)]
pub(super) enum Stop {
    /// A line ends the record.
    Asked(To, Ending, Payload),
    /// Something else does; a sentence about it.
    Cause(EndCause, String),
    /// The record cannot be written any more.
    Failed(Error),
}

/// The record, and what is to be answered.
pub(super) struct Session<'a> {
    policy: Policy,
    starter: &'a mut Starter<'a>,
    answers: Answers,
    recorder: Option<Recorder>,
    turn: Turn,
    /// Lines of the sender so far.
    input: u64,
    /// Those that are not answered yet.
    pending: Vec<Pending>,
    /// The last line that waits for `durable`.
    unsynced: Option<To>,
    /// When the first line without a seal was written.
    unsealed_since: Option<Duration>,
    /// The last seal that was answered.
    at: SealedAt,
    refused: u64,
    /// A sentence for people, if the record did not end as it was asked.
    complaint: Option<String>,
}

/// A line whose answer waits for the flush of the lines before it.
enum Pending {
    Written(To, u64),
    Refused(To, Refusal),
}

/// The turn that the next seal counts.
#[derive(Debug, Default)]
struct Turn {
    number: u64,
    is_open: bool,
    has_question: bool,
}

impl Turn {
    fn take(&mut self, is_question: bool) {
        if !self.is_open || (is_question && self.has_question) {
            self.number += 1;
            (self.is_open, self.has_question) = (true, false);
        }
        self.has_question |= is_question;
    }

    fn end(&mut self) {
        (self.is_open, self.has_question) = (false, false);
    }
}

impl<'a> Session<'a> {
    /// A session without a record: a line begins it.
    pub(super) fn new(policy: Policy, answers: Answers, starter: &'a mut Starter<'a>) -> Self {
        Self {
            policy,
            starter,
            answers,
            recorder: None,
            turn: Turn::default(),
            input: 0,
            pending: Vec::new(),
            unsynced: None,
            unsealed_since: None,
            at: SealedAt::default(),
            refused: 0,
            complaint: None,
        }
    }

    /// Takes up a record that has begun. A note on a tail is sealed at once.
    ///
    /// # Errors
    /// When that seal fails.
    pub(super) fn start(&mut self, to: Option<To>, started: Started) -> Result<(), Stop> {
        self.commit()?;
        let state = started.recorder.state();
        let (lines, turn) = (state.lines(), state.turn());
        self.turn = Turn {
            number: turn,
            ..Turn::default()
        };
        self.at = sealed_at(&started.recorder);
        let recording = Recording {
            to,
            protocol: PROTOCOL,
            thread: state.thread().as_str(),
            path: path_text(started.recorder.path()),
            record: state.manifest().record.to_string(),
            resumed: started.resumed,
            continues: started.continues.map(|head| head.to_string()),
            lines,
            turn,
            head: self.at.head.clone(),
            set_aside: started.set_aside.as_ref(),
            adopted: started.adopted,
        };
        self.answers.put(&Answer::Recording(recording));
        self.answers.send();
        let has_note = state.unsealed_lines() > 0;
        self.recorder = Some(started.recorder);
        match has_note {
            true => self.seal(None, SealCause::Opened),
            false => Ok(()),
        }
    }

    /// Takes a line of the sender.
    ///
    /// # Errors
    /// When the record ends with it.
    pub(super) fn take(&mut self, cut: Cut) -> Result<(), Stop> {
        self.input += 1;
        let input = self.input;
        let to = |id| To { input, id };
        let line = match cut {
            Cut::TooLong => {
                let why = format!("a line has at most {MAX_INPUT_LINE_BYTES} bytes");
                return self.refuse(to(None), Code::LineTooLong.because(why));
            }
            Cut::Line(bytes) if bytes.trim_ascii().is_empty() => return Ok(()),
            Cut::Line(bytes) => request::parse(&bytes),
        };
        let to = to(line.id);
        match line.request {
            Ok(request) => self.ask(to, request),
            Err(refusal) => self.refuse(to, refusal),
        }
    }

    /// Takes the last line, which has no LF: only if it is whole.
    ///
    /// # Errors
    /// As [`Session::take`].
    pub(super) fn take_last(&mut self, cut: Cut) -> Result<(), Stop> {
        let is_whole = match &cut {
            Cut::TooLong => true,
            Cut::Line(bytes) => {
                let refusal = request::parse(bytes).request.err();
                let code = refusal.map(|refusal| refusal.code);
                bytes.trim_ascii().is_empty()
                    || !matches!(code, Some(Code::NotJson | Code::NotUtf8))
            }
        };
        if is_whole {
            return self.take(cut);
        }
        self.input += 1;
        let to = To {
            input: self.input,
            id: None,
        };
        self.refuse(to, Code::LineCut.because("the line has no end"))
    }

    /// Ends the record, and answers how; with a sentence for people if it did not end as it was asked.
    /// Lines that were read together with a line that ends it are refused.
    pub(super) fn end_after(mut self, stop: Stop, lines: &mut Lines) -> (Exit, Option<String>) {
        if matches!(stop, Stop::Asked(..)) {
            while let Some(line) = lines.next().or_else(|| lines.last()) {
                self.refuse_after_end(&line);
            }
        }
        self.end(stop)
    }

    fn refuse_after_end(&mut self, cut: &Cut) {
        self.input += 1;
        let (id, is_blank) = match cut {
            Cut::TooLong => (None, false),
            Cut::Line(bytes) => (request::parse(bytes).id, bytes.trim_ascii().is_empty()),
        };
        if !is_blank {
            let to = To {
                input: self.input,
                id,
            };
            self.refused += 1;
            let refusal = Code::AfterEnd.because("the record has ended");
            self.pending.push(Pending::Refused(to, refusal));
        }
    }

    fn ask(&mut self, to: To, request: Request) -> Result<(), Stop> {
        match request {
            Request::Begin(begin) => self.begin(to, &begin),
            _ if self.recorder.is_none() => {
                let refusal = Code::BeginMissing.because("the record has not begun");
                self.refuse(to, refusal)
            }
            Request::Event(event_type, payload) => self.event(to, &event_type, &payload),
            Request::Seal => {
                self.seal(Some(to), SealCause::Asked)?;
                self.turn.end();
                Ok(())
            }
            Request::Flush => {
                self.unsynced = Some(to);
                Ok(())
            }
            Request::End(ending, payload) => Err(Stop::Asked(to, ending, payload)),
        }
    }

    fn begin(&mut self, to: To, begin: &Begin) -> Result<(), Stop> {
        if self.recorder.is_some() {
            return self.refuse(to, Code::Begun.because("the record has begun"));
        }
        match (self.starter)(begin) {
            Ok(started) => self.start(Some(to), started),
            Err(failure) => self.refuse(to, Code::BeginRefused.because(failure.to_string())),
        }
    }

    fn event(&mut self, to: To, event_type: &EventType, payload: &Payload) -> Result<(), Stop> {
        let is_question = event_type.as_str() == QUESTION;
        if is_question && self.turn.has_question && self.unsealed_lines() > 0 {
            self.seal(None, SealCause::Turn)?;
        }
        let Some(recorder) = &mut self.recorder else {
            return Ok(());
        };
        if let Err(error) = recorder.append_buffered(event_type, payload) {
            let is_of_line = matches!(error.kind(), ErrorKind::Limit | ErrorKind::InvalidInput);
            return match is_of_line && !recorder.has_failed() {
                true => self.refuse(to, Code::EventTooLong.because(error.to_string())),
                false => Err(Stop::Failed(error)),
            };
        }
        let line = recorder.state().lines();
        self.turn.take(is_question);
        self.unsynced = Some(to.clone());
        self.pending.push(Pending::Written(to, line));
        self.unsealed_since
            .get_or_insert_with(|| SystemClock.elapsed());
        match self.due_by_size() {
            Some(cause) => self.seal(None, cause),
            None => Ok(()),
        }
    }

    fn refuse(&mut self, to: To, refusal: Refusal) -> Result<(), Stop> {
        self.refused += 1;
        let why = format!("line {} was refused: {}", to.input, refusal.why);
        self.pending.push(Pending::Refused(to, refusal));
        match self.policy.strict {
            true => Err(Stop::Cause(EndCause::LineRefused, why)),
            false => Ok(()),
        }
    }

    /// Writes the lines so far and answers them, then makes them durable and answers that.
    ///
    /// # Errors
    /// When the record cannot be written.
    pub(super) fn commit(&mut self) -> Result<(), Stop> {
        let flushed = match &mut self.recorder {
            Some(recorder) => recorder.flush(),
            None => Ok(()),
        };
        self.answer_pending(flushed.is_ok());
        flushed.map_err(Stop::Failed)?;
        if let (Some(to), Some(recorder)) = (self.unsynced.take(), &mut self.recorder) {
            recorder.sync().map_err(Stop::Failed)?;
            self.answers.put(&Answer::Durable { to });
            self.answers.send();
        }
        Ok(())
    }

    fn answer_pending(&mut self, is_written: bool) {
        for pending in self.pending.drain(..) {
            match pending {
                Pending::Written(to, line) if is_written => {
                    self.answers.put(&Answer::Written { to, line });
                }
                Pending::Written(..) => {}
                Pending::Refused(to, refusal) => self.answers.put(&Answer::Refused {
                    to,
                    code: refusal.code,
                    why: &refusal.why,
                    hint: refusal.hint,
                }),
            }
        }
        self.answers.send();
    }

    fn seal(&mut self, to: Option<To>, cause: SealCause) -> Result<(), Stop> {
        self.commit()?;
        let turn = self.turn.number;
        let Some(recorder) = &mut self.recorder else {
            return Ok(());
        };
        if recorder.state().unsealed_lines() > 0 {
            recorder.seal(turn, Ext::default()).map_err(Stop::Failed)?;
            self.at = sealed_at(recorder);
        }
        self.unsealed_since = None;
        let at = self.at.clone();
        self.answers.put(&Answer::Sealed { to, cause, at });
        self.answers.send();
        Ok(())
    }

    /// Seals if the first line without a seal is old enough.
    ///
    /// # Errors
    /// When the seal fails.
    pub(super) fn seal_if_due(&mut self) -> Result<(), Stop> {
        match self.until_due() {
            Some(Duration::ZERO) => self.seal(None, SealCause::Time),
            _ => Ok(()),
        }
    }

    /// The time until a seal is due, if there is a line without one.
    pub(super) fn until_due(&self) -> Option<Duration> {
        let age = SystemClock.elapsed().saturating_sub(self.unsealed_since?);
        Some(self.policy.after.saturating_sub(age))
    }

    fn due_by_size(&self) -> Option<SealCause> {
        let state = self.recorder.as_ref()?.state();
        let sealed = state.head().map_or(0, |head| head.size);
        if state.unsealed_lines() >= self.policy.every {
            Some(SealCause::Count)
        } else if state.size().saturating_sub(sealed) >= MAX_UNSEALED_BYTES {
            Some(SealCause::Size)
        } else {
            None
        }
    }

    fn unsealed_lines(&self) -> u64 {
        let recorder = self.recorder.as_ref();
        recorder.map_or(0, |recorder| recorder.state().unsealed_lines())
    }

    /// Why answers do not reach the sender, if they do not.
    pub(super) fn trouble(&self) -> Option<Stop> {
        let (cause, why) = match self.answers.trouble()? {
            Trouble::Closed => (EndCause::AnswersClosed, "the answers cannot be written"),
            Trouble::Stalled => (EndCause::AnswersStalled, "no one reads the answers"),
        };
        Some(Stop::Cause(cause, why.to_owned()))
    }

    fn end(mut self, stop: Stop) -> (Exit, Option<String>) {
        let ended = match self.commit() {
            Ok(()) => self.write_end(stop),
            // The reason for the end may be this failure.
            Err(failed) => match stop {
                Stop::Failed(first) => Err(first),
                _ => Err(error_of(failed)),
            },
        };
        let exit = match ended {
            Ok(exit) => exit,
            Err(error) => self.answer_failure(&error),
        };
        match self.answers.finish() {
            true => (exit, self.complaint),
            false => (exit.without_output(), self.complaint),
        }
    }

    fn write_end(&mut self, stop: Stop) -> Result<Exit, Error> {
        if self.recorder.is_none() {
            let why = "no line began the record";
            self.complaint = Some(why.to_owned());
            return Ok(self.answer_end(None, None, EndCause::NotBegun, Some(why)));
        }
        let (to, cause, ending, payload) = match stop {
            Stop::Failed(error) => return Err(error),
            Stop::Asked(to, ending, payload) => (Some(to), EndCause::Asked, ending, payload),
            Stop::Cause(cause, why) => {
                let ending = self.ending_of(cause);
                let payload = self.payload_of(cause, ending, &why)?;
                if ending == Ending::Error && self.exit_of(cause) != Exit::Done {
                    self.complaint = Some(why);
                }
                (None, cause, ending, payload)
            }
        };
        if let Some(recorder) = &mut self.recorder {
            recorder.end(ending, &payload, self.turn.number)?;
            self.at = sealed_at(recorder);
        }
        Ok(self.answer_end(to, Some(name_of(ending)), cause, None))
    }

    fn ending_of(&self, cause: EndCause) -> Ending {
        match cause {
            EndCause::InputEnded => self.policy.on_eof.unwrap_or(Ending::Error),
            EndCause::Interrupted => Ending::Cancelled,
            _ => Ending::Error,
        }
    }

    /// The payload of a terminal event that no line gave.
    fn payload_of(&self, cause: EndCause, ending: Ending, why: &str) -> Result<Payload, Error> {
        let mut payload = json!({"cause": cause, "refused": self.refused});
        if ending == Ending::Error {
            payload["error"] = why.into();
        }
        Payload::parse(payload.to_string().as_bytes())
    }

    /// Exit 0 means that the record has all lines and ended as the sender or the caller asked.
    fn exit_of(&self, cause: EndCause) -> Exit {
        let is_asked = match cause {
            EndCause::Asked | EndCause::Interrupted => true,
            EndCause::InputEnded => self.policy.on_eof.is_some(),
            _ => false,
        };
        match is_asked && self.refused == 0 {
            true => Exit::Done,
            false => Exit::NoVerdict,
        }
    }

    fn answer_end(
        &mut self,
        to: Option<To>,
        status: Option<&'static str>,
        cause: EndCause,
        why: Option<&str>,
    ) -> Exit {
        let exit = self.exit_of(cause);
        self.answers.put(&Answer::Ended(Ended {
            to,
            status,
            cause,
            refused: self.refused,
            at: self.at.clone(),
            why,
            hint: None,
            exit: exit.code(),
        }));
        exit
    }

    fn answer_failure(&mut self, error: &Error) -> Exit {
        let exit = Exit::NoVerdict;
        let why = sys::message(error);
        self.complaint = Some(format!("the record is not complete: {why}"));
        let path = self.recorder.as_ref();
        let path = path.map(|recorder| path_text(recorder.path()));
        self.answers.put(&Answer::Ended(Ended {
            to: None,
            status: None,
            cause: EndCause::NotRecorded,
            refused: self.refused,
            at: self.at.clone(),
            why: Some(&why),
            hint: path.map(|path| format!("threadseal verify {path}")),
            exit: exit.code(),
        }));
        exit
    }
}

fn error_of(stop: Stop) -> Error {
    match stop {
        Stop::Failed(error) => error,
        Stop::Asked(..) | Stop::Cause(..) => Error::refused("the record ended"),
    }
}

/// The name of an ending in this protocol.
fn name_of(ending: Ending) -> &'static str {
    match ending {
        Ending::Completed => "completed",
        Ending::Error => "error",
        Ending::Cancelled => "cancelled",
        Ending::Continued => "continued",
        Ending::Suspended => "suspended",
    }
}

fn sealed_at(recorder: &Recorder) -> SealedAt {
    let state = recorder.state();
    let sealed = state.head().copied();
    SealedAt {
        seq: sealed.map(|head| head.seq),
        lines: Some(state.lines() - state.unsealed_lines()),
        turn: Some(state.turn()),
        head: sealed.map(|head| head.to_string()),
    }
}

#[cfg(test)]
mod tests;
