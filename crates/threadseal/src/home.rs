//! [`OpenedHome`]: the home of one user, as the command uses it: its keys, its trust, its heads, its log.

use crate::writer::Writer;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, PublicKey};
use threadseal_core::trust::Trust;
use threadseal_log::{Description, LogHome, LogKey, LogRegistry, SealLog, machine};
use threadseal_store::home::Home;
use threadseal_store::host::Host;
use threadseal_store::random::SystemRandom;
use threadseal_store::sys::{Fs, RealFs};
use threadseal_verify::home_keys::{self, OwnKey};
use threadseal_verify::home_log::HomeLog;
use threadseal_verify::notices::Silent;
use threadseal_verify::trust_locality::Locality;
use threadseal_verify::trust_sources::TrustSources;
use threadseal_verify::{Verifier, VerifyRequest, hosts, trust_file};
use zeroize::Zeroizing;

/// Longest wait for another process that is in the log, when heads are written there.
const MAX_SETTLE_WAIT: Duration = Duration::from_secs(1);
/// The names under which `threadseal init` makes keys.
const NATIVE_NAME: &str = "self";
const RYE_NAME: &str = "self-rye";

/// A home that `threadseal init` made, or nothing: then no head is known and no key trusted.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use threadseal::{OpenedHome, VerifyRequest};
///
/// let home = OpenedHome::none();
/// let trust = home.trust()?;
/// let verifier = home.verifier(VerifyRequest::by(trust))?;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("plan.json");
/// # std::fs::write(&path, b"{\"steps\":[]}")?;
/// let run = verifier.verify_all(vec![path])?;
/// assert_eq!(run.results[0].verdict.as_str(), "unsigned");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct OpenedHome {
    home: Option<Home>,
    log: HomeLog,
    host: Host,
}

impl OpenedHome {
    /// No home.
    pub fn none() -> Self {
        Self {
            home: None,
            log: HomeLog::Never,
            host: hosts::without_home(),
        }
    }

    /// The home at `path`. `marks` are the folders where its log may have its second place, the default
    /// one first.
    ///
    /// # Errors
    /// When there is no home, others could have written it, or its log cannot be looked for.
    pub fn open(path: &Path, marks: &[PathBuf]) -> Result<Self, Error> {
        let fs = RealFs::shared();
        let home = Home::open(Arc::clone(&fs), path)?;
        let log = home_log(&home, marks, fs)?;
        let host = hosts::of_home(&home, &log);
        Ok(Self {
            home: Some(home),
            log,
            host,
        })
    }

    /// Whose signatures count here.
    ///
    /// # Errors
    /// When the trust store or the log is damaged.
    pub fn trust(&self) -> Result<Trust, Error> {
        self.trust_in(&[], &[])
    }

    /// Whose signatures count, as `threadseal verify --trust SOURCE --key KEY` decides it. Given sources
    /// replace the trust of the home.
    ///
    /// # Errors
    /// When a source or a key cannot be read.
    pub fn trust_in(&self, sources: &[PathBuf], keys: &[String]) -> Result<Trust, Error> {
        let fs: Arc<dyn Fs> = RealFs::shared();
        let log = || Ok(self.log.clone());
        let asked = TrustSources {
            fs: &fs,
            home: self.home.as_ref(),
            log: &log,
            notices: &Silent,
        };
        let locality = Locality::to(&[], false, &fs);
        Ok(asked.gather(sources, keys, &locality)?)
    }

    /// A verifier that knows what this home knows.
    ///
    /// # Errors
    /// Kind `External` when the clock is out of range.
    pub fn verifier(&self, request: VerifyRequest) -> Result<Verifier, Error> {
        let tombstones = self.home.as_ref().map(Home::tombstones);
        let (host, now) = (self.host.clone(), self.host.clock.now()?);
        let verifier = Verifier::new(request, host, self.log.clone(), now);
        Ok(verifier.with_tombstones(tombstones))
    }

    /// A writer that seals with the key `name` of this home, by default the one that `threadseal init` made.
    ///
    /// # Errors
    /// Kind `Key` when there is no such key, its passphrase is missing or wrong, or it must not seal;
    /// `Refused` when the log of the home takes no entries.
    pub fn writer(&self, name: Option<&str>, passphrase: Option<&str>) -> Result<Writer, Error> {
        let home = self.home.as_ref();
        let home = home.ok_or_else(|| Error::key("there is no home; hint: threadseal init"))?;
        if let Some(why) = self.log.obstacle() {
            return Err(Error::refused(why));
        }
        let signer = |name: &str, usage| signer(home, name, usage, passphrase);
        let native = signer(name.unwrap_or(NATIVE_NAME), KeyUsage::Native)?;
        let rye = signer(RYE_NAME, KeyUsage::Rye)?;
        Writer::of_home(self.clone(), native, rye)
    }

