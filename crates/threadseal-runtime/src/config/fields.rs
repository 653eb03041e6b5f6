//! The members that all configuration files share.

use crate::yaml::{Fields, Node};
use threadseal_core::error::Error;

/// Takes the members that every configuration file may have about the file.
pub(super) fn ignore_header(fields: &mut Fields<'_>) {
    fields.ignore(&[
        "category",
        "tool_type",
        "version",
        "schema_version",
        "description",
        "author",
        "name",
        "tags",
    ]);
}

/// The members of a file; an empty one has none.
pub(super) fn file_fields(node: &Node) -> Result<Option<Fields<'_>>, Error> {
    if node.is_null() {
        return Ok(None);
    }
    let mut fields = node.fields()?;
    ignore_header(&mut fields);
    Ok(Some(fields))
}

/// Replaces `slot` where the member is there.
pub(super) fn set<'a, T>(
    fields: &mut Fields<'a>,
    name: &str,
    slot: &mut T,
    read: impl FnOnce(&'a Node) -> Result<T, Error>,
) -> Result<(), Error> {
    if let Some(node) = fields.take(name) {
        *slot = read(node)?;
    }
    Ok(())
}
