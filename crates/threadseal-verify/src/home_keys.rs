//! The keys of a home, by name and usage.
//!
//! ```text
//! keys/NAME.USAGE.key, keys/NAME.USAGE.pub      self.native, self-rye.rye, …
//! ```
//! The usage is part of the file's name, so that a key can be found and refused for a purpose without its passphrase.

use crate::error::VerifyError;
use crate::notices::Notices;
use threadseal_core::key::{KeyUsage, PrivateKey, PublicKey};
use threadseal_store::home::{Home, KeyEntry, KeyFileName, KeyFiles};
use zeroize::Zeroizing;

/// A key of a home.
#[derive(Debug, Clone)]
pub struct OwnKey {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub usage: KeyUsage,
    /// The public half.
    pub public: PublicKey,
    /// Is the private half here?
    pub has_private: bool,
    /// The stem of its files.
    pub file: KeyFileName,
}

/// All keys of `home`, by name.
///
/// # Errors
/// When a key file cannot be read or is damaged.
pub fn list(home: &Home, notices: &dyn Notices) -> Result<Vec<OwnKey>, VerifyError> {
    let files = home.keys();
    let mut keys = Vec::new();
    for entry in files.list()? {
        let stem = entry.name.as_str();
        let Some((name, usage)) = stem.rsplit_once('.') else {
            continue;
        };
        let Some(usage) = KeyUsage::parse(usage) else {
            continue;
        };
        let Some(public) = public_half(&files, &entry, notices)? else {
            continue;
        };
        keys.push(OwnKey {
            name: name.to_owned(),
            usage,
            public,
            has_private: entry.has_private,
            file: entry.name.clone(),
        });
    }
    // A dot sorts after a dash, so the files' order is not the names'.
    keys.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(keys)
}

/// The public half; of a key whose making was cut short, from its private half.
fn public_half(
    files: &KeyFiles,
    entry: &KeyEntry,
    notices: &dyn Notices,
) -> Result<Option<PublicKey>, VerifyError> {
    if entry.has_public {
        let path = files.public_path(&entry.name);
        let public = PublicKey::parse_any(files.read_public(&entry.name)?)
            .map_err(|error| VerifyError::from(error).about(&path))?;
        return Ok(Some(public));
    }
    let pem = Zeroizing::new(files.read_private(&entry.name)?);
    let path = files.private_path(&entry.name);
    let text = std::str::from_utf8(&pem)
        .map_err(|_| VerifyError::refused("not UTF-8 text").about(&path))?;
    let opened = PrivateKey::from_pem(text).ok().map(|key| *key.public_key());
    if opened.is_none() {
        notices.note(&format!(
            "{} has no public half beside it and is skipped",
            path.display()
        ));
    }
    Ok(opened)
}
