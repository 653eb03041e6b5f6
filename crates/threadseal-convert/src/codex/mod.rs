//! Codex rollouts, all three generations.
//!
//! ```text
//! {"id":S,"timestamp":T,"instructions":I,"git":{…}}   {"record_type":"state"}   ITEM      mid 2025
//! {"timestamp":T,"type":KIND,"payload":{…}[,"ordinal":N,"metadata":{…}]}    since September 2025
//! KIND   session_meta, turn_context, response_item (payload: ITEM), event_msg, compacted,
//!        world_state, token_usage_record
//! ITEM   {"type":"message","role":R,"content":[PART,…]}   {"type":"reasoning","summary":[…],…}
//!        {"type":"function_call","name":N,"arguments":TEXT,"call_id":C}
//!        {"type":"custom_tool_call",…}
//!        {"type":"function_call_output","call_id":C,"output":O}   …
//! ```
//!
//! Consecutive items of the model are one turn, until another item or the usage follows. Events
//! repeat items for the user interface. They are carried only if no item has the same content.
//!
//! `spec/scroll-mappings.md` §3 has the table of members.

mod events;
mod items;
mod survey;
#[cfg(test)]
mod tests;

use super::account::{Account, Reason, Tokens};
use super::build::Build;
use super::draft::text_item;
use super::format::{Confidence, Format, Head, Mark};
use super::growing::Growing;
use super::mapped::Mapped;
use super::source::{Node, Reading, json_lines};
use survey::Survey;
use threadseal_core::canon::json::Value;
use threadseal_core::canon::python;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_formats::scroll::Role;

const NAME: &str = "codex";
const VENDOR: &str = "openai";
/// Kinds of envelopes.
const KINDS: [&str; 7] = [
    "session_meta",
    "turn_context",
    "response_item",
    "event_msg",
    "compacted",
    "world_state",
    "token_usage_record",
];

pub(super) const FORMAT: Format = Format {
    name: NAME,
    about: "Codex rollout (~/.codex/sessions/**/rollout-*.jsonl)",
    detect,
    map,
};

fn detect(head: &Head<'_>) -> Option<Mark> {
    let why = "lines with `type` and `payload`, or a session head with `instructions`";
    Mark::when(is_ours(head), Confidence::Likely, why)
}

fn is_ours(head: &Head<'_>) -> bool {
    let ours = |line: &Value| {
        let has = |name: &str| line.get(name).is_some();
        let kind = line.get("type").and_then(Value::as_str);
        let envelope = has("payload") && kind.is_some_and(|kind| KINDS.contains(&kind));
        let first = has("instructions") && has("id") && has("timestamp") && !has("type");
        envelope || first || has("record_type")
    };
    head.lines.iter().any(ours)
}

fn map(source: &[u8]) -> Result<Mapped, Error> {
    let mut survey = Survey::default();
    json_lines(source, &mut Account::default(), |_, _, value| {
        survey.record(value);
    });
    let mut account = Account::default();
    let mut rollout = Rollout::new(survey);
    json_lines(source, &mut account, |account, line, value| {
        let reading = Reading::new(line, value);
        match rollout.record(reading.root(), line) {
            Ok(()) => reading.finish(account),
            Err(reason) => reading.refuse(&reason, account),
        }
    });
    rollout.close(|_| true);
    account.tokens.add(rollout.tokens);
    Ok(rollout.build.finish(account))
}

/// The state while a rollout is read.
struct Rollout {
    survey: Survey,
    build: Build,
    tokens: Tokens,
    /// The turns that may still grow, with their places: the last, and the model's last before it.
    growing: Vec<(usize, Growing)>,
    /// Whether the last turn is the model's and takes more items.
    open: bool,
    /// The model's last turn.
    answer: Option<usize>,
    vendor: String,
    model: Option<String>,
    session: Option<String>,
    /// The current turn, as the program names it.
    turn: Option<String>,
    /// The last context, without the name of its turn.
    context: Option<Digest>,
    /// The last running total of usage.
    total: Option<Value>,
}

/// A record: its kind, its payload, and the line that contains it.
#[derive(Clone, Copy)]
struct Record<'r, 'a> {
    outer: Node<'r, 'a>,
    payload: Node<'r, 'a>,
    line: u64,
}

impl Rollout {
    fn new(survey: Survey) -> Self {
        Self {
            survey,
            build: Build::default(),
            tokens: Tokens::default(),
            growing: Vec::new(),
            open: false,
            answer: None,
            vendor: VENDOR.to_owned(),
            model: None,
            session: None,
            turn: None,
            context: None,
            total: None,
        }
    }

