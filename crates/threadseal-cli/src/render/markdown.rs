//! Transcripts as Markdown: first the verdict, then the events in the library's rendering.
//!
//! [`threadseal_formats::transcript::render`] lets no text of a record pass for layout. The output
//! contains no control character for a terminal.

use super::clean::{Clean, is_unsafe};
use crate::verified_events::VerifiedEvents;
use threadseal_core::report::Report;
use threadseal_formats::transcript::event::is_terminal;
use threadseal_formats::transcript::render::Renderer;

/// The whole document.
pub(crate) fn transcript(believed: &VerifiedEvents) -> String {
    // Every believed event comes from a verified line.
    let mut renderer = Renderer::danger_new();
    for event in &believed.events {
        renderer.push_event(&event.event_type, &event.payload);
    }
    let thread = believed.events.first().map(|event| event.thread.as_str());
    let mut out = format!(
        "# {}\n\n{}\n\n{}",
        inline(thread.unwrap_or_default()),
        standing(&believed.report),
        renderer.into_body()
    );
    let ended = believed.events.iter().rev();
    let ended = ended
        .map(|event| &event.event_type)
        .find(|of| is_terminal(of));
    if let Some(ended) = ended {
        out.push_str(&format!("---\n\n*{}*\n", inline(ended)));
    }
    let shown = |c: char| {
        if is_unsafe(c) && c != '\n' && c != '\t' {
            '\u{fffd}'
        } else {
            c
        }
    };
    out.chars().map(shown).collect()
}

/// The verdict and the signers, in the document itself.
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

/// One line in which every character with a meaning in Markdown is escaped.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verified_events::VerifiedEvent;
    use threadseal_core::canon::json::parse;
    use threadseal_core::report::{Format, Profile};

    fn event(event_type: &str, payload: &str) -> VerifiedEvent {
        VerifiedEvent {
            event_type: event_type.to_owned(),
            thread: "demo/1".to_owned(),
            payload: parse(payload.as_bytes()).unwrap(),
        }
    }

    fn rendered(events: Vec<VerifiedEvent>) -> String {
        let report = Report::begin(Format::Transcript, Profile::Native);
        transcript(&VerifiedEvents { report, events })
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
        let expected = "---\n\n## Input — Turn 1\n\nask\n\n### Response — Turn 1\n\none\ntwo\n\n\
            ### Tool: sh\n\n```json\n{\n  \"c\": 1\n}\n```\n\n### Result\n\n```\ndone\n```\n\n\
            ### Error\n\ndenied\n\n---\n\n*thread_completed*\n";
        assert!(text.ends_with(expected), "{text}");
    }

    // T-RYE-19
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
            "### Tool: x # y`",
        ];
        assert_eq!(headings, expected);
        assert!(
            text.contains("\\<script>") && text.contains("\\!["),
            "{text}"
        );
    }
}
