//! Inputs and outputs: their declarations, and whether given values suit them.

use crate::xml::Element;
use serde_json::{Map, Value};
use threadseal_core::error::Error;

/// One input or output.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: ParameterType,
    /// Whether it must be given.
    pub required: bool,
    /// Its value when none is given.
    pub default: Option<Value>,
    /// Its meaning, for people and models.
    pub description: String,
}

/// The text to report when a thread ends, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// `success` or `failure`.
    pub name: String,
    /// The text, as written.
    pub text: String,
}

/// The types of JSON Schema, but null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterType {
    /// Text.
    String,
    /// A whole number; 1.0 is one.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A mapping.
    Object,
    /// A list.
    Array,
}

impl ParameterType {
    const ALL: [Self; 6] = [
        Self::String,
        Self::Integer,
        Self::Number,
        Self::Boolean,
        Self::Object,
        Self::Array,
    ];

    /// JSON Schema's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Object => "object",
            Self::Array => "array",
        }
    }

    /// Reads [`ParameterType::as_str`]'s words.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// Whether a value is of this type.
    pub fn admits(self, value: &Value) -> bool {
        match self {
            Self::String => value.is_string(),
            Self::Integer => {
                value.is_i64()
                    || value.is_u64()
                    || value.as_f64().is_some_and(|number| number.fract() == 0.0)
            }
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::Object => value.is_object(),
            Self::Array => value.is_array(),
        }
    }

    /// The value that a text spells, when it is of this type.
    fn spelled(self, text: &str) -> Option<Value> {
        if self == Self::String {
            return Some(Value::String(text.to_owned()));
        }
        let value = serde_json::from_str(text).ok()?;
        self.admits(&value).then_some(value)
    }
}

/// Reads the children of `<inputs>` or `<outputs>` that are called `tag`; no two have one name.
pub(super) fn read(element: &Element, tag: &str) -> Result<Vec<Parameter>, Error> {
    element.only_attributes(&[])?;
    element.no_text()?;
    let mut found = Vec::new();
    for child in &element.children {
        if child.name != tag {
            return Err(child.unknown(&element.name));
        }
        add(&mut found, parameter(child)?, child)?;
    }
    Ok(found)
}

/// `<outputs>`: `<output>` as inputs are; `<success>` and `<failure>` are for people; any other
/// element is an optional text of that name.
pub(super) fn read_outputs(element: &Element) -> Result<(Vec<Parameter>, Vec<Outcome>), Error> {
    element.only_attributes(&[])?;
    element.no_text()?;
    let (mut outputs, mut outcomes) = (Vec::new(), Vec::new());
    for child in &element.children {
        match child.name.as_str() {
            "output" => add(&mut outputs, parameter(child)?, child)?,
            "success" | "failure" => {
                child.only_attributes(&[])?;
                outcomes.push(Outcome {
                    name: child.name.clone(),
                    text: child.only_text()?.to_owned(),
                });
            }
            name => {
                child.only_attributes(&[])?;
                let output = Parameter {
                    name: name.to_owned(),
                    kind: ParameterType::String,
                    required: false,
                    default: None,
                    description: child.only_text()?.to_owned(),
                };
                add(&mut outputs, output, child)?;
            }
        }
    }
    Ok((outputs, outcomes))
}

fn add(found: &mut Vec<Parameter>, new: Parameter, element: &Element) -> Result<(), Error> {
    if found.iter().any(|known| known.name == new.name) {
        return Err(element.error(format!("a second `{}`", new.name)));
    }
    found.push(new);
    Ok(())
}

fn parameter(element: &Element) -> Result<Parameter, Error> {
    element.only_attributes(&["name", "type", "required", "default"])?;
    let name = element.require("name")?;
    if !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
        return Err(element.error(format!(
            "{name:?} is not a valid name: use letters, digits and _"
        )));
    }
    let word = element.attribute("type").unwrap_or("string");
    let kind = ParameterType::parse(word)
        .ok_or_else(|| element.error(format!("unknown type `{word}`")))?;
    let default = element.attribute("default").map(|text| {
        kind.spelled(text)
            .ok_or_else(|| element.error(format!("the default {text:?} is not of type {word}")))
    });
    Ok(Parameter {
        name: name.to_owned(),
        kind,
        required: match element.attribute("required") {
            Some("true") => true,
            None | Some("false") => false,
            Some(_) => return Err(element.error("`required` must be true or false")),
        },
        default: default.transpose()?,
        description: element.only_text()?.to_owned(),
    })
}

/// The values to use; `what` is "input" or "output".
pub(super) fn resolve(
    declared: &[Parameter],
    given: &Map<String, Value>,
    what: &str,
) -> Result<Map<String, Value>, Error> {
    if let Some(name) = given
        .keys()
        .find(|name| !declared.iter().any(|known| known.name == **name))
    {
        let names: Vec<&str> = declared.iter().map(|known| known.name.as_str()).collect();
        return Err(Error::invalid(format!(
            "no {what} `{name}` is declared; there are: {}",
            names.join(", ")
        )));
    }
    let mut resolved = Map::new();
    for parameter in declared {
        let Parameter { name, kind, .. } = parameter;
        let value = match given.get(name).filter(|value| !value.is_null()) {
            Some(Value::String(text)) => kind.spelled(text),
            Some(value) if kind.admits(value) => Some(value.clone()),
            Some(_) => None,
            None => match &parameter.default {
                Some(default) => Some(default.clone()),
                None if parameter.required => {
                    return Err(Error::invalid(format!("{what} `{name}` is missing")));
                }
                None => continue,
            },
        };
        let value = value.ok_or_else(|| {
            Error::invalid(format!("{what} `{name}` must be of type {}", kind.as_str()))
        })?;
        resolved.insert(name.clone(), value);
    }
    Ok(resolved)
}
