//! SWE-agent trajectories (`*.traj`): one JSON object.
//!
//! ```text
//! {"environment":E,"history":[ENTRY,…],"trajectory":[STEP,…],"info":{…},"replay_config":{…}|"{…}"}
//! ENTRY: {"role","content","agent","message_type","thought","action","tool_calls","tool_call_ids"}
//! STEP:  {"response","thought","action","observation","state","execution_time",
//!         "messages":[ENTRY,…]}
//! ```
//!
//! The history is the conversation of the model, and the trajectory repeats most of it. A "line" is
//! the number of the entry. The numbers of steps continue after the last entry. Line 0 is the part
//! that contains both. A step belongs to the entry of the assistant with its `response`, matched in
//! order.
//!
//! `spec/scroll-mappings.md` C3 has the table of members.

use super::account::{Account, Reason, Tokens, object};
use super::chat::{Chat, held_json, rest};
use super::draft::{
    Draft, Message, Params, Source, ToolCall, ToolResult, call_item, result_item, text_item,
};
use super::format::{Confidence, Format, Head, Mark};
use super::mapped::Mapped;
use super::repeats::RepeatedTexts;
use super::source::{Node, Reading};
use super::thread::{Thread, document, part_item, says_nothing, take_rest, vendor_of};
use std::collections::HashMap;
use threadseal_core::canon::json::{Number, Value};
use threadseal_core::error::Error;
use threadseal_formats::scroll::Role;

const NAME: &str = "swe-agent";

pub(super) const FORMAT: Format = Format {
    name: NAME,
    about: "SWE-agent trajectory (*.traj)",
    detect,
    map,
};

fn detect(head: &Head<'_>) -> Option<Mark> {
    let why = "an object with `trajectory` of actions and observations, or `history`";
    Mark::when(is_ours(head), Confidence::Likely, why)
}

fn is_ours(head: &Head<'_>) -> bool {
    let Some(document) = &head.document else {
        return false;
    };
    let history = document.get("history").and_then(Value::as_array);
    let entry = |entry: &Value| entry.get("role").is_some() && entry.get("content").is_some();
    let steps = document.get("trajectory").and_then(Value::as_array);
    let step = |step: &Value| step.get("action").is_some() && step.get("observation").is_some();
    history.is_some_and(|history| history.first().is_some_and(entry))
        || steps.is_some_and(|steps| steps.first().is_some_and(step))
}

fn map(source: &[u8]) -> Result<Mapped, Error> {
    let document = document(source)?;
    let list = |name| {
        document
            .get(name)
            .and_then(Value::as_array)
            .unwrap_or_default()
    };
    let (history, steps) = (list("history"), list("trajectory"));
    let mut run = Run {
        thread: Thread::new(NAME),
        account: Account::default(),
        said: RepeatedTexts::default(),
        steps,
        step_of: HashMap::new(),
        first_step: 1 + number(history.len()),
        model: String::new(),
        params: Params::default(),
        pending: None,
        readings: Vec::new(),
    };
    run.head(&document);
    run.pair(history);
    for (index, entry) in history.iter().enumerate() {
        run.entry(history, index, entry);
    }
    run.rest_of_steps();
    run.readings.sort_by_key(|(line, _)| *line);
    for (_, reading) in run.readings {
        reading.finish(&mut run.account);
    }
    Ok(run.thread.finish(run.account))
}

/// One file while it is read.
struct Run<'a> {
    thread: Thread,
    account: Account,
    said: RepeatedTexts,
    steps: &'a [Value],
    /// The step of each entry of the assistant, where there is one.
    step_of: HashMap<usize, usize>,
    /// The number of the first step.
    first_step: u64,
    model: String,
    params: Params,
    /// The action that the next entry answers.
    pending: Option<String>,
    /// Steps that were read. They are reported in order, after the entries.
    readings: Vec<(u64, Reading<'a>)>,
}

impl<'a> Run<'a> {
    fn head(&mut self, document: &Value) {
        let reading = Reading::new(0, document);
        let root = reading.root();
        for name in ["history", "trajectory"] {
            if let Some(list) = root
                .get(name)
                .filter(|list| list.peek().as_array().is_some())
            {
                let _ = list.read();
            }
        }
        let config = document.get("replay_config");
        let held = config.and_then(Value::as_str).and_then(held_json);
        let settings = held.as_ref().or(config);
        let model = settings.and_then(|settings| settings.get("agent")?.get("model"));
        if let Some(model) = model {
            let number = |name| -> Option<Number> { model.get(name)?.as_number().cloned() };
            let name = model.get("name").or_else(|| model.get("model_name"));
            self.model = name.and_then(Value::as_str).unwrap_or_default().to_owned();
            self.params.temperature = number("temperature");
            self.params.top_p = number("top_p");
        }
        let stats = document
            .get("info")
            .and_then(|info| info.get("model_stats"));
        let count = |name| {
            stats
                .and_then(|stats| stats.get(name)?.as_u64())
                .unwrap_or_default()
        };
        self.thread.count(Tokens {
            input: count("tokens_sent"),
            output: count("tokens_received"),
            ..Tokens::default()
        });
        let config = root.get("replay_config");
        let config =
            config
                .filter(|config| !says_nothing(config.peek()))
                .map(|config| match &held {
                    Some(held) => config.take_held(held),
                    None => config.take(),
                });
        let head = self.thread.head();
        head.set_some("replay_config", config);
        for name in ["environment", "info"] {
            head.set_some(name, root.take_of(name));
        }
        reading.finish(&mut self.account);
    }

