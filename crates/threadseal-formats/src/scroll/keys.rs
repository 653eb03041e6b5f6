//! The keys that sign the turns of a chain: few keys, each used many times.

use threadseal_core::key::{PublicKey, RepeatedKeys, Signature};
use threadseal_core::limits::MAX_REPEATED_KEYS;

/// The pinned keys, and the keys that were used last.
#[derive(Debug)]
pub(super) struct Keys {
    pinned: Vec<PublicKey>,
    met: RepeatedKeys,
}

impl Keys {
    pub(super) fn new(pinned: &[PublicKey]) -> Self {
        let mut met = RepeatedKeys::default();
        // More keys than it keeps would only replace each other.
        for key in pinned.iter().take(MAX_REPEATED_KEYS) {
            met.meet(key);
        }
        Self {
            pinned: pinned.to_vec(),
            met,
        }
    }

    /// Does the signature verify under a pinned key? `named` is the key that it names, and whether
    /// it holds under that.
    pub(super) fn holds_for_pinned(
        &mut self,
        named: Option<(PublicKey, bool)>,
        message: &[u8],
        signature: Option<&Signature>,
    ) -> bool {
        let met = &mut self.met;
        let mut holds = |key: &PublicKey| match named {
            Some((named, holds)) if named == *key => holds,
            _ => {
                let checked = met.check(key.as_bytes(), message, signature);
                checked.is_some_and(|(_, holds)| holds)
            }
        };
        // The key that it names comes first: mostly it is one of them.
        let is_named = |key: &PublicKey| named.is_some_and(|(named, _)| named == *key);
        let own = self.pinned.iter().find(|key| is_named(key));
        own.is_some_and(&mut holds) || self.pinned.iter().any(|key| !is_named(key) && holds(key))
    }

    /// As [`RepeatedKeys::check`].
    pub(super) fn check(
        &mut self,
        bytes: &[u8; 32],
        message: &[u8],
        signature: Option<&Signature>,
    ) -> Option<(PublicKey, bool)> {
        self.met.check(bytes, message, signature)
    }
}
