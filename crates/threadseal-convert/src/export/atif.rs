//! A scroll as an ATIF trajectory (Agent Trajectory Interchange Format, v1.7).
//!
//! ```text
//! {"schema_version":"ATIF-v1.7","session_id":S,"agent":{"name","version","model_name",
//!  "tool_definitions"},"steps":[STEP,…],"notes":N,"final_metrics":{…}}
//! STEP  {"step_id":N,"timestamp":T,"source":"user"|"agent"|"system","model_name":M,
//!        "message":TEXT|[PART,…],"reasoning_content":R,"tool_calls":[{"tool_call_id",
//!        "function_name","arguments"}],"observation":{"results":[{"source_call_id","content"}]},
//!        "metrics":{"prompt_tokens","completion_tokens","cached_tokens","extra"},
//!        "extra":{"turn":N}}
//! ```
//!
//! `spec/scroll-mappings.md` W6, "To ATIF", has the table.

use super::super::account::{Tokens, count, object};
use super::convert::{Picture, args_object, json_file, json_text, tools_to_openai};
use super::speech::{Answer, Call, Holds, MessagePart, Speech};
use super::{Provenance, Target};
use std::collections::HashMap;
use threadseal_core::canon::json::{Text, Value};
use threadseal_formats::scroll::Role;

const VERSION: &str = "ATIF-v1.7";
const UNKNOWN: &str = "unknown";
const PICTURES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

pub(super) const TARGET: Target = Target {
    name: "atif",
    about: "Agent Trajectory Interchange Format v1.7",
    holds: &HOLDS,
    write,
};

const HOLDS: Holds = Holds {
    thinking: true,
    members: false,
    models: true,
    one_model: false,
    figures: true,
    status: true,
    names: false,
    claims: true,
    block,
};

/// A picture as a part. The format requires its type, which most URLs end in.
fn block(block: &Value) -> Option<Value> {
    let picture = Picture::of(block)?;
    let kind = match picture.data() {
        Some((kind, _)) => kind,
        None => {
            let path = picture.url.split(['?', '#']).next()?;
            match path.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
                "jpg" | "jpeg" => "image/jpeg",
                "png" => "image/png",
                "gif" => "image/gif",
                "webp" => "image/webp",
                _ => return None,
            }
        }
    };
    let kind = PICTURES.into_iter().find(|known| *known == kind)?;
    let source = object([
        ("media_type", kind.into()),
        ("path", picture.url.as_str().into()),
    ]);
    Some(object([("type", "image".into()), ("source", source)]))
}

fn write(speeches: &[Speech], provenance: &Provenance) -> Vec<u8> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    // The step of the last call of each id.
    let mut calls: HashMap<&str, usize> = HashMap::new();
    for speech in speeches {
        let step = Step::of(speech);
        let answers = speech.messages.iter().flat_map(|spoken| &spoken.said);
        if !step.is_empty() {
            for call in &step.calls {
                calls.insert(call.id.as_str(), steps.len());
            }
            steps.push(step);
        }
        for said in answers {
            let MessagePart::Result(answer) = said else {
                continue;
            };
            match calls.get(answer.id.as_str()) {
                Some(place) => steps[*place].answers.push(answer),
                None => steps.push(Step::orphan(speech, answer)),
            }
        }
    }
    let mut total = Tokens::default();
    speeches.iter().for_each(|speech| total.add(speech.tokens));
    let numbered = (1_u64..).zip(&steps);
    let session = speeches.iter().find_map(|speech| speech.session.as_deref());
    let mut members = vec![("schema_version", VERSION.into())];
    members.extend(session.map(|session| ("session_id", session.into())));
    members.push(("agent", agent(speeches)));
    members.push((
        "steps",
        Value::Array(
            numbered
                .map(|(number, step)| step.to_value(number))
                .collect(),
        ),
    ));
    let notes = provenance.warning().into_iter().chain(provenance.claim());
    let notes: Vec<String> = notes.collect();
    if !notes.is_empty() {
        members.push(("notes", notes.join(" ").into()));
    }
    members.push(("final_metrics", final_metrics(total, steps.len())));
    json_file(&object(members))
}

fn agent(speeches: &[Speech]) -> Value {
    let name = speeches.iter().find_map(|speech| speech.format.as_deref());
    let model = speeches
        .iter()
        .rfind(|speech| speech.role == Role::Assistant);
    let mut members = vec![
        ("name", name.unwrap_or(UNKNOWN).into()),
        ("version", UNKNOWN.into()),
    ];
    let model = model
        .or(speeches.last())
        .map(|speech| speech.model.as_str());
    members.extend(model.map(|model| ("model_name", model.into())));
    let tools = speeches
        .iter()
        .flat_map(|speech| tools_to_openai(&speech.tools));
    let tools: Vec<Value> = tools.filter(|tool| tool.as_object().is_some()).collect();
    if !tools.is_empty() {
        members.push(("tool_definitions", Value::Array(tools)));
    }
    object(members)
}

fn final_metrics(total: Tokens, steps: usize) -> Value {
    let steps = u64::try_from(steps).unwrap_or(u64::MAX);
    let mut members = Vec::new();
    if total != Tokens::default() {
        members.extend([
            ("total_prompt_tokens", count(total.input)),
            ("total_completion_tokens", count(total.output)),
            ("total_cached_tokens", count(total.cached)),
        ]);
    }
    members.push(("total_steps", steps.into()));
    object(members)
}

