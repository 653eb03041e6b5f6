//! Signed notes: text with signature lines (C2SP signed-note v1.0.0).
//!
//! ```text
//! text                                   UTF-8, ends in LF, may hold blank lines
//! LF                                     the last blank line of the file ends the text
//! — <name> <base64( id[4] ‖ signature )> LF      one to MAX_NOTE_SIGNATURES lines
//! ```
//! "—" is U+2014, the blanks are U+0020, base64 is RFC 4648 §4 with padding and zero trailing bits.
//! No byte below 0x20 occurs except LF. The text's first line is not that of a cosignature. A name
//! is not empty and holds no Unicode blank and no "+". For Ed25519 (type 0x01) the signature is
//! over the text and `id = SHA-256(name ‖ 0x0a ‖ 0x01 ‖ key)[..4]`.
//!
//! Each note has one text: `parse(x)?.to_string() == x`. An id is a hint of 32 bits. Lines of
//! unknown keys are ignored, even when they share a name or an id with a known key. A line that
//! names a known key by both name and id must verify, else the whole note is refused.

mod name;

pub use name::{KeyName, note_key_id, parse_vkey, vkey};
pub(crate) use name::{parse_typed_vkey, typed_key_id, typed_vkey};

use crate::encoding;
use crate::error::Error;
use crate::key::{COSIGNATURE_DOMAIN, Message, PublicKey, Signature, Signer};
use crate::limits::{MAX_NOTE_BYTES, MAX_NOTE_SIGNATURE_BYTES, MAX_NOTE_SIGNATURES};
use std::fmt;

const SIGNATURE_PREFIX: &str = "\u{2014} ";

/// Why a text is not a note, or proves nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoteError {
    /// It does not follow the format; the text names the place.
    Malformed(&'static str),
    /// A line names this known key by name and id, and its signature does not verify.
    BadSignature(KeyName),
    /// No known key signed it.
    NoKnownSigner,
}

impl fmt::Display for NoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(why) => write!(f, "not a signed note: {why}"),
            Self::BadSignature(name) => write!(f, "the note's signature by {name} does not verify"),
            Self::NoKnownSigner => f.write_str("no known key signed the note"),
        }
    }
}

impl std::error::Error for NoteError {}

/// The text of a note: not empty, ends in LF, at most [`MAX_NOTE_BYTES`].
///
/// It contains no other byte below 0x20, and does not begin with [`COSIGNATURE_DOMAIN`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteText(String);

impl NoteText {
    /// Checks and takes `text`.
    ///
    /// # Errors
    /// [`NoteError::Malformed`].
    pub fn parse(text: &str) -> Result<Self, NoteError> {
        if text.len() > MAX_NOTE_BYTES {
            return Err(NoteError::Malformed("the text is too long"));
        }
        if !text.ends_with('\n') {
            return Err(NoteError::Malformed("the text does not end in a newline"));
        }
        if text.bytes().any(|b| b < 0x20 && b != b'\n') {
            return Err(NoteError::Malformed("the text holds a control character"));
        }
        if text.starts_with(COSIGNATURE_DOMAIN) {
            return Err(NoteError::Malformed(
                "the text begins like the message that a witness signs",
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The lines without their LF.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.0[..self.0.len() - 1].split('\n')
    }
}

impl Message {
    /// The message of a note: its text.
    pub fn note(text: &NoteText) -> Self {
        Self::of_note_text(&text.0)
    }
}

/// One signature line, of any algorithm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteSignature {
    name: KeyName,
    id: [u8; 4],
    signature: Vec<u8>,
}

impl NoteSignature {
    /// Signs `text` under `name` with an Ed25519 key.
    ///
    /// # Errors
    /// Those of [`Signer::sign`].
    pub fn sign(text: &NoteText, name: &KeyName, signer: &dyn Signer) -> Result<Self, Error> {
        let signature = signer.sign(&Message::note(text))?;
        Ok(Self {
            name: name.clone(),
            id: note_key_id(name, signer.public_key()),
            signature: signature.as_bytes().to_vec(),
        })
    }

    /// A line of a key of another type; id and signature have at most [`MAX_NOTE_SIGNATURE_BYTES`].
    pub(crate) fn of(name: KeyName, id: [u8; 4], signature: Vec<u8>) -> Self {
        Self {
            name,
            id,
            signature,
        }
    }

    /// Reads a line without its LF.
    pub(crate) fn parse(line: &str) -> Result<Self, NoteError> {
        let (name, blob) = line
            .strip_prefix(SIGNATURE_PREFIX)
            .and_then(|rest| rest.split_once(' '))
            .ok_or(NoteError::Malformed("a signature line is malformed"))?;
        let name = KeyName::parse(name)?;
        // The length is bounded before decoding, and checked exactly after it.
        let blob = Some(blob)
            .filter(|blob| blob.len() <= MAX_NOTE_SIGNATURE_BYTES.div_ceil(3) * 4)
            .map(encoding::parse_base64)
            .ok_or(NoteError::Malformed("a signature is too long"))?
            .ok_or(NoteError::Malformed("a signature is not strict base64"))?;
        if blob.len() > MAX_NOTE_SIGNATURE_BYTES {
            return Err(NoteError::Malformed("a signature is too long"));
        }
        match blob.split_first_chunk::<4>() {
            Some((id, signature)) if !signature.is_empty() => Ok(Self {
                name,
                id: *id,
                signature: signature.to_vec(),
            }),
            _ => Err(NoteError::Malformed("a signature is too short")),
        }
    }

    /// The name of the key, as the line claims.
    pub fn name(&self) -> &KeyName {
        &self.name
    }

    /// The 32-bit id of the key, as the line claims.
    pub fn id(&self) -> [u8; 4] {
        self.id
    }

    /// The signature's bytes: 64 for Ed25519.
    pub fn signature(&self) -> &[u8] {
        &self.signature
    }

    fn claims(&self, name: &KeyName, key: &PublicKey) -> bool {
        self.name == *name && self.id == note_key_id(name, key)
    }

    fn is_by(&self, text: &Message, key: &PublicKey) -> bool {
        Signature::from_slice(&self.signature)
            .is_some_and(|signature| key.verify(text, &signature).is_ok())
    }
}

impl fmt::Display for NoteSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blob = [&self.id, self.signature.as_slice()].concat();
        writeln!(
            f,
            "{SIGNATURE_PREFIX}{} {}",
            self.name,
            encoding::base64(&blob)
        )
    }
}

