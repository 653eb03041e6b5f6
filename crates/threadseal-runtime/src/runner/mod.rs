//! Running threads: from a directive's id to a sealed record and a result.
//!
//! Modules, lowest first (the tools in `orchestrator` use `child_spawner`):
//!
//! | module | owns |
//! |---|---|
//! | `services` | all that the threads of a project work with |
//! | `order` | orders to run and to continue threads, and their results |
//! | `parent` | the thread that starts a child, and what the child inherits |
//! | `record_writer` | the one place from which a thread's record is written |
//! | `places` | what a thread leaves outside of its record, watched for changes by others |
//! | `children` | the children of a thread, also those that run in parallel |
//! | `derived_files`, `accounts` | files and rows derived from a thread's record |
//! | `held_record` | records opened under their lock |
//! | [`orchestrator`] | looking at threads and acting on them, for people and for threads |
//! | `recover` | ending a thread whose process is gone |
//! | `stop` | cancelling and killing threads from outside |
//! | `starter` | how the tools of a thread start other threads |
//! | `child_spawner`, `graph_tools`, `summary` | the tools that start threads, run graphs, summarise threads |
//! | `block`, `hooks`, `layers` | texts around a prompt; declared reactions to events; the layers |
//! | `helpers` | the values beside a thread that its tools share with it |
//! | `plan`, `thread_plan` | the checks before anything is written |
//! | `succession` | how a thread and its successor are bound together |
//! | `lifecycle` | prepare, start, drive, finish: the phases of a thread and of a graph run |
//! | `returning`, `recovery`, `cycle` | `directive_return`; retries; the loop of a thread |
//! | `lifecycle_hooks` | the hooks before the first turn and after the last |
//! | `account` | the surroundings of the loop: money, files, people |
//! | `thread` | a thread that asks a model, as a runnable |
//! | `graph_run` | a run of a graph, as a runnable |
//! | `recap`, `continuation` | a summary of the earlier conversation; the beginning of a successor |
//! | `handoff` | a thread whose model's window is full hands itself over |
//! | `rye_thread`, `resume` | continuing a thread of Rye; a thread that ended |
//! | `takeover` | continuing a thread whose worker is gone, in the same record |
//! | `resume_orphans` | continuing threads that were ended for their dead process |
//! | `engine` | the entry points |

mod account;
mod accounts;
mod allowance;
mod block;
mod child_spawner;
mod children;
mod continuation;
mod cycle;
mod derived_files;
mod engine;
mod graph_run;
mod graph_tools;
mod handoff;
mod held_record;
mod helpers;
pub(crate) mod hooks;
pub(crate) mod layers;
mod lifecycle;
mod lifecycle_hooks;
pub mod orchestrator;
mod order;
mod orphans;
mod parent;
mod places;
mod plan;
mod recap;
mod record_writer;
mod recover;
mod recovery;
mod resume;
mod resume_orphans;
mod returning;
mod rye_thread;
mod sealed_cost;
mod services;
mod starter;
mod stop;
mod succession;
mod summary;
mod takeover;
#[cfg(test)]
mod tests;
mod thread;
mod thread_plan;

pub use engine::Engine;
pub use graph_run::ShownGraph;
pub(crate) use order::Fixed;
pub use order::{GraphOrder, GraphResumption, Order, Ran, ResumeMode, Resumption, Unresolved};
pub use orphans::{Found, Healed, Scope};
pub use recover::Recovered;
pub(crate) use resume::{Resumable, may_go_on_from};
pub use resume_orphans::ResumedOrphan;
pub(crate) use rye_thread::Adoptable;
pub use rye_thread::Adoption;
pub use services::{Notice, Progress, Services, Watch};
pub(crate) use stop::KILLED;
pub use stop::Killed;
