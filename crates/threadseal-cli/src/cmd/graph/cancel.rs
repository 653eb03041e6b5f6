//! `graph cancel`: writes a signed request for the process of the run.

use crate::context::Context;
use crate::engine::{HoldArgs, holding};
use crate::exit::{Exit, Outcome};
use crate::fleet::DatabaseArgs;
use crate::output::Out;
use crate::render::clean::Clean;
use clap::Args;
use serde_json::json;
use threadseal_core::record::ThreadId;

/// What `graph cancel` takes.
#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// The run
    #[arg(value_name = "RUN")]
    run: String,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    hold: HoldArgs,
}

pub(super) fn run(args: &CancelArgs, context: &Context, out: &mut Out) -> Outcome {
    let id = ThreadId::parse(&args.run)?;
    let fleet = args.database.open(context)?;
    let engine = holding(&args.hold, context, fleet.as_ref())?;
    match &fleet {
        Some(fleet) => fleet.cancel(&engine, &id).map(drop)?,
        None => engine.request_cancel(&id)?,
    }
    if context.json {
        out.json(&json!({"schema": "threadseal.graph.cancel/1", "graph_run_id": id.as_str()}));
    } else if !context.quiet {
        out.line(format_args!("asked  {}", Clean(id.as_str())));
    }
    Ok(Exit::Done)
}
