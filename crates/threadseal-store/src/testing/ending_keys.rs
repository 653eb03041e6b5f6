//! [`EndingKeys`]: keys that end right before a seal, which no check before that could show.

use crate::key_ends::{KeyEnds, SealSection};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use threadseal_core::error::Error;
use threadseal_core::key::PublicKey;

/// All keys end after this many seals.
#[derive(Debug)]
pub struct EndingKeys(AtomicUsize);

impl EndingKeys {
    /// The keys make `seals` seals, and then they end.
    pub fn after(seals: usize) -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(seals)))
    }
}

impl KeyEnds for EndingKeys {
    fn enter(&self, _: &[&PublicKey]) -> Result<SealSection, Error> {
        let one_less = |seals: usize| seals.checked_sub(1);
        let left = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
        left.map(|_| SealSection::unlocked())
            .map_err(|_| Error::refused("the key has ended"))
    }
}
