//! Detached seals of logs that other programs write (`spec/transcript.md` §9).
//!
//! ```text
//! session.jsonl        the log, never touched
//! session.jsonl.seal   {"format":"threadseal-observed/2","kind":"observed","record":HEX,"key":HEX,"salted":HEX}
//!                      {"salts":[[LEVEL,NUMBER,HEX],…]}, statements of redactions     (see `seal_front`)
//!                      {"leaves":"<base64 of 32-byte leaf hashes>"} …
//!                      {"seal":{"seq","size","lines","root","sidecar","time","final","note"}}
//!                      {"format":"threadseal-observed/3","next":{"key","signature"}}   (see `handover`)
//! ```
//! Invariants: the log's bytes are hashed as stored and never re-serialised. A seal proves that
//! bytes existed, never which program wrote them. The seals of a file are made by the key of its
//! header, and after a line that names another key by that one. Only [`SealFile::walk`] gives the leaf of a line: in format 2 it has a salt.
//!
//! Not here: comparing a log with its seals (`log`), files (`threadseal-store`).

pub use super::handover::{NextKey, names_next};
pub use super::seal_front::{Header, Redaction, replacement};

use super::event::Cursor;
use super::handover;
use super::seal_front::{REDACTED_START, SignedRedaction, parse_salts, salts_line};
use super::statement::{LineNote, Statement};
use threadseal_core::digest::{Digest, Hasher};
use threadseal_core::encoding;
use threadseal_core::error::Error;
use threadseal_core::key::{KeyUsage, PublicKey, Signer};
use threadseal_core::limits::{
    MAX_LINE_BYTES, MAX_OBSERVED_LINES, MAX_OBSERVED_NEXT_KEYS, MAX_OBSERVED_REDACTIONS,
};
use threadseal_core::merkle::{Frontier, leaf_hash};
use threadseal_core::record::{Head, RecordId};
use threadseal_core::report::{Finding, FindingCode, Verdict};
use threadseal_core::salts::{Salts, Secret, Walk};
use threadseal_core::time::Timestamp;
use threadseal_core::tlog::entry::key_event::KeyEvent;

/// The text after the signature of a seal line.
const LINE_END: &[u8] = b"\\n\"}}";

/// The beginning of a line of leaf hashes.
pub const LEAVES_START: &[u8] = b"{\"leaves\":\"";

/// Leaf hashes on one line of a seal file.
const LEAVES_A_LINE: usize = 1024;

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
    /// The key that made it.
    pub key: PublicKey,
}

/// A seal file that was read and checked alone, without its log.
pub struct SealFile {
    /// The record.
    pub record: RecordId,
    /// The key of its first seal, by the header.
    pub key: PublicKey,
    /// The keys that took its place one after the other, as far as the last good seal covers it.
    pub next_keys: Vec<NextKey>,
    /// All good seals, in order.
    pub seals: Vec<ObservedSeal>,
    /// Leaf hashes of all lines under the last good seal.
    pub leaves: Vec<Digest>,
    /// Statements whose signatures hold, of lines that were replaced.
    pub redactions: Vec<Redaction>,
    /// Bytes of the seal file up to and including the last good seal.
    pub sealed_bytes: u64,
    /// The faults of the seal file.
    pub faults: Vec<(Verdict, Finding)>,
    header: Header,
    /// The salts of its lines, in format 2.
    salts: Option<Salts>,
    /// Bytes of the header, the salts and the statements.
    front_bytes: usize,
    state: State,
    /// Keys that the next seal is to name before it.
    to_name: Vec<NextKey>,
}

/// The state on which the next seal builds.
#[derive(Clone)]
struct State {
    tree: Frontier,
    sidecar: Hasher,
}

/// The leaves of consecutive lines of one record.
pub struct LeafWalk(Option<Walk>);

impl LeafWalk {
    /// The leaves from number `index` on, from 0, of lines with these salts or without any.
    pub fn new(salts: Option<&Salts>, index: u64) -> Self {
        Self(salts.map(|salts| salts.walk(index)))
    }

