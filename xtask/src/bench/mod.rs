//! The performance table: ratios against one read-and-SHA-256 pass, in the same run.
//!
//! ```text
//! cargo xbench [--quick] [--records | --scroll | --ledger | --lineage | --runtime | --log | --capture |
//!              --record | --turns | --pathological] [--write FILE]    --records, --scroll, …: only those rows
//! ```
//! Each job runs in a process of its own, several times. It reports its wall time, its CPU time and
//! its peak memory; the table shows the median. A missed target makes the command fail. A
//! comparison with another implementation uses the same files in the same run.

mod capture;
mod cost;
mod job;
mod ledger;
mod ledger_job;
mod lineage;
mod lineage_job;
mod log;
mod log_job;
mod pathological;
mod record;
mod runtime;
mod runtime_job;
mod scroll;
mod scroll_job;
mod table;
mod turns;

use crate::console::say;
use std::error::Error;
use std::path::Path;

/// Runs the bench, or one job when called as its own child. Returns true if all targets are met.
pub(crate) fn run(words: &[&str]) -> Result<bool, Box<dyn Error>> {
    if let ["job", name, path, rest @ ..] = words {
        let cost = job::run(name, Path::new(path), rest)?;
        say(&format!(
            "{} {} {} {} {}",
            cost.wall_seconds, cost.cpu_seconds, cost.peak_bytes, cost.count, cost.extra
        ));
        return Ok(true);
    }
    let quick = words.contains(&"--quick");
    let write = words
        .iter()
        .position(|word| *word == "--write")
        .and_then(|at| words.get(at + 1));
    let part = match words {
        words if words.contains(&"--records") => table::Part::Records,
        words if words.contains(&"--scroll") => table::Part::Scrolls,
        words if words.contains(&"--ledger") => table::Part::Ledgers,
        words if words.contains(&"--lineage") => table::Part::Lineages,
        words if words.contains(&"--runtime") => table::Part::Runtime,
        words if words.contains(&"--log") => table::Part::Log,
        words if words.contains(&"--capture") => table::Part::Capture,
        words if words.contains(&"--record") => table::Part::Record,
        words if words.contains(&"--turns") => table::Part::Turns,
        words if words.contains(&"--pathological") => table::Part::Pathological,
        _ => table::Part::All,
    };
    let table = table::measure(quick, part)?;
    say(&table.text);
    if let Some(path) = write {
        std::fs::write(path, &table.text)?;
    }
    Ok(table.all_met)
}
