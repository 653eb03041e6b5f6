//! The links that move authority: the bodies after their headers (`spec/lineage.md` §7).
//!
//! ```text
//! release  0  8 epoch u64le, one above the header's     refuse  0  32 the release = prev
//!  104     8 32 the checkpoint = prev                    160   32   1 length of the reason
//!         40 32 target key                                     33 127 reason, UTF-8, zeros
//!         72 32 nonce                                   recover 0   8 epoch u64le, the header's
//! accept   0 32 the release = prev                       104    8  32 void: a child of prev, or 0
//!   32                                                         40  32 the key that has it now
//!                                                              72  32 nonce
//! ```
//! They are states of ordinary links of v0x05 with the type `application/threadseal-link`, each of
//! one length. A body repeats its header's `prev` and epoch, so that it is complete on its own. A
//! body with other values is refused ([`super::Authority`]).

use super::delegation::Certificate;
use super::hash::ContentHash;
use super::header::{CheckpointHeader, Epoch, Version, field};
use super::v5::{LinkKind, MediaType, StateSeal};
use std::fmt;
use threadseal_core::error::Error;
use threadseal_core::key::PublicKey;
use threadseal_core::limits::MAX_REFUSAL_BYTES;

/// The media type of the state of such links.
pub const LINK_MEDIA_TYPE: &str = "application/threadseal-link";

/// The holder offers the authority to another key. The link must be durable before it is sent; from
/// then on the holder does not act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// The epoch at which the target will act: one above that of the holder.
    pub epoch: u64,
    /// The parent link, which has the agent's state.
    pub checkpoint: ContentHash,
    /// The key that may accept or refuse.
    pub target: PublicKey,
    /// Random; two offers of one checkpoint to one target differ in it.
    pub nonce: [u8; 32],
}

/// The root gives authority to a key, whichever key had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recover {
    /// The epoch at which that key will act: two above that of the lost holder.
    pub epoch: u64,
    /// Another child of the same parent that is void with all that builds on it; `None` where
    /// none is known.
    pub void: Option<ContentHash>,
    /// The key that has the authority now.
    pub key: PublicKey,
    /// Random.
    pub nonce: [u8; 32],
}

/// Why a target refuses: 1 to [`MAX_REFUSAL_BYTES`] bytes without control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusalReason(String);

impl RefusalReason {
    /// Checks and takes `text`.
    ///
    /// # Errors
    /// Kind `InvalidInput`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let fits = (1..=MAX_REFUSAL_BYTES).contains(&text.len());
        if !fits || text.contains(char::is_control) {
            return Err(Error::invalid(format!(
                "a reason is one line of 1 to {MAX_REFUSAL_BYTES} bytes"
            )));
        }
        Ok(Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The body of a link other than a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkBody {
    /// See [`Release`].
    Release(Release),
    /// The target takes the authority.
    Accept {
        /// The release that offered it: the parent link.
        release: ContentHash,
    },
    /// The target does not take it: the source has it again.
    Refuse {
        /// The release that offered it: the parent link.
        release: ContentHash,
        /// Why not.
        reason: RefusalReason,
    },
    /// See [`Recover`].
    Recover(Recover),
}

impl LinkBody {
    /// Reads the state of a link of `kind`.
    ///
    /// # Errors
    /// Kind `InvalidInput` when it is none, or `kind` has none.
    pub fn parse(kind: LinkKind, bytes: &[u8]) -> Result<Self, Error> {
        let refuse = || Error::invalid(format!("the state of this link is not a {kind}"));
        if body_length(kind) != Some(bytes.len()) {
            return Err(refuse());
        }
        let number = |at| u64::from_le_bytes(field(bytes, at));
        let hash = |at| ContentHash::from_bytes(field(bytes, at));
        let key = |at| PublicKey::from_bytes(&field(bytes, at)).map_err(|_| refuse());
        match kind {
            LinkKind::Checkpoint => Err(refuse()),
            LinkKind::Release => Ok(Self::Release(Release {
                epoch: number(0),
                checkpoint: hash(8),
                target: key(40)?,
                nonce: field(bytes, 72),
            })),
            LinkKind::Accept => Ok(Self::Accept { release: hash(0) }),
            LinkKind::Refuse => Ok(Self::Refuse {
                release: hash(0),
                reason: bytes.get(32..).and_then(parse_reason).ok_or_else(refuse)?,
            }),
            LinkKind::Recover => Ok(Self::Recover(Recover {
                epoch: number(0),
                void: ContentHash::from_field(field(bytes, 8)),
                key: key(40)?,
                nonce: field(bytes, 72),
            })),
        }
    }

    /// The state of the link.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Release(of) => [
                of.epoch.to_le_bytes().as_slice(),
                of.checkpoint.as_bytes(),
                of.target.as_bytes(),
                &of.nonce,
            ]
            .concat(),
            Self::Accept { release } => release.as_bytes().to_vec(),
            Self::Refuse { release, reason } => {
                let text = reason.as_str().as_bytes();
                let length = u8::try_from(text.len()).unwrap_or(u8::MAX);
                let mut bytes = [release.as_bytes(), [length].as_slice(), text].concat();
                bytes.resize(33 + MAX_REFUSAL_BYTES, 0);
                bytes
            }
            Self::Recover(of) => [
                of.epoch.to_le_bytes().as_slice(),
                &of.void.map_or([0; 32], |void| *void.as_bytes()),
                of.key.as_bytes(),
                &of.nonce,
            ]
            .concat(),
        }
    }

    /// The kind of its link.
    pub fn kind(&self) -> LinkKind {
        match self {
            Self::Release(_) => LinkKind::Release,
            Self::Accept { .. } => LinkKind::Accept,
            Self::Refuse { .. } => LinkKind::Refuse,
            Self::Recover(_) => LinkKind::Recover,
        }
    }
}

