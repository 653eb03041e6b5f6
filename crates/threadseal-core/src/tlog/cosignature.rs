//! Cosignatures (C2SP tlog-cosignature, Ed25519): a witness signs the text of a checkpoint, and the
//! time.
//!
//! ```text
//! line       "— " name " " base64( id[4] ‖ time ‖ signature[64] ) LF     time: u64, big-endian
//! id         SHA-256( name ‖ 0x0a ‖ 0x04 ‖ key[32] )[..4]
//! signed     "cosignature/v1" LF "time " decimal(time) LF ‖ the whole text of the checkpoint
//! ```
//! It states that, at that time, this was the largest tree of this log that the witness had seen.
//! It also states that the tree contains all earlier trees that the witness had seen. The name is
//! not signed: one key serves one name. Lines after the root are signed without any statement about
//! them. [`super::verifier::VerifierKey`] decides which key a line belongs to, and whether it
//! verifies.

use super::checkpoint::Checkpoint;
use crate::error::Error;
use crate::key::{Message, PublicKey, Signature, SignatureError, Signer};
use crate::note::{KeyName, NoteSignature, typed_key_id};
use crate::time::Timestamp;
use std::fmt;

/// C2SP signed-note, "Signature types": Ed25519 cosignatures.
pub(super) const COSIGNER_TYPE: u8 = 0x04;

/// How far a clock may go back between two cosignatures, in seconds. This covers the corrections of
/// daily use.
pub const MAX_CLOCK_STEP_SECONDS: u64 = 60;

/// When a witness cosigned: seconds since 1970, from 1 to 2^63 - 1. C2SP reserves 0 for statements
/// without a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CosignatureTime(u64);

impl CosignatureTime {
    /// The time `seconds` after 1970; `None` for 0 and from 2^63 on.
    pub fn from_seconds(seconds: u64) -> Option<Self> {
        (1..=i64::MAX.unsigned_abs())
            .contains(&seconds)
            .then_some(Self(seconds))
    }

    /// The second that contains `at`; `None` for the first second of 1970.
    pub fn of(at: Timestamp) -> Option<Self> {
        Self::from_seconds(at.as_micros() / 1_000_000)
    }

    /// Seconds since 1970.
    pub fn seconds(self) -> u64 {
        self.0
    }
}

impl fmt::Display for CosignatureTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Cosigns: the line for a note of this checkpoint.
///
/// The caller must first call [`super::witness::judge`]. It checks whether the checkpoint extends
/// the tree that the witness has seen.
///
/// # Errors
/// Those of [`Signer::sign`], which refuses when the key is not for witnesses.
pub fn cosign(
    checkpoint: &Checkpoint,
    name: &KeyName,
    time: CosignatureTime,
    signer: &dyn Signer,
) -> Result<NoteSignature, Error> {
    let signature = signer.sign(&message(checkpoint, time))?;
    let id = typed_key_id(name, COSIGNER_TYPE, signer.public_key().as_bytes());
    Ok(NoteSignature::of(
        name.clone(),
        id,
        timed(time.seconds(), signature.as_bytes()),
    ))
}

/// The time of a cosignature of `checkpoint` by `key`, if these bytes are one.
pub(super) fn verify(
    checkpoint: &Checkpoint,
    bytes: &[u8],
    key: &PublicKey,
) -> Result<CosignatureTime, SignatureError> {
    let (time, signature) = split(bytes).ok_or(SignatureError)?;
    let time = CosignatureTime::from_seconds(time).ok_or(SignatureError)?;
    let signature = Signature::from_slice(signature).ok_or(SignatureError)?;
    key.verify(&message(checkpoint, time), &signature)?;
    Ok(time)
}

/// `timestamped_signature`: the time before the signature.
pub(super) fn timed(time: u64, signature: &[u8]) -> Vec<u8> {
    [&time.to_be_bytes(), signature].concat()
}

/// Time and signature of a `timestamped_signature`.
pub(super) fn split(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (time, signature) = bytes.split_first_chunk()?;
    Some((u64::from_be_bytes(*time), signature))
}

