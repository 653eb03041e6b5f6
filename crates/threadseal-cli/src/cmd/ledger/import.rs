//! `ledger import`: copies the runs of a file, a bundle or a store, byte for byte, into another
//! store.
//!
//! ```text
//! source ─► verify each run whole ─► same beginning in the store? ─► append the missing records
//! ```
//! Hashes and signatures stay as they are. It refuses a part of a ledger and an invalid one. If one
//! run fails, nothing is imported.

use super::head::{tip_of, whole};
use super::place::{self, Place};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use crate::progress::Bar;
use crate::trust_file;
use crate::verifying;
use clap::Args;
use serde::Serialize;
use threadseal_core::canon::json::{self, Value};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::trust::Trust;
use threadseal_formats::ledger::{ChainTip, RunId};
use threadseal_store::ledger::{Append, Entry, LedgerStore, Tip};
use threadseal_verify::request::VerifyRequest;

/// The most records that are stored at once.
const BATCH_RECORDS: usize = 1024;
/// The most bytes of records that are stored at once.
const BATCH_BYTES: usize = 4 << 20;

/// What `ledger import` takes.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// A file of records, a bundle, an SQLite file, a folder, or file:DIR, sqlite:FILE, postgres://… or s3://…
    #[arg(value_name = "LEDGER")]
    from: String,
    /// The store: a folder, file:DIR, sqlite:FILE, postgres://… or s3://…
    #[arg(value_name = "STORE")]
    to: String,
    /// The run [default: all]
    #[arg(long, value_name = "ID", value_parser = RunId::parse)]
    run: Option<RunId>,
}

#[derive(Serialize)]
struct ImportOutput {
    schema: &'static str,
    runs: Vec<Imported>,
}

#[derive(Serialize)]
struct Imported {
    run: String,
    appended: u64,
    records: u64,
    head: String,
}

/// Verifies all runs, then appends.
pub(super) fn run(args: &ImportArgs, context: &Context, out: &mut Out) -> Outcome {
    let from = place::readable(&args.from, context)?;
    let runs = match &args.run {
        Some(run) => vec![run.clone()],
        None => {
            from.has_no_strays()?;
            from.runs()?
        }
    };
    let trust = match context.home()? {
        Some(home) => trust_file::trust_of_home(&home, context)?,
        None => Trust::default(),
    };
    let asked = VerifyRequest::by(trust);
    let verifier = verifying::verifier(asked, &Bar::hidden(), context)?;
    let mut tips: Vec<ChainTip> = Vec::new();
    for run in &runs {
        let outcome = whole(&from, run, &args.from, &verifier, context)?;
        tips.push(tip_of(&outcome)?.clone());
    }
    let to = place::writable(&args.to, context)?;
    let mut imported = Vec::new();
    for tip in &tips {
        imported.push(import(&from, &*to, tip)?);
    }
    if context.json {
        out.json(&ImportOutput {
            schema: "threadseal.ledger.import/1",
            runs: imported,
        });
    } else if !context.quiet {
        for run in &imported {
            out.line(&run.head);
        }
    }
    Ok(Exit::Done)
}

fn import(from: &Place, to: &dyn LedgerStore, tip: &ChainTip) -> Result<Imported, Failure> {
    let run = &tip.run;
    let mut there = to.tip(run)?.unwrap_or_default();
    let before = there.count;
    let (mut seen, mut bytes, mut batch) = (0_u64, 0, Vec::new());
    from.each(run, &mut |line| {
        seen += 1;
        // Records that were added after the verification are not taken.
        if seen > tip.count {
            return Ok(());
        }
        let entry = entry(line)?;
        if seen < before {
            return Ok(());
        }
        if seen == before {
            return match entry.record_hash == there.hash {
                true => Ok(()),
                false => Err(Error::refused(format!(
                    "the store has another ledger of run {run}: they differ at record {} or before",
                    seen - 1
                ))),
            };
        }
        bytes += entry.line.len();
        batch.push(entry);
        if batch.len() >= BATCH_RECORDS || bytes >= BATCH_BYTES {
            there = append(to, run, &there, &batch)?;
            batch.clear();
            bytes = 0;
        }
        Ok(())
    })?;
    if !batch.is_empty() {
        there = append(to, run, &there, &batch)?;
    }
    if seen < before {
        return Err(Failure::new(format!(
            "the store has more records of run {run} than the source"
        )));
    }
    Ok(Imported {
        run: run.to_string(),
        appended: there.count - before,
        records: there.count,
        head: tip.head().to_string(),
    })
}

fn append(
    to: &dyn LedgerStore,
    run: &RunId,
    expected: &Tip,
    entries: &[Entry],
) -> Result<Tip, Error> {
    match to.append_if(run, expected, entries)? {
        Append::Stored(tip) => Ok(tip),
        Append::Differs(_) => Err(Error::refused(format!(
            "another writer appends to run {run} in the store"
        ))),
    }
}

fn entry(line: &[u8]) -> Result<Entry, Error> {
    let record = json::parse_python(line)
        .map_err(|error| Error::invalid(format!("a record cannot be read: {error}")))?
        .value;
    let text = |name: &str| record.get(name).and_then(Value::as_str);
    Ok(Entry {
        line: line.to_vec(),
        record_hash: text("record_hash").and_then(Digest::parse_hex),
        idempotency_key: text("idempotency_key").map(str::to_owned),
        status: text("status").unwrap_or_default().to_owned(),
    })
}
