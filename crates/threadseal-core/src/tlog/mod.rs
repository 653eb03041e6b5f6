//! Transparency logs as C2SP defines them: checkpoints, tiles, proofs as files, witnesses.
//!
//! | module | owns | source |
//! |---|---|---|
//! | [`checkpoint`] | the text that a log and its witnesses sign | C2SP tlog-checkpoint |
//! | [`tile`] | the files for the hashes and entries of a tree | C2SP tlog-tiles |
//! | [`proof_file`] | one file that proves one entry | C2SP tlog-proof |
//! | [`cosignature`] | the message of a witness, also for ML-DSA-44 | C2SP tlog-cosignature |
//! | [`verifier`] | keys of logs and witnesses, and which of them signed | C2SP signed-note |
//! | [`policy`] | which logs count, and whose cosignatures they need | C2SP tlog-policy |
//! | [`witness`] | requests to a witness, its decision and its answer | C2SP tlog-witness |
//! | [`conflict`] | evidence of contradictory checkpoints under one key | `spec/proofs.md` |
//! | [`entry`] | the entries of a seal log | `spec/host-log.md` |
//! | [`tombstone`] | the remains of records that were pruned | `spec/host-log.md` |
//!
//! `spec/tlog.md` states what the sources leave open. [`crate::merkle`] owns trees and proofs,
//! [`crate::note`] owns signature lines.

pub mod checkpoint;
pub mod conflict;
pub mod cosignature;
pub mod entry;
#[cfg(feature = "ml-dsa")]
pub mod ml_dsa;
pub mod policy;
pub mod proof_file;
pub mod tile;
pub mod tombstone;
pub mod verifier;
pub mod witness;

#[cfg(test)]
mod published;
#[cfg(test)]
mod testing;
