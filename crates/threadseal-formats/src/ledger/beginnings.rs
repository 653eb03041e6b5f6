//! The record that admits later beginnings of a ledger (`spec/ledger.md` §6).
//!
//! ```text
//! effect {"type":"threadseal.beginnings","payload":{
//!           "beginnings":[{"record":<number>,"hash":<64 hex>},…],"why":<text>}}
//! ```
//! Two writers that began one run at the same time left two genesis records in one chain. The chain
//! cannot change. An actor of the ledger states instead which records these are, and why they are
//! there.

use super::genesis::completed;
use super::members::object;
use super::record::{RunId, StepRecord};
use threadseal_core::canon::json::Value;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_REDACTION_REASON_BYTES;
use threadseal_core::time::Timestamp;

/// `effect.type` of a record that admits later beginnings.
pub const BEGINNINGS_EFFECT: &str = "threadseal.beginnings";

/// Most later beginnings of one ledger that its records admit.
pub const MAX_LATER_BEGINNINGS: usize = 64;

/// A genesis that is not record 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaterBeginning {
    /// The number of its record, from 0.
    pub record: u64,
    /// The hash of its record.
    pub hash: Digest,
}

/// Later beginnings, and the reason why they are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaterBeginnings {
    beginnings: Vec<LaterBeginning>,
    why: String,
}

impl LaterBeginnings {
    /// Admits these.
    ///
    /// # Errors
    /// Kind `InvalidInput` for none or a reason of no length, `Limit` beyond
    /// [`MAX_LATER_BEGINNINGS`] or [`MAX_REDACTION_REASON_BYTES`].
    pub fn new(beginnings: Vec<LaterBeginning>, why: String) -> Result<Self, Error> {
        if beginnings.is_empty() || why.is_empty() {
            return Err(Error::invalid(
                "an admission names a later beginning and a reason",
            ));
        }
        if beginnings.len() > MAX_LATER_BEGINNINGS || why.len() > MAX_REDACTION_REASON_BYTES {
            let text = format!(
                "one record admits at most {MAX_LATER_BEGINNINGS} later beginnings, with a reason of at most \
                 {MAX_REDACTION_REASON_BYTES} bytes"
            );
            return Err(Error::new(ErrorKind::Limit, text));
        }
        Ok(Self { beginnings, why })
    }

    /// The later beginnings.
    pub fn beginnings(&self) -> &[LaterBeginning] {
        &self.beginnings
    }

    /// The record with which the actor of the id `by` admits them.
    pub fn to_record(
        &self,
        run: RunId,
        step_id: impl Into<String>,
        by: Option<String>,
        at: Timestamp,
    ) -> StepRecord {
        let beginnings = self.beginnings.iter().map(|later| {
            object([
                ("record", later.record.into()),
                ("hash", later.hash.to_hex().into()),
            ])
        });
        let payload = object([
            ("beginnings", Value::Array(beginnings.collect())),
            ("why", self.why.as_str().into()),
        ]);
        completed(BEGINNINGS_EFFECT, payload, run, step_id, by, at)
    }

    /// Reads the payload of such a record.
    ///
    /// # Errors
    /// As [`LaterBeginnings::new`]; kind `InvalidInput` when it is not of this form.
    pub(super) fn from_payload(payload: &Value) -> Result<Self, Error> {
        let wrong = || Error::invalid("the record admits no later beginning");
        let later = |value: &Value| {
            Some(LaterBeginning {
                record: value.get("record")?.as_u64()?,
                hash: Digest::parse_hex(value.get("hash")?.as_str()?)?,
            })
        };
        let beginnings = payload.get("beginnings").and_then(Value::as_array);
        let beginnings = beginnings.ok_or_else(wrong)?.iter().map(later);
        let beginnings: Option<Vec<LaterBeginning>> = beginnings.collect();
        let why = payload.get("why").and_then(Value::as_str);
        let (Some(beginnings), Some(why)) = (beginnings, why) else {
            return Err(wrong());
        };
        Self::new(beginnings, why.to_owned())
    }
}
