//! `thread watch`: a thread as it runs, one line for each event.
//!
//! ```text
//! 12:03:04    cognition_in      user: Greet Ada.
//! 12:03:06  · cognition_out     Hello Ada.                  · no seal covers this line yet
//! 12:03:07  = sealed            5 lines; by the registry 1 turns, 30 tokens, $0.0012
//! 12:03:07      child/c-1: …                                a child
//! ```
//! Lines under seals verified before they are shown. All text of a record is cleaned and cut.

use super::wait;
use crate::context::{self, Context};
use crate::engine::records;
use crate::exit::{Outcome, complain};
use crate::fleet::DatabaseArgs;
use crate::output::Out;
use crate::project::ProjectArgs;
use crate::render::clean::Clean;
use crate::render::text::counted;
use clap::Args;
use serde_json::{Value, json};
use threadseal_core::record::ThreadId;
use threadseal_core::time::Timestamp;
use threadseal_runtime::registry::Thread;
use threadseal_runtime::runner::orchestrator::{
    Followed, Following, ORPHANED, Seen, WAITING_STOPPED,
};
use threadseal_runtime::toolbox::Cancel;

/// Most characters of an event's text that are shown.
const MAX_SHOWN_CHARS: usize = 160;

/// What `thread watch` takes.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    project: ProjectArgs,
    #[command(flatten)]
    database: DatabaseArgs,
    /// The thread
    thread: String,
    /// Of the events that are there already, show the last N of each thread
    #[arg(long, value_name = "N")]
    tail: Option<u64>,
    /// Leave out the events of children
    #[arg(long)]
    no_children: bool,
}

/// Exits as `thread wait` does, 3 also where the process of the thread is gone. A signal ends the
/// look and no thread.
pub(super) fn run(args: &WatchArgs, context: &Context, out: &mut Out) -> Outcome {
    let cancel = Cancel::default();
    context::cancel_on_interrupt(&cancel.flag())?;
    let id = ThreadId::parse(&args.thread)?;
    let fleet = args.database.open(context)?;
    let records = records(&args.project, context, fleet.as_ref())?;
    let how = Following {
        children: !args.no_children,
        tail: args.tail,
    };
    let waited = records.follow(&id, how, &cancel, &mut |thread, seen| {
        match context.json {
            true => out.json_line(&object(thread, &seen)),
            false => line(thread, &seen, out),
        }
        if !out.flush() {
            cancel.set();
        }
    })?;
    wait::refuse_changed(&records, &waited)?;
    let result = &waited["results"][id.as_str()];
    match context.json {
        true => out.json(&wait::named("threadseal.thread.watch/1", &waited)),
        false => wait::tell(id.as_str(), result, out),
    }
    let shown = Clean(id.as_str());
    let note = match result["status"].as_str() {
        Some(WAITING_STOPPED) => Some(format!("stopped watching; {shown} still runs")),
        Some(ORPHANED) => Some(format!(
            "the process of {shown} is gone; hint: threadseal thread recover {shown}"
        )),
        _ => None,
    };
    if let Some(note) = note.filter(|_| !context.quiet) {
        complain(&note);
    }
    Ok(wait::exit(&waited))
}

/// For programs.
fn object(thread: &Followed, seen: &Seen<'_>) -> Value {
    let mut object = json!({
        "schema": "threadseal.thread.watch.event/1", "thread_id": thread.id.as_str(),
        "depth": thread.depth, "kind": "line", "line": null, "sealed": null, "event": null,
        "head": null, "by_registry": null, "successor": null, "why": null,
    });
    match seen {
        Seen::Line {
            number,
            sealed,
            bytes,
        } => {
            object["line"] = (*number).into();
            object["sealed"] = (*sealed).into();
            object["event"] = serde_json::from_slice(bytes).unwrap_or_default();
        }
        Seen::Sealed { head, lines, row } => {
            object["kind"] = "sealed".into();
            object["line"] = (*lines).into();
            object["head"] = head.to_string().into();
            object["by_registry"] = row.as_deref().map_or(Value::Null, |row| {
                json!({"turns": row.turns, "input_tokens": row.input_tokens,
                       "output_tokens": row.output_tokens, "spend": row.spend.to_real(),
                       "spawns": row.spawns})
            });
        }
        Seen::Withdrawn(lines) => {
            object["kind"] = "withdrawn".into();
            object["line"] = (*lines).into();
        }
        Seen::Continued(by) => {
            object["kind"] = "continued".into();
            object["successor"] = by.as_str().into();
        }
        Seen::Refused(why) => {
            object["kind"] = "refused".into();
            object["why"] = why.to_string().into();
        }
    }
    object
}

