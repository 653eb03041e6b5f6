//! Detached seals of logs that other programs write (`spec/transcript.md` §9).
//!
//! ```text
//! session.jsonl        the log, never touched
//! session.jsonl.seal   {"format":"threadseal-observed/1","kind":"observed","record":HEX,"key":HEX}
//!                      {"leaves":"<base64 of 32-byte leaf hashes>"} …
//!                      {"seal":{"seq","size","lines","root","sidecar","time","final","note"}}
//! ```
//! Invariants: the log's bytes are hashed as stored and never re-serialised. A seal proves that
//! bytes existed, never which program wrote them. Every seal of a file is made by the key of its
//! header.
//!
//! Not here: comparing a log with its seals (`log`), files (`threadseal-store`).

use super::event::Cursor;
use super::statement::{LineNote, Statement};
use threadseal_core::digest::{Digest, Hasher};
use threadseal_core::encoding;
use threadseal_core::error::Error;
use threadseal_core::key::{OBSERVED_DOMAIN, PublicKey, Signer};
use threadseal_core::limits::{MAX_LINE_BYTES, MAX_OBSERVED_LINES};
use threadseal_core::merkle::Frontier;
use threadseal_core::note::KeyName;
use threadseal_core::record::{Head, RecordId};
use threadseal_core::report::{Finding, FindingCode, Verdict};
use threadseal_core::time::Timestamp;

/// Tag of the line digest of a seal line.
pub const LINE_TAG: &str = "threadseal/1 observed line";

/// The text after the signature of a seal line.
const LINE_END: &[u8] = b"\\n\"}}";

/// Leaf hashes on one line of a seal file.
const LEAVES_A_LINE: usize = 1024;

const HEADER_START: &[u8] =
    b"{\"format\":\"threadseal-observed/1\",\"kind\":\"observed\",\"record\":\"";

/// One seal of an observed log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObservedSeal {
    /// The head of the seal: `size` counts bytes of the log.
    pub head: Head,
    /// Lines of the log that it covers.
    pub lines: u64,
    /// Root of the tree over them.
    pub root: Digest,
    /// When it was made, by its maker's claim.
    pub time: Timestamp,
    /// Is the log ended, so that it may not grow?
    pub is_final: bool,
}

/// A seal file that was read and checked alone, without its log.
pub struct SealFile {
    /// The record.
    pub record: RecordId,
    /// The key of all its seals.
    pub key: PublicKey,
    /// All good seals, in order.
    pub seals: Vec<ObservedSeal>,
    /// Leaf hashes of all lines under the last good seal.
    pub leaves: Vec<Digest>,
    /// Bytes of the seal file up to and including the last good seal.
    pub sealed_bytes: u64,
    /// The faults of the seal file.
    pub faults: Vec<(Verdict, Finding)>,
    state: State,
}

/// The state on which the next seal builds.
#[derive(Clone)]
struct State {
    tree: Frontier,
    sidecar: Hasher,
}

/// Reads a seal file; `Err` is the finding when it has no header.
///
/// # Errors
/// The finding that explains why this is no seal file.
pub fn parse(bytes: &[u8]) -> Result<SealFile, Finding> {
    let end = memchr::memchr(b'\n', bytes).unwrap_or(bytes.len());
    let (record, key) = bytes
        .get(..end)
        .and_then(parse_header)
        .filter(|_| end < bytes.len())
        .ok_or_else(|| {
            Finding::error(
                FindingCode::SealHeaderBad,
                "the seal file does not begin with its header",
            )
            .at_line(1)
        })?;
    let mut sidecar = Hasher::new();
    sidecar.update(&bytes[..=end]);
    let state = State {
        tree: Frontier::new(),
        sidecar: sidecar.clone(),
    };
    let mut file = SealFile {
        record,
        key,
        seals: Vec::new(),
        leaves: Vec::new(),
        sealed_bytes: end as u64 + 1,
        faults: Vec::new(),
        state,
    };
    let mut reader = Reader {
        tree: Frontier::new(),
        sidecar,
        leaves: Vec::new(),
        at: end + 1,
        line: 1,
    };
    while let Some(length) = memchr::memchr(b'\n', &bytes[reader.at..]) {
        let line = &bytes[reader.at..reader.at + length];
        if let Err((verdict, finding)) = reader.line(line, &mut file) {
            file.faults.push((verdict, finding.at_line(reader.line)));
            return Ok(file);
        }
    }
    if file.sealed_bytes < bytes.len() as u64 {
        let text = "the seal file ends in bytes that are not a seal: sealing was interrupted";
        file.faults.push((
            Verdict::UnsignedTail,
            Finding::warning(FindingCode::SealFileTorn, text),
        ));
    }
    Ok(file)
}

