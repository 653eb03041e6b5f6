//! The keys of a home, by name and usage.
//!
//! ```text
//! keys/NAME.USAGE.key, keys/NAME.USAGE.pub      self.native, self-rye.rye, …
//! ```
//! The usage is part of the file's name, so that a key can be found and refused for a purpose without its passphrase.

use crate::clean::Clean;
use crate::error::VerifyError;
use crate::notices::Notices;
use std::fmt;
use std::path::PathBuf;
use threadseal_core::key::{KeyId, KeyUsage, PrivateKey, PublicKey};
use threadseal_core::trust::{TrustName, TrustStore};
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

/// The end of the name that a new key has until a rotation gives it the name of the old one.
pub const NEXT: &str = "-next";

/// Why a key of a home must not seal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyFault {
    /// The home trusts another key under this name: an attacker exchanged the files.
    Exchanged {
        /// The name.
        name: String,
        /// The key in the file.
        is: KeyId,
        /// The key that the home trusts under the name.
        trusted: KeyId,
    },
    /// The home trusts a key of this name, and neither of its files is there.
    Gone {
        /// The name.
        name: String,
        /// Where its private half belongs.
        path: PathBuf,
    },
    /// Only the public half is there.
    PrivateLost {
        /// The name.
        name: String,
        /// Where its private half belongs.
        path: PathBuf,
    },
    /// Another key file has the same key for another usage.
    TwoUsages {
        /// Name and usage.
        one: (String, KeyUsage),
        /// Name and usage of the other file.
        other: (String, KeyUsage),
    },
}

impl fmt::Display for KeyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exchanged { name, is, trusted } => {
                let name = Clean(name);
                write!(
                    f,
                    "the key {name} is {is}, but this home trusts {trusted} under that name: its files were exchanged; \
                     hint: restore the files of {trusted}, or see threadseal key list and threadseal trust list"
                )
            }
            Self::Gone { name, path } => {
                let (name, path) = (Clean(name), path.to_string_lossy());
                write!(
                    f,
                    "both halves of the key {name} are gone, which this home trusts; hint: restore {}, or replace the \
                     key: threadseal key rotate {name} --anyway",
                    Clean(&path)
                )
            }
            Self::PrivateLost { name, path } => {
                let (name, path) = (Clean(name), path.to_string_lossy());
                write!(
                    f,
                    "the private half of the key {name} is gone; hint: restore {}, or replace the key: \
                     threadseal key rotate {name} --anyway",
                    Clean(&path)
                )
            }
            Self::TwoUsages { one, other } => write!(
                f,
                "the keys {} ({}) and {} ({}) are one key, and a key has one usage; hint: move one of their files away",
                Clean(&one.0),
                one.1,
                Clean(&other.0),
                other.1
            ),
        }
    }
}

/// Why the key of this name and usage must not seal, if so. `keys` are all of the home, and `is_own`
/// is true where the home itself made the key under this name.
pub fn fault_of(
    home: &Home,
    (name, usage): (&str, KeyUsage),
    is_own: bool,
    keys: &[OwnKey],
    store: &TrustStore,
) -> Option<KeyFault> {
    let named = TrustName::parse(name).ok().filter(|_| is_own);
    let trusted = named.and_then(|name| store.by_name(&name));
    let trusted = trusted.filter(|entry| entry.usage.contains(&usage));
    let path = || {
        let file = KeyFileName::parse(&format!("{name}.{usage}")).ok();
        file.map_or_else(PathBuf::new, |file| home.keys().private_path(&file))
    };
    let name = name.to_owned();
    let Some(key) = keys.iter().find(|key| key.name == name) else {
        let path = path();
        return trusted.map(|_| KeyFault::Gone { name, path });
    };
    if let Some(trusted) = trusted.filter(|trusted| trusted.key != key.public) {
        // A rotation was interrupted after the trust passed to the next key.
        let next = format!("{name}{NEXT}");
        if !keys
            .iter()
            .any(|key| key.name == next && key.public == trusted.key)
        {
            let (is, trusted) = (key.public.key_id(), trusted.key.key_id());
            return Some(KeyFault::Exchanged { name, is, trusted });
        }
    }
    let same = |other: &&OwnKey| other.public == key.public && other.usage != key.usage;
    if let Some(other) = keys.iter().find(same) {
        let (one, other) = ((name, key.usage), (other.name.clone(), other.usage));
        return Some(KeyFault::TwoUsages { one, other });
    }
    let path = path();
    (!key.has_private).then_some(KeyFault::PrivateLost { name, path })
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
