//! [`Writer`]: records threads in files, sealed while they grow.

use crate::home::OpenedHome;
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
use threadseal_store::home::Home;
use threadseal_store::host::Host;
use threadseal_store::key_ends::NoKeyEnds;
use threadseal_store::random::SystemRandom;
use threadseal_store::recorder::{Keys, Opened, Recorder, TailPolicy};
use threadseal_store::sys::RealFs;
use threadseal_verify::home_log::HomeLog;
use threadseal_verify::{Verifier, VerifyRequest};

/// The keys and the host of a program that records threads.
#[derive(Clone)]
pub struct Writer {
    host: Host,
    native: Arc<LocalSigner>,
    rye: Arc<LocalSigner>,
    detached: bool,
    /// The home whose keys these are.
    home: Option<OpenedHome>,
}

impl Writer {
    /// A writer with these keys; heads of its records are kept in the folder `heads`.
    ///
    /// # Errors
    /// Kind `InvalidInput` unless `native` has the usage `native` and `rye` the usage `rye`.
    pub fn new(native: LocalSigner, rye: LocalSigner, heads: &Path) -> Result<Self, Error> {
        let fs = RealFs::shared();
        let heads = Arc::new(FileHeadStore::new(Arc::clone(&fs), heads));
        let host = Host {
            fs,
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
            heads,
            keys: Arc::new(NoKeyEnds),
        };
        Self::on(host, native, rye, None)
    }

    /// A writer with keys of a home; heads of its records are kept there.
    ///
    /// # Errors
    /// As [`Writer::new`].
    pub(crate) fn of_home(
        home: OpenedHome,
        native: LocalSigner,
        rye: LocalSigner,
    ) -> Result<Self, Error> {
        Self::on(home.host().clone(), native, rye, Some(home))
    }

    fn on(
        host: Host,
        native: LocalSigner,
        rye: LocalSigner,
        home: Option<OpenedHome>,
    ) -> Result<Self, Error> {
        if (native.usage(), rye.usage()) != (KeyUsage::Native, KeyUsage::Rye) {
            return Err(Error::invalid("a writer needs a native key and a Rye key"));
        }
        Ok(Self {
            host,
            native: Arc::new(native),
            rye: Arc::new(rye),
            detached: false,
            home,
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
        self.record_as(path, thread, self.manifest()?)
    }

    /// Line 1 of a new record of this writer, to be completed with what the caller knows of the thread.
    ///
    /// # Errors
    /// Kind `External` when there is no randomness.
    pub fn manifest(&self) -> Result<Manifest, Error> {
        let record = self.host.new_record()?;
        let mut manifest = Manifest::new(record, self.public_key(), *self.rye.public_key());
        if self.detached {
            manifest.bodies = Bodies::Detached;
        }
        Ok(manifest)
    }

    /// As [`Writer::record`], with this line 1.
    ///
    /// # Errors
    /// As [`Writer::record`].
    pub fn record_as(
        &self,
        path: &Path,
        thread: &str,
        manifest: Manifest,
    ) -> Result<Recorder, Error> {
        let thread = ThreadId::parse(thread)?;
        Recorder::create(self.host.clone(), path, thread, manifest, self.keys())
    }

    /// Continues a record that this writer began, after it verified.
    ///
    /// # Errors
    /// Kind `Refused` when the record does not verify or has bytes after its last seal, `External`
    /// when another writer holds it.
    pub fn resume(&self, path: &Path) -> Result<Recorder, Error> {
        Ok(self.resume_with(path, TailPolicy::Refuse)?.recorder)
    }

    /// As [`Writer::resume`], and decides what becomes of bytes after the last seal.
    ///
    /// # Errors
    /// As [`Writer::resume`], as far as `tail` leaves a tail a reason.
    pub fn resume_with(&self, path: &Path, tail: TailPolicy) -> Result<Opened, Error> {
        let verifier = self.verifier()?;
        Recorder::open(self.host.clone(), path, self.keys(), &verifier, tail)
    }

    /// The verifier of this writer's own records. A writer of a home trusts as its home does, another one
    /// its own key.
    ///
    /// # Errors
    /// When the trust of the home cannot be read, or the clock is out of range.
    pub fn verifier(&self) -> Result<Verifier, Error> {
        if let Some(home) = &self.home {
            return home.verifier(VerifyRequest::by(home.trust()?));
        }
        let request = VerifyRequest::by(Trust::key(self.public_key()));
        let (host, now) = (self.host.clone(), self.now()?);
        Ok(Verifier::new(request, host, HomeLog::Never, now))
    }

    /// The key that seals, for documents.
    pub fn signer(&self) -> &LocalSigner {
        &self.native
    }

    /// The home whose keys these are, where they are of one.
    pub fn home(&self) -> Option<&OpenedHome> {
        self.home.as_ref()
    }

    /// Files, clock, randomness and heads.
    pub fn host(&self) -> &Host {
        &self.host
    }

    fn keys(&self) -> Keys {
        Keys {
            native: Arc::clone(&self.native) as _,
            rye: Arc::clone(&self.rye) as _,
            epochs: self
                .home
                .as_ref()
                .and_then(OpenedHome::home)
                .map(Home::epochs),
        }
    }
}
