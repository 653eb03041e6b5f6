//! ATIF, the Agent Trajectory Interchange Format (v1.0 to v1.8): one JSON object, or JSON Lines.
//!
//! ```text
//! {"schema_version":"ATIF-v1.7","session_id":S,"agent":{"name","version","model_name",
//!  "tool_definitions"},"steps":[STEP,…],"final_metrics":{…},"subagent_trajectories":[…]}
//! STEP: {"step_id":N,"timestamp":T,"source":"user|agent|system","model_name":M,"message":C,
//!  "reasoning_content":R,"tool_calls":[{"tool_call_id","function_name","arguments"}],
//!  "observation":{"results":[{"source_call_id","content"}]},"metrics":{…}}
//! ```
//!
//! Also read: an object whose members are all trajectories, a list of trajectories, and JSON Lines
//! of trajectories. In the lines of a log that grows, a trajectory without steps comes first, then
//! a STEP on each line (also as `{"step":STEP}`), then an object with `final_metrics`. A "line" is
//! the number of the step in the file, counted through all trajectories in their order. Line 0 is
//! the part that contains the steps.
//!
//! `spec/scroll-mappings.md` C2 has the table of members.

use super::account::{Account, Reason, Tokens};
use super::build::rfc3339_ns;
use super::draft::{Draft, Message, ToolCall, ToolResult, call_item, result_item, thinking_item};
use super::format::{Confidence, Format, Head, Mark};
use super::mapped::Mapped;
use super::source::{Node, Reading, json_lines};
use super::thread::{Thread, content_items, document, extend, says_nothing, take_rest, vendor_of};
use threadseal_core::canon::json::Value;
use threadseal_core::error::Error;
use threadseal_formats::scroll::Role;

const NAME: &str = "atif";
const STEP_FACTS: [&str; 5] = [
    "step_id",
    "extra",
    "reasoning_effort",
    "is_copied_context",
    "llm_call_count",
];
/// Members of a step that a rule of its own reads.
const STEP_TOLD: [&str; 8] = [
    "source",
    "model_name",
    "timestamp",
    "metrics",
    "reasoning_content",
    "message",
    "tool_calls",
    "observation",
];
const INFO: [&str; 7] = [
    "schema_version",
    "agent",
    "notes",
    "final_metrics",
    "extra",
    "continued_trajectory_ref",
    "parent_session_id",
];

pub(super) const FORMAT: Format = Format {
    name: NAME,
    about: "ATIF trajectory (Harbor, Terminal-Bench: *.trajectory.json)",
    detect,
    map,
};

fn detect(head: &Head<'_>) -> Option<Mark> {
    let why = "`schema_version` begins with ATIF-";
    Mark::when(is_ours(head), Confidence::Certain, why)
}

fn is_ours(head: &Head<'_>) -> bool {
    head.document.as_ref().is_some_and(|document| {
        let several = document.as_array().and_then(<[_]>::first);
        let members = document.as_object().and_then(<[_]>::first);
        let inner = several.or(members.map(|(_, member)| member));
        is_trajectory(document) || inner.is_some_and(is_trajectory)
    }) || head.lines.first().is_some_and(is_trajectory)
}

fn map(source: &[u8]) -> Result<Mapped, Error> {
    let mut session = Session {
        thread: Thread::new(NAME),
        account: Account::default(),
        steps: 0,
    };
    match document(source) {
        Ok(document) => {
            let reading = Reading::new(0, &document);
            session.any(reading.root());
            reading.finish(&mut session.account);
        }
        Err(error) => session.lines(source).ok_or(error)?,
    }
    Ok(session.thread.finish(session.account))
}

fn is_trajectory(value: &Value) -> bool {
    let version = value.get("schema_version").and_then(Value::as_str);
    version.is_some_and(|version| version.starts_with("ATIF-"))
}

