//! Lineages that the tests of this module share.

mod accused;
mod authority;
mod flips;
mod formats;
mod judging;
mod made;
mod originals;
mod package;
mod proofs;
mod transfer;

use super::*;
use threadseal_core::digest::Digest;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, PublicKey, Signer as _};

/// A time in all delegations.
pub(super) const NOW: i64 = 1_700_000_000_000_000_000;

pub(super) fn native(seed: u8) -> LocalSigner {
    LocalSigner::new(PrivateKey::from_seed([seed; 32]), KeyUsage::Native)
}

pub(super) fn igor(seed: u8) -> LocalSigner {
    LocalSigner::new(PrivateKey::from_seed([seed; 32]), KeyUsage::Igor)
}

pub(super) fn key(seed: u8) -> PublicKey {
    *native(seed).public_key()
}

pub(super) fn name() -> AgentName {
    AgentName::parse("counter").unwrap()
}

/// The writer for `seed` as an agent of the root `root`, with its delegation of this number.
pub(super) fn writer(root: u8, seed: u8, key_epoch: u64) -> Writer {
    let delegate = || {
        let window = [NOW - 1000, NOW + 1000];
        let root = native(root);
        Delegation::sign(&root, name(), key(seed), key_epoch, window).unwrap()
    };
    Writer {
        key: key(seed),
        certificate: (root != seed).then(|| delegate().certificate),
        time: NOW,
    }
}

/// An unsigned first checkpoint with this state.
pub(super) fn genesis(root: u8, writer: &Writer, state: &[u8]) -> CheckpointHeader {
    CheckpointHeader {
        version: Version::V5,
        budget: 1_000_000,
        price: 1000,
        tick: 5,
        code: Digest::of(b"code"),
        epoch: Epoch::default(),
        lease_expiry: 0,
        prev: None,
        signer: Some(*writer.key.as_bytes()),
        signature: None,
        native: Some(Box::new(NativeHeader {
            kind: LinkKind::Checkpoint,
            seq: 0,
            time: writer.time,
            state: StateSeal::of(state, MediaType::bytes()),
            transcript: Some(Digest::of(b"transcript")),
            manifest: None,
            receipts: None,
            parent: None,
            name: name(),
            root: key(root),
            certificate: writer.certificate,
        })),
    }
}

/// An unsigned checkpoint of v0x04.
pub(super) fn original(prev: Option<ContentHash>) -> CheckpointHeader {
    CheckpointHeader {
        version: Version::V4,
        budget: 998_630,
        price: 1_000_000,
        tick: 55,
        code: Digest::of(b"code"),
        epoch: Epoch {
            major: 1,
            generation: 2,
        },
        lease_expiry: NOW,
        prev,
        signer: None,
        signature: None,
        native: None,
    }
}
