//! Ed25519 keys and the messages that they may sign.
//!
//! ```text
//! public key   32 bytes, a canonical encoding of a point of large order
//! key id       SHA-256 of those 32 bytes                                   64 hex
//! PEM          RFC 8410 SubjectPublicKeyInfo, LF line ends, final LF       113 bytes
//! did:key      "did:key:z" base58btc( 0xed 0x01 key )                      56 characters
//! Rye's name   first 16 hex digits of SHA-256 over the PEM text
//! signature    64 bytes R ‖ S (RFC 8032, pure Ed25519, no context)
//! ```
//! Each of these has one spelling; any other is refused. Every [`PublicKey`] is usable. A point of
//! small order never becomes one, because one signature under it fits many messages. Verification
//! is cofactorless, with canonical R and S and no small-order R ("strict"). So each signature has
//! one answer; OpenSSL and `WebCrypto` are laxer.
//!
//! The key id is the name of a key. Rye's 64-bit fingerprint, did:key and note key ids are hints
//! for a lookup.
//!
//! Elsewhere: private keys and their files ([`PrivateKey`]), the messages that a key may sign
//! ([`Message`], [`Signer`]), trust in keys ([`crate::trust`]).

mod encrypted;
mod long;
mod message;
mod private;
mod repeated;

pub use long::Reread;
pub use long::{StreamVerifier, sign_long, sign_parts};
pub use message::{
    COSIGNATURE_DOMAIN, IGOR_DOMAIN, KeyUsage, LocalSigner, Message, OBSERVED_DOMAIN,
    RECORD_DOMAIN, SCROLL_DOMAIN, SEALED_DIGEST_DOMAIN, Signer,
};
pub use private::PrivateKey;
pub use repeated::RepeatedKeys;

use crate::digest::Digest;
use crate::encoding;
use crate::error::Error;
use std::fmt;

/// An Ed25519 public key: canonical, of large order.
#[derive(Clone, Copy)]
pub struct PublicKey(ed25519_dalek::VerifyingKey);

/// What may be around the text of a key.
const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];

/// RFC 8410 §4: SEQUENCE { SEQUENCE { OID 1.3.101.112 }, BIT STRING of 32 bytes }, up to the key.
const SPKI_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
const PEM_BEGIN: &str = "-----BEGIN PUBLIC KEY-----\n";
const PEM_END: &str = "\n-----END PUBLIC KEY-----\n";

/// W3C did:key: multibase letter for base58btc, after the method name.
const DID_PREFIX: &str = "did:key:z";
/// Multicodec `ed25519-pub` as an unsigned varint.
const DID_MULTICODEC: [u8; 2] = [0xed, 0x01];
/// "did:key:z" and the 47 base58 digits of 34 bytes that begin with 0xed 0x01.
const DID_LENGTH: usize = 56;

/// The y of the eight points whose order divides 8: of order 8 (two), 4, 1 and 2.
const SMALL_ORDER_YS: [&[u8; 32]; 5] = [
    b"\x26\xe8\x95\x8f\xc2\xb2\x27\xb0\x45\xc3\xf4\x89\xf2\xef\x98\xf0\xd5\xdf\xac\x05\xd3\xc6\x33\x39\xb1\x38\x02\x88\x6d\x53\xfc\x05",
    b"\xc7\x17\x6a\x70\x3d\x4d\xd8\x4f\xba\x3c\x0b\x76\x0d\x10\x67\x0f\x2a\x20\x53\xfa\x2c\x39\xcc\xc6\x4e\xc7\xfd\x77\x92\xac\x03\x7a",
    &[0; 32],
    b"\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    b"\xec\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
];

