//! Policies (C2SP tlog-policy): which checkpoints count, and which witnesses must have cosigned
//! them.
//!
//! ```text
//! log <vkey> [<url>]                   a key of a log; its name is the origin of its checkpoints
//! witness <name> <vkey> [<url>]
//! group <name> all|any|<k> <name>...   members precede it; a name is a member of one group at most
//! quorum <name>|none                   one line; the name precedes it
//! ```
//! [`Policy::judge`] checks a note against the policy. Only it makes a [`Witnessed`], which proves
//! a met quorum. `quorum none` means that the log's signature is enough. The value is then a
//! [`LogSigned`].

mod parse;

pub use parse::PolicyError;

use super::checkpoint::{Checkpoint, Origin};
use super::cosignature::CosignatureTime;
use super::verifier::{self, SignedBy, VerifierKey};
use crate::note::{NoteError, SignedNote};
use std::fmt;

/// A policy that was read. Every name refers to an earlier line, so that no cycle exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    logs: Vec<PolicyLog>,
    witnesses: Vec<PolicyWitness>,
    /// Witnesses and groups, in the order of their lines.
    rules: Vec<Rule>,
    /// The rule that must be met; `None` for `quorum none`.
    quorum: Option<usize>,
}

/// A log that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyLog {
    /// Its key, whose name is its origin.
    pub key: VerifierKey,
    /// The address of the log, in any form that the caller understands.
    pub url: Option<PolicyText>,
}

/// A witness that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyWitness {
    /// Its name in this policy, and nowhere else.
    pub name: PolicyText,
    /// Its key.
    pub key: VerifierKey,
    /// The address of the witness. In C2SP tlog-witness it is the prefix of submissions.
    pub url: Option<PolicyText>,
}

/// A name or an address as the file has it: bytes without blanks, most often UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyText(Vec<u8>);

impl PolicyText {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, if it is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl fmt::Display for PolicyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

/// A condition that is met or not. Members are numbers of earlier rules.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    /// This witness cosigned.
    Witness(usize),
    /// At least `least` of the members are met.
    Group { least: usize, members: Vec<usize> },
}

/// A cosignature that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cosigned {
    /// The witness's name in the policy.
    pub witness: PolicyText,
    /// Its key.
    pub key: VerifierKey,
    /// The time of its newest cosignature, by its own clock.
    pub time: CosignatureTime,
}

/// A checkpoint that a log of the policy signed. The type does not prove that witnesses saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSigned {
    checkpoint: Checkpoint,
    log: VerifierKey,
    cosignatures: Vec<Cosigned>,
}

impl LogSigned {
    /// The checkpoint.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The first key of the policy whose signature of the log verified.
    pub fn log(&self) -> &VerifierKey {
        &self.log
    }

    /// The witnesses of the policy that cosigned it, in the policy's order.
    pub fn cosignatures(&self) -> &[Cosigned] {
        &self.cosignatures
    }
}

/// A checkpoint of a log of the policy that a quorum of its witnesses cosigned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Witnessed {
    signed: LogSigned,
    at: CosignatureTime,
}

impl Witnessed {
    /// Checkpoint, log and cosignatures.
    pub fn signed(&self) -> &LogSigned {
        &self.signed
    }

    /// The latest time such that a quorum cosigned then or later. At that time it was the log's
    /// largest tree for all of them.
    pub fn at(&self) -> CosignatureTime {
        self.at
    }
}

/// A note that a policy accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// A quorum cosigned it.
    Witnessed(Witnessed),
    /// The policy requires no witness: only the log signed.
    LogOnly(LogSigned),
}

impl Judgement {
    /// Checkpoint, log and cosignatures.
    pub fn signed(&self) -> &LogSigned {
        match self {
            Self::Witnessed(witnessed) => &witnessed.signed,
            Self::LogOnly(signed) => signed,
        }
    }
}

/// Why a policy does not accept a note.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotAccepted {
    /// It is no checkpoint, or a line of a key of the policy does not verify.
    Note(NoteError),
    /// No log of the policy has this origin.
    UnknownLog(Origin),
    /// The policy has the log, but none of its keys signed.
    NotSigned(Origin),
    /// The log signed, and too few witnesses cosigned.
    NoQuorum(Box<LogSigned>),
}

