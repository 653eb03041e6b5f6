//! `lineage …`: the checkpoints of agents, igor's and our own (`spec/lineage.md`).

mod accept;
mod append;
mod check_proof;
mod export;
mod fork_proof;
mod identity;
mod igor;
mod import;
pub(super) mod input;
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
    /// Show every field of a checkpoint, and check its seal
    Inspect(inspect::InspectArgs),
    /// Verify checkpoints and print a verdict for each lineage
    Verify(verify::VerifyArgs),
    /// Write the next checkpoint of an agent
    Append(append::AppendArgs),
    /// Draw lineages: each checkpoint after its predecessor, with the forks
    Log(log::LogArgs),
    /// Write a file that proves a fork to any person
    ForkProof(fork_proof::ForkProofArgs),
    /// Check whether a file alone proves a fork
    CheckProof(check_proof::CheckProofArgs),
    /// Offer an agent to another machine, durably; this machine stops acting
    Release(release::ReleaseArgs),
    /// Export the package of the present offer, or igor's message
    Export(export::ExportArgs),
    /// Import a package, an answer or igor's message, after verifying all of it
    Import(import::ImportArgs),
    /// Accept the agent that is offered to this machine
    Accept(accept::AcceptArgs),
    /// Refuse the agent that is offered to this machine
    Refuse(refuse::RefuseArgs),
    /// Recover an agent whose machine is lost: give it to another key, with the root key
    Recover(recover::RecoverArgs),
    /// List the charges of igor's nodes, and verify their signatures
    Receipts(receipts::ReceiptsArgs),
    /// Manage keys of agents, and session keys under them
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
