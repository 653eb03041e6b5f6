//! Runs the threads of agents: on records that verify, within budgets and capabilities, sealed as they grow.
//!
//! Normative: `spec/runtime.md`, and for what a project declares `spec/declarations.md`.
//!
//! Modules, lowest first; a module uses only what stands before it (a test enforces this):
//!
//! | module | owns |
//! |---|---|
//! | [`bounds`] | every bound, as a named `MAX_*` |
//! | [`money`] | [`money::Nanos`], billionths of a dollar |
//! | [`cancel`] | the word that a thread shall stop |
//! | [`project`] | where everything of an `.ai/` folder lies |
//! | [`no_links`] | files that are not written through links |
//! | [`status`] | where a thread stands, and where it may go from there |
//! | [`capability`] | what a thread may do, its inheritance, its risk |
//! | [`limit`] | limits, how they are found, when one is hit |
//! | [`place`] | file and line, for errors |
//! | [`yaml`] | YAML values that know their lines |
//! | [`xml`] | XML elements that know their lines |
//! | [`path`] | paths into values |
//! | [`condition`] | when a hook fires, which edge is taken |
//! | [`interpolate`] | templates |
//! | [`item`] | the files of a project, found and verified before use |
//! | [`hook_declaration`] | what hooks declare |
//! | [`hook_control`] | what hooks may decide |
//! | [`directive`] | prompts, and what the threads that run them may do |
//! | [`schema`] | what arguments tools and graphs take |
//! | [`tool`] | commands and MCP servers, as declared |
//! | [`config`] | settings of program, user and project |
//! | [`graph`] | state graphs, as declared, and what is wrong with them |
//! | [`registry`] | which threads there are, where each stands, which goes on from which |
//! | [`process_id`] | which process, told from all others of its number |
//! | [`budget`] | what threads may spend, have set aside, and have spent |
//! | [`knowledge`] | knowledge entries, found by their words |
//! | [`model`] | models over HTTP, from a script, from a transcript |
//! | [`context`] | how full a model's window is, and what of a conversation a successor is given |
//! | [`judge`] | the verifier of the project's records |
//! | [`signed_file`] | files that are signed anew at each write, and read only when they verify |
//! | [`identity`] | which project this is, and whose threads it goes on with |
//! | [`toolbox`] | tools, and what of them a thread may use |
//! | [`thread_meta`] | `thread.json` and `capabilities.md` |
//! | [`past`] | threads of the past, read as far as they verify, the whole way back |
//! | [`journal`] | what a thread records of itself |
//! | [`graph_state`] | runs of graphs as their records tell them, and the files that follow |
//! | [`graph_journal`] | what a run of a graph records of itself |
//! | [`runner`] | the loop of a thread |
//! | [`fleet`] | threads on many machines: orders, leases, workers |
//!
//! Without the feature `engine` there is only what reads declarations: no database, no network, no threads.
#![forbid(unsafe_code)]

pub mod bounds;
#[cfg(feature = "engine")]
pub mod budget;
pub mod cancel;
pub mod capability;
pub mod condition;
pub mod config;
#[cfg(feature = "engine")]
pub mod context;
pub mod directive;
#[cfg(feature = "engine")]
pub mod fleet;
pub mod graph;
#[cfg(feature = "engine")]
pub mod graph_journal;
#[cfg(feature = "engine")]
pub mod graph_state;
pub mod hook_control;
pub mod hook_declaration;
#[cfg(feature = "engine")]
pub mod identity;
pub mod interpolate;
pub mod item;
#[cfg(feature = "engine")]
pub mod journal;
#[cfg(feature = "engine")]
mod judge;
#[cfg(feature = "engine")]
pub mod knowledge;
#[cfg(feature = "engine")]
pub mod model;
#[cfg(feature = "engine")]
pub mod no_links;
#[cfg(feature = "engine")]
pub mod past;
pub mod path;
pub mod place;
#[cfg(feature = "engine")]
pub mod process_id;
pub mod project;
#[cfg(feature = "engine")]
pub mod registry;
#[cfg(feature = "engine")]
pub mod runner;
pub mod schema;
#[cfg(test)]
mod shared;
#[cfg(feature = "engine")]
pub mod signed_file;
pub mod status;
#[cfg(feature = "engine")]
#[cfg(test)]
mod testing;
#[cfg(feature = "engine")]
pub mod thread_meta;
pub mod tool;
#[cfg(feature = "engine")]
pub mod toolbox;
pub mod xml;
pub mod yaml;

pub use threadseal_verify::limit;
pub use threadseal_verify::money;
