//! Which keys may seal a native record (`spec/transcript.md` §5).
//!
//! ```text
//! manifest.key ──its seal has "next_key"────► next, the current key from that seal on
//! manifest.key ──seal covers "key" event────► next ──its first seal──► current …
//! authority ──"delegation" event────────────► delegates, beside the current key, until the end
//! authority ──if another key was the first──► seals too, names the next key, and
//!                                             alone seals after the end
//! authority ──"authority" event after end───► the key that replaced it and alone seals then
//! ```
//! Invariants: only the current key or the authority can admit a key. A key that was given up never
//! returns, whichever key names it.

use super::manifest::{self, Manifest};
use super::payloads::{Delegation, NextKey, Succession};
use threadseal_core::key::{KeyId, PublicKey};
use threadseal_core::limits::MAX_RECORD_KEYS;
use threadseal_core::note::KeyName;
use threadseal_core::tlog::entry::key_event::KeyChange;

/// Why an event about keys is refused whose payload is not the one spelling.
const MISSPELLED: &str = "the payload does not have the form of this event";

/// The keys that may seal from here on.
#[derive(Debug, Clone, Default)]
pub(crate) struct SealingKeys {
    current: Option<PublicKey>,
    /// The id of `current`, which nearly every seal needs.
    current_id: Option<KeyId>,
    /// Named by a `key` event that no seal of the current key covers yet.
    announced: Option<PublicKey>,
    /// Announced under a seal of the current key.
    next: Option<PublicKey>,
    delegates: Vec<PublicKey>,
    /// Present where it let another key make the first seals. Otherwise it is the first key, and
    /// ends as that key.
    authority: Option<PublicKey>,
    given_up: Vec<KeyId>,
    /// The keys that replaced the manifest's authority, the present one last.
    heirs: Vec<PublicKey>,
}

impl SealingKeys {
    /// Those that line 1 names.
    pub(crate) fn of(manifest: &Manifest) -> Self {
        Self {
            current: Some(manifest.key),
            current_id: Some(manifest.key.key_id()),
            authority: Some(manifest.authority).filter(|authority| *authority != manifest.key),
            ..Self::default()
        }
    }

    /// The key that seals next.
    pub(crate) fn current(&self) -> Option<&PublicKey> {
        self.current.as_ref()
    }

    /// The keys that replaced the manifest's authority, one after the other. The authority does not
    /// vouch for their seals.
    pub(crate) fn heirs(&self) -> &[PublicKey] {
        &self.heirs
    }

    /// The number of keys that the record has had.
    pub(crate) fn count(&self) -> usize {
        let named = [&self.current, &self.next, &self.announced, &self.authority];
        let named = named.into_iter().flatten().count();
        self.given_up.len() + self.delegates.len() + named
    }

    /// The number of keys of the record that may no longer seal.
    pub(crate) fn given_up(&self) -> usize {
        self.given_up.len()
    }

    /// Takes a `key` event: `{"next":HEX}`.
    pub(crate) fn announce(&mut self, payload: &[u8]) -> Result<(), String> {
        let key = NextKey::parse(payload).ok_or(MISSPELLED)?.0;
        self.check_successor(&key)?;
        self.announced = Some(key);
        Ok(())
    }

    /// Forgets a key that was announced but not sealed: a recovering writer must not repeat another
    /// writer's statements.
    pub(crate) fn forget_announced(&mut self) {
        self.announced = None;
    }

    /// Did the authority admit this key, beside the current one?
    pub(crate) fn is_delegate(&self, key: &PublicKey) -> bool {
        self.delegates.contains(key)
    }

    /// The number of keys that it admitted, beside the current one.
    pub(crate) fn delegates(&self) -> usize {
        self.delegates.len()
    }

    /// Takes a `delegation` event, `{"key":HEX,"signature":BASE64}`; returns the key.
    pub(crate) fn delegate(
        &mut self,
        payload: &[u8],
        manifest: &Manifest,
        origin: &KeyName,
    ) -> Result<PublicKey, String> {
        let Delegation { key, signature } = Delegation::parse(payload).ok_or(MISSPELLED)?;
        self.refuse_given_up(&key)?;
        let message = manifest::delegation_message(origin, &key);
        if manifest.authority.verify(&message, &signature).is_err() {
            return Err("the authority did not sign this delegation".into());
        }
        if self.delegates.len() >= MAX_RECORD_KEYS {
            return Err(format!("more than {MAX_RECORD_KEYS} delegations"));
        }
        if !self.delegates.contains(&key) {
            self.delegates.push(key);
        }
        Ok(key)
    }