    /// The leaf of the next line, whose [`leaf_hash`] is `plain`. `None` if its salt was removed.
    pub fn next_leaf(&mut self, plain: &Digest) -> Option<Digest> {
        match &mut self.0 {
            None => Some(*plain),
            Some(walk) => walk.next_salt().map(|salt| salt.leaf(plain)),
        }
    }
}

/// Reads a seal file; `Err` is the finding when it has no header.
///
/// # Errors
/// The finding that explains why this is no seal file.
pub fn parse(bytes: &[u8]) -> Result<SealFile, Finding> {
    let end = memchr::memchr(b'\n', bytes).unwrap_or(bytes.len());
    let header = bytes
        .get(..end)
        .and_then(Header::parse)
        .filter(|_| end < bytes.len())
        .ok_or_else(|| {
            Finding::error(
                FindingCode::SealHeaderBad,
                "the seal file does not begin with its header",
            )
            .at_line(1)
        })?;
    let mut file = SealFile::empty(header, None, &bytes[..=end]);
    let mut reader = Reader::new(file.state.sidecar.clone(), end + 1, header.key);
    let mut statements = Vec::new();
    if header.is_salted() {
        match reader.front(bytes, &header) {
            Ok((salts, found)) => (file.salts, statements) = (Some(salts), found),
            Err((verdict, finding)) => {
                file.faults.push((verdict, finding.at_line(reader.line)));
                return Ok(file);
            }
        }
        file.front_bytes = reader.at;
        file.sealed_bytes = reader.at as u64;
    }
    while let Some(length) = memchr::memchr(b'\n', &bytes[reader.at..]) {
        let line = &bytes[reader.at..reader.at + length];
        if let Err((verdict, finding)) = reader.line(line, &mut file) {
            file.faults.push((verdict, finding.at_line(reader.line)));
            file.take(statements);
            return Ok(file);
        }
    }
    file.take(statements);
    if file.sealed_bytes < bytes.len() as u64 {
        let text = "the seal file ends in bytes that are not a seal: sealing was interrupted";
        file.faults.push((
            Verdict::UnsignedTail,
            Finding::warning(FindingCode::SealFileTorn, text),
        ));
    }
    Ok(file)
}

/// The part of a seal file that no seal covers, but for its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Front {
    /// Line 1.
    pub header: Header,
    /// The salts of the lines, in format 2.
    pub salts: Option<Salts>,
    /// Statements whose signatures hold. Whether their seals are there is not known.
    pub redactions: Vec<Redaction>,
    /// Bytes up to the first leaves.
    pub bytes: usize,
}

/// The front of a seal file; `None` if it has none that can be read.
pub fn front(bytes: &[u8]) -> Option<Front> {
    let end = memchr::memchr(b'\n', bytes)?;
    let header = Header::parse(&bytes[..end])?;
    let mut reader = Reader::new(Hasher::new(), end + 1, header.key);
    let (mut salts, mut redactions) = (None, Vec::new());
    if header.is_salted() {
        let (found, statements) = reader.front(bytes, &header).ok()?;
        salts = Some(found);
        let signed = statements
            .into_iter()
            .filter(|statement| statement.holds(&header));
        redactions.extend(signed.map(|statement| statement.redaction));
    }
    Some(Front {
        header,
        salts,
        redactions,
        bytes: reader.at,
    })
}

/// Reads a seal file that has no fault.
///
/// # Errors
/// Kind `Refused` with the first fault. An end that is no seal is none.
pub fn sound(bytes: &[u8]) -> Result<SealFile, Error> {
    let file = parse(bytes).map_err(|finding| Error::refused(finding.message))?;
    match file.fault() {
        Some(finding) => Err(Error::refused(finding.message.clone())),
        None => Ok(file),
    }
}

/// First and count of each run of these lines, which ascend.
pub fn runs_of<'a>(lines: impl IntoIterator<Item = &'a u64>) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for line in lines {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == *line => *count += 1,
            _ => runs.push((*line, 1)),
        }
    }
    runs
}

