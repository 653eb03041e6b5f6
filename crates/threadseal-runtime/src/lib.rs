//! Runs the threads of agents: on records that verify, within budgets and capabilities, sealed as they grow.
//!
//! Modules, lowest first; a module uses only what stands before it (a test enforces this):
//!
//! | module | owns |
//! |---|---|
//! | [`money`] | [`money::Nanos`], billionths of a dollar |
#![forbid(unsafe_code)]

pub mod money;
