//! What a key may sign: no raw bytes, ever.
//!
//! ```text
//! note      the text of a signed note (C2SP signed-note), as it is: ends in LF, no byte below 0x20
//! tagged    "threadseal/1 signed digest" 0x00  SHA-256-tagged(tag, parts)[32]     59 bytes
//! Rye hash  the 64 lower-case hex digits of a SHA-256 digest, as ASCII
//! turn      the canonical bytes of a scroll's turn: begins with `{` (JCS) or 0xa0..=0xbf (CBOR)
//! igor      a checkpoint of v0x04 without its signature: begins with 0x04; `long` signs it
//! ```
//! They never collide: a note ends in LF and holds no NUL, a tagged message has a NUL at
//! byte 26, a Rye hash has neither, no JCS text ends in LF, and none of these begins with 0x04.
//! That is why a signature on one never serves as another, which
//! is the flaw of Rye's own scheme: it signs a bare digest, so a signature on a knowledge item
//! also fits a transcript.
//!
//! | usage | signs |
//! |---|---|
//! | native | notes and tagged messages outside the observed domain |
//! | observed | notes whose first line, and tagged messages whose tag, begin with [`OBSERVED_DOMAIN`] |
//! | rye | Rye hashes, nothing else |
//! | scroll | turns of scrolls, nothing else |
//! | igor | checkpoints of v0x04, nothing else |

use super::{PrivateKey, PublicKey, Signature};
use crate::digest::Digest;
use crate::error::Error;
use std::fmt;

/// Notes and tags that begin with this say "these bytes existed", not "this agent wrote them".
pub const OBSERVED_DOMAIN: &str = "threadseal/observed/";

/// What stands before the tagged digest in the bytes that are signed.
pub const SEALED_DIGEST_DOMAIN: &[u8; 27] = b"threadseal/1 signed digest\0";

/// What a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyUsage {
    /// Sealing native records.
    Native,
    /// Rye's formats.
    Rye,
    /// Detached seals of logs that others wrote.
    Observed,
    /// Turns of scrolls.
    Scroll,
    /// Checkpoints of v0x04, igor's.
    Igor,
}

impl KeyUsage {
    /// All usages.
    pub const ALL: [Self; 5] = [
        Self::Native,
        Self::Rye,
        Self::Observed,
        Self::Scroll,
        Self::Igor,
    ];

    /// `native`, `rye`, `observed`, `scroll` or `igor`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Rye => "rye",
            Self::Observed => "observed",
            Self::Scroll => "scroll",
            Self::Igor => "igor",
        }
    }

    /// Reads [`KeyUsage::as_str`]'s words.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|usage| usage.as_str() == text)
    }

    /// May a key of usage `of` sign messages of this usage?
    pub(super) fn check(self, of: Self) -> Result<(), Error> {
        if of == self {
            return Ok(());
        }
        Err(Error::refused(format!(
            "a key with the usage `{of}` does not sign `{self}` messages"
        )))
    }
}

impl fmt::Display for KeyUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Something that may be signed. There is no way to make one from raw bytes.
///
/// The notes' constructor is `Message::note`, beside [`crate::note::NoteText`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    bytes: Vec<u8>,
    usage: KeyUsage,
}

impl Message {
    /// The message of [`Digest::tagged`]`(tag, parts)`.
    pub fn tagged(tag: &str, parts: &[&[u8]]) -> Self {
        let digest = Digest::tagged(tag, parts);
        Self {
            bytes: [SEALED_DIGEST_DOMAIN, digest.as_bytes().as_slice()].concat(),
            usage: usage_of_domain(tag),
        }
    }

    /// What Rye signs for content with this digest: its 64 hex digits.
    pub fn rye_hash(digest: &Digest) -> Self {
        Self {
            bytes: digest.to_hex().into_bytes(),
            usage: KeyUsage::Rye,
        }
    }

    /// The message of a note's text; only [`crate::note`] calls this, with checked text.
    pub(crate) fn of_note_text(text: &str) -> Self {
        Self {
            bytes: text.as_bytes().to_vec(),
            usage: usage_of_domain(text),
        }
    }

