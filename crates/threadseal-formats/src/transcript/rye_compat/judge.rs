//! The loop body of Rye's verifier: one checkpoint, and the result at the end.

use super::python::{Formatted, slice_bound, type_name, urlsafe_b64decode};
use super::{Answer, Answers, Keys, same};
use ed25519_dalek::{Signature, Verifier as _, VerifyingKey};
use threadseal_core::canon::json::{Text, Value};
use threadseal_core::digest::Digest;
use threadseal_core::key::PublicKey;

/// A fingerprint becomes a file name, `<fingerprint>.toml`. File systems refuse longer names; the
/// error that Rye then raises contains its own folders.
const MAX_FILE_NAME_BYTES: usize = 250;

/// Rye's result for one checkpoint.
pub(super) enum Judged {
    Holds,
    Fails(Value),
    Omitted(&'static str),
    /// It depends on the digest of a prefix that is not available.
    NeedsDigest,
}

/// The range of a checkpoint's line.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) start: u64,
    /// After the LF, if there is one.
    pub(super) end: u64,
    pub(super) terminated: bool,
}

/// Judges a payload; `prefix` is the digest of `content[:byte_offset]`, if known.
pub(super) fn judge(payload: &Value, prefix: Option<Digest>, keys: &Keys<'_>) -> Judged {
    match try_judge(payload, prefix, keys) {
        Ok(judged) => judged,
        Err(raised) => Judged::Fails(raised),
    }
}

/// `Err` is the exception that Rye raises.
fn try_judge(payload: &Value, prefix: Option<Digest>, keys: &Keys<'_>) -> Result<Judged, Value> {
    let offset = item(payload, "byte_offset")?;
    let expected = item(payload, "hash")?;
    if slice_bound(offset).is_none() {
        let message = "slice indices must be integers or None or have an __index__ method";
        return Err(crash("TypeError", message));
    }
    let Some(actual) = prefix else {
        return Ok(Judged::NeedsDigest);
    };
    let actual = actual.to_hex();
    if expected.as_str() != Some(&actual) {
        let turn = item(payload, "turn")?;
        let error = Formatted::default()
            .text("Content hash mismatch at turn ")
            .value(turn);
        let more = [("byte_offset", offset.clone())];
        return Ok(Judged::Fails(invalid(error, turn, more)));
    }
    let fingerprint = item(payload, "fp")?;
    if let Some(text) = text_bytes(fingerprint)
        && text
            .split(|b| *b == b'/')
            .any(|part| part.len() > MAX_FILE_NAME_BYTES)
    {
        return Ok(Judged::Omitted(
            "a fingerprint is longer than a file name may be",
        ));
    }
    let Some(key) = fingerprint.as_str().and_then(keys) else {
        let turn = item(payload, "turn")?;
        let error = Formatted::default()
            .text("Untrusted signing key ")
            .value(fingerprint)
            .text(" at turn ")
            .value(turn);
        return Ok(Judged::Fails(invalid(error, turn, [])));
    };
    if !verifies(&actual, item(payload, "sig")?, &key) {
        let turn = item(payload, "turn")?;
        let error = Formatted::default()
            .text("Signature verification failed at turn ")
            .value(turn);
        return Ok(Judged::Fails(invalid(error, turn, [])));
    }
    Ok(Judged::Holds)
}

/// The answers when every checkpoint holds. `line_end` is the offset after the first LF at or after
/// the last checkpoint's `byte_offset`.
pub(super) fn reports(count: u64, last: &Value, line_end: Option<u64>, length: u64) -> Answers {
    let valid = Answer(object([
        ("valid", Value::Bool(true)),
        ("checkpoints", count.into()),
    ]));
    let Some(unsigned) = line_end
        .and_then(|end| length.checked_sub(end))
        .filter(|n| *n > 0)
    else {
        return same(valid);
    };
    let turn = match item(last, "turn") {
        Ok(turn) => turn,
        // The lenient branch logs the turn, so it raises as well.
        Err(raised) => return same(Answer(raised)),
    };
    let error = Formatted::default()
        .text(&format!(
            "Unsigned content after last checkpoint ({unsigned} bytes after turn "
        ))
        .value(turn)
        .text(")");
    let strict = Answer(invalid(error, turn, [("unsigned_bytes", unsigned.into())]));
    Answers::Given {
        strict,
        lenient: valid,
    }
}

/// The answer for no file, an empty file, no checkpoints.
pub(super) fn unsigned() -> Answer {
    Answer(object([
        ("valid", Value::Bool(true)),
        ("checkpoints", 0_u64.into()),
        ("unsigned", Value::Bool(true)),
    ]))
}

/// An exception, as `<type>: <message>`.
pub(super) fn crash(kind: &str, message: &str) -> Value {
    object([("crash", format!("{kind}: {message}").into())])
}

/// `KeyError` shows its key as `repr` does.
pub(super) fn key_error(name: &str) -> Value {
    crash("KeyError", &format!("'{name}'"))
}

/// The exception of `int()` for the integer at `offset` of `line`.
pub(super) fn too_many_digits(line: &str, offset: usize) -> Value {
    let digits = line.bytes().skip(offset).skip_while(|b| *b == b'-');
    let count = digits.take_while(u8::is_ascii_digit).count();
    let limit = threadseal_core::limits::MAX_PYTHON_INTEGER_DIGITS;
    crash(
        "ValueError",
        &format!(
            "Exceeds the limit ({limit} digits) for integer string conversion: value has {count} \
             digits; use sys.set_int_max_str_digits() to increase the limit"
        ),
    )
}

/// `payload[name]`.
fn item<'a>(payload: &'a Value, name: &str) -> Result<&'a Value, Value> {
    match payload {
        Value::Object(_) => payload.get(name).ok_or_else(|| key_error(name)),
        Value::Array(_) => Err(crash(
            "TypeError",
            "list indices must be integers or slices, not str",
        )),
        Value::String(_) => Err(crash(
            "TypeError",
            "string indices must be integers, not 'str'",
        )),
        other => {
            let message = format!("'{}' object is not subscriptable", type_name(other));
            Err(crash("TypeError", &message))
        }
    }
}

fn invalid<const N: usize>(error: Formatted, turn: &Value, more: [(&str, Value); N]) -> Value {
    let head = [
        ("valid", Value::Bool(false)),
        ("error", Value::String(error.finish())),
        ("failed_at_turn", turn.clone()),
    ];
    object(head.into_iter().chain(more))
}

fn object<'a>(members: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    Value::Object(
        members
            .into_iter()
            .map(|(name, value)| (Text::from(name), value))
            .collect(),
    )
}

fn text_bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::String(text) => Some(text.as_bytes()),
        _ => None,
    }
}

/// `lillux.primitives.signing.verify_signature`, whose every exception means `False`.
///
/// OpenSSL checks the equation without cofactor and refuses S ≥ L, but not an R of small order. So
/// this must not be the strict check on which verdicts depend.
fn verifies(hash: &str, signature: &Value, key: &PublicKey) -> bool {
    let decoded = text_bytes(signature).and_then(urlsafe_b64decode);
    let Some(bytes) = decoded.and_then(|bytes| <[u8; 64]>::try_from(bytes).ok()) else {
        return false;
    };
    VerifyingKey::from_bytes(key.as_bytes()).is_ok_and(|key| {
        key.verify(hash.as_bytes(), &Signature::from_bytes(&bytes))
            .is_ok()
    })
}
