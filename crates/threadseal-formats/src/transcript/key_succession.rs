//! The native writer's rules for keys beside the current one, and for successors of a record's
//! authority (`spec/transcript.md` §5).

use super::payloads::Succession;
use super::write::{Sealer, Stamp};
use threadseal_core::error::Error;
use threadseal_core::key::PublicKey;
use threadseal_core::tlog::entry::key_event::{KeyChange, KeyEvent};

impl Sealer {
    /// May this key make the next seal?
    pub fn may_seal(&self, key: &PublicKey) -> bool {
        self.keys.find(&key.key_id()).is_some()
    }

    /// Did the authority allow this key to seal beside the current one?
    pub fn is_delegate(&self, key: &PublicKey) -> bool {
        self.keys.is_delegate(key)
    }

    /// The number of keys that the authority admitted beside the current one.
    pub fn delegates(&self) -> usize {
        self.keys.delegates()
    }

    /// The key that is responsible for the record now: the manifest's authority, or the key that
    /// replaced it.
    pub fn authority(&self) -> &PublicKey {
        self.keys.heirs().last().unwrap_or(&self.manifest.authority)
    }

    /// Lets the key that replaced the authority, by the signed statement in `word`, seal after the
    /// end of the record.
    ///
    /// # Errors
    /// As [`Sealer::event`]; kind `Refused` when the record has not ended, `Key` when the statement
    /// is not by its authority.
    pub fn succeed(
        &mut self,
        stamp: Stamp,
        word: &KeyEvent,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let KeyChange::Rotate(next) = word.change() else {
            return Err(Error::key("the key event does not name a next key"));
        };
        if !self.is_ended() {
            return Err(Error::refused(
                "the record has not ended, so its authority stays the same",
            ));
        }
        let (next, signature) = (*next, *word.signature());
        let payload = Succession { next, signature }.to_string();
        self.keys
            .succeed(payload.as_bytes(), &self.manifest)
            .map_err(Error::key)?;
        self.recorder_event(stamp, "authority", payload.as_bytes(), out)
    }
}
