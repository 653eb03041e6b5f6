//! The protocol of a witness (C2SP tlog-witness, `add-checkpoint`): request, decision, answer.
//!
//! ```text
//! request   old <size> LF             the size of the last cosignature, as the client knows it
//!           <base64(hash)> LF         0 to 63: the proof that the new tree begins with the old one
//!           LF
//!           <the checkpoint, a signed note>
//! 200       lines of cosignatures     404  the origin is unknown    403  the log did not sign
//! 400       old exceeds the new size  409  <size> LF, the one that the witness cosigned last
//! 422       the two trees cannot be of one log
//! ```
//! [`judge`] decides from its arguments; this module reads and stores nothing. A witness must
//! replace the tree that it judged against by the tree of [`Accepted`]. It must do so in one step,
//! durably, and before the answer is sent. Otherwise two answers can contradict each other.

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

/// The content type of an answer that contains a size.
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
    /// Requests a cosignature of the checkpoint in `note`. `proof` leads to it from the tree of
    /// `old` leaves.
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
    /// [`NoteError::Malformed`]; a witness then answers with the status 400.
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

    /// The log that the request names. A witness uses it to look up the keys and the last tree.
    pub fn origin(&self) -> &Origin {
        self.checkpoint.origin()
    }

    /// The checkpoint with its signature lines, to store as evidence of a contradiction.
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

/// A cosignature in the answer of a witness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The line.
    pub line: NoteSignature,
    /// The time of the cosignature, by the clock of the witness.
    pub time: CosignatureTime,
}

/// Reads the body of the answer 200: the lines by `witness` that verify for the checkpoint in
/// `note`.
///
/// Lines of other keys are skipped. The answer may contain nothing but signature lines.
///
/// # Errors
/// [`NoteError::Malformed`] when it has other lines, or the note is no checkpoint.
/// [`NoteError::BadSignature`] when a line with name and id of the key does not verify.
/// [`NoteError::NoKnownSigner`] when no line has them, or none has a time.
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
    size.ok_or(NoteError::Malformed("the answer is not a size"))
}

fn bounded(body: &[u8]) -> Result<&str, NoteError> {
    if body.len() > MAX_WITNESS_BODY_BYTES {
        return Err(NoteError::Malformed("the body is too long"));
    }
    std::str::from_utf8(body).map_err(|_| NoteError::Malformed("the body is not UTF-8"))
}

#[cfg(test)]
mod tests;
