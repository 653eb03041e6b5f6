//! The payloads of the recorder's own events, each in its one spelling (`spec/transcript.md` §5).
//!
//! ```text
//! key           {"next":HEX}
//! delegation    {"key":HEX,"signature":BASE64}
//! authority     {"next":HEX,"signature":BASE64}
//! tail_dropped  {"offset":N,"length":N,"sha256":HEX}
//! tail_adopted  {"from":N,"to":N,"lines":N,"sha256":HEX}
//! ```
//! Invariant: what is read is written back byte for byte, so no byte of such a line is free.
//!
//! Not here: line 1 (`manifest`), checkpoints (`seal`), redactions (`bodies`); whether a key may be
//! named there (`sealing_keys`).

use super::event::Cursor;
use super::manifest;
use std::fmt;
use threadseal_core::digest::{Digest, Hasher};
use threadseal_core::encoding;
use threadseal_core::key::{PublicKey, Signature};

/// Of `key`: the key that seals next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NextKey(pub(crate) PublicKey);

/// Of `delegation`: a key, and the authority's signature for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delegation {
    pub(crate) key: PublicKey,
    pub(crate) signature: Signature,
}

/// Of `authority`: the key that replaces the authority, and the authority's signature for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Succession {
    pub(crate) next: PublicKey,
    pub(crate) signature: Signature,
}

/// Of `tail_dropped`: bytes that a recovering writer moved aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TailDropped {
    /// Where they began, and where this line begins.
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) sha256: Digest,
}

/// Of `tail_adopted`: bytes that a recovering writer kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TailAdopted {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) lines: u64,
    /// Of the bytes as they were found: a last LF that the writer added is not among them.
    pub(crate) sha256: Digest,
}

/// The digest of the lines since a seal, which a recorder may have adopted.
#[derive(Clone, Default)]
pub(crate) struct TailDigest {
    /// Of the bytes without the last LF.
    hasher: Hasher,
    has_lines: bool,
}

impl TailDigest {
    /// Takes the next line.
    pub(crate) fn push(&mut self, line: &[u8]) {
        if self.has_lines {
            self.hasher.update(b"\n");
        }
        self.has_lines = true;
        self.hasher.update(line);
    }

    /// Is this the digest of the lines, with or without the last LF?
    pub(crate) fn fits(&self, sha256: &Digest) -> bool {
        let torn = self.hasher.digest_so_far();
        let mut whole = self.hasher.clone();
        whole.update(if self.has_lines { b"\n" } else { b"" });
        [torn, whole.finish()].contains(sha256)
    }
}

impl NextKey {
    /// Reads the payload; `None` when it has another spelling.
    pub(crate) fn parse(payload: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(payload);
        let key = key(&mut cursor, b"{\"next\":\"")?;
        end(&mut cursor, b"\"}").then_some(Self(key))
    }
}

impl Delegation {
    /// Reads the payload; `None` when it has another spelling.
    pub(crate) fn parse(payload: &[u8]) -> Option<Self> {
        let (key, signature) = signed_key(payload, b"{\"key\":\"")?;
        Some(Self { key, signature })
    }
}

impl Succession {
    /// Reads the payload; `None` when it has another spelling.
    pub(crate) fn parse(payload: &[u8]) -> Option<Self> {
        let (next, signature) = signed_key(payload, b"{\"next\":\"")?;
        Some(Self { next, signature })
    }
}

impl TailDropped {
    /// Reads the payload; `None` when it has another spelling.
    pub(crate) fn parse(payload: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(payload);
        let offset = number(&mut cursor, b"{\"offset\":")?;
        let length = number(&mut cursor, b",\"length\":")?;
        let sha256 = digest(&mut cursor)?;
        let this = Self {
            offset,
            length,
            sha256,
        };
        end(&mut cursor, b"\"}").then_some(this)
    }
}

impl TailAdopted {
    /// Reads the payload; `None` when it has another spelling.
    pub(crate) fn parse(payload: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(payload);
        let from = number(&mut cursor, b"{\"from\":")?;
        let to = number(&mut cursor, b",\"to\":")?;
        let lines = number(&mut cursor, b",\"lines\":")?;
        let sha256 = digest(&mut cursor)?;
        let this = Self {
            from,
            to,
            lines,
            sha256,
        };
        end(&mut cursor, b"\"}").then_some(this)
    }
}

