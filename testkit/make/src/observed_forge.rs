//! Writes observed logs and their seal files from their values, as `spec/transcript.md` §9 has them.
//!
//! ```text
//! Log ─ line, unended ─► bytes of the log, a leaf
//!     └ leaves ─► a line of leaves        seal ─► Seal: every value as it should be ─ altered ─► signed
//!     └ redact ─► Statement: the same
//! ```
//! It refuses nothing, and shares no code with the product's writer, but for hashes, trees and
//! signatures.

use crate::forge::{Written, hex, signature};
use crate::list::Trusted;
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::key::{KeyUsage, LocalSigner, Message, PrivateKey, Signer as _};
use threadseal_core::merkle::{leaf_hash, root};

/// The first moment of the logs: 2026-02-17T19:26:45Z.
const BEGIN: u64 = 1_771_356_405;

/// The number of the key that every list of observed vectors trusts.
pub(crate) const OBSERVER: u8 = 3;

/// The root of the salts of every log of format 2.
const SECRET: [u8; 16] = [4; 16];

/// An observed key of this number.
pub(crate) fn observer(number: u8) -> LocalSigner {
    LocalSigner::new(PrivateKey::from_seed([number; 32]), KeyUsage::Observed)
}

/// A secret of the tree of salts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Secret {
    pub(crate) level: u32,
    pub(crate) number: u64,
    pub(crate) bytes: [u8; 16],
}

impl Secret {
    /// The root of the tree.
    pub(crate) fn root() -> Self {
        Self {
            level: 32,
            number: 0,
            bytes: SECRET,
        }
    }

    /// The two below it.
    pub(crate) fn halves(self) -> [Self; 2] {
        let digest = Digest::of(&[b"threadseal salts".as_slice(), &self.bytes].concat());
        let (left, right) = digest.as_bytes().split_at(16);
        let half = |number, bytes: &[u8]| Self {
            level: self.level.saturating_sub(1),
            number,
            bytes: bytes.try_into().expect("half of 32 bytes"),
        };
        [
            half(2 * self.number, left),
            half(2 * self.number + 1, right),
        ]
    }

    /// Those from which all salts follow but those of `lines`, which count from 0.
    fn without(self, lines: &[u64]) -> Vec<Self> {
        let inside = |line: &&u64| **line >> self.level == self.number;
        match lines.iter().find(inside) {
            None => vec![self],
            Some(_) if self.level == 0 => Vec::new(),
            Some(_) => {
                let halves = self.halves().into_iter();
                halves.flat_map(|half| half.without(lines)).collect()
            }
        }
    }
}

impl std::fmt::Display for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = encoding::hex(&self.bytes);
        write!(f, "[{},{},\"{bytes}\"]", self.level, self.number)
    }
}

/// The salt of line `number`, from 1.
pub(crate) fn salt(number: u64) -> [u8; 16] {
    let mut secret = Secret::root();
    while secret.level > 0 {
        let right = (number - 1) >> (secret.level - 1) & 1 == 1;
        secret = secret.halves()[usize::from(right)];
    }
    secret.bytes
}

/// The line of salts with these secrets.
pub(crate) fn salts(secrets: &[Secret]) -> String {
    let secrets: Vec<String> = secrets.iter().map(Secret::to_string).collect();
    format!("{{\"salts\":[{}]}}", secrets.join(","))
}

/// The leaf of line `number`, from 1.
pub(crate) fn leaf(format: u8, number: u64, line: &[u8]) -> Digest {
    let plain = leaf_hash(line);
    match format {
        1 => plain,
        _ => Digest::of(&[b"\0\n".as_slice(), &salt(number), plain.as_bytes()].concat()),
    }
}

/// A line of leaves.
pub(crate) fn leaves_line(leaves: &[Digest]) -> String {
    let bytes: Vec<u8> = leaves.iter().flat_map(|leaf| *leaf.as_bytes()).collect();
    format!("{{\"leaves\":\"{}\"}}", encoding::base64(&bytes))
}

