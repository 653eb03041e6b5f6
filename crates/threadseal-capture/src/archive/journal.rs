//! The journal of one log: one line for each sealed state (`spec/archive.md` §4).
//!
//! ```text
//! {"state":N,"kept":T,"record":HEX,"seq":N,"digest":HEX,"log":STREAM,"seal":STREAM,…,"check":HEX}
//! ```
//! Invariant: each line has one spelling, and its check covers the line before it. A line that a
//! crash left unended does not count; damage of any other line is reported, and hides all later ones.

use super::secrets::Mark;
use crate::session::Growth;
use serde::{Deserialize, Serialize};
use threadseal_core::digest::Digest;
use threadseal_core::record::{Head, RecordId};
use threadseal_core::time::Timestamp;

/// Most bytes of a journal.
pub(super) const MAX_JOURNAL_BYTES: usize = 256 << 20;
/// Most bytes of one line.
pub(super) const MAX_JOURNAL_LINE_BYTES: usize = 4 << 20;

const CHECK_TAG: &str = "threadseal/1 archive state";
/// `,"check":"` and `"}` around 64 digits.
const CHECK_BYTES: usize = 10 + 64 + 2;

/// A part of a stream: its chunk id, and its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) id: Digest,
    pub(super) size: u32,
}

/// The bytes of a log or a seal file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Stream {
    pub(super) size: u64,
    pub(super) chunks: Vec<Piece>,
    pub(super) tail: Option<Piece>,
}

/// One sealed state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// Its number in the journal.
    pub number: u64,
    /// When it was archived.
    pub kept: Timestamp,
    /// The head that its last seal makes.
    pub head: Head,
    /// Bytes of the log: not those that were sealed if lines were redacted.
    pub log_size: u64,
    /// Bytes of the seal file.
    pub seal_size: u64,
}

/// The states of one record that only grew, or one state of a document that was written again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Its states, in order; never empty.
    pub states: Vec<State>,
    /// Its lines that hold what looks like a secret.
    pub secrets: Vec<Mark>,
    pub(super) log: Stream,
    pub(super) seal: Stream,
}

/// Facts of a log that are not sealed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The path of the log.
    pub source: Option<String>,
    /// The folder of the project.
    pub project: Option<String>,
    /// The session or subagent that started this one.
    pub parent: Option<String>,
    /// Whether its agent appends, or writes it again.
    pub rewrites: bool,
}

/// A journal, as far as it is whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Journal {
    pub(super) versions: Vec<Version>,
    pub(super) facts: Facts,
    /// Bytes of all good lines.
    pub(super) good_bytes: u64,
    /// Why a line does not count.
    pub(super) damage: Option<String>,
    /// The marks of the last state alone.
    pub(super) last_secrets: Vec<Mark>,
    last_line: Vec<u8>,
    next: u64,
}

/// One more state.
pub(super) struct NewState<'a> {
    pub(super) kept: Timestamp,
    pub(super) head: Head,
    pub(super) log: &'a Stream,
    pub(super) seal: &'a Stream,
    pub(super) facts: &'a Facts,
    /// Its new lines that hold what looks like a secret.
    pub(super) secrets: &'a [Mark],
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    state: u64,
    kept: String,
    record: String,
    seq: u64,
    digest: String,
    log: StreamLine,
    seal: StreamLine,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    growth: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sealed: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    secrets: Vec<(u64, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StreamLine {
    size: u64,
    same: usize,
    chunks: Vec<(String, u32)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tail: Option<(String, u32)>,
}

impl Version {
    fn new(first: State, log: Stream, seal: Stream, secrets: Vec<Mark>) -> Self {
        Self {
            states: vec![first],
            secrets,
            log,
            seal,
        }
    }

    /// Its last state.
    pub fn last(&self) -> State {
        // A version is made with its first state.
        self.states[self.states.len() - 1]
    }

    /// Its record.
    pub fn record(&self) -> RecordId {
        self.last().head.record
    }
}

impl Stream {
    /// All parts, in order.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.chunks.iter().chain(&self.tail)
    }

    fn of(line: &StreamLine, before: &Self) -> Option<Self> {
        let mut chunks = before.chunks.get(..line.same)?.to_vec();
        for new in &line.chunks {
            chunks.push(Piece::of(new)?);
        }
        let stream = Self {
            size: line.size,
            chunks,
            tail: match &line.tail {
                Some(tail) => Some(Piece::of(tail)?),
                None => None,
            },
        };
        let sizes = stream.pieces().map(|piece| u64::from(piece.size));
        (sizes.sum::<u64>() == stream.size).then_some(stream)
    }

    fn line(&self, before: &Self) -> StreamLine {
        let pairs = self.chunks.iter().zip(&before.chunks);
        let same = pairs.take_while(|(new, old)| new == old).count();
        StreamLine {
            size: self.size,
            same,
            chunks: self.chunks[same..]
                .iter()
                .copied()
                .map(Piece::line)
                .collect(),
            tail: self.tail.map(Piece::line),
        }
    }
}

