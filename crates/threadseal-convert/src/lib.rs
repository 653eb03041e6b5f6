//! Maps the records of agent programs into scrolls: one table of formats, each a pure function.
//!
//! ```text
//! bytes of a source ─► Format::map ─► Mapped { drafts: Drafts, account: Account }
//! ```
//!
//! | module | owns |
//! |---|---|
//! | `format` | a format: its name, how it is detected, its function |
//! | `mapped` | turns and account, the result of a mapping |
//! | `draft` | a turn in the making, the items of its messages, default fields |
//! | `account` | the fate of every part of the source |
//! | `source` | lines, and the reader that tracks every part |
//! | `fit` | numbers, depth and strings that a scroll cannot hold unchanged |
//! | `build` | drafts in order, with the fields that the schema requires |
//! | `packed` | drafts in few bytes, until they are sealed |
//! | `growing` | a turn that several records extend |
//! | `msgpack` | `MessagePack`, within bounds |
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
mod aider;
#[cfg(feature = "archive")]
pub mod archive;
mod atif;
mod build;
mod chat;
mod claude;
mod cline;
mod codex;
mod continue_dev;
mod copilot;
mod cursor;
mod database_rows;
mod draft;
pub mod export;
mod fit;
mod format;
mod gemini;
mod goose;
mod growing;
mod inspect;
mod langfuse;
mod langgraph;
mod mapped;
mod mini_swe_agent;
mod msgpack;
mod openai_agents;
mod openclaw;
mod opencode;
mod otlp;
mod packed;
mod pi;
mod pydantic_ai;
mod qwen;
mod redact;
mod repeats;
mod source;
mod swe_agent;
#[cfg(test)]
mod testing;
mod thread;
mod trace;
mod transcript;
mod wire;

pub use account::{Account, Alteration, Group, Lines, Reason, Tokens};
pub use draft::{Body, Draft, Message, Model, Params, Source, ToolCall, ToolResult};
pub use format::{Confidence, Detection, Format};
pub use inspect::{Member, map_members};
pub use mapped::Mapped;
pub use packed::{Drafts, holds};
pub use redact::{Bodies, Detector, MIN_REPEATED_LINE, Secret, redact};

use format::Head;

/// Every format. Of equally sure marks of several formats that of the first one counts.
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
    qwen::FORMAT,
    pi::FORMAT,
    copilot::FORMAT,
    cline::FORMAT,
    continue_dev::FORMAT,
    openclaw::FORMAT,
    goose::FORMAT,
    aider::FORMAT,
    openai_agents::FORMAT,
    pydantic_ai::FORMAT,
    database_rows::FORMAT,
    cursor::FORMAT,
    transcript::FORMAT,
];

/// The format called `name`.
pub fn find(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

/// The format of `source`, detected from its content. The file name does not count.
pub fn detect(source: &[u8]) -> Option<&'static Format> {
    recognise(source).map(|detection| detection.format)
}

/// The same, with the mark that was found. Of several marks the surest counts, of equal ones that
/// of the first format.
pub fn recognise(source: &[u8]) -> Option<Detection> {
    let head = Head::of(source);
    let mut best: Option<Detection> = None;
    for format in FORMATS {
        let Some(mark) = (format.detect)(&head) else {
            continue;
        };
        if best.is_none_or(|best| best.confidence < mark.confidence) {
            best = Some(Detection {
                format,
                confidence: mark.confidence,
                why: mark.why,
            });
        }
    }
    best
}
