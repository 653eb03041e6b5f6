//! [`ObjectHeadStore`]: heads in object storage, for hosts that share their knowledge.
//!
//! ```text
//! records/<64 hex: record>                   the head                             (codec.rs)
//! lines/<64 hex: line>/<64 hex: record>      empty: the line is an alias of the record
//! places/<64 hex>                            <64 hex: record> LF: the record that was sealed last
//!                                            in a place = tagged("head place", [kind, path hint])
//! ```
//! A head is replaced only in place of the version that was read. After a lost answer the store
//! reads: if exactly the new head is stored, the write was done. All writes are durable, whatever
//! durability was requested. Aliases and places are written before the head that has them. So after
//! a crash a record is forgotten in a place, rather than another one accused.

use super::{
    Durability, HeadStore, MAX_RECORDS_PER_LINE, StoredHead, Swap, checked, codec, succeed,
};
use crate::objects::{self, Objects, Put, Version};
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::{Head, RecordId, RecordKind};

/// Bytes of a place: a record id in hex and LF.
const PLACE_BYTES: usize = 65;
/// Limit of attempts to write a place that others write at the same time.
const MAX_TRIES: usize = 100;

/// Heads in object storage.
#[derive(Debug)]
pub struct ObjectHeadStore {
    objects: Arc<dyn Objects>,
}

impl ObjectHeadStore {
    /// The heads in `objects`.
    pub fn new(objects: Arc<dyn Objects>) -> Self {
        Self { objects }
    }

    fn read(&self, record: &RecordId) -> Result<Option<(StoredHead, Version)>, Error> {
        let name = name_of(record);
        let Some(found) = self.objects.read(&name, codec::MAX_HEAD_FILE_BYTES)? else {
            return Ok(None);
        };
        let stored = codec::decode(&found.bytes).filter(|stored| stored.head.record == *record);
        match stored {
            Some(stored) => Ok(Some((stored, found.version))),
            None => Err(Error::new(
                ErrorKind::External,
                format!(
                    "the head {name} in {} is damaged; restore it, or compare the record with a head \
                     that you know and then remove it",
                    self.objects.place()
                ),
            )),
        }
    }

    /// The result of a write: read from the storage where the answer does not show it.
    fn settled(&self, put: Result<Put, Error>, new: &StoredHead) -> Result<Swap, Error> {
        let error = match put {
            Ok(Put::Stored(_)) => return Ok(Swap::Stored),
            Ok(Put::Differs) => None,
            Err(error) => Some(error),
        };
        let found = self.read(&new.head.record)?.map(|(stored, _)| stored);
        match (found, error) {
            (Some(found), _) if found == *new => Ok(Swap::Stored),
            (_, Some(error)) => Err(error),
            (found, None) => Ok(Swap::Differs(found.map(Box::new))),
        }
    }

    /// Writes the aliases that `old` lacks, and the place.
    fn index(&self, old: Option<&StoredHead>, new: &StoredHead) -> Result<(), Error> {
        for line in &new.aliases {
            if old.is_none_or(|old| !old.aliases.contains(line)) {
                let name = format!("{}/{}", folder_of(line), new.head.record.to_hex());
                objects::seal(&*self.objects, &name, b"")?;
            }
        }
        let Some(place) = &new.path_hint else {
            return Ok(());
        };
        let (name, record) = (place_name(new.kind, place), new.head.record);
        let text = format!("{record}\n");
        for _ in 0..MAX_TRIES {
            let put = match self.objects.read(&name, PLACE_BYTES) {
                Ok(Some(found)) if found.bytes == text.as_bytes() => return Ok(()),
                Ok(Some(found)) => {
                    self.objects
                        .replace_if(&name, &found.version, text.as_bytes())?
                }
                Ok(None) => self.objects.create(&name, text.as_bytes())?,
                Err(error) => return Err(error),
            };
            if matches!(put, Put::Stored(_)) {
                return Ok(());
            }
        }
        let text = format!("others wrote {name} {MAX_TRIES} times meanwhile; try again");
        Err(Error::new(ErrorKind::External, text))
    }
}

impl HeadStore for ObjectHeadStore {
    fn fetch(&self, record: &RecordId) -> Result<Option<StoredHead>, Error> {
        Ok(self.read(record)?.map(|(stored, _)| stored))
    }

    fn create(&self, new: &StoredHead) -> Result<Swap, Error> {
        let new = checked(new.clone())?;
        let bytes = codec::encode(&new)?;
        if let Some((old, _)) = self.read(&new.head.record)? {
            return Ok(Swap::Differs(Some(Box::new(old))));
        }
        self.index(None, &new)?;
        let put = self.objects.create(&name_of(&new.head.record), &bytes);
        self.settled(put, &new)
    }

    fn replace_if(&self, expected: &Head, new: &StoredHead, _: Durability) -> Result<Swap, Error> {
        let (old, version) = match self.read(&new.head.record)? {
            Some(found) if found.0.head == *expected => found,
            other => return Ok(Swap::Differs(other.map(|(stored, _)| Box::new(stored)))),
        };
        let next = succeed(&old, new)?;
        let bytes = codec::encode(&next)?;
        self.index(Some(&old), &next)?;
        let name = name_of(&next.head.record);
        let put = self.objects.replace_if(&name, &version, &bytes);
        self.settled(put, &next)
    }

    fn find_by_line(&self, line: &Digest) -> Result<Vec<RecordId>, Error> {
        let folder = folder_of(line);
        let names = self.objects.list(&folder, "", MAX_RECORDS_PER_LINE + 1)?;
        if names.len() > MAX_RECORDS_PER_LINE {
            return Err(Error::new(
                ErrorKind::Limit,
                format!("more than {MAX_RECORDS_PER_LINE} records share the line {line}"),
            ));
        }
        let records: Option<Vec<RecordId>> =
            names.iter().map(|name| RecordId::parse_hex(name)).collect();
        let mut records = records.ok_or_else(|| {
            let text = format!("{folder} contains a name that is not a record id");
            Error::new(ErrorKind::External, text)
        })?;
        records.sort_unstable();
        Ok(records)
    }

    fn find_by_place(&self, kind: RecordKind, place: &str) -> Result<Option<StoredHead>, Error> {
        let name = place_name(kind, place);
        let Some(found) = self.objects.read(&name, PLACE_BYTES)? else {
            return Ok(None);
        };
        let text = std::str::from_utf8(&found.bytes).ok();
        let hex = text.and_then(|text| text.strip_suffix('\n'));
        let record = hex.and_then(RecordId::parse_hex).ok_or_else(|| {
            let text = format!("{name} in {} is damaged; remove it", self.objects.place());
            Error::new(ErrorKind::External, text)
        })?;
        let stored = self.fetch(&record)?;
        Ok(stored.filter(|stored| stored.path_hint.as_deref() == Some(place)))
    }
}

fn name_of(record: &RecordId) -> String {
    format!("records/{record}")
}

fn folder_of(line: &Digest) -> String {
    format!("lines/{line}")
}

fn place_name(kind: RecordKind, place: &str) -> String {
    let parts = [kind.as_str().as_bytes(), place.as_bytes()];
    format!("places/{}", Digest::tagged("head place", &parts))
}
