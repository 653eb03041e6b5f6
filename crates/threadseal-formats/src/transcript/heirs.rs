//! What the native writer knows of keys beside the current one, and does where another took the place of a record's authority
//! (`spec/transcript.md` §5).

use super::write::{Sealer, Stamp};
use threadseal_core::encoding;
use threadseal_core::error::Error;
use threadseal_core::key::PublicKey;
use threadseal_core::tlog::entry::key_event::{KeyChange, KeyEvent};

impl Sealer {
    /// May this key make the next seal?
    pub fn may_seal(&self, key: &PublicKey) -> bool {
        self.keys.find(&key.key_id()).is_some()
    }

    /// Did the authority let this key seal beside the current one?
    pub fn is_delegate(&self, key: &PublicKey) -> bool {
        self.keys.is_delegate(key)
    }

    /// How many keys the authority let in beside the current one.
    pub fn delegates(&self) -> usize {
        self.keys.delegates()
    }

    /// The key that answers for the record now: the manifest's authority, or the one that took its place.
    pub fn authority(&self) -> &PublicKey {
        self.keys.heir().unwrap_or(&self.manifest.authority)
    }

    /// Lets the key that took the authority's place, by that one's `word`, seal behind the end of the record in its stead.
    ///
    /// # Errors
    /// As [`Sealer::event`]; kind `Refused` when the record goes on, `Key` when the word is not its authority's.
    pub fn succeed(
        &mut self,
        stamp: Stamp,
        word: &KeyEvent,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let KeyChange::Rotate(next) = word.change() else {
            return Err(Error::key("the word names no key that follows"));
        };
        if !self.ended {
            return Err(Error::refused(
                "the record goes on, under the authority that it has",
            ));
        }
        let payload = format!(
            "{{\"next\":\"{}\",\"signature\":\"{}\"}}",
            next.to_hex(),
            encoding::base64(word.signature().as_bytes())
        );
        self.keys
            .succeed(payload.as_bytes(), &self.manifest)
            .map_err(Error::key)?;
        self.recorder_event(stamp, "authority", payload.as_bytes(), out)
    }
}
