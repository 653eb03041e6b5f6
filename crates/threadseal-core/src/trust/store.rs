//! The entries of a trust store, found by each of their names, and their judgement of a key.
//!
//! Invariants: a name occurs once. No two entries trust the same key for the same usage. Every
//! entry has passed its own check and counts times in whole seconds. So the written file reads back
//! as the same store.

use super::places::Placed;
use super::{EndDoubt, Judgement, Purpose, Revocation, Standing, TrustName, TrustedKey, file};
use crate::digest::Digest;
use crate::error::{Error, ErrorKind};
use crate::key::{KeyId, PublicKey, RyeFingerprint};
use crate::limits::MAX_TRUSTED_KEYS;
use crate::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// Trusted keys, in the order of their names.
#[derive(Debug, Clone, Default)]
pub struct TrustStore {
    entries: BTreeMap<TrustName, TrustedKey>,
    names: BTreeMap<PublicKey, BTreeSet<TrustName>>,
    fingerprints: BTreeMap<RyeFingerprint, BTreeSet<PublicKey>>,
    ids: BTreeMap<KeyId, PublicKey>,
    /// The digest of the entries. Every report needs it, so it is computed once.
    digest: OnceLock<Digest>,
}

impl PartialEq for TrustStore {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

impl Eq for TrustStore {}

impl TrustStore {
    /// An empty store, which trusts no key.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the store's file (`spec/keys-and-trust.md`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] with the line of the first fault; [`ErrorKind::Limit`] beyond
    /// the named bounds.
    pub fn parse(toml: &str) -> Result<Self, Error> {
        file::parse(toml)
    }

    /// The store's file: each store has one text.
    pub fn to_toml(&self) -> String {
        file::write(self.iter())
    }

    /// Tagged digest of [`TrustStore::to_toml`].
    pub fn digest(&self) -> Digest {
        *self
            .digest
            .get_or_init(|| Digest::tagged("trust-store", &[self.to_toml().as_bytes()]))
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when the name is taken, another entry trusts the same key for
    /// the same usage, or the entry contradicts itself. [`ErrorKind::Limit`] beyond
    /// [`MAX_TRUSTED_KEYS`].
    pub fn add(&mut self, mut entry: TrustedKey) -> Result<(), Error> {
        entry.check()?;
        entry.drop_fractions();
        if self.entries.len() >= MAX_TRUSTED_KEYS {
            return Err(Error::new(
                ErrorKind::Limit,
                format!("a trust store has at most {MAX_TRUSTED_KEYS} keys"),
            ));
        }
        if self.entries.contains_key(&entry.name) {
            return Err(Error::invalid(format!(
                "the name {} is already in use",
                entry.name
            )));
        }
        let twin = |other: &&TrustedKey| !other.usage.is_disjoint(&entry.usage);
        if let Some(other) = self.by_key(&entry.key).find(twin) {
            return Err(Error::invalid(format!(
                "{} already trusts this key for the same usage",
                other.name
            )));
        }
        let key = entry.key;
        self.digest.take();
        self.names
            .entry(key)
            .or_default()
            .insert(entry.name.clone());
        self.fingerprints
            .entry(key.rye_fingerprint())
            .or_default()
            .insert(key);
        self.ids.insert(key.key_id(), key);
        self.entries.insert(entry.name.clone(), entry);
        Ok(())
    }

    /// Removes an entry.
    pub fn remove(&mut self, name: &TrustName) -> Option<TrustedKey> {
        let entry = self.entries.remove(name)?;
        self.digest.take();
        let key = entry.key;
        let last = self.names.get_mut(&key).is_none_or(|names| {
            names.remove(name);
            names.is_empty()
        });
        if last {
            self.names.remove(&key);
            self.ids.remove(&key.key_id());
            let fingerprint = key.rye_fingerprint();
            if let Some(keys) = self.fingerprints.get_mut(&fingerprint) {
                keys.remove(&key);
                if keys.is_empty() {
                    self.fingerprints.remove(&fingerprint);
                }
            }
        }
        Some(entry)
    }

    /// Revokes an entry's key. An earlier revocation remains in force, and so does a theft.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when there is no such entry, or the reason is not one line.
    pub fn revoke(&mut self, name: &TrustName, revocation: Revocation) -> Result<(), Error> {
        let Some(mut entry) = self.remove(name) else {
            return Err(Error::invalid(format!("no key is trusted as {name}")));
        };
        let before = entry.clone();
        entry.revoked = Some(match entry.revoked.take() {
            Some(known) => known.joined(revocation),
            None => revocation,
        });
        self.add(entry).or_else(|error| {
            self.add(before)?;
            Err(error)
        })
    }

    /// The end of a key over all of its entries.
    pub fn end_of(&self, key: &PublicKey) -> Option<Revocation> {
        let ends = self.by_key(key).filter_map(|entry| entry.revoked.clone());
        ends.reduce(Revocation::joined)
    }

    /// All entries, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &TrustedKey> {
        self.entries.values()
    }

