//! Models: requests of threads, and answers to them.
//!
//! ```text
//! Request {system, messages, tools, max_output_tokens, cancel}
//!    │
//!    ├─ http     a provider over HTTP: Anthropic, OpenAI (both APIs), Gemini, and compatible ones
//!    ├─ script   answers from a file, in order: tests, demonstrations
//!    └─ replay   the answers of a verified transcript
//!    ▼
//! Answer {text, reasoning, calls, usage, model, stop}
//!    or ModelError {status, type, code, message, retry-after}
//! ```
//! A model has no effect but its answer. Errors are distinguished by their facts
//! (`ModelError::to_value`), which the classification of the configuration judges; nothing here
//! retries.

mod catalogue;
mod http;
mod message;
mod preferring;
mod recorded;
mod replay;
mod script;
pub(crate) use crate::dynamic::dynamic;
pub use catalogue::{Catalogue, Chosen, Models, Wish};
pub use http::{Endpoint, HttpModel, Shape};
pub use message::{
    Advice, Answer, ChatMessage, Model, ModelError, Request, Stop, ToolCall, ToolSchema, Usage,
};
pub(crate) use preferring::Preferring;
pub use recorded::conversation;
pub(crate) use recorded::sealed;
pub use replay::{NamedChild, Recorded, ReplayModel, ReplayedChild};
pub use script::ScriptModel;
