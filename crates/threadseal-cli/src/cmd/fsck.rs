//! `fsck`: is what is stored of runs whole, and can what is torn be mended?

use super::ledger::place;
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use crate::render::clean::Clean;
use clap::Args;
use serde::Serialize;
use threadseal::ledger::RunId;
use threadseal_store::ledger::FsckReport;

/// What `fsck` takes.
#[derive(Debug, Args)]
pub(crate) struct FsckArgs {
    /// A folder of ledgers, file:DIR, sqlite:FILE, postgres://… or s3://…
    #[arg(value_name = "STORE")]
    store: String,
    /// The run [default: all]
    #[arg(long, value_name = "ID", value_parser = RunId::parse)]
    run: Option<RunId>,
    /// Mend what is provably torn; nothing else is ever changed
    #[arg(long)]
    repair: bool,
}

#[derive(Serialize)]
struct FsckOutput {
    schema: &'static str,
    runs: Vec<RunOutput>,
    exit: u8,
}

#[derive(Serialize)]
struct RunOutput {
    run: String,
    records: u64,
    clean: bool,
    faults: Vec<FaultOutput>,
    more: u64,
}

#[derive(Serialize)]
struct FaultOutput {
    code: &'static str,
    at: Option<u64>,
    message: String,
    repaired: bool,
}

/// Looks at each run; exits 1 where something is wrong and stays so.
pub(crate) fn run(args: &FsckArgs, context: &Context, out: &mut Out) -> Outcome {
    // A look must not make a store that is not there.
    let there = place::readable(&args.store, context)?;
    there.store()?;
    let runs = match &args.run {
        Some(run) => vec![run.clone()],
        None => there.runs()?,
    };
    drop(there);
    let store = place::writable(&args.store, context)?;
    let mut reports = Vec::new();
    for run in &runs {
        reports.push(store.fsck(run, args.repair)?);
    }
    if reports.is_empty() {
        return Err(Failure::new("there is no run here"));
    }
    let clean = reports.iter().all(FsckReport::is_clean);
    let exit = if clean { Exit::Done } else { Exit::Evidence };
    if context.json {
        out.json(&FsckOutput {
            schema: "threadseal.fsck/1",
            runs: reports.iter().map(shown).collect(),
            exit: exit.code(),
        });
        return Ok(exit);
    }
    for report in &reports {
        print(report, context, out);
    }
    Ok(exit)
}

fn shown(report: &FsckReport) -> RunOutput {
    let faults = report.faults.iter().map(|fault| FaultOutput {
        code: fault.code,
        at: fault.at,
        message: fault.message.clone(),
        repaired: fault.repaired,
    });
    RunOutput {
        run: report.run.to_string(),
        records: report.records,
        clean: report.is_clean(),
        faults: faults.collect(),
        more: report.more,
    }
}

fn print(report: &FsckReport, context: &Context, out: &mut Out) {
    let run = Clean(report.run.as_str());
    if report.faults.is_empty() && report.more == 0 {
        if !context.quiet {
            out.line(format!("{run}  {} records, nothing wrong", report.records));
        }
        return;
    }
    out.line(format!("{run}  {} records", report.records));
    for fault in &report.faults {
        let at = fault.at.map_or(String::new(), |at| format!(" at {at}"));
        let done = if fault.repaired { "  (mended)" } else { "" };
        out.line(format!(
            "  {}{at}: {}{done}",
            fault.code,
            Clean(&fault.message)
        ));
    }
    if report.more > 0 {
        out.line(format!("  and {} more", report.more));
    }
}
