//! The run for readers: a table of its nodes and a history, as Rye draws it.

use super::course::{Happening, Mark};
use super::text::{json, line, scalar};
use super::{Course, Standing};
use serde_json::Value;
use std::fmt::Write as _;

/// The facts of an entry beside the course.
#[derive(Debug, Clone, Copy)]
pub struct EntryCover<'a> {
    /// When the run began, `2026-11-22T20:00:00Z`.
    pub created_at: &'a str,
    /// How long it has run, in seconds.
    pub elapsed: f64,
    /// The graph's nodes, in the order of its file.
    pub nodes: &'a [&'a str],
    /// The first node.
    pub start: &'a str,
}

/// The entry, without signatures.
pub fn entry(course: &Course, cover: &EntryCover<'_>) -> String {
    let mut out = block(course, cover);
    let status = course.standing.as_str();
    let (graph, step, elapsed) = (line(&course.graph), course.step, cover.elapsed);
    let _ = write!(
        out,
        "# {graph}\n\n**Status:** {status} | **Step:** {step} | **Elapsed:** {elapsed:.1}s\n\n\
         | # | Node | Status | Duration | Action | Details |\n|---|------|--------|----------|--------|---------|\n"
    );
    for node in cover.nodes {
        out.push_str(&row(course, node));
    }
    let _ = write!(
        out,
        "\n---\n\n**Started** {} — entry: {}\n\n",
        cover.created_at,
        line(cover.start)
    );
    if let Some(before) = &course.resumed_from {
        let _ = write!(out, "**Resumed** from {}\n\n", line(before));
    }
    for happening in course.history() {
        out.push_str(&told(happening));
    }
    let footer = match course.standing {
        Standing::Running => "🔄 Running",
        Standing::Completed => "✅ Completed",
        Standing::CompletedWithErrors => "⚠️ Completed with errors",
        Standing::Error => "❌ Error",
        Standing::Cancelled => "⏹ Cancelled",
        Standing::Suspended => "⏸ Suspended",
        Standing::LimitReached => "⏹ Limit reached",
    };
    let _ = writeln!(out, "---\n\n**{footer}** — {step} steps, {elapsed:.1}s");
    out
}

fn block(course: &Course, cover: &EntryCover<'_>) -> String {
    let status = course.standing.as_str();
    let mut out = String::from("```yaml\n");
    let mut put = |name: &str, value: &str| {
        let _ = writeln!(out, "{name}: {value}");
    };
    put("id", &scalar(&course.run));
    put(
        "title",
        &json(&Value::String(format!("Graph: {}", course.graph))),
    );
    put("entry_type", "graph_transcript");
    put(
        "category",
        &scalar(&format!("agent/threads/{}", course.graph)),
    );
    put("version", "\"1.0.0\"");
    put("author", "rye");
    put("created_at", cover.created_at);
    put("graph_id", &scalar(&course.graph));
    put("graph_run_id", &scalar(&course.run));
    put("status", status);
    put("step_count", &course.step.to_string());
    put("duration", &format!("{:.1}s", cover.elapsed));
    put("tags", &format!("[graph, {status}]"));
    out.push_str("```\n\n");
    out
}

fn row(course: &Course, node: &str) -> String {
    let name = line(node);
    let Some(row) = course.row(node) else {
        return format!("| — | {name} | ⏳ | — | | |\n");
    };
    let mark = match row.mark {
        Mark::Running => "🔄",
        Mark::Done => "✅",
        Mark::Failed => "❌",
    };
    let elapsed = row
        .elapsed
        .map_or("—".to_owned(), |elapsed| format!("{elapsed:.1}s"));
    let detail = match (&row.run, row.detail.as_str()) {
        (None, detail) => line(detail),
        (Some(run), "") => format!("in {}", line(run)),
        (Some(run), detail) => format!("in {}: {}", line(run), line(detail)),
    };
    let (step, action) = (row.step, line(&row.action));
    format!("| {step} | {name} | {mark} | {elapsed} | {action} | {detail} |\n")
}

fn told(happening: &Happening) -> String {
    let next = |next: &Option<String>| {
        next.as_ref()
            .map(|next| format!(" → {}", line(next)))
            .unwrap_or_default()
    };
    match happening {
        Happening::Step {
            number,
            node,
            kind,
            action,
        } => {
            let what = match (kind.as_str(), action.as_str()) {
                ("foreach", action) => format!(" 🔁 foreach {}", line(action)),
                ("return", _) => " ⏹ return".to_owned(),
                ("gate", _) => " ◇ gate".to_owned(),
                (_, action) => format!(" → {}", line(action)),
            };
            format!("### Step {number} — {}{what}\n\n", line(node))
        }
        Happening::Iterated {
            items,
            failed,
            next: to,
        } => {
            format!("🔁 {items} items, {failed} failed{}\n\n", next(to))
        }
        Happening::Done { elapsed, next: to } => {
            format!("✅ completed ({elapsed:.1}s){}\n\n", next(to))
        }
        Happening::Failed { error, next: to } => format!("❌ {}{}\n\n", line(error), next(to)),
        Happening::Unresolved { item, key } => {
            format!("❓ unresolved: {} ({})\n\n", line(item), line(key))
        }
        Happening::SetAside { run, bytes } => {
            format!(
                "✂ {bytes} bytes after the last seal of {} were set aside\n\n",
                line(run)
            )
        }
        Happening::Settled { item, how } => format!("❓ {}: {}\n\n", line(item), line(how)),
    }
}
