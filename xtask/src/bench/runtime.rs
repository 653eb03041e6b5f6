//! The rows on projects: listing threads, following a chain, and searching verified records.
//!
//! Each figure is the 95th percentile of many calls in one process, of the functions that the
//! commands call. A call opens the registry again, as a command does. Files are in the page cache.

use super::runtime_job::{CHAIN, RECORDS, THREADS};
use super::table::{Table, job, megabytes_of};
use crate::console::Fallible;
use std::path::Path;

/// The number of calls for a percentile, of the quick functions and of searches; fewer with
/// `--quick`.
const CALLS: [&str; 2] = ["1000", "100"];
const QUICK_CALLS: [&str; 2] = ["200", "20"];

const LIST_SECONDS: f64 = 0.050;
const CHAIN_SECONDS: f64 = 0.020;
const SEARCH_SECONDS: f64 = 1.0;

/// Adds the rows; `quick` makes fewer calls.
pub(super) fn rows(table: &mut Table, folder: &Path, quick: bool) -> Fallible<()> {
    let project = folder.join("project");
    std::fs::create_dir(&project)?;
    let made = job("runtime-project", &project, &[])?;
    if made.count != THREADS {
        return Err("not all threads are registered".into());
    }
    let [calls, searches] = if quick { QUICK_CALLS } else { CALLS };
    for (rows, what) in [("50", "the newest 50"), ("10000", "all")] {
        let cost = job("runtime-list", &project, &[calls, rows])?;
        let work = format!("thread list, {what} of {THREADS}, p95 of {calls}");
        table.seconds(&work, cost.wall_seconds, LIST_SECONDS);
    }
    let cost = job("runtime-chain", &project, &[calls])?;
    let work = format!("thread chain, {CHAIN} of {THREADS} threads, p95 of {calls}");
    table.seconds(&work, cost.wall_seconds, CHAIN_SECONDS);
    for (name, records) in RECORDS {
        let bytes = job("runtime-records", &project, &[name])?.extra;
        for kind in ["text", "regex"] {
            let cost = job("runtime-search", &project, &[searches, name, kind])?;
            let megabytes = megabytes_of(bytes);
            let work = format!(
                "thread search for {kind}, {megabytes:.0} MB in verified records: {records}, p95 of {searches}"
            );
            table.seconds(&work, cost.wall_seconds, SEARCH_SECONDS);
            table.line(&format!(
                "| the same, CPU | {:.3} s a search, {:.0} MB peak | | |",
                cost.cpu_seconds,
                megabytes_of(cost.peak_bytes)
            ));
        }
    }
    Ok(())
}