/// The values of a seal, each as the file needs it until the caller alters it.
pub(crate) struct Seal {
    pub(crate) seq: u64,
    pub(crate) size: u64,
    pub(crate) lines: u64,
    pub(crate) root: Digest,
    pub(crate) sidecar: Digest,
    pub(crate) time: String,
    pub(crate) is_final: bool,
    /// The number of the key that signs.
    pub(crate) by: u8,
    /// The origin in the note and of its signature.
    pub(crate) origin: String,
    /// What the note states, where that differs from `lines` and `root`.
    pub(crate) noted: Option<(u64, Digest)>,
    /// A change of the line up to the note, before it is signed.
    pub(crate) respell: fn(String) -> String,
    /// A change of the whole line, after it was signed.
    pub(crate) alter: fn(String) -> String,
}

/// The values of a statement of a redaction.
pub(crate) struct Statement {
    pub(crate) head: String,
    /// JSON text.
    pub(crate) lines: String,
    pub(crate) time: String,
    /// JSON text.
    pub(crate) author: String,
    /// JSON text.
    pub(crate) why: String,
    /// The number of the key that signs.
    pub(crate) by: u8,
    /// The number of the key that it names.
    pub(crate) key: Option<u8>,
    /// A change of the whole line, after it was signed.
    pub(crate) alter: fn(String) -> String,
}

/// A log and its seal file while they are written.
#[derive(Clone)]
pub(crate) struct Log {
    pub(crate) format: u8,
    pub(crate) record: String,
    /// Line 1 of the seal file.
    pub(crate) header: String,
    /// Line 2 of format 2.
    pub(crate) salts: String,
    pub(crate) statements: Vec<String>,
    /// The leaves and seals.
    pub(crate) body: Vec<u8>,
    /// The log itself.
    pub(crate) out: Vec<u8>,
    /// The seals, as they were written.
    pub(crate) seals: Vec<Written>,
    pub(crate) leaves: Vec<Digest>,
    /// Number of leaves that stand in lines of leaves.
    stated: usize,
    /// Length of the lines before any redaction.
    size: u64,
}

impl Log {
    /// A log without lines and seals.
    pub(crate) fn new(format: u8) -> Self {
        Self::with_header(format, |header| header)
    }

    /// The same with another spelling of the header.
    pub(crate) fn with_header(format: u8, respell: impl FnOnce(String) -> String) -> Self {
        let record = encoding::hex(&[8; 32]);
        let key = hex(&observer(OBSERVER));
        let salted = Digest::tagged("threadseal/2 observed salts", &[&[8; 32], &SECRET]);
        let salted = match format {
            1 => String::new(),
            _ => format!(",\"salted\":\"{salted}\""),
        };
        let header = format!(
            "{{\"format\":\"threadseal-observed/{format}\",\"kind\":\"observed\",\"record\":\"{record}\",\"key\":\"{key}\"{salted}}}"
        );
        Self {
            format,
            record,
            header: respell(header),
            salts: salts(&[Secret::root()]),
            statements: Vec::new(),
            body: Vec::new(),
            out: Vec::new(),
            seals: Vec::new(),
            leaves: Vec::new(),
            stated: 0,
            size: 0,
        }
    }

    /// A log of three lines under seal 0.
    pub(crate) fn begun(format: u8) -> Self {
        let mut log = Self::new(format);
        log.some(3).seal();
        log
    }

    /// Appends a line with LF.
    pub(crate) fn line(&mut self, line: &[u8]) -> &mut Self {
        self.unended(line);
        self.out.push(b'\n');
        self.size += 1;
        self
    }

    /// Appends a line without LF.
    pub(crate) fn unended(&mut self, line: &[u8]) -> &mut Self {
        let number = self.leaves.len() as u64 + 1;
        self.leaves.push(leaf(self.format, number, line));
        self.out.extend_from_slice(line);
        self.size += line.len() as u64;
        self
    }

    /// Appends so many different lines.
    pub(crate) fn some(&mut self, count: usize) -> &mut Self {
        for _ in 0..count {
            let number = self.leaves.len() + 1;
            self.line(format!("{{\"type\":\"user\",\"text\":\"step {number}\"}}").as_bytes());
        }
        self
    }

    /// Writes the leaves that are missing.
    pub(crate) fn leaves(&mut self) -> &mut Self {
        if let Some(rest @ [_, ..]) = self.leaves.get(self.stated..) {
            let line = leaves_line(rest);
            self.body.extend_from_slice(line.as_bytes());
            self.body.push(b'\n');
        }
        self.stated = self.leaves.len();
        self
    }

    /// The caller wrote the lines of leaves.
    pub(crate) fn leaves_are_stated(&mut self) -> &mut Self {
        self.stated = self.leaves.len();
        self
    }

