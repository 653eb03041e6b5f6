//! The jobs of the rows on step ledgers, each in a process of its own.
//!
//! Records are those of `interop/ledger/bench.py`, 1.2 KB each: a step has two, `started` and
//! `completed`. Small ones contain no words.

use super::cost::Cost;
use super::job::{cpu_seconds, peak_bytes};
use crate::console::Fallible;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;
use threadseal_core::canon::json::{self, Value};
use threadseal_core::digest::Digest;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer as _};
use threadseal_core::report::{Finding, Severity, Verdict};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::Trust;
use threadseal_formats::ledger::{
    ChainOptions, Effect, Judging, Outcome, RecordSignature, RunId, StepRecord, StepStatus,
};
use threadseal_store::clock::{Clock as _, SystemClock};
use threadseal_store::ledger::{
    ActorSigners, ChainedLedger as _, HashChainedLedgerStore, JsonlLedgerStore, verify,
};
use threadseal_store::read::{CHUNK_BYTES, Source, open_regular};
use threadseal_store::sys::RealFs;

const ACTOR: &str = "ar_0123456789abcdef01234567";
const WORDS: &str = "the agent reads a file, thinks and answers in a few words; ";
/// How often the words occur in a record of 1.2 KB, in its request and in its answer.
const USUAL: usize = 6;

/// Runs a job of this file; `None` when it has no such job.
pub(super) fn run(name: &str, path: &Path, rest: &[&str]) -> Option<Fallible<Cost>> {
    Some(match (name, rest) {
        ("ledger-append", [count, durability, batch]) => {
            append(path, count, *durability == "durable", batch)
        }
        ("ledger-lines", [count, signed]) => lines(path, count, *signed == "signed"),
        ("ledger-verify", [signed]) => verify_file(path, *signed == "signed"),
        ("ledger-verify-stream", [count]) => verify_stream(count),
        _ => return None,
    })
}

fn signer() -> LocalSigner {
    LocalSigner::new(PrivateKey::from_seed([1; 32]), KeyUsage::Native)
}

/// The cost of `work` alone, which returns a count and an extra one.
fn measured(work: impl FnOnce() -> Fallible<(u64, u64)>) -> Fallible<Cost> {
    let (started, cpu) = (SystemClock.elapsed(), cpu_seconds());
    let (count, extra) = work()?;
    Ok(Cost {
        wall_seconds: (SystemClock.elapsed() - started).as_secs_f64(),
        cpu_seconds: cpu_seconds() - cpu,
        peak_bytes: peak_bytes()?,
        count,
        extra,
    })
}

fn moment(number: u64) -> String {
    format!("2026-01-01T00:00:00.{:06}+00:00", number % 1_000_000)
}

/// The record of this number.
fn record(number: u64) -> Fallible<StepRecord> {
    let (step, ended) = (number / 2, number % 2 == 1);
    let words = WORDS.repeat(USUAL);
    let value = |text: String| json::parse(text.as_bytes()).map(|value: Value| value);
    let payload = value(format!(
        r#"{{"prompt":"{words}","temperature":0.7,"max_tokens":2048}}"#
    ))?;
    let effect = Effect::new("llm_call", payload).with_result_key("answer");
    let run = RunId::parse("bench")?;
    let at = Timestamp::from_micros(0)?;
    let mut record = StepRecord::start(run, format!("step-{step:012}"), "node-1", Some(effect), at);
    record.started_at = moment(number);
    record.actor_id = Some(ACTOR.into());
    record.session_id = Some("sess-1".into());
    record.idempotency_key = Some(format!("{step:032x}"));
    if ended {
        record.status = StepStatus::Completed;
        record.ended_at = Some(moment(number));
        record.result = Some(value(format!(
            r#"{{"content":"{words}","usage":{{"total_tokens":5628}}}}"#
        ))?);
    }
    Ok(record)
}

/// Records through the store of lines, chained and each signed.
fn append(folder: &Path, count: &str, durable: bool, batch: &str) -> Fallible<Cost> {
    let (count, batch): (u64, usize) = (count.parse()?, batch.parse()?);
    let records: Vec<StepRecord> = (0..count).map(record).collect::<Fallible<_>>()?;
    let run = RunId::parse("bench")?;
    let signers = ActorSigners::new().with(ACTOR, Arc::new(signer()));
    let open = if durable {
        JsonlLedgerStore::open
    } else {
        JsonlLedgerStore::open_without_fsync
    };
    let store = open(Arc::new(RealFs), folder)?;
    let ledger = HashChainedLedgerStore::new(store).with_signer(Arc::new(signers));
    measured(|| {
        for records in records.chunks(batch) {
            ledger.append_batch(&run, records)?;
        }
        Ok((count, 0))
    })
}

/// A ledger, line by line.
struct Lines {
    next: u64,
    /// The words of a record, repeated.
    words: String,
    prev: Option<Digest>,
    signer: Option<LocalSigner>,
}

impl Lines {
    fn new(words: usize, signed: bool) -> Self {
        Self {
            next: 0,
            words: WORDS.repeat(words),
            prev: None,
            signer: signed.then(signer),
        }
    }

