//! [`SealPlaces`]: the places of seals in the log of this host, and the key events in it.
//!
//! A seal of a key that ended counts if it entered the log before the key ended
//! (`spec/keys-and-trust.md` §8). The library reads no log. A caller that verifies with a log
//! passes it in here.

use crate::digest::Digest;
use crate::key::{PublicKey, Signature};
use crate::record::{Head, RecordId};
use crate::time::Timestamp;
use crate::tlog::entry::key_event::KeyHistory;
use std::fmt;

/// The log of a host, as input for judging keys.
pub trait SealPlaces: fmt::Debug + Send + Sync {
    /// The entry of this head, if evidence outside the log excludes that it was inserted later.
    fn place(&self, head: &Head) -> Option<u64>;

    /// The latest possible time at which this head entered the log, or `None`.
    ///
    /// It comes from a time stamp authority that the user pinned and that saw the log. It does not
    /// depend on any clock of this host.
    fn stamped(&self, head: &Head) -> Option<Timestamp>;

    /// The key events in the log; `None` if it cannot be read.
    fn keys(&self) -> Option<&KeyHistory>;

    /// The root that the log has for this head, if it has one. Of formats whose heads cover no
    /// signature it is a digest of the signatures.
    fn root(&self, _head: &Head) -> Option<Digest> {
        None
    }

    /// Whether the log was rolled back, or cannot be compared with what is known of it elsewhere.
    ///
    /// Then nothing vouches for a place in it, and a missing place is no evidence.
    fn is_in_doubt(&self) -> bool {
        false
    }

    /// The entry of this head, vouched for or not.
    fn claimed(&self, head: &Head) -> Option<u64> {
        self.place(head)
    }
}

/// The place of a key's seal in the log, relative to the entry that ended the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placed {
    /// Before the end.
    Before,
    /// Not before the end.
    Not,
    /// The log was rolled back, and its remaining entries do not exclude a place before the end.
    InDoubt,
}

impl Placed {
    /// Judges the heads that cover signatures of `key`. The trust store gives `end`, the entry that
    /// ended the key.
    pub(super) fn of(places: &dyn SealPlaces, key: &PublicKey, end: u64, heads: &[Head]) -> Self {
        let said = places.keys().and_then(|keys| keys.ended(key));
        let is_before = |place: Option<u64>, end: u64| place.is_some_and(|place| place < end);
        if places.is_in_doubt() {
            // The log is from before the end, or has the end under another number.
            let may_be = said.is_none_or(|end| {
                let mut heads = heads.iter();
                heads.any(|head| is_before(places.claimed(head), end))
            });
            return match may_be {
                true => Self::InDoubt,
                false => Self::Not,
            };
        }
        // If this log lacks the entry that the trust store names, that entry is of another log.
        let mut heads = heads.iter();
        match said == Some(end) && heads.any(|head| is_before(places.place(head), end)) {
            true => Self::Before,
            false => Self::Not,
        }
    }
}

/// A signature that is in no record, in the place of a head that covers it.
pub fn head_of_signature(signature: &Signature) -> Head {
    let line = Digest::of(signature.as_bytes());
    Head {
        record: RecordId::from_bytes(*line.as_bytes()),
        seq: 0,
        size: 0,
        line,
    }
}

/// The signature in the place of a head, as [`head_of_signature`] makes it.
pub fn signature_in(head: &Head) -> Option<&Digest> {
    let names_itself = head.record.as_bytes() == head.line.as_bytes();
    (names_itself && head.seq == 0 && head.size == 0).then_some(&head.line)
}

/// The last seal of a key in a record, with its head.
#[derive(Debug, Clone, Copy)]
pub struct LastOf {
    /// The key.
    pub key: PublicKey,
    /// The head of its last seal.
    pub head: Head,
}

/// The heads in `last` that cover all seals up to number `seq`.
pub fn covering(last: &[LastOf], seq: u64) -> Vec<Head> {
    let heads = last.iter().map(|other| other.head);
    heads.filter(|other| other.seq >= seq).collect()
}
