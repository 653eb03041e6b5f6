//! The file of bodies: its lines, and which commitments have their body there.

use super::{BodySalt, commit};
use crate::transcript::event::Cursor;
use std::collections::{BTreeMap, BTreeSet};
use threadseal_core::canon::json;
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::limits::{MAX_LINE_BYTES, MAX_RECORD_BODIES};
use threadseal_core::record::RecordId;

/// The value of `format` in the first line.
const FORMAT: &str = "threadseal-bodies/1";

/// The name of the file of bodies of a record in a file of this name.
pub fn bodies_name(record_file: &str) -> String {
    let stem = record_file.strip_suffix(".jsonl").unwrap_or(record_file);
    format!("{stem}.bodies")
}

/// The first line of a file of bodies, with LF.
pub fn header(record: &RecordId) -> Vec<u8> {
    format!("{{\"format\":\"{FORMAT}\",\"record\":\"{record}\"}}\n").into_bytes()
}

pub(super) fn write_entry(out: &mut Vec<u8>, digest: &Digest, salt: &BodySalt, body: &[u8]) {
    let salt = encoding::hex(&salt.0);
    let begin = format!("{{\"commitment\":\"{digest}\",\"salt\":\"{salt}\",\"body\":");
    out.extend_from_slice(begin.as_bytes());
    out.extend_from_slice(body);
    out.extend_from_slice(b"}\n");
}

/// One line of a file of bodies.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The commitment that it claims.
    pub commitment: Digest,
    salt: BodySalt,
    /// The JSON text.
    pub body: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Reads a line without LF; `None` when it has another spelling.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        if !line.is_ascii() || line.len() > MAX_LINE_BYTES {
            return None;
        }
        let mut cursor = Cursor::new(line);
        cursor.expect(b"{\"commitment\":\"")?;
        let commitment = Digest::parse_hex(cursor.text(64)?)?;
        cursor.expect(b"\",\"salt\":\"")?;
        let salt = BodySalt(encoding::parse_hex_array(cursor.text(64)?)?);
        cursor.expect(b"\",\"body\":")?;
        let body = cursor.rest().strip_suffix(b"}")?;
        // The text of a value has no blanks around it.
        let is_trimmed = body.trim_ascii().len() == body.len();
        (is_trimmed && json::is_valid_ascii(body)).then_some(Self {
            commitment,
            salt,
            body,
        })
    }

    /// Is the body the one that was committed to in `record`?
    pub fn holds(&self, record: &RecordId) -> bool {
        commit(record, &self.salt, self.body) == self.commitment
    }
}

/// The content of a file of bodies.
#[derive(Debug, Clone, Default)]
pub struct Bodies {
    /// The record that its first line names.
    pub(crate) record: Option<RecordId>,
    /// Commitments whose body fits, and how long it is.
    pub(crate) held: BTreeMap<Digest, u64>,
    /// Commitments whose body does not fit.
    pub(crate) changed: BTreeSet<Digest>,
    pub(crate) malformed: Option<u64>,
    pub(crate) torn: bool,
}

impl Bodies {
    /// The state for a record without a file of bodies.
    pub fn absent() -> Self {
        Self::default()
    }

    /// Does the file have the body of this commitment?
    pub fn holds(&self, commitment: &Digest) -> bool {
        self.held.contains_key(commitment)
    }

    /// Does a line claim to be the body of this commitment, whether valid or not?
    pub fn names(&self, commitment: &Digest) -> bool {
        self.holds(commitment) || self.changed.contains(commitment)
    }

    /// Does the file end within a line?
    pub fn is_torn(&self) -> bool {
        self.torn
    }
}

/// Reads a file of bodies in the memory of its longest line and one digest for each body.
#[derive(Debug, Default)]
pub struct BodiesReader {
    bodies: Bodies,
    carry: Vec<u8>,
    /// The line that has begun is longer than one may be.
    is_too_long: bool,
    lines: u64,
}

impl BodiesReader {
    /// A reader at the beginning of a file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes.
    pub fn push(&mut self, chunk: &[u8]) {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.is_too_long |= self.carry.len() + piece.len() > MAX_LINE_BYTES + 1;
            if self.is_too_long {
                self.carry = piece.last().copied().into_iter().collect();
            } else {
                self.carry.extend_from_slice(piece);
            }
            if self.carry.pop_if(|byte| *byte == b'\n').is_some() {
                let line = std::mem::take(&mut self.carry);
                self.line(&line);
                self.carry = line;
                self.carry.clear();
                self.is_too_long = false;
            }
        }
    }

    fn line(&mut self, line: &[u8]) {
        self.lines += 1;
        if self.lines == 1 {
            self.bodies.record = parse_header(line);
            return self.expect(self.bodies.record.is_some() && !self.is_too_long);
        }
        let entry = Entry::parse(line).filter(|_| !self.is_too_long);
        let (Some(entry), Some(record)) = (entry, self.bodies.record) else {
            return self.expect(false);
        };
        // The second line of one commitment is none, also where one of the two does not fit.
        if self.bodies.names(&entry.commitment) {
            return self.expect(false);
        }
        let is_room = self.bodies.held.len() + self.bodies.changed.len() < MAX_RECORD_BODIES;
        if entry.holds(&record) && is_room {
            let bytes = entry.body.len() as u64;
            self.bodies.held.insert(entry.commitment, bytes);
        } else if is_room {
            self.bodies.changed.insert(entry.commitment);
        } else {
            self.expect(false);
        }
    }

    fn expect(&mut self, is_right: bool) {
        if !is_right {
            self.bodies.malformed.get_or_insert(self.lines);
        }
    }

    /// Ends the file.
    pub fn finish(mut self) -> Bodies {
        self.bodies.torn = !self.carry.is_empty();
        self.bodies
    }
}

fn parse_header(line: &[u8]) -> Option<RecordId> {
    let mut cursor = Cursor::new(line);
    cursor.expect(b"{\"format\":\"")?;
    cursor.expect(FORMAT.as_bytes())?;
    cursor.expect(b"\",\"record\":\"")?;
    let record = RecordId::parse_hex(cursor.text(64)?)?;
    (cursor.rest() == b"\"}").then_some(record)
}
