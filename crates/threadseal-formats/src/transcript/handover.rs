//! The keys of a seal file after its first one: the lines that name them, and who of them counts
//! (`spec/transcript.md` §9, "Next keys").
//!
//! ```text
//! {"format":"threadseal-observed/3","next":{"key":HEX,"signature":"BASE64"}}
//!      the key before signed it: the entry `key/rotate/observed` of its log has this signature
//! ```
//! Invariants: a key is named by the key before it, and seals from there on alone. A name vouches
//! for a key only where the end of the key before it, as this host knows it, is that very rotation.

use super::event::Cursor;
use super::verify::VerifyOptions;
use threadseal_core::encoding;
use threadseal_core::key::{KeyUsage, PublicKey, Signature};
use threadseal_core::record::Head;
use threadseal_core::tlog::entry::key_event::{KeyChange, KeyEvent};
use threadseal_core::trust::{Judgement, LastOf, Purpose, ScopeFormat, Standing, covering};

/// The beginning of a line that names the next key.
const NEXT_START: &[u8] = b"{\"format\":\"threadseal-observed/3\",\"next\":{\"key\":\"";

/// The key that a key of a seal file named in its own place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextKey {
    /// The number of the first seal after it.
    pub seq: u64,
    /// The rotation, as the key before signed it.
    pub rotation: KeyEvent,
    /// The key.
    pub key: PublicKey,
}

/// Does the line begin as one that names a next key?
pub fn names_next(line: &[u8]) -> bool {
    line.starts_with(NEXT_START)
}

/// Key and signature of a line without its LF.
pub(super) fn parse(line: &[u8]) -> Option<(PublicKey, Signature)> {
    let mut cursor = Cursor::new(line);
    cursor.expect(NEXT_START)?;
    let key = PublicKey::from_hex(cursor.text(64)?).ok()?;
    cursor.expect(b"\",\"signature\":\"")?;
    let signature = std::str::from_utf8(cursor.until(b'"')?).ok()?;
    let signature = Signature::from_slice(&encoding::parse_base64(signature)?)?;
    (cursor.rest() == b"\"}}").then_some((key, signature))
}

/// The line for a rotation, without its LF.
pub(super) fn line_of(rotation: &KeyEvent, next: &PublicKey) -> String {
    format!(
        "{}{}\",\"signature\":\"{}\"}}}}",
        String::from_utf8_lossy(NEXT_START),
        next.to_hex(),
        encoding::base64(rotation.signature().as_bytes())
    )
}

/// The rotation of an observed key, if `event` is one.
pub(super) fn next_of(event: &KeyEvent) -> Option<PublicKey> {
    match event.change() {
        KeyChange::Rotate(next) if event.usage() == KeyUsage::Observed => Some(*next),
        _ => None,
    }
}

/// The keys of a seal file or a proof, in order: each with the head of its last seal, if it made
/// one there, and the rotation that named it.
pub(super) struct Keys<'a> {
    pub(super) first: (PublicKey, Option<Head>),
    pub(super) next: Vec<(&'a NextKey, Option<Head>)>,
}

/// The judgement of one key.
pub(super) struct JudgedKey<'t> {
    pub(super) key: PublicKey,
    /// Did it make a seal here?
    pub(super) seals: bool,
    pub(super) judgement: Judgement<'t>,
    /// The log of this host knows another end of the key before than the one that named this key.
    pub(super) is_refuted: bool,
}

impl Keys<'_> {
    /// Judges each key for itself, and by the key before it where only that is known.
    pub(super) fn judge<'t>(&self, options: &VerifyOptions<'t>) -> Vec<JudgedKey<'t>> {
        let all: Vec<(PublicKey, Option<Head>, Option<&KeyEvent>)> =
            std::iter::once((self.first.0, self.first.1, None))
                .chain(
                    self.next
                        .iter()
                        .map(|(next, head)| (next.key, *head, Some(&next.rotation))),
                )
                .collect();
        let last: Vec<LastOf> = all
            .iter()
            .filter_map(|(key, head, _)| {
                Some(LastOf {
                    key: *key,
                    head: (*head)?,
                })
            })
            .collect();
        let mut judged: Vec<JudgedKey<'t>> = Vec::new();
        for (at, (key, head, rotation)) in all.iter().enumerate() {
            // A key that sealed nothing signed only the rotation under the next seal.
            let later = all.iter().skip(at).find_map(|(_, head, _)| *head);
            let heads = later.map_or_else(Vec::new, |head| covering(&last, head.seq));
            let purpose = Purpose {
                usage: KeyUsage::Observed,
                format: ScopeFormat::Log,
                thread: None,
                evidence: options.held_since,
                heads: &heads,
            };
            let mut judgement = options.trust.judge(key, &purpose, options.now);
            let mut is_refuted = false;
            let is_named_only =
                matches!(judgement.standing, Standing::Unknown | Standing::NotPinned);
            if let (Some(rotation), Some(before), true) = (rotation, judged.last(), is_named_only) {
                match vouches(rotation, options) {
                    Vouched::Yes if before.judgement.standing.counts() => {
                        judgement.standing = before.judgement.standing.clone();
                    }
                    Vouched::Yes | Vouched::No => {}
                    Vouched::Refuted => is_refuted = true,
                }
            }
            judged.push(JudgedKey {
                key: *key,
                seals: head.is_some(),
                judgement,
                is_refuted,
            });
        }
        judged
    }
}

/// What a rotation is worth to the key that it names.
enum Vouched {
    /// No end of the old key is known, or its end is this rotation.
    Yes,
    /// The user ended the old key otherwise.
    No,
    /// The log of this host has another end of the old key.
    Refuted,
}

fn vouches(rotation: &KeyEvent, options: &VerifyOptions<'_>) -> Vouched {
    let old = rotation.public();
    let places = options.trust.places.as_ref();
    let logged = places
        .and_then(|places| places.keys())
        .and_then(|keys| keys.end(old));
    let is_revoked = || {
        let mut entries = options.trust.store.by_key(old);
        entries.any(|entry| entry.revoked.is_some())
    };
    match logged {
        Some(end) if end.change() == rotation.change() => Vouched::Yes,
        Some(_) => Vouched::Refuted,
        None if is_revoked() => Vouched::No,
        None => Vouched::Yes,
    }
}
