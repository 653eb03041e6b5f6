//! The readable part of a tool's arguments and results.
//!
//! A result is usually a wrapper, `{'status': 'success', 'data': {'output': '…'}}`, stored as JSON
//! or as Python's `str(dict)`. The output is `data.output`, else `output`, else `stdout`, with
//! `[stderr]` and `[error]` after it. Where none of these is text, it is the wrapper without its
//! uninformative members. At most [`MAX_SHOWN_RESULT_CHARS`] characters (Rye `transcript.py`,
//! `_clean_tool_output`, `_condense_tool_input`).

use super::{literal, pretty::pretty, shown};
use crate::transcript::messages::is_truthy;
use crate::transcript::rye_compat::python::strip;
use threadseal_core::canon::json::{self, Text, Value};
use threadseal_core::limits::{MAX_SHOWN_FILE_CHARS, MAX_SHOWN_RESULT_CHARS};

/// The arguments of a call as indented JSON; the content of a written file is cut.
pub(super) fn condense_input(tool: &str, input: Option<&Value>) -> String {
    let writes = tool.contains("file-system/write") || tool.contains("file-system/create");
    let nothing = Value::Object(Vec::new());
    let mut input = input.unwrap_or(&nothing).clone();
    if let (true, Value::Object(members)) = (writes, &mut input)
        && let Some((_, content)) = members.iter_mut().find(|(name, _)| name == "content")
        && let Some(text) = content.as_str()
        && let Some((cut, _)) = text.char_indices().nth(MAX_SHOWN_FILE_CHARS)
    {
        let (lines, characters) = (text.matches('\n').count() + 1, text.chars().count());
        let preview = &text[..cut];
        *content = format!("{preview}\n... ({lines} lines, {characters} chars total)").into();
    }
    pretty(&input)
}

/// The informative part of a result.
pub(super) fn clean(output: Option<&Value>) -> String {
    let raw = output.cloned().unwrap_or_else(|| "".into());
    let text = match parse(&raw) {
        Some(Value::Object(wrapper)) => unwrap(Wrapper(wrapper)),
        _ => shown(&raw),
    };
    match text.char_indices().nth(MAX_SHOWN_RESULT_CHARS) {
        Some((cut, _)) => format!("{}\n... (truncated)", &text[..cut]),
        None => text,
    }
}

fn parse(raw: &Value) -> Option<Value> {
    let Value::String(_) = raw else {
        return Some(raw.clone());
    };
    let text = strip(raw.as_str()?);
    if !text.starts_with(['{', '[']) {
        return None;
    }
    let parsed = json::parse_python(text.as_bytes())
        .ok()
        .map(|document| document.value);
    parsed.or_else(|| literal::parse(text))
}

/// A dict that is taken apart.
struct Wrapper(Vec<(Text, Value)>);

impl Wrapper {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value)
    }

    fn truthy(&self, name: &str) -> Option<&Value> {
        self.get(name).filter(|value| is_truthy(value))
    }

    fn remove(&mut self, name: &str) {
        self.0.retain(|(key, _)| key != name);
    }
}

fn unwrap(mut wrapper: Wrapper) -> String {
    for key in ["_artifact_ref", "_artifact_note"] {
        wrapper.remove(key);
    }
    if let Some((_, Value::Object(data))) = wrapper.0.iter_mut().find(|(key, _)| key == "data") {
        data.retain(|(key, _)| key != "_artifact_ref" && key != "_artifact_note");
    }
    let data = match wrapper.get("data") {
        Some(Value::Object(data)) => Wrapper(data.clone()),
        _ => Wrapper(Vec::new()),
    };
    let found = data
        .truthy("output")
        .or(wrapper.truthy("output"))
        .or(wrapper.truthy("stdout"));
    match found.and_then(Value::as_str) {
        Some(text) => with_errors(text, &wrapper, &data),
        None => without_noise(wrapper),
    }
}

fn with_errors(text: &str, wrapper: &Wrapper, data: &Wrapper) -> String {
    let mut out = text.trim_end().to_owned();
    let either = |name: &str| wrapper.truthy(name).or(data.truthy(name));
    if let Some(stderr) = either("stderr").and_then(Value::as_str).map(strip)
        && !stderr.is_empty()
        && stderr != strip(text)
    {
        out.push_str("\n[stderr] ");
        out.push_str(stderr);
    }
    if let Some(error) = either("error") {
        out.push_str("\n[error] ");
        out.push_str(&shown(error));
    }
    out
}

fn without_noise(mut wrapper: Wrapper) -> String {
    let text = |name: &str| {
        wrapper
            .truthy(name)
            .map(|value| strip(&shown(value)).to_owned())
    };
    if text("output").is_some() && text("output") == text("stdout") {
        wrapper.remove("stdout");
    }
    let blank = |value: &Value| value.as_str().is_some_and(|text| strip(text).is_empty());
    if wrapper.get("stderr").is_none_or(blank) {
        wrapper.remove("stderr");
    }
    if wrapper.get("exit_code").and_then(Value::as_f64) == Some(0.0) {
        wrapper.remove("exit_code");
    }
    if wrapper.get("status").and_then(Value::as_str) == Some("success") {
        wrapper.remove("status");
    }
    if wrapper.get("success").and_then(Value::as_bool) == Some(true) {
        wrapper.remove("success");
    }
    pretty(&Value::Object(wrapper.0))
}
