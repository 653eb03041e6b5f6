//! Deleting a ledger so that it stays known that there was one.
//!
//! The tombstone is durable before a byte of the ledger is removed. A process that sees it treats
//! the run as deleted, whatever other files exist still. The next deletion finishes one that was
//! interrupted.

use super::reader::Reader;
use super::run_files::{PREFIX, RunFiles};
use crate::ledger::{Tip, Tombstone};
use crate::lock::Turn;
use crate::sys::{self, Access};
use std::io;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::time::Timestamp;

/// Deletes the run's ledger, if there is one and it ends as expected.
pub(super) fn delete(
    context: &RunFiles<'_>,
    expected: Option<&Tip>,
    at: Timestamp,
) -> Result<bool, Error> {
    let is_expected = |tip: &Tip| expected.is_none_or(|expected| expected == tip);
    let path = &context.paths.ledger;
    let file = match context.fs.open(path, Access::Append) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match context.tombstone()? {
                Some(stone) if is_expected(&stone.tip) => remove_files(context).map(|()| true),
                Some(_) | None => Ok(false),
            };
        }
        Err(error) => return Err(sys::failure("delete", path, &error)),
    };
    let _turn = Turn::wait(context.fs, &*file, path)?;
    if let Some(stone) = context.tombstone()? {
        if !is_expected(&stone.tip) {
            return Ok(false);
        }
    } else {
        let Some(reader) = Reader::open(context)? else {
            return Ok(false);
        };
        let tip = reader.tip()?;
        if !is_expected(&tip) {
            return Ok(false);
        }
        context.bury(&Tombstone { tip, at })?;
    }
    remove_files(context).map(|()| true)
}

/// Removes all files of the run except its tombstone.
pub(super) fn remove_files(context: &RunFiles<'_>) -> Result<(), Error> {
    for path in remains(context)? {
        match context.fs.unlink(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(sys::failure("remove", &path, &error));
            }
            _ => {}
        }
    }
    let directory = &context.paths.directory;
    let synced = context.fs.sync_dir(directory);
    synced.map_err(|error| sys::failure("sync", directory, &error))
}

/// The files of the run beside its tombstone.
pub(super) fn remains(context: &RunFiles<'_>) -> Result<Vec<std::path::PathBuf>, Error> {
    let directory = &context.paths.directory;
    let names = context.fs.read_dir(directory);
    let names = names.map_err(|error| sys::failure("read", directory, &error))?;
    let (run, mut found) = (context.run, Vec::new());
    let [ledger, index] = [".jsonl", ".index"].map(|ending| format!("{PREFIX}{run}{ending}"));
    let tails = format!("{ledger}.tail-");
    for name in names.iter().filter_map(|name| name.to_str()) {
        let is_tail = name.strip_prefix(&tails).is_some_and(is_tail_suffix);
        if name == ledger || name == index || is_tail {
            found.push(directory.join(name));
        }
    }
    found.sort();
    Ok(found)
}

/// `<offset>-<64 hex digits>` and no more: a longer name is a file of another run.
fn is_tail_suffix(text: &str) -> bool {
    text.split_once('-').is_some_and(|(offset, digest)| {
        offset.bytes().all(|byte| byte.is_ascii_digit()) && Digest::parse_hex(digest).is_some()
    })
}
