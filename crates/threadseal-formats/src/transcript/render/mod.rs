//! A transcript as Markdown, for people.
//!
//! ````text
//! ```yaml            name, title, …, thread_id, status, cost, capabilities_ref
//! ```
//! # <directive>
//! ## System Prompt (<layers>)                system_prompt
//! ---                                        before the first turn
//! ## Input — Turn N                          cognition_in, role not "tool"
//! > *<line>*                                 cognition_reasoning
//! ### Response — Turn N                      cognition_out
//! ### Tool: <name>   + fenced JSON           tool_call_start
//! ### Result         + fenced text           tool_call_result
//! ### Error                                  tool_call_result with an error
//! > **Error**: <error>                       thread_error
//! > **Set aside**: <bytes>                   tail_dropped; Adopted: tail_adopted
//! > **Unresolved**: <item> (<key>)           tool_call_unresolved
//! > **Handed over**: to <thread>             thread_handoff; Resumed: thread_resumed
//! ---
//! **Completed** -- 3 turns, 30 tokens, $0.0123, 1.3m
//! ````
//! Layout and wording are those of Rye's knowledge entries (`transcript.py`,
//! `render_knowledge_transcript`), byte for byte while the content is harmless. Otherwise safety
//! comes first. Rye copies content unchanged, so a tool's output can close its fence and write
//! headings of its own. Here a fence is longer than any run of backticks inside. Text outside
//! fences cannot begin a heading, a rule, an HTML construct, a picture, or an unclosed fence
//! (`markdown`). Names and values on one line stay on one line.
//!
//! Checkpoints and streamed deltas are invisible. Every `cognition_in`, also of a tool, begins a
//! turn.

mod literal;
pub mod markdown;
mod output;
mod pretty;
#[cfg(test)]
mod tests;

use super::lines::VerifiedLines;
use super::messages::is_truthy;
use crate::transcript::rye_compat::python::{Formatted, split_lines};
use markdown::{escape, escape_quote, fenced, one_line};
use std::fmt::Write as _;
use threadseal_core::canon::json::{self, Value};
use threadseal_core::canon::python::repr_float;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_core::time::Timestamp;

/// The data in the entry about the thread, besides its events.
#[derive(Debug, Clone)]
pub struct Cover<'a> {
    /// The thread.
    pub thread: &'a ThreadId,
    /// The directive that it ran; empty when unknown.
    pub directive: &'a str,
    /// `completed`, `running`, `error`, …
    pub status: &'a str,
    /// The model; empty when unknown.
    pub model: &'a str,
    /// Its cost.
    pub cost: Cost,
    /// Its capabilities.
    pub permissions: &'a [String],
}

/// The cost of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cost {
    /// Turns.
    pub turns: u64,
    /// Tokens that the model read.
    pub input_tokens: u64,
    /// Tokens that the model wrote.
    pub output_tokens: u64,
    /// US dollars.
    pub spend: f64,
    /// Seconds.
    pub elapsed_seconds: f64,
}

/// Renders a verified transcript.
///
/// # Errors
/// [`threadseal_core::error::ErrorKind::Refused`] when a line is not an event.
pub fn render(lines: &VerifiedLines<'_>, cover: &Cover<'_>) -> Result<String, Error> {
    let mut renderer = Renderer::danger_new();
    for line in lines.iter() {
        renderer.push_line(&line.bytes)?;
    }
    Ok(renderer.finish(cover))
}

/// Renders line by line. The trust in the result depends on the trust in the input.
pub struct Renderer {
    body: String,
    turn: u64,
    lines: u64,
    created_at: Option<Timestamp>,
}

impl Renderer {
    /// For lines that were not verified: a program that shows the result must mark it so.
    pub fn danger_new() -> Self {
        Self {
            body: String::new(),
            turn: 0,
            lines: 0,
            created_at: None,
        }
    }

    /// Takes the next line, without its LF. Blank lines are skipped.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::Refused`] when it is not a JSON object.
    pub fn push_line(&mut self, line: &[u8]) -> Result<(), Error> {
        self.lines += 1;
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let event = json::parse_python(line).ok().map(|document| document.value);
        let event = event
            .filter(|event| event.as_object().is_some())
            .ok_or_else(|| {
                Error::refused(format!(
                    "line {} is not an event; hint: verify the transcript",
                    self.lines
                ))
            })?;
        if self.created_at.is_none() {
            self.created_at = event.get("timestamp").and_then(python_moment);
        }
        let nothing = Value::Object(Vec::new());
        let payload = event.get("payload").unwrap_or(&nothing);
        let event_type = event.get("event_type").and_then(Value::as_str);
        self.push_event(event_type.unwrap_or(""), payload);
        Ok(())
    }

