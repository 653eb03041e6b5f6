//! Messages that a key may sign. No key signs raw bytes.
//!
//! ```text
//! note      the text of a signed note (C2SP signed-note), unchanged: ends in LF, no byte below
//!           0x20, does not begin as a cosignature does
//! tagged    "threadseal/1 signed digest" 0x00  SHA-256-tagged(tag, parts)[32]     59 bytes
//! Rye hash  the 64 lower-case hex digits of a SHA-256 digest, as ASCII
//! turn      the canonical bytes of a scroll's turn: begins with `{` (JCS) or 0xa0..=0xbf (CBOR)
//! igor      a checkpoint of v0x04 without its signature: begins with 0x04; `long` signs it
//! cosign    "cosignature/v1" LF "time " decimal LF, the text of a checkpoint
//!           (C2SP tlog-cosignature)
//! ```
//! These messages never collide. A note ends in LF and holds no NUL. A tagged message has a NUL at
//! byte 26. A Rye hash has neither. No JCS text ends in LF. None of these begins with 0x04.
//!
//! A signature on one kind of message therefore never fits another kind. Rye's own scheme has that
//! flaw: it signs a bare digest, so a signature on a knowledge item also fits a transcript.
//!
//! | usage | signs |
//! |---|---|
//! | native | notes of neither of the rows below, and tagged messages outside their domains |
//! | observed | notes and tagged messages whose first line or tag begins with [`OBSERVED_DOMAIN`] |
//! | rye | Rye hashes, nothing else |
//! | scroll | turns of scrolls, and tagged messages whose tag begins with [`SCROLL_DOMAIN`] |
//! | igor | checkpoints of v0x04, and tagged messages whose tag begins with [`IGOR_DOMAIN`] |
//! | log | notes of the form of a checkpoint that do not begin with [`RECORD_DOMAIN`] |
//! | witness | cosignatures, nothing else |
//! | recovery | tagged messages whose tag begins with [`RECOVERY_DOMAIN`] |

use super::{PrivateKey, PublicKey, Signature};
use crate::digest::Digest;
use crate::error::Error;
use std::fmt;

/// The first bytes of notes and tags that mean "these bytes existed", not "this agent wrote them".
pub const OBSERVED_DOMAIN: &str = "threadseal/observed/";

/// The first bytes of tags of statements by keys that sign turns of scrolls.
pub const SCROLL_DOMAIN: &str = "threadseal/scroll/";

/// The first bytes of tags of statements by keys that sign checkpoints of v0x04.
pub const IGOR_DOMAIN: &str = "threadseal/igor/";

/// The first bytes of tags that mean "the next key of this identity is this one".
pub(super) const RECOVERY_DOMAIN: &str = "threadseal/recovery/";

/// The first bytes of notes about records, including seals and heads of ledgers. No log has such a
/// name.
pub const RECORD_DOMAIN: &str = "threadseal/";

/// The first line of the bytes that a cosignature signs (C2SP tlog-cosignature). No note's text
/// begins with it.
pub const COSIGNATURE_DOMAIN: &str = "cosignature/v1\n";

/// The prefix of the tagged digest in the bytes that are signed.
pub const SEALED_DIGEST_DOMAIN: &[u8; 27] = b"threadseal/1 signed digest\0";

/// The base64 of 32 bytes.
const ROOT_CHARACTERS: usize = 44;

/// The purpose of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyUsage {
    /// Sealing native records.
    Native,
    /// Rye's formats.
    Rye,
    /// Detached seals of logs that other programs wrote.
    Observed,
    /// Turns of scrolls.
    Scroll,
    /// igor's checkpoints of v0x04.
    Igor,
    /// Checkpoints of a transparency log.
    Log,
    /// Cosignatures of checkpoints that others signed.
    Witness,
    /// The next native key of an identity whose native key is lost or stolen. No record counts by
    /// such a key, so no trust store names it.
    Recovery,
}

impl KeyUsage {
    /// All usages that a trust store may name.
    pub const ALL: [Self; 7] = [
        Self::Native,
        Self::Rye,
        Self::Observed,
        Self::Scroll,
        Self::Igor,
        Self::Log,
        Self::Witness,
    ];

    /// `native`, `rye`, `observed`, `scroll`, `igor`, `log`, `witness` or `recovery`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Rye => "rye",
            Self::Observed => "observed",
            Self::Scroll => "scroll",
            Self::Igor => "igor",
            Self::Log => "log",
            Self::Witness => "witness",
            Self::Recovery => "recovery",
        }
    }

    /// Reads [`KeyUsage::as_str`]'s words; those of [`KeyUsage::ALL`].
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|usage| usage.as_str() == text)
    }

    /// Refuses unless a key of usage `of` may sign messages of this usage.
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

/// A message that may be signed. No constructor takes raw bytes.
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
            usage: usage_of_tag(tag),
        }
    }

    /// The bytes that Rye signs for content with this digest: its 64 hex digits.
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
            usage: usage_of_note(text),
        }
    }

    /// The message of a cosignature. Only [`crate::tlog`] calls this, with the text of a
    /// checkpoint.
    pub(crate) fn of_cosignature(time: u64, checkpoint: &str) -> Self {
        let text = format!("{COSIGNATURE_DOMAIN}time {time}\n{checkpoint}");
        Self {
            bytes: text.into_bytes(),
            usage: KeyUsage::Witness,
        }
    }

    /// The message of a scroll's turn. The caller vouches that `canonical` is the canonical text of
    /// a turn.
    ///
    /// Only the scrolls of `threadseal-formats` call this (a lint forbids it elsewhere).
    pub fn danger_of_turn(canonical: Vec<u8>) -> Self {
        Self {
            bytes: canonical,
            usage: KeyUsage::Scroll,
        }
    }

    /// The usage a key must have to sign this.
    pub fn usage(&self) -> KeyUsage {
        self.usage
    }

    /// Checks whether a key of `usage` may sign this. Every [`Signer`] must call it before it
    /// signs.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::Refused`] when the key may not.
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

