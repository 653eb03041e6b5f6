//! Transcripts as Markdown.
//!
//! The headings are those of Rye's knowledge entries (`## Input — Turn N`, `### Response`,
//! `### Tool: …`, `### Result`, `### Error`). Other than Rye's, no text of a record can become a
//! heading, close a fence, load a picture or pass for HTML: what was said stands in quotes with
//! `<` and `![` escaped, data stands behind a fence longer than any in it.

use super::clean::{Clean, is_unsafe};
use crate::believed::{Believed, BelievedEvent};
use std::fmt::Write as _;
use threadseal::canon::json::Value;
use threadseal::canon::python::rye_line;
use threadseal::report::Report;

/// The whole document.
pub(crate) fn transcript(believed: &Believed) -> String {
    let thread = believed.events.first().map(|event| event.thread.as_str());
    let mut out = format!("# {}\n\n", inline(thread.unwrap_or_default()));
    let _ = writeln!(out, "{}", standing(&believed.report));
    let mut turn = 0;
    for event in &believed.events {
        if event.event_type == "cognition_in" {
            turn += 1;
        }
        section(&mut out, event, turn);
    }
    out
}

/// What the reader may rely on, in the document itself.
fn standing(report: &Report) -> String {
    let signers = report.signers.iter();
    let signers: Vec<String> = signers
        .map(|signer| match &signer.name {
            Some(name) => inline(name),
            None => format!("key {}", inline(&signer.key)),
        })
        .collect();
    let until = report.trusted_until.map_or(0, |until| until.byte);
    format!(
        "*{}: the bytes 0-{until} that are shown here are signed by {}.*",
        report.verdict,
        signers.join(", ")
    )
}

fn section(out: &mut String, event: &BelievedEvent, turn: u64) {
    let payload = &event.payload;
    let text = |name: &str| {
        payload
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    match event.event_type.as_str() {
        "system_prompt" => part(out, "## System prompt", &quote(text("text"))),
        "cognition_in" if text("role") == "tool" => {}
        "cognition_in" => part(
            out,
            &format!("## Input — Turn {turn}"),
            &quote(text("text")),
        ),
        "cognition_out" => {
            part(
                out,
                &format!("### Response — Turn {turn}"),
                &quote(text("text")),
            );
        }
        "cognition_reasoning" => part(out, "### Reasoning", &quote(text("text"))),
        "tool_call_start" => {
            let heading = format!("### Tool: {}", inline(text("tool")));
            let input = payload.get("input").map(data).unwrap_or_default();
            part(out, &heading, &fence("json", &input));
        }
        "tool_call_result" => match payload.get("error").and_then(Value::as_str) {
            Some(error) if !error.is_empty() => part(out, "### Error", &quote(error)),
            _ => {
                let output = payload.get("output").map(data).unwrap_or_default();
                part(out, "### Result", &fence("", &output));
            }
        },
        "thread_error" => part(out, "### Thread error", &quote(text("error"))),
        ended if ended.starts_with("thread_") && ended != "thread_started" => {
            part(out, &format!("*{}*", inline(ended)), "");
        }
        _ => {}
    }
}

fn part(out: &mut String, heading: &str, body: &str) {
    let _ = write!(out, "\n{heading}\n");
    if !body.is_empty() {
        let _ = write!(out, "\n{body}\n");
    }
}

/// A text as it is, other data as one line of JSON.
fn data(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => String::from_utf8_lossy(&rye_line(value)).into_owned(),
    }
}

fn quote(text: &str) -> String {
    let mut out = String::new();
    for line in text.split('\n') {
        if !out.is_empty() {
            out.push('\n');
        }
        let line = line
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace("![", "!\\[");
        let _ = write!(out, "> {}", Clean(&line));
    }
    out
}

/// One line in which no character means anything to Markdown.
fn inline(text: &str) -> String {
    let mut out = String::new();
    for c in Clean(text).to_string().chars() {
        if c.is_ascii_punctuation() && !"-./:@_".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn fence(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(3.max(longest + 1));
    let safe: String = text
        .chars()
        .map(|c| {
            if is_unsafe(c) && c != '\n' && c != '\t' {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect();
    format!("{fence}{language}\n{safe}\n{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal::canon::json::parse;

    fn event(event_type: &str, payload: &str) -> BelievedEvent {
        BelievedEvent {
            event_type: event_type.to_owned(),
            thread: "demo/1".to_owned(),
            payload: parse(payload.as_bytes()).unwrap(),
        }
    }

    fn rendered(events: Vec<BelievedEvent>) -> String {
        let report = Report::begin("transcript", "native");
        transcript(&Believed { report, events })
    }

    #[test]
    fn a_turn_reads_like_a_conversation() {
        let text = rendered(vec![
            event("cognition_in", r#"{"text":"ask","role":"user"}"#),
            event("cognition_out", r#"{"text":"one\ntwo"}"#),
            event("tool_call_start", r#"{"tool":"sh","input":{"c":1}}"#),
            event("tool_call_result", r#"{"output":"done","error":""}"#),
            event("tool_call_result", r#"{"output":"","error":"denied"}"#),
            event("thread_completed", "{}"),
        ]);
        let expected = "\n## Input — Turn 1\n\n> ask\n\n### Response — Turn 1\n\n> one\n> two\n\n\
            ### Tool: sh\n\n```json\n{\"c\": 1}\n```\n\n### Result\n\n```\ndone\n```\n\n\
            ### Error\n\n> denied\n\n*thread_completed*\n";
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn no_text_of_a_record_becomes_a_heading_a_fence_or_html() {
        let text = rendered(vec![
            event(
                "cognition_in",
                r####"{"text":"a\n## Input\n<script>![x](y)"}"####,
            ),
            event("tool_call_result", r#"{"output":"```\n# out\n````"}"#),
            event("tool_call_start", r#"{"tool":"x\n# y`"}"#),
        ]);
        let fenced = text.split("`````").nth(1).unwrap();
        assert!(fenced.contains("# out"), "{text}");
        let open = text.replace(fenced, "");
        let headings: Vec<&str> = open.lines().filter(|l| l.starts_with('#')).collect();
        let expected = [
            "# demo/1",
            "## Input — Turn 1",
            "### Result",
            "### Tool: x\\\\n\\# y\\`",
        ];
        assert_eq!(headings, expected);
        assert!(!text.contains("<script>") && !text.contains("!["), "{text}");
    }
}
