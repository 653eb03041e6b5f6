//! `OpenAI` Agents SDK: the items of a session, and the state of a run.
//!
//! ```text
//! {"$schemaVersion":V,"original_input":TEXT|[ITEM,…],"generated_items":[RUN,…],
//!  "session_items":[RUN,…],"model_responses":[{"output":[ITEM,…],"usage":{…}},…],
//!  "context":{"usage":{…},…},"current_agent":{"name"},…}              a run's state (to_json)
//! RUN:  {"type":"message_output_item|tool_call_item|…","agent":{"name"},"raw_item":ITEM,"output"}
//! [ITEM,…]      ITEM, one on each line      {"message_data":ITEM|"ITEM",…}, one on each line
//! ITEM: {"role","content"} | {"type":"message|reasoning|function_call|function_call_output|…",…}
//! ```
//!
//! A "line" is the number of the item. Of a run's state it is counted through its lists, in their
//! order above, and 0 is the object that contains them. Items that follow one another and that the
//! model made are one turn.
//!
//! `spec/scroll-mappings.md` C17 has the table of members.

use super::account::{Account, Reason, Tokens};
use super::chat::{Chat, arguments};
use super::draft::{
    Draft, Message, Source, ToolCall, ToolResult, call_item, redacted_thinking_item, result_item,
    text_item, thinking_item,
};
use super::format::{Confidence, Format, Head, Mark};
use super::mapped::Mapped;
use super::source::{Node, Reading, json_objects, read_json};
use super::thread::{
    Thread, count_of, document, extend, fingerprint, part_item, says_nothing, take_rest,
};
use std::collections::HashMap;
use threadseal_core::canon::json::Value;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_JSON_VALUES;
use threadseal_formats::scroll::Role;

const NAME: &str = "openai-agents";
const VENDOR: &str = "openai";
/// Lists of a run's state that contain items.
const LISTS: [&str; 4] = [
    "original_input",
    "generated_items",
    "session_items",
    "model_responses",
];

pub(super) const FORMAT: Format = Format {
    name: NAME,
    about: "OpenAI Agents SDK session items, or the JSON of a RunState",
    detect,
    map,
};

fn detect(head: &Head<'_>) -> Option<Mark> {
    let state = |document: &Value| {
        document.get("$schemaVersion").is_some() && document.get("original_input").is_some()
    };
    let why = "an object with `$schemaVersion` and `original_input`";
    if head.document.as_ref().is_some_and(state) {
        return Mark::when(true, Confidence::Certain, why);
    }
    let stored = |line: &Value| line.get("message_data").is_some();
    let why = "lines with `message_data`";
    if head.lines.first().is_some_and(stored) {
        return Mark::when(true, Confidence::Likely, why);
    }
    let list = head.document.as_ref().and_then(Value::as_array);
    let items = list.unwrap_or(&head.lines);
    let known = |item: &Value| is_item(item) || item.get("role").is_some();
    let ours = !items.is_empty() && items.iter().all(known) && items.iter().any(is_item);
    let why = "a list of items like `function_call` with `call_id`";
    Mark::when(ours, Confidence::Likely, why)
}

/// Whether this is an item that only the Responses API has.
fn is_item(item: &Value) -> bool {
    let kind = item.get("type").and_then(Value::as_str).unwrap_or_default();
    let call = kind.ends_with("_call") || kind.ends_with("_call_output");
    let named = item.get("call_id").is_some() || item.get("id").is_some();
    (call && named && item.get("payload").is_none())
        || (kind == "reasoning" && item.get("summary").is_some())
}