struct Reader {
    tree: Frontier,
    sidecar: Hasher,
    /// Leaves since the last seal.
    leaves: Vec<Digest>,
    at: usize,
    line: u64,
}

type Fault = (Verdict, Finding);

impl Reader {
    fn line(&mut self, line: &[u8], file: &mut SealFile) -> Result<(), Fault> {
        self.line += 1;
        let length = line.len() + 1;
        if let Some(leaves) = parse_leaves(line) {
            if file.leaves.len() + self.leaves.len() + leaves.len() > MAX_OBSERVED_LINES {
                let text = format!("more than {MAX_OBSERVED_LINES} lines under one seal file");
                return Err((
                    Verdict::Malformed,
                    Finding::error(FindingCode::TooManyLines, text),
                ));
            }
            for leaf in &leaves {
                self.tree.push_leaf(*leaf);
            }
            self.leaves.extend(leaves);
        } else {
            let seal = self.seal(line, file)?;
            file.seals.push(seal);
            file.leaves.append(&mut self.leaves);
            file.sealed_bytes = (self.at + length) as u64;
        }
        self.sidecar.update(line);
        self.sidecar.update(b"\n");
        self.at += length;
        if file.sealed_bytes == self.at as u64 {
            file.state = State {
                tree: self.tree.clone(),
                sidecar: self.sidecar.clone(),
            };
        }
        Ok(())
    }

    fn seal(&self, line: &[u8], file: &SealFile) -> Result<ObservedSeal, Fault> {
        let tampered = |code, text: &str| (Verdict::Tampered, Finding::error(code, text));
        let parsed = parse_seal(line, file).ok_or_else(|| {
            tampered(
                FindingCode::SealMalformed,
                "the seal line is not in its canonical form",
            )
        })?;
        let seal = parsed.seal;
        let last = file.seals.last();
        let in_order = seal.head.seq == file.seals.len() as u64
            && last.is_none_or(|last| last.head.size <= seal.head.size && !last.is_final);
        if !in_order || parsed.sidecar != self.sidecar.digest_so_far() {
            return Err(tampered(
                FindingCode::SealOrder,
                "the seal does not match the part of the seal file before it",
            ));
        }
        if seal.lines != self.tree.size() || parsed.root != self.tree.root() {
            return Err(tampered(
                FindingCode::LeavesChanged,
                "the leaf hashes are not those that were sealed",
            ));
        }
        if !parsed.note.holds(&file.key) {
            let text = "the signature of the seal does not verify under the key of the header";
            return Err((
                Verdict::Forged,
                Finding::error(FindingCode::SignatureBad, text),
            ));
        }
        Ok(seal)
    }
}

impl SealFile {
    /// The last good seal.
    pub fn last(&self) -> Option<&ObservedSeal> {
        self.seals.last()
    }