/// Text and its signature lines. The type alone proves no signer: call [`SignedNote::verify`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedNote {
    text: NoteText,
    signatures: Vec<NoteSignature>,
}

/// Signs `text` under `name`: a note with one signature line.
///
/// # Errors
/// Those of [`Signer::sign`].
pub fn sign(text: NoteText, name: &KeyName, signer: &dyn Signer) -> Result<SignedNote, Error> {
    let signatures = vec![NoteSignature::sign(&text, name, signer)?];
    Ok(SignedNote { text, signatures })
}

impl SignedNote {
    /// Reads a note.
    ///
    /// # Errors
    /// [`NoteError::Malformed`].
    pub fn parse(note: &str) -> Result<Self, NoteError> {
        // The two LFs are the one that ends the text and the blank line; the last pair counts.
        let end = note
            .rfind("\n\n")
            .ok_or(NoteError::Malformed("no blank line ends the text"))?;
        let text = NoteText::parse(&note[..=end])?;
        let lines = note[end + 2..]
            .strip_suffix('\n')
            .ok_or(NoteError::Malformed(
                "the last signature line does not end in a newline",
            ))?;
        let signatures: Vec<_> = lines
            .split('\n')
            .take(MAX_NOTE_SIGNATURES + 1)
            .map(NoteSignature::parse)
            .collect::<Result<_, _>>()?;
        if signatures.len() > MAX_NOTE_SIGNATURES {
            return Err(NoteError::Malformed("too many signatures"));
        }
        Ok(Self { text, signatures })
    }

    /// A note with this one line.
    pub(crate) fn of(text: NoteText, line: NoteSignature) -> Self {
        Self {
            text,
            signatures: vec![line],
        }
    }

    /// Adds a line.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::Limit`] beyond [`MAX_NOTE_SIGNATURES`].
    pub fn add(&mut self, signature: NoteSignature) -> Result<(), Error> {
        if self.signatures.len() >= MAX_NOTE_SIGNATURES {
            return Err(Error::new(
                crate::error::ErrorKind::Limit,
                format!("a note has at most {MAX_NOTE_SIGNATURES} signatures"),
            ));
        }
        self.signatures.push(signature);
        Ok(())
    }

    /// The text.
    pub fn text(&self) -> &NoteText {
        &self.text
    }

    /// The signature lines, in the note's order, at least one.
    pub fn signatures(&self) -> &[NoteSignature] {
        &self.signatures
    }

    /// Which of the `known` keys signed this note: at least one, each once, in the order of
    /// `known`.
    ///
    /// # Errors
    /// [`NoteError::BadSignature`] when a line has the name and id of known keys, and none of these
    /// keys verifies it. [`NoteError::NoKnownSigner`] when no known key signed.
    pub fn verify<'k>(
        &self,
        known: &'k [(KeyName, PublicKey)],
    ) -> Result<Vec<&'k (KeyName, PublicKey)>, NoteError> {
        let message = Message::note(&self.text);
        let mut signed = vec![false; known.len()];
        for line in &self.signatures {
            let mut claimed = false;
            let mut verified = false;
            for (signed, (name, key)) in signed.iter_mut().zip(known) {
                if line.claims(name, key) {
                    claimed = true;
                    if line.is_by(&message, key) {
                        verified = true;
                        *signed = true;
                    }
                }
            }
            if claimed && !verified {
                return Err(NoteError::BadSignature(line.name.clone()));
            }
        }
        let signers: Vec<_> = known
            .iter()
            .zip(signed)
            .filter_map(|(key, signed)| signed.then_some(key))
            .collect();
        if signers.is_empty() {
            return Err(NoteError::NoKnownSigner);
        }
        Ok(signers)
    }
}

impl fmt::Display for SignedNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text.0)?;
        self.signatures.iter().try_for_each(|line| line.fmt(f))
    }
}

#[cfg(test)]
mod tests;
