//! Langfuse traces, as its API and its user interface export them: one JSON object.
//!
//! ```text
//! {"trace":{"id","name","timestamp","input","output",…},     or these members beside the list
//!  "observations":[{"id","parentObservationId","type":"GENERATION|SPAN|TOOL|AGENT|…","name",
//!    "model","startTime","endTime","input":V,"output":V,"usageDetails":{…},
//!    "metadata":{"attributes":{…}}}]}
//! ```
//!
//! A "line" is the number of the observation. Line 0 is the part that contains them. V is any JSON,
//! or a string that holds JSON. `trace` distinguishes new content from repeated content.
//!
//! `spec/scroll-mappings.md` C8 has the table of members.

use super::account::{Reason, Tokens};
use super::build::rfc3339_ns;
use super::chat::held_json;
use super::draft::{Model, Params, Source};
use super::format::{Confidence, Format, Head, Mark};
use super::mapped::Mapped;
use super::source::{Node, Reading};
use super::thread::{document, fingerprint, says_nothing, take_rest, vendor_of};
use super::trace::{Kind, Part, Report, Span, Trace};
use std::collections::HashSet;
use threadseal_core::canon::json::{Number, Value};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;

const NAME: &str = "langfuse";
const TOLD: [&str; 14] = [
    "id",
    "traceId",
    "parentObservationId",
    "name",
    "type",
    "model",
    "input",
    "output",
    "startTime",
    "endTime",
    "usageDetails",
    "usage",
    "modelParameters",
    "metadata",
];

pub(super) const FORMAT: Format = Format {
    name: NAME,
    about: "Langfuse trace (exported JSON)",
    detect,
    map,
};

fn detect(head: &Head<'_>) -> Option<Mark> {
    let why = "an object with `trace.id` and `observations`";
    Mark::when(is_ours(head), Confidence::Certain, why)
}

fn is_ours(head: &Head<'_>) -> bool {
    head.document.as_ref().is_some_and(|document| {
        let trace = document.get("trace").and_then(|trace| trace.get("id"));
        let observations = document.get("observations").and_then(Value::as_array);
        let typed = |list: &[Value]| {
            list.iter().all(|observation| {
                observation.get("type").is_some() && observation.get("traceId").is_some()
            })
        };
        let inside = document.get("id").is_some() && observations.is_some_and(typed);
        observations.is_some() && (trace.is_some() || inside)
    })
}

fn map(source: &[u8]) -> Result<Mapped, Error> {
    let document = document(source)?;
    let mut trace = Trace::new(NAME);
    let list = document.get("observations").and_then(Value::as_array);
    let list = list.unwrap_or_default();
    let readings: Vec<_> = (1..)
        .zip(list)
        .map(|(number, value)| Reading::new(number, value))
        .collect();
    let mut spans = Vec::new();
    for (number, reading) in (1..).zip(&readings) {
        trace.account.records += 1;
        if reading.root().peek().as_object().is_none() {
            trace.account.unmapped(number, "not a JSON object");
        } else {
            spans.push(span(reading.root(), number, &trace));
        }
    }
    trace.carry(spans);
    for (number, (reading, value)) in (1..).zip(readings.into_iter().zip(list)) {
        if value.as_object().is_some() {
            trace.tell(number, reading);
        }
    }
    let reading = Reading::new(0, &document);
    head(reading.root(), &mut trace);
    reading.finish(&mut trace.account);
    Ok(trace.finish())
}

/// Reads the part that contains the observations. Without observations the trace becomes a turn of
/// its own.
fn head(root: Node<'_, '_>, trace: &mut Trace) {
    if let Some(list) = root.get("observations") {
        let _ = list.read();
    }
    // As one trace of the API, the object that contains the observations is the trace.
    let node = root.get("trace").unwrap_or(root);
    for name in ["input", "output"] {
        if let Some(part) = node.get(name).filter(|part| trace.says(part.peek())) {
            part.discard(Reason::Duplicate);
        }
    }
    if root.peek().get("trace").is_some() {
        node.discard_all(&["observations"], Reason::Duplicate);
    }
    let mut facts = Value::Object(Vec::new());
    let said = |name: &str| node.peek().get(name).is_some_and(|part| trace.says(part));
    let mut except = vec!["observations"];
    except.extend(["input", "output"].into_iter().filter(|name| said(name)));
    take_rest(node, &mut facts, &except);
    trace.thread.head().set("trace", facts);
}

