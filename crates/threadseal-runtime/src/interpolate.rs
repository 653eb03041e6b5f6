//! Templates: text with places where values are inserted.
//!
//! ```text
//! ${state.items.0.name}       the value at the path; nothing is the empty text
//! ${a.b || c}                 the first path that leads to something
//! ${state.list | length}      through json, from_json, length, keys, upper, lower
//! {input:name}                the member of `inputs`; without one the text stays as it is
//! {input:name?}               … the empty text        {input:name|default} {input:name:default}
//! ```
//! A template that is one `${…}` and nothing else yields the value, with its type. An inserted text
//! is never read as a template again. (Rye looks for `{input:…}` in the text that `${…}` inserted.)
//!
//! Normative: `spec/declarations.md` §4. Follows `interpolation.py` of Rye, where that is safe.

mod pipe;

use crate::bounds::{MAX_FILTERS, MAX_RENDERED_BYTES, MAX_TEMPLATE_PARTS};
use crate::path::Path;
use crate::place::Place;
use crate::yaml::{Data, Node};
use pipe::Pipe;
use serde_json::{Map, Value};
use std::borrow::Cow;
use threadseal_core::error::Error;

/// One text, parsed.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    place: Place,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(String),
    Expression(Expression),
    Input(Input),
}

#[derive(Debug, Clone, PartialEq)]
struct Expression {
    paths: Vec<Path>,
    pipes: Vec<Pipe>,
}

#[derive(Debug, Clone, PartialEq)]
struct Input {
    name: String,
    /// The text when no such input exists: the given default, or the reference as written.
    otherwise: String,
}

/// Which references a text may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Full,
    Inputs,
}

impl Template {
    /// Reads a text with `${…}` and `{input:…}`.
    ///
    /// # Errors
    /// At `place` and the line within the text, for a `${` whose content is no expression.
    pub fn parse(text: &str, place: &Place) -> Result<Self, Error> {
        parse(text, place, Dialect::Full)
    }

    /// Reads a text in which only `{input:…}` counts, as in the prompts of directives.
    ///
    /// # Errors
    /// Kind `Limit` when it has too many references.
    pub fn parse_prompt(text: &str, place: &Place) -> Result<Self, Error> {
        parse(text, place, Dialect::Inputs)
    }

    /// Inserts the values of `context`. A template that is one `${…}` yields that value, null where
    /// it is missing; any other yields text.
    ///
    /// # Errors
    /// Kind `InvalidInput` when `from_json` meets invalid JSON; `Limit` when the text grows beyond
    /// [`MAX_RENDERED_BYTES`].
    pub fn render(&self, context: &Value) -> Result<Value, Error> {
        match self.parts.as_slice() {
            [Part::Expression(expression)] => expression.value(context, &self.place),
            _ => self.render_text(context).map(Value::String),
        }
    }

    /// As [`Template::render`], but always text.
    ///
    /// # Errors
    /// As [`Template::render`].
    pub fn render_text(&self, context: &Value) -> Result<String, Error> {
        let mut out = String::new();
        for part in &self.parts {
            let piece = match part {
                Part::Text(text) => Cow::Borrowed(text.as_str()),
                Part::Expression(expression) => {
                    Cow::Owned(text_of(expression.value(context, &self.place)?))
                }
                Part::Input(input) => input.text(context),
            };
            if out.len() + piece.len() > MAX_RENDERED_BYTES {
                let message = format!("renders to more than {MAX_RENDERED_BYTES} bytes");
                return Err(self.place.beyond(message));
            }
            out.push_str(&piece);
        }
        Ok(out)
    }

    /// Its place.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Whether nothing is inserted.
    pub fn is_plain(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Text(_)))
    }

    /// The expressions of which no path leads anywhere: they render as nothing, which a caller may
    /// want to warn about.
    pub fn missing(&self, context: &Value) -> Vec<String> {
        let expressions = self.parts.iter().filter_map(|part| match part {
            Part::Expression(expression) => Some(expression),
            _ => None,
        });
        expressions
            .filter(|expression| expression.find(context).is_none())
            .map(|expression| {
                let paths: Vec<&str> = expression.paths.iter().map(Path::as_str).collect();
                paths.join(" || ")
            })
            .collect()
    }

    /// The paths of `${…}`, in order.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().flat_map(|part| match part {
            Part::Expression(expression) => expression.paths.as_slice(),
            _ => &[],
        })
    }

    /// The names of `{input:…}`, in order.
    pub fn inputs(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Input(input) => Some(input.name.as_str()),
            _ => None,
        })
    }
}

