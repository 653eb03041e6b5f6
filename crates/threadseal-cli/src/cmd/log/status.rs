//! `log status`: prints the size of the log, and whether its second places agree.

use super::existing;
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::render::clean::Clean;
use crate::render::text::entries;
use crate::seal_log;
use serde::Serialize;
use threadseal_core::encoding;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::merkle::TreeHead;
use threadseal_log::{Fault, MarkReport, Standing};

const SCHEMA: &str = "threadseal.log.status/1";

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
    #[serde(skip_serializing_if = "Option::is_none")]
    set_aside: Option<SetAsideOutput>,
}

/// Lines of the spool without proof that this home wrote them.
#[derive(Serialize)]
struct SetAsideOutput {
    lines: usize,
    folder: String,
}

/// A second place. Without `size` it does not know the log or, with a reason, cannot be read.
#[derive(Serialize)]
struct MarkOutput {
    place: String,
    strength: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    root: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

impl MarkOutput {
    fn of(state: &MarkReport) -> Self {
        let tree = state.tree.as_ref().ok().and_then(Option::as_ref);
        Self {
            place: state.place.to_string(),
            strength: state.place.strength(),
            size: tree.map(|tree| tree.size),
            root: tree.map(|tree| encoding::base64(tree.root.as_bytes())),
            why: state.tree.as_ref().err().map(ToString::to_string),
        }
    }
}

/// The state of the log, as a word and as a sentence.
fn state(
    fault: &Result<Option<Fault>, Error>,
    is_forgotten: bool,
) -> (&'static str, Option<String>, Exit) {
    match fault {
        Ok(None) if is_forgotten => (
            "mark_missing",
            Some(
                "no second place knows the log, so a rollback of the log would not be detected"
                    .to_owned(),
            ),
            Exit::Unconfirmed,
        ),
        Ok(None) => ("good", None, Exit::Done),
        Ok(Some(fault)) => (
            fault.code(),
            Some(format!("{fault}; nothing is committed")),
            match fault {
                Fault::PlaceForgotten(_) => Exit::Unconfirmed,
                _ => Exit::Evidence,
            },
        ),
        Err(error) => (
            "mark_unreadable",
            Some(format!("{error}; nothing is committed")),
            Exit::Unconfirmed,
        ),
    }
}

/// The next step for a state.
fn next(state: &str) -> Option<&'static str> {
    match state {
        "log_rolled_back" => Some(
            "threadseal log catch-up COPY, if a copy has all entries; otherwise: threadseal log restart",
        ),
        "place_forgotten" => Some(
            "threadseal log mark add PLACE, unless you removed it: then threadseal log mark remove PLACE, or --forgotten for all",
        ),
        "mark_missing" => {
            Some("threadseal log mark raise, unless the log may have been rolled back")
        }
        _ => None,
    }
}

/// A log that is gone, or a home with no file that names its log.
#[derive(Serialize)]
struct MissingOutput {
    schema: &'static str,
    state: &'static str,
    why: String,
}

/// Why the log that this home had cannot be opened, if it is gone.
fn missing(context: &Context) -> Result<Option<String>, Failure> {
    let home = context.existing_home()?;
    match seal_log::places(&home, context)?.current() {
        Err(error) if error.kind() == ErrorKind::Refused => Ok(Some(error.to_string())),
        _ => Ok(None),
    }
}

/// Exits 1 if the log was rolled back. Exits 3 if a second place cannot be asked or is forgotten and no
/// other one shows a rollback, or if none knows the log.
pub(super) fn run(context: &Context, out: &mut Out) -> Outcome {
    if context.json
        && let Some(why) = missing(context)?
    {
        complain(&why);
        let value = MissingOutput {
            schema: SCHEMA,
            state: "log_missing",
            why,
        };
        out.json(&value);
        return Ok(Exit::NoVerdict);
    }
    let log = existing(context)?;
    let tree = log.view()?.tree();
    let marks = log.mark_states();
    let is_forgotten = log.standing() == Standing::MarkGone;
    let (state, why, exit) = state(&log.fault(), is_forgotten);
    let description = log.description();
    let root = encoding::base64(tree.root.as_bytes());
    let aside = log.set_aside()?;
    let aside = (aside.lines > 0).then(|| SetAsideOutput {
        lines: aside.lines,
        folder: aside.folder.display().to_string(),
    });
    if context.json {
        let value = StatusOutput {
            schema: SCHEMA,
            origin: description.id.origin(),
            vkey: description.vkey(),
            size: tree.size,
            root,
            state,
            why,
            marks: marks.iter().map(MarkOutput::of).collect(),
            set_aside: aside,
        };
        out.json(&value);
        return Ok(exit);
    }
    out.line(format_args!("log    {}", description.id.origin()));
    out.line(format_args!("key    {}", description.vkey()));
    out.line(format_args!("size   {}", entries(tree.size)));
    out.line(format_args!("root   {root}"));
    for mark in &marks {
        out.line(line(mark, tree));
        out.line(format_args!("       {}", mark.place.strength()));
    }
    if let Some(aside) = &aside {
        out.line(format_args!(
            "aside  {} in {}",
            seal_log::set_aside_text(aside.lines),
            Clean(&aside.folder)
        ));
        out.line("       no evidence shows that this home wrote them; inspect them, and delete those that you do not need");
    }
    match why {
        None => out.line("state  good"),
        Some(why) => out.line(format_args!("state  {state}: {}", Clean(&why))),
    }
    if let Some(next) = next(state) {
        out.line(format_args!("       {next}"));
    }
    Ok(exit)
}

fn line(mark: &MarkReport, tree: TreeHead) -> String {
    let place = mark.place.to_string();
    let place = Clean(&place);
    match &mark.tree {
        Ok(Some(mark)) if mark.size < tree.size => format!(
            "mark   {}, {} behind the log, in {place}",
            entries(mark.size),
            tree.size - mark.size
        ),
        Ok(Some(mark)) => format!("mark   {}, in {place}", entries(mark.size)),
        Ok(None) => {
            format!("mark   none in {place}: this place cannot show a rollback of the log")
        }
        Err(error) => format!("mark   cannot be read: {}", Clean(&error.to_string())),
    }
}
