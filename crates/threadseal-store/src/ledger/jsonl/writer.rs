//! Appending to one ledger file, among other writers, and repairing its end after a crash.
//!
//! ```text
//! lock ─► what did others add? (index) ─► compare the tip ─► lines ─► fsync ─► entries ─► unlock
//!                 │ bytes that no entry names
//!                 ▼
//!         written again and synced; whole records get their entries, a torn rest is moved aside
//! ```
//! * The lock is that of the ledger file and held for one append. So any number of processes take
//!   turns. If no other writer touched the file, its length does not matter. Its size and the
//!   index's are compared with those at the last turn.
//! * Bytes beyond the last durable entry come from a crash, a failed fsync or a program that writes
//!   no index. Nothing is appended after them before [`Log::open`] made them durable.
//! * Nothing is ever written after a torn end. The next record would be glued to it and lost with
//!   it.

use super::end::{self, End, Trusted};
use super::index::{Index, IndexEntry, PAGE};
use super::line::{Facts, Kind, Lines};
use super::run_files::{Paths, RunFiles};
use crate::append::{Log, MovedTail};
use crate::atomic::NewFile;
use crate::heads::Durability;
use crate::ledger::{Append, Entry, Tip};
use crate::lock::{Turn, WriterLock};
use crate::sys::{self, Access, FileHandle, FileIdentity};
use std::io;
use std::sync::Arc;
use threadseal_core::error::{Error, ErrorKind};

/// Mode of a new ledger: its contents are private to its owner.
const LEDGER_MODE: u32 = 0o600;
/// Bytes between two fsyncs where no append makes one. The next process that opens the file need
/// not check more than these.
const UNSYNCED_BYTES: u64 = 1 << 20;

/// A ledger file, open to append.
#[derive(Debug)]
pub(super) struct Writer {
    file: Arc<dyn FileHandle>,
    identity: FileIdentity,
    index: Option<Index>,
    /// The end that was set right last.
    end: End,
}

/// The result of a turn.
pub(super) enum Outcome {
    Done(Append),
    /// The file was made, replaced or deleted meanwhile; try again.
    LookAgain,
}

