//! [`Standings`]: the results of verifying the links of a store from the first on, remembered.
//!
//! A content hash commits to all links before it, so their common result is kept under it. An agent
//! that continues reads only new links.

use super::checkpoint_store::{gone, walk_back};
use super::{CheckpointStore, Newest};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use threadseal_core::error::Error;
use threadseal_formats::lineage::{AgentName, ContentHash, Standing, Version};

/// Most standings that are remembered; then all are forgotten.
const MAX_KNOWN: usize = 1 << 12;

/// Standings that were verified.
#[derive(Debug, Default)]
pub struct Standings {
    known: Mutex<HashMap<ContentHash, Standing>>,
}

impl Standings {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The newest link of an agent, and its standing by all links up to that one, each verified.
    ///
    /// # Errors
    /// As [`CheckpointStore::newest`]; [`threadseal_core::error::ErrorKind::Refused`] also when a link does not follow the
    /// one before it, or one is missing. A missing link before one of igor is allowed: igor
    /// archives no second checkpoint of one tick.
    pub fn of(
        &self,
        store: &dyn CheckpointStore,
        agent: &AgentName,
    ) -> Result<(Newest, Standing), Error> {
        let mut remembered = None;
        let walked = walk_back(store, agent, &mut |hash| {
            remembered = self.known().get(hash).cloned();
            remembered.is_some()
        })?;
        let mut standing = match (remembered, walked.missing) {
            (Some(standing), _) => standing,
            (None, None) => Standing::begin(),
            (None, Some((_, Version::V4))) => Standing::cut(),
            (None, Some((missing, _))) => {
                return Err(Error::refused(format!(
                    "the history of {agent} lacks the link {missing}; restore it"
                )));
            }
        };
        for hash in walked.links.iter().rev() {
            let link = store.load(agent, hash)?.ok_or_else(|| gone(agent, hash))?;
            standing = standing.follow(&link.verified()?).map_err(|fault| {
                Error::refused(format!("the stored link {hash} of {agent}: {fault}"))
            })?;
        }
        self.learn(&standing);
        Ok((walked.newest, standing))
    }

    /// Remembers a standing that was verified elsewhere.
    pub fn learn(&self, standing: &Standing) {
        if let Some(newest) = standing.newest() {
            let mut known = self.known();
            if known.len() >= MAX_KNOWN {
                known.clear();
            }
            known.insert(newest, standing.clone());
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<ContentHash, Standing>> {
        // Each change of the map is whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
