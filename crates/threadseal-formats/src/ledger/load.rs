//! Cuts a file into lines as the loader of `AbstractRuntime` does, and reads the content of each
//! line.
//!
//! ```text
//! lines    end at LF, CR or CR LF (Python's universal newlines)
//! line     blanks of Unicode around it are dropped; then
//!            one JSON object             a record
//!            JSON texts one after the other, up to the first that is none:
//!                                        each object of them a record
//!            anything else               nothing
//! row      one JSON object, or nothing   (a table has no lines)
//! ```
//! Text that `AbstractRuntime` skips silently is [`LineRead::skipped`], with its place, so that no
//! readable text is lost unreported. The reasons for its exceptions are [`Raise`].
//!
//! Lines are cut in order, and read on any core.

use super::facts::{FactReader, Facts};
use super::record::RunId;
use super::sign::KnownKeys;
use threadseal_core::canon::json::{self, JsonErrorKind, PythonTexts};
use threadseal_core::limits::{MAX_LENIENT_RECORD_BYTES, MAX_LINE_BYTES, MAX_LINE_RECORDS};

/// The position of a line or a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Offset of its first byte; 0 for a row.
    pub from: u64,
    /// Offset after its last byte, its line end not counted; the length of a row.
    pub to: u64,
    /// Line, or number of the row, from 1.
    pub line: u64,
    /// False for a last line without a line end.
    pub ended: bool,
    /// Whether it is longer than [`MAX_LINE_BYTES`]; then its bytes are not passed on.
    pub too_long: bool,
    /// Whether it is a row, which has no offset.
    pub is_row: bool,
}

impl Place {
    /// The place of a row, the `number`th from 1.
    pub fn row(number: u64, bytes: u64) -> Self {
        Self {
            from: 0,
            to: bytes,
            line: number,
            ended: true,
            too_long: false,
            is_row: true,
        }
    }
}

/// Cuts a file into lines. Push the file in order, then call [`LineSplitter::finish`].
#[derive(Debug, Default)]
pub struct LineSplitter {
    /// Offset of the current chunk.
    offset: u64,
    /// The part of the current line that is in earlier chunks.
    carry: Vec<u8>,
    from: u64,
    lines: u64,
    too_long: bool,
    /// The last byte was a CR: a LF now belongs to its line end.
    after_cr: bool,
}

impl LineSplitter {
    /// A splitter at the beginning of a file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes, and passes each line that ends in them.
    pub fn push(&mut self, chunk: &[u8], each: &mut dyn FnMut(&[u8], Place)) {
        let mut at = 0;
        if self.after_cr && !chunk.is_empty() {
            self.after_cr = false;
            if chunk.first() == Some(&b'\n') {
                at = 1;
                self.from += 1;
            }
        }
        while let Some(length) = memchr::memchr2(b'\n', b'\r', &chunk[at..]) {
            let end = at + length;
            self.hand_over(&chunk[at..end], self.offset + end as u64, true, each);
            at = end + 1;
            if chunk[end] == b'\r' {
                match chunk.get(at) {
                    Some(b'\n') => at += 1,
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            self.from = self.offset + at as u64;
        }
        self.keep(&chunk[at..]);
        self.offset += chunk.len() as u64;
    }

    /// Ends the file; its number of bytes.
    pub fn finish(mut self, each: &mut dyn FnMut(&[u8], Place)) -> u64 {
        if self.offset > self.from {
            self.hand_over(&[], self.offset, false, each);
        }
        self.offset
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.too_long || self.carry.len() + bytes.len() > MAX_LINE_BYTES {
            self.too_long = true;
            self.carry = Vec::new();
        } else {
            self.carry.extend_from_slice(bytes);
        }
    }

    fn hand_over(&mut self, rest: &[u8], to: u64, ended: bool, each: &mut dyn FnMut(&[u8], Place)) {
        let whole = self.carry.is_empty() && !self.too_long && rest.len() <= MAX_LINE_BYTES;
        if !whole {
            self.keep(rest);
        }
        self.lines += 1;
        let place = Place {
            from: self.from,
            to,
            line: self.lines,
            ended,
            too_long: self.too_long,
            is_row: false,
        };
        each(if whole { rest } else { &self.carry }, place);
        self.carry.clear();
        self.too_long = false;
    }
}

/// The content of a line or row. A [`super::Verifier`] takes them in order.
#[derive(Debug, Clone)]
pub struct LineRead {
    pub(super) found: Found,
    /// The bytes of it that are no record, though not blank.
    pub(super) skipped: Option<Skipped>,
    /// The exception of `AbstractRuntime` for it.
    pub(super) raises: Option<Raise>,
}

/// The records of a line.
#[derive(Debug, Clone)]
pub(super) enum Found {
    /// None.
    Nothing,
    /// All of it is one record.
    One(Box<Facts>),
    /// Records with the places that they have in it. Blanks and other values are around them.
    Several(Vec<(usize, usize, Facts)>),
}

/// Bytes `[from, to)` of a line that are no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Skipped {
    pub(super) why: SkipReason,
    pub(super) from: usize,
    pub(super) to: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SkipReason {
    /// No JSON.
    NotJson,
    /// JSON, and no object.
    NoObject,
    /// Not UTF-8.
    NotUtf8,
    /// Beyond a bound of this reader: `AbstractRuntime` may have read it.
    Limit,
}

/// The reasons for which the loader of `AbstractRuntime` raises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Raise {
    /// Bytes at `at` that UTF-8 does not allow; `length` is unknown where the line ends inside
    /// them.
    NotUtf8 { at: usize, length: Option<usize> },
    /// A row of a table that is not UTF-8: the loader decodes all rows first.
    RowNotUtf8,
    /// An integer of too many digits.
    IntegerTooLong { digits: usize },
    /// Unknown: this reader met one of its bounds first.
    Unknown,
}

/// Reads lines and rows; keeps its buffers for reuse.
#[derive(Debug, Default)]
pub struct LineReader {
    facts: FactReader,
}

impl LineReader {
    /// A reader that knows no keys.
    pub fn new() -> Self {
        Self::default()
    }

