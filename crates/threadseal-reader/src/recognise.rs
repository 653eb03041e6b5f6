//! What kind of record a file is: by its content first, then by its name.
//!
//! | seen | kind |
//! |---|---|
//! | line 1 is a native manifest, or any checkpoint carries a native note | native transcript |
//! | line 1 has the members of an event, or any line is a `checkpoint` event | other transcript |
//! | an array, lines or a CBOR sequence of which half of the first turns have `scroll/0.1`, or most members of one; or one of them has both | scroll |
//! | the same marks in a file of which no turn can be read | scroll |
//! | a header of a checkpoint, with the magic of v0x05 or with numbers as they occur, or signed | checkpoint |
//! | a name that ends in `.ckpt` or `.checkpoint`, and no other known content | checkpoint |
//! | lines of which one has the members of a step record; a history bundle | ledger |
//! | an SQLite file with tables of ledgers or lineages, or one that cannot be read and had such tables | ledger |
//! | a name that ends in `.head`, with the text of a signed head | the head of the ledger beside it |
//! | a name of an index of a ledger, with the magic of one | the index of the ledger beside it |
//! | a name that ends in `.jsonl`, other content | log |
//! | a JSON object in a `.json` file; a signature in a file of any name | document |
//! | a name of a text that can carry a signature | document |
//! | a name that ends in `.seal`, with the header of a seal file or the seal of a document | the seals of the file beside it |
//!
//! Content first, so that renaming a record does not take it out of sight; and a checkpoint
//! anywhere counts, so that spoiling the first line does not either.

use crate::content::{Content, LineTooLong};
use crate::lines::{Line, LineCutter};
use memchr::memmem;
use serde::de::IgnoredAny;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use threadseal_core::canon::cbor;
use threadseal_core::canon::json::{self, Value};
use threadseal_core::limits::{MAX_DOCUMENT_BYTES, MAX_TURN_BYTES};
use threadseal_core::tlog::conflict;
use threadseal_formats::document::{DocumentKind, is_beside};
use threadseal_formats::ledger::{Bundle, HEAD_ORIGIN};
use threadseal_formats::lineage::{
    CheckpointHeader, FORK_FIRST_LINE, HEAD_MAGIC, HeaderError, OriginalVerifier, Version,
};
pub use threadseal_formats::scroll::container_of;
use threadseal_formats::scroll::{Container, Place, Splitter, VERSION, has_marks_of_cbor};
use threadseal_formats::transcript::{copy, observed_proof, rye, turn_proof};

