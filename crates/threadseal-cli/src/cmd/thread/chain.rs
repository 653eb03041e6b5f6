//! `thread chain`.

use super::{Row, in_registry, word};
use crate::context::Context;
use crate::exit::{Exit, Outcome};
use crate::fleet::DatabaseArgs;
use crate::output::Out;
use crate::project::ProjectArgs;
use crate::render::clean::Clean;
use clap::Args;
use serde::Serialize;
use threadseal_core::record::ThreadId;
use threadseal_runtime::registry::Registry as _;

/// What `thread chain` takes.
#[derive(Debug, Args)]
pub(crate) struct ChainArgs {
    #[command(flatten)]
    project: ProjectArgs,
    #[command(flatten)]
    database: DatabaseArgs,
    /// Any thread of the chain
    thread: String,
}

#[derive(Serialize)]
struct ChainOutput<'a> {
    schema: &'static str,
    chain_length: usize,
    chain: Vec<Row<'a>>,
    fault: Option<String>,
}

/// Exits 1 if the pointers form a circle, lead to a missing thread or contradict each other.
pub(super) fn run(args: &ChainArgs, context: &Context, out: &mut Out) -> Outcome {
    let project = args.project.open(context)?;
    let id = ThreadId::parse(&args.thread)?;
    let chain = match args.database.open(context)? {
        Some(fleet) => fleet.registry().chain(&id)?,
        None => in_registry(context, &project, &id, |view| view.chain(&id))?,
    };
    let fault = chain.fault.as_ref().map(ToString::to_string);
    let exit = match fault {
        None => Exit::Done,
        Some(_) => Exit::Evidence,
    };
    if context.json {
        out.json(&ChainOutput {
            schema: "threadseal.thread.chain/1",
            chain_length: chain.threads.len(),
            chain: chain.threads.iter().map(Row::of).collect(),
            fault,
        });
        return Ok(exit);
    }
    for thread in &chain.threads {
        let (status, id) = (Clean(word(thread)).to_string(), thread.id.as_str());
        out.line(format_args!("{status:<21}  {}", Clean(id)));
    }
    if let Some(fault) = &fault {
        out.line(Clean(fault));
    }
    Ok(exit)
}