    /// Maps one line; an error is why it cannot be mapped.
    fn record(&mut self, outer: Node<'_, '_>, line: u64) -> Result<(), String> {
        let Some((kind, payload)) = split(outer) else {
            return Err("unknown kind of record".to_owned());
        };
        let record = Record {
            outer,
            payload,
            line,
        };
        outer.discard_all(&["ordinal", "metadata"], Reason::Metadata);
        match kind {
            "session_meta" => self.session_meta(record),
            "turn_context" => self.turn_context(record),
            "response_item" => self.item(record),
            "event_msg" => self.event(record),
            "compacted" => self.compacted(record),
            "token_usage_record" => self.usage_record(record),
            "state" => outer.discard(Reason::Metadata),
            _ => {
                self.part(record, kind);
            }
        }
        Ok(())
    }

    /// A new turn of `role` for `record`.
    fn begin(&mut self, role: Role, record: Record<'_, '_>) -> &mut Growing {
        let mut turn = Growing::new(role, &self.vendor, NAME, record.line);
        turn.draft.model.id.clone_from(&self.model);
        turn.source.set_some("session", self.session.as_deref());
        turn.source.set_some("turn", self.turn.as_deref());
        let place = self.build.reserve();
        self.open = role == Role::Assistant;
        if self.open {
            self.answer = Some(place);
        }
        let answer = self.answer;
        self.close(|of| Some(of) != answer);
        self.growing.push((place, turn));
        self.add(record)
    }

    /// Stores the turns of these places; nothing is added to them any more.
    fn close(&mut self, is_done: impl Fn(usize) -> bool) {
        for (place, turn) in self.growing.extract_if(.., |(place, _)| is_done(*place)) {
            self.tokens.add(turn.tokens);
            self.build.set(place, &turn.into_draft());
        }
    }

    /// The last turn, which `record` extends.
    fn add(&mut self, record: Record<'_, '_>) -> &mut Growing {
        let last = self.growing.len().saturating_sub(1);
        let (_, turn) = &mut self.growing[last];
        turn.on(record.line, record.payload.peek());
        turn.time(record.outer.text_of("timestamp"));
        let _ = record.outer.told_by("type");
        turn
    }

    /// The turn that the model is writing.
    fn answer(&mut self, record: Record<'_, '_>) -> &mut Growing {
        let last = self.growing.last();
        let fits = self.open && last.is_some_and(|(_, turn)| turn.has_room());
        if fits {
            self.add(record)
        } else {
            self.begin(Role::Assistant, record)
        }
    }

    /// A turn of the system that carries the payload unchanged.
    fn part(&mut self, record: Record<'_, '_>, kind: &str) -> &mut Growing {
        let part = record.payload.take();
        let turn = self.begin(Role::System, record);
        turn.source.set("kind", kind.into());
        turn.items.push(part_item(part));
        turn
    }

    fn session_meta(&mut self, record: Record<'_, '_>) {
        let payload = record.payload;
        self.session = payload.text_of("id").or(self.session.take());
        if let Some(vendor) = payload
            .text_of("model_provider")
            .filter(|vendor| !vendor.is_empty())
        {
            self.vendor = vendor;
        }
        let instructions = payload.text_of("instructions");
        let base = payload
            .get("base_instructions")
            .and_then(|base| base.text_of("text"));
        let turn = self.begin(Role::System, record);
        turn.source.set("kind", "session_meta".into());
        turn.items
            .extend(instructions.into_iter().chain(base).map(text_item));
        turn.time(payload.text_of("timestamp"));
        for name in ["git", "forked_from_id", "parent_thread_id"] {
            turn.keep(name, payload.get(name));
        }
        let metadata = [
            "session_id",
            "cwd",
            "originator",
            "cli_version",
            "source",
            "thread_source",
            "account_scoped",
            "history_mode",
            "context_window",
            "runtime_workspace_roots",
        ];
        payload.discard_all(&metadata, Reason::Metadata);
        if let Some(base) = payload.get("base_instructions") {
            base.discard_all(&["provenance"], Reason::Metadata);
        }
    }

