//! `thread wait`: waits until threads have ended.

use crate::context::{self, Context};
use crate::engine::{records, refuse_evidence};
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::fleet::DatabaseArgs;
use crate::output::Out;
use crate::project::ProjectArgs;
use crate::render::clean::Clean;
use clap::Args;
use serde_json::{Value, json};
use std::time::Duration;
use threadseal_core::record::ThreadId;
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
    /// Maximum time to wait, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600.0)]
    timeout: f64,
}

/// Exits 0 if all completed, 3 if one is suspended or still runs, 1 with evidence against the record of one, else 2.
pub(super) fn run(args: &WaitArgs, context: &Context, out: &mut Out) -> Outcome {
    let cancel = Cancel::default();
    context::cancel_on_interrupt(&cancel.flag())?;
    let threads = args.threads.iter().map(|id| ThreadId::parse(id));
    let threads = threads.collect::<Result<Vec<_>, _>>()?;
    let timeout = Duration::try_from_secs_f64(args.timeout)
        .map_err(|_| Failure::new("--timeout must be a number of seconds"))?;
    let fleet = args.database.open(context)?;
    let records = records(&args.project, context, fleet.as_ref())?;
    if context.progress && !context.json {
        complain(&format!("waiting for {} threads", threads.len()));
    }
    let waited = records.wait(&threads, timeout, &cancel)?;
    for (id, result) in waited["results"].as_object().into_iter().flatten() {
        if result["status"] == "refused" {
            refuse_evidence(&records, &ThreadId::parse(id)?)?;
        }
    }
    if context.json {
        out.json(&named(&waited));
    } else {
        for (id, result) in waited["results"].as_object().into_iter().flatten() {
            tell(id, result, out);
        }
    }
    Ok(exit(&waited))
}

fn named(waited: &Value) -> Value {
    let mut all = json!({"schema": "threadseal.thread.wait/1"});
    if let (Value::Object(all), Value::Object(waited)) = (&mut all, waited) {
        all.extend(waited.clone());
    }
    all
}

fn tell(id: &str, result: &Value, out: &mut Out) {
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

fn exit(waited: &Value) -> Exit {
    let results = waited["results"].as_object().into_iter().flatten();
    let open = |status: &str| matches!(status, "timeout" | "suspended");
    results.fold(Exit::Done, |worst, (_, result)| {
        match result["status"].as_str().unwrap_or_default() {
            "completed" => worst,
            status if open(status) && worst != Exit::NoVerdict => Exit::Unconfirmed,
            _ => Exit::NoVerdict,
        }
    })
}
