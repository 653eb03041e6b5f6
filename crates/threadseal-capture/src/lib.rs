//! Capture: the sessions of the agents that people run, found, sealed while they grow, and archived.
//!
//! ```text
//! agent ─► hook ─► watcher ─► seal ─► archive ─► index ─► list, search, show
//!   └────► its logs ──┘
//! ```
//!
//! | module | owns |
//! |---|---|
//! | [`agent`] | [`Agent`]: the agents that are known, their names, and where they are on a machine |
//! | [`session`] | [`SessionId`], [`SessionFile`]: names of sessions, and the files that hold them |
//! | [`hook`] | payloads of hooks, their requests, the link to the watcher, troubles |
//! | [`archive`] | [`Archive`]: sealed sessions, kept when their agent deletes them |
//! | [`index`] | [`Index`]: rows of sessions, and the words in them |
//! | [`state`] | [`LogState`]: the state of a log in the words of `list` |
//! | [`settings`] | hooks in the settings of agents, edited without loss |
//! | [`database`] | sessions in databases: their export, its log, what changed since |
//! | [`codex`] | the trust of Codex in our hooks |
//! | [`doctor`] | installed hooks are run as their agents run them |
//! | [`health`] | what keeps the hooks of an agent from running |
//! | [`install`] | hooks and services put into a user's files, and taken out again |
//! | [`process`] | programs that run with a time limit |
//! | [`seen`] | what the watcher found sealed, for its next start |
//! | [`service`] | the watcher as a service of the user |
#![forbid(unsafe_code)]

pub mod agent;
pub mod archive;
pub mod codex;
pub mod database;
pub mod doctor;
pub mod health;
pub mod hook;
pub mod index;
pub mod install;
pub mod process;
pub mod seen;
pub mod service;
pub mod session;
pub mod settings;
pub mod state;

pub use agent::Agent;
pub use archive::Archive;
pub use index::Index;
pub use session::{AgentFolder, SessionFile, SessionId};
pub use state::LogState;
