//! The user's own keys, by name and usage.
//!
//! ```text
//! keys/NAME.USAGE.key, keys/NAME.USAGE.pub      self.native, self-rye.rye, …
//! ```
//! The file's name contains the usage, so that a key can be refused for a purpose without its
//! passphrase. A name is unique across all usages.

use crate::context::Context;
use crate::exit::{Failure, complain};
use crate::key_status;
use crate::passphrase::PassphraseArgs;
use crate::trust_file;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, PublicKey, Signer as _};
use threadseal_store::home::{Home, KeyFileName, KeyFiles};
use threadseal_store::random;
use threadseal_verify::home_keys;
use threadseal_verify::notices::Notices;

pub(crate) use threadseal_verify::home_keys::{KeyFault, OwnKey};
use zeroize::Zeroizing;

/// The name of the user's own key for `usage`. `init` trusts the keys that it makes under this
/// name.
pub(crate) fn self_name(usage: KeyUsage) -> &'static str {
    match usage {
        KeyUsage::Native => "self",
        KeyUsage::Rye => "self-rye",
        KeyUsage::Observed => "self-observed",
        KeyUsage::Scroll => "self-scroll",
        KeyUsage::Igor => "self-igor",
        KeyUsage::Log => "self-log",
        KeyUsage::Witness => "self-witness",
        KeyUsage::Recovery => "self-recovery",
    }
}

/// Reports on standard error the key files that are passed over.
struct Complaining;

impl Notices for Complaining {
    fn note(&self, text: &str) {
        complain(&format!("note: {text}"));
    }
}

/// The keys of a home.
#[derive(Debug)]
pub(crate) struct Keyring {
    home: Home,
    files: KeyFiles,
}

impl Keyring {
    /// The keys of `home`.
    pub(crate) fn of(home: &Home) -> Self {
        Self {
            home: home.clone(),
            files: home.keys(),
        }
    }

    /// All keys, by name.
    ///
    /// # Errors
    /// When a key file cannot be read or is damaged.
    pub(crate) fn list(&self) -> Result<Vec<OwnKey>, Failure> {
        Ok(home_keys::list(&self.home, &Complaining)?)
    }

    /// The key of this name, if there is one.
    ///
    /// # Errors
    /// As [`Keyring::list`].
    pub(crate) fn get(&self, name: &str) -> Result<Option<OwnKey>, Failure> {
        Ok(self.list()?.into_iter().find(|key| key.name == name))
    }

    /// The key of this name.
    ///
    /// # Errors
    /// As [`Keyring::list`]; or when there is none.
    pub(crate) fn find(&self, name: &str) -> Result<OwnKey, Failure> {
        self.get(name)?.ok_or_else(|| {
            Failure::new(format!(
                "there is no key {name:?}; hint: threadseal key list"
            ))
        })
    }

    /// Adds a key, protected by `passphrase` if there is one.
    ///
    /// # Errors
    /// When the name is taken or invalid, or the files cannot be written.
    pub(crate) fn create(
        &self,
        name: &str,
        usage: KeyUsage,
        key: &PrivateKey,
        passphrase: Option<&Zeroizing<String>>,
        context: &Context,
    ) -> Result<OwnKey, Failure> {
        if name.contains('.') {
            return Err(Failure::new(format!(
                "the key name {name:?} contains a dot"
            )));
        }
        let file = KeyFileName::parse(&format!("{name}.{usage}"))?;
        if let Some(taken) = self.get(name)? {
            return Err(Failure::new(format!(
                "there is already a key {name:?} ({}); keys are never replaced",
                taken.usage
            )));
        }
        let pem = match passphrase {
            None => key.to_pem(),
            Some(passphrase) => {
                let salt = random::array(&context.random)?;
                let iv = random::array(&context.random)?;
                key.to_encrypted_pem(passphrase.as_bytes(), salt, iv)?
            }
        };
        let public = *key.public_key();
        self.files
            .create(&file, pem.as_bytes(), public.to_pem().as_bytes())?;
        Ok(OwnKey {
            name: name.to_owned(),
            usage,
            public,
            has_private: true,
            file,
        })
    }

    /// Removes a key that was made for a purpose that then failed: the key was never used.
    pub(crate) fn remove_unused(&self, name: &str, usage: KeyUsage, context: &Context) {
        if let Ok(file) = KeyFileName::parse(&format!("{name}.{usage}")) {
            for path in [
                self.files.private_path(&file),
                self.files.public_path(&file),
            ] {
                // The next read of the keys reports a file that remains.
                let _ = context.fs.unlink(&path);
            }
        }
    }

    /// Why keys that this home made must not seal.
    ///
    /// # Errors
    /// As [`Keyring::list`]; or when the trust store cannot be read.
    pub(crate) fn faults(&self) -> Result<Vec<KeyFault>, Failure> {
        let (keys, store) = (self.list()?, trust_file::of_home(&self.home)?);
        let fault = |usage| {
            let name = (self_name(usage), usage);
            home_keys::fault_of(&self.home, name, true, &keys, &store)
        };
        Ok(KeyUsage::ALL.into_iter().filter_map(fault).collect())
    }

    /// The PEM text of the private half, unchanged from the disk.
    ///
    /// # Errors
    /// When it is missing, others may read it, or it is no text.
    pub(crate) fn private_pem(&self, file: &KeyFileName) -> Result<Zeroizing<String>, Failure> {
        let bytes = Zeroizing::new(self.files.read_private(file)?);
        let text = std::str::from_utf8(&bytes)
            .map_err(|_| Failure::new("not UTF-8 text").about(&self.files.private_path(file)))?;
        Ok(Zeroizing::new(text.to_owned()))
    }