    /// Takes an `authority` event, `{"next":HEX,"signature":BASE64}`. In it, the authority of an
    /// ended record stated in a log that this key replaces it.
    pub(crate) fn succeed(&mut self, payload: &[u8], manifest: &Manifest) -> Result<(), String> {
        let Succession { next, signature } = Succession::parse(payload).ok_or(MISSPELLED)?;
        let before = *self.heirs.last().unwrap_or(&manifest.authority);
        let message = KeyChange::Rotate(next).message(&before);
        if before.verify(&message, &signature).is_err() {
            return Err("the authority did not sign that this key replaces it".into());
        }
        self.check_successor(&next)?;
        if self.current != Some(before) {
            self.given_up.push(before.key_id());
        }
        self.replace_current(None);
        (self.next, self.announced) = (None, None);
        self.delegates.clear();
        self.authority = Some(next);
        self.heirs.push(next);
        Ok(())
    }

    /// The key with this id, if it may seal now.
    pub(crate) fn find(&self, id: &KeyId) -> Option<&PublicKey> {
        if self.current_id.as_ref() == Some(id) {
            return self.current.as_ref();
        }
        let others = self
            .next
            .iter()
            .chain(&self.delegates)
            .chain(&self.authority);
        others.into_iter().find(|key| key.key_id() == *id)
    }

    /// May a seal by `key` name `named` as the key from there on?
    pub(crate) fn check_named(&self, key: &PublicKey, named: &PublicKey) -> Result<(), String> {
        let is_own = [&self.current, &self.next].contains(&&Some(*key));
        if !is_own && (self.is_delegate(key) || self.authority != Some(*key)) {
            return Err("a delegate may not name the next key".to_owned());
        }
        if key == named {
            return Err("the seal names its own key as the next one".to_owned());
        }
        if !self.heirs.is_empty() {
            return Err("a key that replaced the authority names no next key".to_owned());
        }
        self.check_successor(named)
    }

    /// Notes a good seal by `key`, which named `named` as its successor.
    pub(crate) fn sealed(&mut self, key: &PublicKey, named: Option<&PublicKey>) {
        if self.next.as_ref() == Some(key) {
            let next = self.next.take();
            self.replace_current(next);
        }
        if let Some(named) = named {
            self.next = None;
            self.replace_current(Some(*named));
        } else if self.current.as_ref() == Some(key) {
            self.next = self.announced.take().or(self.next.take());
        }
    }

    /// Notes a good final seal. Where the authority let another key make the first seals, only the
    /// authority seals after the end. So a copy of the last key, or of a delegate's, is of no use
    /// to an attacker.
    pub(crate) fn ended(&mut self) {
        self.delegates.clear();
        if self.authority.is_some() {
            (self.next, self.announced) = (None, None);
            self.replace_current(None);
        }
    }

    fn replace_current(&mut self, key: Option<PublicKey>) {
        let old = self.current_id.take();
        self.given_up.extend(old);
        self.delegates
            .retain(|delegate| Some(delegate.key_id()) != old);
        self.announced = None;
        self.current = key;
        self.current_id = self.current.map(|key| key.key_id());
    }

    /// The next key must differ from the current one and from the authority, whose permission never
    /// ends.
    fn check_successor(&self, key: &PublicKey) -> Result<(), String> {
        if [&self.current, &self.authority].contains(&&Some(*key)) {
            return Err(format!("key {} already seals this record", key.key_id()));
        }
        self.refuse_given_up(key)
    }

    fn refuse_given_up(&self, key: &PublicKey) -> Result<(), String> {
        let id = key.key_id();
        match self.given_up.contains(&id) {
            true => Err(format!("key {id} was replaced and may not seal again")),
            false => Ok(()),
        }
    }
}
