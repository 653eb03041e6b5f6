//! [`CheckpointStore`]: the calls of a store of lineages.

use super::{Advance, Newest, Saved, StoredLink};
use crate::key_ends::SealSection;
use crate::read::Source;
use std::fmt;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::PublicKey;
use threadseal_formats::lineage::{AgentIdentity, AgentName, ContentHash, Version};

/// Agents that are asked for at once.
const PAGE_AGENTS: usize = 256;

/// All that a store has of its agents.
#[derive(Debug, Default)]
pub struct Survey {
    /// The agents, also deleted ones, and those of which only older links are left.
    pub agents: Vec<Surveyed>,
    /// Names of stored objects that no agent or link can have.
    pub strays: Vec<String>,
}

/// All links that a store has of an agent.
#[derive(Debug)]
pub struct Surveyed {
    /// The agent.
    pub agent: AgentName,
    /// The newest link; an error where it is damaged.
    pub newest: Result<Newest, Error>,
    /// The older ones, whether or not the newest leads to them.
    pub older: Vec<ContentHash>,
}

/// Most links of one history that are walked.
pub const MAX_HISTORY_LINKS: usize = 1 << 20;
/// The links and keys of agents.
pub trait CheckpointStore: fmt::Debug + Send + Sync {
    /// The newest link of an agent, durable.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] when it is damaged or gone,
    /// [`ErrorKind::External`] when the store cannot be read.
    fn newest(&self, agent: &AgentName) -> Result<Newest, Error>;

    /// Saves links whose last becomes the newest, if they build on the present newest link. `state`
    /// is the state that [`Advance::state`] asks for. A link that is the newest already counts as
    /// stored.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when `advance` is another agent's,
    /// [`ErrorKind::Refused`] when `state` is not the sealed one,
    /// [`ErrorKind::External`] when the store fails: the link may be the
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
    /// [`ErrorKind::External`] when the store cannot be read.
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
    /// [`ErrorKind::InvalidInput`] when there is one, whatever its
    /// contents,
    /// [`ErrorKind::External`] when the store fails.
    fn save_identity(&self, agent: &AgentName, identity: &AgentIdentity) -> Result<(), Error>;

    /// The key of an agent; `None` only when there is none.
    ///
    /// # Errors
    /// [`ErrorKind::Key`] when it is damaged or others may read it,
    /// [`ErrorKind::External`] when the store cannot be read.
    fn load_identity(&self, agent: &AgentName) -> Result<Option<AgentIdentity>, Error>;

    /// Deletes the key of an agent, if there is one. Without it the agent cannot be continued here.
    ///
    /// # Errors
    /// [`ErrorKind::External`] when the store fails.
    fn delete_identity(&self, agent: &AgentName) -> Result<(), Error>;

    /// The names of all links from the newest back, oldest first, as far as they are here.
    ///
    /// # Errors
    /// As [`CheckpointStore::newest`]; [`ErrorKind::Limit`] above
    /// [`MAX_HISTORY_LINKS`].
    fn history(&self, agent: &AgentName) -> Result<Vec<ContentHash>, Error> {
        let mut links = walk_back(self, agent, &mut |_| false)?.links;
        links.reverse();
        Ok(links)
    }

    /// All that the store has, for a verifier: also links to which no other one leads.
    ///
    /// # Errors
    /// [`ErrorKind::External`] when the store cannot be read, [`ErrorKind::Limit`] above
    /// [`MAX_HISTORY_LINKS`] links.
    fn survey(&self) -> Result<Survey, Error> {
        let mut survey = Survey::default();
        loop {
            let last = survey.agents.last().map(|last| &last.agent);
            let agents = self.list(last, PAGE_AGENTS)?;
            if agents.is_empty() {
                return Ok(survey);
            }
            for agent in agents {
                let mut older = self.history(&agent)?;
                older.pop();
                survey.agents.push(Surveyed {
                    newest: self.newest(&agent),
                    agent,
                    older,
                });
            }
        }
    }

    /// The place of the store, without secrets, for people.
    fn place(&self) -> String;

    /// The name that the store has for its own place, whatever address leads there; `None` where the
    /// path of its folder or file is that name.
    fn own_place(&self) -> Option<String> {
        None
    }

    /// Begins a link that this key signs: the key does not end before the section is dropped. A
    /// store without a host knows of no end.
    ///
    /// # Errors
    /// As [`crate::host::Host::enter_seal`].
    fn enter_seal(&self, _key: &PublicKey) -> Result<SealSection, Error> {
        Ok(SealSection::unlocked())
    }
}

/// The result of a walk from the newest link back.
pub(super) struct Walked {
    pub(super) newest: Newest,
    /// Newest first.
    pub(super) links: Vec<ContentHash>,
    /// The parent that is not here, and the version of the last link.
    pub(super) missing: Option<(ContentHash, Version)>,
}

/// Walks back to the first link, or to a link for which `stop` returns true, which is left out.
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

pub(super) fn gone(agent: &AgentName, link: &ContentHash) -> Error {
    Error::refused(format!("the link {link} of {agent} is gone"))
}
