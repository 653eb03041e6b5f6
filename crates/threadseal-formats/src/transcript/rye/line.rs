//! The classes of lines in a Rye transcript.
//!
//! ```text
//! strict JSON object, frame in order      an event, or a checkpoint
//! JSON that only Python reads             an event with a warning (lone surrogate, NaN, deep)
//! a name twice, another frame, no object  a fault
//! no JSON value, but a reader that ends   smuggled: Rye's verifier and its reader of messages
//!   lines elsewhere finds an object       see events that a reader at LF does not
//! ```

use crate::transcript::rye_compat::python::{may_split, split_lines, strip};
use std::borrow::Cow;
use std::ops::Range;
use threadseal_core::canon::json::{self, IrregularityKind, JsonErrorKind, Value};
use threadseal_core::report::FindingCode;

/// The events that matter to a verifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Checkpoint,
    /// `cognition_in`: a turn begins.
    TurnStarted,
    /// `step_started` of a graph, with the number it gives.
    StepStarted(u64),
    Other,
}

/// A line in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event<'a> {
    pub(super) kind: Kind,
    pub(super) thread: Cow<'a, str>,
    /// A peculiarity that a stricter or another reader would refuse.
    pub(super) oddity: Option<Oddity>,
}

/// A line that counts, but not for every reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Oddity {
    /// Python wrote it, but it is not JSON.
    Nonstandard,
    /// A raw U+0085, U+2028 or U+2029 in a string.
    CutElsewhere,
}

/// A faulty line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    NotJson,
    Blank,
    NotAnObject,
    /// One name twice; `checkpoint` when some reader sees a checkpoint in it.
    DuplicateKey {
        checkpoint: bool,
    },
    /// A checkpoint that only Python reads.
    CheckpointNotStrict,
    /// A CR between tokens: other readers end the line there.
    CarriageReturn,
    /// `thread_id`, `event_type` or `payload` is missing or of another type.
    Frame,
    /// See the module's documentation.
    Smuggled,
    TooLong,
}

impl Fault {
    /// The finding's code and message.
    pub(super) fn words(self) -> (FindingCode, &'static str) {
        match self {
            Self::NotJson => (FindingCode::NotJson, "the line is not JSON"),
            Self::Blank => (FindingCode::BlankLine, "the line is blank"),
            Self::NotAnObject => (
                FindingCode::NotAnObject,
                "the line is JSON but not an object",
            ),
            Self::DuplicateKey { .. } => (
                FindingCode::DuplicateKey,
                "a name occurs twice in one object: readers differ on its value",
            ),
            Self::CheckpointNotStrict => (
                FindingCode::MalformedCheckpoint,
                "the checkpoint line is not strict JSON",
            ),
            Self::CarriageReturn => (
                FindingCode::CarriageReturn,
                "a CR is between the tokens: other readers end the line there",
            ),
            Self::Frame => (
                FindingCode::MalformedEvent,
                "the line lacks a string thread_id, a string event_type or an object payload",
            ),
            Self::Smuggled => (
                FindingCode::SmuggledLineBreak,
                "the line is not JSON, but a reader that also ends lines elsewhere finds an event in it",
            ),
            Self::TooLong => (FindingCode::LineTooLong, "the line is too long"),
        }
    }

    /// Whether this is evidence against the record anywhere in it, sealed or not.
    pub(super) fn is_attack(self) -> bool {
        matches!(
            self,
            Self::Smuggled | Self::CheckpointNotStrict | Self::DuplicateKey { checkpoint: true }
        )
    }
}

/// Whether a transcript with this first line (with or without LF) claims to be native.
pub fn looks_native(first_line: &[u8]) -> bool {
    let Ok(line) = json::parse(first_line) else {
        return false;
    };
    let format = line
        .get("payload")
        .and_then(|payload| payload.get("format"));
    line.get("event_type").and_then(Value::as_str) == Some("thread_started")
        && format
            .and_then(Value::as_str)
            .is_some_and(|f| f.starts_with("threadseal/"))
}

/// Reads a line without its LF.
pub(super) fn read(line: &[u8]) -> Result<Event<'_>, Fault> {
    let mut frame = Frame::default();
    match json::scan_object(line, |key, span| frame.take(&key, span)) {
        Ok(()) => frame.event(line),
        Err(error) => match error.kind {
            JsonErrorKind::NotAnObject
            | JsonErrorKind::DuplicateKey
            | JsonErrorKind::LoneSurrogate
            | JsonErrorKind::NonFiniteNumber
            | JsonErrorKind::NumberTooLong
            | JsonErrorKind::TooDeep
            | JsonErrorKind::InvalidNumber
            | JsonErrorKind::UnexpectedByte => read_as_python(line),
            _ => Err(not_json(line)),
        },
    }
}

/// Distinguishes a smuggled event from mere garbage.
pub(super) fn not_json(line: &[u8]) -> Fault {
    if may_split(line) {
        let text = String::from_utf8_lossy(line);
        let hides = |piece: &str| {
            let parsed = piece
                .starts_with('{')
                .then(|| json::parse_python(piece.as_bytes()));
            parsed.is_some_and(|parsed| parsed.is_ok())
        };
        if split_lines(&text).nth(1).is_some() && split_lines(&text).map(strip).any(hides) {
            return Fault::Smuggled;
        }
    }
    if line.trim_ascii().is_empty() {
        Fault::Blank
    } else {
        Fault::NotJson
    }
}

