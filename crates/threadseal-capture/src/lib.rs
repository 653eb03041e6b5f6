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
//! | [`hook`] | payloads of hooks, their requests, the link to the watcher, troubles |
//! | [`session`] | [`SessionId`], [`SessionFile`]: names of sessions, and the files that hold them |
#![forbid(unsafe_code)]

pub mod agent;
pub mod hook;
pub mod session;

pub use agent::Agent;
pub use session::{AgentFolder, SessionFile, SessionId};