fn message(checkpoint: &Checkpoint, time: CosignatureTime) -> Message {
    Message::of_cosignature(time.seconds(), &checkpoint.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::key::KeyUsage;
    use crate::note::NoteText;
    use crate::testing::{key, micros, signer};

    #[test]
    fn times_are_seconds_above_0_and_below_2_to_the_63() {
        let last = i64::MAX.unsigned_abs();
        for (seconds, fits) in [(0, false), (1, true), (last, true), (last + 1, false)] {
            let time = CosignatureTime::from_seconds(seconds);
            assert_eq!(time.map(CosignatureTime::seconds), fits.then_some(seconds));
        }
        let at = |at| CosignatureTime::of(micros(at));
        assert_eq!(at(999_999), None);
        assert_eq!(at(1_999_999), Some(time(1)));
    }

    // T-WIT-02
    #[test]
    fn a_cosignature_holds_for_its_checkpoint_its_time_and_its_key_alone() {
        let signed = cosigned(&checkpoint(5), 1, 1_679_315_147);
        let own = key(2);
        let bytes = signed.signature();
        assert_eq!(bytes.len(), 72);
        assert_eq!(bytes[..8], 1_679_315_147_u64.to_be_bytes());
        assert_eq!(verify(&checkpoint(5), bytes, &own), Ok(time(1_679_315_147)));
        assert!(verify(&checkpoint(6), bytes, &own).is_err());
        assert!(verify(&checkpoint(5), bytes, &key(3)).is_err());
        for other in [0, 1, 1_679_315_148, 1 << 63, u64::MAX] {
            assert!(verify(&checkpoint(5), &timed(other, &bytes[8..]), &own).is_err());
        }
        for cut in [0, 7, 8, 71] {
            assert!(verify(&checkpoint(5), &bytes[..cut], &own).is_err());
        }
        assert!(verify(&checkpoint(5), &[bytes, &[0]].concat(), &own).is_err());
    }

    /// The holder of the key may sign time 0, though this crate never does.
    // T-WIT-03
    #[test]
    fn a_cosignature_of_no_time_is_none() {
        for time in [0, 1 << 63] {
            let message = Message::of_cosignature(time, &checkpoint(5).to_string());
            let signature = witness(1).sign(&message).unwrap();
            let bytes = timed(time, signature.as_bytes());
            assert!(verify(&checkpoint(5), &bytes, &key(2)).is_err());
        }
    }

    // T-WIT-01
    #[test]
    fn logs_sign_checkpoints_and_witnesses_cosignatures_and_no_other_key_does_either() {
        for usage in KeyUsage::ALL {
            let signer = signer(9, usage);
            let sealed = checkpoint(5).sign(&signer);
            assert_eq!(sealed.is_ok(), usage == KeyUsage::Log, "{usage}");
            let cosigned = cosign(&checkpoint(5), &witness_name(1), time(1), &signer);
            assert_eq!(cosigned.is_ok(), usage == KeyUsage::Witness, "{usage}");
        }
    }

    #[test]
    fn a_log_has_no_name_of_a_record_and_none_that_is_no_name() {
        let tree = *checkpoint(1).tree();
        for taken in [
            "threadseal/1/transcript/0",
            "threadseal/observed/x",
            "threadseal/",
            "a log",
            "a+b",
        ] {
            let named = Checkpoint::new(origin(taken), tree).unwrap();
            assert!(named.sign(&log()).is_err(), "{taken}");
        }
        let named = Checkpoint::new(origin("threadseal.example/log"), tree).unwrap();
        assert!(named.sign(&log()).is_ok());
    }

    /// The message of a witness is not the text of a note, and a log's signature is no cosignature.
    // T-WIT-01
    #[test]
    fn neither_signature_serves_as_the_other() {
        let both = note(&checkpoint(5), &[(1, 7)]);
        let message = message(&checkpoint(5), time(7));
        let text = std::str::from_utf8(message.as_bytes()).unwrap();
        assert!(NoteText::parse(text).is_err());
        let bytes = timed(7, both.signatures()[0].signature());
        assert!(verify(&checkpoint(5), &bytes, &key(1)).is_err());
    }
}
