//! The trust of the home: whose signatures count when nothing else is said.

use crate::context::Context;
use crate::exit::Failure;
use crate::key_log;
use std::path::Path;
use threadseal_core::key::PublicKey;
use threadseal_core::limits::MAX_KEY_FILE_BYTES;
use threadseal_core::trust::rye;
use threadseal_core::trust::{Trust, TrustStore};
use threadseal_store::home::Home;
use threadseal_store::lock::Exclusive;
use threadseal_store::read::read_small;

/// Reads the home's trust store.
///
/// # Errors
/// When it cannot be read, others could have written it, or it is damaged.
pub(crate) fn of_home(home: &Home) -> Result<TrustStore, Failure> {
    match home.read_trust()? {
        None => Ok(TrustStore::new()),
        Some(bytes) => parse_store(&bytes).map_err(|error| error.about(&home.trust_path())),
    }
}

/// The home's trust store, and the log by which its keys are judged.
///
/// # Errors
/// As [`of_home`].
pub(crate) fn trust_of_home(home: &Home, context: &Context) -> Result<Trust, Failure> {
    let mut store = of_home(home)?;
    Ok(Trust {
        places: key_log::places(&mut store, context)?,
        ..Trust::new(store)
    })
}

/// Changes the home's trust store; `change` says whether it did. One change at a time.
///
/// # Errors
/// Those of `change`, or when the store cannot be read or written.
pub(crate) fn change(
    home: &Home,
    context: &Context,
    change: impl FnOnce(&mut TrustStore) -> Result<bool, Failure>,
) -> Result<bool, Failure> {
    let _alone = Exclusive::enter(&*context.fs, &home.path().join("trust.lock"))?;
    let mut store = of_home(home)?;
    let changed = change(&mut store)?;
    if changed {
        home.write_trust(store.to_toml().as_bytes())?;
    }
    Ok(changed)
}

/// A public key from a PEM file, or the key of a Rye trusted-key file.
///
/// # Errors
/// When the file cannot be read or is neither.
pub(crate) fn read_public(path: &Path, context: &Context) -> Result<PublicKey, Failure> {
    let bytes = read_small(&*context.fs, path, MAX_KEY_FILE_BYTES)?;
    let key = if is_toml(path) {
        rye::parse_trusted_key(&bytes).map(|file| file.key)
    } else {
        PublicKey::parse_any(bytes)
    };
    key.map_err(|error| Failure::from(error).about(path))
}

/// Is it named like a TOML file?
pub(crate) fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "toml")
}

/// Reads the text of a trust store.
///
/// # Errors
/// When it is none.
pub(crate) fn parse_store(bytes: &[u8]) -> Result<TrustStore, Failure> {
    let text = std::str::from_utf8(bytes).map_err(|_| Failure::new("not UTF-8 text"))?;
    Ok(TrustStore::parse(text)?)
}
