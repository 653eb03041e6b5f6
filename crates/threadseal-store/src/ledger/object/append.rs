//! Appending and deleting: one write of the head, in place of the version that was read.
//!
//! Where another head took its place, a write whose answer was lost may have been done before that.
//! Each append draws a number, so the record at the expected place shows which append wrote it.

use super::format::{Nonce, RunHead, after};
use super::runs::{KnownHead, Runs};
use crate::ledger::{Append, Entry, MAX_TRIES, Make, Tip, check_entries, deleted};
use crate::object_log::{Facts as _, Head, Written};
use crate::random::{self, SystemRandom};
use std::ops::ControlFlow;
use std::sync::Arc;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::time::Timestamp;
use threadseal_formats::ledger::RunId;

pub(super) fn append_if(
    runs: &Runs,
    run: &RunId,
    expected: &Tip,
    entries: &[Entry],
) -> Result<Append, Error> {
    let _gate = runs.known.enter(run);
    let known = runs.known.head(run);
    // A later append by others is noticed when the head is written. An append of nothing reads the
    // head.
    let base = match known.filter(|(head, _)| tip_of(run, head).is_ok_and(|tip| tip == *expected)) {
        Some(known) if !entries.is_empty() => Some(known),
        _ => runs.fetch(run)?,
    };
    attempt(runs, run, base, expected, entries)
}

pub(super) fn append_with(runs: &Runs, run: &RunId, make: &mut Make<'_>) -> Result<Tip, Error> {
    let _gate = runs.known.enter(run);
    let mut base = match runs.known.head(run) {
        Some(known) if !known.0.facts.is_deleted() => Some(known),
        _ => runs.fetch(run)?,
    };
    for _ in 0..MAX_TRIES {
        let tip = tip_at(run, &base)?;
        let entries = make(&tip)?;
        check_entries(&entries)?;
        if entries.is_empty() {
            base = runs.fetch(run)?;
        }
        match attempt(runs, run, base, &tip, &entries)? {
            Append::Stored(tip) => return Ok(tip),
            Append::Differs(_) => base = runs.fetch(run)?,
        }
    }
    Err(too_many_others(run))
}

/// Appends to `base`, if the ledger ends at `expected`.
fn attempt(
    runs: &Runs,
    run: &RunId,
    base: KnownHead,
    expected: &Tip,
    entries: &[Entry],
) -> Result<Append, Error> {
    let tip = tip_at(run, &base)?;
    if tip != *expected {
        return Ok(Append::Differs(tip));
    }
    if entries.is_empty() {
        return Ok(Append::Stored(tip));
    }
    let nonce = random::array(&SystemRandom)?;
    let before = base.as_ref().map(|(head, version)| (&**head, version));
    let (next, sealed) = after(before.map(|(head, _)| head), run, entries, nonce);
    let stored = Append::Stored(next.facts.tip);
    let floor = runs.known.count(run);
    match runs.log(run).write(before, &next, &sealed)? {
        Written::Stored(version) => {
            runs.known.put(run, Arc::new(next), version);
            Ok(stored)
        }
        Written::Overtaken(found) => {
            let now = runs.learn(run, floor, Some(found))?;
            // After a deletion the former records of the run are unknown.
            let now_tip = tip_at(run, &now)?;
            let Some((head, _)) = now else {
                return Ok(Append::Differs(now_tip));
            };
            match is_there(runs, run, &head, expected.count, nonce)? {
                true => Ok(stored),
                false => Ok(Append::Differs(now_tip)),
            }
        }
    }
}

/// Is the record with this number one of this append?
fn is_there(
    runs: &Runs,
    run: &RunId,
    head: &RunHead,
    number: u64,
    nonce: Nonce,
) -> Result<bool, Error> {
    let mut found = false;
    runs.forward(run, head, number, &mut |first, rows| {
        let index = usize::try_from(number.saturating_sub(first)).unwrap_or(usize::MAX);
        found = rows.get(index).is_some_and(|row| row.append == nonce);
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}

fn tip_at(run: &RunId, base: &KnownHead) -> Result<Tip, Error> {
    base.as_ref()
        .map_or(Ok(Tip::EMPTY), |(head, _)| tip_of(run, head))
}

fn tip_of(run: &RunId, head: &RunHead) -> Result<Tip, Error> {
    match head.facts.tombstone() {
        Some(tombstone) => Err(deleted(run, &tombstone)),
        None => Ok(head.facts.tip),
    }
}

fn too_many_others(run: &RunId) -> Error {
    let text = format!("others appended to run {run} {MAX_TRIES} times meanwhile; try again");
    Error::new(ErrorKind::External, text)
}

/// Puts a tombstone in place of the head, if that ends as expected; then removes the objects that
/// it named.
pub(super) fn delete(
    runs: &Runs,
    run: &RunId,
    expected: Option<&Tip>,
    at: Timestamp,
) -> Result<bool, Error> {
    let _gate = runs.known.enter(run);
    let log = runs.log(run);
    for _ in 0..MAX_TRIES {
        let Some((head, version)) = runs.fetch(run)? else {
            return Ok(false);
        };
        if expected.is_some_and(|expected| *expected != head.facts.tip) {
            return Ok(false);
        }
        if head.facts.is_deleted() {
            // Runs are listed without it from this step on.
            log.mark_gone()?;
            let mut folders = log.folders().into_iter();
            return folders
                .try_for_each(|folder| log.remove_folder(&folder))
                .map(|()| true);
        }
        let buried = Head::bare(head.facts.buried(at, random::array(&SystemRandom)?));
        if let Written::Stored(version) = log.write(Some((&head, &version)), &buried, &[])? {
            runs.known.put(run, Arc::new(buried), version);
        }
    }
    Err(too_many_others(run))
}