    fn turn_context(&mut self, record: Record<'_, '_>) {
        let payload = record.payload.peek();
        if let Some(model) = payload.get("model").and_then(Value::as_str) {
            self.model = Some(model.to_owned()).filter(|model| !model.is_empty());
        }
        let turn = payload.get("turn_id").and_then(Value::as_str);
        self.turn = turn.map(str::to_owned);
        let context = fingerprint_without(payload, &["turn_id", "root_turn_id"]);
        if self.context.replace(context) == Some(context) {
            self.open = false;
            let _ = record.outer.told_by("type");
            record.outer.discard_all(&["timestamp"], Reason::Metadata);
            record
                .payload
                .discard_all(&["turn_id", "root_turn_id"], Reason::Metadata);
            discard_rest(record.payload, Reason::Duplicate);
        } else {
            self.part(record, "turn_context");
        }
    }

    fn compacted(&mut self, record: Record<'_, '_>) {
        let payload = record.payload;
        let message = payload
            .text_of("message")
            .filter(|message| !message.is_empty());
        let mut items: Vec<_> = message.map(text_item).into_iter().collect();
        let history = payload.get("replacement_history").and_then(Node::items);
        for item in history.into_iter().flatten() {
            if self.survey.says(item.peek()) {
                item.discard(Reason::Duplicate);
            } else {
                items.push(part_item(item.take()));
            }
        }
        let turn = self.begin(Role::System, record);
        turn.source.set("kind", "compacted".into());
        turn.items = items;
    }

    fn usage_record(&mut self, record: Record<'_, '_>) {
        let payload = record.payload;
        self.total = payload.peek().get("thread_token_usage").cloned();
        let response = payload.get("response_id");
        self.usage(record, payload.get("usage"), response);
        let _ = record.outer.told_by("type");
        record.outer.discard_all(&["timestamp"], Reason::Metadata);
        discard_rest(payload, Reason::Metadata);
    }

    /// Sets the usage of the model's last turn. If that turn has a usage already, it makes a turn
    /// of its own.
    fn usage(
        &mut self,
        record: Record<'_, '_>,
        usage: Option<Node<'_, '_>>,
        response: Option<Node<'_, '_>>,
    ) {
        self.open = false;
        let Some(usage) = usage.filter(|usage| usage.peek().as_object().is_some()) else {
            return;
        };
        let answer = self.growing.iter().position(|(place, turn)| {
            Some(*place) == self.answer && turn.source.get("usage").is_none()
        });
        let turn = match answer {
            Some(index) => &mut self.growing[index].1,
            None => {
                let turn = self.begin(Role::System, record);
                turn.source.set("kind", "usage".into());
                turn
            }
        };
        turn.tokens = tokens(usage.peek());
        turn.source.set_tokens(turn.tokens);
        turn.source.set("usage", usage.take());
        turn.keep("message", response);
    }
}

/// Kind and payload of a line of any generation; without envelope the line is the payload.
fn split<'r, 'a>(outer: Node<'r, 'a>) -> Option<(&'a str, Node<'r, 'a>)> {
    let (kind, payload) = split_value(outer.peek())?;
    let bare = std::ptr::eq(payload, outer.peek());
    let payload = if bare { outer } else { outer.get("payload")? };
    Some((kind, payload))
}

/// As [`split`], of a value.
fn split_value(line: &Value) -> Option<(&str, &Value)> {
    let kind = line.get("type").and_then(Value::as_str);
    let enveloped = kind.is_some_and(|kind| KINDS.contains(&kind));
    match (kind, line.get("payload")) {
        (Some(kind), Some(payload)) if enveloped && payload.as_object().is_some() => {
            Some((kind, payload))
        }
        (_, Some(_)) => None,
        _ if line.get("record_type").is_some() => Some(("state", line)),
        (Some(_), None) => (!enveloped).then_some(("response_item", line)),
        (None, None) if line.get("role").is_some() => Some(("response_item", line)),
        (None, None) => line.get("id").map(|_| ("session_meta", line)),
    }
}

fn part_item(part: Value) -> Value {
    Value::Object(vec![("type".into(), "part".into()), ("part".into(), part)])
}

/// Discards every member that no rule took.
fn discard_rest(node: Node<'_, '_>, reason: Reason) {
    for (_, member) in node.members().into_iter().flatten() {
        if !member.is_marked() {
            member.discard(reason);
        }
    }
}

fn fingerprint_without(value: &Value, without: &[&str]) -> Digest {
    let members = value.as_object().unwrap_or_default().iter();
    let kept = members.filter(|(name, _)| !without.iter().any(|known| name == *known));
    Digest::of(&python::rye(&Value::Object(kept.cloned().collect())))
}

fn tokens(usage: &Value) -> Tokens {
    let of = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or_default();
    Tokens {
        input: of("input_tokens"),
        output: of("output_tokens"),
        cached: of("cached_input_tokens"),
        reasoning: of("reasoning_output_tokens"),
    }
}