struct Reader {
    tree: Frontier,
    sidecar: Hasher,
    /// Leaves since the last seal.
    leaves: Vec<Digest>,
    /// The key that makes the next seal.
    key: PublicKey,
    /// Keys that were named since the last seal.
    next_keys: Vec<NextKey>,
    at: usize,
    line: u64,
}

type Fault = (Verdict, Finding);

impl Reader {
    /// Reads from the second line on, which begins at `at`; `key` makes the first seal.
    fn new(sidecar: Hasher, at: usize, key: PublicKey) -> Self {
        Self {
            tree: Frontier::new(),
            sidecar,
            leaves: Vec::new(),
            key,
            next_keys: Vec::new(),
            at,
            line: 1,
        }
    }

    /// The salts, and the statements after them.
    fn front(
        &mut self,
        bytes: &[u8],
        header: &Header,
    ) -> Result<(Salts, Vec<SignedRedaction>), Fault> {
        let next = |at: usize| {
            let rest = bytes.get(at..).unwrap_or_default();
            memchr::memchr(b'\n', rest).map(|length| &rest[..length])
        };
        self.line += 1;
        let line = next(self.at).unwrap_or_default();
        let salts = parse_salts(line, header).ok_or_else(|| {
            let text = "the salts of the lines are not those of the header: no line can be checked";
            let finding = Finding::error(FindingCode::SaltsBad, text);
            (Verdict::Malformed, finding)
        })?;
        self.at += line.len() + 1;
        let mut statements = Vec::new();
        while let Some(line) = next(self.at).filter(|line| line.starts_with(REDACTED_START)) {
            self.line += 1;
            let read = SignedRedaction::parse(line, header);
            let read = read.filter(|_| statements.len() < MAX_OBSERVED_REDACTIONS);
            statements.push(read.ok_or_else(|| bad_redaction("it has another form"))?);
            self.at += line.len() + 1;
        }
        Ok((salts, statements))
    }

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
        } else if names_next(line) {
            self.next_key(line, file)?;
        } else {
            let seal = self.seal(line, file)?;
            file.seals.push(seal);
            file.leaves.append(&mut self.leaves);
            file.next_keys.append(&mut self.next_keys);
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

    /// Takes a line that names the key of the next seals.
    fn next_key(&mut self, line: &[u8], file: &SealFile) -> Result<(), Fault> {
        let tampered = |code, text: &str| (Verdict::Tampered, Finding::error(code, text));
        let (key, signature) = handover::parse(line).ok_or_else(|| {
            let text = "the line that names the next key is not in its canonical form";
            tampered(FindingCode::SealMalformed, text)
        })?;
        let last = file.seals.last();
        let earlier = file.next_keys.iter().chain(&self.next_keys);
        let count = earlier.clone().count();
        let is_new = key != file.key && earlier.clone().all(|earlier| earlier.key != key);
        let follows_seal = last.is_some_and(|last| !last.is_final) && self.leaves.is_empty();
        if !follows_seal || !is_new || count >= MAX_OBSERVED_NEXT_KEYS {
            let text = "the line that names the next key does not match the part of the seal file before it";
            return Err(tampered(FindingCode::SealOrder, text));
        }
        let rotation = KeyEvent::rotation(KeyUsage::Observed, self.key, key, signature);
        let rotation = rotation.ok_or_else(|| {
            let text = "the key before did not sign the line that names the next key";
            let finding = Finding::error(FindingCode::SignatureBad, text);
            (Verdict::Forged, finding)
        })?;
        self.next_keys.push(NextKey {
            seq: file.seals.len() as u64,
            rotation,
            key,
        });
        self.key = key;
        Ok(())
    }

    fn seal(&self, line: &[u8], file: &SealFile) -> Result<ObservedSeal, Fault> {
        let tampered = |code, text: &str| (Verdict::Tampered, Finding::error(code, text));
        let parsed = parse_seal(line, &file.header).ok_or_else(|| {
            tampered(
                FindingCode::SealMalformed,
                "the seal line is not in its canonical form",
            )
        })?;
        let seal = ObservedSeal {
            key: self.key,
            ..parsed.seal
        };
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
        if !parsed.note.holds(&self.key) {
            let text = match self.key == file.key {
                true => "the signature of the seal does not verify under the key of the header",
                false => {
                    "the signature of the seal does not verify under the key that was named last"
                }
            };
            return Err((
                Verdict::Forged,
                Finding::error(FindingCode::SignatureBad, text),
            ));
        }
        Ok(seal)
    }
}

