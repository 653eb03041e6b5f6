//! A turn in the making, in the words of the scroll. A mapping fills it in.
//!
//! ```text
//! {"version":"scroll/0.1","turn":N,"role":R,
//!  "model":{"vendor":V,"id":M[,"fingerprint":F]},
//!  "params":{"temperature":T,"top_p":P[,"seed":S][,"max_tokens":X]},
//!  "messages":[{"role":R,"content":[ITEM,…]}, {"role":"source","content":[SOURCE]}],
//!  "tool_calls":[{"id":I,"name":N,"args_hash":H,"args":A},…],
//!  "tool_results":[{"id":I,"status":"ok","response_hash":H,"response":B},…],
//!  "timestamp_ns":T}
//! ```
//!
//! ITEM, the same words for every vendor:
//!
//! | item | holds |
//! |---|---|
//! | `{"type":"text","text":T}` | text of a human, a model or a program |
//! | `{"type":"thinking","thinking":T}` | readable reasoning |
//! | `{"type":"redacted_thinking","data":D}` | reasoning that only its vendor can read |
//! | `{"type":"tool_call","id":I}` | the place of `tool_calls[].id` among the items |
//! | `{"type":"tool_result","id":I}` | the place of `tool_results[].id` among the items |
//! | any other `type` | the vendor's own block (an image, a document), unchanged |
//!
//! An item may have more members, which the vendor gave it (`signature`, `citations`).
//!
//! The arguments of a call and the response to it are only in `tool_calls` and `tool_results`.
//! Redaction thus has one place to act on. SOURCE is an object with `"type":"source"`: [`Source`]
//! lists its members. It holds useful facts that are not content: ids, usage, the stop reason, the
//! place of the turn in a tree.
//!
//! The schema requires fields that a source may lack. Their defaults:
//!
//! * `params.temperature` and `params.top_p` are 1.
//! * `model.id` is that of the turn before. At the beginning it is that of the first turn that has
//!   one, or `unknown` if none has.
//! * `timestamp_ns` is that of the turn before, or 0.
//!
//! The account counts the turns with each default.

use super::account::{Tokens, object};
use threadseal_core::canon::json::{Number, Text, Value};
use threadseal_core::canon::python;
use threadseal_core::digest::Digest;
use threadseal_formats::scroll::{Role, SchemaViolation, Turn, VERSION, body_hash, hash_text};

const DEFAULT_SAMPLING: u64 = 1;
const UNKNOWN_MODEL: &str = "unknown";

/// The model of a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Model {
    /// The provider of the model.
    pub vendor: String,
    /// Its name; `None` if the source does not name it.
    pub id: Option<String>,
    /// The vendor's name for the machine or version that answered.
    pub fingerprint: Option<String>,
}

/// Sampling parameters, each `None` if the source does not state it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Params {
    /// Temperature.
    pub temperature: Option<Number>,
    /// Nucleus sampling.
    pub top_p: Option<Number>,
    /// Random seed.
    pub seed: Option<i64>,
    /// Most tokens of an answer.
    pub max_tokens: Option<i64>,
}

/// One message of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Any word; `source` for [`Source`].
    pub role: String,
    /// A string, or an array of items.
    pub content: Value,
}

/// A value that is carried with its hash: arguments or a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    value: Value,
    hash: Digest,
}

/// One call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The id that its result refers to.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments; without them only their hash is kept.
    pub args: Option<Value>,
    /// SHA-256 of the arguments' canonical form.
    pub args_hash: Digest,
}

/// The answer of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The call's id.
    pub id: String,
    /// Whether the tool succeeded.
    pub ok: bool,
    /// The answer; without it only its hash is kept.
    pub response: Option<Value>,
    /// SHA-256 of the answer's canonical form.
    pub response_hash: Digest,
}

