//! One native event line: its frame, its words, its writer.
//!
//! ```text
//! {"timestamp":1739820405.123456,"thread_id":"t","event_type":"cognition_in",
//!  "salt":"<32 hex>","payload":{…}}
//! ```
//! Invariants (`spec/transcript.md` §1): printable ASCII only, the frame has one spelling, the
//! payload is a strict JSON object. The caller cuts lines at 0x0A and passes them without it.
//!
//! Not here: checkpoint payloads (`seal`), the manifest (`manifest`), Rye's looser lines (`rye`).

use std::str::FromStr;
use threadseal_core::canon::json;
use threadseal_core::encoding;
use threadseal_core::error::Error;
use threadseal_core::limits::{MAX_EVENT_TYPE_BYTES, MAX_LINE_BYTES, MAX_THREAD_ID_BYTES};
use threadseal_core::record::ThreadId;
use threadseal_core::time::Timestamp;

/// Types that only the recorder writes; it refuses them to hooks, tools and other callers.
pub const RESERVED: [&str; 15] = [
    "thread_started",
    "checkpoint",
    "tail_dropped",
    "tail_adopted",
    "key",
    "delegation",
    "authority",
    "redacted",
    "thread_resumed",
    "thread_handoff",
    "thread_completed",
    "thread_error",
    "thread_cancelled",
    "thread_continued",
    "thread_suspended",
];

/// Links to other threads: all that may follow a final seal.
pub fn is_link(event_type: &str) -> bool {
    matches!(event_type, "thread_resumed" | "thread_handoff")
}

/// Events that end a thread: a final seal follows them.
pub fn is_terminal(event_type: &str) -> bool {
    matches!(
        event_type,
        "thread_completed"
            | "thread_error"
            | "thread_cancelled"
            | "thread_continued"
            | "thread_suspended"
    )
}

/// Events whose payload has exactly the members of a table (`spec/transcript.md` §5). All others
/// have any object, and may hold commitments to bodies.
pub(crate) fn has_fixed_payload(event_type: &str) -> bool {
    RESERVED.contains(&event_type) && !is_link(event_type) && !is_terminal(event_type)
}

/// The type of an event: 1 to [`MAX_EVENT_TYPE_BYTES`] printable ASCII characters. Blank, quote and
/// backslash are excluded, so that it needs no escape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventType(String);

impl EventType {
    /// Checks and takes `text`.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::InvalidInput`] when `text` has another shape.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if is_event_type(text.as_bytes()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Error::invalid(format!(
                "event type {text:?} must be 1 to {MAX_EVENT_TYPE_BYTES} printable ASCII characters without space, quote or backslash"
            )))
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Is this one of [`RESERVED`]?
    pub fn is_reserved(&self) -> bool {
        RESERVED.contains(&self.as_str())
    }
}

impl FromStr for EventType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

fn is_event_type(text: &[u8]) -> bool {
    (1..=MAX_EVENT_TYPE_BYTES).contains(&text.len())
        && text
            .iter()
            .all(|b| b.is_ascii_graphic() && *b != b'"' && *b != b'\\')
}

/// 16 random bytes of one line, so that a proof of that line reveals nothing about its neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Salt([u8; 16]);

impl Salt {
    /// The salt with these bytes; they must come from a cryptographic source.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

/// A JSON object in the form that native lines need: ASCII, strict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload(Vec<u8>);

impl Payload {
    /// Takes strict JSON text of an object. Characters outside printable ASCII inside strings are
    /// rewritten as escapes; all other bytes stay unchanged.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::InvalidInput`] when `text` is not a strict JSON object,
    /// or has line breaks between its tokens.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        json::validate(text).map_err(|e| Error::invalid(format!("payload: {e}")))?;
        let text = std::str::from_utf8(text).map_err(|_| Error::invalid("payload is not UTF-8"))?;
        if !text.starts_with('{') || !text.ends_with('}') {
            return Err(Error::invalid("payload must be a JSON object"));
        }
        if text.bytes().any(|b| b.is_ascii_control() && b != 0x7f) {
            return Err(Error::invalid(
                "payload must be on one line, with no blanks except spaces",
            ));
        }
        let mut out = Vec::with_capacity(text.len());
        for c in text.chars() {
            // Only strings can contain these: the reader has refused them everywhere else.
            match u8::try_from(c) {
                Ok(byte) if (0x20..0x7f).contains(&byte) => out.push(byte),
                _ => push_escape(&mut out, c),
            }
        }
        if out.len() > MAX_LINE_BYTES / 2 {
            return Err(Error::invalid("payload is too long for a line"));
        }
        Ok(Self(out))
    }

