//! Hosts for programs that verify: with a home, or without one.

use crate::home_log::HomeLog;
use std::sync::Arc;
use threadseal_store::clock::SystemClock;
use threadseal_store::heads::{HeadStore, MemoryHeadStore};
use threadseal_store::home::Home;
use threadseal_store::host::Host;
use threadseal_store::random::SystemRandom;
use threadseal_store::sys::RealFs;

/// A host that knows no head of any record.
pub fn without_home() -> Host {
    with_heads(Arc::new(MemoryHeadStore::default()))
}

/// A host that knows the heads of `home` and of its log.
pub fn of_home(home: &Home, log: &HomeLog) -> Host {
    with_heads(log.heads(Arc::new(home.heads())))
}

fn with_heads(heads: Arc<dyn HeadStore>) -> Host {
    Host {
        fs: RealFs::shared(),
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
        heads,
    }
}
