//! Proofs of turns: one file shows one turn of a native record, and no other turn
//! (`spec/proofs.md`, "Proofs of turns").
//!
//! ```text
//! threadseal/1 proof of a turn LF
//! turn <number> LF
//! first <number> LF                     in the record, of the first line that is shown
//! manifest <line 1 of the record> LF
//! delegation <key> <signature> LF       the keys that may seal: this …
//! next <line of a seal> LF              … or any of these two, in order
//! key <line of the event> LF hash …  seal <line of the next seal> LF
//! line <a line> LF                      the seal before the turn, then all lines of the turn
//! hash <base64> LF                      a range proof of these lines in the tree of …
//! seal <line of the closing seal> LF    … the seal after the turn
//! body <line of the file of bodies> LF  the bodies of the commitments ([`WithBodies`])
//! entry …                               a log's evidence for the closing seal, if any ([`anchor`])
//! ```
//! Native lines are ASCII without control characters, so that each of them is one line here. One
//! proof has one text: `parse(x)?.to_string() == x`. The signatures under the checkpoint of the
//! log, and their order, are part of the text. An instance proves nothing: call
//! [`TurnProof::check`].

mod anchor;
mod bodies;
mod check;
pub mod conflict;
mod key_succession;
mod known;
mod make;
mod order;
mod read;
mod turn;

pub use anchor::Anchored;
pub use bodies::WithBodies;
pub use check::{Checked, ShownLine, check_file, check_file_by};
pub use known::ClosingSeal;

use super::manifest;
use anchor::Anchor;
use std::fmt;
use std::str::Split;
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::error::Error;
use threadseal_core::key::{PublicKey, Signature};
use threadseal_core::limits::{
    MAX_LINE_BYTES, MAX_PROOF_HASHES, MAX_RANGE_PROOF_HASHES, MAX_RECORD_KEYS,
    MAX_TURN_PROOF_BYTES, MAX_TURN_PROOF_LINES,
};
use threadseal_core::merkle::{InclusionProof, RangeProof};
use threadseal_core::tlog::checkpoint::parse_size;
use threadseal_core::tlog::proof_file::ProofFile;

/// The first line of a file.
pub const FIRST_LINE: &str = "threadseal/1 proof of a turn";

/// The text before the log's evidence.
const ANCHOR: &str = "\nentry ";

/// A proof as written in the file; only its form is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnProof {
    /// The number of the turn, from 1.
    turn: u64,
    /// The number of the first shown line, from 1.
    first: u64,
    manifest: String,
    chain: Chain,
    /// The seal before the turn, then the turn's lines.
    lines: Vec<String>,
    range: RangeProof,
    closing: String,
    /// For the turn's lines: lines of the file of bodies, in the order of the commitments.
    bodies: Vec<String>,
    anchor: Option<Box<Anchor>>,
}

/// How the key of the closing seal came to seal this record.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Chain {
    /// From the manifest's key, step by step; without steps it is that key.
    Steps(Vec<Step>),
    /// By a signed statement of the authority.
    Delegation(Box<(PublicKey, Signature)>),
}

/// One change of the current key.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// A seal whose `ext` names the next key.
    Named { seal: String },
    /// A `key` event, and the next line's seal with the event's place in its tree.
    Announced {
        event: String,
        proof: InclusionProof,
        seal: String,
    },
}

/// Why a file is no proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAProof(&'static str);

impl fmt::Display for NotAProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a proof: {}", self.0)
    }
}

impl std::error::Error for NotAProof {}