    /// Matches steps to entries, and notes the content of the history.
    fn pair(&mut self, history: &[Value]) {
        for text in history.iter().filter_map(content) {
            self.said.note(text);
        }
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        for (place, entry) in history.iter().enumerate() {
            if let Some(text) = content(entry).filter(|_| speaks(entry, "assistant")) {
                places.entry(text).or_default().push(place);
            }
        }
        let mut from = 0;
        for (index, step) in self.steps.iter().enumerate() {
            let response = step.get("response").and_then(Value::as_str);
            let Some(same) = response.and_then(|response| places.get(response)) else {
                continue;
            };
            if let Some(place) = same.get(same.partition_point(|place| *place < from)) {
                self.step_of.insert(*place, index);
                from = place + 1;
            }
        }
    }

    fn entry(&mut self, history: &[Value], index: usize, entry: &'a Value) {
        let line = number(index) + 1;
        self.account.records += 1;
        if entry.as_object().is_none() {
            return self.account.unmapped(line, "not a JSON object");
        }
        let reading = Reading::new(line, entry);
        let node = reading.root();
        let mut draft = self.draft(Role::System);
        let step = self.step_of.get(&index).copied();
        let answered = self.pending.take().filter(|_| speaks(entry, "user"));
        if speaks(entry, "tool") || answered.is_some() {
            answer(node, answered, line, &mut draft);
        } else {
            let chat = Chat::read(node, &format!("call-{line}"));
            draft.role = chat.turn_role();
            chat.say(&mut draft);
        }
        let text = content(entry).unwrap_or_default();
        let mut records = vec![line];
        let mut step_facts = None;
        if draft.role == Role::Assistant {
            self.pending = action(node, &mut draft, line);
            if let Some(step) = step {
                let answer = history.get(index + 1).and_then(content).unwrap_or_default();
                records.push(self.first_step + number(step));
                step_facts = self.step(step, Some((text, answer)), &mut draft);
            }
        }
        let thought = node
            .get("thought")
            .and_then(|thought| repeated_or_new(thought, text));
        let mut source = self.thread.source(&records);
        source.set_some("thought", thought);
        source.set_some("entry", rest(node, &["action", "thought", "tool_call_ids"]));
        reading.finish(&mut self.account);
        self.close(draft, source, step_facts);
    }

    /// Steps that belong to no entry.
    fn rest_of_steps(&mut self) {
        let paired: Vec<usize> = self.step_of.values().copied().collect();
        let mut told = vec![false; self.steps.len()];
        for step in paired {
            if let Some(told) = told.get_mut(step) {
                *told = true;
            }
        }
        for (step, _) in told.iter().enumerate().filter(|(_, told)| !**told) {
            let mut draft = self.draft(Role::Assistant);
            let facts = self.step(step, None, &mut draft);
            let source = self.thread.source(&[self.first_step + number(step)]);
            self.close(draft, source, facts);
        }
    }

    /// Adds the turn. It also adds the environment's answer, unless the file contains it elsewhere.
    fn close(&mut self, draft: Draft, mut source: Source, step: Option<StepFacts>) {
        let Some(step) = step else {
            self.thread.push(draft, source);
            return;
        };
        source.set_some("step", step.facts);
        let call = draft.tool_calls.last().map(|call| call.id.clone());
        self.thread.push(draft, source);
        if let Some(observation) = step.observation {
            let id = call.unwrap_or_else(|| format!("step-{}", step.line));
            let mut draft = self.draft(Role::Tool);
            draft
                .messages
                .push(Message::items(Role::Tool, vec![result_item(&id)]));
            draft
                .tool_results
                .push(ToolResult::new(id, true, observation));
            let source = self.thread.source(&[step.line]);
            self.thread.push(draft, source);
        }
    }

