//! The filters of `${path | filter}`.

use crate::place::Place;
use serde_json::Value;
use threadseal_core::error::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pipe {
    /// The value as JSON text.
    Json,
    /// The value that a JSON text spells; anything else as it is.
    FromJson,
    /// Characters of a text, items of a list, members of a mapping.
    Length,
    /// The keys of a mapping; of anything else none.
    Keys,
    Upper,
    Lower,
}

impl Pipe {
    /// Reads a filter's name. Rye ignores an unknown name.
    pub(super) fn parse(name: &str, place: &Place) -> Result<Self, Error> {
        Ok(match name {
            "json" => Self::Json,
            "from_json" => Self::FromJson,
            "length" => Self::Length,
            "keys" => Self::Keys,
            "upper" => Self::Upper,
            "lower" => Self::Lower,
            _ => {
                return Err(place.error(format!(
                    "unknown filter `{name}`; known: json, from_json, length, keys, upper, lower"
                )));
            }
        })
    }

    pub(super) fn apply(self, value: &Value, place: &Place) -> Result<Value, Error> {
        Ok(match (self, value) {
            (Self::Json, value) => Value::String(value.to_string()),
            (Self::FromJson, Value::String(text)) => serde_json::from_str(text)
                .map_err(|error| place.error(format!("from_json: {error}")))?,
            (Self::FromJson, value) => value.clone(),
            (Self::Length, Value::String(text)) => text.chars().count().into(),
            (Self::Length, Value::Array(items)) => items.len().into(),
            (Self::Length, Value::Object(members)) => members.len().into(),
            (Self::Length, Value::Null) => 0.into(),
            (Self::Length, Value::Bool(_) | Value::Number(_)) => {
                return Err(place.error(format!("{value} has no length")));
            }
            (Self::Keys, Value::Object(members)) => members.keys().cloned().collect(),
            (Self::Keys, _) => Value::Array(Vec::new()),
            (Self::Upper, value) => Value::String(super::text_of(value.clone()).to_uppercase()),
            (Self::Lower, value) => Value::String(super::text_of(value.clone()).to_lowercase()),
        })
    }
}
