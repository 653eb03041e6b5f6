//! Whose signatures count in one run: from the home, or from what `--trust` and `--key` name.
//!
//! | `--trust` names | what is trusted |
//! |---|---|
//! | a PEM public key (`.pem`, `.pub`) | that key, for everything |
//! | a Rye trusted-key `.toml` | that key, for Rye's formats |
//! | a `.toml` trust store | its entries |
//! | an identity, or the name of one that was imported | its keys, each for its own usage |
//! | a folder | its PEM public keys; its Rye key files as far as the owner's key signed them |
//!
//! `--key` takes an identity, too: it pins the keys that have not ended, each for its own usage.
//!
//! Given, `--trust` replaces the home's trust store. Two keys of one name stay distinct; one key that two
//! sources trust differently is refused, since its scope would be ambiguous.

use crate::error::VerifyError;
use crate::home_keys;
use crate::home_log::HomeLog;
use crate::identities::Identities;
use crate::key_places;
use crate::notices::Notices;
use crate::trust_file::{is_toml, of_home, read_identity, read_public};
use crate::trust_locality::Locality;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::encoding;
use threadseal_core::identity::Identity;
use threadseal_core::key::{KeyId, PublicKey};
use threadseal_core::limits::{MAX_KEY_FILE_BYTES, MAX_TRUST_FILE_BYTES};
use threadseal_core::trust::rye::TrustSet;
use threadseal_core::trust::{Pin, Pins, Revocation, Trust, TrustName, TrustStore};
pub use threadseal_reader::given::refuse_pinned_id;
use threadseal_reader::given::{self, merge, pin_identity, store_of};
use threadseal_store::heads::StoredHead;
use threadseal_store::home::Home;
use threadseal_store::read::read_small;
use threadseal_store::sys::Fs;

/// Gathers whose signatures count.
pub struct TrustSources<'a> {
    /// The disk.
    pub fs: &'a Arc<dyn Fs>,
    /// The home, if there is one.
    pub home: Option<&'a Home>,
    /// Opens the log of the home; called only where a key is trusted.
    pub log: &'a dyn Fn() -> Result<HomeLog, VerifyError>,
    /// Receives the files and keys that do not count.
    pub notices: &'a dyn Notices,
}

impl<'a> TrustSources<'a> {
    /// Sources without a home: only what a caller names is trusted.
    pub fn without_home(fs: &'a Arc<dyn Fs>, notices: &'a dyn Notices) -> Self {
        Self {
            fs,
            home: None,
            log: &|| Ok(HomeLog::Never),
            notices,
        }
    }
}