fn usage_of_tag(tag: &str) -> KeyUsage {
    let domains = [
        (OBSERVED_DOMAIN, KeyUsage::Observed),
        (SCROLL_DOMAIN, KeyUsage::Scroll),
        (IGOR_DOMAIN, KeyUsage::Igor),
        (RECOVERY_DOMAIN, KeyUsage::Recovery),
    ];
    let own = domains.iter().find(|(domain, _)| tag.starts_with(domain));
    own.map_or(KeyUsage::Native, |(_, usage)| *usage)
}

fn usage_of_note(text: &str) -> KeyUsage {
    if text.starts_with(OBSERVED_DOMAIN) {
        KeyUsage::Observed
    } else if !text.starts_with(RECORD_DOMAIN) && has_form_of_checkpoint(text) {
        KeyUsage::Log
    } else {
        KeyUsage::Native
    }
}

/// Whether a reader could take this text for a checkpoint. `tlog` defines a checkpoint exactly;
/// this rule accepts more.
fn has_form_of_checkpoint(text: &str) -> bool {
    let mut lines = text.split('\n').skip(1);
    let (size, root) = (lines.next(), lines.next());
    let is_number = |size: &str| !size.is_empty() && size.bytes().all(|b| b.is_ascii_digit());
    size.is_some_and(is_number) && root.is_some_and(|root| root.len() == ROOT_CHARACTERS)
}

/// Signs messages. The private key may be in this process, in another, or in hardware.
///
/// For every `m` that fits the usage: `public_key().verify(m, &sign(m)?)` holds. For every other
/// `m`, `sign` refuses (see [`Message::check_usage`]).
pub trait Signer {
    /// The key under which the signatures verify.
    fn public_key(&self) -> &PublicKey;

    /// The purpose of the key.
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
    use crate::testing::signer;

    const ROOT: &str = "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=";

    fn note(text: &str) -> Message {
        Message::note(&NoteText::parse(text).unwrap())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the table has every kind of message"
    )]
    fn messages() -> Vec<Message> {
        let checkpoint = format!("example.com/log\n1\n{ROOT}\n");
        vec![
            note("example.com/log\n1\n"),
            note(&format!("threadseal/1/transcript/x\n1\n{ROOT}\nline 0\n")),
            note(&format!("threadseal/observed/x\n1\n{ROOT}\n")),
            note(&checkpoint),
            Message::of_cosignature(1, &checkpoint),
            Message::tagged("receipt", &[b"a"]),
            Message::tagged("threadseal/observed/1/receipt", &[b"a"]),
            Message::tagged("threadseal/recovery/1", &[b"a"]),
            Message::tagged("threadseal/scroll/1", &[b"a"]),
            Message::tagged("threadseal/igor/1", &[b"a"]),
            Message::rye_hash(&Digest::of(b"a")),
            Message::danger_of_turn(b"{\"turn\":0}".to_vec()),
        ]
    }

    // T-WIT-01
    #[test]
    fn what_could_be_read_as_a_checkpoint_of_a_log_is_signed_by_keys_of_logs_alone() {
        let log = |text: &str| note(text).usage() == KeyUsage::Log;
        for text in [
            format!("a\n0\n{ROOT}\n"),
            format!("a\n007\n{ROOT}\nmore\n\n"),
            format!("a\n1\n{}\n", "x".repeat(44)),
            format!("threadseal\n1\n{ROOT}\n"),
        ] {
            assert!(log(&text), "{text:?}");
        }
        for text in [
            format!("threadseal/1/ledger/0\n1\n{ROOT}\n"),
            format!("threadseal/\n1\n{ROOT}\n"),
            format!("a\n\n{ROOT}\n"),
            format!("a\n1 \n{ROOT}\n"),
            format!("a\n1\n{ROOT}=\n"),
            "a\n1\n".to_owned(),
            "a\n".to_owned(),
        ] {
            assert!(!log(&text), "{text:?}");
        }
    }

    // T-WIT-01
    #[test]
    fn no_note_begins_as_a_cosignature_does() {
        let checkpoint = format!("example.com/log\n1\n{ROOT}\n");
        let cosigned = Message::of_cosignature(7, &checkpoint);
        let text = std::str::from_utf8(cosigned.as_bytes()).unwrap();
        assert_eq!(text, format!("cosignature/v1\ntime 7\n{checkpoint}"));
        for text in [text, COSIGNATURE_DOMAIN] {
            assert!(NoteText::parse(text).is_err(), "{text:?}");
        }
        for begin in ["cosignature/v1 ", "cosignature/v10", "a\ncosignature/v1"] {
            assert!(NoteText::parse(&format!("{begin}\n")).is_ok(), "{begin:?}");
        }
    }

    // T-KEY-11 T-LIN-20 T-OBS-06 T-RYE-07
    #[test]
    fn each_usage_signs_only_its_own_messages() {
        for usage in KeyUsage::ALL.into_iter().chain([KeyUsage::Recovery]) {
            let signer = signer(3, usage);
            for message in messages() {
                let signed = signer.sign(&message);
                let own = message.usage() == usage;
                assert_eq!(signed.is_ok(), own, "{usage} {message:?}");
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
        let digest = Digest::tagged("t", &[b"p"]);
        assert_eq!(&tagged.as_bytes()[27..], digest.as_bytes());
        let rye = Message::rye_hash(&Digest::of(b""));
        assert_eq!(rye.as_bytes(), Digest::of(b"").to_hex().as_bytes());
    }
}
