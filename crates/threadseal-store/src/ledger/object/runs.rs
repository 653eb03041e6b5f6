//! [`Runs`]: the ledgers of one storage, as this store knows them.

use super::format::{Ledgers, Ref, Row, RunHead, key_digest};
use super::known::Known;
use crate::ledger::{StoredRecord, deleted};
use crate::object_log::{FoundHead, SegmentedLog, Span as _, Visit};
use crate::objects::{Objects, Version};
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_formats::ledger::RunId;

/// Longest run id in bytes: its hex is one part of a name, of which file systems take 255 bytes.
const MAX_NAME_BYTES: usize = 120;

/// A head and its version; `None` for a run without one.
pub(super) type KnownHead = Option<(Arc<RunHead>, Version)>;

#[derive(Debug)]
pub(super) struct Runs {
    pub(super) objects: Arc<dyn Objects>,
    pub(super) known: Known,
}

impl Runs {
    pub(super) fn new(objects: Arc<dyn Objects>) -> Self {
        Self {
            objects,
            known: Known::default(),
        }
    }

    pub(super) fn log(&self, run: &RunId) -> SegmentedLog<Ledgers> {
        SegmentedLog::new(&self.objects, run)
    }

    /// The head as it is now, deleted runs included.
    pub(super) fn fetch(&self, run: &RunId) -> Result<KnownHead, Error> {
        check_name(run)?;
        let floor = self.known.count(run);
        let found = self.log(run).fetch()?;
        self.learn(run, floor, found)
    }

    /// Remembers a head that was read, when `floor` records were known before.
    pub(super) fn learn(
        &self,
        run: &RunId,
        floor: u64,
        found: Option<FoundHead<Ledgers>>,
    ) -> Result<KnownHead, Error> {
        let count = found.as_ref().map_or(0, |(head, _)| head.facts.tip.count);
        if count < floor {
            return Err(Error::refused(format!(
                "the ledger of run {run} in {} was rolled back: it has {count} records where {floor} \
                 were seen before",
                self.objects.place()
            )));
        }
        Ok(found.map(|(head, version)| {
            let head = Arc::new(head);
            self.known.put(run, Arc::clone(&head), version.clone());
            (head, version)
        }))
    }

    /// The head of a run that has records.
    pub(super) fn living(&self, run: &RunId) -> Result<Option<Arc<RunHead>>, Error> {
        let found = self.fetch(run)?.map(|(head, _)| head);
        match found.as_ref().and_then(|head| head.facts.tombstone()) {
            Some(tombstone) => Err(deleted(run, &tombstone)),
            None => Ok(found),
        }
    }

    /// As [`SegmentedLog::forward`].
    pub(super) fn forward(
        &self,
        run: &RunId,
        head: &RunHead,
        from: u64,
        visit: &mut Visit<'_, Row>,
    ) -> Result<(), Error> {
        self.unless_deleted(run, self.log(run).forward(head, from, visit))
    }

    /// The newest record with this key.
    pub(super) fn newest_with(
        &self,
        run: &RunId,
        head: &RunHead,
        idempotency_key: &str,
    ) -> Result<Option<StoredRecord>, Error> {
        let key = key_digest(idempotency_key);
        if let Some(found) = newest_in(head.sealed(), &head.open, &key) {
            return Ok(Some(found));
        }
        let log = self.log(run);
        for (level, refs) in head.levels.iter().enumerate() {
            let found = self.unless_deleted(run, newest_below(&log, level, refs, &key))?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Deleting a run removes the objects that its last head named.
    fn unless_deleted<T>(&self, run: &RunId, read: Result<T, Error>) -> Result<T, Error> {
        read.or_else(|error| self.living(run).and(Err(error)))
    }
}

fn newest_below(
    log: &SegmentedLog<Ledgers>,
    level: usize,
    refs: &[Ref],
    key: &Digest,
) -> Result<Option<StoredRecord>, Error> {
    for found in refs.iter().rev() {
        let newest = match level.checked_sub(1) {
            None if !found.may_hold(key) => None,
            None => newest_in(found.first(), &log.segment(found)?, key),
            Some(below) => newest_below(log, below, &log.index(below, found)?, key)?,
        };
        if newest.is_some() {
            return Ok(newest);
        }
    }
    Ok(None)
}

fn newest_in(first: u64, rows: &[Row], key: &Digest) -> Option<StoredRecord> {
    let (seq, row) = (first..)
        .zip(rows)
        .filter(|(_, row)| row.key.as_ref() == Some(key))
        .last()?;
    let line = row.line.clone();
    Some(StoredRecord { seq, line })
}

/// Refuses a name that object storage does not hold.
pub(super) fn check_name(run: &RunId) -> Result<(), Error> {
    match run.as_str().len() <= MAX_NAME_BYTES {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "object storage holds runs with names of at most {MAX_NAME_BYTES} bytes"
        ))),
    }
}
