//! One log and its witnesses, for the tests of this folder.

use super::checkpoint::{Checkpoint, Origin};
use super::cosignature::{CosignatureTime, cosign};
use super::verifier::VerifierKey;
use crate::digest::Digest;
use crate::key::{KeyUsage, LocalSigner};
use crate::merkle::{ConsistencyProof, ProofError, TreeHead, leaf_hash, root};
use crate::note::{KeyName, NoteSignature, SignedNote};
use crate::testing::{key, signer};

pub(super) const ORIGIN: &str = "example.com/log";

pub(super) fn name(text: &str) -> KeyName {
    KeyName::parse(text).unwrap()
}

pub(super) fn origin(text: &str) -> Origin {
    Origin::parse(text).unwrap()
}

/// The key of the log comes from the seed 1.
pub(super) fn log() -> LocalSigner {
    signer(1, KeyUsage::Log)
}

pub(super) fn log_key() -> VerifierKey {
    VerifierKey::of_log(name(ORIGIN), key(1))
}

/// The key of witness `number` comes from the seed `number + 1`.
pub(super) fn witness(number: u8) -> LocalSigner {
    signer(number + 1, KeyUsage::Witness)
}

pub(super) fn witness_name(number: u8) -> KeyName {
    name(&format!("witness.example/w{number}"))
}

pub(super) fn witness_key(number: u8) -> VerifierKey {
    VerifierKey::of_witness(witness_name(number), key(number + 1))
}

fn leaves(size: u64) -> Vec<Digest> {
    (0..size)
        .map(|number| leaf_hash(&number.to_be_bytes()))
        .collect()
}

pub(super) fn tree(size: u64) -> TreeHead {
    TreeHead {
        size,
        root: root(&leaves(size)),
    }
}

pub(super) fn proof(old: u64, new: u64) -> ConsistencyProof {
    let leaves = leaves(new);
    let made = ConsistencyProof::make::<ProofError>(old, new, &mut |node| {
        let from = usize::try_from(node.index << node.level).unwrap();
        Ok(root(&leaves[from..from + (1 << node.level)]))
    });
    made.unwrap()
}

pub(super) fn checkpoint(size: u64) -> Checkpoint {
    checkpoint_of(ORIGIN, tree(size))
}

/// A checkpoint of the same size and of another tree.
pub(super) fn other_checkpoint(size: u64) -> Checkpoint {
    let root = Digest::of(b"another tree");
    checkpoint_of(ORIGIN, TreeHead { size, root })
}

pub(super) fn checkpoint_of(log: &str, tree: TreeHead) -> Checkpoint {
    Checkpoint::new(origin(log), tree).unwrap()
}

pub(super) fn signed(checkpoint: &Checkpoint) -> SignedNote {
    checkpoint.sign(&log()).unwrap()
}

pub(super) fn time(seconds: u64) -> CosignatureTime {
    CosignatureTime::from_seconds(seconds).unwrap()
}

pub(super) fn cosigned(checkpoint: &Checkpoint, number: u8, seconds: u64) -> NoteSignature {
    let signer = witness(number);
    cosign(checkpoint, &witness_name(number), time(seconds), &signer).unwrap()
}

/// The checkpoint with the log's line, and those of these witnesses at these times.
pub(super) fn note(checkpoint: &Checkpoint, witnesses: &[(u8, u64)]) -> SignedNote {
    let mut note = signed(checkpoint);
    for (number, seconds) in witnesses {
        note.add(cosigned(checkpoint, *number, *seconds)).unwrap();
    }
    note
}

/// Each text that results from flipping one bit of `text`, if it is UTF-8.
pub(super) fn bit_flips(text: &str) -> impl Iterator<Item = String> {
    (0..text.len() * 8).filter_map(move |bit| {
        let mut bytes = text.as_bytes().to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        String::from_utf8(bytes).ok()
    })
}
