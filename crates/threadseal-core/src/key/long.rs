//! Signatures over messages too long to hold: a checkpoint of v0x04 signs its whole state.
//!
//! ```text
//! sign    r = SHA-512( prefix ‖ message )      two passes (RFC 8032 §5.1.6), each with its SHA-256
//!         k = SHA-512( R ‖ key ‖ message )     where the message is read again for each pass
//! verify  k, one pass
//! ```
//! The nonce r belongs to one message. Together with the k of another message it reveals the
//! private key. A file that is read twice may change between the passes. Both passes are therefore
//! compared, and a signature is returned only if they agree. Bytes in memory cannot change, and are
//! not compared.
//!
//! Verification gives the answer of [`PublicKey::verify`]; tests compare the two.

use super::{KeyUsage, LocalSigner, PublicKey, Signature, SignatureError};
use crate::digest::{Digest, Hasher};
use crate::error::{Error, ErrorKind};
use ed25519_dalek::hazmat::raw_sign_byupdate;
use sha2::{Digest as _, Sha512};
use std::cell::{Cell, RefCell};
use std::fmt;

/// Bytes that can be read several times, each time the same.
pub trait Reread {
    /// Hands out all bytes in order, in pieces of any length.
    ///
    /// # Errors
    /// Kind `External` when they cannot be read.
    fn read(&self, each: &mut dyn FnMut(&[u8])) -> Result<(), Error>;
}

impl Reread for &[u8] {
    fn read(&self, each: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        each(self);
        Ok(())
    }
}

/// The signature of `first` and all of `rest` together, and the digest of `rest`.
///
/// # Errors
/// Kind `Refused` when the signer is for another usage. Kind `External` when `rest` cannot be read,
/// or differs between the two passes.
pub fn sign_long(
    signer: &LocalSigner,
    usage: KeyUsage,
    first: &[u8],
    rest: &dyn Reread,
) -> Result<(Signature, Digest), Error> {
    let passes = RefCell::new(Vec::with_capacity(2));
    let failure = Cell::new(None);
    let signature = sign(signer, usage, |hasher: &mut Sha512| {
        hasher.update(first);
        let mut pass = Hasher::new();
        let read = rest.read(&mut |piece| {
            hasher.update(piece);
            pass.update(piece);
        });
        passes.borrow_mut().push(pass.finish());
        read.map_err(|error| {
            failure.set(Some(error));
            ed25519_dalek::SignatureError::new()
        })
    });
    if let Some(error) = failure.take() {
        return Err(error);
    }
    match passes.borrow().as_slice() {
        [nonce, challenge] if nonce == challenge => Ok((signature?, *nonce)),
        _ => Err(Error::new(
            ErrorKind::External,
            "the bytes changed while they were being signed",
        )),
    }
}

/// The signature of these parts together.
///
/// # Errors
/// Kind `Refused` when the signer is for another usage.
pub fn sign_parts(
    signer: &LocalSigner,
    usage: KeyUsage,
    parts: &[&[u8]],
) -> Result<Signature, Error> {
    sign(signer, usage, |hasher: &mut Sha512| {
        parts.iter().for_each(|part| hasher.update(part));
        Ok(())
    })
}

fn sign(
    signer: &LocalSigner,
    usage: KeyUsage,
    message: impl Fn(&mut Sha512) -> Result<(), ed25519_dalek::SignatureError>,
) -> Result<Signature, Error> {
    // Both halves come from one seed: a secret used with another public key leaks the secret.
    let (secret, public) = signer.key_for(usage)?.expanded();
    let signature = raw_sign_byupdate(&secret, message, &public)
        .map_err(|_| Error::key("the signature could not be made"))?;
    Ok(Signature::from_bytes(signature.to_bytes()))
}

/// A signature that is checked while the message streams past.
pub struct StreamVerifier(ed25519_dalek::StreamVerifier);

impl fmt::Debug for StreamVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamVerifier")
    }
}

impl StreamVerifier {
    /// Checks `signature` of `key`.
    ///
    /// # Errors
    /// [`SignatureError`] when no message can have this signature.
    pub fn new(key: &PublicKey, signature: &Signature) -> Result<Self, SignatureError> {
        // Three rules make the check strict. The key is of large order. S is canonical (checked
        // below by dalek). R is not of small order, and it is canonical: it is compared byte by
        // byte with a computed point.
        if signature.has_small_order() {
            return Err(SignatureError);
        }
        Self::of(&key.0, signature)
    }

    /// Checks `signature` as Go's `crypto/ed25519` does: any point is a key, and any R is allowed.
    ///
    /// It only repeats the answer of another program. No other decision may depend on it.
    ///
    /// # Errors
    /// As [`StreamVerifier::new`].
    pub fn danger_as_go(key: &[u8; 32], signature: &Signature) -> Result<Self, SignatureError> {
        let key = ed25519_dalek::VerifyingKey::from_bytes(key).map_err(|_| SignatureError)?;
        Self::of(&key, signature)
    }

