//! Checking everything that is stored of one log, without the reader's shortcuts.
//!
//! | code | fault | repair |
//! |---|---|---|
//! | `missing` | an object that the head leads to does not exist | no |
//! | `changed` | an object has other bytes than its name states, or other contents | no |
//! | `stranger` | an object with a name that this store gives to none | no |
//! | `orphan` | a sealed object that no head names, or can ever come to name | removing it |
//!
//! [`Format::may_come_to_name`] decides what an orphan is. It is asked with a head that was read
//! after the object was listed.

use super::format::{Format, Names, Reference as _, SealedName};
use super::head::{Head, parse_index};
use super::levels::Span as _;
use super::log::{Indexes, SegmentedLog};
use crate::fsck::Fault;
use crate::objects;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};

/// Takes what a check finds.
pub(crate) trait Audit<F: Format> {
    /// Items in order, from this number on.
    fn items(&mut self, first: u64, items: &[F::Item]);

    /// A gap: the items of an object that cannot be read.
    fn gap(&mut self);

    /// A fault.
    fn fault(&mut self, fault: Fault);
}

/// The present head; `None` where there is none, an inner `None` where it is damaged.
pub(crate) fn read_head<F: Format>(
    log: &SegmentedLog<F>,
) -> Result<Option<Option<Head<F>>>, Error> {
    let found = log.objects.read(&log.head_name(), F::MAX_HEAD_BYTES)?;
    Ok(found.map(|found| Head::decode(&log.name, &found.bytes)))
}

/// Checks the objects that `head` leads to, and then looks for others.
pub(crate) fn check<F: Format>(
    log: &SegmentedLog<F>,
    head: &Head<F>,
    repair: bool,
    audit: &mut dyn Audit<F>,
) -> Result<(), Error> {
    let mut walk = Walk {
        log,
        repair,
        audit,
        lacks_index: false,
    };
    for (level, refs) in head.levels.iter().enumerate().rev() {
        walk.below(level, refs)?;
    }
    walk.audit.items(head.sealed(), &head.open);
    // If an index cannot be read, the set of named objects is unknown.
    if !walk.lacks_index {
        walk.unnamed(&Names::<F>::segments(&log.name), false)?;
        walk.unnamed(&Names::<F>::indexes(&log.name), true)?;
    }
    Ok(())
}

struct Walk<'w, F: Format> {
    log: &'w SegmentedLog<F>,
    repair: bool,
    audit: &'w mut dyn Audit<F>,
    lacks_index: bool,
}

impl<F: Format> Walk<'_, F> {
    /// Every object that `refs` of `level` lead to, in order.
    fn below(&mut self, level: usize, refs: &[F::Ref]) -> Result<(), Error> {
        for found in refs {
            let name = &self.log.name;
            let Some(level) = level.checked_sub(1) else {
                let object = Names::<F>::segment(name, found);
                let items = self.object(&object, found, F::MAX_SEGMENT_BYTES, |bytes| {
                    F::parse_segment(name, found, bytes)
                })?;
                match items {
                    Some(items) => self.audit.items(found.first(), &items),
                    None => self.audit.gap(),
                }
                continue;
            };
            let object = Names::<F>::index(name, level, found);
            let refs = self.object(&object, found, F::MAX_INDEX_BYTES, |bytes| {
                parse_index::<F>(name, level, found, &bytes)
            })?;
            match refs {
                Some(refs) => self.below(level, &refs)?,
                None => {
                    self.lacks_index = true;
                    self.audit.gap();
                }
            }
        }
        Ok(())
    }

    /// The contents of a sealed object, if it is there and the right one.
    fn object<T>(
        &mut self,
        name: &str,
        found: &F::Ref,
        limit: usize,
        parse: impl FnOnce(Vec<u8>) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let (code, message) = match self.log.objects.read(name, limit) {
            Ok(Some(object)) if Digest::of(&object.bytes).to_hex() == found.sha256() => {
                match parse(object.bytes) {
                    Some(contents) => return Ok(Some(contents)),
                    None => (
                        "changed",
                        format!("{name} holds other items than its head names"),
                    ),
                }
            }
            Ok(Some(_)) => ("changed", format!("{name} has other bytes")),
            Ok(None) => ("missing", format!("{name} is missing")),
            Err(error) if error.kind() == ErrorKind::Refused => ("changed", error.to_string()),
            Err(error) => return Err(error),
        };
        self.audit
            .fault(Fault::new(code, Some(found.first()), message));
        Ok(None)
    }

    /// Reports the objects in `folder` that the head does not lead to.
    fn unnamed(&mut self, folder: &str, are_indexes: bool) -> Result<(), Error> {
        let log = self.log;
        objects::each_name(&*log.objects, folder, &mut |names| {
            let Some(head) = read_head(log)?.flatten() else {
                return Err(log.damaged(folder, "has a head that was damaged meanwhile"));
            };
            let mut indexes = Indexes::default();
            names.iter().try_for_each(|name| {
                let whole = format!("{folder}/{name}");
                let Some(sealed) = SealedName::parse::<F::Ref>(name, are_indexes) else {
                    let text = format!("{whole} was not written by a store");
                    self.audit.fault(Fault::new("stranger", None, text));
                    return Ok(());
                };
                let level = sealed.level.map_or(0, |level| level + 1);
                let named = indexes.find(log, &head, level, sealed.first)?;
                let named = named.map(|found| match sealed.level {
                    None => Names::<F>::segment(&log.name, &found),
                    Some(level) => Names::<F>::index(&log.name, level, &found),
                });
                match named.as_ref() == Some(&whole) || may_come_to_name(&head, &sealed) {
                    true => Ok(()),
                    false => self.orphan(&whole, sealed.first),
                }
            })
        })
    }

    fn orphan(&mut self, name: &str, first: u64) -> Result<(), Error> {
        if self.repair {
            self.log.objects.remove(name)?;
        }
        let at = F::ORPHANS_ARE_NUMBERED.then_some(first);
        let text = format!("no head names {name}, or can name it later");
        self.audit.fault(Fault {
            repaired: self.repair,
            ..Fault::new("orphan", at, text)
        });
        Ok(())
    }
}

fn may_come_to_name<F: Format>(head: &Head<F>, object: &SealedName<'_>) -> bool {
    F::may_come_to_name(&head.facts, &head.levels, head.sealed(), object)
}
