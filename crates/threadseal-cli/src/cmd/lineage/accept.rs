//! `lineage accept STORE -o FILE`: accepts the agent that is offered to this machine, which may act
//! from then on.

use super::machine::{MachineArgs, tell};
use crate::context::Context;
use crate::exit::{Exit, Outcome};
use crate::output::Out;
use clap::Args;
use std::path::PathBuf;
use threadseal_store::atomic::{self, PRIVATE_FILE};

/// What `lineage accept` takes.
#[derive(Debug, Args)]
pub(crate) struct AcceptArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// Where to write the answer for the source; must not exist
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Accepts; a repetition gives the same answer.
pub(super) fn run(args: &AcceptArgs, context: &Context, out: &mut Out) -> Outcome {
    let (machine, agent) = args.machine.open(context)?;
    let node = machine.node(context);
    let answer = node.accept(&agent)?;
    atomic::create_new(&*context.fs, &args.output, &answer, PRIVATE_FILE)?;
    tell("accepted", &node, &agent, Some(&args.output), context, out)?;
    Ok(Exit::Done)
}
