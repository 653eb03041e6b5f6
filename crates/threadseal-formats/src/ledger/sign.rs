//! The signature of a record (`spec/ledger.md` §6).
//!
//! ```text
//! "signature": "ed25519:" 64 hex of the key id ":" base64 of 64 bytes
//! over         Message::tagged("threadseal/ledger-record/1", [record hash])
//! ```
//! The hash covers the run, the actor and, by `prev_hash`, everything before. So one signature
//! proves the actor, the run and the position of this step. The field is outside the hash, as in
//! `AbstractRuntime`, whose verifier ignores it.
//!
//! A signature names its key by digest only. The beginning of the ledger or the trust has the key:
//! [`KnownKeys`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::error::Error;
use threadseal_core::key::{KeyId, Message, PublicKey, RepeatedKeys, Signature, Signer};
use threadseal_core::trust::Trust;

/// The beginning of the signature field.
const ALGORITHM: &str = "ed25519:";
/// The tag of the message that is signed.
const RECORD_TAG: &str = "threadseal/ledger-record/1";

/// The signature of one record, read, but not yet verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordSignature {
    key: KeyId,
    signature: Signature,
}

impl RecordSignature {
    /// Signs the record of this hash.
    ///
    /// # Errors
    /// Those of [`Signer::sign`].
    pub fn sign(record_hash: &Digest, signer: &dyn Signer) -> Result<Self, Error> {
        Ok(Self {
            key: signer.public_key().key_id(),
            signature: signer.sign(&message(record_hash))?,
        })
    }

    /// Reads the text of the field; `None` unless it has the spelling in the module's
    /// documentation.
    pub fn parse(text: &str) -> Option<Self> {
        let (key, signature) = text.strip_prefix(ALGORITHM)?.split_once(':')?;
        Some(Self {
            key: KeyId::parse_hex(key)?,
            signature: Signature::from_slice(&encoding::parse_base64(signature)?)?,
        })
    }

    /// The key that it names.
    pub fn key(&self) -> KeyId {
        self.key
    }

    /// Is it a signature by `key`, on the record of this hash?
    pub fn holds(&self, record_hash: &Digest, key: &PublicKey) -> bool {
        key.key_id() == self.key && key.verify(&message(record_hash), &self.signature).is_ok()
    }

    /// The result of checking it under the key that it names.
    pub(super) fn read(
        &self,
        record_hash: &Digest,
        key: &PublicKey,
        at_hand: &mut RepeatedKeys,
    ) -> SignatureRead {
        match at_hand.verifies(key, message(record_hash).as_ref(), &self.signature) {
            true => SignatureRead::Good(*key),
            false => SignatureRead::Bad(*key),
        }
    }
}

impl fmt::Display for RecordSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signature = encoding::base64(self.signature.as_bytes());
        write!(f, "{ALGORITHM}{}:{signature}", self.key)
    }
}

fn message(record_hash: &Digest) -> Message {
    Message::tagged(RECORD_TAG, &[record_hash.as_bytes()])
}

/// The tag of the digest of signatures.
const SIGNATURES_TAG: &str = "threadseal/1 ledger signatures";

/// A digest of the signatures of a ledger's first records, which no hash of a record covers.
///
/// ```text
/// s(0)      tagged(SIGNATURES_TAG, [])
/// s(i + 1)  tagged(SIGNATURES_TAG, [s(i), u64be(i), SHA-256 of the text of the signature])
///           s(i), where record i has no signature
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signatures(Digest);

impl Default for Signatures {
    fn default() -> Self {
        Self(Digest::tagged(SIGNATURES_TAG, &[]))
    }
}

impl Signatures {
    /// Those of which this is the digest.
    pub fn of_digest(digest: Digest) -> Self {
        Self(digest)
    }

    /// Takes the signature of the record of this number, if it has one.
    pub fn take(&mut self, index: u64, signature: Option<&str>) {
        let text = signature.map(|text| Digest::of(text.as_bytes()));
        self.take_text(index, text.as_ref());
    }

    /// The same for the digest of the signature's text.
    pub(super) fn take_text(&mut self, index: u64, text: Option<&Digest>) {
        if let Some(text) = text {
            let parts: [&[u8]; 3] = [self.0.as_bytes(), &index.to_be_bytes(), text.as_bytes()];
            self.0 = Digest::tagged(SIGNATURES_TAG, &parts);
        }
    }

    /// Their digest.
    pub fn digest(&self) -> Digest {
        self.0
    }
}

