//! Reading one ledger file while others append to it.
//!
//! Readers take no lock. They read the index first and the file then, so the file is never older
//! than the index. An entry helps only to find a line. If the checksum of a line differs, the
//! reader reads the file from its beginning. It returns the lines of the file. Whole lines without
//! an entry count as records; a torn end is not returned.

use super::end::{self, End, Trusted};
use super::index::{Index, IndexEntry, PAGE, key_tag, line_at};
use super::line::{Facts, Kind, Lines};
use super::run_files::RunFiles;
use crate::ledger::{MAX_BATCH_BYTES, StoredRecord, Tip};
use crate::sys::{self, Access, FileHandle};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use threadseal_core::error::Error;

/// A ledger file, open to read as it was at one moment.
#[derive(Debug)]
pub(super) struct Reader {
    file: Arc<dyn FileHandle>,
    path: PathBuf,
    size: u64,
    index: Option<Index>,
    /// The end of the records that the index names.
    known: End,
}

/// Gets each record of a pass: its number, its bytes, its facts. Returns whether to continue.
type Visit<'v> = dyn FnMut(u64, &[u8], Facts) -> bool + 'v;

impl Reader {
    /// Opens the ledger; `None` when there is none.
    pub(super) fn open(context: &RunFiles<'_>) -> Result<Option<Self>, Error> {
        let path = &context.paths.ledger;
        let index = Index::open_to_read(context.fs, &context.paths.index, context.run)?;
        let count = match &index {
            Some(index) => index.count()?.unwrap_or(0),
            None => 0,
        };
        let file = match context.fs.open(path, Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(sys::failure("open", path, &error)),
        };
        let found = file.metadata();
        let found = found.map_err(|error| sys::failure("read", path, &error))?;
        let mut reader = Self {
            file,
            path: path.clone(),
            size: found.size,
            index,
            known: End::default(),
        };
        if let Some(index) = &reader.index
            && let Trusted::End(end) =
                end::trusted(index, &*reader.file, &reader.path, count, reader.size)?
        {
            reader.known = end;
        }
        Ok(Some(reader))
    }

    fn line(&self, entry: &IndexEntry) -> Result<Option<Vec<u8>>, Error> {
        if entry.end() > self.size {
            return Ok(None);
        }
        line_at(&*self.file, &self.path, entry)
    }

    /// The end of the ledger.
    pub(super) fn tip(&self) -> Result<Tip, Error> {
        let mut tip = self.known.tip;
        self.scan(true, &mut |number, _, facts| {
            tip = Tip {
                count: number + 1,
                hash: facts.hash,
            };
            true
        })?;
        Ok(tip)
    }

    /// Reads the records that the index does not know, or all.
    fn scan(&self, after_index: bool, visit: &mut Visit<'_>) -> Result<(), Error> {
        let known = if after_index {
            self.known
        } else {
            End::default()
        };
        let mut number = known.tip.count;
        let mut lines = Lines::new(&*self.file, &self.path, known.size, self.size);
        while let Some(line) = lines.next()? {
            match line.kind() {
                Kind::Record(facts) => {
                    if !visit(number, line.bytes, facts) {
                        return Ok(());
                    }
                    number += 1;
                }
                Kind::Torn => return Ok(()),
                Kind::Other => {
                    return Err(Error::refused(format!(
                        "{} has a line at byte {}, after record {number}, that is not a record; verify it",
                        self.path.display(),
                        line.offset
                    )));
                }
            }
        }
        Ok(())
    }

    /// The records from number `after` on, at most `limit`.
    pub(super) fn list_after(&self, after: u64, limit: usize) -> Result<Vec<StoredRecord>, Error> {
        let mut page = Page {
            records: Vec::new(),
            bytes: 0,
            limit,
        };
        if limit == 0 {
            return Ok(page.records);
        }
        let (mut next, indexed) = (after, self.known.tip.count);
        let wanted = indexed.min(after.saturating_add(limit as u64));
        while let Some(index) = &self.index
            && next < wanted
        {
            let entries = index.entries(next, wanted)?;
            let first = next;
            next += entries.len() as u64;
            for (entry, number) in entries.into_iter().zip(first..) {
                let line = match entry {
                    Some(entry) => self.line(&entry)?,
                    None => None,
                };
                let Some(line) = line else {
                    return self.list_by_scan(after, limit);
                };
                if !page.take(number, &line) {
                    return Ok(page.records);
                }
            }
        }
        self.scan(true, &mut |number, line, _| {
            number < after || page.take(number, line)
        })?;
        Ok(page.records)
    }

    fn list_by_scan(&self, after: u64, limit: usize) -> Result<Vec<StoredRecord>, Error> {
        let mut page = Page {
            records: Vec::new(),
            bytes: 0,
            limit,
        };
        self.scan(false, &mut |number, line, _| {
            number < after || page.take(number, line)
        })?;
        Ok(page.records)
    }

    /// The newest completed record with this key.
    pub(super) fn find_completed(&self, key: &str) -> Result<Option<StoredRecord>, Error> {
        if let Some(found) = self.newest_by_scan(true, key)? {
            return Ok(Some(found));
        }
        let (Some(index), tag) = (&self.index, key_tag(key)) else {
            return Ok(None);
        };
        let mut upper = self.known.tip.count;
        while upper > 0 {
            let lower = upper.saturating_sub(PAGE);
            for (entry, seq) in index
                .entries(lower, upper)?
                .into_iter()
                .rev()
                .zip((lower..upper).rev())
            {
                let Some(entry) = entry else {
                    return self.newest_by_scan(false, key);
                };
                if entry.key != Some(tag) {
                    continue;
                }
                let Some(line) = self.line(&entry)? else {
                    return self.newest_by_scan(false, key);
                };
                let facts = Facts::of_line(&line);
                if facts.is_some_and(|facts| facts.completed_key() == Some(key)) {
                    return Ok(Some(StoredRecord { seq, line }));
                }
            }
            upper = lower;
        }
        Ok(None)
    }

    fn newest_by_scan(&self, after_index: bool, key: &str) -> Result<Option<StoredRecord>, Error> {
        let mut newest = None;
        self.scan(after_index, &mut |seq, line, facts| {
            if facts.completed_key() == Some(key) {
                let line = line.to_vec();
                newest = Some(StoredRecord { seq, line });
            }
            true
        })?;
        Ok(newest)
    }
}

/// Records that are handed out together.
struct Page {
    records: Vec<StoredRecord>,
    bytes: usize,
    limit: usize,
}

impl Page {
    /// Takes a record if there is room; returns whether there is room for another.
    fn take(&mut self, seq: u64, line: &[u8]) -> bool {
        self.bytes += line.len();
        if self.bytes > MAX_BATCH_BYTES && !self.records.is_empty() {
            return false;
        }
        self.records.push(StoredRecord {
            seq,
            line: line.to_vec(),
        });
        self.records.len() < self.limit
    }
}