/// How much of both ends of a file is looked at, unless it is made of lines. Signatures stand at
/// one end or the other, unless more was added there.
const PROBE_BYTES: u64 = PROBE as u64;
const PROBE: usize = 64 << 10;
/// How much of the beginning decides on the container of a scroll.
const FIRST: usize = 256 << 10;
/// What the note of every native checkpoint begins with.
const NATIVE_NOTE: &[u8] = b"\"note\":\"threadseal/1/transcript/";
/// What every signature in a document begins with.
const SIGNATURES: [&[u8]; 2] = [b"rye:signed:", b"threadseal:signed:"];
/// The beginnings of claims to be a native seal, after the first line (`spec/documents.md` §3).
pub const CLAIMS: [&[u8]; 5] = [
    b"\n# threadseal:signed:",
    b"\n// threadseal:signed:",
    b"\n<!-- threadseal:signed:",
    b"\"threadseal:signed:",
    b"|threadseal@",
];
/// The marks of a turn: as it is written here, with the blank of other writers, in CBOR.
const SCROLL_MARKS: [&[u8]; 3] = [
    b"\"version\":\"scroll/0.1\"",
    b"\"version\": \"scroll/0.1\"",
    b"gversionjscroll/0.1",
];
/// How a canonical turn begins, and continues after its hash.
const TURN_START: &[u8] = b"{\"hash\":\"sha256:";
const AFTER_HASH: &[u8] = b"\",\"messages\":";
/// Members of a turn, as JSON spells them.
const JSON_MARKS: [&[u8]; 6] = [
    b"\"timestamp_ns\":",
    b"\"version\":",
    b"\"messages\":",
    b"\"params\":",
    b"\"model\":",
    b"\"hash\":",
];
/// So many of them make a turn: other logs have some of these members, too.
const LEAST_MARKS: usize = 5;
/// Names of the members that a turn has, and how many of them make one.
const TURN_MEMBERS: [&str; 8] = [
    "version",
    "hash",
    "timestamp_ns",
    "turn",
    "role",
    "messages",
    "model",
    "params",
];
const LEAST_MEMBERS: usize = 7;
/// The type in every tombstone.
const TOMBSTONE: &[u8] = b"\"type\":\"threadseal/1 tombstone\"";
/// What every seal file begins with.
const SEAL_HEADER: &[u8] = b"{\"format\":\"threadseal-observed/";
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// What is near the beginning of an exported page.
const PAGE_MARK: &[u8] = b"<meta name=\"generator\" content=\"ThreadSeal page 1\">";
/// Why an exported page has no verdict of its own.
pub const PAGE_IS_NO_RECORD: &str = "an exported page is not a record: it has records inside";
const DOCTYPE: &[u8] = b"<!doctype html>";
const PAGE_HEAD: usize = 4096;
/// How other files begin, what they are, and the command that takes them.
const OTHERS: [(&[u8], &str, &str); 2] = [
    (
        b"{\"format\":\"threadseal-identity/1\"",
        "an identity",
        "id show",
    ),
    (
        b"age-encryption.org/v1",
        "an encrypted backup",
        "home restore",
    ),
];
/// How archives and compressed files begin: ZIP (also `.eval`), gzip, Zstandard.
const NOT_LINES: [&[u8]; 3] = [b"PK\x03\x04", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"];
/// The largest file that is looked at whole, to see whether it is one JSON value.
const MAX_WHOLE_JSON_BYTES: usize = 64 << 20;

/// The kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A native transcript.
    Native,
    /// Another event log in the transcript's frame: Rye's, or unsigned.
    Events,
    /// Any other log of lines.
    Log,
    /// The detached seals of another file.
    Sidecar,
    /// A JSON object or a text, signed or not.
    Document(DocumentKind),
    /// A chain of sealed turns.
    Scroll(Container),
    /// Ledgers of runs.
    Ledger(LedgerShape),
    /// The signed head of the ledger beside it.
    LedgerHead,
    /// The index of the ledger beside it.
    LedgerIndex,
    /// A link of the lineage of an agent.
    Checkpoint,
}

/// How ledgers are stored in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerShape {
    /// A record a line.
    Lines,
    /// A history bundle.
    Bundle,
    /// Tables of an SQLite file, which may contain lineages, too.
    Sqlite,
}

/// What a file is that proves something and is no record, if it is one: `check-proof` judges it.
///
/// # Errors
/// When it cannot be read.
pub fn proof<C: Content>(file: &C) -> Result<Option<&'static str>, C::Error> {
    let head = probe(file, 0)?;
    let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(match std::str::from_utf8(first).unwrap_or_default() {
        turn_proof::FIRST_LINE => Some("a proof of a turn"),
        observed_proof::FIRST_LINE => Some("a proof of observed lines"),
        copy::FIRST_LINE => Some("a copy with lines left out"),
        turn_proof::conflict::FIRST_LINE => Some("a conflict of seals"),
        conflict::FIRST_LINE => Some("a conflict of checkpoints"),
        FORK_FIRST_LINE => Some("a fork of a lineage"),
        _ if memmem::find(first, TOMBSTONE).is_some() => Some("a tombstone"),
        _ => None,
    })
}

/// What else that is no record a file is, and the command that takes it.
///
/// # Errors
/// When it cannot be read.
pub fn other<C: Content>(file: &C) -> Result<Option<(&'static str, &'static str)>, C::Error> {
    if let Some(what) = proof(file)? {
        return Ok(Some((what, "check-proof")));
    }
    let head = probe(file, 0)?;
    let found = OTHERS.iter().find(|(begin, ..)| head.starts_with(begin));
    Ok(found.map(|(_, what, command)| (*what, *command)))
}

/// Is the file made of lines, to which a program adds more? An archive, a database, other bytes with
/// a NUL at the beginning, and one JSON value over several lines are not: their last line is not
/// ended, and a line alone means nothing.
///
/// # Errors
/// When it cannot be read.
pub fn is_of_lines<C: Content>(file: &C) -> Result<bool, C::Error> {
    let head = probe(file, 0)?;
    if head.contains(&0) || NOT_LINES.iter().any(|magic| head.starts_with(magic)) {
        return Ok(false);
    }
    let begin = head.trim_ascii_start();
    if !matches!(begin.first(), Some(b'{' | b'[')) || file.size() > MAX_WHOLE_JSON_BYTES as u64 {
        return Ok(true);
    }
    // The first line of a log is a value of its own, so that the rest need not be read.
    let first = begin.split(|byte| *byte == b'\n').next();
    if first.is_some_and(|line| serde_json::from_slice::<IgnoredAny>(line).is_ok()) {
        return Ok(true);
    }
    let whole = file.whole(MAX_WHOLE_JSON_BYTES)?;
    let one = whole.trim_ascii();
    let is_one_value = one.contains(&b'\n') && serde_json::from_slice::<IgnoredAny>(one).is_ok();
    Ok(!is_one_value)
}