    /// A reader that checks signatures by `known` keys at once. Those by other keys wait until the
    /// [`super::Verifier`] knows whether the ledger names them.
    pub fn knowing(known: &KnownKeys) -> Self {
        Self {
            facts: FactReader::knowing(known),
        }
    }

    /// Checks signatures by `named` keys at once, too: [`super::Verifier::named_keys`] of the
    /// records before. The answer is the same without this call, and takes longer.
    pub fn learn(&mut self, named: &KnownKeys) {
        self.facts.learn(named);
    }

    /// Reads one line of a file, its line end left off.
    pub fn read_line(&mut self, line: &[u8]) -> LineRead {
        match self.facts.read(line) {
            Some(facts) => LineRead::one(facts),
            None => self.read_leniently(line),
        }
    }

    /// Reads one row of a table: the text of one record.
    pub fn read_row(&mut self, text: &[u8]) -> LineRead {
        if let Some(facts) = self.facts.read(text) {
            return LineRead::one(facts);
        }
        if std::str::from_utf8(text).is_err() {
            let mut read = LineRead::skipped(SkipReason::NotUtf8, 0, text.len());
            read.raises = Some(Raise::RowNotUtf8);
            return read;
        }
        if text.len() > MAX_LENIENT_RECORD_BYTES {
            return LineRead::limit(text);
        }
        match json::parse_python(text) {
            Ok(document) => self.value(&document, text),
            Err(error) if is_beyond_us(error.kind) => LineRead::limit(text),
            Err(_) => LineRead::skipped(SkipReason::NotJson, 0, text.len()),
        }
    }

    fn read_leniently(&mut self, line: &[u8]) -> LineRead {
        let text = match std::str::from_utf8(line) {
            Ok(text) => text,
            Err(error) => {
                let mut read = LineRead::skipped(SkipReason::NotUtf8, 0, line.len());
                read.raises = Some(Raise::NotUtf8 {
                    at: error.valid_up_to(),
                    length: error.error_len(),
                });
                return read;
            }
        };
        let from = text.len() - text.trim_start_matches(is_python_blank).len();
        let text = text.trim_matches(is_python_blank);
        if text.is_empty() {
            return LineRead::nothing();
        }
        if text.len() > MAX_LENIENT_RECORD_BYTES {
            return LineRead::limit(line);
        }
        match json::parse_python(text.as_bytes()) {
            // Nothing is dropped but blanks, which no hash covers.
            Ok(document) => self.within_blanks(&document, text.as_bytes(), from),
            Err(error) if is_beyond_us(error.kind) => LineRead::limit(line),
            Err(error) if error.kind == JsonErrorKind::NumberTooLong => {
                LineRead::too_many_digits(text.as_bytes(), error.offset, line.len())
            }
            Err(_) => self.recover(text, from),
        }
    }

    fn value(&mut self, document: &json::PythonDocument, text: &[u8]) -> LineRead {
        let irregularities = &document.irregularities;
        let facts = self.facts.read_value(&document.value, irregularities, text);
        facts.map_or_else(
            || LineRead::skipped(SkipReason::NoObject, 0, text.len()),
            LineRead::one,
        )
    }

