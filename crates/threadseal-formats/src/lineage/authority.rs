//! The key that may write the next link: the newest link decides, not a key (`spec/lineage.md` §7).
//!
//! ```text
//! unsigned ── v2, v3 ──▶ unsigned        v4 ── v4 by its key ──▶ v4
//! unsigned ── v4 ──▶ v4                  v4 ── checkpoint, its key the root ──▶ held
//! unsigned ── checkpoint ──▶ held
//! held     ── checkpoint by the holder ──▶ held           epoch n
//! held     ── release by the holder, after a checkpoint ──▶ released
//! released ── accept by the target ──▶ held               epoch n + 1
//! released ── refuse by the target ──▶ held by the source epoch n
//! held, released ── recover by the root ──▶ held by the key it names   epoch n + 2
//! ```
//! Every other link is refused, however trusted its signer is. The rule is pure and takes one link
//! after the other. A verifier of a history and a writer of the next link call the same function.
//!
//! Not here: whether signatures hold (`v4`, `v5`), other allowed changes from link to link, forks.

use super::hash::ContentHash;
use super::header::{CheckpointHeader, Version};
use super::identity::AgentId;
use super::links::{LinkBody, Release};
use super::v5::{LinkKind, NativeHeader};
use std::fmt;
use threadseal_core::key::PublicKey;

/// A link whose signature holds.
#[derive(Debug, Clone, Copy)]
pub struct Link<'a> {
    /// Its header.
    pub header: &'a CheckpointHeader,
    /// Its name.
    pub hash: ContentHash,
    /// Its body, where it is no checkpoint.
    pub body: Option<&'a LinkBody>,
}

/// The authority over an agent of v0x05.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holding {
    /// The agent.
    pub agent: AgentId,
    /// Its root key.
    pub root: PublicKey,
    /// The key that has the authority.
    pub key: PublicKey,
    /// The lowest delegation under which the key may act; the number never falls for one key.
    pub key_epoch: u64,
    /// The epoch at which the holder acts.
    pub epoch: u64,
    /// The newest link, where it is a checkpoint that a release may name.
    pub checkpoint: Option<ContentHash>,
}

/// A pending offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// The holder before the offer.
    pub source: Holding,
    /// The key that may take it.
    pub target: PublicKey,
    /// The release.
    pub release: ContentHash,
}

/// The state of the authority: the key that may write the next link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authority {
    /// Nothing is signed yet: the first signer gets the authority.
    Nobody,
    /// The previous link is not available: the next one is accepted by its own claims.
    Unknown,
    /// The agent's key of v0x04.
    Original {
        /// The key.
        key: PublicKey,
        /// The epoch of the newest link.
        epoch: u64,
    },
    /// The holder.
    Held(Box<Holding>),
    /// The target of an offer, to take it or not.
    Released(Box<Offer>),
}

/// Why a link may not follow here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Its format is older than that of the link before, or has no signature where there was one.
    Downgrade,
    /// Another key signed than the one with the authority.
    Signer,
    /// It belongs to another agent.
    Agent,
    /// A link of this kind does not follow here.
    Kind(LinkKind),
    /// It acts at another epoch.
    Epoch {
        /// The one that follows.
        expected: u64,
        /// The link's.
        found: u64,
    },
    /// It is signed under an older delegation than its signer used before.
    KeyEpoch,
    /// Its body is missing, or contradicts its header and place.
    Body,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Downgrade => f.write_str("an older format follows a newer one"),
            Self::Signer => f.write_str("the signer does not have the authority here"),
            Self::Agent => f.write_str("the link belongs to another agent"),
            Self::Kind(kind) => write!(f, "a {kind} may not follow here"),
            Self::Epoch { expected, found } => {
                write!(f, "the link acts at epoch {found} instead of {expected}")
            }
            Self::KeyEpoch => f.write_str("the signer returns to an older delegation"),
            Self::Body => f.write_str("the content of the link does not fit its place"),
        }
    }
}

impl std::error::Error for Refusal {}

