//! Traces: the conversation in spans, each message once.
//!
//! The span of a model request repeats the whole conversation so far, and the spans around it
//! repeat it again. Spans are read in the order of their start: first model requests, then tools,
//! then the others. A message is a duplicate if the scroll has it as often as one list does, in any
//! shape. Any other value is a duplicate if the scroll has each of its texts. The turns are then
//! sorted by their moments: input at the start of its span, output at the end.
//!
//! A call or a result with an id of its own is a duplicate if the scroll has it, in any message.
//!
//! Tokens are counted for spans without a span below them that reports tokens. A request that a log
//! record reports, too, is counted once.

use super::account::{Account, Reason, Tokens};
use super::chat::{Chat, held_json, rest};
use super::draft::{
    Draft, Message, Model, Params, Source, ToolCall, ToolResult, call_item, result_item,
};
use super::fit::push_segment;
use super::mapped::Mapped;
use super::source::{Node, Reading};
use super::thread;
use super::thread::{Thread, part_item, says_nothing};
use shapes::Shape;
use std::collections::{HashMap, HashSet};
use threadseal_core::canon::json::Value;
use threadseal_core::digest::Digest;
use threadseal_formats::scroll::Role;

pub(super) mod shapes;

/// The subject of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A request to a model.
    Model,
    /// A call of a tool.
    Tool,
    /// Anything around them.
    Other,
}

/// A part of a span's content, and its place in the source.
pub(super) struct Part<'r, 'a> {
    /// The value, fit for a scroll.
    pub(super) value: Value,
    /// The nodes that it was made of; of several, each with the place of its message.
    pub(super) nodes: Vec<(usize, Node<'r, 'a>)>,
    /// The pointer of the value in the record, if it is made of one node.
    ///
    /// Inside a string of JSON, or an OTLP value, it continues in the JSON that this represents.
    pub(super) pointer: Option<String>,
    /// The role, if the part does not name one.
    pub(super) role: &'static str,
}

/// One span, read except for its parts.
pub(super) struct Span<'r, 'a> {
    pub(super) number: u64,
    pub(super) kind: Kind,
    pub(super) id: Option<String>,
    pub(super) parent: Option<String>,
    pub(super) start: Option<u64>,
    pub(super) end: Option<u64>,
    pub(super) model: Model,
    pub(super) params: Params,
    pub(super) tokens: Tokens,
    pub(super) inputs: Vec<Part<'r, 'a>>,
    pub(super) outputs: Vec<Part<'r, 'a>>,
    /// Name and id of a tool that was called.
    pub(super) tool: (Option<String>, Option<String>),
    /// Whether a tool failed.
    pub(super) failed: bool,
    /// Where it is a report of a request or a call that others report, too.
    pub(super) report: Report,
    /// Members for the source item, the first turn has all of them.
    pub(super) facts: Source,
}

/// What identifies the reports of one thing, as a span and as a log record.
#[derive(Default)]
pub(super) struct Report {
    /// The program whose spans and log records report the same things; empty if unknown.
    pub(super) program: &'static str,
    /// Whether this is a log record.
    pub(super) is_log: bool,
    /// The vendor's name for the request to the model.
    pub(super) request: Option<String>,
}

/// The spans of one source while they are carried.
pub(super) struct Trace {
    pub(super) thread: Thread,
    pub(super) account: Account,
    carried: HashMap<Digest, u64>,
    texts: HashSet<Digest>,
    calls: HashSet<Digest>,
    answers: HashSet<Digest>,
    /// Calls and results that have a name of their own, by that and the name of the tool.
    named_calls: HashSet<(String, String)>,
    named_answers: HashSet<String>,
    turns: Vec<(u64, Draft, Source)>,
    /// Parts of values that are dropped as duplicates, until their record is reported.
    repeated: Vec<(u64, String)>,
}

