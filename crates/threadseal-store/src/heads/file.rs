//! [`FileHeadStore`]: heads as small files, one per record.
//!
//! ```text
//! heads/ab/cdef….head          the durable head of record abcdef…       (codec.rs)
//! heads/ab/cdef….recent        newer heads that survive the process, not power loss (recent.rs)
//! heads/ab/lock                held while a head of this shard is changed
//! heads/lines/12/3456…/abcdef… empty file: line 123456… is an alias of record abcdef…
//! heads/places/65/4321…        <64 hex: record> LF: the record that was sealed last in a place
//!                              654321… = tagged("head place", [kind, path hint])
//! ```
//! * A durable head is replaced atomically (see [`crate::atomic`]); a damaged one is an error.
//! * A recent head is written in place without fsync. So a writer that seals a hundred times a
//!   second waits for the disk only to make its record durable. After power loss it may be gone or
//!   torn. Then the durable head counts, which is older: allowed. It is older by less than
//!   [`MAX_RECENT_SEALS`] seals, so power loss hides no more of a roll-back than these.
//! * An alias is written before the first head that has it, so no head lacks its aliases. After a
//!   crash between the two, an alias whose record has no head leads to nothing.
//! * A place is written in the same order. After a crash the earlier record of the place is
//!   forgotten, rather than the new one accused.
//!
//! A lookup costs a few opens whatever the number of records. Only [`FileHeadStore::all`] reads the
//! whole directory.

use super::recent::{RecentHead, Slots};
use super::{
    Durability, HeadStore, MAX_RECORDS_PER_LINE, StoredHead, Swap, checked, codec,
    head_store::going_back, succeed,
};
use crate::atomic::{self, Mode, PRIVATE_DIRECTORY, PRIVATE_FILE};
use crate::lock::Exclusive;
use crate::read;
use crate::sys::{self, Access, Fs, directory_of};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::{Head, RecordId, RecordKind};
use threadseal_core::tlog::entry::LoggedHead;

/// Digits of a record id that name its directory.
const SHARD_DIGITS: usize = 2;
/// Seals by which the durable head of a record may be behind its recent one, plus one.
const MAX_RECENT_SEALS: u64 = 64;
/// Bytes of a place file: a record id in hex and LF.
const PLACE_FILE_BYTES: usize = 65;

/// Heads under one directory.
#[derive(Debug)]
pub struct FileHeadStore {
    fs: Arc<dyn Fs>,
    root: PathBuf,
    /// Directories that this store has made or found, and made durable.
    durable_directories: Mutex<BTreeSet<PathBuf>>,
}

impl FileHeadStore {
    /// The store in `root` (`$THREADSEAL_HOME/heads`), which is made when the first head is
    /// stored.
    pub fn new(fs: Arc<dyn Fs>, root: impl Into<PathBuf>) -> Self {
        Self {
            fs,
            root: root.into(),
            durable_directories: Mutex::default(),
        }
    }

    /// Every head that is stored here, by record id. A new log beside a store with heads needs
    /// them.
    ///
    /// # Errors
    /// [`ErrorKind::External`] when a head is damaged or cannot be read: then the list could be
    /// incomplete.
    pub fn all(&self) -> Result<Vec<LoggedHead>, Error> {
        let heads = self.stored()?;
        Ok(heads.iter().map(StoredHead::to_log).collect())
    }

    /// The same, with all that is stored of each.
    ///
    /// # Errors
    /// As [`FileHeadStore::all`].
    pub fn stored(&self) -> Result<Vec<StoredHead>, Error> {
        let mut records = Vec::new();
        let shards = self.names(&self.root)?;
        for shard in shards.iter().filter(|name| name.len() == SHARD_DIGITS) {
            for name in self.names(&self.root.join(shard))? {
                let rest = name.strip_suffix(".head");
                let record = rest.and_then(|rest| RecordId::parse_hex(&format!("{shard}{rest}")));
                records.extend(record);
            }
        }
        records.sort_unstable();
        records
            .iter()
            .filter_map(|record| self.fetch(record).transpose())
            .collect()
    }

