//! Line 1 of a native transcript: the record's identity and the keys that may seal it.
//!
//! ```text
//! {"format":"threadseal/1","record":HEX,"authority":HEX,"key":HEX,"delegation":null|B64,
//!  "rye_key":HEX,"directive":…,"model":…,"capabilities":[…],"limits":{…},"bodies":"inline",
//!  "anchors":[…],"predecessor":null|HEAD,"parent":null|HEAD,"workspace":…,"meta":{…}}
//! ```
//! Exactly these members in this order (`spec/transcript.md` §2). The origin of every note of the
//! record comes from the digest of this line. So a seal of one record never fits another.
//!
//! Not here: whether the authority is trusted (`verify`).

use super::event::{self, Payload};
use threadseal_core::canon::json::{self, Value};
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::error::Error;
use threadseal_core::key::{Message, PublicKey, Signature};
use threadseal_core::note::KeyName;
use threadseal_core::record::{Head, RecordId, ThreadId};

/// The value of `format`.
pub const FORMAT: &str = "threadseal/1";

/// Tag of the authority's signature for the key of the first seals.
pub const FIRST_KEY_TAG: &str = "threadseal/1 first key";

/// Tag of a delegation: the authority's signed permission for another key to seal a record.
pub const DELEGATION_TAG: &str = "threadseal/1 delegation";

/// The message that a delegating authority signs. It names the record by its origin, since a
/// delegate could write another line 1 with the same id.
pub fn delegation_message(origin: &KeyName, key: &PublicKey) -> Message {
    Message::tagged(
        DELEGATION_TAG,
        &[origin.as_str().as_bytes(), key.as_bytes()],
    )
}

/// Where the bodies of large or sensitive values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bodies {
    /// In the events.
    Inline,
    /// In `transcript.bodies`, the events holding salted commitments.
    Detached,
}

/// The content of line 1, except thread and time.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The record's id.
    pub record: RecordId,
    /// The key that is responsible for this record.
    pub authority: PublicKey,
    /// The key of the first seals.
    pub key: PublicKey,
    /// The authority's signature over [`Manifest::first_key_message`]; present exactly when `key`
    /// differs.
    pub delegation: Option<Signature>,
    /// The key of `sig` in each checkpoint.
    pub rye_key: PublicKey,
    /// The directive that the thread runs.
    pub directive: Option<String>,
    /// The model that the thread uses.
    pub model: Option<String>,
    /// Capabilities, as the thread was given them.
    pub capabilities: Vec<String>,
    /// Limits: a JSON object.
    pub limits: Value,
    /// Where bodies are stored.
    pub bodies: Bodies,
    /// Origins of the logs to which this record's heads are published.
    pub anchors: Vec<String>,
    /// Head of the record that this one continues.
    pub predecessor: Option<Head>,
    /// Head of the record that started this one.
    pub parent: Option<Head>,
    /// Commit of the workspace.
    pub workspace: Option<String>,
    /// Other data: a JSON object.
    pub meta: Value,
}

impl Manifest {
    /// A manifest of `record` sealed by `authority` itself, with all optional members empty.
    pub fn new(record: RecordId, authority: PublicKey, rye_key: PublicKey) -> Self {
        Self {
            record,
            key: authority,
            authority,
            delegation: None,
            rye_key,
            directive: None,
            model: None,
            capabilities: Vec::new(),
            limits: Value::Object(Vec::new()),
            bodies: Bodies::Inline,
            anchors: Vec::new(),
            predecessor: None,
            parent: None,
            workspace: None,
            meta: Value::Object(Vec::new()),
        }
    }

    /// The message that an authority signs to admit another key for the first seals. It contains
    /// the thread and all of line 1, as if without a delegation. So a holder of a copy of the first
    /// key cannot make another beginning.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::InvalidInput`] when `limits` or `meta` is not an object
    /// of strict JSON.
    pub fn first_key_message(&self, thread: &ThreadId) -> Result<Message, Error> {
        let unsigned = Self {
            delegation: None,
            ..self.clone()
        };
        let payload = unsigned.to_payload()?;
        let parts = [thread.as_str().as_bytes(), payload.as_bytes()];
        Ok(Message::tagged(FIRST_KEY_TAG, &parts))
    }

    /// Did the authority admit the first key? `thread` is the JSON text of line 1.
    pub(crate) fn lets_first_key_in(&self, thread: &[u8]) -> bool {
        let Some(signature) = &self.delegation else {
            return true;
        };
        let thread = json::parse(thread).ok();
        let thread = thread.and_then(|thread| ThreadId::parse(thread.as_str()?).ok());
        let message = thread.and_then(|thread| self.first_key_message(&thread).ok());
        message.is_some_and(|message| self.authority.verify(&message, signature).is_ok())
    }

