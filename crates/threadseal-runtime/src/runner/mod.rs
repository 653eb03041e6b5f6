//! Running threads: from a directive's id to a sealed record and a result.
//!
//! | module | owns |
//! |---|---|
//! | `engine` | the surroundings in which the threads of a project run |
//! | `prepare` | the checks before anything is written |
//! | `layers` | the layers around a prompt |
//! | `hooks` | declared reactions to events, and their decisions |
//! | `edges` | the hooks before the first turn and after the last |
//! | `summary` | the tool that summarises threads |
//! | `account` | the surroundings of the loop: money, files, people |
//! | `thread` | one thread: its files from the first to the final seal |
//! | `cycle` | its loop |
//! | `desk` | the one place from which its record is written |
//! | `brood` | its children, also those that run in parallel |
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
//! | `child` | the tool by which a thread starts others |
//! | `walker` | runs of graphs |

mod account;
mod adopt;
#[cfg(test)]
mod attacks;
mod brood;
mod child;
mod cycle;
mod desk;
mod edges;
mod engine;
mod handoff;
pub(crate) mod hooks;
pub(crate) mod layers;
pub mod orchestrator;
mod prepare;
mod recap;
mod recover;
mod recovery;
mod resume;
mod returning;
mod stop;
mod succession;
mod summary;
mod takeover;
mod thread;
mod walker;

pub use adopt::Adoption;
pub use cycle::Progress;
pub use engine::{Engine, Order, Ran, Watch};
pub use recover::Recovered;
pub use resume::{Resumption, Way, may_go_on_from};
pub(crate) use stop::KILLED;
pub use stop::Killed;
pub use walker::{GraphOrder, GraphResumption, ShownGraph, Unresolved};
