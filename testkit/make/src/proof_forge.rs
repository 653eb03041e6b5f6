//! Writes proofs of turns and of observed lines from their values, as `spec/proofs.md` has them.
//!
//! ```text
//! Forge ─ TurnProof::of ─► every part as it should be ─ altered by the caller ─► text
//! Log ─ ObservedProof::of ─► the same
//! ```
//! It refuses nothing, and makes its range and inclusion proofs from the leaves, as
//! `spec/keys-and-trust.md` §5 has them.

use crate::forge::{Forge, hex, signature, tagged};
use crate::observed_forge::{Log, salt};
use std::ops::RangeInclusive;
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer as _};
use threadseal_core::merkle::{leaf_hash, root};
use threadseal_core::note::{KeyName, NoteText};
use threadseal_core::tlog::checkpoint::Checkpoint;
use threadseal_core::tlog::cosignature::{CosignatureTime, cosign};

/// The subtrees of a range proof: each largest one without a leaf in `from..to`, from left to right.
pub(crate) fn ranges(size: usize, from: usize, to: usize) -> Vec<(usize, usize)> {
    let (mut found, mut rest) = (Vec::new(), vec![(0, size)]);
    while let Some((begin, end)) = rest.pop() {
        if end <= from || to <= begin {
            found.push((begin, end));
        } else if end - begin > 1 {
            let middle = begin + split(end - begin);
            rest.push((middle, end));
            rest.push((begin, middle));
        }
    }
    found
}

/// The range proof of the leaves `from..to`.
pub(crate) fn range(leaves: &[Digest], from: usize, to: usize) -> Vec<Digest> {
    let ranges = ranges(leaves.len(), from, to).into_iter();
    ranges
        .map(|(begin, end)| root(&leaves[begin..end]))
        .collect()
}

/// The inclusion proof of a leaf, its sibling first.
pub(crate) fn inclusion(leaves: &[Digest], index: usize) -> Vec<Digest> {
    if leaves.len() < 2 {
        return Vec::new();
    }
    let (left, right) = leaves.split_at(split(leaves.len()));
    let (mut proof, beside) = match index.checked_sub(left.len()) {
        None => (inclusion(left, index), right),
        Some(index) => (inclusion(right, index), left),
    };
    proof.push(root(beside));
    proof
}

/// The largest power of two below `size`.
fn split(size: usize) -> usize {
    size.next_power_of_two() / 2
}

fn hash_line(hash: &Digest) -> String {
    format!("hash {}", encoding::base64(hash.as_bytes()))
}

/// The lines of a record.
pub(crate) fn lines(forge: &Forge) -> Vec<String> {
    let text = String::from_utf8_lossy(&forge.out);
    text.split_terminator('\n').map(str::to_owned).collect()
}

/// The leaves of the first lines of a record.
pub(crate) fn leaves(forge: &Forge, count: usize) -> Vec<Digest> {
    let lines = forge.out.split(|byte| *byte == b'\n');
    lines.take(count).map(leaf_hash).collect()
}

/// A step by `next_key`: the seal of this line names a key.
pub(crate) fn next_step(forge: &Forge, line: usize) -> Vec<String> {
    vec![format!("next {}", lines(forge)[line - 1])]
}

/// A step by a `key` event, on line `event`, under the seal of line `seal`.
pub(crate) fn key_step(forge: &Forge, event: usize, seal: usize) -> Vec<String> {
    let lines = lines(forge);
    let mut step = vec![format!("key {}", lines[event - 1])];
    let leaves = leaves(forge, seal - 1);
    step.extend(inclusion(&leaves, event - 1).iter().map(hash_line));
    step.push(format!("seal {}", lines[seal - 1]));
    step
}

/// `keys` of a delegate.
pub(crate) fn delegation(forge: &Forge, by: &LocalSigner, to: &LocalSigner) -> Vec<String> {
    let parts: [&[u8]; 2] = [forge.origin().as_bytes(), to.public_key().as_bytes()];
    let word = tagged(by, "threadseal/1 delegation", &parts);
    vec![format!("delegation {} {word}", hex(to))]
}

/// A proof of a turn while it is made.
#[derive(Clone)]
pub(crate) struct TurnProof {
    pub(crate) turn: u64,
    pub(crate) first: u64,
    pub(crate) manifest: String,
    /// Whole lines.
    pub(crate) keys: Vec<String>,
    pub(crate) lines: Vec<String>,
    pub(crate) hashes: Vec<Digest>,
    pub(crate) seal: String,
    pub(crate) bodies: Vec<String>,
    pub(crate) log: Option<LogPart>,
}

