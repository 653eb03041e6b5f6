//! A JSON text as a tree.

use super::lex::{Lexer, Rules, Start};
use super::text::Text;

/// One JSON value. Objects keep the order of their members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number as written.
    Number(Number),
    /// A string, escapes replaced.
    String(Text),
    /// Elements in order.
    Array(Vec<Value>),
    /// Members in order of the text; no name twice.
    Object(Vec<(Text, Value)>),
}

/// A number that keeps its spelling, so that nothing is lost to a double.
///
/// Equal means equally spelled: `1`, `1.0` and `1e0` differ.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Number(Box<str>);

impl Value {
    /// The member called `name`, if this is an object that has one.
    pub fn get(&self, name: &str) -> Option<&Self> {
        let (_, value) = self.as_object()?.iter().find(|(key, _)| key == name)?;
        Some(value)
    }

    /// The string, if this is one and holds no lone surrogate.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => text.as_str(),
            _ => None,
        }
    }

    /// The integer, if this is one and fits.
    pub fn as_u64(&self) -> Option<u64> {
        self.as_number()?.as_u64()
    }

    /// The integer, if this is one and fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number()?.as_i64()
    }

    /// The nearest double, if this is a number.
    pub fn as_f64(&self) -> Option<f64> {
        Some(self.as_number()?.as_f64())
    }

    /// The number, if this is one.
    pub fn as_number(&self) -> Option<&Number> {
        match self {
            Self::Number(number) => Some(number),
            _ => None,
        }
    }

    /// The truth value, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The members, if this is an object.
    pub fn as_object(&self) -> Option<&[(Text, Self)]> {
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }

    /// The elements, if this is an array.
    pub fn as_array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(elements) => Some(elements),
            _ => None,
        }
    }

    /// Whether this is `null`.
    pub fn is_null(&self) -> bool {
        *self == Self::Null
    }
}

impl Number {
    /// The number spelled `literal`, if that is one by the strict rules.
    pub fn parse(literal: &str) -> Option<Self> {
        let mut lexer = Lexer::new(literal.as_bytes(), Rules::Strict).ok()?;
        let token = match lexer.start() {
            Ok(Start::Number) => lexer.number().ok()?,
            _ => return None,
        };
        (token.literal == literal).then(|| Self::danger_from_literal(literal))
    }

    /// Takes a literal that [`Self::parse`] gave before; nothing checks that it is a number.
    pub fn danger_from_literal(literal: &str) -> Self {
        Self(literal.into())
    }

    /// The spelling in the text.
    pub fn literal(&self) -> &str {
        &self.0
    }

    /// Whether it has neither fraction nor exponent. Python reads such a number as an `int`.
    pub fn is_integer(&self) -> bool {
        self.0.bytes().all(|b| b.is_ascii_digit() || b == b'-')
    }

    /// The integer, if it is one and fits; `-0` is 0.
    pub fn as_u64(&self) -> Option<u64> {
        match &*self.0 {
            "-0" => Some(0),
            literal => literal.parse().ok(),
        }
    }

    /// The integer, if it is one and fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.0.parse().ok()
    }

    /// The nearest double. It is infinite beyond the range of doubles. Python's `Infinity` and
    /// `NaN` keep their values.
    pub fn as_f64(&self) -> f64 {
        // Rust also reads every literal that the lexer accepts.
        self.0.parse().unwrap_or(f64::NAN)
    }
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self(value.to_string().into())
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Self(value.to_string().into())
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Number(value.into())
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Number(value.into())
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}
