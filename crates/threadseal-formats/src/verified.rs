//! The value that only verification creates, and its grounds.

use threadseal_core::digest::Digest;
use threadseal_core::record::{Head, RecordId};
use threadseal_core::report::TrustedUntil;
use threadseal_core::time::Timestamp;

/// The grounds of a [`Verified`] value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grounds {
    /// The record.
    pub record: Option<RecordId>,
    /// Its last seal.
    pub head: Option<Head>,
    /// How far it is covered; of a document whose signature leaves gaps byte 0.
    pub trusted_until: TrustedUntil,
    /// Digest of the trust used.
    pub trust: Digest,
    /// The "now" that the caller gave.
    pub now: Timestamp,
}

/// A value that verification vouched for. There is no other way to create one. Each operation that
/// needs trust (resume, handoff, inherited capabilities, graph restart) takes this type.
#[derive(Debug, Clone)]
pub struct Verified<T> {
    value: T,
    grounds: Grounds,
}

impl<T> Verified<T> {
    /// Only verifiers of this crate call this, and only for the verdict `verified`.
    pub(crate) fn mint(value: T, grounds: Grounds) -> Self {
        Self { value, grounds }
    }

    /// The value.
    pub fn get(&self) -> &T {
        &self.value
    }

    /// The evidence that it depends on.
    pub fn grounds(&self) -> &Grounds {
        &self.grounds
    }
}

/// The result of a lenient policy for a record with an unsigned tail. The two parts stay separate.
#[derive(Debug, Clone)]
pub struct WithTail<T, U> {
    /// The part under the last seal.
    pub verified: Verified<T>,
    /// The part after it, which no seal covers.
    pub unverified: U,
}
