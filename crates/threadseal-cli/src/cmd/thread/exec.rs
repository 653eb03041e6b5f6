//! `thread exec`: the orchestrator's operations as the seed writes them; with --database workers begin what it asks for.

use crate::context::{self, Context};
use crate::engine::{EngineArgs, engine_in};
use crate::exit::{Exit, Failure, Outcome};
use crate::fleet::DatabaseArgs;
use crate::output::Out;
use clap::Args;
use serde_json::{Value, json};
use threadseal_core::record::ThreadId;
use threadseal_runtime::runner::orchestrator::{Operation, Records};
use threadseal_runtime::toolbox::Cancel;

/// What `thread exec` takes.
#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    /// The operation: {"operation": "get_status", "thread_id": "…"}; or run, wait_threads,
    /// list_active, cancel_thread, kill_thread, aggregate_results, get_chain, chain_search,
    /// read_transcript, resume_thread, …
    #[arg(value_name = "JSON")]
    operation: String,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Runs the operation and prints its result as JSON. Exits 0 if it succeeded, 1 with evidence against a record of the result,
/// else 2.
pub(super) fn run(args: &ExecArgs, context: &Context, out: &mut Out) -> Outcome {
    let cancel = Cancel::default();
    context::cancel_on_interrupt(&cancel.flag())?;
    let operation: Value = serde_json::from_str(&args.operation)
        .map_err(|error| Failure::new(format!("the operation is not JSON: {error}")))?;
    let operation = Operation::parse(&operation)?;
    let fleet = args.database.open(context)?;
    if fleet.is_some() {
        args.engine.refuse_for_orders()?;
    }
    let engine = engine_in(&args.engine, context, fleet.as_ref())?;
    let (engine, done) = match &fleet {
        Some(fleet) => {
            let worker = format!("exec {}", std::process::id());
            let done = fleet.execute(&engine, &operation, &worker, &cancel)?;
            (fleet.looking(&engine)?, done)
        }
        None => {
            let done = engine.execute(&operation, &cancel)?;
            (engine, done)
        }
    };
    let mut exit = match done["success"] == true {
        true => Exit::Done,
        false => Exit::NoVerdict,
    };
    let records = Records::from(&engine.services);
    for (id, result) in done["results"].as_object().into_iter().flatten() {
        let refused = match result["status"] == "refused" {
            true => records.evidence(&ThreadId::parse(id)?).ok().flatten(),
            false => None,
        };
        if let Some(refused) = refused {
            out.because(refused.report());
            exit = Exit::Evidence;
        }
    }
    let mut all = json!({"schema": "threadseal.thread.exec/1"});
    if let (Value::Object(all), Value::Object(done)) = (&mut all, done) {
        all.extend(done);
    }
    out.json(&all);
    Ok(exit)
}
