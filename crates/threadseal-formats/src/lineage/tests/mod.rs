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
mod standing;
mod transfer;

use self::made::*;
use super::*;
use crate::testing::Row;
use threadseal_core::digest::Digest;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey};
use threadseal_core::record::{ExpectedHead, Head, RecordId};
use threadseal_core::report::Verdict::{
    self, Forged, Forked, Open, Partial, RolledBack, Tampered, Truncated, UnknownSigner, Unsigned,
    Verified,
};
use threadseal_core::report::{Completeness, Expectation, KnownFork, SignerStatus};
use threadseal_core::testing::{codes, is, key, micros, revoked, signer, trust_in};
use threadseal_core::time::Timestamp;
use threadseal_core::tlog::entry::fork::{ForkPlace, ForkedLinks, LoggedFork};
use threadseal_core::trust::Trust;

/// A time in all delegations.
const NOW: i64 = 1_700_000_000_000_000_000;

fn native(seed: u8) -> LocalSigner {
    signer(seed, KeyUsage::Native)
}

fn igor(seed: u8) -> LocalSigner {
    signer(seed, KeyUsage::Igor)
}

fn name() -> AgentName {
    AgentName::parse("counter").unwrap()
}

/// The writer for `seed` as an agent of the root `root`, with its delegation of this number.
fn writer(root: u8, seed: u8, key_epoch: u64) -> Writer {
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
fn genesis(root: u8, writer: &Writer, state: &[u8]) -> CheckpointHeader {
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
fn original(prev: Option<ContentHash>) -> CheckpointHeader {
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
