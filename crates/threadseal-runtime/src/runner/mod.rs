//! ThreadRun threads: from a directive's id to a sealed record and a result.
//!
//! | module | owns |
//! |---|---|
//! | `engine` | the surroundings in which the threads of a project run |
//! | `prepare` | the checks before anything is written |
//! | `layers` | the layers around a prompt |
//! | `hooks` | declared reactions to events, and their decisions |
//! | `lifecycle_hooks` | the hooks before the first turn and after the last |
//! | `summary` | the tool that summarises threads |
//! | `account` | the surroundings of the loop: money, files, people |
//! | `thread` | one thread: its files from the first to the final seal |
//! | `cycle` | its loop |
//! | `record_writer` | the one place from which its record is written |
//! | `children` | its children, also those that run in parallel |
//! | `succession` | how a thread and its successor are bound together |
//! | `resume` | continuing a thread that ended, on request |
//! | `handoff` | a thread whose model's window is full hands itself over |
//! | `adopt` | continuing a thread of Rye |
//! | `recap` | a summary of the earlier conversation, for a successor |
//! | `recover` | ending a thread whose process is gone |
//! | `recovery` | retries after errors of a model |
//! | `takeover` | continuing a thread whose worker is gone, in the same record |
//! | `returning` | `directive_return` |
//! | `stop` | cancelling and killing threads from outside |
//! | [`orchestrator`] | looking at threads and acting on them, for people and for threads |
//! | `child_spawner` | the tool by which a thread starts others |
//! | `graph_run` | runs of graphs |

mod account;
mod adopt;
mod child_spawner;
mod children;
mod cycle;
mod engine;
mod graph_run;
mod handoff;
pub(crate) mod hooks;
pub(crate) mod layers;
mod lifecycle_hooks;
pub mod orchestrator;
mod prepare;
mod recap;
mod record_writer;
mod recover;
mod recovery;
mod resume;
mod returning;
mod stop;
mod succession;
mod summary;
mod takeover;
#[cfg(test)]
mod tests;
mod thread;

pub use adopt::Adoption;
pub use cycle::Progress;
pub use engine::{Engine, Order, Ran, Watch};
pub use graph_run::{GraphOrder, GraphResumption, ShownGraph, Unresolved};
pub use recover::Recovered;
pub use resume::{Resumption, Way, may_go_on_from};
pub(crate) use stop::KILLED;
pub use stop::Killed;
