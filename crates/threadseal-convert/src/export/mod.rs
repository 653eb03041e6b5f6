//! Converts scrolls to other formats: one table of targets, each a pure function.
//!
//! ```text
//! verified bytes ─► Chain ─► Target::export ─► Exported { bytes, account }
//! ```
//!
//! | module | owns |
//! |---|---|
//! | `speech` | the content of a turn, in one form for all targets |
//! | `anthropic`, `openai`, `atif`, `markdown` | one target each |
//!
//! Only verified bytes are exported: [`Chain::open`] takes the proof and the bytes, and refuses
//! bytes that do not match the proof. An unverified chain is marked as such wherever the target has
//! a place for it. So a copy does not pass for more than its source. The account lists each part
//! without a place in the target, by turn and JSON Pointer. As in mappings into scrolls, no member
//! can be forgotten, because turns are read through [`super::source`].

mod anthropic;
mod atif;
mod convert;
mod markdown;
mod openai;
mod speech;
#[cfg(test)]
mod tests;

use super::account::{Account, Group, Lines, Reason, count, object};
use super::fit::covered;
use super::source::Reading;
use speech::{Holds, MessagePart, Speech};
use threadseal_core::canon::cbor;
use threadseal_core::canon::json::{Value, parse};
use threadseal_core::error::Error;
use threadseal_core::record::Head;
use threadseal_core::report::{Conversion, Verdict};
use threadseal_formats::scroll::{
    ChainCoverage, Container, Form, SealedTurn, Splitter, conversion_of, verify,
};
use threadseal_formats::verified::Verified;

/// A format for the export of a scroll.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name on the command line.
    pub name: &'static str,
    /// The program that reads it.
    pub about: &'static str,
    holds: &'static Holds,
    write: fn(&[Speech], &Provenance) -> Vec<u8>,
}

/// The verification status of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It was verified up to this head.
    Verified(Head),
    /// It got this verdict.
    Unverified(Verdict),
}

/// The facts about a scroll that a target notes with its content.
#[derive(Debug, Clone)]
struct Provenance {
    standing: Standing,
    /// The claim of the converter that made the scroll.
    conversion: Option<Conversion>,
}

impl Provenance {
    /// The note on an unverified scroll.
    fn warning(&self) -> Option<String> {
        match self.standing {
            Standing::Verified(_) => None,
            Standing::Unverified(verdict) => Some(format!(
                "This was made from a scroll that was not verified: its verdict was {verdict}."
            )),
        }
    }

    /// The note on the source of the scroll.
    fn claim(&self) -> Option<String> {
        let conversion = self.conversion.as_ref()?;
        Some(format!(
            "converted from {conversion}, as the converter claims"
        ))
    }
}

/// Every target.
pub const TARGETS: &[Target] = &[
    anthropic::TARGET,
    atif::TARGET,
    markdown::TARGET,
    openai::TARGET,
];

/// The turns of a scroll, with their verification status.
#[derive(Debug, Clone)]
pub struct Chain {
    turns: Vec<SealedTurn>,
    provenance: Provenance,
}

/// A scroll in another format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// The file; UTF-8.
    pub bytes: Vec<u8>,
    /// Turns, calls and results in it.
    pub turns: u64,
    /// Calls of tools.
    pub tool_calls: u64,
    /// Results of tools.
    pub tool_results: u64,
    /// The parts without a place in the target, by place and reason; lines are numbers of turns.
    pub lost: Vec<LostParts>,
    /// Entries that no group names, because there were too many groups.
    pub ungrouped: u64,
    /// The head that was verified, if one was.
    pub verified: Option<Head>,
    /// The verdict on the scroll.
    pub verdict: Verdict,
    /// The claim of the converter that made the scroll.
    pub source: Option<Conversion>,
}

/// Parts of turns without a place in the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostParts {
    /// JSON Pointer (RFC 6901) inside the turn.
    pub pointer: String,
    /// `no place`: the target has none. `seal`: it belongs to the scroll as such. `duplicate`: the
    /// target contains it already. `empty`: no content.
    pub reason: &'static str,
    /// The turns, and the count.
    pub turns: Lines,
}

/// The target called `name`.
pub fn find_target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

impl Chain {
    /// The turns of `file`, which must be the bytes that were verified.
    ///
    /// # Errors
    /// Kind `Refused` when they are not: the file has changed since.
    pub fn open(
        verified: &Verified<ChainCoverage>,
        file: &[u8],
        container: Container,
    ) -> Result<Self, Error> {
        let changed = || Error::refused("the scroll is not the one that was verified");
        // Until the comparison below the turns may be others.
        let unknown = Verdict::Tampered;
        let chain = Self::danger_unverified(file, container, unknown);
        let mut chain = chain.map_err(|_| changed())?;
        let coverage = verified.get();
        chain.provenance.standing = Standing::Verified(coverage.head);
        let values: Vec<Value> = chain
            .turns
            .iter()
            .map(|turn| turn.as_value().clone())
            .collect();
        let last = chain.turns.last().map(SealedTurn::hash);
        let same = chain.turns.len() as u64 == coverage.turns && last == Some(coverage.head.line);
        if same && verify(&values, None).ok() {
            Ok(chain)
        } else {
            Err(changed())
        }
    }

