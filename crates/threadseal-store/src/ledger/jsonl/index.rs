//! The side index of one ledger file: the place of each record, and facts about it.
//!
//! ```text
//! header   "threadseal.ledger.index/1\n" 00 00 │ SHA-256 tag of the run id (32)
//!          │ CRC-32 of these (4)
//! entry    offset u64 │ length u32 │ CRC-32 of line and LF u32 │ record hash (32) │ key tag (8)
//!          │ flags u8 │ 00 00 00 │ CRC-32 of u64 number of the entry and the 60 bytes before (4)
//! flags    1 chained, 2 completed, with an idempotency key, 4 all bytes up to its end are durable
//! ```
//! Numbers are little-endian; header and entries have 64 bytes each, so entry `n` is at
//! `64 (n + 1)`. An entry is written after its record is as durable as promised, and every 1024th
//! entry is synced. After power loss the index may have fewer records than its file, or holes among
//! the last. It is made again from the file when it is lost. No byte of a record ever comes from
//! it. A record whose entry has flag 4 was acknowledged; a file that lacks it has lost records.

use super::line::Facts;
use crate::atomic::PRIVATE_FILE;
use crate::sys::{self, Access, FileHandle, Fs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::limits::MAX_LINE_BYTES;
use threadseal_formats::ledger::RunId;

/// Bytes of the header and of each entry.
pub(super) const SLOT: u64 = 64;
const SLOT_BYTES: usize = 64;
const MAGIC: &[u8; 28] = b"threadseal.ledger.index/1\n\0\0";
const CHAINED: u8 = 1;
const COMPLETED: u8 = 2;
const DURABLE: u8 = 4;
/// Entries that are read at once, and the number of them between two syncs.
pub(super) const PAGE: u64 = 1024;
/// Bytes that are read at once where every entry is looked at.
const BLOCK_BYTES: usize = 1024 * SLOT_BYTES;

/// The facts about one record in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IndexEntry {
    /// Offset of its line in the ledger.
    pub(super) offset: u64,
    /// Bytes of the line without its LF.
    pub(super) length: u32,
    /// CRC-32 of the line with its LF.
    pub(super) crc: u32,
    pub(super) hash: Option<Digest>,
    /// The tag of its idempotency key, if it is completed and has one.
    pub(super) key: Option<[u8; 8]>,
    /// Did all bytes up to its end survive power loss when this was written?
    pub(super) durable: bool,
}

impl IndexEntry {
    /// The entry of a line that begins at `offset`.
    pub(super) fn new(offset: u64, line: &[u8], facts: &Facts, durable: bool) -> Self {
        Self {
            offset,
            length: u32::try_from(line.len()).unwrap_or(u32::MAX),
            crc: crc_of_line(line),
            hash: facts.hash,
            key: facts.completed_key().map(key_tag),
            durable,
        }
    }

    /// Offset of the next line.
    pub(super) fn end(&self) -> u64 {
        self.offset + u64::from(self.length) + 1
    }