impl fmt::Display for NextKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{\"next\":\"{}\"}}", self.0.to_hex())
    }
}

impl fmt::Display for Delegation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_signed_key(f, "key", &self.key, &self.signature)
    }
}

impl fmt::Display for Succession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_signed_key(f, "next", &self.next, &self.signature)
    }
}

impl fmt::Display for TailDropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            offset,
            length,
            sha256,
        } = self;
        write!(
            f,
            "{{\"offset\":{offset},\"length\":{length},\"sha256\":\"{sha256}\"}}"
        )
    }
}

impl fmt::Display for TailAdopted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            from,
            to,
            lines,
            sha256,
        } = self;
        write!(
            f,
            "{{\"from\":{from},\"to\":{to},\"lines\":{lines},\"sha256\":\"{sha256}\"}}"
        )
    }
}

fn write_signed_key(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    key: &PublicKey,
    signature: &Signature,
) -> fmt::Result {
    let (key, signature) = (key.to_hex(), encoding::base64(signature.as_bytes()));
    write!(f, "{{\"{name}\":\"{key}\",\"signature\":\"{signature}\"}}")
}

fn signed_key(payload: &[u8], before: &[u8]) -> Option<(PublicKey, Signature)> {
    let mut cursor = Cursor::new(payload);
    let key = key(&mut cursor, before)?;
    cursor.expect(b"\",\"signature\":\"")?;
    let signature = manifest::parse_signature(cursor.text(BASE64_SIGNATURE)?)?;
    end(&mut cursor, b"\"}").then_some((key, signature))
}

/// Characters of the base64 of a signature.
const BASE64_SIGNATURE: usize = 88;

fn key(cursor: &mut Cursor<'_>, before: &[u8]) -> Option<PublicKey> {
    cursor.expect(before)?;
    PublicKey::from_hex(cursor.text(64)?).ok()
}

fn number(cursor: &mut Cursor<'_>, before: &[u8]) -> Option<u64> {
    cursor.expect(before)?;
    cursor.number()
}

fn digest(cursor: &mut Cursor<'_>) -> Option<Digest> {
    cursor.expect(b",\"sha256\":\"")?;
    Digest::parse_hex(cursor.text(64)?)
}

fn end(cursor: &mut Cursor<'_>, last: &[u8]) -> bool {
    cursor.expect(last).is_some() && cursor.rest().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_core::key::PrivateKey;

    // T-TRA-40
    #[test]
    fn each_payload_has_one_spelling() {
        let key = *PrivateKey::from_seed([5; 32]).public_key();
        let (signature, sha256) = (Signature::from_bytes([6; 64]), Digest::of(b"tail"));
        let read = |payload: &str| {
            let payload = payload.as_bytes();
            [
                NextKey::parse(payload).map(|read| read.to_string()),
                Delegation::parse(payload).map(|read| read.to_string()),
                Succession::parse(payload).map(|read| read.to_string()),
                TailDropped::parse(payload).map(|read| read.to_string()),
                TailAdopted::parse(payload).map(|read| read.to_string()),
            ]
        };
        let written = [
            NextKey(key).to_string(),
            Delegation { key, signature }.to_string(),
            Succession {
                next: key,
                signature,
            }
            .to_string(),
            TailDropped {
                offset: 10,
                length: 0,
                sha256,
            }
            .to_string(),
            TailAdopted {
                from: 7,
                to: 19,
                lines: 2,
                sha256,
            }
            .to_string(),
        ];
        for (at, payload) in written.iter().enumerate() {
            let mut expected = [const { None }; 5];
            expected[at] = Some(payload.clone());
            assert_eq!(read(payload), expected);
            for bad in [
                payload.replacen(':', ": ", 1),
                payload.replacen('{', "{ ", 1),
                payload.replacen('}', ",\"more\":1}", 1),
                payload.replacen("\"", "\\u0022", 1),
                payload.replace(":1", ":01"),
                payload.to_uppercase(),
                format!("{payload} "),
            ] {
                let same = bad == *payload;
                assert_eq!(read(&bad) == expected, same, "{bad}");
            }
        }
    }
}
