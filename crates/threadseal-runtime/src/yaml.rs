//! YAML 1.2 (core schema) as values with their lines, and strict reading of its mappings.
//!
//! ```text
//! text ──parse──▶ Node { place, data }     data: null, true, 12, 1.5, text, list, map
//!                  └─ fields() ─▶ Fields    take known members, then finish(): others are errors
//! ```
//! Refused: a second key of one name, merge keys (`<<`), tags without a meaning here, numbers that
//! are not finite. So are a second document, and anything beyond the bounds. Unlike in YAML 1.1,
//! `yes`, `on` and `012` are text.

use crate::bounds::{MAX_DECLARED_DEPTH, MAX_ITEM_BYTES, MAX_YAML_NODES};
use crate::place::Place;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::options::{DuplicateKeyPolicy, MergeKeyPolicy};
use serde_saphyr::{Options, Spanned};
use std::fmt;
use threadseal_core::error::Error;

/// A value, and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Where it begins.
    pub place: Place,
    /// Its content.
    pub data: Data,
}

/// The content of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// Nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A finite number.
    Number(Number),
    /// Text.
    Text(String),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in the order of the file.
    Map(Vec<Entry>),
}

/// One key of a mapping.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The place of the key.
    pub place: Place,
    /// Its value.
    pub value: Node,
}

/// Reads one document. An empty one is null.
///
/// # Errors
/// Kind `InvalidInput` with file and line when it is not such YAML; `Limit` beyond a bound.
pub fn parse(file: &str, text: &str) -> Result<Node, Error> {
    let place = Place::new(file);
    if text.len() > MAX_ITEM_BYTES {
        return Err(place.beyond(format!("larger than {MAX_ITEM_BYTES} bytes")));
    }
    match serde_saphyr::from_str_with_options::<Spanned<Raw>>(text, options()) {
        Ok(raw) => Ok(raw_to_node(raw, &place)),
        Err(error) => {
            let line = error.location().map_or(0, |location| location.line());
            let shown = error.without_snippet().to_string();
            let first = shown.lines().next().unwrap_or_default().to_owned();
            Err(place.at(line).error(first))
        }
    }
}

fn options() -> Options {
    let budget = serde_saphyr::budget! {
        max_depth: MAX_DECLARED_DEPTH,
        max_nodes: MAX_YAML_NODES,
        max_events: MAX_YAML_NODES * 4,
        max_documents: 1,
    };
    let alias_limits = serde_saphyr::alias_limits! {
        max_total_replayed_events: MAX_YAML_NODES,
        max_replay_stack_depth: MAX_DECLARED_DEPTH,
    };
    serde_saphyr::options! {
        budget: budget,
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        alias_limits: alias_limits,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        strict_booleans: true,
        reject_unsupported_tags: true,
    }
}

impl Data {
    /// Is it a mapping with this key?
    pub(crate) fn has(&self, key: &str) -> bool {
        match self {
            Self::Map(entries) => entries.iter().any(|entry| entry.key == key),
            _ => false,
        }
    }
}

impl Node {
    /// A JSON value, all of it at `place`.
    pub fn from_json(place: &Place, value: &Value) -> Self {
        let data = match value {
            Value::Null => Data::Null,
            Value::Bool(flag) => Data::Bool(*flag),
            Value::Number(number) => Data::Number(number.clone()),
            Value::String(text) => Data::Text(text.clone()),
            Value::Array(items) => Data::List(
                items
                    .iter()
                    .map(|item| Self::from_json(place, item))
                    .collect(),
            ),
            Value::Object(members) => {
                let entry = |(key, value): (&String, &Value)| Entry {
                    key: key.clone(),
                    place: place.clone(),
                    value: Self::from_json(place, value),
                };
                Data::Map(members.iter().map(entry).collect())
            }
        };
        Self {
            place: place.clone(),
            data,
        }
    }

    /// The value without its places.
    pub fn to_json(&self) -> Value {
        match &self.data {
            Data::Null => Value::Null,
            Data::Bool(flag) => Value::Bool(*flag),
            Data::Number(number) => Value::Number(number.clone()),
            Data::Text(text) => Value::String(text.clone()),
            Data::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            Data::Map(entries) => {
                let member = |entry: &Entry| (entry.key.clone(), entry.value.to_json());
                Value::Object(entries.iter().map(member).collect::<Map<_, _>>())
            }
        }
    }

    /// An error at this value.
    pub fn error(&self, message: impl fmt::Display) -> Error {
        self.place.error(message)
    }