    pub(super) fn encode(&self, number: u64) -> [u8; SLOT_BYTES] {
        let mut out = [0; SLOT_BYTES];
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(self.hash.is_some(), CHAINED)
            | flag(self.key.is_some(), COMPLETED)
            | flag(self.durable, DURABLE);
        out[..8].copy_from_slice(&self.offset.to_le_bytes());
        out[8..12].copy_from_slice(&self.length.to_le_bytes());
        out[12..16].copy_from_slice(&self.crc.to_le_bytes());
        if let Some(hash) = &self.hash {
            out[16..48].copy_from_slice(hash.as_bytes());
        }
        out[48..56].copy_from_slice(&self.key.unwrap_or_default());
        out[56] = flags;
        let crc = crc_of_entry(number, &out[..60]);
        out[60..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads the bytes that [`IndexEntry::encode`] wrote at this number; `None` for anything else.
    pub(super) fn decode(number: u64, slot: &[u8]) -> Option<Self> {
        let (body, crc) = slot.split_last_chunk::<4>()?;
        if body.len() != 60 || u32::from_le_bytes(*crc) != crc_of_entry(number, body) {
            return None;
        }
        let flags = body[56];
        let hash = Digest::from_bytes(body[16..48].try_into().ok()?);
        Some(Self {
            offset: u64::from_le_bytes(body[..8].try_into().ok()?),
            length: u32::from_le_bytes(body[8..12].try_into().ok()?),
            crc: u32::from_le_bytes(body[12..16].try_into().ok()?),
            hash: (flags & CHAINED != 0).then_some(hash),
            key: (flags & COMPLETED != 0).then_some(body[48..56].try_into().ok()?),
            durable: flags & DURABLE != 0,
        })
    }
}

/// The tag of an idempotency key in the index; two keys may share it.
pub(super) fn key_tag(key: &str) -> [u8; 8] {
    let digest = Digest::tagged("ledger idempotency key", &[key.as_bytes()]);
    let mut tag = [0; 8];
    tag.copy_from_slice(&digest.as_bytes()[..8]);
    tag
}

pub(super) fn crc_of_line(line: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(line);
    crc.update(b"\n");
    crc.finalize()
}

fn crc_of_entry(number: u64, body: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&number.to_le_bytes());
    crc.update(body);
    crc.finalize()
}

fn header(run: &RunId) -> [u8; SLOT_BYTES] {
    let mut out = [0; SLOT_BYTES];
    out[..28].copy_from_slice(MAGIC);
    let tag = Digest::tagged("ledger index", &[run.as_str().as_bytes()]);
    out[28..60].copy_from_slice(tag.as_bytes());
    let crc = crc32fast::hash(&out[..60]);
    out[60..].copy_from_slice(&crc.to_le_bytes());
    out
}

#[derive(Debug)]
pub(super) struct Index {
    file: Arc<dyn FileHandle>,
    path: PathBuf,
    run: RunId,
}

impl Index {
    /// Opens the index to read; `None` when there is none.
    pub(super) fn open_to_read(
        fs: &dyn Fs,
        path: &Path,
        run: &RunId,
    ) -> Result<Option<Self>, Error> {
        match fs.open(path, Access::Read) {
            Ok(file) => Ok(Some(Self::of(file, path, run))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(sys::failure("open", path, &error)),
        }
    }

    /// Opens the index to write, made if need be; only under the ledger's lock.
    pub(super) fn open_to_write(fs: &dyn Fs, path: &Path, run: &RunId) -> Result<Self, Error> {
        let file = fs.open(path, Access::OpenOrCreate(PRIVATE_FILE));
        let file = file.map_err(|error| sys::failure("open", path, &error))?;
        Ok(Self::of(file, path, run))
    }

    fn of(file: Arc<dyn FileHandle>, path: &Path, run: &RunId) -> Self {
        Self {
            file,
            path: path.to_owned(),
            run: run.clone(),
        }
    }

    fn fail(&self, action: &str) -> impl Fn(std::io::Error) -> Error {
        let (action, path) = (action.to_owned(), self.path.clone());
        move |error| sys::failure(&action, &path, &error)
    }

    /// Whether it still has its name and exactly `count` entries.
    pub(super) fn is_at(&self, count: u64) -> Result<bool, Error> {
        let found = self.file.metadata().map_err(self.fail("read"))?;
        Ok(found.links > 0 && found.size == SLOT * (count + 1))
    }

    /// Whether it was not removed.
    pub(super) fn has_its_name(&self) -> Result<bool, Error> {
        let found = self.file.metadata().map_err(self.fail("read"))?;
        Ok(found.links > 0)
    }

    /// How many whole entries there are; `None` when the header is not this run's.
    pub(super) fn count(&self) -> Result<Option<u64>, Error> {
        let size = self.file.metadata().map_err(self.fail("read"))?.size;
        let mut found = [0; SLOT_BYTES];
        let count = sys::read_full_at(&*self.file, &mut found, 0).map_err(self.fail("read"))?;
        let good = count == SLOT_BYTES && found == header(&self.run);
        Ok(good.then(|| size / SLOT - 1))
    }

    /// Where the first header or entry begins that no writer of this run put there. A loss of power
    /// leaves zeros and parts of entries; neither is one.
    pub(super) fn first_foreign(&self) -> Result<Option<u64>, Error> {
        let (mut page, mut number) = (vec![0; BLOCK_BYTES], 0);
        loop {
            let count = sys::read_full_at(&*self.file, &mut page, SLOT * number)
                .map_err(self.fail("read"))?;
            for slot in page[..count].chunks_exact(SLOT_BYTES) {
                let is_ours = match number.checked_sub(1) {
                    None => slot == header(&self.run),
                    Some(entry) => IndexEntry::decode(entry, slot).is_some(),
                };
                if !is_ours && slot.iter().any(|byte| *byte != 0) {
                    return Ok(Some(SLOT * number));
                }
                number += 1;
            }
            if count < page.len() {
                // A header that was cut is none; an entry that was cut is the last one.
                let begins = &page[..count];
                let is_short = number == 0 && !header(&self.run).starts_with(begins);
                return Ok((is_short && begins.iter().any(|byte| *byte != 0)).then_some(0));
            }
        }
    }

    /// The entries `from..to`, at most [`PAGE`]; `None` in place of each that is damaged.
    pub(super) fn entries(&self, from: u64, to: u64) -> Result<Vec<Option<IndexEntry>>, Error> {
        let wanted = usize::try_from(to.saturating_sub(from).min(PAGE)).unwrap_or(0);
        let mut bytes = vec![0; wanted * SLOT_BYTES];
        let count = sys::read_full_at(&*self.file, &mut bytes, SLOT * (from + 1))
            .map_err(self.fail("read"))?;
        bytes.truncate(count);
        let numbered = bytes.chunks(SLOT_BYTES).zip(from..);
        let mut entries: Vec<_> = numbered
            .map(|(slot, number)| IndexEntry::decode(number, slot))
            .collect();
        entries.resize(wanted, None);
        Ok(entries)
    }

    /// Cuts it to its first `count` entries, with a good header, whatever it held.
    pub(super) fn cut(&self, count: u64) -> Result<(), Error> {
        if self.count()?.is_none() {
            self.file.set_len(0).map_err(self.fail("cut"))?;
            return sys::append_all(&*self.file, &header(&self.run)).map_err(self.fail("write"));
        }
        self.file
            .set_len(SLOT * (count + 1))
            .map_err(self.fail("cut"))
    }

    /// The first damaged entry among those of the first `count` that may never have been synced;
    /// `count` when they are good.
    pub(super) fn first_damaged(&self, count: u64) -> Result<u64, Error> {
        let mut from = (count / PAGE).saturating_sub(1) * PAGE;
        while from < count {
            let page = self.entries(from, count)?;
            if let Some(damaged) = page.iter().position(Option::is_none) {
                return Ok(from + damaged as u64);
            }
            from += page.len() as u64;
        }
        Ok(count)
    }

    pub(super) fn sync(&self) -> Result<(), Error> {
        self.file.sync_data().map_err(self.fail("sync"))
    }

    /// Appends entries that begin with number `first`.
    pub(super) fn append(&self, first: u64, entries: &[IndexEntry]) -> Result<(), Error> {
        let numbered = entries.iter().zip(first..);
        let bytes: Vec<u8> = numbered
            .flat_map(|(entry, number)| entry.encode(number))
            .collect();
        sys::append_all(&*self.file, &bytes).map_err(self.fail("write"))?;
        if first / PAGE != (first + entries.len() as u64) / PAGE {
            self.sync()?;
        }
        Ok(())
    }
}

/// The bytes of the line at `offset`, without its LF, if an LF ends it and `crc` is theirs.
pub(super) fn line_at(
    file: &dyn FileHandle,
    path: &Path,
    entry: &IndexEntry,
) -> Result<Option<Vec<u8>>, Error> {
    let length = usize::try_from(entry.length).unwrap_or(usize::MAX);
    if length > MAX_LINE_BYTES {
        return Ok(None);
    }
    let mut line = vec![0; length + 1];
    let count = sys::read_full_at(file, &mut line, entry.offset)
        .map_err(|error| sys::failure("read", path, &error))?;
    let whole = count == line.len() && line.pop() == Some(b'\n');
    Ok((whole && crc_of_line(&line) == entry.crc).then_some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_only_at_its_number_and_when_every_bit_is_right() {
        let facts = Facts {
            hash: Some(Digest::of(b"h")),
            key: Some("k".into()),
            completed: true,
        };
        let entry = IndexEntry::new(70, b"{}", &facts, true);
        assert_eq!(entry.end(), 73);
        let slot = entry.encode(9);
        assert_eq!(IndexEntry::decode(9, &slot), Some(entry));
        assert_eq!(IndexEntry::decode(8, &slot), None);
        assert_eq!(IndexEntry::decode(9, &slot[..63]), None);
        assert_eq!(IndexEntry::decode(0, &[0; SLOT_BYTES]), None);
        for bit in 0..SLOT_BYTES * 8 {
            let mut flipped = slot;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(IndexEntry::decode(9, &flipped), None, "bit {bit}");
        }
    }
}