/// Keys under which signatures of a ledger may be tried, by their ids. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct KnownKeys(Arc<BTreeMap<KeyId, PublicKey>>);

impl KnownKeys {
    /// Every key that `trust` holds, and the pinned ones.
    pub fn of_trust(trust: &Trust) -> Self {
        let stored = trust.store.iter().map(|entry| entry.key);
        Self::of(stored.chain(trust.pinned.keys()))
    }

    pub(super) fn of(keys: impl Iterator<Item = PublicKey>) -> Self {
        let keys: BTreeMap<_, _> = keys.map(|key| (key.key_id(), key)).collect();
        Self(Arc::new(keys))
    }

    /// Is it the other, or a clone of it?
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The key of this id.
    pub fn get(&self, id: &KeyId) -> Option<&PublicKey> {
        self.0.get(id)
    }
}

/// The state of the signature field of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignatureRead {
    /// `null`, or missing.
    Absent,
    /// Not spelled as a signature.
    Unreadable,
    /// By a key that is not known yet.
    UnknownKey(RecordSignature),
    /// It does not verify under the key that it names.
    Bad(PublicKey),
    /// It holds.
    Good(PublicKey),
}

impl SignatureRead {
    /// Reads the field `text` of the record of this hash; without a hash there is nothing to sign.
    /// `known` gives the key of an id.
    pub(super) fn of<'k>(
        text: Option<&str>,
        record_hash: Option<&Digest>,
        known: impl Fn(&KeyId) -> Option<&'k PublicKey>,
        at_hand: &mut RepeatedKeys,
    ) -> Self {
        let Some(text) = text else {
            return Self::Absent;
        };
        let read = RecordSignature::parse(text).zip(record_hash);
        let Some((signature, record_hash)) = read else {
            return Self::Unreadable;
        };
        match known(&signature.key()) {
            None => Self::UnknownKey(signature),
            Some(key) => signature.read(record_hash, key, at_hand),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_core::key::{KeyUsage, LocalSigner};
    use threadseal_core::testing;

    fn signer(seed: u8) -> LocalSigner {
        testing::signer(seed, KeyUsage::Native)
    }

    #[test]
    fn a_signature_has_one_spelling_and_fits_one_hash_and_one_key() {
        let (hash, by) = (Digest::of(b"record"), signer(1));
        let signature = RecordSignature::sign(&hash, &by).unwrap();
        let text = signature.to_string();
        assert_eq!(text.len(), 8 + 64 + 1 + 88);
        assert_eq!(RecordSignature::parse(&text), Some(signature));
        assert!(signature.holds(&hash, by.public_key()));
        assert!(!signature.holds(&Digest::of(b"other"), by.public_key()));
        assert!(!signature.holds(&hash, signer(2).public_key()));
        for spoiled in [
            text.to_uppercase(),
            text.replace("ed25519", "ed448"),
            text.trim_end_matches('=').to_owned(),
            format!("{text} "),
            text.replacen(':', "::", 1),
            String::new(),
        ] {
            assert_eq!(RecordSignature::parse(&spoiled), None, "{spoiled}");
        }
    }

    #[test]
    fn a_key_for_other_records_signs_no_record_of_a_ledger() {
        for usage in [KeyUsage::Rye, KeyUsage::Observed, KeyUsage::Scroll] {
            let by = testing::signer(1, usage);
            assert!(RecordSignature::sign(&Digest::of(b"record"), &by).is_err());
        }
    }

    #[test]
    fn what_a_field_shows_depends_on_the_keys_that_are_known() {
        let (hash, by) = (Digest::of(b"record"), signer(1));
        let signature = RecordSignature::sign(&hash, &by).unwrap();
        let (text, key) = (signature.to_string(), *by.public_key());
        let known = KnownKeys::of_trust(&Trust::key(key));
        let read = |text, hash: &Digest, known: &KnownKeys| {
            let at_hand = &mut RepeatedKeys::default();
            SignatureRead::of(text, Some(hash), |id| known.get(id), at_hand)
        };
        assert_eq!(read(None, &hash, &known), SignatureRead::Absent);
        assert_eq!(read(Some("x"), &hash, &known), SignatureRead::Unreadable);
        let nobody = KnownKeys::default();
        let unknown = SignatureRead::UnknownKey(signature);
        assert_eq!(read(Some(&text), &hash, &nobody), unknown);
        assert_eq!(read(Some(&text), &hash, &known), SignatureRead::Good(key));
        let other = Digest::of(b"other");
        assert_eq!(read(Some(&text), &other, &known), SignatureRead::Bad(key));
    }
}
