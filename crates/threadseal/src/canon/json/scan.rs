//! Strict reading without a tree: the hot path of verifying event logs.

use super::error::{JsonError, JsonErrorKind};
use super::keys::{Key, UniqueKeys};
use super::lex::{Lexer, Rules, Start};
use std::ops::Range;

/// Checks one JSON text by the strict rules: what [`super::parse`] accepts and nothing else.
///
/// # Errors
/// As [`super::parse`].
pub fn validate(text: &[u8]) -> Result<(), JsonError> {
    let mut lexer = Lexer::new(text, Rules::Strict)?;
    skip_value(&mut lexer)?;
    lexer.finish()
}

/// Checks one JSON object by the strict rules and hands each of its members, in order, to
/// `member`: the name, and the byte range of the value without blanks around it.
///
/// Members are handed over as they are met, so a caller acts on them only after `Ok`. Nothing is
/// allocated while objects have at most 16 members and names no escapes.
///
/// # Errors
/// As [`super::parse`]; [`JsonErrorKind::NotAnObject`] for any other value.
pub fn scan_object<'a>(
    text: &'a [u8],
    mut member: impl FnMut(Key<'a>, Range<usize>),
) -> Result<(), JsonError> {
    let mut lexer = Lexer::new(text, Rules::Strict)?;
    let Start::Object = lexer.start()? else {
        return Err(JsonError::new(lexer.offset(), JsonErrorKind::NotAnObject));
    };
    let mut keys = UniqueKeys::new();
    lexer.members(|lexer, name| {
        keys.insert(name)?;
        let start = lexer.start()?;
        let from = lexer.offset();
        skip(lexer, &start)?;
        member(Key::new(name), from..lexer.offset());
        Ok(())
    })?;
    keys.finish()?;
    lexer.finish()
}

fn skip_value(lexer: &mut Lexer<'_>) -> Result<(), JsonError> {
    let start = lexer.start()?;
    skip(lexer, &start)
}

fn skip(lexer: &mut Lexer<'_>, start: &Start) -> Result<(), JsonError> {
    match start {
        Start::String => lexer.string().map(drop),
        Start::Number => lexer.number().map(drop),
        Start::Object => {
            let mut keys = UniqueKeys::new();
            lexer.members(|lexer, name| {
                keys.insert(name)?;
                skip_value(lexer)
            })?;
            keys.finish()
        }
        Start::Array => lexer.elements(skip_value),
        word => lexer.word(word).map(drop),
    }
}