    /// Reads one step into the turn of its entry, or into a new one. The entry's text and answer
    /// are arguments.
    fn step(
        &mut self,
        index: usize,
        entry: Option<(&str, &str)>,
        draft: &mut Draft,
    ) -> Option<StepFacts> {
        let line = self.first_step + number(index);
        self.account.records += 1;
        let step = self.steps.get(index)?;
        if step.as_object().is_none() {
            self.account.unmapped(line, "not a JSON object");
            return None;
        }
        let reading = Reading::new(line, step);
        let node = reading.root();
        let text = entry.map(|(text, _)| text);
        let response = node.peek_str("response").unwrap_or_default();
        let mut items = Vec::new();
        if let Some(node) = node.get("response") {
            match text {
                Some(_) => node.discard(Reason::Duplicate),
                None => items.extend(node.text().filter(|text| !text.is_empty()).map(text_item)),
            }
        }
        if let Some(message) = Some(items).filter(|items| !items.is_empty()) {
            draft
                .messages
                .push(Message::items(Role::Assistant, message));
        }
        match text {
            Some(_) => node.discard_all(&["action"], Reason::Duplicate),
            None => {
                let _ = action(node, draft, line);
            }
        }
        let thought = node
            .get("thought")
            .and_then(|thought| repeated_or_new(thought, response));
        let answer = entry.map_or("", |(_, answer)| answer);
        let observation = node.get("observation");
        let observation = observation.and_then(|observation| repeated_or_new(observation, answer));
        let prompts = self.prompts(node);
        if !prompts.is_empty() {
            draft.messages.push(Message::items(Role::System, prompts));
        }
        let mut facts = Value::Object(Vec::new());
        take_rest(
            node,
            &mut facts,
            &[
                "response",
                "thought",
                "action",
                "observation",
                "messages",
                "query",
            ],
        );
        if let (Value::Object(members), Some(thought)) = (&mut facts, thought) {
            members.push(("thought".into(), thought));
        }
        self.readings.push((line, reading));
        Some(StepFacts {
            line,
            facts: Some(facts).filter(|facts| !says_nothing(facts)),
            observation,
        })
    }

    /// The input of the model in this step that the history does not contain.
    fn prompts(&mut self, node: Node<'_, '_>) -> Vec<Value> {
        let mut items = Vec::new();
        for name in ["messages", "query"] {
            for prompt in node.get(name).and_then(Node::items).into_iter().flatten() {
                match content(prompt.peek()) {
                    Some(text) if self.said.has(text) => prompt.discard(Reason::Duplicate),
                    Some(text) => {
                        self.said.note(text);
                        items.push(part_item(prompt));
                    }
                    None => items.push(part_item(prompt)),
                }
            }
        }
        items
    }

    fn draft(&self, role: Role) -> Draft {
        let mut draft = Draft::new(role, vendor_of(&self.model));
        draft.model.id = Some(self.model.clone()).filter(|model| !model.is_empty());
        draft.params = self.params.clone();
        draft
    }
}

/// Facts of a step that its entry lacks.
struct StepFacts {
    line: u64,
    facts: Option<Value>,
    observation: Option<Value>,
}

/// Reads the entry as the answer to a call.
fn answer(node: Node<'_, '_>, action: Option<String>, line: u64, draft: &mut Draft) {
    let _ = node.told_by("role");
    let first = node
        .get("tool_call_ids")
        .and_then(|ids| ids.items()?.next());
    let id = first
        .and_then(Node::text)
        .or_else(|| node.text_of("tool_call_id"));
    let id = id.or(action).unwrap_or_else(|| format!("call-{line}"));
    let response = node.get("content").map_or(Value::Null, Node::take);
    draft.role = Role::Tool;
    draft
        .messages
        .push(Message::items(Role::Tool, vec![result_item(&id)]));
    draft.tool_results.push(ToolResult::new(id, true, response));
}

/// Carries the action of an entry or step, unless its calls contain it. Returns the id of the call.
fn action(node: Node<'_, '_>, draft: &mut Draft, line: u64) -> Option<String> {
    let action = node
        .get("action")
        .filter(|action| !says_nothing(action.peek()))?;
    if !draft.tool_calls.is_empty() {
        action.discard(Reason::View);
        return None;
    }
    let id = format!("step-{line}");
    let args = object([("action", action.take())]);
    draft
        .tool_calls
        .push(ToolCall::new(id.clone(), "action".to_owned(), args));
    draft
        .messages
        .push(Message::items(Role::Assistant, vec![call_item(&id)]));
    Some(id)
}

/// Drops a text that `place` contains; returns any other text.
fn repeated_or_new(node: Node<'_, '_>, place: &str) -> Option<Value> {
    if says_nothing(node.peek()) {
        return None;
    }
    match node.peek().as_str() {
        Some(text) if place.contains(text.trim()) => {
            node.discard(Reason::Duplicate);
            None
        }
        _ => Some(node.take()),
    }
}

fn speaks(entry: &Value, role: &str) -> bool {
    entry.get("role").and_then(Value::as_str) == Some(role)
}

fn content(entry: &Value) -> Option<&str> {
    entry.get("content")?.as_str()
}

fn number(index: usize) -> u64 {
    u64::try_from(index).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
