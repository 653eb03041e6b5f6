//! Ledgers on the command line.

mod commands;
mod stores;
mod vectors;

use crate::prelude::*;

/// Runs with `--json`; the only report, whatever the exit code.
fn report(sandbox: &Sandbox, arguments: &str) -> (i32, Value) {
    let ran = sandbox.sh(format!("{arguments} --json"));
    let results = &ran.json()["results"];
    assert_eq!(results.as_array().map(Vec::len), Some(1), "{results}");
    (ran.code, results[0].clone())
}

/// The verdict of the only report.
fn verdict(sandbox: &Sandbox, arguments: &str) -> String {
    let (code, report) = report(sandbox, arguments);
    let verdict = report["verdict"].text().to_owned();
    let expected = match verdict.as_str() {
        "verified" => 0,
        "unknown_signer" | "unsigned" | "partial" | "consistent" | "unsigned_tail" | "open" => 3,
        _ => 1,
    };
    assert_eq!(code, expected, "{verdict}");
    verdict
}

fn ledger(ran: Ran) -> Ran {
    assert!(!ran.stdout.contains("\u{1b}"));
    ran
}