    /// The message of a scroll's turn; only [`crate::scroll`] calls this, with canonical bytes.
    pub(crate) fn of_turn(canonical: Vec<u8>) -> Self {
        Self {
            bytes: canonical,
            usage: KeyUsage::Scroll,
        }
    }

    /// The usage a key must have to sign this.
    pub fn usage(&self) -> KeyUsage {
        self.usage
    }

    /// Says whether a key of `usage` may sign this. Every [`Signer`] must ask before it signs.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::Refused`] when it may not.
    pub fn check_usage(&self, usage: KeyUsage) -> Result<(), Error> {
        self.usage.check(usage)
    }

    /// The bytes that are signed.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsRef<[u8]> for Message {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn usage_of_domain(text: &str) -> KeyUsage {
    if text.starts_with(OBSERVED_DOMAIN) {
        KeyUsage::Observed
    } else {
        KeyUsage::Native
    }
}

/// Signs messages. The private key may be in this process, in another, or in hardware.
///
/// For every `m` that fits the usage: `public_key().verify(m, &sign(m)?)` holds. For every other
/// `m`, `sign` refuses (see [`Message::check_usage`]).
pub trait Signer {
    /// The key under which the signatures verify.
    fn public_key(&self) -> &PublicKey;

    /// What the key is for.
    fn usage(&self) -> KeyUsage;

    /// Signs `message`.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::Refused`] when the message does not fit the usage;
    /// [`crate::error::ErrorKind::External`] when the signer could not be reached.
    fn sign(&self, message: &Message) -> Result<Signature, Error>;
}

/// A signer with the private key in this process.
#[derive(Debug)]
pub struct LocalSigner {
    key: PrivateKey,
    usage: KeyUsage,
}

impl LocalSigner {
    /// Signs with `key`, for `usage` only.
    pub fn new(key: PrivateKey, usage: KeyUsage) -> Self {
        Self { key, usage }
    }

    /// The key, for messages that no [`Message`] holds.
    pub(super) fn key_for(&self, usage: KeyUsage) -> Result<&PrivateKey, Error> {
        usage.check(self.usage)?;
        Ok(&self.key)
    }
}

impl Signer for LocalSigner {
    fn public_key(&self) -> &PublicKey {
        self.key.public_key()
    }

    fn usage(&self) -> KeyUsage {
        self.usage
    }

    fn sign(&self, message: &Message) -> Result<Signature, Error> {
        message.check_usage(self.usage)?;
        Ok(self.key.sign_bytes(message.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::note::NoteText;

    fn messages() -> [Message; 6] {
        [
            Message::note(&NoteText::parse("example.com/log\n1\n").unwrap()),
            Message::note(&NoteText::parse("threadseal/observed/x\n1\n").unwrap()),
            Message::tagged("receipt", &[b"a"]),
            Message::tagged("threadseal/observed/1/receipt", &[b"a"]),
            Message::rye_hash(&Digest::of(b"a")),
            Message::of_turn(b"{\"turn\":0}".to_vec()),
        ]
    }

    #[test]
    fn each_usage_signs_only_its_own_messages() {
        for usage in KeyUsage::ALL {
            let signer = LocalSigner::new(PrivateKey::from_seed([3; 32]), usage);
            for message in messages() {
                let signed = signer.sign(&message);
                assert_eq!(
                    signed.is_ok(),
                    message.usage() == usage,
                    "{usage} {message:?}"
                );
                if let Ok(signature) = signed {
                    signer.public_key().verify(&message, &signature).unwrap();
                    for other in messages().iter().filter(|other| **other != message) {
                        assert!(signer.public_key().verify(other, &signature).is_err());
                    }
                }
            }
        }
    }

    #[test]
    fn the_signed_bytes_are_the_documented_ones() {
        let tagged = Message::tagged("t", &[b"p"]);
        assert_eq!(tagged.as_bytes().len(), 59);
        assert_eq!(&tagged.as_bytes()[..27], SEALED_DIGEST_DOMAIN);
        assert_eq!(
            &tagged.as_bytes()[27..],
            Digest::tagged("t", &[b"p"]).as_bytes()
        );
        let rye = Message::rye_hash(&Digest::of(b""));
        assert_eq!(rye.as_bytes(), Digest::of(b"").to_hex().as_bytes());
    }
}
