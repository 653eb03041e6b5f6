//! ML-DSA-44 keys of logs and witnesses (FIPS 204, C2SP tlog-cosignature). Feature: `ml-dsa`.
//!
//! ```text
//! line     "— " name " " base64( id[4] ‖ time ‖ signature[2420] ) LF
//!          time: u64, big-endian, 0 for none
//! id       SHA-256( name ‖ 0x0a ‖ 0x06 ‖ key[1312] )[..4]
//! signed   "subtree/v1" LF 0x00 ‖ u8 len ‖ name ‖ time ‖ u8 len ‖ origin
//!          ‖ u64 0 ‖ u64 size ‖ root[32]
//! ```
//! The signature does not cover lines after the root. This module therefore neither signs nor
//! verifies a checkpoint that has such lines. Name and origin have at most 255 bytes. Signatures
//! are the deterministic ones of FIPS 204, with an empty context. These keys sign nothing else, and
//! no Ed25519 signature is ever one of theirs.

use super::checkpoint::Checkpoint;
use super::cosignature::{CosignatureTime, split, timed};
use crate::error::Error;
use crate::key::SignatureError;
use crate::note::{KeyName, NoteSignature, typed_key_id};
use ml_dsa::{Keypair as _, MlDsa44, Signature, Signer as _, SigningKey, VerifyingKey};
use std::fmt;

/// C2SP signed-note, "Signature types": ML-DSA-44 cosignatures.
pub(super) const ML_DSA_TYPE: u8 = 0x06;

/// C2SP tlog-cosignature: `label`.
const LABEL: &[u8; 12] = b"subtree/v1\n\0";

/// An ML-DSA-44 public key, as its 1,312 bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct MlDsaPublicKey(Vec<u8>);

impl MlDsaPublicKey {
    /// The key with these bytes.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::Key`] when there are not 1,312.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let key = Self(bytes.to_vec());
        match key.decoded() {
            Some(_) => Ok(key),
            None => Err(Error::key("an ML-DSA-44 public key has 1312 bytes")),
        }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn decoded(&self) -> Option<VerifyingKey<MlDsa44>> {
        let bytes = self.0.as_slice().try_into().ok()?;
        Some(VerifyingKey::decode(&bytes))
    }

    /// The time of a cosignature by this key under `name`, if these bytes are one; `None` in it
    /// where it has no time.
    pub(super) fn verify_cosignature(
        &self,
        checkpoint: &Checkpoint,
        name: &KeyName,
        bytes: &[u8],
    ) -> Result<Option<CosignatureTime>, SignatureError> {
        let (time, signature) = split(bytes).ok_or(SignatureError)?;
        let named = CosignatureTime::from_seconds(time);
        if named.is_none() && time != 0 {
            return Err(SignatureError);
        }
        let message = message(checkpoint, name, time).ok_or(SignatureError)?;
        let signature = Signature::<MlDsa44>::try_from(signature).map_err(|_| SignatureError)?;
        let key = self.decoded().ok_or(SignatureError)?;
        match key.verify_with_context(&message, &[], &signature) {
            true => Ok(named),
            false => Err(SignatureError),
        }
    }
}

impl fmt::Debug for MlDsaPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MlDsaPublicKey({})", crate::digest::Digest::of(&self.0))
    }
}

/// An ML-DSA-44 private key, which signs checkpoints and nothing else.
pub struct MlDsaSigner(SigningKey<MlDsa44>);

impl MlDsaSigner {
    /// The key derived from this seed, which must come from a cryptographic source.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(SigningKey::from_seed(&seed.into()))
    }

    /// Its public half.
    pub fn public_key(&self) -> MlDsaPublicKey {
        MlDsaPublicKey(self.0.verifying_key().encode().to_vec())
    }

    /// Signs `checkpoint` under `name`: with `time` as a witness, without it as the log.
    ///
    /// # Errors
    /// Kind `InvalidInput` when the checkpoint has lines after its root, or a name is longer than
    /// 255 bytes.
    pub fn cosign(
        &self,
        checkpoint: &Checkpoint,
        name: &KeyName,
        time: Option<CosignatureTime>,
    ) -> Result<NoteSignature, Error> {
        let time = time.map_or(0, CosignatureTime::seconds);
        let message = message(checkpoint, name, time).ok_or_else(|| {
            Error::invalid(
                "ML-DSA-44 signs only checkpoints of at most three lines, and names of at most 255 bytes",
            )
        })?;
        let signature = self.0.try_sign(&message);
        let signature = signature.map_err(|_| Error::invalid("ML-DSA-44 cannot sign this"))?;
        let id = typed_key_id(name, ML_DSA_TYPE, self.public_key().as_bytes());
        let signature = timed(time, &signature.encode());
        Ok(NoteSignature::of(name.clone(), id, signature))
    }
}

impl fmt::Debug for MlDsaSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MlDsaSigner({:?})", self.public_key())
    }
}

/// `cosigned_message` over the whole tree; `None` where it cannot cover the whole checkpoint.
fn message(checkpoint: &Checkpoint, name: &KeyName, time: u64) -> Option<Vec<u8>> {
    if !checkpoint.extensions().is_empty() {
        return None;
    }
    let mut message = LABEL.to_vec();
    push_short(&mut message, name.as_str())?;
    message.extend_from_slice(&time.to_be_bytes());
    push_short(&mut message, checkpoint.origin().as_str())?;
    message.extend_from_slice(&0_u64.to_be_bytes());
    message.extend_from_slice(&checkpoint.tree().size.to_be_bytes());
    message.extend_from_slice(checkpoint.tree().root.as_bytes());
    Some(message)
}