fn span<'r, 'a>(node: Node<'r, 'a>, number: u64, trace: &Trace) -> Span<'r, 'a> {
    let mut facts = trace.thread.source(&[]);
    let id = node.text_of("id");
    let parent = node.text_of("parentObservationId");
    let kind = node.text_of("type");
    let name = node.text_of("name");
    let pairs = [
        ("session", node.text_of("traceId")),
        ("id", id.clone()),
        ("parent", parent.clone()),
    ];
    for (name, value) in pairs
        .into_iter()
        .chain([("kind", kind.clone()), ("name", name.clone())])
    {
        facts.set_some(name, value.filter(|value| !value.is_empty()));
    }
    let time = |name: &str| node.text_of(name).and_then(|text| rfc3339_ns(&text));
    let (start, end) = (time("startTime"), time("endTime"));
    facts.set_some("time", node.peek_str("startTime"));
    facts.set_some("completed", node.peek_str("endTime"));
    let model = node.text_of("model").filter(|model| !model.is_empty());
    let params = node
        .get("modelParameters")
        .filter(|node| !says_nothing(node.peek()));
    let sampling = params
        .map(|params| params_of(params.peek()))
        .unwrap_or_default();
    facts.set_some("parameters", params.map(Node::take));
    let mut tokens = Tokens::default();
    for name in ["usageDetails", "usage"] {
        let Some(usage) = node.get(name).filter(|usage| !says_nothing(usage.peek())) else {
            continue;
        };
        if tokens == Tokens::default() {
            tokens = tokens_of(usage.peek());
        }
        facts.set(name, usage.take());
    }
    attributes(node, &mut facts);
    let mut rest = Value::Object(Vec::new());
    take_rest(node, &mut rest, &TOLD);
    facts.set_some("observation", Some(rest).filter(|rest| !says_nothing(rest)));
    let kind = match kind.as_deref() {
        Some("GENERATION" | "EMBEDDING") => Kind::Model,
        Some("TOOL") => Kind::Tool,
        _ => Kind::Other,
    };
    let part = |member: &str, role| {
        node.get(member)
            .and_then(|part| held_part(part, member, role))
    };
    Span {
        number,
        kind,
        id,
        parent,
        start,
        end,
        model: Model {
            vendor: model.as_deref().map_or("", vendor_of).to_owned(),
            id: model,
            fingerprint: None,
        },
        params: sampling,
        tokens,
        inputs: part("input", "user").into_iter().collect(),
        outputs: part("output", "assistant").into_iter().collect(),
        tool: (name, None),
        failed: node.peek_str("level") == Some("ERROR"),
        report: Report::default(),
        facts,
    }
}

fn held_part<'r, 'a>(node: Node<'r, 'a>, member: &str, role: &'static str) -> Option<Part<'r, 'a>> {
    if says_nothing(node.peek()) {
        return None;
    }
    let held = node.peek().as_str().and_then(held_json);
    let value = held.map_or_else(|| node.take(), |held| node.take_held(&held));
    Some(Part {
        value,
        nodes: vec![(0, node)],
        pointer: Some(format!("/{member}")),
        role,
    })
}

/// Reads `metadata`. Attributes that repeat `input` and `output` are duplicates: Langfuse derived
/// those members from them.
fn attributes(node: Node<'_, '_>, facts: &mut Source) {
    let Some(metadata) = node
        .get("metadata")
        .filter(|metadata| !says_nothing(metadata.peek()))
    else {
        return;
    };
    if metadata.peek().as_object().is_none() {
        return facts.set("metadata", metadata.take());
    }
    let mut said = HashSet::new();
    for body in ["input", "output"]
        .into_iter()
        .filter_map(|name| node.peek().get(name))
    {
        said.extend(prints(body));
    }
    let same = |value: &Value| prints(value).any(|print| said.contains(&print));
    let mut kept = Value::Object(Vec::new());
    let mut repeated = Vec::new();
    if let Some(attributes) = metadata
        .get("attributes")
        .filter(|node| node.peek().as_object().is_some())
    {
        for (name, value) in attributes.members().into_iter().flatten() {
            if value.peek().as_str().is_some_and(|text| text.len() > 1) && same(value.peek()) {
                value.discard(Reason::Duplicate);
                repeated.extend(name.as_str());
            }
        }
        take_rest(attributes, &mut kept, &repeated);
        facts.set_some("attributes", Some(kept).filter(|kept| !says_nothing(kept)));
    }
    let mut rest = Value::Object(Vec::new());
    let object = metadata
        .peek()
        .get("attributes")
        .is_some_and(|value| value.as_object().is_some());
    take_rest(
        metadata,
        &mut rest,
        if object { &["attributes"] } else { &[] },
    );
    facts.set_some("metadata", Some(rest).filter(|rest| !says_nothing(rest)));
}

/// Fingerprints of a value with content, also of the JSON in its strings.
fn prints(value: &Value) -> impl Iterator<Item = Digest> {
    let held = value.as_str().and_then(held_json);
    let whole = Some(value).filter(|value| !says_nothing(value));
    let both = [whole.map(fingerprint), held.as_ref().map(fingerprint)];
    both.into_iter().flatten()
}

fn params_of(value: &Value) -> Params {
    let held = value.as_str().and_then(held_json);
    let value = held.as_ref().unwrap_or(value);
    let number = |name: &str| -> Option<Number> { value.get(name)?.as_number().cloned() };
    let integer = |name: &str| value.get(name).and_then(Value::as_i64);
    Params {
        temperature: number("temperature"),
        top_p: number("top_p"),
        seed: integer("seed"),
        max_tokens: integer("max_tokens"),
    }
}

/// Langfuse counts the parts of `input` and `output` in members whose names begin with those words.
fn tokens_of(usage: &Value) -> Tokens {
    let of = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or_default();
    let cached = of("input_cache_read").saturating_add(of("input_cached_tokens"));
    let reasoning = of("output_reasoning").saturating_add(of("output_reasoning_tokens"));
    let (mut input, mut output) = (of("input"), of("output"));
    let apart = input
        .saturating_add(output)
        .saturating_add(cached)
        .saturating_add(reasoning);
    if of("total") == apart {
        input = input.saturating_add(cached);
        output = output.saturating_add(reasoning);
    }
    Tokens {
        input,
        output,
        cached,
        reasoning,
    }
}

#[cfg(test)]
mod tests;
