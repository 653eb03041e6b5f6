//! `lineage …`: the checkpoints of agents, igor's and our own (`spec/lineage.md`).

mod accept;
mod append;
mod check_proof;
mod export;
mod fork_proof;
mod identity;
mod igor;
mod import;
mod input;
mod inspect;
mod log;
mod machine;
mod receipts;
mod recover;
mod refuse;
mod release;
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
    /// Write the next checkpoint of an agent
    Append(append::AppendArgs),
    /// Draw lineages: each checkpoint behind the one before it, with the forks
    Log(log::LogArgs),
    /// Write a file that proves a fork to anybody
    ForkProof(fork_proof::ForkProofArgs),
    /// Say whether a file proves a fork, by itself
    CheckProof(check_proof::CheckProofArgs),
    /// Offer an agent to another machine, durably; this one does not act from here on
    Release(release::ReleaseArgs),
    /// Write the package of the offer that stands, or the original's message
    Export(export::ExportArgs),
    /// Take a package, an answer, or the original's message, all of it verified before
    Import(import::ImportArgs),
    /// Take the agent that is offered to this machine
    Accept(accept::AcceptArgs),
    /// Give back the agent that is offered to this machine
    Refuse(refuse::RefuseArgs),
    /// Give an agent whose machine is lost for good to another key, with the root key
    Recover(recover::RecoverArgs),
    /// Say what nodes of the original charged, and whether they signed it
    Receipts(receipts::ReceiptsArgs),
    /// Keys of agents, and session keys under them
    #[command(subcommand)]
    Identity(identity::IdentityCommand),
}

pub(crate) fn run(command: &LineageCommand, context: &Context, out: &mut Out) -> Outcome {
    match command {
        LineageCommand::Inspect(args) => inspect::run(args, context, out),
        LineageCommand::Verify(args) => verify::run(args, context, out),
        LineageCommand::Append(args) => append::run(args, context, out),
        LineageCommand::Log(args) => log::run(args, context, out),
        LineageCommand::ForkProof(args) => fork_proof::run(args, context, out),
        LineageCommand::CheckProof(args) => check_proof::run(args, context, out),
        LineageCommand::Release(args) => release::run(args, context, out),
        LineageCommand::Export(args) => export::run(args, context, out),
        LineageCommand::Import(args) => import::run(args, context, out),
        LineageCommand::Accept(args) => accept::run(args, context, out),
        LineageCommand::Refuse(args) => refuse::run(args, context, out),
        LineageCommand::Recover(args) => recover::run(args, context, out),
        LineageCommand::Receipts(args) => receipts::run(args, context, out),
        LineageCommand::Identity(command) => identity::run(command, context, out),
    }
}
