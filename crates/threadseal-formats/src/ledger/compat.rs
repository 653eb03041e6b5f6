//! The answer of `AbstractRuntime`: the report of its `verify_ledger_chain`, or the exception that
//! it raises.
//!
//! ```text
//! {"ok","count","errors":[…],"first_bad_index","head_hash","computed_head_hash"}
//! errors   {"index","type":"prev_hash_mismatch","expected_prev_hash","actual_prev_hash"}
//!          {"index","type":"missing_record_hash"}               nothing after it is checked
//!          {"index","type":"record_hash_mismatch","stored","computed"}
//! ```
//! Its peculiarities are reproduced (`spec/ledger.md` §4): `first_bad_index` is the second bad
//! record where the first has index 0. `computed_head_hash` is no computed hash but the last stored
//! one that was reached. `head_hash` is the last record's, reached or not.

use super::facts::{Facts, Surrogates};
use super::link::Link;
use super::load::{Place, Raise};
use super::members::object;
use threadseal_core::canon::json::Value;
use threadseal_core::canon::python;
use threadseal_core::limits::{MAX_COMPAT_FAILURE_BYTES, MAX_COMPAT_FAILURES};
use threadseal_core::report::Compat;

/// How many bytes Python's text reader decodes at once.
const CHUNK_BYTES: u64 = 8192;

/// The report of `verify_ledger_chain`, while records are taken.
#[derive(Debug, Clone)]
pub struct ChainReport {
    count: u64,
    /// The errors as JSON, commas between them.
    errors: Vec<u8>,
    listed: usize,
    /// Errors that are not kept.
    more: u64,
    first_bad: Option<u64>,
    last: Link,
    prev: Link,
    stopped: bool,
    surrogates: Option<Surrogates>,
    /// The chain has a link that this reader does not examine.
    unknown: bool,
    loading: Loading,
}

impl ChainReport {
    pub(super) fn new() -> Self {
        Self {
            count: 0,
            errors: Vec::new(),
            listed: 0,
            more: 0,
            first_bad: None,
            last: Link::None,
            prev: Link::None,
            stopped: false,
            surrogates: None,
            unknown: false,
            loading: Loading::default(),
        }
    }

    /// Takes the next record that the loader found.
    pub(super) fn take(&mut self, facts: &Facts) {
        let index = self.count;
        self.count += 1;
        self.last = facts.stored.clone();
        if self.stopped || self.surrogates.is_some() || self.unknown {
            return;
        }
        if [&facts.prev, &facts.stored].contains(&&Link::TooLong) {
            self.unknown = true;
            return;
        }
        if !facts.prev.equals(&self.prev) {
            let (expected, actual) = (self.prev.to_value(), facts.prev.to_value());
            let rest = [
                ("expected_prev_hash", expected),
                ("actual_prev_hash", actual),
            ];
            self.error(index, "prev_hash_mismatch", rest);
        }
        if !facts.stored.is_true() {
            self.error(index, "missing_record_hash", []);
            self.stopped = true;
            return;
        }
        match &facts.hash {
            Err(surrogates) => self.surrogates = Some(*surrogates),
            Ok(computed) if facts.stored.digest() != Some(*computed) => {
                let computed = computed.to_hex().into();
                let rest = [("stored", facts.stored.to_value()), ("computed", computed)];
                self.error(index, "record_hash_mismatch", rest);
            }
            Ok(_) => {}
        }
        self.prev = facts.stored.clone();
    }

    /// Follows the loader through the file: an exception of the loader comes before any record
    /// counts.
    pub(super) fn follow(&mut self, line: &[u8], place: &Place, raises: Option<&Raise>) {
        self.loading.follow(line, place, raises);
    }

    /// Whether `AbstractRuntime` reports that the chain holds.
    pub fn ok(&self) -> bool {
        let reported = self.surrogates.is_none() && self.loading.raised.is_none();
        reported && !self.unknown && self.listed == 0
    }

    /// As JSON: the report, or `{"exception":{"type","message","stage"}}` where `AbstractRuntime`
    /// raises. It is `{"unknown":…}` where this reader cannot know the answer. Beyond
    /// [`MAX_COMPAT_FAILURES`] errors, or [`MAX_COMPAT_FAILURE_BYTES`] of them, `more_errors`
    /// counts the rest.
    pub fn to_compat(&self) -> Compat {
        let answer = match self.no_report() {
            Some(value) => python::rye_line(&value),
            None => self.report(),
        };
        Compat::from_json(String::from_utf8_lossy(&answer).into_owned())
    }

