//! The command line: the global options and a command.
//!
//! The arguments of each command are in its own file under [`crate::cmd`].

use crate::cmd::Command;
use crate::context;
use crate::exit::{self, Exit, Failure};
use crate::help;
use crate::missing;
use crate::options::Global;
use crate::output::Out;
use crate::redact_secrets;
use clap::{CommandFactory as _, FromArgMatches as _, Parser};
use std::ffi::OsString;

const LONG_ABOUT: &str = "\
Record the actions of AI agents, so that any later change, cut, reordering, replay, fork or \
rollback can be detected.

Standard output is data, standard error is for people; --json prints one object, also for an error.";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "threadseal",
    version,
    about = "Seal, verify, show and watch the records of AI agents",
    long_about = LONG_ABOUT,
    after_help = exit::HELP,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub(crate) global: Global,
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The definition of the command line.
pub(crate) fn definition() -> clap::Command {
    Cli::command()
}

/// Reads the command line. Help and version print and exit with 0, wrong usage with 2. With
/// `--json`, the error about wrong usage is JSON, too.
///
/// # Errors
/// The exit with which to end at once.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, Exit> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    redact_secrets::learn(&arguments, context::database_setting().as_ref());
    let json = arguments.iter().any(|argument| argument == "--json");
    // Most command lines need no page of help, and to make all pages costs more than to read the line.
    let matches = missing::with_stubs(definition()).try_get_matches_from(&arguments);
    let matches = matches.or_else(|_| help::grouped(definition()).try_get_matches_from(arguments));
    if let Some(failure) = matches.as_ref().ok().and_then(missing::called) {
        failure.print();
        let mut out = Out::stdout();
        if json {
            out.failure(&failure);
        }
        return Err(out.finish(Exit::NoVerdict));
    }
    let parsed = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.map_err(|mut error| {
        help::suggest(&mut error);
        if !error.use_stderr() {
            return error.print().map_or(Exit::NoVerdict, |()| Exit::Done);
        }
        exit::usage(&error);
        let mut out = Out::stdout();
        if json {
            let text = error.to_string();
            // clap lists the missing arguments below the first line, indented; the usage follows an
            // empty line.
            let lines = text.lines().map(str::trim);
            let said: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
            let failure = Failure::new(said.join(" ").trim_start_matches("error: "));
            out.failure(&failure);
        }
        out.finish(Exit::NoVerdict)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        definition().debug_assert();
    }
}
