//! `lineage export STORE -o FILE`: writes the package of the present offer, any number of times;
//! with `--igor`, igor's message.

use super::machine::{MachineArgs, read_delegation, tell};
use crate::context::Context;
use crate::exit::{Exit, Outcome};
use crate::output::Out;
use clap::Args;
use std::path::PathBuf;
use threadseal_core::limits::MAX_RECEIPTS_BYTES;
use threadseal_store::atomic::{NewFile, PRIVATE_FILE};
use threadseal_store::lineage::migrate::PackageExtras;
use threadseal_store::read::{Source as _, read_small};

/// What `lineage export` takes.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(super) machine: MachineArgs,
    /// Where to write the package; must not exist
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: PathBuf,
    /// The root's delegation to the target, to send along
    #[arg(long, value_name = "FILE")]
    for_target: Option<PathBuf>,
    /// The manifest of tools that the checkpoint names
    #[arg(long, value_name = "FILE")]
    pub(super) manifest: Option<PathBuf>,
    /// The file of receipts that the checkpoint names
    #[arg(long, value_name = "FILE")]
    pub(super) receipts: Option<PathBuf>,
    /// Write the original's message instead, with the newest checkpoint, which must be of its versions
    #[arg(long, requires = "code", conflicts_with = "for_target")]
    igor: bool,
    /// The agent's code, for --igor
    #[arg(long, value_name = "FILE", requires = "igor")]
    pub(super) code: Option<PathBuf>,
    /// Who sends it, for --igor
    #[arg(long, value_name = "NODE", requires = "igor", default_value = "")]
    pub(super) source: String,
    /// Send the agent's private key along, for --igor: whoever has the message is the agent for ever
    #[arg(long, requires = "igor")]
    pub(super) with_key: bool,
}

/// Writes the package.
pub(super) fn run(args: &ExportArgs, context: &Context, out: &mut Out) -> Outcome {
    if args.igor {
        return super::igor::export(args, context, out);
    }
    let (machine, agent) = args.machine.open(context)?;
    let read = |path: &PathBuf| read_small(&*context.fs, path, MAX_RECEIPTS_BYTES);
    let delegation = match &args.for_target {
        Some(path) => Some(read_delegation(path, context)?),
        None => None,
    };
    let manifest = args.manifest.as_ref().map(read).transpose()?;
    let receipts = args.receipts.as_ref().map(read).transpose()?;
    let extras = PackageExtras {
        delegation: delegation.as_ref(),
        manifest: manifest.as_deref(),
        receipts: receipts.as_deref(),
    };
    let node = machine.node(context);
    let mut package = node.export(&agent, &extras)?;
    let mut file = NewFile::begin(&*context.fs, &args.output, PRIVATE_FILE)?;
    let mut chunk = Vec::new();
    loop {
        package.next_chunk(&mut chunk)?;
        if chunk.is_empty() {
            break;
        }
        file.write(&chunk)?;
    }
    file.commit_new()?;
    tell("exported", &node, &agent, Some(&args.output), context, out)?;
    Ok(Exit::Done)
}
