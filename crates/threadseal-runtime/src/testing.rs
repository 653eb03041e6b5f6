//! What tests of this crate share: a host in a folder of its own, with keys and a trust that were made for it.

use crate::project::Project;
use crate::toolbox::Parentage;
use std::sync::Arc;
use threadseal::error::Error;
use threadseal::key::{KeyUsage, LocalSigner, PrivateKey, Signer as _};
use threadseal::ledger::Parent;
use threadseal::record::{Head, RecordId, ThreadId};
use threadseal::trust::{Trust, TrustName, TrustStore, TrustedKey};
use threadseal_store::clock::SystemClock;
use threadseal_store::heads::MemoryHeadStore;
use threadseal_store::host::Host;
use threadseal_store::random::SystemRandom;
use threadseal_store::recorder::Keys;
use threadseal_store::sys::RealFs;

/// A project on a host.
pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) host: Host,
    pub(crate) keys: Keys,
    pub(crate) trust: Trust,
    pub(crate) project: Project,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let key =
            |seed, usage| Arc::new(LocalSigner::new(PrivateKey::from_seed([seed; 32]), usage));
        let (native, rye) = (key(1, KeyUsage::Native), key(2, KeyUsage::Rye));
        let mut store = TrustStore::new();
        for (name, key, usage) in [
            ("self", *native.public_key(), KeyUsage::Native),
            ("self-rye", *rye.public_key(), KeyUsage::Rye),
        ] {
            let name = TrustName::parse(name).unwrap();
            store.add(TrustedKey::new(name, key, [usage])).unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let fs = RealFs::shared();
        let project = Project::init(&*fs, folder.path()).unwrap();
        Self {
            folder,
            host: Host {
                fs,
                clock: Arc::new(SystemClock),
                random: Arc::new(SystemRandom),
                heads: Arc::new(MemoryHeadStore::default()),
            },
            keys: Keys { native, rye },
            trust: Trust::new(store),
            project,
        }
    }
}

/// The record of a thread that has no children.
pub(crate) struct NoChildren;

impl Parentage for NoChildren {
    fn child_begins(&mut self, child: &ThreadId, _: &RecordId, _: &str) -> Result<Head, Error> {
        panic!("{child} was to begin")
    }

    fn child_ended(&mut self, child: &ThreadId, _: &str, _: &Head) -> Result<(), Error> {
        panic!("{child} ended")
    }

    fn ledger(&self) -> Result<Parent, Error> {
        panic!("a child was to begin")
    }
}
