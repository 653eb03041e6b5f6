//! Traffic between a program and a model: requests, responses, captures of them.
//!
//! ```text
//! source   one JSON text | JSON Lines | one event stream (text/event-stream)
//! JSON     a record | [record, …] | [chunk, …] of one streamed response | [message, …]
//!          | {"log":{"entries":[record, …]}}                                        (HAR)
//! record   REQUEST | RESPONSE | an envelope that holds one or both:
//!          request at  /request  /request/body  /request/postData/text  /body  /request_body
//!          response at /response /response/body /response/content/text  /response_body
//! REQUEST, RESPONSE   the body as JSON, or a string that holds it; a response also as a string
//!                     that holds its event stream, or as the array of its chunks
//! ```
//!
//! A request repeats the conversation so far. Each message is carried once, at its first
//! appearance. [`history`] finds the conversation that a record continues. A message at a known
//! place of that conversation is dropped as `duplicate`. A conversation that leaves another is a
//! fork; its first turn names the turn that it follows.
//!
//! Bodies in strings are read before the mapping sees the record. So pointers of the account
//! continue inside them (`/response/choices/0/…`). A stream is assembled into the response that the
//! same call without streaming returns. Records are counted from 1 (lines of JSON Lines, entries of
//! an array). A single JSON text is record 1. Most members of an envelope are `metadata`, because
//! they hold credentials. The exceptions are request, response, a moment and a path.
//!
//! | module | owns |
//! |---|---|
//! | `stream` | event streams, and the parts from which a response is assembled |
//! | `history` | known messages |
//! | `talk` | turns, settings and ids of one source |
//! | `anthropic`, `chat`, `responses`, `google` | one API each |

pub(super) mod anthropic;
pub(super) mod chat;
pub(super) mod google;
mod history;
pub(super) mod responses;
mod stream;
mod talk;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use super::account::{Account, Reason};
use super::build::rfc3339_ns;
use super::format::Head;
use super::source::{Node, Reading, json_texts, weight};
use threadseal_core::canon::json::{Value, parse};
use threadseal_core::limits::MAX_SOURCE_VALUES;

const REQUESTS: [&[&str]; 6] = [
    &[],
    &["request"],
    &["request", "body"],
    &["request", "postData", "text"],
    &["body"],
    &["request_body"],
];
const RESPONSES: [&[&str]; 5] = [
    &[],
    &["response"],
    &["response", "body"],
    &["response", "content", "text"],
    &["response_body"],
];
const MOMENTS: [&str; 4] = ["timestamp", "time", "startedDateTime", "timestamp_ns"];
const PATHS: [&str; 4] = ["path", "url", "POST", "endpoint"];

/// The functions that differ between APIs.
pub(super) struct Api {
    /// Whether this is the body of a request.
    is_request: fn(&Value) -> bool,
    /// Whether this is the body of a response.
    is_response: fn(&Value) -> bool,
    /// Whether this is an event of a streamed response.
    is_chunk: fn(&Value) -> bool,
    /// Whether this is a message; and the member of a request that lists messages.
    is_message: fn(&Value) -> bool,
    messages: &'static str,
    /// Assembles the events of a stream. Members without a place in the result are reported.
    assemble: fn(Vec<Value>, &mut stream::StreamAccount<'_>) -> Value,
}

/// One request, one response, or both.
struct Exchange<'r, 'a> {
    request: Option<Node<'r, 'a>>,
    response: Option<Node<'r, 'a>>,
    /// The record's number, and whether the source has others.
    record: u64,
    alone: bool,
    /// The moment in the envelope, and its spelling.
    moment: Option<u64>,
    time: Option<Value>,
    /// The request path in the envelope.
    path: Option<String>,
}

type Path = &'static [&'static str];

