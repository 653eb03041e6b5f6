//! `lineage receipts FILE`: lists the charges of igor's nodes to agents, and verifies their
//! signatures.

use super::machine::key_named;
use crate::context::Context;
use crate::exit::{self, Exit, Failure, Outcome};
use crate::output::Out;
use crate::render::clean::Clean;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use threadseal_core::key::PublicKey;
use threadseal_core::limits::MAX_RECEIPTS_BYTES;
use threadseal_formats::lineage::{AgentName, Receipt, parse_receipts};
use threadseal_store::read::read_small;

/// What `lineage receipts` takes.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub(crate) struct ReceiptsArgs {
    /// The file of receipts
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The agent that every receipt must name
    #[arg(long, value_name = "NAME", value_parser = AgentName::parse)]
    agent: Option<AgentName>,
    /// A node whose receipts count: PEM file, 64 hex digits, did:key, or a name of the trust store;
    /// repeatable
    #[arg(long, value_name = "KEY")]
    node: Vec<String>,
}

/// The state of a receipt's signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Standing {
    /// A named node signed it.
    Holds,
    /// The node in the receipt signed it, but is not among the named nodes.
    SelfConsistent,
    /// The receipt does not contain the node's key, so its signature cannot be checked.
    UnknownNode,
    /// It is from another node than the named ones, or for another agent.
    Foreign,
    /// The node in the receipt did not sign it.
    Forged,
}

#[derive(Serialize)]
struct ReceiptOutput<'a> {
    agent: &'a str,
    node: &'a str,
    first_tick: u64,
    last_tick: u64,
    cost: i64,
    budget_after: i64,
    time: i64,
    standing: Standing,
}

#[derive(Serialize)]
struct ReceiptsOutput<'a> {
    schema: &'static str,
    receipts: Vec<ReceiptOutput<'a>>,
}

pub(super) fn run(args: &ReceiptsArgs, context: &Context, out: &mut Out) -> Outcome {
    let bytes = read_small(&*context.fs, &args.file, MAX_RECEIPTS_BYTES)?;
    let receipts =
        parse_receipts(&bytes).map_err(|error| Failure::from(error).about(&args.file))?;
    if receipts.is_empty() {
        return Err(Failure::new("the file contains no receipt").about(&args.file));
    }
    let nodes = args.node.iter().map(|node| key_named(node, context));
    let nodes: Vec<PublicKey> = nodes.collect::<Result<_, _>>()?;
    let judged: Vec<ReceiptOutput<'_>> = receipts
        .iter()
        .map(|receipt| told(receipt, standing(receipt, args.agent.as_ref(), &nodes)))
        .collect();
    let exit = exit_of(&judged);
    if context.json {
        out.json(&ReceiptsOutput {
            schema: "threadseal.lineage.receipts/1",
            receipts: judged,
        });
        return Ok(exit);
    }
    for receipt in &judged {
        print(receipt, out);
    }
    Ok(exit)
}

fn standing(receipt: &Receipt, agent: Option<&AgentName>, nodes: &[PublicKey]) -> Standing {
    if agent.is_some_and(|agent| agent.as_str() != receipt.agent) {
        return Standing::Foreign;
    }
    match receipt.node_key() {
        Some(node) if receipt.verify(&node).is_err() => Standing::Forged,
        Some(node) if nodes.contains(&node) => Standing::Holds,
        Some(_) if nodes.is_empty() => Standing::SelfConsistent,
        Some(_) => Standing::Foreign,
        // The receipt names its node only by a digest, so only the named nodes can be checked.
        None if nodes.iter().any(|node| receipt.verify(node).is_ok()) => Standing::Holds,
        None if nodes.is_empty() => Standing::UnknownNode,
        None => Standing::Foreign,
    }
}

fn told(receipt: &Receipt, standing: Standing) -> ReceiptOutput<'_> {
    ReceiptOutput {
        agent: &receipt.agent,
        node: &receipt.node,
        first_tick: receipt.first_tick,
        last_tick: receipt.last_tick,
        cost: receipt.cost,
        budget_after: receipt.budget_after,
        time: receipt.time,
        standing,
    }
}

fn exit_of(receipts: &[ReceiptOutput<'_>]) -> Exit {
    let any = |standings: [Standing; 2]| {
        let mut found = receipts.iter().map(|receipt| receipt.standing);
        found.any(|standing| standings.contains(&standing))
    };
    if any([Standing::Forged, Standing::Foreign]) {
        Exit::Evidence
    } else if any([Standing::SelfConsistent, Standing::UnknownNode]) {
        Exit::Unconfirmed
    } else {
        Exit::Done
    }
}

fn print(receipt: &ReceiptOutput<'_>, out: &mut Out) {
    let what = match receipt.standing {
        Standing::Holds => "holds",
        Standing::SelfConsistent => {
            "signed by the node that it names, but no trusted key confirms that"
        }
        Standing::UnknownNode => "the name of the node is not a key; hint: name one with --node",
        Standing::Foreign => "for another agent or node than requested",
        Standing::Forged => "forged: the node that it names did not sign it",
    };
    out.line(format_args!(
        "{} ticks {} to {}: {} microcents, {} left; {what} ({})",
        Clean(receipt.agent),
        receipt.first_tick,
        receipt.last_tick,
        receipt.cost,
        receipt.budget_after,
        Clean(receipt.node),
    ));
}
