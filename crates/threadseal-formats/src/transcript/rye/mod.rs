//! Transcripts in Rye's format (`spec/transcript.md` §8): strict verdicts, and writing.
//!
//! ```text
//! {"timestamp": 1739820405.1, "thread_id": "t-1", "event_type": "cognition_in", "payload": {…}}⏎
//! {"timestamp": 1739820406.2, "thread_id": "t-1", "event_type": "checkpoint", "payload": {
//!    "turn": 1, "byte_offset": 93, "hash": "<64 hex>", "sig": "<base64url>", "fp": "<16 hex>",
//!    "ts": "2026-02-18T10:30:00Z"}}⏎                                         all on one line
//! ```
//! `byte_offset` is the offset of the checkpoint's line, and `hash` the SHA-256 of all bytes before
//! it. `sig` is an Ed25519 signature over the 64 hex digits of `hash`. `fp` has 16 hex digits that
//! hint at the key.
//!
//! Reports name three facts that the format leaves unproved. Nothing covers the last checkpoint's
//! own members. There is no end mark, so a record truncated at a checkpoint looks whole unless a
//! head is known. The signature names neither record nor purpose, so any signature of the key over
//! the same bytes is accepted.
//!
//! Invariants: lines end at LF only. A checkpoint is at its stated offset. No text that another
//! reader would take for an event may hide inside a line. No verdict depends on bytes after the
//! last good seal. A file whose first line is a native manifest ([`looks_native`]) belongs to the
//! native profile, whatever its checkpoints claim.
//!
//! | module | owns |
//! |---|---|
//! | `lines` | cutting a stream at LF, in bounded memory |
//! | `line` | the classes of lines |
//! | `checkpoint` | the members of a checkpoint |
//! | `signers` | the signers of seals, and the order of checking signatures |
//! | `scan` | one pass over the lines |
//! | `verify` | the report |
//! | `write` | [`RyeSealer`] |
//!
//! Elsewhere: the answer of Rye's own verifier ([`super::rye_compat`]).

mod checkpoint;
mod line;
pub(crate) mod lines;
mod scan;
mod signers;
#[cfg(test)]
mod tests;
mod verify;
mod write;

pub use line::looks_native;
pub use scan::record_id;
pub use verify::{Options, Outcome, Verifier, verify};
pub use write::RyeSealer;
