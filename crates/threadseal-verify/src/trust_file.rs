//! Trust files: the trust store of a home, and files with public keys.

use crate::error::VerifyError;
use std::path::Path;
use threadseal_core::identity::Identity;
use threadseal_core::key::PublicKey;
use threadseal_core::limits::{MAX_IDENTITY_BYTES, MAX_KEY_FILE_BYTES};
use threadseal_core::trust::TrustStore;
use threadseal_core::trust::rye;
use threadseal_store::home::Home;
use threadseal_store::read::{open_regular, read_small};
use threadseal_store::sys::Fs;

/// Reads the home's trust store.
///
/// # Errors
/// When it cannot be read, others could have written it, or it is damaged.
pub fn of_home(home: &Home) -> Result<TrustStore, VerifyError> {
    match home.read_trust()? {
        None => Ok(TrustStore::new()),
        Some(bytes) => parse_store(&bytes).map_err(|error| error.about(&home.trust_path())),
    }
}

/// The identity in a file; None where the file has something else.
///
/// # Errors
/// When the file cannot be read, or begins as an identity and is none.
pub fn read_identity(path: &Path, fs: &dyn Fs) -> Result<Option<Identity>, VerifyError> {
    let file = open_regular(fs, path)?;
    if file.size() > MAX_IDENTITY_BYTES as u64 {
        return Ok(None);
    }
    let bytes = read_small(fs, path, MAX_IDENTITY_BYTES)?;
    if !Identity::is_likely(&bytes) {
        return Ok(None);
    }
    let read = Identity::read(&bytes);
    read.map(Some)
        .map_err(|error| VerifyError::from(error).about(path))
}

/// A public key from a PEM file, or the key of a Rye trusted-key file.
///
/// # Errors
/// When the file cannot be read or is neither.
pub fn read_public(path: &Path, fs: &dyn Fs) -> Result<PublicKey, VerifyError> {
    let bytes = read_small(fs, path, MAX_KEY_FILE_BYTES)?;
    let key = if is_toml(path) {
        rye::parse_trusted_key(&bytes).map(|file| file.key)
    } else {
        PublicKey::parse_any(bytes)
    };
    key.map_err(|error| VerifyError::from(error).about(path))
}

/// Is it named like a TOML file?
pub fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "toml")
}

/// Reads the text of a trust store.
///
/// # Errors
/// When it is none.
pub fn parse_store(bytes: &[u8]) -> Result<TrustStore, VerifyError> {
    let text = std::str::from_utf8(bytes).map_err(|_| VerifyError::refused("not UTF-8 text"))?;
    Ok(TrustStore::parse(text)?)
}
