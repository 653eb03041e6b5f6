//! One line of the sender: read strictly, or refused with a code (`spec/record-protocol.md` §2, §4).
//!
//! ```text
//! {"type":TYPE,"payload":OBJECT}  {"seal":true}  {"flush":true}  {"end":ENDING,"payload":OBJECT}  {"begin":OBJECT}
//! ```
//! Not here: whether the record takes the event. The recorder decides that.

use serde::Serialize;
use std::ops::Range;
use threadseal_core::canon::json::{self, JsonError, JsonErrorKind, Value};
use threadseal_core::canon::python;
use threadseal_core::record::ThreadId;
use threadseal_formats::transcript::Ending;
use threadseal_formats::transcript::event::{EventType, Payload};
use threadseal_formats::transcript::manifest::Bodies;

/// Longest line of the sender in bytes, LF not counted: that of a native line.
pub(super) const MAX_INPUT_LINE_BYTES: usize = threadseal_core::limits::MAX_LINE_BYTES;
/// Longest `id` in bytes, as it is spelled.
pub(super) const MAX_ID_BYTES: usize = 256;
/// Members of a line that are looked at: one more than a line of the protocol has.
const MAX_MEMBERS: usize = 4;

/// Members of `meta` that state links of threads.
const LINKS: [&str; 2] = ["parent_thread", "predecessor_thread"];

/// A line, as far as it could be read.
#[derive(Debug)]
pub(super) struct Line {
    /// The sender's name of it, which its answer repeats.
    pub(super) id: Option<serde_json::Value>,
    /// What it asks for.
    pub(super) request: Result<Request, Refusal>,
}

/// What a line asks for.
#[derive(Debug)]
pub(super) enum Request {
    /// Begin the record.
    Begin(Box<Begin>),
    /// Append an event.
    Event(EventType, Payload),
    /// End the turn with a seal.
    Seal,
    /// Make all lines durable.
    Flush,
    /// End the record.
    End(Ending, Payload),
}

/// Line 1 of a record, as the sender or the options give it.
#[derive(Debug, Clone)]
pub(super) struct Begin {
    pub(super) thread: ThreadId,
    pub(super) directive: Option<String>,
    pub(super) model: Option<String>,
    pub(super) capabilities: Vec<String>,
    pub(super) limits: Value,
    pub(super) meta: Value,
    pub(super) workspace: Option<String>,
    pub(super) bodies: Bodies,
}

/// Why a line is not recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: Code,
    pub(super) why: String,
    pub(super) hint: Option<&'static str>,
}

/// The codes of refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Code {
    LineTooLong,
    LineCut,
    NotUtf8,
    NotJson,
    DuplicateKey,
    JsonLimit,
    NotAnObject,
    MemberUnknown,
    MemberMissing,
    MemberMalformed,
    TypeMalformed,
    TypeReserved,
    PayloadMalformed,
    EventTooLong,
    EndingUnknown,
    BeginMissing,
    Begun,
    BeginRefused,
    AfterEnd,
}

impl Code {
    /// A refusal with this code.
    pub(super) fn because(self, why: impl Into<String>) -> Refusal {
        let hint = match self {
            Self::TypeReserved => {
                Some("send {\"seal\":true} for a checkpoint, {\"end\":ENDING} for the end")
            }
            Self::BeginMissing => {
                Some("send {\"begin\":{\"thread\":ID}}, or start with --thread ID")
            }
            Self::MemberMissing | Self::MemberUnknown => {
                Some("a line has type and payload, or one of seal, flush, end, begin")
            }
            Self::LineTooLong | Self::EventTooLong => {
                Some("store the content elsewhere, and record its digest")
            }
            Self::EndingUnknown => Some("use completed, error, cancelled or suspended"),
            _ => None,
        };
        let why = why.into();
        Refusal {
            code: self,
            why,
            hint,
        }
    }
}