fn bad_redaction(why: &str) -> Fault {
    let text = format!("the statement of a redaction does not count: {why}");
    (
        Verdict::Tampered,
        Finding::error(FindingCode::RedactionBad, text),
    )
}

impl SealFile {
    /// A seal file with nothing but its header, whose bytes are `front`.
    fn empty(header: Header, salts: Option<Salts>, front: &[u8]) -> Self {
        let mut sidecar = Hasher::new();
        sidecar.update(front);
        Self {
            record: header.record,
            key: header.key,
            next_keys: Vec::new(),
            seals: Vec::new(),
            leaves: Vec::new(),
            redactions: Vec::new(),
            sealed_bytes: front.len() as u64,
            faults: Vec::new(),
            header,
            salts,
            front_bytes: front.len(),
            state: State {
                tree: Frontier::new(),
                sidecar,
            },
            to_name: Vec::new(),
        }
    }

    /// The key of the last good seal; without one that of the header.
    pub fn current_key(&self) -> &PublicKey {
        self.next_keys.last().map_or(&self.key, |next| &next.key)
    }

    /// Is it a key of this file?
    pub fn has_key(&self, key: &PublicKey) -> bool {
        *key == self.key || self.next_keys.iter().any(|next| next.key == *key)
    }

    /// Has the next seal name the keys that took the place of the current one, by these rotations.
    ///
    /// # Errors
    /// Kind `Key` when they do not lead from the current key to others that the file does not have,
    /// or there is no seal yet; `Limit` beyond a bound.
    pub fn hand_over(&mut self, rotations: &[KeyEvent]) -> Result<(), Error> {
        let seq = self.seals.len() as u64;
        for rotation in rotations {
            let before = self
                .to_name
                .last()
                .map_or(self.current_key(), |next| &next.key);
            let next = handover::next_of(rotation).filter(|next| {
                let is_named = self.to_name.iter().any(|named| named.key == *next);
                rotation.public() == before && !self.has_key(next) && !is_named
            });
            let key = next.filter(|_| seq > 0).ok_or_else(|| {
                Error::key("the rotation of the key does not continue this seal file")
            })?;
            if self.next_keys.len() + self.to_name.len() >= MAX_OBSERVED_NEXT_KEYS {
                let text = format!("a seal file names at most {MAX_OBSERVED_NEXT_KEYS} next keys");
                return Err(Error::new(threadseal_core::error::ErrorKind::Limit, text));
            }
            self.to_name.push(NextKey {
                seq,
                rotation: rotation.clone(),
                key,
            });
        }
        Ok(())
    }

    /// Bytes of the lines that name the keys of [`Self::hand_over`].
    pub fn naming_bytes(&self) -> u64 {
        let lines = self.to_name.iter();
        let lines = lines.map(|next| handover::line_of(&next.rotation, &next.key));
        lines.map(|line| line.len() as u64 + 1).sum()
    }

    /// Takes the statements that hold: each names a seal of this file, and lines under it.
    fn take(&mut self, statements: Vec<SignedRedaction>) {
        for statement in statements {
            let by = statement.key.unwrap_or(self.key);
            let why = if !self.has_key(&by) {
                "it is by a key that the seal file does not name"
            } else if !statement.holds(&self.header) {
                "its signature does not verify"
            } else if !self.covers(&statement.redaction) {
                "no seal of this file is the one that it names, or covers its lines"
            } else {
                self.redactions.push(statement.redaction);
                continue;
            };
            self.faults.push(bad_redaction(why));
        }
    }

