//! Strict reading without a tree: the hot path of verifying event logs.

use super::error::{JsonError, JsonErrorKind};
use super::fast::{Scan, walk, walk_utf8};
use super::keys::{Key, UniqueKeys};
use super::lex::{Lexer, Rules, Start};
use std::ops::Range;

/// Checks one JSON text by the strict rules. Accepts exactly the texts that [`super::parse`]
/// accepts.
///
/// # Errors
/// As [`super::parse`].
pub fn validate(text: &[u8]) -> Result<(), JsonError> {
    match walk(text, &mut Scan::new(|_, _| {})) {
        Some(()) => Ok(()),
        None => careful_validate(text),
    }
}

/// As [`validate`], for bytes that the caller found to be ASCII. It does not check UTF-8 again. For
/// other bytes the result is undefined: true or false.
pub fn is_valid_ascii(text: &[u8]) -> bool {
    debug_assert!(text.is_ascii());
    walk_utf8(text, &mut Scan::new(|_, _| {})).is_some() || careful_validate(text).is_ok()
}

/// Checks one JSON object by the strict rules and hands each of its members, in order, to `member`.
/// A member is its name, and the byte range of its value without blanks around it.
///
/// Members are handed over before the whole text is checked. A caller acts on them only after `Ok`.
/// Nothing is allocated while objects have at most 16 members and names no escapes.
///
/// # Errors
/// As [`super::parse`]; [`JsonErrorKind::NotAnObject`] for any other value.
pub fn scan_object<'a>(
    text: &'a [u8],
    mut member: impl FnMut(Key<'a>, Range<usize>),
) -> Result<(), JsonError> {
    let mut handed_over = 0_usize;
    let mut scan = Scan::new(|key, value| {
        handed_over += 1;
        member(key, value);
    });
    if first_byte(text) == Some(b'{') && walk(text, &mut scan).is_some() {
        return Ok(());
    }
    // The careful way first meets the members that were already handed over.
    careful_scan(text, |key, value| match handed_over.checked_sub(1) {
        Some(fewer) => handed_over = fewer,
        None => member(key, value),
    })
}

fn first_byte(text: &[u8]) -> Option<u8> {
    text.trim_ascii_start().first().copied()
}

fn careful_validate(text: &[u8]) -> Result<(), JsonError> {
    let mut lexer = Lexer::new(text, Rules::Strict)?;
    skip_value(&mut lexer)?;
    lexer.finish()
}

fn careful_scan<'a>(
    text: &'a [u8],
    mut member: impl FnMut(Key<'a>, Range<usize>),
) -> Result<(), JsonError> {
    let mut lexer = Lexer::new(text, Rules::Strict)?;
    let Start::Object = lexer.start()? else {
        return Err(JsonError::new(lexer.offset(), JsonErrorKind::NotAnObject));
    };
    let mut keys = UniqueKeys::default();
    lexer.members(|lexer, name| {
        keys.insert(name);
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
            let mut keys = UniqueKeys::default();
            lexer.members(|lexer, name| {
                keys.insert(name);
                skip_value(lexer)
            })?;
            keys.finish()
        }
        Start::Array => lexer.elements(skip_value),
        word => lexer.word(word).map(drop),
    }
}