impl Authority {
    /// The authority after `link`, if `link` may follow here.
    ///
    /// # Errors
    /// The [`Refusal`].
    pub fn after(&self, link: &Link<'_>) -> Result<Self, Refusal> {
        match (&link.header.native, link.header.version) {
            (Some(native), Version::V5) => self.after_native(link, native),
            (_, Version::V4) => self.after_original(link.header),
            _ => match self {
                Self::Nobody | Self::Unknown => Ok(Self::Nobody),
                _ => Err(Refusal::Downgrade),
            },
        }
    }

    /// The key that may write the next checkpoint; none while an offer is pending.
    pub fn holder(&self) -> Option<&PublicKey> {
        match self {
            Self::Held(holding) => Some(&holding.key),
            Self::Original { key, .. } => Some(key),
            Self::Nobody | Self::Unknown | Self::Released(_) => None,
        }
    }

    /// The epoch at which the newest link acts, where that is known.
    pub fn epoch(&self) -> Option<u64> {
        match self {
            Self::Held(holding) => Some(holding.epoch),
            Self::Released(offer) => Some(offer.source.epoch),
            Self::Original { epoch, .. } => Some(*epoch),
            Self::Nobody | Self::Unknown => None,
        }
    }

    fn after_original(&self, header: &CheckpointHeader) -> Result<Self, Refusal> {
        let key = signer(header)?;
        match self {
            Self::Nobody | Self::Unknown => {}
            Self::Original { key: known, .. } if *known == key => {}
            Self::Original { .. } => return Err(Refusal::Signer),
            Self::Held(_) | Self::Released(_) => return Err(Refusal::Downgrade),
        }
        let epoch = header.epoch.major;
        Ok(Self::Original { key, epoch })
    }

    fn after_native(&self, link: &Link<'_>, native: &NativeHeader) -> Result<Self, Refusal> {
        let step = Step::of(link, native)?;
        match self {
            Self::Unknown => step.by_its_word(),
            Self::Nobody => step.first(),
            Self::Original { key, epoch } => {
                if native.root != *key {
                    return Err(Refusal::Signer);
                }
                step.require_epoch(Some(*epoch))?;
                step.first()
            }
            Self::Held(holding) => step.behind(holding),
            Self::Released(offer) => step.behind_release(offer),
        }
    }
}

/// A link of v0x05 with the inputs of its rule.
struct Step<'a> {
    native: &'a NativeHeader,
    hash: ContentHash,
    body: Option<&'a LinkBody>,
    prev: Option<ContentHash>,
    key: PublicKey,
    epoch: u64,
}

impl<'a> Step<'a> {
    fn of(link: &Link<'a>, native: &'a NativeHeader) -> Result<Self, Refusal> {
        let body_kind = link.body.map_or(LinkKind::Checkpoint, LinkBody::kind);
        if body_kind != native.kind {
            return Err(Refusal::Body);
        }
        Ok(Self {
            native,
            hash: link.hash,
            body: link.body,
            prev: link.header.prev,
            key: signer(link.header)?,
            epoch: link.header.epoch.major,
        })
    }

    /// The first signed link, or the first of v0x05, of its history.
    fn first(&self) -> Result<Authority, Refusal> {
        match self.body {
            None => Ok(self.held(self.key, Some(self.hash))),
            Some(body) => Err(Refusal::Kind(body.kind())),
        }
    }

    /// The first available link.
    fn by_its_word(&self) -> Result<Authority, Refusal> {
        match self.body {
            None => self.first(),
            Some(LinkBody::Release(release)) => self.release(release),
            Some(LinkBody::Accept { release }) => {
                self.require_named(*release)?;
                Ok(self.held(self.key, None))
            }
            Some(LinkBody::Refuse { release, .. }) => {
                self.require_named(*release)?;
                Ok(Authority::Unknown)
            }
            Some(LinkBody::Recover(_)) => self.recover(&self.native.root, Some(self.epoch)),
        }
    }

    fn behind(&self, holding: &Holding) -> Result<Authority, Refusal> {
        self.require_agent(holding)?;
        match self.body {
            Some(LinkBody::Recover(_)) => {
                return self.recover(&holding.root, holding.epoch.checked_add(2));
            }
            Some(LinkBody::Accept { .. } | LinkBody::Refuse { .. }) => {
                return Err(Refusal::Kind(self.native.kind));
            }
            None | Some(LinkBody::Release(_)) => {}
        }
        self.require_signer(&holding.key)?;
        if self.key_epoch() < holding.key_epoch {
            return Err(Refusal::KeyEpoch);
        }
        self.require_epoch(Some(holding.epoch))?;
        match self.body {
            None => Ok(self.held(self.key, Some(self.hash))),
            Some(LinkBody::Release(release)) if holding.checkpoint.is_some() => {
                self.release(release)
            }
            Some(body) => Err(Refusal::Kind(body.kind())),
        }
    }

