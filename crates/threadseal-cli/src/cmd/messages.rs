//! `messages PATH`: the conversation as a resumed thread gets it.
//!
//! It contains only verified events: of a record with an unsigned tail the sealed part, of a
//! tampered one nothing.

use crate::context::Context;
use crate::exit::Outcome;
use crate::output::Out;
use crate::render::json;
use crate::verified_events::VerifiedEvents;
use clap::Args;
use std::path::PathBuf;
use threadseal_core::canon::json::Value;
use threadseal_core::canon::python::rye_line;
use threadseal_formats::transcript::messages::{Conversation, Message};

/// What `messages` takes.
#[derive(Debug, Args)]
pub(crate) struct MessagesArgs {
    /// A transcript, or STORE#NAME
    path: PathBuf,
}

/// Prints a JSON array with one message in each line.
pub(crate) fn run(args: &MessagesArgs, context: &Context, out: &mut Out) -> Outcome {
    let believed = VerifiedEvents::read(&args.path, context)?;
    if believed.report.verdict.exit_code() == 1 && !context.json {
        // An empty array would look like an empty conversation.
        return Ok(believed.settle(context));
    }
    // Every accepted event comes from a verified line.
    let mut conversation = Conversation::danger_new();
    for event in &believed.events {
        conversation.event(&event.event_type, &event.payload);
    }
    let messages: Vec<Value> = conversation
        .into_messages()
        .iter()
        .map(Message::to_value)
        .collect();
    let report = &believed.report;
    if context.json {
        let head = serde_json::json!({
            "schema": "threadseal.messages/1",
            "path": report.path,
            "verdict": report.verdict,
            "trusted_until": report.trusted_until,
        });
        // The messages are inserted before the closing brace of the object.
        let mut text = json::to_vec(&head);
        text.pop();
        out.bytes(&text);
        out.bytes(b",\"messages\":");
    }
    array(&messages, out);
    match context.json {
        true => {
            out.because(&believed.report);
            out.json_members();
        }
        false => out.bytes(b"\n"),
    }
    Ok(believed.settle(context))
}

fn array(messages: &[Value], out: &mut Out) {
    out.bytes(b"[");
    for (index, message) in messages.iter().enumerate() {
        out.bytes(if index == 0 { b"\n" } else { b",\n" });
        out.bytes(&rye_line(message));
    }
    out.bytes(if messages.is_empty() { b"]" } else { b"\n]" });
}
