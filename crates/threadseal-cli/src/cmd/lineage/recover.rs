//! `lineage recover STORE --to KEY --key ROOT`: the root key gives an agent whose machine is lost
//! for good to another key, on the most advanced copy.

use super::machine::{MachineArgs, key_named, tell};
use crate::context::Context;
use crate::exit::{Exit, Outcome};
use crate::output::Out;
use clap::Args;
use std::path::PathBuf;
use threadseal_formats::lineage::ContentHash;
use threadseal_store::atomic::{self, PRIVATE_FILE};

/// What `lineage recover` takes.
#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// Key that gets the agent: PEM file, 64 hex digits, did:key, or a name of the trust store
    #[arg(long, value_name = "KEY")]
    to: String,
    /// Hash of another child of the newest link; it becomes void, with every link after it
    #[arg(long, value_name = "HASH", value_parser = hash)]
    void: Option<ContentHash>,
    /// New file for the link, to import on other machines
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &RecoverArgs, context: &Context, out: &mut Out) -> Outcome {
    let (machine, agent) = args.machine.open(context)?;
    let key = key_named(&args.to, context)?;
    let node = machine.node(context);
    let link = node.recover(&agent, &key, args.void)?;
    if let Some(path) = &args.output {
        atomic::create_new(&*context.fs, path, &link, PRIVATE_FILE)?;
    }
    tell(
        "recovered",
        &node,
        &agent,
        args.output.as_deref(),
        context,
        out,
    )?;
    Ok(Exit::Done)
}

fn hash(text: &str) -> Result<ContentHash, String> {
    let parsed = ContentHash::parse(text);
    parsed.ok_or_else(|| format!("{text:?} is not a content hash: write 64 hex digits, or a CID"))
}