impl TrustSources<'_> {
    /// The trust for one run: that of the home, or instead of it what `sources` name; and `keys` alone where any are named.
    ///
    /// # Errors
    /// When something named cannot be read, or `locality` does not admit it.
    pub fn gather(
        &self,
        sources: &[PathBuf],
        keys: &[String],
        locality: &Locality,
    ) -> Result<Trust, VerifyError> {
        // A home inside the tree would also bring heads along, so its place counts in any case.
        if let Some(home) = self.home {
            locality.admit_home(home)?;
        }
        let mut store = match (self.home, sources) {
            (_, [_, ..]) => self.union(sources, locality)?,
            (Some(home), []) => of_home(home)?,
            (None, []) => TrustStore::new(),
        };
        let mut pins = Vec::new();
        for text in keys {
            match self.identity_of_key(text, &store, locality)? {
                Some(identity) => pins.extend(pin_identity(&identity, &mut store)?),
                None => pins.push(self.pin(text, &store, locality)?),
            }
        }
        let pinned = Pins::new(pins)?;
        let places = match self.home {
            Some(home) => key_places::places(&mut store, home, self)?,
            None => None,
        };
        Ok(Trust {
            store,
            pinned,
            local: locality.found(),
            places,
        })
    }

    /// The trust store of the home, and the log by which its keys are judged.
    ///
    /// # Errors
    /// When either cannot be read, others could have written it, or it is damaged.
    pub fn of_home(&self) -> Result<Trust, VerifyError> {
        let Some(home) = self.home else {
            return Ok(Trust::default());
        };
        let mut store = of_home(home)?;
        Ok(Trust {
            places: key_places::places(&mut store, home, self)?,
            ..Trust::new(store)
        })
    }

    /// A public key as people give it, for another use than verifying.
    ///
    /// # Errors
    /// When it is none.
    pub fn public_key(&self, text: &str) -> Result<PublicKey, VerifyError> {
        let store = self.home.map_or_else(|| Ok(TrustStore::new()), of_home)?;
        let nowhere = Locality::to(&[], false, self.fs);
        whole(&self.pin(text, &store, &nowhere)?, self.home)
    }

    /// A public key as people give it: a name of the trust store, hex, did:key, or a PEM file; or its id.
    ///
    /// The name goes first, so that a file which a project brings along under that name is not
    /// taken for it.
    ///
    /// # Errors
    /// When it is none of these, or `local` does not admit it.
    fn pin(&self, text: &str, store: &TrustStore, locality: &Locality) -> Result<Pin, VerifyError> {
        let named = TrustName::parse(text).ok();
        if let Some(entry) = named.and_then(|name| store.by_name(&name)) {
            return Ok(entry.key.into());
        }
        if let Some(pin) = self.of_digits(text, store)? {
            return Ok(pin);
        }
        if let Ok(key) = PublicKey::parse_any(text) {
            return Ok(key.into());
        }
        let path = Path::new(text);
        if path.exists() {
            locality.admit(path)?;
            return Ok(read_public(path, &**self.fs)?.into());
        }
        Err(VerifyError::refused(format!(
            "{text:?} is not a key: give a PEM file, 64 hex digits, did:key, or a name of the trust store"
        )))
    }

    /// The identity that `--key` names by a file or by its name; a name of the trust store and the
    /// texts of a key go first.
    ///
    /// # Errors
    /// When it is damaged, contradicts what is known of it, or `local` does not admit it.
    fn identity_of_key(
        &self,
        text: &str,
        store: &TrustStore,
        locality: &Locality,
    ) -> Result<Option<Identity>, VerifyError> {
        let named = TrustName::parse(text).ok();
        let is_known = named.is_some_and(|name| store.by_name(&name).is_some());
        if is_known || PublicKey::parse_any(text).is_ok() || self.of_digits(text, store)?.is_some()
        {
            return Ok(None);
        }
        let path = Path::new(text);
        if path.is_file() {
            locality.admit(path)?;
        }
        self.identity(path)
    }

    /// The newest file of the identity at `path`, or of the imported one with this name.
    ///
    /// # Errors
    /// When it is damaged, or contradicts what is known of it.
    fn identity(&self, path: &Path) -> Result<Option<Identity>, VerifyError> {
        let known = self.home.map(|home| Identities::of(home, self.fs));
        let given = match path.exists() {
            true if path.is_file() => read_identity(path, &**self.fs)?,
            true => None,
            false => match (&known, path.to_str()) {
                (Some(known), Some(name)) => known.named(name)?,
                _ => None,
            },
        };
        match (given, known) {
            (Some(given), Some(known)) => known.newest(given).map(Some),
            (given, _) => Ok(given),
        }
    }

    /// The entries of an identity, with the ends that the home knows of its keys.
    fn store_of_identity(&self, identity: &Identity) -> Result<TrustStore, VerifyError> {
        let of_home = self.home.map_or_else(|| Ok(TrustStore::new()), of_home)?;
        let mut store = TrustStore::new();
        for mut entry in identity.entries(&identity.content().name)? {
            let ends = of_home.end_of(&entry.key).into_iter();
            entry.revoked = ends.chain(entry.revoked.take()).reduce(Revocation::joined);
            store.add(entry)?;
        }
        Ok(store)
    }

    /// What 64 hex digits name: a key, or by its id one that the home trusts or has; any other is unknown. None where the text is no such
    /// digits.
    ///
    /// # Errors
    /// When a key file of the home cannot be read.
    pub fn of_digits(&self, text: &str, store: &TrustStore) -> Result<Option<Pin>, VerifyError> {
        let Some(bytes) = encoding::parse_hex_array(text.trim()) else {
            return Ok(None);
        };
        let pin = Pin::from_bytes(bytes);
        let trusted = store.iter().map(|entry| entry.key);
        let own = self.own_keys()?;
        let mut known = trusted.chain(own.iter().map(|own| own.public));
        Ok(Some(
            known.find(|key| pin.admits(key)).map_or(pin, Pin::from),
        ))
    }

    fn own_keys(&self) -> Result<Vec<home_keys::OwnKey>, VerifyError> {
        let keys = self.home.map(|home| home_keys::list(home, self.notices));
        keys.unwrap_or_else(|| Ok(Vec::new()))
    }

    /// Everything that the sources name. A PEM key given on its own also serves as the owner's key of
    /// the Rye folders, when it is the only one.
    fn union(&self, sources: &[PathBuf], locality: &Locality) -> Result<TrustStore, VerifyError> {
        let mut store = TrustStore::new();
        let mut folders = Vec::new();
        let mut owners = Vec::new();
        for source in sources {
            // The name of an imported identity is no path; what the home keeps was admitted with it.
            let is_name = !source.exists() && self.identity(source)?.is_some();
            if !is_name {
                locality.admit(source)?;
            }
            if let Some(identity) = self.identity(source)? {
                merge(&mut store, &self.store_of_identity(&identity)?)?;
            } else if source.is_dir() {
                folders.push(source);
            } else if is_toml(source) {
                merge(&mut store, &self.read_toml(source)?)?;
            } else {
                let key = read_public(source, &**self.fs)?;
                owners.push(key);
                merge(&mut store, &store_of(source, key)?)?;
            }
        }
        let owner = match owners.as_slice() {
            [only] => Some(only.to_pem()),
            _ => None,
        };
        for folder in folders {
            self.read_folder(folder, owner.as_deref(), &mut store, locality)?;
        }
        Ok(store)
    }

    fn read_toml(&self, path: &Path) -> Result<TrustStore, VerifyError> {
        let bytes = read_small(&**self.fs, path, MAX_TRUST_FILE_BYTES)?;
        given::read_toml(&bytes).map_err(|error| VerifyError::from(error).about(path))
    }

    fn read_folder(
        &self,
        folder: &Path,
        owner: Option<&str>,
        store: &mut TrustStore,
        locality: &Locality,
    ) -> Result<(), VerifyError> {
        let failure = |error| VerifyError::io("read", folder, &error);
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(failure)? {
            paths.push(entry.map_err(failure)?.path());
        }
        paths.sort();
        let mut rye_files = Vec::new();
        let mut found = false;
        for path in &paths {
            if is_pem(path) || is_toml(path) {
                locality.admit(path)?;
            }
            if is_pem(path) {
                let bytes = read_small(&**self.fs, path, MAX_KEY_FILE_BYTES)?;
                // Many key folders hold private halves beside public ones; a private half makes no key trusted.
                if let Ok(key) = PublicKey::parse_any(bytes) {
                    merge(store, &store_of(path, key)?)?;
                    found = true;
                }
            } else if is_toml(path) {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let bytes = read_small(&**self.fs, path, MAX_KEY_FILE_BYTES)?;
                rye_files.push((name.into_owned(), bytes));
            }
        }
        let rye_files: Vec<(&str, &[u8])> = rye_files.iter().map(|(n, b)| (&**n, &**b)).collect();
        let set = TrustSet::load(owner, &rye_files)
            .map_err(|error| VerifyError::from(error).about(folder))?;
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
            return Err(VerifyError::refused(format!("no trusted key: {why}")).about(folder));
        }
        for why in refused {
            let text = format!("{}: not trusted: {why}", folder.display());
            self.notices.untrusted(&text);
        }
        Ok(merge(store, &set.to_store()?)?)
    }
}

/// The key itself, for who has to have it. Digits that a head of the home names as the id of a key are not taken for another one.
///
/// # Errors
/// When these are the digits of an id, or the heads of the home cannot be read.
pub fn whole(pin: &Pin, home: Option<&Home>) -> Result<PublicKey, VerifyError> {
    let heads = home.map_or_else(|| Ok(Vec::new()), |home| home.heads().stored())?;
    let is_id = |head: &StoredHead| {
        let id = head.key.as_ref().map(KeyId::digest);
        id.is_some_and(|id| id.as_bytes() == pin.as_bytes())
    };
    match pin.key() {
        Some(key) if !heads.iter().any(is_id) => Ok(*key),
        _ => Err(VerifyError::refused(format!(
            "{} is the id of a key and not the key: give did:key, a PEM file, or the 64 hex digits of the key itself",
            encoding::hex(pin.as_bytes())
        ))),
    }
}

fn is_pem(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ending| ending == "pem" || ending == "pub")
}
