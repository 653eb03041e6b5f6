//! `completions SHELL`

use crate::args::Cli;
use crate::exit::{Exit, Outcome};
use crate::output::Out;
use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

/// What `completions` takes.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs, out: &mut Out) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "threadseal", &mut script);
    out.bytes(&script);
    Ok(Exit::Done)
}
