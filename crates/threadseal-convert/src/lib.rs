//! Maps the records of agent programs into scrolls: one table of formats, each a pure function.
//!
//! ```text
//! bytes of a source ─► Format::map ─► Mapped { drafts: Drafts, account: Account }
//! ```
//!
//! | module | owns |
//! |---|---|
//! | `draft` | a turn in the making, the items of its messages, default fields |
//! | `account` | the fate of every part of the source |
//! | `source` | lines, and the reader that tracks every part |
//! | `fit` | numbers, depth and strings that a scroll cannot hold unchanged |
//! | `build` | drafts in order, with the fields that the schema requires |
//! | `packed` | drafts in few bytes, until they are sealed |
//! | `growing` | a turn that several records extend |
//! | `repeats` | texts that the source contains twice |
//! | `archive` | ZIP archives of logs, within bounds |
//! | one per format | its table and its function |
//!
//! A new format is a module and a line of [`FORMATS`]. One rule covers all formats: content is in
//! the scroll once. Content is text of a human, a model or a program, reasoning, the arguments of a
//! call and its result. Repeated copies, bookkeeping and unknown parts are in the [`Account`] with
//! line, JSON Pointer and reason. So is a line that cannot be read. `spec/scroll-mappings.md` has
//! all tables.

#![forbid(unsafe_code)]

mod account;
#[cfg(feature = "archive")]
pub mod archive;
mod atif;
mod build;
mod chat;
mod claude;
mod codex;
mod draft;
pub mod export;
mod fit;
mod gemini;
mod growing;
mod inspect;
mod langfuse;
mod mini_swe_agent;
mod opencode;
mod otlp;
mod packed;
mod redact;
mod repeats;
mod source;
mod swe_agent;
mod thread;
mod trace;
mod wire;

pub use account::{Account, Alteration, Group, Lines, Reason, Tokens};
pub use draft::{Body, Draft, Message, Model, Params, Source, ToolCall, ToolResult};
pub use inspect::{Member, map_members};
pub use packed::Drafts;
pub use redact::{Bodies, Detector, MIN_REPEATED_LINE, Secret, redact};

use threadseal_core::canon::json::Value;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::{
    MAX_DETECT_BYTES, MAX_DETECT_LINES, MAX_LINE_BYTES, MAX_SOURCE_BYTES, MAX_TURN_BYTES,
};
use threadseal_formats::scroll::Turn;

/// The result of a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapped {
    /// Turns, in order.
    pub drafts: Drafts,
    /// The fate of every part of the source.
    pub account: Account,
}

/// A format that can be mapped.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// The name on the command line.
    pub name: &'static str,
    /// The program that writes it.
    pub about: &'static str,
    detect: fn(&Head<'_>) -> bool,
    map: fn(&[u8]) -> Result<Mapped, Error>,
}

/// Every format, in the order of detection.
pub const FORMATS: &[Format] = &[
    claude::FORMAT,
    codex::FORMAT,
    gemini::FORMAT,
    opencode::FORMAT,
    atif::FORMAT,
    swe_agent::FORMAT,
    mini_swe_agent::FORMAT,
    inspect::FORMAT,
    otlp::FORMAT,
    langfuse::FORMAT,
    wire::anthropic::FORMAT,
    wire::responses::FORMAT,
    wire::google::FORMAT,
    wire::chat::FORMAT,
];

/// The beginning of a source, for detection.
struct Head<'a> {
    /// All of it, as on disk.
    bytes: &'a [u8],
    /// The first lines that are JSON objects.
    lines: Vec<Value>,
    /// The source, if all of it is one JSON text.
    document: Option<Value>,
}

/// The format called `name`.
pub fn find(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

/// The format of `source`, detected from its content. The file name does not count.
pub fn detect(source: &[u8]) -> Option<&'static Format> {
    let head = Head::of(source);
    FORMATS.iter().find(|format| (format.detect)(&head))
}

impl Format {
    /// The turns of `source`, and the account.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`] beyond [`MAX_SOURCE_BYTES`]; [`ErrorKind::InvalidInput`] if the source
    /// as a whole is not of this format. Faults of single lines are in the account.
    pub fn map(&self, source: &[u8]) -> Result<Mapped, Error> {
        if source.len() > MAX_SOURCE_BYTES {
            let message = format!("source is larger than {MAX_SOURCE_BYTES} bytes; hint: split it");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        (self.map)(source)
    }
}

impl Mapped {
    /// All turns at once, as trees of values.
    pub fn turns(&self) -> Vec<Draft> {
        self.drafts.iter().collect()
    }

    /// [`Drafts::into_turns`], all at once.
    ///
    /// # Errors
    /// The first turn that exceeds the bounds of a scroll.
    pub fn into_turns(self) -> Result<Vec<Turn>, Error> {
        self.drafts.into_turns().collect()
    }
}

impl Drafts {
    /// The turns, numbered from 0, each made on demand.
    ///
    /// A turn beyond [`MAX_TURN_BYTES`] is [`ErrorKind::Limit`]: no scroll may hold it.
    pub fn into_turns(self) -> impl Iterator<Item = Result<Turn, Error>> {
        let numbered = (0..).zip(self);
        numbered.map(|(index, draft)| turn(index, draft))
    }

    /// Checks that a scroll may hold every turn, before the first is written.
    ///
    /// # Errors
    /// The first of [`Self::into_turns`].
    pub fn check(&self) -> Result<(), Error> {
        self.large(MAX_TURN_BYTES / packed::MAX_GROWTH)
            .try_for_each(|(index, draft)| turn(index, draft).map(drop))
    }
}

fn turn(index: u64, draft: Draft) -> Result<Turn, Error> {
    let turn = draft
        .into_turn(index)
        .map_err(|violation| Error::invalid(format!("turn {index}: {violation}")))?;
    // The seal adds hash and signature, well below 1 KiB.
    if turn.canonical().len() + (1 << 10) > MAX_TURN_BYTES {
        let message = format!("turn {index} is larger than {MAX_TURN_BYTES} bytes");
        return Err(Error::new(ErrorKind::Limit, message));
    }
    Ok(turn)
}

impl<'a> Head<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        let bytes = source::without_mark(bytes);
        let mut lines = Vec::new();
        let mut looked_at = 0;
        let candidates = bytes.split(|byte| *byte == b'\n').take(MAX_DETECT_LINES);
        for line in candidates.filter(|line| line.len() <= MAX_LINE_BYTES) {
            if looked_at > MAX_DETECT_BYTES {
                break;
            }
            looked_at += line.len();
            lines.extend(
                source::read_json(line)
                    .ok()
                    .filter(|value| value.as_object().is_some()),
            );
        }
        // Lines inside a pretty-printed document may be objects too, but its first line is not.
        let mut all = bytes.split(|byte| *byte == b'\n');
        let first = all.find(|line| !line.iter().all(u8::is_ascii_whitespace));
        let opens = first.is_some_and(|line| source::read_json(line).is_err());
        let whole = (lines.is_empty() || opens) && bytes.len() <= MAX_SOURCE_BYTES;
        let document = match lines.as_slice() {
            [only] if bytes.iter().filter(|byte| **byte == b'\n').count() <= 1 => {
                Some(only.clone())
            }
            _ if whole => thread::document(bytes).ok(),
            _ => None,
        };
        Self {
            bytes,
            lines,
            document,
        }
    }
}
