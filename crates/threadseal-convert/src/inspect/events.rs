//! Events of a sample: the content that no message has.

use super::super::account::Reason;
use super::super::draft::{Draft, Message, Source, ToolCall, ToolResult, call_item, result_item};
use super::super::source::Node;
use super::super::thread::{extend, part_item, says_nothing, take_rest};
use super::sample::{Origin, Sample, moment, tokens};
use super::{Log, params};
use threadseal_core::canon::json::Value;
use threadseal_formats::scroll::Role;

/// Members for the time and the place of an event.
const PLACE: [&str; 10] = [
    "uuid",
    "span_id",
    "timestamp",
    "completed",
    "working_start",
    "working_time",
    "working_end",
    "pending",
    "parent_id",
    "event",
];

impl Log {
    /// Reads the event at `place`.
    pub(super) fn event(&self, sample: &mut Sample<'_, '_>, place: usize) {
        let event = sample.events[place];
        match event.peek_str("event") {
            Some("model") => self.model_event(sample, place, event),
            Some("tool") => self.tool_event(sample, event),
            Some("sandbox") => self.sandbox_event(sample, event),
            Some("state" | "store") => event.discard(Reason::View),
            Some("sample_init" | "score") => event.discard(Reason::Duplicate),
            Some("span_begin" | "span_end" | "step") => event.discard(Reason::Metadata),
            _ => {
                let moment = moment(event);
                let mut draft = self.draft(Role::System);
                let items = vec![part_item(event)];
                draft.messages.push(Message::items(Role::System, items));
                draft.timestamp_ns = moment;
                sample.add(moment, draft, self.thread.source(&[sample.number]));
            }
        }
    }

    /// A request to a model: its input, then its output.
    fn model_event(&self, sample: &mut Sample<'_, '_>, place: usize, event: Node<'_, '_>) {
        let origin = Origin {
            event: None,
            kind: Some("model"),
            moment: moment(event),
        };
        if let Some(input) = event.get("input").and_then(Node::items) {
            self.list(sample, input, origin);
        }
        if let Some(output) = event.get("output") {
            let told = sample.told.contains(&place);
            let by = Origin {
                event: (!told).then_some(place),
                ..origin
            };
            self.choices(sample, output, by);
        }
        let says = |name: &str| {
            event
                .peek()
                .get(name)
                .is_some_and(|value| !says_nothing(value))
        };
        let spent = event
            .peek()
            .get("output")
            .is_some_and(|output| output.get("usage").is_some());
        if !sample.told.contains(&place) && (says("error") || spent) {
            let mut draft = self.draft(Role::Assistant);
            let mut source = self.thread.source(&[sample.number]);
            source.set("event", "model".into());
            sample.spend(place, &mut draft, &mut source);
            draft
                .messages
                .push(Message::items(Role::Assistant, Vec::new()));
            sample.add(draft.timestamp_ns, draft, source);
        }
        event.discard_all(&["call", "traceback", "traceback_ansi"], Reason::View);
        event.discard_all(
            &["input_refs", "model", "role", "cache", "retries"],
            Reason::Metadata,
        );
        let told = sample.told.contains(&place);
        let taken = |name: &str| told && matches!(name, "timestamp" | "completed");
        for name in PLACE.iter().filter(|name| !taken(name)) {
            event.discard_all(&[name], Reason::Metadata);
        }
    }

    /// A call that a tool answered.
    fn tool_event(&self, sample: &mut Sample<'_, '_>, event: Node<'_, '_>) {
        let id = event.peek_str("id").unwrap_or_default().to_owned();
        let answered = sample.results.contains(&id);
        if sample.calls.contains(&id) {
            event.discard_all(&["id", "function", "arguments", "type"], Reason::Duplicate);
        }
        if answered {
            for node in ["result", "error"]
                .iter()
                .filter_map(|name| event.get(name))
            {
                let same = sample.says(node.peek());
                node.discard(if same {
                    Reason::Duplicate
                } else {
                    Reason::View
                });
            }
        } else {
            let mut draft = self.draft(Role::Tool);
            let moment = moment(event);
            draft.timestamp_ns = moment;
            let mut items = Vec::new();
            if !sample.calls.contains(&id) {
                let _ = event.get("id").map(Node::read);
                let name = event.text_of("function").unwrap_or_default();
                let args = event.get("arguments").map_or(Value::Null, Node::take);
                items.push(call_item(&id));
                draft.tool_calls.push(ToolCall::new(id.clone(), name, args));
                sample.calls.insert(id.clone());
            }
            let error = event.take_of("error");
            let response = event.get("result").map_or(Value::Null, Node::take);
            let mut item = result_item(&id);
            let ok = error.is_none();
            extend(&mut item, "error", error);
            items.push(item);
            draft
                .tool_results
                .push(ToolResult::new(id.clone(), ok, response));
            sample.results.insert(id);
            draft.messages.push(Message::items(Role::Tool, items));
            let mut source = self.thread.source(&[sample.number]);
            source.set("event", "tool".into());
            sample.add(moment, draft, source);
        }
        event.discard_all(&["view", "truncated"], Reason::View);
        event.discard_all(
            &["message_id", "failed", "agent", "agent_span_id"],
            Reason::Metadata,
        );
        event.discard_all(&PLACE, Reason::Metadata);
    }

