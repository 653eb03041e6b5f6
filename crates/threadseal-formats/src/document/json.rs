//! Reading a signed JSON document.
//!
//! ```text
//! Rye      "_signature": "FIELDS"    over SHA-256 of json.dumps of all other members,
//!                                    sort_keys, separators "," ":", ensure_ascii
//! native   "_threadseal": "threadseal:signed:SEAL"     over the bytes as stored
//! both     "_signature": "FIELDS|threadseal@SEAL"
//! ```
//! Rye hashes values, not bytes. It does not cover blanks, the order of members, or the spelling of
//! strings and floats. These mean nothing to a reader. A document that two readers could understand
//! differently is not accepted. If a name occurs twice anywhere in a signed document, the verdict
//! is `tampered`: Rye's reader takes the last value. A reader that takes the first never sees the
//! verified one.
//!
//! Source: `sign_json`, `verify_json` in Rye's `transcript_signer.py`.

use super::Options;
use super::edit::Members;
use super::kind::DocumentKind;
use super::native::{self, Native, broken};
use super::part::Part;
use super::reading::{Reading, RyeReading};
use super::rye::{self, Answer};
use super::seal::{self, Found, Located};
use super::signer::Judge;
use serde_json::json;
use threadseal_core::canon::json::{
    Irregularity, IrregularityKind, JsonError, JsonErrorKind, PythonDocument, Value, parse_python,
};
use threadseal_core::canon::python;
use threadseal_core::digest::Digest;
use threadseal_core::report::{Finding, FindingCode, Verdict};
use threadseal_core::trust::ScopeFormat;
use threadseal_core::trust::rye::fields::Fields;

/// The member that Rye signs in.
pub(super) const SIGNATURE: &str = "_signature";

pub(super) fn read(bytes: &[u8], options: &Options<'_>) -> Reading {
    let mut reading = Reading::default();
    let PythonDocument {
        mut value,
        irregularities,
    } = match parse_python(bytes) {
        Ok(document) => document,
        Err(error) => {
            let at = error.offset as u64;
            let finding =
                Finding::error(FindingCode::NotJson, error.to_string()).at_bytes(at, at + 1);
            reading.file.fault(Verdict::Malformed, finding);
            reading.compat = crash_of(error);
            return reading;
        }
    };
    reading.thread = thread_of(&value);
    let thread = reading.thread.clone();
    let judge = Judge {
        trust: options.trust,
        now: options.now,
        held_since: options.held_since,
        format: ScopeFormat::Json,
        thread: thread.as_deref(),
    };
    reading.native = read_native(bytes, &value, &judge);
    let signature = take_member(&mut value, SIGNATURE);
    read_rye(&value, signature.as_ref(), &judge, &mut reading);
    let signed = reading.native.is_some() || reading.rye.is_some();
    irregular(&irregularities, signed, &mut reading.file);
    reading
}

/// The thread that a document names.
pub(super) fn thread_of(document: &Value) -> Option<String> {
    let thread = document.get("thread_id")?;
    thread.as_str().map(str::to_owned)
}

fn take_member(value: &mut Value, name: &str) -> Option<Value> {
    let Value::Object(members) = value else {
        return None;
    };
    let at = members.iter().position(|(key, _)| key == name)?;
    Some(members.remove(at).1)
}

fn read_rye(content: &Value, signature: Option<&Value>, judge: &Judge<'_>, reading: &mut Reading) {
    if content.as_object().is_none() {
        let class = python_class(content);
        let text = format!("AttributeError: '{class}' object has no attribute 'get'");
        reading.compat = Some(json!({ "crash": text }));
        return;
    }
    let unreadable = |reading: &mut Reading, code, message| {
        let mut part = Part::default();
        part.fault(Verdict::Malformed, Finding::error(code, message));
        reading.rye = Some(rye_reading(part));
    };
    let text = match signature {
        None | Some(Value::Null) => {
            reading.compat = Some(json!(false));
            return;
        }
        Some(Value::String(text)) => text.as_str().unwrap_or("\u{fffd}"),
        Some(other) => {
            reading.compat = Some(crash_of_match(other));
            return unreadable(
                reading,
                FindingCode::SignatureNotText,
                "`_signature` is not a string",
            );
        }
    };
    if text.is_empty() {
        reading.compat = Some(json!(false));
        let finding = Finding::warning(FindingCode::SignatureEmpty, "`_signature` is empty");
        return reading.file.remark(finding);
    }
    let Some(fields) = Fields::read(text) else {
        reading.compat = Some(json!(false));
        return unreadable(
            reading,
            FindingCode::SignatureUnreadable,
            "`_signature` does not follow the grammar of Rye's signatures",
        );
    };
    let tail = &text[fields.len..];
    let hashed = Digest::of(&python::rye(content));
    let (mut part, answer) = rye::check(&fields, Some(hashed), judge);
    if !tail.is_empty() {
        part.fault(
            Verdict::Malformed,
            Finding::error(
                FindingCode::SignatureTail,
                "`_signature` has text after its fields",
            ),
        );
    }
    incomplete_thread(content, &mut part);
    // `$` of Python's expressions also matches before a final newline.
    let seen = tail.is_empty() || tail == "\n";
    reading.compat = Some(json!(seen && answer == Answer::Valid));
    reading.rye = Some(rye_reading(part));
}

fn rye_reading(part: Part) -> RyeReading {
    RyeReading {
        part,
        item: None,
        covered: Vec::new(),
    }
}

