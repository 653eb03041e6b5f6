//! `anchor …`: witnesses and authorities that saw the log of this home (`spec/anchors.md`).

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
use threadseal_core::tlog::policy::Policy;
use threadseal_core::tlog::verifier::VerifierKey;
use threadseal_log::timestamps::Authority;
use threadseal_store::home::Home;
use threadseal_verify::anchor_files;

pub(crate) use threadseal_verify::anchor_files::Kept;

use threadseal_verify::anchor_files::{AUTHORITY, POLICY, folder, path_of};

/// What to do with witnesses and time stamps of the log.
#[derive(Debug, Subcommand)]
pub(crate) enum AnchorCommand {
    /// Keep a policy (which witnesses are asked, and how many must have cosigned), or a time-stamping authority
    Add(add::AddArgs),
    /// List the policies and their witnesses, the time-stamping authorities and what they stamped last
    List,
    /// Keep a policy or an authority no longer; what was collected stays
    Remove(remove::RemoveArgs),
    /// Ask the witnesses to cosign the log as it is and the authorities to stamp it, and say whether enough did
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

/// Does the policy name this key of a log?
pub(crate) fn names(policy: &Policy, log: &VerifierKey) -> bool {
    policy.logs().iter().any(|known| known.key == *log)
}

/// All policies of a home.
///
/// # Errors
/// When the folder cannot be read.
pub(crate) fn policies(home: &Home, context: &Context) -> Result<Kept<Policy>, Failure> {
    Ok(anchor_files::policies(home, &*context.fs)?)
}

/// All time-stamping authorities of a home.
///
/// # Errors
/// When the folder cannot be read.
pub(crate) fn authorities(home: &Home, context: &Context) -> Result<Kept<Authority>, Failure> {
    Ok(anchor_files::authorities(home, &*context.fs)?)
}