impl Trace {
    pub(super) fn new(format: &'static str) -> Self {
        Self {
            thread: Thread::new(format),
            account: Account::default(),
            carried: HashMap::new(),
            texts: HashSet::new(),
            calls: HashSet::new(),
            answers: HashSet::new(),
            named_calls: HashSet::new(),
            named_answers: HashSet::new(),
            turns: Vec::new(),
            repeated: Vec::new(),
        }
    }

    /// Carries the content of the spans.
    pub(super) fn carry(&mut self, mut spans: Vec<Span<'_, '_>>) {
        self.spend(&mut spans);
        // A log record of a call has all of its arguments; a span may have some.
        let is_copy = |span: &Span<'_, '_>| span.kind == Kind::Tool && !span.report.is_log;
        spans.sort_by_key(|span| {
            let start = span.start.unwrap_or_default();
            (span.kind, is_copy(span), start, span.number)
        });
        for span in spans {
            self.span(span);
        }
        self.repeated
            .sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    }

    /// Counts the tokens of each request once: of spans, those without a span below them that
    /// reports tokens; of log records, those that no span of their program reports.
    fn spend(&mut self, spans: &mut [Span<'_, '_>]) {
        let covered = covered(spans);
        let mut requests: HashSet<String> = HashSet::new();
        let mut programs: HashSet<&str> = HashSet::new();
        let is_empty = |span: &Span<'_, '_>| span.tokens == Tokens::default();
        for span in spans.iter_mut().filter(|span| !span.report.is_log) {
            let below = span.id.as_ref().is_some_and(|id| covered.contains(id));
            if below || is_empty(span) {
                continue;
            }
            programs.insert(span.report.program);
            let request = span.report.request.clone();
            if request.is_none_or(|request| requests.insert(request)) {
                self.thread.spend(&mut span.facts, span.tokens);
            }
        }
        for span in spans.iter_mut().filter(|span| span.report.is_log) {
            if is_empty(span) {
                continue;
            }
            let program = span.report.program;
            let counts = match span.report.request.clone() {
                Some(request) => requests.insert(request),
                None => program.is_empty() || !programs.contains(program),
            };
            if counts {
                self.thread.spend(&mut span.facts, span.tokens);
            }
        }
    }

    /// Reports the record `number`, which was read, to the account. Records are reported in order.
    pub(super) fn tell(&mut self, number: u64, reading: Reading<'_>) {
        while let Some((_, pointer)) = self.repeated.pop_if(|(of, _)| *of <= number) {
            self.account.drop_part(number, &pointer, Reason::Duplicate);
        }
        reading.finish(&mut self.account);
    }

    /// All turns in their order, and the account.
    pub(super) fn finish(mut self) -> Mapped {
        self.turns.sort_by_key(|(moment, ..)| *moment);
        for (_, draft, source) in self.turns {
            self.thread.push(draft, source);
        }
        self.thread.finish(self.account)
    }

    /// Whether the scroll has every text of `value`, and `value` has one.
    pub(super) fn says(&self, value: &Value) -> bool {
        let mut texts = Vec::new();
        leaves(value, &mut texts);
        !texts.is_empty() && texts.iter().all(|text| self.texts.contains(text))
    }

    fn span(&mut self, mut span: Span<'_, '_>) {
        let before = self.turns.len();
        if span.kind == Kind::Tool && self.tool(&mut span) {
            span.inputs.clear();
            span.outputs.clear();
        }
        let inputs = std::mem::take(&mut span.inputs);
        for part in inputs {
            let moment = span.start;
            self.part(&part, moment, &span);
        }
        let outputs = std::mem::take(&mut span.outputs);
        for part in outputs {
            let moment = span.end.or(span.start);
            self.part(&part, moment, &span);
        }
        if self.turns.len() == before {
            let mut draft = draft(&span, Role::System);
            draft.timestamp_ns = span.start;
            self.add(draft, Source::default());
        }
        if let Some((_, _, source)) = self.turns.get_mut(before) {
            source.absorb(span.facts);
        }
    }