/// Rye binds no kind. An attacker may get an agent to sign a knowledge entry whose text is
/// canonical JSON. That signature then fits the JSON. So a document that grants capabilities must
/// have the shape that Rye writes.
fn incomplete_thread(content: &Value, part: &mut Part) {
    let has = |name: &str| content.get(name).is_some();
    let claims = has("thread_id") && (has("capabilities") || has("limits"));
    let needed = ["directive", "status", "created_at", "updated_at"];
    if claims && !needed.into_iter().all(has) {
        part.gap(
            Verdict::Malformed,
            Finding::error(
                FindingCode::ThreadJsonIncomplete,
                "it grants capabilities to a thread and lacks members that every thread.json has: \
                 the signature may be that of another kind of item",
            ),
        );
    }
}

fn irregular(irregularities: &[Irregularity], signed: bool, file: &mut Part) {
    for irregularity in irregularities {
        let (code, message) = match irregularity.kind {
            IrregularityKind::DuplicateKey => (
                FindingCode::DuplicateKey,
                "a name occurs twice in one object",
            ),
            IrregularityKind::LoneSurrogate => (
                FindingCode::NonstandardJson,
                "a lone surrogate: not every reader accepts it",
            ),
            IrregularityKind::NonFinite => (
                FindingCode::NonstandardJson,
                "not a finite number: not every reader accepts it",
            ),
        };
        let at = irregularity.offset as u64;
        if signed && irregularity.kind == IrregularityKind::DuplicateKey {
            let finding = Finding::error(code, message).at_bytes(at, at + 1);
            file.fault(Verdict::Tampered, finding);
        } else {
            file.remark(Finding::warning(code, message).at_bytes(at, at + 1));
        }
    }
}

/// Looks for a native seal on the bytes as stored.
fn read_native(bytes: &[u8], value: &Value, judge: &Judge<'_>) -> Option<Native> {
    let own = value.get(seal::MEMBER).is_some();
    let suffix = value
        .get(SIGNATURE)
        .and_then(Value::as_str)
        .and_then(Fields::read)
        .and_then(|fields| fields.provenance)
        .is_some_and(|provenance| seal::is_seal(&provenance));
    if !own && !suffix {
        return None;
    }
    let members = match Members::scan(bytes) {
        Ok(members) => members,
        Err(error) => return Some(not_strict(error)),
    };
    if own && suffix {
        let at = members.value(seal::MEMBER).unwrap_or(0..0);
        return native::check(Found::Several(at), bytes, DocumentKind::Json, judge);
    }
    let found = if own {
        own_member(&members, has_rye_signature(value))
    } else {
        suffix_member(&members)
    };
    native::check(found, bytes, DocumentKind::Json, judge)
}

fn not_strict(error: JsonError) -> Native {
    let at = error.offset..error.offset + 1;
    match error.kind {
        JsonErrorKind::DuplicateKey => broken(
            Verdict::Tampered,
            FindingCode::DuplicateKey,
            "a name occurs twice in one object",
            at,
        ),
        _ => broken(
            Verdict::Malformed,
            FindingCode::NotStrictJson,
            "a native seal needs JSON that every reader accepts",
            at,
        ),
    }
}

/// Under a signature of Rye a seal is in its suffix, and in no other place.
fn has_rye_signature(value: &Value) -> bool {
    let signature = value.get(SIGNATURE);
    signature.is_some_and(|signature| !signature.is_null() && signature.as_str() != Some(""))
}

fn own_member(members: &Members<'_>, under_rye: bool) -> Found {
    let at = members.value(seal::MEMBER).unwrap_or(0..0);
    if under_rye {
        return Found::Unreadable(at);
    }
    let read = || {
        let inside = members.plain_string(seal::MEMBER)?;
        let start = inside.start + seal::PREFIX.len();
        members.text()[inside.clone()]
            .starts_with(seal::PREFIX)
            .then(|| Located::read(members.text(), start..inside.end))?
    };
    read().map_or(Found::Unreadable(at), Found::seal)
}

fn suffix_member(members: &Members<'_>) -> Found {
    let at = members.value(SIGNATURE).unwrap_or(0..0);
    let read = || {
        let inside = members.plain_string(SIGNATURE)?;
        let text = &members.text()[inside.clone()];
        let fields = Fields::read(text).filter(|fields| fields.len == text.len())?;
        let (provider, user) = fields.provenance?;
        Located::read(members.text(), inside.end - user.len()..inside.end)
            .filter(|_| provider == seal::PROVIDER)
    };
    read().map_or(Found::Unreadable(at), Found::seal)
}

/// The exception that Rye's reader raises; only where its text is known.
fn crash_of(error: JsonError) -> Option<serde_json::Value> {
    let text = match error.kind {
        kind if kind.is_limit() => return None,
        JsonErrorKind::InvalidUtf8 => "UnicodeDecodeError",
        JsonErrorKind::ByteOrderMark => {
            "JSONDecodeError: Unexpected UTF-8 BOM (decode using utf-8-sig): line 1 column 1 (char 0)"
        }
        _ => "JSONDecodeError",
    };
    Some(json!({ "crash": text }))
}

/// The exception of `re.match` on a value that is not a string. Rye's reader takes Python's empty
/// values for a missing signature before it matches.
fn crash_of_match(value: &Value) -> serde_json::Value {
    let empty = match value {
        Value::Bool(truth) => !truth,
        Value::Number(number) => number.as_f64() == 0.0,
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Null | Value::String(_) => false,
    };
    if empty {
        return json!(false);
    }
    let class = python_class(value);
    json!({ "crash": format!("TypeError: expected string or bytes-like object, got '{class}'") })
}

fn python_class(value: &Value) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_integer() => "int",
        Value::Number(_) => "float",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
    }
}
