//! Where entries are, so that one is found, and known to be absent, without reading the whole log.
//!
//! ```text
//! index_files ─ head_index ─ head_lookup     heads of records
//! non_head_index                             all other entries
//! ```
//! Nothing of a file is trusted but lines with a tag of this home's secret, of a tree that the signed one continues.

pub(crate) mod head_index;
pub(crate) mod head_lookup;
pub(crate) mod index_files;
pub(crate) mod non_head_index;
