//! `log status`: how large the log is, and whether its second place agrees.

use super::existing;
use crate::context::Context;
use crate::exit::{Exit, Outcome};
use crate::output::Out;
use serde::Serialize;
use threadseal::encoding;

#[derive(Serialize)]
struct StatusOutput {
    schema: &'static str,
    origin: String,
    vkey: String,
    size: u64,
    root: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    marks: Vec<MarkOutput>,
}

#[derive(Serialize)]
struct MarkOutput {
    size: u64,
    root: String,
}

/// Looks; exits 1 when the log was rolled back.
pub(super) fn run(context: &Context, out: &mut Out) -> Outcome {
    let log = existing(context)?;
    let tree = log.view()?.tree();
    let fault = log.fault()?;
    let marks = log.marks()?;
    let (state, exit) = match &fault {
        None => ("good", Exit::Done),
        Some(_) => ("log_rolled_back", Exit::Evidence),
    };
    let description = log.description();
    let root = encoding::base64(tree.root.as_bytes());
    if context.json {
        out.json(&StatusOutput {
            schema: "threadseal.log.status/1",
            origin: description.id.origin(),
            vkey: description.vkey(),
            size: tree.size,
            root,
            state,
            why: fault.as_ref().map(ToString::to_string),
            marks: marks
                .iter()
                .flatten()
                .map(|tree| MarkOutput {
                    size: tree.size,
                    root: encoding::base64(tree.root.as_bytes()),
                })
                .collect(),
        });
        return Ok(exit);
    }
    out.line(format_args!("log    {}", description.id.origin()));
    out.line(format_args!("key    {}", description.vkey()));
    out.line(format_args!("size   {} entries", tree.size));
    out.line(format_args!("root   {root}"));
    for mark in marks {
        match mark {
            Some(mark) => out.line(format_args!("mark   {} entries", mark.size)),
            None => out.line("mark   none: nothing here would show that the log went back"),
        }
    }
    match &fault {
        None => out.line("state  good"),
        Some(fault) => {
            out.line(format_args!(
                "state  log_rolled_back: {fault}; nothing is written down"
            ));
            out.line("       threadseal log catch-up COPY, where a copy has all of it; else: threadseal log restart");
        }
    }
    Ok(exit)
}