/// A turn that is not numbered yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// The role of the turn.
    pub role: Role,
    /// The model of the turn.
    pub model: Model,
    /// Sampling parameters.
    pub params: Params,
    /// Messages, in order.
    pub messages: Vec<Message>,
    /// Calls of tools.
    pub tool_calls: Vec<ToolCall>,
    /// Results of tools.
    pub tool_results: Vec<ToolResult>,
    /// Nanoseconds since 1970; `None` if the source has no time.
    pub timestamp_ns: Option<u64>,
}

/// Facts of a turn that are not content: the members of the `source` item.
///
/// | member | holds |
/// |---|---|
/// | `format` | name of the mapping |
/// | `lines` | the place of the turn in the source, counted from 1 |
/// | `time` | the moment as the source spells it |
/// | `session`, `agent`, `sidechain` | the conversation, its agent, whether beside the main line |
/// | `id`, `parent` | name of the record and of its predecessor: forks have one parent |
/// | `message`, `request`, `turn` | the vendor's names for the model's message, request and turn |
/// | `stop_reason` | why the model stopped, in the vendor's word |
/// | `tokens` | [`Tokens`] of the turn |
/// | `usage` | the vendor's own figures |
/// | others | as the table of the mapping defines |
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    members: Vec<(Text, Value)>,
}

impl Message {
    /// A message of `role` with these items.
    pub fn items(role: Role, items: Vec<Value>) -> Self {
        Self {
            role: role.as_str().to_owned(),
            content: Value::Array(items),
        }
    }
}

impl Body {
    /// `value` and the hash of its canonical form.
    ///
    /// A value without canonical form becomes the string of its JSON. No reader of a source yields
    /// one.
    pub fn new(value: Value) -> Self {
        if let Ok(hash) = body_hash(&value) {
            return Self { value, hash };
        }
        let text = String::from_utf8_lossy(&python::rye_line(&value)).into_owned();
        Self::new(text.into())
    }
}

impl ToolCall {
    /// A call with its arguments.
    pub fn new(id: String, name: String, args: Value) -> Self {
        let body = Body::new(args);
        Self {
            id,
            name,
            args: Some(body.value),
            args_hash: body.hash,
        }
    }
}

impl ToolResult {
    /// A result with its response.
    pub fn new(id: String, ok: bool, response: Value) -> Self {
        let body = Body::new(response);
        Self {
            id,
            ok,
            response: Some(body.value),
            response_hash: body.hash,
        }
    }
}

impl Source {
    /// Facts for a turn from the mapping called `format`.
    pub fn new(format: &str) -> Self {
        let mut source = Self::default();
        source.set("type", "source".into());
        source.set("format", format.into());
        source
    }

    /// Sets a member, in its present place or else as the last.
    pub fn set(&mut self, name: &str, value: Value) {
        match self.members.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.members.push((name.into(), value)),
        }
    }

    /// The member called `name`.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let (_, value) = self.members.iter().find(|(known, _)| known == name)?;
        Some(value)
    }

    /// [`Self::set`], if there is a value.
    pub fn set_some(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(name, value.into());
        }
    }

    /// Sets the members of `other`.
    pub fn absorb(&mut self, other: Self) {
        for (name, value) in other.members {
            match name.as_str() {
                Some(name) => self.set(name, value),
                None => self.members.push((name, value)),
            }
        }
    }

    /// Its values, in order.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.members.iter().map(|(_, value)| value)
    }

    /// The same members, with `make` applied to their values.
    #[must_use]
    pub fn map(self, mut make: impl FnMut(Value) -> Value) -> Self {
        let members = self.members.into_iter();
        Self {
            members: members.map(|(name, value)| (name, make(value))).collect(),
        }
    }

    /// Sets `tokens`.
    pub fn set_tokens(&mut self, tokens: Tokens) {
        self.set("tokens", tokens.to_value());
    }

    fn into_message(self) -> Message {
        Message {
            role: "source".to_owned(),
            content: Value::Array(vec![Value::Object(self.members)]),
        }
    }
}