fn map(source: &[u8]) -> Result<Mapped, Error> {
    let mut session = Session::default();
    let mut account = Account::default();
    match document(source) {
        Ok(Value::Array(items)) => session.list(&items, &mut account),
        Ok(state) if state.get("original_input").is_some() => session.state(&state, &mut account),
        _ => {
            let mut items = Vec::new();
            json_objects(source, MAX_JSON_VALUES, &mut account, |_, line, value| {
                items.push((line, value));
            });
            for (line, value) in &items {
                session.record(value, *line, &mut account);
            }
        }
    }
    session.flush();
    if account.records == 0 {
        let message = "neither items nor the state of a run";
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    Ok(session.thread.finish(account))
}

/// The turns of rows of `agent_messages`, each with its line.
pub(super) fn map_rows(rows: &[(u64, Value)], mut account: Account) -> Mapped {
    let mut session = Session::default();
    for (line, row) in rows {
        session.record(row, *line, &mut account);
    }
    session.flush();
    session.thread.finish(account)
}

/// Items that one turn is made of.
struct Pending {
    draft: Draft,
    items: Vec<Value>,
    facts: Source,
    lines: Vec<u64>,
}

struct Session {
    thread: Thread,
    pending: Option<Pending>,
    /// How often the scroll has an item, and how often the present list had it.
    carried: HashMap<Digest, u64>,
    listed: HashMap<Digest, u64>,
}

impl Default for Session {
    fn default() -> Self {
        Self {
            thread: Thread::new(NAME),
            pending: None,
            carried: HashMap::new(),
            listed: HashMap::new(),
        }
    }
}

impl Session {
    fn list(&mut self, items: &[Value], account: &mut Account) {
        for (number, item) in (1..).zip(items) {
            account.records += 1;
            self.record(item, number, account);
        }
    }

    /// One record of a list or of JSON Lines; a row of a table contains the item.
    fn record(&mut self, record: &Value, number: u64, account: &mut Account) {
        let reading = Reading::new(number, record);
        let root = reading.root();
        let row = root.get("message_data");
        match row.map(|row| (row, row.peek().as_str().map(str::to_owned))) {
            None if record.as_object().is_none() => return reading.refuse("not an item", account),
            None => self.item(root, number, Source::default()),
            Some((row, None)) => self.row(root, row, number),
            Some((row, Some(text))) => match read_json(text.as_bytes()) {
                Ok(item) if item.as_object().is_some() => {
                    let _ = row.read();
                    let source = self.facts(root);
                    let inner = Reading::new(number, &item);
                    self.item(inner.root(), number, source);
                    inner.finish(account);
                }
                _ => return reading.refuse("no item in message_data", account),
            },
        }
        reading.finish(account);
    }

    fn row(&mut self, root: Node<'_, '_>, item: Node<'_, '_>, number: u64) {
        let source = self.facts(root);
        self.item(item, number, source);
    }

    /// What a row has beside its item.
    fn facts(&self, root: Node<'_, '_>) -> Source {
        let mut source = Source::default();
        source.set_some("session", root.take_of("session_id"));
        source.set_some("time", root.take_of("created_at"));
        source.set_some("row", root.take_of("id"));
        source
    }

    /// The state of a run.
    fn state(&mut self, state: &Value, account: &mut Account) {
        let reading = Reading::new(0, state);
        let root = reading.root();
        let usage = state
            .get("context")
            .and_then(|context| context.get("usage"));
        let usage = usage.map(tokens).unwrap_or_default();
        let asked = root.get("original_input").and_then(Node::text);
        let lists = LISTS.iter().filter_map(|name| root.get(name));
        for list in lists.filter(|list| list.peek().as_array().is_some()) {
            let _ = list.read();
        }
        let mut except = LISTS.to_vec();
        let responses = state.get("model_responses").and_then(Value::as_array);
        let last = state.get("last_model_response");
        if responses.and_then(<[_]>::last) == last {
            root.discard_all(&["last_model_response"], Reason::Duplicate);
            except.push("last_model_response");
        }
        root.discard_all(&["last_processed_response"], Reason::View);
        except.push("last_processed_response");
        let mut info = Value::Object(Vec::new());
        take_rest(root, &mut info, &except);
        self.thread.head().set("run", info);
        if let Some(text) = asked {
            let mut draft = Draft::new(Role::User, VENDOR);
            let items = vec![text_item(text)];
            draft.messages.push(Message::items(Role::User, items));
            let source = self.thread.source(&[0]);
            self.thread.push(draft, source);
        }
        reading.finish(account);
        let mut spent = Tokens::default();
        let mut number = 0;
        for name in LISTS {
            self.listed.clear();
            let list = state.get(name).and_then(Value::as_array);
            for entry in list.unwrap_or_default() {
                number += 1;
                account.records += 1;
                if let Some(usage) = entry.get("usage").filter(|_| name == "model_responses") {
                    spent.add(tokens(usage));
                }
                self.entry(name, entry, number, account);
            }
        }
        let counted = if usage == Tokens::default() {
            spent
        } else {
            usage
        };
        self.thread.count(counted);
        account.records = account.records.max(1);
    }

    /// One entry of a list of a run's state.
    fn entry(&mut self, list: &str, entry: &Value, number: u64, account: &mut Account) {
        if entry.as_object().is_none() {
            return account.unmapped(number, "not a JSON object");
        }
        let reading = Reading::new(number, entry);
        let root = reading.root();
        match list {
            "original_input" => self.once(root, number, Source::default()),
            "model_responses" => {
                let output = root.get("output").and_then(Node::items);
                for item in output.into_iter().flatten() {
                    self.once(item, number, Source::default());
                }
                let mut facts = Value::Object(Vec::new());
                take_rest(root, &mut facts, &["output"]);
                self.thread.head_list("model_responses", vec![facts]);
            }
            _ => self.run_item(root, number),
        }
        reading.finish(account);
    }

    /// An item with what the SDK adds to it.
    fn run_item(&mut self, root: Node<'_, '_>, number: u64) {
        let mut source = Source::default();
        let _ = root.told_by("type");
        let agent = root.get("agent").and_then(|agent| agent.text_of("name"));
        source.set_some("agent", agent);
        let Some(item) = root.get("raw_item") else {
            return self.item(root, number, source);
        };
        if let Some(output) = root.get("output").filter(|node| !node.peek().is_null()) {
            let same = item.peek().get("output") == Some(output.peek());
            output.discard(if same {
                Reason::Duplicate
            } else {
                Reason::View
            });
        }
        root.discard_all(&["tool_name"], Reason::Duplicate);
        let mut rest = Value::Object(Vec::new());
        take_rest(
            root,
            &mut rest,
            &["raw_item", "agent", "type", "output", "tool_name"],
        );
        source.set_some("run_item", Some(rest).filter(|rest| !says_nothing(rest)));
        self.once(item, number, source);
    }

    /// Reads an item, unless the scroll has it as often as the present list.
    fn once(&mut self, item: Node<'_, '_>, number: u64, source: Source) {
        let print = fingerprint(item.peek());
        let listed = self.listed.entry(print).or_default();
        *listed += 1;
        if self
            .carried
            .get(&print)
            .is_some_and(|times| times >= listed)
        {
            item.discard(Reason::Duplicate);
        } else {
            *self.carried.entry(print).or_default() += 1;
            self.item(item, number, source);
        }
    }

    fn item(&mut self, item: Node<'_, '_>, number: u64, source: Source) {
        let kind = item.peek_str("type").unwrap_or_default().to_owned();
        let role = match item.peek_str("role") {
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            Some(_) => Role::System,
            None if kind.ends_with("_output") => Role::Tool,
            None => Role::Assistant,
        };
        let pending = self.open(role, number, source);
        match kind.as_str() {
            "" | "message" => message(item, pending),
            "reasoning" => reasoning(item, pending),
            _ if kind.ends_with("_output") => result(item, pending, number),
            _ if kind.ends_with("_call") || kind == "program" => call(item, pending, &kind, number),
            _ => pending.items.push(part_item(item)),
        }
    }

    /// The turn that an item of `role` belongs to: items of the model or of tools that follow one
    /// another are one.
    fn open(&mut self, role: Role, number: u64, facts: Source) -> &mut Pending {
        let goes_on = self.pending.as_ref().is_some_and(|pending| {
            pending.draft.role == role
                && matches!(role, Role::Assistant | Role::Tool)
                && pending.facts.get("agent") == facts.get("agent")
        });
        if !goes_on {
            self.flush();
        }
        let pending = self.pending.get_or_insert_with(|| Pending {
            draft: Draft::new(role, VENDOR),
            items: Vec::new(),
            facts,
            lines: Vec::new(),
        });
        if pending.lines.last() != Some(&number) {
            pending.lines.push(number);
        }
        pending
    }

    /// Adds the turn that was open.
    fn flush(&mut self) {
        let Some(pending) = self.pending.take() else {
            return;
        };
        let Pending {
            mut draft,
            items,
            facts,
            lines,
        } = pending;
        let mut source = self.thread.source(&lines);
        source.absorb(facts);
        draft.messages.push(Message::items(draft.role, items));
        self.thread.push(draft, source);
    }
}

fn message(item: Node<'_, '_>, pending: &mut Pending) {
    let _ = (item.told_by("type"), item.told_by("role"));
    let mut chat = Chat::default();
    if let Some(content) = item.get("content") {
        chat.content(content);
    }
    pending.items.append(&mut chat.items);
    pending.draft.tool_calls.append(&mut chat.calls);
    pending.draft.tool_results.append(&mut chat.results);
    beside(item, pending, &["content"]);
}

fn reasoning(item: Node<'_, '_>, pending: &mut Pending) {
    let _ = item.told_by("type");
    for name in ["summary", "content"] {
        let parts = item.get(name).and_then(Node::items);
        for part in parts.into_iter().flatten() {
            let _ = part.told_by("type");
            let text = part.text_of("text").filter(|text| !text.is_empty());
            pending.items.extend(text.map(thinking_item));
        }
    }
    let hidden = item.text_of("encrypted_content");
    pending.items.extend(hidden.map(redacted_thinking_item));
    beside(item, pending, &["summary", "content", "encrypted_content"]);
}

/// A call: its arguments are `arguments`, `input`, `action`, or all other members.
fn call(item: Node<'_, '_>, pending: &mut Pending, kind: &str, number: u64) {
    const TOLD: [&str; 5] = ["type", "id", "call_id", "name", "status"];
    let id = item.text_of("call_id").or_else(|| item.text_of("id"));
    let id = id.unwrap_or_else(|| format!("call-{number}"));
    let tool = kind.strip_suffix("_call").unwrap_or(kind);
    let name = item.text_of("name").unwrap_or_else(|| tool.to_owned());
    let given = ["arguments", "input", "action", "operation"]
        .into_iter()
        .find_map(|name| Some((name, item.get(name)?)));
    let mut place = call_item(&id);
    let args = match given {
        Some((name, node)) => {
            let args = arguments(node);
            take_rest(item, &mut place, &[&TOLD[..], &[name]].concat());
            args
        }
        None => {
            let mut args = Value::Object(Vec::new());
            take_rest(item, &mut args, &TOLD);
            args
        }
    };
    if !matches!(kind, "function_call") {
        extend(&mut place, "kind", Some(kind.into()));
    }
    let _ = item.told_by("type");
    extend(&mut place, "item", item.text_of("id").map(Value::from));
    extend(&mut place, "status", item.take_of("status"));
    pending.items.push(place);
    pending.draft.tool_calls.push(ToolCall::new(id, name, args));
}

fn result(item: Node<'_, '_>, pending: &mut Pending, number: u64) {
    let id = item.text_of("call_id").or_else(|| item.text_of("id"));
    let id = id.unwrap_or_else(|| format!("result-{number}"));
    let failed = matches!(item.peek_str("status"), Some("failed" | "incomplete"));
    let response = item.get("output").map_or(Value::Null, Node::take);
    let mut place = result_item(&id);
    if item.peek_str("type") != Some("function_call_output") {
        extend(&mut place, "kind", item.take_of("type"));
    }
    let _ = item.told_by("type");
    take_rest(item, &mut place, &["type", "call_id", "output"]);
    pending.items.push(place);
    let result = ToolResult::new(id, !failed, response);
    pending.draft.tool_results.push(result);
}

/// The other members of an item, in the list `item` of the source item.
fn beside(item: Node<'_, '_>, pending: &mut Pending, told: &[&str]) {
    let mut rest = Value::Object(Vec::new());
    take_rest(item, &mut rest, &[told, &["type", "role"]].concat());
    if says_nothing(&rest) {
        return;
    }
    let mut known = match pending.facts.get("items") {
        Some(Value::Array(known)) => known.clone(),
        _ => Vec::new(),
    };
    known.push(rest);
    pending.facts.set("items", Value::Array(known));
}

fn tokens(usage: &Value) -> Tokens {
    let details = |name: &str, count: &str| {
        let details = usage.get(name);
        let first = details.and_then(Value::as_array).and_then(<[_]>::first);
        let details = first.or(details);
        details
            .map(|details| count_of(details, count))
            .unwrap_or_default()
    };
    Tokens {
        input: count_of(usage, "input_tokens"),
        output: count_of(usage, "output_tokens"),
        cached: details("input_tokens_details", "cached_tokens"),
        reasoning: details("output_tokens_details", "reasoning_tokens"),
    }
}

#[cfg(test)]
mod tests;
