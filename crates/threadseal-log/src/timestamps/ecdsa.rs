//! ECDSA over P-256 and P-384 with SHA-512 (FIPS 186-5 §6.4.2): an authority may use one digest function for keys of all kinds, and what
//! TLS links does not verify this one.

use p256::ecdsa::signature::hazmat::PrehashVerifier;
use ring::digest::{SHA512, digest};
use rustls_pki_types::{
    AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm, alg_id,
};

/// Over P-256.
pub(super) static P256_SHA512: &dyn SignatureVerificationAlgorithm = &Sha512 {
    curve: alg_id::ECDSA_P256,
    holds: holds::<p256::ecdsa::VerifyingKey, p256::ecdsa::DerSignature>,
};

/// Over P-384.
pub(super) static P384_SHA512: &dyn SignatureVerificationAlgorithm = &Sha512 {
    curve: alg_id::ECDSA_P384,
    holds: holds::<p384::ecdsa::VerifyingKey, p384::ecdsa::DerSignature>,
};

#[derive(Debug)]
struct Sha512 {
    curve: AlgorithmIdentifier,
    /// Of key, digest and signature.
    holds: fn(&[u8], &[u8], &[u8]) -> bool,
}

impl SignatureVerificationAlgorithm for Sha512 {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let digest = digest(&SHA512, message);
        match (self.holds)(public_key, digest.as_ref(), signature) {
            true => Ok(()),
            false => Err(InvalidSignature),
        }
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        self.curve
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ECDSA_SHA512
    }
}

/// The curve takes as many of the digest's leftmost bits as its order has.
fn holds<Key, Signature>(key: &[u8], digest: &[u8], signature: &[u8]) -> bool
where
    Key: for<'b> TryFrom<&'b [u8]> + PrehashVerifier<Signature>,
    Signature: for<'b> TryFrom<&'b [u8]>,
{
    match (Key::try_from(key), Signature::try_from(signature)) {
        (Ok(key), Ok(signature)) => key.verify_prehash(digest, &signature).is_ok(),
        _ => false,
    }
}
