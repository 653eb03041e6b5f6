//! From text to tree.

use super::error::JsonError;
use super::keys::UniqueKeys;
use super::lex::{Lexer, NumberToken, Rules, Start, StringToken};
use super::text::{Text, unescape};
use super::value::{Number, Value};
use crate::limits::MAX_FINDINGS;
use std::collections::BTreeMap;

/// Reads one JSON text by the strict rules.
///
/// # Errors
/// The first place that the strict rules refuse. A duplicate key is detected at the end of its
/// object.
pub fn parse(text: &[u8]) -> Result<Value, JsonError> {
    let mut lexer = Lexer::new(text, Rules::Strict)?;
    let value = strict_value(&mut lexer)?;
    lexer.finish()?;
    Ok(value)
}

/// The result of Python's `json.loads` for a text, and the places that a stricter reader refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonDocument {
    /// The value. Of several members with one name the last value counts, in the place of the
    /// first, as in a Python `dict`.
    pub value: Value,
    /// In order of the text; of each kind the first [`MAX_FINDINGS`].
    pub irregularities: Vec<Irregularity>,
}

/// Something that only a lenient reader accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Irregularity {
    /// Why a stricter reader refuses it.
    pub kind: IrregularityKind,
    /// Byte offset of the key, string or number.
    pub offset: usize,
}

/// Kinds of input that only a lenient reader accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IrregularityKind {
    /// The name occurred before in this object; the value before was dropped.
    DuplicateKey,
    /// A string with an escaped surrogate whose other half is missing.
    LoneSurrogate,
    /// `NaN`, `Infinity`, `-Infinity`, or a fraction or exponent beyond the range of doubles.
    NonFinite,
}

/// Reads one JSON text as Python 3.11 `json.loads` does.
///
/// Beyond RFC 8259 Python accepts duplicate keys, lone surrogates in escapes, `NaN`, `Infinity` and
/// `-Infinity`. It refuses integers of more than
/// [`MAX_PYTHON_INTEGER_DIGITS`](crate::limits::MAX_PYTHON_INTEGER_DIGITS) digits.
///
/// # Errors
/// The first place that Python refuses. Also any input beyond
/// [`MAX_PYTHON_JSON_DEPTH`](crate::limits::MAX_PYTHON_JSON_DEPTH) or
/// [`MAX_JSON_VALUES`](crate::limits::MAX_JSON_VALUES) (then
/// [`is_limit`](super::JsonErrorKind::is_limit)).
pub fn parse_python(text: &[u8]) -> Result<PythonDocument, JsonError> {
    let mut lexer = Lexer::new(text, Rules::Python)?;
    let document = read_python(&mut lexer)?;
    lexer.finish()?;
    Ok(document)
}

/// A sequence of JSON texts, each read as Python's `raw_decode` reads it.
pub struct PythonTexts<'a>(Lexer<'a>);

impl<'a> PythonTexts<'a> {
    /// A reader in front of the first.
    pub fn new(text: &'a str) -> Self {
        Self(Lexer::behind_mark(text, Rules::Python))
    }

    /// The offset of the cursor.
    pub fn offset(&self) -> usize {
        self.0.offset()
    }

    /// Passes over the characters that are `blank`.
    pub fn skip(&mut self, blank: impl Fn(char) -> bool) {
        self.0.skip(blank);
    }

    /// Reads the next text; the rest may be anything. Offsets count from the start of the whole.
    ///
    /// # Errors
    /// As [`parse_python`]. After an error nothing more can be read.
    pub fn read(&mut self) -> Result<PythonDocument, JsonError> {
        read_python(&mut self.0)
    }
}

fn read_python(lexer: &mut Lexer<'_>) -> Result<PythonDocument, JsonError> {
    let mut notes = Notes::default();
    let value = python_value(lexer, &mut notes)?;
    let mut irregularities = notes.kept;
    irregularities.sort_by_key(|note| note.offset);
    Ok(PythonDocument {
        value,
        irregularities,
    })
}

