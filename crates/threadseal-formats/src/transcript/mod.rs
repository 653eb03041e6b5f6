//! Transcripts: append-only logs of one JSON event a line, sealed by checkpoints
//! (`spec/transcript.md`).
//!
//! ```text
//! event ─ manifest ─ ext ─ statement ─ seal ─ sealing_keys   native lines and their one spelling
//! bodies                                                     values stored beside the record
//! write                                                      Sealer: events and seals out
//! scan ─ check ─ prefix ─ verify                             two halves in, one report out
//! seal_front ─ observed ─ log ─ observe                      detached seals of foreign logs
//! rye ─ rye_compat                                           Rye's format, Rye's own answer
//! copy                                                       a record with lines left out
//! turn_proof                                                 proofs that show one turn alone
//! as_log                                                     a record as a log for other tools
//! messages ─ render                                          the conversation, for a reader
//! ```

pub mod as_log;
pub mod bodies;
pub mod copy;
pub mod event;
pub mod ext;
pub mod lines;
pub mod log;
pub mod manifest;
pub mod messages;
pub mod observe;
pub mod observed;
pub mod observed_proof;
pub mod render;
pub mod rye;
pub mod rye_compat;
pub mod turn_proof;

mod check;
mod handover;
mod key_succession;
mod order;
mod payloads;
mod prefix;
mod scan;
mod seal;
mod seal_front;
mod sealing_keys;
mod statement;
mod verify;
mod write;

pub use prefix::PrefixHasher;
pub use scan::{PointKind, PrefixPoint, ScanOptions, Scanner};
pub use verify::{
    Coverage, Outcome, SealedDelegation, Tail, Verifier, VerifyOptions, conclude, lies_within,
    verify,
};
pub use write::{Ending, Link, Sealer, Signers, Stamp};

#[cfg(test)]
mod tests;
