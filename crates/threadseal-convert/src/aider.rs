//! Aider's chat history (`.aider.chat.history.md`): Markdown, one session after the other.
//!
//! ```text
//! # aider chat started at 2025-01-31 10:15:02                    a session begins
//! #### text                                                      a line of the user
//! > text                                                         a line of the program
//! text                                                           a line of the model
//! ```
//!
//! Lines of one speaker that follow one another are one turn. Aider reads its own history by the
//! same rule, so a quote of the model counts as lines of the program. The history contains neither
//! calls nor exact counts of tokens. A "line" is the line of the file.
//!
//! `spec/scroll-mappings.md` C21 has the table of lines.

use super::account::Account;
use super::draft::{Draft, Message, text_item};
use super::format::{Confidence, Format, Head, Mark};
use super::mapped::Mapped;
use super::source::without_mark;
use super::thread::Thread;
use threadseal_core::canon::json::Value;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::{MAX_LINE_BYTES, MAX_SOURCE_LINES};
use threadseal_formats::scroll::Role;

const NAME: &str = "aider";
const STARTED: &str = "# aider chat started at ";
/// How much of a file is searched for the marks of a history.
const MAX_SEARCHED: usize = 1 << 20;

pub(super) const FORMAT: Format = Format {
    name: NAME,
    about: "Aider chat history (.aider.chat.history.md)",
    detect,
    map,
};

fn detect(head: &Head<'_>) -> Option<Mark> {
    let searched = head.bytes.get(..MAX_SEARCHED).unwrap_or(head.bytes);
    let text = String::from_utf8_lossy(searched);
    if text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let started = text.lines().any(|line| line.starts_with(STARTED));
    let why = "a line `# aider chat started at`";
    Mark::when(started, Confidence::Certain, why).or_else(|| {
        let asked = text.lines().any(|line| line.starts_with("#### "));
        let counted = text
            .lines()
            .any(|line| line.starts_with("> Tokens: ") || line.starts_with("> Aider v"));
        let why = "lines `#### ` of a user, and `> Tokens: ` of the program";
        Mark::when(asked && counted, Confidence::Likely, why)
    })
}

fn map(source: &[u8]) -> Result<Mapped, Error> {
    let text = std::str::from_utf8(without_mark(source));
    let text = text.map_err(|_| Error::new(ErrorKind::InvalidInput, "is not UTF-8"))?;
    let mut account = Account::default();
    let mut history = History {
        thread: Thread::new(NAME),
        session: None,
        open: None,
    };
    for (place, line) in (1..).zip(text.split_inclusive('\n')) {
        account.records += 1;
        if place > MAX_SOURCE_LINES {
            account.lose_record(line.len());
            account.unmapped(place, "too many lines in the source");
        } else if line.len() > MAX_LINE_BYTES {
            account.lose_record(line.len());
            account.unmapped(place, "line too long");
        } else {
            history.line(line, place);
        }
    }
    history.flush();
    Ok(history.thread.finish(account))
}

/// Lines of one speaker.
struct Block {
    role: Role,
    text: String,
    lines: (u64, u64),
}

struct History {
    thread: Thread,
    /// The beginning of the session, as the program spells it.
    session: Option<String>,
    open: Option<Block>,
}

impl History {
    fn line(&mut self, line: &str, number: u64) {
        if let Some(moment) = line.strip_prefix(STARTED) {
            self.flush();
            self.session = Some(moment.trim_end().to_owned());
            return;
        }
        let (role, text) = match (line.strip_prefix("#### "), line.strip_prefix("> ")) {
            (Some(text), _) => (Role::User, text),
            (None, Some(text)) => (Role::System, text),
            (None, None) => (Role::Assistant, line),
        };
        let fits = |block: &Block| {
            block.role == role && block.text.len().saturating_add(line.len()) < MAX_LINE_BYTES
        };
        match self.open.as_mut().filter(|block| fits(block)) {
            Some(block) => {
                block.text.push_str(text);
                block.lines.1 = number;
            }
            None => {
                self.flush();
                self.open = Some(Block {
                    role,
                    text: text.to_owned(),
                    lines: (number, number),
                });
            }
        }
    }

    /// Adds the turn of the lines so far. Blank lines alone are none.
    fn flush(&mut self) {
        let Some(block) = self.open.take() else {
            return;
        };
        if block.text.trim().is_empty() {
            return;
        }
        let mut draft = Draft::new(block.role, "");
        let text = block.text.strip_suffix('\n').unwrap_or(&block.text);
        let items = vec![text_item(text)];
        draft.messages.push(Message::items(block.role, items));
        let (first, last) = block.lines;
        let mut source = self.thread.source(&[]);
        let mut lines = vec![Value::from(first)];
        if last != first {
            lines.push(last.into());
        }
        source.set("lines", Value::Array(lines));
        source.set_some("session", self.session.as_deref());
        self.thread.push(draft, source);
    }
}

#[cfg(test)]
mod tests;
