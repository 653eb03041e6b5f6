//! The arguments of a tool or graph: a part of JSON Schema, checked and with its defaults.
//!
//! ```text
//! type properties required additionalProperties items enum default
//! minimum maximum minLength maxLength minItems maxItems pattern
//! title description examples format            shown to models, not checked
//! ```
//! Any other keyword is refused when the file is read. A schema that is checked in part would pass
//! arguments that its author excluded.
//!
//! Normative: `spec/declarations.md` §6.

use crate::condition::{compare, regex};
use crate::yaml::{Fields, Node};
use regex::Regex;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use threadseal_core::error::Error;

/// A schema, read.
#[derive(Debug, Clone)]
pub struct Schema {
    json: Value,
    rules: Rules,
}

#[derive(Debug, Clone, Default)]
struct Rules {
    types: Vec<Type>,
    properties: BTreeMap<String, Self>,
    required: Vec<String>,
    no_more_properties: bool,
    items: Option<Box<Self>>,
    one_of: Option<Vec<Value>>,
    default: Option<Value>,
    minimum: Option<Value>,
    maximum: Option<Value>,
    length: Span,
    items_count: Span,
    pattern: Option<Regex>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Span {
    least: Option<u64>,
    most: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

impl Schema {
    /// Reads a schema of named arguments: its type is `object`.
    ///
    /// # Errors
    /// At its line, for an unknown keyword, or a default that the schema itself refuses.
    pub fn parse(node: &Node) -> Result<Self, Error> {
        let rules = Rules::parse(node)?;
        if !rules.types.is_empty() && rules.types != [Type::Object] {
            return Err(node.error("arguments have names: the type must be `object`"));
        }
        Ok(Self {
            json: node.to_json(),
            rules,
        })
    }

    /// The schema as it is written, for models.
    pub fn to_json(&self) -> &Value {
        &self.json
    }

    /// The value of the typed-in `text` as the argument `name`. It stays unchanged where a text is
    /// declared, and is JSON where it is valid JSON.
    pub fn typed(&self, name: &str, text: &str) -> Value {
        let declared = self.rules.properties.get(name);
        let read = || serde_json::from_str(text).ok();
        let read = match declared.is_some_and(|rules| rules.types == [Type::String]) {
            true => None,
            false => read(),
        };
        read.unwrap_or_else(|| Value::String(text.to_owned()))
    }

    /// The arguments with defaults where none are given.
    ///
    /// # Errors
    /// Kind `InvalidInput`, naming the place in the arguments, when they do not suit the schema.
    pub fn apply(&self, arguments: Map<String, Value>) -> Result<Map<String, Value>, Error> {
        let mut arguments = Value::Object(arguments);
        self.rules.fill(&mut arguments);
        self.rules.check(&arguments, "")?;
        match arguments {
            Value::Object(arguments) => Ok(arguments),
            _ => Ok(Map::new()),
        }
    }
}

impl Rules {
    fn parse(node: &Node) -> Result<Self, Error> {
        let mut fields = node.fields()?;
        fields.ignore(&["title", "description", "examples", "format"]);
        let default = fields.take_entry("default");
        let rules = Self {
            types: types(fields.take("type"))?,
            properties: match fields.take("properties") {
                None => BTreeMap::new(),
                Some(map) => {
                    let property = |entry: &crate::yaml::Entry| {
                        Ok((entry.key.clone(), Self::parse(&entry.value)?))
                    };
                    let properties = map.entries()?.iter().map(property);
                    properties.collect::<Result<_, Error>>()?
                }
            },
            required: match fields.take("required") {
                None => Vec::new(),
                Some(list) => {
                    let names = list.list()?.iter();
                    names
                        .map(|name| name.text().map(ToOwned::to_owned))
                        .collect::<Result<_, _>>()?
                }
            },
            no_more_properties: match fields.take("additionalProperties") {
                None => false,
                Some(flag) => !flag.bool()?,
            },
            items: match fields.take("items") {
                None => None,
                Some(items) => Some(Box::new(Self::parse(items)?)),
            },
            one_of: match fields.take("enum") {
                None => None,
                Some(list) => Some(list.list()?.iter().map(Node::to_json).collect()),
            },
            default: default.map(|entry| entry.value.to_json()),
            minimum: bound(&mut fields, "minimum")?,
            maximum: bound(&mut fields, "maximum")?,
            length: Span::parse(&mut fields, "minLength", "maxLength")?,
            items_count: Span::parse(&mut fields, "minItems", "maxItems")?,
            pattern: fields.take("pattern").map(regex).transpose()?,
        };
        fields.finish("a supported schema")?;
        if let (Some(default), Some(entry)) = (&rules.default, default) {
            let refused = |error| {
                entry
                    .place
                    .error(format!("the default is not valid: {error}"))
            };
            rules.check(default, "").map_err(refused)?;
        }
        Ok(rules)
    }

    /// Puts defaults where members are absent, in members that are there.
    fn fill(&self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, rules) in &self.properties {
                    if let Some(member) = members.get_mut(name) {
                        rules.fill(member);
                    } else if let Some(default) = &rules.default {
                        members.insert(name.clone(), default.clone());
                    }
                }
            }
            Value::Array(items) => {
                if let Some(rules) = &self.items {
                    items.iter_mut().for_each(|item| rules.fill(item));
                }
            }
            _ => {}
        }
    }

    fn check(&self, value: &Value, at: &str) -> Result<(), Error> {
        let wrong = |what: String| {
            let place = if at.is_empty() { "the arguments" } else { at };
            Err(Error::invalid(format!("{place}: {what}")))
        };
        if !self.types.is_empty() && !self.types.iter().any(|kind| kind.admits(value)) {
            let words: Vec<&str> = self.types.iter().map(|kind| kind.as_str()).collect();
            let words = words.join(" or ");
            return wrong(format!("must be {words}, not {}", compare::name(value)));
        }
        if let Some(values) = &self.one_of
            && !values.iter().any(|known| compare::equal(known, value))
        {
            return wrong(format!("must be one of {}", Value::from(values.clone())));
        }
        match value {
            Value::Number(_) => {
                let beyond = |bound: &Option<Value>, side: std::cmp::Ordering| {
                    let bound = bound.as_ref()?;
                    (compare::order(value, bound) == Some(side)).then(|| bound.clone())
                };
                if let Some(least) = beyond(&self.minimum, std::cmp::Ordering::Less) {
                    return wrong(format!("must be at least {least}"));
                }
                if let Some(most) = beyond(&self.maximum, std::cmp::Ordering::Greater) {
                    return wrong(format!("must be at most {most}"));
                }
            }
            Value::String(text) => {
                if let Some(why) = self.length.refuses(text.chars().count(), "characters") {
                    return wrong(why);
                }
                if let Some(pattern) = self.pattern.as_ref().filter(|p| !p.is_match(text)) {
                    return wrong(format!("must match {pattern}"));
                }
            }
            Value::Array(items) => {
                if let Some(why) = self.items_count.refuses(items.len(), "items") {
                    return wrong(why);
                }
                if let Some(rules) = &self.items {
                    for (index, item) in items.iter().enumerate() {
                        rules.check(item, &format!("{at}[{index}]"))?;
                    }
                }
            }
            Value::Object(members) => self.check_members(members, at)?,
            Value::Null | Value::Bool(_) => {}
        }
        Ok(())
    }

    fn check_members(&self, members: &Map<String, Value>, at: &str) -> Result<(), Error> {
        let place = |name: &str| match at {
            "" => name.to_owned(),
            _ => format!("{at}.{name}"),
        };
        if let Some(name) = self
            .required
            .iter()
            .find(|name| !members.contains_key(*name))
        {
            return Err(Error::invalid(format!("{}: is missing", place(name))));
        }
        for (name, value) in members {
            match self.properties.get(name) {
                Some(rules) => rules.check(value, &place(name))?,
                None if self.no_more_properties => {
                    return Err(Error::invalid(format!("{}: is not declared", place(name))));
                }
                None => {}
            }
        }
        Ok(())
    }
}

