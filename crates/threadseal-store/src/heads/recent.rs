//! The recent head of a record: two slots in a small file, written in place, never synced.
//!
//! ```text
//! slot 0   512 bytes   <64 hex: SHA-256 of the text> <text> LF, then blanks
//! slot 1   512 bytes   the same
//! text     recent/2 <record>:<seq>:<size>:<sha256> <0|1: final> <microseconds since 1970>
//!          <64 hex: root, or -> <64 hex: key, or ->
//! ```
//! A new head is written into the slot that does not hold the newest one. So the head before it
//! remains for a reader during the write, and after the writer is killed. Power loss may leave
//! anything in either slot. A slot whose checksum does not match holds no head, and the durable
//! head of the record counts. So does it where the slot has another form, as of an earlier version.

use super::StoredHead;
use crate::atomic::PRIVATE_FILE;
use crate::sys::{self, Access, Fs};
use std::io;
use std::path::Path;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::key::KeyId;
use threadseal_core::record::{Head, RecordId, parse_decimal};
use threadseal_core::time::Timestamp;

const SLOT_BYTES: usize = 512;
const LABEL: &str = "recent/2";
/// A value that is not known.
const NONE: &str = "-";

/// The values that change from one head of a record to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecentHead {
    head: Head,
    root: Option<Digest>,
    key: Option<KeyId>,
    is_final: bool,
    updated: Timestamp,
}

impl RecentHead {
    pub(super) fn of(stored: &StoredHead) -> Self {
        Self {
            head: stored.head,
            root: stored.root,
            key: stored.key,
            is_final: stored.is_final,
            updated: stored.updated,
        }
    }

    /// `stored` with this head in place of its own.
    pub(super) fn applied_to(&self, stored: &StoredHead) -> StoredHead {
        StoredHead {
            head: self.head,
            root: self.root,
            key: self.key,
            is_final: self.is_final,
            updated: self.updated,
            ..stored.clone()
        }
    }

    fn encode(&self) -> [u8; SLOT_BYTES] {
        let text = format!(
            "{LABEL} {} {} {} {} {}",
            self.head,
            u8::from(self.is_final),
            self.updated.as_micros(),
            self.root.map_or(NONE.to_owned(), |root| root.to_hex()),
            self.key.map_or(NONE.to_owned(), |key| key.to_hex()),
        );
        let line = format!("{} {text}\n", Digest::of(text.as_bytes()));
        let mut slot = [b' '; SLOT_BYTES];
        // The longest line, with numbers of twenty digits, has 460 bytes.
        for (place, byte) in slot.iter_mut().zip(line.bytes()) {
            *place = byte;
        }
        slot
    }

    fn decode(slot: &[u8]) -> Option<Self> {
        let (line, _) = std::str::from_utf8(slot).ok()?.split_once('\n')?;
        let (sum, text) = line.split_once(' ')?;
        if Digest::parse_hex(sum)? != Digest::of(text.as_bytes()) {
            return None;
        }
        let mut words = text.split(' ');
        if words.next()? != LABEL {
            return None;
        }
        let decoded = Self {
            head: Head::parse(words.next()?)?,
            is_final: match words.next()? {
                "0" => false,
                "1" => true,
                _ => return None,
            },
            updated: Timestamp::from_micros(parse_decimal(words.next()?)?).ok()?,
            root: known(words.next()?, Digest::parse_hex)?,
            key: known(words.next()?, KeyId::parse_hex)?,
        };
        words.next().is_none().then_some(decoded)
    }
}

/// A value of a slot; None where the word is none.
#[expect(
    clippy::option_option,
    reason = "a value that is absent, and a word that is wrong"
)]
fn known<T>(word: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<Option<T>> {
    match word {
        NONE => Some(None),
        word => parse(word).map(Some),
    }
}

/// The two slots, as they were read.
#[derive(Debug)]
pub(super) struct Slots([Option<RecentHead>; 2]);

impl Slots {
    /// Reads the file; an absent one has two empty slots.
    pub(super) fn read(fs: &dyn Fs, path: &Path) -> Result<Self, Error> {
        let fail = |error: io::Error| sys::failure("read the head file", path, &error);
        let file = match fs.open(path, Access::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self([None, None])),
            result => result.map_err(fail)?,
        };
        let mut bytes = [0; 2 * SLOT_BYTES];
        let count = sys::read_full_at(&*file, &mut bytes, 0).map_err(fail)?;
        let (first, second) = bytes[..count].split_at(count.min(SLOT_BYTES));
        Ok(Self([first, second].map(RecentHead::decode)))
    }

    /// The newest head of `record` in the slots.
    pub(super) fn newest(&self, record: &RecordId) -> Option<RecentHead> {
        self.0
            .into_iter()
            .flatten()
            .filter(|recent| recent.head.record == *record)
            .max_by_key(|recent| (recent.head.seq, recent.is_final, recent.updated))
    }

    /// Writes `recent` into the slot that does not hold the newest head.
    pub(super) fn write(&self, fs: &dyn Fs, path: &Path, recent: &RecentHead) -> Result<(), Error> {
        let fail = |error: io::Error| sys::failure("write", path, &error);
        let newest = self.newest(&recent.head.record);
        let slot = usize::from(newest.is_some() && self.0[0] == newest);
        let file = match fs.open(path, Access::Rewrite) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs.open(path, Access::OpenOrCreate(PRIVATE_FILE))
                    .map_err(fail)?;
                fs.open(path, Access::Rewrite).map_err(fail)?
            }
            result => result.map_err(fail)?,
        };
        let offset = (slot * SLOT_BYTES) as u64;
        sys::write_all_at(&*file, &recent.encode(), offset).map_err(fail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::FaultFs;

    fn recent(seq: u64) -> RecentHead {
        RecentHead {
            head: Head {
                record: RecordId::from_bytes([1; 32]),
                seq,
                size: u64::MAX,
                line: Digest::of(b"line"),
            },
            root: (!seq.is_multiple_of(3)).then(|| Digest::of(b"root")),
            key: (seq % 3 > 1).then(|| KeyId::parse_hex(&"ab".repeat(32)).unwrap()),
            is_final: seq % 2 == 1,
            updated: Timestamp::from_micros(seq).unwrap(),
        }
    }

    #[test]
    fn a_slot_round_trips_and_every_changed_byte_of_its_line_is_noticed() {
        for seq in [0, 1, 2, 253_402_300_799_999_999] {
            let slot = recent(seq).encode();
            assert_eq!(RecentHead::decode(&slot), Some(recent(seq)));
            let line = slot.iter().position(|byte| *byte == b'\n').unwrap();
            for at in 0..=line {
                let mut damaged = slot;
                damaged[at] ^= 1;
                assert_eq!(RecentHead::decode(&damaged), None, "byte {at}");
            }
        }
    }

    #[test]
    fn the_newest_head_is_never_the_one_that_is_overwritten() {
        let fs = FaultFs::new();
        let path = Path::new("/recent");
        let record = recent(0).head.record;
        for seq in 0..20_u64 {
            let before = Slots::read(&fs, path).unwrap();
            assert_eq!(before.newest(&record), seq.checked_sub(1).map(recent));
            before.write(&fs, path, &recent(seq)).unwrap();
            let after = Slots::read(&fs, path).unwrap();
            assert!(seq == 0 || after.0.contains(&Some(recent(seq - 1))));
        }
    }
}
