//! Tools: the actions that a model may request, each call within the thread's capabilities.
//!
//! ```text
//! model's call {name, input} ─► Toolbox::find ─► capability? ─► Tool::run
//!   ─► Outcome {output | error}
//! ```
//! The runner records a call before it starts, and its outcome before the model receives it;
//! nothing here writes to a record. A refused call is an outcome too: the model receives it, the
//! thread continues.

mod chest;
mod command;
mod files;
mod mcp;
mod primaries;
mod process;
mod script;
mod supervisor;
mod tool;
pub use crate::cancel::{Cancel, Stopped};
pub use chest::{Permitted, Toolbox};
pub use command::{DeclaredCommand, Workshop};
pub use files::{ReadFile, WriteFile};
pub use mcp::{DeclaredMcp, Hub};
pub use primaries::ItemPrimary;
pub(crate) use primaries::primary_name;
pub use supervisor::{Supervisor, end_left_over, supervise};
pub(crate) use tool::model_name;
pub use tool::{Invocation, Outcome, Parentage, Tool};
