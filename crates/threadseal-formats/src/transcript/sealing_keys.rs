//! Which keys may seal a native record (`spec/transcript.md` §5).
//!
//! ```text
//! manifest.key ──its seal says "next_key"───► next, the current key from that seal on
//! manifest.key ──seal covers "key" event────► next ──its first seal──► current …
//! authority ──"delegation" event────────────► delegates, beside the current key, until the end
//! authority ──where another key was the first: seals by itself, names the next key, and alone seals behind the end
//! authority ──"authority" event behind the end──► the key that took its place, which alone seals from there on
//! ```
//! Invariants: no key enters but by the word of the current key or of the authority; a key that was given up never
//! comes back, whoever names it.

use super::manifest::{self, Manifest};
use threadseal_core::canon::json::{self, Value};
use threadseal_core::key::{KeyId, PublicKey, Signature};
use threadseal_core::limits::MAX_RECORD_KEYS;
use threadseal_core::note::KeyName;
use threadseal_core::tlog::entry::key_event::KeyChange;

/// The keys that may seal from here on.
#[derive(Debug, Clone, Default)]
pub(crate) struct SealingKeys {
    current: Option<PublicKey>,
    /// The id of `current`, which nearly every seal asks for.
    current_id: Option<KeyId>,
    /// Named by a `key` event that no seal of the current key covers yet.
    announced: Option<PublicKey>,
    /// Announced under a seal of the current key.
    next: Option<PublicKey>,
    delegates: Vec<PublicKey>,
    /// Where it let another key make the first seals. Else it is the first key, and leaves as that.
    authority: Option<PublicKey>,
    given_up: Vec<KeyId>,
    /// The key that took the place of the manifest's authority.
    heir: Option<PublicKey>,
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

    /// The key that is to seal next.
    pub(crate) fn current(&self) -> Option<&PublicKey> {
        self.current.as_ref()
    }

    /// The key that took the place of the manifest's authority, if one did.
    pub(crate) fn heir(&self) -> Option<&PublicKey> {
        self.heir.as_ref()
    }

    /// How many keys the record has had.
    pub(crate) fn count(&self) -> usize {
        let named = [&self.current, &self.next, &self.announced, &self.authority];
        let named = named.into_iter().flatten().count();
        self.given_up.len() + self.delegates.len() + named
    }

    /// How many keys the record has had that may not seal any more.
    pub(crate) fn given_up(&self) -> usize {
        self.given_up.len()
    }

    /// Takes a `key` event: `{"next":HEX}`.
    pub(crate) fn announce(&mut self, payload: &[u8]) -> Result<(), String> {
        let key = Self::named_by(payload)?;
        self.check_successor(&key)?;
        self.announced = Some(key);
        Ok(())
    }

    /// The key that a `key` event names.
    pub(crate) fn named_by(payload: &[u8]) -> Result<PublicKey, String> {
        member_key(&parse(payload)?, "next")
    }

    /// Forgets a key that was announced but not sealed: a recovering writer speaks for nobody.
    pub(crate) fn forget_announced(&mut self) {
        self.announced = None;
    }

    /// Did the authority let this key in, beside the current one?
    pub(crate) fn is_delegate(&self, key: &PublicKey) -> bool {
        self.delegates.contains(key)
    }

    /// How many keys it let in, beside the current one.
    pub(crate) fn delegates(&self) -> usize {
        self.delegates.len()
    }

    /// Takes a `delegation` event, `{"key":HEX,"signature":BASE64}`; answers with the key.
    pub(crate) fn delegate(
        &mut self,
        payload: &[u8],
        manifest: &Manifest,
        origin: &KeyName,
    ) -> Result<PublicKey, String> {
        let (key, signature) = Self::delegated_by(payload)?;
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

    /// The key that a `delegation` event lets in, and the signature that must be the authority's.
    pub(crate) fn delegated_by(payload: &[u8]) -> Result<(PublicKey, Signature), String> {
        signed_key(&parse(payload)?, "key")
    }

    /// Takes an `authority` event, `{"next":HEX,"signature":BASE64}`: the authority of a record that has ended said in a log that this
    /// key takes its place.
    pub(crate) fn succeed(&mut self, payload: &[u8], manifest: &Manifest) -> Result<(), String> {
        let (next, signature) = Self::succeeded_by(payload)?;
        let before = self.heir.unwrap_or(manifest.authority);
        let message = KeyChange::Rotate(next).message(&before);
        if before.verify(&message, &signature).is_err() {
            return Err("the authority did not sign that this key takes its place".into());
        }
        self.check_successor(&next)?;
        if self.current != Some(before) {
            self.given_up.push(before.key_id());
        }
        self.replace_current(None);
        (self.next, self.announced) = (None, None);
        self.delegates.clear();
        (self.authority, self.heir) = (Some(next), Some(next));
        Ok(())
    }

    /// The key that an `authority` event names, and the signature that must be the authority's.
    pub(crate) fn succeeded_by(payload: &[u8]) -> Result<(PublicKey, Signature), String> {
        signed_key(&parse(payload)?, "next")
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
        let may_name = [&self.current, &self.next, &self.authority];
        if !may_name.into_iter().flatten().any(|one| one == key) {
            return Err("a delegate names no next key".to_owned());
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

    /// Notes a good final seal: what may follow the end is the authority's to seal, where it let another key make the first
    /// seals. So a copy of the last key is of no use to anybody, nor is that of a delegate.
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

    /// The next key is another than the current one, and has a life of its own: the authority's word never ends.
    fn check_successor(&self, key: &PublicKey) -> Result<(), String> {
        if [&self.current, &self.authority].contains(&&Some(*key)) {
            return Err(format!("key {} seals already", key.key_id()));
        }
        self.refuse_given_up(key)
    }

    fn refuse_given_up(&self, key: &PublicKey) -> Result<(), String> {
        let id = key.key_id();
        match self.given_up.contains(&id) {
            true => Err(format!("key {id} was given up and may not seal again")),
            false => Ok(()),
        }
    }
}

fn parse(payload: &[u8]) -> Result<Value, String> {
    json::parse(payload).map_err(|e| e.to_string())
}

fn signed_key(value: &Value, name: &str) -> Result<(PublicKey, Signature), String> {
    let key = member_key(value, name)?;
    let signature = value.get("signature").and_then(Value::as_str);
    let signature = signature.and_then(manifest::parse_signature);
    let signature = signature.ok_or("\"signature\" is not 64 bytes of base64")?;
    Ok((key, signature))
}

fn member_key(value: &Value, name: &str) -> Result<PublicKey, String> {
    let text = value.get(name).and_then(Value::as_str);
    let key = text.and_then(|text| PublicKey::from_hex(text).ok());
    key.ok_or_else(|| format!("{name:?} is not a public key in hex"))
}