/// Whether the beginning of a source contains a body of `api`.
fn detect(head: &Head<'_>, api: &Api) -> bool {
    let holds = |value: &Value| {
        let found = |path: Path, body: fn(&Api, &Value) -> bool| {
            at(value, path).is_some_and(|value| body(api, value))
        };
        REQUESTS.iter().any(|path| found(path, is_request))
            || RESPONSES.iter().any(|path| found(path, is_response))
    };
    let document = head.document.as_ref();
    let records = document.and_then(records_of).unwrap_or_default();
    let streamed = || {
        let text = std::str::from_utf8(head.bytes).unwrap_or_default();
        stream::looks_like(text) && holds_stream(api, text)
    };
    head.lines.iter().chain(document).any(holds)
        || records.iter().any(holds)
        || records.first().is_some_and(api.is_chunk)
        || (!records.is_empty() && records.iter().all(api.is_message))
        || streamed()
}

fn is_request(api: &Api, value: &Value) -> bool {
    match value.as_str() {
        Some(text) => embedded(text).is_some_and(|value| (api.is_request)(&value)),
        None => (api.is_request)(value),
    }
}

fn is_response(api: &Api, value: &Value) -> bool {
    match value {
        Value::String(text) => text.as_str().is_some_and(|text| {
            embedded(text).is_some_and(|value| (api.is_response)(&value))
                || (stream::looks_like(text) && holds_stream(api, text))
        }),
        Value::Array(chunks) => chunks.first().is_some_and(api.is_chunk),
        _ => (api.is_response)(value),
    }
}

fn holds_stream(api: &Api, text: &str) -> bool {
    stream::events(text)
        .filter_map(Result::ok)
        .any(|event| (api.is_chunk)(&event))
}

/// Passes every exchange of `source` to `each`, and reports the rest to the account.
fn exchanges(
    source: &[u8],
    api: &Api,
    account: &mut Account,
    mut each: impl FnMut(&mut Account, &Exchange<'_, '_>),
) {
    let mut one = |account: &mut Account, number, alone, record| {
        exchange(record, api, account, (number, alone), &mut each);
    };
    let document = parse(source);
    let text = std::str::from_utf8(source).unwrap_or_default();
    if let Ok(document) = document {
        for (number, record, alone) in whole(document, api) {
            account.records += 1;
            one(account, number, alone, record);
        }
    } else if stream::looks_like(text) {
        account.records += 1;
        one(account, 1, true, text.into());
    } else {
        json_texts(
            source,
            MAX_SOURCE_VALUES,
            account,
            |account, line, record| {
                one(account, line, false, record);
            },
        );
    }
}

/// The records of one JSON text.
fn whole(mut document: Value, api: &Api) -> Vec<(u64, Value, bool)> {
    let listed = records_of(&document).unwrap_or_default();
    let is_one = !listed.is_empty()
        && (listed.iter().all(api.is_chunk) || listed.iter().all(api.is_message));
    if is_one && listed.iter().all(api.is_message) {
        document = Value::Object(vec![(api.messages.into(), document)]);
    } else if !is_one && let Some(entries) = take_records(&mut document) {
        let alone = entries.len() == 1;
        let numbered = (1..).zip(entries);
        return numbered
            .map(|(number, record)| (number, record, alone))
            .collect();
    }
    vec![(1, document, true)]
}

fn records_of(document: &Value) -> Option<&[Value]> {
    document
        .as_array()
        .or_else(|| at(document, &["log", "entries"])?.as_array())
}

fn take_records(document: &mut Value) -> Option<Vec<Value>> {
    let place = match document {
        Value::Array(_) => document,
        _ => at_mut(document, &["log", "entries"])?,
    };
    match std::mem::replace(place, Value::Null) {
        Value::Array(records) => Some(records),
        other => {
            *place = other;
            None
        }
    }
}