/// A value whose texts are templates; its keys are not.
#[derive(Debug, Clone, PartialEq)]
pub enum Tree {
    /// Null, a truth value or a number.
    Plain(Value),
    /// A text.
    Text(Template),
    /// A list.
    List(Vec<Self>),
    /// A mapping.
    Map(Vec<(String, Self)>),
}

impl Tree {
    /// Reads every text of a value as a template.
    ///
    /// # Errors
    /// As [`Template::parse`], at the text's own line.
    pub fn parse(node: &Node) -> Result<Self, Error> {
        Ok(match &node.data {
            Data::Text(text) => Self::Text(Template::parse(text, &node.place)?),
            Data::List(items) => {
                Self::List(items.iter().map(Self::parse).collect::<Result<_, _>>()?)
            }
            Data::Map(entries) => {
                let member = |entry: &crate::yaml::Entry| {
                    Ok((entry.key.clone(), Self::parse(&entry.value)?))
                };
                Self::Map(entries.iter().map(member).collect::<Result<_, Error>>()?)
            }
            Data::Null | Data::Bool(_) | Data::Number(_) => Self::Plain(node.to_json()),
        })
    }

    /// Renders every template of the tree.
    ///
    /// # Errors
    /// As [`Template::render`]; the bound is on the sum of all texts.
    pub fn render(&self, context: &Value) -> Result<Value, Error> {
        let mut left = MAX_RENDERED_BYTES;
        self.render_within(context, &mut left)
    }

    fn render_within(&self, context: &Value, left: &mut usize) -> Result<Value, Error> {
        Ok(match self {
            Self::Plain(value) => value.clone(),
            Self::Text(template) => {
                let value = template.render(context)?;
                *left = left.checked_sub(weight(&value)).ok_or_else(|| {
                    let message = format!("renders to more than {MAX_RENDERED_BYTES} bytes");
                    template.place.beyond(message)
                })?;
                value
            }
            Self::List(items) => {
                let rendered = items.iter().map(|item| item.render_within(context, left));
                Value::Array(rendered.collect::<Result<_, _>>()?)
            }
            Self::Map(members) => {
                let mut rendered = Map::new();
                for (key, member) in members {
                    rendered.insert(key.clone(), member.render_within(context, left)?);
                }
                Value::Object(rendered)
            }
        })
    }

    /// All templates of the tree, in order.
    pub fn templates(&self) -> Vec<&Template> {
        let mut found = Vec::new();
        let mut rest = vec![self];
        while let Some(tree) = rest.pop() {
            match tree {
                Self::Plain(_) => {}
                Self::Text(template) => found.push(template),
                Self::List(items) => rest.extend(items.iter().rev()),
                Self::Map(members) => rest.extend(members.iter().rev().map(|(_, tree)| tree)),
            }
        }
        found
    }
}

impl Expression {
    fn find<'a>(&self, context: &'a Value) -> Option<&'a Value> {
        self.paths.iter().find_map(|path| path.find(context))
    }

    fn value(&self, context: &Value, place: &Place) -> Result<Value, Error> {
        let Some(found) = self.find(context) else {
            return Ok(Value::Null);
        };
        let mut value = Cow::Borrowed(found);
        for pipe in &self.pipes {
            value = Cow::Owned(pipe.apply(&value, place)?);
            if weight(&value) > MAX_RENDERED_BYTES {
                let message = format!("renders to more than {MAX_RENDERED_BYTES} bytes");
                return Err(place.beyond(message));
            }
        }
        Ok(value.into_owned())
    }
}

impl Input {
    fn text<'a>(&'a self, context: &Value) -> Cow<'a, str> {
        let given = context
            .get("inputs")
            .and_then(|inputs| inputs.get(&self.name));
        match given {
            Some(value) => Cow::Owned(text_of(value.clone())),
            None => Cow::Borrowed(&self.otherwise),
        }
    }
}

/// The text of a value: text as it is, null as nothing, anything else as compact JSON.
fn text_of(value: Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// Bytes of a value, near enough to bound memory.
fn weight(value: &Value) -> usize {
    let mut bytes = 0_usize;
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        bytes = bytes.saturating_add(16);
        match value {
            Value::String(text) => bytes = bytes.saturating_add(text.len()),
            Value::Array(items) => rest.extend(items),
            Value::Object(members) => {
                bytes = members.keys().fold(bytes, |sum, key| sum + key.len());
                rest.extend(members.values());
            }
            _ => {}
        }
    }
    bytes
}

