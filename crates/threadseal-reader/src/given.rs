//! Whose signatures count, from keys and files that a caller gives: no home, no folder, no disk.
//!
//! | given | what is trusted |
//! |---|---|
//! | an identity | its keys, each for its own usage |
//! | a trust store | its entries |
//! | a Rye trusted-key file | that key, for Rye's formats |
//! | a public key: PEM, did:key, 64 hex digits | that key, for everything |
//!
//! A pin is a key or an identity, as `--key` takes them; digits may be the id of a key.

use std::path::Path;
use threadseal_core::encoding;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::identity::Identity;
use threadseal_core::key::{KeyUsage, PublicKey};
use threadseal_core::limits::MAX_TRUST_FILE_BYTES;
use threadseal_core::report::Report;
use threadseal_core::trust::{Pin, Pins, Trust, TrustName, TrustStore, TrustedKey, rye};

/// A file, or a text in the place of one.
#[derive(Debug, Clone, Copy)]
pub struct Given<'g> {
    /// Its name; empty for a text.
    pub name: &'g str,
    /// Its bytes.
    pub bytes: &'g [u8],
}

impl Given<'_> {
    fn is_toml(&self) -> bool {
        let ending = Path::new(self.name).extension();
        ending.is_some_and(|ending| ending == "toml")
    }

    fn identity(&self) -> Result<Option<Identity>, Error> {
        match Identity::is_likely(self.bytes) {
            true => Identity::read(self.bytes).map(Some),
            false => Ok(None),
        }
    }

    fn store(&self) -> Result<TrustStore, Error> {
        if self.bytes.len() > MAX_TRUST_FILE_BYTES {
            let text = format!("a trust store has at most {MAX_TRUST_FILE_BYTES} bytes");
            return Err(Error::new(ErrorKind::Limit, text));
        }
        if let Some(identity) = self.identity()? {
            let mut store = TrustStore::new();
            for entry in identity.entries(&identity.content().name)? {
                store.add(entry)?;
            }
            return Ok(store);
        }
        if self.is_toml() {
            return read_toml(self.bytes);
        }
        store_of(Path::new(self.name), PublicKey::parse_any(self.bytes)?)
    }

    fn pins(&self, store: &mut TrustStore) -> Result<Vec<Pin>, Error> {
        if let Some(identity) = self.identity()? {
            return pin_identity(&identity, store);
        }
        let text = std::str::from_utf8(self.bytes).unwrap_or_default().trim();
        if let Some(bytes) = encoding::parse_hex_array(text) {
            let pin = Pin::from_bytes(bytes);
            let known = store
                .iter()
                .map(|entry| entry.key)
                .find(|key| pin.admits(key));
            return Ok(vec![known.map_or(pin, Pin::from)]);
        }
        Ok(vec![PublicKey::parse_any(self.bytes)?.into()])
    }
}

/// The trust that `store` and `trusted` give; and `pinned` alone where any are given.
///
/// # Errors
/// When one of them is damaged or unknown, or two trust one key differently.
pub fn trust_of(
    mut store: TrustStore,
    trusted: &[Given<'_>],
    pinned: &[Given<'_>],
) -> Result<Trust, Error> {
    let about = |given: &Given<'_>, error: Error| match given.name {
        "" => error,
        name => Error::new(error.kind(), format!("{name}: {error}")),
    };
    for given in trusted {
        let own = given.store().map_err(|error| about(given, error))?;
        merge(&mut store, &own)?;
    }
    let mut pins = Vec::new();
    for given in pinned {
        pins.extend(
            given
                .pins(&mut store)
                .map_err(|error| about(given, error))?,
        );
    }
    Ok(Trust {
        pinned: Pins::new(pins)?,
        ..Trust::new(store)
    })
}

/// The entries of a TOML file: a trusted key of Rye, or a trust store.
///
/// # Errors
/// When it is neither.
pub fn read_toml(bytes: &[u8]) -> Result<TrustStore, Error> {
    if let Ok(file) = rye::parse_trusted_key(bytes) {
        let name = TrustName::parse(&format!("rye:{}", file.fingerprint))?;
        let mut store = TrustStore::new();
        store.add(TrustedKey::new(name, file.key, [KeyUsage::Rye]))?;
        return Ok(store);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| Error::refused("not UTF-8 text"))?;
    TrustStore::parse(text)
}

/// Refuses an id in the place of a signer's key, in formats whose signatures name only an id: only
/// the key itself shows whether they hold.
///
/// # Errors
/// When it is one.
pub fn refuse_pinned_id(trust: &Trust, report: &Report) -> Result<(), Error> {
    for pin in trust.pinned.iter() {
        let asked = encoding::hex(pin.as_bytes());
        let names_signer = report.signers.iter().any(|signer| signer.key == asked);
        if pin.key().is_none() || names_signer {
            return Err(Error::refused(format!(
                "{asked} is the id of a key, and its signatures are checked with the key itself: give --key as did:key or as a PEM file"
            )));
        }
    }
    Ok(())
}

/// The pins of an identity: its keys that have not ended, each for its usage. The ends of the others
/// count, as those of entries do.
///
/// # Errors
/// When an entry does not fit into `store`.
pub fn pin_identity(identity: &Identity, store: &mut TrustStore) -> Result<Vec<Pin>, Error> {
    let mut pins = Vec::new();
    for entry in identity.entries(&identity.content().name)? {
        let Some(end) = entry.revoked.clone() else {
            let usages = entry.usage.iter();
            pins.extend(usages.map(|usage| Pin::of_usage(entry.key, *usage)));
            continue;
        };
        let names: Vec<TrustName> = store.by_key(&entry.key).map(|e| e.name.clone()).collect();
        for name in &names {
            store.revoke(name, end.clone())?;
        }
        if names.is_empty() {
            add_under_free_name(store, entry)?;
        }
    }
    Ok(pins)
}

/// A store that trusts the key in a PEM file for everything, under the file's name.
///
/// # Errors
/// When no name can be made for it.
pub fn store_of(path: &Path, key: PublicKey) -> Result<TrustStore, Error> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name =
        TrustName::parse(&stem).or_else(|_| TrustName::parse(&format!("key-{}", key.key_id())))?;
    let mut store = TrustStore::new();
    store.add(TrustedKey::new(name, key, KeyUsage::ALL))?;
    Ok(store)
}

/// Adds the entries of `from`. Two keys of one name stay distinct.
///
/// # Errors
/// When both trust one key differently.
pub fn merge(into: &mut TrustStore, from: &TrustStore) -> Result<(), Error> {
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
                return Err(Error::refused(format!(
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

fn add_under_free_name(into: &mut TrustStore, mut entry: TrustedKey) -> Result<(), Error> {
    if into.by_name(&entry.name).is_some() {
        let id = entry.key.key_id().to_hex();
        entry.name = TrustName::parse(&format!("{}/{}", entry.name, &id[..8]))?;
    }
    into.add(entry)
}
