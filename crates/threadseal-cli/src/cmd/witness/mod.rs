//! `witness …`: cosigns that other logs only grew (`spec/tlog.md`).

mod add;
mod list;
mod serve;

use crate::context::Context;
use crate::exit::Outcome;
use crate::output::Out;
use clap::Subcommand;
use threadseal_log::witness::WitnessFiles;
use threadseal_store::home::Home;

/// What to do as a witness.
#[derive(Debug, Subcommand)]
pub(crate) enum WitnessCommand {
    /// Serve logs over HTTP (C2SP tlog-witness)
    Serve(serve::ServeArgs),
    /// Add a log to watch; a running witness needs no restart
    Add(add::AddArgs),
    /// List the watched logs, with the last cosignature of each
    List,
}

pub(super) fn run(command: &WitnessCommand, context: &Context, out: &mut Out) -> Outcome {
    match command {
        WitnessCommand::Serve(args) => serve::run(args, context, out),
        WitnessCommand::Add(args) => add::run(args, context, out),
        WitnessCommand::List => list::run(context, out),
    }
}

fn files(home: &Home, context: &Context) -> WitnessFiles {
    WitnessFiles::of_home(std::sync::Arc::clone(&context.fs), home.path())
}