impl Draft {
    /// An empty turn.
    pub fn new(role: Role, vendor: &str) -> Self {
        Self {
            role,
            model: Model {
                vendor: vendor.to_owned(),
                ..Model::default()
            },
            params: Params::default(),
            messages: Vec::new(),
            tool_calls: Vec::new(),
            tool_results: Vec::new(),
            timestamp_ns: None,
        }
    }

    /// Adds the `source` message, the last of the turn.
    pub fn close(&mut self, source: Source) {
        self.messages.push(source.into_message());
    }

    /// Turn `index` of a scroll.
    ///
    /// # Errors
    /// The first violation of the schema; no mapping makes such a draft.
    pub fn into_turn(self, index: u64) -> Result<Turn, SchemaViolation> {
        Turn::from_value(self.into_value(index))
    }

    /// The value of turn `index`.
    fn into_value(self, index: u64) -> Value {
        let mut members = vec![
            ("version", VERSION.into()),
            ("turn", index.into()),
            ("role", self.role.as_str().into()),
            ("model", self.model.into_value()),
            ("params", self.params.into_value()),
            ("messages", list(self.messages, Message::into_value)),
        ];
        if !self.tool_calls.is_empty() {
            members.push(("tool_calls", list(self.tool_calls, ToolCall::into_value)));
        }
        if !self.tool_results.is_empty() {
            let results = list(self.tool_results, ToolResult::into_value);
            members.push(("tool_results", results));
        }
        let moment = canonical_integer(self.timestamp_ns.unwrap_or_default());
        members.push(("timestamp_ns", moment));
        object(members)
    }
}

impl Model {
    fn into_value(self) -> Value {
        let id = self.id.unwrap_or_else(|| UNKNOWN_MODEL.to_owned());
        let mut members = vec![("vendor", self.vendor.into()), ("id", id.into())];
        if let Some(fingerprint) = self.fingerprint {
            members.push(("fingerprint", fingerprint.into()));
        }
        object(members)
    }
}

impl Params {
    fn into_value(self) -> Value {
        let sampling = |given: Option<Number>| match given {
            Some(number) => Value::Number(number),
            None => DEFAULT_SAMPLING.into(),
        };
        let mut members = vec![
            ("temperature", sampling(self.temperature)),
            ("top_p", sampling(self.top_p)),
        ];
        let optional = [("seed", self.seed), ("max_tokens", self.max_tokens)];
        let given = optional.into_iter();
        members.extend(given.filter_map(|(name, value)| Some((name, value?.into()))));
        object(members)
    }
}

impl Message {
    fn into_value(self) -> Value {
        object([("role", self.role.into()), ("content", self.content)])
    }
}

impl ToolCall {
    fn into_value(self) -> Value {
        let mut members = vec![
            ("id", self.id.into()),
            ("name", self.name.into()),
            ("args_hash", hash_text(&self.args_hash).into()),
        ];
        members.extend(self.args.map(|args| ("args", args)));
        object(members)
    }
}

impl ToolResult {
    fn into_value(self) -> Value {
        let status = if self.ok { "ok" } else { "error" };
        let mut members = vec![
            ("id", self.id.into()),
            ("status", status.into()),
            ("response_hash", hash_text(&self.response_hash).into()),
        ];
        members.extend(self.response.map(|response| ("response", response)));
        object(members)
    }
}

/// The item of a text.
pub(super) fn text_item(text: impl Into<Value>) -> Value {
    object([("type", "text".into()), ("text", text.into())])
}

/// The item of reasoning that can be read.
pub(super) fn thinking_item(text: impl Into<Value>) -> Value {
    object([("type", "thinking".into()), ("thinking", text.into())])
}

/// The item of reasoning that only its vendor can read.
pub(super) fn redacted_thinking_item(data: impl Into<Value>) -> Value {
    object([("type", "redacted_thinking".into()), ("data", data.into())])
}

