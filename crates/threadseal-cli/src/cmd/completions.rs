//! `completions SHELL`

use crate::exit::{Exit, Outcome};
use crate::help;
use crate::output::Out;
use clap::{Args, Command};
use clap_complete::Shell;

/// What `completions` takes.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs, definition: Command, out: &mut Out) -> Outcome {
    let mut script = Vec::new();
    let mut command = help::command(definition);
    clap_complete::generate(args.shell, &mut command, "threadseal", &mut script);
    out.bytes(&script);
    Ok(Exit::Done)
}
