//! The keys that sign the turns of a chain: few keys, each used many times.

use threadseal_core::key::{PublicKey, RepeatedKeys, Signature};

/// The pinned key, and the keys that were used last.
#[derive(Debug)]
pub(super) struct Keys {
    pinned: Option<PublicKey>,
    met: RepeatedKeys,
}

impl Keys {
    pub(super) fn new(pinned: Option<&PublicKey>) -> Self {
        let mut met = RepeatedKeys::default();
        if let Some(key) = pinned {
            met.meet(key);
        }
        Self {
            pinned: pinned.copied(),
            met,
        }
    }

    /// The one acceptable key, if there is one.
    pub(super) fn pinned(&self) -> Option<PublicKey> {
        self.pinned
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
