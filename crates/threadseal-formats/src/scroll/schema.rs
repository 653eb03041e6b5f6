//! The schema of a turn (`spec/scroll.md` §3), checked on its canonical text.
//!
//! ```text
//! version "scroll/0.1"   turn uint   role user|assistant|tool|system   timestamp_ns uint
//! model {vendor, id, fingerprint?}   params {temperature, top_p, seed?, max_tokens?}
//! messages [{role, content: text|[…]}]
//! tool_calls?   [{id, name, args_hash, args?}]
//! tool_results? [{id, status ok|error, response_hash, response?}]
//! prev_hash?    "sha256:" 64 hex          sealed: + hash, sig? {alg, pubkey, sig}
//! enc?          "cbor": hashed and signed as deterministic CBOR; absent: as JCS
//! ```
//! Other members are allowed everywhere and hashed. `null` is not absence, `true` is no number, and
//! a number counts as its double: `1.0` is the integer 1. Canonical text has one spelling for each
//! value, so most rules are comparisons of bytes.

use super::walk::{elements, members};
use std::fmt;
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::limits::MAX_SAFE_INTEGER;

/// The value of `version`.
pub const VERSION: &str = "scroll/0.1";

/// Largest number of a turn: beyond it, a double cannot represent every whole number.
pub const MAX_TURN_NUMBER: u64 = MAX_SAFE_INTEGER;

/// A violation of the schema in a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaViolation {
    /// Where: a JSON pointer (RFC 6901) into the turn; empty for the turn itself.
    pub at: String,
    /// The requirement, or the fault.
    pub problem: &'static str,
}

impl SchemaViolation {
    pub(super) fn new(at: impl Into<String>, problem: &'static str) -> Self {
        Self {
            at: at.into(),
            problem,
        }
    }
}

impl fmt::Display for SchemaViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at.as_str() {
            "" => write!(f, "the turn {}", self.problem),
            at => write!(f, "{at} {}", self.problem),
        }
    }
}

impl std::error::Error for SchemaViolation {}

/// The encoding under which a turn is hashed and signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// RFC 8785 text; the turn does not name it.
    Jcs,
    /// Deterministic CBOR; the turn has the member `"enc":"cbor"`, which is hashed with the rest.
    Cbor,
}

/// The author of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
    /// Results of tools.
    Tool,
    /// Instructions.
    System,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 4] = [Self::User, Self::Assistant, Self::Tool, Self::System];

    /// The word in a turn.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::System => "system",
        }
    }

    /// Reads [`Role::as_str`]'s words.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

/// The rules by which a turn is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// This module's.
    Ours,
    /// Those of v0.1: `enc` is like any unknown member. A turn may have any number, and keys and
    /// signatures any text.
    V01,
}

/// The signature of a sealed turn, as spelled. `None` where the text spells no such bytes, which
/// only v0.1 accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SigText {
    pub(super) pubkey: Option<[u8; 32]>,
    pub(super) sig: Option<[u8; 64]>,
    /// Whether `sig` has members that no hash covers.
    pub(super) extra: bool,
}

/// The content of a turn that follows the schema.
#[derive(Debug, Clone)]
pub(super) struct Shape<'a> {
    pub(super) turn: u64,
    pub(super) role: Role,
    pub(super) timestamp_ns: u64,
    pub(super) encoding: Encoding,
    pub(super) prev_hash: Option<Digest>,
    pub(super) hash: Option<Digest>,
    pub(super) sig: Option<SigText>,
    pub(super) tool_calls: Option<&'a [u8]>,
    pub(super) tool_results: Option<&'a [u8]>,
    /// Where the members `hash` and `sig` are, in this order.
    pub(super) outside: [Option<(usize, usize)>; 2],
}

type Checked<T> = Result<T, SchemaViolation>;

fn violation<T>(at: impl Into<String>, problem: &'static str) -> Checked<T> {
    Err(SchemaViolation::new(at, problem))
}

/// Checks the canonical text of a turn, sealed or not.
///
/// # Errors
/// The first violation, in the order of the members in the module's documentation.
pub(super) fn check(canonical: &[u8]) -> Checked<Shape<'_>> {
    check_members(canonical, Reader::Ours)
}

/// As [`check`], by the rules of v0.1.
pub(super) fn check_v01(canonical: &[u8]) -> Checked<Shape<'_>> {
    check_members(canonical, Reader::V01)
}

fn check_members(canonical: &[u8], reader: Reader) -> Checked<Shape<'_>> {
    let Some(all) = members(canonical) else {
        return violation("", "is not an object");
    };
    let mut found = Found::default();
    let mut outside = [None; 2];
    for member in all {
        let slot = match member.name {
            b"version" => &mut found.version,
            b"turn" => &mut found.turn,
            b"role" => &mut found.role,
            b"model" => &mut found.model,
            b"params" => &mut found.params,
            b"messages" => &mut found.messages,
            b"tool_calls" => &mut found.tool_calls,
            b"tool_results" => &mut found.tool_results,
            b"timestamp_ns" => &mut found.timestamp_ns,
            b"prev_hash" => &mut found.prev_hash,
            b"enc" if reader == Reader::Ours => &mut found.enc,
            b"hash" => {
                outside[0] = Some((member.from, member.to));
                &mut found.hash
            }
            b"sig" => {
                outside[1] = Some((member.from, member.to));
                &mut found.sig
            }
            _ => continue,
        };
        *slot = Some(member.value);
    }
    found.check(outside, reader)
}

