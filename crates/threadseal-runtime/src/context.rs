//! How much of a model's window a conversation fills, and which part of it a successor receives.
//!
//! ```text
//! OpenAI's models         counted with their own tokenizer (o200k, cl100k)
//! all others              four characters a token: the seed's estimate
//! at least                the provider's count of the last turn
//!
//! used ≥ trigger_threshold × window ─► the thread hands itself over
//! ```
//! The seed counts the contents of messages. Here calls, schemas of tools and the system prompt
//! count too, since they also fill the window.
//!
//! Seed 001, "Context Limit Detection", "Fill Trailing Messages". Elsewhere: the handoff
//! (`runner`).

mod bound;
mod meter;
mod trim;
pub(crate) use bound::InputBound;
pub use meter::{Counter, Fill, Meter, Window};
pub use trim::{Trimmed, trim};
