//! The result of reading a file, before the profile decides which signature counts.

use super::kind::ItemType;
use super::native::Native;
use super::part::Part;
use std::ops::Range;

/// All evidence of one file.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// About the file itself; its doubts hold where no signature counts.
    pub(super) file: Part,
    pub(super) native: Option<Native>,
    pub(super) rye: Option<RyeReading>,
    /// Rye's own result, where it is known.
    pub(super) compat: Option<serde_json::Value>,
    /// The `thread_id` of a JSON document.
    pub(super) thread: Option<String>,
}

/// A Rye signature.
#[derive(Debug)]
pub(super) struct RyeReading {
    pub(super) part: Part,
    /// The item type under which Rye signed; None for JSON.
    pub(super) item: Option<ItemType>,
    /// The bytes of the file that Rye hashes.
    pub(super) covered: Vec<Range<u64>>,
}
