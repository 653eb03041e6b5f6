//! Walking graphs: from a graph's id to a sealed record and a result.
//!
//! ```text
//! checked: graph, inputs, permissions within the parent's, limits, tools
//!   ─► record, thread.json, state file
//!   ─► limits ─► step: call(s) ─► assign ─► edge ─► seal ─► state file, entry, thread.json ─► …
//!   ─► graph_completed | graph_error | graph_cancelled, final seal ─► the files, registry, budget
//! ```
//! A run is a thread in every respect except that it asks no model. Its children are threads and
//! runs of graphs.
//!
//! | module | owns |
//! |---|---|
//! | `files` | thread.json, state file and entry, derived from the record |
//! | `run` | the state of a run |
//! | `call` | one call: permission, intent, result |
//! | `foreach` | a call for each item |
//! | `graph_hooks` | hooks, and their decisions |
//! | `outcome` | the outcome of a node |
//! | `node` | the work of a node |
//! | `prepare` | the checks before anything is written |
//! | `walk` | a run as a runnable: from step to step |
//! | `begun_calls` | calls that began: in a tail, in a step ledger |
//! | `stopped_run` | reading the records of a run that stopped, before any change |
//! | `resume` | continuing a run that stopped |

mod begun_calls;
mod call;
mod files;
mod foreach;
mod graph_hooks;
mod node;
mod outcome;
mod prepare;
pub(super) mod resume;
mod run;
pub(super) mod stopped_run;
mod walk;

pub(super) use prepare::{trusts_parent, typed_inputs};
pub(super) use run::GraphRun;
pub use stopped_run::ShownGraph;
pub(super) use walk::{GraphStart, KIND};

#[cfg(test)]
mod tests;
