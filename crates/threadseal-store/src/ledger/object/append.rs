//! Appending and deleting: one write of the head, in place of the version that was read.
//!
//! ```text
//! head as it was seen last ─► the next head ─┬─► sealed objects, if any ─► head, if unchanged ─► stored
//!        ▲                                   │                                   │
//!        └── read again ◄── an error, or another version ◄──────────────────────┘
//! ```
//! A write whose answer was lost may have been done, and other writers may have appended since.
//! Each append draws a number, so the record at the expected place shows which append wrote it.
//! While the head is unchanged, the same bytes are written again; of two copies of one request one
//! can win.

use super::head::Head;
use super::rows::Nonce;
use super::{GONE, ObjectLedgerStore, rows, walk};
use crate::ledger::{Append, Entry, MAX_TRIES, Make, Tip, check_entries, deleted};
use crate::objects::retry::Failures;
use crate::objects::{self, Put, Version};
use crate::random::{self, SystemRandom};
use std::ops::ControlFlow;
use std::sync::Arc;
use threadseal_core::encoding;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::time::Timestamp;
use threadseal_formats::ledger::RunId;

/// A head and its version; neither for a run without one.
type Base = Option<(Arc<Head>, Version)>;

pub(super) fn append_if(
    store: &ObjectLedgerStore,
    run: &RunId,
    expected: &Tip,
    entries: &[Entry],
) -> Result<Append, Error> {
    let _gate = store.known.enter(run);
    let known = store.known.head(run);
    let fits = |(head, _): &(Arc<Head>, Version)| head.tip == *expected && head.deleted.is_none();
    // A later append by others is noticed when the head is written. An append of nothing reads the
    // head.
    let base = match known.filter(fits) {
        Some(known) if !entries.is_empty() => Some(known),
        _ => fetch(store, run, &mut Failures::default())?,
    };
    attempt(store, run, base, expected, entries)
}

pub(super) fn append_with(
    store: &ObjectLedgerStore,
    run: &RunId,
    make: &mut Make<'_>,
) -> Result<Tip, Error> {
    let _gate = store.known.enter(run);
    let mut base = match store.known.head(run) {
        Some(known) if known.0.deleted.is_none() => Some(known),
        _ => fetch(store, run, &mut Failures::default())?,
    };
    for _ in 0..MAX_TRIES {
        let tip = tip_of(run, &base)?;
        let entries = make(&tip)?;
        check_entries(&entries)?;
        if entries.is_empty() {
            base = store.fetch(run)?;
        }
        match attempt(store, run, base, &tip, &entries)? {
            Append::Stored(tip) => return Ok(tip),
            Append::Differs(_) => base = store.fetch(run)?,
        }
    }
    let text = format!("others appended to run {run} {MAX_TRIES} times meanwhile; try again");
    Err(Error::new(ErrorKind::External, text))
}

/// Appends to `base`, and to later heads, as long as the ledger ends at `expected`.
fn attempt(
    store: &ObjectLedgerStore,
    run: &RunId,
    mut base: Base,
    expected: &Tip,
    entries: &[Entry],
) -> Result<Append, Error> {
    let nonce = random::array(&SystemRandom)?;
    let (mut failures, mut sent) = (Failures::default(), false);
    loop {
        let tip = tip_of(run, &base);
        if sent && !matches!(&tip, Ok(tip) if tip == expected) {
            // After a deletion the former records of the run are unknown.
            let head = tip.and(base.map(|(head, _)| head).ok_or_else(|| vanished(run)))?;
            return match is_there(store, run, &head, expected.count, nonce)? {
                true => Ok(Append::Stored(after(expected, entries))),
                false => Ok(Append::Differs(head.tip)),
            };
        }
        let tip = tip?;
        if tip != *expected {
            return Ok(Append::Differs(tip));
        }
        if entries.is_empty() {
            return Ok(Append::Stored(tip));
        }
        match write(store, run, &base, entries, nonce, &mut sent) {
            Ok(Some(tip)) => return Ok(Append::Stored(tip)),
            Ok(None) => {}
            Err(error) => failures.again(error)?,
        }
        base = fetch(store, run, &mut failures)?;
    }
}