    /// The ASCII text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl FromStr for Payload {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text.as_bytes())
    }
}

fn push_escape(out: &mut Vec<u8>, c: char) {
    let mut units = [0; 2];
    for unit in c.encode_utf16(&mut units) {
        out.extend_from_slice(b"\\u");
        out.extend_from_slice(encoding::hex(&unit.to_be_bytes()).as_bytes());
    }
}

/// Appends everything of a line up to its payload.
pub(crate) fn write_frame(
    out: &mut Vec<u8>,
    timestamp: Timestamp,
    thread: &ThreadId,
    event_type: &str,
    salt: Salt,
) {
    out.extend_from_slice(b"{\"timestamp\":");
    out.extend_from_slice(timestamp.to_epoch_text().as_bytes());
    out.extend_from_slice(b",\"thread_id\":");
    json::write_ascii_string(out, thread.as_str());
    out.extend_from_slice(b",\"event_type\":\"");
    out.extend_from_slice(event_type.as_bytes());
    out.extend_from_slice(b"\",\"salt\":\"");
    out.extend_from_slice(encoding::hex(&salt.0).as_bytes());
    out.extend_from_slice(b"\",\"payload\":");
}

/// The parts of a line with a valid frame. Its payload is not yet checked to be JSON.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    pub(crate) timestamp: Timestamp,
    /// The thread id as it is spelled, quotes included.
    pub(crate) thread_id: &'a [u8],
    pub(crate) event_type: &'a str,
    pub(crate) salt: Salt,
    pub(crate) payload: &'a [u8],
}

/// Reads the frame of `line` (without LF); `None` when it has any other spelling.
pub(crate) fn parse_frame(line: &[u8]) -> Option<Frame<'_>> {
    let mut cursor = Cursor::new(line);
    cursor.expect(b"{\"timestamp\":")?;
    let timestamp = cursor.until(b',')?;
    let timestamp = Timestamp::parse_epoch_text(std::str::from_utf8(timestamp).ok()?)?;
    cursor.expect(b",\"thread_id\":")?;
    let thread_id = cursor.string()?;
    cursor.expect(b",\"event_type\":\"")?;
    let event_type = cursor.until(b'"')?;
    if !is_event_type(event_type) {
        return None;
    }
    cursor.expect(b"\",\"salt\":\"")?;
    let salt = Salt(encoding::parse_hex_array(cursor.text(32)?)?);
    cursor.expect(b"\",\"payload\":")?;
    let payload = cursor.rest().strip_suffix(b"}")?;
    let event_type = std::str::from_utf8(event_type).ok()?;
    Some(Frame {
        timestamp,
        thread_id,
        event_type,
        salt,
        payload,
    })
}

/// Is `line` (without LF) a native line: ASCII, a valid frame, a strict JSON object as payload?
/// Returns the frame, else the fault.
pub(crate) fn check_line(line: &[u8]) -> Result<Frame<'_>, LineFault> {
    if !line
        .iter()
        .fold(true, |ok, b| ok & (b.wrapping_sub(0x20) < 0x5f))
    {
        return Err(LineFault::NotAscii);
    }
    let frame = parse_frame(line).ok_or(LineFault::Frame)?;
    // Blanks inside the payload are free; around it they would be blanks of the frame.
    let is_object = frame.payload.starts_with(b"{") && frame.payload.ends_with(b"}");
    if !is_object || !json::is_valid_ascii(frame.payload) {
        return Err(LineFault::Payload);
    }
    Ok(frame)
}

/// Is this JSON string, quotes included, a thread id as native lines spell it? Whether the id can be a
/// path is another question.
pub(crate) fn is_native_id(text: &[u8]) -> bool {
    let value = json::parse(text).ok();
    let Some(id) = value.as_ref().and_then(json::Value::as_str) else {
        return false;
    };
    let mut spelling = Vec::new();
    json::write_ascii_string(&mut spelling, id);
    (1..=MAX_THREAD_ID_BYTES).contains(&id.len()) && spelling == text
}

/// Why a line is not a native line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineFault {
    NotAscii,
    Frame,
    Payload,
    TooLong,
}

impl LineFault {
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::NotAscii => "the line holds a byte outside printable ASCII",
            Self::Frame => "the line does not have the frame of a native event",
            Self::Payload => "the line's payload is not a strict JSON object",
            Self::TooLong => "the line is too long",
        }
    }
}