/// Reads a line, without its LF.
pub(super) fn parse(line: &[u8]) -> Line {
    let mut members = Vec::new();
    let scanned = json::scan_object(line, |key, span| {
        if members.len() < MAX_MEMBERS {
            members.push((key.name().into_owned(), span));
        }
    });
    if let Err(error) = scanned {
        // A text that is no object need not be JSON at all.
        let error = json::validate(line).err().unwrap_or(error);
        let request = Err(of_json(&error));
        return Line { id: None, request };
    }
    let members = Members { line, members };
    match members.id() {
        Ok(id) => Line {
            id,
            request: members.request(),
        },
        Err(refusal) => Line {
            id: None,
            request: Err(refusal),
        },
    }
}

fn of_json(error: &JsonError) -> Refusal {
    let code = match error.kind {
        JsonErrorKind::InvalidUtf8 => Code::NotUtf8,
        JsonErrorKind::DuplicateKey => Code::DuplicateKey,
        JsonErrorKind::NotAnObject => Code::NotAnObject,
        kind if kind.is_limit() => Code::JsonLimit,
        _ => Code::NotJson,
    };
    code.because(error.to_string())
}

/// The members of a line that is a JSON object.
struct Members<'l> {
    line: &'l [u8],
    /// The first of them: names, and places of values.
    members: Vec<(String, Range<usize>)>,
}

impl Members<'_> {
    fn text(&self, name: &str) -> Option<&[u8]> {
        let (_, span) = self.members.iter().find(|(found, _)| found == name)?;
        self.line.get(span.clone())
    }

    fn id(&self) -> Result<Option<serde_json::Value>, Refusal> {
        let Some(text) = self.text("id") else {
            return Ok(None);
        };
        let id = match text.len() <= MAX_ID_BYTES {
            true => serde_json::from_slice::<serde_json::Value>(text).ok(),
            false => None,
        };
        let is_id = |id: &serde_json::Value| id.is_string() || id.is_i64() || id.is_u64();
        match id.filter(is_id) {
            Some(id) => Ok(Some(id)),
            None => Err(Code::MemberMalformed.because(format!(
                "id must be a string of at most {MAX_ID_BYTES} bytes or an integer of 64 bits"
            ))),
        }
    }

    fn request(&self) -> Result<Request, Refusal> {
        const KINDS: [&str; 5] = ["type", "seal", "flush", "end", "begin"];
        let (mut kind, mut has_payload) = (None, false);
        for (name, _) in &self.members {
            match name.as_str() {
                "id" => {}
                "payload" => has_payload = true,
                name => {
                    let Some(found) = KINDS.into_iter().find(|kind| *kind == name) else {
                        return Err(unknown(name));
                    };
                    if let Some(other) = kind.replace(found) {
                        let why = format!("a line has one of {other} and {found}, not both");
                        return Err(Code::MemberMalformed.because(why));
                    }
                }
            }
        }
        let Some(kind) = kind else {
            let why = "a line needs one of type, seal, flush, end, begin";
            return Err(Code::MemberMissing.because(why));
        };
        if has_payload && !matches!(kind, "type" | "end") {
            return Err(unknown("payload"));
        }
        match kind {
            "type" => self.event(),
            "end" => self.end(),
            "begin" => Ok(Request::Begin(Box::new(self.begin()?))),
            kind if self.text(kind) != Some(b"true") => {
                Err(Code::MemberMalformed.because(format!("{kind} must be true")))
            }
            "seal" => Ok(Request::Seal),
            _ => Ok(Request::Flush),
        }
    }

    fn event(&self) -> Result<Request, Refusal> {
        let event_type = string(self.text("type"), "type")?;
        let event_type = EventType::parse(&event_type)
            .map_err(|error| Code::TypeMalformed.because(error.to_string()))?;
        if event_type.is_reserved() {
            let why = format!(
                "only the recorder writes events of type {}",
                event_type.as_str()
            );
            return Err(Code::TypeReserved.because(why));
        }
        match self.text("payload") {
            Some(text) => Ok(Request::Event(event_type, payload(text)?)),
            None => Err(Code::MemberMissing.because("an event needs a payload")),
        }
    }

    fn end(&self) -> Result<Request, Refusal> {
        let named = string(self.text("end"), "end")?;
        let ending = match named.as_str() {
            "completed" => Ending::Completed,
            "error" => Ending::Error,
            "cancelled" => Ending::Cancelled,
            "suspended" => Ending::Suspended,
            _ => return Err(Code::EndingUnknown.because(format!("{named:?} is no ending"))),
        };
        let payload = payload(self.text("payload").unwrap_or(b"{}"))?;
        Ok(Request::End(ending, payload))
    }

    fn begin(&self) -> Result<Begin, Refusal> {
        let value = json::parse(self.text("begin").unwrap_or_default());
        let value = value.map_err(|error| of_json(&error))?;
        let members = value
            .as_object()
            .ok_or_else(|| malformed("begin", "an object"))?;
        let mut begin: Option<Begin> = None;
        if let Some(thread) = value.get("thread") {
            let thread = thread
                .as_str()
                .ok_or_else(|| malformed("thread", "a string"))?;
            let thread = ThreadId::parse(thread)
                .map_err(|error| Code::MemberMalformed.because(error.to_string()))?;
            begin = Some(Begin::of(thread));
        }
        let mut begin = begin.ok_or_else(|| Code::MemberMissing.because("begin needs a thread"))?;
        for (name, value) in members {
            begin.take(name.as_str().unwrap_or_default(), value)?;
        }
        Ok(begin)
    }
}

