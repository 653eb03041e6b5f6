//! `log entries`: prints the entries, each proved to be in the tree of the checkpoint.

use super::existing;
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::render::clean::Clean;
use crate::render::text::counted;
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use threadseal_core::record::RecordId;
use threadseal_core::tlog::entry::LogEntry;

/// What `log entries` takes.
#[derive(Debug, Args)]
pub(crate) struct EntriesArgs {
    /// Number of the first entry [default: the last 20]
    #[arg(long, value_name = "N")]
    from: Option<u64>,
    /// Maximum number of entries
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: u64,
    /// Only entries about this record
    #[arg(long, value_name = "ID", value_parser = record)]
    record: Option<RecordId>,
}

#[derive(Serialize)]
struct EntriesOutput {
    schema: &'static str,
    /// The size of the log.
    size: u64,
    entries: Vec<EntryOutput>,
}

#[derive(Serialize)]
struct EntryOutput {
    index: u64,
    entry: Value,
}

fn record(text: &str) -> Result<RecordId, String> {
    RecordId::parse_hex(text).ok_or_else(|| "a record id has 64 hex digits".to_owned())
}

/// Prints entries in order: number and text.
pub(super) fn run(args: &EntriesArgs, context: &Context, out: &mut Out) -> Outcome {
    let log = existing(context)?;
    let view = log.view()?;
    let size = view.tree().size;
    let numbers: Vec<u64> = match (&args.record, args.from) {
        (Some(record), from) => {
            let from = from.unwrap_or(0);
            let known = log.entries_of(record)?.into_iter();
            let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
            known.filter(|at| *at >= from).take(limit).collect()
        }
        (None, Some(from)) => (from..size.min(from.saturating_add(args.limit))).collect(),
        (None, None) => (size.saturating_sub(args.limit)..size).collect(),
    };
    if let (Some(record), true) = (&args.record, numbers.is_empty()) {
        complain(&format!(
            "note: the log has no such entry of record {record}"
        ));
    }
    let mut listed = Vec::new();
    for at in numbers {
        let entry = view.entry(at)?;
        let text = String::from_utf8(entry)
            .map_err(|_| Failure::new("an entry of the log is not UTF-8 text"))?;
        if context.json {
            let entry = serde_json::from_str(&text);
            let entry = entry.map_err(|_| Failure::new("an entry of the log is not JSON"))?;
            listed.push(EntryOutput { index: at, entry });
            continue;
        }
        match LogEntry::read(text.as_bytes()) {
            Ok(LogEntry::Head(logged)) => out.line(format_args!(
                "{at:>8}  {:<10}  {}",
                logged.kind.as_str(),
                logged.head
            )),
            Ok(LogEntry::Redaction(logged)) => {
                out.line(format_args!(
                    "{at:>8}  {:<10}  {}",
                    "redaction", logged.head
                ));
            }
            Ok(LogEntry::Tombstone(logged)) => {
                out.line(format_args!(
                    "{at:>8}  {:<10}  {}",
                    "tombstone", logged.head
                ));
            }
            Ok(LogEntry::Fork(fork)) => out.line(format_args!(
                "{at:>8}  {:<10}  {fork}; evidence {}",
                "fork", fork.evidence
            )),
            Ok(LogEntry::Places(names)) => out.line(format_args!(
                "{at:>8}  {:<10}  {} besides the default one",
                "places",
                counted(names.len() as u64, "second place", "second places")
            )),
            _ => out.line(format_args!("{at:>8}  {}", Clean(&text))),
        }
    }
    if context.json {
        let schema = "threadseal.log.entries/1";
        let value = EntriesOutput {
            schema,
            size,
            entries: listed,
        };
        out.json(&value);
    }
    Ok(Exit::Done)
}
