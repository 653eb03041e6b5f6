//! [`Pins`]: the keys that the caller accepts, each given as key or as id
//! (`spec/keys-and-trust.md` §8).
//!
//! Both are 32 bytes, and people copy either of them. Accepting both readings loses nothing. No one
//! can make a key whose bytes are another's id, or whose id is another's bytes.

use crate::digest::Digest;
use crate::error::{Error, ErrorKind};
use crate::key::{KeyUsage, PublicKey};
use crate::limits::MAX_PINNED_KEYS;

/// A key, or the id of one; perhaps for one usage only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pin {
    bytes: [u8; 32],
    /// The key of these bytes; about half of all ids are not the bytes of a key.
    key: Option<PublicKey>,
    /// The only usage for which it counts; none, where the caller named the key itself.
    usage: Option<KeyUsage>,
}

impl Pin {
    /// Takes 32 bytes for a key, or for the id of one.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        let key = PublicKey::from_bytes(&bytes).ok();
        Self {
            bytes,
            key,
            usage: None,
        }
    }

    /// The key of an identity: it counts for this usage alone.
    pub fn of_usage(key: PublicKey, usage: KeyUsage) -> Self {
        Self {
            usage: Some(usage),
            ..key.into()
        }
    }

    /// The key; `None` where these bytes can only be an id.
    pub fn key(&self) -> Option<&PublicKey> {
        self.key.as_ref()
    }

    /// The bytes of the key, or of its id.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether it counts for this usage.
    pub fn is_for(&self, usage: KeyUsage) -> bool {
        self.usage.is_none_or(|only| only == usage)
    }

    /// Its 32 bytes in the digest of the trust.
    fn digested(&self) -> [u8; 32] {
        self.usage.map_or(self.bytes, |usage| {
            let parts: [&[u8]; 2] = [&self.bytes, usage.as_str().as_bytes()];
            *Digest::tagged("trust-pin", &parts).as_bytes()
        })
    }

    /// Whether it means this key.
    pub fn admits(&self, key: &PublicKey) -> bool {
        *key.as_bytes() == self.bytes || *key.key_id().digest().as_bytes() == self.bytes
    }
}

impl From<PublicKey> for Pin {
    fn from(key: PublicKey) -> Self {
        Self {
            bytes: *key.as_bytes(),
            key: Some(key),
            usage: None,
        }
    }
}

/// The only keys that the caller accepts; empty where the trust store decides.
///
/// They are a set: neither their order nor a repetition matters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pins(Vec<Pin>);

impl Pins {
    /// Pins these keys.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`] beyond [`MAX_PINNED_KEYS`].
    pub fn new(pins: impl IntoIterator<Item = Pin>) -> Result<Self, Error> {
        let mut pins: Vec<Pin> = pins.into_iter().collect();
        pins.sort_by_key(Pin::digested);
        pins.dedup();
        if pins.len() > MAX_PINNED_KEYS {
            let text = format!("at most {MAX_PINNED_KEYS} keys can be pinned");
            return Err(Error::new(ErrorKind::Limit, text));
        }
        Ok(Self(pins))
    }

    /// Whether no key is pinned.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The pins, in the order of their bytes in the digest.
    pub fn iter(&self) -> impl Iterator<Item = &Pin> {
        self.0.iter()
    }

    /// The pinned keys; pins whose bytes can only be an id are left out.
    pub fn keys(&self) -> impl Iterator<Item = PublicKey> {
        self.0.iter().filter_map(Pin::key).copied()
    }

    /// The pinned keys that count for signatures of this usage.
    pub fn keys_for(&self, usage: KeyUsage) -> impl Iterator<Item = PublicKey> {
        let pins = self.0.iter().filter(move |pin| pin.is_for(usage));
        pins.filter_map(Pin::key).copied()
    }

    /// Whether one of them means this key, for signatures of this usage.
    pub fn admit(&self, key: &PublicKey, usage: KeyUsage) -> bool {
        let mut pins = self.0.iter();
        pins.any(|pin| pin.is_for(usage) && pin.admits(key))
    }

    /// The bytes of all, for the digest of the trust.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(Pin::digested).collect()
    }
}

impl<T: Into<Pin>> From<T> for Pins {
    fn from(only: T) -> Self {
        Self(vec![only.into()])
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

    #[test]
    fn pins_are_a_set_with_a_bound() {
        let key = |seed| *PrivateKey::from_seed([seed; 32]).public_key();
        let pins = |seeds: &[u8]| Pins::new(seeds.iter().map(|seed| key(*seed).into()));
        let both = pins(&[1, 2]).unwrap();
        assert_eq!(both, pins(&[2, 1, 2]).unwrap());
        let native = |pins: &Pins, seed| pins.admit(&key(seed), KeyUsage::Native);
        assert!(native(&both, 1) && native(&both, 2) && !native(&both, 3));
        assert!(Pins::default().is_empty() && !native(&Pins::default(), 1));
        let bytes = |at: usize| Pin::from_bytes(*Digest::of(&at.to_be_bytes()).as_bytes());
        assert!(Pins::new((0..MAX_PINNED_KEYS).map(bytes)).is_ok());
        let more = Pins::new((0..=MAX_PINNED_KEYS).map(bytes));
        assert_eq!(more.unwrap_err().kind(), ErrorKind::Limit);
    }

    // T-ID-06
    #[test]
    fn a_pin_of_an_identity_admits_its_key_for_its_usage_alone() {
        let key = *PrivateKey::from_seed([1; 32]).public_key();
        let observed = Pins::from(Pin::of_usage(key, KeyUsage::Observed));
        for usage in KeyUsage::ALL {
            assert_eq!(
                observed.admit(&key, usage),
                usage == KeyUsage::Observed,
                "{usage}"
            );
        }
        assert_ne!(observed.to_bytes(), Pins::from(key).to_bytes());
        let both = Pins::new([Pin::of_usage(key, KeyUsage::Observed), key.into()]).unwrap();
        assert!(both.admit(&key, KeyUsage::Native));
    }
}