fn parse(text: &str, place: &Place, dialect: Dialect) -> Result<Template, Error> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut reader = Reader::new(text, place);
    while let Some(at) = text[reader.at..].find(['$', '{']) {
        plain.push_str(&text[reader.at..reader.at + at]);
        reader.at += at;
        let part = match dialect {
            Dialect::Full => reader.expression()?.or_else(|| reader.input()),
            Dialect::Inputs => reader.input(),
        };
        let Some(part) = part else {
            plain.push_str(&text[reader.at..=reader.at]);
            reader.at += 1;
            continue;
        };
        if !plain.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut plain)));
        }
        parts.push(part);
        if parts.len() > MAX_TEMPLATE_PARTS {
            let message = format!("a template has at most {MAX_TEMPLATE_PARTS} parts");
            return Err(reader.place().beyond(message));
        }
    }
    plain.push_str(&text[reader.at..]);
    if !plain.is_empty() {
        parts.push(Part::Text(plain));
    }
    Ok(Template {
        place: place.clone(),
        parts,
    })
}

/// Reads references in time linear in the text, also where none of them ends.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    first: &'a Place,
    /// A byte of the text, and the lines before it.
    counted: (usize, u64),
    /// The first `}` from some byte before it on; the length of the text where there is none.
    close: Option<usize>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, first: &'a Place) -> Self {
        Self {
            text,
            at: 0,
            first,
            counted: (0, 0),
            close: None,
        }
    }

    fn place(&mut self) -> Place {
        let (from, lines) = self.counted;
        let lines = lines + self.text[from..self.at].matches('\n').count() as u64;
        self.counted = (self.at, lines);
        self.first.at(match self.first.line() {
            0 => 0,
            line => line + lines,
        })
    }

    /// The text from here to the next `}`, without `opening`.
    fn inner(&mut self, opening: &str) -> Option<&'a str> {
        let start = self.at + opening.len();
        if !self.text[self.at..].starts_with(opening) {
            return None;
        }
        let close = match self.close.filter(|close| *close >= start) {
            Some(close) => close,
            None => {
                let found = self.text[start..].find('}');
                found.map_or(self.text.len(), |found| start + found)
            }
        };
        self.close = Some(close);
        (close < self.text.len()).then(|| &self.text[start..close])
    }

    /// `${…}`. `${}` and a `${` that never ends are text, as in Rye.
    fn expression(&mut self) -> Result<Option<Part>, Error> {
        let Some(source) = self.inner("${").filter(|source| !source.is_empty()) else {
            return Ok(None);
        };
        let place = self.place();
        let (paths, pipes) = split_pipes(source);
        let paths = paths.split("||").map(|path| match path.trim() {
            "" => Err(place.error(format!("`${{{source}}}` does not name a path"))),
            path => Path::parse(path, &place),
        });
        let paths = paths.collect::<Result<Vec<_>, _>>()?;
        let pipes = pipes.iter().flat_map(|pipes| pipes.split('|'));
        let pipes = pipes.map(|name| Pipe::parse(name.trim(), &place));
        let pipes = pipes.collect::<Result<Vec<_>, _>>()?;
        if pipes.len() > MAX_FILTERS {
            return Err(place.beyond(format!("at most {MAX_FILTERS} filters in a row")));
        }
        self.at += "${}".len() + source.len();
        Ok(Some(Part::Expression(Expression { paths, pipes })))
    }

    /// `{input:…}`; None when it is anything else.
    fn input(&mut self) -> Option<Part> {
        let inner = self.inner("{input:")?;
        let name_end = inner
            .find(|letter: char| !(letter.is_alphanumeric() || letter == '_'))
            .unwrap_or(inner.len());
        let (name, modifier) = inner.split_at(name_end);
        let whole = &self.text[self.at..self.at + "{input:}".len() + inner.len()];
        let otherwise = match modifier.as_bytes() {
            [] => whole,
            b"?" => "",
            [b':' | b'|', ..] => &modifier[1..],
            _ => return None,
        };
        if name.is_empty() {
            return None;
        }
        self.at += whole.len();
        Some(Part::Input(Input {
            name: name.to_owned(),
            otherwise: otherwise.to_owned(),
        }))
    }
}

/// The parts before and after the first `|` that is not half of a `||`.
fn split_pipes(source: &str) -> (&str, Option<&str>) {
    let bytes = source.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match (byte, bytes.get(at + 1)) {
            (b'|', Some(b'|')) => at += 2,
            (b'|', _) => return (&source[..at], Some(&source[at + 1..])),
            _ => at += 1,
        }
    }
    (source, None)
}

#[cfg(test)]
mod tests;
