//! `thread transcript`: prints the verified part of a record.

use crate::context::Context;
use crate::engine::records;
use crate::exit::{Exit, Outcome, complain};
use crate::fleet::DatabaseArgs;
use crate::output::Out;
use crate::project::ProjectArgs;
use crate::render::clean::Clean;
use clap::Args;
use serde_json::{Value, json};
use threadseal_core::record::ThreadId;

/// What `thread transcript` takes.
#[derive(Debug, Args)]
pub(crate) struct TranscriptArgs {
    #[command(flatten)]
    project: ProjectArgs,
    #[command(flatten)]
    database: DatabaseArgs,
    /// The thread
    #[arg(value_name = "THREAD")]
    thread: String,
    /// Only the last N lines
    #[arg(long, value_name = "N")]
    tail: Option<usize>,
}

/// Prints it. Exits 3 if the record is not verified to its end, because the thread still runs.
pub(super) fn run(args: &TranscriptArgs, context: &Context, out: &mut Out) -> Outcome {
    let id = ThreadId::parse(&args.thread)?;
    let fleet = args.database.open(context)?;
    let records = records(&args.project, context, fleet.as_ref())?;
    let read = records.transcript(&id, args.tail)?;
    let verdict = read["verdict"].as_str().unwrap_or_default().to_owned();
    let exit = match verdict.as_str() {
        "verified" => Exit::Done,
        _ => Exit::Unconfirmed,
    };
    if context.json {
        let mut all = json!({"schema": "threadseal.thread.transcript/1"});
        if let (Value::Object(all), Value::Object(read)) = (&mut all, read) {
            all.extend(read);
        }
        out.json(&all);
        return Ok(exit);
    }
    for line in read["transcript"].as_str().unwrap_or_default().lines() {
        out.line(Clean(line));
    }
    if exit == Exit::Unconfirmed {
        complain(&format!(
            "{}: only the part that its seals cover is shown ({verdict})",
            Clean(id.as_str())
        ));
    }
    Ok(exit)
}
