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
}

/// What a key signed last in a record, and the head that this made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastOf {
    pub(crate) key: PublicKey,
    pub(crate) head: Head,
}

/// Those of the heads at which keys of a record signed last that cover all that `key` signed: what it made last, and later ones.
pub(crate) fn covering(last: &[LastOf], head: &Head) -> Vec<Head> {
    let heads = last.iter().map(|other| other.head);
    heads.filter(|other| other.seq >= head.seq).collect()
}
