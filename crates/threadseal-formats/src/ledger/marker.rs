//! Markers: references in a record to content that is stored elsewhere.
//!
//! ```text
//! {"$slim":{"v":1,"kind":"started_payload_field","step_id","sha256","bytes","field"}}
//! {"$slim":{"v":1,"kind":"started_messages_layout","step_id","sha256","bytes","layout",
//!           "appendix"?:[{"at","item"}…]}}           in the `started` record of that step
//! {"$artifact":"<32 hex>"}                           in an artifact store
//! {"$omitted":{…}}                                   left out of a bundle for replay
//! ```
//! `sha256` is the digest of the value's compact JSON, names in order of the text. So a `$slim`
//! marker can be checked by the `started` record alone.

use super::members::object;
use threadseal_core::canon::json::Value;
use threadseal_core::canon::python::ledger_line;
use threadseal_core::digest::Digest;
use threadseal_core::limits::MAX_RECORD_MARKERS;

#[derive(Debug, Clone)]
pub(super) enum Marker {
    /// Content of the `started` record.
    Slim(Box<Value>),
    /// Content of an artifact store.
    Artifact,
    /// Content that was left out.
    Omitted,
    /// One marker more than are kept of one record.
    TooMany,
}

/// The markers in a record, at most [`MAX_RECORD_MARKERS`] of them.
///
/// `AbstractRuntime` puts `$slim` and `$omitted` in certain places only. Elsewhere they are
/// content: a tool may well return a record of a ledger.
pub(super) fn markers(record: &Value) -> Vec<Marker> {
    let mut found = Vec::new();
    let metadata = record
        .get("result")
        .and_then(|result| result.get("metadata"));
    let inside = |path: [&str; 2]| metadata?.get(path[0])?.get(path[1]);
    let places = [
        payload(record),
        inside(["_runtime_observability", "llm_generate_kwargs"]),
        inside(["_provider_request", "payload"]),
        metadata,
    ];
    for place in places.into_iter().flatten() {
        let members = place.as_object().unwrap_or_default();
        for (_, value) in members {
            if let Some(slim) = value.get("$slim").filter(|slim| slim.as_object().is_some()) {
                note(&mut found, Marker::Slim(Box::new(slim.clone())));
            } else if value.get("$omitted").is_some() {
                note(&mut found, Marker::Omitted);
            }
        }
    }
    artifacts(record, &mut found);
    found
}

fn note(found: &mut Vec<Marker>, marker: Marker) {
    match found.len() {
        MAX_RECORD_MARKERS => found.push(Marker::TooMany),
        fewer if fewer < MAX_RECORD_MARKERS => found.push(marker),
        _ => {}
    }
}

fn artifacts(value: &Value, found: &mut Vec<Marker>) {
    match value {
        Value::Array(elements) => elements.iter().for_each(|value| artifacts(value, found)),
        Value::Object(members) => {
            for (name, value) in members {
                if name == "$artifact" && value.as_str().is_some() {
                    note(found, Marker::Artifact);
                }
                artifacts(value, found);
            }
        }
        _ => {}
    }
}

/// The step whose `started` record has the content.
pub(super) fn step_of(slim: &Value) -> Option<&str> {
    slim.get("step_id")?.as_str()
}

/// The content that `slim` replaces, in the form that its digest covers. None if the payload of its
/// `started` record has no such content.
pub(super) fn content(slim: &Value, payload: &Value) -> Option<Vec<u8>> {
    let content = match slim.get("kind").and_then(Value::as_str) {
        Some("started_payload_field") => field(slim, payload),
        Some("started_messages_layout") => layout(slim, payload),
        _ => None,
    };
    ledger_line(&with_appendix(content?, slim.get("appendix"))?).ok()
}

/// Whether `content` is the content that `slim` replaces.
pub(super) fn resolves(slim: &Value, content: &[u8]) -> bool {
    let digest = slim.get("sha256").and_then(Value::as_str);
    digest == Some(&*Digest::of(content).to_hex())
}

fn field(slim: &Value, payload: &Value) -> Option<Value> {
    let name = slim.get("field")?.as_str()?;
    payload.get(name).cloned()
}

/// Messages as a provider gets them, put together of parts of the payload.
fn layout(slim: &Value, payload: &Value) -> Option<Value> {
    let said = |role: &str, name: &str| {
        let text = payload
            .get(name)?
            .as_str()
            .filter(|text| !text.is_empty())?;
        Some(object([("role", role.into()), ("content", text.into())]))
    };
    let mut messages = Vec::new();
    let parts = slim.get("layout")?.as_array()?;
    // There are three parts, and `AbstractRuntime` uses none twice: a marker must not expand
    // without bound.
    if parts.len() > 3 {
        return None;
    }
    for part in parts {
        match part.as_str()? {
            "system" => messages.push(said("system", "system_prompt")?),
            "prompt" => messages.push(said("user", "prompt")?),
            "messages" => {
                let all = payload.get("messages")?.as_array()?.iter();
                messages.extend(all.filter(|one| one.as_object().is_some()).cloned());
            }
            _ => return None,
        }
    }
    Some(Value::Array(messages))
}

/// Inserts the items of the marker's own appendix, each at its place in the whole.
fn with_appendix(content: Value, appendix: Option<&Value>) -> Option<Value> {
    let extras = appendix.and_then(Value::as_array).unwrap_or_default();
    if extras.is_empty() {
        return Some(content);
    }
    let Value::Array(elements) = content else {
        return None;
    };
    let mut placed = Vec::with_capacity(extras.len());
    for extra in extras {
        let at = usize::try_from(extra.get("at")?.as_u64()?).ok()?;
        placed.push((at, extra.get("item")?));
    }
    placed.sort_by_key(|(at, _)| *at);
    let mut whole = Vec::with_capacity(elements.len() + placed.len());
    let mut elements = elements.into_iter();
    for (at, item) in placed {
        // No two items share a place.
        let between = at.checked_sub(whole.len())?;
        whole.extend(elements.by_ref().take(between));
        if whole.len() < at {
            return None;
        }
        whole.push(item.clone());
    }
    whole.extend(elements);
    Some(Value::Array(whole))
}

pub(super) fn payload(record: &Value) -> Option<&Value> {
    record.get("effect")?.get("payload")
}