impl Writer {
    /// Opens the ledger; `None` when there is none.
    pub(super) fn open(context: &RunFiles<'_>) -> Result<Option<Self>, Error> {
        let path = &context.paths.ledger;
        let file = match context.fs.open(path, Access::Append) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(sys::failure("open", path, &error)),
        };
        let found = file.metadata();
        let found = found.map_err(|error| sys::failure("open", path, &error))?;
        if found.kind != sys::FileKind::Regular {
            return Err(Error::invalid(format!(
                "{} is {}, not a regular file",
                path.display(),
                found.kind
            )));
        }
        Ok(Some(Self {
            identity: found.identity,
            file,
            index: None,
            end: End::default(),
        }))
    }

    /// Makes the ledger with its first records, which appear whole or not at all.
    pub(super) fn create(context: &RunFiles<'_>, entries: &[Entry]) -> Result<Option<Self>, Error> {
        let path = &context.paths.ledger;
        let mut new = NewFile::begin(context.fs, path, LEDGER_MODE)?;
        let locked = new.handle().try_lock();
        if !locked.map_err(|error| sys::failure("lock", path, &error))? {
            return Ok(None);
        }
        let bytes = lines_of(entries);
        new.write(&bytes)?;
        let file = match new.commit_new() {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::InvalidInput && context.exists(path)? => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let _turn = Turn::of_locked(&*file);
        let identity = file.metadata();
        let identity = identity.map_err(|error| sys::failure("read", path, &error))?;
        let mut writer = Self {
            identity: identity.identity,
            file: Arc::clone(&file),
            index: None,
            end: End::default(),
        };
        if let Some(tombstone) = context.tombstone()? {
            // Deleted between the first check and the creation: the new file is removed.
            let gone = context.fs.unlink(path);
            gone.map_err(|error| sys::failure("remove", path, &error))?;
            return Err(crate::ledger::deleted(context.run, &tombstone));
        }
        let size = bytes.len() as u64;
        writer.end = End {
            tip: Tip::EMPTY,
            size: 0,
            durable: size,
        };
        // The records are durable: an index that cannot be written is made again later.
        let _ = writer.note(context, entries, size);
        Ok(Some(writer))
    }

    /// The end of the ledger at the last turn.
    pub(super) fn tip(&self) -> Tip {
        self.end.tip
    }

    /// Takes a turn: sets the end right, and appends `entries` if it is `expected`.
    pub(super) fn append_if(
        &mut self,
        context: &RunFiles<'_>,
        expected: &Tip,
        entries: &[Entry],
    ) -> Result<Outcome, Error> {
        let file = Arc::clone(&self.file);
        let _turn = Turn::wait(context.fs, &*file, &context.paths.ledger)?;
        if let Some(tombstone) = context.tombstone()? {
            return Err(crate::ledger::deleted(context.run, &tombstone));
        }
        if !self.has_its_name(context)? {
            return Ok(Outcome::LookAgain);
        }
        self.settle(context)?;
        if self.end.tip != *expected {
            return Ok(Outcome::Done(Append::Differs(self.end.tip)));
        }
        if !entries.is_empty() {
            self.write(context, entries)?;
        }
        Ok(Outcome::Done(Append::Stored(self.end.tip)))
    }

    fn has_its_name(&self, context: &RunFiles<'_>) -> Result<bool, Error> {
        match context.fs.metadata(&context.paths.ledger) {
            Ok(named) => Ok(named.identity == self.identity),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(sys::failure("open", &context.paths.ledger, &error)),
        }
    }

    fn size_now(&self, paths: &Paths) -> Result<u64, Error> {
        let found = self.file.metadata();
        Ok(found
            .map_err(|error| sys::failure("read", &paths.ledger, &error))?
            .size)
    }

    fn write(&mut self, context: &RunFiles<'_>, entries: &[Entry]) -> Result<(), Error> {
        let path = &context.paths.ledger;
        let bytes = lines_of(entries);
        let size = self.end.size + bytes.len() as u64;
        sys::append_all(&*self.file, &bytes)
            .map_err(|error| sys::failure("write", path, &error))?;
        let unsynced = size - self.end.durable;
        if context.durability == Durability::Durable || unsynced >= UNSYNCED_BYTES {
            let synced = self.file.sync_data();
            synced.map_err(|error| sys::failure("sync", path, &error))?;
            self.end.durable = size;
        }
        if self.size_now(&context.paths)? != size {
            return Err(Error::refused(format!(
                "another program wrote to {} without its lock",
                path.display()
            )));
        }
        // As in `create`: the promise covers the records, and the index follows when it can.
        if self.note(context, entries, size).is_err() {
            self.index = None;
        }
        Ok(())
    }

    /// Adds appended records to the end, and to the index.
    fn note(&mut self, context: &RunFiles<'_>, entries: &[Entry], size: u64) -> Result<(), Error> {
        let first = self.end.tip.count;
        let mut offset = self.end.size;
        let mut noted = Vec::with_capacity(entries.len());
        for entry in entries {
            let facts = Facts::of_entry(entry);
            let next = IndexEntry::new(offset, &entry.line, &facts, false);
            offset = next.end();
            noted.push(next);
        }
        // Only then does "all bytes up to its end are durable" hold for the last of them.
        if let Some(last) = noted.last_mut() {
            last.durable = self.end.durable >= size;
        }
        self.end.tip = Tip {
            count: first + entries.len() as u64,
            hash: entries.last().and_then(|entry| entry.record_hash),
        };
        self.end.size = size;
        if self.index.is_none() && first == 0 {
            let index = Index::open_to_write(context.fs, &context.paths.index, context.run)?;
            index.cut(0)?;
            self.index = Some(index);
        }
        match &self.index {
            Some(index) => index.append(first, &noted),
            None => Ok(()),
        }
    }

    /// Makes index, file and [`End`] agree, under the lock.
    fn settle(&mut self, context: &RunFiles<'_>) -> Result<(), Error> {
        let size = self.size_now(&context.paths)?;
        if let Some(index) = &self.index
            && size == self.end.size
            && index.is_at(self.end.tip.count)?
        {
            return Ok(());
        }
        let (index, is_new) = match self.index.take() {
            Some(index) if index.has_its_name()? => (index, false),
            _ => (
                Index::open_to_write(context.fs, &context.paths.index, context.run)?,
                true,
            ),
        };
        let count = index.count()?.unwrap_or(0);
        let mut end = self.trusted_end(context, &index, count, size)?;
        if is_new {
            // Holes that a power cut left; the file is searched for the records after them.
            let good = index.first_damaged(end.tip.count)?;
            if good < end.tip.count {
                end = self.trusted_end(context, &index, good, size)?;
            }
        }
        index.cut(end.tip.count)?;
        let unsynced = end.durable < end.size && context.durability == Durability::Durable;
        if end.size < size || unsynced {
            end = self.adopt(context, &index, end)?;
        }
        self.end = end;
        self.index = Some(index);
        Ok(())
    }

    fn trusted_end(
        &self,
        context: &RunFiles<'_>,
        index: &Index,
        count: u64,
        size: u64,
    ) -> Result<End, Error> {
        match end::trusted(index, &*self.file, &context.paths.ledger, count, size)? {
            Trusted::End(end) => Ok(end),
            Trusted::Lost(number) => Err(lost(context, number, size)),
        }
    }

    /// Adds the records after `end`, durable first; moves a torn rest aside.
    fn adopt(&self, context: &RunFiles<'_>, index: &Index, from: End) -> Result<End, Error> {
        let path = &context.paths.ledger;
        let lock = WriterLock::of_locked(Arc::clone(context.shared), Arc::clone(&self.file), path);
        let mut log = Log::open(lock, from.durable)?;
        let mut end = from;
        let mut waiting = Vec::new();
        let mut rest = None;
        let mut unended = false;
        let mut lines = Lines::new(&*self.file, path, from.size, log.size());
        while let Some(line) = lines.next()? {
            let facts = match line.kind() {
                Kind::Record(facts) => facts,
                Kind::Torn => {
                    rest = Some(line.offset);
                    break;
                }
                Kind::Other => return Err(no_record(context, &end.tip, line.offset)),
            };
            unended = !line.terminated;
            let entry = IndexEntry::new(line.offset, line.bytes, &facts, true);
            end.tip = Tip {
                count: end.tip.count + 1,
                hash: entry.hash,
            };
            end.size = entry.end();
            waiting.push(entry);
            if waiting.len() as u64 == PAGE && !unended {
                index.append(end.tip.count - PAGE, &waiting)?;
                waiting.clear();
            }
        }
        if unended {
            log.append(b"\n")?;
            log.sync()?;
        }
        let moved: Option<MovedTail> = match rest {
            Some(offset) => log.move_tail_aside(offset)?,
            None => None,
        };
        debug_assert!(moved.is_none() || !unended);
        end.durable = end.size;
        index.append(end.tip.count - waiting.len() as u64, &waiting)?;
        index.sync()?;
        Ok(end)
    }
}

fn lines_of(entries: &[Entry]) -> Vec<u8> {
    let size = entries.iter().map(|entry| entry.line.len() + 1).sum();
    let mut bytes = Vec::with_capacity(size);
    for entry in entries {
        bytes.extend_from_slice(&entry.line);
        bytes.push(b'\n');
    }
    bytes
}

fn lost(context: &RunFiles<'_>, number: u64, size: u64) -> Error {
    Error::refused(format!(
        "{} has {size} bytes, but not record {number}, which was acknowledged: it was truncated, changed or \
         rolled back; restore it, or verify it and then remove {}",
        context.paths.ledger.display(),
        context.paths.index.display()
    ))
}

fn no_record(context: &RunFiles<'_>, tip: &Tip, offset: u64) -> Error {
    Error::refused(format!(
        "{} has a line at byte {offset}, after record {}, that is not a record; verify it",
        context.paths.ledger.display(),
        tip.count
    ))
}
