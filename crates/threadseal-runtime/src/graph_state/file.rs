//! The state file: the seed's signed Markdown, a block of YAML and the state as JSON.
//!
//! The text begins with a fence, never with `---`. Rye's signature of knowledge excludes any text
//! between two lines `---`, so it covers all of this.

use super::text::{json, scalar};
use super::{Course, Position, Standing};
use serde_json::Value;
use std::fmt::Write as _;
use threadseal_core::error::Error;
use threadseal_core::record::Head;
use threadseal_core::time::Timestamp;

/// The facts of a state file beside the course.
#[derive(Debug, Clone, Copy)]
pub struct StateCover<'a> {
    /// The thread that started the run.
    pub parent: Option<&'a str>,
    /// When the file was written, `2026-11-22T20:00:00Z`.
    pub updated_at: &'a str,
    /// The seal of the record that covers this state.
    pub head: &'a str,
    /// The status; the course's own, or an earlier one of a file that is one step late.
    pub status: &'a str,
}

/// The file, without signatures.
pub fn state_file(course: &Course, cover: &StateCover<'_>) -> String {
    let (graph, run) = (&course.graph, &course.run);
    let mut out = String::from("```yaml\n");
    let mut put = |name: &str, value: &str| {
        let _ = writeln!(out, "{name}: {value}");
    };
    put("id", &scalar(&format!("graphs/{graph}/{run}")));
    put(
        "title",
        &json(&Value::String(format!("State: {graph} ({run})"))),
    );
    put("entry_type", "graph_state");
    put("category", &scalar(&format!("graphs/{graph}")));
    put("version", "\"1.0.0\"");
    put("graph_id", &scalar(graph));
    put("graph_run_id", &scalar(run));
    put(
        "parent_thread_id",
        &cover.parent.map(scalar).unwrap_or_default(),
    );
    put("status", cover.status);
    put("current_node", &scalar(course.at.node()));
    put("step_count", &course.step.to_string());
    put("updated_at", cover.updated_at);
    put("tags", "[graph_state]");
    put(
        "transcript_head",
        &json(&Value::String(cover.head.to_owned())),
    );
    out.push_str("```\n\n");
    // Rye keeps the inputs in the state, first.
    let mut state = serde_json::Map::new();
    state.insert("inputs".to_owned(), Value::Object(course.inputs.clone()));
    state.extend(course.state.clone());
    out.push_str(&json(&Value::Object(state)));
    out.push('\n');
    out
}

/// Does a verified state file agree with a verified record? `text` is the file without signatures;
/// `head` the record's last seal; `read` gives the course up to the end of a step.
///
/// The file may be one step late: it is written after the seal. It is never ahead.
///
/// # Errors
/// Kind `Refused` when the file differs otherwise.
pub fn agrees(
    text: &str,
    parent: Option<&str>,
    head: &Head,
    read: &dyn Fn(Option<u64>) -> Result<Course, Error>,
) -> Result<(), Error> {
    let refuse = |why: &str| {
        Error::refused(format!(
            "the state file {why}; the record decides, and they must agree"
        ))
    };
    let member = |name: &str| {
        let mut lines = text.lines().take_while(|line| !line.is_empty());
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    };
    let whole = read(None)?;
    let step = member("step_count").and_then(|step| step.parse::<u64>().ok());
    let step = step.ok_or_else(|| refuse("names no step"))?;
    // Within a step the file of the step before is still in place. One more step may be missing,
    // since the file follows the seal.
    let behind = whole.step.checked_sub(step);
    let most = match whole.at {
        Position::Within(_) => 2,
        Position::Before(_) | Position::End(_) => 1,
    };
    if behind.is_none_or(|behind| behind > most) {
        let why = format!("is at step {step}, the record at step {}", whole.step);
        return Err(refuse(&why));
    }
    let updated_at =
        member("updated_at").filter(|time| Timestamp::parse_iso_seconds(time).is_some());
    let updated_at = updated_at.ok_or_else(|| refuse("has no time"))?;
    let named = member("transcript_head").map(|text| text.trim_matches('"'));
    let named = named.and_then(Head::parse);
    let named = named.ok_or_else(|| refuse("names no seal"))?;
    if named.record != head.record
        || named.seq > head.seq
        || (named.seq == head.seq && named != *head)
    {
        return Err(refuse("names a seal that the record does not have"));
    }
    let course = if step == whole.step {
        whole
    } else {
        read(Some(step))?
    };
    let status = member("status").unwrap_or_default();
    if status != course.standing.as_str() && status != Standing::Running.as_str() {
        return Err(refuse("names another status"));
    }
    let head = named.to_string();
    let cover = StateCover {
        parent,
        updated_at,
        head: &head,
        status,
    };
    match state_file(&course, &cover) == text {
        true => Ok(()),
        false => Err(refuse("contains another state")),
    }
}
