//! Checking everything that is stored of one run, without the reader's shortcuts.
//!
//! | code | fault | repair |
//! |---|---|---|
//! | `head_damaged` | the head does not have the bytes that were written | no |
//! | `missing` | an object that the head leads to does not exist | no |
//! | `changed` | an object has other bytes than its name states, or other contents | no |
//! | `not_a_record` | a record that is no JSON object | no |
//! | `other_run` | a record of another run | no |
//! | `broken_link` | a `prev_hash` that is not the `record_hash` before it, or a hash that is not the record's | no |
//! | `stranger` | an object with a name that this store gives to none | no |
//! | `orphan` | a sealed object that no head names, or can ever come to name | removing it |
//! | `leftover` | sealed objects of a run that was deleted | removing them |
//!
//! *Why an orphan stays one for ever*: a head begins to name a sealed object only on one condition.
//! The sealed part of the head before it must end where the object begins. Sealed parts never
//! shrink. Where this head's sealed part is longer, and another object holds those records, such a
//! write can only fail. An object that begins at the end of the sealed part may soon be named, so
//! it stays.

use super::ObjectLedgerStore;
use super::head::{Head, MAX_HEAD_BYTES};
use super::rows::{self, MAX_SEALED_BYTES, Ref, Row};
use crate::fsck::Fault;
use crate::ledger::FsckReport;
use crate::objects::PAGE;
use crate::objects::levels::Span as _;
use crate::objects::spell::number;
use std::cmp::Ordering;
use std::collections::{BTreeSet, VecDeque};
use threadseal_core::canon::json::{self, Value};
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_formats::ledger::RunId;

pub(super) fn fsck(
    store: &ObjectLedgerStore,
    run: &RunId,
    repair: bool,
) -> Result<FsckReport, Error> {
    let mut look = Look::new(store, run, repair);
    let name = Head::name(run);
    let Some(found) = store.objects.read(&name, MAX_HEAD_BYTES)? else {
        return Ok(look.report);
    };
    match Head::decode(run, &found.bytes) {
        None => look.fault(
            "head_damaged",
            None,
            format!("{name} differs from what was written"),
        ),
        Some(head) if head.deleted.is_some() => look.leftovers()?,
        Some(head) => {
            look.records(&head)?;
            look.orphaned_indexes(&head)?;
        }
    }
    Ok(look.report)
}

struct Look<'s> {
    store: &'s ObjectLedgerStore,
    run: &'s RunId,
    repair: bool,
    report: FsckReport,
    /// Hash of the record before; `None` where it is not known.
    prev: Option<Option<String>>,
    /// Names of the indexes that are in use; there is one for some thousand records.
    indexes: BTreeSet<String>,
    /// Names of segments, listed in the order in which the head leads to them.
    listed: Listed,
    /// Number of the first record that is not sealed.
    sealed: u64,
}

/// Names that are listed page by page, while others are compared with them.
#[derive(Default)]
struct Listed {
    page: VecDeque<String>,
    last: String,
    ended: bool,
}

impl<'s> Look<'s> {
    fn new(store: &'s ObjectLedgerStore, run: &'s RunId, repair: bool) -> Self {
        let report = FsckReport::of(run);
        Self {
            store,
            run,
            repair,
            report,
            prev: Some(None),
            indexes: BTreeSet::new(),
            listed: Listed::default(),
            sealed: 0,
        }
    }

    fn fault(&mut self, code: &'static str, at: Option<u64>, message: String) {
        self.note(Fault::new(code, at, message));
    }

    fn note(&mut self, fault: Fault) {
        fault.note(&mut self.report.faults, &mut self.report.more);
    }

    /// Every record in order.
    fn records(&mut self, head: &Head) -> Result<(), Error> {
        self.sealed = head.sealed();
        for (level, refs) in head.levels.iter().enumerate().rev() {
            self.below(level, refs)?;
        }
        self.segments_before(None)?;
        self.rows(head.sealed(), &head.open);
        if let Some(last) = self.prev.take()
            && last != head.tip.hash.map(|hash| hash.to_hex())
        {
            let text = "the hash in the head differs from the hash of its last record";
            self.fault("broken_link", head.tip.count.checked_sub(1), text.into());
        }
        Ok(())
    }

    fn below(&mut self, level: usize, refs: &[Ref]) -> Result<(), Error> {
        for found in refs {
            if level == 0 {
                let name = rows::segment_name(self.run, found);
                self.segments_before(Some(&name))?;
                let rows = self.object(&name, found)?;
                let rows = rows.and_then(|bytes| rows::parse_segment(self.run, found, &bytes));
                match rows {
                    Some(rows) => self.rows(found.first, &rows),
                    None => self.lost(found),
                }
                continue;
            }
            let name = rows::index_name(self.run, level - 1, found);
            let bytes = self.object(&name, found)?;
            let below =
                bytes.and_then(|bytes| rows::parse_index(self.run, level - 1, found, &bytes));
            self.indexes.insert(name);
            match below {
                Some(below) => self.below(level - 1, &below)?,
                None => self.lost(found),
            }
        }
        Ok(())
    }

