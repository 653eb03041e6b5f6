//! Hosts for programs that verify: with a home, or without one.

use crate::home_key_ends::HomeKeyEnds;
use crate::home_log::HomeLog;
use std::sync::Arc;
use threadseal_store::clock::SystemClock;
use threadseal_store::heads::{HeadStore, MemoryHeadStore};
use threadseal_store::home::Home;
use threadseal_store::host::Host;
use threadseal_store::key_ends::{KeyEnds, NoKeyEnds};
use threadseal_store::random::SystemRandom;
use threadseal_store::sys::RealFs;

/// A host that knows no head of any record.
pub fn without_home() -> Host {
    with(Arc::new(MemoryHeadStore::default()), Arc::new(NoKeyEnds))
}

/// A host that knows the heads of `home` and of its log, and which of its keys ended.
pub fn of_home(home: &Home, log: &HomeLog) -> Host {
    let keys = HomeKeyEnds::new(RealFs::shared(), home.clone(), log.clone());
    with(log.heads(Arc::new(home.heads())), Arc::new(keys))
}

fn with(heads: Arc<dyn HeadStore>, keys: Arc<dyn KeyEnds>) -> Host {
    Host {
        fs: RealFs::shared(),
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
        heads,
        keys,
    }
}
