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
//! | [`session`] | [`SessionId`], [`SessionFile`]: names of sessions, and the files that hold them |
//! | [`archive`] | [`Archive`]: sealed sessions, kept when their agent deletes them |
//! | [`index`] | [`Index`]: rows of sessions, and the words in them |
//! | [`state`] | [`LogState`]: the state of a log in the words of `list` |
#![forbid(unsafe_code)]

pub mod agent;
pub mod archive;
pub mod index;
pub mod session;
pub mod state;

pub use agent::Agent;
pub use archive::Archive;
pub use index::Index;
pub use session::{AgentFolder, SessionFile, SessionId};
pub use state::LogState;
