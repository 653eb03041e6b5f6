//! Checking everything that is stored of one record, without the reader's shortcuts.
//!
//! | code | fault | repair |
//! |---|---|---|
//! | `head_damaged` | the head does not have the bytes that were written | no |
//! | `missing` | an object that the head leads to does not exist | no |
//! | `changed` | an object has other bytes than its name states, or other contents | no |
//! | `stranger` | an object with a name that this store gives to none | no |
//! | `leftover` | a record whose deletion was interrupted | deleting the rest of it |
//! | `orphan` | a sealed object that no head names, or can ever come to name | removing it |
//!
//! *Why an orphan stays one for ever*: the name of an object contains the number of a writer. That
//! writer is the first that names it in a head. It seals objects only after its claim. The object
//! was listed before the head was read. If that head has another number, its writer was superseded
//! before. No later writer names an object that the head does not lead to. An object with the
//! number of the head's writer may soon be named, so it stays.

use super::head::{self, Head, MAX_HEAD_BYTES, MAX_INDEX_BYTES, Nonce, Ref, SEGMENT_BYTES};
use super::tree::{Indexes, Place};
use super::write;
use crate::fsck::Fault;
use crate::objects::{self, spell};
use crate::transcripts::FsckReport;
use crate::transcripts::transcript_store::no_record;
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::error::{Error, ErrorKind};

pub(super) fn fsck(place: &Place, repair: bool) -> Result<FsckReport, Error> {
    let report = FsckReport {
        name: place.name.clone(),
        bytes: 0,
        faults: Vec::new(),
        more: 0,
    };
    let mut look = Look {
        place,
        repair,
        report,
    };
    match look.head()? {
        Some(head) if head.deleted.is_some() => look.leftover()?,
        Some(head) => {
            for (level, refs) in head.levels.iter().enumerate().rev() {
                look.below(level, refs)?;
            }
            look.report.bytes += head.open.len() as u64;
            // If an index cannot be read, the set of named objects is unknown.
            if look.report.faults.is_empty() {
                look.unnamed(&head::segment_folder(&place.name), false)?;
                look.unnamed(&head::index_folder(&place.name), true)?;
            }
        }
        None => look.fault(
            "head_damaged",
            None,
            format!(
                "{} differs from what was written",
                head::head_name(&place.name)
            ),
        ),
    }
    Ok(look.report)
}

struct Look<'p> {
    place: &'p Place,
    repair: bool,
    report: FsckReport,
}

