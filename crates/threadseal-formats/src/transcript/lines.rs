//! Trusted lines: the part of a record that verification vouched for, read again.
//!
//! ```text
//! Verified<Coverage> + bytes ─ same digest? ─► VerifiedLines ─► messages, rendering
//!                    + file of bodies ─ all present, or redacted? ─┘ each in its place
//! ```
//! Invariant: the lines come from exactly the bytes that were verified, even if the file changed
//! since. A tail is never among them. A body is put in its place only if it matches its commitment.

use super::bodies::Restorer;
use super::manifest::{self, Bodies};
use super::verify::{Coverage, lies_within};
use crate::verified::Verified;
use std::borrow::Cow;
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;

/// The covered lines of a record.
#[derive(Debug, Clone)]
pub struct VerifiedLines<'a> {
    bytes: &'a [u8],
    adopted: Vec<[u64; 2]>,
    restorer: Option<Arc<Restorer<'a>>>,
}

/// One covered line, without its LF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedLine<'a> {
    /// Its number, from 1.
    pub number: u64,
    /// Its bytes; in [`VerifiedLines::whole`] with its bodies in their places.
    pub bytes: Cow<'a, [u8]>,
}

impl<'a> VerifiedLines<'a> {
    /// The covered part of `file`, unchanged. `file` must have exactly the bytes that were
    /// verified.
    ///
    /// # Errors
    /// Kind `Refused` when it has not: the file changed since.
    pub fn open(verified: &Verified<Coverage>, file: &'a [u8]) -> Result<Self, Error> {
        let coverage = verified.get();
        let size = usize::try_from(coverage.head.size).ok();
        let bytes = size.and_then(|size| file.get(..size));
        let bytes = bytes.filter(|bytes| Digest::of(bytes) == coverage.digest);
        let bytes = bytes.ok_or_else(|| {
            Error::refused("the file is not the one that was verified; hint: verify it again")
        })?;
        Ok(Self {
            bytes,
            adopted: coverage.adopted.clone(),
            restorer: None,
        })
    }

    /// All lines that the seals cover, without their LF.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'a [u8]> {
        let lines = self.bytes.split_inclusive(|byte| *byte == b'\n');
        lines.map(|line| line.strip_suffix(b"\n").unwrap_or(line))
    }

    /// As [`VerifiedLines::open`], with each body in the place of its commitment. A redacted body
    /// is replaced by a text. `bodies` is the content of the file of bodies, empty where there is
    /// none.
    ///
    /// # Errors
    /// As [`VerifiedLines::open`]; kind `Refused` when a body is no longer present.
    pub fn whole(
        verified: &Verified<Coverage>,
        file: &'a [u8],
        bodies: &'a [u8],
    ) -> Result<Self, Error> {
        let mut lines = Self::open(verified, file)?;
        let first = lines.bytes.split(|byte| *byte == b'\n').next();
        let manifest = first.and_then(manifest::parse_line);
        let Some(manifest) = manifest.filter(|m| m.bodies == Bodies::Detached) else {
            return Ok(lines);
        };
        let mut restorer = Restorer::new(&manifest.record, bodies);
        lines.iter().for_each(|line| restorer.note(&line.bytes));
        if !lines.iter().all(|line| restorer.knows(&line.bytes)) {
            let text = "the bodies are not those that were verified; hint: verify the record again";
            return Err(Error::refused(text));
        }
        lines.restorer = Some(Arc::new(restorer));
        Ok(lines)
    }

    /// The bodies for their places; None where none are detached.
    pub fn restorer(&self) -> Option<&Restorer<'a>> {
        self.restorer.as_deref()
    }

    /// The lines in order, without those that the record itself marks as unverified.
    pub fn iter(&self) -> impl Iterator<Item = VerifiedLine<'a>> {
        let mut offset = 0;
        let adopted = self.adopted.clone();
        let restorer = self.restorer.clone();
        let lines = self.bytes.split_inclusive(|byte| *byte == b'\n').zip(1..);
        lines.filter_map(move |(line, number)| {
            let at = offset;
            offset += line.len() as u64;
            if lies_within(&adopted, at) {
                return None;
            }
            let bytes = line.strip_suffix(b"\n").unwrap_or(line);
            let bytes = match &restorer {
                Some(restorer) => restorer.restore(bytes),
                None => Cow::Borrowed(bytes),
            };
            Some(VerifiedLine { number, bytes })
        })
    }
}