    fn covers(&self, redaction: &Redaction) -> bool {
        let seal = self.seals.iter().find(|seal| seal.head == redaction.head);
        seal.is_some_and(|seal| redaction.end() <= seal.lines + 1)
    }

    /// The first fault, if a part of the file is lost. An end that is no seal is none.
    pub(super) fn fault(&self) -> Option<&Finding> {
        let is_fault = |(verdict, _): &&Fault| *verdict != Verdict::UnsignedTail;
        self.faults
            .iter()
            .find(is_fault)
            .map(|(_, finding)| finding)
    }

    /// The salts of its lines; `None` in format 1.
    pub fn salts(&self) -> Option<&Salts> {
        self.salts.as_ref()
    }

    /// The secret of all salts, if none was removed.
    pub fn salt_root(&self) -> Option<Secret> {
        self.salts.as_ref()?.root().copied()
    }

    /// The leaves of the lines from number `index` on, from 0.
    pub fn walk(&self, index: usize) -> LeafWalk {
        LeafWalk::new(self.salts.as_ref(), index as u64)
    }

    /// Is the line with this [`leaf_hash`] the sealed one of number `index`, from 0, or the one in
    /// its place after a redaction?
    pub fn is_sealed(&self, index: usize, plain: &Digest) -> bool {
        let leaf = self.walk(index).next_leaf(plain);
        let sealed = self.leaves.get(index);
        sealed.is_some() && (leaf.as_ref() == sealed || self.is_replaced(index, plain))
    }

    /// Is this the line that a redaction put in the place of number `index`, from 0? A log that its
    /// program wrote cannot have it: the line has the hash of its sealed content in it.
    pub fn is_replaced(&self, index: usize, plain: &Digest) -> bool {
        let Some(leaf) = self.leaves.get(index) else {
            return false;
        };
        let number = index as u64 + 1;
        self.is_redacted(number) && leaf_hash(&replacement(number, leaf)) == *plain
    }

    /// Does a statement name this line, from 1?
    pub fn is_redacted(&self, number: u64) -> bool {
        self.redactions
            .iter()
            .any(|redaction| redaction.names(number))
    }

    /// The head of the first seal over this line, from 1.
    pub fn first_over(&self, number: u64) -> Option<Head> {
        let at = self.seals.partition_point(|seal| seal.lines < number);
        self.seals.get(at).map(|seal| seal.head)
    }

    /// The last good seal.
    pub fn last(&self) -> Option<&ObservedSeal> {
        self.seals.last()
    }

    /// Appends to `out` the leaves of new lines and a seal over all lines so far. `new_lines` has the
    /// [`leaf_hash`] of each new line.
    ///
    /// # Errors
    /// Kind `Refused` when the seal file has faults, has ended, or the log shrank, or a salt is gone. Kind `Key` when
    /// `signer` is not the current key, or the last one of [`Self::hand_over`].
    pub fn seal(
        &mut self,
        new_lines: &[Digest],
        size: u64,
        is_final: bool,
        time: Timestamp,
        signer: &dyn Signer,
        out: &mut Vec<u8>,
    ) -> Result<ObservedSeal, Error> {
        let last = self.seals.last();
        if self.fault().is_some() || last.is_some_and(|last| last.is_final || last.head.size > size)
        {
            return Err(Error::refused(
                "the seal file does not allow another seal; hint: verify it",
            ));
        }
        let by = self
            .to_name
            .last()
            .map_or(self.current_key(), |next| &next.key);
        if signer.public_key() != by {
            return Err(Error::key(
                "another key made the seals of this log; hint: seal with that key, or --restart begins a new record",
            ));
        }
        if self.leaves.len() + new_lines.len() > MAX_OBSERVED_LINES {
            return Err(Error::new(
                threadseal_core::error::ErrorKind::Limit,
                format!("a seal file covers at most {MAX_OBSERVED_LINES} lines"),
            ));
        }
        let mut walk = self.walk(self.leaves.len());
        let salted = new_lines.iter().map(|plain| walk.next_leaf(plain));
        let new_leaves = salted.collect::<Option<Vec<Digest>>>();
        let new_leaves = new_leaves.ok_or_else(|| {
            Error::refused("the salts of the new lines are not in the seal file; hint: verify it")
        })?;
        let start = out.len();
        let mut state = self.state.clone();
        for next in &self.to_name {
            let line = handover::line_of(&next.rotation, &next.key);
            out.extend_from_slice(line.as_bytes());
            out.push(b'\n');
        }
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
            header: &self.header,
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
            key: *signer.public_key(),
        };
        state.sidecar.update(&line);
        state.sidecar.update(b"\n");
        out.extend_from_slice(&line);
        out.push(b'\n');
        self.sealed_bytes += (out.len() - start) as u64;
        self.state = state;
        self.leaves.extend_from_slice(&new_leaves);
        self.next_keys.append(&mut self.to_name);
        self.seals.push(seal);
        self.faults.clear();
        Ok(seal)
    }
}

