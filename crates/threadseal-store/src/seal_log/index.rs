//! [`Index`]: where in a log the heads of a record are. Made from the entries, and never believed: what it names is read and proved. What is no
//! head is found by `rare`.

use super::contents::Contents;
use std::collections::{BTreeMap, HashMap};
#[cfg(feature = "sqlite")]
use std::path::PathBuf;
use threadseal::error::Error;
use threadseal::record::RecordId;
use threadseal::tlog::entry::LogEntry;

/// Entries of a log whose index is made from them by each process. That of a larger one is read from its file, and may leave
/// something out until `fsck` is run.
#[cfg(feature = "sqlite")]
pub(super) const MAX_WALKED_ENTRIES: u64 = 16_384;

/// Where entries are: number of the seal to number of the entry, of each record.
#[derive(Debug)]
pub(super) enum Index {
    /// Made by each process from all entries.
    Memory(MemoryIndex),
    /// Kept in a file.
    #[cfg(feature = "sqlite")]
    Sqlite(super::index_file::IndexFile),
}

#[derive(Debug, Default)]
pub(super) struct MemoryIndex {
    /// The place of a file, for a log that outgrows this.
    #[cfg(feature = "sqlite")]
    file: Option<PathBuf>,
    indexed: u64,
    heads: HashMap<RecordId, BTreeMap<u64, u64>>,
}

/// The record and the number of a head; None for another entry.
pub(super) fn head_of(entry: &[u8]) -> Option<(RecordId, u64)> {
    match LogEntry::read(entry) {
        Ok(LogEntry::Head(logged)) => Some((logged.head.record, logged.head.seq)),
        _ => None,
    }
}

impl Index {
    /// Takes in the entries of the tiles that it lacks.
    /// A file that cannot be written, on a disk that is full or only read, is done without.
    pub(super) fn catch_up(&mut self, contents: &Contents) -> Result<(), Error> {
        #[cfg(feature = "sqlite")]
        {
            if let Self::Memory(MemoryIndex {
                file: Some(path), ..
            }) = self
                && contents.base() > MAX_WALKED_ENTRIES
                && let Ok(file) = super::index_file::IndexFile::open(path)
            {
                *self = Self::Sqlite(file);
            }
            if let Self::Sqlite(file) = self {
                if file.catch_up(contents).is_ok() {
                    return Ok(());
                }
                *self = Self::Memory(MemoryIndex::default());
            }
        }
        match self {
            Self::Memory(memory) => {
                let from = memory.indexed;
                contents.each_in_tiles(from, contents.base(), &mut |at, entry| {
                    if let Some((record, seq)) = head_of(entry) {
                        let heads = memory.heads.entry(record).or_default();
                        // The first one of a number stands.
                        heads.entry(seq).or_insert(at);
                    }
                    memory.indexed = at + 1;
                    Ok(())
                })
            }
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => Ok(()),
        }
    }

    /// The entry with the newest head of a record among the first `size` entries, as far as they are in tiles.
    pub(super) fn newest(&self, record: &RecordId, size: u64) -> Result<Option<u64>, Error> {
        match self {
            Self::Memory(memory) => {
                let heads = memory.heads.get(record);
                let mut numbers = heads.into_iter().flat_map(|heads| heads.values().rev());
                Ok(numbers.find(|at| **at < size).copied())
            }
            #[cfg(feature = "sqlite")]
            Self::Sqlite(file) => file.newest(record, size),
        }
    }

    /// How many heads the file of the index holds, where there is one in use.
    pub(super) fn count_in_file(&self) -> Result<Option<u64>, Error> {
        match self {
            Self::Memory(..) => Ok(None),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(file) => file.count().map(Some),
        }
    }

    /// All entries of the tiles with heads of a record.
    pub(super) fn all(&self, record: &RecordId) -> Result<Vec<u64>, Error> {
        match self {
            Self::Memory(memory) => Ok(memory
                .heads
                .get(record)
                .map(|heads| heads.values().copied().collect())
                .unwrap_or_default()),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(file) => file.all(record),
        }
    }

    /// The entry with the head of this number.
    pub(super) fn at(&self, record: &RecordId, seq: u64) -> Result<Option<u64>, Error> {
        match self {
            Self::Memory(memory) => Ok(memory
                .heads
                .get(record)
                .and_then(|heads| heads.get(&seq))
                .copied()),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(file) => file.at(record, seq),
        }
    }
}

impl MemoryIndex {
    /// One that is put into this file once the log outgrows it.
    #[cfg(feature = "sqlite")]
    pub(super) fn with_file(path: PathBuf) -> Self {
        Self {
            file: Some(path),
            ..Self::default()
        }
    }
}
