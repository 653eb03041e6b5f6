//! OTLP: spans and log records of agents, by the semantic conventions in use.
//!
//! ```text
//! {"resourceSpans":[{"resource":{"attributes":[KV,…]},
//!                    "scopeSpans":[{"scope":{…},"spans":[SPAN,…]}]}]}
//! {"resourceLogs":[{"resource":{…},"scopeLogs":[{"scope":{…},"logRecords":[RECORD,…]}]}]}
//! SPAN: {"traceId","spanId","parentSpanId","name","startTimeUnixNano","endTimeUnixNano",
//!        "attributes":[{"key":K,"value":{"stringValue":S}}],
//!        "events":[{"name","attributes"}],"status"}
//! ```
//!
//! One object, or one on each line, or the same in protobuf (`protobuf`). A "line" is the number of the span or record, counted through
//! the file. Line 0 is the part that contains them. Of spans with one `(traceId, spanId)` the last
//! counts. `trace` distinguishes new content from repeated content; `attributes` reads the
//! attributes.
//!
//! `spec/scroll-mappings.md` C7 has the table of members.
//!
//! In a file without any conversation, each span is a turn of role `system` with its attributes in
//! the source item.

use super::Account;
use super::account::Reason;
use super::draft::Source;
use super::format::{Confidence, Format, Head, Mark};
use super::mapped::Mapped;
use super::source::{Node, Reading, json_objects, weight};
use super::thread::{document, says_nothing, take_rest};
use super::trace::{Span, Trace};
use std::collections::HashMap;
use threadseal_core::canon::json::Value;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_JSON_VALUES;

mod attributes;
mod events;
mod indexed;
mod protobuf;

const NAME: &str = "otlp";
const NO_CONVERSATION: &str = "contains no conversation";
const METADATA: [&str; 8] = [
    "kind",
    "flags",
    "traceState",
    "links",
    "severityNumber",
    "droppedAttributesCount",
    "droppedEventsCount",
    "droppedLinksCount",
];
/// Members that contain resources, scopes and records: for spans, and for logs.
const LEVELS: [[&str; 3]; 2] = [
    ["resourceSpans", "scopeSpans", "spans"],
    ["resourceLogs", "scopeLogs", "logRecords"],
];

pub(super) const FORMAT: Format = Format {
    name: NAME,
    about: "OTLP spans and logs, JSON or protobuf (OpenTelemetry GenAI, OpenInference, OpenLLMetry, Vercel AI SDK, Claude Code, Codex)",
    detect,
    map,
};

fn detect(head: &Head<'_>) -> Option<Mark> {
    let why = "`resourceSpans` or `resourceLogs`, in JSON or protobuf";
    Mark::when(is_ours(head), Confidence::Certain, why)
}

fn is_ours(head: &Head<'_>) -> bool {
    if protobuf::looks_like(head.bytes) {
        return true;
    }
    let holds =
        |value: &Value| value.get("resourceSpans").is_some() || value.get("resourceLogs").is_some();
    head.document.iter().chain(head.lines.first()).any(holds)
}

