//! The bytes of an identity: one line of RFC 8785, and LF.

use super::{Content, Ended, EndedHow, Identity, IdentityId, IdentityKey, Link, LinkBy};
use crate::canon::jcs;
use crate::canon::json::{self, Value};
use crate::encoding;
use crate::error::{Error, ErrorKind};
use crate::key::{KeyUsage, PublicKey, Signature};
use crate::limits::MAX_IDENTITY_BYTES;
use crate::time::Timestamp;
use crate::trust::TrustName;

const FORMAT: &str = "threadseal-identity/1";

/// The text without its LF; without `signature` it is what is signed.
///
/// # Errors
/// Kind `Limit` when it is too long.
pub(super) fn text(
    content: &Content,
    id: &IdentityId,
    signature: Option<&Signature>,
) -> Result<Vec<u8>, Error> {
    let list = |items: Vec<String>| format!("[{}]", items.join(","));
    let signature = signature.map_or(String::new(), |signature| {
        format!(",\"signature\":\"{}\"", base64(signature))
    });
    let text = format!(
        "{{\"format\":\"{FORMAT}\",\"id\":\"{id}\",\"issued\":\"{}\",\"keys\":{},\"links\":{},\"name\":{},\
         \"recovery\":{},\"seq\":{}{signature},\"signer\":\"{}\"}}",
        content.issued.to_iso_seconds(),
        list(content.keys.iter().map(key_text).collect()),
        list(content.links.iter().map(link_text).collect()),
        string(content.name.as_str()),
        content
            .recovery
            .map_or("null".to_owned(), |key| format!("\"{}\"", key.to_hex())),
        content.seq,
        content.signer.to_hex(),
    );
    let canonical = jcs::canonicalize(text.as_bytes()).ok();
    canonical
        .filter(|canonical| canonical.len() < MAX_IDENTITY_BYTES)
        .ok_or_else(|| {
            let text = format!("an identity has at most {MAX_IDENTITY_BYTES} bytes");
            Error::new(ErrorKind::Limit, text)
        })
}

fn key_text(listed: &IdentityKey) -> String {
    let time = |time: Option<Timestamp>| {
        time.map_or("null".to_owned(), |time| {
            format!("\"{}\"", time.to_iso_seconds())
        })
    };
    let ended = listed.ended.as_ref().map_or("null".to_owned(), |ended| {
        format!(
            "{{\"at\":\"{}\",\"why\":{}}}",
            ended.at.to_iso_seconds(),
            string(&ended.how.line())
        )
    });
    let proof = listed.proof.as_ref();
    let proof = proof.map_or("null".to_owned(), |proof| format!("\"{}\"", base64(proof)));
    format!(
        "{{\"ended\":{ended},\"from\":{},\"key\":\"{}\",\"proof\":{proof},\"until\":{},\"usage\":\"{}\"}}",
        time(listed.from),
        listed.key.to_hex(),
        time(listed.until),
        listed.usage
    )
}

fn link_text(link: &Link) -> String {
    format!(
        "{{\"by\":\"{}\",\"from\":\"{}\",\"signature\":\"{}\",\"to\":\"{}\"}}",
        link.by.as_str(),
        link.from.to_hex(),
        base64(&link.signature),
        link.to.to_hex()
    )
}

fn base64(signature: &Signature) -> String {
    encoding::base64(signature.as_bytes())
}

fn string(text: &str) -> String {
    let mut out = Vec::new();
    json::write_ascii_string(&mut out, text);
    String::from_utf8_lossy(&out).into_owned()
}

/// Reads the members; the caller compares the spelling, and checks all that they state.
pub(super) fn read(bytes: &[u8]) -> Result<Identity, &'static str> {
    if bytes.len() > MAX_IDENTITY_BYTES {
        return Err("it is longer than an identity may be");
    }
    let line = bytes.strip_suffix(b"\n").ok_or("it does not end in LF")?;
    let value = json::parse(line).map_err(|_| "it is not one JSON object")?;
    match value.get("format").and_then(Value::as_str) {
        Some(FORMAT) => {}
        Some(_) => return Err("its format is none that this version knows"),
        None => return Err("it names no format"),
    }
    members(&value).ok_or("a member is missing, or has no value that the format allows")
}

fn members(value: &Value) -> Option<Identity> {
    let recovery = value.get("recovery")?;
    let content = Content {
        name: TrustName::parse(value.get("name")?.as_str()?).ok()?,
        seq: value.get("seq")?.as_u64()?,
        issued: Timestamp::parse_iso_seconds(value.get("issued")?.as_str()?)?,
        recovery: match recovery.is_null() {
            true => None,
            false => Some(public(recovery)?),
        },
        links: all(value.get("links")?, link)?,
        keys: all(value.get("keys")?, key)?,
        signer: public(value.get("signer")?)?,
    };
    Some(Identity {
        content,
        id: IdentityId::parse_hex(value.get("id")?.as_str()?)?,
        signature: signature(value.get("signature")?)?,
    })
}

fn all<T>(value: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    value.as_array()?.iter().map(read).collect()
}

fn key(value: &Value) -> Option<IdentityKey> {
    let time = |name| {
        optional(value.get(name)?, |value| {
            Timestamp::parse_iso_seconds(value.as_str()?)
        })
    };
    Some(IdentityKey {
        key: public(value.get("key")?)?,
        usage: KeyUsage::parse(value.get("usage")?.as_str()?)?,
        from: time("from")?,
        until: time("until")?,
        ended: optional(value.get("ended")?, |value| {
            Some(Ended {
                at: Timestamp::parse_iso_seconds(value.get("at")?.as_str()?)?,
                how: EndedHow::of_line(value.get("why")?.as_str()?.to_owned()),
            })
        })?,
        proof: optional(value.get("proof")?, signature)?,
    })
}

fn link(value: &Value) -> Option<Link> {
    Some(Link {
        from: public(value.get("from")?)?,
        to: public(value.get("to")?)?,
        by: match value.get("by")?.as_str()? {
            "key" => LinkBy::Key,
            "recovery" => LinkBy::Recovery,
            _ => return None,
        },
        signature: signature(value.get("signature")?)?,
    })
}

/// None for a fault; `Some(None)` for null.
fn optional<T>(value: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<Option<T>> {
    match value.is_null() {
        true => Some(None),
        false => read(value).map(Some),
    }
}

fn public(value: &Value) -> Option<PublicKey> {
    PublicKey::from_hex(value.as_str()?).ok()
}

fn signature(value: &Value) -> Option<Signature> {
    Signature::from_slice(&encoding::parse_base64(value.as_str()?)?)
}