    /// The turns of a `file` with another verdict. An export of them states the verdict where it
    /// can, and is no more trusted than they are.
    ///
    /// # Errors
    /// Kind `InvalidInput` when it is no scroll of sealed turns.
    pub fn danger_unverified(
        file: &[u8],
        container: Container,
        verdict: Verdict,
    ) -> Result<Self, Error> {
        let mut turns = Vec::new();
        let mut wrong = None;
        let mut each = |piece: &[u8], _| match sealed(piece, container.form()) {
            Ok(turn) => turns.push(turn),
            Err(message) => {
                let number = turns.len();
                wrong.get_or_insert_with(|| format!("turn {number}: {message}"));
            }
        };
        let mut splitter = Splitter::new(container);
        splitter.push(file, &mut each);
        let end = splitter.finish(&mut each);
        match wrong {
            Some(message) => Err(Error::invalid(message)),
            None if end.fault.is_some() => Err(Error::invalid("the file is not a whole scroll")),
            None => Ok(Self {
                provenance: Provenance {
                    standing: Standing::Unverified(verdict),
                    conversion: turns
                        .first()
                        .and_then(|turn| conversion_of(turn.as_value())),
                },
                turns,
            }),
        }
    }

    /// The turn that gives model and sampling to a target with one place for them.
    fn kept(&self) -> Option<&Value> {
        let values = || self.turns.iter().map(SealedTurn::as_value);
        let speaks = |turn: &&Value| turn.get("role").and_then(Value::as_str) == Some("assistant");
        values().rfind(speaks).or(values().next_back())
    }
}

fn sealed(piece: &[u8], form: Form) -> Result<SealedTurn, String> {
    let value = match form {
        Form::Json => parse(piece).map_err(|error| error.to_string())?,
        Form::Cbor => cbor::parse(piece).map_err(|error| error.to_string())?,
    };
    SealedTurn::from_value(covered(value)).map_err(|violation| violation.to_string())
}

impl Target {
    /// The scroll in this format.
    pub fn export(&self, chain: &Chain) -> Exported {
        let mut account = Account::default();
        let mut speeches = Vec::new();
        let kept = chain.kept().filter(|_| self.holds.one_model);
        for turn in &chain.turns {
            let number = turn.as_value().get("turn").and_then(Value::as_u64);
            let reading = Reading::new(number.unwrap_or_default(), turn.as_value());
            speeches.push(Speech::of(reading.root(), self.holds, kept));
            reading.finish(&mut account);
        }
        let count =
            |such: fn(&MessagePart) -> bool| speeches.iter().map(|speech| speech.count(such)).sum();
        Exported {
            bytes: (self.write)(&speeches, &chain.provenance),
            turns: speeches.len() as u64,
            tool_calls: count(|said| matches!(said, MessagePart::Call(_))),
            tool_results: count(|said| matches!(said, MessagePart::Result(_))),
            lost: account.dropped().map(lost).collect(),
            ungrouped: account.ungrouped(),
            verified: match chain.provenance.standing {
                Standing::Verified(head) => Some(head),
                Standing::Unverified(_) => None,
            },
            verdict: match chain.provenance.standing {
                Standing::Verified(_) => Verdict::Verified,
                Standing::Unverified(verdict) => verdict,
            },
            source: chain.provenance.conversion.clone(),
        }
    }
}

fn lost(group: Group<'_>) -> LostParts {
    let reason = match group.reason {
        reason if reason == Reason::Metadata.as_str() => "seal",
        reason if reason == Reason::Duplicate.as_str() => "duplicate",
        reason if reason == Reason::Empty.as_str() => "empty",
        _ => "no place",
    };
    LostParts {
        pointer: group.pointer.to_owned(),
        reason,
        turns: group.lines.clone(),
    }
}

impl Exported {
    /// `{"schema":"threadseal.scroll.to/1","format","verified":HEAD or null,"verdict","source":CLAIM
    /// or null,"turns","tool_calls","tool_results","lost":[{"pointer","reason","count",
    /// "turns":[[first,last],…]}],"ungrouped"}`
    pub fn account(&self, format: &str) -> Value {
        let lost = self.lost.iter().map(|lost| {
            let range =
                |(first, last): &(u64, u64)| Value::Array(vec![count(*first), count(*last)]);
            object([
                ("pointer", lost.pointer.as_str().into()),
                ("reason", lost.reason.into()),
                ("count", lost.turns.count().into()),
                (
                    "turns",
                    Value::Array(lost.turns.ranges().iter().map(range).collect()),
                ),
            ])
        });
        object([
            ("schema", "threadseal.scroll.to/1".into()),
            ("format", format.into()),
            (
                "verified",
                self.verified
                    .map_or(Value::Null, |head| head.to_string().into()),
            ),
            ("verdict", self.verdict.as_str().into()),
            (
                "source",
                self.source
                    .as_ref()
                    .map_or(Value::Null, Conversion::to_value),
            ),
            ("turns", self.turns.into()),
            ("tool_calls", self.tool_calls.into()),
            ("tool_results", self.tool_results.into()),
            ("lost", Value::Array(lost.collect())),
            ("ungrouped", self.ungrouped.into()),
        ])
    }
}