impl TurnProof {
    /// Shows these lines of a record, and its seal on line `closing`.
    pub(crate) fn of(
        forge: &Forge,
        turn: u64,
        shown: RangeInclusive<usize>,
        closing: usize,
    ) -> Self {
        let lines = lines(forge);
        let (from, to) = (shown.start() - 1, *shown.end());
        Self {
            turn,
            first: from as u64 + 1,
            manifest: lines[0].clone(),
            keys: Vec::new(),
            lines: lines[from..to].to_vec(),
            hashes: range(&leaves(forge, closing - 1), from, to),
            seal: lines[closing - 1].clone(),
            bodies: Vec::new(),
            log: None,
        }
    }

    /// Proves a turn of a whole record: which lines, the text's definition decides.
    pub(crate) fn of_turn(forge: &Forge, turn: u64) -> Self {
        let lines = lines(forge);
        let numbered = (1_usize..).zip(&lines);
        let seals: Vec<(usize, u64)> = numbered
            .filter_map(|(line, text)| Some((line, turn_of(text)?)))
            .collect();
        let is_before = |seal: &&(usize, u64)| seal.1 < turn;
        let opening = seals.iter().rfind(is_before).map_or(2, |seal| seal.0);
        let of_turn = |seal: &(usize, u64)| seal.1 == turn;
        let last = seals.iter().rposition(of_turn);
        let (end, closing) = match last.map(|at| (seals[at].0, seals.get(at + 1))) {
            Some((line, Some(next))) => (line, next.0),
            Some((line, None)) => (line - 1, line),
            None => (opening, lines.len()),
        };
        Self::of(forge, turn, opening..=end, closing)
    }

    pub(crate) fn text(&self) -> String {
        let mut text = vec![
            "threadseal/1 proof of a turn".to_owned(),
            format!("turn {}", self.turn),
            format!("first {}", self.first),
            format!("manifest {}", self.manifest),
        ];
        text.extend(self.keys.iter().cloned());
        text.extend(self.lines.iter().map(|line| format!("line {line}")));
        text.extend(self.hashes.iter().map(hash_line));
        text.push(format!("seal {}", self.seal));
        text.extend(self.bodies.iter().map(|body| format!("body {body}")));
        let mut text = text.join("\n");
        text.push('\n');
        if let Some(log) = &self.log {
            text.push_str(&log.text());
        }
        text
    }
}

/// `turn` of a checkpoint.
fn turn_of(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("\"event_type\":\"checkpoint\"")?;
    let (_, rest) = rest.split_once("\"payload\":{\"turn\":")?;
    rest.split(',').next()?.parse().ok()
}

/// The name of the log, and the origin of its checkpoints.
pub(crate) const LOG: &str = "example.com/log";

/// The key of the log.
pub(crate) fn log_key() -> LocalSigner {
    LocalSigner::new(PrivateKey::from_seed([21; 32]), KeyUsage::Log)
}

/// The key of a witness of this number.
pub(crate) fn witness(number: u8) -> LocalSigner {
    LocalSigner::new(PrivateKey::from_seed([30 + number; 32]), KeyUsage::Witness)
}

/// Its name.
pub(crate) fn witness_name(number: u8) -> String {
    format!("witness.example/w{number}")
}

/// A key as policies have it; type 1 of a log, 4 of a witness.
pub(crate) fn vkey(name: &str, kind: u8, key: &LocalSigner) -> String {
    let public = key.public_key().as_bytes();
    let id = Digest::of(&[name.as_bytes(), b"\n", &[kind], public].concat());
    let key = encoding::base64(&[&[kind], public.as_slice()].concat());
    format!("{name}+{}+{key}", &id.to_hex()[..8])
}

/// The part about a log.
#[derive(Clone)]
pub(crate) struct LogPart {
    pub(crate) entry: String,
    pub(crate) index: u64,
    pub(crate) hashes: Vec<Digest>,
    /// Text of the checkpoint.
    pub(crate) checkpoint: String,
    /// Signature lines, LF included.
    pub(crate) signatures: Vec<String>,
}

impl LogPart {
    /// The entry as number 3 of a log of five, signed by the log alone.
    pub(crate) fn of(entry: &str) -> Self {
        let entries = ["one", "two", "three", entry, "five"];
        let leaves: Vec<Digest> = entries
            .iter()
            .map(|entry| leaf_hash(entry.as_bytes()))
            .collect();
        let root = encoding::base64(root(&leaves).as_bytes());
        let mut part = Self {
            entry: entry.to_owned(),
            index: 3,
            hashes: inclusion(&leaves, 3),
            checkpoint: format!("{LOG}\n5\n{root}\n"),
            signatures: Vec::new(),
        };
        part.signatures.push(part.signed(LOG, &log_key()));
        part
    }

    /// The line of a log's key.
    pub(crate) fn signed(&self, name: &str, key: &LocalSigner) -> String {
        signature_line(name, &signature(key, name, &self.checkpoint))
    }