/// Is it a copy of a record with lines left out: no record, though it holds lines and seals of one?
///
/// # Errors
/// When it cannot be read.
pub fn is_copy<C: Content>(file: &C) -> Result<bool, C::Error> {
    Ok(probe(file, 0)?.starts_with(copy::FIRST_LINE.as_bytes()))
}

/// Is it an exported page, which holds records inside (`spec/page.md`), and is not called a log?
///
/// # Errors
/// When it cannot be read.
pub fn is_page<C: Content>(file: &C) -> Result<bool, C::Error> {
    let head = probe(file, 0)?;
    let first = head.get(..PAGE_HEAD).unwrap_or(&head);
    let begins = first.get(..DOCTYPE.len());
    let begins = begins.is_some_and(|begin| begin.eq_ignore_ascii_case(DOCTYPE));
    let is_log = ending(file.path()) == "jsonl" || file.is_sealed();
    Ok(begins && !is_log && memmem::find(first, PAGE_MARK).is_some())
}

/// Looks at the file; `None` when it is no record.
///
/// # Errors
/// When it cannot be read, or a line of a log without seals is too long.
pub fn kind<C: Content>(file: &C) -> Result<Option<Kind>, C::Error> {
    Ok(match by_content(file)? {
        // A name counts where nothing else does: a link that was overwritten is still missed.
        None if is_named_checkpoint(file.path()) && !is_of_other_program(file)? => {
            Some(Kind::Checkpoint)
        }
        found => found,
    })
}

fn by_content<C: Content>(file: &C) -> Result<Option<Kind>, C::Error> {
    let path = file.path();
    if is_page(file)? {
        return Ok(None);
    }
    if is_checkpoint(file)? {
        return Ok(Some(Kind::Checkpoint));
    }
    if let Some(container) = scroll(file)? {
        return Ok(Some(Kind::Scroll(container)));
    }
    let head = probe(file, 0)?;
    if ending(path) == "jsonl" {
        let found = log_or_transcript(file)?;
        if found == Kind::Log && (is_ledger(file)? || is_empty_ledger(path, &head)) {
            return Ok(Some(Kind::Ledger(LedgerShape::Lines)));
        }
        return Ok(Some(found));
    }
    if Bundle::looks_like(&head) {
        return Ok(Some(Kind::Ledger(LedgerShape::Bundle)));
    }
    // What is called a transcript has no such excuse.
    if is_copy(file)? {
        return Ok(None);
    }
    if is_sqlite(&head) {
        return Ok(file
            .holds_records(&SCHEMA_MARKS)?
            .then_some(Kind::Ledger(LedgerShape::Sqlite)));
    }
    if path.extension().is_some_and(|ending| ending == "index") && head.starts_with(INDEX_MAGIC) {
        return Ok(Some(Kind::LedgerIndex));
    }
    if path.extension().is_some_and(|ending| ending == "head") && is_ledger_head(&head) {
        return Ok(Some(Kind::LedgerHead));
    }
    if path.extension().is_some_and(|ending| ending == "seal") && is_seal_file(&head) {
        return Ok(Some(Kind::Sidecar));
    }
    let tail = probe(file, file.size().saturating_sub(PROBE_BYTES))?;
    if talks_of_checkpoints(&head) || talks_of_checkpoints(&tail) || is_object(&head) {
        match log_or_transcript(file) {
            Ok(Kind::Log) if is_ledger(file)? => {
                return Ok(Some(Kind::Ledger(LedgerShape::Lines)));
            }
            Ok(Kind::Log) | Err(_) => {}
            found => return found.map(Some),
        }
    }
    let name = path.to_string_lossy();
    let object = is_object(&head);
    match DocumentKind::of_name(&name) {
        Some(DocumentKind::Json) if !object && !has_signature(&head) && !has_signature(&tail) => {
            Ok(None)
        }
        Some(kind) => Ok(Some(Kind::Document(kind))),
        None if has_signature(&head) || has_signature(&tail) || claims_between(file)? => {
            by_signature(file)
        }
        None => Ok(None),
    }
}

