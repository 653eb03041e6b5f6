//! The options of every command.

use crate::render::style::ColorChoice;
use clap::Args;
use std::path::PathBuf;

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

/// Reads a reason, which is more than blanks.
///
/// # Errors
/// What is wrong with it, for clap.
pub(crate) fn reason(text: &str) -> Result<String, String> {
    match text.trim().is_empty() {
        true => Err("a reason has words".to_owned()),
        false => Ok(text.to_owned()),
    }
}