/// For people.
fn line(thread: &Followed, seen: &Seen<'_>, out: &mut Out) {
    let mut time = String::new();
    let (mark, what, detail) = match seen {
        Seen::Line { sealed, bytes, .. } => {
            let event = serde_json::from_slice::<Value>(bytes).unwrap_or_default();
            let kind = event["event_type"].as_str().unwrap_or("no event");
            if kind == "checkpoint" {
                return;
            }
            time = time_of(&event).unwrap_or_default();
            let mark = if *sealed { ' ' } else { '·' };
            (mark, kind.to_owned(), detail(kind, &event["payload"]))
        }
        Seen::Sealed { lines, row, .. } => {
            let cost = row.as_deref().map(cost).unwrap_or_default();
            let lines = counted(*lines, "line", "lines");
            ('=', "sealed".to_owned(), format!("{lines}{cost}"))
        }
        Seen::Withdrawn(lines) => {
            let (one, many) = ("line above is", "lines above are");
            let detail = format!("{} gone: no seal covered them", counted(*lines, one, many));
            ('!', "withdrawn".to_owned(), detail)
        }
        Seen::Continued(by) => ('>', "continued".to_owned(), format!("by {by}")),
        Seen::Refused(why) => ('!', "refused".to_owned(), why.to_string()),
    };
    let indent = "  ".repeat(thread.depth.min(20));
    let whose = match thread.depth {
        0 => String::new(),
        _ => format!("{}: ", thread.id),
    };
    out.line(format_args!(
        "{time:<8}  {mark} {indent}{}{:<18}  {}",
        Clean(&whose),
        Clean(&what).to_string(),
        Clean(&cut(&detail))
    ));
}

/// The time of day of an event, in UTC.
fn time_of(event: &Value) -> Option<String> {
    let seconds = event["timestamp"]
        .as_f64()
        .filter(|seconds| *seconds > 0.0)?;
    let micros = format!("{:.0}", seconds * 1e6).parse().ok()?;
    let time = Timestamp::from_micros(micros).ok()?.to_iso_seconds();
    time.get(11..19).map(str::to_owned)
}

fn cost(row: &Thread) -> String {
    let tokens = row.input_tokens.saturating_add(row.output_tokens);
    let (turns, tokens) = (
        counted(row.turns, "turn", "turns"),
        counted(tokens, "token", "tokens"),
    );
    format!("; by the registry {turns}, {tokens}, ${}", row.spend)
}

/// The members of an event that people look for; of any other one all.
fn detail(kind: &str, payload: &Value) -> String {
    let text = |name: &str| words(&payload[name]);
    match kind {
        "thread_started" => format!("{} {}", text("directive"), text("model")),
        "cognition_in" => format!("{}: {}", text("role"), text("text")),
        "cognition_out" | "cognition_reasoning" | "system_prompt" => text("text"),
        "tool_call_start" => format!("{} {}", text("tool"), text("input")),
        "tool_call_result" => match payload["error"].as_str() {
            Some(error) => format!("{} ms, failed: {error}", text("duration_ms")),
            None => format!("{} ms: {}", text("duration_ms"), text("output")),
        },
        "child_thread_started" => text("child_thread_id"),
        "child_thread_ended" => format!("{} {}", text("child_thread_id"), text("status")),
        "step_started" => format!("{} {} {}", text("step"), text("node"), text("action_id")),
        "step_completed" => format!("{} {} {}", text("step"), text("node"), text("status")),
        _ => match payload {
            Value::Object(members) => {
                let shown = members.iter().filter(|(_, value)| !value.is_null());
                let shown = shown.map(|(name, value)| format!("{name}: {}", words(value)));
                shown.collect::<Vec<_>>().join(", ")
            }
            other => words(other),
        },
    }
}

fn words(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The begin of a text, with a mark where more follows.
fn cut(text: &str) -> String {
    let mut chars = text.trim().chars();
    let mut kept: String = chars.by_ref().take(MAX_SHOWN_CHARS).collect();
    if chars.next().is_some() {
        kept.push('…');
    }
    kept
}