/// Is the file a checkpoint, whatever it is called? Before v0x05 the format has no magic: what begins with
/// one of its bytes is one where its numbers are small and its code hash looks like a hash, where the
/// signature holds, or where it is called one.
///
/// # Errors
/// When it cannot be read.
pub fn is_checkpoint<C: Content>(file: &C) -> Result<bool, C::Error> {
    let head = probe(file, 0)?;
    match head.first() {
        None | Some(2..=5) if is_named_checkpoint(file.path()) => return Ok(true),
        Some(2..=5) => {}
        _ => return Ok(head.starts_with(HEAD_MAGIC)),
    }
    match CheckpointHeader::parse(&head) {
        Ok(header) if header.version == Version::V5 || is_plausible(&header) => Ok(true),
        Ok(header) if header.version == Version::V4 => has_signature_of_original(file, &header),
        Ok(_) => Ok(false),
        Err(HeaderError::Unsupported(_)) => Ok(false),
        // After the magic of v0x05 there is nothing else.
        Err(_) => Ok(head.starts_with(&[5])),
    }
}

/// Does a file that is called a checkpoint have the content of one of another program: an archive or
/// a pickled object, as some programs save models, or HDF5?
fn is_of_other_program<C: Content>(file: &C) -> Result<bool, C::Error> {
    let head = probe(file, 0)?;
    Ok(match head.as_slice() {
        [0x80, protocol, ..] => (2..=5).contains(protocol),
        head => head.starts_with(b"PK\x03\x04") || head.starts_with(b"\x89HDF\r\n"),
    })
}

/// Is the file called as checkpoints are?
pub fn is_named_checkpoint(path: &Path) -> bool {
    matches!(ending(path).as_str(), "ckpt" | "checkpoint")
}

fn is_plausible(header: &CheckpointHeader) -> bool {
    let counts = [header.tick, header.epoch.major, header.epoch.generation];
    let amounts = [header.budget, header.price];
    let bytes: BTreeSet<&u8> = header.code.as_bytes().iter().collect();
    counts.iter().all(|count| count >> 56 == 0)
        && amounts.iter().all(|amount| amount >> 56 == 0)
        && header.lease_expiry >= 0
        && bytes.len() >= LEAST_HASH_BYTES
}

/// Fewer different bytes no SHA-256 digest has that was ever seen.
const LEAST_HASH_BYTES: usize = 16;

fn has_signature_of_original<C: Content>(
    file: &C,
    header: &CheckpointHeader,
) -> Result<bool, C::Error> {
    let (Some(Ok(_)), Ok(mut verifier)) = (header.signer_key(), OriginalVerifier::new(header))
    else {
        return Ok(false);
    };
    let begin = header.version.header_length() as u64;
    file.read(begin, file.size(), &mut |chunk| {
        verifier.update(chunk);
        ControlFlow::Continue(())
    })?;
    Ok(verifier.finish().0.is_ok())
}

/// Lines that are looked at for a record of a ledger.
const PROBED_LINES: u64 = 64;
/// Names of members that every step record has.
const STEP_MEMBERS: [&[u8]; 4] = [b"\"run_id\"", b"\"step_id\"", b"\"node_id\"", b"\"status\""];
/// What every SQLite file begins with (<https://www.sqlite.org/fileformat.html>, §1.3).
const SQLITE_HEADER: &[u8] = b"SQLite format 3\0";
/// What every index of a ledger begins with.
const INDEX_MAGIC: &[u8] = b"threadseal.ledger.index/1\n";