    /// Adds a call and its answer, unless the scroll has them. Returns whether they were read.
    fn tool(&mut self, span: &mut Span<'_, '_>) -> bool {
        let input = match span.inputs.as_slice() {
            [] if span.tool.1.is_some() => None,
            [input] => Some(input),
            _ => return false,
        };
        let output = match span.outputs.as_slice() {
            [] => None,
            [output] => Some(output),
            _ => return false,
        };
        let name = span.tool.0.clone().unwrap_or_default();
        let given = span.tool.1.clone();
        let id = given
            .clone()
            .unwrap_or_else(|| format!("span-{}", span.number));
        let args = input.map_or(Value::Null, |input| unwrapped(&input.value));
        let call = ToolCall::new(id.clone(), name.clone(), args);
        let result =
            output.map(|part| ToolResult::new(id.clone(), !span.failed, part.value.clone()));
        let mut turn = draft(span, Role::Tool);
        turn.timestamp_ns = span.end.or(span.start);
        let mut items = Vec::new();
        let known = given.as_ref().is_some_and(|id| self.knows_call(id, &name));
        if known || self.calls.contains(&call_key(&call)) {
            input.into_iter().for_each(discard);
        } else {
            items.push(call_item(&id));
            turn.tool_calls.push(call);
        }
        if let (Some(result), Some(output)) = (result, output) {
            let same = result
                .response
                .as_ref()
                .is_some_and(|body| self.answers.contains(&body_key(body)));
            let answered = given
                .as_ref()
                .is_some_and(|id| self.named_answers.contains(id));
            // Where the scroll has the call, it has its answer by that name or not at all: equal
            // answers of two calls are two answers.
            if answered || (!known && (same || self.says(&output.value))) {
                discard(output);
            } else {
                items.push(result_item(&id));
                turn.tool_results.push(result);
            }
        }
        if !items.is_empty() {
            turn.messages.push(Message::items(Role::Tool, items));
            self.add(turn, self.thread.source(&[span.number]));
        }
        true
    }

    /// Whether the scroll has the call of this name of its own.
    fn knows_call(&self, id: &str, name: &str) -> bool {
        let has = |name: &str| {
            let key = (id.to_owned(), name.to_owned());
            self.named_calls.contains(&key)
        };
        has(name) || (name.is_empty() && self.named_calls.iter().any(|(known, _)| known == id))
    }

    /// Whether the scroll has each part of a message: its calls and results by their own names, its
    /// texts. A message without calls and results has no such names.
    fn knows_parts(&self, chat: &Chat) -> bool {
        let calls = chat.calls.iter();
        let results = chat.results.iter();
        let named = !chat.calls.is_empty() || !chat.results.is_empty();
        named
            && calls.clone().all(|call| {
                self.knows_call(&call.id, &call.name)
                    && (self.calls.contains(&call_key(call)) || is_without_args(call))
            })
            && results
                .clone()
                .all(|result| self.named_answers.contains(&result.id))
            && chat.items.iter().all(|item| {
                let kind = item.get("type").and_then(Value::as_str);
                matches!(kind, Some("tool_call" | "tool_result")) || self.says(item)
            })
    }

