//! The keys of Rye's trust folder, `.ai/config/keys/trusted/<fingerprint>.toml`.
//!
//! ```text
//! # rye:signed:<time>:<sha256>:<signature>:<fingerprint>[|<registry>@<user>]      first line
//! version = "1.0.0"
//! category = "keys/trusted"
//! fingerprint = "<16 hex>"
//! owner = "…"
//! attestation = "…"
//! [public_key]
//! pem = """…"""
//! ```
//! `sha256` covers everything after the first line. `signature` covers its 64 hex digits
//! (base64url, padded or not). Rye reads text with universal newlines, so CR LF and CR count as LF
//! throughout. The fingerprint is computed again from the PEM text, without the blanks around it
//! and with one LF appended.
//!
//! Rye accepts unsigned key files, and files signed by the very key inside. So Rye trusts anyone
//! who can write a file into the folder. A [`TrustSet`] accepts a file only if its name is its
//! fingerprint and the owner's key signed it. If the caller knows no owner's key, the only
//! self-signed key of the folder takes its place. The signature does not cover time and registry.

pub mod fields;

use super::{TrustName, TrustStore, TrustedKey};
use crate::digest::Digest;
use crate::error::Error;
use crate::key::{KeyUsage, Message, PublicKey, RyeFingerprint, Signature};
use crate::limits::{MAX_KEY_FILE_BYTES, MAX_RYE_KEY_FILES, MAX_TRUST_TEXT_BYTES};
use crate::time::Timestamp;
use fields::Fields;
use serde::Deserialize;

/// The text before the signature in the first line.
const COMMENT: &str = "# ";

/// The fields of a `rye:signed:` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureLine {
    /// The signer's time; the signature does not cover it.
    pub time: Timestamp,
    /// SHA-256 of the content.
    pub hash: Digest,
    /// The signature of the hash's 64 hex digits.
    pub signature: Signature,
    /// The signer's key, as a hint.
    pub fingerprint: RyeFingerprint,
    /// `registry@user`, added after signing; the signature does not cover it.
    pub provenance: Option<String>,
}

impl SignatureLine {
    /// Reads `rye:signed:<time>:<sha256>:<signature>:<fingerprint>[|<registry>@<user>]`, to its
    /// end.
    ///
    /// Impossible dates, other spellings of the signature and anything after the last field are
    /// refused, though Rye accepts them.
    pub fn parse(text: &str) -> Option<Self> {
        let fields = Fields::read(text).filter(|fields| fields.len == text.len())?;
        let fits = |word: &str| word.len() <= MAX_TRUST_TEXT_BYTES;
        let provenance = match fields.provenance {
            Some((registry, user)) if fits(registry) && fits(user) => {
                Some(format!("{registry}@{user}"))
            }
            Some(_) => return None,
            None => None,
        };
        Some(Self {
            time: fields.moment()?,
            hash: fields.digest()?,
            signature: fields.signature_bytes()?,
            fingerprint: RyeFingerprint::parse_hex(fields.fingerprint)?,
            provenance,
        })
    }

    /// Whether the signature is `key`'s, over `hash`. The content is not checked.
    pub fn is_by(&self, key: &PublicKey) -> bool {
        key.verify(&Message::rye_hash(&self.hash), &self.signature)
            .is_ok()
    }
}

/// One key file with a correct fingerprint. The type alone proves no signer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RyeTrustedKey {
    /// The fingerprint, computed from the key.
    pub fingerprint: RyeFingerprint,
    /// The owner that the file names.
    pub owner: String,
    /// The key.
    pub key: PublicKey,
    /// Free text.
    pub attestation: String,
    /// The signature line, when there is one.
    pub header: Option<SignatureLine>,
    /// SHA-256 of everything after the signature line, or of the whole file without one.
    pub content: Digest,
}

impl RyeTrustedKey {
    /// Whether `key` signed the file, and the file is unchanged since.
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        self.header
            .as_ref()
            .is_some_and(|header| header.hash == self.content && header.is_by(key))
    }
}

#[derive(Deserialize)]
struct File {
    version: String,
    category: String,
    fingerprint: String,
    owner: String,
    #[serde(default)]
    attestation: String,
    public_key: PublicKeyTable,
}

#[derive(Deserialize)]
struct PublicKeyTable {
    pem: String,
}

/// Reads a key file. Its signature is parsed, not checked.
///
/// # Errors
/// [`crate::error::ErrorKind::Key`] when it is not a key file, or the fingerprint is not the key's.
/// Also when a first line begins like a signature and is none.
pub fn parse_trusted_key(bytes: &[u8]) -> Result<RyeTrustedKey, Error> {
    if bytes.len() > MAX_KEY_FILE_BYTES {
        return Err(Error::key("the key file is too large"));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| Error::key("the key file is not UTF-8"))?;
    let text = universal_newlines(text);
    let (header, content) = split_header(&text)?;
    // The parser's message would repeat text of the file, which an attacker may have written.
    let file: File = toml::from_str(content).map_err(|_| {
        Error::key("not a Rye key file: bad TOML, or a member is missing or of another type")
    })?;
    if file.version.is_empty() || file.category.is_empty() {
        return Err(Error::key("the key file's version or category is empty"));
    }
    let key = PublicKey::from_pem(&file.public_key.pem)?;
    let fingerprint = RyeFingerprint::of_pem(&file.public_key.pem);
    if RyeFingerprint::parse_hex(&file.fingerprint) != Some(fingerprint) {
        return Err(Error::key(
            "the key file's fingerprint does not match its key",
        ));
    }
    Ok(RyeTrustedKey {
        fingerprint,
        owner: file.owner,
        key,
        attestation: file.attestation,
        header,
        content: Digest::of(content.as_bytes()),
    })
}

