//! The command line: global options and the list of commands.
//!
//! The arguments of each command are in its own file under [`crate::cmd`].

use crate::cmd::Command;
use crate::context;
use crate::exit::{self, Exit, Failure};
use crate::help;
use crate::missing;
use crate::output::Out;
use crate::render::json::FailureOutput;
use crate::render::style::ColorChoice;
use crate::unsaid;
use clap::{Args, FromArgMatches as _, Parser};
use std::ffi::OsString;
use std::path::PathBuf;

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

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Folder with keys, trusted keys and known heads [default: $THREADSEAL_HOME, else
    /// $XDG_DATA_HOME/threadseal, else ~/.local/share/threadseal]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) home: Option<PathBuf>,
    /// Print one JSON object, also for an error
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to colour the output; auto respects NO_COLOR
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub(crate) color: ColorChoice,
    /// Print only problems
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Show no progress bar
    #[arg(long, global = true)]
    pub(crate) no_progress: bool,
}

/// Reads the command line. Help and version print and exit with 0, wrong usage with 2. With
/// `--json`, the error about wrong usage is JSON, too.
///
/// # Errors
/// The exit with which to end at once.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, Exit> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    unsaid::learn(&arguments, context::database_setting().as_ref());
    let json = arguments.iter().any(|argument| argument == "--json");
    let matches = help::grouped().try_get_matches_from(arguments);
    if let Some(failure) = matches.as_ref().ok().and_then(missing::called) {
        failure.print();
        let mut out = Out::stdout();
        if json {
            out.json(&FailureOutput::new(&failure));
        }
        return Err(out.finish(Exit::NoVerdict));
    }
    let parsed = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.map_err(|error| {
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
            out.json(&FailureOutput::new(&failure));
        }
        out.finish(Exit::NoVerdict)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