    /// The value in place of a report.
    fn no_report(&self) -> Option<Value> {
        if let Some(raised) = &self.loading.raised {
            return Some(raised.to_value());
        }
        if let Some(surrogates) = &self.surrogates {
            let message = cannot_encode(surrogates);
            return Some(exception("UnicodeEncodeError", &message, "verify"));
        }
        (self.unknown || self.last == Link::TooLong).then(unknown)
    }

    fn report(&self) -> Vec<u8> {
        let (ok, count) = (self.listed == 0, self.count);
        let mut report = format!("{{\"ok\": {ok}, \"count\": {count}, \"errors\": [").into_bytes();
        report.extend_from_slice(&self.errors);
        let mut rest = vec![
            (
                "first_bad_index",
                self.first_bad.map_or(Value::Null, Value::from),
            ),
            ("head_hash", self.last.to_value()),
            ("computed_head_hash", self.prev.to_value()),
        ];
        if self.more > 0 {
            rest.push(("more_errors", self.more.into()));
        }
        let rest = rest.into_iter().map(|(name, value)| (name.into(), value));
        let rest = python::rye_line(&Value::Object(rest.collect()));
        report.extend_from_slice(b"], ");
        report.extend_from_slice(rest.strip_prefix(b"{").unwrap_or(&rest));
        report
    }

    fn error<const N: usize>(&mut self, index: u64, kind: &str, rest: [(&str, Value); N]) {
        // `report["first_bad_index"] or i`: an index of 0 counts as none.
        if self.first_bad.is_none_or(|first| first == 0) {
            self.first_bad = Some(index);
        }
        if self.more > 0 || self.listed == MAX_COMPAT_FAILURES {
            self.more += 1;
            return;
        }
        let mut members = vec![("index".into(), index.into()), ("type".into(), kind.into())];
        members.extend(rest.map(|(name, value)| (name.into(), value)));
        let error = python::rye_line(&Value::Object(members));
        let full = self.errors.len() + error.len() > MAX_COMPAT_FAILURE_BYTES;
        // The first error is kept in every case: a report without errors would claim `ok`.
        if full && self.listed > 0 {
            self.more += 1;
            return;
        }
        if self.listed > 0 {
            self.errors.extend_from_slice(b", ");
        }
        self.listed += 1;
        self.errors.extend_from_slice(&error);
    }
}

fn cannot_encode(surrogates: &Surrogates) -> String {
    let Surrogates { from, to, first } = surrogates;
    if to - from == 1 {
        format!(
            "'utf-8' codec can't encode character '\\u{first:04x}' in position {from}: surrogates not allowed"
        )
    } else {
        let last = to - 1;
        format!(
            "'utf-8' codec can't encode characters in position {from}-{last}: surrogates not allowed"
        )
    }
}

fn unknown() -> Value {
    let why = "a line exceeds a limit of this verifier";
    object([("unknown", why.into())])
}

fn exception(kind: &str, message: &str, stage: &str) -> Value {
    let members = [
        ("type", kind.into()),
        ("message", message.into()),
        ("stage", stage.into()),
    ];
    object([("exception", object(members))])
}

/// The loader of `AbstractRuntime`: it decodes a chunk, then reads the lines that end in it.
#[derive(Debug, Clone, Default)]
struct Loading {
    /// Bytes before the last boundary of chunks that are the beginning of a character.
    held_back: (u64, u64),
    raised: Option<Raised>,
}

/// The first exception of the loader.
#[derive(Debug, Clone)]
struct Raised {
    /// In which chunk. At the end of the file the loader has read all of them.
    chunk: u64,
    what: Exception,
}

#[derive(Debug, Clone)]
enum Exception {
    Decode(String),
    Row(String),
    Digits(usize),
    Unknown,
}

impl Raised {
    fn to_value(&self) -> Value {
        match &self.what {
            Exception::Decode(message) => exception("UnicodeDecodeError", message, "load"),
            Exception::Row(message) => exception("OperationalError", message, "load"),
            Exception::Digits(digits) => {
                let message = format!(
                    "Exceeds the limit (4300 digits) for integer string conversion: value has {digits} digits; use sys.set_int_max_str_digits() to increase the limit"
                );
                exception("ValueError", &message, "load")
            }
            Exception::Unknown => unknown(),
        }
    }
}