impl Span {
    fn parse(fields: &mut Fields<'_>, least: &str, most: &str) -> Result<Self, Error> {
        Ok(Self {
            least: fields.take(least).map(Node::whole).transpose()?,
            most: fields.take(most).map(Node::whole).transpose()?,
        })
    }

    fn refuses(self, count: usize, what: &str) -> Option<String> {
        let count = count as u64;
        match self {
            Self {
                least: Some(least), ..
            } if count < least => Some(format!("must have at least {least} {what}")),
            Self {
                most: Some(most), ..
            } if count > most => Some(format!("must have at most {most} {what}")),
            _ => None,
        }
    }
}

impl Type {
    const ALL: [Self; 7] = [
        Self::Null,
        Self::Boolean,
        Self::Integer,
        Self::Number,
        Self::String,
        Self::Array,
        Self::Object,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }

    fn admits(self, value: &Value) -> bool {
        match self {
            Self::Null => value.is_null(),
            Self::Boolean => value.is_boolean(),
            Self::Integer => {
                value.is_i64()
                    || value.is_u64()
                    || value.as_f64().is_some_and(|number| number.fract() == 0.0)
            }
            Self::Number => value.is_number(),
            Self::String => value.is_string(),
            Self::Array => value.is_array(),
            Self::Object => value.is_object(),
        }
    }
}

