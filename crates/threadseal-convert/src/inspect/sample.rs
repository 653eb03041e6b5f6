//! One sample: its conversation, and the content that only events have.

use super::super::account::{Account, Reason, Tokens};
use super::super::build::rfc3339_ns;
use super::super::chat::{Chat, rest};
use super::super::draft::{Draft, Message, Source, ToolCall, ToolResult};
use super::super::source::{Node, Reading};
use super::super::thread::{content_items, extend, says_nothing, take_rest, vendor_of};
use super::Log;
use super::refs::Refs;
use std::collections::{HashMap, HashSet};
use threadseal_core::canon::json::Value;
use threadseal_core::digest::Digest;
use threadseal_formats::scroll::Role;

/// Members of a sample that a rule of its own reads.
const TOLD: [&str; 8] = [
    "messages",
    "input",
    "output",
    "events",
    "transcript",
    "attachments",
    "message_pool",
    "events_data",
];

/// One sample while it is read.
pub(super) struct Sample<'r, 'a> {
    pub(super) number: u64,
    pub(super) refs: Refs<'a>,
    /// All events. Nested events follow their parent.
    pub(super) events: Vec<Node<'r, 'a>>,
    /// Events that contain each message, latest first. An event leaves when a turn uses it.
    pub(super) spoken: HashMap<Digest, Vec<usize>>,
    /// Events that a turn uses.
    pub(super) told: HashSet<usize>,
    /// How often each message is in the scroll, by its content.
    carried: HashMap<Digest, u64>,
    /// Texts in the scroll.
    texts: HashSet<Digest>,
    pub(super) calls: HashSet<String>,
    pub(super) results: HashSet<String>,
    /// Tool definitions in the scroll.
    pub(super) tools: HashSet<Digest>,
    pub(super) tokens: Tokens,
    /// Turns with their moment, or that of the turn before.
    turns: Vec<(u64, Draft, Source)>,
    moment: u64,
}

/// Facts that an event has about a message in it.
#[derive(Clone, Copy, Default)]
pub(super) struct Origin {
    /// The place of the event that states the model's usage for the message.
    pub(super) event: Option<usize>,
    /// The kind of the event, for a message outside the conversation.
    pub(super) kind: Option<&'static str>,
    pub(super) moment: Option<u64>,
}

impl Log {
    /// Reads one sample.
    pub(super) fn sample(&mut self, value: &Value, number: u64, account: &mut Account) {
        if value.as_object().is_none() {
            return account.unmapped(number, "not a JSON object");
        }
        let reading = Reading::new(number, value);
        let node = reading.root();
        let mut sample = Sample::new(node, number);
        let messages = node.get("messages").and_then(Node::items);
        for message in messages.into_iter().flatten() {
            self.message(&mut sample, message, Origin::default());
        }
        for place in 0..sample.events.len() {
            self.event(&mut sample, place);
        }
        self.leftovers(&mut sample, node);
        let mut facts = Value::Object(Vec::new());
        take_rest(node, &mut facts, &TOLD);
        let facts = sample.refs.resolve(facts);
        sample.note(&facts);
        self.attachments(&mut sample, node);
        if sample.tokens == Tokens::default() {
            sample.tokens = usages(value.get("model_usage"));
        }
        self.thread.count(sample.tokens);
        self.close(sample, facts);
        reading.finish(account);
    }

    /// A turn of one message.
    fn message(&self, sample: &mut Sample<'_, '_>, node: Node<'_, '_>, origin: Origin) {
        if node.peek().as_object().is_none() {
            return;
        }
        let key = sample.key(node.peek());
        *sample.carried.entry(key).or_default() += 1;
        let chat = Chat::read(
            node,
            &format!("call-{}-{}", sample.number, sample.turns.len()),
        );
        sample
            .calls
            .extend(chat.calls.iter().map(|call| call.id.clone()));
        sample
            .results
            .extend(chat.results.iter().map(|result| result.id.clone()));
        let mut draft = self.draft(chat.turn_role());
        if let Some(model) = node.text_of("model").filter(|model| !model.is_empty()) {
            let vendor = vendor_of(&model);
            if !vendor.is_empty() {
                vendor.clone_into(&mut draft.model.vendor);
            }
            draft.model.id = Some(model);
        }
        let answers = !chat.results.is_empty();
        chat.say(&mut draft);
        let mut source = self.thread.source(&[sample.number]);
        source.set_some("id", node.text_of("id"));
        source.set_some("origin", node.text_of("source"));
        source.set_some("event", origin.kind);
        if answers {
            node.discard_all(&["function"], Reason::Duplicate);
        }
        source.set_some(
            "message_rest",
            rest(node, &["id", "model", "source", "error", "function"]),
        );
        let event = origin.event.or_else(|| sample.spoken.get_mut(&key)?.pop());
        if let Some(event) = event {
            sample.spend(event, &mut draft, &mut source);
        }
        let moment = draft.timestamp_ns.or(origin.moment);
        sample.add(moment, draft, source);
    }