impl fmt::Display for NotAccepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Note(why) => why.fmt(f),
            Self::UnknownLog(origin) => write!(f, "the policy does not name the log {origin}"),
            Self::NotSigned(origin) => write!(f, "the log {origin} did not sign the checkpoint"),
            Self::NoQuorum(signed) => write!(
                f,
                "cosigned by {} of the policy's witnesses, which is not a quorum",
                signed.cosignatures.len()
            ),
        }
    }
}

impl std::error::Error for NotAccepted {}

impl Policy {
    /// Its logs.
    pub fn logs(&self) -> &[PolicyLog] {
        &self.logs
    }

    /// Its witnesses.
    pub fn witnesses(&self) -> &[PolicyWitness] {
        &self.witnesses
    }

    /// Whether the policy requires witnesses at all.
    pub fn asks_for_witnesses(&self) -> bool {
        self.quorum.is_some()
    }

    /// Checks a note against the policy. A line with name and id of any key of the policy must
    /// verify, else the whole note is refused.
    ///
    /// # Errors
    /// [`NotAccepted`] names the missing part.
    pub fn judge(&self, note: &SignedNote) -> Result<Judgement, NotAccepted> {
        let signed = self.log_signed(note)?;
        let Some(quorum) = self.quorum else {
            return Ok(Judgement::LogOnly(signed));
        };
        match self.met_at(quorum, &signed.cosignatures) {
            Some(at) => Ok(Judgement::Witnessed(Witnessed { signed, at })),
            None => Err(NotAccepted::NoQuorum(Box::new(signed))),
        }
    }

    fn log_signed(&self, note: &SignedNote) -> Result<LogSigned, NotAccepted> {
        let keys = self.logs.iter().map(|log| &log.key);
        let keys = keys.chain(self.witnesses.iter().map(|witness| &witness.key));
        let known: Vec<_> = keys.collect();
        let (checkpoint, signers) = verifier::open(note, &known).map_err(NotAccepted::Note)?;
        let origin = checkpoint.origin();
        let is_its = |key: &VerifierKey| key.name().as_str() == origin.as_str();
        let its_logs = || self.logs.iter().filter(|log| is_its(&log.key));
        if its_logs().next().is_none() {
            return Err(NotAccepted::UnknownLog(origin.clone()));
        }
        let signed_by = |key| signers.iter().find(|signed| signed.key == key);
        let log = its_logs().find(|log| signed_by(&log.key).is_some());
        let log = log.ok_or_else(|| NotAccepted::NotSigned(origin.clone()))?;
        let cosigned = self.witnesses.iter().filter_map(|witness| {
            let SignedBy { time, .. } = signed_by(&witness.key)?;
            Some(Cosigned {
                witness: witness.name.clone(),
                key: witness.key.clone(),
                time: (*time)?,
            })
        });
        Ok(LogSigned {
            log: log.key.clone(),
            cosignatures: cosigned.collect(),
            checkpoint,
        })
    }

    /// The latest time such that the cosignatures from then on meet the rule.
    fn met_at(&self, quorum: usize, cosigned: &[Cosigned]) -> Option<CosignatureTime> {
        let mut times: Vec<_> = cosigned.iter().map(|cosigned| cosigned.time).collect();
        times.sort_unstable_by(|a, b| b.cmp(a));
        times.dedup();
        times.into_iter().find(|time| {
            let since = |witness: &PolicyWitness| {
                let mut same = cosigned
                    .iter()
                    .filter(|cosigned| cosigned.key == witness.key);
                same.any(|cosigned| cosigned.time >= *time)
            };
            self.is_met(quorum, &since)
        })
    }

    /// Evaluates each rule once, in order: members precede their group.
    fn is_met(&self, quorum: usize, cosigned: &dyn Fn(&PolicyWitness) -> bool) -> bool {
        let mut met: Vec<bool> = Vec::with_capacity(quorum + 1);
        for rule in self.rules.iter().take(quorum + 1) {
            met.push(match rule {
                Rule::Witness(number) => cosigned(&self.witnesses[*number]),
                Rule::Group { least, members } => {
                    members.iter().filter(|member| met[**member]).count() >= *least
                }
            });
        }
        met.last().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
