//! [`Index`]: where in a log the heads of a record are. Made from the entries, and never believed: what it names is read and proved.

use super::contents::Contents;
use std::collections::{BTreeMap, HashMap};
use threadseal::error::Error;
use threadseal::record::RecordId;
use threadseal::tlog::entry::LogEntry;

/// Where entries are: number of the seal to number of the entry, of each record.
#[derive(Debug)]
pub(super) enum Index {
    /// Made again by each process.
    Memory(MemoryIndex),
    /// Kept in a file.
    #[cfg(feature = "sqlite")]
    Sqlite(super::index_file::IndexFile),
}

#[derive(Debug, Default)]
pub(super) struct MemoryIndex {
    indexed: u64,
    heads: HashMap<RecordId, BTreeMap<u64, u64>>,
}

/// An entry that is a head.
pub(super) struct Indexed {
    pub(super) record: RecordId,
    pub(super) seq: u64,
    pub(super) at: u64,
}

impl Indexed {
    pub(super) fn of(at: u64, entry: &[u8]) -> Option<Self> {
        match LogEntry::read(entry) {
            Ok(LogEntry::Head(logged)) => Some(Self {
                record: logged.head.record,
                seq: logged.head.seq,
                at,
            }),
            _ => None,
        }
    }
}

impl Index {
    /// Takes in the entries of the tiles that it lacks.
    /// A file that cannot be written, on a disk that is full or only read, is done without.
    pub(super) fn catch_up(&mut self, contents: &Contents) -> Result<(), Error> {
        #[cfg(feature = "sqlite")]
        if let Self::Sqlite(file) = self {
            if file.catch_up(contents).is_ok() {
                return Ok(());
            }
            *self = Self::Memory(MemoryIndex::default());
        }
        match self {
            Self::Memory(memory) => {
                let from = memory.indexed;
                contents.each_in_tiles(from, contents.base(), &mut |at, entry| {
                    if let Some(head) = Indexed::of(at, entry) {
                        memory.take(&head);
                    }
                    memory.indexed = at + 1;
                    Ok(())
                })
            }
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => Ok(()),
        }
    }

    /// The entry with the newest head of a record that is in the tiles.
    pub(super) fn newest(&self, record: &RecordId) -> Result<Option<u64>, Error> {
        match self {
            Self::Memory(memory) => Ok(memory
                .heads
                .get(record)
                .and_then(|heads| heads.last_key_value())
                .map(|(_, at)| *at)),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(file) => file.newest(record),
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
    fn take(&mut self, head: &Indexed) {
        let heads = self.heads.entry(head.record).or_default();
        // The first one of a number stands.
        heads.entry(head.seq).or_insert(head.at);
    }
}
