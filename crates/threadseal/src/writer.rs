//! [`Writer`]: records threads in files, sealed while they grow.

use std::path::Path;
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, PublicKey, Signer as _};
use threadseal_core::record::ThreadId;
use threadseal_core::time::Timestamp;
use threadseal_core::trust::Trust;
use threadseal_formats::transcript::manifest::{Bodies, Manifest};
use threadseal_store::clock::SystemClock;
use threadseal_store::heads::FileHeadStore;
use threadseal_store::host::Host;
use threadseal_store::key_ends::NoKeyEnds;
use threadseal_store::random::SystemRandom;
use threadseal_store::recorder::{Keys, Recorder, TailPolicy};
use threadseal_store::sys::RealFs;
use threadseal_verify::home_log::HomeLog;
use threadseal_verify::{Verifier, VerifyRequest};

/// The keys and the host of a program that records threads.
pub struct Writer {
    host: Host,
    native: Arc<LocalSigner>,
    rye: Arc<LocalSigner>,
    detached: bool,
}

impl Writer {
    /// A writer with these keys; heads of its records are kept in the folder `heads`.
    ///
    /// # Errors
    /// Kind `InvalidInput` unless `native` has the usage `native` and `rye` the usage `rye`.
    pub fn new(native: LocalSigner, rye: LocalSigner, heads: &Path) -> Result<Self, Error> {
        if (native.usage(), rye.usage()) != (KeyUsage::Native, KeyUsage::Rye) {
            return Err(Error::invalid("a writer needs a native key and a Rye key"));
        }
        let fs = RealFs::shared();
        let heads = Arc::new(FileHeadStore::new(Arc::clone(&fs), heads));
        Ok(Self {
            host: Host {
                fs,
                clock: Arc::new(SystemClock),
                random: Arc::new(SystemRandom),
                heads,
                keys: Arc::new(NoKeyEnds),
            },
            native: Arc::new(native),
            rye: Arc::new(rye),
            detached: false,
        })
    }

    /// A writer whose two keys are made of one seed: for examples and tests, since anyone who has the
    /// seed has the keys.
    ///
    /// # Errors
    /// As [`Writer::new`].
    pub fn danger_with_seed(seed: [u8; 32], folder: &Path) -> Result<Self, Error> {
        let other = seed.map(|byte| byte ^ 0xff);
        Self::new(
            LocalSigner::new(PrivateKey::from_seed(seed), KeyUsage::Native),
            LocalSigner::new(PrivateKey::from_seed(other), KeyUsage::Rye),
            &folder.join("heads"),
        )
    }

    /// The same writer, whose new records keep texts beside the record, so that they can be
    /// redacted.
    #[must_use]
    pub fn with_detached_bodies(self) -> Self {
        Self {
            detached: true,
            ..self
        }
    }

    /// The key that seals.
    pub fn public_key(&self) -> PublicKey {
        *self.native.public_key()
    }

    /// The clock of this host.
    ///
    /// # Errors
    /// Kind `External` when the clock is out of range.
    pub fn now(&self) -> Result<Timestamp, Error> {
        self.host.clock.now()
    }

    /// Begins a record at `path`: line 1 is durable and sealed.
    ///
    /// # Errors
    /// Kind `InvalidInput` when `path` exists or `thread` is no thread id, else as
    /// [`Recorder::seal`].
    pub fn record(&self, path: &Path, thread: &str) -> Result<Recorder, Error> {
        let record = self.host.new_record()?;
        let mut manifest = Manifest::new(record, self.public_key(), *self.rye.public_key());
        if self.detached {
            manifest.bodies = Bodies::Detached;
        }
        let thread = ThreadId::parse(thread)?;
        Recorder::create(self.host.clone(), path, thread, manifest, self.keys())
    }

    /// Continues a record that this writer began, after it verified.
    ///
    /// # Errors
    /// Kind `Refused` when the record does not verify or has bytes after its last seal, `External`
    /// when another writer holds it.
    pub fn resume(&self, path: &Path) -> Result<Recorder, Error> {
        let trust = Trust::key(self.public_key());
        let (host, request) = (self.host.clone(), VerifyRequest::by(trust));
        let verifier = Verifier::new(request, host.clone(), HomeLog::Never, self.now()?);
        let opened = Recorder::open(host, path, self.keys(), &verifier, TailPolicy::Refuse)?;
        Ok(opened.recorder)
    }

    fn keys(&self) -> Keys {
        Keys {
            native: Arc::clone(&self.native) as _,
            rye: Arc::clone(&self.rye) as _,
            epochs: None,
        }
    }
}
