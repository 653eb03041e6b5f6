//! Secrets in new lines of a log (`spec/archive.md` §11): marked, or left out of the archive.
//!
//! ```text
//! new sealed lines ─► Finder ─┬─ mark ─► names of rules in the journal
//!                             └─ omit ─► redacted (§10) before a chunk of them is written
//! ```
//! Invariant: with `omit`, no chunk holds a line in which the search found a secret.

use super::keep::{LineCutter, SealedLog};
use super::{Archive, Version};
use std::collections::BTreeSet;
use threadseal_core::error::Error;
use threadseal_core::key::Signer;
use threadseal_formats::document;
use threadseal_formats::transcript::observed::{self, Redaction};
use threadseal_store::read::{Source as _, open_regular};

/// Most marks of one state.
pub(super) const MAX_MARKS: usize = 4096;
/// Most bytes of the name of a rule.
const MAX_RULE_BYTES: usize = 64;
/// Most names of rules in the reason of a redaction.
const MAX_RULES_NAMED: usize = 8;

/// What is done with secrets in new lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Secrets {
    /// The journal names their lines.
    #[default]
    Mark,
    /// Their lines are redacted before they are archived.
    Omit,
    /// Nothing is searched.
    Keep,
}

/// A line that holds what looks like a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The number of the line, from 1.
    pub line: u64,
    /// The rule that found it.
    pub rule: String,
}

/// Finds secrets.
pub trait Finder {
    /// The name of the rule that finds a secret in a line; the first, if several do.
    ///
    /// # Errors
    /// When the rules cannot be read.
    fn rule_for(&self, line: &[u8]) -> Result<Option<String>, Error>;
}

/// How new lines are searched, and who states what was left out.
#[derive(Clone, Copy)]
pub struct Search<'a> {
    /// The rules.
    pub finder: &'a dyn Finder,
    /// The key that sealed the log.
    pub signer: &'a dyn Signer,
    /// Its name.
    pub by: &'a str,
}

impl std::fmt::Debug for Search<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Search").field("by", &self.by).finish()
    }
}

impl Secrets {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Mark, Self::Omit, Self::Keep];

    /// Its name in settings and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mark => "mark",
            Self::Omit => "omit",
            Self::Keep => "keep",
        }
    }

    /// The one with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
}

impl Mark {
    pub(super) fn pair(&self) -> (u64, String) {
        (self.line, self.rule.clone())
    }

    pub(super) fn read((line, rule): &(u64, String)) -> Option<Self> {
        let is_name = (1..=MAX_RULE_BYTES).contains(&rule.len()) && rule.bytes().all(is_name_byte);
        (is_name && *line > 0).then(|| Self {
            line: *line,
            rule: rule.clone(),
        })
    }
}

/// The form that names of rules have in a journal; rules may be a person's own.
fn rule_name(rule: &str) -> String {
    let letters = rule.bytes().take(MAX_RULE_BYTES);
    let name: String = letters
        .map(|byte| {
            if is_name_byte(byte) {
                char::from(byte)
            } else {
                '-'
            }
        })
        .collect();
    match name.is_empty() {
        true => "-".to_owned(),
        false => name,
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)
}