    /// The private half, opened.
    ///
    /// # Errors
    /// As [`Keyring::private_pem`]; or when the passphrase is wrong or the file damaged.
    pub(crate) fn open(
        &self,
        key: &OwnKey,
        passphrase: &PassphraseArgs,
    ) -> Result<PrivateKey, Failure> {
        let pem = self.private_pem(&key.file)?;
        let path = self.files.private_path(&key.file);
        let opened = open_pem(&pem, &key.name, passphrase).map_err(|error| error.about(&path))?;
        if *opened.public_key() != key.public {
            return Err(
                Failure::new("the public half beside it belongs to another key").about(&path),
            );
        }
        Ok(opened)
    }

    /// A signer for Rye's signatures in native records: the key in line 1, under any name here, or
    /// else the one that `init` made. An end of this key is ignored: native seals alone make such a
    /// record count, and the key in line 1 is never replaced.
    ///
    /// # Errors
    /// As [`Keyring::open`]; or when there is none.
    pub(crate) fn rye_half(
        &self,
        named: Option<&PublicKey>,
        passphrase: &PassphraseArgs,
    ) -> Result<LocalSigner, Failure> {
        let is_it = |key: &OwnKey| {
            key.usage == KeyUsage::Rye && key.has_private && Some(&key.public) == named
        };
        match self.list()?.into_iter().find(is_it) {
            Some(key) => Ok(LocalSigner::new(self.open(&key, passphrase)?, key.usage)),
            None => self.open_for(self_name(KeyUsage::Rye), KeyUsage::Rye, passphrase),
        }
    }

    /// A signer for `usage`: the key of this name, or else the one that `init` made.
    ///
    /// # Errors
    /// As [`Keyring::open`]; when the key has another usage, or it ended.
    pub(crate) fn signer(
        &self,
        name: Option<&str>,
        usage: KeyUsage,
        passphrase: &PassphraseArgs,
        context: &Context,
    ) -> Result<LocalSigner, Failure> {
        let name = name.unwrap_or(self_name(usage));
        if usage == KeyUsage::Native {
            // Names follow the log: after an interrupted rotation, this name belongs to the next
            // key.
            context.host()?;
        }
        if let Some(key) = self.get(name)? {
            key_status::refuse(&key.public, context)?;
        }
        self.open_for(name, usage, passphrase)
    }

    /// A signer for the key that now has the name of the key of `before`, if that is another one: for
    /// a command that runs while keys are rotated. It asks for no passphrase.
    ///
    /// # Errors
    /// As [`Keyring::signer`].
    pub(crate) fn next_signer(
        &self,
        name: &str,
        before: &LocalSigner,
        passphrase: &PassphraseArgs,
        context: &Context,
    ) -> Result<Option<LocalSigner>, Failure> {
        let now = self.get(name)?;
        if now.is_none_or(|now| now.public == *before.public_key()) {
            return Ok(None);
        }
        let passphrase = passphrase.without_prompt("threadseal watch");
        self.signer(Some(name), before.usage(), &passphrase, context)
            .map(Some)
    }

    /// The key of this name. If it is a missing default key, the error names the command that makes
    /// it.
    fn find_for(&self, name: &str, usage: KeyUsage) -> Result<OwnKey, Failure> {
        if name != self_name(usage) {
            return self.find(name);
        }
        self.get(name)?.ok_or_else(|| {
            let next = match usage {
                KeyUsage::Native | KeyUsage::Rye | KeyUsage::Observed => {
                    "threadseal init".to_owned()
                }
                _ => format!("threadseal key new --usage {usage} --name {name}"),
            };
            Failure::new(format!("there is no key {name:?}; hint: {next}"))
        })
    }

    fn open_for(
        &self,
        name: &str,
        usage: KeyUsage,
        passphrase: &PassphraseArgs,
    ) -> Result<LocalSigner, Failure> {
        let (keys, store) = (self.list()?, trust_file::of_home(&self.home)?);
        let is_own = name == self_name(usage);
        if let Some(fault) = home_keys::fault_of(&self.home, (name, usage), is_own, &keys, &store) {
            return Err(Failure::new(fault.to_string()));
        }
        let key = self.find_for(name, usage)?;
        if key.usage != usage {
            return Err(Failure::new(format!(
                "the key {name:?} is for {} records, but this command needs a key for {usage} records",
                key.usage
            )));
        }
        Ok(LocalSigner::new(self.open(&key, passphrase)?, usage))
    }
}

/// Reads a private key from PEM text, with its passphrase if it needs one.
///
/// # Errors
/// When the passphrase is wrong or the text is no private key.
pub(crate) fn open_pem(
    pem: &str,
    name: &str,
    passphrase: &PassphraseArgs,
) -> Result<PrivateKey, Failure> {
    if PrivateKey::is_encrypted_pem(pem) {
        let passphrase = passphrase.for_existing_key(name)?;
        Ok(PrivateKey::from_encrypted_pem(pem, passphrase.as_bytes())?)
    } else {
        Ok(PrivateKey::from_pem(pem)?)
    }
}

/// A new key from the system's randomness.
///
/// # Errors
/// When there is none.
pub(crate) fn generate(context: &Context) -> Result<PrivateKey, Failure> {
    Ok(PrivateKey::from_seed(random::array(&context.random)?))
}