fn map(source: &[u8]) -> Result<Mapped, Error> {
    let mut trace = Trace::new(NAME);
    let documents = if protobuf::looks_like(source) {
        vec![protobuf::read(source)?]
    } else {
        match document(source) {
            Ok(document) => vec![document],
            Err(_) => lines(source, &mut trace.account),
        }
    };
    let mut records = Vec::new();
    for document in &documents {
        envelope(document, &mut records, &mut trace);
    }
    if records.is_empty() {
        let message = "neither resourceSpans nor resourceLogs with records";
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    let readings: Vec<_> = (1..)
        .zip(&records)
        .map(|(number, value)| Reading::new(number, value))
        .collect();
    let last = last_copies(&records);
    let speaks = |value: &Value| attributes::speaks(value);
    let quiet = !records.iter().any(|record| speaks(record));
    let mut spans: Vec<Span<'_, '_>> = Vec::new();
    let mut silent = vec![false; records.len()];
    trace.account.records = 0;
    for (index, reading) in readings.iter().enumerate() {
        let (root, number) = (reading.root(), number(index));
        trace.account.records += 1;
        if last.get(index).is_some_and(|last| *last != index) {
            let same = last.get(index).and_then(|last| records.get(*last)) == records.get(index);
            root.discard(if same {
                Reason::Duplicate
            } else {
                Reason::Superseded
            });
        } else if quiet || speaks(root.peek()) {
            spans.push(span(root, number, &trace));
        } else if attributes::is_bookkeeping(root.peek()) {
            root.discard(Reason::Metadata);
        } else if let Some(silent) = silent.get_mut(index) {
            *silent = true;
            trace.account.lose_record(weight(root.peek()));
            trace.account.unmapped(number, NO_CONVERSATION);
        }
    }
    trace.carry(spans);
    for (index, (reading, silent)) in readings.into_iter().zip(silent).enumerate() {
        if !silent {
            trace.tell(number(index), reading);
        }
    }
    Ok(trace.finish())
}

/// The objects on the lines of a file.
fn lines(source: &[u8], account: &mut Account) -> Vec<Value> {
    let mut documents = Vec::new();
    json_objects(source, MAX_JSON_VALUES, account, |_, _, value| {
        documents.push(value);
    });
    documents
}

/// Finds the records of one document, and reads the parts around them.
fn envelope<'a>(document: &'a Value, records: &mut Vec<&'a Value>, trace: &mut Trace) {
    let reading = Reading::new(0, document);
    let root = reading.root();
    let mut resources = Vec::new();
    for [outer, middle, inner] in LEVELS {
        for resource in root.get(outer).and_then(Node::items).into_iter().flatten() {
            let mut facts = Value::Object(Vec::new());
            resource.discard_all(&["schemaUrl"], Reason::Metadata);
            let mut scopes = Vec::new();
            for scope in resource
                .get(middle)
                .and_then(Node::items)
                .into_iter()
                .flatten()
            {
                scope.discard_all(&["schemaUrl"], Reason::Metadata);
                scopes.extend(
                    scope
                        .get("scope")
                        .filter(|node| !says_nothing(node.peek()))
                        .map(Node::take),
                );
                if let Some(list) = scope
                    .get(inner)
                    .filter(|list| list.peek().as_array().is_some())
                {
                    records.extend(list.read().as_array().into_iter().flatten());
                }
            }
            take_rest(resource, &mut facts, &[middle, "schemaUrl"]);
            if let (Value::Object(members), false) = (&mut facts, scopes.is_empty()) {
                members.push(("scopes".into(), Value::Array(scopes)));
            }
            resources.push(facts);
        }
    }
    reading.finish(&mut trace.account);
    if !resources.is_empty() {
        trace.thread.head_list("resources", resources);
    }
}

/// For each record the place of the last with its trace and span.
fn last_copies(records: &[&Value]) -> Vec<usize> {
    let word =
        |record: &Value, name: &str| record.get(name).and_then(Value::as_str).map(str::to_owned);
    let is_span = |record: &Value| record.get("startTimeUnixNano").is_some();
    let key = |record: &Value| {
        let id = word(record, "spanId").filter(|id| !id.is_empty() && is_span(record))?;
        Some((word(record, "traceId"), id))
    };
    let mut last = HashMap::new();
    for (index, record) in records.iter().enumerate() {
        if let Some(key) = key(record) {
            last.insert(key, index);
        }
    }
    let place = |(index, record): (usize, &&Value)| {
        key(record)
            .and_then(|key| last.get(&key).copied())
            .unwrap_or(index)
    };
    records.iter().enumerate().map(place).collect()
}

fn span<'r, 'a>(node: Node<'r, 'a>, number: u64, trace: &Trace) -> Span<'r, 'a> {
    let mut facts = trace.thread.source(&[]);
    for (name, member) in [
        ("session", "traceId"),
        ("id", "spanId"),
        ("parent", "parentSpanId"),
        ("name", "name"),
        ("event_name", "eventName"),
        ("severity", "severityText"),
    ] {
        facts.set_some(name, node.text_of(member).filter(|text| !text.is_empty()));
    }
    let failed = status(node, &mut facts);
    let start = moment(
        node,
        &["startTimeUnixNano", "timeUnixNano", "observedTimeUnixNano"],
        &mut facts,
    );
    let end = moment(node, &["endTimeUnixNano"], &mut facts);
    node.discard_all(&METADATA, Reason::Metadata);
    let mut span = attributes::read(node, number, facts);
    span.start = start;
    span.end = end;
    span.failed |= failed;
    span
}

/// The first valid moment among these members; all of them stay in the facts.
fn moment(node: Node<'_, '_>, names: &[&str], facts: &mut Source) -> Option<u64> {
    let mut found = None;
    for name in names {
        let Some(time) = node.get(name).filter(|time| !says_nothing(time.peek())) else {
            continue;
        };
        let value = time.peek();
        let moment = value.as_u64().or_else(|| value.as_str()?.parse().ok());
        found = found.or(moment.filter(|moment| *moment > 0));
        facts.set(name, time.take());
    }
    found
}

/// Reads `status`, and returns whether it is an error (code 2).
fn status(node: Node<'_, '_>, facts: &mut Source) -> bool {
    let Some(status) = node
        .get("status")
        .filter(|status| !says_nothing(status.peek()))
    else {
        return false;
    };
    let code = status.peek().get("code");
    let failed = code.and_then(Value::as_u64) == Some(2)
        || code.and_then(Value::as_str) == Some("STATUS_CODE_ERROR");
    facts.set("status", status.take());
    failed
}

fn number(index: usize) -> u64 {
    u64::try_from(index).map_or(u64::MAX, |index| index.saturating_add(1))
}

#[cfg(test)]
mod tests;
