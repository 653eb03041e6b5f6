//! Trust in signatures: which keys count, for which records, until when.
//!
//! ```text
//! judge(key, purpose, now)
//!   revoked, and no evidence that the seal is older           → Revoked
//!   not in the store                                          → Unknown
//!   other usage, format or thread than the entry names        → OutOfScope
//!   outside [not_before, not_after] at the evidence, else now → Expired
//!   otherwise                                                 → Trusted
//! ```
//! The time in a seal proves nothing, because the holder of the key writes it. Evidence is a moment
//! at which this verifier (or a log it trusts) already held the seal. Without evidence a revocation
//! covers all seals of the key, because a thief could backdate them. A revocation counts for the
//! key, not only for the entry that contains it.
//!
//! A key that its owner rotated is no stolen one: without evidence its seals are of an unknown
//! signer, and not forged. The key that took its place counts only by an entry of its own.
//!
//! A key can also end in an entry of this host's log. Then places in the log are the evidence
//! ([`SealPlaces`]), and moments are not.
//!
//! Where keys are pinned ([`Trust::key`], [`Trust::pinned`]), only these are acceptable. The caller
//! then decides about their scope and window. A revocation still counts, of any key. A key that is
//! not pinned is another signer than the caller asked for; that is no evidence of a forgery.
//!
//! The store is a file of the user, outside every project. No key of a project enters it
//! automatically. Elsewhere: the file's text (`file`), scopes (`scope`), the entries and their
//! look-up (`store`), the keys of Rye's own trust folder ([`rye`]). The store crate owns the place
//! of the file and who may write it.

mod file;
mod pin;
mod places;
pub mod rye;
mod scope;
mod store;

pub use pin::{Pin, Pins};
use places::Placed;
pub use places::SealPlaces;
pub use places::{LastOf, covering, head_of_signature, signature_in};
pub use scope::{Scope, ScopeFormat, ThreadPattern};
pub use store::TrustStore;

use crate::digest::Digest;
use crate::error::Error;
use crate::key::{KeyId, KeyUsage, PublicKey, RyeFingerprint};
use crate::limits::{MAX_TRUST_NAME_BYTES, MAX_TRUST_TEXT_BYTES};
use crate::record::Head;
use crate::time::Timestamp;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// The name of a trusted key: 1 to [`MAX_TRUST_NAME_BYTES`] letters, digits and ` -_.@/+:`.
///
/// It has no blank at either end. Reports show it, so it must not look like layout.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrustName(String);

impl TrustName {
    /// Checks and takes `text`.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::InvalidInput`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let allowed = |c: char| c.is_alphanumeric() || " -_.@/+:".contains(c);
        let ok = !text.is_empty()
            && text.len() <= MAX_TRUST_NAME_BYTES
            && text.trim() == text
            && text.chars().all(allowed);
        if ok {
            Ok(Self(text.to_owned()))
        } else {
            Err(Error::invalid(
                "a name is made of letters, digits and the characters - _ . @ / + : with blanks only inside",
            ))
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TrustName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The end of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revocation {
    /// Seals that this verifier held before this moment still count.
    pub at: Timestamp,
    /// The reason, for people; one line.
    pub reason: String,
    /// The entry of this host's log that ended the key. Entries before it count as held before.
    pub entry: Option<u64>,
    /// The key that took its place, where its owner rotated it. It counts only by its own entry.
    pub next: Option<PublicKey>,
}

impl Revocation {
    /// Both ends as one: the earlier one, and a theft outweighs a rotation.
    #[must_use]
    pub fn joined(self, other: Self) -> Self {
        let (mut first, later) = match other.at < self.at {
            true => (other, self),
            false => (self, other),
        };
        if first.next.is_some() && later.next.is_none() {
            first.next = None;
            first.reason = later.reason;
        }
        first
    }
}

/// One entry of the store. Times count in whole seconds: adding to the store drops fractions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedKey {
    /// A unique name in the store.
    pub name: TrustName,
    /// The key.
    pub key: PublicKey,
    /// The messages that the key is trusted to sign; not empty.
    pub usage: BTreeSet<KeyUsage>,
    /// The records that the key may vouch for.
    pub scope: Scope,
    /// Not trusted before this moment.
    pub not_before: Option<Timestamp>,
    /// Not trusted after this moment.
    pub not_after: Option<Timestamp>,
    /// When and why it stopped counting.
    pub revoked: Option<Revocation>,
    /// When it was added; for people.
    pub added: Option<Timestamp>,
    /// Anything, for people; one line.
    pub note: Option<String>,
}

impl TrustedKey {
    /// An entry for every record, without a window.
    pub fn new(name: TrustName, key: PublicKey, usage: impl IntoIterator<Item = KeyUsage>) -> Self {
        Self {
            name,
            key,
            usage: usage.into_iter().collect(),
            scope: Scope::default(),
            not_before: None,
            not_after: None,
            revoked: None,
            added: None,
            note: None,
        }
    }

