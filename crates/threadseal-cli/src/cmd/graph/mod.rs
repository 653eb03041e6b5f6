//! `graph …`: state graphs: their declarations and their runs (`spec/declarations.md` §8,
//! `spec/runtime.md`).

mod cancel;
mod resume;
mod run;
mod show;
mod validate;

use crate::context::Context;
use crate::exit::Outcome;
use crate::output::Out;
use clap::Subcommand;

/// What to do with graphs.
#[derive(Debug, Subcommand)]
pub(crate) enum GraphCommand {
    /// Run a graph to its end; Ctrl-C cancels it
    Run(run::RunArgs),
    /// Go on with a run that stopped, in a new one; only if its records verify and agree
    Resume(resume::ResumeArgs),
    /// Ask whoever runs it to end a run
    Cancel(cancel::CancelArgs),
    /// Show a run as its verified record has it
    Show(show::ShowArgs),
    /// Tell every fault of graphs, with its line; exit 1 when one is an error
    Validate(validate::ValidateArgs),
}

pub(crate) fn run(command: &GraphCommand, context: &Context, out: &mut Out) -> Outcome {
    match command {
        GraphCommand::Run(args) => run::run(args, context, out),
        GraphCommand::Resume(args) => resume::run(args, context, out),
        GraphCommand::Cancel(args) => cancel::run(args, context, out),
        GraphCommand::Show(args) => show::run(args, context, out),
        GraphCommand::Validate(args) => validate::run(args, context, out),
    }
}