/// RFC 8446 §3.4: `opaque text<1..2^8-1>`.
fn push_short(out: &mut Vec<u8>, text: &str) -> Option<()> {
    out.push(u8::try_from(text.len()).ok()?);
    out.extend_from_slice(text.as_bytes());
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::policy::{Judgement, NotAccepted, Policy};
    use super::super::testing::{ORIGIN, checkpoint, checkpoint_of, name, signed, time};
    use super::super::verifier::{self, VerifierKey};
    use super::*;
    use crate::note::{NoteError, NoteText, SignedNote};

    const POLICY: &str = include_str!("../../../../testkit/tlog/ml_dsa.policy");

    fn witness() -> MlDsaSigner {
        MlDsaSigner::from_seed([6; 32])
    }

    fn witness_key() -> VerifierKey {
        VerifierKey::of_ml_dsa(name("witness.example/pq"), witness().public_key())
    }

    fn cosigned(checkpoint: &Checkpoint, at: Option<u64>) -> NoteSignature {
        let name = name("witness.example/pq");
        witness().cosign(checkpoint, &name, at.map(time)).unwrap()
    }

    #[test]
    fn a_note_and_a_policy_of_another_implementation_are_read() {
        let policy = Policy::parse(POLICY.as_bytes()).unwrap();
        let note = include_str!("../../../../testkit/tlog/ml_dsa.note");
        let judged = policy.judge(&SignedNote::parse(note).unwrap());
        let Ok(Judgement::Witnessed(witnessed)) = judged else {
            panic!("{judged:?}");
        };
        assert_eq!(witnessed.at(), time(1_679_315_147));
        // The seeds give the same keys as in the other implementation.
        let log = MlDsaSigner::from_seed([5; 32]).public_key();
        let log = VerifierKey::of_ml_dsa(name(ORIGIN), log);
        assert_eq!(policy.logs()[0].key, log);
        assert_eq!(policy.witnesses()[0].key, witness_key());
        for key in [&log, &witness_key()] {
            assert_eq!(VerifierKey::parse(&key.to_string()).as_ref(), Ok(key));
            assert!(key.is_of_log() && key.is_of_witness());
        }
    }

    #[test]
    fn a_checkpoint_that_log_and_witness_sign_is_witnessed_and_without_a_time_it_is_not() {
        let policy = Policy::parse(POLICY.as_bytes()).unwrap();
        let log = MlDsaSigner::from_seed([5; 32]);
        let line = log.cosign(&checkpoint(5), &name(ORIGIN), None).unwrap();
        let judge = |at| {
            let mut note = SignedNote::of(checkpoint(5).to_note_text().unwrap(), line.clone());
            note.add(cosigned(&checkpoint(5), at)).unwrap();
            policy.judge(&note)
        };
        assert!(matches!(judge(Some(7)), Ok(Judgement::Witnessed(_))));
        assert!(matches!(judge(None), Err(NotAccepted::NoQuorum(_))));
    }

    #[test]
    fn a_changed_byte_of_text_name_time_or_signature_is_noticed() {
        let mut note = signed(&checkpoint(5));
        note.add(cosigned(&checkpoint(5), Some(7))).unwrap();
        let text = note.to_string();
        let key = witness_key();
        let holds = |text: &str| {
            let note = SignedNote::parse(text).ok()?;
            let opened = verifier::open(&note, &[&key]).ok()?;
            opened.1.first().and_then(|by| by.time)
        };
        assert_eq!(holds(&text), Some(time(7)));
        let line = text.find("witness.example").unwrap();
        // This check ignores the log's own line.
        let body = text.find("\n\n").unwrap();
        let places = (0..body).chain(line..line + 60);
        for at in places.chain((line + 60..text.len()).step_by(37)) {
            let mut bytes = text.as_bytes().to_vec();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).unwrap();
            assert_eq!(holds(&changed), None, "byte {at}");
        }
    }

    #[test]
    fn what_is_not_signed_is_not_taken_for_signed() {
        let text = format!("{}more\n", checkpoint(5));
        let extended = NoteText::parse(&text).unwrap();
        let parsed = Checkpoint::parse(&extended).unwrap();
        let pq = name("witness.example/pq");
        assert!(witness().cosign(&parsed, &pq, Some(time(7))).is_err());
        let note = SignedNote::of(extended, cosigned(&checkpoint(5), Some(7)));
        let opened = verifier::open(&note, &[&witness_key()]).map(|_| ());
        assert_eq!(opened, Err(NoteError::BadSignature(pq)));
    }

    #[test]
    fn names_beyond_255_bytes_and_times_beyond_2_to_the_63_are_refused() {
        let tree = *checkpoint(5).tree();
        for (length, fits) in [(255, true), (256, false)] {
            let long = "a".repeat(length);
            let named = checkpoint_of(&long, tree);
            let signed = witness().cosign(&named, &name("w"), None);
            assert_eq!(signed.is_ok(), fits);
            let signed = witness().cosign(&checkpoint(5), &name(&long), None);
            assert_eq!(signed.is_ok(), fits);
        }
        let key = witness().public_key();
        let pq = name("witness.example/pq");
        let message = message(&checkpoint(5), &pq, 1 << 63).unwrap();
        let signature = witness().0.try_sign(&message).unwrap().encode();
        let bytes = timed(1 << 63, &signature);
        assert!(key.verify_cosignature(&checkpoint(5), &pq, &bytes).is_err());
        assert!(MlDsaPublicKey::from_bytes(&[0; 1311]).is_err());
        assert!(MlDsaPublicKey::from_bytes(&[0; 1313]).is_err());
    }
}
