//! Whether a witness cosigns: every check of C2SP tlog-witness, in its order.

use super::{AddCheckpoint, SIZE_CONTENT_TYPE};
use crate::error::Error;
use crate::key::Signer;
use crate::merkle::{ProofError, TreeHead};
use crate::note::{KeyName, NoteError, NoteSignature, SignedNote};
use crate::tlog::checkpoint::Checkpoint;
use crate::tlog::cosignature::{self, CosignatureTime};
use crate::tlog::verifier::{self, VerifierKey};
use std::fmt;

/// A checkpoint that a witness may cosign. Only [`judge`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    checkpoint: Checkpoint,
    note: SignedNote,
}

impl Accepted {
    /// The state to store for the log, durably, before any signature is made.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The checkpoint with one line of each key by which the log signed it, and no other line.
    ///
    /// With it a second tree of this size is evidence of equivocation by the log. There is room for
    /// one line more.
    pub fn note(&self) -> &SignedNote {
        &self.note
    }

    /// The witness's line.
    ///
    /// # Errors
    /// Those of [`cosignature::cosign`].
    pub fn cosign(
        &self,
        name: &KeyName,
        time: CosignatureTime,
        signer: &dyn Signer,
    ) -> Result<NoteSignature, Error> {
        cosignature::cosign(&self.checkpoint, name, time, signer)
    }
}

/// Why a witness does not cosign.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The witness has no log of this origin.
    UnknownLog,
    /// No key of the log signed the checkpoint, or a line of such a key does not verify.
    NotSigned(NoteError),
    /// The old size exceeds the new one.
    OldBeyondNew,
    /// The size that the witness cosigned last, which differs from the old size.
    OtherSize(u64),
    /// An empty log has the root of another tree.
    EmptyWithLeaves,
    /// The log signed another tree of the size that was cosigned last. This note and the stored
    /// note of that tree are evidence of equivocation ([`crate::tlog::conflict::Conflict`]).
    OtherRoot,
    /// The proof does not lead from the old tree to the new one.
    NotProved(ProofError),
}

impl Refusal {
    /// The status of the answer. A body that is not a request has 400.
    pub fn status(&self) -> u16 {
        match self {
            Self::UnknownLog => 404,
            Self::NotSigned(_) => 403,
            Self::OldBeyondNew => 400,
            Self::OtherSize(_) => 409,
            Self::EmptyWithLeaves | Self::OtherRoot | Self::NotProved(_) => 422,
        }
    }

    /// The type and the body of the answer.
    pub fn body(&self) -> (&'static str, String) {
        match self {
            Self::OtherSize(size) => (SIZE_CONTENT_TYPE, format!("{size}\n")),
            other => ("text/plain; charset=utf-8", format!("{other}\n")),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownLog => f.write_str("no log of this origin is watched here"),
            Self::NotSigned(why) => why.fmt(f),
            Self::OldBeyondNew => f.write_str("the old size is larger than that of the checkpoint"),
            Self::OtherSize(size) => write!(f, "the size that was cosigned last is {size}"),
            Self::EmptyWithLeaves => f.write_str("an empty log cannot have this root"),
            Self::OtherRoot => {
                f.write_str("another tree of this size was cosigned: the log has two histories")
            }
            Self::NotProved(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for Refusal {}

/// Decides about `request`.
///
/// `keys` are those of the log that it names by origin; none if the witness does not know the log.
/// `last` is the tree of this log that the witness cosigned last, if any.
///
/// # Errors
/// [`Refusal`], the first of the checks that fails.
pub fn judge(
    request: &AddCheckpoint,
    keys: &[VerifierKey],
    last: Option<&TreeHead>,
) -> Result<Accepted, Refusal> {
    let checkpoint = &request.checkpoint;
    let origin = request.origin().as_str();
    let is_its = |key: &&VerifierKey| key.is_of_log() && key.name().as_str() == origin;
    let keys: Vec<&VerifierKey> = keys.iter().filter(is_its).collect();
    if keys.is_empty() {
        return Err(Refusal::UnknownLog);
    }
    let signers =
        verifier::signers(&request.note, checkpoint, &keys).map_err(Refusal::NotSigned)?;
    if signers.is_empty() {
        return Err(Refusal::NotSigned(NoteError::NoKnownSigner));
    }
    let new = checkpoint.tree();
    if request.old > new.size {
        return Err(Refusal::OldBeyondNew);
    }
    let old = last.copied().unwrap_or_else(TreeHead::empty);
    if request.old != old.size {
        return Err(Refusal::OtherSize(old.size));
    }
    if checkpoint.is_of_an_empty_log_with_leaves() {
        return Err(Refusal::EmptyWithLeaves);
    }
    if old.size == new.size && old.root != new.root {
        return Err(Refusal::OtherRoot);
    }
    request.proof.check(&old, new).map_err(Refusal::NotProved)?;
    let note = verifier::lines_of(&request.note, &keys)
        .ok_or(Refusal::NotSigned(NoteError::NoKnownSigner))?;
    Ok(Accepted {
        checkpoint: checkpoint.clone(),
        note,
    })
}
