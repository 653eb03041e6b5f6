//! Takes large and sensitive values out of a payload.

use super::{BEGIN, BodySalt, Kind, commit};
use crate::transcript::event::{Cursor, Payload};
use memchr::memmem;
use std::ops::Range;
use threadseal_core::error::Error;
use threadseal_core::limits::{MAX_JSON_DEPTH, MIN_DETACHED_BYTES};
use threadseal_core::record::RecordId;

/// Members whose strings, objects and arrays are content of the conversation, and so are always
/// detached.
const CONTENT: [&str; 12] = [
    "text",
    "content",
    "input",
    "output",
    "outputs",
    "arguments",
    "result",
    "error",
    "message",
    "prompt",
    "thinking",
    "reason",
];

/// A payload without its large and sensitive values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detached {
    /// The payload for the record.
    pub payload: Payload,
    /// Lines for the file of bodies; they must be there before the payload's line is sealed.
    pub entries: Vec<u8>,
}

/// Detaches the values of `payload` that [`spec/transcript.md` §10] names; `salt` draws 32 random
/// bytes for each.
///
/// # Errors
/// Errors of `salt`.
pub fn detach(
    record: &RecordId,
    payload: &Payload,
    salt: &mut dyn FnMut() -> Result<BodySalt, Error>,
) -> Result<Detached, Error> {
    let text = payload.as_bytes();
    let mut values = Vec::new();
    if memmem::find(text, BEGIN).is_some() {
        // A caller cannot write a commitment of its own: such text becomes a body itself.
        values.push(0..text.len());
    } else {
        Walk::new(text).value(0, false, &mut values);
    }
    let (mut out, mut entries, mut copied) = (Vec::with_capacity(text.len()), Vec::new(), 0);
    for place in values {
        let body = &text[place.clone()];
        let Some(kind) = Kind::of(body) else {
            continue;
        };
        let salt = salt()?;
        let digest = commit(record, &salt, body);
        out.extend_from_slice(&text[copied..place.start]);
        copied = place.end;
        let commitment = format!(
            "{{\"$body\":{{\"commitment\":\"{digest}\",\"bytes\":{},\"kind\":\"{}\"}}}}",
            body.len(),
            kind.as_str()
        );
        out.extend_from_slice(commitment.as_bytes());
        super::file::write_entry(&mut entries, &digest, &salt, body);
    }
    out.extend_from_slice(&text[copied..]);
    Ok(Detached {
        payload: Payload::parse(&out)?,
        entries,
    })
}

/// Finds values in the text of a payload, which is strict JSON.
struct Walk<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Passes over the next value; notes it, or the values in it that must be detached.
    fn value(&mut self, depth: usize, is_content: bool, found: &mut Vec<Range<usize>>) {
        self.skip_blanks();
        let start = self.at;
        let known = found.len();
        match self.text.get(self.at) {
            Some(b'"') => self.string(),
            Some(b'{') if depth < MAX_JSON_DEPTH => self.members(b'}', depth, found),
            Some(b'[') if depth < MAX_JSON_DEPTH => self.members(b']', depth, found),
            _ => return self.scalar(),
        }
        let length = self.at - start;
        let is_string = self.text[start] == b'"';
        if (is_content && length > 2) || (is_string && length >= MIN_DETACHED_BYTES) {
            // The outermost value is detached, whole.
            found.truncate(known);
            found.push(start..self.at);
        }
    }

    /// The members of an object, or the elements of an array.
    fn members(&mut self, end: u8, depth: usize, found: &mut Vec<Range<usize>>) {
        self.at += 1;
        loop {
            self.skip_blanks();
            match self.text.get(self.at) {
                None => return,
                Some(byte) if *byte == end => {
                    self.at += 1;
                    return;
                }
                Some(b',') => self.at += 1,
                Some(_) if end == b']' => self.value(depth + 1, false, found),
                Some(_) => {
                    let name = self.at;
                    self.string();
                    let name = &self.text[name..self.at];
                    self.skip_blanks();
                    self.at += 1;
                    self.value(depth + 1, is_content(name), found);
                }
            }
        }
    }

    fn string(&mut self) {
        let mut cursor = Cursor::new(&self.text[self.at..]);
        self.at += match cursor.string() {
            Some(string) => string.len(),
            None => self.text.len() - self.at,
        };
    }

    fn scalar(&mut self) {
        let rest = &self.text[self.at..];
        let length = rest
            .iter()
            .position(|byte| matches!(byte, b',' | b'}' | b']' | b' '));
        // At least one byte, so that text which is no JSON ends as well.
        self.at += length.unwrap_or(rest.len()).max(1).min(rest.len());
    }

    fn skip_blanks(&mut self) {
        while self.text.get(self.at) == Some(&b' ') {
            self.at += 1;
        }
    }
}

/// Is the member whose name is spelled so, quotes included, one of [`CONTENT`]?
fn is_content(name: &[u8]) -> bool {
    let name = name.strip_prefix(b"\"").and_then(|n| n.strip_suffix(b"\""));
    name.is_some_and(|name| CONTENT.iter().any(|content| content.as_bytes() == name))
}
