//! `thread adopt`: adopts a finished thread of Rye, and reports which part of it was verified.
//!
//! Rye does not seal the end of a thread, so that none of its finished records verifies to its last
//! byte. The adopted copy is a thread of ThreadSeal from then on; Rye's files stay as they are. With
//! --database they are copied there, and the adopted thread is made there.

use crate::context::{self, Context};
use crate::engine::{EngineArgs, engine, engine_in, typed};
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::fleet::DatabaseArgs;
use crate::output::Out;
use crate::render::clean::Clean;
use clap::Args;
use serde_json::{Value, json};
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
    database: DatabaseArgs,
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
    let ran = adopt(args, &wanted, context)?;
    let [thread, status] =
        ["thread_id", "status"].map(|name| ran[name].as_str().unwrap_or_default());
    let warnings = ran["warnings"].as_array().map_or(&[][..], Vec::as_slice);
    if context.json {
        out.json(&json!({"schema": "threadseal.thread.adopt/1", "thread_id": thread, "adopted": args.thread,
                         "status": status, "head": ran["head"], "warnings": warnings}));
        return Ok(Exit::Done);
    }
    out.line(format_args!("{status}  {}", Clean(thread)));
    if !context.quiet {
        for warning in warnings.iter().filter_map(Value::as_str) {
            complain(&format!("note: {}", Clean(warning)));
        }
    }
    Ok(Exit::Done)
}

/// The result of the thread that was made.
fn adopt(args: &AdoptArgs, wanted: &Adoption, context: &Context) -> Result<Value, Failure> {
    let local = engine(&args.engine, context)?;
    let Some(fleet) = args.database.open(context)? else {
        return Ok(local.adopt(wanted)?.to_json());
    };
    let base = engine_in(&args.engine, context, Some(&fleet))?;
    let worker = format!("adopt {}", std::process::id());
    Ok(fleet.adopt(&base, &local, wanted, &worker)?)
}