    /// Appends to `out` the leaves of new lines and a seal over all lines so far.
    ///
    /// # Errors
    /// Kind `Refused` when the seal file has faults, has ended, or the log shrank. Kind `Key` when
    /// `signer` is not the key of the header.
    pub fn seal(
        &mut self,
        new_leaves: &[Digest],
        size: u64,
        is_final: bool,
        time: Timestamp,
        signer: &dyn Signer,
        out: &mut Vec<u8>,
    ) -> Result<ObservedSeal, Error> {
        let broken = self
            .faults
            .iter()
            .any(|(verdict, _)| *verdict != Verdict::UnsignedTail);
        let last = self.seals.last();
        if broken || last.is_some_and(|last| last.is_final || last.head.size > size) {
            return Err(Error::refused(
                "the seal file does not allow another seal; hint: verify it",
            ));
        }
        if *signer.public_key() != self.key {
            return Err(Error::key(
                "another key made the seals of this log; hint: seal with that key",
            ));
        }
        if self.leaves.len() + new_leaves.len() > MAX_OBSERVED_LINES {
            return Err(Error::new(
                threadseal_core::error::ErrorKind::Limit,
                format!("a seal file covers at most {MAX_OBSERVED_LINES} lines"),
            ));
        }
        let start = out.len();
        let mut state = self.state.clone();
        for leaves in new_leaves.chunks(LEAVES_A_LINE) {
            let bytes: Vec<u8> = leaves.iter().flat_map(|leaf| *leaf.as_bytes()).collect();
            out.extend_from_slice(
                format!("{{\"leaves\":\"{}\"}}\n", encoding::base64(&bytes)).as_bytes(),
            );
            leaves.iter().for_each(|leaf| state.tree.push_leaf(*leaf));
        }
        state.sidecar.update(&out[start..]);
        let seq = self.seals.len() as u64;
        let values = SealValues {
            seq,
            size,
            time,
            is_final,
            record: &self.record,
            state: &state,
        };
        let line = write_seal(&values, signer)?;
        let head = Head {
            record: self.record,
            seq,
            size,
            line: Digest::of(&line),
        };
        let seal = ObservedSeal {
            head,
            lines: state.tree.size(),
            root: state.tree.root(),
            time,
            is_final,
        };
        state.sidecar.update(&line);
        state.sidecar.update(b"\n");
        out.extend_from_slice(&line);
        out.push(b'\n');
        self.sealed_bytes += (out.len() - start) as u64;
        self.state = state;
        self.leaves.extend_from_slice(new_leaves);
        self.seals.push(seal);
        self.faults.clear();
        Ok(seal)
    }
}

/// A new seal file without seals; `out` gets its header.
pub fn begin(record: RecordId, key: PublicKey, out: &mut Vec<u8>) -> SealFile {
    let start = out.len();
    out.extend_from_slice(HEADER_START);
    out.extend_from_slice(format!("{record}\",\"key\":\"{}\"}}\n", key.to_hex()).as_bytes());
    let mut sidecar = Hasher::new();
    sidecar.update(&out[start..]);
    SealFile {
        record,
        key,
        seals: Vec::new(),
        leaves: Vec::new(),
        sealed_bytes: (out.len() - start) as u64,
        faults: Vec::new(),
        state: State {
            tree: Frontier::new(),
            sidecar,
        },
    }
}

/// The record id in the header of a seal file.
pub fn parse_header(line: &[u8]) -> Option<(RecordId, PublicKey)> {
    let mut cursor = Cursor::new(line);
    cursor.expect(HEADER_START)?;
    let record = RecordId::parse_hex(cursor.text(64)?)?;
    cursor.expect(b"\",\"key\":\"")?;
    let key = PublicKey::from_hex(cursor.text(64)?).ok()?;
    cursor.expect(b"\"}")?;
    cursor.rest().is_empty().then_some((record, key))
}

/// The seal in `line` and its key, by the header of its seal file alone. Its signature holds. What
/// the seal file has before it is not checked.
pub fn seal_alone(header: &[u8], line: &[u8]) -> Option<(ObservedSeal, PublicKey)> {
    let (record, key) = parse_header(header)?;
    let parsed = parse_seal(line, &begin(record, key, &mut Vec::new()))?;
    parsed.note.holds(&key).then_some((parsed.seal, key))
}