/// A step in the making.
struct Step<'a> {
    source: &'static str,
    speech: &'a Speech,
    /// Texts and pictures.
    parts: Vec<Value>,
    reasoning: Vec<&'a str>,
    calls: Vec<&'a Call>,
    answers: Vec<&'a Answer>,
    /// Whether the turn has content of its own, and not only answers.
    speaks: bool,
}

impl<'a> Step<'a> {
    fn of(speech: &'a Speech) -> Self {
        let source = match speech.role {
            Role::Assistant => "agent",
            Role::System => "system",
            Role::User | Role::Tool => "user",
        };
        let mut step = Self {
            source,
            speech,
            parts: Vec::new(),
            reasoning: Vec::new(),
            calls: Vec::new(),
            answers: Vec::new(),
            speaks: speech.role == Role::Assistant,
        };
        for said in speech.messages.iter().flat_map(|spoken| &spoken.said) {
            match said {
                MessagePart::Text(text, _) => step
                    .parts
                    .push(super::super::draft::text_item(text.as_str())),
                MessagePart::Block(part) => step.parts.push(part.clone()),
                MessagePart::Thinking(text, _) if source == "agent" => step.reasoning.push(text),
                MessagePart::Thinking(text, _) => step
                    .parts
                    .push(super::super::draft::text_item(text.as_str())),
                MessagePart::Call(call) => {
                    step.calls.push(call);
                    step.source = "agent";
                }
                MessagePart::Result(_) => continue,
            }
            step.speaks = true;
        }
        step
    }

    /// The result of a call that no step holds.
    fn orphan(speech: &'a Speech, answer: &'a Answer) -> Self {
        Self {
            source: "system",
            speech,
            parts: Vec::new(),
            reasoning: Vec::new(),
            calls: Vec::new(),
            answers: vec![answer],
            speaks: true,
        }
    }

    fn is_empty(&self) -> bool {
        !self.speaks
    }

    fn to_value(&self, number: u64) -> Value {
        let is_agent = self.source == "agent";
        let mut members = vec![("step_id", number.into())];
        if self.speech.moment > 0 {
            members.extend(moment(self.speech.moment).map(|text| ("timestamp", text.into())));
        }
        members.push(("source", self.source.into()));
        if is_agent && !self.speech.model.is_empty() {
            members.push(("model_name", self.speech.model.as_str().into()));
        }
        members.push(("message", self.message()));
        if is_agent && !self.reasoning.is_empty() {
            members.push(("reasoning_content", self.reasoning.join("\n\n").into()));
        }
        if !self.calls.is_empty() {
            let calls = self.calls.iter().map(|call| call_value(call));
            members.push(("tool_calls", Value::Array(calls.collect())));
        }
        if !self.answers.is_empty() {
            let results = self
                .answers
                .iter()
                .map(|answer| result_value(answer))
                .collect();
            members.push(("observation", object([("results", Value::Array(results))])));
        }
        if is_agent && self.speech.tokens != Tokens::default() {
            members.push(("metrics", metrics(self.speech.tokens)));
        }
        let mut extra = vec![("turn", self.speech.number.into())];
        let reason = self.speech.stop_reason.as_deref();
        extra.extend(reason.map(|reason| ("stop_reason", reason.into())));
        members.push(("extra", object(extra)));
        object(members)
    }

    fn message(&self) -> Value {
        let text_of = |part: &Value| Some(part.get("text")?.as_str()?.to_owned());
        let texts: Option<Vec<String>> = self.parts.iter().map(text_of).collect();
        match texts {
            Some(texts) => texts.join("\n\n").into(),
            None => Value::Array(self.parts.clone()),
        }
    }
}

fn call_value(call: &Call) -> Value {
    object([
        ("tool_call_id", call.id.as_str().into()),
        ("function_name", call.name.as_str().into()),
        ("arguments", args_object(call.args.as_ref())),
    ])
}

fn result_value(answer: &Answer) -> Value {
    let mut members = vec![("source_call_id", answer.id.as_str().into())];
    if let Some(response) = &answer.response {
        members.push(("content", response_text(response).into()));
    }
    if !answer.ok {
        members.push(("extra", object([("status", "error".into())])));
    }
    object(members)
}

fn response_text(response: &Value) -> String {
    let text_of = |part: &Value| Some(part.get("text")?.as_str()?.to_owned());
    let parts = response.as_array().filter(|parts| !parts.is_empty());
    let texts: Option<Vec<String>> = parts.and_then(|parts| parts.iter().map(text_of).collect());
    match (response.as_str(), texts) {
        (Some(text), _) => text.to_owned(),
        (None, Some(texts)) => texts.join("\n\n"),
        (None, None) => json_text(response),
    }
}

fn metrics(tokens: Tokens) -> Value {
    let mut members: Vec<(Text, Value)> = vec![
        ("prompt_tokens".into(), count(tokens.input)),
        ("completion_tokens".into(), count(tokens.output)),
        ("cached_tokens".into(), count(tokens.cached)),
    ];
    if tokens.reasoning > 0 {
        let extra = object([("reasoning_tokens", count(tokens.reasoning))]);
        members.push(("extra".into(), extra));
    }
    Value::Object(members)
}

/// RFC 3339 in UTC, with whole microseconds.
pub(super) fn moment(nanoseconds: u64) -> Option<String> {
    let micros = i64::try_from(nanoseconds / 1000).ok()?;
    Some(jiff::Timestamp::from_microsecond(micros).ok()?.to_string())
}
