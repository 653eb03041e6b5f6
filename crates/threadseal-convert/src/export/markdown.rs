//! A scroll as Markdown, for people.
//!
//! ````text
//! # Scroll
//! N turns; models: M, …
//! verified up to HEAD                      or that it is not verified, and the verdict
//! converted from PROGRAM: VERDICT, head H  the claim of the converter, if there is one
//! ## Turn 3: assistant — 2026-11-21T20:38:42Z
//! text                                     content, as text
//! > *thinking*                             reasoning, as a quote
//! ### Tool call: NAME (ID)                 + fenced JSON of the arguments
//! ### Tool result: ID (error)              + fenced text
//! ### Other: TYPE                          + fenced JSON of any other block
//! *12 tokens in, 3 out; stopped: end_turn*
//! ````
//! Nothing in the content can pass for layout. A fence is longer than any run of backticks inside.
//! Text outside fences cannot begin a heading, a rule, HTML, a picture, or a fence that it does not
//! close (rules of `transcript::render`). A body with only its hash is shown as `(redacted)`.

use super::super::account::Tokens;
use super::convert::json_text;
use super::speech::{Answer, Call, Holds, MessagePart, Speech};
use super::{Provenance, Standing, Target};
use std::fmt::Write as _;
use threadseal_core::canon::json::Value;
use threadseal_formats::transcript::render::markdown::{escape, escape_quote, fenced, one_line};

pub(super) const TARGET: Target = Target {
    name: "markdown",
    about: "Markdown, for people",
    holds: &HOLDS,
    write,
};

const HOLDS: Holds = Holds {
    thinking: true,
    members: false,
    models: true,
    one_model: false,
    figures: true,
    status: true,
    names: false,
    claims: true,
    block: |block| Some(block.clone()),
};

fn write(speeches: &[Speech], provenance: &Provenance) -> Vec<u8> {
    let mut out = String::from("# Scroll\n");
    let mut models: Vec<&str> = speeches
        .iter()
        .map(|speech| speech.model.as_str())
        .collect();
    models.dedup();
    let turns = speeches.len();
    let _ = writeln!(
        out,
        "\n{turns} turns; models: {}",
        one_line(&models.join(", "))
    );
    if let Standing::Verified(head) = provenance.standing {
        let _ = writeln!(out, "\nverified up to {head}");
    }
    if let Some(warning) = provenance.warning() {
        let _ = writeln!(out, "\n**{warning}**");
    }
    if let Some(claim) = provenance.claim() {
        let _ = writeln!(out, "\n{claim}");
    }
    for speech in speeches {
        write_turn(&mut out, speech);
    }
    out.into_bytes()
}

fn write_turn(out: &mut String, speech: &Speech) {
    let _ = write!(out, "\n## Turn {}: {}", speech.number, speech.role.as_str());
    if speech.moment > 0 {
        let moment = super::atif::moment(speech.moment);
        let _ = write!(out, " — {}", moment.unwrap_or_default());
    }
    out.push('\n');
    for spoken in &speech.messages {
        if spoken.word != speech.role.as_str() {
            let _ = writeln!(out, "\n*as {}*", emphasised(&spoken.word));
        }
        for said in &spoken.said {
            out.push('\n');
            write_said(out, said);
            out.push('\n');
        }
    }
    for tool in &speech.tools {
        let _ = writeln!(
            out,
            "\n### Tool definition\n\n{}",
            fenced("json", &json_text(tool))
        );
    }
    write_figures(out, speech);
}

fn write_said(out: &mut String, said: &MessagePart) {
    let _ = match said {
        MessagePart::Text(text, _) => write!(out, "{}", escape(text)),
        MessagePart::Thinking(text, _) => write!(out, "> {}", escape_quote(text)),
        MessagePart::Call(Call { id, name, args, .. }) => {
            let body = args.as_ref().map(json_text);
            let body = fenced("json", body.as_deref().unwrap_or("(redacted)"));
            write!(
                out,
                "### Tool call: {} ({})\n\n{body}",
                one_line(name),
                one_line(id)
            )
        }
        MessagePart::Result(Answer {
            id, ok, response, ..
        }) => {
            let failed = if *ok { "" } else { " (error)" };
            let body = match response {
                None => "(redacted)".to_owned(),
                Some(Value::String(text)) => text.as_str().unwrap_or_default().to_owned(),
                Some(other) => json_text(other),
            };
            write!(
                out,
                "### Tool result: {}{failed}\n\n{}",
                one_line(id),
                fenced("", &body)
            )
        }
        MessagePart::Block(block) => {
            let kind = block.get("type").and_then(Value::as_str).unwrap_or("block");
            write!(
                out,
                "### Other: {}\n\n{}",
                one_line(kind),
                fenced("json", &json_text(block))
            )
        }
    };
}

fn write_figures(out: &mut String, speech: &Speech) {
    let mut figures = Vec::new();
    if speech.tokens != Tokens::default() {
        figures.push(format!(
            "{} tokens in, {} out",
            speech.tokens.input, speech.tokens.output
        ));
    }
    if let Some(reason) = &speech.stop_reason {
        figures.push(format!("stopped: {}", emphasised(reason)));
    }
    if !figures.is_empty() {
        let _ = writeln!(out, "\n*{}*", figures.join("; "));
    }
}

/// A word between asterisks, without an asterisk that could end it.
fn emphasised(word: &str) -> String {
    one_line(word).replace('*', "\\*")
}
