//! The hash of a record.
//!
//! ```text
//! covered  the record without `record_hash` and `signature`, with `prev_hash` as given, as
//!          canon::python::ledger writes it
//! hash     SHA-256 of the covered bytes
//! ```
//! `signature` is outside, because it signs the hash.

use super::members::text_or_null;
use threadseal_core::canon::Unrepresentable;
use threadseal_core::canon::json::{Text, Value};
use threadseal_core::canon::python;
use threadseal_core::digest::Digest;

/// The hash of `record` after the record of hash `prev`. The record's own `prev_hash`,
/// `record_hash` and `signature` are ignored.
///
/// # Errors
/// [`Unrepresentable::LoneSurrogate`], where `AbstractRuntime` raises `UnicodeEncodeError`.
pub fn compute_record_hash(
    record: &Value,
    prev: Option<&Digest>,
) -> Result<Digest, Unrepresentable> {
    Ok(Digest::of(&covered_bytes(record, prev)?))
}

/// The bytes that the hash covers of `record` after the record of hash `prev`.
///
/// # Errors
/// As [`compute_record_hash`].
pub fn covered_bytes(record: &Value, prev: Option<&Digest>) -> Result<Vec<u8>, Unrepresentable> {
    let prev = prev.map(Digest::to_hex);
    covered_behind(record, &text_or_null(prev.as_deref()))
}

/// As [`covered_bytes`], for a `prev_hash` that may be anything.
pub(super) fn covered_behind(record: &Value, prev: &Value) -> Result<Vec<u8>, Unrepresentable> {
    let outside = ["record_hash", "signature", "prev_hash"];
    let members = record.as_object().unwrap_or_default().iter();
    let mut covered: Vec<(&Text, &Value)> = members
        .map(|(name, value)| (name, value))
        .filter(|(name, _)| !outside.iter().any(|outside| *name == *outside))
        .collect();
    let name = Text::from("prev_hash");
    covered.push((&name, prev));
    python::ledger_of(covered)
}
