//! Items: the files that declare a project's agents, found and verified before use.
//!
//! ```text
//! PROJECT/.ai/directives/a/b.md      directive a/b      the project's first,
//! USER/.ai/directives/a/b.md                            then the user's,
//! (built in)                                            then ThreadSeal's own
//! ```
//! An [`Item`] exists only for bytes that were judged. A tampered, forged or rolled back file is
//! refused under every policy. An unsigned one needs a policy that allows it, and its use is
//! recorded ([`Used`]). The text that callers read is the text that was verified.
//!
//! Normative: `spec/declarations.md` §1.1. Elsewhere: the coverage of signatures
//! ([`threadseal_formats::document`]).

mod builtin;
mod file;
mod find;
mod id;
mod near;
use crate::bounds::MAX_ITEM_BYTES;
pub(crate) use file::IGNORED_MEMBERS;
pub use file::{Coverage, Grounds, Item, ItemPolicy, Standing, Used};
pub use find::{Finder, Surveyed};
pub use id::{ItemId, ItemKind};
#[cfg(test)]
mod tests;
