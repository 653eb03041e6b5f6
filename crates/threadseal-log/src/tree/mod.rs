//! The tree of a log: its tiles, what was committed beyond them, and who signs it.
//!
//! ```text
//! contents ─ writer ─ view ─ view_cache        mirror, record_log: the same tiles elsewhere
//! ```

pub(crate) mod checked;
pub(crate) mod contents;
pub(crate) mod mirror;
pub(crate) mod record_log;
pub(crate) mod view;
pub(crate) mod view_cache;
pub(crate) mod writer;
