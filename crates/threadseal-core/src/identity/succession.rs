//! Which file of an identity may take the place of which.
//!
//! A reader keeps the newest file of each identity. Without this order an attacker could present an
//! older file, in which a stolen key had not ended, or one of two files that contradict each other.
//!
//! A link by the recovery key has precedence over a link by a key, and over any number: a thief of
//! the native key may have signed both.

use super::{Identity, IdentityKey, Link, LinkBy};
use std::fmt;

/// What a file is beside the one that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The known file itself.
    Same,
    /// A later file.
    Newer,
    /// A later file. The recovery key replaced a key of the known one, so that keys which only the
    /// known one lists are not of this identity.
    Recovered,
}

/// Why a file may not take the place of the known one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conflict {
    /// It is of another identity.
    Other,
    /// It is an earlier file.
    Older,
    /// The known file and this one contradict each other.
    Forked,
    /// It is by a key that the recovery key replaced.
    Replaced,
    /// It lacks a key of the known file, or takes back its end.
    TakesBack,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Other => "it is of another identity",
            Self::Older => "it is older than the file that is known here",
            Self::Forked => "it and the file that is known here contradict each other: the native key signed both",
            Self::Replaced => "the recovery key of this identity has replaced the key that signed it",
            Self::TakesBack => "it lacks a key of the file that is known here, or takes back the end of one",
        })
    }
}

impl Identity {
    /// Whether this file may take the place of `known`.
    ///
    /// # Errors
    /// The reason why it may not.
    pub fn follows(&self, known: &Self) -> Result<Step, Conflict> {
        if self.id != known.id {
            return Err(Conflict::Other);
        }
        if self == known {
            return Ok(Step::Same);
        }
        let (new, old) = (&self.content, &known.content);
        let shared = shared(&new.links, &old.links);
        let (added, dropped) = (&new.links[shared..], &old.links[shared..]);
        if !dropped.is_empty() {
            return match (is_recovery(added), has_recovery(dropped)) {
                (true, false) => Ok(Step::Recovered),
                (false, true) => Err(Conflict::Replaced),
                _ if new.seq < old.seq && added.is_empty() => Err(Conflict::Older),
                _ => Err(Conflict::Forked),
            };
        }
        if has_recovery(added) {
            return Ok(Step::Recovered);
        }
        match new.seq.cmp(&old.seq) {
            std::cmp::Ordering::Less => Err(Conflict::Older),
            std::cmp::Ordering::Equal => Err(Conflict::Forked),
            std::cmp::Ordering::Greater if self.keeps_all_of(known) => Ok(Step::Newer),
            std::cmp::Ordering::Greater => Err(Conflict::TakesBack),
        }
    }

    /// Each key of `known` is here for the same usage, and each end is here, no later and no milder.
    fn keeps_all_of(&self, known: &Self) -> bool {
        known.content.keys.iter().all(|old| {
            let new = self.content.key(&old.key);
            new.is_some_and(|new| new.usage == old.usage && keeps_end(new, old))
        })
    }
}

fn keeps_end(new: &IdentityKey, old: &IdentityKey) -> bool {
    match (&new.ended, &old.ended) {
        (_, None) => true,
        (Some(new), Some(old)) => {
            let next = new.how.next();
            new.at <= old.at && (next.is_none() || next == old.how.next())
        }
        (None, Some(_)) => false,
    }
}

/// The number of links that both begin with.
fn shared(one: &[Link], other: &[Link]) -> usize {
    let pairs = one.iter().zip(other);
    pairs.take_while(|(one, other)| is_same(one, other)).count()
}

/// Two signatures on one link state the same.
fn is_same(one: &Link, other: &Link) -> bool {
    (one.from, one.to, one.by) == (other.from, other.to, other.by)
}

fn is_recovery(links: &[Link]) -> bool {
    links
        .first()
        .is_some_and(|link| link.by == LinkBy::Recovery)
}

fn has_recovery(links: &[Link]) -> bool {
    links.iter().any(|link| link.by == LinkBy::Recovery)
}
