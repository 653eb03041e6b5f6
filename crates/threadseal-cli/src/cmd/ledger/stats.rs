//! `ledger stats`: counts the events of runs.

use super::place;
use crate::context::Context;
use crate::exit::{Exit, Outcome};
use crate::output::Out;
use crate::render::clean::Clean;
use crate::render::text::counted;
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;
use threadseal_core::canon::json::{self, Value};
use threadseal_formats::ledger::RunId;

/// The most words with a count of their own; all others are `(other)`.
const MAX_WORDS: usize = 256;
/// The longest word with a count of its own, in bytes.
const MAX_WORD_BYTES: usize = 128;

/// What `ledger stats` takes.
#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// A file of records, a bundle, an SQLite file, a folder, or file:DIR, sqlite:FILE, postgres://… or s3://…
    #[arg(value_name = "LEDGER")]
    ledger: String,
    /// The run [default: all runs, added up]
    #[arg(long, value_name = "ID", value_parser = RunId::parse)]
    run: Option<RunId>,
}

#[derive(Default, Serialize)]
struct Stats {
    schema: &'static str,
    runs: u64,
    records: u64,
    bytes: u64,
    chained: u64,
    signed: u64,
    statuses: BTreeMap<String, u64>,
    effects: BTreeMap<String, u64>,
    actors: BTreeMap<String, u64>,
    retries: u64,
    first_time: Option<String>,
    last_time: Option<String>,
}

/// Counts without verification.
pub(super) fn run(args: &StatsArgs, context: &Context, out: &mut Out) -> Outcome {
    let place = place::readable(&args.ledger, context)?;
    let runs = match &args.run {
        Some(run) => vec![run.clone()],
        None => place.runs()?,
    };
    let mut stats = Stats {
        schema: "threadseal.ledger.stats/1",
        runs: runs.len() as u64,
        ..Stats::default()
    };
    for run in &runs {
        place.each(run, &mut |line| {
            stats.take(line);
            Ok(())
        })?;
    }
    if context.json {
        out.json(&stats);
    } else {
        stats.print(out);
    }
    Ok(Exit::Done)
}

impl Stats {
    fn take(&mut self, line: &[u8]) {
        self.records += 1;
        self.bytes += line.len() as u64;
        let Ok(record) = json::parse_python(line).map(|read| read.value) else {
            return;
        };
        let text = |name: &str| record.get(name).and_then(Value::as_str);
        self.chained += u64::from(text("record_hash").is_some());
        self.signed += u64::from(text("signature").is_some());
        let attempt = record.get("attempt").and_then(Value::as_u64);
        self.retries += u64::from(attempt > Some(1) && text("status") == Some("started"));
        count(&mut self.statuses, text("status").unwrap_or("-"));
        let effect = record.get("effect").and_then(|effect| effect.get("type"));
        count(
            &mut self.effects,
            effect.and_then(Value::as_str).unwrap_or("-"),
        );
        count(&mut self.actors, text("actor_id").unwrap_or("-"));
        let Some(time) = text("ended_at").or(text("started_at")) else {
            return;
        };
        if self.first_time.is_none() {
            self.first_time = Some(time.to_owned());
        }
        self.last_time = Some(time.to_owned());
    }

    fn print(&self, out: &mut Out) {
        out.line(format!(
            "{}  {}  {}  {} chained  {} signed  {}",
            counted(self.runs, "run", "runs"),
            counted(self.records, "record", "records"),
            counted(self.bytes, "byte", "bytes"),
            self.chained,
            self.signed,
            counted(self.retries, "retry", "retries")
        ));
        if let (Some(first), Some(last)) = (&self.first_time, &self.last_time) {
            out.line(format!("from {} to {}", Clean(first), Clean(last)));
        }
        let groups = [
            ("status", &self.statuses),
            ("effect", &self.effects),
            ("actor", &self.actors),
        ];
        for (name, words) in groups {
            for (word, count) in words {
                out.line(format!("{name:<7} {count:>8}  {}", Clean(word)));
            }
        }
    }
}

/// Counts a word. Without a bound, words could fill the memory: those after the first ones share
/// one count.
fn count(words: &mut BTreeMap<String, u64>, word: &str) {
    let fits = words.contains_key(word) || words.len() < MAX_WORDS && word.len() <= MAX_WORD_BYTES;
    let word = if fits { word } else { "(other)" };
    *words.entry(word.to_owned()).or_default() += 1;
}