    fn behind_release(&self, offer: &Offer) -> Result<Authority, Refusal> {
        let Offer {
            source,
            target,
            release: offered,
        } = offer;
        self.require_agent(source)?;
        match self.body {
            Some(LinkBody::Recover(_)) => self.recover(&source.root, source.epoch.checked_add(2)),
            Some(LinkBody::Accept { release }) => {
                self.require_signer(target)?;
                self.require_epoch(source.epoch.checked_add(1))?;
                self.require_offer(*release, *offered)?;
                Ok(self.held(*target, None))
            }
            Some(LinkBody::Refuse { release, .. }) => {
                self.require_signer(target)?;
                self.require_epoch(Some(source.epoch))?;
                self.require_offer(*release, *offered)?;
                Ok(Authority::Held(Box::new(Holding {
                    checkpoint: None,
                    ..*source
                })))
            }
            _ => Err(Refusal::Kind(self.native.kind)),
        }
    }

    fn release(&self, release: &Release) -> Result<Authority, Refusal> {
        self.require_named(release.checkpoint)?;
        if self.epoch.checked_add(1) != Some(release.epoch) || release.target == self.key {
            return Err(Refusal::Body);
        }
        Ok(Authority::Released(Box::new(Offer {
            source: self.holding(self.key, None),
            target: release.target,
            release: self.hash,
        })))
    }

    fn recover(&self, root: &PublicKey, expected: Option<u64>) -> Result<Authority, Refusal> {
        let Some(LinkBody::Recover(recover)) = self.body else {
            return Err(Refusal::Body);
        };
        self.require_signer(root)?;
        if recover.epoch != self.epoch || recover.void == self.prev {
            return Err(Refusal::Body);
        }
        self.require_epoch(expected)?;
        Ok(Authority::Held(Box::new(Holding {
            key_epoch: 0,
            ..self.holding(recover.key, None)
        })))
    }

    fn held(&self, key: PublicKey, checkpoint: Option<ContentHash>) -> Authority {
        Authority::Held(Box::new(self.holding(key, checkpoint)))
    }

    fn holding(&self, key: PublicKey, checkpoint: Option<ContentHash>) -> Holding {
        Holding {
            agent: self.native.agent_id(),
            root: self.native.root,
            key,
            key_epoch: self.key_epoch(),
            epoch: self.epoch,
            checkpoint,
        }
    }

    fn key_epoch(&self) -> u64 {
        self.native.certificate.map_or(0, |of| of.key_epoch)
    }

    fn require_agent(&self, holding: &Holding) -> Result<(), Refusal> {
        let same = self.native.agent_id() == holding.agent;
        same.then_some(()).ok_or(Refusal::Agent)
    }

    fn require_signer(&self, key: &PublicKey) -> Result<(), Refusal> {
        (self.key == *key).then_some(()).ok_or(Refusal::Signer)
    }

    fn require_epoch(&self, expected: Option<u64>) -> Result<(), Refusal> {
        let found = self.epoch;
        match expected {
            Some(expected) if expected == found => Ok(()),
            // No epoch follows the last countable one.
            None => Err(Refusal::Kind(self.native.kind)),
            Some(expected) => Err(Refusal::Epoch { expected, found }),
        }
    }

    fn require_named(&self, named: ContentHash) -> Result<(), Refusal> {
        (self.prev == Some(named))
            .then_some(())
            .ok_or(Refusal::Body)
    }

    fn require_offer(&self, named: ContentHash, offer: ContentHash) -> Result<(), Refusal> {
        self.require_named(named)?;
        (named == offer).then_some(()).ok_or(Refusal::Body)
    }
}

/// The signer of a header whose signature holds, so that its key is one.
fn signer(header: &CheckpointHeader) -> Result<PublicKey, Refusal> {
    match header.signer_key() {
        Some(Ok(key)) => Ok(key),
        _ => Err(Refusal::Signer),
    }
}
