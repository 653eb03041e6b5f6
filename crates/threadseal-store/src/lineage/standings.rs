//! [`Standings`]: what the links of a store prove, verified from the first on and remembered.
//!
//! A content hash commits to all links before it, so what they prove together may be kept under it:
//! an agent that goes on reads only what is new.

use super::{CheckpointStore, Newest};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_formats::lineage::{AgentName, ContentHash, Standing, Version};

/// Most links of one history that are walked.
pub const MAX_HISTORY_LINKS: usize = 1 << 20;
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

    /// The newest link of an agent, and where it stands by all links up to that one, each verified.
    ///
    /// # Errors
    /// As [`CheckpointStore::newest`]; [`ErrorKind::Refused`] also when a link does not follow the one
    /// before it, or one is not here, except before one of the original: it archives no second
    /// checkpoint of one tick.
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
                    "the history of {agent} lacks the link {missing}; put it back"
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

    /// Remembers what was verified elsewhere.
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

/// What a walk from the newest link back came by.
pub(super) struct Walked {
    pub(super) newest: Newest,
    /// Newest first.
    pub(super) links: Vec<ContentHash>,
    /// The parent that is not here, and the version of the last link.
    missing: Option<(ContentHash, Version)>,
}

/// Walks back until `stop` says so of a link, which is not walked any more, or to the first.
pub(super) fn walk_back<S: CheckpointStore + ?Sized>(
    store: &S,
    agent: &AgentName,
    stop: &mut dyn FnMut(&ContentHash) -> bool,
) -> Result<Walked, Error> {
    let newest = store.newest(agent)?;
    let mut walked = Walked {
        newest,
        links: Vec::new(),
        missing: None,
    };
    let (mut at, mut child) = (None, None);
    if let Newest::Link(hash) = newest {
        at = Some(hash);
    }
    while let Some(hash) = at.filter(|hash| !stop(hash)) {
        if walked.links.len() == MAX_HISTORY_LINKS {
            let text = format!("{agent} has more than {MAX_HISTORY_LINKS} links");
            return Err(Error::new(ErrorKind::Limit, text));
        }
        match (store.load(agent, &hash)?, child) {
            (Some(link), _) => {
                walked.links.push(hash);
                child = Some(link.header.version);
                at = link.header.prev;
            }
            (None, Some(version)) => {
                walked.missing = Some((hash, version));
                at = None;
            }
            (None, None) => return Err(gone(agent, &hash)),
        }
    }
    Ok(walked)
}

fn gone(agent: &AgentName, link: &ContentHash) -> Error {
    Error::refused(format!("the link {link} of {agent} is gone"))
}
