//! The rows on lineages: a checkpoint with a large state, compared with the hash passes of its
//! version.
//!
//! | version | sign | verify |
//! |---|---|---|
//! | v0x04 | two of SHA-512 (RFC 8032 §5.1.6), one of SHA-256 for the content hash | one and one |
//! | v0x05 | one of SHA-256 | one of SHA-256 |

use super::table::{Table, job, median};
use crate::console::Fallible;
use std::path::Path;

const ROUNDS: usize = 5;
const STATE: u64 = 64 << 20;
const LARGE: u64 = 1 << 30;
const MEMORY: u64 = 32;
const TARGET: f64 = 1.2;

/// Adds the rows; `quick` leaves out the gigabyte.
pub(super) fn rows(table: &mut Table, folder: &Path, quick: bool) -> Fallible<()> {
    let state = folder.join("state.bin");
    job("lineage-state", &state, &[&STATE.to_string()])?;
    for (version, signing, verifying) in [
        (
            "4",
            ["512", "512", "256"].as_slice(),
            ["512", "256"].as_slice(),
        ),
        ("5", &["256"], &["256"]),
    ] {
        let file = state.with_extension(version);
        let (mut signed, mut verified) = (Vec::new(), Vec::new());
        let (mut must_sign, mut must_verify) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            signed.push(job("lineage-sign", &state, &[version])?);
            must_sign.push(job("lineage-hash", &state, signing)?);
            verified.push(job("lineage-verify", &file, &[])?);
            must_verify.push(job("lineage-hash", &state, verifying)?);
        }
        for (work, costs, must) in [
            ("sign", signed, must_sign),
            ("verify", verified, must_verify),
        ] {
            table.ratio(
                &format!("lineage {work} v0x0{version}, 64 MB of state, CPU"),
                median(&costs).cpu_seconds / median(&must).cpu_seconds,
                TARGET,
            );
        }
    }
    if quick {
        return Ok(());
    }
    job("lineage-state", &state, &[&LARGE.to_string()])?;
    for version in ["4", "5"] {
        let cost = job("lineage-verify", &state.with_extension(version), &[])?;
        table.megabytes(
            &format!("lineage verify v0x0{version}, 1 GB of state, peak memory"),
            cost.peak_bytes,
            MEMORY,
        );
    }
    Ok(())
}
