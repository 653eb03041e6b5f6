//! What a witness is asked, decides and answers (C2SP tlog-witness, `add-checkpoint`).
//!
//! ```text
//! request   old <size> LF               the size that the witness cosigned last, as the client knows it
//!           <base64(hash)> LF           none to 63: that the new tree begins with the old one
//!           LF
//!           <the checkpoint, a signed note>
//! 200       lines of cosignatures       404  the origin is nobody's       403  the log did not sign
//! 400       old is beyond the new size  409  <size> LF, the one that the witness cosigned last
//! 422       the two trees cannot be of one log
//! ```
//! [`judge`] decides from what is known; nothing is read or kept here. Whoever cosigns must hold the tree of
//! [`Accepted`] in the place of the one that it was judged against, in one step and durably, before the answer leaves:
//! otherwise two answers can contradict each other.

mod judge;

pub use judge::{Accepted, Refusal, judge};

use super::checkpoint::{Checkpoint, Origin, parse_size};
use super::cosignature::CosignatureTime;
use super::verifier::{self, VerifierKey};
use crate::digest::Digest;
use crate::encoding;
use crate::limits::{MAX_NOTE_SIGNATURES, MAX_PROOF_HASHES, MAX_WITNESS_BODY_BYTES};
use crate::merkle::ConsistencyProof;
use crate::note::{NoteError, NoteSignature, SignedNote};
use std::fmt;

/// The content type of an answer that tells a size.
pub const SIZE_CONTENT_TYPE: &str = "text/x.tlog.size";

/// A request to cosign a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddCheckpoint {
    old: u64,
    proof: ConsistencyProof,
    note: SignedNote,
    checkpoint: Checkpoint,
}

impl AddCheckpoint {
    /// Asks to cosign the checkpoint in `note`, which a proof leads to from the tree of `old` leaves.
    ///
    /// # Errors
    /// [`NoteError::Malformed`] when the note is no checkpoint.
    pub fn new(old: u64, proof: ConsistencyProof, note: SignedNote) -> Result<Self, NoteError> {
        Ok(Self {
            old,
            proof,
            checkpoint: Checkpoint::parse_with_any_root(note.text())?,
            note,
        })
    }

    /// Reads the body of a request: at most [`MAX_WITNESS_BODY_BYTES`] bytes.
    ///
    /// # Errors
    /// [`NoteError::Malformed`], which a witness answers with the status 400.
    pub fn parse(body: &[u8]) -> Result<Self, NoteError> {
        let malformed = NoteError::Malformed;
        let body = bounded(body)?;
        let (head, note) = body
            .split_once("\n\n")
            .ok_or(malformed("no blank line ends the proof"))?;
        let mut lines = head.split('\n');
        let old = lines.next().and_then(|line| line.strip_prefix("old "));
        let old = old.and_then(parse_size);
        let old = old.ok_or(malformed("the request does not begin with an old size"))?;
        let hashes = lines.take(MAX_PROOF_HASHES + 1).map(|line| {
            let hash = encoding::parse_base64(line).and_then(|hash| hash.try_into().ok());
            hash.map(Digest::from_bytes).ok_or(malformed(
                "a hash of the proof is not the base64 of 32 bytes",
            ))
        });
        let proof = ConsistencyProof::from_hashes(hashes.collect::<Result<_, _>>()?)
            .map_err(|_| malformed("the proof has too many hashes"))?;
        Self::new(old, proof, SignedNote::parse(note)?)
    }

    /// Whose log it is said to be: by this a witness finds the keys and the tree to judge it by.
    pub fn origin(&self) -> &Origin {
        self.checkpoint.origin()
    }

    /// The checkpoint with its signature lines: what to keep of a log that contradicts itself.
    pub fn note(&self) -> &SignedNote {
        &self.note
    }
}

impl fmt::Display for AddCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "old {}", self.old)?;
        for hash in self.proof.hashes() {
            writeln!(f, "{}", encoding::base64(hash.as_bytes()))?;
        }
        write!(f, "\n{}", self.note)
    }
}

/// The body of the answer 200: signature lines, each with its LF.
pub fn write_cosignatures(lines: &[NoteSignature]) -> String {
    lines.iter().map(NoteSignature::to_string).collect()
}

/// A cosignature that a witness answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The line.
    pub line: NoteSignature,
    /// When, by its own word.
    pub time: CosignatureTime,
}

/// Reads the body of the answer 200: the lines by `witness` that hold for the checkpoint in `note`. Lines of other
/// keys are passed over, and the answer may have nothing else.
///
/// # Errors
/// [`NoteError::Malformed`] when it is not signature lines, or the note no checkpoint; [`NoteError::BadSignature`]
/// when a line that names the key does not hold; [`NoteError::NoKnownSigner`] when none names it, or without a time.
pub fn read_cosignatures(
    body: &[u8],
    note: &SignedNote,
    witness: &VerifierKey,
) -> Result<Vec<Answered>, NoteError> {
    let checkpoint = Checkpoint::parse(note.text())?;
    let lines = bounded(body)?
        .strip_suffix('\n')
        .ok_or(NoteError::Malformed("the answer does not end in a newline"))?;
    let mut answered = Vec::new();
    for (number, line) in lines.split('\n').enumerate() {
        if number == MAX_NOTE_SIGNATURES {
            return Err(NoteError::Malformed("too many signatures"));
        }
        let line = NoteSignature::parse(line)?;
        let alone = SignedNote::of(note.text().clone(), line.clone());
        let signed = verifier::signers(&alone, &checkpoint, &[witness])?;
        if let Some(time) = signed.first().and_then(|signed| signed.time) {
            answered.push(Answered { line, time });
        }
    }
    match answered.is_empty() {
        true => Err(NoteError::NoKnownSigner),
        false => Ok(answered),
    }
}

/// Reads the body of the answer 409: the size that the witness cosigned last.
///
/// # Errors
/// [`NoteError::Malformed`] when it is anything but a size and LF.
pub fn read_size(body: &[u8]) -> Result<u64, NoteError> {
    let text = std::str::from_utf8(body).ok();
    let size = text.and_then(|text| parse_size(text.strip_suffix('\n')?));
    size.ok_or(NoteError::Malformed("the answer is no size"))
}

fn bounded(body: &[u8]) -> Result<&str, NoteError> {
    if body.len() > MAX_WITNESS_BODY_BYTES {
        return Err(NoteError::Malformed("the body is too long"));
    }
    std::str::from_utf8(body).map_err(|_| NoteError::Malformed("the body is not UTF-8"))
}

#[cfg(test)]
mod tests;