fn types(node: Option<&Node>) -> Result<Vec<Type>, Error> {
    let Some(node) = node else {
        return Ok(Vec::new());
    };
    let one = |word: &Node| {
        let text = word.text()?;
        let known = Type::ALL.into_iter().find(|kind| kind.as_str() == text);
        known.ok_or_else(|| word.error(format!("unknown type `{text}`")))
    };
    match node.list() {
        Ok(words) => words.iter().map(one).collect(),
        Err(_) => Ok(vec![one(node)?]),
    }
}

fn bound(fields: &mut Fields<'_>, name: &str) -> Result<Option<Value>, Error> {
    let Some(node) = fields.take(name) else {
        return Ok(None);
    };
    node.number()?;
    Ok(Some(node.to_json()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::prelude::{Fails as _, rows};
    use serde_json::json;

    fn schema(text: &str) -> Result<Schema, Error> {
        Schema::parse(&crate::yaml::parse("s.yaml", text).unwrap())
    }

    fn apply(schema: &Schema, value: &Value) -> Result<Value, String> {
        let applied = schema.apply(value.as_object().cloned().unwrap());
        applied
            .map(Value::Object)
            .map_err(|error| error.to_string())
    }

    const TEXT: &str = r#"
type: object
required: [path]
additionalProperties: false
properties:
  path: {type: string, minLength: 1, maxLength: 5, pattern: "^[a-z/]+$", description: where}
  depth: {type: integer, minimum: 0, maximum: 10, default: 2}
  mode: {enum: [read, write], default: read}
  tags: {type: array, maxItems: 2, items: {type: object, required: [k], properties: {v: {type: [number, "null"], default: 1}}}}
"#;

    #[test]
    fn arguments_are_checked_and_completed() {
        let schema = schema(TEXT).unwrap();
        let given = json!({"path": "a/b", "tags": [{"k": 0}, {"k": 1, "v": null}]});
        let completed = json!({"path": "a/b", "depth": 2, "mode": "read",
            "tags": [{"k": 0, "v": 1}, {"k": 1, "v": null}]});
        assert_eq!(apply(&schema, &given), Ok(completed));
        for [arguments, message] in rows(
            r#"{} => path: is missing
               {"path": 1} => path: must be string, not a number
               {"path": ""} => path: must have at least 1 characters
               {"path": "abcdef"} => path: must have at most 5 characters
               {"path": "A"} => path: must match ^[a-z/]+$
               {"path": "a", "depth": 1.5} => depth: must be integer, not a number
               {"path": "a", "depth": -1} => depth: must be at least 0
               {"path": "a", "depth": 10.5e0} => depth: must be integer, not a number
               {"path": "a", "depth": 11} => depth: must be at most 10
               {"path": "a", "mode": "x"} => mode: must be one of ["read","write"]
               {"path": "a", "other": 1} => other: is not declared
               {"path": "a", "tags": [{}]} => tags[0].k: is missing
               {"path": "a", "tags": [{"k": 1, "v": "x"}]} => tags[0].v: must be number or null, not text
               {"path": "a", "tags": [1, 2, 3]} => tags: must have at most 2 items"#,
        ) {
            let value = serde_json::from_str(&arguments).unwrap();
            assert_eq!(apply(&schema, &value), Err(message), "{arguments}");
        }
    }

    // T-DEC-16
    #[test]
    fn what_would_not_be_checked_is_refused_when_it_is_read() {
        for [text, message] in rows(
            r"anyOf: [] => s.yaml:1: a supported schema has no member `anyOf`
              type: objekt => s.yaml:1: unknown type `objekt`
              type: array => s.yaml:1: arguments have names
              properties:\n  a: {type: integer, default: x} => s.yaml:2: the default is not valid
              properties:\n  a: {pattern: '('} => s.yaml:2: the pattern does not compile
              properties:\n  a: {minimum: low} => s.yaml:2: expected a number
              required: path => s.yaml:1: expected a list",
        ) {
            let error = schema(&text).why();
            assert!(error.starts_with(&message), "{text} gave {error}");
        }
        let any = json!({"any": 1});
        assert_eq!(apply(&schema("{}").unwrap(), &any), Ok(any));
    }
}
