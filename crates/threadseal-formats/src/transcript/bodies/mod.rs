//! Detached bodies: values that are stored beside the record, and can be dropped
//! (`spec/transcript.md` §10).
//!
//! ```text
//! payload ─ detach ─► payload with commitments  +  lines for the file of bodies
//! line 〈{"$body":{"commitment":HEX,"bytes":N,"kind":KIND}}〉 ─ commitments ─► the required bodies
//! file of bodies ─ read ─► Bodies: which commitments have their body      (`file`)
//! line + bodies + redactions ─ restore ─► the line as it was, or its holes (`restore`)
//! ```
//! Invariants: a commitment is found by its bytes alone, which no JSON string can contain. It is
//! salted and names its record. Only a body that matches its commitment is ever put in its place.

mod detach;
mod file;
mod redaction;
mod restore;
mod seal;
pub(super) mod watch;

pub use detach::{Detached, detach};
pub use file::{Bodies, BodiesReader, Entry, bodies_name, header};
pub use redaction::Redaction;
pub use restore::Restorer;
pub use watch::SealedRedaction;

use super::event::Cursor;
use memchr::memmem;
use std::fmt;
use std::ops::Range;
use threadseal_core::digest::Digest;
use threadseal_core::record::RecordId;

/// Tag of a commitment.
pub const COMMITMENT_TAG: &str = "threadseal/1 body";

/// The beginning of every commitment in a line.
const BEGIN: &[u8] = b"{\"$body\":{\"commitment\":\"";

/// 32 random bytes that prevent guessing a body from its commitment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodySalt([u8; 32]);

impl BodySalt {
    /// The salt with these bytes; they must come from a cryptographic source.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

/// The commitment to `body` in `record`.
pub fn commit(record: &RecordId, salt: &BodySalt, body: &[u8]) -> Digest {
    Digest::tagged(COMMITMENT_TAG, &[record.as_bytes(), &salt.0, body])
}

/// The kind of JSON value of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A string.
    String,
    /// An object.
    Object,
    /// An array.
    Array,
}

impl Kind {
    const ALL: [Self; 3] = [Self::String, Self::Object, Self::Array];

    fn of(body: &[u8]) -> Option<Self> {
        match body.first()? {
            b'"' => Some(Self::String),
            b'{' => Some(Self::Object),
            b'[' => Some(Self::Array),
            _ => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Object => "object",
            Self::Array => "array",
        }
    }
}

/// One commitment in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commitment {
    /// The digest.
    pub digest: Digest,
    /// Length of the body in bytes.
    pub bytes: u64,
    /// The kind of the body.
    pub kind: Kind,
    /// Its range in the searched text.
    pub place: Range<usize>,
}

/// A commitment begins here and is not spelled as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misspelled;

impl fmt::Display for Misspelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a commitment begins here but is not in its canonical form")
    }
}

impl std::error::Error for Misspelled {}

/// The commitments in `text`, a line or payload of a record with detached bodies.
///
/// # Errors
/// [`Misspelled`] where one begins that has another spelling.
pub fn commitments(text: &[u8]) -> Result<Vec<Commitment>, Misspelled> {
    memmem::find_iter(text, BEGIN)
        .map(|at| commitment_at(text, at).ok_or(Misspelled))
        .collect()
}

fn commitment_at(text: &[u8], at: usize) -> Option<Commitment> {
    let mut cursor = Cursor::new(text.get(at..)?);
    cursor.expect(BEGIN)?;
    let digest = Digest::parse_hex(cursor.text(64)?)?;
    cursor.expect(b"\",\"bytes\":")?;
    let bytes = cursor.number()?;
    cursor.expect(b",\"kind\":\"")?;
    let kind = Kind::ALL
        .into_iter()
        .find(|kind| cursor.expect(kind.as_str().as_bytes()).is_some())?;
    cursor.expect(b"\"}}")?;
    let place = at..at + cursor.position();
    Some(Commitment {
        digest,
        bytes,
        kind,
        place,
    })
}

/// May this event hold commitments?
pub(in crate::transcript) fn may_hold(event_type: &str) -> bool {
    !super::event::has_fixed_payload(event_type)
}

#[cfg(test)]
mod tests;
