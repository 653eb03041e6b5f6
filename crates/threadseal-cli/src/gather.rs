//! Whose signatures count in one run: from the home, or from what `--trust` and `--key` name.
//!
//! | `--trust` names | what is trusted |
//! |---|---|
//! | a PEM public key (`.pem`, `.pub`) | that key, for everything |
//! | a Rye trusted-key `.toml` | that key, for Rye's formats |
//! | a `.toml` trust store | what it says |
//! | a folder | its PEM public keys; its Rye key files as far as the owner's key signed them |
//!
//! Given, it replaces the home's trust store. Two keys of one name are told apart; one key that
//! two sources trust differently is refused, since nobody could say which scope was meant.

use crate::context::Context;
use crate::exit::{Failure, complain};
use crate::key_log;
use crate::keyring::Keyring;
use crate::local::Local;
use crate::trusting::{is_toml, of_home, parse_store, read_public};
use std::path::{Path, PathBuf};
use threadseal_core::encoding;
use threadseal_core::key::{KeyId, KeyUsage, PublicKey};
use threadseal_core::limits::{MAX_KEY_FILE_BYTES, MAX_TRUST_FILE_BYTES};
use threadseal_core::report::Report;
use threadseal_core::trust::rye::{self, TrustSet};
use threadseal_core::trust::{Pin, Trust, TrustName, TrustStore, TrustedKey};
use threadseal_store::heads::StoredHead;
use threadseal_store::home::Home;
use threadseal_store::read::read_small;

/// The trust for one run of a verifying command.
///
/// # Errors
/// When something named cannot be read, or `local` does not admit it.
pub(crate) fn gather(
    sources: &[PathBuf],
    key: Option<&str>,
    local: &Local,
    context: &Context,
) -> Result<Trust, Failure> {
    of(context.home()?.as_ref(), sources, key, local, context)
}

/// The same also where nothing names a home.
///
/// # Errors
/// As [`gather`].
pub(crate) fn gather_anywhere(
    sources: &[PathBuf],
    key: Option<&str>,
    local: &Local,
    context: &Context,
) -> Result<Trust, Failure> {
    of(
        context.home_where_named()?.as_ref(),
        sources,
        key,
        local,
        context,
    )
}

fn of(
    home: Option<&Home>,
    sources: &[PathBuf],
    key: Option<&str>,
    local: &Local,
    context: &Context,
) -> Result<Trust, Failure> {
    // A home inside the tree would also bring heads along, so its place counts in any case.
    if let Some(home) = home {
        local.admit_home(home)?;
    }
    let mut store = match (home, sources) {
        (_, [_, ..]) => union(sources, local, context)?,
        (Some(home), []) => of_home(home)?,
        (None, []) => TrustStore::new(),
    };
    let pinned = match key {
        Some(text) => Some(pin(text, &store, home, local, context)?),
        None => None,
    };
    let places = match home {
        Some(_) => key_log::places(&mut store, context)?,
        None => None,
    };
    Ok(Trust {
        store,
        pinned,
        local: local.found(),
        places,
    })
}

/// A public key as people give it, for something else than verifying.
///
/// # Errors
/// When it is none.
pub(crate) fn public_key(text: &str, context: &Context) -> Result<PublicKey, Failure> {
    let home = context.home()?;
    let store = home
        .as_ref()
        .map_or_else(|| Ok(TrustStore::new()), of_home)?;
    let local = Local::to(&[], false, context);
    whole(
        &pin(text, &store, home.as_ref(), &local, context)?,
        home.as_ref(),
    )
}