impl Piece {
    fn of((id, size): &(String, u32)) -> Option<Self> {
        Some(Self {
            id: Digest::parse_hex(id)?,
            size: *size,
        })
    }

    fn line(self) -> (String, u32) {
        (self.id.to_hex(), self.size)
    }
}

impl Facts {
    /// How the agent changes the log.
    pub fn growth(&self) -> Growth {
        match self.rewrites {
            true => Growth::Rewrites,
            false => Growth::Appends,
        }
    }
}

impl Journal {
    pub(super) fn read(bytes: &[u8]) -> Self {
        let mut journal = Self::default();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let is_last = journal.good_bytes + line.len() as u64 == bytes.len() as u64;
            // A crash may leave the end of a line without its beginning.
            let is_torn = is_last && line.contains(&0);
            let Some(line) = line.strip_suffix(b"\n").filter(|_| !is_torn) else {
                break;
            };
            if let Err(why) = journal.take(line) {
                let text = format!("line {} of the journal {why}", journal.next + 1);
                journal.damage = Some(text);
                break;
            }
            journal.good_bytes += line.len() as u64 + 1;
        }
        journal
    }

    /// The streams of the last state; empty ones if there is none.
    pub(super) fn last_streams(&self) -> (Stream, Stream) {
        let last = self.versions.last();
        last.map_or_else(Default::default, |last| {
            (last.log.clone(), last.seal.clone())
        })
    }

    /// The line of one more state, with its LF.
    pub(super) fn line(&self, new: &NewState<'_>) -> Vec<u8> {
        let (log, seal) = self.last_streams();
        let changed =
            |now: &Option<String>, before: &Option<String>| now.clone().filter(|_| now != before);
        let growth = match new.facts.rewrites {
            true => "rewrites",
            false => "appends",
        };
        let grows_anew = self.next == 0 || new.facts.rewrites != self.facts.rewrites;
        let line = Line {
            state: self.next,
            kept: new.kept.to_epoch_text(),
            record: new.head.record.to_hex(),
            seq: new.head.seq,
            digest: new.head.line.to_hex(),
            log: new.log.line(&log),
            seal: new.seal.line(&seal),
            source: changed(&new.facts.source, &self.facts.source),
            project: changed(&new.facts.project, &self.facts.project),
            parent: changed(&new.facts.parent, &self.facts.parent),
            growth: grows_anew.then(|| growth.to_owned()),
            sealed: Some(new.head.size).filter(|size| *size != new.log.size),
            secrets: new.secrets.iter().map(Mark::pair).collect(),
            check: None,
        };
        let mut bytes = line.bytes(&self.last_line);
        bytes.push(b'\n');
        bytes
    }

    /// The journal `bytes`, which was read as this one, with `new` in the place of its last line.
    pub(super) fn with_last(&self, bytes: &[u8], new: &NewState<'_>) -> Vec<u8> {
        let end = usize::try_from(self.good_bytes).unwrap_or(usize::MAX);
        let before = end.saturating_sub(self.last_line.len() + 1);
        let mut out = bytes.get(..before).unwrap_or_default().to_vec();
        let line = Self::read(&out).line(new);
        out.extend(line);
        out
    }

    /// The lines of a journal in which `record` has no other state than `new`. That is in the place of
    /// its last one, or at the end.
    pub(super) fn only(
        bytes: &[u8],
        record: &RecordId,
        new: &NewState<'_>,
        at_end: bool,
    ) -> Vec<u8> {
        let (mut before, mut after, mut out) = (Self::default(), Self::default(), Vec::new());
        let mut put = |state: &NewState<'_>| {
            let line = after.line(state);
            // A line that was just written is taken.
            let _ = after.take(line.strip_suffix(b"\n").unwrap_or(&line));
            out.extend(line);
        };
        let whole = || bytes.split_inclusive(|byte| *byte == b'\n');
        let lines = whole().map_while(|line| line.strip_suffix(b"\n"));
        let hex = format!("\"record\":\"{record}\"");
        let is_own = |line: &[u8]| memchr::memmem::find(line, hex.as_bytes()).is_some();
        let last = lines.clone().enumerate().filter(|(_, line)| is_own(line));
        let last = last.map(|(number, _)| number).last().filter(|_| !at_end);
        for (number, line) in lines.enumerate() {
            if before.take(line).is_err() {
                break;
            }
            let Some(version) = before.versions.last() else {
                break;
            };
            let state = version.last();
            if state.head.record != *record {
                put(&NewState {
                    kept: state.kept,
                    head: state.head,
                    log: &version.log,
                    seal: &version.seal,
                    facts: &before.facts,
                    secrets: &before.last_secrets,
                });
            } else if last == Some(number) {
                put(new);
            }
        }
        if last.is_none() {
            put(new);
        }
        out
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        if bytes.len() > MAX_JOURNAL_LINE_BYTES {
            return Err("is too long");
        }
        let line: Line = serde_json::from_slice(bytes).map_err(|_| "is no state")?;
        if line.bytes(&self.last_line) != bytes {
            return Err("was changed: its check differs");
        }
        let misspelt = "has a value that is not spelled as it must be";
        let head = Head {
            record: RecordId::parse_hex(&line.record).ok_or(misspelt)?,
            seq: line.seq,
            size: line.sealed.unwrap_or(line.log.size),
            line: Digest::parse_hex(&line.digest).ok_or(misspelt)?,
        };
        let marks = line.secrets.iter().map(Mark::read);
        let secrets: Vec<Mark> = marks.collect::<Option<_>>().ok_or(misspelt)?;
        let state = State {
            number: line.state,
            kept: Timestamp::parse_epoch_text(&line.kept).ok_or(misspelt)?,
            head,
            log_size: line.log.size,
            seal_size: line.seal.size,
        };
        let (log, seal) = self.last_streams();
        let log = Stream::of(&line.log, &log).ok_or(misspelt)?;
        let seal = Stream::of(&line.seal, &seal).ok_or(misspelt)?;
        if line.state != self.next {
            return Err("has another number than the next");
        }
        let rewrites = match line.growth.as_deref() {
            Some("rewrites") => true,
            Some("appends") => false,
            Some(_) => return Err(misspelt),
            None => self.facts.rewrites,
        };
        match self.versions.last_mut() {
            Some(version) if version.record() == head.record => {
                let last = version.last();
                if head.seq <= last.head.seq || (!rewrites && head.size < last.head.size) {
                    return Err("goes back");
                }
                if rewrites {
                    self.versions
                        .push(Version::new(state, log, seal, secrets.clone()));
                } else {
                    version.states.push(state);
                    version.secrets.extend(secrets.iter().cloned());
                    (version.log, version.seal) = (log, seal);
                }
            }
            _ => self
                .versions
                .push(Version::new(state, log, seal, secrets.clone())),
        }
        self.facts.source = line.source.or_else(|| self.facts.source.take());
        self.facts.project = line.project.or_else(|| self.facts.project.take());
        self.facts.parent = line.parent.or_else(|| self.facts.parent.take());
        self.facts.rewrites = rewrites;
        self.last_secrets = secrets;
        self.last_line = bytes.to_vec();
        self.next += 1;
        Ok(())
    }
}