/// Reads the head, and again where the storage fails.
fn fetch(store: &ObjectLedgerStore, run: &RunId, failures: &mut Failures) -> Result<Base, Error> {
    failures.until(|| store.fetch(run))
}

/// Seals full segments and writes the head; `None` when that has changed.
fn write(
    store: &ObjectLedgerStore,
    run: &RunId,
    base: &Base,
    entries: &[Entry],
    nonce: Nonce,
    sent: &mut bool,
) -> Result<Option<Tip>, Error> {
    let empty = Head::default();
    let head = base.as_ref().map_or(&empty, |(head, _)| &**head);
    let (next, sealed) = head.after(run, entries, nonce);
    for object in sealed {
        objects::seal(&*store.objects, &object.name, &object.bytes)?;
    }
    *sent = true;
    let (name, bytes, tip) = (Head::name(run), next.encode(run), next.tip);
    let put = match base {
        None => store.objects.create(&name, &bytes)?,
        Some((_, version)) => store.objects.replace_if(&name, version, &bytes)?,
    };
    match put {
        Put::Differs => Ok(None),
        Put::Stored(version) => {
            store.known.put(run, Arc::new(next), version);
            Ok(Some(tip))
        }
    }
}

/// Is the record with this number one of this append?
fn is_there(
    store: &ObjectLedgerStore,
    run: &RunId,
    head: &Head,
    number: u64,
    nonce: Nonce,
) -> Result<bool, Error> {
    let mut found = false;
    walk::forward(store, run, head, number, &mut |first, rows| {
        let index = usize::try_from(number.saturating_sub(first)).unwrap_or(usize::MAX);
        found = rows.get(index).is_some_and(|row| row.append == nonce);
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}

fn after(expected: &Tip, entries: &[Entry]) -> Tip {
    Tip {
        count: expected.count + entries.len() as u64,
        hash: entries.last().and_then(|entry| entry.record_hash),
    }
}

fn tip_of(run: &RunId, base: &Base) -> Result<Tip, Error> {
    match base {
        None => Ok(Tip::EMPTY),
        Some((head, _)) => match head.tombstone() {
            Some(tombstone) => Err(deleted(run, &tombstone)),
            None => Ok(head.tip),
        },
    }
}

fn vanished(run: &RunId) -> Error {
    Error::refused(format!(
        "the head of run {run} disappeared; another process deletes it while it is written"
    ))
}

/// Puts a tombstone in place of the head, if that ends as expected; then removes the objects that
/// it named.
pub(super) fn delete(
    store: &ObjectLedgerStore,
    run: &RunId,
    expected: Option<&Tip>,
    at: Timestamp,
) -> Result<bool, Error> {
    let _gate = store.known.enter(run);
    let mut failures = Failures::default();
    for _ in 0..MAX_TRIES {
        let Some((head, version)) = store.fetch(run)? else {
            return Ok(false);
        };
        if expected.is_some_and(|expected| *expected != head.tip) {
            return Ok(false);
        }
        if head.deleted.is_some() {
            return remove_all(store, run).map(|()| true);
        }
        let buried = head.buried(at, random::array(&SystemRandom)?);
        let put = store
            .objects
            .replace_if(&Head::name(run), &version, &buried.encode(run));
        match put {
            Ok(Put::Stored(version)) => store.known.put(run, Arc::new(buried), version),
            Ok(Put::Differs) => {}
            Err(error) => failures.again(error)?,
        }
    }
    let text = format!("others appended to run {run} {MAX_TRIES} times meanwhile; try again");
    Err(Error::new(ErrorKind::External, text))
}

/// Removes the objects of a deleted run. Runs are listed without it from the first step on.
fn remove_all(store: &ObjectLedgerStore, run: &RunId) -> Result<(), Error> {
    let gone = format!("{GONE}/{}", encoding::hex(run.as_str().as_bytes()));
    objects::seal(&*store.objects, &gone, b"")?;
    for folder in [rows::segment_folder(run), rows::index_folder(run)] {
        store.each_name(&folder, |name| {
            store.objects.remove(&format!("{folder}/{name}"))
        })?;
    }
    Ok(())
}