/// A public key as people give it: a name of the trust store, hex, did:key, or a PEM file; or its id.
///
/// The name goes first, so that a file which a project brings along under that name is not
/// taken for it.
///
/// # Errors
/// When it is none of these, or `local` does not admit it.
fn pin(
    text: &str,
    store: &TrustStore,
    home: Option<&Home>,
    local: &Local,
    context: &Context,
) -> Result<Pin, Failure> {
    let named = TrustName::parse(text).ok();
    if let Some(entry) = named.and_then(|name| store.by_name(&name)) {
        return Ok(entry.key.into());
    }
    if let Some(pin) = of_digits(text, store, home)? {
        return Ok(pin);
    }
    if let Ok(key) = PublicKey::parse_any(text) {
        return Ok(key.into());
    }
    let path = Path::new(text);
    if path.exists() {
        local.admit(path)?;
        return Ok(read_public(path, context)?.into());
    }
    Err(Failure::new(format!(
        "{text:?} is no key: give a PEM file, 64 hex digits, did:key, or a name of the trust store"
    )))
}

/// What 64 hex digits name: a key, or by its id one that the home trusts or has; of others nobody can say which. None where the text is no such
/// digits.
///
/// # Errors
/// When a key file of the home cannot be read.
pub(crate) fn of_digits(
    text: &str,
    store: &TrustStore,
    home: Option<&Home>,
) -> Result<Option<Pin>, Failure> {
    let Some(bytes) = encoding::parse_hex_array(text.trim()) else {
        return Ok(None);
    };
    let pin = Pin::from_bytes(bytes);
    let trusted = store.iter().map(|entry| entry.key);
    let own = home.map_or_else(|| Ok(Vec::new()), |home| Keyring::of(home).list())?;
    let mut known = trusted.chain(own.iter().map(|own| own.public));
    Ok(Some(
        known.find(|key| pin.admits(key)).map_or(pin, Pin::from),
    ))
}

/// The key itself, for who has to have it. Digits that a head of the home names as the id of a key are not taken for another one.
///
/// # Errors
/// When these are the digits of an id, or the heads of the home cannot be read.
pub(crate) fn whole(pin: &Pin, home: Option<&Home>) -> Result<PublicKey, Failure> {
    let heads = home.map_or_else(|| Ok(Vec::new()), |home| home.heads().stored())?;
    let is_id = |head: &StoredHead| {
        let id = head.key.as_ref().map(KeyId::digest);
        id.is_some_and(|id| id.as_bytes() == pin.as_bytes())
    };
    match pin.key() {
        Some(key) if !heads.iter().any(is_id) => Ok(*key),
        _ => Err(Failure::new(format!(
            "{} is the id of a key and not the key: give did:key, a PEM file, or the 64 hex digits of the key itself",
            encoding::hex(pin.as_bytes())
        ))),
    }
}

/// Refuses an id in the place of the key of a signer, in formats whose signatures name none but an id: only the key itself tells whether they
/// hold.
///
/// # Errors
/// When it is one.
pub(crate) fn refuse_pinned_id(trust: &Trust, report: &Report) -> Result<(), Failure> {
    let Some(pin) = &trust.pinned else {
        return Ok(());
    };
    let asked = encoding::hex(pin.as_bytes());
    let names_signer = report.signers.iter().any(|signer| signer.key == asked);
    if pin.key().is_some() && !names_signer {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{asked} is the id of a key, and its signatures are checked with the key itself: give --key as did:key or as a PEM file"
    )))
}

fn is_pem(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ending| ending == "pem" || ending == "pub")
}

/// Everything that the sources name. A PEM key given on its own also serves as the owner's key of
/// the Rye folders, when it is the only one.
fn union(sources: &[PathBuf], local: &Local, context: &Context) -> Result<TrustStore, Failure> {
    let mut store = TrustStore::new();
    let mut folders = Vec::new();
    let mut owners = Vec::new();
    for source in sources {
        local.admit(source)?;
        if source.is_dir() {
            folders.push(source);
        } else if is_toml(source) {
            merge(&mut store, &read_toml(source, context)?)?;
        } else {
            let key = read_public(source, context)?;
            owners.push(key);
            merge(&mut store, &store_of(source, key)?)?;
        }
    }
    let owner = match owners.as_slice() {
        [only] => Some(only.to_pem()),
        _ => None,
    };
    for folder in folders {
        read_folder(folder, owner.as_deref(), &mut store, local, context)?;
    }
    Ok(store)
}

