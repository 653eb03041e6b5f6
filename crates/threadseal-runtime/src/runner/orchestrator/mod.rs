//! Inspecting and controlling threads: for people, for programs, and for threads.
//!
//! | module | owns |
//! |---|---|
//! | `records` | the trusted files of a thread: its record, its `thread.json` |
//! | `kin` | the threads that belong together by their sealed records |
//! | `audit` | the rows of a registry, checked against the files of its threads |
//! | `wait` | waiting for threads to end |
//! | `follow` | a thread, line by line, while it runs |
//! | `results` | how threads ended, one by one and together |
//! | `search` | finding words in the records of a chain |
//! | `reach` | which threads a thread may touch |
//! | `operation` | the seed's JSON: one operation for each of its words |
//! | `tool` | the same for a thread's model |
//!
//! A registry only shows where to look. All facts about a thread that ended come from a record and
//! a `thread.json` that verify. Where they do not, the answer reports this and contains nothing
//! from them.

mod audit;
mod follow;
mod kin;
mod operation;
mod reach;
mod records;
mod results;
mod search;
mod tool;
mod wait;

pub use follow::{Followed, Following, ORPHANED, Seen};
pub use operation::Operation;
pub(crate) use operation::Request;
pub(in crate::runner) use records::Need;
pub use records::Records;
pub use search::{Search, SearchType};
pub use wait::WAITING_STOPPED;

pub(super) use tool::OrchestratorTool;

#[cfg(test)]
mod tests;