fn strict_value(lexer: &mut Lexer<'_>) -> Result<Value, JsonError> {
    Ok(match lexer.start()? {
        Start::Object => {
            let mut keys = UniqueKeys::default();
            let mut members = Vec::new();
            lexer.members(|lexer, name| {
                keys.insert(name);
                members.push((text(name), strict_value(lexer)?));
                Ok(())
            })?;
            keys.finish()?;
            Value::Object(members)
        }
        Start::Array => {
            let mut elements = Vec::new();
            lexer.elements(|lexer| {
                elements.push(strict_value(lexer)?);
                Ok(())
            })?;
            Value::Array(elements)
        }
        Start::Number => Value::Number(Number::danger_from_literal(lexer.number()?.literal)),
        Start::String => Value::String(text(lexer.string()?)),
        word => word_value(lexer, &word)?,
    })
}

fn python_value(lexer: &mut Lexer<'_>, notes: &mut Notes) -> Result<Value, JsonError> {
    Ok(match lexer.start()? {
        Start::Object => {
            let mut members = Vec::new();
            let mut offsets = Vec::new();
            lexer.members(|lexer, name| {
                notes.string(name);
                offsets.push(name.offset);
                members.push((text(name), python_value(lexer, notes)?));
                Ok(())
            })?;
            Value::Object(last_wins(members, &offsets, notes))
        }
        Start::Array => {
            let mut elements = Vec::new();
            lexer.elements(|lexer| {
                elements.push(python_value(lexer, notes)?);
                Ok(())
            })?;
            Value::Array(elements)
        }
        Start::Number => {
            let token = lexer.number()?;
            notes.number(token);
            Value::Number(Number::danger_from_literal(token.literal))
        }
        Start::String => {
            let token = lexer.string()?;
            notes.string(token);
            Value::String(text(token))
        }
        word => word_value(lexer, &word)?,
    })
}

fn word_value(lexer: &mut Lexer<'_>, word: &Start) -> Result<Value, JsonError> {
    lexer.word(word)?;
    Ok(match word {
        Start::True => Value::Bool(true),
        Start::False => Value::Bool(false),
        _ => Value::Null,
    })
}

/// Keeps the first place and the last value of each name.
fn last_wins(
    members: Vec<(Text, Value)>,
    offsets: &[usize],
    notes: &mut Notes,
) -> Vec<(Text, Value)> {
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by(|a, b| members[*a].0.cmp(&members[*b].0));
    let repeated = |pair: &[usize]| members[pair[0]].0 == members[pair[1]].0;
    if !order.windows(2).any(repeated) {
        return members;
    }
    let mut places: BTreeMap<Text, usize> = BTreeMap::new();
    let mut kept: Vec<(Text, Value)> = Vec::new();
    for ((name, value), offset) in members.into_iter().zip(offsets) {
        match places.get(&name) {
            Some(place) => {
                notes.add(IrregularityKind::DuplicateKey, *offset);
                kept[*place].1 = value;
            }
            None => {
                places.insert(name.clone(), kept.len());
                kept.push((name, value));
            }
        }
    }
    kept
}

fn text(token: StringToken<'_>) -> Text {
    Text::from_wtf8(if token.escaped {
        unescape(token.raw)
    } else {
        token.raw.to_vec()
    })
}

#[derive(Default)]
struct Notes {
    kept: Vec<Irregularity>,
    counts: [usize; 3],
}

impl Notes {
    fn string(&mut self, token: StringToken<'_>) {
        if token.lone_surrogate {
            self.add(IrregularityKind::LoneSurrogate, token.offset);
        }
    }

    fn number(&mut self, token: NumberToken<'_>) {
        let finite = token.literal.parse().is_ok_and(f64::is_finite);
        if !token.integer && !finite {
            self.add(IrregularityKind::NonFinite, token.offset);
        }
    }

    fn add(&mut self, kind: IrregularityKind, offset: usize) {
        let count = &mut self.counts[kind as usize];
        if *count < MAX_FINDINGS {
            self.kept.push(Irregularity { kind, offset });
        }
        *count += 1;
    }
}
