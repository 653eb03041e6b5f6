//! Private keys and their unencrypted files.
//!
//! ```text
//! v1  30 2e  02 01 00  30 05 06 03 2b 65 70  04 22 04 20 seed[32]         RFC 5958, 8410
//! v2  30 51  02 01 01  30 05 06 03 2b 65 70  04 22 04 20 seed[32]  81 21 00 key[32]
//! PEM label "PRIVATE KEY", 64 base64 characters a line, LF
//!
//! igor   u32le 64 ‖ seed[32] ‖ key[32]                  68 bytes, `<agent>.identity`
//! ```
//! Both versions are read. v1 is written, byte for byte as OpenSSL and Python's `cryptography`
//! write it, because those refuse v2. A public half in a file must be the seed's own. Else
//! signatures would leak the seed and verify under no key.
//!
//! Invariant: secret bytes are wiped when dropped and never shown by `Debug`.
//! Elsewhere: passphrase-encrypted files (`encrypted`).

use super::{PublicKey, Signature};
use crate::encoding;
use crate::error::Error;
use crate::limits::MAX_KEY_FILE_BYTES;
use ed25519_dalek::Signer as _;
use ed25519_dalek::hazmat::ExpandedSecretKey;
use pkcs8::der::asn1::OctetStringRef;
use pkcs8::der::{Decode as _, SecretDocument};
use pkcs8::{ObjectIdentifier, PrivateKeyInfoRef};
use std::fmt;
use zeroize::Zeroizing;

/// An Ed25519 private key.
pub struct PrivateKey {
    signing: ed25519_dalek::SigningKey,
    public: PublicKey,
}

/// RFC 8410 §3, id-Ed25519.
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
/// The v1 file up to the seed.
const V1_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
const LABEL: &str = "PRIVATE KEY";
pub(super) const ENCRYPTED_LABEL: &str = "ENCRYPTED PRIVATE KEY";
/// igor `pkg/identity`: the length of Go's Ed25519 private key, little-endian.
const IGOR_PREFIX: [u8; 4] = [64, 0, 0, 0];