    /// The line of a witness, at this time.
    pub(crate) fn cosigned(&self, number: u8, time: u64) -> String {
        let text = NoteText::parse(&self.checkpoint).expect("the text of a checkpoint");
        let checkpoint = Checkpoint::parse(&text).expect("a checkpoint");
        let name = witness_name(number);
        let parsed = KeyName::parse(&name).expect("a name");
        let time = CosignatureTime::from_seconds(time).expect("a time");
        let line = cosign(&checkpoint, &parsed, time, &witness(number));
        let line = line.expect("a witness cosigns");
        signature_line(&name, &[line.id().as_slice(), line.signature()].concat())
    }

    /// With lines of these witnesses.
    pub(crate) fn witnessed(mut self, numbers: &[u8]) -> Self {
        let lines = numbers
            .iter()
            .map(|number| self.cosigned(*number, 1_771_356_500));
        let lines: Vec<String> = lines.collect();
        self.signatures.extend(lines);
        self
    }

    pub(crate) fn text(&self) -> String {
        let hashes = self.hashes.iter();
        let hashes: String = hashes
            .map(|hash| format!("{}\n", encoding::base64(hash.as_bytes())))
            .collect();
        let Self {
            entry,
            index,
            checkpoint,
            ..
        } = self;
        let signatures = self.signatures.concat();
        format!(
            "entry {entry}\nc2sp.org/tlog-proof@v1\nindex {index}\n{hashes}\n{checkpoint}\n{signatures}"
        )
    }
}

/// A signature line of a note.
pub(crate) fn signature_line(name: &str, blob: &[u8]) -> String {
    format!("\u{2014} {name} {}\n", encoding::base64(blob))
}

/// A run of lines of an observed log.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// Each line, and in format 2 its salt.
    pub(crate) lines: Vec<(Vec<u8>, Option<[u8; 16]>)>,
    pub(crate) hashes: Vec<Digest>,
}

/// A proof of lines of an observed log while it is made.
#[derive(Clone)]
pub(crate) struct ObservedProof {
    pub(crate) label: String,
    pub(crate) header: String,
    /// The lines that name next keys.
    pub(crate) next: Vec<String>,
    pub(crate) seal: String,
    pub(crate) guess: String,
    pub(crate) runs: Vec<Run>,
}

impl ObservedProof {
    /// Shows these runs of lines, which count from 1, under the last seal.
    pub(crate) fn of(log: &Log, runs: &[RangeInclusive<usize>]) -> Self {
        let body = String::from_utf8_lossy(&log.body);
        let content: Vec<&[u8]> = log.out.split(|byte| *byte == b'\n').collect();
        let shown = |line: usize| runs.iter().any(|run| run.contains(&line));
        let mut alone: Vec<usize> = Vec::new();
        let mut made = Vec::new();
        for run in runs {
            let (from, to) = (run.start() - 1, *run.end());
            let ranges = ranges(log.leaves.len(), from, to).into_iter();
            let single = ranges.filter(|(begin, end)| end - begin == 1 && !shown(*end));
            alone.extend(single.map(|(_, end)| end));
            let lines = run.clone().map(|line| {
                let salt = (log.format == 2).then(|| salt(line as u64));
                (content[line - 1].to_vec(), salt)
            });
            made.push(Run {
                first: *run.start() as u64,
                count: (to - from) as u64,
                lines: lines.collect(),
                hashes: range(&log.leaves, from, to),
            });
        }
        alone.sort_unstable();
        alone.dedup();
        let alone: String = alone.iter().map(|line| format!(" {line}")).collect();
        let count: u64 = made.iter().map(|run| run.count).sum();
        Self {
            label: "a turn".to_owned(),
            header: log.header.clone(),
            next: body
                .lines()
                .filter(|line| line.contains("\"next\":{"))
                .map(str::to_owned)
                .collect(),
            seal: body.lines().last().unwrap_or_default().to_owned(),
            guess: match log.format {
                1 => format!("alone{alone}"),
                _ => format!("shows {count}"),
            },
            runs: made,
        }
    }

    pub(crate) fn text(&self) -> String {
        let Self {
            label,
            header,
            next,
            seal,
            guess,
            ..
        } = self;
        let mut text = vec![
            "threadseal/1 proof of observed lines".to_owned(),
            format!("label {label}"),
            format!("header {header}"),
        ];
        text.extend(next.iter().map(|line| format!("next {line}")));
        text.extend([format!("seal {seal}"), guess.clone()]);
        for run in &self.runs {
            text.push(format!("run {} {}", run.first, run.count));
            for (line, salt) in &run.lines {
                text.push(format!("line {}", encoding::base64(line)));
                text.extend(salt.map(|salt| format!("salt {}", encoding::hex(&salt))));
            }
            text.extend(run.hashes.iter().map(hash_line));
        }
        let mut text = text.join("\n");
        text.push('\n');
        text
    }
}