    fn check(&self) -> Result<(), Error> {
        let line =
            |text: &str| text.len() <= MAX_TRUST_TEXT_BYTES && !text.chars().any(char::is_control);
        let texts = [self.note.as_ref(), self.revoked.as_ref().map(|r| &r.reason)];
        if self.usage.is_empty() {
            return Err(Error::invalid("`usage` is empty"));
        }
        if !texts.into_iter().flatten().all(|text| line(text)) {
            return Err(Error::invalid(format!(
                "a note or reason is one line of at most {MAX_TRUST_TEXT_BYTES} bytes"
            )));
        }
        if let (Some(from), Some(to)) = (self.not_before, self.not_after)
            && from > to
        {
            return Err(Error::invalid("`not_before` is later than `not_after`"));
        }
        let next = self.revoked.as_ref().and_then(|revoked| revoked.next);
        if next == Some(self.key) {
            return Err(Error::invalid("a key cannot take its own place"));
        }
        self.scope.check()
    }

    fn drop_fractions(&mut self) {
        let times = [
            self.not_before.as_mut(),
            self.not_after.as_mut(),
            self.added.as_mut(),
            self.revoked.as_mut().map(|revoked| &mut revoked.at),
        ];
        for time in times.into_iter().flatten() {
            *time = time.floor_to_second();
        }
    }
}

/// The use of a signature, for which a key is judged.
#[derive(Debug, Clone, Copy)]
pub struct Purpose<'a> {
    /// The kind of message that was signed.
    pub usage: KeyUsage,
    /// The kind of record.
    pub format: ScopeFormat,
    /// The thread that the record names, if any.
    pub thread: Option<&'a str>,
    /// A moment at which this verifier already held the seal. Time stamps of its log count besides.
    pub evidence: Option<Timestamp>,
    /// Heads that the record contains and that cover the key's signature in it.
    pub heads: &'a [Head],
}

/// Why the end of a key accuses none of its seals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndDoubt {
    /// The log of this host was rolled back. Without that it could show that the seal is older.
    LogWentBack,
    /// The owner rotated the key, and nothing shows that another party has it.
    Rotated {
        /// The key that took its place.
        next: KeyId,
    },
}

impl EndDoubt {
    /// What is known of a signature by this `key`, which ended at this moment.
    pub fn text(&self, key: impl fmt::Display, at: Timestamp) -> String {
        match self {
            Self::LogWentBack => format!(
                "key {key}: it ended in the log of this host, and that log was rolled back: nothing shows whether this was \
                 signed before; hint: threadseal log status"
            ),
            Self::Rotated { next } => format!(
                "key {key} ended at {}, when its owner replaced it by key {}: nothing here shows that this was signed before; \
                 hint: ask for the record sealed anew by the later key, or for a proof of its age from the owner's log",
                at.to_iso_seconds(),
                next
            ),
        }
    }
}

/// The status of a key under the trust, for one purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It counts.
    Trusted,
    /// It is a pinned key: it counts.
    Pinned,
    /// Only other keys are pinned, so it does not count, even if the store trusts it.
    NotPinned,
    /// The store does not contain it.
    Unknown,
    /// It was revoked, and no evidence shows that the seal is older.
    Revoked {
        /// The moment of the revocation.
        at: Timestamp,
        /// The reason of the revocation.
        reason: String,
        /// Why the revocation accuses no seal, if so. The status is then unknown.
        doubt: Option<EndDoubt>,
    },
    /// It is trusted, but not for this.
    OutOfScope {
        /// The reason, in one sentence.
        why: String,
    },
    /// It is trusted, but not at this time.
    Expired {
        /// The reason, in one sentence.
        why: String,
    },
}

impl Standing {
    /// Whether a signature of the key counts.
    pub fn counts(&self) -> bool {
        matches!(self, Self::Trusted | Self::Pinned)
    }
}

