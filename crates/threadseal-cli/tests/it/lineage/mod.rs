//! Lineages on the command line.

mod accused;
mod append;
mod commands;
mod igor;
mod moves;
mod receipts;
mod vectors;

use crate::prelude::*;

/// The exit code that a verdict has.
fn exit_of(verdict: &str) -> i32 {
    match verdict {
        "verified" => 0,
        "unknown_signer" | "unsigned" | "partial" | "consistent" | "unsigned_tail" | "open" => 3,
        _ => 1,
    }
}

/// Runs with `--json` and gives the only report. The exit code must fit its verdict.
#[track_caller]
fn report(sandbox: &Sandbox, arguments: &str) -> Value {
    let ran = sandbox.sh(format!("{arguments} --json"));
    let results = &ran.json()["results"];
    assert_eq!(results.as_array().map(Vec::len), Some(1), "{results}");
    let report = results[0].clone();
    assert_eq!(ran.code, exit_of(report["verdict"].text()));
    report
}
