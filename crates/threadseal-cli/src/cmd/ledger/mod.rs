//! `ledger …`: the step ledgers of runs, in AbstractRuntime's format and our own
//! (`spec/ledger.md`).
//!
//! `LEDGER` is a file of records, a history bundle, an SQLite file, a folder of files
//! `ledger_<run>.jsonl`, or a URL: `file:DIR`, `sqlite:FILE`, `postgres://…`.

mod append;
mod export;
mod head;
mod import;
mod list;
pub(crate) mod place;
mod settle;
mod sign;
mod stats;
mod tail;
mod verify;
mod vouched;

use crate::context::Context;
use crate::exit::Outcome;
use crate::output::Out;
use clap::Subcommand;

/// What to do with ledgers.
#[derive(Debug, Subcommand)]
pub(crate) enum LedgerCommand {
    /// Append records from standard input, chained and optionally signed
    Append(append::AppendArgs),
    /// Verify ledgers and print a verdict for each
    Verify(verify::VerifyArgs),
    /// Print the head of a ledger, to keep elsewhere
    Head(head::HeadArgs),
    /// Sign the head of a ledger, whatever program wrote it
    Sign(sign::SignArgs),
    /// Admit that two writers began a ledger at the same time, so that it verifies
    Settle(settle::SettleArgs),
    /// Import the runs of a file, a bundle or a store into a store, byte for byte
    Import(import::ImportArgs),
    /// Export a run as lines, or as a history bundle
    Export(export::ExportArgs),
    /// List runs, or the records of one
    List(list::ListArgs),
    /// Print the last records of a run, and follow new ones
    Tail(tail::TailArgs),
    /// Count the events of runs
    Stats(stats::StatsArgs),
}

pub(crate) fn run(command: &LedgerCommand, context: &Context, out: &mut Out) -> Outcome {
    match command {
        LedgerCommand::Append(args) => append::run(args, context, out),
        LedgerCommand::Verify(args) => verify::run(args, context, out),
        LedgerCommand::Head(args) => head::run(args, context, out),
        LedgerCommand::Sign(args) => sign::run(args, context, out),
        LedgerCommand::Settle(args) => settle::run(args, context, out),
        LedgerCommand::Import(args) => import::run(args, context, out),
        LedgerCommand::Export(args) => export::run(args, context, out),
        LedgerCommand::List(args) => list::run(args, context, out),
        LedgerCommand::Tail(args) => tail::run(args, context, out),
        LedgerCommand::Stats(args) => stats::run(args, context, out),
    }
}