fn universal_newlines(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

fn split_header(text: &str) -> Result<(Option<SignatureLine>, &str), Error> {
    let signature = text.strip_prefix(COMMENT);
    let Some(rest) = signature.filter(|rest| rest.starts_with(fields::PREFIX)) else {
        return Ok((None, text));
    };
    let header = rest
        .split_once('\n')
        .and_then(|(line, content)| Some((SignatureLine::parse(line)?, content)));
    match header {
        Some((line, content)) => Ok((Some(line), content)),
        None => Err(Error::key("the key file's signature line is malformed")),
    }
}

/// A file that was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedKeyFile {
    /// Its name, as given.
    pub file: String,
    /// The reason, in one sentence.
    pub why: String,
}

/// The keys of one trust folder that its owner's signature vouches for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustSet {
    own: Option<PublicKey>,
    keys: Vec<RyeTrustedKey>,
    refused: Vec<RefusedKeyFile>,
}

impl TrustSet {
    /// Reads a folder: `own` is the owner's public key as PEM, when known; `files` are name
    /// (`<fingerprint>.toml`) and content.
    ///
    /// Without `own` the folder must contain exactly one self-signed key, which then vouches for
    /// the rest. The caller vouches for the folder. With several such keys the owner's key is
    /// unknown, and all files are refused.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::Key`] when `own` is not a public key, or there are more than
    /// [`MAX_RYE_KEY_FILES`] files. A bad file is no error: see [`TrustSet::refused`].
    pub fn load(own: Option<&str>, files: &[(&str, &[u8])]) -> Result<Self, Error> {
        if files.len() > MAX_RYE_KEY_FILES {
            return Err(Error::key("the trust folder holds too many files"));
        }
        let mut set = Self {
            own: own.map(PublicKey::from_pem).transpose()?,
            ..Self::default()
        };
        let mut read = Vec::new();
        for (file, bytes) in files {
            match read_named(file, bytes) {
                Ok(key) => read.push((*file, key)),
                Err(error) => set.refuse(file, error.to_string()),
            }
        }
        let root = set.own.ok_or(()).or_else(|()| sole_self_signed(&read));
        for (file, key) in read {
            match &root {
                _ if key.header.is_none() => set.refuse(file, "the key file is not signed"),
                Err(why) => set.refuse(file, *why),
                Ok(root) if key.is_signed_by(root) => set.keys.push(key),
                Ok(_) => set.refuse(file, "the key file is not signed by the owner's key"),
            }
        }
        Ok(set)
    }

    fn refuse(&mut self, file: &str, why: impl Into<String>) {
        self.refused.push(RefusedKeyFile {
            file: file.to_owned(),
            why: why.into(),
        });
    }

    /// The owner's key, when the caller gave it.
    pub fn own(&self) -> Option<&PublicKey> {
        self.own.as_ref()
    }

    /// The accepted key files, in the given order.
    pub fn keys(&self) -> &[RyeTrustedKey] {
        &self.keys
    }

    /// The refused files, each with its reason.
    pub fn refused(&self) -> &[RefusedKeyFile] {
        &self.refused
    }

    /// A store that trusts the accepted keys, and the owner's, for Rye signatures.
    ///
    /// The names are `rye:<fingerprint>`. The owners, which are free text, become notes.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::InvalidInput`] when two accepted keys share a fingerprint.
    pub fn to_store(&self) -> Result<TrustStore, Error> {
        let mut store = TrustStore::new();
        let keys = self.keys.iter().map(|file| (file.key, Some(&file.owner)));
        for (key, owner) in self.own.iter().map(|key| (*key, None)).chain(keys) {
            if store.by_key(&key).next().is_some() {
                continue;
            }
            let name = TrustName::parse(&format!("rye:{}", key.rye_fingerprint()))?;
            let mut entry = TrustedKey::new(name, key, [KeyUsage::Rye]);
            entry.note = owner.map(|owner| one_line(owner));
            store.add(entry)?;
        }
        Ok(store)
    }
}

fn read_named(file: &str, bytes: &[u8]) -> Result<RyeTrustedKey, Error> {
    let stem = file
        .strip_suffix(".toml")
        .ok_or_else(|| Error::key("a key file's name ends in .toml"))?;
    let key = parse_trusted_key(bytes)?;
    if RyeFingerprint::parse_hex(stem) != Some(key.fingerprint) {
        return Err(Error::key("the key file's name is not its fingerprint"));
    }
    Ok(key)
}

fn sole_self_signed(read: &[(&str, RyeTrustedKey)]) -> Result<PublicKey, &'static str> {
    let mut own = read.iter().filter(|(_, key)| key.is_signed_by(&key.key));
    match (own.next(), own.next()) {
        (Some((_, only)), None) => Ok(only.key),
        (None, _) => Err("no key of the folder is self-signed; hint: give the owner's public key"),
        (Some(_), Some(_)) => {
            Err("several keys of the folder are self-signed; hint: give the owner's public key")
        }
    }
}

/// Free text as one bounded line.
fn one_line(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars().map(|c| if c.is_control() { ' ' } else { c }) {
        if out.len() + c.len_utf8() > MAX_TRUST_TEXT_BYTES {
            break;
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests;