    /// Whether it is null.
    pub fn is_null(&self) -> bool {
        self.data == Data::Null
    }

    /// The members of a mapping.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn fields(&self) -> Result<Fields<'_>, Error> {
        let Data::Map(entries) = &self.data else {
            return Err(self.expected("a mapping"));
        };
        Ok(Fields {
            place: &self.place,
            entries: entries.iter().map(Some).collect(),
        })
    }

    /// The entries of a mapping whose keys are free.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn entries(&self) -> Result<&[Entry], Error> {
        match &self.data {
            Data::Map(entries) => Ok(entries),
            _ => Err(self.expected("a mapping")),
        }
    }

    /// The items of a list.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn list(&self) -> Result<&[Self], Error> {
        match &self.data {
            Data::List(items) => Ok(items),
            _ => Err(self.expected("a list")),
        }
    }

    /// Text. A number or truth value is not text: it wants quotes.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn text(&self) -> Result<&str, Error> {
        match &self.data {
            Data::Text(text) => Ok(text),
            _ => Err(self.expected("text")),
        }
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn bool(&self) -> Result<bool, Error> {
        match &self.data {
            Data::Bool(flag) => Ok(*flag),
            _ => Err(self.expected("true or false")),
        }
    }

    /// A whole number that is zero or more.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn whole(&self) -> Result<u64, Error> {
        match &self.data {
            Data::Number(number) => number.as_u64(),
            _ => None,
        }
        .ok_or_else(|| self.expected("a whole number that is zero or more"))
    }

    /// A number.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn number(&self) -> Result<f64, Error> {
        match &self.data {
            Data::Number(number) => number.as_f64(),
            _ => None,
        }
        .ok_or_else(|| self.expected("a number"))
    }

    /// An error: here should be `what`.
    pub fn expected(&self, what: &str) -> Error {
        let found = match &self.data {
            Data::Null => "nothing",
            Data::Bool(_) => "a truth value",
            Data::Number(_) => "a number",
            Data::Text(_) => "text",
            Data::List(_) => "a list",
            Data::Map(_) => "a mapping",
        };
        self.error(format!("expected {what}, found {found}"))
    }
}

/// The members of a mapping, taken one by one.
#[derive(Debug)]
pub struct Fields<'a> {
    place: &'a Place,
    entries: Vec<Option<&'a Entry>>,
}

impl<'a> Fields<'a> {
    /// Where the mapping begins.
    pub fn place(&self) -> &'a Place {
        self.place
    }

    /// Takes a member. One that is null counts as absent.
    pub fn take(&mut self, key: &str) -> Option<&'a Node> {
        self.take_entry(key)
            .map(|entry| &entry.value)
            .filter(|value| !value.is_null())
    }

    /// Takes a member with its key's place, also if it is null.
    pub(crate) fn take_entry(&mut self, key: &str) -> Option<&'a Entry> {
        self.entries
            .iter_mut()
            .find(|slot| slot.is_some_and(|entry| entry.key == key))
            .and_then(Option::take)
    }

    /// Takes a member that must be there.
    ///
    /// # Errors
    /// When it is not.
    pub fn require(&mut self, key: &str) -> Result<&'a Node, Error> {
        self.take(key)
            .ok_or_else(|| self.place.error(format!("`{key}` is missing")))
    }

    /// Takes members that are known and mean nothing here.
    pub(crate) fn ignore(&mut self, keys: &[&str]) {
        for key in keys {
            self.take_entry(key);
        }
    }

    /// Checks that all members were taken. `what` is the mapping's name.
    ///
    /// # Errors
    /// When a member is left, naming its line.
    pub fn finish(self, what: &str) -> Result<(), Error> {
        match self.entries.into_iter().flatten().next() {
            None => Ok(()),
            Some(entry) => Err(entry
                .place
                .error(format!("{what} has no member `{}`", entry.key))),
        }
    }
}

/// As the YAML reader hands it over: lines, but no file.
enum Raw {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Spanned<Self>>),
    Map(Vec<(Spanned<String>, Spanned<Self>)>),
}