    /// The payload of line 1.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::InvalidInput`] when `limits` or `meta` is not an object
    /// of strict JSON.
    pub(crate) fn to_payload(&self) -> Result<Payload, Error> {
        let mut out = Vec::new();
        let mut member = |name: &str, write: &dyn Fn(&mut Vec<u8>)| {
            out.push(if out.is_empty() { b'{' } else { b',' });
            json::write_ascii_string(&mut out, name);
            out.push(b':');
            write(&mut out);
        };
        let text = |value: &str| {
            let value = value.to_owned();
            move |out: &mut Vec<u8>| json::write_ascii_string(out, &value)
        };
        let optional = |value: Option<String>| {
            move |out: &mut Vec<u8>| match &value {
                Some(value) => json::write_ascii_string(out, value),
                None => out.extend_from_slice(b"null"),
            }
        };
        let bodies = match self.bodies {
            Bodies::Inline => "inline",
            Bodies::Detached => "detached",
        };
        member("format", &text(FORMAT));
        member("record", &text(&self.record.to_hex()));
        member("authority", &text(&self.authority.to_hex()));
        member("key", &text(&self.key.to_hex()));
        let delegation = self
            .delegation
            .as_ref()
            .map(|s| encoding::base64(s.as_bytes()));
        member("delegation", &optional(delegation));
        member("rye_key", &text(&self.rye_key.to_hex()));
        member("directive", &optional(self.directive.clone()));
        member("model", &optional(self.model.clone()));
        member("capabilities", &|out| {
            write_strings(out, &self.capabilities);
        });
        member("limits", &|out| {
            out.extend_from_slice(&object_text(&self.limits));
        });
        member("bodies", &text(bodies));
        member("anchors", &|out| write_strings(out, &self.anchors));
        member(
            "predecessor",
            &optional(self.predecessor.map(|h| h.to_string())),
        );
        member("parent", &optional(self.parent.map(|h| h.to_string())));
        member("workspace", &optional(self.workspace.clone()));
        member("meta", &|out| {
            out.extend_from_slice(&object_text(&self.meta));
        });
        out.push(b'}');
        Payload::parse(&out)
    }

    /// Reads the payload of a `thread_started` line; `None` when it is not a native manifest.
    pub(crate) fn parse(payload: &[u8]) -> Option<Self> {
        const MEMBERS: [&str; 16] = [
            "format",
            "record",
            "authority",
            "key",
            "delegation",
            "rye_key",
            "directive",
            "model",
            "capabilities",
            "limits",
            "bodies",
            "anchors",
            "predecessor",
            "parent",
            "workspace",
            "meta",
        ];
        let value = json::parse(payload).ok()?;
        let members = value.as_object()?;
        let names = members.iter().map(|(name, _)| name.as_str());
        if !names.eq(MEMBERS.iter().map(|name| Some(*name))) {
            return None;
        }
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        let optional = |name: &str| match value.get(name)? {
            Value::Null => Some(None),
            other => other.as_str().map(|text| Some(text.to_owned())),
        };
        let head = |name: &str| match optional(name)? {
            None => Some(None),
            Some(text) => Head::parse(&text).map(Some),
        };
        let object = |name: &str| value.get(name).filter(|v| v.as_object().is_some()).cloned();
        let key = |name: &str| text(name).and_then(|t| PublicKey::from_hex(t).ok());
        let authority = key("authority")?;
        let manifest = Self {
            record: RecordId::parse_hex(
                text("record").filter(|_| text("format") == Some(FORMAT))?,
            )?,
            authority,
            // Most records are sealed by their authority itself: that point is not decoded twice.
            key: if text("key") == text("authority") {
                authority
            } else {
                key("key")?
            },
            delegation: match optional("delegation")? {
                None => None,
                Some(text) => Some(parse_signature(&text)?),
            },
            rye_key: key("rye_key")?,
            directive: optional("directive")?,
            model: optional("model")?,
            capabilities: strings(value.get("capabilities")?)?,
            limits: object("limits")?,
            bodies: match text("bodies")? {
                "inline" => Bodies::Inline,
                "detached" => Bodies::Detached,
                _ => return None,
            },
            anchors: strings(value.get("anchors")?)?,
            predecessor: head("predecessor")?,
            parent: head("parent")?,
            workspace: optional("workspace")?,
            meta: object("meta")?,
        };
        let delegated = manifest.key != manifest.authority;
        (delegated == manifest.delegation.is_some()).then_some(manifest)
    }
}

/// The manifest of a native transcript, if `line` (without LF) is the first line of one.
pub fn parse_line(line: &[u8]) -> Option<Manifest> {
    let frame = event::check_line(line).ok()?;
    (frame.event_type == "thread_started").then(|| Manifest::parse(frame.payload))?
}

/// The beginning of every origin.
const ORIGIN: &str = "threadseal/1/transcript/";

/// The origin of every note of the record whose line 1 is `line`.
pub(crate) fn origin(line: &[u8]) -> String {
    format!("{ORIGIN}{}", Digest::of(line))
}

/// The digest of line 1 in an origin.
pub(crate) fn digest_of(origin: &KeyName) -> Option<Digest> {
    Digest::parse_hex(origin.as_str().strip_prefix(ORIGIN)?)
}

/// 64 bytes of a signature from standard base64.
pub(crate) fn parse_signature(text: &str) -> Option<Signature> {
    Some(Signature::from_bytes(
        encoding::parse_base64(text)?.try_into().ok()?,
    ))
}

fn object_text(value: &Value) -> Vec<u8> {
    // Python's compact dialect is ASCII and keeps integers exact. Unlike JCS, it keeps `1.0`
    // distinct from `1`. Payload::parse then refuses values that strict JSON does not have.
    threadseal_core::canon::python::rye(value)
}

fn write_strings(out: &mut Vec<u8>, values: &[String]) {
    out.push(b'[');
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        json::write_ascii_string(out, value);
    }
    out.push(b']');
}

fn strings(value: &Value) -> Option<Vec<String>> {
    value
        .as_array()?
        .iter()
        .map(|item| item.as_str().map(str::to_owned))
        .collect()
}
