//! `knowledge`: the knowledge entries of a project.

mod search;

use crate::context::Context;
use crate::exit::Outcome;
use crate::output::Out;
use clap::Subcommand;

/// What to do with knowledge.
#[derive(Debug, Subcommand)]
pub(crate) enum KnowledgeCommand {
    /// Find entries by their words, threads too; each with its verdict
    Search(search::SearchArgs),
}

pub(super) fn run(command: &KnowledgeCommand, context: &Context, out: &mut Out) -> Outcome {
    match command {
        KnowledgeCommand::Search(args) => search::run(args, context, out),
    }
}