fn parse_leaves(line: &[u8]) -> Option<Vec<Digest>> {
    let text = line.strip_prefix(b"{\"leaves\":\"")?.strip_suffix(b"\"}")?;
    let bytes = encoding::parse_base64(std::str::from_utf8(text).ok()?)?;
    let (leaves, rest) = bytes.as_chunks::<32>();
    let whole = rest.is_empty() && (1..=LEAVES_A_LINE).contains(&leaves.len());
    whole.then(|| leaves.iter().copied().map(Digest::from_bytes).collect())
}

struct ParsedSeal {
    seal: ObservedSeal,
    root: Digest,
    sidecar: Digest,
    note: LineNote,
}

fn parse_seal(line: &[u8], file: &SealFile) -> Option<ParsedSeal> {
    if line.len() > MAX_LINE_BYTES {
        return None;
    }
    let mut cursor = Cursor::new(line);
    cursor.expect(b"{\"seal\":{\"seq\":")?;
    let seq = cursor.number()?;
    cursor.expect(b",\"size\":")?;
    let size = cursor.number()?;
    cursor.expect(b",\"lines\":")?;
    let lines = cursor.number()?;
    cursor.expect(b",\"root\":\"")?;
    let root = Digest::parse_hex(cursor.text(64)?)?;
    cursor.expect(b"\",\"sidecar\":\"")?;
    let sidecar = Digest::parse_hex(cursor.text(64)?)?;
    cursor.expect(b"\",\"time\":")?;
    let time = std::str::from_utf8(cursor.until(b',')?).ok()?;
    let time = Timestamp::parse_epoch_text(time)?;
    cursor.expect(b",\"final\":")?;
    let is_final = cursor.expect(b"true").is_some();
    if !is_final {
        cursor.expect(b"false")?;
    }
    cursor.expect(b",\"note\":\"")?;
    let digest = Digest::tagged(LINE_TAG, &[&line[..cursor.position()]]);
    let note = cursor.rest().strip_suffix(LINE_END)?;
    let origin = origin(&file.record)?;
    let note = Statement {
        origin: &origin,
        lines,
        root,
        line: digest,
    }
    .read(note)?;
    let head = Head {
        record: file.record,
        seq,
        size,
        line: Digest::of(line),
    };
    Some(ParsedSeal {
        seal: ObservedSeal {
            head,
            lines,
            root,
            time,
            is_final,
        },
        root,
        sidecar,
        note,
    })
}

struct SealValues<'a> {
    seq: u64,
    size: u64,
    time: Timestamp,
    is_final: bool,
    record: &'a RecordId,
    state: &'a State,
}

fn write_seal(values: &SealValues<'_>, signer: &dyn Signer) -> Result<Vec<u8>, Error> {
    let (lines, root) = (values.state.tree.size(), values.state.tree.root());
    let line = format!(
        "{{\"seal\":{{\"seq\":{},\"size\":{},\"lines\":{lines},\"root\":\"{root}\",\"sidecar\":\"{}\",\"time\":{},\"final\":{},\"note\":\"",
        values.seq,
        values.size,
        values.state.sidecar.digest_so_far(),
        values.time.to_epoch_text(),
        values.is_final,
    );
    let bad_name = || Error::invalid("the record id cannot be a note name");
    let origin = origin(values.record).ok_or_else(bad_name)?;
    let digest = Digest::tagged(LINE_TAG, &[line.as_bytes()]);
    let note = Statement {
        origin: &origin,
        lines,
        root,
        line: digest,
    }
    .sign(signer)?;
    Ok([line.as_bytes(), note.as_bytes(), LINE_END].concat())
}

fn origin(record: &RecordId) -> Option<KeyName> {
    KeyName::parse(&format!("{OBSERVED_DOMAIN}1/{record}")).ok()
}