/// The members that the schema names.
#[derive(Default)]
struct Found<'a> {
    version: Option<&'a [u8]>,
    turn: Option<&'a [u8]>,
    role: Option<&'a [u8]>,
    model: Option<&'a [u8]>,
    params: Option<&'a [u8]>,
    messages: Option<&'a [u8]>,
    tool_calls: Option<&'a [u8]>,
    tool_results: Option<&'a [u8]>,
    timestamp_ns: Option<&'a [u8]>,
    prev_hash: Option<&'a [u8]>,
    enc: Option<&'a [u8]>,
    hash: Option<&'a [u8]>,
    sig: Option<&'a [u8]>,
}

impl<'a> Found<'a> {
    fn check(self, outside: [Option<(usize, usize)>; 2], reader: Reader) -> Checked<Shape<'a>> {
        if text_of(self.version) != Some(VERSION.as_bytes()) {
            return violation("/version", "must be \"scroll/0.1\"");
        }
        let may_be = |turn: &u64| *turn <= MAX_TURN_NUMBER || reader == Reader::V01;
        let turn = uint(self.turn).filter(may_be);
        let Some(turn) = turn else {
            return violation("/turn", "must be an integer from 0 to 2^53 - 1");
        };
        let Some(role) = role_of(self.role) else {
            return violation("/role", "must be user, assistant, tool or system");
        };
        check_model(self.model)?;
        check_params(self.params)?;
        check_messages(self.messages)?;
        check_tools(self.tool_calls, &CALLS)?;
        check_tools(self.tool_results, &RESULTS)?;
        let encoding = match self.enc {
            None => Encoding::Jcs,
            Some(b"\"cbor\"") => Encoding::Cbor,
            Some(_) => return violation("/enc", "must be \"cbor\", or absent"),
        };
        let Some(timestamp_ns) = uint(self.timestamp_ns) else {
            return violation("/timestamp_ns", "must be an integer from 0 to 2^64 - 1");
        };
        Ok(Shape {
            turn,
            role,
            timestamp_ns,
            prev_hash: optional_hash(self.prev_hash, "/prev_hash")?,
            hash: optional_hash(self.hash, "/hash")?,
            sig: self.sig.map(|sig| check_sig(sig, reader)).transpose()?,
            encoding,
            tool_calls: self.tool_calls,
            tool_results: self.tool_results,
            outside,
        })
    }
}

