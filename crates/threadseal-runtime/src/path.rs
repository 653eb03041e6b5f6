//! Paths into values, for conditions and templates.
//!
//! ```text
//! state.items.0.name      members by name, list items by number from 0; -1 is the last
//! state.items[0].name     the same
//!                         empty: the whole value
//! ```
//! Readers of a path do not distinguish a missing value from null. Follows Rye's `resolve_path`
//! (`condition_evaluator.py`).

use crate::bounds::MAX_PATH_BYTES;
use crate::place::Place;
use serde_json::Value;
use std::fmt;
use threadseal_core::error::Error;

/// A path, as it was written and in its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    text: String,
    parts: Vec<String>,
}

impl Path {
    /// Reads a path. A part consists of letters, digits and `_ - / @`; empty parts do not count.
    ///
    /// # Errors
    /// At `place`, when it is not one or is longer than [`MAX_PATH_BYTES`].
    pub fn parse(text: &str, place: &Place) -> Result<Self, Error> {
        if text.len() > MAX_PATH_BYTES {
            return Err(place.beyond(format!("a path has at most {MAX_PATH_BYTES} bytes")));
        }
        let mut parts = Vec::new();
        for dotted in text.split('.') {
            let (name, indices) = dotted.split_at(dotted.find('[').unwrap_or(dotted.len()));
            if !name.chars().all(may_stand_in_a_part) {
                return Err(place.error(format!("`{text}` is not a path")));
            }
            if !name.is_empty() {
                parts.push(name.to_owned());
            }
            let mut rest = indices;
            while let Some(index) = rest.strip_prefix('[') {
                let (digits, after) = index.split_once(']').unwrap_or(("", ""));
                if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(place.error(format!("`{text}` is not a path")));
                }
                parts.push(digits.to_owned());
                rest = after;
            }
            if !rest.is_empty() {
                return Err(place.error(format!("`{text}` is not a path")));
            }
        }
        Ok(Self {
            text: text.to_owned(),
            parts,
        })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its parts, in order.
    pub fn parts(&self) -> &[String] {
        &self.parts
    }

    /// The value at the path; None where it is missing or null.
    pub fn find<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        let mut here = value;
        for part in &self.parts {
            here = match here {
                Value::Object(members) => members.get(part)?,
                Value::Array(items) => items.get(index(part, items.len())?)?,
                _ => return None,
            };
        }
        (!here.is_null()).then_some(here)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

fn may_stand_in_a_part(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '-' | '/' | '@')
}

/// As Python's lists count, from the end where it is negative.
fn index(part: &str, len: usize) -> Option<usize> {
    match part.strip_prefix('-') {
        Some(back) => len.checked_sub(back.parse().ok()?).filter(|at| *at < len),
        None => part.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn find(path: &str, value: &Value) -> Option<Value> {
        Path::parse(path, &Place::new("f"))
            .unwrap()
            .find(value)
            .cloned()
    }

    #[test]
    fn paths_lead_into_members_and_items() {
        let value = json!({"a": {"b": [1, {"c": "x"}], "0": "key"}, "n": null, "": 5});
        for (path, found) in [
            ("a.b.0", Some(json!(1))),
            ("a.b[1].c", Some(json!("x"))),
            ("a.b.-1.c", Some(json!("x"))),
            ("a.b.-2", Some(json!(1))),
            ("a.b.-3", None),
            ("a.b.-0", None),
            ("a.b.2", None),
            ("a.0", Some(json!("key"))),
            ("a..0", Some(json!("key"))),
            ("n", None),
            ("n.x", None),
            ("z", None),
            ("a.b.x", None),
            ("a.b.99999999999999999999999", None),
            ("", Some(value.clone())),
        ] {
            assert_eq!(find(path, &value), found, "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        let place = Place::new("f").at(2);
        for text in [
            "a b", "a[x]", "a[0", "a[0]b", "a[-1]", "a[]", "$a", "a|b", "VAR:-x",
        ] {
            assert!(Path::parse(text, &place).is_err(), "{text}");
        }
        assert!(Path::parse(&"a".repeat(MAX_PATH_BYTES + 1), &place).is_err());
    }
}
