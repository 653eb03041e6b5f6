//! `lineage …`: the checkpoints of agents, igor's and our own (`spec/lineage.md`).

mod check_proof;
mod fork_proof;
mod identity;
mod input;
mod inspect;
mod log;
mod verify;

use crate::context::Context;
use crate::exit::Outcome;
use crate::output::Out;
use clap::Subcommand;

/// What to do with lineages.
#[derive(Debug, Subcommand)]
pub(crate) enum LineageCommand {
    /// Show all that one checkpoint says, and whether its seal holds
    Inspect(inspect::InspectArgs),
    /// Say what can be said of checkpoints, whatever the files are called and wherever they lie
    Verify(verify::VerifyArgs),
    /// Draw lineages: each checkpoint behind the one before it, with the forks
    Log(log::LogArgs),
    /// Write a file that proves a fork to anybody
    ForkProof(fork_proof::ForkProofArgs),
    /// Say whether a file proves a fork, by itself
    CheckProof(check_proof::CheckProofArgs),
    /// Keys of agents, and session keys under them
    #[command(subcommand)]
    Identity(identity::IdentityCommand),
}

/// Runs one of them.
pub(crate) fn run(command: &LineageCommand, context: &Context, out: &mut Out) -> Outcome {
    match command {
        LineageCommand::Inspect(args) => inspect::run(args, context, out),
        LineageCommand::Verify(args) => verify::run(args, context, out),
        LineageCommand::Log(args) => log::run(args, context, out),
        LineageCommand::ForkProof(args) => fork_proof::run(args, context, out),
        LineageCommand::CheckProof(args) => check_proof::run(args, context, out),
        LineageCommand::Identity(command) => identity::run(command, context, out),
    }
}