    /// The value `text` that begins at `from` of its line. The blanks around it are no part of its record:
    /// a reader of the strict rules would find no value where they are.
    fn within_blanks(
        &mut self,
        document: &json::PythonDocument,
        text: &[u8],
        from: usize,
    ) -> LineRead {
        let to = from + text.len();
        let irregularities = &document.irregularities;
        match self.facts.read_value(&document.value, irregularities, text) {
            Some(facts) => LineRead {
                found: Found::Several(vec![(from, to, facts)]),
                ..LineRead::nothing()
            },
            None => LineRead::skipped(SkipReason::NoObject, from, to),
        }
    }

    /// Takes the values of a line one after the other. `AbstractRuntime` does so when the whole
    /// line is no JSON.
    fn recover(&mut self, text: &str, from: usize) -> LineRead {
        let mut texts = PythonTexts::new(text);
        let (mut records, mut skipped, mut raises) = (Vec::new(), None, None);
        let mut skip = |why, start: usize, end: usize| {
            skipped.get_or_insert(Skipped {
                why,
                from: from + start,
                to: from + end,
            });
        };
        loop {
            texts.skip(is_python_blank);
            let start = texts.offset();
            if start == text.len() {
                break;
            }
            if records.len() == MAX_LINE_RECORDS {
                skip(SkipReason::Limit, start, text.len());
                raises = Some(Raise::Unknown);
                break;
            }
            match texts.read() {
                Ok(mut document) => {
                    for found in &mut document.irregularities {
                        found.offset -= start;
                    }
                    let end = texts.offset();
                    let part = text.get(start..end).unwrap_or_default().as_bytes();
                    let facts =
                        self.facts
                            .read_value(&document.value, &document.irregularities, part);
                    match facts {
                        Some(facts) => records.push((from + start, from + end, facts)),
                        None => skip(SkipReason::NoObject, start, end),
                    }
                }
                Err(error) if is_beyond_us(error.kind) => {
                    skip(SkipReason::Limit, start, text.len());
                    raises = Some(Raise::Unknown);
                    break;
                }
                Err(error) => {
                    skip(SkipReason::NotJson, start, text.len());
                    if error.kind == JsonErrorKind::NumberTooLong {
                        let digits = digits_at(text.as_bytes(), error.offset);
                        raises = Some(Raise::IntegerTooLong { digits });
                    }
                    break;
                }
            }
        }
        LineRead {
            found: if records.is_empty() {
                Found::Nothing
            } else {
                Found::Several(records)
            },
            skipped,
            raises,
        }
    }
}

impl LineRead {
    /// The run of its first record.
    pub fn run_id(&self) -> Option<RunId> {
        let facts = match &self.found {
            Found::Nothing => return None,
            Found::One(facts) => facts,
            Found::Several(records) => records.first().map(|(_, _, facts)| facts)?,
        };
        RunId::parse(facts.run_id.as_deref()?).ok()
    }

    fn nothing() -> Self {
        Self {
            found: Found::Nothing,
            skipped: None,
            raises: None,
        }
    }

    fn one(facts: Facts) -> Self {
        Self {
            found: Found::One(Box::new(facts)),
            ..Self::nothing()
        }
    }

    pub(super) fn skipped(why: SkipReason, from: usize, to: usize) -> Self {
        Self {
            skipped: Some(Skipped { why, from, to }),
            ..Self::nothing()
        }
    }

    fn limit(line: &[u8]) -> Self {
        Self {
            raises: Some(Raise::Unknown),
            ..Self::skipped(SkipReason::Limit, 0, line.len())
        }
    }

    fn too_many_digits(text: &[u8], offset: usize, length: usize) -> Self {
        let digits = digits_at(text, offset);
        Self {
            raises: Some(Raise::IntegerTooLong { digits }),
            ..Self::skipped(SkipReason::NotJson, 0, length)
        }
    }
}

/// Whether Python may continue to read where this reader stops.
fn is_beyond_us(kind: JsonErrorKind) -> bool {
    matches!(kind, JsonErrorKind::TooDeep | JsonErrorKind::TooManyValues)
}

fn digits_at(text: &[u8], offset: usize) -> usize {
    let literal = text.get(offset..).unwrap_or_default();
    let digits = literal.strip_prefix(b"-").unwrap_or(literal);
    digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count()
}

/// The characters that Python's `str.strip` and `str.isspace` take as blanks: Unicode's, and four
/// separators of ASCII.
fn is_python_blank(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}