/// The step on a line: the line itself, or its member.
fn step_of(line: &Value) -> Option<&Value> {
    let is_step = |value: &&Value| {
        let source = value.get("source").and_then(Value::as_str);
        matches!(source, Some("user" | "agent" | "system"))
    };
    line.get("step")
        .filter(is_step)
        .or(Some(line).filter(is_step))
}

struct Session {
    thread: Thread,
    account: Account,
    steps: u64,
}

/// Facts about every step of a trajectory.
#[derive(Default)]
struct Common {
    session: Option<String>,
    trajectory: Option<String>,
    agent: Option<String>,
    model: Option<String>,
}

impl Session {
    fn any(&mut self, node: Node<'_, '_>) {
        if is_trajectory(node.peek()) {
            self.trajectory(node);
            return;
        }
        let elements = node.items().into_iter().flatten();
        let members = node.members().into_iter().flatten();
        for inner in elements.chain(members.map(|(_, member)| member)) {
            if is_trajectory(inner.peek()) {
                self.trajectory(inner);
            }
        }
    }

    /// JSON Lines; nothing if no line is a trajectory.
    fn lines(&mut self, source: &[u8]) -> Option<()> {
        let mut account = Account::default();
        let mut common = None;
        json_lines(source, &mut account, |account, line, value| {
            let reading = Reading::new(0, value);
            let root = reading.root();
            if is_trajectory(value) {
                std::mem::swap(account, &mut self.account);
                common = Some(self.trajectory(root));
                std::mem::swap(account, &mut self.account);
            } else if let Some(common) = common.as_ref().filter(|_| step_of(value).is_some()) {
                self.steps += 1;
                let step = step_of(value).unwrap_or(value);
                let inner = Reading::new(self.steps, step);
                self.step(inner.root(), common);
                inner.finish(account);
                if let Some(step) = root.get("step") {
                    let _ = step.read();
                } else {
                    let _ = root.read();
                }
                root.discard_all(&["type"], Reason::Form);
            } else if INFO.iter().any(|name| value.get(name).is_some()) {
                self.thread.head_list("trajectory_end", vec![root.take()]);
            } else {
                return Reading::new(line, value).refuse("neither trajectory nor step", account);
            }
            reading.finish(account);
        });
        account.records = self.steps.max(account.records);
        self.account = account;
        common.map(drop)
    }

    fn trajectory(&mut self, node: Node<'_, '_>) -> Common {
        let agent = node.peek().get("agent");
        let of_agent = |name: &str| Some(agent?.get(name)?.as_str()?.to_owned());
        let common = Common {
            session: node.text_of("session_id"),
            trajectory: node.text_of("trajectory_id"),
            agent: of_agent("name"),
            model: of_agent("model_name"),
        };
        let mut info = Value::Object(Vec::new());
        for name in INFO {
            extend(&mut info, name, node.take_of(name));
        }
        let told = [
            "session_id",
            "trajectory_id",
            "steps",
            "subagent_trajectories",
        ];
        take_rest(node, &mut info, &[&INFO[..], &told].concat());
        self.thread.head().set("trajectory_info", info);
        let steps = node.get("steps").map(Node::read).and_then(Value::as_array);
        for step in steps.unwrap_or_default() {
            self.steps += 1;
            self.account.records += 1;
            if step.as_object().is_none() {
                self.account.unmapped(self.steps, "not a JSON object");
                continue;
            }
            let reading = Reading::new(self.steps, step);
            self.step(reading.root(), &common);
            reading.finish(&mut self.account);
        }
        let inner = node.get("subagent_trajectories").and_then(Node::items);
        for trajectory in inner.into_iter().flatten() {
            if is_trajectory(trajectory.peek()) {
                self.trajectory(trajectory);
            }
        }
        common
    }