impl Archive {
    /// The marks of the lines that the state adds to `known`, as the settings have it.
    ///
    /// # Errors
    /// Kind `External` when the log cannot be read; `Refused` when secrets are to be left out and
    /// nothing can find them; those of the finder.
    pub(super) fn search(
        &self,
        sealed: &SealedLog<'_>,
        known: Option<&Version>,
    ) -> Result<Vec<Mark>, Error> {
        let search = match (self.settings.secrets, sealed.search) {
            (Secrets::Keep, _) | (Secrets::Mark, None) => return Ok(Vec::new()),
            (Secrets::Omit, None) => return Err(unsearched(sealed)),
            (_, Some(search)) => search,
        };
        let file = open_regular(self.fs(), sealed.path)?;
        let known = known.map(|known| known.last().head);
        let known = known.filter(|_| !document::is_beside(sealed.seals));
        let start = known.map_or(0, |head| head.size);
        let mut number = known.map_or(0, |head| lines_before(sealed.seals, head.seq));
        let (mut cutter, mut chunk) = (LineCutter::default(), Vec::new());
        file.range(start.saturating_sub(1), start)
            .next_chunk(&mut chunk)?;
        cutter.follows(chunk.last().copied());
        let mut marks = Vec::new();
        let mut look = |line: &[u8]| {
            number += 1;
            let rule = search.finder.rule_for(line)?;
            marks.extend(rule.map(|rule| Mark {
                line: number,
                rule: rule_name(&rule),
            }));
            Ok(())
        };
        let mut chunks = file.range(start, sealed.head.size);
        loop {
            chunks.next_chunk(&mut chunk)?;
            if chunk.is_empty() {
                break;
            }
            cutter.push(&chunk, &mut look)?;
        }
        cutter.rest().map_or(Ok(()), look)?;
        Ok(marks)
    }

    /// The seal file without the salts of the marked lines, whose front is kept, durably. Their
    /// redaction names the rules, and not the secrets.
    pub(super) fn omit(
        &self,
        sealed: &SealedLog<'_>,
        front: Option<&[u8]>,
        marks: &[Mark],
    ) -> Result<Vec<u8>, Error> {
        let search = sealed.search.ok_or_else(|| unsearched(sealed))?;
        if document::is_beside(sealed.seals) {
            return Err(unredactable(sealed, "it is one document"));
        }
        let seals = match front {
            Some(front) => observed::redact_again(front, sealed.seals)?,
            None => sealed.seals.to_vec(),
        };
        let file = observed::sound(&seals)?;
        if file.salts().is_none() {
            return Err(unredactable(sealed, "its seals have no salts"));
        }
        let lines: Vec<u64> = marks.iter().map(|mark| mark.line).collect();
        let redaction = Redaction {
            head: super::redact::covering(&file, &lines)?,
            runs: observed::runs_of(&lines),
            time: self.effects.clock.now()?,
            by: search.by.to_owned(),
            why: why(marks),
        };
        let seals = observed::redact(&seals, &redaction, search.signer)?;
        self.put_front(&sealed.head.record, &seals)?;
        Ok(seals)
    }
}

/// The number of lines under the seal `seq` of a seal file, which was verified.
fn lines_before(seals: &[u8], seq: u64) -> u64 {
    let front = observed::front(seals).map_or(0, |front| front.bytes);
    let rest = seals.get(front..).unwrap_or_default();
    let (mut lines, mut passed) = (0, 0);
    for line in rest.split_inclusive(|byte| *byte == b'\n') {
        match observed::parse_leaves(line.strip_suffix(b"\n").unwrap_or(line)) {
            Some(leaves) => lines += leaves.len() as u64,
            None if observed::names_next(line) => {}
            None if passed == seq => return lines,
            None => passed += 1,
        }
    }
    lines
}

/// The reason of a redaction, with the names of its rules.
fn why(marks: &[Mark]) -> String {
    let rules: BTreeSet<&str> = marks.iter().map(|mark| mark.rule.as_str()).collect();
    let more = if rules.len() > MAX_RULES_NAMED {
        ", …"
    } else {
        ""
    };
    let rules: Vec<&str> = rules.into_iter().take(MAX_RULES_NAMED).collect();
    format!("secrets found at capture: {}{more}", rules.join(", "))
}

fn unsearched(sealed: &SealedLog<'_>) -> Error {
    let path = sealed.path.display();
    Error::refused(format!(
        "{path} is sealed, but not archived: secrets are to be left out, and this program finds none; hint: threadseal archive secrets mark"
    ))
}

fn unredactable(sealed: &SealedLog<'_>, why: &str) -> Error {
    let path = sealed.path.display();
    Error::refused(format!(
        "{path} is sealed, but not archived: it holds what looks like a secret, and no line can be left out: {why}; hint: threadseal archive secrets mark"
    ))
}

#[cfg(test)]
mod tests;