impl Line {
    /// Its one spelling, with the check that follows from the line before.
    fn bytes(&self, before: &[u8]) -> Vec<u8> {
        // A structure of strings and numbers has a JSON text.
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        let end = match self.check {
            Some(_) => bytes.len().saturating_sub(CHECK_BYTES),
            None => bytes.len().saturating_sub(1),
        };
        bytes.truncate(end);
        let check = Digest::tagged(CHECK_TAG, &[before, &bytes]);
        bytes.extend(format!(",\"check\":\"{check}\"}}").into_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(parts: &[u8], tail: Option<u8>) -> Stream {
        let piece = |name: &u8| Piece {
            id: Digest::of(&[*name]),
            size: u32::from(*name),
        };
        let tail = tail.as_ref().map(piece);
        let chunks: Vec<Piece> = parts.iter().map(piece).collect();
        let size = chunks
            .iter()
            .chain(&tail)
            .map(|piece| u64::from(piece.size));
        Stream {
            size: size.sum(),
            chunks,
            tail,
        }
    }

    fn journal(states: &[(u8, u64, Stream)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (record, seq, log) in states {
            let facts = Facts {
                source: Some("/p/a.jsonl".to_owned()),
                ..Facts::default()
            };
            let seal = stream(&[1], None);
            let new = NewState {
                kept: Timestamp::from_micros(5_000_001).unwrap(),
                head: Head {
                    record: RecordId::from_bytes([*record; 32]),
                    seq: *seq,
                    size: log.size,
                    line: Digest::of(b"seal"),
                },
                log,
                seal: &seal,
                facts: &facts,
                secrets: &[],
            };
            bytes.extend(Journal::read(&bytes).line(&new));
        }
        bytes
    }

    #[test]
    fn states_of_one_record_are_a_version_and_share_their_chunks() {
        let bytes = journal(&[
            (1, 0, stream(&[], Some(9))),
            (1, 1, stream(&[20, 30], Some(4))),
            (1, 2, stream(&[20, 30, 40], None)),
            (2, 0, stream(&[20, 50], None)),
        ]);
        let read = Journal::read(&bytes);
        assert_eq!((read.damage, read.good_bytes), (None, bytes.len() as u64));
        let sizes: Vec<Vec<u64>> = read
            .versions
            .iter()
            .map(|version| version.states.iter().map(|state| state.head.size).collect())
            .collect();
        assert_eq!(sizes, [vec![9, 54, 90], vec![70]]);
        assert_eq!(read.versions[0].log, stream(&[20, 30, 40], None));
        assert_eq!(read.facts.source.as_deref(), Some("/p/a.jsonl"));
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.matches("/p/a.jsonl").count(), 1);
        assert_eq!(text.matches(&Digest::of(&[20]).to_hex()).count(), 1);
    }

    // T-ARC-06
    #[test]
    fn every_changed_byte_and_every_lost_line_but_the_last_is_noticed() {
        let states = [
            (1, 0, stream(&[], Some(9))),
            (1, 1, stream(&[20], Some(4))),
            (1, 2, stream(&[20, 40], None)),
        ];
        let bytes = journal(&states);
        let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let read = Journal::read(&changed);
            let unended = at + 1 == bytes.len();
            assert!(read.damage.is_some() || unended, "byte {at}");
            assert!(read.good_bytes < bytes.len() as u64, "byte {at}");
        }
        assert!(
            Journal::read(&[lines[0], lines[2]].concat())
                .damage
                .is_some()
        );
        assert!(
            Journal::read(&[lines[1], lines[2]].concat())
                .damage
                .is_some()
        );
        assert!(
            Journal::read(&[lines[0], lines[0]].concat())
                .damage
                .is_some()
        );
        let torn = Journal::read(&bytes[..bytes.len() - 5]);
        assert_eq!((torn.damage, torn.versions[0].states.len()), (None, 2));
        assert_eq!(torn.good_bytes, (lines[0].len() + lines[1].len()) as u64);
    }

    #[test]
    fn a_record_never_goes_back_in_its_journal() {
        for states in [
            [(1, 1, stream(&[20], None)), (1, 1, stream(&[20, 4], None))],
            [(1, 1, stream(&[20], None)), (1, 2, stream(&[4], None))],
        ] {
            let read = Journal::read(&journal(&states));
            assert!(read.damage.is_some_and(|why| why.contains("goes back")));
        }
    }
}