/// The text between the quotes of a string.
fn text_of(value: Option<&[u8]>) -> Option<&[u8]> {
    value?.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

fn is_text(value: Option<&[u8]>) -> bool {
    value.is_some_and(|value| value.starts_with(b"\""))
}

fn is_number(value: Option<&[u8]>) -> bool {
    value.is_some_and(|value| matches!(value.first(), Some(b'-' | b'0'..=b'9')))
}

/// Canonical text spells every integral double below 10^21 in digits.
fn uint(value: Option<&[u8]>) -> Option<u64> {
    std::str::from_utf8(value?).ok()?.parse().ok()
}

fn is_int(value: &[u8]) -> bool {
    std::str::from_utf8(value).is_ok_and(|text| text.parse::<i64>().is_ok())
}

fn role_of(value: Option<&[u8]>) -> Option<Role> {
    Role::parse(std::str::from_utf8(text_of(value)?).ok()?)
}

pub(super) fn hash_of(value: &[u8]) -> Option<Digest> {
    let hex = text_of(Some(value))?.strip_prefix(b"sha256:")?;
    Digest::parse_hex(std::str::from_utf8(hex).ok()?)
}

fn optional_hash(value: Option<&[u8]>, at: &'static str) -> Checked<Option<Digest>> {
    match value.map(hash_of) {
        None => Ok(None),
        Some(Some(digest)) => Ok(Some(digest)),
        Some(None) => violation(at, "must be sha256: and 64 lower-case hex digits"),
    }
}

fn check_model(model: Option<&[u8]>) -> Checked<()> {
    let Some(all) = model.and_then(members) else {
        return violation("/model", "must be an object");
    };
    let (mut vendor, mut id, mut fingerprint) = (None, None, None);
    for member in all {
        match member.name {
            b"vendor" => vendor = Some(member.value),
            b"id" => id = Some(member.value),
            b"fingerprint" => fingerprint = Some(member.value),
            _ => {}
        }
    }
    for (value, at) in [(vendor, "/model/vendor"), (id, "/model/id")] {
        if !is_text(value) || value == Some(b"\"\"") {
            return violation(at, "must be a string that is not empty");
        }
    }
    if fingerprint.is_some() && !is_text(fingerprint) {
        return violation("/model/fingerprint", "must be a string");
    }
    Ok(())
}

fn check_params(params: Option<&[u8]>) -> Checked<()> {
    let Some(all) = params.and_then(members) else {
        return violation("/params", "must be an object");
    };
    let (mut temperature, mut top_p) = (None, None);
    for member in all {
        match member.name {
            b"temperature" => temperature = Some(member.value),
            b"top_p" => top_p = Some(member.value),
            b"seed" if !is_int(member.value) => {
                return violation("/params/seed", "must be a 64-bit integer");
            }
            b"max_tokens" if !is_int(member.value) => {
                return violation("/params/max_tokens", "must be a 64-bit integer");
            }
            _ => {}
        }
    }
    if !is_number(temperature) {
        return violation("/params/temperature", "must be a number");
    }
    if !is_number(top_p) {
        return violation("/params/top_p", "must be a number");
    }
    Ok(())
}

fn check_messages(messages: Option<&[u8]>) -> Checked<()> {
    let Some(all) = messages.and_then(elements) else {
        return violation("/messages", "must be an array");
    };
    for (index, message) in all.enumerate() {
        let Some(all) = members(message) else {
            return violation(format!("/messages/{index}"), "must be an object");
        };
        let (mut role, mut content) = (None, None);
        for member in all {
            match member.name {
                b"role" => role = Some(member.value),
                b"content" => content = Some(member.value),
                _ => {}
            }
        }
        if !is_text(role) {
            return violation(format!("/messages/{index}/role"), "must be a string");
        }
        if !matches!(content.and_then(<[u8]>::first), Some(b'"' | b'[')) {
            let at = format!("/messages/{index}/content");
            return violation(at, "must be a string or an array");
        }
    }
    Ok(())
}

/// The two lists of tools differ in names only.
pub(super) struct Tools {
    pub(super) list: &'static str,
    /// A member that must be a string: a name, or a status.
    pub(super) word: &'static str,
    pub(super) hash: &'static str,
    pub(super) body: &'static str,
}

pub(super) const CALLS: Tools = Tools {
    list: "tool_calls",
    word: "name",
    hash: "args_hash",
    body: "args",
};

pub(super) const RESULTS: Tools = Tools {
    list: "tool_results",
    word: "status",
    hash: "response_hash",
    body: "response",
};

fn check_tools(tools: Option<&[u8]>, names: &Tools) -> Checked<()> {
    let Some(tools) = tools else {
        return Ok(());
    };
    let list = names.list;
    let Some(all) = elements(tools) else {
        return violation(format!("/{list}"), "must be an array");
    };
    for (index, tool) in all.enumerate() {
        let at = |name: &str| format!("/{list}/{index}/{name}");
        let Some(all) = members(tool) else {
            return violation(format!("/{list}/{index}"), "must be an object");
        };
        let (mut id, mut word, mut hash) = (None, None, None);
        for member in all {
            match member.name {
                b"id" => id = Some(member.value),
                name if name == names.word.as_bytes() => word = Some(member.value),
                name if name == names.hash.as_bytes() => hash = Some(member.value),
                _ => {}
            }
        }
        if !is_text(id) {
            return violation(at("id"), "must be a string");
        }
        let is_status = names.word == RESULTS.word;
        if is_status && !matches!(word, Some(b"\"ok\"" | b"\"error\"")) {
            return violation(at("status"), "must be ok or error");
        }
        if !is_text(word) {
            return violation(at(names.word), "must be a string");
        }
        if hash.and_then(hash_of).is_none() {
            let problem = "must be sha256: and 64 lower-case hex digits";
            return violation(at(names.hash), problem);
        }
    }
    Ok(())
}

fn check_sig(sig: &[u8], reader: Reader) -> Checked<SigText> {
    let Some(all) = members(sig) else {
        return violation("/sig", "must be an object");
    };
    let (mut alg, mut pubkey, mut text, mut extra) = (None, None, None, false);
    for member in all {
        match member.name {
            b"alg" => alg = Some(member.value),
            b"pubkey" => pubkey = Some(member.value),
            b"sig" => text = Some(member.value),
            _ => extra = true,
        }
    }
    if text_of(alg) != Some(b"ed25519") {
        return violation("/sig/alg", "must be \"ed25519\"");
    }
    let may_be = |bytes: bool, value| bytes || (reader == Reader::V01 && is_text(value));
    let read = SigText {
        pubkey: base64_of(pubkey),
        sig: base64_of(text),
        extra,
    };
    if !may_be(read.pubkey.is_some(), pubkey) {
        return violation("/sig/pubkey", "must be the base64 of 32 bytes");
    }
    if !may_be(read.sig.is_some(), text) {
        return violation("/sig/sig", "must be the base64 of 64 bytes");
    }
    Ok(read)
}

pub(super) fn base64_of<const N: usize>(value: Option<&[u8]>) -> Option<[u8; N]> {
    let text = std::str::from_utf8(text_of(value)?).ok()?;
    // Longer text is no key or signature.
    if text.len() != N.div_ceil(3) * 4 {
        return None;
    }
    encoding::parse_base64(text)?.try_into().ok()
}