/// Bytes of the state of a link of `kind`; `None` for a checkpoint, whose state may be anything.
pub fn body_length(kind: LinkKind) -> Option<usize> {
    match kind {
        LinkKind::Checkpoint => None,
        LinkKind::Release | LinkKind::Recover => Some(104),
        LinkKind::Accept => Some(32),
        LinkKind::Refuse => Some(33 + MAX_REFUSAL_BYTES),
    }
}

/// Does the state have the type and length of a link of `kind`?
pub(super) fn fits(kind: LinkKind, state: &StateSeal) -> bool {
    let is_link = state.media.as_str() == LINK_MEDIA_TYPE;
    match body_length(kind) {
        None => !is_link,
        Some(length) => is_link && state.length == length as u64,
    }
}

/// The writer of a link, and the time.
#[derive(Debug, Clone, Copy)]
pub struct Writer {
    /// The key that will sign.
    pub key: PublicKey,
    /// The delegation under which it signs; `None` for the root.
    pub certificate: Option<Certificate>,
    /// Nanoseconds since 1970.
    pub time: i64,
}

impl CheckpointHeader {
    /// The header of a checkpoint after this link of v0x05, which is named `hash`. Its values are
    /// those of this link. The caller sets all changed values, state included, before
    /// [`super::seal_native`].
    ///
    /// # Errors
    /// Kind `InvalidInput` where this is no link of v0x05, or the last countable one.
    pub fn following(&self, hash: ContentHash, writer: &Writer) -> Result<Self, Error> {
        let mut next = self.clone();
        let native = next
            .native
            .as_mut()
            .ok_or_else(|| Error::invalid("the link before is not of v0x05"))?;
        native.seq = native
            .seq
            .checked_add(1)
            .ok_or_else(|| Error::invalid("the lineage is too long to be counted"))?;
        native.kind = LinkKind::Checkpoint;
        native.certificate = writer.certificate;
        native.time = writer.time;
        next.version = Version::V5;
        next.prev = Some(hash);
        next.signer = Some(*writer.key.as_bytes());
        next.signature = None;
        Ok(next)
    }
}