    /// Adds the messages of one list: a turn for each that the scroll does not yet have as often as
    /// the list. Returns whether it added a turn.
    pub(super) fn list<'r, 'a: 'r>(
        &self,
        sample: &mut Sample<'_, '_>,
        messages: impl IntoIterator<Item = Node<'r, 'a>>,
        origin: Origin,
    ) -> bool {
        let mut seen: HashMap<Digest, u64> = HashMap::new();
        let mut new = false;
        for message in messages {
            let key = sample.key(message.peek());
            let times = seen.entry(key).or_default();
            *times += 1;
            if sample
                .carried
                .get(&key)
                .is_some_and(|carried| carried >= times)
            {
                message.discard(Reason::Duplicate);
            } else {
                new = true;
                self.message(sample, message, origin);
            }
        }
        new
    }

    /// A turn with the model and sampling parameters of the log.
    pub(super) fn draft(&self, role: Role) -> Draft {
        let mut draft = Draft::new(role, "");
        draft.model.clone_from(&self.model);
        draft.params.clone_from(&self.params);
        draft
    }

    /// Reads the copies of content that a sample has beside messages and events.
    fn leftovers(&self, sample: &mut Sample<'_, '_>, node: Node<'_, '_>) {
        let data = node.get("events_data");
        let pools = [
            node.get("message_pool"),
            data.and_then(|data| data.get("messages")),
        ];
        for pool in pools.into_iter().flatten().filter_map(Node::items) {
            self.list(sample, pool, Origin::default());
        }
        if let Some(data) = data {
            data.discard_all(&["calls"], Reason::View);
        }
        if let Some(output) = node.get("output") {
            self.choices(sample, output, Origin::default());
            output.discard_all(&["completion", "model", "usage", "time"], Reason::Duplicate);
        }
        let Some(input) = node.get("input") else {
            return;
        };
        match input.peek() {
            text @ Value::String(_) if sample.says(text) => input.discard(Reason::Duplicate),
            Value::String(_) => {
                let mut draft = self.draft(Role::User);
                draft
                    .messages
                    .push(Message::items(Role::User, content_items(input)));
                sample.add(None, draft, self.thread.source(&[sample.number]));
            }
            _ => {
                self.list(
                    sample,
                    input.items().into_iter().flatten(),
                    Origin::default(),
                );
            }
        }
    }

    /// Adds the messages in the output of a model.
    pub(super) fn choices(
        &self,
        sample: &mut Sample<'_, '_>,
        output: Node<'_, '_>,
        origin: Origin,
    ) -> bool {
        let mut new = false;
        let choices = output.get("choices").and_then(Node::items);
        for choice in choices.into_iter().flatten() {
            new |= self.list(sample, choice.get("message"), origin);
            choice.discard_all(&["stop_reason"], Reason::Duplicate);
        }
        new
    }

    /// Attachments to which nothing in the scroll refers.
    fn attachments(&self, sample: &mut Sample<'_, '_>, node: Node<'_, '_>) {
        let old = node.get("transcript").and_then(|old| old.get("content"));
        let mut items = Vec::new();
        for table in [node.get("attachments"), old].into_iter().flatten() {
            for (name, text) in table.members().into_iter().flatten() {
                let name = name.as_str().unwrap_or_default();
                if sample.refs.is_used(name) {
                    let _ = text.read();
                } else if sample.says(text.peek()) {
                    text.discard(Reason::Duplicate);
                } else {
                    let mut item = Value::Object(vec![("type".into(), "attachment".into())]);
                    extend(&mut item, "name", Some(name.into()));
                    extend(&mut item, "attachment", Some(text.take()));
                    items.push(item);
                }
            }
        }
        if !items.is_empty() {
            let mut draft = self.draft(Role::System);
            draft.messages.push(Message::items(Role::System, items));
            sample.add(Some(u64::MAX), draft, self.thread.source(&[sample.number]));
        }
    }

    /// Sorts the turns, and puts the facts into the first.
    fn close(&mut self, mut sample: Sample<'_, '_>, facts: Value) {
        if sample.turns.is_empty() {
            let source = self.thread.source(&[sample.number]);
            sample.turns.push((0, self.draft(Role::System), source));
        }
        sample.turns.sort_by_key(|(moment, ..)| *moment);
        let mut facts = Some(facts);
        for (_, draft, mut source) in sample.turns {
            source.set_some("sample", facts.take());
            self.thread.push(draft, source);
        }
    }
}

impl<'r, 'a> Sample<'r, 'a> {
    fn new(node: Node<'r, 'a>, number: u64) -> Self {
        let old = node.peek().get("transcript");
        let table = node
            .peek()
            .get("attachments")
            .or_else(|| old?.get("content"));
        let mut sample = Self {
            number,
            refs: Refs::new(table),
            events: Vec::new(),
            spoken: HashMap::new(),
            told: HashSet::new(),
            carried: HashMap::new(),
            texts: HashSet::new(),
            calls: HashSet::new(),
            results: HashSet::new(),
            tools: HashSet::new(),
            tokens: Tokens::default(),
            turns: Vec::new(),
            moment: 0,
        };
        sample.gather(node.get("events"));
        sample.gather(node.get("transcript").and_then(|old| old.get("events")));
        sample.moment = sample
            .events
            .first()
            .and_then(|event| moment(*event))
            .unwrap_or_default();
        for place in (0..sample.events.len()).rev() {
            let output = sample.events[place].peek().get("output");
            let choices = output.and_then(|output| output.get("choices")?.as_array());
            for message in choices
                .into_iter()
                .flatten()
                .filter_map(|choice| choice.get("message"))
            {
                let key = sample.key(message);
                sample.spoken.entry(key).or_default().push(place);
            }
        }
        sample
    }

