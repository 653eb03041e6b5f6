//! The members that all configuration files share, and members that have one value only.

use crate::condition::compare::equal;
use crate::place::Place;
use crate::yaml::{Data, Fields, Node};
use serde_json::Value;
use threadseal_core::error::Error;

/// What every configuration file may have about the file: its place, and words for people.
pub(super) fn header(fields: &mut Fields<'_>) -> Result<(), Error> {
    for (key, word) in [("category", "agent"), ("tool_type", "config")] {
        if let Some(node) = fields.take(key)
            && node.text()? != word
        {
            return Err(node.error(format!("`{key}` of these settings can only be {word}")));
        }
    }
    fields.ignore(&[
        "version",
        "schema_version",
        "description",
        "author",
        "name",
        "tags",
    ]);
    Ok(())
}

/// Takes a member of Rye's settings that describes what this program does in any case. Another
/// value would change nothing, and is an error.
pub(super) fn stated(fields: &mut Fields<'_>, key: &str, holds: &Value) -> Result<(), Error> {
    match fields.take(key) {
        None => Ok(()),
        Some(node) => describes(node, key, holds),
    }
}

fn describes(node: &Node, path: &str, holds: &Value) -> Result<(), Error> {
    match (&node.data, holds) {
        (Data::Map(entries), Value::Object(members)) => entries.iter().try_for_each(|entry| {
            let member = members.get(&entry.key).ok_or_else(|| {
                let text = format!("`{path}` has no member `{}`", entry.key);
                entry.place.error(text)
            })?;
            describes(&entry.value, &format!("{path}.{}", entry.key), member)
        }),
        _ if equal(&node.to_json(), holds) => Ok(()),
        _ => Err(node.error(format!("`{path}` can only be {holds}"))),
    }
}

/// Takes a list of words, or a mapping that describes them. A file cannot add to those that are
/// known.
pub(super) fn known_words(fields: &mut Fields<'_>, key: &str, known: &[&str]) -> Result<(), Error> {
    let Some(node) = fields.take(key) else {
        return Ok(());
    };
    let words: Vec<(&Place, &str)> = match &node.data {
        Data::Map(entries) => entries
            .iter()
            .map(|entry| (&entry.place, entry.key.as_str()))
            .collect(),
        _ => {
            let words = node
                .list()?
                .iter()
                .map(|word| Ok((&word.place, word.text()?)));
            words.collect::<Result<_, Error>>()?
        }
    };
    match words.iter().find(|(_, word)| !known.contains(word)) {
        None => Ok(()),
        Some((place, word)) => {
            let known = known.join(", ");
            Err(place.error(format!("`{key}` cannot have `{word}`; known: {known}")))
        }
    }
}

/// The members of a file; an empty one has none.
pub(super) fn file_fields(node: &Node) -> Result<Option<Fields<'_>>, Error> {
    if node.is_null() {
        return Ok(None);
    }
    let mut fields = node.fields()?;
    header(&mut fields)?;
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
