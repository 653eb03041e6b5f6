//! `thread search`: searches the verified records of a chain for words.

use crate::context::{self, Context};
use crate::engine::records;
use crate::exit::{Exit, Outcome, complain};
use crate::fleet::DatabaseArgs;
use crate::output::Out;
use crate::project::ProjectArgs;
use crate::render::clean::Clean;
use clap::Args;
use serde_json::{Value, json};
use threadseal_core::record::ThreadId;
use threadseal_runtime::runner::orchestrator::{Search, SearchType};
use threadseal_runtime::toolbox::Cancel;

/// What `thread search` takes.
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    #[command(flatten)]
    project: ProjectArgs,
    #[command(flatten)]
    database: DatabaseArgs,
    /// Any thread of the chain
    #[arg(value_name = "THREAD")]
    thread: String,
    /// Text to find, in any case
    #[arg(value_name = "QUERY")]
    query: String,
    /// Read QUERY as a regular expression
    #[arg(long)]
    regex: bool,
    /// Maximum number of hits
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

/// Searches. Exits 1 if a record was left out because there is evidence against it, 3 because it is not confirmed.
pub(super) fn run(args: &SearchArgs, context: &Context, out: &mut Out) -> Outcome {
    let cancel = Cancel::default();
    context::cancel_on_interrupt(&cancel.flag())?;
    let id = ThreadId::parse(&args.thread)?;
    let kind = match args.regex {
        true => SearchType::Regex,
        false => SearchType::Text,
    };
    let search = Search::new(&args.query, kind, Some(args.limit))?;
    let fleet = args.database.open(context)?;
    let records = records(&args.project, context, fleet.as_ref())?;
    let found = records.search(&id, &search, &cancel)?;
    let mut exit = match found["success"] == true {
        true => Exit::Done,
        false => Exit::Unconfirmed,
    };
    for left in found["skipped"].as_array().into_iter().flatten() {
        let left = ThreadId::parse(left["thread_id"].as_str().unwrap_or_default())?;
        if let Ok(Some(refused)) = records.evidence(&left) {
            out.because(refused.report());
            exit = Exit::Evidence;
        }
    }
    if context.json {
        let mut all = json!({"schema": "threadseal.thread.search/1"});
        if let (Value::Object(all), Value::Object(found)) = (&mut all, found) {
            all.extend(found);
        }
        out.json(&all);
        return Ok(exit);
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for hit in found["results"].as_array().into_iter().flatten() {
        let (thread, event, snippet) = (
            text(&hit["thread_id"]),
            text(&hit["event_type"]),
            text(&hit["snippet"]),
        );
        out.line(format_args!(
            "{}:{}  {}  {}",
            Clean(&thread),
            hit["line"],
            Clean(&event),
            Clean(&snippet)
        ));
    }
    for left in found["skipped"].as_array().into_iter().flatten() {
        let (thread, reason) = (text(&left["thread_id"]), text(&left["reason"]));
        complain(&format!(
            "{} is left out: {}",
            Clean(&thread),
            Clean(&reason)
        ));
    }
    if found["truncated"] == true {
        complain("there are more hits; hint: --limit");
    }
    Ok(exit)
}
