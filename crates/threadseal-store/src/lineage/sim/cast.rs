//! The participants of a simulation: keys, machines, the network, and the numbers that decide.
//!
//! Everything here repeats: values that do not depend on the seed are the same in all schedules.
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking and says where, also in its helpers"
)]

use crate::lineage::migrate::Transport;
use crate::lineage::state::read_all;
use crate::lineage::{CheckpointStore as _, KeyedCheckpointStore, StateBytes};
use crate::objects::Objects;
use crate::objects::fault::FaultObjects;
use crate::objects::memory::MemoryObjects;
use crate::random::Random;
use crate::read::Source;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::{
    KeyUsage, LocalSigner, Message, PrivateKey, PublicKey, Signature, Signer,
};
use threadseal_formats::lineage::{AgentName, Certificate, ContentHash, Delegation};

pub(super) const MACHINES: usize = 3;

/// The one agent.
pub(super) fn agent() -> AgentName {
    AgentName::parse("a").unwrap()
}

/// The keys of all schedules: signing is deterministic, so signed links are kept.
pub(super) struct Keys {
    pub(super) root: MemoSigner,
    pub(super) machines: Vec<(MemoSigner, Certificate)>,
}

pub(super) static KEYS: LazyLock<Keys> = LazyLock::new(|| {
    let root = MemoSigner::new(1);
    let machines = (0..MACHINES).map(|number| {
        let signer = MemoSigner::new(10 + u8::try_from(number).unwrap());
        let window = [0, i64::MAX];
        let key = *signer.public_key();
        let delegation = Delegation::sign(&root, agent(), key, number as u64 + 1, window);
        (signer, delegation.unwrap().certificate)
    });
    let machines = machines.collect();
    Keys { root, machines }
});

pub(super) struct MemoSigner {
    signer: LocalSigner,
    made: Mutex<HashMap<Digest, Signature>>,
}

impl MemoSigner {
    fn new(seed: u8) -> Self {
        Self {
            signer: LocalSigner::new(PrivateKey::from_seed([seed; 32]), KeyUsage::Native),
            made: Mutex::default(),
        }
    }
}

impl Signer for MemoSigner {
    fn public_key(&self) -> &PublicKey {
        self.signer.public_key()
    }

    fn usage(&self) -> KeyUsage {
        self.signer.usage()
    }

    fn sign(&self, message: &Message) -> Result<Signature, Error> {
        let digest = Digest::of(message.as_bytes());
        let known = self.made.lock().unwrap().get(&digest).copied();
        if let Some(signature) = known {
            return Ok(signature);
        }
        let signature = self.signer.sign(message)?;
        self.made.lock().unwrap().insert(digest, signature);
        Ok(signature)
    }
}

/// Numbers in an order that the seed decides (xorshift64*).
#[derive(Debug)]
pub(super) struct Lots(pub(super) u64);

impl Lots {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let drawn = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(drawn).unwrap() % bound
    }

    pub(super) fn one_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }
}

/// Counts, so that equal prefixes of schedules write equal links.
#[derive(Debug, Default)]
pub(super) struct Counting(Mutex<u64>);

impl Random for Counting {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Error> {
        let mut count = self.0.lock().unwrap();
        *count += 1;
        bytes.fill(0);
        bytes[..8].copy_from_slice(&count.to_le_bytes());
        Ok(())
    }
}

/// A machine: the objects that survive a crash, and the fault before them.
pub(super) struct Machine {
    pub(super) objects: Arc<MemoryObjects>,
    pub(super) faulty: Arc<FaultObjects>,
    pub(super) store: KeyedCheckpointStore,
    /// The same objects without faults, for the checks of the simulation.
    pub(super) seen: KeyedCheckpointStore,
    pub(super) is_lost: bool,
    /// Does a machine with a planted bug still act as the holder?
    pub(super) believes: bool,
    /// Its links when they were looked at last, oldest first.
    links: Vec<ContentHash>,
}

impl Machine {
    pub(super) fn new(objects: Arc<MemoryObjects>) -> Self {
        let behind: Arc<dyn Objects> = Arc::clone(&objects) as Arc<dyn Objects>;
        let faulty = Arc::new(FaultObjects::new(Arc::clone(&behind)));
        Self {
            objects,
            store: KeyedCheckpointStore::new(Arc::clone(&faulty) as Arc<dyn Objects>),
            seen: KeyedCheckpointStore::new(behind),
            faulty,
            is_lost: false,
            believes: false,
            links: Vec::new(),
        }
    }

    /// Its links, oldest first; read again only where the newest is another one.
    pub(super) fn links(&mut self) -> Result<&[ContentHash], Error> {
        if self.seen.newest(&agent())?.known() != self.links.last().copied() {
            self.links = self.seen.history(&agent())?;
        }
        Ok(&self.links)
    }

    /// A copy of the objects that are durable now, for machines that cheat.
    pub(super) fn copy(&self) -> KeyedCheckpointStore {
        KeyedCheckpointStore::new(Arc::new(self.objects.copy()))
    }
}

/// Something on its way.
#[derive(Debug, Clone)]
pub(super) struct Parcel {
    pub(super) to: PublicKey,
    pub(super) bytes: Arc<Vec<u8>>,
}

/// The network: all messages that were sent and not lost, and those that arrive now.
#[derive(Debug, Default)]
pub(super) struct Network {
    pub(super) waiting: Vec<Parcel>,
    pub(super) delivered: Vec<Parcel>,
    pub(super) now: Option<Parcel>,
    pub(super) loses: bool,
    pub(super) lots: Option<Lots>,
}

impl Transport for Network {
    fn send(&mut self, to: &PublicKey, bytes: &mut dyn Source) -> Result<(), Error> {
        let parcel = Parcel {
            to: *to,
            bytes: Arc::new(read_all(bytes, usize::MAX)?),
        };
        let lots = self.lots.as_mut().unwrap();
        let copies = match (self.loses, lots.below(8)) {
            (true, 0 | 1) => 0,
            (true, 2) => 2,
            _ => 1,
        };
        self.waiting.extend((0..copies).map(|_| parcel.clone()));
        // It was sent, and its sender gets an error.
        match self.loses && lots.one_in(16) {
            true => Err(Error::new(ErrorKind::External, "the network is down")),
            false => Ok(()),
        }
    }

    fn receive(&mut self, me: &PublicKey) -> Result<Option<Box<dyn Source>>, Error> {
        let parcel = self.now.take().filter(|parcel| parcel.to == *me);
        Ok(parcel
            .map(|parcel| -> Box<dyn Source> { Box::new(StateBytes::new(parcel.bytes.to_vec())) }))
    }
}
