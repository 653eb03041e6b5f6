//! The events of a transcript that may be taken up: verified first, then read from the very bytes
//! that were verified.

use crate::context::Context;
use crate::examine::{Asked, Examiner};
use crate::exit::{Exit, Failure, complain};
use crate::gather;
use crate::local::Local;
use indicatif::ProgressBar;
use std::path::Path;
use threadseal_core::canon::json::{self, IrregularityKind, Value};
use threadseal_core::report::{Report, Verdict};
use threadseal_formats::transcript::lines::VerifiedLines;

/// Largest transcript that is taken up in memory.
pub(crate) const MAX_TAKEN_UP_BYTES: usize = 2 << 30;

/// An event that may be believed.
#[derive(Debug, Clone)]
pub(crate) struct BelievedEvent {
    /// Its type.
    pub(crate) event_type: String,
    /// Its thread.
    pub(crate) thread: String,
    /// What it holds.
    pub(crate) payload: Value,
}

/// A transcript's believed part.
pub(crate) struct Believed {
    /// What verification said of the whole.
    pub(crate) report: Report,
    /// The events under seals that count, in order.
    pub(crate) events: Vec<BelievedEvent>,
}

impl Believed {
    /// Verifies the transcript at `path` by the home's trust and reads what may be believed.
    ///
    /// # Errors
    /// When it cannot be read, is no transcript, or a covered line can be read in two ways.
    pub(crate) fn read(path: &Path, context: &Context) -> Result<Self, Failure> {
        let local = Local::to(&[], false, context);
        let trust = gather::gather(&[], None, &local, context)?;
        let examiner = Examiner::new(Asked::by(trust), ProgressBar::hidden(), context)?;
        let taken = examiner.transcript(path)?;
        let mut events = Vec::new();
        if let Some(verified) = &taken.looked.believed {
            let bytes = taken.bytes()?;
            let lines = VerifiedLines::whole(verified, &bytes, &taken.bodies)?;
            for line in lines.iter() {
                events.push(event(&line.bytes, line.number).map_err(|error| error.about(path))?);
            }
        }
        Ok(Self {
            report: taken.looked.report,
            events,
        })
    }

    /// Says on standard error what was left out and why; the exit is the verdict's.
    pub(crate) fn settle(&self, context: &Context) -> Exit {
        let verdict = self.report.verdict;
        if verdict != Verdict::Verified && !context.quiet {
            let path = &self.report.path;
            let what = match self.report.trusted_until {
                Some(until) if !self.events.is_empty() => {
                    format!("only bytes 0-{} are vouched for and shown", until.byte)
                }
                _ => "nothing in it is vouched for, so nothing is shown".to_owned(),
            };
            complain(&format!(
                "{path} is {verdict}: {what}; see: threadseal verify"
            ));
        }
        Exit::from_code(verdict.exit_code())
    }
}

fn event(line: &[u8], number: u64) -> Result<BelievedEvent, Failure> {
    let ambiguous = |why: &str| Failure::new(format!("line {number} {why}"));
    let document =
        json::parse_python(line).map_err(|error| ambiguous(&format!("is not JSON: {error}")))?;
    // Two readers would see two events: neither may be taken up.
    for found in &document.irregularities {
        match found.kind {
            IrregularityKind::DuplicateKey => return Err(ambiguous("names a member twice")),
            IrregularityKind::NonFinite => return Err(ambiguous("holds a number that is none")),
            IrregularityKind::LoneSurrogate => {}
        }
    }
    let value = document.value;
    let text = |name: &str| {
        let member = value.get(name).and_then(Value::as_str);
        member.unwrap_or_default().to_owned()
    };
    Ok(BelievedEvent {
        event_type: text("event_type"),
        thread: text("thread_id"),
        payload: value.get("payload").cloned().unwrap_or(Value::Null),
    })
}