    /// The log entry at which a revoked key ended; `None` if its earliest revocation names no
    /// entry.
    pub fn ended_at(&self, key: &PublicKey) -> Option<u64> {
        let revoked = self.by_key(key).filter_map(|entry| entry.revoked.as_ref());
        revoked.min_by_key(|revoked| revoked.at)?.entry
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entry of this name.
    pub fn by_name(&self, name: &TrustName) -> Option<&TrustedKey> {
        self.entries.get(name)
    }

    /// The entries of this key: one for each set of usages.
    pub fn by_key(&self, key: &PublicKey) -> impl Iterator<Item = &TrustedKey> {
        let names = self.names.get(key).into_iter().flatten();
        names.filter_map(|name| self.entries.get(name))
    }

    /// The key with this id.
    pub fn by_key_id(&self, id: KeyId) -> Option<PublicKey> {
        self.ids.get(&id).copied()
    }

    /// All keys with this fingerprint: it has 64 bits, so there may be several.
    pub fn by_fingerprint(&self, fingerprint: RyeFingerprint) -> Vec<PublicKey> {
        let keys = self.fingerprints.get(&fingerprint);
        keys.into_iter().flatten().copied().collect()
    }

    /// Judges `key` by the entries of the store. See the heading of [`crate::trust`].
    pub fn judge(&self, key: &PublicKey, purpose: &Purpose<'_>, now: Timestamp) -> Judgement<'_> {
        self.judge_as(key, purpose, now, Placed::Not)
    }

    /// As [`TrustStore::judge`], for a seal with this place in the log.
    pub(super) fn judge_as(
        &self,
        key: &PublicKey,
        purpose: &Purpose<'_>,
        now: Timestamp,
        placed: Placed,
    ) -> Judgement<'_> {
        let Some(first) = self.by_key(key).next() else {
            return Judgement {
                standing: Standing::Unknown,
                name: None,
            };
        };
        let entry = self
            .by_key(key)
            .find(|entry| entry.usage.contains(&purpose.usage));
        let standing =
            revocation(self.by_key(key), purpose, placed).unwrap_or_else(|| match entry {
                None => Standing::OutOfScope {
                    why: format!("the key is not trusted for `{}` signatures", purpose.usage),
                },
                Some(entry) => entry.standing(purpose, now),
            });
        Judgement {
            standing,
            name: Some(&entry.unwrap_or(first).name),
        }
    }
}

impl TrustedKey {
    /// Whether a moment decides if the key counts: it has a window, or a revocation without a log
    /// entry.
    pub fn is_bound_in_time(&self) -> bool {
        let by_clock = |revoked: &Revocation| revoked.entry.is_none();
        self.not_before.is_some()
            || self.not_after.is_some()
            || self.revoked.as_ref().is_some_and(by_clock)
    }

    fn standing(&self, purpose: &Purpose<'_>, now: Timestamp) -> Standing {
        if let Some(why) = self.scope.excludes(purpose.format, purpose.thread) {
            return Standing::OutOfScope { why };
        }
        let (moment, said) = match purpose.evidence {
            Some(evidence) => (evidence, "when the seal was first held here, or stamped"),
            None => (now, "now"),
        };
        if let Some(from) = self.not_before.filter(|from| moment < *from) {
            let why = format!("trusted from {} on, not {said}", from.to_iso_seconds());
            return Standing::Expired { why };
        }
        if let Some(to) = self.not_after.filter(|to| moment > *to) {
            let why = format!("trusted until {}, not {said}", to.to_iso_seconds());
            return Standing::Expired { why };
        }
        Standing::Trusted
    }
}

/// The earliest revocation among the entries of a key, unless the seal is known to be older.
///
/// If the key ended in the log, only places in the log can show that. Otherwise a moment can. A
/// thief of the key may have set the clock by which this host recorded moments.
pub(super) fn revocation<'a>(
    entries: impl Iterator<Item = &'a TrustedKey>,
    purpose: &Purpose<'_>,
    placed: Placed,
) -> Option<Standing> {
    let revoked: Vec<_> = entries.filter_map(|entry| entry.revoked.as_ref()).collect();
    let earliest = revoked.iter().map(|revoked| revoked.at).min()?;
    let is_older = |revoked: &Revocation| match revoked.entry {
        Some(_) => placed == Placed::Before,
        None => purpose.evidence.is_some_and(|held| held < revoked.at),
    };
    // Of several that are as early, evidence must be earlier than each.
    let first = revoked.iter().filter(|revoked| revoked.at == earliest);
    let left: Vec<_> = first.filter(|revoked| !is_older(revoked)).collect();
    let decisive = left.first()?;
    let is_logged = left.iter().all(|revoked| revoked.entry.is_some());
    Some(Standing::Revoked {
        at: decisive.at,
        reason: decisive.reason.clone(),
        doubt: match is_logged && placed == Placed::InDoubt {
            true => Some(EndDoubt::LogWentBack),
            false => rotated_to(&revoked).map(|next| EndDoubt::Rotated {
                next: next.key_id(),
            }),
        },
    })
}

/// The key that took the place of this one, unless one of its ends is no rotation, or the log of
/// this host orders end and seals.
fn rotated_to(revoked: &[&Revocation]) -> Option<PublicKey> {
    let by_owner = |revoked: &&Revocation| revoked.next.is_some() && revoked.entry.is_none();
    let first = revoked.iter().min_by_key(|revoked| revoked.at)?;
    first.next.filter(|_| revoked.iter().all(by_owner))
}
