//! Runs the threads of agents: on records that verify, within budgets and capabilities, sealed as
//! they grow.
//!
//! Normative: `spec/runtime.md`, and for a project's declarations `spec/declarations.md`.
//!
//! Modules, lowest first; a module uses only modules above it (a test enforces this):
//!
//! | module | owns |
//! |---|---|
//! | [`bounds`] | every bound, as a named `MAX_*` |
//! | [`money`] | [`money::Nanos`], billionths of a dollar |
//! | [`cancel`] | the signal that stops a thread |
//! | [`secrets`] | the values that no record and no output repeats |
//! | [`project`] | the layout of an `.ai/` folder |
//! | `no_links` | writes that follow no links |
//! | `left_file` | files as this process left them, and what others wrote there |
//! | [`status`] | the states of a thread, and which may follow which |
//! | [`capability`] | what a thread may do, its inheritance, its risk |
//! | [`limit`] | limits, where they come from, when one is hit |
//! | `dynamic` | values of sealed lines |
//! | [`place`] | file and line, for errors |
//! | [`yaml`] | YAML values with their lines |
//! | `xml` | XML elements with their lines |
//! | [`path`] | paths into values |
//! | [`condition`] | when a hook fires, which edge is taken |
//! | [`interpolate`] | templates |
//! | [`item`] | the files of a project, found and verified before use |
//! | `hook_declaration` | declarations of hooks |
//! | `hook_control` | the decisions that hooks may take |
//! | [`directive`] | prompts, and the permissions of the threads that run them |
//! | [`schema`] | the arguments of tools and graphs |
//! | [`tool`] | commands and MCP servers, as declared |
//! | [`config`] | settings of program, user and project |
//! | [`graph`] | state graphs, as declared, and their faults |
//! | [`signed_order`] | orders for workers, signed by their giver |
//! | [`registry`] | the threads of a project, their states and their successors |
//! | `process_id` | processes, distinguished from others with the same number |
//! | [`budget`] | the spending of threads: allowed, set aside, and spent |
//! | [`knowledge`] | knowledge entries, found by their words |
//! | [`model`] | models over HTTP, from a script, from a transcript |
//! | [`context`] | how full a model's window is, and the messages for a successor |
//! | `signed_file` | files that are signed anew at each write, and read only when they verify |
//! | [`project_id`] | the identity of a project, and the projects whose threads it accepts |
//! | [`toolbox`] | tools, and which of them a thread may use |
//! | `thread_meta` | `thread.json` and `capabilities.md` |
//! | `judge` | the verifier of a project's records, the same as that of the command |
//! | [`history`] | earlier threads, read as far as they verify, back to the first |
//! | [`journal`] | the record that a thread writes |
//! | [`graph_state`] | runs of graphs as their records show them, and the derived files |
//! | `graph_journal` | the record that a run of a graph writes |
//! | [`runner`] | the loop of a thread |
//! | `fleet` | threads on many machines: orders, leases, workers (feature `postgres`) |
//!
//! Without the feature `engine`, the crate only reads declarations: no database, no network, no
//! threads.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "postgres"),
    allow(
        dead_code,
        unused_imports,
        reason = "only threads on many machines use all of it"
    )
)]

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
mod dynamic;
#[cfg(feature = "postgres")]
pub mod fleet;
pub mod graph;
#[cfg(feature = "engine")]
mod graph_journal;
#[cfg(feature = "engine")]
pub mod graph_state;
#[cfg(feature = "engine")]
pub mod history;
mod hook_control;
mod hook_declaration;
pub mod interpolate;
pub mod item;
#[cfg(feature = "engine")]
pub mod journal;
#[cfg(feature = "engine")]
mod judge;
#[cfg(feature = "engine")]
pub mod knowledge;
#[cfg(feature = "engine")]
mod left_file;
#[cfg(feature = "engine")]
pub mod model;
#[cfg(feature = "engine")]
mod no_links;
pub mod path;
pub mod place;
#[cfg(feature = "engine")]
mod process_id;
pub mod project;
#[cfg(feature = "engine")]
pub mod project_id;
#[cfg(feature = "engine")]
pub mod registry;
#[cfg(feature = "engine")]
pub mod runner;
pub mod schema;
#[cfg(feature = "engine")]
pub mod secrets;
#[cfg(feature = "engine")]
mod signed_file;
pub mod signed_order;
pub mod status;
#[cfg(feature = "engine")]
#[cfg(test)]
mod testing;
#[cfg(feature = "engine")]
mod thread_meta;
pub mod tool;
#[cfg(feature = "engine")]
pub mod toolbox;
mod xml;
pub mod yaml;

pub use threadseal_verify::limit;
pub use threadseal_verify::money;
