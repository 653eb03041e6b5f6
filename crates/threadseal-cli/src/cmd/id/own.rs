//! The identity of this home, made from its keys, its trust store and its log.

use crate::context::Context;
use crate::exit::Failure;
use crate::key_log;
use crate::keyring::{Keyring, OwnKey};
use crate::passphrase::PassphraseArgs;
use crate::recovery;
use crate::rotation::kept_name_of;
use crate::trust_file;
use std::collections::{BTreeMap, BTreeSet};
use threadseal_core::identity::{Content, Ended, Identity, IdentityId, IdentityKey, Link, LinkBy};
use threadseal_core::key::{KeyUsage, LocalSigner, PublicKey, Signer as _};
use threadseal_core::time::Timestamp;
use threadseal_core::tlog::entry::key_event::{KeyChange, KeyEvent, KeyHistory};
use threadseal_core::trust::{Revocation, TrustName, TrustStore};
use threadseal_store::home::Home;
use threadseal_store::lock::Exclusive;
use threadseal_verify::home_key_ends::End;
use threadseal_verify::home_keys::NEXT;
use threadseal_verify::identities::Identities;

/// Longest reason of an end that an identity repeats.
const MAX_REASON_CHARS: usize = 200;
const MICROS: u64 = 1_000_000;

/// One process at a time writes the identity of the home.
pub(super) struct Maker<'a> {
    home: Home,
    identities: Identities,
    passphrase: &'a PassphraseArgs,
    context: &'a Context,
    _alone: Exclusive,
}

impl<'a> Maker<'a> {
    /// Begins a change.
    ///
    /// # Errors
    /// When there is no home, or it cannot be opened to write.
    pub(super) fn begin(
        passphrase: &'a PassphraseArgs,
        context: &'a Context,
    ) -> Result<Self, Failure> {
        let home = context.existing_home()?;
        // Names and trust store follow the log first.
        context.host()?;
        let lock = home.path().join("identity.lock");
        let alone = Exclusive::enter(&*context.fs, &lock)?;
        Ok(Self {
            identities: Identities::of(&home, &context.fs),
            home,
            passphrase,
            context,
            _alone: alone,
        })
    }