    /// The names in a directory that are text, which all of ours are; none where it is missing.
    fn names(&self, directory: &Path) -> Result<Vec<String>, Error> {
        match self.fs.read_dir(directory) {
            Ok(names) => Ok(names
                .into_iter()
                .filter_map(|name| name.into_string().ok())
                .collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(sys::failure("read", directory, &error)),
        }
    }

    /// Makes a shard's directory durable, once: syncing it for each head would double the cost.
    fn ensure_shard(&self, shard: &Path) -> Result<(), Error> {
        let known = || {
            self.durable_directories
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if known().contains(shard) {
            return Ok(());
        }
        if shard == self.root {
            atomic::create_directories(&*self.fs, shard, PRIVATE_DIRECTORY)?;
        } else {
            self.ensure_shard(directory_of(shard))?;
            atomic::create_directory(&*self.fs, shard, PRIVATE_DIRECTORY)?;
        }
        known().insert(shard.to_owned());
        Ok(())
    }

    fn path_of(&self, record: &RecordId, ending: &str) -> PathBuf {
        let hex = record.to_hex();
        let (shard, rest) = hex.split_at(SHARD_DIGITS);
        self.root.join(shard).join(format!("{rest}.{ending}"))
    }

    fn line_directory(&self, line: &Digest) -> PathBuf {
        let hex = line.to_hex();
        let (shard, rest) = hex.split_at(SHARD_DIGITS);
        self.root.join("lines").join(shard).join(rest)
    }

    pub(super) fn place_file(&self, kind: RecordKind, place: &str) -> PathBuf {
        let parts = [kind.as_str().as_bytes(), place.as_bytes()];
        let hex = Digest::tagged("head place", &parts).to_hex();
        let (shard, rest) = hex.split_at(SHARD_DIGITS);
        self.root.join("places").join(shard).join(rest)
    }

    fn record_in(&self, place_file: &Path) -> Result<Option<RecordId>, Error> {
        let Some(bytes) = self.read_if_there(place_file, PLACE_FILE_BYTES)? else {
            return Ok(None);
        };
        let text = std::str::from_utf8(&bytes).ok();
        let hex = text.and_then(|text| text.strip_suffix('\n'));
        let damaged = || {
            let path = place_file.display();
            Error::new(
                ErrorKind::External,
                format!("the place file {path} is damaged; remove it"),
            )
        };
        hex.and_then(RecordId::parse_hex)
            .map(Some)
            .ok_or_else(damaged)
    }

    /// Notes that this record is the last one in its place.
    fn put_place(&self, new: &StoredHead) -> Result<(), Error> {
        let Some(place) = &new.path_hint else {
            return Ok(());
        };
        let path = self.place_file(new.kind, place);
        let record = new.head.record;
        if self.record_in(&path).is_ok_and(|last| last == Some(record)) {
            return Ok(());
        }
        self.ensure_shard(directory_of(&path))?;
        let text = format!("{record}\n");
        atomic::replace(&*self.fs, &path, text.as_bytes(), Mode::Set(PRIVATE_FILE))
    }

    /// Locks the shard of `record`.
    fn enter(&self, record: &RecordId) -> Result<Exclusive, Error> {
        let path = self.path_of(record, "head");
        let shard = directory_of(&path);
        self.ensure_shard(shard)?;
        Exclusive::enter(&*self.fs, &shard.join("lock"))
    }

    fn fetch_durable(&self, record: &RecordId) -> Result<Option<StoredHead>, Error> {
        let path = self.path_of(record, "head");
        let Some(bytes) = self.read_if_there(&path, codec::MAX_HEAD_FILE_BYTES)? else {
            return Ok(None);
        };
        codec::decode(&bytes)
            .filter(|stored| stored.head.record == *record)
            .map(Some)
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::External,
                    format!(
                        "the head file {} is damaged; restore it from a backup, or compare the \
                         record with a head that you know and then remove the file",
                        path.display()
                    ),
                )
            })
    }

    /// The newer of the durable head and the recent one, if that fits.
    fn newest(&self, durable: StoredHead) -> Result<StoredHead, Error> {
        let path = self.path_of(&durable.head.record, "recent");
        let slots = Slots::read(&*self.fs, &path)?;
        let Some(recent) = slots.newest(&durable.head.record) else {
            return Ok(durable);
        };
        let newer = recent.applied_to(&durable);
        Ok(match going_back(&durable, &newer) {
            None => newer,
            Some(_) => durable,
        })
    }

    fn read_if_there(&self, path: &Path, limit: usize) -> Result<Option<Vec<u8>>, Error> {
        match self.fs.symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(sys::failure("read the head file", path, &error)),
            Ok(_) => read::read_small(&*self.fs, path, limit).map(Some),
        }
    }

    fn put_durable(&self, stored: &StoredHead) -> Result<(), Error> {
        let record = &stored.head.record;
        let path = self.path_of(record, "head");
        atomic::replace(
            &*self.fs,
            &path,
            &codec::encode(stored)?,
            Mode::Set(PRIVATE_FILE),
        )
    }

    /// May `next` be kept without fsync? Only what a slot holds changes then, and the durable head
    /// is not far behind.
    fn fits_slot(&self, old: &StoredHead, next: &StoredHead) -> Result<bool, Error> {
        if RecentHead::of(next).applied_to(old) != *next {
            return Ok(false);
        }
        let durable = self.fetch_durable(&next.head.record)?;
        Ok(durable.is_some_and(|durable| next.head.seq - durable.head.seq < MAX_RECENT_SEALS))
    }

    fn put_recent(&self, stored: &StoredHead) -> Result<(), Error> {
        let path = self.path_of(&stored.head.record, "recent");
        Slots::read(&*self.fs, &path)?.write(&*self.fs, &path, &RecentHead::of(stored))
    }

    /// Writes index entries for the aliases that `old` lacks.
    fn index(&self, old: Option<&StoredHead>, new: &StoredHead) -> Result<(), Error> {
        for line in &new.aliases {
            if old.is_some_and(|old| old.aliases.contains(line)) {
                continue;
            }
            let directory = self.line_directory(line);
            self.ensure_shard(directory_of(&directory))?;
            atomic::create_directory(&*self.fs, &directory, PRIVATE_DIRECTORY)?;
            let entry = directory.join(new.head.record.to_hex());
            let opened = self
                .fs
                .open(&entry, Access::OpenOrCreate(PRIVATE_FILE))
                .map(drop);
            opened
                .and_then(|()| self.fs.sync_dir(&directory))
                .map_err(|error| sys::failure("write", &entry, &error))?;
        }
        Ok(())
    }
}

