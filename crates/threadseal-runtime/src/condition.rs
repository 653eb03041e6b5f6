//! Conditions: when a hook fires, which edge a graph takes, how an error is classified.
//!
//! ```text
//! {path: state.count, op: gt, value: 10}     op: eq ne gt gte lt lte in contains regex exists
//! {any: [c, …]}  {all: [c, …]}  {not: c}     {} always holds
//! ```
//! A condition is parsed once, so that an unknown operator, or a pattern that does not compile, is
//! an error at its line. (Rye takes both for "does not hold".) Evaluation takes time linear in the
//! condition and the values it reads.
//!
//! Normative: `spec/declarations.md` §3. Elsewhere: paths ([`crate::path`]).

pub(crate) mod compare;

use crate::bounds::{
    MAX_CONDITION_DEPTH, MAX_CONDITION_PARTS, MAX_REGEX_BYTES, MAX_REGEX_COMPILED_BYTES,
};
use crate::path::Path;
use crate::place::Place;
use crate::yaml::{Fields, Node};
use regex::{Regex, RegexBuilder};
use serde_json::Value;
use threadseal_core::error::Error;

/// What `op` can be.
pub(crate) const OPERATORS: [&str; 10] = [
    "eq", "ne", "gt", "gte", "lt", "lte", "in", "contains", "regex", "exists",
];

/// The shapes of a condition with parts.
pub(crate) const COMBINATORS: [&str; 3] = ["any", "all", "not"];

/// A condition that can be evaluated any number of times.
#[derive(Debug, Clone)]
pub struct Condition(Part);

#[derive(Debug, Clone)]
enum Part {
    Any(Vec<Self>),
    All(Vec<Self>),
    Not(Box<Self>),
    Test {
        path: Path,
        test: Test,
        place: Place,
    },
}

