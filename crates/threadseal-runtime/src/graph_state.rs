//! [`Course`]: a run of a graph as its record shows it, and the two files derived from it.
//!
//! ```text
//! events ─► Course {state, next node, calls of an interrupted step, …}
//!             │                                              walking and resuming read the same
//!             ├─► .ai/knowledge/graphs/<graph>/<run>.md          the state, signed: [`state_file`]
//!             └─► .ai/knowledge/agent/threads/<graph>/<run>.md   node table and history: [`entry`]
//! ```
//! The events are the only source about a run. The walker changes a course only by recording an
//! event. So a course that is read from a verified record is the one that was walked. The state
//! file contains no more than the record; [`agrees`] compares the two.
//!
//! Seed 001, "Graph Transcripts"; the shape of both files: `walker.py` of February 2026.

mod course;
mod entry;
mod file;
mod text;

pub(crate) use course::step_of;
pub use course::{Course, KnownCall, OpenCall, Position, Standing, Visit};
pub use entry::{EntryCover, entry};
pub(crate) use file::state_file;
pub use file::{StateCover, agrees};

#[cfg(test)]
mod tests;
