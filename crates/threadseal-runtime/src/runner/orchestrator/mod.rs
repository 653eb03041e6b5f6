//! Looking at threads and acting on them: for people, for programs, and for threads themselves.
//!
//! | module | owns |
//! |---|---|
//! | `records` | what may be believed of a thread: its record, its `thread.json` |
//! | `audit` | what a registry says of threads, held against what they left |
//! | `wait` | waiting for threads to end |
//! | `results` | how threads ended, one by one and together |
//! | `search` | finding words in the records of a chain |
//! | `reach` | which threads a thread may touch |
//! | `operation` | the seed's JSON: one operation for each of its words |
//! | `tool` | the same for a thread's model |
//!
//! A registry says where to look and nothing more. What comes out of here about a thread that ended was read from a
//! record and a `thread.json` that verify; where they do not, the answer says so and has nothing from them.

mod audit;
mod operation;
mod reach;
mod records;
mod results;
mod search;
mod tool;
mod wait;

pub use operation::Operation;
pub(in crate::runner) use records::Need;
pub use records::Records;
pub use search::{Search, SearchType};

pub(super) use tool::OrchestratorTool;

#[cfg(test)]
mod tests;
