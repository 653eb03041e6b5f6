//! `lineage import FILE STORE`: imports a package or an answer into a store, after verifying all of
//! it.
//!
//! A package begins with `TSMOVE1`, igor's message with `{`, an answer to an offer or a root's link
//! as a checkpoint. An imported agent may not act yet: `lineage accept` permits that.

use super::machine::{MachineArgs, key_named, tell};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::output::Out;
use clap::Args;
use std::path::PathBuf;
use threadseal_formats::lineage::{AgentName, Version};
use threadseal_store::atomic::{self, PRIVATE_FILE};
use threadseal_store::lineage::migrate::{Confirmed, Imported, MAX_HANDOVER_BYTES};
use threadseal_store::read::{Source as _, open_regular};

/// What `lineage import` takes.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The package, or the answer
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
    /// Root key of the agent in a package: PEM file, 64 hex digits, did:key, or a name of the trust
    /// store
    #[arg(long, value_name = "KEY")]
    pub(super) root: Option<String>,
    /// New file for the delegation in the package
    #[arg(long, value_name = "FILE")]
    save_delegation: Option<PathBuf>,
    /// New file for the answer, if this machine answered the package before
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// New folder for code, manifest and receipts of igor's message
    #[arg(long, value_name = "DIR")]
    pub(super) save_parts: Option<PathBuf>,
}

pub(super) fn run(args: &ImportArgs, context: &Context, out: &mut Out) -> Outcome {
    let file = open_regular(&*context.fs, &args.file)?;
    let mut first = Vec::new();
    file.range(0, 1).next_chunk(&mut first)?;
    if first.first() == Some(&Version::V5.byte()) {
        let answer = file.read_whole(MAX_HANDOVER_BYTES)?;
        return confirm(args, &answer, context, out);
    }
    if first.first() == Some(&b'{') {
        return super::igor::import(args, &file, context, out);
    }
    let root = args.root.as_ref().ok_or_else(|| {
        Failure::new("name the agent's root key with --root: a package cannot confirm its own key")
    })?;
    let root = key_named(root, context)?;
    let machine = args.machine.open_empty(context)?;
    let node = machine.node(context);
    let (agent, done): (AgentName, &'static str) = match node.import(&mut file.chunks(), &root)? {
        Imported::Offered(package) => {
            if let (Some(path), Some(delegation)) = (&args.save_delegation, &package.delegation) {
                let text = delegation.to_text();
                atomic::create_new(&*context.fs, path, text.as_bytes(), PRIVATE_FILE)?;
            }
            (package.name.clone(), "imported")
        }
        Imported::Waiting(agent) => (agent, "imported before"),
        Imported::Answered { agent, answer, .. } => {
            if let Some(path) = &args.output {
                atomic::create_new(&*context.fs, path, &answer, PRIVATE_FILE)?;
            }
            (agent, "answered before")
        }
    };
    tell(done, &node, &agent, args.output.as_deref(), context, out)?;
    Ok(Exit::Done)
}

fn confirm(args: &ImportArgs, answer: &[u8], context: &Context, out: &mut Out) -> Outcome {
    let machine = args.machine.open_empty(context)?;
    let node = machine.node(context);
    let (agent, done) = match node.confirm(answer)? {
        Confirmed::Taken(agent) => (agent, "answer taken"),
        Confirmed::Known(agent) => (agent, "answer taken before"),
        Confirmed::Forked { agent, here, came } => {
            complain(&format!(
                "{agent} is forked: {here} and {came} answer the same link; hint: threadseal lineage fork-proof"
            ));
            return Ok(Exit::Evidence);
        }
    };
    tell(done, &node, &agent, None, context, out)?;
    Ok(Exit::Done)
}
