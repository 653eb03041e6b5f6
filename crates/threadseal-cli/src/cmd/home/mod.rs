//! `home backup|restore`: the whole home in one encrypted file, and back.

mod backup;
mod restore;

use crate::context::Context;
use crate::exit::Outcome;
use crate::output::Out;
use clap::Subcommand;

/// What to do with the home.
#[derive(Debug, Subcommand)]
pub(crate) enum HomeCommand {
    /// Write the whole home into one encrypted file, in the age format
    ///
    /// Other processes may seal meanwhile. Who has the file and its passphrase has all keys.
    Backup(backup::BackupArgs),
    /// Make a home from a backup, where none is
    ///
    /// The restored log takes no entries where a second place knows a later one.
    Restore(restore::RestoreArgs),
}

pub(crate) fn run(command: &HomeCommand, context: &Context, out: &mut Out) -> Outcome {
    match command {
        HomeCommand::Backup(args) => backup::run(args, context, out),
        HomeCommand::Restore(args) => restore::run(args, context, out),
    }
}