/// A new seal file without seals; `out` gets its front. The salts of its lines come from `root`, which
/// is secret and of this record alone; without it the file has format 1.
pub fn begin(
    record: RecordId,
    key: PublicKey,
    root: Option<Secret>,
    out: &mut Vec<u8>,
) -> SealFile {
    let header = Header::new(record, key, root.as_ref());
    let line = format!("{}\n", header.to_line());
    let salts = root.map(Salts::whole);
    out.extend_from_slice(line.as_bytes());
    let mut file = SealFile::empty(header, salts, line.as_bytes());
    if let Some(salts) = &file.salts {
        let line = format!("{}\n", salts_line(salts));
        out.extend_from_slice(line.as_bytes());
        file.front_bytes += line.len();
        file.sealed_bytes += line.len() as u64;
    }
    file
}

/// The seal file `bytes` after a redaction: with its statement, and without the salts of its lines.
///
/// # Errors
/// Kind `Refused` when the file has faults, its lines have no salts, or the statement is not one of
/// this file; `Limit` and `InvalidInput` beyond a bound; those of `signer`.
pub fn redact(bytes: &[u8], redaction: &Redaction, signer: &dyn Signer) -> Result<Vec<u8>, Error> {
    let refuse = |text: &str| Error::refused(format!("{text}; hint: verify it"));
    let file = sound(bytes)?;
    let Some(salts) = &file.salts else {
        let text = "the lines of this record have no salts: a redacted line could be guessed from its hash";
        return Err(Error::refused(text));
    };
    if !file.has_key(signer.public_key()) || !file.covers(redaction) {
        return Err(refuse("the redaction is not one of this seal file"));
    }
    if file.redactions.len() >= MAX_OBSERVED_REDACTIONS {
        let kind = threadseal_core::error::ErrorKind::Limit;
        let text = format!("a seal file has at most {MAX_OBSERVED_REDACTIONS} redactions");
        return Err(Error::new(kind, text));
    }
    let salts = salts.without(&redaction.lines());
    let salts = salts.ok_or_else(too_many_gaps)?;
    let statement = redaction.sign(&file.header, signer)?;
    let mut out = format!("{}\n{}\n", file.header.to_line(), salts_line(&salts)).into_bytes();
    // The statements before, after the old salts.
    let front = bytes.get(..file.front_bytes).unwrap_or_default();
    lines_of(front)
        .skip(2)
        .for_each(|line| out.extend_from_slice(line));
    out.extend_from_slice(&statement);
    out.extend_from_slice(bytes.get(file.front_bytes..).unwrap_or_default());
    Ok(out)
}