    /// One part: its messages, or else all of it.
    fn part(&mut self, part: &Part<'_, '_>, moment: Option<u64>, span: &Span<'_, '_>) {
        if says_nothing(&part.value) {
            return part
                .nodes
                .iter()
                .for_each(|(_, node)| node.retract(Reason::Empty));
        }
        let Some(Shape { messages, rest }) = shapes::messages(&part.value, part.role) else {
            if self.says(&part.value) {
                return discard(part);
            }
            let mut draft = draft(span, Role::System);
            draft.timestamp_ns = moment;
            draft
                .messages
                .push(Message::items(Role::System, vec![part_of(&part.value)]));
            return self.add(draft, self.thread.source(&[span.number]));
        };
        let (rest, said) = match rest {
            Some(rest) if self.says(&rest) => (None, Some(rest)),
            rest => (rest, None),
        };
        let mut seen: HashMap<Digest, u64> = HashMap::new();
        let mut repeated = Vec::new();
        let mut new = false;
        for (place, message) in messages.into_iter().enumerate() {
            let (chat, told) = read(&message.value, span.number, self.turns.len());
            let key = chat_key(&chat);
            let times = seen.entry(key).or_default();
            *times += 1;
            let carried = self.carried.get(&key).copied().unwrap_or_default();
            let empty = chat.items.is_empty() && told.is_none();
            if carried >= *times || empty || self.knows_parts(&chat) {
                repeated.push((Some(place), message.pointer));
                continue;
            }
            new = true;
            *self.carried.entry(key).or_default() += 1;
            let mut draft = draft(span, chat.turn_role());
            draft.timestamp_ns = moment;
            chat.say(&mut draft);
            let mut source = self.thread.source(&[span.number]);
            source.set_some("message_rest", told);
            self.add(draft, source);
        }
        if !new && rest.is_none() {
            return discard(part);
        }
        for (name, _) in said.iter().filter_map(Value::as_object).flatten() {
            let mut inner = String::new();
            push_segment(&mut inner, name.as_str().unwrap_or_default());
            repeated.push((None, inner));
        }
        self.repeated(part, span.number, &repeated);
        if let Some(rest) = rest {
            let mut draft = draft(span, Role::System);
            draft.timestamp_ns = moment;
            draft
                .messages
                .push(Message::items(Role::System, vec![part_of(&rest)]));
            self.add(draft, self.thread.source(&[span.number]));
        }
    }

    /// Notes the parts of a carried value that the scroll already has: places of messages,
    /// pointers.
    fn repeated(&mut self, part: &Part<'_, '_>, number: u64, repeated: &[(Option<usize>, String)]) {
        if let Some(pointer) = &part.pointer {
            for (_, inner) in repeated {
                let pointer = format!("{pointer}{inner}");
                self.repeated.push((number, pointer));
            }
            return;
        }
        let places: HashSet<usize> = repeated.iter().filter_map(|(place, _)| *place).collect();
        for (_, node) in part
            .nodes
            .iter()
            .filter(|(place, _)| places.contains(place))
        {
            node.retract(Reason::Duplicate);
        }
    }

    fn add(&mut self, draft: Draft, source: Source) {
        for call in &draft.tool_calls {
            self.calls.insert(call_key(call));
            self.named_calls
                .insert((call.id.clone(), call.name.clone()));
        }
        let answered = draft.tool_results.iter().map(|result| result.id.clone());
        self.named_answers.extend(answered);
        for body in draft
            .tool_results
            .iter()
            .filter_map(|result| result.response.as_ref())
        {
            self.answers.insert(body_key(body));
        }
        let mut texts = Vec::new();
        draft
            .messages
            .iter()
            .for_each(|message| leaves(&message.content, &mut texts));
        let args = draft
            .tool_calls
            .iter()
            .filter_map(|call| call.args.as_ref());
        let responses = draft
            .tool_results
            .iter()
            .filter_map(|result| result.response.as_ref());
        args.chain(responses)
            .for_each(|body| leaves(body, &mut texts));
        self.texts.extend(texts);
        self.turns
            .push((draft.timestamp_ns.unwrap_or_default(), draft, source));
    }
}

/// Spans above others that report tokens: their own tokens are a sum.
fn covered(spans: &[Span<'_, '_>]) -> HashSet<String> {
    let named = spans
        .iter()
        .filter_map(|span| Some((span.id.as_deref()?, span.parent.as_deref()?)));
    let parents: HashMap<&str, &str> = named.collect();
    let mut covered = HashSet::new();
    for span in spans.iter().filter(|span| span.tokens != Tokens::default()) {
        let mut place = span.parent.as_deref();
        while let Some(id) = place.filter(|id| !covered.contains(*id)) {
            covered.insert(id.to_owned());
            place = parents.get(id).copied();
        }
    }
    covered
}

fn draft(span: &Span<'_, '_>, role: Role) -> Draft {
    let mut draft = Draft::new(role, "");
    draft.model.clone_from(&span.model);
    draft.params.clone_from(&span.params);
    draft
}

