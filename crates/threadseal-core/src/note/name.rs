//! Names of note keys, and the text form of a note key.
//!
//! ```text
//! id    SHA-256( name ‖ 0x0a ‖ type ‖ key )[..4]
//! vkey  <name>+<8 hex of id>+<base64( type ‖ key )>
//! ```
//! Type 0x01 is Ed25519 with 32 bytes of key; [`crate::tlog`] defines others.
//! (C2SP signed-note v1.0.0, "Signatures"; the vkey text is Go's `sumdb/note`.)

use super::NoteError;
use crate::digest::Hasher;
use crate::encoding;
use crate::error::Error;
use crate::key::PublicKey;
use crate::limits::{MAX_KEY_NAME_BYTES, MAX_NOTE_KEY_BYTES};
use std::fmt;

/// C2SP signed-note, "Signature types": Ed25519.
const ED25519_TYPE: u8 = 0x01;

/// The name of a note key: 1 to [`MAX_KEY_NAME_BYTES`] bytes, no Unicode blank, no "+", nothing
/// below 0x20.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName(String);

impl KeyName {
    /// Checks and takes `text`.
    ///
    /// # Errors
    /// [`NoteError::Malformed`].
    pub fn parse(text: &str) -> Result<Self, NoteError> {
        let forbidden = |c: char| c.is_whitespace() || c == '+' || c < ' ';
        if text.is_empty() || text.len() > MAX_KEY_NAME_BYTES || text.contains(forbidden) {
            return Err(NoteError::Malformed(
                "a key name is empty, too long, or holds a blank, a plus or a control character",
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The 32-bit id of an Ed25519 key under a name. It is only a hint; keys may share it.
pub fn note_key_id(name: &KeyName, key: &PublicKey) -> [u8; 4] {
    typed_key_id(name, ED25519_TYPE, key.as_bytes())
}

/// The 32-bit id of a key of any type under a name.
pub(crate) fn typed_key_id(name: &KeyName, kind: u8, key: &[u8]) -> [u8; 4] {
    let mut hasher = Hasher::new();
    hasher.update(name.0.as_bytes());
    hasher.update(&[b'\n', kind]);
    hasher.update(key);
    let mut id = [0; 4];
    id.copy_from_slice(&hasher.finish().as_bytes()[..4]);
    id
}

/// The key in the text form of note tools.
pub fn vkey(name: &KeyName, key: &PublicKey) -> String {
    typed_vkey(name, ED25519_TYPE, key.as_bytes())
}

/// A key of any type as that text.
pub(crate) fn typed_vkey(name: &KeyName, kind: u8, key: &[u8]) -> String {
    let id = encoding::hex(&typed_key_id(name, kind, key));
    let typed = [&[kind], key].concat();
    format!("{name}+{id}+{}", encoding::base64(&typed))
}

/// Reads an Ed25519 [`vkey`].
///
/// # Errors
/// [`crate::error::ErrorKind::Key`] when it is anything else, or when the id does not fit name and
/// key.
pub fn parse_vkey(text: &str) -> Result<(KeyName, PublicKey), Error> {
    let refuse = || Error::key("not the verifier key of an Ed25519 note key (name+id+base64)");
    match parse_typed_vkey(text) {
        Some((name, ED25519_TYPE, key)) => {
            let key = <&[u8; 32]>::try_from(key.as_slice()).map_err(|_| refuse())?;
            Ok((name, PublicKey::from_bytes(key)?))
        }
        _ => Err(refuse()),
    }
}

/// Reads the text of a key of any type: its name, type and bytes. The id fits them.
pub(crate) fn parse_typed_vkey(text: &str) -> Option<(KeyName, u8, Vec<u8>)> {
    // Base64 holds "+" too: only the first two separate.
    let mut parts = text.splitn(3, '+');
    let (name, id, typed) = (parts.next()?, parts.next()?, parts.next()?);
    if typed.len() > MAX_NOTE_KEY_BYTES.div_ceil(3) * 4 {
        return None;
    }
    let name = KeyName::parse(name).ok()?;
    let typed = encoding::parse_base64(typed)?;
    let (kind, key) = typed.split_first()?;
    let fits = encoding::parse_hex_array(id)? == typed_key_id(&name, *kind, key);
    fits.then(|| (name, *kind, key.to_vec()))
}
