//! `knowledge`: the knowledge entries of a project.

mod search;

use crate::context::Context;
use crate::exit::Outcome;
use crate::output::Out;
use clap::Subcommand;

/// What to do with knowledge.
#[derive(Debug, Subcommand)]
pub(crate) enum KnowledgeCommand {
    /// Search knowledge entries for words, and print a verdict for each
    Search(search::SearchArgs),
}

pub(super) fn run(command: &KnowledgeCommand, context: &Context, out: &mut Out) -> Outcome {
    match command {
        KnowledgeCommand::Search(args) => search::run(args, context, out),
    }
}