impl PrivateKey {
    /// The key with this seed (RFC 8032 §5.1.5); new seeds must come from a cryptographic source.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self::from_seed_ref(&Zeroizing::new(seed))
    }

    fn from_seed_ref(seed: &[u8; 32]) -> Self {
        let signing = ed25519_dalek::SigningKey::from_bytes(seed);
        // A clamped scalar times the base point is canonical and never of small order.
        let public = PublicKey(signing.verifying_key());
        Self { signing, public }
    }

    /// Reads an unencrypted PKCS#8 PEM file, v1 or v2.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::Key`] when it is anything else, another algorithm, or carries the
    /// public half of another key. The error names an encrypted file as such.
    pub fn from_pem(text: &str) -> Result<Self, Error> {
        let (label, der) = read_pem(text)?;
        match label {
            LABEL => Self::from_pkcs8(der.as_bytes()),
            ENCRYPTED_LABEL => Err(Error::key(
                "the private key is encrypted: give its passphrase",
            )),
            _ => Err(Error::key("the PEM file does not hold a private key")),
        }
    }

    /// The PKCS#8 v1 PEM file: 119 bytes.
    pub fn to_pem(&self) -> Zeroizing<String> {
        write_pem(LABEL, self.to_pkcs8().as_slice())
    }

    /// Reads the 68-byte `<agent>.identity` file of igor.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::Key`] when it is anything else. Its public half is derived again
    /// and compared. igor trusts that half, and so signs wrongly with a damaged file.
    pub fn from_igor_identity(bytes: &[u8]) -> Result<Self, Error> {
        let halves = bytes
            .strip_prefix(&IGOR_PREFIX)
            .and_then(|rest| <&[u8; 64]>::try_from(rest).ok())
            .ok_or_else(|| Error::key("not an igor identity file (68 bytes: length 64, key)"))?;
        let (seed, public) = halves.split_at(32);
        Self::from_seed_and_public(seed, public)
    }

    /// The 68-byte file that igor reads and writes.
    pub fn to_igor_identity(&self) -> Zeroizing<Vec<u8>> {
        let parts = [
            &IGOR_PREFIX,
            self.signing.as_bytes().as_slice(),
            self.public.as_bytes(),
        ];
        Zeroizing::new(parts.concat())
    }

    /// The key under which the signatures verify.
    pub fn public_key(&self) -> &PublicKey {
        &self.public
    }

    /// Why the seed cannot have come from a source of randomness, if that shows: such a key is an
    /// example, a mistake, or a text that others can guess.
    pub fn seed_weakness(&self) -> Option<&'static str> {
        let seed = self.signing.as_bytes();
        if seed.windows(2).all(|pair| pair[0] == pair[1]) {
            return Some("its seed is one byte repeated");
        }
        let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
        seed.iter()
            .all(is_text)
            .then_some("its seed is a printable text")
    }

    /// Signs bytes; [`super::Message`] decides which bytes.
    pub(super) fn sign_bytes(&self, bytes: &[u8]) -> Signature {
        Signature::from_bytes(self.signing.sign(bytes).to_bytes())
    }

    /// The parts of the seed that signing needs; wiped when dropped.
    pub(super) fn expanded(&self) -> (ExpandedSecretKey, ed25519_dalek::VerifyingKey) {
        (self.signing.as_bytes().into(), self.signing.verifying_key())
    }

    /// The v1 DER.
    pub(super) fn to_pkcs8(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new([&V1_PREFIX, self.signing.as_bytes().as_slice()].concat())
    }

    /// Reads v1 or v2 DER.
    pub(super) fn from_pkcs8(der: &[u8]) -> Result<Self, Error> {
        let refuse = || Error::key("not a PKCS#8 private key");
        let info = PrivateKeyInfoRef::from_der(der).map_err(|_| refuse())?;
        if info.algorithm.oid != ED25519 || info.algorithm.parameters.is_some() {
            return Err(Error::key("the private key is not an Ed25519 key"));
        }
        // RFC 8410 §7: the key is an OCTET STRING inside the OCTET STRING.
        let seed =
            <&OctetStringRef>::from_der(info.private_key.as_bytes()).map_err(|_| refuse())?;
        match info.public_key {
            None => Self::from_seed_slice(seed.as_bytes()),
            Some(public) => {
                let public = public.as_bytes().ok_or_else(refuse)?;
                Self::from_seed_and_public(seed.as_bytes(), public)
            }
        }
    }

    fn from_seed_slice(seed: &[u8]) -> Result<Self, Error> {
        let seed = <&[u8; 32]>::try_from(seed)
            .map_err(|_| Error::key("an Ed25519 private key has 32 bytes"))?;
        Ok(Self::from_seed_ref(seed))
    }

    fn from_seed_and_public(seed: &[u8], public: &[u8]) -> Result<Self, Error> {
        let key = Self::from_seed_slice(seed)?;
        if key.public.as_bytes() != public {
            return Err(Error::key(
                "the public half of the key file does not match the private half: the file is damaged",
            ));
        }
        Ok(key)
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey(of {})", self.public.to_hex())
    }
}

/// The label and content of a PEM file.
pub(super) fn read_pem(text: &str) -> Result<(&str, SecretDocument), Error> {
    if text.len() > MAX_KEY_FILE_BYTES {
        return Err(Error::key("the key file is too large"));
    }
    SecretDocument::from_pem(text).map_err(|_| Error::key("not a PEM private key"))
}

/// A PEM file with LF line ends, 64 characters a line.
pub(super) fn write_pem(label: &str, der: &[u8]) -> Zeroizing<String> {
    let body = Zeroizing::new(encoding::base64(der));
    // Reserved at once, so that growing leaves no copy of the secret in freed memory.
    let mut pem = Zeroizing::new(String::with_capacity(2 * body.len() + 128));
    for text in ["-----BEGIN ", label, "-----\n"] {
        pem.push_str(text);
    }
    let mut rest = body.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    for text in ["-----END ", label, "-----\n"] {
        pem.push_str(text);
    }
    pem
}

#[cfg(test)]
mod tests;
