//! [`Pin`]: the one key that the caller accepts, given as key or as id (`spec/keys-and-trust.md`
//! §8).
//!
//! Both are 32 bytes, and people copy either of them. Accepting both readings loses nothing. No one
//! can make a key whose bytes are another's id, or whose id is another's bytes.

use crate::key::PublicKey;

/// A key, or the id of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pin {
    bytes: [u8; 32],
    /// The key of these bytes; about half of all ids are not the bytes of a key.
    key: Option<PublicKey>,
}

impl Pin {
    /// Takes 32 bytes for a key, or for the id of one.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        let key = PublicKey::from_bytes(&bytes).ok();
        Self { bytes, key }
    }

    /// The key; `None` where these bytes can only be an id.
    pub fn key(&self) -> Option<&PublicKey> {
        self.key.as_ref()
    }

    /// The bytes of the key, or of its id.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether this key is the pinned one.
    pub fn admits(&self, key: &PublicKey) -> bool {
        *key.as_bytes() == self.bytes || *key.key_id().digest().as_bytes() == self.bytes
    }
}

impl From<PublicKey> for Pin {
    fn from(key: PublicKey) -> Self {
        Self {
            bytes: *key.as_bytes(),
            key: Some(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::PrivateKey;

    // T-KEY-02
    #[test]
    fn a_pin_admits_its_key_by_itself_and_by_its_id_and_no_other() {
        for seed in 0..8 {
            let key = *PrivateKey::from_seed([seed; 32]).public_key();
            let other = *PrivateKey::from_seed([seed + 1; 32]).public_key();
            let id = Pin::from_bytes(*key.key_id().digest().as_bytes());
            for pin in [Pin::from(key), Pin::from_bytes(*key.as_bytes()), id] {
                assert!(pin.admits(&key));
                assert!(!pin.admits(&other));
            }
            assert_eq!(Pin::from_bytes(*key.as_bytes()), Pin::from(key));
        }
    }
}