/// The place of a call among the items.
pub(super) fn call_item(id: &str) -> Value {
    object([("type", "tool_call".into()), ("id", id.into())])
}

/// The place of a result among the items.
pub(super) fn result_item(id: &str) -> Value {
    object([("type", "tool_result".into()), ("id", id.into())])
}

fn list<T>(parts: Vec<T>, value: impl Fn(T) -> Value) -> Value {
    Value::Array(parts.into_iter().map(value).collect())
}

/// `value` as a scroll's hash covers it: the digits of the nearest double (RFC 8785).
///
/// Whole microseconds of this century keep their own digits.
fn canonical_integer(value: u64) -> Value {
    let exact = Number::from(value);
    let mut buffer = ryu_js::Buffer::new();
    let digits = buffer.format_finite(exact.as_f64());
    Value::Number(Number::parse(digits).unwrap_or(exact))
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_core::canon::json::parse;

    #[test]
    fn a_draft_becomes_a_turn_of_the_schema() {
        let mut draft = Draft::new(Role::Assistant, "anthropic");
        draft.model.id = Some("m-1".into());
        draft.messages = vec![Message::items(
            Role::Assistant,
            vec![text_item("hi"), call_item("c1")],
        )];
        let args = parse(br#"{"b":1,"a":2}"#).unwrap();
        draft.tool_calls = vec![ToolCall::new("c1".into(), "run".into(), args)];
        draft.tool_results = vec![ToolResult::new("c0".into(), false, "no".into())];
        draft.timestamp_ns = Some(1_763_760_000_123_000_000);
        let mut source = Source::new("test");
        source.set("id", "u1".into());
        source.set("id", "u2".into());
        source.set_some("parent", None::<&str>);
        draft.close(source);
        let expected = concat!(
            r#"{"version":"scroll/0.1","turn":3,"role":"assistant","#,
            r#""model":{"vendor":"anthropic","id":"m-1"},"params":{"temperature":1,"top_p":1},"#,
            r#""messages":[{"role":"assistant","content":[{"type":"text","text":"hi"},"#,
            r#"{"type":"tool_call","id":"c1"}]},{"role":"source","content":"#,
            r#"[{"type":"source","format":"test","id":"u2"}]}],"#,
            r#""tool_calls":[{"id":"c1","name":"run","args_hash":"sha256:ARGS","#,
            r#""args":{"b":1,"a":2}}],"tool_results":[{"id":"c0","status":"error","#,
            r#""response_hash":"sha256:RESPONSE","response":"no"}],"#,
            r#""timestamp_ns":1763760000123000000}"#,
        );
        let expected = expected
            .replace("ARGS", &Digest::of(br#"{"a":2,"b":1}"#).to_hex())
            .replace("RESPONSE", &Digest::of(br#""no""#).to_hex());
        let turn = draft.into_turn(3).unwrap();
        assert_eq!(*turn.as_value(), parse(expected.as_bytes()).unwrap());
    }

    #[test]
    fn a_moment_is_written_with_the_digits_that_its_hash_covers() {
        for (given, written) in [
            (0, "0"),
            (1_763_760_000_123_000_000, "1763760000123000000"),
            (1_763_760_000_123_457_000, "1763760000123457000"),
            (1_763_760_000_123_456_789, "1763760000123456800"),
            (u64::MAX, "18446744073709552000"),
        ] {
            let Value::Number(number) = canonical_integer(given) else {
                unreachable!()
            };
            assert_eq!(number.literal(), written);
        }
    }

    #[test]
    fn a_body_without_canonical_form_is_carried_as_its_text() {
        let twice = Value::Object(vec![("a".into(), true.into()), ("a".into(), false.into())]);
        let call = ToolCall::new(String::new(), String::new(), twice);
        assert_eq!(
            call.args.unwrap().as_str(),
            Some(r#"{"a": true, "a": false}"#)
        );
    }
}
