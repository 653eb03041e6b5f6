//! The side index of a ledger file as a witness: what it shows about the file beside it.
//!
//! ```text
//! durable entry, and its line is not in the file    records are lost
//! bytes that no writer put there                    the index was changed
//! zeros, a part of an entry, no index               a loss of power left them: nothing is shown
//! ```

use super::end::{self, Trusted};
use super::index::{Index, IndexEntry, PAGE};
use super::run_files::RunFiles;
use crate::sys::{self, Access};
use std::io;
use threadseal_core::error::Error;

/// What the index of a ledger shows about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexState {
    /// Nothing speaks against the ledger; there may be no index.
    Fits,
    /// The record of this number was acknowledged as durable, and the file does not have it.
    Lost(u64),
    /// From this byte on the index contains what no writer puts there.
    Changed(u64),
}

/// Compares the index of a run with its ledger, which must be there.
pub(super) fn check(context: &RunFiles<'_>) -> Result<IndexState, Error> {
    let Some(index) = Index::open_to_read(context.fs, &context.paths.index, context.run)? else {
        return Ok(IndexState::Fits);
    };
    if let Some(at) = index.first_foreign()? {
        return Ok(IndexState::Changed(at));
    }
    // The index first: so the file is never older than it.
    let count = index.count()?.unwrap_or(0);
    let path = &context.paths.ledger;
    let file = match context.fs.open(path, Access::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(IndexState::Fits),
        Err(error) => return Err(sys::failure("open", path, &error)),
    };
    let found = file.metadata();
    let size = found
        .map_err(|error| sys::failure("read", path, &error))?
        .size;
    Ok(match end::trusted(&index, &*file, path, count, size)? {
        Trusted::End(_) => IndexState::Fits,
        Trusted::Lost(number) => IndexState::Lost(number),
    })
}

/// How many records the index acknowledged as durable, if it is the index of this run.
pub(super) fn acknowledged(context: &RunFiles<'_>) -> Result<u64, Error> {
    let Some(index) = Index::open_to_read(context.fs, &context.paths.index, context.run)? else {
        return Ok(0);
    };
    let mut upper = index.count()?.unwrap_or(0);
    while upper > 0 {
        let lower = upper.saturating_sub(PAGE);
        let page = index.entries(lower, upper)?;
        let is_durable = |entry: &Option<IndexEntry>| entry.is_some_and(|entry| entry.durable);
        if let Some(last) = page.iter().rposition(is_durable) {
            return Ok(lower + last as u64 + 1);
        }
        upper = lower;
    }
    Ok(0)
}
