//! Failures of a provider, as facts: status, kind, code, message, the wish to wait.

use crate::bounds::{MAX_ERROR_HEADER_BYTES, MAX_ERROR_HEADERS, MAX_ERROR_TEXT_BYTES};
use crate::model::ModelError;
use crate::model::message::CANCELLED;
use genai::webc::{self, StreamTimeout};
use reqwest::header::HeaderMap;
use serde_json::Value;
use std::time::Duration;

/// Kind of an answer that ends before it is whole: a broken line, or a provider that stopped in the
/// middle.
const CUT_OFF: &str = "ConnectionError";

pub(super) fn failed(error: genai::Error) -> ModelError {
    match error {
        genai::Error::WebModelCall { webc_error, .. }
        | genai::Error::WebAdapterCall { webc_error, .. } => on_the_web(webc_error),
        genai::Error::WebStream { error, .. } => in_the_stream(error),
        genai::Error::HttpError {
            status,
            body,
            headers,
            ..
        } => refused(status.as_u16(), &body, &headers),
        // A stream event that reports an error: it has no status.
        genai::Error::ChatResponse { body, .. } => said(0, &body),
        other => ours("ProtocolError", other.to_string()),
    }
}

/// The facts of an answer that is not whole.
pub(super) fn cut_off(why: &str) -> ModelError {
    ours(CUT_OFF, format!("the answer was cut off: {why}"))
}

/// Is it a failure of the connection or of the protocol, not one that the provider states?
pub(super) fn is_ours(error: &ModelError) -> bool {
    let ours = [
        CUT_OFF,
        "TimeoutError",
        "ConnectionError",
        "ProtocolError",
        CANCELLED,
    ];
    ours.contains(&error.kind.as_str())
}

/// The facts of an error that this crate reports.
pub(super) fn ours(kind: &str, message: String) -> ModelError {
    ModelError {
        kind: kind.to_owned(),
        message: bounded(message),
        ..ModelError::default()
    }
}

fn in_the_stream(error: Box<dyn std::error::Error + Send + Sync>) -> ModelError {
    let error = match error.downcast::<genai::Error>() {
        Ok(error) => return failed(*error),
        Err(error) => error,
    };
    if error.is::<StreamTimeout>() {
        return ours("TimeoutError", error.to_string());
    }
    match error.downcast::<reqwest::Error>() {
        Ok(error) => broken(&error),
        Err(error) => ours("ProtocolError", chain(&*error)),
    }
}

fn on_the_web(error: webc::Error) -> ModelError {
    match error {
        webc::Error::ResponseFailedStatus {
            status,
            body,
            headers,
        } => refused(status.as_u16(), &body, &headers),
        webc::Error::Reqwest(error) => broken(&error),
        other => ours("ProtocolError", other.to_string()),
    }
}

fn broken(error: &reqwest::Error) -> ModelError {
    let kind = if error.is_timeout() {
        "TimeoutError"
    } else {
        "ConnectionError"
    };
    ModelError {
        unreached: error.is_connect(),
        ..ours(kind, chain(error))
    }
}

fn refused(status: u16, body: &str, headers: &HeaderMap) -> ModelError {
    let parsed = serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned()));
    ModelError {
        retry_after: wish(headers),
        headers: kept(headers),
        ..said(status, &parsed)
    }
}

/// `{"error": {"type", "code", "message"}}`, of which each provider has its own parts (Gemini:
/// `status` in place of `type`). An event of a stream may lack the outer object.
fn said(status: u16, body: &Value) -> ModelError {
    let error = match &body["error"] {
        error @ Value::Object(_) => error,
        _ => body,
    };
    let word = |name: &str| error[name].as_str().map(str::to_owned);
    let text = || match body {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    ModelError {
        status,
        kind: word("type")
            .filter(|kind| kind != "error")
            .or_else(|| word("status"))
            .unwrap_or_else(|| "HttpError".to_owned()),
        code: word("code"),
        message: bounded(word("message").unwrap_or_else(text)),
        ..ModelError::default()
    }
}

/// `Retry-After` (RFC 9110 §10.2.3): seconds, or a date, which counts from that of the answer.
fn wish(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    let wish = text("retry-after")?;
    if let Ok(seconds) = wish.trim().parse() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let until = httpdate::parse_http_date(wish).ok()?;
    let sent = httpdate::parse_http_date(text("date")?).ok()?;
    until.duration_since(sent).ok()
}

/// The headers that a retry policy may name: short texts, and not too many.
fn kept(headers: &HeaderMap) -> Box<[(String, String)]> {
    let texts = headers.iter().filter_map(|(name, value)| {
        let value = value.to_str().ok()?;
        let short = value.len() <= MAX_ERROR_HEADER_BYTES;
        short.then(|| (name.as_str().to_owned(), value.to_owned()))
    });
    texts.take(MAX_ERROR_HEADERS).collect()
}

fn bounded(mut text: String) -> String {
    let mut end = text.len().min(MAX_ERROR_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

/// An error with its causes: reqwest's own text names none of them.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