    /// Reads an action of a tool inside its sandbox.
    fn sandbox_event(&self, sample: &mut Sample<'_, '_>, event: Node<'_, '_>) {
        let moment = moment(event);
        let action = event.text_of("action").unwrap_or_default();
        let id = format!("sandbox-{}-{}", sample.number, sample.calls.len());
        sample.calls.insert(id.clone());
        let mut response = Value::Object(Vec::new());
        for name in ["result", "output"] {
            extend(&mut response, name, event.take_of(name));
        }
        let mut args = Value::Object(Vec::new());
        let known = [&PLACE[..], &["action", "result", "output"]].concat();
        take_rest(event, &mut args, &known);
        event.discard_all(&PLACE, Reason::Metadata);
        let code = response.get("result").and_then(Value::as_u64);
        let mut draft = self.draft(Role::Tool);
        draft.timestamp_ns = moment;
        draft.messages.push(Message::items(
            Role::Tool,
            vec![call_item(&id), result_item(&id)],
        ));
        draft
            .tool_calls
            .push(ToolCall::new(id.clone(), format!("sandbox.{action}"), args));
        draft.tool_results.push(ToolResult::new(
            id,
            code.is_none_or(|code| code == 0),
            response,
        ));
        let mut source = self.thread.source(&[sample.number]);
        source.set("event", "sandbox".into());
        sample.add(moment, draft, source);
    }
}

impl Sample<'_, '_> {
    /// Takes the facts that the model event at `place` has about its turn.
    pub(super) fn spend(&mut self, place: usize, draft: &mut Draft, source: &mut Source) {
        if !self.told.insert(place) {
            return;
        }
        let event = self.events[place];
        draft.timestamp_ns = moment(event);
        source.set_some("time", event.text_of("timestamp"));
        source.set_some("completed", event.text_of("completed"));
        source.set_some("error", event.take_of("error"));
        if let Some(config) = event
            .get("config")
            .filter(|node| !says_nothing(node.peek()))
        {
            let own = params(config.peek());
            let base = &mut draft.params;
            base.temperature = own.temperature.or(base.temperature.take());
            base.top_p = own.top_p.or(base.top_p.take());
            base.seed = own.seed.or(base.seed);
            base.max_tokens = own.max_tokens.or(base.max_tokens);
            source.set("config", config.take());
        }
        if let Some(tools) = event.get("tools").filter(|node| !says_nothing(node.peek())) {
            if self.tools.insert(self.refs.fingerprint(tools.peek())) {
                source.set("tools", tools.take());
            } else {
                tools.discard(Reason::Duplicate);
            }
        }
        source.set_some("tool_choice", event.take_of("tool_choice"));
        let Some(output) = event.get("output") else {
            return;
        };
        if let Some(usage) = output
            .get("usage")
            .filter(|node| !says_nothing(node.peek()))
        {
            let tokens = tokens(usage.peek());
            self.tokens.add(tokens);
            source.set_tokens(tokens);
            source.set("usage", usage.take());
        }
        let mut choices = output
            .get("choices")
            .and_then(Node::items)
            .into_iter()
            .flatten();
        source.set_some(
            "stop_reason",
            choices
                .next()
                .and_then(|choice| choice.text_of("stop_reason")),
        );
        output.discard_all(&["completion", "model"], Reason::Duplicate);
        let mut rest = Value::Object(Vec::new());
        take_rest(
            output,
            &mut rest,
            &["choices", "completion", "model", "usage"],
        );
        source.set_some("output", Some(rest).filter(|rest| !says_nothing(rest)));
    }
}
