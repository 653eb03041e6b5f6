//! Redaction of archived lines (`spec/archive.md` §7).
//!
//! ```text
//! front of the seal file, durable ─► new chunks, durable ─► journal without earlier states, durable
//!                                 ─► chunks and tails that no journal names are removed
//! ```
//! Invariants: once the front is durable, no later state of the record brings a redacted line back. A
//! redacted record has one state, its last. What a crash leaves is removed by the next redaction.

use super::forget::chunks_of;
use super::journal::{Journal, MAX_JOURNAL_BYTES, NewState, Version};
use super::keep::{SealedLog, Writing, changed, facts};
use super::secrets::{MAX_MARKS, Mark};
use super::{Archive, ArchivedLog, Facts, LogName, StreamKind, chunk, read_if_there, remove};
use crate::session::{Growth, SessionFile};
use std::collections::BTreeSet;
use std::path::PathBuf;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::Signer;
use threadseal_core::merkle::leaf_hash;
use threadseal_core::record::{Head, RecordId};
use threadseal_formats::transcript::log::redacted;
use threadseal_formats::transcript::observed::{self, Redaction, SealFile};
use threadseal_store::atomic::{self, Mode, PRIVATE_DIRECTORY, PRIVATE_FILE};
use threadseal_store::read::{RegularFile, Source as _, open_regular};

/// Most bytes of the front of a seal file.
const MAX_FRONT_BYTES: usize = 32 << 20;
/// Bytes of the id before each part of a front.
const ID_BYTES: usize = 32;
/// Bytes of the size after the id.
const SIZE_BYTES: usize = 4;

/// The author and the reason of a redaction.
#[derive(Debug, Clone, Copy)]
pub struct Statement<'a> {
    /// The name that the author gives.
    pub by: &'a str,
    /// Why.
    pub why: &'a str,
}

/// The lines of one record that were redacted now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedactedLines {
    /// The record.
    pub record: RecordId,
    /// Their numbers, from 1.
    pub lines: Vec<u64>,
}

/// The result of [`Archive::redact`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Redacted {
    /// The records that were redacted now.
    pub records: Vec<RedactedLines>,
    /// Records with one of the lines that cannot be redacted: their lines have no salts.
    pub unsalted: Vec<RecordId>,
    /// Other logs in which the lines, or a chunk of the state before, are left.
    pub shared: Vec<LogName>,
    /// Files that were removed, and their bytes.
    pub removed: (u64, u64),
}

/// A log in memory, and its seal file.
struct Content {
    log: Vec<u8>,
    seals: Vec<u8>,
    head: Head,
}

impl Archive {
    /// Redacts lines, from 1, of the newest version of a log, and equal lines of its other versions.
    /// Lines that were redacted before stay so; what a crash left of that is removed.
    ///
    /// # Errors
    /// Kind `InvalidInput` when there is no such line, `Refused` when the log is a document, a journal
    /// is damaged or the record does not hold; `External` when the system fails: then the same
    /// redaction completes it.
    pub fn redact(
        &self,
        name: &LogName,
        lines: &BTreeSet<u64>,
        statement: Statement<'_>,
        signer: &dyn Signer,
    ) -> Result<Redacted, Error> {
        let _lock = self.enter()?;
        let logs = self.logs()?;
        refuse_damage(&logs)?;
        let none = || Error::invalid(format!("{name} is not archived; hint: threadseal list"));
        let log = logs.iter().find(|log| log.name == *name).ok_or_else(none)?;
        let newest = log.newest().ok_or_else(none)?;
        if log.facts.growth() == Growth::Rewrites {
            let text = "its agent writes one document anew, which has no lines that could be redacted; hint: threadseal forget";
            return Err(Error::refused(format!("{name}: {text}")));
        }
        let before: BTreeSet<Digest> = chunks_of(log).collect();
        let plain = hashes(&self.content(name, newest)?.log, lines)?;
        let mut done = Redacted::default();
        let mut seen = BTreeSet::new();
        for version in log.versions.iter().rev() {
            if !seen.insert(version.record()) {
                continue;
            }
            let content = self.content(name, version)?;
            // Another record may have the same lines in other places.
            let lines = match version.record() == newest.record() {
                true => lines.clone(),
                false => equal_lines(&content.log, &plain),
            };
            if !lines.is_empty() {
                self.redact_version(log, &content, &lines, (statement, signer), &mut done)?;
            }
        }
        let is_it = |version: &&Version| version.record() == newest.record();
        for other in logs.iter().filter(|other| other.name != *name) {
            let Some(version) = other.versions.iter().rfind(is_it) else {
                continue;
            };
            let content = self.content(&other.name, version)?;
            let redacted =
                self.redact_version(other, &content, lines, (statement, signer), &mut done);
            match redacted {
                // An earlier state of the record, which lacks the seal that the statement names.
                Err(error) if error.kind() == ErrorKind::Refused => {
                    done.shared.push(other.name.clone());
                }
                other => other?,
            }
        }
        done.removed = self.remove_orphans()?;
        done.shared.extend(self.needing(&before, name)?);
        done.shared.sort();
        done.shared.dedup();
        Ok(done)
    }

