//! Settings of agents: what we write into them, and how it is removed again.
//!
//! | module | owns |
//! |---|---|
//! | [`command`] | [`HookCommand`]: the command line of a hook, spelled and recognised |
//! | [`hooks`] | which events of which agent run a hook |
//! | [`json`] | hooks in JSON with comments, edited without loss |
//! | [`managed`] | the files of an organisation |
//! | [`plugin`] | the file that OpenCode loads |

pub mod command;
pub mod hooks;
pub mod json;
pub mod managed;
pub mod plugin;

pub use command::HookCommand;
pub use hooks::HookEntry;
pub use json::Shape;

/// Largest file of settings in bytes.
pub const MAX_SETTINGS_BYTES: usize = 4 << 20;
