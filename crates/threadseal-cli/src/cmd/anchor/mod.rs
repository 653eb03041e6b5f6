//! `anchor …`: witnesses and authorities that saw the log of this home (`spec/tlog.md`).

mod add;
mod check;
mod list;
mod remove;
mod repeat;
mod stamp;

use crate::context::Context;
use crate::exit::{Failure, Outcome};
use crate::output::Out;
use clap::Subcommand;
use threadseal_log::timestamps::Authority;
use threadseal_store::home::Home;
use threadseal_verify::anchor_files;

pub(crate) use threadseal_verify::anchor_files::Kept;

use threadseal_verify::anchor_files::{AUTHORITY, POLICY, folder, path_of};

/// What to do with witnesses and time stamps of the log.
#[derive(Debug, Subcommand)]
pub(crate) enum AnchorCommand {
    /// Add a witness policy, or a time-stamping authority
    Add(add::AddArgs),
    /// List witness policies and time-stamping authorities, with their last stamps
    List,
    /// Remove a policy or an authority; stored answers stay
    Remove(remove::RemoveArgs),
    /// Ask witnesses and authorities to confirm the log, and check their answers
    Check(check::CheckArgs),
}

pub(super) fn run(command: &AnchorCommand, context: &Context, out: &mut Out) -> Outcome {
    match command {
        AnchorCommand::Add(args) => add::run(args, context, out),
        AnchorCommand::List => list::run(context, out),
        AnchorCommand::Remove(args) => remove::run(args, context, out),
        AnchorCommand::Check(args) => check::run(args, context, out),
    }
}

/// All time-stamping authorities of a home.
///
/// # Errors
/// When the folder cannot be read.
pub(crate) fn authorities(home: &Home, context: &Context) -> Result<Kept<Authority>, Failure> {
    Ok(anchor_files::authorities(home, &*context.fs)?)
}
