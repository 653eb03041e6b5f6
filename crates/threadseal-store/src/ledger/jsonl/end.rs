//! The end of the records, as far as the index and the file agree.

use super::index::{Index, PAGE, line_at};
use crate::ledger::Tip;
use crate::sys::FileHandle;
use std::path::Path;
use threadseal_core::error::Error;

/// Entries that are read first: other writers mostly add fewer between two turns.
const FEW_ENTRIES: u64 = 16;

/// The end of the records.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct End {
    pub(super) tip: Tip,
    /// Bytes up to and including the last record's LF.
    pub(super) size: u64,
    /// How many of them are durable.
    pub(super) durable: u64,
}

/// The common result of index and file.
pub(super) enum Trusted {
    /// Up to here they agree.
    End(End),
    /// The record of this number was acknowledged as durable, and is not in the file.
    Lost(u64),
}

/// Compares the first `count` entries with the `size` bytes of the ledger. It begins at the last
/// one and ends at the last durable one. Everything before that is as it was acknowledged.
pub(super) fn trusted(
    index: &Index,
    ledger: &dyn FileHandle,
    path: &Path,
    count: u64,
    size: u64,
) -> Result<Trusted, Error> {
    let mut end = None;
    let (mut upper, mut step) = (count, FEW_ENTRIES);
    while upper > 0 {
        let lower = upper.saturating_sub(step);
        let page = index.entries(lower, upper)?;
        for (entry, number) in page.iter().rev().zip((lower..upper).rev()) {
            let good = match entry {
                Some(entry) if entry.end() <= size => line_at(ledger, path, entry)?.is_some(),
                _ => false,
            };
            match entry {
                Some(entry) if good => {
                    let at = end.get_or_insert(End {
                        tip: Tip {
                            count: number + 1,
                            hash: entry.hash,
                        },
                        size: entry.end(),
                        durable: 0,
                    });
                    if entry.durable {
                        at.durable = entry.end();
                        return Ok(Trusted::End(*at));
                    }
                }
                Some(entry) if entry.durable => return Ok(Trusted::Lost(number)),
                // The record was lost with the power before it was durable, or its entry was. Later
                // records do not count any more.
                _ => end = None,
            }
        }
        (upper, step) = (lower, PAGE);
    }
    Ok(Trusted::End(end.unwrap_or_default()))
}
