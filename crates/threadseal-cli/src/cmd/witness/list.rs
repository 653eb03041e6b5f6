//! `witness list`: lists the watched logs.

use super::files;
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use crate::render::clean::Clean;
use crate::render::text::{date, entries};
use serde::Serialize;
use threadseal_core::encoding;
use threadseal_core::tlog::checkpoint::Origin;
use threadseal_log::witness::Remembered;

#[derive(Serialize)]
struct LogOutput {
    origin: String,
    vkey: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    root: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<u64>,
    conflicts: Vec<String>,
}

#[derive(Serialize)]
struct ListOutput {
    schema: &'static str,
    logs: Vec<LogOutput>,
}

/// Prints them; exits 1 if there is evidence against a log.
pub(super) fn run(context: &Context, out: &mut Out) -> Outcome {
    let home = context.existing_home()?;
    let files = files(&home, context);
    let mut logs = Vec::new();
    for log in files.logs()? {
        let origin = log.key.name().as_str();
        let parsed = Origin::parse(origin).map_err(|error| Failure::new(error.to_string()))?;
        let Remembered { last, conflicts } = files.remembered(&parsed)?;
        logs.push(LogOutput {
            origin: origin.to_owned(),
            vkey: log.key.to_string(),
            url: log.url.as_ref().map(ToString::to_string),
            size: last.map(|(tree, _)| tree.size),
            root: last.map(|(tree, _)| encoding::base64(tree.root.as_bytes())),
            time: last.map(|(_, time)| time.seconds()),
            conflicts: conflicts
                .iter()
                .map(|path| path.display().to_string())
                .collect(),
        });
    }
    let convicted = logs.iter().any(|log| !log.conflicts.is_empty());
    let exit = match convicted {
        true => Exit::Evidence,
        false => Exit::Done,
    };
    if context.json {
        let schema = "threadseal.witness.list/1";
        out.json(&ListOutput { schema, logs });
    } else {
        logs.iter().for_each(|log| show(log, out));
    }
    Ok(exit)
}

fn show(log: &LogOutput, out: &mut Out) {
    let origin = Clean(&log.origin);
    match (log.size, log.time) {
        (Some(size), Some(time)) => {
            out.line(format_args!(
                "{origin}  {}, cosigned at {}",
                entries(size),
                date(time)
            ));
        }
        _ => out.line(format_args!("{origin}  not cosigned yet")),
    }
    for path in &log.conflicts {
        out.line(format_args!(
            "  evidence of two signed histories: {}",
            Clean(path)
        ));
    }
}