/// The seal file `newer` with the redactions of an earlier state of it, of which `earlier` has at
/// least the front.
///
/// # Errors
/// Kind `Refused` when they are not of one record, or a front cannot be read; `Limit` beyond a bound.
pub fn redact_again(earlier: &[u8], newer: &[u8]) -> Result<Vec<u8>, Error> {
    let foreign = || Error::refused("the seal files are not of one record, or have faults");
    let (before, now) = (front(earlier), front(newer));
    let (before, now) = before.zip(now).ok_or_else(foreign)?;
    let salts = now.salts.filter(|_| before.header == now.header);
    let gone: Vec<_> = before
        .redactions
        .iter()
        .flat_map(Redaction::lines)
        .collect();
    let salts = salts.ok_or_else(foreign)?.without(&gone);
    let salts = salts_line(&salts.ok_or_else(too_many_gaps)?);
    let (front, rest) = newer.split_at(now.bytes.min(newer.len()));
    let mut statements: Vec<&[u8]> = lines_of(front).skip(2).collect();
    for line in lines_of(earlier.get(..before.bytes).unwrap_or_default()).skip(2) {
        if !statements.contains(&line) {
            statements.push(line);
        }
    }
    let head = format!("{}\n{salts}\n", now.header.to_line());
    Ok([head.as_bytes(), &statements.concat(), rest].concat())
}

/// The lines of a log, whose seal file is `seals`, with replacements in the places of those that
/// statements name.
pub fn replace_redacted(log: &[u8], seals: &SealFile) -> Vec<u8> {
    let mut out = Vec::with_capacity(log.len());
    for (line, index) in lines_of(log).zip(0..) {
        let leaf = seals.leaves.get(index);
        match leaf.filter(|_| seals.is_redacted(index as u64 + 1)) {
            None => out.extend_from_slice(line),
            Some(leaf) => {
                out.extend_from_slice(&replacement(index as u64 + 1, leaf));
                out.extend(line.last().filter(|byte| **byte == b'\n'));
            }
        }
    }
    out
}

fn lines_of(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n')
}

fn too_many_gaps() -> Error {
    let kind = threadseal_core::error::ErrorKind::Limit;
    Error::new(kind, "the salts of the lines would have too many gaps")
}

/// A seal without the seal file that it is in.
pub(super) struct SealAlone {
    pub(super) header: Header,
    /// The keys that were named before it.
    pub(super) next_keys: Vec<NextKey>,
    pub(super) seal: ObservedSeal,
}

/// The seal in `line`, by the header of its seal file and the lines of it that name next keys. All
/// signatures hold. What else the seal file has before it is not checked.
pub(super) fn seal_alone(header: &[u8], next: &[String], line: &[u8]) -> Option<SealAlone> {
    let header = Header::parse(header)?;
    let parsed = parse_seal(line, &header)?;
    let (mut key, mut next_keys) = (header.key, Vec::new());
    for line in next {
        let (named, signature) = handover::parse(line.as_bytes())?;
        if named == header.key || next_keys.iter().any(|next: &NextKey| next.key == named) {
            return None;
        }
        let rotation = KeyEvent::rotation(KeyUsage::Observed, key, named, signature)?;
        next_keys.push(NextKey {
            seq: parsed.seal.head.seq,
            rotation,
            key: named,
        });
        key = named;
    }
    let seal = ObservedSeal { key, ..parsed.seal };
    parsed.note.holds(&key).then_some(SealAlone {
        header,
        next_keys,
        seal,
    })
}

/// The leaf hashes of a line of them, without its LF.
pub fn parse_leaves(line: &[u8]) -> Option<Vec<Digest>> {
    let text = line.strip_prefix(LEAVES_START)?.strip_suffix(b"\"}")?;
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

fn parse_seal(line: &[u8], header: &Header) -> Option<ParsedSeal> {
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
    let digest = header.line_digest(&line[..cursor.position()]);
    let note = cursor.rest().strip_suffix(LINE_END)?;
    let origin = header.origin()?;
    let note = Statement {
        origin: &origin,
        lines,
        root,
        line: digest,
    }
    .read(note)?;
    let head = Head {
        record: header.record,
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
            key: header.key,
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
    header: &'a Header,
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
    let origin = values.header.origin().ok_or_else(bad_name)?;
    let digest = values.header.line_digest(line.as_bytes());
    let note = Statement {
        origin: &origin,
        lines,
        root,
        line: digest,
    }
    .sign(signer)?;
    Ok([line.as_bytes(), note.as_bytes(), LINE_END].concat())
}

#[cfg(test)]
mod tests;
