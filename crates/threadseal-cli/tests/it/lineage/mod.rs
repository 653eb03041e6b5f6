//! Lineages on the command line.

mod accused;
mod append;
mod commands;
mod igor;
mod moves;
mod receipts;
mod vectors;

use crate::sandbox::Sandbox;
use serde_json::Value;

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
fn report(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let ran = sandbox.run(arguments.iter().chain(&["--json"]));
    let results = &ran.json()["results"];
    assert_eq!(results.as_array().map(Vec::len), Some(1), "{results}");
    let report = results[0].clone();
    assert_eq!(ran.code, exit_of(report["verdict"].as_str().unwrap()));
    report
}

/// The codes of a report's findings.
fn codes(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().unwrap();
    findings
        .iter()
        .map(|f| f["code"].as_str().unwrap())
        .collect()
}