    fn step(&mut self, node: Node<'_, '_>, common: &Common) {
        let kind = node.told_by("source");
        let role = match kind {
            Some("user") => Role::User,
            Some("agent") => Role::Assistant,
            _ => Role::System,
        };
        let mut source = self.thread.source(&[self.steps]);
        source.set_some("session", common.session.as_deref());
        source.set_some("trajectory", common.trajectory.as_deref());
        source.set_some("agent", common.agent.as_deref());
        source.set_some(
            "kind",
            kind.filter(|kind| role == Role::System && *kind != "system"),
        );
        for name in STEP_FACTS {
            source.set_some(name, node.take_of(name));
        }
        let model = node.text_of("model_name").or_else(|| common.model.clone());
        let mut draft = Draft::new(role, model.as_deref().map_or("", vendor_of));
        draft.model.id = model.filter(|model| !model.is_empty());
        let time = node.text_of("timestamp");
        draft.timestamp_ns = time.as_deref().and_then(rfc3339_ns);
        source.set_some("time", time);
        if let Some(metrics) = node
            .get("metrics")
            .filter(|node| !says_nothing(node.peek()))
        {
            let copied = node
                .peek()
                .get("is_copied_context")
                .and_then(Value::as_bool);
            if copied != Some(true) {
                self.thread.spend(&mut source, tokens(metrics.peek()));
            }
            source.set("usage", metrics.take());
        }
        let mut items = Vec::new();
        if let Some(text) = node
            .text_of("reasoning_content")
            .filter(|text| !text.is_empty())
        {
            items.push(thinking_item(text));
        }
        items.extend(node.get("message").map(content_items).unwrap_or_default());
        self.calls(node, &mut draft, &mut items);
        self.results(node, &mut draft, &mut items);
        draft.messages.push(Message::items(role, items));
        let mut rest = Value::Object(Vec::new());
        take_rest(node, &mut rest, &[&STEP_FACTS[..], &STEP_TOLD].concat());
        source.set_some("step", Some(rest).filter(|rest| !says_nothing(rest)));
        self.thread.push(draft, source);
    }

    fn calls(&self, node: Node<'_, '_>, draft: &mut Draft, items: &mut Vec<Value>) {
        let calls = node.get("tool_calls").and_then(Node::items);
        for (index, call) in calls.into_iter().flatten().enumerate() {
            let made_up = || format!("call-{}-{index}", self.steps);
            let id = call.text_of("tool_call_id").unwrap_or_else(made_up);
            let name = call.text_of("function_name").unwrap_or_default();
            let args = call.get("arguments").map_or(Value::Null, Node::take);
            let mut item = call_item(&id);
            take_rest(
                call,
                &mut item,
                &["tool_call_id", "function_name", "arguments"],
            );
            items.push(item);
            draft.tool_calls.push(ToolCall::new(id, name, args));
        }
    }

    fn results(&self, node: Node<'_, '_>, draft: &mut Draft, items: &mut Vec<Value>) {
        let observation = node.get("observation");
        let results = observation.and_then(|node| node.get("results")?.items());
        for (index, result) in results.into_iter().flatten().enumerate() {
            let made_up = || format!("step-{}-{index}", self.steps);
            let id = result.text_of("source_call_id").unwrap_or_else(made_up);
            let mut item = result_item(&id);
            let response = result.get("content").map_or(Value::Null, Node::take);
            let extra = result.peek().get("extra");
            let failed = extra.and_then(|extra| extra.get("status")?.as_str()) == Some("error");
            take_rest(result, &mut item, &["source_call_id", "content"]);
            items.push(item);
            draft
                .tool_results
                .push(ToolResult::new(id, !failed, response));
        }
    }
}

fn tokens(metrics: &Value) -> Tokens {
    let of = |name: &str| {
        metrics
            .get(name)
            .and_then(Value::as_u64)
            .unwrap_or_default()
    };
    Tokens {
        input: of("prompt_tokens"),
        output: of("completion_tokens"),
        cached: of("cached_tokens"),
        reasoning: of("reasoning_tokens"),
    }
}

#[cfg(test)]
mod tests;