fn read_toml(path: &Path, context: &Context) -> Result<TrustStore, Failure> {
    let bytes = read_small(&*context.fs, path, MAX_TRUST_FILE_BYTES)?;
    if let Ok(file) = rye::parse_trusted_key(&bytes) {
        let name = TrustName::parse(&format!("rye:{}", file.fingerprint))?;
        let mut store = TrustStore::new();
        store.add(TrustedKey::new(name, file.key, [KeyUsage::Rye]))?;
        return Ok(store);
    }
    parse_store(&bytes).map_err(|error| error.about(path))
}

fn read_folder(
    folder: &Path,
    owner: Option<&str>,
    store: &mut TrustStore,
    local: &Local,
    context: &Context,
) -> Result<(), Failure> {
    let failure = |error| Failure::io("read", folder, &error);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failure)? {
        paths.push(entry.map_err(failure)?.path());
    }
    paths.sort();
    let mut rye_files = Vec::new();
    let mut found = false;
    for path in &paths {
        if is_pem(path) || is_toml(path) {
            local.admit(path)?;
        }
        if is_pem(path) {
            let bytes = read_small(&*context.fs, path, MAX_KEY_FILE_BYTES)?;
            // Private halves lie beside public ones in many key folders; they vouch for nobody.
            if let Ok(key) = PublicKey::parse_any(bytes) {
                merge(store, &store_of(path, key)?)?;
                found = true;
            }
        } else if is_toml(path) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let bytes = read_small(&*context.fs, path, MAX_KEY_FILE_BYTES)?;
            rye_files.push((name.into_owned(), bytes));
        }
    }
    let rye_files: Vec<(&str, &[u8])> = rye_files.iter().map(|(n, b)| (&**n, &**b)).collect();
    let set =
        TrustSet::load(owner, &rye_files).map_err(|error| Failure::from(error).about(folder))?;
    let refused = set
        .refused()
        .iter()
        .map(|file| format!("{}: {}", file.file, file.why));
    if set.keys().is_empty() && !found {
        let why = refused.collect::<Vec<_>>().join("; ");
        let why = if why.is_empty() {
            "it holds no keys".to_owned()
        } else {
            why
        };
        return Err(Failure::new(format!("nobody can be trusted: {why}")).about(folder));
    }
    if !context.quiet {
        for why in refused {
            complain(&format!("note: {}: not trusted: {why}", folder.display()));
        }
    }
    merge(store, &set.to_store()?)
}

/// A store that trusts the key in a PEM file for everything, under the file's name.
fn store_of(path: &Path, key: PublicKey) -> Result<TrustStore, Failure> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name =
        TrustName::parse(&stem).or_else(|_| TrustName::parse(&format!("key-{}", key.key_id())))?;
    let mut store = TrustStore::new();
    store.add(TrustedKey::new(name, key, KeyUsage::ALL))?;
    Ok(store)
}

fn merge(into: &mut TrustStore, from: &TrustStore) -> Result<(), Failure> {
    for entry in from.iter() {
        let twin = into
            .by_key(&entry.key)
            .find(|known| !known.usage.is_disjoint(&entry.usage))
            .cloned();
        match twin {
            None => add_under_free_name(into, entry.clone())?,
            Some(mut twin) if says_the_same(&twin, entry) => {
                into.remove(&twin.name);
                twin.usage.extend(&entry.usage);
                into.add(twin)?;
            }
            Some(twin) => {
                return Err(Failure::new(format!(
                    "{} and {} trust one key differently; name it in one place only",
                    twin.name, entry.name
                )));
            }
        }
    }
    Ok(())
}

fn says_the_same(one: &TrustedKey, other: &TrustedKey) -> bool {
    one.scope == other.scope
        && one.not_before == other.not_before
        && one.not_after == other.not_after
        && one.revoked == other.revoked
}

fn add_under_free_name(into: &mut TrustStore, mut entry: TrustedKey) -> Result<(), Failure> {
    if into.by_name(&entry.name).is_some() {
        let id = entry.key.key_id().to_hex();
        entry.name = TrustName::parse(&format!("{}/{}", entry.name, &id[..8]))?;
    }
    Ok(into.add(entry)?)
}