impl Begin {
    /// A record of this thread, with all other members empty.
    pub(super) fn of(thread: ThreadId) -> Self {
        Self {
            thread,
            directive: None,
            model: None,
            capabilities: Vec::new(),
            limits: Value::Object(Vec::new()),
            meta: Value::Object(Vec::new()),
            workspace: None,
            bodies: Bodies::Inline,
        }
    }

    fn take(&mut self, name: &str, value: &Value) -> Result<(), Refusal> {
        let text = || {
            let text = value.as_str().map(str::to_owned);
            text.ok_or_else(|| malformed(name, "a string"))
        };
        match name {
            "thread" => {}
            "directive" => self.directive = Some(text()?),
            "model" => self.model = Some(text()?),
            "workspace" => self.workspace = Some(text()?),
            "capabilities" => {
                let names = value.as_array().into_iter().flatten();
                let names: Option<Vec<_>> = names.map(|name| name.as_str()).collect();
                let names = names.filter(|_| value.as_array().is_some());
                let names = names.ok_or_else(|| malformed(name, "an array of strings"))?;
                self.capabilities = names.into_iter().map(str::to_owned).collect();
            }
            "limits" => self.limits = object(name, value)?,
            "meta" => self.meta = meta(value)?,
            "bodies" => {
                self.bodies = match value.as_str() {
                    Some("inline") => Bodies::Inline,
                    Some("detached") => Bodies::Detached,
                    _ => return Err(malformed(name, "\"inline\" or \"detached\"")),
                }
            }
            _ => return Err(unknown(name)),
        }
        Ok(())
    }
}

/// An object as line 1 contains it: in the one spelling that a verifier reads back.
///
/// # Errors
/// [`Code::MemberMalformed`] for anything else.
pub(super) fn object(name: &str, value: &Value) -> Result<Value, Refusal> {
    if value.as_object().is_none() {
        return Err(malformed(name, "an object"));
    }
    json::parse(&python::rye(value)).map_err(|error| of_json(&error))
}

/// `meta` of line 1.
///
/// # Errors
/// As [`object`]; when it states a link.
pub(super) fn meta(value: &Value) -> Result<Value, Refusal> {
    let meta = object("meta", value)?;
    match LINKS.into_iter().find(|link| meta.get(link).is_some()) {
        Some(link) => {
            let why = format!("meta has {link}, by which a recorder states a link");
            Err(Code::MemberMalformed.because(why))
        }
        None => Ok(meta),
    }
}