/// The status of a key, and its name in the store, if it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement<'a> {
    /// The status of the key.
    pub standing: Standing,
    /// The name of the entry that decided, else of any entry of the key.
    pub name: Option<&'a TrustName>,
}

/// A trust store and the rules for its use.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// The keys of the user.
    pub store: TrustStore,
    /// The only acceptable keys (`--key`), each as the key or as its id.
    pub pinned: Pins,
    /// Whether the store is inside the tree that it judges (`--allow-local-trust`). Reports show
    /// it.
    pub local: bool,
    /// The log of this host. Its places decide about the seals of keys that ended in it.
    pub places: Option<Arc<dyn SealPlaces>>,
}

impl Trust {
    /// Trust in these keys, none pinned.
    pub fn new(store: TrustStore) -> Self {
        Self {
            store,
            ..Self::default()
        }
    }

    /// Trust in one key only, for everything.
    pub fn key(key: PublicKey) -> Self {
        Self {
            pinned: key.into(),
            ..Self::default()
        }
    }

    /// Judges `key` under this trust. See the module's heading.
    pub fn judge(&self, key: &PublicKey, purpose: &Purpose<'_>, now: Timestamp) -> Judgement<'_> {
        if self.pinned.is_empty() {
            return self.judge_unpinned(key, purpose, now);
        }
        let placed = self.placed(key, purpose.heads);
        let entries = || self.store.by_key(key);
        let standing = match store::revocation(entries(), &self.dated(key, purpose), placed) {
            Some(revoked) => revoked,
            None if self.pinned.admit(key, purpose.usage) => Standing::Pinned,
            None => Standing::NotPinned,
        };
        let name = entries().next().map(|entry| &entry.name);
        Judgement { standing, name }
    }

    /// As [`Trust::judge`], without regard to the pinned keys.
    pub fn judge_unpinned(
        &self,
        key: &PublicKey,
        purpose: &Purpose<'_>,
        now: Timestamp,
    ) -> Judgement<'_> {
        let placed = self.placed(key, purpose.heads);
        self.store
            .judge_as(key, &self.dated(key, purpose), now, placed)
    }

    /// The same purpose with the earliest moment at which the seal is known to have existed.
    ///
    /// It includes time stamps of the log, if a moment can decide.
    fn dated<'p>(&self, key: &PublicKey, purpose: &Purpose<'p>) -> Purpose<'p> {
        let mut entries = self.store.by_key(key);
        let places = self.places.as_ref();
        let Some(places) = places.filter(|_| entries.any(TrustedKey::is_bound_in_time)) else {
            return *purpose;
        };
        let stamped = purpose.heads.iter().filter_map(|head| places.stamped(head));
        Purpose {
            evidence: stamped.chain(purpose.evidence).min(),
            ..*purpose
        }
    }

    /// Is an entry of a log the earliest end of the key? Then the places of its seals in the log of
    /// this host decide.
    pub fn is_ended_in_log(&self, key: &PublicKey) -> bool {
        self.places.is_some() && self.store.ended_at(key).is_some()
    }

    /// The place of `heads` in the log, relative to the entry that ended the key.
    fn placed(&self, key: &PublicKey, heads: &[Head]) -> Placed {
        match (&self.places, self.store.ended_at(key)) {
            (Some(places), Some(end)) => Placed::of(&**places, key, end, heads),
            _ => Placed::Not,
        }
    }

    /// The keys to try for a signature that names only Rye's fingerprint.
    ///
    /// Several keys may share its 64 bits, so each must be tried.
    pub fn by_fingerprint(&self, fingerprint: RyeFingerprint) -> Vec<PublicKey> {
        let mut keys = self.store.by_fingerprint(fingerprint);
        keys.extend(self.pinned.keys().filter(|key| {
            key.rye_fingerprint() == fingerprint && self.store.by_key(key).next().is_none()
        }));
        keys
    }

    /// The key with this id, if the store holds it or it is pinned.
    pub fn by_key_id(&self, id: KeyId) -> Option<PublicKey> {
        let mut pinned = self.pinned.keys();
        pinned
            .find(|key| key.key_id() == id)
            .or_else(|| self.store.by_key_id(id))
    }

    /// The digest of the trust in reports: store, pins and place.
    pub fn digest(&self) -> Digest {
        Digest::tagged(
            "trust",
            &[
                self.store.digest().as_bytes(),
                &self.pinned.to_bytes(),
                &[u8::from(self.local)],
            ],
        )
    }
}

#[cfg(test)]
mod tests;
