//! Ledgers: writing, the two ways of reading, and the verdict for each weakness of
//! `AbstractRuntime`.

use super::*;
use crate::testing::Row;
use threadseal_core::canon::json::{self, Text, Value};
use threadseal_core::digest::Digest;
use threadseal_core::key::{KeyUsage, PublicKey};
use threadseal_core::limits::{
    MAX_COMPAT_FAILURE_BYTES, MAX_FORK_RECORDS, MAX_LINE_RECORDS, MAX_LINK_BYTES, MAX_OPEN_STEPS,
};
use threadseal_core::record::ExpectedHead;
use threadseal_core::report::Verdict::{
    Consistent, Foreign, Forged, Forked, Partial, RolledBack, Tampered, Truncated, UnsignedTail,
    Verified,
};
use threadseal_core::report::{CheckResult, Completeness, Expectation, Report};
use threadseal_core::testing::{codes, is, key, micros, revoked, signer, trust_in};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::Trust;

mod bounds;
mod reading;
mod records;
mod weaknesses;

fn at(after: u64) -> Timestamp {
    micros(1_795_379_401_000_000 + after)
}

fn judged(bytes: &[u8], options: ChainOptions) -> Outcome {
    judge(bytes, options, &Judging::new(&Trust::default(), at(0)))
}

fn plain(bytes: &[u8]) -> Report {
    judged(bytes, ChainOptions::default()).report
}

/// The answer of `AbstractRuntime`.
fn answer(report: &Report) -> &str {
    report.compat["abstractruntime"].as_json()
}

/// Whether `AbstractRuntime` accepts the ledger.
fn ok(report: &Report) -> bool {
    answer(report).starts_with("{\"ok\": true")
}

fn check(report: &Report, name: &str) -> Option<CheckResult> {
    let found = report.checks.iter().find(|check| check.name == name);
    found.map(|check| check.result)
}

/// A run of `steps` steps, two records each, unchained.
fn run(name: &str, steps: u64) -> Vec<StepRecord> {
    let step = |number: u64| {
        let run = RunId::parse(name).unwrap();
        let payload = number.to_string().as_str().into();
        let effect = Effect::new("tool_calls", payload);
        let id = format!("step-{number}");
        let mut started = StepRecord::start(run, id, "node", Some(effect), at(2 * number));
        started.actor_id = Some("ar_agent".to_owned());
        let mut ended = started.clone();
        ended.finish_success(None, at(2 * number + 1));
        [started, ended]
    };
    (0..steps).flat_map(step).collect()
}

/// Chains the records, whatever their hashes were.
fn chain(mut records: Vec<StepRecord>) -> Vec<StepRecord> {
    let mut prev: Option<Digest> = None;
    for record in &mut records {
        record.prev_hash = prev;
        prev = Some(compute_record_hash(&record.to_value(), prev.as_ref()).unwrap());
        record.record_hash = prev;
    }
    records
}

fn file(records: &[StepRecord]) -> Vec<u8> {
    let lines = records.iter().map(|record| record.to_line().unwrap());
    lines
        .flat_map(|line| [line, b"\n".to_vec()])
        .flatten()
        .collect()
}
