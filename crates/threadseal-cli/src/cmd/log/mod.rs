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
    /// Make the log of a home that has none, with a key of its own (init makes it by itself)
    Init(init::LogArgs),
    /// Say how large the log is, what its second place knows, and whether both agree
    Status,
    /// List what was written down, the newest first
    Entries(entries::EntriesArgs),
    /// Print the signed checkpoint
    Head(head::HeadArgs),
    /// Read every entry and compute every hash again
    Fsck(fsck::FsckArgs),
    /// Take evidence that a record was sealed in two ways into the log: no copy of it is gone on with here then
    Accuse(accuse::AccuseArgs),
    /// Keep the log's last checkpoint in one place more, or one less
    #[command(subcommand)]
    Mark(mark::MarkCommand),
    /// Bring a copy of the log in object storage up to it, for readers elsewhere
    Publish(publish::PublishArgs),
    /// Take over what a copy of the log has beyond it
    CatchUp(catch_up::CatchUpArgs),
    /// Go on with another log in the place of one that was rolled back, cloned or lost
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
        .ok_or_else(|| Failure::new("this home has no log; run: threadseal log init".to_owned()))
}