    /// The bytes of a sealed object, if they are there and the right ones.
    fn object(&mut self, name: &str, found: &Ref) -> Result<Option<Vec<u8>>, Error> {
        let first = Some(found.first);
        match self.store.objects.read(name, MAX_SEALED_BYTES) {
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

    fn lost(&mut self, found: &Ref) {
        self.prev = None;
        let is_told = self
            .report
            .faults
            .last()
            .is_some_and(|fault| fault.at == Some(found.first));
        if !is_told && self.report.more == 0 {
            let text = "the object does not match the reference to it".to_owned();
            self.fault("changed", Some(found.first), text);
        }
    }

    fn rows(&mut self, first: u64, rows: &[Row]) {
        for (seq, row) in (first..).zip(rows) {
            self.row(seq, row);
        }
    }

    fn row(&mut self, seq: u64, row: &Row) {
        let parsed = json::parse_python(&row.line).map(|read| read.value);
        let record = match parsed {
            Ok(record) if record.as_object().is_some() => record,
            _ => {
                self.prev = None;
                let text = "the record is not a JSON object".to_owned();
                return self.fault("not_a_record", Some(seq), text);
            }
        };
        self.report.records += 1;
        let text = |name: &str| record.get(name).and_then(Value::as_str).map(str::to_owned);
        let names_other = text("run_id").is_some_and(|name| name != self.run.as_str());
        if names_other {
            self.fault(
                "other_run",
                Some(seq),
                "the record names another run".into(),
            );
        }
        let (prev, hash) = (text("prev_hash"), text("record_hash"));
        let differs = hash != row.hash.map(|hash| hash.to_hex());
        let is_unlinked = hash.is_some() && self.prev.as_ref().is_some_and(|known| *known != prev);
        if differs || is_unlinked {
            let text = match differs {
                true => "the hash stored beside the record differs from its own",
                false => "prev_hash is not the record_hash before it",
            };
            self.fault("broken_link", Some(seq), text.into());
        }
        self.prev = Some(hash);
    }

    /// Takes the listed segments up to the one that the head leads to next (`None`: to the end).
    /// Reports those before it.
    fn segments_before(&mut self, named: Option<&str>) -> Result<(), Error> {
        let folder = rows::segment_folder(self.run);
        loop {
            if self.listed.page.is_empty() && !self.listed.ended {
                let names = self.store.objects.list(&folder, &self.listed.last, PAGE)?;
                self.listed.ended = names.is_empty();
                self.listed.last = names.last().cloned().unwrap_or_default();
                self.listed.page = names.into();
            }
            let Some(name) = self.listed.page.front() else {
                return Ok(());
            };
            let whole = format!("{folder}/{name}");
            match named.map(|named| whole.as_str().cmp(named)) {
                Some(Ordering::Greater) => return Ok(()),
                Some(Ordering::Equal) => {
                    self.listed.page.pop_front();
                    return Ok(());
                }
                Some(Ordering::Less) | None => {}
            }
            let first = name
                .split_once('-')
                .and_then(|(first, sha256)| numbered(first, 20, sha256));
            self.listed.page.pop_front();
            self.unnamed(&whole, first.map(|first| first < self.sealed))?;
        }
    }

    /// Reports the indexes that the head does not lead to.
    fn orphaned_indexes(&mut self, head: &Head) -> Result<(), Error> {
        let (store, folder) = (self.store, rows::index_folder(self.run));
        let is_orphan = |name: &str| {
            let (level, rest) = name.split_once('-')?;
            let (first, sha256) = rest.split_once('-')?;
            let level = usize::try_from(number(level, 2)?).ok()?;
            // The level above names the indexes of a level; indexes after those are not folded yet.
            let mut above = head.levels.iter().skip(level + 1);
            let folded = above.find_map(|refs| refs.last()).map_or(0, Ref::end);
            Some(numbered(first, 20, sha256)? < folded)
        };
        store.each_name(&folder, |name| {
            let whole = format!("{folder}/{name}");
            match self.indexes.contains(&whole) {
                true => Ok(()),
                false => self.unnamed(&whole, is_orphan(name)),
            }
        })
    }

    /// An object that the head does not lead to; `None`: with a name of no sealed object.
    fn unnamed(&mut self, whole: &str, is_orphan: Option<bool>) -> Result<(), Error> {
        match is_orphan {
            Some(true) => self.superfluous("orphan", whole),
            Some(false) => Ok(()),
            None => {
                let text = format!("{whole} was not written by a store");
                self.fault("stranger", None, text);
                Ok(())
            }
        }
    }

    fn leftovers(&mut self) -> Result<(), Error> {
        let store = self.store;
        for folder in [rows::segment_folder(self.run), rows::index_folder(self.run)] {
            store.each_name(&folder, |name| {
                self.superfluous("leftover", &format!("{folder}/{name}"))
            })?;
        }
        Ok(())
    }

    fn superfluous(&mut self, code: &'static str, name: &str) -> Result<(), Error> {
        if self.repair {
            self.store.objects.remove(name)?;
        }
        let text = format!("no head names {name}, or can name it later");
        self.note(Fault {
            repaired: self.repair,
            ..Fault::new(code, None, text)
        });
        Ok(())
    }
}

fn numbered(first: &str, digits: usize, sha256: &str) -> Option<u64> {
    Digest::parse_hex(sha256)?;
    number(first, digits)
}
