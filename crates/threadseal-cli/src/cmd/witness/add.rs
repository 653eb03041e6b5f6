//! `witness add`: begins to watch a log.

use super::files;
use crate::context::Context;
use crate::exit::{Exit, Outcome};
use crate::output::Out;
use crate::render::clean::Clean;
use clap::Args;
use serde::Serialize;
use threadseal_core::tlog::verifier::VerifierKey;

/// What `witness add` takes.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// The verifier key of the log, whose name is the log's origin (see: threadseal log status --json)
    #[arg(value_name = "VKEY")]
    vkey: String,
    /// Address of the log, for people
    #[arg(long)]
    url: Option<String>,
}

#[derive(Serialize)]
struct AddOutput<'a> {
    schema: &'static str,
    origin: &'a str,
    added: bool,
}

/// Stores the log. Earlier cosignatures of it stay.
pub(super) fn run(args: &AddArgs, context: &Context, out: &mut Out) -> Outcome {
    let key = VerifierKey::parse(&args.vkey)?;
    let home = context.existing_home()?;
    let added = files(&home, context).watch(&key, args.url.as_deref())?;
    let origin = key.name().as_str();
    if context.json {
        let value = AddOutput {
            schema: "threadseal.witness.add/1",
            origin,
            added,
        };
        out.json(&value);
    } else if !context.quiet {
        let done = if added { "watched" } else { "known already" };
        out.line(format_args!("{done}: {}", Clean(origin)));
    }
    Ok(Exit::Done)
}
