//! Canonical text: one strict JSON reader and a closed list of canonical dialects.
//!
//! | module | owns |
//! |---|---|
//! | [`json`] | reading: strict (RFC 8259 and I-JSON) and as Python reads; native strings |
//! | [`jcs`] | RFC 8785, the JSON Canonicalization Scheme |
//! | [`python`] | Python's `json.dumps`, in the four settings that records use |
//! | [`cbor`] | RFC 8949 §4.2.1, deterministic CBOR of the same values |
//!
//! A dialect is a named function, never a set of options. So the name of a dialect fixes the rules
//! by which a record was hashed. `spec/canon.md` states every rule.

use std::fmt;

#[cfg(any(test, feature = "testing"))]
pub mod arbitrary;
pub mod cbor;
pub mod jcs;
pub mod json;
pub mod python;
#[cfg(test)]
mod python_oracle;
pub mod rewrite;

/// A value that a dialect has no text for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unrepresentable {
    /// A string with a lone surrogate, which UTF-8 cannot hold.
    LoneSurrogate,
    /// A number beyond the range of doubles, `NaN` or `Infinity`.
    NonFinite,
    /// Two members of one name.
    DuplicateKey,
}

impl fmt::Display for Unrepresentable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LoneSurrogate => "a string has a lone surrogate, which UTF-8 cannot encode",
            Self::NonFinite => "a number is not a finite double",
            Self::DuplicateKey => "an object has two members of one name",
        })
    }
}

impl std::error::Error for Unrepresentable {}
