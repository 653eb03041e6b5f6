//! [`Scene`]: a host with keys and trust that writes and verifies native records.

use crate::clock::SystemClock;
use crate::heads::HeadStore;
use crate::host::Host;
use crate::key_ends::NoKeyEnds;
use crate::random::SystemRandom;
use crate::read::RegularFile;
use crate::recorder::{Keys, Opened, Recorder, TailPolicy};
use crate::sys::Fs;
use crate::transcripts::{RecordName, TranscriptStore};
use crate::{bodies, examine};
use std::path::Path;
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer};
use threadseal_core::record::{ExpectedHead, Head, ThreadId};
use threadseal_core::report::Verdict;
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};
use threadseal_formats::transcript::event::{EventType, Payload};
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_formats::transcript::{Ending, Outcome, ScanOptions, VerifyOptions};

/// The verdicts of a record whose writer was cut off: none of them is an alarm.
pub const CALM: [Verdict; 3] = [Verdict::Verified, Verdict::Open, Verdict::UnsignedTail];

/// The key of this seed.
pub fn signer(seed: u8, usage: KeyUsage) -> LocalSigner {
    LocalSigner::new(PrivateKey::from_seed([seed; 32]), usage)
}

/// Trust in a key for its one usage.
pub fn trust(signer: &dyn Signer) -> Trust {
    let mut store = TrustStore::new();
    let name = TrustName::parse("self").unwrap();
    let key = TrustedKey::new(name, *signer.public_key(), [signer.usage()]);
    store.add(key).unwrap();
    Trust::new(store)
}

/// Verification after all seals of the tests were made.
pub fn options(trust: &Trust) -> VerifyOptions<'_> {
    VerifyOptions {
        trust,
        now: Timestamp::from_micros(1_900_000_000_000_000).unwrap(),
        held_since: None,
        thread: None,
    }
}

/// A host with the clock and the randomness of this machine.
pub fn host(fs: Arc<dyn Fs>, heads: impl HeadStore + 'static) -> Host {
    Host {
        fs,
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
        heads: Arc::new(heads),
        keys: Arc::new(NoKeyEnds),
    }
}

/// A host with keys and trust.
pub struct Scene {
    /// Its effects.
    pub host: Host,
    /// The keys that seal: seed 1 for notes, seed 2 for Rye's digests, none of epochs.
    pub keys: Keys,
    /// Trust in the native key.
    pub trust: Trust,
}

impl Scene {
    /// A host on `fs` with these heads.
    pub fn new(fs: Arc<dyn Fs>, heads: impl HeadStore + 'static) -> Self {
        Self::of(host(fs, heads))
    }

    /// The scene of this host.
    pub fn of(host: Host) -> Self {
        let native = Arc::new(signer(1, KeyUsage::Native));
        Self {
            host,
            trust: trust(&*native),
            keys: Keys {
                native,
                rye: Arc::new(signer(2, KeyUsage::Rye)),
                epochs: None,
            },
        }
    }

    /// Verification by the keys of this host.
    pub fn options(&self) -> VerifyOptions<'_> {
        options(&self.trust)
    }

    /// The manifest of a new record.
    ///
    /// # Errors
    /// Those of the random source.
    pub fn manifest(&self) -> Result<Manifest, Error> {
        let (native, rye) = (*self.keys.native.public_key(), *self.keys.rye.public_key());
        Ok(Manifest::new(self.host.new_record()?, native, rye))
    }

    /// Begins the record of thread `t/1` at `path`.
    ///
    /// # Errors
    /// Those of [`Recorder::create`].
    pub fn create(&self, path: &Path) -> Result<Recorder, Error> {
        self.create_as(path, self.manifest()?)
    }

    /// Begins a record with this manifest.
    ///
    /// # Errors
    /// Those of [`Recorder::create`].
    pub fn create_as(&self, path: &Path, manifest: Manifest) -> Result<Recorder, Error> {
        let (host, keys) = (self.host.clone(), self.keys.clone());
        Recorder::create(host, path, thread(), manifest, keys)
    }

    /// Begins a record in a store.
    ///
    /// # Errors
    /// Those of [`Recorder::create_in`].
    pub fn create_in(
        &self,
        store: &dyn TranscriptStore,
        name: &RecordName,
        manifest: Manifest,
    ) -> Result<Recorder, Error> {
        let (host, keys) = (self.host.clone(), self.keys.clone());
        Recorder::create_in(host, store, name, thread(), manifest, keys)
    }

    /// Opens the record at `path`.
    ///
    /// # Errors
    /// Those of [`Recorder::open`].
    pub fn open(&self, path: &Path, tail: TailPolicy) -> Result<Opened, Error> {
        let (host, keys) = (self.host.clone(), self.keys.clone());
        Recorder::open(host, path, keys, &self.options(), tail)
    }

    /// Opens a record of a store and sets its tail aside.
    ///
    /// # Errors
    /// Those of [`Recorder::open_in`].
    pub fn open_in(&self, store: &dyn TranscriptStore, name: &RecordName) -> Result<Opened, Error> {
        let (host, keys, tail) = (self.host.clone(), self.keys.clone(), TailPolicy::SetAside);
        Recorder::open_in(host, store, name, keys, &self.options(), tail)
    }

    /// Verifies a record, with its bodies beside it, against the heads of this host and `expected`.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn verify(&self, file: &RegularFile, expected: Option<Head>) -> Result<Outcome, Error> {
        let first = examine::first_line(file)?.unwrap_or_default();
        let record = examine::native_record(&first);
        let expected = expected.map(ExpectedHead::Head);
        let heads = Some(&*self.host.heads);
        let known = examine::known(heads, record.as_ref(), expected, false)?;
        let scan = ScanOptions {
            expect: known.expect,
            bodies: bodies::beside(&*self.host.fs, file, &first)?,
            ..ScanOptions::default()
        };
        examine::native(file, &scan, &self.options(), &|_| {})
    }
}

fn thread() -> ThreadId {
    ThreadId::parse("t/1").unwrap()
}

/// Appends a message with this text, which is JSON text without quotes.
///
/// # Errors
/// Those of the recorder.
pub fn say(recorder: &mut Recorder, text: &str) -> Result<(), Error> {
    let payload = Payload::parse(format!("{{\"text\":\"{text}\"}}").as_bytes())?;
    recorder.append(&EventType::parse("cognition_in")?, &payload)
}

/// Completes a record in the turn that it is in.
///
/// # Errors
/// Those of the recorder.
pub fn end(recorder: &mut Recorder) -> Result<Head, Error> {
    let turn = recorder.state().turn();
    recorder.end(Ending::Completed, &nothing(), turn)
}

/// An empty payload.
pub fn nothing() -> Payload {
    Payload::parse(b"{}").unwrap()
}