    /// Key `by` names key `next` in its place.
    pub(crate) fn next_key(&mut self, by: u8, next: u8) -> &mut Self {
        self.next_key_with(by, next, |line| line)
    }

    /// The same with a change of the whole line, after it was signed.
    pub(crate) fn next_key_with(
        &mut self,
        by: u8,
        next: u8,
        alter: impl FnOnce(String) -> String,
    ) -> &mut Self {
        let (signer, key) = (observer(by), *observer(next).public_key());
        let parts: [&[u8]; 3] = [b"rotate", signer.public_key().as_bytes(), key.as_bytes()];
        let message = Message::tagged("threadseal/observed/1 key event", &parts);
        let signature = signer.sign(&message).expect("an observed key signs it");
        let signature = encoding::base64(signature.as_bytes());
        let line = format!(
            "{{\"format\":\"threadseal-observed/3\",\"next\":{{\"key\":\"{}\",\"signature\":\"{signature}\"}}}}",
            key.to_hex()
        );
        self.body.extend_from_slice(alter(line).as_bytes());
        self.body.push(b'\n');
        self
    }

    /// Seals what is there by key `by`.
    pub(crate) fn seal_by(&mut self, by: u8) -> &mut Self {
        self.seal_with(|seal| seal.by = by)
    }

    /// Seals what is there.
    pub(crate) fn seal(&mut self) -> &mut Self {
        self.seal_with(|_| {})
    }

    /// Seals what is there, and ends the log.
    pub(crate) fn end(&mut self) -> &mut Self {
        self.seal_with(|seal| seal.is_final = true)
    }

    /// Seals with altered values.
    pub(crate) fn seal_with(&mut self, alter: impl FnOnce(&mut Seal)) -> &mut Self {
        self.leaves();
        let mut seal = self.next_seal();
        alter(&mut seal);
        let line = self.signed(&seal);
        self.body.extend_from_slice(line.as_bytes());
        self.body.push(b'\n');
        let (record, digest) = (&self.record, Digest::of(line.as_bytes()));
        let Seal {
            seq, size, lines, ..
        } = seal;
        self.seals.push(Written {
            trusted: Trusted {
                line: lines,
                byte: size,
                turn: None,
            },
            head: format!("{record}:{seq}:{size}:{digest}"),
        });
        self
    }

    fn next_seal(&self) -> Seal {
        let seq = self.seals.len() as u64;
        Seal {
            seq,
            size: self.size,
            lines: self.leaves.len() as u64,
            root: root(&self.leaves),
            sidecar: self.sidecar(),
            time: format!("{BEGIN}.{:06}", 1000 * (seq + 1)),
            is_final: false,
            by: OBSERVER,
            origin: format!("threadseal/observed/{}/{}", self.format, self.record),
            noted: None,
            respell: |line| line,
            alter: |line| line,
        }
    }

    /// The digest of the parts of the seal file that the next seal covers.
    pub(crate) fn sidecar(&self) -> Digest {
        Digest::of(&[self.header.as_bytes(), b"\n", &self.body].concat())
    }

    /// The line of a seal.
    pub(crate) fn signed(&self, seal: &Seal) -> String {
        let Seal {
            seq,
            size,
            lines,
            root,
            sidecar,
            time,
            is_final,
            origin,
            ..
        } = seal;
        let start = format!(
            "{{\"seal\":{{\"seq\":{seq},\"size\":{size},\"lines\":{lines},\"root\":\"{root}\",\"sidecar\":\"{sidecar}\",\"time\":{time},\"final\":{is_final},\"note\":\""
        );
        let start = (seal.respell)(start);
        let digest = match self.format {
            1 => Digest::tagged("threadseal/1 observed line", &[start.as_bytes()]),
            _ => {
                let parts: [&[u8]; 2] = [self.header.as_bytes(), start.as_bytes()];
                Digest::tagged("threadseal/2 observed line", &parts)
            }
        };
        let (counted, rooted) = seal.noted.unwrap_or((*lines, *root));
        let root = encoding::base64(rooted.as_bytes());
        let text = format!("{origin}\n{counted}\n{root}\nline {digest}\n");
        let blob = encoding::base64(&signature(&observer(seal.by), origin, &text));
        let note = text.replace('\n', "\\n");
        (seal.alter)(format!("{start}{note}\\n\\u2014 {origin} {blob}\\n\"}}}}"))
    }

