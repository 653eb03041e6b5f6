//! [`SealPlaces`]: where seals stand in the log of this host, and what keys said of themselves there.
//!
//! A seal of a key that ended counts when it stood in the log before the key did (`spec/keys-and-trust.md` §8). The library reads no
//! log; who verifies with one hands it in here.

use crate::key::PublicKey;
use crate::record::Head;
use crate::time::Timestamp;
use crate::tlog::entry::key_event::KeyHistory;
use std::fmt;

/// The log of a host, to who judges keys.
pub trait SealPlaces: fmt::Debug + Send + Sync {
    /// The entry that holds this head, where something outside of the log vouches that it could not have been put there later.
    fn place(&self, head: &Head) -> Option<u64>;

    /// Until when, at the latest, this head came into the log, as an authority says that the user pinned and that saw the log then; None
    /// where none did. No clock of this host has a part in it.
    fn stamped(&self, head: &Head) -> Option<Timestamp>;

    /// What keys said of themselves in the log; None where it cannot be read.
    fn keys(&self) -> Option<&KeyHistory>;

    /// Did the log go back, or can it not be held against what is known of it elsewhere? Then nothing vouches for a place in it, and that
    /// it lacks one speaks against nobody.
    fn is_in_doubt(&self) -> bool {
        false
    }

    /// The entry that holds this head, vouched for or not.
    fn claimed(&self, head: &Head) -> Option<u64> {
        self.place(head)
    }
}

/// Of a signature, where the log that would tell whether it is older than the end of its key went back.
pub const END_IN_DOUBT: &str = "it ended in the log of this host, and that log went back: nothing tells whether this was signed \
     before; see: threadseal log status";

/// Where what a key signed stands to the entry in which it said that it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placed {
    /// Before it.
    Before,
    /// Nowhere before it.
    Not,
    /// The log that would tell went back, and what it has does not speak against it.
    InDoubt,
}

impl Placed {
    /// Of heads that cover what `key` signed, which ended in entry `end` by what the trust store says.
    pub(super) fn of(places: &dyn SealPlaces, key: &PublicKey, end: u64, heads: &[Head]) -> Self {
        let said = places.keys().and_then(|keys| keys.ended(key));
        let is_before = |place: Option<u64>, end: u64| place.is_some_and(|place| place < end);
        if places.is_in_doubt() {
            // A log from before the end, or one that knows it under another number.
            let may_be = said.is_none_or(|end| {
                let mut heads = heads.iter();
                heads.any(|head| is_before(places.claimed(head), end))
            });
            return match may_be {
                true => Self::InDoubt,
                false => Self::Not,
            };
        }
        // An entry that the trust store names and this log does not is another log's.
        let mut heads = heads.iter();
        match said == Some(end) && heads.any(|head| is_before(places.place(head), end)) {
            true => Self::Before,
            false => Self::Not,
        }
    }
}

/// What a key signed last in a record, and the head that this made.
#[derive(Debug, Clone, Copy)]
pub struct LastOf {
    /// The key.
    pub key: PublicKey,
    /// The head of its last seal.
    pub head: Head,
}

/// Those of the heads at which keys of a record signed last that cover all up to number `seq`.
pub fn covering(last: &[LastOf], seq: u64) -> Vec<Head> {
    let heads = last.iter().map(|other| other.head);
    heads.filter(|other| other.seq >= seq).collect()
}
