//! [`VerifiedThread`]: a thread whose record and files are verified and agree.

use super::record::VerifiedRecord;
use crate::capability::Capabilities;
use crate::limit::Limits;
use crate::project::ThreadFolder;
use crate::thread_meta::TrustedMeta;
use serde_json::{Map, Value};
use threadseal_core::error::Error;
use threadseal_core::record::{Head, ThreadId};

/// A thread whose transcript, thread.json, capabilities.md and step ledger are verified and agree.
#[derive(Debug)]
pub struct VerifiedThread {
    pub(super) record: VerifiedRecord,
    pub(super) meta: Option<TrustedMeta>,
    pub(super) folder: ThreadFolder,
}

/// The facts about a parent that its child needs: the upper bounds of its permissions.
#[derive(Debug, Clone, PartialEq)]
pub struct VerifiedParent {
    /// Which thread.
    pub id: ThreadId,
    /// The seal of it that the child's line 1 names; None for a parent of Rye, whose seals are not
    /// named.
    pub head: Option<Head>,
    /// Its limits.
    pub limits: Limits,
    /// Its capabilities.
    pub capabilities: Capabilities,
}

impl VerifiedThread {
    /// Its transcript.
    pub fn record(&self) -> &VerifiedRecord {
        &self.record
    }

    /// Its thread.json; a thread of Rye may have none.
    pub fn meta(&self) -> Option<&TrustedMeta> {
        self.meta.as_ref()
    }

    /// Its folder.
    pub fn folder(&self) -> &ThreadFolder {
        &self.folder
    }

    /// Its parts.
    pub fn into_parts(self) -> (VerifiedRecord, Option<TrustedMeta>) {
        (self.record, self.meta)
    }

    /// Its inputs, by line 1.
    ///
    /// # Errors
    /// Kind `Refused` when line 1 lacks them.
    pub fn inputs(&self) -> Result<Map<String, Value>, Error> {
        match self.record.meta_of_line_1()? {
            Value::Object(mut meta) => match meta.remove("inputs") {
                Some(Value::Object(inputs)) => Ok(inputs),
                _ => Err(Error::refused(
                    "the record does not contain the inputs of its thread",
                )),
            },
            _ => Err(Error::refused("line 1 of the record has no meta")),
        }
    }
}
