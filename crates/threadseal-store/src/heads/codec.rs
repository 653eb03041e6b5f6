//! A stored head as bytes.
//!
//! ```text
//! threadseal.head/1 <64 hex: SHA-256 of the second line without its LF> LF
//! {"record":…,"seq":…,"size":…,"line":…,"kind":…,"final":…,"thread":…,"first_seen":…,
//!  "updated":…,"path":…,"aliases":[…],"root":…,"salts":…,"key":…} LF   the last three where they are known
//! ```
//! Times are microseconds since 1970. The checksum finds damage, not intent: any writer here can
//! also compute it. Therefore the directory belongs to its user alone.

use super::{KnownSalts, MAX_ALIASES, StoredHead};
use serde::{Deserialize, Serialize};
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::KeyId;
use threadseal_core::record::{Head, RecordId, RecordKind, ThreadId};
use threadseal_core::salts::Secret;
use threadseal_core::time::Timestamp;

/// Largest head file in bytes: the longest thread id and path hint with every character escaped,
/// and all aliases.
pub(crate) const MAX_HEAD_FILE_BYTES: usize = 64 << 10;

const LABEL: &str = "threadseal.head/1";
/// In the place of a secret.
const REMOVED: &str = "removed";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    record: String,
    seq: u64,
    size: u64,
    line: String,
    kind: String,
    #[serde(rename = "final")]
    is_final: bool,
    thread: Option<String>,
    first_seen: u64,
    updated: u64,
    path: Option<String>,
    aliases: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    root: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    salts: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

/// The bytes of the module's heading.
///
/// # Errors
/// [`ErrorKind::Limit`] above [`MAX_HEAD_FILE_BYTES`].
pub(crate) fn encode(stored: &StoredHead) -> Result<Vec<u8>, Error> {
    let form = Form {
        record: stored.head.record.to_hex(),
        seq: stored.head.seq,
        size: stored.head.size,
        line: stored.head.line.to_hex(),
        kind: stored.kind.as_str().to_owned(),
        is_final: stored.is_final,
        thread: stored.thread.as_ref().map(|id| id.as_str().to_owned()),
        first_seen: stored.first_seen.as_micros(),
        updated: stored.updated.as_micros(),
        path: stored.path_hint.clone(),
        aliases: stored.aliases.iter().map(Digest::to_hex).collect(),
        root: stored.root.as_ref().map(Digest::to_hex),
        salts: stored.salts.map(|salts| match salts {
            KnownSalts::Of(root) => root.to_hex(),
            KnownSalts::Removed => REMOVED.to_owned(),
        }),
        key: stored.key.as_ref().map(KeyId::to_hex),
    };
    let json = serde_json::to_string(&form).map_err(|error| {
        Error::new(ErrorKind::Limit, format!("head cannot be written: {error}"))
    })?;
    let text = format!("{LABEL} {}\n{json}\n", Digest::of(json.as_bytes()));
    if text.len() > MAX_HEAD_FILE_BYTES {
        return Err(Error::new(
            ErrorKind::Limit,
            format!("a head file has at most {MAX_HEAD_FILE_BYTES} bytes"),
        ));
    }
    Ok(text.into_bytes())
}

/// Reads the bytes that [`encode`] wrote; `None` for anything else.
pub(crate) fn decode(bytes: &[u8]) -> Option<StoredHead> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (first, rest) = text.split_once('\n')?;
    let json = rest.strip_suffix('\n')?;
    let sum = first.strip_prefix(LABEL)?.strip_prefix(' ')?;
    if Digest::parse_hex(sum)? != Digest::of(json.as_bytes()) {
        return None;
    }
    let form: Form = serde_json::from_str(json).ok()?;
    if form.aliases.len() > MAX_ALIASES {
        return None;
    }
    Some(StoredHead {
        head: Head {
            record: RecordId::parse_hex(&form.record)?,
            seq: form.seq,
            size: form.size,
            line: Digest::parse_hex(&form.line)?,
        },
        root: match form.root {
            Some(hex) => Some(Digest::parse_hex(&hex)?),
            None => None,
        },
        salts: match form.salts.as_deref() {
            Some(REMOVED) => Some(KnownSalts::Removed),
            Some(hex) => Some(KnownSalts::Of(Secret::parse_hex(hex)?)),
            None => None,
        },
        key: match form.key {
            Some(hex) => Some(KeyId::parse_hex(&hex)?),
            None => None,
        },
        kind: RecordKind::parse(&form.kind)?,
        is_final: form.is_final,
        thread: match form.thread {
            Some(id) => Some(ThreadId::parse(&id).ok()?),
            None => None,
        },
        first_seen: Timestamp::from_micros(form.first_seen).ok()?,
        updated: Timestamp::from_micros(form.updated).ok()?,
        path_hint: form.path,
        aliases: form
            .aliases
            .iter()
            .map(|hex| Digest::parse_hex(hex))
            .collect::<Option<_>>()?,
        logged: None,
        vouches: true,
    })
}
