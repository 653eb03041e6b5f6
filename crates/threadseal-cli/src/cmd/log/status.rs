//! `log status`: how large the log is, and whether its second place agrees.

use super::existing;
use crate::context::Context;
use crate::exit::{Exit, Outcome};
use crate::output::Out;
use crate::render::clean::Clean;
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
    place: String,
    size: u64,
    root: String,
}

/// Looks; exits 1 when the log was rolled back.
pub(super) fn run(context: &Context, out: &mut Out) -> Outcome {
    let log = existing(context)?;
    let tree = log.view()?.tree();
    let fault = log.fault()?;
    let folders = log.mark_folders().into_iter();
    let folders = folders.map(|folder| folder.display().to_string());
    let marks: Vec<_> = folders.zip(log.marks()?).collect();
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
                .filter_map(|(place, tree)| Some((place, tree.as_ref()?)))
                .map(|(place, tree)| MarkOutput {
                    place: place.clone(),
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
    for (place, mark) in &marks {
        let place = Clean(place);
        match mark {
            Some(mark) => out.line(format_args!("mark   {} entries, in {place}", mark.size)),
            None => out.line(format_args!(
                "mark   none in {place}: nothing there would show that the log went back"
            )),
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
