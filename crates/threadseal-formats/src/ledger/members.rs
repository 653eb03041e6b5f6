//! Members of records by name: taken out of a value one after the other, and written in order.

use threadseal_core::canon::json::{Text, Value};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;

/// The members of an object, from which known ones are taken; the rest is unknown.
pub(super) struct Members {
    left: Vec<(Text, Value)>,
    /// The object's name in messages.
    what: &'static str,
}

impl Members {
    /// # Errors
    /// Kind `InvalidInput` when the value is no object.
    pub(super) fn of(value: Value, what: &'static str) -> Result<Self, Error> {
        match value {
            Value::Object(left) => Ok(Self { left, what }),
            _ => Err(Error::invalid(format!("{what} is not an object"))),
        }
    }

    /// The value of a member; an absent one is `null`, as it is for `AbstractRuntime`.
    pub(super) fn take(&mut self, name: &str) -> Value {
        match self.left.iter().position(|(key, _)| key == name) {
            Some(at) => self.left.remove(at).1,
            None => Value::Null,
        }
    }

    /// A string, or `None` for `null`.
    pub(super) fn text_or_null(&mut self, name: &str) -> Result<Option<String>, Error> {
        match self.take(name) {
            Value::Null => Ok(None),
            Value::String(text) => match text.as_str() {
                Some(text) => Ok(Some(text.to_owned())),
                None => Err(self.wrong(name, "holds a lone surrogate")),
            },
            _ => Err(self.wrong(name, "is not a string")),
        }
    }

    pub(super) fn text(&mut self, name: &str) -> Result<String, Error> {
        let text = self.text_or_null(name)?;
        text.ok_or_else(|| self.wrong(name, "is missing"))
    }

    /// A string of 64 lower-case hex digits, or `None` for `null`.
    pub(super) fn digest_or_null(&mut self, name: &str) -> Result<Option<Digest>, Error> {
        let Some(text) = self.text_or_null(name)? else {
            return Ok(None);
        };
        let digest = Digest::parse_hex(&text);
        digest
            .map(Some)
            .ok_or_else(|| self.wrong(name, "is not a SHA-256 digest in lower-case hex"))
    }

    /// A value that may be absent or `null`.
    pub(super) fn value_or_null(&mut self, name: &str) -> Option<Value> {
        Some(self.take(name)).filter(|value| !value.is_null())
    }

    /// The unknown members, in order.
    pub(super) fn rest(self) -> Vec<(Text, Value)> {
        self.left
    }

    /// An error about a member.
    pub(super) fn wrong(&self, name: &str, what: &str) -> Error {
        Error::invalid(format!("`{name}` of {} {what}", self.what))
    }
}

/// An object with these members, in order.
pub(super) fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::Object(members.map(|(name, value)| (name.into(), value)).into())
}

/// A string, or `null`.
pub(super) fn text_or_null(text: Option<&str>) -> Value {
    text.map_or(Value::Null, Value::from)
}
