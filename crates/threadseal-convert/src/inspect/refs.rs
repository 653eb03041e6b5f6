//! Attachments: long texts that a sample contains once and refers to.

use std::collections::{HashMap, HashSet};
use threadseal_core::canon::json::{Text, Value};
use threadseal_core::canon::python;
use threadseal_core::digest::Digest;
use threadseal_core::limits::MAX_SOURCE_BYTES;

const SCHEMES: [&str; 2] = ["attachment://", "tc://"];

/// The attachments of one sample.
pub(super) struct Refs<'a> {
    texts: HashMap<&'a str, &'a Value>,
    digests: HashMap<&'a str, Digest>,
    used: HashSet<&'a str>,
    /// How many bytes may still replace references.
    budget: usize,
}

impl<'a> Refs<'a> {
    /// The members of `table`.
    pub(super) fn new(table: Option<&'a Value>) -> Self {
        let members = table.and_then(Value::as_object).unwrap_or_default();
        let named = members
            .iter()
            .filter_map(|(name, text)| Some((name.as_str()?, text)));
        let texts: HashMap<_, _> = named.filter(|(_, text)| text.as_str().is_some()).collect();
        let digest = |text: &Value| Digest::of(text.as_str().unwrap_or_default().as_bytes());
        let digests = texts
            .iter()
            .map(|(name, text)| (*name, digest(text)))
            .collect();
        Self {
            texts,
            digests,
            used: HashSet::new(),
            budget: MAX_SOURCE_BYTES,
        }
    }

    /// The same attachments, for `budget` bytes at most.
    #[cfg(test)]
    pub(super) fn with_budget(mut self, budget: usize) -> Self {
        self.budget = budget;
        self
    }

    /// `value` with its references replaced by attachments. Beyond the budget a reference remains.
    pub(super) fn resolve(&mut self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(elements) => Value::Array(
                elements
                    .into_iter()
                    .map(|element| self.resolve(element))
                    .collect(),
            ),
            Value::Object(members) => {
                let member = |(name, value)| (name, self.resolve(value));
                Value::Object(members.into_iter().map(member).collect())
            }
            other => other,
        }
    }

    /// A fingerprint of `value` that is the same with and without attachments.
    pub(super) fn fingerprint(&self, value: &Value) -> Digest {
        Digest::of(&python::rye(&self.digested(value)))
    }

    /// Whether something carried refers to the attachment called `name`.
    pub(super) fn is_used(&self, name: &str) -> bool {
        self.used.contains(name)
    }

    fn text(&mut self, text: Text) -> Text {
        let Some((name, held)) = text.as_str().and_then(|text| self.named(text)) else {
            return text;
        };
        let length = held.as_str().map_or(0, str::len);
        let Some(budget) = self.budget.checked_sub(length) else {
            return text;
        };
        self.budget = budget;
        self.used.insert(name);
        held.as_str().map_or(text, Text::from)
    }

    fn digested(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let named = text.as_str().and_then(|text| self.named(text));
                let digest = named.and_then(|(name, _)| self.digests.get(name)).copied();
                let digest = digest.unwrap_or_else(|| Digest::of(text.as_bytes()));
                digest.to_hex().into()
            }
            Value::Array(elements) => Value::Array(
                elements
                    .iter()
                    .map(|element| self.digested(element))
                    .collect(),
            ),
            Value::Object(members) => {
                let member = |(name, value): &(Text, Value)| (name.clone(), self.digested(value));
                Value::Object(members.iter().map(member).collect())
            }
            other => other.clone(),
        }
    }

    fn named(&self, text: &str) -> Option<(&'a str, &'a Value)> {
        let name = SCHEMES
            .iter()
            .find_map(|scheme| text.strip_prefix(scheme))?;
        let (name, value) = self.texts.get_key_value(name)?;
        Some((name, value))
    }
}