impl PublicKey {
    /// The key with these bytes.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::Key`] when they are not a point of the curve, not its canonical
    /// encoding (RFC 8032 §5.1.3), or a point of small order.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, Error> {
        let key = ed25519_dalek::VerifyingKey::from_bytes(bytes)
            .map_err(|_| Error::key("these 32 bytes are not an Ed25519 public key"))?;
        // Decompression reduces y modulo p, and ignores the sign of x = 0. The first gives some
        // keys a second spelling. The second does so only for points of small order, which are
        // refused below.
        if !is_reduced(bytes) {
            return Err(Error::key(
                "the Ed25519 public key is not canonically encoded",
            ));
        }
        if key.is_weak() {
            return Err(Error::key(
                "the Ed25519 public key has small order: one signature would fit many messages",
            ));
        }
        Ok(Self(key))
    }

    /// Reads 64 lower-case hex digits.
    ///
    /// # Errors
    /// As [`PublicKey::from_bytes`], or when the text is anything else.
    pub fn from_hex(text: &str) -> Result<Self, Error> {
        let bytes = encoding::parse_hex_array(text)
            .ok_or_else(|| Error::key("a public key in hex is 64 lower-case digits"))?;
        Self::from_bytes(&bytes)
    }

    /// Reads a PEM public key: exactly [`PublicKey::to_pem`]'s text. Blanks around it are ignored,
    /// and lines may end in CR LF.
    ///
    /// # Errors
    /// As [`PublicKey::from_bytes`], or when the text is anything else.
    pub fn from_pem(text: &str) -> Result<Self, Error> {
        let text = text.replace("\r\n", "\n");
        let body = text
            .trim_matches(BLANKS)
            .strip_prefix(PEM_BEGIN)
            .and_then(|rest| rest.strip_suffix(PEM_END.trim_end()))
            .ok_or_else(|| Error::key("not a PEM public key"))?;
        let der = encoding::parse_base64(body)
            .ok_or_else(|| Error::key("the PEM public key is not one line of strict base64"))?;
        let bytes = der
            .strip_prefix(&SPKI_PREFIX)
            .and_then(|key| <&[u8; 32]>::try_from(key).ok())
            .ok_or_else(|| Error::key("the PEM public key is not an Ed25519 key (RFC 8410)"))?;
        Self::from_bytes(bytes)
    }

    /// Reads `did:key:z6Mk…`.
    ///
    /// # Errors
    /// As [`PublicKey::from_bytes`], or when the text is anything else.
    pub fn from_did_key(text: &str) -> Result<Self, Error> {
        let refuse = || Error::key("not the did:key of an Ed25519 key");
        // Decoding is quadratic: the length is checked before it.
        let digits = text
            .strip_prefix(DID_PREFIX)
            .filter(|_| text.len() == DID_LENGTH)
            .ok_or_else(refuse)?;
        let decoded = bs58::decode(digits).into_vec().map_err(|_| refuse())?;
        let bytes = decoded
            .strip_prefix(&DID_MULTICODEC)
            .and_then(|key| <&[u8; 32]>::try_from(key).ok())
            .ok_or_else(refuse)?;
        Self::from_bytes(bytes)
    }

    /// Reads any of the three texts, blanks around it ignored: PEM, 64 hex digits, did:key.
    ///
    /// # Errors
    /// As for the three texts. The error names a private key as such, since it should not be passed
    /// around.
    pub fn parse_any(input: impl AsRef<[u8]>) -> Result<Self, Error> {
        let text = std::str::from_utf8(input.as_ref())
            .map_err(|_| Error::key("a public key is PEM, 64 hex digits or did:key text"))?
            .trim_matches(BLANKS);
        if text.contains("PRIVATE KEY-----") {
            return Err(Error::key(
                "this is a private key; hint: pass the public key (and keep the private one private)",
            ));
        }
        if text.starts_with(PEM_BEGIN.trim_end()) {
            Self::from_pem(text)
        } else if text.starts_with("did:") {
            Self::from_did_key(text)
        } else {
            Self::from_hex(text).map_err(|error| match text.len() {
                64 => error,
                _ => Error::key("a public key is PEM, 64 lower-case hex digits or did:key text"),
            })
        }
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// 64 lower-case hex digits.
    pub fn to_hex(&self) -> String {
        encoding::hex(self.as_bytes())
    }

    /// The PEM file: 113 bytes, byte for byte as OpenSSL and Python's `cryptography` write it.
    pub fn to_pem(&self) -> String {
        let der = [&SPKI_PREFIX, self.as_bytes().as_slice()].concat();
        [PEM_BEGIN, &encoding::base64(&der), PEM_END].concat()
    }

    /// `did:key:z6Mk…`, 56 characters.
    pub fn to_did_key(&self) -> String {
        let tagged = [&DID_MULTICODEC, self.as_bytes().as_slice()].concat();
        format!("{DID_PREFIX}{}", bs58::encode(tagged).into_string())
    }

    /// The key's name: SHA-256 of its 32 bytes.
    pub fn key_id(&self) -> KeyId {
        KeyId(Digest::of(self.as_bytes()))
    }

    /// The 64-bit name that Rye gives this key, from its PEM text as [`PublicKey::to_pem`]
    /// writes it.
    pub fn rye_fingerprint(&self) -> RyeFingerprint {
        RyeFingerprint::of_pem(&self.to_pem())
    }

    /// Checks a signature strictly (see the module's heading). `message` is a [`Message`], or
    /// the bytes that a foreign format signs.
    ///
    /// # Errors
    /// [`SignatureError`] when the signature is not this key's signature of `message`.
    pub fn verify(
        &self,
        message: &(impl AsRef<[u8]> + ?Sized),
        signature: &Signature,
    ) -> Result<(), SignatureError> {
        // The R that verification computes is compared with the signature's byte by byte. dalek's
        // `verify_strict` decompresses R only to find its order. Here the bytes of R show its
        // order. The order of the key was checked when the key was made.
        if signature.has_small_order() {
            return Err(SignatureError);
        }
        let signature = ed25519_dalek::Signature::from_bytes(signature.as_bytes());
        ed25519_dalek::Verifier::verify(&self.0, message.as_ref(), &signature)
            .map_err(|_| SignatureError)
    }
}

