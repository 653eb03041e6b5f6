//! From what agents write to scrolls: one table of formats, each a pure function.
//!
//! ```text
//! bytes of a source ─► Format::map ─► Mapped { drafts: Drafts, account: Account }
//! ```
//!
//! | module | owns |
//! |---|---|
//! | `draft` | a turn in the making, the items of its messages, what is made up |
//! | `account` | what became of every part of the source |
//! | `source` | lines, and the reader that forgets nothing |
//! | `fit` | numbers, depth and strings that a scroll cannot hold as they stand |
//! | `build` | drafts in order, with the fields that the schema demands |
//! | `packed` | drafts in few bytes, until they are sealed |
//! | `growing` | a turn that several records add to |
//! | `said` | which texts the source says twice |
//! | `archive` | ZIP archives that hold logs, within bounds |
//! | one per format | its table and its function |
//!
//! A new format is a module and a line of [`FORMATS`]. What holds for all: content (what a human,
//! a model or a program said, reasoning, the arguments of a call and its result) is in the scroll
//! once; repeated copies, bookkeeping and whatever the mapping does not know are in the
//! [`Account`] with line, JSON Pointer and reason. A line that cannot be read is in it too.
//! `spec/scroll-mappings.md` has all tables.

mod account;
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
mod said;
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

/// What a mapping makes of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapped {
    /// Turns, in order.
    pub drafts: Drafts,
    /// What became of every part of the source.
    pub account: Account,
}

/// A format that can be mapped.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// The name on the command line.
    pub name: &'static str,
    /// What writes it.
    pub about: &'static str,
    detect: fn(&Head<'_>) -> bool,
    map: fn(&[u8]) -> Result<Mapped, Error>,
}

/// Every format, in the order in which detection asks them.
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
    /// All of it, as it lies on disk.
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

/// The format that `source` has, by what it holds; its name on disk says nothing.
pub fn detect(source: &[u8]) -> Option<&'static Format> {
    let head = Head::of(source);
    FORMATS.iter().find(|format| (format.detect)(&head))
}

impl Format {
    /// The turns of `source`, and the account.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`] beyond [`MAX_SOURCE_BYTES`]; [`ErrorKind::InvalidInput`] if the source
    /// as a whole is nothing that this format knows. What is wrong with a single line is in the
    /// account.
    pub fn map(&self, source: &[u8]) -> Result<Mapped, Error> {
        if source.len() > MAX_SOURCE_BYTES {
            let message = format!("source is larger than {MAX_SOURCE_BYTES} bytes; split it");
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
    /// The first turn that no scroll may hold.
    pub fn into_turns(self) -> Result<Vec<Turn>, Error> {
        self.drafts.into_turns().collect()
    }
}

impl Drafts {
    /// The turns, numbered from 0, each made when it is asked for.
    ///
    /// One is [`ErrorKind::Limit`] if it is beyond [`MAX_TURN_BYTES`]: no scroll may hold it.
    pub fn into_turns(self) -> impl Iterator<Item = Result<Turn, Error>> {
        let numbered = (0..).zip(self);
        numbered.map(|(index, draft)| turn(index, draft))
    }

    /// Makes sure that a scroll may hold every turn, before the first is written.
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
        // Lines inside of a pretty-printed document may be objects too; its first line is none.
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
