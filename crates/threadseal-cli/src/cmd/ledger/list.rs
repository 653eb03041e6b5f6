//! `ledger list`: lists the runs of a place, or the records of one.

use super::place;
use crate::context::Context;
use crate::exit::{Exit, Outcome};
use crate::output::Out;
use crate::render::clean::Clean;
use crate::render::text::counted;
use clap::Args;
use serde::Serialize;
use threadseal_core::canon::json::{self, Value};
use threadseal_formats::ledger::RunId;

/// What `ledger list` takes.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// A file of records, a bundle, an SQLite file, a folder, or file:DIR, sqlite:FILE, postgres://… or s3://…
    #[arg(value_name = "LEDGER")]
    ledger: String,
    /// List the records of this run
    #[arg(long, value_name = "ID", value_parser = RunId::parse)]
    run: Option<RunId>,
}

#[derive(Serialize)]
struct RunLine<'a> {
    schema: &'static str,
    run: &'a str,
    records: u64,
    last_hash: Option<String>,
}

/// The members of a record that a line shows.
#[derive(Serialize)]
struct RecordLine {
    schema: &'static str,
    seq: u64,
    time: String,
    status: String,
    node: String,
    effect: String,
    actor: String,
    signed: bool,
}

/// Lists without verification.
pub(super) fn run(args: &ListArgs, context: &Context, out: &mut Out) -> Outcome {
    let place = place::readable(&args.ledger, context)?;
    if let Some(run) = &args.run {
        let mut seq = 0;
        place.each(run, &mut |line| {
            record(seq, line, context, out);
            seq += 1;
            Ok(())
        })?;
        return Ok(Exit::Done);
    }
    for run in place.runs()? {
        let (mut records, mut last) = (0, Vec::new());
        place.each(&run, &mut |line| {
            records += 1;
            last.clear();
            last.extend_from_slice(line);
            Ok(())
        })?;
        let last = json::parse_python(&last).ok().map(|record| record.value);
        let hash = last.as_ref().and_then(|record| record.get("record_hash"));
        let hash = hash.and_then(Value::as_str).map(str::to_owned);
        if context.json {
            out.json_line(&RunLine {
                schema: "threadseal.ledger.run/1",
                run: run.as_str(),
                records,
                last_hash: hash,
            });
        } else {
            let hash = hash.as_deref().unwrap_or("-");
            out.line(format!(
                "{}  {}  {}",
                Clean(run.as_str()),
                counted(records, "record", "records"),
                Clean(hash)
            ));
        }
    }
    Ok(Exit::Done)
}

/// Prints one record on one line.
pub(super) fn record(seq: u64, line: &[u8], context: &Context, out: &mut Out) {
    let shown = read(seq, line);
    if context.json {
        out.json_line(&shown);
        return;
    }
    let signed = if shown.signed { "  signed" } else { "" };
    let parts = [
        &shown.time,
        &shown.status,
        &shown.node,
        &shown.effect,
        &shown.actor,
    ];
    let text: Vec<String> = parts
        .iter()
        .filter(|part| !part.is_empty())
        .map(|part| Clean(part.as_str()).to_string())
        .collect();
    out.line(format!("{seq:>6}  {}{signed}", text.join("  ")));
}

fn read(seq: u64, line: &[u8]) -> RecordLine {
    let record = json::parse_python(line).map_or(Value::Null, |read| read.value);
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let ended = text(record.get("ended_at"));
    RecordLine {
        schema: "threadseal.ledger.record/1",
        seq,
        time: if ended.is_empty() {
            text(record.get("started_at"))
        } else {
            ended
        },
        status: text(record.get("status")),
        node: text(record.get("node_id")),
        effect: text(record.get("effect").and_then(|effect| effect.get("type"))),
        actor: text(record.get("actor_id")),
        signed: record
            .get("signature")
            .is_some_and(|signature| !signature.is_null()),
    }
}