fn discard(part: &Part<'_, '_>) {
    part.nodes
        .iter()
        .for_each(|(_, node)| node.retract(Reason::Duplicate));
}

/// Reads a single message, and returns the members that `chat` does not read.
fn read(message: &Value, number: u64, turn: usize) -> (Chat, Option<Value>) {
    let reading = Reading::new(number, message);
    let root = reading.root();
    let mut chat = Chat::read(root, &format!("call-{number}-{turn}"));
    let told = rest(root, &[]);
    let mut account = Account::default();
    reading.finish(&mut account);
    let unknown = account
        .dropped()
        .any(|group| group.reason == Reason::Unknown.as_str());
    if unknown {
        let reading = Reading::new(number, message);
        chat.items.push(part_item(reading.root()));
    }
    (chat, told)
}

fn part_of(value: &Value) -> Value {
    let reading = Reading::new(0, value);
    part_item(reading.root())
}

/// The arguments of a tool that is described as `{"input":…}`.
fn unwrapped(value: &Value) -> Value {
    match value.as_object() {
        Some([(name, inner)]) if name == "input" && inner.as_object().is_some() => inner.clone(),
        _ => value.clone(),
    }
}

/// The digest of a message in any shape: without ids, which some shapes omit.
fn chat_key(chat: &Chat) -> Digest {
    let role = match chat.turn_role() {
        Role::System => Value::from(chat.role.as_str()),
        role => role.as_str().into(),
    };
    let mut said = vec![role];
    let calls = chat.calls.iter().map(|call| call_key(call).to_hex().into());
    let bodies = chat
        .results
        .iter()
        .filter_map(|result| result.response.as_ref());
    for item in &chat.items {
        let kind = item.get("type").and_then(Value::as_str);
        match kind {
            Some("text") => said.extend(item.get("text").cloned()),
            Some("tool_call" | "tool_result" | "thinking" | "redacted_thinking") => {}
            _ => said.push(item.clone()),
        }
    }
    said.extend(calls);
    said.extend(bodies.map(|body| body_key(body).to_hex().into()));
    if said.len() == 1 {
        // A message of nothing but reasoning: that is what distinguishes it.
        let thoughts = chat.items.iter();
        said.extend(thoughts.filter_map(|item| item.get("thinking").cloned()));
    }
    thread::fingerprint(&Value::Array(said))
}

/// Whether a call has no arguments: some shapes omit an empty object.
fn is_without_args(call: &ToolCall) -> bool {
    call.args.as_ref().is_none_or(says_nothing)
}

fn call_key(call: &ToolCall) -> Digest {
    let args = call.args.clone().unwrap_or(Value::Null);
    thread::fingerprint(&Value::Array(vec![call.name.as_str().into(), args]))
}

/// The digest of a body. A string of JSON counts as that JSON, a list of one text as the text.
fn body_key(body: &Value) -> Digest {
    let mut texts = Vec::new();
    leaves(body, &mut texts);
    match texts.as_slice() {
        [] => thread::fingerprint(body),
        texts => thread::fingerprint(&Value::Array(
            texts.iter().map(|text| text.to_hex().into()).collect(),
        )),
    }
}

/// Every text of `value`, with strings of JSON opened. Words of the shape (`type`, `role`, `id`) do
/// not count.
fn leaves(value: &Value, texts: &mut Vec<Digest>) {
    match value {
        Value::String(text) if !text.as_bytes().is_empty() => {
            match text.as_str().and_then(held_json) {
                Some(held) => leaves(&held, texts),
                None => texts.push(Digest::of(text.as_bytes())),
            }
        }
        Value::Array(elements) => elements.iter().for_each(|element| leaves(element, texts)),
        Value::Object(members) => {
            let content = members.iter().filter(|(name, _)| {
                !["type", "role", "id", "finish_reason", "mime_type"]
                    .iter()
                    .any(|word| name == *word)
            });
            content.for_each(|(_, value)| leaves(value, texts));
        }
        _ => {}
    }
}