impl HeadStore for FileHeadStore {
    fn records_in(&self, is_there: &dyn Fn(&[String]) -> bool) -> Result<Vec<RecordId>, Error> {
        let stored = self.stored()?.into_iter();
        let there = stored.filter(|stored| {
            let hint = stored.path_hint.as_ref();
            hint.is_some_and(|hint| is_there(std::slice::from_ref(hint)))
        });
        Ok(there.map(|stored| stored.head.record).collect())
    }

    fn fetch(&self, record: &RecordId) -> Result<Option<StoredHead>, Error> {
        let Some(durable) = self.fetch_durable(record)? else {
            return Ok(None);
        };
        self.newest(durable).map(Some)
    }

    fn create(&self, new: &StoredHead) -> Result<Swap, Error> {
        let new = checked(new.clone())?;
        let _section = self.enter(&new.head.record)?;
        if let Some(old) = self.fetch(&new.head.record)? {
            return Ok(Swap::Differs(Some(Box::new(old))));
        }
        self.index(None, &new)?;
        self.put_place(&new)?;
        self.put_durable(&new)?;
        Ok(Swap::Stored)
    }

    fn replace_if(
        &self,
        expected: &Head,
        new: &StoredHead,
        durability: Durability,
    ) -> Result<Swap, Error> {
        let _section = self.enter(&new.head.record)?;
        let old = match self.fetch(&new.head.record)? {
            Some(old) if old.head == *expected => old,
            other => return Ok(Swap::Differs(other.map(Box::new))),
        };
        let next = succeed(&old, new)?;
        self.index(Some(&old), &next)?;
        self.put_place(&next)?;
        match durability == Durability::Written && self.fits_slot(&old, &next)? {
            true => self.put_recent(&next)?,
            false => self.put_durable(&next)?,
        }
        Ok(Swap::Stored)
    }

    fn find_by_line(&self, line: &Digest) -> Result<Vec<RecordId>, Error> {
        let directory = self.line_directory(line);
        let names = match self.fs.read_dir(&directory) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(sys::failure("read", &directory, &error)),
        };
        if names.len() > MAX_RECORDS_PER_LINE {
            return Err(Error::new(
                ErrorKind::Limit,
                format!("more than {MAX_RECORDS_PER_LINE} records share the line {line}"),
            ));
        }
        let parse = |name: &std::ffi::OsString| name.to_str().and_then(RecordId::parse_hex);
        let mut records: Vec<RecordId> = names
            .iter()
            .map(parse)
            .collect::<Option<_>>()
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::External,
                    format!(
                        "{} contains a name that is not a record id",
                        directory.display()
                    ),
                )
            })?;
        records.sort_unstable();
        Ok(records)
    }

    fn find_by_place(&self, kind: RecordKind, place: &str) -> Result<Option<StoredHead>, Error> {
        let Some(record) = self.record_in(&self.place_file(kind, place))? else {
            return Ok(None);
        };
        let stored = self.fetch(&record)?;
        Ok(stored.filter(|stored| stored.path_hint.as_deref() == Some(place)))
    }
}
