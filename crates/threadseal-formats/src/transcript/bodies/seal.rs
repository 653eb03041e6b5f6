//! The native writer's handling of commitments and redactions.

use super::{Redaction, commitments, may_hold};
use crate::transcript::manifest::Bodies;
use crate::transcript::write::{Sealer, Stamp};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_RECORD_BODIES;

impl Sealer {
    /// Records that bodies were dropped. The caller drops them once a seal by the named key covers
    /// this line. It is allowed after the end; a final seal must follow then.
    ///
    /// # Errors
    /// Kind `Refused` when the record's bodies are inline. `InvalidInput` for a redaction that
    /// names too much or too little. Else as [`Sealer::event`].
    pub fn redacted(
        &mut self,
        stamp: Stamp,
        redaction: &Redaction,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        if self.manifest.bodies == Bodies::Inline {
            return Err(Error::refused(
                "the record cannot be redacted: its bodies are inline",
            ));
        }
        let payload = redaction.to_payload()?;
        self.append(stamp, "redacted", &payload, out)
    }

    /// Refuses lines that a verifier would refuse in a record with detached bodies.
    pub(in crate::transcript) fn count_bodies(
        &mut self,
        event_type: &str,
        payload: &[u8],
    ) -> Result<(), Error> {
        if self.manifest.bodies == Bodies::Inline || !may_hold(event_type) {
            return Ok(());
        }
        let found = commitments(payload).map_err(|_| {
            Error::invalid(
                "the payload contains the beginning of a commitment to a body; hint: detach it",
            )
        })?;
        let count = self.bodies + found.len();
        if count > MAX_RECORD_BODIES {
            let text = format!(
                "a record has at most {MAX_RECORD_BODIES} bodies; hint: begin a new one that links to it"
            );
            return Err(Error::new(ErrorKind::Limit, text));
        }
        self.bodies = count;
        Ok(())
    }
}
