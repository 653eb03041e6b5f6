//! The work of a recorder on detached bodies.

use super::Recorder;
use crate::random;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::record::Head;
use threadseal_formats::transcript::bodies::{BodySalt, Detached, Redaction, detach};
use threadseal_formats::transcript::event::Payload;
use threadseal_formats::transcript::ext::Ext;

impl Recorder {
    /// Drops the bodies of these commitments. A seal covers the redaction, and is durable and
    /// published before a body is removed. After a crash in between, the next writer that opens the
    /// record removes them.
    ///
    /// # Errors
    /// As [`Recorder::seal`]; kind `Refused` when the record's bodies are inline.
    pub fn redact(
        &mut self,
        commitments: Vec<Digest>,
        by: String,
        why: String,
    ) -> Result<Head, Error> {
        self.check()?;
        self.succeed()?;
        let (stamp, turn) = (self.host.stamp()?, self.sealer.turn());
        let ended = self.sealer.is_ended();
        let redaction = Redaction {
            commitments,
            key: super::signers(&self.keys, self.epoch.as_ref())
                .native
                .public_key()
                .key_id(),
            by,
            why,
        };
        self.sealer.redacted(stamp, &redaction, &mut self.lines)?;
        self.buffer_lines()?;
        let head = self.seal_with(turn, ended, Ext::default())?;
        self.drop_bodies(&redaction.commitments)?;
        Ok(head)
    }

    /// Drops bodies that no line of the record commits to. A tail that was set aside leaves such
    /// bodies, and so do lines that a crash kept from the disk. Returns their number. The record
    /// never names them.
    ///
    /// # Errors
    /// As [`Recorder::seal`].
    pub fn drop_unbound(&mut self) -> Result<u64, Error> {
        self.check()?;
        self.sync()?;
        self.drop_bodies(&[])
    }

    fn drop_bodies(&mut self, commitments: &[Digest]) -> Result<u64, Error> {
        let dropped = match &mut self.bodies {
            Some(bodies) => bodies.drop_bodies(commitments),
            None => Ok(0),
        };
        self.or_fail(dropped)
    }

    pub(super) fn detached(&self, payload: &Payload) -> Result<Option<Detached>, Error> {
        if self.bodies.is_none() {
            return Ok(None);
        }
        let salt = || random::array(&*self.host.random).map(BodySalt::from_bytes);
        detach(&self.sealer.manifest().record, payload, &mut { salt }).map(Some)
    }

    /// Bodies are written before the lines that commit to them.
    pub(super) fn keep_bodies(&mut self, detached: Option<&Detached>) -> Result<(), Error> {
        let done = match (&mut self.bodies, detached) {
            (Some(bodies), Some(detached)) => bodies.append(&detached.entries),
            _ => Ok(()),
        };
        self.or_fail(done)
    }
}

#[cfg(test)]
mod tests;
