//! Transparency logs, as the world of C2SP reads them: checkpoints, tiles, proofs as files; their witnesses.
//!
//! | module | owns | source |
//! |---|---|---|
//! | [`checkpoint`] | the text that a log and its witnesses sign | C2SP tlog-checkpoint |
//! | [`tile`] | where the hashes and entries of a tree lie | C2SP tlog-tiles |
//! | [`proof_file`] | one file that proves one entry | C2SP tlog-proof |
//! | [`cosignature`] | what a witness signs; with the feature `ml-dsa` also by ML-DSA-44 | C2SP tlog-cosignature |
//! | [`verifier`] | keys of logs and witnesses, and which of them signed | C2SP signed-note |
//! | [`policy`] | whose checkpoints count, and cosigned by whom | C2SP tlog-policy |
//! | [`witness`] | requests to a witness, what it decides and answers | C2SP tlog-witness |
//! | [`conflict`] | two checkpoints that convict whoever signed both | `spec/anchors.md` |
//! | [`entry`] | what the entries of a seal log say | `spec/anchors.md` |
//! | [`tombstone`] | what is left of records that were pruned | `spec/anchors.md` |
//!
//! `spec/anchors.md` states what the sources leave open. Trees and proofs themselves are [`crate::merkle`]'s, signature lines [`crate::note`]'s.

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
