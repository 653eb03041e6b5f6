//! `scroll from --table`: prints one line for each source below the paths.
//!
//! ```text
//! {"schema":"threadseal.scroll.table/1","files":[{"path":P,"verdict":V,"account":ACCOUNT},…],
//!  "errors":[{"path":P,"message":M},…],"passed_over":N}
//! ```
//! Each source is verified first. Evidence against one is an error, and exit 1. Files of unknown formats inside folders are passed over and counted; a named file must have a
//! known format.

use super::from::{MappedSource, detected, map, print};
use super::source;
use crate::context::Context;
use crate::exit::{Exit, Outcome, complain};
use crate::output::Out;
use crate::record;
use crate::render::clean::Clean;
use crate::render::text::counted;
use crate::verifying;
use std::path::PathBuf;
use threadseal_convert::{Account, Detection, Tokens};
use threadseal_core::canon::json::Value;
use threadseal_core::limits::MAX_SOURCE_BYTES;
use threadseal_core::report::Verdict;
use threadseal_store::sys::path_text;
use threadseal_verify::inputs;

/// A line of the table.
struct Row {
    path: String,
    format: &'static str,
    verdict: Verdict,
    detection: Option<Detection>,
    account: Account,
}

/// Prints the table, or one JSON object.
pub(super) fn run(vendor: &str, paths: &[PathBuf], context: &Context, out: &mut Out) -> Outcome {
    let found = inputs::find(paths, &record::stores());
    let mut errors: Vec<(String, String)> = found
        .errors
        .iter()
        .map(|error| {
            (
                error.path.clone().unwrap_or_default(),
                error.message.clone(),
            )
        })
        .collect();
    let mut rows = Vec::new();
    let mut passed_over = found.passed_over;
    let verifier = verifying::verifier_of_home(context)?;
    let mut evidence = false;
    for candidate in &found.files {
        let path = &candidate.path;
        let read = source::read_by(&verifier, path, MAX_SOURCE_BYTES).and_then(|source| {
            let mapped = map(vendor, path, &source)?;
            Ok((source, mapped))
        });
        match read {
            Ok((source, found)) => match source.evidence() {
                Some(report) => {
                    evidence = true;
                    errors.push((path_text(path), source::why_not(report)));
                }
                None => rows.push(row(path_text(path), source.verdict(), found)),
            },
            Err(failure) if candidate.named => {
                errors.push((path_text(&candidate.path), failure.to_string()));
            }
            Err(_) => passed_over += 1,
        }
    }
    if context.json {
        print(&to_value(&rows, &errors, passed_over), out);
    } else {
        text(&rows, passed_over, out);
    }
    for (_, message) in &errors {
        complain(message);
    }
    let nothing = rows.is_empty() || !errors.is_empty();
    Ok(match (evidence, nothing) {
        (true, _) => Exit::Evidence,
        (false, true) => Exit::NoVerdict,
        (false, false) => Exit::Done,
    })
}

fn row(path: String, verdict: Verdict, found: MappedSource) -> Row {
    Row {
        path,
        format: found.format.name,
        verdict,
        detection: found.detection,
        account: found.mapped.account,
    }
}

fn text(rows: &[Row], passed_over: u64, out: &mut Out) {
    const HEADING: [&str; 10] = [
        "format", "records", "turns", "calls", "results", "in", "out", "warnings", "verdict",
        "file",
    ];
    out.line(line(&HEADING.map(str::to_owned)));
    let mut total = Account::default();
    for row in rows {
        out.line(line(&cells(
            row.format,
            &row.account,
            row.verdict.as_str(),
            &row.path,
        )));
        total.records += row.account.records;
        total.turns += row.account.turns;
        total.tool_calls += row.account.tool_calls;
        total.tool_results += row.account.tool_results;
        total.tokens.add(row.account.tokens);
    }
    let warnings: u64 = rows.iter().map(|row| warnings(&row.account)).sum();
    let files = counted(rows.len() as u64, "file", "files");
    let mut last = cells("total", &total, "", &files);
    last[7] = warnings.to_string();
    out.line(line(&last));
    if passed_over > 0 {
        let (one, many) = ("file of unknown format was", "files of unknown format were");
        out.line(format!("{} skipped", counted(passed_over, one, many)));
    }
}

fn cells(format: &str, account: &Account, verdict: &str, path: &str) -> [String; 10] {
    let Tokens { input, output, .. } = account.tokens;
    let figures = [
        account.records,
        account.turns,
        account.tool_calls,
        account.tool_results,
        input,
        output,
        warnings(account),
    ];
    let mut cells = std::array::from_fn(|_| String::new());
    cells[0] = format.to_owned();
    for (cell, figure) in cells[1..8].iter_mut().zip(figures) {
        *cell = figure.to_string();
    }
    cells[8] = verdict.to_owned();
    cells[9] = Clean(path).to_string();
    cells
}

/// Lines that no rule maps, unknown members, and values in another form.
fn warnings(account: &Account) -> u64 {
    let unknown = account
        .dropped()
        .filter(|group| group.reason == "unknown member");
    let told = unknown
        .chain(account.altered())
        .map(|group| group.lines.count());
    account.unmapped_lines() + account.ungrouped() + told.sum::<u64>()
}

fn line(cells: &[String; 10]) -> String {
    let [
        format,
        records,
        turns,
        calls,
        results,
        input,
        output,
        warnings,
        verdict,
        file,
    ] = cells;
    format!(
        "{format:<16}{records:>8}{turns:>7}{calls:>7}{results:>8}{input:>11}{output:>9}{warnings:>9}  {verdict:<14}  {file}"
    )
}

fn to_value(rows: &[Row], errors: &[(String, String)], passed_over: u64) -> Value {
    let object = |members: Vec<(&str, Value)>| {
        let named = |(name, value): (&str, Value)| (name.into(), value);
        Value::Object(members.into_iter().map(named).collect())
    };
    let file = |row: &Row| {
        let mut account = row.account.to_value(row.format);
        if let Value::Object(members) = &mut account {
            let detected = row
                .detection
                .map(|found| ("detected".into(), detected(found)));
            members.extend(detected);
        }
        object(vec![
            ("path", row.path.as_str().into()),
            ("verdict", row.verdict.as_str().into()),
            ("account", account),
        ])
    };
    let error = |(path, message): &(String, String)| {
        object(vec![
            ("path", path.as_str().into()),
            ("message", message.as_str().into()),
        ])
    };
    object(vec![
        ("schema", "threadseal.scroll.table/1".into()),
        ("files", Value::Array(rows.iter().map(file).collect())),
        ("errors", Value::Array(errors.iter().map(error).collect())),
        ("passed_over", passed_over.into()),
    ])
}