    /// Adds the next line. The covered text is the same object sorted by name, without two of its
    /// members.
    fn add(&mut self, out: &mut Vec<u8>) -> Fallible<()> {
        let (step, words, at) = (self.next / 2, &self.words, moment(0));
        let quoted = |text: &str| format!("\"{text}\"");
        let null = || "null".to_owned();
        let (status, ended, result, sorted) = match self.next % 2 {
            0 => ("started", null(), null(), null()),
            _ => {
                let result = format!(r#"{{"content":"{words}","usage":{{"total_tokens":5628}}}}"#);
                ("completed", quoted(&at), result.clone(), result)
            }
        };
        let prev = self.prev.map_or_else(null, |prev| quoted(&prev.to_hex()));
        let covered = format!(
            r#"{{"actor_id":"{ACTOR}","attempt":1,"effect":{{"payload":{{"max_tokens":2048,"prompt":"{words}","temperature":0.7}},"result_key":"answer","type":"llm_call"}},"ended_at":{ended},"error":null,"idempotency_key":"{step:032x}","node_id":"node-1","prev_hash":{prev},"result":{sorted},"run_id":"bench","session_id":"sess-1","started_at":"{at}","status":"{status}","step_id":"step-{step:012}"}}"#
        );
        let hash = Digest::of(covered.as_bytes());
        let signature = match &self.signer {
            Some(signer) => quoted(&RecordSignature::sign(&hash, signer)?.to_string()),
            None => null(),
        };
        writeln!(
            out,
            r#"{{"run_id":"bench","step_id":"step-{step:012}","node_id":"node-1","status":"{status}","effect":{{"type":"llm_call","payload":{{"prompt":"{words}","temperature":0.7,"max_tokens":2048}},"result_key":"answer"}},"result":{result},"error":null,"started_at":"{at}","ended_at":{ended},"actor_id":"{ACTOR}","session_id":"sess-1","attempt":1,"idempotency_key":"{step:032x}","prev_hash":{prev},"record_hash":"{hash}","signature":{signature}}}"#
        )?;
        self.next += 1;
        self.prev = Some(hash);
        Ok(())
    }
}

fn lines(path: &Path, count: &str, signed: bool) -> Fallible<Cost> {
    let count: u64 = count.parse()?;
    let mut file = BufWriter::new(File::create(path)?);
    let (mut lines, mut line, mut size) = (Lines::new(USUAL, signed), Vec::new(), 0);
    measured(|| {
        for _ in 0..count {
            line.clear();
            lines.add(&mut line)?;
            file.write_all(&line)?;
            size += line.len() as u64;
        }
        file.flush()?;
        Ok((count, size))
    })
}

/// An upper bound for a small record in bytes.
const LONGEST: usize = 4096;

/// Small records, made while they are read.
struct Stream<'s> {
    lines: Lines,
    count: u64,
    size: &'s mut u64,
}

impl Source for Stream<'_> {
    fn next_chunk(&mut self, chunk: &mut Vec<u8>) -> Result<(), threadseal_core::error::Error> {
        chunk.clear();
        while self.lines.next < self.count && chunk.len() < CHUNK_BYTES - LONGEST {
            self.lines
                .add(chunk)
                .map_err(|error| threadseal_core::error::Error::invalid(error.to_string()))?;
        }
        *self.size += chunk.len() as u64;
        Ok(())
    }
}

fn verify_file(path: &Path, signed: bool) -> Fallible<Cost> {
    let trust = match signed {
        true => Trust::key(*signer().public_key()),
        false => Trust::default(),
    };
    measured(|| {
        let file = open_regular(&RealFs, path)?;
        Ok((verified(file.chunks(), &trust)?, 0))
    })
}

fn verify_stream(count: &str) -> Fallible<Cost> {
    let (count, mut size) = (count.parse()?, 0);
    let mut cost = measured(|| {
        let source = Stream {
            lines: Lines::new(0, false),
            count,
            size: &mut size,
        };
        Ok((verified(source, &Trust::default())?, 0))
    })?;
    cost.extra = size;
    if cost.count != count {
        return Err("not all records were seen".into());
    }
    Ok(cost)
}

/// Verifies a chain that must hold; returns the number of its records.
fn verified(source: impl Source + Send, trust: &Trust) -> Fallible<u64> {
    let judging = Judging::new(trust, SystemClock.now()?);
    let options = ChainOptions {
        all_signed: !trust.pinned.is_empty(),
        ..ChainOptions::default()
    };
    let Outcome { report, .. } = verify(source, options, &judging, &|_| {})?;
    let notes = |finding: &Finding| finding.severity == Severity::Note;
    let wanted = match trust.pinned.is_empty() {
        false => Verdict::Open,
        true => Verdict::Consistent,
    };
    if report.verdict != wanted || !report.findings.iter().all(notes) {
        return Err(format!("the ledger is {}: {:?}", report.verdict, report.findings).into());
    }
    Ok(report.stats.events)
}
