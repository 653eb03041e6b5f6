//! The event that records which bodies were dropped: when, by whom, why.

use threadseal_core::canon::json::{self, Value};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::key::KeyId;
use threadseal_core::limits::{
    MAX_REDACTED_AT_ONCE, MAX_REDACTION_REASON_BYTES, MAX_REDACTOR_BYTES,
};

/// The content of a `redacted` event, except its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redaction {
    /// The commitments of the dropped bodies.
    pub commitments: Vec<Digest>,
    /// The key that seals the event.
    pub key: KeyId,
    /// The name that the redactor gave for itself.
    pub by: String,
    /// Why.
    pub why: String,
}

impl Redaction {
    /// The payload of the event.
    ///
    /// # Errors
    /// Kind `InvalidInput` when there are none or too many commitments, or a text is empty or too
    /// long.
    pub(crate) fn to_payload(&self) -> Result<Vec<u8>, Error> {
        let out = self.spelling();
        match Self::parse(&out) {
            Some(read) if read == *self => Ok(out),
            _ => Err(Error::invalid(format!(
                "a redaction names 1 to {MAX_REDACTED_AT_ONCE} bodies, its author in 1 to {MAX_REDACTOR_BYTES} bytes, \
                 and its reason in 1 to {MAX_REDACTION_REASON_BYTES} bytes"
            ))),
        }
    }

    fn spelling(&self) -> Vec<u8> {
        let mut out = b"{\"commitments\":[".to_vec();
        for (index, digest) in self.commitments.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            out.extend_from_slice(format!("{comma}\"{digest}\"").as_bytes());
        }
        out.extend_from_slice(format!("],\"key\":\"{}\",\"by\":", self.key).as_bytes());
        json::write_ascii_string(&mut out, &self.by);
        out.extend_from_slice(b",\"why\":");
        json::write_ascii_string(&mut out, &self.why);
        out.push(b'}');
        out
    }

    /// Reads the payload; `None` when it has another spelling.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let value = json::parse(payload).ok()?;
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        let bounded = |name: &str, most: usize| {
            let text = text(name)?;
            (1..=most).contains(&text.len()).then(|| text.to_owned())
        };
        let digests = value.get("commitments")?.as_array()?.iter();
        let commitments: Vec<Digest> = digests
            .map(|digest| digest.as_str().and_then(Digest::parse_hex))
            .collect::<Option<_>>()?;
        if !(1..=MAX_REDACTED_AT_ONCE).contains(&commitments.len()) {
            return None;
        }
        let read = Self {
            commitments,
            key: KeyId::parse_hex(text("key")?)?,
            by: bounded("by", MAX_REDACTOR_BYTES)?,
            why: bounded("why", MAX_REDACTION_REASON_BYTES)?,
        };
        (read.spelling() == payload).then_some(read)
    }
}