    fn of(
        key: &ed25519_dalek::VerifyingKey,
        signature: &Signature,
    ) -> Result<Self, SignatureError> {
        let signature = ed25519_dalek::Signature::from_bytes(signature.as_bytes());
        let verifier = key.verify_stream(&signature);
        verifier.map(Self).map_err(|_| SignatureError)
    }

    /// The next bytes of the message.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// Ends the message and checks the signature.
    ///
    /// # Errors
    /// [`SignatureError`] when the signature is not one of this message.
    pub fn finish(self) -> Result<(), SignatureError> {
        self.0.finalize_and_verify().map_err(|_| SignatureError)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PrivateKey, SMALL_ORDER_YS};
    use super::*;
    use crate::testing;
    use proptest::prelude::*;

    fn signer(usage: KeyUsage) -> LocalSigner {
        testing::signer(8, usage)
    }

    fn streamed(key: &PublicKey, message: &[u8], signature: &Signature) -> bool {
        let Ok(mut verifier) = StreamVerifier::new(key, signature) else {
            return false;
        };
        message.chunks(3).for_each(|piece| verifier.update(piece));
        verifier.finish().is_ok()
    }

    /// Bytes that differ at each reading.
    struct Restless(Cell<u8>);

    impl Reread for Restless {
        fn read(&self, each: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
            self.0.set(self.0.get() + 1);
            each(&[self.0.get()]);
            Ok(())
        }
    }

    /// Bytes that can be read once.
    struct Gone(Cell<bool>);

    impl Reread for Gone {
        fn read(&self, each: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
            if self.0.replace(true) {
                return Err(Error::new(ErrorKind::External, "gone"));
            }
            each(b"once");
            Ok(())
        }
    }

    // T-LIN-10
    #[test]
    fn bytes_that_change_between_the_passes_are_never_signed() {
        let igor = signer(KeyUsage::Igor);
        let restless = Restless(Cell::new(0));
        let error = sign_long(&igor, KeyUsage::Igor, b"a", &restless).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::External);
        let error = sign_long(&igor, KeyUsage::Igor, b"a", &Gone(Cell::new(false))).unwrap_err();
        assert_eq!(error.to_string(), "gone");
    }

    // T-LIN-04
    #[test]
    fn only_a_key_of_the_usage_signs() {
        for usage in KeyUsage::ALL {
            let signed = sign_parts(&signer(usage), KeyUsage::Igor, &[b"\x04"]);
            assert_eq!(signed.is_ok(), usage == KeyUsage::Igor, "{usage}");
            let signed = sign_long(&signer(usage), KeyUsage::Igor, b"\x04", &b"".as_slice());
            assert_eq!(signed.is_ok(), usage == KeyUsage::Igor, "{usage}");
        }
    }

    proptest! {
        #[test]
        fn a_long_message_is_signed_as_a_short_one_is(first in any::<Vec<u8>>(), rest in any::<Vec<u8>>()) {
            let igor = signer(KeyUsage::Igor);
            let whole = [first.as_slice(), &rest].concat();
            let expected = PrivateKey::from_seed([8; 32]).sign_bytes(&whole);
            prop_assert_eq!(sign_parts(&igor, KeyUsage::Igor, &[&first, &rest]), Ok(expected));
            let long = sign_long(&igor, KeyUsage::Igor, &first, &rest.as_slice());
            prop_assert_eq!(long, Ok((expected, Digest::of(&rest))));
        }

        #[test]
        fn a_streamed_signature_has_the_answer_of_a_whole_one(
            message in any::<Vec<u8>>(), at in 0_usize..64, flip in any::<u8>(),
            r in 0..SMALL_ORDER_YS.len(), high in any::<bool>(),
        ) {
            let private = PrivateKey::from_seed([8; 32]);
            let key = private.public_key();
            let good = *private.sign_bytes(&message).as_bytes();
            let mut changed = good;
            changed[at] ^= flip;
            let mut small = good;
            small[..32].copy_from_slice(SMALL_ORDER_YS[r]);
            small[31] |= u8::from(high) << 7;
            // S + ℓ is an equivalent value and is refused.
            let order = b"\xed\xd3\xf5\x5c\x1a\x63\x12\x58\xd6\x9c\xf7\xa2\xde\xf9\xde\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10";
            let mut long = good;
            let mut carry = 0;
            for (byte, more) in long[32..].iter_mut().zip(order) {
                let sum = u16::from(*byte) + u16::from(*more) + carry;
                [*byte, _] = sum.to_le_bytes();
                carry = sum >> 8;
            }
            for bytes in [good, changed, small, long] {
                let signature = Signature::from_bytes(bytes);
                let whole = key.verify(&message, &signature).is_ok();
                prop_assert_eq!(streamed(key, &message, &signature), whole);
            }
            prop_assert!(streamed(key, &message, &Signature::from_bytes(good)));
            prop_assert!(!streamed(key, &message, &Signature::from_bytes(long)));
        }
    }
}
