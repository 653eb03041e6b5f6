//! Which keys may seal a native record (`spec/transcript.md` §5).
//!
//! ```text
//! manifest.key ──seal covers "key" event──► next ──its first seal──► current …
//! authority ──"delegation" event────────────────► delegates, beside the current key
//! ```
//! Invariant: no key enters but by the word of a key that was in before, or of the authority.

use super::manifest::{self, Manifest};
use crate::canon::json::{self, Value};
use crate::key::{KeyId, PublicKey, Signature};
use crate::limits::MAX_RECORD_KEYS;

/// The keys that may seal from here on.
#[derive(Debug, Clone, Default)]
pub(crate) struct SealingKeys {
    current: Option<PublicKey>,
    /// The id of `current`, which nearly every seal asks for.
    current_id: Option<KeyId>,
    /// Named by a `key` event that no seal of the current key covers yet.
    announced: Option<PublicKey>,
    /// Named under a seal of the current key.
    next: Option<PublicKey>,
    delegates: Vec<PublicKey>,
}

impl SealingKeys {
    /// The manifest's signing key alone.
    pub(crate) fn first(key: PublicKey) -> Self {
        Self {
            current: Some(key),
            current_id: Some(key.key_id()),
            ..Self::default()
        }
    }

    /// Takes a `key` event: `{"next":HEX}`.
    pub(crate) fn announce(&mut self, payload: &[u8]) -> Result<(), String> {
        self.announced = Some(Self::named_by(payload)?);
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

    /// Takes a `delegation` event: `{"key":HEX,"signature":BASE64}`.
    pub(crate) fn delegate(&mut self, payload: &[u8], manifest: &Manifest) -> Result<(), String> {
        let (key, signature) = Self::delegated_by(payload)?;
        let message = manifest::delegation_message(&manifest.record, &key);
        if manifest.authority.verify(&message, &signature).is_err() {
            return Err("the authority did not sign this delegation".into());
        }
        if self.delegates.len() >= MAX_RECORD_KEYS {
            return Err(format!("more than {MAX_RECORD_KEYS} delegations"));
        }
        if !self.delegates.contains(&key) {
            self.delegates.push(key);
        }
        Ok(())
    }

    /// The key that a `delegation` event lets in, and the signature that must be the authority's.
    pub(crate) fn delegated_by(payload: &[u8]) -> Result<(PublicKey, Signature), String> {
        let value = parse(payload)?;
        let key = member_key(&value, "key")?;
        let signature = value.get("signature").and_then(Value::as_str);
        let signature = signature.and_then(manifest::parse_signature);
        let signature = signature.ok_or("\"signature\" is not 64 bytes of base64")?;
        Ok((key, signature))
    }

    /// The key with this id, if it may seal now.
    pub(crate) fn find(&self, id: &KeyId) -> Option<&PublicKey> {
        if self.current_id.as_ref() == Some(id) {
            return self.current.as_ref();
        }
        let others = self.next.iter().chain(&self.delegates);
        others.into_iter().find(|key| key.key_id() == *id)
    }

    /// Notes a good seal by `key`, which named `named` as its successor.
    pub(crate) fn sealed(&mut self, key: &PublicKey, named: Option<&PublicKey>) {
        if self.next.as_ref() == Some(key) {
            self.current = self.next.take();
            self.current_id = self.current.map(|key| key.key_id());
            self.announced = None;
        }
        if self.current.as_ref() == Some(key) {
            let announced = self.announced.take();
            self.next = named.cloned().or(announced).or(self.next.take());
        }
    }
}

fn parse(payload: &[u8]) -> Result<Value, String> {
    json::parse(payload).map_err(|e| e.to_string())
}

fn member_key(value: &Value, name: &str) -> Result<PublicKey, String> {
    let text = value.get(name).and_then(Value::as_str);
    let key = text.and_then(|text| PublicKey::from_hex(text).ok());
    key.ok_or_else(|| format!("{name:?} is not a public key in hex"))
}
