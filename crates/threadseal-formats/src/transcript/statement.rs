//! The note inside a sealed line: a native checkpoint and an observed seal both sign it.
//!
//! ```text
//! origin LF lines LF base64(root) LF "line " hex(line digest) LF LF
//! "— " origin " " base64(id‖sig) LF
//! ```
//! A C2SP signed note whose text is a tlog-checkpoint of the lines before. One extension line binds
//! the sealed line itself. In the line it is a JSON string: LF is `\n`, U+2014 `\u2014`.

use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::error::Error;
use threadseal_core::key::{Message, PublicKey, Signature, Signer};
use threadseal_core::note::{KeyName, NoteText, note_key_id};

/// The values that a sealed line states.
pub(crate) struct Statement<'a> {
    pub(crate) origin: &'a KeyName,
    pub(crate) lines: u64,
    pub(crate) root: Digest,
    /// Tagged digest of the line up to the note's opening quote.
    pub(crate) line: Digest,
}

/// A note with exactly these values; its signature is not yet verified.
#[derive(Clone)]
pub(crate) struct LineNote {
    message: Message,
    key_hash: [u8; 4],
    signature: Signature,
    origin: KeyName,
}

impl Statement<'_> {
    fn text(&self) -> String {
        let root = encoding::base64(self.root.as_bytes());
        format!(
            "{}\n{}\n{root}\nline {}\n",
            self.origin.as_str(),
            self.lines,
            self.line
        )
    }

    /// The note in its JSON spelling, up to the signature.
    fn spelling(&self, text: &str) -> String {
        format!(
            "{}\\n\\u2014 {} ",
            text.replace('\n', "\\n"),
            self.origin.as_str()
        )
    }

    /// Reads a note in its JSON spelling, without its last `\n`; `None` unless it states these
    /// values.
    pub(crate) fn read(&self, note: &[u8]) -> Option<LineNote> {
        let text = self.text();
        let blob = note.strip_prefix(self.spelling(&text).as_bytes())?;
        let blob = encoding::parse_base64(std::str::from_utf8(blob).ok()?)?;
        let (key_hash, signature) = blob.split_first_chunk::<4>()?;
        Some(LineNote {
            message: Message::note(&NoteText::parse(&text).ok()?),
            key_hash: *key_hash,
            signature: Signature::from_slice(signature)?,
            origin: self.origin.clone(),
        })
    }

    /// Signs, and returns the note in its JSON spelling, without its last `\n`.
    ///
    /// # Errors
    /// Errors of `signer`.
    pub(crate) fn sign(&self, signer: &dyn Signer) -> Result<String, Error> {
        let text = self.text();
        let checked = NoteText::parse(&text).map_err(|e| Error::invalid(e.to_string()))?;
        let signature = signer.sign(&Message::note(&checked))?;
        let mut blob = note_key_id(self.origin, signer.public_key()).to_vec();
        blob.extend_from_slice(signature.as_bytes());
        Ok(format!(
            "{}{}",
            self.spelling(&text),
            encoding::base64(&blob)
        ))
    }
}

impl LineNote {
    /// Does the signature hold under `key`?
    pub(crate) fn holds(&self, key: &PublicKey) -> bool {
        self.key_hash == note_key_id(&self.origin, key)
            && key.verify(&self.message, &self.signature).is_ok()
    }
}