    /// Replaces these lines, which count from 1 and ascend, by their leaves; drops their salts, and
    /// states it under the last seal.
    pub(crate) fn redact(&mut self, lines: &[u64]) -> &mut Self {
        self.redact_with(lines, |_| {})
    }

    /// The same with altered values of the statement.
    pub(crate) fn redact_with(
        &mut self,
        lines: &[u64],
        alter: impl FnOnce(&mut Statement),
    ) -> &mut Self {
        self.replace(lines).unsalt(lines).state(lines, alter)
    }

    /// Replaces lines of the log by their leaves.
    pub(crate) fn replace(&mut self, lines: &[u64]) -> &mut Self {
        let old = std::mem::take(&mut self.out);
        for (number, line) in (1_u64..).zip(old.split_inclusive(|byte| *byte == b'\n')) {
            let leaf = self.leaves.get(line_index(number));
            match leaf.filter(|_| lines.contains(&number)) {
                None => self.out.extend_from_slice(line),
                Some(leaf) => {
                    let line = replacement(number, leaf);
                    self.out.extend_from_slice(line.as_bytes());
                    self.out.push(b'\n');
                }
            }
        }
        self
    }

    /// Leaves only the salts of other lines in the seal file.
    pub(crate) fn unsalt(&mut self, lines: &[u64]) -> &mut Self {
        let lines: Vec<u64> = lines.iter().map(|line| line - 1).collect();
        self.salts = salts(&Secret::root().without(&lines));
        self
    }

    /// States the redaction of these lines.
    pub(crate) fn state(&mut self, lines: &[u64], alter: impl FnOnce(&mut Statement)) -> &mut Self {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for line in lines {
            match runs.last_mut() {
                Some((first, count)) if *first + *count == *line => *count += 1,
                _ => runs.push((*line, 1)),
            }
        }
        let runs: Vec<String> = runs
            .iter()
            .map(|(first, count)| format!("[{first},{count}]"))
            .collect();
        let last = self.seals.last().map(|seal| seal.head.clone());
        let mut statement = Statement {
            head: last.unwrap_or_default(),
            lines: format!("[{}]", runs.join(",")),
            time: format!("{BEGIN}.900000"),
            author: "\"Ada\"".to_owned(),
            why: "\"a name\"".to_owned(),
            by: OBSERVER,
            key: None,
            alter: |line| line,
        };
        alter(&mut statement);
        self.statements.push(self.stated_by(&statement));
        self
    }

    fn stated_by(&self, statement: &Statement) -> String {
        let Statement {
            head,
            lines,
            time,
            author,
            why,
            key,
            ..
        } = statement;
        let key = key.map_or_else(String::new, |key| {
            format!(",\"key\":\"{}\"", hex(&observer(key)))
        });
        let start = format!(
            "{{\"redacted\":{{\"head\":\"{head}\",\"lines\":{lines},\"time\":{time},\"by\":{author},\"why\":{why}{key},\"signature\":\""
        );
        let parts: [&[u8]; 2] = [self.header.as_bytes(), start.as_bytes()];
        let message = Message::tagged("threadseal/observed/2 redaction", &parts);
        let word = observer(statement.by).sign(&message);
        let word = word.expect("an observed key signs this");
        let word = encoding::base64(word.as_bytes());
        (statement.alter)(format!("{start}{word}\"}}}}"))
    }

    /// The seal file.
    pub(crate) fn file(&self) -> Vec<u8> {
        let mut front = vec![self.header.as_str()];
        if self.format == 2 {
            front.push(&self.salts);
            front.extend(self.statements.iter().map(String::as_str));
        }
        let mut file = Vec::new();
        for line in front {
            file.extend_from_slice(line.as_bytes());
            file.push(b'\n');
        }
        file.extend_from_slice(&self.body);
        file
    }

    /// Where the last seal ends.
    pub(crate) fn last(&self) -> Option<Trusted> {
        self.seals.last().map(|seal| seal.trusted)
    }
}

/// What is in the place of a redacted line.
pub(crate) fn replacement(number: u64, leaf: &Digest) -> String {
    format!("{{\"threadseal_redacted\":{{\"line\":{number},\"leaf\":\"{leaf}\"}}}}")
}

fn line_index(number: u64) -> usize {
    usize::try_from(number - 1).unwrap_or(usize::MAX)
}
