//! `lineage release STORE --to KEY`: durably offers an agent to another machine. This machine does
//! not act from then on.

use super::machine::{MachineArgs, tell};
use crate::context::Context;
use crate::exit::{Exit, Outcome};
use crate::output::Out;
use clap::Args;

/// What `lineage release` takes.
#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// The target's key: PEM file, 64 hex digits, did:key, or a name of the trust store
    #[arg(long, value_name = "KEY")]
    to: String,
}

/// Releases it; a repetition gives the same offer.
pub(super) fn run(args: &ReleaseArgs, context: &Context, out: &mut Out) -> Outcome {
    let (machine, agent) = args.machine.open(context)?;
    let target = super::machine::key_named(&args.to, context)?;
    let node = machine.node(context);
    node.release(&agent, &target)?;
    tell("released", &node, &agent, None, context, out)?;
    Ok(Exit::Done)
}