fn exchange(
    mut record: Value,
    api: &Api,
    account: &mut Account,
    (number, alone): (u64, bool),
    each: &mut impl FnMut(&mut Account, &Exchange<'_, '_>),
) {
    let holds = |path: Path, body: fn(&Api, &Value) -> bool| {
        at(&record, path).is_some_and(|value| body(api, value))
    };
    let request = REQUESTS.into_iter().find(|path| holds(path, is_request));
    let response = RESPONSES.into_iter().find(|path| holds(path, is_response));
    if request.is_none() && response.is_none() {
        if !is_other_traffic(&record) {
            account.lose_record(weight(&record));
        }
        account.unmapped(number, "neither a request nor a response of this API");
        return;
    }
    let mut told = stream::StreamAccount::new(account, number);
    for path in [request, response].into_iter().flatten() {
        if let Some(place) = at_mut(&mut record, path) {
            decode(place, api, path, &mut told);
        }
    }
    let reading = Reading::new(number, &record);
    let root = reading.root();
    let bodies: Vec<Path> = [request, response].into_iter().flatten().collect();
    if bodies.iter().all(|path| !path.is_empty()) {
        envelope(root, &bodies);
    }
    let (moment, time) = moment(root).unzip();
    let exchange = Exchange {
        request: request.and_then(|path| node_at(root, path)),
        response: response.and_then(|path| node_at(root, path)),
        record: number,
        alone,
        moment,
        time,
        path: PATHS
            .iter()
            .find_map(|name| Some(root.peek_str(name)?.to_owned())),
    };
    each(account, &exchange);
    reading.finish(account);
}

/// Whether a record of a capture is an exchange with something that is no model.
fn is_other_traffic(record: &Value) -> bool {
    let apis = [&anthropic::API, &responses::API, &google::API, &chat::API];
    let known = |path: &Path, body: fn(&Api, &Value) -> bool| {
        let value = at(record, path);
        value.is_some_and(|value| apis.iter().any(|api| body(api, value)))
    };
    let http = ["method", "path", "url", "status", "request"];
    http.iter().any(|name| record.get(name).is_some())
        && !REQUESTS.iter().any(|path| known(path, is_request))
        && !RESPONSES.iter().any(|path| known(path, is_response))
}

/// Replaces a body in a string, or in pieces, by the body.
fn decode(place: &mut Value, api: &Api, path: Path, told: &mut stream::StreamAccount<'_>) {
    let chunks = match place {
        Value::String(text) => {
            let text = text.as_str().unwrap_or_default();
            match embedded(text) {
                Some(value) => {
                    *place = value;
                    return;
                }
                None => told.events(text),
            }
        }
        Value::Array(chunks) => std::mem::take(chunks),
        _ => return,
    };
    told.under(path);
    *place = (api.assemble)(chunks, told);
}

fn embedded(text: &str) -> Option<Value> {
    text.trim_start()
        .starts_with('{')
        .then(|| parse(text.as_bytes()).ok())
        .flatten()
}

fn moment(root: Node<'_, '_>) -> Option<(u64, Value)> {
    MOMENTS.iter().find_map(|name| {
        let node = root.get(name)?;
        let moment = match node.peek() {
            Value::String(text) => rfc3339_ns(text.as_str()?),
            value if *name == "timestamp_ns" => value.as_u64(),
            _ => None,
        }?;
        Some((moment, node.take()))
    })
}

/// Reads the members of an envelope other than the bodies, which are at `paths`.
fn envelope(node: Node<'_, '_>, paths: &[Path]) {
    for (name, member) in node.members().into_iter().flatten() {
        let name = name.as_str().unwrap_or_default();
        let inside = |path: &&'static [&'static str]| {
            let (first, rest) = path.split_first()?;
            (*first == name).then_some(rest)
        };
        let inner: Vec<Path> = paths.iter().filter_map(inside).collect();
        if inner.is_empty() {
            member.discard(Reason::Metadata);
        } else if inner.iter().all(|path| !path.is_empty()) {
            envelope(member, &inner);
        }
    }
}

fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(name))
}

fn at_mut<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, name| match value {
        Value::Object(members) => {
            let (_, value) = members.iter_mut().find(|(known, _)| known == *name)?;
            Some(value)
        }
        _ => None,
    })
}

fn node_at<'r, 'a>(root: Node<'r, 'a>, path: Path) -> Option<Node<'r, 'a>> {
    path.iter().try_fold(root, |node, name| node.get(name))
}
