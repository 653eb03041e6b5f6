//! `thread wait`: waits until threads have ended.

use crate::context::{self, Context};
use crate::engine::{ItemArgs, coordination, records, refuse_evidence};
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::fleet::DatabaseArgs;
use crate::output::Out;
use crate::project::ProjectArgs;
use crate::render::clean::Clean;
use crate::render::text::counted;
use clap::Args;
use serde_json::{Value, json};
use std::time::Duration;
use threadseal_core::record::ThreadId;
use threadseal_runtime::runner::orchestrator::{ORPHANED, Records, WAITING_STOPPED};
use threadseal_runtime::toolbox::Cancel;

/// What `thread wait` takes.
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    #[command(flatten)]
    project: ProjectArgs,
    #[command(flatten)]
    database: DatabaseArgs,
    /// The threads
    #[arg(value_name = "THREAD", required = true)]
    threads: Vec<String>,
    /// Maximum time to wait, in seconds; at most wait_threads.max_timeout of agent/coordination
    /// [default: its wait_threads.default_timeout, or 600]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,
    #[command(flatten)]
    items: ItemArgs,
}

/// Exits 0 if all completed, 3 if one is suspended or still runs, 1 with evidence against the record of one, else 2. A signal
/// ends the wait and no thread.
pub(super) fn run(args: &WaitArgs, context: &Context, out: &mut Out) -> Outcome {
    let cancel = Cancel::default();
    context::cancel_on_interrupt(&cancel.flag())?;
    let threads = args.threads.iter().map(|id| ThreadId::parse(id));
    let threads = threads.collect::<Result<Vec<_>, _>>()?;
    let timeout = timeout(args, context)?;
    let fleet = args.database.open(context)?;
    let records = records(&args.project, context, fleet.as_ref())?;
    if context.progress && !context.json {
        let count = counted(threads.len() as u64, "thread", "threads");
        complain(&format!("waiting for {count}"));
    }
    let waited = records.wait(&threads, timeout, &cancel)?;
    refuse_changed(&records, &waited)?;
    if context.json {
        out.json(&named("threadseal.thread.wait/1", &waited));
    } else {
        for (id, result) in waited["results"].as_object().into_iter().flatten() {
            tell(id, result, out);
        }
    }
    tell_stopped(&waited, context);
    Ok(exit(&waited))
}

/// Refuses results against which there is evidence.
pub(super) fn refuse_changed(records: &Records, waited: &Value) -> Result<(), Failure> {
    for (id, result) in waited["results"].as_object().into_iter().flatten() {
        if result["status"] == "refused" {
            refuse_evidence(records, &ThreadId::parse(id)?)?;
        }
    }
    Ok(())
}

/// The time to wait, by the option and the settings of the project.
fn timeout(args: &WaitArgs, context: &Context) -> Result<Duration, Failure> {
    let asked = args.timeout.map(|seconds| {
        Duration::try_from_secs_f64(seconds)
            .map_err(|_| Failure::new("--timeout must be a number of seconds"))
    });
    let asked = asked.transpose()?;
    let settings = coordination(&args.project, &args.items, context)?;
    let timeout = settings.wait(asked);
    if asked.is_some_and(|asked| asked > timeout) && !context.quiet {
        let most = timeout.as_secs_f64();
        complain(&format!(
            "note: waits at most {most} s; hint: wait_threads.max_timeout in .ai/config/agent/coordination.yaml"
        ));
    }
    Ok(timeout)
}

/// Names the threads that still run after a signal ended the wait.
fn tell_stopped(waited: &Value, context: &Context) {
    let results = waited["results"].as_object().into_iter().flatten();
    let open = results.filter(|(_, result)| result["status"] == WAITING_STOPPED);
    let open: Vec<String> = open.map(|(id, _)| Clean(id).to_string()).collect();
    if let (Some(first), false) = (open.first(), context.quiet) {
        let count = match open.len() {
            1 => "1 thread still runs".to_owned(),
            count => format!("{count} threads still run"),
        };
        complain(&format!(
            "stopped waiting; {count}; hint: threadseal thread cancel {first}"
        ));
    }
}

/// These results under the name of a schema.
pub(super) fn named(schema: &str, waited: &Value) -> Value {
    let mut all = json!({ "schema": schema });
    if let (Value::Object(all), Value::Object(waited)) = (&mut all, waited) {
        all.extend(waited.clone());
    }
    all
}

/// Prints the result of a thread.
pub(super) fn tell(id: &str, result: &Value, out: &mut Out) {
    let text = |name: &str| result[name].as_str().unwrap_or_default().to_owned();
    out.line(format_args!("{}  {}", Clean(&text("status")), Clean(id)));
    for name in ["result", "error"] {
        if !text(name).is_empty() {
            out.line(format_args!("  {}", Clean(&text(name))));
        }
    }
    for (name, value) in result["outputs"].as_object().into_iter().flatten() {
        let shown = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        out.line(format_args!("  {}: {}", Clean(name), Clean(&shown)));
    }
}

/// The exit for these results.
pub(super) fn exit(waited: &Value) -> Exit {
    let results = waited["results"].as_object().into_iter().flatten();
    let open = |status: &str| {
        matches!(
            status,
            "timeout" | WAITING_STOPPED | ORPHANED | "suspended" | "limit_reached"
        )
    };
    results.fold(Exit::Done, |worst, (_, result)| {
        match result["status"].as_str().unwrap_or_default() {
            "completed" | "completed_with_errors" => worst,
            status if open(status) && worst != Exit::NoVerdict => Exit::Unconfirmed,
            _ => Exit::NoVerdict,
        }
    })
}