/// Whether more bytes could complete this to a text that Python reads, as after an interrupted write.
pub(super) fn is_cut(line: &[u8]) -> bool {
    let whole = match std::str::from_utf8(line) {
        Err(error) if error.error_len().is_none() => &line[..error.valid_up_to()],
        _ => line,
    };
    json::parse_python(whole).is_err_and(|error| error.kind == JsonErrorKind::UnexpectedEnd)
}

fn read_as_python(line: &[u8]) -> Result<Event<'static>, Fault> {
    let Ok(document) = json::parse_python(line) else {
        return Err(not_json(line));
    };
    let (value, notes) = (document.value, document.irregularities);
    if value.as_object().is_none() {
        return Err(Fault::NotAnObject);
    }
    let word = value.get("event_type").and_then(Value::as_str);
    let checkpoint = word == Some("checkpoint");
    if notes
        .iter()
        .any(|note| note.kind == IrregularityKind::DuplicateKey)
    {
        // Readers differ on which of the two counts, so either counts.
        let named = memchr::memmem::find(line, b"\"checkpoint\"").is_some();
        return Err(Fault::DuplicateKey {
            checkpoint: checkpoint || named,
        });
    }
    if checkpoint {
        return Err(Fault::CheckpointNotStrict);
    }
    let thread = value
        .get("thread_id")
        .and_then(Value::as_str)
        .ok_or(Fault::Frame)?;
    let payload = value
        .get("payload")
        .filter(|payload| payload.as_object().is_some());
    let step = payload
        .ok_or(Fault::Frame)?
        .get("step")
        .and_then(Value::as_u64);
    let kind = Kind::of(word.ok_or(Fault::Frame)?, step);
    if has_inner_return(line) {
        return Err(Fault::CarriageReturn);
    }
    Ok(Event {
        kind,
        thread: Cow::Owned(thread.to_owned()),
        oddity: Some(Oddity::Nonstandard),
    })
}

impl Kind {
    fn of(event_type: &str, step: Option<u64>) -> Self {
        match event_type {
            "checkpoint" => Self::Checkpoint,
            "cognition_in" => Self::TurnStarted,
            "step_started" => Self::StepStarted(step.unwrap_or_default()),
            _ => Self::Other,
        }
    }
}

/// Whether a CR is in the line, at another place than its end: some readers split lines there.
fn has_inner_return(line: &[u8]) -> bool {
    memchr::memchr(b'\r', line.strip_suffix(b"\r").unwrap_or(line)).is_some()
}

/// The ranges of the frame's members in the line.
#[derive(Default)]
struct Frame {
    thread: Option<Range<usize>>,
    event_type: Option<Range<usize>>,
    payload: Option<Range<usize>>,
}

impl Frame {
    fn take(&mut self, key: &json::Key<'_>, span: Range<usize>) {
        if key.is("thread_id") {
            self.thread = Some(span);
        } else if key.is("event_type") {
            self.event_type = Some(span);
        } else if key.is("payload") {
            self.payload = Some(span);
        }
    }

    fn event(self, line: &[u8]) -> Result<Event<'_>, Fault> {
        let member = |span: Option<Range<usize>>| span.and_then(|span| line.get(span));
        let event_type = member(self.event_type).and_then(text).ok_or(Fault::Frame)?;
        let thread = member(self.thread).and_then(text);
        let payload = member(self.payload).filter(|payload| payload.starts_with(b"{"));
        let (Some(thread), Some(payload)) = (thread, payload) else {
            // The checkpoint's own reader reports the missing member more exactly.
            let thread = Cow::Borrowed("");
            return match &*event_type {
                "checkpoint" => Ok(Event {
                    kind: Kind::Checkpoint,
                    thread,
                    oddity: None,
                }),
                _ => Err(Fault::Frame),
            };
        };
        let step = || json::parse(payload).ok()?.get("step")?.as_u64();
        let kind = Kind::of(
            &event_type,
            if event_type == "step_started" {
                step()
            } else {
                None
            },
        );
        if has_inner_return(line) {
            return Err(Fault::CarriageReturn);
        }
        let cut = may_split(line.strip_suffix(b"\r").unwrap_or(line))
            && std::str::from_utf8(line)
                .is_ok_and(|text| split_lines(text.trim_end()).nth(1).is_some());
        Ok(Event {
            kind,
            thread,
            oddity: cut.then_some(Oddity::CutElsewhere),
        })
    }
}

/// The text of a JSON string that was found to be strict.
fn text(spelled: &[u8]) -> Option<Cow<'_, str>> {
    let inner = spelled.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if !inner.contains(&b'\\') {
        return std::str::from_utf8(inner).ok().map(Cow::Borrowed);
    }
    json::parse(spelled)
        .ok()?
        .as_str()
        .map(|text| Cow::Owned(text.to_owned()))
}
