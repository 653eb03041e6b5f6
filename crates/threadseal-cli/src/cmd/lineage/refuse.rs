//! `lineage refuse STORE --why TEXT -o FILE`: declines the agent that is offered to this
//! machine.

use super::machine::{MachineArgs, tell};
use crate::context::Context;
use crate::exit::{Exit, Outcome};
use crate::output::Out;
use clap::Args;
use std::path::PathBuf;
use threadseal_formats::lineage::RefusalReason;
use threadseal_store::atomic::{self, PRIVATE_FILE};

/// What `lineage refuse` takes.
#[derive(Debug, Args)]
pub(crate) struct RefuseArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// Reason, in one line
    #[arg(long, alias = "reason", value_name = "TEXT", value_parser = RefusalReason::parse)]
    why: RefusalReason,
    /// New file for the answer to the source
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Refuses; a repetition gives the same answer.
pub(super) fn run(args: &RefuseArgs, context: &Context, out: &mut Out) -> Outcome {
    let (machine, agent) = args.machine.open(context)?;
    let node = machine.node(context);
    let answer = node.refuse(&agent, &args.why)?;
    atomic::create_new(&*context.fs, &args.output, &answer, PRIVATE_FILE)?;
    tell("refused", &node, &agent, Some(&args.output), context, out)?;
    Ok(Exit::Done)
}
