//! Ledgers: writing, the two ways of reading, and the verdict for each weakness of
//! `AbstractRuntime`.

use super::*;
use threadseal_core::digest::Digest;
use threadseal_core::time::Timestamp;

mod bounds;
mod reading;
mod records;
mod weaknesses;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(1_795_379_401_000_000 + micros).unwrap()
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
