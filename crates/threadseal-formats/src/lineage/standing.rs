//! The state of a lineage, and the links that may come next. One function applies every rule to one
//! link after the other.
//!
//! ```text
//! Standing::begin ─ follow(genesis) ─► Standing ─ follow(link) ─► Standing …
//! ```
//! A [`Standing`] is the combined proof of all links up to the newest one. It depends only on the
//! newest link's content hash, which commits to all before it. So it may be cached under that hash.
//! A writer of a link and a receiver of one call the same function.
//!
//! Elsewhere: the key that may write (`authority`), whether seals hold (`whole`), forks.

use super::authority::{Authority, Refusal};
use super::hash::ContentHash;
use super::header::CheckpointHeader;
use super::policy::{Broken, broken};
use super::whole::WholeLink;
use std::fmt;

/// The state of a lineage after its newest link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    newest: Option<(ContentHash, Box<CheckpointHeader>)>,
    authority: Authority,
}

/// Why a link does not follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandingFault {
    /// It does not name the newest link, or is not numbered after it.
    Chain,
    /// Its writer may not write it here.
    Place(Refusal),
    /// Its value of this field may not follow the previous value.
    Transition(&'static str),
}

impl fmt::Display for StandingFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chain => f.write_str("it does not build on the newest link"),
            Self::Place(refusal) => fmt::Display::fmt(refusal, f),
            Self::Transition(field) => {
                write!(f, "its {field} may not follow that of the link before it")
            }
        }
    }
}

impl std::error::Error for StandingFault {}

impl Standing {
    /// Before the first link.
    pub fn begin() -> Self {
        Self {
            newest: None,
            authority: Authority::Nobody,
        }
    }

    /// Before the first available link, of a lineage whose older ones are missing.
    pub fn cut() -> Self {
        Self {
            newest: None,
            authority: Authority::Unknown,
        }
    }

    /// Its state after `link`.
    ///
    /// # Errors
    /// The [`StandingFault`]; the state does not change.
    pub fn follow(&self, link: &WholeLink) -> Result<Self, StandingFault> {
        if !self.is_followed_by(&link.header) {
            return Err(StandingFault::Chain);
        }
        let authority = self.authority.after(&link.link());
        let authority = authority.map_err(StandingFault::Place)?;
        let before = self.newest.as_ref().map(|(_, header)| &**header);
        if let Some(rule) = before.and_then(|before| broken(before, &link.header).next()) {
            return Err(StandingFault::of(rule));
        }
        Ok(Self {
            newest: Some((link.hash, Box::new(link.header.clone()))),
            authority,
        })
    }

    /// The name of the newest link.
    pub fn newest(&self) -> Option<ContentHash> {
        self.newest.as_ref().map(|(hash, _)| *hash)
    }

    /// The header of the newest link.
    pub fn header(&self) -> Option<&CheckpointHeader> {
        self.newest.as_ref().map(|(_, header)| &**header)
    }

    /// The authority over the next link.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Does `link` name the newest link?
    fn is_followed_by(&self, link: &CheckpointHeader) -> bool {
        let Some((hash, before)) = &self.newest else {
            return link.prev.is_none() || self.authority == Authority::Unknown;
        };
        match link.prev {
            Some(prev) => prev == *hash,
            // Before v0x04 no link names another; igor's first signed link does not name them
            // either.
            None => !before.version.is_signed(),
        }
    }
}

impl StandingFault {
    fn of(rule: Broken) -> Self {
        match rule {
            Broken::Seq => Self::Chain,
            Broken::Tick => Self::Transition("tick"),
            Broken::Epoch => Self::Transition("epoch"),
            Broken::Budget => Self::Transition("budget"),
            Broken::Altered(field) => Self::Transition(field),
        }
    }
}