fn unknown(name: &str) -> Refusal {
    let name: String = name.chars().take(64).collect();
    Code::MemberUnknown.because(format!("this line has no member {name:?}"))
}

fn malformed(name: &str, expected: &str) -> Refusal {
    Code::MemberMalformed.because(format!("{name} must be {expected}"))
}

fn string(text: Option<&[u8]>, name: &str) -> Result<String, Refusal> {
    let text = serde_json::from_slice(text.unwrap_or_default());
    text.map_err(|_| malformed(name, "a string"))
}

fn payload(text: &[u8]) -> Result<Payload, Refusal> {
    if !text.starts_with(b"{") {
        return Err(malformed("payload", "an object"));
    }
    Payload::parse(text).map_err(|error| {
        let code = match text.iter().any(u8::is_ascii_control) {
            true => Code::PayloadMalformed,
            false => Code::EventTooLong,
        };
        code.because(error.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(line: impl AsRef<[u8]>) -> Code {
        parse(line.as_ref()).request.unwrap_err().code
    }

    // T-REC-50
    #[test]
    fn a_line_that_is_no_strict_json_is_refused_with_its_code() {
        let deep = format!(
            "{{\"type\":\"x\",\"payload\":{}{}}}",
            "[".repeat(200),
            "]".repeat(200)
        );
        let long = format!(
            "{{\"type\":\"x\",\"payload\":{{\"n\":{}}}}}",
            "9".repeat(5000)
        );
        for (line, expected) in [
            ("not json", Code::NotJson),
            ("{\"type\":\"x\"", Code::NotJson),
            ("{\"type\":\"x\",\"payload\":{}} {}", Code::NotJson),
            ("{'type':'x'}", Code::NotJson),
            ("{\"type\":\"x\",\"payload\":{\"a\":NaN}}", Code::NotJson),
            ("{\"type\":\"x\",\"payload\":{\"a\":1e999}}", Code::NotJson),
            (
                "{\"type\":\"x\",\"payload\":{\"a\":\"\\ud800\"}}",
                Code::NotJson,
            ),
            ("{\"type\":\"x\",\"payload\":{\"a\":\"\0\"}}", Code::NotJson),
            ("\u{feff}{\"seal\":true}", Code::NotJson),
            ("[1]", Code::NotAnObject),
            (
                "{\"type\":\"x\",\"type\":\"y\",\"payload\":{}}",
                Code::DuplicateKey,
            ),
            (
                "{\"type\":\"x\",\"payload\":{\"a\":1,\"\\u0061\":2}}",
                Code::DuplicateKey,
            ),
            (&deep, Code::JsonLimit),
            (&long, Code::JsonLimit),
        ] {
            assert_eq!(code(line), expected, "{line}");
        }
        assert_eq!(
            code(b"{\"type\":\"x\",\"payload\":{\"a\":\"\xff\"}}"),
            Code::NotUtf8
        );
    }

    #[test]
    fn a_line_has_one_meaning_and_no_other_members() {
        for (line, expected) in [
            ("{}", Code::MemberMissing),
            ("{\"id\":1}", Code::MemberMissing),
            ("{\"type\":\"x\"}", Code::MemberMissing),
            ("{\"payload\":{}}", Code::MemberMissing),
            ("{\"begin\":{}}", Code::MemberMissing),
            ("{\"seal\":true,\"payload\":{}}", Code::MemberUnknown),
            ("{\"seal\":true,\"turn\":1}", Code::MemberUnknown),
            (
                "{\"type\":\"x\",\"payload\":{},\"timestamp\":1}",
                Code::MemberUnknown,
            ),
            (
                "{\"seal\":true,\"id\":1,\"a\":1,\"b\":1,\"c\":1,\"d\":1}",
                Code::MemberUnknown,
            ),
            (
                "{\"begin\":{\"thread\":\"t\",\"record\":\"00\"}}",
                Code::MemberUnknown,
            ),
            ("{\"seal\":true,\"flush\":true}", Code::MemberMalformed),
            ("{\"seal\":false}", Code::MemberMalformed),
            ("{\"flush\":1}", Code::MemberMalformed),
            ("{\"type\":7,\"payload\":{}}", Code::MemberMalformed),
            ("{\"type\":\"x\",\"payload\":[]}", Code::MemberMalformed),
            ("{\"seal\":true,\"id\":null}", Code::MemberMalformed),
            ("{\"seal\":true,\"id\":1.5}", Code::MemberMalformed),
            (
                "{\"seal\":true,\"id\":123456789012345678901}",
                Code::MemberMalformed,
            ),
            ("{\"begin\":{\"thread\":\"../t\"}}", Code::MemberMalformed),
            (
                "{\"begin\":{\"thread\":\"t\",\"capabilities\":\"a\"}}",
                Code::MemberMalformed,
            ),
            (
                "{\"begin\":{\"thread\":\"t\",\"meta\":{\"parent_thread\":\"p\"}}}",
                Code::MemberMalformed,
            ),
            ("{\"type\":\"a b\",\"payload\":{}}", Code::TypeMalformed),
            ("{\"type\":\"\",\"payload\":{}}", Code::TypeMalformed),
            ("{\"type\":\"x\",\"payload\":{\t}}", Code::PayloadMalformed),
            ("{\"end\":\"continued\"}", Code::EndingUnknown),
        ] {
            assert_eq!(code(line), expected, "{line}");
        }
        let id = format!("{{\"seal\":true,\"id\":\"{}\"}}", "i".repeat(MAX_ID_BYTES));
        assert_eq!(code(id), Code::MemberMalformed);
    }

    // T-REC-51
    #[test]
    fn types_that_only_the_recorder_writes_are_refused() {
        use threadseal_formats::transcript::event::RESERVED;
        for reserved in RESERVED {
            let line = format!("{{\"type\":\"{reserved}\",\"payload\":{{}}}}");
            assert_eq!(code(line), Code::TypeReserved, "{reserved}");
        }
        // Another spelling of the same text is the same type.
        let escaped = "{\"type\":\"check\\u0070oint\",\"payload\":{}}";
        assert_eq!(code(escaped), Code::TypeReserved);
    }

    #[test]
    fn a_payload_keeps_the_spelling_of_its_numbers() {
        let line = "{\"payload\": {\"n\": 1.50, \"big\":123456789012345678901234567890, \"t\":\"\u{e9}\"} ,\"type\":\"x\",\"id\":\"a\"}";
        let line = parse(line.as_bytes());
        assert_eq!(line.id, Some("a".into()));
        let Ok(Request::Event(_, payload)) = line.request else {
            panic!("no event");
        };
        let text = std::str::from_utf8(payload.as_bytes()).unwrap();
        assert_eq!(
            text,
            r#"{"n": 1.50, "big":123456789012345678901234567890, "t":"\u00e9"}"#
        );
    }

    #[test]
    fn a_beginning_has_all_members_of_line_1_that_a_sender_knows() {
        let line = br#"{"begin":{"thread":"a/b","directive":"d","model":"m","capabilities":["x"],"limits":{"b":1,"a":2.0},"meta":{"k":[]},"workspace":"w","bodies":"detached"}}"#;
        let Ok(Request::Begin(begin)) = parse(line).request else {
            panic!("no beginning");
        };
        assert_eq!(begin.thread.as_str(), "a/b");
        assert_eq!(begin.capabilities, ["x"]);
        assert_eq!(begin.bodies, Bodies::Detached);
        assert_eq!(python::rye(&begin.limits), br#"{"a":2.0,"b":1}"#);
    }
}
