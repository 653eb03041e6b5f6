//! Lines that may be believed: the part of a record that verification vouched for, read again.
//!
//! ```text
//! Verified<Coverage> + bytes ─ same digest? ─► VerifiedLines ─► messages, rendering
//! ```
//! Invariant: the lines come from the very bytes that were verified, whatever happened to the
//! file since; a tail is never among them.

use super::verify::Coverage;
use crate::digest::Digest;
use crate::error::Error;
use crate::report::Verified;

/// The covered lines of a record.
#[derive(Debug, Clone)]
pub struct VerifiedLines<'a> {
    bytes: &'a [u8],
    adopted: Vec<[u64; 2]>,
}

/// One covered line, without its LF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifiedLine<'a> {
    /// Its number, from 1.
    pub number: u64,
    /// Its bytes.
    pub bytes: &'a [u8],
}

impl<'a> VerifiedLines<'a> {
    /// The covered part of `file`, which must be the bytes that were verified.
    ///
    /// # Errors
    /// Kind `Refused` when they are not: the file changed since.
    pub fn open(verified: &Verified<Coverage>, file: &'a [u8]) -> Result<Self, Error> {
        let coverage = verified.get();
        let size = usize::try_from(coverage.head.size).ok();
        let bytes = size.and_then(|size| file.get(..size));
        let bytes = bytes.filter(|bytes| Digest::of(bytes) == coverage.digest);
        let bytes = bytes.ok_or_else(|| {
            Error::refused("the file is not the one that was verified; verify it again")
        })?;
        Ok(Self {
            bytes,
            adopted: coverage.adopted.clone(),
        })
    }

    /// All lines that the seals cover, without their LF.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'a [u8]> {
        let lines = self.bytes.split_inclusive(|byte| *byte == b'\n');
        lines.map(|line| line.strip_suffix(b"\n").unwrap_or(line))
    }

    /// The lines in order, those left out that the record itself calls unverified.
    pub fn iter(&self) -> impl Iterator<Item = VerifiedLine<'a>> {
        let mut offset = 0;
        let adopted = self.adopted.clone();
        let lines = self.bytes.split_inclusive(|byte| *byte == b'\n').zip(1..);
        lines.filter_map(move |(line, number)| {
            let at = offset;
            offset += line.len() as u64;
            let unverified = adopted.iter().any(|[from, to]| (*from..*to).contains(&at));
            let bytes = line.strip_suffix(b"\n").unwrap_or(line);
            (!unverified).then_some(VerifiedLine { number, bytes })
        })
    }
}
