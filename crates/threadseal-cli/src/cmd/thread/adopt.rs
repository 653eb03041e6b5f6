//! `thread adopt`: adopts a finished thread of Rye, and reports which part of it was verified.
//!
//! Rye does not seal the end of a thread, so that none of its finished records verifies to its last
//! byte. The adopted copy is a thread of ThreadSeal from then on; Rye's files stay as they are.

use crate::context::{self, Context};
use crate::engine::{EngineArgs, engine, typed};
use crate::exit::{Exit, Outcome, complain};
use crate::output::Out;
use crate::render::clean::Clean;
use clap::Args;
use serde_json::json;
use threadseal_core::record::ThreadId;
use threadseal_runtime::item::ItemId;
use threadseal_runtime::runner::Adoption;
use threadseal_runtime::toolbox::Cancel;

/// What `thread adopt` takes.
#[derive(Debug, Args)]
pub(crate) struct AdoptArgs {
    /// The thread, by the name of its folder
    #[arg(value_name = "THREAD")]
    thread: String,
    /// The directive of the thread, if no thread.json names it
    #[arg(long, value_name = "DIRECTIVE")]
    directive: Option<String>,
    /// An input of the thread, which Rye does not record: text, or JSON if another type is declared
    #[arg(long = "input", short, value_name = "NAME=VALUE")]
    inputs: Vec<String>,
    #[command(flatten)]
    engine: EngineArgs,
}

pub(super) fn run(args: &AdoptArgs, context: &Context, out: &mut Out) -> Outcome {
    let cancel = Cancel::default();
    context::cancel_on_interrupt(&cancel.flag())?;
    let wanted = Adoption {
        thread: ThreadId::parse(&args.thread)?,
        directive: args.directive.as_deref().map(ItemId::parse).transpose()?,
        inputs: typed(&args.inputs, "--input")?,
        cancel,
    };
    let ran = engine(&args.engine, context)?.adopt(&wanted)?;
    if context.json {
        out.json(&json!({"schema": "threadseal.thread.adopt/1", "thread_id": ran.thread.as_str(),
                         "adopted": args.thread, "status": ran.status.as_str(), "head": ran.head.to_string(),
                         "warnings": ran.warnings}));
        return Ok(Exit::Done);
    }
    out.line(format_args!(
        "{}  {}",
        ran.status.as_str(),
        Clean(ran.thread.as_str())
    ));
    if !context.quiet {
        for warning in &ran.warnings {
            complain(&format!("note: {}", Clean(warning)));
        }
    }
    Ok(Exit::Done)
}
