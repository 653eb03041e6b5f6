//! Reading a ledger through its levels, one sealed object at a time.
//!
//! Sealed objects are never written again and stay until their run is deleted; so the objects that
//! a head names exist unchanged. A missing or changed object is an error. If the run was deleted
//! meanwhile, the error reports that instead.

use super::head::Head;
use super::rows::{self, MAX_SEALED_BYTES, Ref, Row};
use super::{ObjectLedgerStore, objects};
use crate::ledger::StoredRecord;
use crate::objects::levels::Span as _;
use std::ops::ControlFlow;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_formats::ledger::RunId;

/// Takes the number of the first of some rows, and the rows.
pub(super) type Visit<'v> = dyn FnMut(u64, &[Row]) -> Result<ControlFlow<()>, Error> + 'v;

/// Visits the rows of all segments that end after `from`, oldest first, and then those of the head.
pub(super) fn forward(
    store: &ObjectLedgerStore,
    run: &RunId,
    head: &Head,
    from: u64,
    visit: &mut Visit<'_>,
) -> Result<(), Error> {
    for (level, refs) in head.levels.iter().enumerate().rev() {
        if down(store, run, level, refs, from, visit)?.is_break() {
            return Ok(());
        }
    }
    visit(head.sealed(), &head.open).map(drop)
}

fn down(
    store: &ObjectLedgerStore,
    run: &RunId,
    level: usize,
    refs: &[Ref],
    from: u64,
    visit: &mut Visit<'_>,
) -> Result<ControlFlow<()>, Error> {
    for found in refs.iter().filter(|found| found.end() > from) {
        let went = match level {
            0 => visit(found.first, &segment(store, run, found)?)?,
            _ => {
                let below = index(store, run, level - 1, found)?;
                down(store, run, level - 1, &below, from, visit)?
            }
        };
        if went.is_break() {
            return Ok(went);
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// The newest record with this key.
pub(super) fn newest_with(
    store: &ObjectLedgerStore,
    run: &RunId,
    head: &Head,
    key: &Digest,
) -> Result<Option<StoredRecord>, Error> {
    if let Some(found) = newest_in(head.sealed(), &head.open, key) {
        return Ok(Some(found));
    }
    for (level, refs) in head.levels.iter().enumerate() {
        if let Some(found) = newest_below(store, run, level, refs, key)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn newest_below(
    store: &ObjectLedgerStore,
    run: &RunId,
    level: usize,
    refs: &[Ref],
    key: &Digest,
) -> Result<Option<StoredRecord>, Error> {
    for found in refs.iter().rev() {
        let newest = match level {
            0 if !found.may_hold(key) => None,
            0 => newest_in(found.first, &segment(store, run, found)?, key),
            _ => {
                let below = index(store, run, level - 1, found)?;
                newest_below(store, run, level - 1, &below, key)?
            }
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

fn segment(store: &ObjectLedgerStore, run: &RunId, found: &Ref) -> Result<Vec<Row>, Error> {
    let name = rows::segment_name(run, found);
    let bytes = sealed(store, run, &name, found)?;
    let rows = rows::parse_segment(run, found, &bytes);
    rows.ok_or_else(|| objects::damaged(&*store.objects, &name, "does not match the head"))
}

fn index(
    store: &ObjectLedgerStore,
    run: &RunId,
    level: usize,
    found: &Ref,
) -> Result<Vec<Ref>, Error> {
    let name = rows::index_name(run, level, found);
    let bytes = sealed(store, run, &name, found)?;
    let refs = rows::parse_index(run, level, found, &bytes);
    refs.ok_or_else(|| objects::damaged(&*store.objects, &name, "does not match the head"))
}

fn sealed(
    store: &ObjectLedgerStore,
    run: &RunId,
    name: &str,
    found: &Ref,
) -> Result<Vec<u8>, Error> {
    let no_digest = || objects::damaged(&*store.objects, name, "has no digest for its name");
    let sha256 = Digest::parse_hex(&found.sha256).ok_or_else(no_digest)?;
    match objects::unseal(&*store.objects, name, &sha256, MAX_SEALED_BYTES) {
        Ok(bytes) => Ok(bytes),
        // Deleting a run removes the objects that its last head named.
        Err(error) => store.living(run).and(Err(error)),
    }
}