/// Whether the y in these bytes is less than p = 2^255 - 19 (little-endian, below the sign of x).
fn is_reduced(bytes: &[u8; 32]) -> bool {
    let [lowest, middle @ .., highest] = bytes;
    let at_the_top = highest & 0x7f == 0x7f && middle.iter().all(|byte| *byte == 0xff);
    !at_the_top || *lowest < 0xed
}

impl PartialEq for PublicKey {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for PublicKey {}

impl std::hash::Hash for PublicKey {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl PartialOrd for PublicKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PublicKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.to_hex())
    }
}

/// An Ed25519 signature, R ‖ S. It may be any 64 bytes; only verification gives it a meaning.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signature([u8; 64]);

impl Signature {
    /// The signature with these bytes.
    pub const fn from_bytes(bytes: [u8; 64]) -> Self {
        Self(bytes)
    }

    /// The signature with these bytes, when there are 64.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The 64 bytes.
    pub fn as_bytes(&self) -> &[u8; 64] {
        &self.0
    }

    /// Whether R encodes a point of small order canonically. The sign of its x is ignored.
    fn has_small_order(&self) -> bool {
        let mut y = [0; 32];
        y.copy_from_slice(&self.0[..32]);
        y[31] &= 0x7f;
        SMALL_ORDER_YS.contains(&&y)
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature({})", encoding::hex(&self.0))
    }
}

/// The signature is not the key's signature of the message.
///
/// No finer reason exists: it would help only a forger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignatureError;

impl fmt::Display for SignatureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the signature does not verify")
    }
}

impl std::error::Error for SignatureError {}

/// The full name of a key: SHA-256 of its 32 bytes, shown as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(Digest);

impl KeyId {
    /// Reads 64 lower-case hex digits.
    pub fn parse_hex(text: &str) -> Option<Self> {
        Digest::parse_hex(text).map(Self)
    }

    /// The digest.
    pub fn digest(&self) -> Digest {
        self.0
    }

    /// 64 lower-case hex digits.
    pub fn to_hex(&self) -> String {
        self.0.to_hex()
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({})", self.0)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Rye's name of a key: 64 bits, so only a hint. Several keys may share one on purpose.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RyeFingerprint([u8; 8]);

impl RyeFingerprint {
    /// The fingerprint of a PEM text as Rye computes it (Rye `trust_store.py`, `signing.py`).
    ///
    /// It drops blanks around the text, appends one LF, and takes the first 16 hex digits of
    /// SHA-256.
    pub fn of_pem(pem: &str) -> Self {
        let normalised = format!("{}\n", pem.trim_matches(BLANKS));
        let digest = Digest::of(normalised.as_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&digest.as_bytes()[..8]);
        Self(first)
    }

    /// Reads 16 lower-case hex digits.
    pub fn parse_hex(text: &str) -> Option<Self> {
        encoding::parse_hex_array(text).map(Self)
    }

    /// 16 lower-case hex digits.
    pub fn to_hex(&self) -> String {
        encoding::hex(&self.0)
    }
}

impl fmt::Debug for RyeFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RyeFingerprint({})", self.to_hex())
    }
}

impl fmt::Display for RyeFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

#[cfg(test)]
mod tests;