impl Loading {
    fn follow(&mut self, line: &[u8], place: &Place, raises: Option<&Raise>) {
        if let Some(raises) = raises {
            self.raise(line, place, raises);
        }
        let boundary = place.to / CHUNK_BYTES * CHUNK_BYTES;
        if boundary > place.from {
            self.held_back = (boundary, held_back(line, place, boundary));
        }
    }

    fn raise(&mut self, line: &[u8], place: &Place, raises: &Raise) {
        // A CR at the end of a chunk is held back: a LF may follow.
        let line_chunk = if place.ended {
            place.to / CHUNK_BYTES
        } else {
            u64::MAX
        };
        let raised = match *raises {
            Raise::Unknown => Raised {
                chunk: line_chunk,
                what: Exception::Unknown,
            },
            Raise::IntegerTooLong { digits } => Raised {
                chunk: line_chunk,
                what: Exception::Digits(digits),
            },
            // All rows are decoded before the first is read.
            Raise::RowNotUtf8 => Raised {
                chunk: 0,
                what: Exception::Row(not_text(line)),
            },
            Raise::NotUtf8 { at, length } => self.decode_error(line, place, at, length),
        };
        let decodes = is_of_decoding(&raised.what);
        let first = self.raised.as_ref().is_none_or(|before| {
            decodes && !is_of_decoding(&before.what) && raised.chunk <= before.chunk
        });
        if first {
            self.raised = Some(raised);
        }
    }

    fn decode_error(&self, line: &[u8], place: &Place, at: usize, length: Option<usize>) -> Raised {
        let bytes = line.get(at..).unwrap_or_default();
        let start = place.from + at as u64;
        let byte = bytes.first().copied().unwrap_or_default();
        let (length, reason) = match length {
            // The line's end is the byte that does not continue the character.
            None if place.ended => (bytes.len(), "invalid continuation byte"),
            None => (bytes.len(), "unexpected end of data"),
            Some(length) if matches!(byte, 0xc2..=0xf4) => (length, "invalid continuation byte"),
            Some(length) => (length, "invalid start byte"),
        };
        let offending = match reason {
            "invalid start byte" => start,
            _ => start + length as u64,
        };
        let chunk = if reason == "unexpected end of data" {
            u64::MAX
        } else {
            offending / CHUNK_BYTES
        };
        // A character that began in the previous chunk is decoded with this one. A character at the
        // end of the file is decoded alone.
        let input = chunk.saturating_mul(CHUNK_BYTES);
        let position = if start < input {
            0
        } else {
            let held = match self.held_back {
                _ if input > place.from => held_back(line, place, input),
                (boundary, held) if boundary == input => held,
                _ => 0,
            };
            start - input + held
        };
        let message = if length == 1 {
            format!("'utf-8' codec can't decode byte 0x{byte:02x} in position {position}: {reason}")
        } else {
            let last = position + length as u64 - 1;
            format!("'utf-8' codec can't decode bytes in position {position}-{last}: {reason}")
        };
        Raised {
            chunk,
            what: Exception::Decode(message),
        }
    }
}

fn is_of_decoding(what: &Exception) -> bool {
    matches!(what, Exception::Decode(_) | Exception::Row(_))
}

/// The error of Python's `sqlite3` for a text that is not UTF-8 (`Modules/_sqlite/cursor.c`). It is
/// cut to the size of its buffer, and non-ASCII characters are dropped.
fn not_text(row: &[u8]) -> String {
    const BUFFER: usize = 198;
    let text = row.split(|byte| *byte == 0).next().unwrap_or_default();
    let message = b"Could not decode to UTF-8 column 'record_json' with text '"
        .iter()
        .chain(text)
        .chain(b"'");
    let shown = |byte: &u8| match byte.is_ascii() {
        true => char::from(*byte),
        false => char::REPLACEMENT_CHARACTER,
    };
    message.take(BUFFER).map(shown).collect()
}

/// Bytes before a boundary inside the line that are the beginning of a character.
fn held_back(line: &[u8], place: &Place, boundary: u64) -> u64 {
    let Ok(at) = usize::try_from(boundary - place.from) else {
        return 0;
    };
    let before = line.get(..at).unwrap_or(line);
    let lead = before.iter().rev().take(3);
    let begun = lead
        .clone()
        .position(|byte| byte & 0xc0 != 0x80)
        .zip(lead.clone().find(|byte| **byte & 0xc0 != 0x80));
    let Some((back, lead)) = begun else { return 0 };
    let length = match lead {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    let held = back + 1;
    if held < length { held as u64 } else { 0 }
}
