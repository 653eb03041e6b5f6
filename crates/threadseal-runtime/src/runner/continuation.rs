//! The beginning of a successor: the conversation that it gets, and its first message.

use super::recap::{PREVIOUS_SUMMARY, Recap};
use super::services::Services;
use super::thread_plan::ThreadPlan;
use crate::bounds::MAX_UNRESOLVED_CALLS;
use crate::context::{Counter, trim};
use crate::directive::Directive;
use crate::history::VerifiedChain;
use crate::item::{ItemId, ItemKind};
use crate::model::ChatMessage;
use crate::project_id;
use serde_json::{Map, Value, json};
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;

/// The directive that words the first message where none is named.
const CONTINUATION: &str = "rye/agent/continuation";

/// The part of the earlier conversation that a successor gets.
pub(super) struct Given {
    pub(super) messages: Vec<ChatMessage>,
    /// How many of these its record need not hold.
    pub(super) inherited: usize,
    /// How many answers of the model are among them.
    pub(super) turns: u64,
    pub(super) notes: Vec<(&'static str, Value)>,
}

impl Given {
    /// All of it, or the part that fits.
    pub(super) fn of(
        services: &Services,
        plan: &ThreadPlan,
        chain: &VerifiedChain,
        trimmed: bool,
    ) -> Self {
        let whole = chain.messages();
        let mut notes = Vec::new();
        let last = chain.last().record();
        if last
            .manifest()
            .is_some_and(|line_1| !project_id::is_named(line_1))
        {
            notes.push(project_id::unnamed(last.id()));
        }
        notes.extend(last.signed_settings().missing(&services.config.used));
        if chain.unverified_bytes() > 0 {
            let taken = chain
                .threads()
                .iter()
                .filter(|thread| thread.unverified_bytes > 0);
            let taken: Vec<Value> = taken
                .map(|thread| {
                    json!({"thread_id": thread.id.as_str(), "bytes": thread.unverified_bytes})
                })
                .collect();
            notes.push(("unverified_included", json!({"threads": taken})));
        }
        if !trimmed {
            return Self {
                messages: whole.to_vec(),
                inherited: whole.len(),
                turns: answers(whole),
                notes,
            };
        }
        let coordination = &services.config.coordination;
        // A window that is small leaves room for the successor's own work.
        let ceiling = coordination
            .resume_ceiling_tokens
            .min(plan.subject.chosen.context_window / 2);
        let counter = Counter::of_model(plan.subject.chosen.model.name());
        let kept = trim(whole, chain.prompt(), ceiling, &counter);
        let mut messages = Vec::with_capacity(kept.kept + 2);
        if let Some(opening) = kept.opening {
            notes.push(("conversation_opened", json!({"text": opening})));
            messages.push(ChatMessage::User(opening));
        }
        messages.extend_from_slice(&whole[whole.len() - kept.kept..]);
        Self {
            messages,
            inherited: kept.kept,
            turns: kept.turns,
            notes,
        }
    }

    /// Adds the first message: its words follow a summary, within the directive's continuation
    /// prompt.
    ///
    /// # Errors
    /// When the directive for that may not be used.
    pub(super) fn ask(
        mut self,
        services: &Services,
        plan: &mut ThreadPlan,
        previous: &ThreadId,
        message: &str,
        summary: Option<&Recap>,
    ) -> Result<Self, Error> {
        let continuation = continuation(services, plan, previous, message)?;
        self.notes.extend(continuation.notes);
        if let Some(summary) = summary {
            summary.note(plan, &mut self.notes);
        }
        self.messages.push(ChatMessage::User(continuation.text));
        Ok(self)
    }
}

fn answers(messages: &[ChatMessage]) -> u64 {
    let answers = messages
        .iter()
        .filter(|message| matches!(message, ChatMessage::Assistant { .. }));
    answers.count() as u64
}

/// Reports calls with unknown outcomes, so that the successor does not repeat them.
pub(super) fn with_unresolved(mut message: String, calls: &[Value]) -> String {
    if calls.is_empty() {
        return message;
    }
    let left_out = calls.len().saturating_sub(MAX_UNRESOLVED_CALLS);
    message.push_str(
        "\n\nThese calls had begun when the thread before was cut off, or were given up before they ended. Nobody knows \
         whether they were carried out; do not repeat them unseen:",
    );
    if left_out > 0 {
        message.push_str(&format!("\n- {left_out} older ones"));
    }
    for call in &calls[left_out..] {
        let text = |name: &str| call[name].as_str().unwrap_or("-").to_owned();
        message.push_str(&format!(
            "\n- {} ({})",
            text("item_id"),
            text("idempotency_key")
        ));
    }
    message
}

/// The first message of a successor, and the facts about it for its record.
struct Continuation {
    text: String,
    notes: Vec<(&'static str, Value)>,
}

/// Words the first message of a thread that continues `previous`. If the directive for that is
/// missing, the message stays unchanged; if it exists and does not verify, the thread stops.
fn continuation(
    services: &Services,
    plan: &mut ThreadPlan,
    previous: &ThreadId,
    message: &str,
) -> Result<Continuation, Error> {
    let named = plan.subject.directive.continuation_directive.clone();
    let id = named.map_or_else(|| ItemId::parse(CONTINUATION), Ok)?;
    let found = services
        .finder
        .find(ItemKind::Directive, &id, &services.grounds()?)?;
    let Some(item) = found else {
        return Ok(Continuation {
            text: message.to_owned(),
            notes: vec![("continuation_missing", json!({"directive": id.as_str()}))],
        });
    };
    let directive = Directive::parse(item.path(), item.text())?;
    directive.check_id(&id)?;
    let given = json!({
        "original_directive": plan.item.as_str(),
        "original_directive_body": plan.subject.prompt,
        "previous_thread_id": previous.as_str(),
        "continuation_message": message,
    });
    let given = given.as_object().cloned().unwrap_or_default();
    plan.used.push(item.used());
    Ok(Continuation {
        text: directive.render_prompt(&directive.resolve_inputs(&given)?)?,
        notes: Vec::new(),
    })
}

/// The inputs as the directive takes them: the summary's name is the runner's own, unless the
/// directive declares it.
pub(super) fn given_inputs(
    services: &Services,
    directive: &ItemId,
    mut inputs: Map<String, Value>,
) -> Result<Map<String, Value>, Error> {
    let item = services
        .finder
        .load(ItemKind::Directive, directive, &services.grounds()?)?;
    let declared = Directive::parse(item.path(), item.text())?.inputs;
    if !declared.iter().any(|input| input.name == PREVIOUS_SUMMARY) {
        inputs.remove(PREVIOUS_SUMMARY);
    }
    Ok(inputs)
}
