//! The keys that sign the turns of a chain: few, and each of them again and again.
//!
//! ```text
//! first turn of a key   is it usable? (a square root and an inversion)
//! up to the 64th        strict verification
//! from then on          the same answer from tables of its multiples
//! ```
//! A key is forgotten when more others come than [`MAX_REPEATED_KEYS`], so that memory stays
//! bounded; making tables costs less than a third of the signatures that were checked before.

use crate::key::{PublicKey, RepeatedKey, Signature};
use crate::limits::MAX_REPEATED_KEYS;

/// From so many signatures on tables are worth their making.
const USES_BEFORE_TABLES: u32 = 64;

/// The key that was asked for, and those that were met last.
#[derive(Debug)]
pub(super) struct Keys {
    pinned: Option<PublicKey>,
    met: Vec<Met>,
    /// Which of `met` the next new key replaces.
    oldest: usize,
}

#[derive(Debug)]
struct Met {
    key: PublicKey,
    uses: u32,
    repeated: Option<RepeatedKey>,
}

impl Met {
    fn new(key: PublicKey) -> Self {
        Self {
            key,
            uses: 0,
            repeated: None,
        }
    }

    fn verifies(&mut self, message: &[u8], signature: &Signature) -> bool {
        if let Some(repeated) = &self.repeated {
            return repeated.verify(message, signature).is_ok();
        }
        self.uses += 1;
        if self.uses >= USES_BEFORE_TABLES {
            self.repeated = Some(RepeatedKey::new(&self.key));
        }
        self.key.verify(message, signature).is_ok()
    }
}

impl Keys {
    pub(super) fn new(pinned: Option<&PublicKey>) -> Self {
        Self {
            pinned: pinned.copied(),
            met: pinned.copied().map(Met::new).into_iter().collect(),
            oldest: 0,
        }
    }

    /// The one acceptable key, if there is one.
    pub(super) fn pinned(&self) -> Option<PublicKey> {
        self.pinned
    }

    /// The key in `bytes` and whether there is a `signature` of `message` that is its own; `None`
    /// when it is no key under which one may verify.
    pub(super) fn check(
        &mut self,
        bytes: &[u8; 32],
        message: &[u8],
        signature: Option<&Signature>,
    ) -> Option<(PublicKey, bool)> {
        let known = self.met.iter().position(|met| met.key.as_bytes() == bytes);
        let at = match known {
            Some(at) => at,
            None => self.meet(PublicKey::from_bytes(bytes).ok()?),
        };
        let met = self.met.get_mut(at)?;
        let holds = signature.is_some_and(|signature| met.verifies(message, signature));
        Some((met.key, holds))
    }

    fn meet(&mut self, key: PublicKey) -> usize {
        if self.met.len() < MAX_REPEATED_KEYS {
            self.met.push(Met::new(key));
            return self.met.len() - 1;
        }
        let at = self.oldest;
        self.oldest = (at + 1) % MAX_REPEATED_KEYS;
        if let Some(met) = self.met.get_mut(at) {
            *met = Met::new(key);
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ed25519_dalek::{Signer as _, SigningKey};

    #[test]
    fn many_keys_in_turn_have_the_answers_of_each_alone() {
        let privates: Vec<_> = (0_u8..)
            .take(MAX_REPEATED_KEYS + 1)
            .map(|seed| SigningKey::from_bytes(&[seed; 32]))
            .collect();
        for count in [1, 2, privates.len()] {
            let mut keys = Keys::new(None);
            for turn in 0..3 * USES_BEFORE_TABLES as usize {
                let private = &privates[turn % count];
                let signature = private.sign(&turn.to_be_bytes());
                let signature = Signature::from_bytes(signature.to_bytes());
                let key = PublicKey::from_bytes(private.verifying_key().as_bytes()).unwrap();
                for (message, wanted) in [(turn, true), (turn + 1, false)] {
                    let answer =
                        keys.check(key.as_bytes(), &message.to_be_bytes(), Some(&signature));
                    assert_eq!(answer, Some((key, wanted)));
                }
            }
            let tables = keys.met.iter().filter(|met| met.repeated.is_some()).count();
            assert_eq!(tables, if count <= MAX_REPEATED_KEYS { count } else { 0 });
        }
    }

    #[test]
    fn bytes_that_are_no_key_have_no_answer() {
        let mut keys = Keys::new(None);
        let signature = Signature::from_bytes([0; 64]);
        assert_eq!(keys.check(&[0xff; 32], b"", Some(&signature)), None);
        assert!(keys.met.is_empty());
    }
}
