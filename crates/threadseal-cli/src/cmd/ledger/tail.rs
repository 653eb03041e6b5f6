//! `ledger tail`: prints the last records of a run and, with `-f`, the new ones.

use super::list::record;
use super::place;
use crate::context::Context;
use crate::exit::{Exit, Outcome};
use crate::output::Out;
use clap::Args;
use std::collections::VecDeque;
use std::time::Duration;
use threadseal_formats::ledger::RunId;
use threadseal_store::ledger::LedgerStoreExt as _;

/// The longest wait for a record, before a check whether standard output is still open.
const PATIENCE: Duration = Duration::from_millis(500);

/// What `ledger tail` takes.
#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// A file of records, a bundle, an SQLite file, a folder, or file:DIR, sqlite:FILE, postgres://… or s3://…
    #[arg(value_name = "LEDGER")]
    ledger: String,
    /// The run [default: the only one]
    #[arg(long, value_name = "ID", value_parser = RunId::parse)]
    run: Option<RunId>,
    /// How many records
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    lines: u32,
    /// Wait for records to come; of a store only
    #[arg(short, long)]
    follow: bool,
}

/// Prints; with `-f`, until standard output is closed.
pub(super) fn run(args: &TailArgs, context: &Context, out: &mut Out) -> Outcome {
    let place = place::readable(&args.ledger, context)?;
    let run = place.one(args.run.as_ref())?;
    let count = usize::try_from(args.lines).unwrap_or(usize::MAX);
    if !args.follow {
        let (mut seq, mut last) = (0_u64, VecDeque::new());
        place.each(&run, &mut |line| {
            if last.len() >= count {
                last.pop_front();
            }
            if count > 0 {
                last.push_back((seq, line.to_vec()));
            }
            seq += 1;
            Ok(())
        })?;
        for (seq, line) in &last {
            record(*seq, line, context, out);
        }
        return Ok(Exit::Done);
    }
    let store = place.store()?;
    let end = store.tip(&run)?.unwrap_or_default().count;
    let mut records = store.subscribe(&run, end.saturating_sub(u64::from(args.lines)), PATIENCE);
    loop {
        if let Some(next) = records.next().transpose()? {
            record(next.seq, &next.line, context, out);
        }
        if !out.flush() {
            return Ok(Exit::NoVerdict);
        }
    }
}
