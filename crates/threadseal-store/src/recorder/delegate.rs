//! Letting another key seal beside those of a record (`spec/transcript.md` §5).

use super::Recorder;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::PublicKey;
use threadseal_core::record::Head;
use threadseal_formats::transcript::ext::Ext;

/// Most keys that a recorder lets in. The keys that it gives up with each epoch need the rest of
/// the room for keys of a record.
const MAX_DELEGATES: usize = 32;

impl Recorder {
    /// Lets `key` seal beside the record's own keys, by a delegation of the recorder's own key,
    /// which is its authority.
    ///
    /// A seal covers the delegation, and is durable and published. None where the record contains
    /// the delegation already.
    ///
    /// # Errors
    /// As [`Recorder::seal`]; kind `Refused` when the record has ended, `Key` when the recorder's
    /// key is not its authority, `InvalidInput` for a key that seals already or was given up.
    pub fn delegate(&mut self, key: &PublicKey) -> Result<Option<Head>, Error> {
        self.check()?;
        if self.sealer.is_ended() {
            return Err(Error::refused(
                "the record has ended, and accepts no more delegations",
            ));
        }
        if self.sealer.is_delegate(key) {
            return Ok(None);
        }
        if self.sealer.delegates() >= MAX_DELEGATES {
            let text = format!(
                "a record has at most {MAX_DELEGATES} delegated keys; continue in a new one"
            );
            return Err(Error::new(ErrorKind::Limit, text));
        }
        let (stamp, turn) = (self.host.stamp()?, self.sealer.turn());
        self.sealer
            .delegate(stamp, key, &*self.keys.native, &mut self.lines)?;
        self.buffer_lines()?;
        self.seal_with(turn, false, Ext::default()).map(Some)
    }
}

#[cfg(test)]
mod tests;
