//! The rows on the log of a host: the time that it adds to a seal, and the cost of a proof as the
//! log grows.
//!
//! Heads wait for the log in another thread. A seal therefore pays only for the handover of its
//! head, and for the shared disk.

use super::table::{Table, job, megabytes_of};
use crate::console::Fallible;
use std::path::Path;

/// Seals in one record.
const SEALS: [&str; 2] = ["2000", "300"];
/// Entries of the small and of the large log.
const SMALL: &str = "10000";
const LARGE: [&str; 2] = ["10000000", "300000"];
const PROOFS: &str = "2000";
/// The time that a log may add to the median seal.
const ADDED_SECONDS: f64 = 0.001;
/// How much longer a proof may take in the large log. Its tree is at most twice as high.
const GROWTH: f64 = 4.0;

/// Adds the rows; `quick` makes a smaller log.
pub(super) fn rows(table: &mut Table, folder: &Path, quick: bool) -> Fallible<()> {
    let (seals, large) = (SEALS[usize::from(quick)], LARGE[usize::from(quick)]);
    let place = folder.join("log");
    std::fs::create_dir(&place)?;
    let without = job("log-seal", &place, &["without", seals])?;
    let with = job("log-seal", &place, &["with", seals])?;
    table.seconds(
        &format!("the log adds to a seal, median of {seals}"),
        (with.wall_seconds - without.wall_seconds).max(0.0),
        ADDED_SECONDS,
    );
    table.line(&format!(
        "| the same | {:.2} ms without, {:.2} ms with a log; {} commits, one fsync each, for {seals} seals | | |",
        without.wall_seconds * 1e3,
        with.wall_seconds * 1e3,
        with.extra
    ));
    // On a disk in memory, filling a log does not wait for millions of fsyncs.
    let memory = Path::new("/dev/shm");
    let quickly = memory.join(format!("threadseal-bench-log-{}", std::process::id()));
    let home = if memory.is_dir() {
        quickly
    } else {
        folder.join("large")
    };
    let measured = proofs(table, &home, large);
    std::fs::remove_dir_all(&home)?;
    measured
}

fn proofs(table: &mut Table, home: &Path, large: &str) -> Fallible<()> {
    let [few, many] = ["few", "many"].map(|name| home.join(name));
    for place in [&few, &many] {
        std::fs::create_dir_all(place)?;
    }
    job("log-fill", &few, &[SMALL])?;
    let filled = job("log-fill", &many, &[large])?;
    let small = job("log-prove", &few, &[PROOFS])?;
    let large = job("log-prove", &many, &[PROOFS])?;
    table.ratio(
        &format!(
            "proof of one of {} entries beside one of {}",
            large.count, small.count
        ),
        large.wall_seconds / small.wall_seconds,
        GROWTH,
    );
    table.line(&format!(
        "| the same, median | {:.2} ms and {} hashes; {:.2} ms and {} hashes; {:.0} MB peak | | |",
        large.wall_seconds * 1e3,
        large.extra,
        small.wall_seconds * 1e3,
        small.extra,
        megabytes_of(large.peak_bytes)
    ));
    table.line(&format!(
        "| filling it, without a disk | {:.0} entries/s | | |",
        megabytes_of(filled.count) * 1e6 / filled.wall_seconds
    ));
    Ok(())
}
