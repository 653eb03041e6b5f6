//! Attacks on native records: which must be detected, and which cannot be.
//!
//! ```text
//! scene     keys, trust, records while they are written
//! whole     whole, open and foreign records, their tails, records as logs
//! edits     bytes and lines that were changed, cut, moved
//! copy      copies with lines left out
//! writing   what a writer may add, and where it continues
//! keys      the keys that may seal
//! epochs    keys that are valid for a part of a record
//! delegates    keys that the authority admitted beside them
//! succession   keys in the place of an authority that ended, and proofs of what they sealed
//! bodies    detached bodies, holes in them, and proofs that carry them
//! turns     the proof of one turn, without the others
//! turn_anchors    the evidence of a log for such a proof
//! seal_conflicts  two histories of one record
//! ```

mod bodies;
mod copy;
mod delegates;
mod edits;
mod epochs;
mod keys;
mod scene;
mod seal_conflicts;
mod succession;
mod turn_anchors;
mod turns;
mod whole;
mod writing;

use self::scene::*;
use super::event::{EventType, Payload, Salt};
use super::ext::Ext;
use super::manifest::Manifest;
use super::sealing_keys::SealingKeys;
use super::turn_proof::{Checked, ShownLine, TurnProof, WithBodies, check_file, check_file_by};
use super::*;
use crate::testing::Row;
use crate::verified::Verified;
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::digest::work::hashed_by;
use threadseal_core::encoding::base64;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::{KeyUsage, LocalSigner, Signature, Signer};
use threadseal_core::merkle::{InclusionProof, ProofError, TreeHead, leaf_hash, node_hash, root};
use threadseal_core::note::{KeyName, SignedNote};
use threadseal_core::record::{ExpectedHead, Head, RecordId, RecordKind, ThreadId};
use threadseal_core::report::{CheckResult, Completeness, Expectation, KnownFork, Report, Verdict};
use threadseal_core::testing::{codes, is, micros, now, shown, signer, trust_in};
use threadseal_core::time::Timestamp;
use threadseal_core::tlog::entry::fork::{ForkPlace, LoggedFork};
use threadseal_core::tlog::entry::key_event::{KeyChange, KeyEvent, KeyHistory};
use threadseal_core::trust::{Revocation, SealPlaces, Trust, TrustName};
