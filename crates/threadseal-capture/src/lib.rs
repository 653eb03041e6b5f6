//! Capture: the sessions of the agents that people run, found, sealed while they grow, and archived.
//!
//! ```text
//! agent ─► hook ─► watcher ─► seal ─► archive ─► index ─► list, search, show
//!   └────► its logs ──┘
//! ```
//!
//! | module | owns |
//! |---|---|
//! | [`agent`] | [`Agent`]: the agents that are known, and their names |
#![forbid(unsafe_code)]

pub mod agent;

pub use agent::Agent;