impl TurnProof {
    /// Reads a file, of at most [`MAX_TURN_PROOF_BYTES`].
    ///
    /// # Errors
    /// When it has another form.
    pub fn parse(file: &[u8]) -> Result<Self, NotAProof> {
        let (turn, anchor) = parts(file)?;
        let mut reader = Reader::of_file(turn, FIRST_LINE)?;
        let turn = reader.number("turn ", "it names no turn")?;
        let first = reader.number("first ", "it does not name its first line")?;
        let manifest = reader.line("manifest ", "it has no manifest")?;
        let chain = reader.chain()?;
        let lines = reader.lines()?;
        let range = reader.hashes(MAX_RANGE_PROOF_HASHES)?;
        let closing = reader.line("seal ", "it has no closing seal")?;
        let bodies = reader.bodies()?;
        if reader.next.is_some() {
            return Err(NotAProof("it has unexpected lines"));
        }
        Ok(Self {
            turn,
            first,
            manifest,
            chain,
            lines,
            range: RangeProof::from_hashes(range)
                .map_err(|_| NotAProof("it has too many hashes"))?,
            closing,
            bodies,
            anchor,
        })
    }

    /// The proof with a log's evidence for its closing seal: the entry, and the proof of that
    /// entry.
    ///
    /// # Errors
    /// Kind `InvalidInput` when the entry is none of a log, `Limit` when the proof is too large
    /// with it.
    pub fn anchored(self, entry: &[u8], proof: ProofFile) -> Result<Self, Error> {
        let anchor = Some(Box::new(Anchor::new(entry, proof)?));
        Self { anchor, ..self }.within_bounds()
    }

    /// The proof, unless it is too large.
    fn within_bounds(self) -> Result<Self, Error> {
        match self.to_string().len() > MAX_TURN_PROOF_BYTES {
            true => Err(make::too_large()),
            false => Ok(self),
        }
    }

    /// The number of the turn, as the proof claims.
    pub fn turn(&self) -> u64 {
        self.turn
    }
}

impl fmt::Display for TurnProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{FIRST_LINE}")?;
        writeln!(f, "turn {}", self.turn)?;
        writeln!(f, "first {}", self.first)?;
        writeln!(f, "manifest {}", self.manifest)?;
        write!(f, "{}", self.chain)?;
        for line in &self.lines {
            writeln!(f, "line {line}")?;
        }
        write_hashes(f, self.range.hashes())?;
        writeln!(f, "seal {}", self.closing)?;
        for body in &self.bodies {
            writeln!(f, "body {body}")?;
        }
        self.anchor.iter().try_for_each(|anchor| anchor.fmt(f))
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steps(steps) => steps.iter().try_for_each(|step| write!(f, "{step}")),
            Self::Delegation(word) => {
                let (key, signature) = &**word;
                let signature = encoding::base64(signature.as_bytes());
                writeln!(f, "delegation {} {signature}", key.to_hex())
            }
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named { seal } => writeln!(f, "next {seal}"),
            Self::Announced { event, proof, seal } => {
                writeln!(f, "key {event}")?;
                write_hashes(f, proof.hashes())?;
                writeln!(f, "seal {seal}")
            }
        }
    }
}

fn write_hashes(f: &mut fmt::Formatter<'_>, hashes: &[Digest]) -> fmt::Result {
    hashes
        .iter()
        .try_for_each(|hash| writeln!(f, "hash {}", encoding::base64(hash.as_bytes())))
}

/// The part of the turn, and the log's evidence.
fn parts(file: &[u8]) -> Result<(&[u8], Option<Box<Anchor>>), NotAProof> {
    if file.len() > MAX_TURN_PROOF_BYTES {
        return Err(NotAProof("it is too large"));
    }
    // Lines of the turn's part begin with other words, and never span two lines.
    let text = std::str::from_utf8(file).ok();
    match text.and_then(|text| text.split_once(ANCHOR)) {
        Some((turn, anchor)) => Ok((&file[..=turn.len()], Some(Box::new(Anchor::parse(anchor)?)))),
        None => Ok((file, None)),
    }
}

/// Lines of the file, one ahead.
struct Reader<'a> {
    rest: Split<'a, char>,
    next: Option<&'a str>,
}

