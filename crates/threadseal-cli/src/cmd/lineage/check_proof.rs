//! `lineage check-proof FILE`: checks whether a file alone proves a fork, without any trust.
//! `check-proof` also reports who vouches for its key.

use crate::context::Context;
use crate::evidence;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use crate::verifying;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use threadseal_core::key::{KeyUsage, PublicKey};
use threadseal_core::trust::Trust;
use threadseal_formats::lineage::{ContentHash, Equivocation};
use threadseal_store::read::open_regular;
use threadseal_verify::trust_locality::Locality;

/// What `lineage check-proof` takes.
#[derive(Debug, Args)]
pub(crate) struct CheckProofArgs {
    /// The proof
    #[arg(value_name = "FILE")]
    proof: PathBuf,
    /// Require this key of the agent: PEM file, 64 hex digits, did:key, or a name of the trust
    /// store; repeatable
    #[arg(long, value_name = "KEY")]
    key: Vec<String>,
}

#[derive(Serialize)]
struct ProofOutput<'a> {
    schema: &'static str,
    proves: bool,
    /// The reason, if it proves nothing.
    why: Option<&'a str>,
    agent: Option<String>,
    key: Option<String>,
    did: Option<String>,
    parent: Option<String>,
    links: Vec<String>,
}

/// Reports what the proof shows; exits 1 if it shows nothing, and 3 if it is of another agent than
/// those asked for.
pub(super) fn run(args: &CheckProofArgs, context: &Context, out: &mut Out) -> Outcome {
    let file = open_regular(&*context.fs, &args.proof)?;
    // The proof alone: without trust in any key.
    let shown = evidence::of_lineage(&file, &Trust::default(), context.now()?)?.shown;
    let (shown, exit) = match shown {
        Ok(shown) if is_by_a_key(args, &shown, context)? => (Ok(shown), Exit::Done),
        Ok(_) => {
            let why = "the links belong to another key than --key names";
            (Err(why.to_owned()), Exit::Unconfirmed)
        }
        Err(fault) => (Err(fault.to_string()), Exit::Evidence),
    };
    if context.json {
        out.json(&output(&shown));
    } else {
        print(&shown, context, out);
    }
    Ok(exit)
}

/// Is the proof of an agent with a key that was asked for?
fn is_by_a_key(
    args: &CheckProofArgs,
    shown: &Equivocation,
    context: &Context,
) -> Result<bool, Failure> {
    if args.key.is_empty() {
        return Ok(true);
    }
    let local = Locality::to(&[], false, &context.fs);
    let pinned = verifying::gather(&[], &args.key, &local, context)?.pinned;
    let root = PublicKey::from_bytes(&shown.root).ok();
    Ok(root.is_some_and(|root| {
        // igor's checkpoints, and our own.
        let usages = [KeyUsage::Igor, KeyUsage::Native];
        usages.into_iter().any(|usage| pinned.admit(&root, usage))
    }))
}

fn output(shown: &Result<Equivocation, String>) -> ProofOutput<'_> {
    let found = shown.as_ref().ok();
    let key = found.and_then(|found| PublicKey::from_bytes(&found.root).ok());
    ProofOutput {
        schema: "threadseal.lineage.proof/1",
        proves: found.is_some(),
        why: shown.as_ref().err().map(String::as_str),
        agent: found.map(|found| found.agent.to_hex()),
        key: key.map(|key| key.to_hex()),
        did: key.map(|key| key.to_did_key()),
        parent: found
            .and_then(|found| found.parent)
            .map(|hash| hash.to_hex()),
        links: found
            .map(|found| found.links.iter().map(ContentHash::to_hex).collect())
            .unwrap_or_default(),
    }
}

fn print(shown: &Result<Equivocation, String>, context: &Context, out: &mut Out) {
    let found = match shown {
        Ok(found) => found,
        Err(why) => {
            out.line(format_args!("no proof: {why}"));
            return;
        }
    };
    let row = |label: &str| context.palette.faint(&format!("  {label:<9}"));
    out.line("a fork is proved: one agent signed two links in one place");
    if let Ok(key) = PublicKey::from_bytes(&found.root) {
        out.line(format_args!("{}{}", row("key"), key.to_hex()));
        out.line(format_args!("{}{}", row("did"), key.to_did_key()));
    }
    out.line(format_args!("{}{}", row("agent"), found.agent));
    let parent = match found.parent {
        Some(parent) => parent.to_hex(),
        None => "none: both are first links, or have the same number".to_owned(),
    };
    out.line(format_args!("{}{parent}", row("parent")));
    for link in &found.links {
        out.line(format_args!("{}{link}", row("link")));
    }
}
