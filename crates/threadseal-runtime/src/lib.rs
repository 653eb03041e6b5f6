//! Runs the threads of agents: on records that verify, within budgets and capabilities, sealed as they grow.
//!
//! Normative: `spec/runtime.md`.
//!
//! Modules, lowest first; a module uses only what stands before it (a test enforces this):
//!
//! | module | owns |
//! |---|---|
//! | [`bounds`] | every bound, as a named `MAX_*` |
//! | [`money`] | [`money::Nanos`], billionths of a dollar |
//! | [`project`] | where everything of an `.ai/` folder lies |
//! | [`status`] | where a thread stands, and where it may go from there |
//! | [`capability`] | what a thread may do, its inheritance, its risk |
//! | [`limit`] | limits, how they are found, when one is hit |
#![forbid(unsafe_code)]

pub mod bounds;
pub mod capability;
pub mod limit;
pub mod money;
pub mod project;
pub mod status;
