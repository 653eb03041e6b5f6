//! Actors: a fingerprint of an actor's description.
//!
//! ```text
//! {"kind","display_name","metadata":{…}}  ─► canon::python::ledger ─► SHA-256
//! actor_id  "ar_" and the first 24 hex digits of it
//! ```
//! Any writer can compute or copy an actor id, so the id alone proves nothing. An actor with a key
//! in its metadata names the possible signer. Only a signature under that key proves that it did.

use super::members::{object, text_or_null};
use threadseal_core::canon::Unrepresentable;
use threadseal_core::canon::json::{Text, Value};
use threadseal_core::canon::python;
use threadseal_core::digest::Digest;
use threadseal_core::key::PublicKey;

/// The member of `metadata` that holds the actor's key as did:key.
const PUBLIC_KEY: &str = "public_key";
/// Hex digits of the digest that an actor id keeps.
const ID_DIGITS: usize = 24;

/// The description of an actor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActorFingerprint {
    kind: String,
    display_name: Option<String>,
    metadata: Vec<(Text, Value)>,
    actor_id: String,
}

impl ActorFingerprint {
    /// The fingerprint of an actor. `kind` is `agent`, `human`, `service` or anything else.
    ///
    /// # Errors
    /// [`Unrepresentable`] when `metadata` holds a lone surrogate.
    pub fn new(
        kind: impl Into<String>,
        display_name: Option<String>,
        metadata: Vec<(Text, Value)>,
    ) -> Result<Self, Unrepresentable> {
        let kind = kind.into();
        let value = object([
            ("kind", kind.as_str().into()),
            ("display_name", text_or_null(display_name.as_deref())),
            ("metadata", Value::Object(metadata.clone())),
        ]);
        let mut digits = Digest::of(&python::ledger(&value)?).to_hex();
        digits.truncate(ID_DIGITS);
        Ok(Self {
            kind,
            display_name,
            metadata,
            actor_id: format!("ar_{digits}"),
        })
    }

    /// The fingerprint of an actor that is described by its key.
    ///
    /// # Errors
    /// As [`ActorFingerprint::new`]; `metadata` that names another key keeps only this one.
    pub fn for_key(
        kind: impl Into<String>,
        display_name: Option<String>,
        mut metadata: Vec<(Text, Value)>,
        key: &PublicKey,
    ) -> Result<Self, Unrepresentable> {
        metadata.retain(|(name, _)| name != PUBLIC_KEY);
        metadata.push((PUBLIC_KEY.into(), key.to_did_key().into()));
        Self::new(kind, display_name, metadata)
    }

    /// `ar_` and 24 hex digits.
    pub fn actor_id(&self) -> &str {
        &self.actor_id
    }

    /// `agent`, `human`, `service` or anything else.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The name for people.
    pub fn display_name(&self) -> Option<&str> {
        self.display_name.as_deref()
    }

    /// The rest of the description.
    pub fn metadata(&self) -> &[(Text, Value)] {
        &self.metadata
    }

    /// The actor's key, if the description has a valid one.
    pub fn public_key(&self) -> Option<PublicKey> {
        let (_, value) = self.metadata.iter().find(|(name, _)| name == PUBLIC_KEY)?;
        PublicKey::from_did_key(value.as_str()?).ok()
    }

    /// As `AbstractRuntime` stores it: `{"actor_id","kind","display_name","metadata"}`.
    pub fn to_value(&self) -> Value {
        object([
            ("actor_id", self.actor_id.as_str().into()),
            ("kind", self.kind.as_str().into()),
            ("display_name", text_or_null(self.display_name.as_deref())),
            ("metadata", Value::Object(self.metadata.clone())),
        ])
    }
}