/// Is one of the first lines a step record? In a string of another log these names have a
/// backslash before their closing quote.
fn is_ledger<C: Content>(file: &C) -> Result<bool, C::Error> {
    let (mut cutter, mut steps) = (LineCutter::new(), StepLook::default());
    file.read(0, file.size(), &mut |chunk| {
        cutter.push(chunk, &mut |line| steps.line(line));
        match steps.is_decided() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    cutter.finish(&mut |line| steps.line(line));
    Ok(steps.found)
}

/// Looks for a record of a ledger among the first lines.
#[derive(Debug, Clone, Copy, Default)]
struct StepLook {
    lines: u64,
    found: bool,
}

impl StepLook {
    fn line(&mut self, line: Line<'_>) {
        if self.lines < PROBED_LINES {
            let has = |name: &&[u8]| memmem::find(line.bytes, name).is_some();
            self.found |= STEP_MEMBERS.iter().all(has);
        }
        self.lines = line.number;
    }

    fn is_decided(self) -> bool {
        self.found || self.lines >= PROBED_LINES
    }
}

/// The offset of the three fractions in that file's header, which have no other values.
const FRACTIONS_AT: usize = 21;
const FRACTIONS: [u8; 3] = [64, 32, 32];
/// The offset of the kind of the first page, which has the schema, and the kinds that it may be.
const FIRST_PAGE_AT: usize = 100;
const SCHEMA_PAGES: [u8; 2] = [0x05, 0x0d];
/// Texts in the schemas of ledgers and lineages.
const SCHEMA_MARKS: [&[u8]; 3] = [b"record_json", b"threadseal_heads", b"threadseal_objects"];

/// Is it an SQLite file? One with a spoilt magic counts where its schema is one of ours.
fn is_sqlite(head: &[u8]) -> bool {
    let fractions = head.get(FRACTIONS_AT..).unwrap_or_default();
    let page = head.get(FIRST_PAGE_AT);
    let says = |mark: &&[u8]| memmem::find(head, mark).is_some();
    head.starts_with(SQLITE_HEADER)
        || (fractions.starts_with(&FRACTIONS)
            && page.is_some_and(|kind| SCHEMA_PAGES.contains(kind))
            && SCHEMA_MARKS.iter().any(says))
}

/// A ledger that was emptied is known by its name only.
fn is_empty_ledger(path: &Path, head: &[u8]) -> bool {
    let name = path.file_name().unwrap_or_default();
    head.trim_ascii().is_empty() && name.to_string_lossy().starts_with("ledger_")
}

fn is_ledger_head(head: &[u8]) -> bool {
    head.is_empty() || head.starts_with(HEAD_ORIGIN.as_bytes())
}

/// How ledgers are stored in a file that should hold some.
///
/// # Errors
/// When it cannot be read.
pub fn ledger_shape<C: Content>(file: &C) -> Result<LedgerShape, C::Error> {
    let head = probe(file, 0)?;
    Ok(if is_sqlite(&head) {
        LedgerShape::Sqlite
    } else if Bundle::looks_like(&head) {
        LedgerShape::Bundle
    } else {
        LedgerShape::Lines
    })
}

/// Turns that are looked at where the first cannot be read.
const PROBED_TURNS: usize = 64;

/// How the turns of a scroll stand in the file, if it is one: most of its first turns that can be read
/// decide, or one that has all marks, however much of another kind was put around it.
fn scroll<C: Content>(file: &C) -> Result<Option<Container>, C::Error> {
    Ok(probe_turns(file)?.0)
}

/// The container of a scroll, if it is one; and whether more bytes at the end would change nothing.
fn probe_turns<C: Content>(file: &C) -> Result<(Option<Container>, bool), C::Error> {
    let mut first = Vec::new();
    file.read(0, FIRST as u64, &mut |chunk| {
        first.extend_from_slice(chunk);
        ControlFlow::Continue(())
    })?;
    let head = beginning(&first);
    let container = match first_byte(&first) {
        Some(b'[' | b'{' | 0xa0..=0xbb) => container_of(&first),
        _ => {
            let is_decided = first.len() == FIRST;
            return Ok((spoilt_scroll(file.path(), head), is_decided));
        }
    };
    let mut splitter = Splitter::new(container);
    let (mut seen, mut turns, mut others, mut read) = (0, 0, 0, 0);
    let mut has_whole = false;
    let mut each = |piece: &[u8], _: Place| {
        if seen < PROBED_TURNS {
            match marks(piece, container) {
                Some(Marks::None) => others += 1,
                Some(found) => {
                    turns += 1;
                    has_whole |= found == Marks::All;
                }
                None => {}
            }
        }
        seen += 1;
        seen >= PROBED_TURNS
    };
    let mut is_decided = false;
    file.read(0, file.size(), &mut |chunk| {
        // Small pieces: a chunk may be the whole file.
        for piece in chunk.chunks(FIRST) {
            read += piece.len();
            splitter.push(piece, &mut |turn, place| is_decided |= each(turn, place));
            is_decided |= read > MAX_TURN_BYTES;
            if is_decided {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    if !is_decided {
        splitter.finish(&mut |turn, place| {
            each(turn, place);
        });
    }
    if has_whole || (turns > 0 && turns >= others) {
        return Ok((Some(container), is_decided));
    }
    // A changed length makes other pieces of a sequence.
    let may_be_spoilt = turns + others == 0 || container == Container::Sequence;
    let spoilt = spoilt_scroll(file.path(), head).filter(|_| may_be_spoilt);
    Ok((spoilt, is_decided))
}

/// The container that a scroll was before its beginning was spoilt: no member of another file is
/// spelled so, and only its name, or bytes that no text has, distinguish it from a text that quotes
/// one.
fn spoilt_scroll(path: &Path, head: &[u8]) -> Option<Container> {
    let says = |mark: &&&[u8]| memmem::find(head, mark).is_some();
    let begins = matches!(first_byte(head), Some(b'[' | b'{' | 0xa0..=0xbb));
    let named = matches!(ending(path).as_str(), "json" | "jsonl" | "cbor" | "scroll");
    let bare = head.starts_with(BYTE_ORDER_MARK);
    if has_marks_of_cbor(head) {
        return Some(Container::Sequence);
    }
    if begins_as_written(head) {
        return Some(container_of(head));
    }
    let marked = SCROLL_MARKS.iter().any(|mark| says(&mark))
        || JSON_MARKS.iter().filter(says).count() >= LEAST_MARKS;
    ((begins || named || bare) && marked).then(|| container_of(head))
}

/// Is it the beginning of a canonical turn, with its hash first? Little may be left of a scroll that
/// was cut.
fn begins_as_written(head: &[u8]) -> bool {
    let text = head.trim_ascii_start();
    let text = text.strip_prefix(b"[").unwrap_or(text).trim_ascii_start();
    let Some(hash) = text.strip_prefix(TURN_START) else {
        return false;
    };
    let digits = hash.iter().take(64);
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let rest = hash.get(64..).unwrap_or_default();
    let length = rest.len().min(AFTER_HASH.len());
    digits.clone().all(is_hex) && rest.get(..length) == AFTER_HASH.get(..length)
}

/// How turns would stand in this file.
///
/// # Errors
/// When it cannot be read.
pub fn container<C: Content>(file: &C) -> Result<Container, C::Error> {
    Ok(container_of(&probe(file, 0)?))
}

/// The first byte that recognises a format; here a form feed is a blank, too.
fn first_byte(head: &[u8]) -> Option<u8> {
    head.trim_ascii_start().first().copied()
}

/// How far a piece is marked as a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marks {
    None,
    /// The version, or most members.
    Some,
    /// Both.
    All,
}

/// How far a piece is marked as a turn; `None` when it cannot be read. One changed byte takes away at
/// most one of its marks.
fn marks(piece: &[u8], container: Container) -> Option<Marks> {
    let (mut has_version, mut members) = (false, 0);
    if container == Container::Sequence {
        let value = cbor::parse(piece).ok()?;
        has_version = value.get("version").and_then(Value::as_str) == Some(VERSION);
        let has = |name: &&str| value.get(name).is_some();
        members = TURN_MEMBERS.iter().filter(|name| has(name)).count();
    } else {
        json::scan_object(piece, |key, span| {
            let value = piece.get(span).unwrap_or_default();
            has_version |= key.is("version") && value == b"\"scroll/0.1\"";
            members += usize::from(TURN_MEMBERS.iter().any(|name| key.is(name)));
        })
        .ok()?;
    }
    Some(match (has_version, members >= LEAST_MEMBERS) {
        (true, true) => Marks::All,
        (false, false) => Marks::None,
        _ => Marks::Some,
    })
}

/// What a file that has no telling name claims to be by the signature in it.
fn by_signature<C: Content>(file: &C) -> Result<Option<Kind>, C::Error> {
    let bytes = file.whole(MAX_DOCUMENT_BYTES)?;
    Ok(DocumentKind::detect("", &bytes).map(Kind::Document))
}

/// Does anything between the two ends claim to be a native seal? Enough bytes after a seal
/// move it out of both; the whole file is read, and never held.
fn claims_between<C: Content>(file: &C) -> Result<bool, C::Error> {
    if file.size() <= 2 * PROBE_BYTES {
        return Ok(false);
    }
    holds_any(file, &CLAIMS)
}

/// Does the seal of a native transcript stand anywhere in the file?
///
/// # Errors
/// When it cannot be read.
pub fn has_native_seal<C: Content>(file: &C) -> Result<bool, C::Error> {
    holds_any(file, &[NATIVE_NOTE])
}

/// Is one of `texts` anywhere in the file?
///
/// # Errors
/// When it cannot be read.
pub fn holds_any<C: Content>(file: &C, texts: &[&[u8]]) -> Result<bool, C::Error> {
    let longest = texts.iter().map(|text| text.len()).max().unwrap_or(1);
    let finders: Vec<_> = texts.iter().map(memmem::Finder::new).collect();
    let has = |bytes: &[u8]| finders.iter().any(|finder| finder.find(bytes).is_some());
    let (mut window, mut found) = (Vec::new(), false);
    file.read(0, file.size(), &mut |chunk| {
        // A text may lie across two chunks.
        window.extend_from_slice(&chunk[..chunk.len().min(longest)]);
        found = has(&window) || has(chunk);
        if found {
            return ControlFlow::Break(());
        }
        window.extend_from_slice(&chunk[chunk.len().min(longest)..]);
        let kept = window.len().saturating_sub(longest - 1);
        window.drain(..kept);
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// Does the file begin with the header of a seal file, or with nothing at all?
fn is_seal_file(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    line.is_empty() || line.starts_with(SEAL_HEADER) || is_beside(line)
}

/// Might this be a piece of a transcript, whatever the file is called?
fn talks_of_checkpoints(bytes: &[u8]) -> bool {
    memmem::find(bytes, NATIVE_NOTE).is_some()
        || (memmem::find(bytes, b"\"event_type\"").is_some()
            && memmem::find(bytes, b"\"checkpoint\"").is_some())
}

/// As much of it as of the ends of a file is looked at.
fn beginning(bytes: &[u8]) -> &[u8] {
    let most = usize::try_from(PROBE_BYTES).unwrap_or(usize::MAX);
    bytes.get(..most).unwrap_or(bytes)
}

fn probe<C: Content>(file: &C, from: u64) -> Result<Vec<u8>, C::Error> {
    let mut bytes = Vec::new();
    file.read(from, from.saturating_add(PROBE_BYTES), &mut |chunk| {
        bytes.extend_from_slice(chunk);
        ControlFlow::Continue(())
    })?;
    Ok(bytes)
}

fn ending(path: &Path) -> String {
    let ending = path.extension().unwrap_or_default();
    ending.to_string_lossy().to_ascii_lowercase()
}

fn is_object(head: &[u8]) -> bool {
    let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    head.trim_ascii_start().starts_with(b"{")
}

fn has_signature(bytes: &[u8]) -> bool {
    let found = |signature: &&[u8]| memmem::find(bytes, signature).is_some();
    SIGNATURES.iter().any(found)
}

/// May a text have, or have had, a signature? Also where an escape spells a part of its mark.
pub fn may_have_signature(bytes: &[u8]) -> bool {
    let named = |name: &[u8]| memmem::find(bytes, name).is_some();
    let letter = |digits: &[u8]| {
        let code = std::str::from_utf8(digits).ok();
        let code = code.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        code.is_some_and(|code| matches!(code, b'_' | b':') || code.is_ascii_alphabetic())
    };
    let mut escapes = memmem::find_iter(bytes, b"\\u00");
    let escaped = escapes.any(|at| bytes.get(at + 4..at + 6).is_some_and(letter));
    has_signature(bytes) || named(b"\"_threadseal\"") || named(b"\"_signature\"") || escaped
}

fn log_or_transcript<C: Content>(file: &C) -> Result<Kind, C::Error> {
    let mut look = LineLook::new(file.is_sealed());
    let mut too_long = None;
    file.read(0, file.size(), &mut |chunk| match look.push(chunk) {
        Ok(()) if look.is_decided() => ControlFlow::Break(()),
        Ok(()) => ControlFlow::Continue(()),
        Err(long) => {
            too_long = Some(long);
            ControlFlow::Break(())
        }
    })?;
    match too_long {
        Some(long) => Err(file.line_too_long(long)),
        None => look.finish().map_err(|long| file.line_too_long(long)),
    }
}

/// Looks at the lines of a file that is pushed: are they a native transcript, other events, or any log?
pub struct LineLook {
    cutter: LineCutter,
    seen: Seen,
    is_sealed: bool,
}

struct Seen {
    // An escape in the word would not be found, but then the word is not where anybody writes it.
    checkpoint: memmem::Finder<'static>,
    note: memmem::Finder<'static>,
    kind: Kind,
    steps: StepLook,
    /// The first line that no reader of a log without seals holds.
    refused: Option<LineTooLong>,
}

impl LineLook {
    /// A look at a file; `is_sealed` where seals are beside it.
    pub fn new(is_sealed: bool) -> Self {
        Self {
            cutter: LineCutter::new(),
            seen: Seen {
                checkpoint: memmem::Finder::new(b"checkpoint"),
                note: memmem::Finder::new(NATIVE_NOTE),
                kind: Kind::Log,
                steps: StepLook::default(),
                refused: None,
            },
            is_sealed,
        }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// At a line that no reader holds, unless a later pass reads it in pieces: because of the seals
    /// beside the file, or because it is an event log.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), LineTooLong> {
        if self.is_decided() {
            return Ok(());
        }
        let Self { cutter, seen, .. } = self;
        cutter.push(chunk, &mut |line| seen.line(line));
        if let Some(long) = cutter.too_long() {
            seen.refuse(long);
        }
        self.refused()
    }

    fn refused(&self) -> Result<(), LineTooLong> {
        match self.seen.refused {
            Some(long) if !self.is_sealed => Err(long),
            _ => Ok(()),
        }
    }

    /// Can no later line change the answer?
    pub fn is_decided(&self) -> bool {
        self.seen.kind == Kind::Native
    }

    /// Is one of the first lines a record of a ledger?
    pub fn has_steps(&self) -> bool {
        self.seen.steps.found
    }

    /// Ends the file: [`Kind::Native`], [`Kind::Events`] or [`Kind::Log`].
    ///
    /// # Errors
    /// As [`LineLook::push`].
    pub fn finish(mut self) -> Result<Kind, LineTooLong> {
        if !self.is_decided() {
            let (cutter, seen) = (std::mem::take(&mut self.cutter), &mut self.seen);
            cutter.finish(&mut |line| seen.line(line));
        }
        self.refused()?;
        Ok(self.seen.kind)
    }
}

impl Seen {
    fn line(&mut self, line: Line<'_>) {
        if self.kind == Kind::Native {
            return;
        }
        if line.is_long {
            self.refuse(LineTooLong {
                number: line.number,
            });
        }
        if !self.steps.is_decided() {
            self.steps.line(line);
        }
        if line.number == 1 {
            if rye::looks_native(line.bytes) {
                self.kind = Kind::Native;
                return;
            }
            if is_event(line.bytes, None) {
                self.kind = Kind::Events;
            }
        }
        let has_word = self.checkpoint.find(line.bytes).is_some();
        if has_word && is_event(line.bytes, Some("checkpoint")) {
            self.kind = match self.note.find(line.bytes) {
                Some(_) => Kind::Native,
                None => Kind::Events,
            };
        }
    }
}

impl Seen {
    fn refuse(&mut self, long: LineTooLong) {
        if self.kind == Kind::Log {
            self.refused.get_or_insert(long);
        }
    }
}

/// What the beginning of a file shows of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Early {
    /// No later byte can change this kind: a native transcript, or a scroll.
    Certain(Kind),
    /// It is neither; its lines decide.
    ByLines,
    /// More of the beginning has to be known.
    NotYet,
}

/// Looks at the beginning of a file.
///
/// # Errors
/// When it cannot be read.
pub fn early<C: Content>(beginning: &C) -> Result<Early, C::Error> {
    let is_checkpoint = matches!(probe(beginning, 0)?.first(), Some(2..=5));
    let (container, is_decided) = probe_turns(beginning)?;
    Ok(match (container, by_content(beginning)) {
        _ if is_checkpoint || !is_decided => Early::NotYet,
        (Some(container), _) => Early::Certain(Kind::Scroll(container)),
        (None, Ok(Some(Kind::Native))) => Early::Certain(Kind::Native),
        (None, _) => Early::ByLines,
    })
}

/// Does the beginning of a file, of this length, show in which container its records are?
pub fn shows_container(bytes: usize) -> bool {
    bytes >= FIRST
}

/// Which transcript it is, for a file that should be one.
///
/// # Errors
/// As [`kind`].
pub fn transcript<C: Content>(file: &C) -> Result<Kind, C::Error> {
    Ok(match log_or_transcript(file)? {
        Kind::Native => Kind::Native,
        _ => Kind::Events,
    })
}

/// Is the line an object with `event_type`: of this value if one is given, else with the other
/// members of an event? Many logs have an `event_type` of their own.
fn is_event(line: &[u8], wanted: Option<&str>) -> bool {
    let (mut found, mut members) = (false, 0);
    let read = json::scan_object(line, |key, span| {
        members += u8::from(key.is("thread_id")) + u8::from(key.is("payload"));
        if key.is("event_type") {
            let value = line.get(span).unwrap_or_default();
            found |= match wanted {
                None => value.starts_with(b"\""),
                Some(wanted) => serde_json::from_slice::<String>(value).is_ok_and(|v| v == wanted),
            };
        }
    });
    read.is_ok() && found && (wanted.is_some() || members == 2)
}