    /// The events alone, without front matter and footer.
    pub fn into_body(self) -> String {
        self.body
    }

    /// The whole entry so far: front matter, events, footer. Unsigned; Rye puts a signature line
    /// before it ([`crate::document`]).
    pub fn finish(&self, cover: &Cover<'_>) -> String {
        let mut out = front_matter(cover, self.created_at);
        let title = match cover.directive {
            "" => cover.thread.as_str(),
            directive => directive,
        };
        let _ = write!(out, "# {}\n\n", one_line(title));
        out.push_str(&self.body);
        let cost = &cover.cost;
        let _ = writeln!(
            out,
            "---\n\n**{}** -- {} turns, {} tokens, ${:.4}, {}",
            one_line(&label(cover.status)),
            cost.turns,
            u128::from(cost.input_tokens) + u128::from(cost.output_tokens),
            cost.spend,
            duration(cost.elapsed_seconds),
        );
        out
    }

    /// Takes the next event by its type and payload.
    pub fn push_event(&mut self, event_type: &str, payload: &Value) {
        let payload = Payload(payload);
        if event_type == "cognition_in" {
            self.turn += 1;
        }
        let turn = self.turn;
        let out = &mut self.body;
        // Writing to a string cannot fail.
        let _ = match event_type {
            "system_prompt" => {
                let (layers, text) = (
                    one_line(&payload.layers()),
                    escape(&payload.text("text", "")),
                );
                write!(out, "## System Prompt ({layers})\n\n{text}\n\n")
            }
            "cognition_in" if payload.text("role", "user") == "tool" => Ok(()),
            "cognition_in" => {
                let rule = if turn == 1 { "---\n\n" } else { "" };
                let text = escape(&payload.text("text", ""));
                write!(out, "{rule}## Input — Turn {turn}\n\n{text}\n\n")
            }
            "cognition_reasoning" => reasoning(out, &payload.text("text", "")),
            "cognition_out" => {
                let text = payload.text("text", "");
                let _ = write!(out, "### Response — Turn {turn}\n\n");
                match text.trim() {
                    "" => Ok(()),
                    _ => write!(out, "{}\n\n", escape(&text)),
                }
            }
            "tool_call_start" => {
                let tool = payload.text("tool", "unknown");
                let input = output::condense_input(&tool, payload.0.get("input"));
                write!(
                    out,
                    "### Tool: {}\n\n{}\n\n",
                    one_line(&tool),
                    fenced("json", &input)
                )
            }
            "tool_call_result" => match payload.0.get("error").filter(|error| is_truthy(error)) {
                Some(error) => write!(out, "### Error\n\n{}\n\n", escape(&shown(error))),
                None => {
                    let text = output::clean(payload.0.get("output"));
                    write!(out, "### Result\n\n{}\n\n", fenced("", &text))
                }
            },
            "thread_error" => {
                let error = escape_quote(&payload.text("error", "unknown"));
                write!(out, "\n> **Error**: {error}\n\n")
            }
            _ => match note(event_type, payload) {
                Some((what, text)) => {
                    write!(out, "\n> **{what}**: {}\n\n", escape_quote(&text))
                }
                None => Ok(()),
            },
        };
    }
}

/// What befell the record itself, of which Rye's entries show nothing.
fn note(event_type: &str, payload: Payload<'_>) -> Option<(&'static str, String)> {
    let text = |name: &str| payload.text(name, "unknown");
    let uncovered =
        |count: &str, what: &str| format!("{} {what} that no seal covered", text(count));
    Some(match event_type {
        "tail_dropped" => ("Set aside", uncovered("length", "bytes")),
        "tail_adopted" => ("Adopted", uncovered("lines", "lines")),
        "tool_call_unresolved" => {
            let call = format!("{} ({})", text("item_id"), text("idempotency_key"));
            ("Unresolved", call)
        }
        "thread_handoff" => ("Handed over", format!("to {}", text("new_thread_id"))),
        "thread_resumed" => ("Resumed", format!("as {}", text("new_thread_id"))),
        _ => return None,
    })
}

/// The payload of an event, values as Python's `f"{…}"` shows them.
#[derive(Clone, Copy)]
struct Payload<'a>(&'a Value);