    /// The newest file of the home's identity.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn known(&self) -> Result<Option<Identity>, Failure> {
        Ok(self.identities.own()?)
    }

    /// The native key that signs.
    ///
    /// # Errors
    /// When it is not here, ended, or cannot be opened.
    pub(super) fn signer(&self) -> Result<LocalSigner, Failure> {
        let keyring = Keyring::of(&self.home);
        keyring.signer(None, KeyUsage::Native, self.passphrase, self.context)
    }

    /// The file with the keys of now, and whether it differs from the known one; the known one is
    /// kept where nothing changed.
    ///
    /// # Errors
    /// When a key cannot be opened, or the chain of native keys has a gap.
    pub(super) fn update(&self, name: Option<TrustName>) -> Result<(Identity, bool), Failure> {
        let signer = self.signer()?;
        let public = *signer.public_key();
        let known = self.known()?;
        let (recovery, links) = match &known {
            Some(known) => (known.content().recovery, self.links(known, &public)?),
            None => {
                if let Some(made) = recovery::ensure(&self.home, self.passphrase, self.context)? {
                    recovery::tell(&made, self.context);
                }
                (recovery::public(&self.home, self.context)?, Vec::new())
            }
        };
        let name = name.or_else(|| known.as_ref().map(|known| known.content().name.clone()));
        let name = name.ok_or_else(|| {
            Failure::new(
                "your identity needs a name; hint: threadseal id export --name NAME -o NAME.id",
            )
        })?;
        self.write(
            known.as_ref(),
            &signer,
            Draft {
                name,
                recovery,
                links,
            },
            None,
        )
    }

    /// Writes the next file, unless it would state the same. `lost` is a key that the recovery key
    /// replaced, with its end; keys that this home does not have end with it.
    ///
    /// # Errors
    /// When a key cannot be opened, or the file not be written.
    pub(super) fn write(
        &self,
        known: Option<&Identity>,
        signer: &LocalSigner,
        draft: Draft,
        lost: Option<&(PublicKey, Ended)>,
    ) -> Result<(Identity, bool), Failure> {
        let first = draft
            .links
            .first()
            .map_or(signer.public_key(), |link| &link.from);
        let id = IdentityId::of(first, draft.recovery.as_ref());
        let now = self.context.now()?;
        let keys = self.keys(known, &id, &draft.links, lost, now)?;
        let seq = known.map_or(0, |known| known.content().seq) + 1;
        let content = Content {
            name: draft.name,
            seq: seq.max(now.as_micros() / MICROS),
            issued: now,
            recovery: draft.recovery,
            links: draft.links,
            keys,
            signer: *signer.public_key(),
        };
        let made = Identity::sign(content, signer)?;
        if let Some(known) = known.filter(|known| is_same(known, &made)) {
            return Ok((known.clone(), false));
        }
        self.identities.write_own(&made)?;
        Ok((made, true))
    }

    /// The links of the known file, continued to the present native key.
    fn links(&self, known: &Identity, present: &PublicKey) -> Result<Vec<Link>, Failure> {
        let content = known.content();
        let mut links = content.links.clone();
        if content.signer == *present {
            return Ok(links);
        }
        let events = match key_log::log(self.context)? {
            Some(log) => log.key_events()?,
            None => Vec::new(),
        };
        let history = KeyHistory::of(&events);
        let of_log = history.succession(&content.signer, present);
        let signed = match of_log {
            Some(events) => events.into_iter().cloned().collect(),
            None => self.sign_rotation(&content.signer, present)?,
        };
        links.extend(signed.iter().filter_map(link));
        Ok(links)
    }

    /// Of a home without a log: the old key is still here, and signs its end now.
    fn sign_rotation(
        &self,
        old: &PublicKey,
        present: &PublicKey,
    ) -> Result<Vec<KeyEvent>, Failure> {
        let keyring = Keyring::of(&self.home);
        let keys = keyring.list()?;
        let holder = keys.iter().find(|key| key.public == *present);
        let kept = holder.map(|holder| kept_name_of(&holder.name, &old.key_id().to_hex()));
        let is_old = |key: &&OwnKey| key.public == *old && key.has_private;
        // Only `key rotate` gives this name; a key that was revoked may be a thief's as well.
        let rotated = keys.iter().find(is_old);
        let Some(old) = rotated.filter(|key| Some(&key.name) == kept.as_ref()) else {
            return Err(Failure::new(
                "the native key of your identity was replaced without its signature; hint: threadseal id recover RECOVERY-KEY-FILE",
            ));
        };
        let signer = LocalSigner::new(keyring.open(old, self.passphrase)?, KeyUsage::Native);
        Ok(vec![KeyEvent::sign(KeyChange::Rotate(*present), &signer)?])
    }

    /// Those of the known file, and each key of the home that it trusts.
    fn keys(
        &self,
        known: Option<&Identity>,
        id: &IdentityId,
        links: &[Link],
        lost: Option<&(PublicKey, Ended)>,
        now: Timestamp,
    ) -> Result<Vec<IdentityKey>, Failure> {
        let store = trust_file::of_home(&self.home)?;
        let listed = known.map_or(&[][..], |known| &known.content().keys);
        let mut keys: BTreeMap<PublicKey, IdentityKey> =
            listed.iter().map(|key| (key.key, key.clone())).collect();
        let mut here = BTreeSet::new();
        for own in Keyring::of(&self.home).list()? {
            if own.has_private {
                here.insert(own.public);
            }
            let is_linked = links.iter().any(|link| link.from == own.public);
            let listed = keys.get(&own.public);
            if let Some(key) = self.key(&own, listed, id, is_linked, &store)? {
                keys.insert(key.key, key);
            }
        }
        for key in keys.values_mut() {
            let end = self.end_of(&key.key, &store, now)?;
            let is_lost = |lost: &PublicKey| *lost == key.key || !here.contains(&key.key);
            let lost = lost.filter(|(lost, _)| is_lost(lost));
            let lost = lost.map(|(_, end)| end.revocation());
            let known = key.ended.take().map(|known| known.revocation());
            let ends = [lost, end, known].into_iter().flatten();
            key.ended = ends.reduce(Revocation::joined).map(Ended::of);
        }
        Ok(keys.into_values().collect())
    }

    /// The entry of a key of the home; None where it is not to be listed.
    fn key(
        &self,
        own: &OwnKey,
        known: Option<&IdentityKey>,
        id: &IdentityId,
        is_linked: bool,
        store: &TrustStore,
    ) -> Result<Option<IdentityKey>, Failure> {
        let for_usage =
            |entry: &&threadseal_core::trust::TrustedKey| entry.usage.contains(&own.usage);
        let entry = store.by_key(&own.public).find(for_usage);
        // Policies name the keys of logs and witnesses, so no entry trusts them.
        let needs_entry = !matches!(own.usage, KeyUsage::Log | KeyUsage::Witness);
        let is_waiting = own.name.ends_with(NEXT);
        if is_waiting || !own.has_private || (needs_entry && entry.is_none()) {
            return Ok(None);
        }
        let proof = match (id.proof_message(&own.public, own.usage), known) {
            (None, _) => None,
            (Some(_), Some(known)) if known.proof.is_some() => known.proof,
            // A key that ended signs nothing more, but the chain of native keys needs each of its own.
            (Some(_), _) if !is_linked && self.is_over(&own.public)? => return Ok(None),
            (Some(message), _) => {
                let key = Keyring::of(&self.home).open(own, self.passphrase)?;
                Some(LocalSigner::new(key, own.usage).sign(&message)?)
            }
        };
        Ok(Some(IdentityKey {
            key: own.public,
            usage: own.usage,
            from: entry.and_then(|entry| entry.not_before),
            until: entry.and_then(|entry| entry.not_after),
            ended: known.and_then(|known| known.ended.clone()),
            proof,
        }))
    }

    fn is_over(&self, key: &PublicKey) -> Result<bool, Failure> {
        Ok(self.context.key_ends(&self.home)?.is_over(key)?)
    }

    fn end_of(
        &self,
        key: &PublicKey,
        store: &TrustStore,
        now: Timestamp,
    ) -> Result<Option<Revocation>, Failure> {
        if let Some(mut end) = store.end_of(key) {
            end.reason = end.reason.chars().take(MAX_REASON_CHARS).collect();
            return Ok(Some(end));
        }
        let end = self.context.key_ends(&self.home)?.end_of(key)?;
        Ok(end.map(|end| Revocation {
            at: now,
            reason: match end {
                End::Logged(_, change) => change.as_str().to_owned(),
                End::Revoked(end) => end.reason,
            },
            entry: None,
            next: None,
        }))
    }
}

/// What the maker of a file decides beside the keys.
pub(super) struct Draft {
    pub(super) name: TrustName,
    pub(super) recovery: Option<PublicKey>,
    pub(super) links: Vec<Link>,
}

fn link(event: &KeyEvent) -> Option<Link> {
    let KeyChange::Rotate(to) = *event.change() else {
        return None;
    };
    Some(Link {
        from: *event.public(),
        to,
        by: LinkBy::Key,
        signature: *event.signature(),
    })
}

/// Do they state the same, whenever they were made?
fn is_same(known: &Identity, made: &Identity) -> bool {
    let made = Content {
        seq: known.content().seq,
        issued: known.content().issued,
        ..made.content().clone()
    };
    *known.content() == made
}
