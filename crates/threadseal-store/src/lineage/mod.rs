//! Lineages in stores: the links of each agent, saved by compare-and-swap on the newest one.
//!
//! ```text
//! a sealed link ─► Advance (verified, allowed) ─► CheckpointStore::save ─► Saved::Stored | Differs
//! newest ─► load ─ prev ─► load ─ prev ─► …       Standings: all of them verified, and remembered
//! ```
//! Laws, for every implementation, tested by one suite (`conformance`):
//! * a store takes a link only as an [`Advance`], which nothing but verification makes; it hashes
//!   the state of the link while it writes, and never publishes other bytes;
//! * the older link is archived before the newer one is published, and publishing is one step.
//!   After a crash the newest link is the last acknowledged one, or one that was being saved. It is
//!   always whole;
//! * of several writers that build on one link one wins; the others get the newest link;
//! * the result of [`CheckpointStore::newest`] survives power loss, so it may be sent to others;
//! * a link that cannot be read is an error, never "no checkpoint". A key that cannot be read is
//!   never replaced.
//!
//! States are streamed: no store holds one in memory. `spec/lineage.md` §14 is normative.

mod advance;
#[cfg(any(test, feature = "fault"))]
pub mod conformance;
mod files;
mod keyed;
pub mod migrate;
mod remembered;
mod standings;
mod state;
mod url;

pub use advance::Advance;
pub use files::FileCheckpointStore;
pub use keyed::{KeyedCheckpointStore, MemoryCheckpointStore};
pub use remembered::RememberedStore;
pub use standings::{MAX_HISTORY_LINKS, Standings};
pub use state::{NO_STATE, StateBytes, StoredLink};
pub use url::open;

use crate::read::Source;
use std::fmt;
use threadseal_core::error::Error;
use threadseal_formats::lineage::{AgentIdentity, AgentName, ContentHash};

/// The newest link of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Newest {
    /// There is none, and never was.
    Nothing,
    /// This one.
    Link(ContentHash),
    /// The agent was deleted here when this was its newest link.
    Deleted(ContentHash),
}

impl Newest {
    /// The newest link that was ever here.
    pub fn known(&self) -> Option<ContentHash> {
        match self {
            Self::Nothing => None,
            Self::Link(hash) | Self::Deleted(hash) => Some(*hash),
        }
    }
}

impl fmt::Display for Newest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing"),
            Self::Link(hash) => fmt::Display::fmt(hash, f),
            Self::Deleted(hash) => write!(f, "nothing; it was deleted at {hash}"),
        }
    }
}

/// The result of a compare-and-swap.
#[must_use = "the link may not have been saved"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saved {
    /// The link is durable, and the newest.
    Stored,
    /// Another link is the newest; nothing changed.
    Differs(Newest),
}

/// The links and keys of agents.
pub trait CheckpointStore: fmt::Debug + Send + Sync {
    /// The newest link of an agent, durable.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::Refused`] when it is damaged or gone,
    /// [`threadseal_core::error::ErrorKind::External`] when the store cannot be read.
    fn newest(&self, agent: &AgentName) -> Result<Newest, Error>;

    /// Saves links whose last becomes the newest, if they build on the present newest link. `state`
    /// is the state that [`Advance::state`] asks for. A link that is the newest already counts as
    /// stored.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::InvalidInput`] when `advance` is another agent's,
    /// [`threadseal_core::error::ErrorKind::Refused`] when `state` is not the sealed one,
    /// [`threadseal_core::error::ErrorKind::External`] when the store fails: the link may be the
    /// newest all the same, so read it.
    fn save(
        &self,
        agent: &AgentName,
        advance: &Advance,
        state: &mut dyn Source,
    ) -> Result<Saved, Error>;

    /// One link of an agent; `None` when this store does not have it.
    ///
    /// # Errors
    /// As [`CheckpointStore::newest`].
    fn load(&self, agent: &AgentName, link: &ContentHash) -> Result<Option<StoredLink>, Error>;

    /// Agents with a newest link after `after`, in order of their bytes, at most `limit`.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::External`] when the store cannot be read.
    fn list(&self, after: Option<&AgentName>, limit: usize) -> Result<Vec<AgentName>, Error>;

    /// Deletes all links of an agent if `expected` is the newest, and remembers that. The identity
    /// stays. A second call finishes an interrupted deletion.
    ///
    /// # Errors
    /// As [`CheckpointStore::newest`].
    fn delete(&self, agent: &AgentName, expected: &ContentHash) -> Result<Saved, Error>;

    /// Keeps the key of an agent, which must have none here.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::InvalidInput`] when there is one, whatever its
    /// contents,
    /// [`threadseal_core::error::ErrorKind::External`] when the store fails.
    fn save_identity(&self, agent: &AgentName, identity: &AgentIdentity) -> Result<(), Error>;

    /// The key of an agent; `None` only when there is none.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::Key`] when it is damaged or others may read it,
    /// [`threadseal_core::error::ErrorKind::External`] when the store cannot be read.
    fn load_identity(&self, agent: &AgentName) -> Result<Option<AgentIdentity>, Error>;

    /// Deletes the key of an agent, if there is one. Without it the agent cannot be continued here.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::External`] when the store fails.
    fn delete_identity(&self, agent: &AgentName) -> Result<(), Error>;

    /// The names of all links from the newest back, oldest first, as far as they are here.
    ///
    /// # Errors
    /// As [`CheckpointStore::newest`]; [`threadseal_core::error::ErrorKind::Limit`] above
    /// [`MAX_HISTORY_LINKS`].
    fn history(&self, agent: &AgentName) -> Result<Vec<ContentHash>, Error> {
        let mut links = standings::walk_back(self, agent, &mut |_| false)?.links;
        links.reverse();
        Ok(links)
    }

    /// The place of the store, without secrets, for people.
    fn place(&self) -> String;
}

/// The refusal of a link that is not the newest one's child.
pub fn overtaken(agent: &AgentName, now: &Newest) -> Error {
    Error::refused(format!(
        "another writer was faster: the newest link of {agent} is {now}; nothing was saved"
    ))
}