impl Payload<'_> {
    fn text(self, name: &str, default: &str) -> String {
        self.0.get(name).map_or_else(|| default.to_owned(), shown)
    }

    fn layers(self) -> String {
        let layers = self
            .0
            .get("layers")
            .and_then(Value::as_array)
            .unwrap_or_default();
        if layers.is_empty() {
            return "custom".to_owned();
        }
        let names: Vec<String> = layers.iter().map(shown).collect();
        names.join(", ")
    }
}

/// `str(value)` in Python; lone surrogates become U+FFFD.
fn shown(value: &Value) -> String {
    String::from_utf8_lossy(Formatted::default().value(value).finish().as_bytes()).into_owned()
}

/// Each line of the text quoted and set off; runs of blank lines become one.
fn reasoning(out: &mut String, text: &str) -> std::fmt::Result {
    let text = text.trim();
    if text.is_empty() {
        return Ok(());
    }
    out.push('\n');
    let mut blank_before = false;
    for line in split_lines(text) {
        let blank = line.trim().is_empty();
        match (blank, blank_before) {
            (true, true) => {}
            (true, false) => out.push_str(">\n"),
            (false, _) => writeln!(out, "> *{}*", one_line(line))?,
        }
        blank_before = blank;
    }
    writeln!(out)
}

fn front_matter(cover: &Cover<'_>, created_at: Option<Timestamp>) -> String {
    let thread = cover.thread.as_str();
    let (folder, name) = thread.rsplit_once('/').unwrap_or(("", thread));
    let category = match folder {
        "" => "agent/threads".to_owned(),
        folder => format!("agent/threads/{folder}"),
    };
    let leaf = match cover.directive {
        "" => name,
        directive => directive
            .rsplit_once('/')
            .map_or(directive, |(_, leaf)| leaf),
    };
    let cost = &cover.cost;
    let mut lines = vec![
        format!("name: {}", yaml(name)),
        format!("title: {}", quoted(leaf)),
        "entry_type: thread_transcript".to_owned(),
        format!("category: {}", yaml(&category)),
        "version: \"1.0.0\"".to_owned(),
        "author: rye".to_owned(),
        format!(
            "created_at: {}",
            created_at
                .map(Timestamp::to_iso_seconds)
                .unwrap_or_default()
        ),
        format!("thread_id: {}", yaml(thread)),
        format!("directive: {}", yaml(cover.directive)),
        format!("status: {}", yaml(cover.status)),
        format!("model: {}", yaml(cover.model)),
        format!("duration: {}", duration(cost.elapsed_seconds)),
        format!("elapsed_seconds: {:.2}", cost.elapsed_seconds),
        format!("turns: {}", cost.turns),
        format!("input_tokens: {}", cost.input_tokens),
        format!("output_tokens: {}", cost.output_tokens),
        format!("spend: {}", repr_float(cost.spend)),
        format!("tags: [thread, {}]", yaml(cover.status)),
    ];
    if !cover.permissions.is_empty() {
        let listed: Vec<String> = cover.permissions.iter().map(|text| yaml(text)).collect();
        lines.push(format!("permissions: [{}]", listed.join(", ")));
    }
    lines.push(format!(
        "capabilities_ref: {}",
        yaml(&format!(".ai/agent/threads/{thread}/capabilities.md"))
    ));
    format!("{}\n\n", fenced("yaml", &lines.join("\n")))
}

/// A scalar in Rye's spelling where YAML reads it back as the same text, else in quotes.
fn yaml(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "._/*+@~- ".contains(c);
    let begins = |c: char| c.is_alphanumeric() || c == '.' || c == '/';
    let harmless = text.chars().all(plain) && text.starts_with(begins) && text.trim() == text;
    if text.is_empty() || harmless {
        text.to_owned()
    } else {
        quoted(text)
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn duration(seconds: f64) -> String {
    if seconds >= 60.0 {
        format!("{:.1}m", seconds / 60.0)
    } else {
        format!("{seconds:.1}s")
    }
}

/// `status.title()`.
fn label(status: &str) -> String {
    let mut out = String::new();
    for c in status.chars() {
        if out.ends_with(char::is_alphabetic) {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
    }
    out
}

/// `datetime.fromtimestamp` of a number that Python finds true.
fn python_moment(timestamp: &Value) -> Option<Timestamp> {
    let seconds = timestamp.as_f64().filter(|seconds| *seconds > 0.0)?;
    let whole = format!("{:.0}", (seconds * 1e6).round());
    Timestamp::from_micros(whole.parse().ok()?).ok()
}