    /// All keys that this home has or had: also those that a newer key replaced.
    ///
    /// # Errors
    /// When a key cannot be read.
    pub fn own_keys(&self) -> Result<Vec<PublicKey>, Error> {
        let Some(home) = self.home.as_ref() else {
            return Ok(Vec::new());
        };
        let files = home.keys();
        let entries = files.list()?.into_iter().filter(|entry| entry.has_public);
        entries
            .map(|entry| PublicKey::parse_any(files.read_public(&entry.name)?))
            .collect()
    }

    /// Writes the heads that were published here into the log of the home. Those that cannot be written
    /// now wait for the next process.
    ///
    /// # Errors
    /// When they cannot be written now.
    pub fn settle(&self) -> Result<(), Error> {
        let HomeLog::There(log) = &self.log else {
            return Ok(());
        };
        log.flush_within(MAX_SETTLE_WAIT).error.map_or(Ok(()), Err)
    }

    /// Files, clock, randomness and heads.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The home itself.
    pub fn home(&self) -> Option<&Home> {
        self.home.as_ref()
    }
}

/// The log of `home`, as far as there is one.
fn home_log(home: &Home, marks: &[PathBuf], fs: Arc<dyn Fs>) -> Result<HomeLog, Error> {
    let (mark, elsewhere) = marks
        .split_first()
        .ok_or_else(|| Error::invalid("a home has a second place"))?;
    let registry = LogRegistry::new(LogHome {
        host: machine(&*fs),
        fs,
        path: home.path().to_owned(),
        mark: mark.clone(),
        elsewhere: elsewhere.to_vec(),
        settings: Vec::new(),
    });
    Ok(match registry.current() {
        Ok(None) => HomeLog::Never,
        Ok(Some(description)) => {
            let key = log_key(home, &description);
            let log = SealLog::open(registry, description, key, Arc::new(SystemRandom));
            HomeLog::There(Arc::new(log))
        }
        Err(error) if error.kind() == ErrorKind::Refused => HomeLog::Missing(error.to_string()),
        Err(error) => HomeLog::Damaged(error.to_string()),
    })
}

/// The key of a log; None where its private half is not here: then heads wait for a process that has it.
fn log_key(home: &Home, description: &Description) -> Option<LogKey> {
    let signer = signer(home, &description.id.key_name(), KeyUsage::Log, None).ok()?;
    let is_it = *threadseal_core::key::Signer::public_key(&signer) == description.key;
    is_it.then(|| LogKey(Arc::new(signer)))
}

/// The key of this name and usage, if it may seal.
fn signer(
    home: &Home,
    name: &str,
    usage: KeyUsage,
    passphrase: Option<&str>,
) -> Result<LocalSigner, Error> {
    let (keys, store) = (home_keys::list(home, &Silent)?, trust_file::of_home(home)?);
    let is_own = [NATIVE_NAME, RYE_NAME].contains(&name);
    if let Some(fault) = home_keys::fault_of(home, (name, usage), is_own, &keys, &store) {
        return Err(Error::key(fault.to_string()));
    }
    let mut named = keys
        .iter()
        .filter(|key| key.name == name && key.usage == usage);
    let key = named.next().ok_or_else(|| {
        let text =
            format!("there is no key {name:?} for {usage} records; hint: threadseal key list");
        Error::key(text)
    })?;
    Ok(LocalSigner::new(open(home, key, passphrase)?, usage))
}

fn open(home: &Home, key: &OwnKey, passphrase: Option<&str>) -> Result<PrivateKey, Error> {
    let bytes = Zeroizing::new(home.keys().read_private(&key.file)?);
    let pem =
        std::str::from_utf8(&bytes).map_err(|_| Error::key("the key file is not UTF-8 text"))?;
    let private = match (PrivateKey::is_encrypted_pem(pem), passphrase) {
        (false, _) => PrivateKey::from_pem(pem)?,
        (true, Some(passphrase)) => PrivateKey::from_encrypted_pem(pem, passphrase.as_bytes())?,
        (true, None) => {
            let text = format!("the key {:?} is encrypted: give its passphrase", key.name);
            return Err(Error::key(text));
        }
    };
    match *private.public_key() == key.public {
        true => Ok(private),
        false => Err(Error::key(
            "the public half beside it belongs to another key",
        )),
    }
}