    /// All events of a list, and those inside of them.
    fn gather(&mut self, events: Option<Node<'r, 'a>>) {
        for event in events.and_then(Node::items).into_iter().flatten() {
            self.events.push(event);
            let inner = event.peek().get("events").and_then(Value::as_array);
            if inner.is_some_and(|inner| !inner.is_empty()) {
                self.gather(event.get("events"));
            }
        }
    }

    /// The content of a message, in any shape: without ids and model.
    fn key(&self, message: &Value) -> Digest {
        let mut said = Vec::new();
        for name in ["role", "content", "tool_call_id"] {
            said.push(message.get(name).cloned().unwrap_or(Value::Null));
        }
        let calls = message.get("tool_calls").and_then(Value::as_array);
        for call in calls.into_iter().flatten() {
            for name in ["id", "function", "arguments"] {
                said.push(call.get(name).cloned().unwrap_or(Value::Null));
            }
        }
        self.refs.fingerprint(&Value::Array(said))
    }

    /// Whether the scroll contains this text.
    pub(super) fn says(&self, text: &Value) -> bool {
        self.texts.contains(&self.refs.fingerprint(text))
    }

    /// Adds a turn. A turn without a moment follows the one before.
    pub(super) fn add(&mut self, moment: Option<u64>, mut draft: Draft, source: Source) {
        for message in &mut draft.messages {
            let content = std::mem::replace(&mut message.content, Value::Null);
            message.content = self.refs.resolve(content);
            self.note(&message.content);
        }
        let calls = std::mem::take(&mut draft.tool_calls)
            .into_iter()
            .map(|call| {
                let args = self.refs.resolve(call.args.unwrap_or(Value::Null));
                ToolCall::new(call.id, call.name, args)
            });
        draft.tool_calls = calls.collect();
        let results = std::mem::take(&mut draft.tool_results)
            .into_iter()
            .map(|result| {
                let response = self.refs.resolve(result.response.unwrap_or(Value::Null));
                ToolResult::new(result.id, result.ok, response)
            });
        draft.tool_results = results.collect();
        let bodies = draft
            .tool_calls
            .iter()
            .filter_map(|call| call.args.as_ref());
        let bodies = bodies.chain(
            draft
                .tool_results
                .iter()
                .filter_map(|result| result.response.as_ref()),
        );
        let bodies: Vec<&Value> = bodies.collect();
        for body in bodies {
            note(&mut self.texts, &self.refs, body);
        }
        let source = source.map(|value| self.refs.resolve(value));
        for value in source.values() {
            note(&mut self.texts, &self.refs, value);
        }
        self.moment = moment
            .filter(|moment| *moment < u64::MAX)
            .unwrap_or(self.moment);
        self.turns
            .push((moment.unwrap_or(self.moment), draft, source));
    }

    fn note(&mut self, value: &Value) {
        note(&mut self.texts, &self.refs, value);
    }
}

/// The moment of an event: its completion, or else its start.
pub(super) fn moment(event: Node<'_, '_>) -> Option<u64> {
    let time = |name| event.peek_str(name).and_then(rfc3339_ns);
    time("completed").or_else(|| time("timestamp"))
}

/// Tokens of one usage report.
///
/// Some providers count cached input as part of the input, and some do not. The total distinguishes
/// the two.
pub(super) fn tokens(usage: &Value) -> Tokens {
    let of = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or_default();
    let (input, output) = (of("input_tokens"), of("output_tokens"));
    let cached = of("input_tokens_cache_read");
    let apart = cached.saturating_add(of("input_tokens_cache_write"));
    let all = input.saturating_add(apart);
    Tokens {
        input: if of("total_tokens") == all.saturating_add(output) {
            all
        } else {
            input
        },
        output,
        cached,
        reasoning: of("reasoning_tokens"),
    }
}

fn usages(models: Option<&Value>) -> Tokens {
    let mut sum = Tokens::default();
    for (_, usage) in models.and_then(Value::as_object).unwrap_or_default() {
        sum.add(tokens(usage));
    }
    sum
}

fn note(texts: &mut HashSet<Digest>, refs: &Refs<'_>, value: &Value) {
    match value {
        Value::String(_) if says_nothing(value) => {}
        Value::String(_) => {
            texts.insert(refs.fingerprint(value));
        }
        Value::Array(elements) => elements
            .iter()
            .for_each(|element| note(texts, refs, element)),
        Value::Object(members) => members
            .iter()
            .for_each(|(_, value)| note(texts, refs, value)),
        _ => {}
    }
}