impl Look<'_> {
    fn fault(&mut self, code: &'static str, at: Option<u64>, message: String) {
        self.note(Fault::new(code, at, message));
    }

    fn note(&mut self, fault: Fault) {
        fault.note(&mut self.report.faults, &mut self.report.more);
    }

    /// The head as it is now; `None` when it is damaged.
    fn head(&self) -> Result<Option<Head>, Error> {
        let name = head::head_name(&self.place.name);
        let found = self.place.objects.read(&name, MAX_HEAD_BYTES)?;
        let found = found.ok_or_else(|| no_record(&self.place.name))?;
        Ok(Head::decode(&self.place.name, &found.bytes))
    }

    /// Reports the rest of a record that was deleted, and removes it on request.
    fn leftover(&mut self) -> Result<(), Error> {
        let name = &self.place.name;
        let mut left = self
            .place
            .objects
            .read(&head::gone_name(name), 1)?
            .is_none();
        for folder in head::folders(name) {
            left |= !self.place.objects.list(&folder, "", 1)?.is_empty();
        }
        if !left {
            return Ok(());
        }
        if self.repair {
            write::remove_all(self.place)?;
        }
        let text =
            "its deletion was interrupted: no reader uses the objects that remain".to_owned();
        self.note(Fault {
            repaired: self.repair,
            ..Fault::new("leftover", None, text)
        });
        Ok(())
    }

    /// Every object that `refs` of `level` lead to, in order.
    fn below(&mut self, level: usize, refs: &[Ref]) -> Result<(), Error> {
        for found in refs {
            let Some(level) = level.checked_sub(1) else {
                let name = head::segment_name(&self.place.name, found);
                if let Some(bytes) = self.object(&name, found, SEGMENT_BYTES)? {
                    match bytes.len() as u64 == found.count {
                        true => self.report.bytes += found.count,
                        false => self.other(&name, found),
                    }
                }
                continue;
            };
            let name = head::index_name(&self.place.name, level, found);
            if let Some(bytes) = self.object(&name, found, MAX_INDEX_BYTES)? {
                match head::parse_index(&self.place.name, level, found, &bytes) {
                    Some(refs) => self.below(level, &refs)?,
                    None => self.other(&name, found),
                }
            }
        }
        Ok(())
    }

    fn other(&mut self, name: &str, found: &Ref) {
        let text = format!("{name} does not match the reference to it");
        self.fault("changed", Some(found.first), text);
    }

    /// The bytes of a sealed object, if they are there and the right ones.
    fn object(&mut self, name: &str, found: &Ref, limit: usize) -> Result<Option<Vec<u8>>, Error> {
        let first = Some(found.first);
        match self.place.objects.read(name, limit) {
            Ok(Some(object)) if Digest::of(&object.bytes).to_hex() == found.sha256 => {
                return Ok(Some(object.bytes));
            }
            Ok(Some(_)) => self.fault("changed", first, format!("{name} has other bytes")),
            Ok(None) => self.fault("missing", first, format!("{name} is missing")),
            Err(error) if error.kind() == ErrorKind::Refused => {
                self.fault("changed", first, error.to_string());
            }
            Err(error) => return Err(error),
        }
        Ok(None)
    }

    /// Reports the objects in `folder` that the head does not lead to.
    fn unnamed(&mut self, folder: &str, are_indexes: bool) -> Result<(), Error> {
        let place = self.place;
        objects::each_name(&*place.objects, folder, &mut |names| {
            // Read after the names: the writer that sealed one of them had claimed the record
            // before.
            let Some(head) = self.head()? else {
                return Err(place.damaged(folder, "has a head that was damaged meanwhile"));
            };
            let mut indexes = Indexes::default();
            names.iter().try_for_each(|name| {
                let whole = format!("{folder}/{name}");
                let Some(sealed) = SealedName::parse(name, are_indexes) else {
                    let text = format!("{whole} was not written by a store");
                    self.fault("stranger", None, text);
                    return Ok(());
                };
                let level = sealed.level.map_or(0, |level| level + 1);
                let named = indexes.find(place, &head, level, sealed.first)?;
                let named = named.map(|found| match sealed.level {
                    None => head::segment_name(&place.name, &found),
                    Some(level) => head::index_name(&place.name, level, &found),
                });
                match named == Some(whole.clone()) || sealed.writer == head.writer {
                    true => Ok(()),
                    false => self.orphan(&whole, sealed.first),
                }
            })
        })
    }

    fn orphan(&mut self, name: &str, first: u64) -> Result<(), Error> {
        if self.repair {
            self.place.objects.remove(name)?;
        }
        let text = format!("no head names {name}, or can name it later");
        self.note(Fault {
            repaired: self.repair,
            ..Fault::new("orphan", Some(first), text)
        });
        Ok(())
    }
}

/// The parts of a sealed object's name.
struct SealedName {
    /// Of an index: the level of the objects that it names.
    level: Option<usize>,
    first: u64,
    writer: Nonce,
}

impl SealedName {
    fn parse(name: &str, is_index: bool) -> Option<Self> {
        let (level, rest) = match is_index {
            false => (None, name),
            true => {
                let (level, rest) = name.split_once('-')?;
                let level = usize::try_from(spell::number(level, 2)?).ok()?;
                (Some(level), rest)
            }
        };
        let mut parts = rest.splitn(3, '-');
        let first = spell::number(parts.next()?, 20)?;
        Digest::parse_hex(parts.next()?)?;
        let writer = encoding::parse_hex_array(parts.next()?)?;
        Some(Self {
            level,
            first,
            writer,
        })
    }
}
