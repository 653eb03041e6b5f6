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

#[cfg(test)]
mod tests {
    use super::super::tests::{genesis, native, writer};
    use super::super::{
        LinkBody, MediaType, RefusalReason, Release, StateSeal, draft, seal_native,
    };
    use super::*;

    fn sealed(header: CheckpointHeader, seed: u8, state: &[u8]) -> WholeLink {
        let sealed = seal_native(header, &native(seed)).unwrap();
        WholeLink::read(&[sealed.bytes.as_slice(), state].concat()).unwrap()
    }

    fn next(link: &WholeLink, change: impl FnOnce(&mut CheckpointHeader)) -> WholeLink {
        let mut header = link.header.following(link.hash, &writer(1, 1, 0)).unwrap();
        change(&mut header);
        sealed(header, 1, b"s")
    }

    fn first() -> (Standing, WholeLink) {
        let link = sealed(genesis(1, &writer(1, 1, 0), b"s"), 1, b"s");
        (Standing::begin().follow(&link).unwrap(), link)
    }

    #[test]
    fn links_follow_in_order_and_no_other_way() {
        let (one, link) = first();
        assert_eq!(one.newest(), Some(link.hash));
        let second = next(&link, |header| header.tick += 1);
        let two = one.follow(&second).unwrap();
        assert_eq!(two.header().unwrap().tick, second.header.tick);
        for (standing, link) in [
            (&Standing::begin(), &second),
            (&one, &link),
            (&two, &second),
        ] {
            assert_eq!(standing.follow(link), Err(StandingFault::Chain));
        }
        let skipped = next(&link, |header| {
            header.native.as_mut().unwrap().seq += 1;
        });
        assert_eq!(one.follow(&skipped), Err(StandingFault::Chain));
        assert!(Standing::cut().follow(&skipped).is_ok());
    }

    #[test]
    fn what_may_not_fall_or_rise_is_named() {
        let (one, link) = first();
        let fallen = next(&link, |header| header.tick -= 1);
        assert_eq!(one.follow(&fallen), Err(StandingFault::Transition("tick")));
        let risen = next(&link, |header| header.budget += 1);
        assert_eq!(one.follow(&risen), Err(StandingFault::Transition("budget")));
        let renewed = next(&link, |header| header.epoch.generation += 1);
        assert!(one.follow(&renewed).is_ok());
    }

    #[test]
    fn nothing_but_an_answer_follows_a_release() {
        let (one, link) = first();
        let body = LinkBody::Release(Release {
            epoch: 1,
            checkpoint: link.hash,
            target: super::super::tests::key(2),
            nonce: [7; 32],
        });
        let header = draft(&link.header, link.hash, &body, &writer(1, 1, 0)).unwrap();
        let release = sealed(header, 1, &body.encode());
        let released = one.follow(&release).unwrap();
        let tick = next(&release, |header| {
            let native = header.native.as_mut().unwrap();
            native.state = StateSeal::of(b"s", MediaType::bytes());
        });
        let fault = released.follow(&tick).unwrap_err();
        assert!(matches!(fault, StandingFault::Place(Refusal::Kind(_))));
        let refusal = LinkBody::Refuse {
            release: release.hash,
            reason: RefusalReason::parse("no room").unwrap(),
        };
        let header = draft(&release.header, release.hash, &refusal, &writer(1, 2, 1)).unwrap();
        let refused = released
            .follow(&sealed(header, 2, &refusal.encode()))
            .unwrap();
        assert_eq!(refused.authority().holder(), one.authority().holder());
    }
}
