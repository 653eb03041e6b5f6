//! The newest link of an agent, and the results of replacing it.

use std::fmt;
use threadseal_core::error::Error;
use threadseal_formats::lineage::{AgentName, ContentHash};

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

/// The refusal of a link that is not the newest one's child.
pub fn overtaken(agent: &AgentName, now: &Newest) -> Error {
    Error::refused(format!(
        "another writer was faster: the newest link of {agent} is {now}; nothing was saved"
    ))
}
