//! Summaries of threads that are handed over, where `summary_directive` is configured.
//!
//! ```text
//! verified conversation, its end ─► thread of the summary directive ─► text, bounded
//!   ─► knowledge entry agent/threads/<directive>/<name>-summary
//!   ─► inputs.previous_summary_id, first message
//! ```
//! The directive gets those of `thread_id`, `directive`, `transcript`, `max_tokens` that it
//! declares, and answers with the output `summary` or with its last text. A failure is recorded,
//! and the thread is handed over without a summary. Where a hook has had the thread summarised
//! already, that summary is named.
//!
//! Seed 001, "Hook-Driven Summary on Handoff"; coordination.yaml of Rye.

use super::order::{Order, Ran};
use super::parent::ParentThread;
use super::services::Services;
use super::starter::Starter;
use super::summary::{declared_by, keep_summary, refuse_other, summary_id};
use super::thread_plan::ThreadPlan;
use crate::bounds::{MAX_SUMMARISED_BYTES, MAX_SUMMARY_BYTES};
use crate::history::VerifiedChain;
use crate::item::{ItemId, ItemKind};
use crate::model::ChatMessage;
use crate::status::Status;
use crate::toolbox::Cancel;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use threadseal_core::error::Error;

/// The member of inputs that names the summary of the earlier conversation.
pub(super) const PREVIOUS_SUMMARY: &str = "previous_summary_id";

/// A summary of the earlier conversation.
pub(super) struct Recap {
    /// Its knowledge entry, below `agent/threads/`.
    id: Option<String>,
    text: String,
    failed: Option<String>,
}

impl Recap {
    /// The message, with the summary before it.
    pub(super) fn before(&self, message: &str) -> String {
        if self.text.is_empty() {
            return message.to_owned();
        }
        format!(
            "A model summarised what came before, from its verified record:\n\n{}\n\n{message}",
            quoted(&self.text)
        )
    }

    /// Names its place in the successor's inputs, and its outcome in the successor's record.
    pub(super) fn note(&self, plan: &mut ThreadPlan, notes: &mut Vec<(&'static str, Value)>) {
        if let Some(id) = &self.id {
            plan.inputs
                .insert(PREVIOUS_SUMMARY.to_owned(), id.as_str().into());
        }
        if let Some(why) = &self.failed {
            notes.push(("summary_failed", json!({"error": why})));
        }
    }
}

/// The summary of a chain that is handed over; None where none is configured. With a parent, a
/// child of the thread that hands itself over makes it, which pays for it; the second value is how
/// that ran.
///
/// # Errors
/// When the summary directive may not be used, or its text cannot be kept.
pub(super) fn summarise(
    services: &Services,
    starter: Starter,
    chain: &VerifiedChain,
    cancel: &Cancel,
    parent: Option<ParentThread<'_>>,
) -> Result<(Option<Recap>, Option<Ran>), Error> {
    // A summary that a hook requested exists already.
    let directive = directive_of(chain);
    let id = summary_id(&directive, chain.last().record().id());
    let known = ItemId::parse(&format!("agent/threads/{id}"))?;
    let known = services
        .finder
        .find(ItemKind::Knowledge, &known, &services.grounds()?)?;
    if let Some(known) = known {
        refuse_other(&known, chain.last().record().id(), &directive)?;
        let recap = Recap {
            id: Some(id),
            text: String::new(),
            failed: None,
        };
        return Ok((Some(recap), None));
    }
    let coordination = &services.config.coordination;
    let Some(id) = &coordination.summary_directive else {
        return Ok((None, None));
    };
    let order = Order {
        directive: id.clone(),
        inputs: inputs_of_summary(services, id, chain)?,
        limits: coordination.summary_limits,
        cancel: cancel.clone(),
    };
    let own = for_recaps(services);
    let ran = match parent {
        Some(parent) => starter.begin_child(&own, &order, parent)?.run()?,
        None => starter.run(&own, &order)?,
    };
    let last = chain.last().record().id();
    if ran.status != Status::Completed {
        let why = ran.error.clone();
        let summary = Recap {
            id: None,
            text: String::new(),
            failed: Some(why.unwrap_or_else(|| ran.status.to_string())),
        };
        return Ok((Some(summary), Some(ran)));
    }
    let text = said_by(&ran);
    let directive = directive_of(chain);
    keep_summary(services, last, &directive, &text)?;
    let id = summary_id(&directive, last);
    let summary = Recap {
        id: Some(id),
        text,
        failed: None,
    };
    Ok((Some(summary), Some(ran)))
}

/// The same engine, in which no thread summarises, by models of the configured class.
fn for_recaps(services: &Services) -> Services {
    let mut services = services.for_summaries();
    let mut config = (*services.config).clone();
    config.coordination.summary_directive = None;
    services.config = Arc::new(config);
    services
}

fn inputs_of_summary(
    services: &Services,
    id: &ItemId,
    chain: &VerifiedChain,
) -> Result<Map<String, Value>, Error> {
    let given = json!({
        "thread_id": chain.last().record().id().as_str(),
        "transcript": rendered(chain.messages()),
        "directive": directive_of(chain),
        "max_tokens": services.config.coordination.summary_max_tokens,
    });
    declared_by(services, id, given)
}

fn directive_of(chain: &VerifiedChain) -> String {
    let manifest = chain.last().record().manifest();
    let directive = manifest.and_then(|manifest| manifest.directive.clone());
    directive.unwrap_or_else(|| "thread".to_owned())
}

/// The answer of a summarising thread, within its bound.
fn said_by(ran: &Ran) -> String {
    let output = ran
        .outputs
        .as_ref()
        .and_then(|outputs| outputs.get("summary")?.as_str());
    let text = output.unwrap_or(&ran.text).trim();
    let mut end = text.len().min(MAX_SUMMARY_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    match end == text.len() {
        true => text.to_owned(),
        false => format!("{}\n[shortened: {} bytes in all]", &text[..end], text.len()),
    }
}

/// Each line after a mark, so that no heading or fence in it counts.
fn quoted(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("> {line}")).collect();
    lines.join("\n")
}

/// The end of a conversation as text.
fn rendered(messages: &[ChatMessage]) -> String {
    let mut parts = Vec::new();
    let mut left = MAX_SUMMARISED_BYTES;
    for message in messages.iter().rev() {
        let text = one(message);
        let Some(rest) = left.checked_sub(text.len()) else {
            parts.push("[what came before is left out]\n".to_owned());
            break;
        };
        left = rest;
        parts.push(text);
    }
    parts.reverse();
    parts.concat()
}

fn one(message: &ChatMessage) -> String {
    match message {
        ChatMessage::User(text) => format!("User:\n{}\n\n", quoted(text)),
        ChatMessage::ToolResult { tool, content, .. } => {
            format!("Result of {tool}:\n{}\n\n", quoted(content))
        }
        ChatMessage::Assistant { text, calls } => {
            let mut out = format!("Model:\n{}\n", quoted(text));
            for call in calls {
                let _ = writeln!(out, "Calls {} with {}", call.name, call.input);
            }
            out.push('\n');
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_conversation_is_rendered_and_nothing_in_it_looks_like_the_frame() {
        let user = |text: String| ChatMessage::User(text);
        let long = user("x".repeat(MAX_SUMMARISED_BYTES));
        let text = rendered(&[long, user("# heading\n```\nModel:".to_owned())]);
        assert_eq!(
            text,
            "[what came before is left out]\nUser:\n> # heading\n> ```\n> Model:\n\n"
        );
    }
}