/// Converts the reader's value; [`MAX_DECLARED_DEPTH`] bounds the depth.
fn raw_to_node(raw: Spanned<Raw>, file: &Place) -> Node {
    let place = file.at(raw.referenced.line());
    let data = match raw.value {
        Raw::Null => Data::Null,
        Raw::Bool(flag) => Data::Bool(flag),
        Raw::Number(number) => Data::Number(number),
        Raw::Text(text) => Data::Text(text),
        Raw::List(items) => Data::List(
            items
                .into_iter()
                .map(|item| raw_to_node(item, file))
                .collect(),
        ),
        Raw::Map(entries) => {
            let entry = |(key, value): (Spanned<String>, Spanned<Raw>)| Entry {
                place: file.at(key.referenced.line()),
                key: key.value,
                value: raw_to_node(value, file),
            };
            Data::Map(entries.into_iter().map(entry).collect())
        }
    };
    Node { place, data }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        Raw::deserialize(deserializer)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Raw, E> {
        Ok(Raw::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Raw, E> {
        Ok(Raw::Number(number.into()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Raw, E> {
        Number::from_f64(number)
            .map(Raw::Number)
            .ok_or_else(|| E::custom("a number must be finite"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Raw, E> {
        Ok(Raw::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Raw::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Raw, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Raw::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_keys_know_their_lines() {
        let text = "a: 1\nb:\n  - x\n  - {c: true, d: null}\n\"e\": \"2\"\n";
        let node = parse("f.yaml", text).unwrap();
        assert_eq!(
            node.to_json(),
            serde_json::json!({"a": 1, "b": ["x", {"c": true, "d": null}], "e": "2"})
        );
        let entries = node.entries().unwrap();
        let lines: Vec<u64> = entries.iter().map(|entry| entry.place.line()).collect();
        assert_eq!(lines, [1, 2, 5]);
        let items = entries[1].value.list().unwrap();
        assert_eq!((items[0].place.line(), items[1].place.line()), (3, 4));
        assert_eq!(items[1].entries().unwrap()[0].place.to_string(), "f.yaml:4");
    }

    #[test]
    fn scalars_are_read_by_the_core_schema_of_1_2() {
        let node = parse(
            "f",
            "[yes, on, 012, 1_000, 0x10, 1e3, ~, '1', 1.50, -7, 18446744073709551615, .5]",
        )
        .unwrap();
        assert_eq!(
            node.to_json(),
            serde_json::json!([
                "yes",
                "on",
                "012",
                "1_000",
                16,
                1000.0,
                null,
                "1",
                1.5,
                -7,
                18_446_744_073_709_551_615_u64,
                0.5
            ])
        );
        assert!(parse("f", "").unwrap().is_null());
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused_with_its_line() {
        for (text, line) in [
            ("a: 1\nb: 2\na: 3\n", "f:3: "),
            ("x: &x {a: 1}\ny:\n  <<: *x\n", "f:3: "),
            ("a: !py/object x\n", "f:1: "),
            ("a: .nan\n", "f:1: "),
            ("a: 1\n--- \nb: 2\n", "f:"),
            ("a: [1, 2\n", "f:"),
            ("a: b: c\n", "f:1: "),
            ("\u{0}", "f:"),
        ] {
            let error = parse("f", text).unwrap_err().to_string();
            assert!(error.starts_with(line), "{text:?} gave {error}");
        }
    }

    // T-DEC-18
    #[test]
    fn small_files_that_unfold_or_nest_without_end_are_refused() {
        let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for level in 1..12 {
            let below = vec![format!("*a{}", level - 1); 10].join(",");
            bomb.push_str(&format!("a{level}: &a{level} [{below}]\n"));
        }
        assert!(parse("f", &bomb).is_err());
        assert!(parse("f", &"[".repeat(100_000)).is_err());
        let deep = format!("{}x", "- ".repeat(MAX_DECLARED_DEPTH + 1));
        assert!(parse("f", &deep).is_err());
        assert!(parse("f", &" ".repeat(MAX_ITEM_BYTES + 1)).is_err());
    }

    #[test]
    fn members_that_nobody_asked_for_are_named() {
        let node = parse("f", "a: x\nb: 2\nc: null\n").unwrap();
        let mut fields = node.fields().unwrap();
        assert_eq!(fields.require("a").unwrap().text().unwrap(), "x");
        assert!(fields.take("c").is_none());
        let error = fields.finish("a thing").unwrap_err();
        assert_eq!(error.to_string(), "f:2: a thing has no member `b`");
        let mut fields = node.fields().unwrap();
        assert_eq!(
            fields.require("d").unwrap_err().to_string(),
            "f:1: `d` is missing"
        );
        let error = fields.require("b").unwrap().text().unwrap_err();
        assert_eq!(error.to_string(), "f:2: expected text, found a number");
    }
}