/// The header of the link with `body` after `parent`, which is named `hash`; its state is
/// [`LinkBody::encode`]'s bytes.
///
/// # Errors
/// As [`CheckpointHeader::following`].
pub fn draft(
    parent: &CheckpointHeader,
    hash: ContentHash,
    body: &LinkBody,
    writer: &Writer,
) -> Result<CheckpointHeader, Error> {
    let mut header = parent.following(hash, writer)?;
    let begin = |major| Epoch {
        major,
        generation: 0,
    };
    match body {
        LinkBody::Release(_) | LinkBody::Refuse { .. } => {}
        LinkBody::Accept { .. } => header.epoch = begin(header.epoch.major.saturating_add(1)),
        LinkBody::Recover(of) => header.epoch = begin(of.epoch),
    }
    if let Some(native) = &mut header.native {
        native.kind = body.kind();
        native.state = StateSeal::of(&body.encode(), MediaType::parse(LINK_MEDIA_TYPE)?);
    }
    Ok(header)
}

/// The first field that differs from the parent, for a link that moves authority and may change
/// nothing else.
pub fn altered(parent: &CheckpointHeader, link: &CheckpointHeader) -> Option<&'static str> {
    let (before, after) = (parent.native.as_ref()?, link.native.as_ref()?);
    if after.kind == LinkKind::Checkpoint {
        return None;
    }
    let fields = [
        ("tick", parent.tick == link.tick),
        ("budget", parent.budget == link.budget),
        ("price", parent.price == link.price),
        ("code hash", parent.code == link.code),
        ("transcript head", before.transcript == after.transcript),
        ("tool manifest", before.manifest == after.manifest),
        ("receipts", before.receipts == after.receipts),
        ("parent agent", before.parent == after.parent),
    ];
    let changed = fields.into_iter().find(|(_, same)| !same);
    changed.map(|(name, _)| name)
}

fn parse_reason(bytes: &[u8]) -> Option<RefusalReason> {
    let (length, rest) = bytes.split_first()?;
    let (text, zeros) = rest.split_at_checked(usize::from(*length))?;
    let reason = RefusalReason::parse(std::str::from_utf8(text).ok()?).ok()?;
    zeros.iter().all(|byte| *byte == 0).then_some(reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_core::testing::key;

    fn bodies() -> [LinkBody; 5] {
        let (key, hash) = (key(9), ContentHash::of(b"link"));
        let recover = |void| {
            LinkBody::Recover(Recover {
                epoch: 7,
                void,
                key,
                nonce: [4; 32],
            })
        };
        [
            LinkBody::Release(Release {
                epoch: 6,
                checkpoint: hash,
                target: key,
                nonce: [3; 32],
            }),
            LinkBody::Accept { release: hash },
            LinkBody::Refuse {
                release: hash,
                reason: RefusalReason::parse("no room é").unwrap(),
            },
            recover(None),
            recover(Some(hash)),
        ]
    }

    #[test]
    fn a_body_comes_back_from_its_bytes_and_from_no_other_kind() {
        for body in bodies() {
            let bytes = body.encode();
            assert_eq!(body_length(body.kind()), Some(bytes.len()));
            for kind in LinkKind::ALL {
                let read = LinkBody::parse(kind, &bytes);
                let same_length = body_length(kind) == Some(bytes.len());
                assert_eq!(read.is_ok(), same_length, "{kind}");
                if kind == body.kind() {
                    assert_eq!(read.unwrap(), body);
                }
            }
        }
    }

    #[test]
    fn a_body_has_one_length_and_one_spelling() {
        for body in bodies() {
            let mut bytes = body.encode();
            assert!(LinkBody::parse(body.kind(), &bytes[1..]).is_err());
            for at in 0..bytes.len() {
                bytes[at] ^= 0x80;
                if let Ok(read) = LinkBody::parse(body.kind(), &bytes) {
                    assert_eq!(read.encode(), bytes);
                    assert_ne!(read, body);
                }
                bytes[at] ^= 0x80;
            }
            bytes.push(0);
            assert!(LinkBody::parse(body.kind(), &bytes).is_err());
        }
    }

    #[test]
    fn a_reason_is_one_line() {
        for bad in ["", "a\nb", &"x".repeat(128)] {
            assert!(RefusalReason::parse(bad).is_err(), "{bad:?}");
        }
        assert!(RefusalReason::parse(&"x".repeat(127)).is_ok());
        let refusal = bodies()[2].encode();
        let mut cut = refusal.clone();
        cut[32] = 128;
        assert!(LinkBody::parse(LinkKind::Refuse, &cut).is_err());
        cut[32] = 0;
        assert!(LinkBody::parse(LinkKind::Refuse, &cut).is_err());
    }
}
