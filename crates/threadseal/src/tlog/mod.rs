//! Transparency logs, as the world of C2SP reads them: checkpoints, tiles, proofs as files.
//!
//! | module | owns | source |
//! |---|---|---|
//! | [`checkpoint`] | the text that a log and its witnesses sign | C2SP tlog-checkpoint |
//! | [`tile`] | where the hashes and entries of a tree lie | C2SP tlog-tiles |
//! | [`proof_file`] | one file that proves one entry | C2SP tlog-proof |
//!
//! `spec/anchors.md` states what the sources leave open. Trees and proofs themselves are [`crate::merkle`]'s, signature lines [`crate::note`]'s.

pub mod checkpoint;
pub mod proof_file;
pub mod tile;
