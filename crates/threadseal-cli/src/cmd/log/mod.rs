//! `log`: manages this host's append-only transparency log.

mod accuse;
mod catch_up;
mod entries;
mod fsck;
mod head;
pub(crate) mod init;
mod mark;
mod publish;
mod restart;
mod status;

use crate::context::Context;
use crate::exit::{Failure, Outcome};
use crate::output::Out;
use crate::seal_log;
use clap::Subcommand;
use threadseal_log::SealLog;

/// What to do with the log.
#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Create the log of a home without one (`threadseal init` creates it by default)
    Init(init::LogArgs),
    /// Show the size of the log, and check its second places
    Status,
    /// List the entries, newest first
    Entries(entries::EntriesArgs),
    /// Print the signed checkpoint of the log
    Head(head::HeadArgs),
    /// Check every entry and every hash of the log
    Fsck(fsck::FsckArgs),
    /// Add evidence of a fork to the log, so that no copy of the record is continued here
    Accuse(accuse::AccuseArgs),
    /// Manage the second places of the log's newest checkpoint
    #[command(subcommand)]
    Mark(mark::MarkCommand),
    /// Publish the log in object storage, or update the published copy
    Publish(publish::PublishArgs),
    /// Import missing entries from a newer copy of the log
    CatchUp(catch_up::CatchUpArgs),
    /// Replace a log that was rolled back, cloned or lost by a new one
    Restart(restart::RestartArgs),
}

pub(super) fn run(command: &LogCommand, context: &Context, out: &mut Out) -> Outcome {
    match command {
        LogCommand::Init(args) => init::run(args, context, out),
        LogCommand::Status => status::run(context, out),
        LogCommand::Entries(args) => entries::run(args, context, out),
        LogCommand::Head(args) => head::run(args, context, out),
        LogCommand::Fsck(args) => fsck::run(args, context, out),
        LogCommand::Accuse(args) => accuse::run(args, context, out),
        LogCommand::Mark(command) => mark::run(command, context, out),
        LogCommand::Publish(args) => publish::run(args, context, out),
        LogCommand::CatchUp(args) => catch_up::run(args, context, out),
        LogCommand::Restart(args) => restart::run(args, context, out),
    }
}

/// The log of this home, or an error if there is none.
fn existing(context: &Context) -> Result<SealLog, Failure> {
    let home = context.existing_home()?;
    seal_log::open(&home, context)?
        .ok_or_else(|| Failure::new("this home has no log; hint: threadseal log init".to_owned()))
}
