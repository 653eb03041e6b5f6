//! The specification's `verify`, and the answer of v0.1 (`spec/scroll.md` §6).
//!
//! ```text
//! for each turn i, in order:
//!   not the schema            SchemaViolation; the next turn has no predecessor to be equal to
//!   hash ≠ SHA-256(covered)   BadHash; nothing more is checked
//!   i > 0, prev_hash ≠ hash of turn i-1   BrokenChain
//!   signature                 BadSignature
//! ```
//! [`verify_as_v01`] stops there, as the published implementations do. It checks a signature only
//! when a key is given, and a missing signature passes. It never reads `sig.pubkey`, and does not
//! compare bodies with their hashes. [`verify`] closes these four gaps. Neither knows which keys
//! count, nor where the chain ends: a report shows that.

use super::facts::{Facts, of_canonical, of_canonical_v01};
use super::keys::Keys;
use super::schema::SchemaViolation;
use super::turn::canonical;
use std::fmt;
use threadseal_core::canon::json::Value;
use threadseal_core::digest::Digest;
use threadseal_core::key::PublicKey;
use threadseal_core::limits::MAX_COMPAT_FAILURES;

/// Why a turn fails: the four words of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The hash is not that of the turn.
    BadHash,
    /// The turn does not name the one before it.
    BrokenChain,
    /// The signature does not verify, or is missing.
    BadSignature,
    /// The turn does not follow the schema.
    SchemaViolation,
}

impl Reason {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BadHash => "BadHash",
            Self::BrokenChain => "BrokenChain",
            Self::BadSignature => "BadSignature",
            Self::SchemaViolation => "SchemaViolation",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Place of the turn in the chain, from 0; not its member `turn`.
    pub turn: u64,
    /// Why.
    pub reason: Reason,
    /// More, for people.
    pub detail: Option<String>,
}

/// The result of `verify`. An empty chain has no failure, and proves nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyResult {
    /// In order of the turns, and for one turn in the order of the module's documentation.
    pub failures: Vec<Failure>,
    /// Failures beyond [`MAX_COMPAT_FAILURES`].
    pub more: u64,
}

impl VerifyResult {
    /// No failure?
    pub fn ok(&self) -> bool {
        self.failures.is_empty()
    }
}

/// Verifies a chain. With `pubkey`, each turn must be signed by that key. Without it, each
/// signature must match the key that it names.
pub fn verify(chain: &[Value], pubkey: Option<&PublicKey>) -> VerifyResult {
    run(chain, pubkey, Rules::Closed)
}

/// The answer of agent-scroll v0.1 for a chain.
pub fn verify_as_v01(chain: &[Value], pubkey: Option<&PublicKey>) -> VerifyResult {
    run(chain, pubkey, Rules::V01)
}

fn run(chain: &[Value], pubkey: Option<&PublicKey>, rules: Rules) -> VerifyResult {
    let mut walk = Walk::new(rules, pubkey.is_some());
    let mut keys = Keys::new(pubkey.map_or(&[], std::slice::from_ref));
    for turn in chain {
        let facts = canonical(turn).and_then(|canonical| match rules {
            Rules::V01 => of_canonical_v01(&canonical, &mut keys),
            Rules::Closed => of_canonical(&canonical, &mut keys),
        });
        walk.step(&facts);
    }
    walk.result
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rules {
    V01,
    Closed,
}

/// The loop in the module's documentation, one turn at a time.
#[derive(Debug, Clone)]
pub(super) struct Walk {
    rules: Rules,
    pinned: bool,
    index: u64,
    prev: Option<Digest>,
    pub(super) result: VerifyResult,
}

impl Walk {
    pub(super) fn new(rules: Rules, pinned: bool) -> Self {
        Self {
            rules,
            pinned,
            index: 0,
            prev: None,
            result: VerifyResult::default(),
        }
    }

    pub(super) fn step(&mut self, turn: &Result<Facts, SchemaViolation>) {
        match turn {
            Err(violation) => {
                self.fail(Reason::SchemaViolation, || Some(violation.to_string()));
                self.prev = None;
            }
            Ok(facts) => {
                self.chained(facts);
                self.prev = Some(facts.hash);
            }
        }
        self.index += 1;
    }

    fn chained(&mut self, facts: &Facts) {
        if let (Rules::Closed, Some(fault)) = (self.rules, &facts.body) {
            self.fail(Reason::SchemaViolation, || Some(fault.to_string()));
        }
        if !facts.hash_holds {
            return self.fail(Reason::BadHash, || None);
        }
        if self.index > 0 && facts.prev_hash != self.prev {
            self.fail(Reason::BrokenChain, || None);
        }
        let detail = match (&facts.sig, self.rules) {
            (Some(sig), Rules::V01) if self.pinned && !sig.holds_for_pinned => None,
            (None, Rules::Closed) if self.pinned => Some("the turn is not signed"),
            (Some(sig), Rules::Closed) if !sig.holds => match sig.key {
                Some(_) => Some("the signature does not verify under sig.pubkey"),
                None => Some("sig.pubkey is not a key that can be trusted"),
            },
            (Some(sig), Rules::Closed) if self.pinned && !sig.holds_for_pinned => {
                Some("another key signed")
            }
            _ => return,
        };
        self.fail(Reason::BadSignature, || detail.map(str::to_owned));
    }

    fn fail(&mut self, reason: Reason, detail: impl FnOnce() -> Option<String>) {
        if self.result.failures.len() == MAX_COMPAT_FAILURES {
            self.result.more += 1;
            return;
        }
        self.result.failures.push(Failure {
            turn: self.index,
            reason,
            detail: detail(),
        });
    }
}