    /// Redacts lines of one record in one log.
    fn redact_version(
        &self,
        log: &ArchivedLog,
        content: &Content,
        lines: &BTreeSet<u64>,
        (statement, signer): (Statement<'_>, &dyn Signer),
        done: &mut Redacted,
    ) -> Result<(), Error> {
        let record = content.head.record;
        let mut seals = content.seals.clone();
        if observed::sound(&seals)?.salts().is_none() {
            done.unsalted.push(record);
            return Ok(());
        }
        if let Some(front) = self.front(&record)? {
            seals = observed::redact_again(&front, &seals)?;
        }
        let file = observed::sound(&seals)?;
        let is_new = |line: &u64| !file.is_redacted(*line) && *line <= file.leaves.len() as u64;
        let new: Vec<u64> = lines.iter().copied().filter(is_new).collect();
        if !new.is_empty() {
            let redaction = Redaction {
                head: covering(&file, &new)?,
                runs: observed::runs_of(&new),
                time: self.effects.clock.now()?,
                by: statement.by.to_owned(),
                why: statement.why.to_owned(),
            };
            seals = observed::redact(&seals, &redaction, signer)?;
        }
        let content = Content {
            log: redacted(&content.log, &content.seals, &seals)?,
            seals,
            head: content.head,
        };
        self.put_front(&record, &content.seals)?;
        let known = log.versions.iter().rfind(|known| known.record() == record);
        let marks = known.map(|known| known.secrets.clone()).unwrap_or_default();
        self.put_only(&log.name, &log.facts, &content, (false, marks))?;
        if !new.is_empty() {
            done.records.push(RedactedLines { record, lines: new });
        }
        Ok(())
    }

    /// Archives a sealed state of a record that was redacted, without its redacted lines. The bytes of
    /// the log that were read.
    pub(super) fn add_redacted(
        &self,
        name: &LogName,
        file: &SessionFile,
        sealed: &SealedLog<'_>,
        (front, marks): (&[u8], Vec<Mark>),
    ) -> Result<u64, Error> {
        let log = read_range(&open_regular(self.fs(), sealed.path)?, sealed.head.size)?;
        let seals = observed::redact_again(front, sealed.seals)?;
        let log = redacted(&log, sealed.seals, &seals).map_err(|_| changed(sealed.path))?;
        let content = Content {
            log,
            seals,
            head: sealed.head,
        };
        self.put_only(name, &facts(file, sealed.path), &content, (true, marks))?;
        self.remove_orphans()?;
        Ok(sealed.head.size)
    }

    /// Makes this the only state of its record, durably. Marks of redacted lines are dropped.
    fn put_only(
        &self,
        name: &LogName,
        facts: &Facts,
        content: &Content,
        (at_end, mut marks): (bool, Vec<Mark>),
    ) -> Result<(), Error> {
        let seals = observed::sound(&content.seals)?;
        marks.retain(|mark| !seals.is_redacted(mark.line));
        marks.truncate(MAX_MARKS);
        let mut writing = Writing::new(self, name, true);
        let log = writing.whole(StreamKind::Log, &content.log)?;
        let seal = writing.whole(StreamKind::Seal, &content.seals)?;
        writing.settle()?;
        let new = NewState {
            kept: self.effects.clock.now()?,
            head: content.head,
            log: &log,
            seal: &seal,
            facts,
            secrets: &marks,
        };
        let place = self.journal_place(name);
        let bytes = read_if_there(self.fs(), &place, MAX_JOURNAL_BYTES)?.unwrap_or_default();
        let bytes = Journal::only(&bytes, &content.head.record, &new, at_end);
        atomic::replace(self.fs(), &place, &bytes, Mode::Set(PRIVATE_FILE))
    }

    /// Were lines of the record redacted, or left out?
    pub fn is_redacted(&self, record: &RecordId) -> bool {
        self.fs().metadata(&self.front_place(record)).is_ok()
    }

    /// The front of the seal file of a record that was redacted.
    pub(super) fn front(&self, record: &RecordId) -> Result<Option<Vec<u8>>, Error> {
        let place = self.front_place(record);
        let Some(file) = read_if_there(self.fs(), &place, MAX_FRONT_BYTES)? else {
            return Ok(None);
        };
        let damaged = |why: &str| {
            let (place, hint) = (place.display(), "hint: threadseal archive fsck");
            Error::invalid(format!("the archive is damaged: {place}: {why}; {hint}"))
        };
        let (secret, mut front, mut rest) = (self.secret()?, Vec::new(), file.as_slice());
        while !rest.is_empty() {
            let cut = || damaged("it is cut");
            let (id, after) = rest.split_first_chunk::<ID_BYTES>().ok_or_else(cut)?;
            let (size, after) = after.split_first_chunk::<SIZE_BYTES>().ok_or_else(cut)?;
            let size = usize::try_from(u32::from_be_bytes(*size)).unwrap_or(usize::MAX);
            let (part, after) = after.split_at_checked(size).ok_or_else(cut)?;
            let part = chunk::open(secret, &Digest::from_bytes(*id), part);
            front.extend(part.map_err(|why| damaged(&why))?);
            rest = after;
        }
        let read = observed::front(&front).filter(|read| read.header.record == *record);
        match read.is_some() {
            true => Ok(Some(front)),
            false => Err(damaged("it is not the front of the record's seal file")),
        }
    }

    /// Keeps the front of a seal file, durably: no later state brings the redacted lines back.
    pub(super) fn put_front(&self, record: &RecordId, seals: &[u8]) -> Result<(), Error> {
        let unreadable = || Error::invalid("the seal file has no front");
        let end = observed::front(seals).ok_or_else(unreadable)?.bytes;
        let front = seals.get(..end).unwrap_or_default();
        if front.len() > MAX_FRONT_BYTES / 2 {
            let text = "the record has too many redactions";
            return Err(Error::new(ErrorKind::Limit, text));
        }
        let (secret, mut file) = (self.secret()?, Vec::new());
        for part in front.chunks(chunk::MAX_CHUNK_BYTES) {
            let id = chunk::id(secret, part);
            let sealed = chunk::seal(secret, &id, part, &*self.effects.random)?;
            let size = u32::try_from(sealed.len()).unwrap_or(u32::MAX);
            file.extend_from_slice(id.as_bytes());
            file.extend_from_slice(&size.to_be_bytes());
            file.extend(sealed);
        }
        let folder = self.root.join(FOLDER);
        atomic::create_directories(self.fs(), &folder, PRIVATE_DIRECTORY)?;
        let place = self.front_place(record);
        atomic::replace(self.fs(), &place, &file, Mode::Set(PRIVATE_FILE))
    }

    fn front_place(&self, record: &RecordId) -> PathBuf {
        self.root.join(FOLDER).join(record.to_hex())
    }

    /// The files of fronts.
    pub(super) fn fronts(&self) -> Result<Vec<(RecordId, PathBuf)>, Error> {
        let names = super::list(self.fs(), &self.root.join(FOLDER))?;
        let records = names.iter().filter_map(|name| RecordId::parse_hex(name));
        Ok(records
            .map(|record| (record, self.front_place(&record)))
            .collect())
    }

    fn content(&self, name: &LogName, version: &Version) -> Result<Content, Error> {
        let read = |kind: StreamKind| {
            let (stream, mut bytes) = (kind.of(version), Vec::new());
            for piece in stream.pieces() {
                bytes.extend(self.piece(name, kind, piece, stream)?);
            }
            Ok::<_, Error>(bytes)
        };
        Ok(Content {
            log: read(StreamKind::Log)?,
            seals: read(StreamKind::Seal)?,
            head: version.last().head,
        })
    }

    fn remove_orphans(&self) -> Result<(u64, u64), Error> {
        let logs = self.logs()?;
        let (mut count, mut bytes) = (0, 0);
        if logs.iter().any(|log| log.damage.is_some()) {
            return Ok((count, bytes));
        }
        for place in self.orphans(&logs)? {
            bytes += self.fs().metadata(&place).map_or(0, |found| found.size);
            remove(self.fs(), &place)?;
            count += 1;
        }
        Ok((count, bytes))
    }

    /// The other logs that need one of these chunks, which `name` needs no longer.
    fn needing(&self, before: &BTreeSet<Digest>, name: &LogName) -> Result<Vec<LogName>, Error> {
        let own: BTreeSet<Digest> = chunks_of(&self.log(name)?).collect();
        let gone: BTreeSet<Digest> = before.difference(&own).copied().collect();
        let logs = self.logs()?.into_iter().filter(|log| log.name != *name);
        let needs = logs.filter(|log| chunks_of(log).any(|id| gone.contains(&id)));
        Ok(needs.map(|log| log.name).collect())
    }
}

/// The head of the first seal over all of these lines: each later state has it, too.
pub(super) fn covering(file: &SealFile, lines: &[u64]) -> Result<Head, Error> {
    let none = || Error::invalid("there is no such sealed line");
    let last = lines.last().ok_or_else(none)?;
    file.first_over(*last).ok_or_else(none)
}

/// What a damaged journal needs is not known: nothing could be removed.
fn refuse_damage(logs: &[ArchivedLog]) -> Result<(), Error> {
    let Some(log) = logs.iter().find(|log| log.damage.is_some()) else {
        return Ok(());
    };
    let (name, hint) = (&log.name, "hint: threadseal archive fsck");
    Err(Error::refused(format!(
        "nothing is redacted: the journal of {name} is damaged, and the chunks that it needs are not known; {hint}"
    )))
}

/// The folder of the fronts.
const FOLDER: &str = "redacted";

fn lines_of(log: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let lines = log.split_inclusive(|byte| *byte == b'\n');
    (1..).zip(lines.map(|line| line.strip_suffix(b"\n").unwrap_or(line)))
}

/// The hashes of the lines with these numbers.
fn hashes(log: &[u8], lines: &BTreeSet<u64>) -> Result<BTreeSet<Digest>, Error> {
    let found = lines_of(log).filter(|(number, _)| lines.contains(number));
    let found: Vec<Digest> = found.map(|(_, line)| leaf_hash(line)).collect();
    if found.len() != lines.len() || lines.is_empty() {
        return Err(Error::invalid("there is no such sealed line"));
    }
    Ok(found.into_iter().collect())
}

fn equal_lines(log: &[u8], plain: &BTreeSet<Digest>) -> BTreeSet<u64> {
    let lines = lines_of(log).filter(|(_, line)| plain.contains(&leaf_hash(line)));
    lines.map(|(number, _)| number).collect()
}

fn read_range(file: &RegularFile, size: u64) -> Result<Vec<u8>, Error> {
    let (mut chunks, mut chunk) = (file.range(0, size), Vec::new());
    let mut bytes = Vec::new();
    loop {
        chunks.next_chunk(&mut chunk)?;
        if chunk.is_empty() {
            return Ok(bytes);
        }
        bytes.extend_from_slice(&chunk);
    }
}

#[cfg(test)]
pub(super) mod tests;
