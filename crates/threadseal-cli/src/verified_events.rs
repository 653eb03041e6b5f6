//! The events of a transcript, verified first and then read from the very bytes that were verified.

use crate::context::Context;
use crate::exit::{Exit, Failure, complain};
use crate::verifying;
use std::path::Path;
use threadseal_core::canon::json::{self, IrregularityKind, Value};
use threadseal_core::report::{Report, Verdict};
use threadseal_verify::Need;

/// An event that may be trusted.
#[derive(Debug, Clone)]
pub(crate) struct VerifiedEvent {
    /// Its type.
    pub(crate) event_type: String,
    /// Its thread.
    pub(crate) thread: String,
    /// What it holds.
    pub(crate) payload: Value,
}

/// The part of a transcript that may be trusted.
pub(crate) struct VerifiedEvents {
    /// The report of the verification of the whole transcript.
    pub(crate) report: Report,
    /// The events under seals that count, in order.
    pub(crate) events: Vec<VerifiedEvent>,
}

impl VerifiedEvents {
    /// Verifies the transcript at `path` by the home's trust and reads what may be believed; of a
    /// record with evidence against it nothing.
    ///
    /// # Errors
    /// When it cannot be read, is no transcript, or a covered line can be read in two ways.
    pub(crate) fn read(path: &Path, context: &Context) -> Result<Self, Failure> {
        let record = match verifying::open(path, Need::Vouched, context)? {
            Ok(record) => record,
            Err(report) => {
                return Ok(Self {
                    report: *report,
                    events: Vec::new(),
                });
            }
        };
        if record.report().verdict.is_evidence() {
            return Ok(Self {
                report: record.report().clone(),
                events: Vec::new(),
            });
        }
        let mut events = Vec::new();
        for line in record.lines()?.iter() {
            events.push(event(&line.bytes, line.number).map_err(|error| error.about(path))?);
        }
        Ok(Self {
            report: record.report().clone(),
            events,
        })
    }

    /// Reports on standard error what was left out and why; the exit is the verdict's.
    pub(crate) fn settle(&self, context: &Context) -> Exit {
        let verdict = self.report.verdict;
        if verdict != Verdict::Verified && !context.quiet {
            let path = &self.report.path;
            let what = match self.report.trusted_until {
                Some(until) if !self.events.is_empty() => {
                    format!("only bytes 0-{} are trusted and shown", until.byte)
                }
                _ => "no part of it is trusted, so nothing is shown".to_owned(),
            };
            complain(&format!(
                "{path} is {verdict}: {what}; hint: threadseal verify"
            ));
        }
        Exit::from_code(verdict.exit_code())
    }
}

fn event(line: &[u8], number: u64) -> Result<VerifiedEvent, Failure> {
    let ambiguous = |why: &str| Failure::new(format!("line {number} {why}"));
    let document =
        json::parse_python(line).map_err(|error| ambiguous(&format!("is not JSON: {error}")))?;
    // Two readers would see two events: neither may be taken up.
    for found in &document.irregularities {
        match found.kind {
            IrregularityKind::DuplicateKey => return Err(ambiguous("names a member twice")),
            IrregularityKind::NonFinite => {
                return Err(ambiguous("contains a number that is not finite"));
            }
            IrregularityKind::LoneSurrogate => {}
        }
    }
    let value = document.value;
    let text = |name: &str| {
        let member = value.get(name).and_then(Value::as_str);
        member.unwrap_or_default().to_owned()
    };
    Ok(VerifiedEvent {
        event_type: text("event_type"),
        thread: text("thread_id"),
        payload: value.get("payload").cloned().unwrap_or(Value::Null),
    })
}