/// Reads fixed spellings from the front of a line.
pub(crate) struct Cursor<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(line: &'a [u8]) -> Self {
        Self { line, at: 0 }
    }

    /// Bytes read so far.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.line[self.at..]
    }

    pub(crate) fn expect(&mut self, literal: &[u8]) -> Option<()> {
        self.rest()
            .starts_with(literal)
            .then(|| self.at += literal.len())
    }

    /// Everything before the next `stop`, which stays unread.
    pub(crate) fn until(&mut self, stop: u8) -> Option<&'a [u8]> {
        let rest = self.rest();
        let length = memchr::memchr(stop, rest)?;
        self.at += length;
        Some(&rest[..length])
    }

    /// The next `length` bytes as text.
    pub(crate) fn text(&mut self, length: usize) -> Option<&'a str> {
        let text = std::str::from_utf8(self.rest().get(..length)?).ok()?;
        self.at += length;
        Some(text)
    }

    /// A decimal number without leading zeros.
    pub(crate) fn number(&mut self) -> Option<u64> {
        let length = self
            .rest()
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count();
        threadseal_core::record::parse_decimal(self.text(length)?).filter(|_| length > 0)
    }

    /// A JSON string with its quotes.
    pub(crate) fn string(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        self.expect(b"\"")?;
        loop {
            let rest = self.rest();
            let length = memchr::memchr2(b'"', b'\\', rest)?;
            let escaped = rest[length] == b'\\';
            self.at += length + 1 + usize::from(escaped);
            if self.at > self.line.len() {
                return None;
            }
            if !escaped {
                return Some(&self.line[start..self.at]);
            }
        }
    }

    /// A JSON object, braces balanced outside strings; its inside is not checked.
    pub(crate) fn object(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        let mut depth = 0_usize;
        loop {
            match self.rest().first()? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' => depth += 1,
                b'}' => depth = depth.checked_sub(1)?,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                let object = &self.line[start..self.at];
                return object.starts_with(b"{").then_some(object);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(payload: &str) -> Vec<u8> {
        let mut out = Vec::new();
        write_frame(
            &mut out,
            Timestamp::from_micros(1_739_820_405_123_456).unwrap(),
            &ThreadId::parse("caf\u{e9}/\u{1f980}-1").unwrap(),
            "cognition_in",
            Salt::from_bytes([0xab; 16]),
        );
        out.extend_from_slice(payload.as_bytes());
        out.push(b'}');
        out
    }

    #[test]
    fn a_written_line_reads_back_and_is_ascii() {
        let payload =
            Payload::parse("{\"text\":\"caf\u{e9} \u{1f980}\u{2028}\u{7f}\"}".as_bytes()).unwrap();
        let text = std::str::from_utf8(payload.as_bytes()).unwrap();
        assert_eq!(text, r#"{"text":"caf\u00e9 \ud83e\udd80\u2028\u007f"}"#);
        let line = line(text);
        let frame = check_line(&line).unwrap();
        assert_eq!(frame.event_type, "cognition_in");
        assert_eq!(frame.thread_id, br#""caf\u00e9/\ud83e\udd80-1""#);
        assert_eq!(frame.payload, payload.as_bytes());
    }

    // T-TRA-03
    #[test]
    fn a_frame_has_one_spelling() {
        let good = String::from_utf8(line("{}")).unwrap();
        assert!(check_line(good.as_bytes()).is_ok());
        for (from, to) in [
            ("{\"timestamp\"", "{ \"timestamp\""),
            (".123456", ".12345"),
            (",\"salt\"", ", \"salt\""),
            ("abab", "ABAB"),
            ("cognition_in", "cognition in"),
            ("cognition_in", "cognition\\u005fin"),
            ("{}}", "{}} "),
            ("{}}", "{} }"),
            ("{}}", " {}}"),
            ("{}}", "{},\"x\":1}"),
            ("{}}", "{\"a\":1,\"a\":2}}"),
            ("{}}", "{\"a\":\"\u{e9}\"}}"),
            ("{}}", "[]}"),
            ("{}}", "{}}}"),
        ] {
            let bad = good.replacen(from, to, 1);
            assert_ne!(bad, good);
            assert!(check_line(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    // T-TRA-18
    #[test]
    fn payloads_that_would_break_a_line_are_refused() {
        for bad in [
            "",
            "[]",
            "{",
            "{\"a\":1}\n",
            "{\n}",
            "{\"a\":\"\u{1}\"}",
            "{\"a\":1,\"a\":1}",
        ] {
            assert!(Payload::parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }
}