#[derive(Debug, Clone)]
enum Test {
    Equal(Value),
    Unequal(Value),
    Order(Order, Value),
    In(Vec<Value>),
    Contains(Value),
    Regex(Regex),
    Exists,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Condition {
    /// Reads a condition from YAML.
    ///
    /// # Errors
    /// At its line, for an unknown member or operator, or a value that does not suit the operator.
    /// Also for a pattern that does not compile, or an exceeded bound.
    pub fn parse(node: &Node) -> Result<Self, Error> {
        let mut parts = 0;
        part(node, 0, &mut parts).map(Self)
    }

    /// Reads a condition from a JSON value; errors name `place`.
    ///
    /// # Errors
    /// As [`Condition::parse`].
    pub fn from_json(value: &Value, place: &Place) -> Result<Self, Error> {
        Self::parse(&Node::from_json(place, value))
    }

    /// Whether it holds for `context`. `any` and `all` stop at the first part that decides.
    ///
    /// # Errors
    /// Kind `InvalidInput` at the test's line, when an ordering operator meets values that have no
    /// order between them.
    pub fn eval(&self, context: &Value) -> Result<bool, Error> {
        eval(&self.0, context)
    }

    /// The paths that it looks at.
    pub fn paths(&self) -> Vec<&Path> {
        let mut paths = Vec::new();
        let mut parts = vec![&self.0];
        while let Some(part) = parts.pop() {
            match part {
                Part::Any(inner) | Part::All(inner) => parts.extend(inner.iter().rev()),
                Part::Not(inner) => parts.push(inner),
                Part::Test { path, .. } => paths.push(path),
            }
        }
        paths
    }
}

fn eval(part: &Part, context: &Value) -> Result<bool, Error> {
    match part {
        Part::Any(parts) => {
            for part in parts {
                if eval(part, context)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Part::All(parts) => {
            for part in parts {
                if !eval(part, context)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Part::Not(part) => Ok(!eval(part, context)?),
        Part::Test { path, test, place } => holds(test, path, context, place),
    }
}

fn holds(test: &Test, path: &Path, context: &Value, place: &Place) -> Result<bool, Error> {
    let found = path.find(context);
    Ok(match (test, found) {
        (Test::Equal(value), found) => compare::equal(found.unwrap_or(&Value::Null), value),
        (Test::Unequal(value), found) => !compare::equal(found.unwrap_or(&Value::Null), value),
        (Test::In(values), found) => {
            let found = found.unwrap_or(&Value::Null);
            values.iter().any(|value| compare::equal(found, value))
        }
        (Test::Exists, found) => found.is_some(),
        (_, None) => false,
        (Test::Order(order, value), Some(found)) => {
            let ordering = compare::order(found, value).ok_or_else(|| {
                place.error(format!(
                    "`{path}` is {} and cannot be ordered against {}",
                    compare::name(found),
                    compare::name(value)
                ))
            })?;
            match order {
                Order::Greater => ordering.is_gt(),
                Order::GreaterOrEqual => ordering.is_ge(),
                Order::Less => ordering.is_lt(),
                Order::LessOrEqual => ordering.is_le(),
            }
        }
        (Test::Contains(value), Some(found)) => compare::contains(found, value),
        (Test::Regex(regex), Some(found)) => regex.is_match(&compare::text(found)),
    })
}

fn part(node: &Node, depth: usize, count: &mut usize) -> Result<Part, Error> {
    *count += 1;
    if depth > MAX_CONDITION_DEPTH || *count > MAX_CONDITION_PARTS {
        return Err(node.place.beyond(format!(
            "a condition has at most {MAX_CONDITION_PARTS} parts, {MAX_CONDITION_DEPTH} deep"
        )));
    }
    let mut fields = node.fields()?;
    let mut parts = |list: &Node| -> Result<Vec<Part>, Error> {
        let items = list.list()?.iter();
        items.map(|item| part(item, depth + 1, count)).collect()
    };
    let read = if let Some(list) = fields.take("any") {
        Part::Any(parts(list)?)
    } else if let Some(list) = fields.take("all") {
        Part::All(parts(list)?)
    } else if let Some(inner) = fields.take("not") {
        Part::Not(Box::new(part(inner, depth + 1, count)?))
    } else if node.entries()?.is_empty() {
        Part::All(Vec::new())
    } else {
        test(&mut fields, node)?
    };
    fields.finish("a condition of this shape")?;
    Ok(read)
}

fn test(fields: &mut Fields<'_>, node: &Node) -> Result<Part, Error> {
    let path = fields.require("path")?;
    let path = Path::parse(path.text()?, &path.place)?;
    let op = fields.take("op");
    let word = op.map_or(Ok("eq"), Node::text)?;
    let place = op.map_or(&node.place, |op| &op.place).clone();
    let value = fields.take_entry("value").map(|entry| &entry.value);
    let needed = || value.ok_or_else(|| place.error(format!("`{word}` needs a `value`")));
    let ordered = |order| -> Result<Test, Error> {
        let value = needed()?;
        let json = value.to_json();
        match json {
            Value::Number(_) | Value::String(_) => Ok(Test::Order(order, json)),
            _ => Err(value.expected("a number or text, which have an order,")),
        }
    };
    let test = match word {
        "eq" => Test::Equal(needed()?.to_json()),
        "ne" => Test::Unequal(needed()?.to_json()),
        "gt" => ordered(Order::Greater)?,
        "gte" => ordered(Order::GreaterOrEqual)?,
        "lt" => ordered(Order::Less)?,
        "lte" => ordered(Order::LessOrEqual)?,
        "in" => Test::In(needed()?.list()?.iter().map(Node::to_json).collect()),
        "contains" => Test::Contains(needed()?.to_json()),
        "regex" => Test::Regex(regex(needed()?)?),
        "exists" => exists(value)?,
        other => {
            let known = OPERATORS.join(", ");
            return Err(place.error(format!("unknown operator `{other}`; known: {known}")));
        }
    };
    Ok(Part::Test { path, test, place })
}

/// Refuses values other than `true`: Rye ignores the value, so `value: false` would mean its
/// opposite.
fn exists(value: Option<&Node>) -> Result<Test, Error> {
    match value {
        Some(value) if !value.is_null() && value.to_json() != Value::Bool(true) => {
            Err(value.error("`exists` takes no value; negate it with `not`"))
        }
        _ => Ok(Test::Exists),
    }
}

/// Compiles a pattern, within the bounds.
pub(crate) fn regex(node: &Node) -> Result<Regex, Error> {
    let pattern = node.text()?;
    if pattern.len() > MAX_REGEX_BYTES {
        return Err(node
            .place
            .beyond(format!("a pattern has at most {MAX_REGEX_BYTES} bytes")));
    }
    RegexBuilder::new(pattern)
        .size_limit(MAX_REGEX_COMPILED_BYTES)
        .dfa_size_limit(MAX_REGEX_COMPILED_BYTES)
        .build()
        .map_err(|error| {
            let shown = error.to_string();
            let last = shown.lines().last().unwrap_or_default();
            node.error(format!("the pattern does not compile: {last}"))
        })
}

#[cfg(test)]
mod tests;