impl<'a> Reader<'a> {
    /// After the first line of a file, which must be this one.
    fn of_file(file: &'a [u8], first_line: &str) -> Result<Self, NotAProof> {
        if file.len() > MAX_TURN_PROOF_BYTES {
            return Err(NotAProof("it is too large"));
        }
        let text = std::str::from_utf8(file).map_err(|_| NotAProof("it is not ASCII"))?;
        if !text
            .bytes()
            .all(|b| b == b'\n' || (0x20..0x7f).contains(&b))
        {
            return Err(NotAProof("it is not ASCII"));
        }
        let text = text
            .strip_suffix('\n')
            .ok_or(NotAProof("its last line does not end in a newline"))?;
        let mut reader = Self {
            rest: text.split('\n'),
            next: None,
        };
        if reader.rest.next() != Some(first_line) {
            return Err(NotAProof("its first line is wrong"));
        }
        reader.advance();
        Ok(reader)
    }

    fn advance(&mut self) {
        self.next = self.rest.next();
    }

    /// The text after `word` on the next line, if the line begins so.
    fn take(&mut self, word: &str) -> Option<&'a str> {
        let value = self.next?.strip_prefix(word)?;
        self.advance();
        Some(value)
    }

    fn number(&mut self, word: &str, missing: &'static str) -> Result<u64, NotAProof> {
        let number = self.take(word).and_then(parse_size);
        number
            .filter(|number| *number > 0)
            .ok_or(NotAProof(missing))
    }

    fn line(&mut self, word: &str, missing: &'static str) -> Result<String, NotAProof> {
        let line = self.take(word).ok_or(NotAProof(missing))?;
        match line.len() > MAX_LINE_BYTES {
            true => Err(NotAProof("a line in it is too long")),
            false => Ok(line.to_owned()),
        }
    }

    fn chain(&mut self) -> Result<Chain, NotAProof> {
        if let Some(text) = self.take("delegation ") {
            let parts = text.split_once(' ');
            let read = parts.and_then(|(key, signature)| {
                let key = PublicKey::from_hex(key).ok()?;
                let signature = manifest::parse_signature(signature)?;
                Some(Chain::Delegation(Box::new((key, signature))))
            });
            return read.ok_or(NotAProof("its delegation is not a key and a signature"));
        }
        let mut steps = Vec::new();
        while let Some(step) = self.step()? {
            if steps.len() >= MAX_RECORD_KEYS {
                return Err(NotAProof("it has too many steps from key to key"));
            }
            steps.push(step);
        }
        Ok(Chain::Steps(steps))
    }

    fn step(&mut self) -> Result<Option<Step>, NotAProof> {
        let begins = |word| self.next.is_some_and(|line| line.starts_with(word));
        if begins("next ") {
            let seal = self.line("next ", "a step names no seal")?;
            return Ok(Some(Step::Named { seal }));
        }
        if !begins("key ") {
            return Ok(None);
        }
        let event = self.line("key ", "a step names no key")?;
        let proof = InclusionProof::from_hashes(self.hashes(MAX_PROOF_HASHES)?)
            .map_err(|_| NotAProof("it has too many hashes"))?;
        let seal = self.line("seal ", "a step names no seal")?;
        Ok(Some(Step::Announced { event, proof, seal }))
    }

    fn lines(&mut self) -> Result<Vec<String>, NotAProof> {
        let mut lines = Vec::new();
        while self.next.is_some_and(|line| line.starts_with("line ")) {
            if lines.len() >= MAX_TURN_PROOF_LINES {
                return Err(NotAProof("it shows too many lines"));
            }
            lines.push(self.line("line ", "it shows no line")?);
        }
        match lines.is_empty() {
            true => Err(NotAProof("it shows no line")),
            false => Ok(lines),
        }
    }

    fn hashes(&mut self, most: usize) -> Result<Vec<Digest>, NotAProof> {
        let mut hashes = Vec::new();
        while let Some(text) = self.take("hash ") {
            if hashes.len() >= most {
                return Err(NotAProof("it has too many hashes"));
            }
            let hash = encoding::parse_base64(text).and_then(|hash| hash.try_into().ok());
            let hash = hash.ok_or(NotAProof("a hash is not the base64 of 32 bytes"))?;
            hashes.push(Digest::from_bytes(hash));
        }
        Ok(hashes)
    }
}
