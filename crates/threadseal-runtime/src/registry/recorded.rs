//! [`Recorded`]: the facts of a thread's record that its row repeats.
//!
//! Readers of records create it. A row that differs is reported, and corrected to match it.

use super::{Fault, Thread};
use crate::status::Status;
use threadseal_core::record::{RecordId, ThreadId};
use threadseal_core::time::Timestamp;

/// The facts about a thread in its record, under its seals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Its id.
    pub id: ThreadId,
    /// The id of the record.
    pub record: RecordId,
    /// The directive or graph that it runs.
    pub directive: String,
    /// The model that it asks.
    pub model: Option<String>,
    /// The thread that started it.
    pub parent: Option<ThreadId>,
    /// When its record began.
    pub began: Timestamp,
    /// The number of children that its record names; a row may count more, from starts that failed.
    pub spawns: u64,
    /// The thread that it continues, according to both records.
    pub before: Option<ThreadId>,
    /// The thread that continues it.
    pub after: Option<ThreadId>,
    /// The first thread of its chain; None in that one itself.
    pub root: Option<ThreadId>,
    /// The end of its thread, according to the record.
    pub ended: Option<Status>,
}

impl Recorded {
    /// Reports where a row differs: `record_mismatch`, `directive_mismatch`, `model_mismatch`,
    /// `parent_mismatch`, `chain_mismatch`, `spawns_mismatch`. [`Recorded::suits`] checks the
    /// status.
    pub fn contradictions(&self, row: &Thread) -> Vec<Fault> {
        let mut found = Vec::new();
        let mut differs = |code, what: &str, row_says: Option<&str>, record: Option<&str>| {
            if row_says != record {
                let told =
                    |said: Option<&str>| said.map_or("none".to_owned(), |it| format!("{it:?}"));
                found.push(Fault {
                    code,
                    thread: Some(self.id.to_string()),
                    message: format!(
                        "{what}: the registry has {}, but the record has {}",
                        told(row_says),
                        told(record)
                    ),
                });
            }
        };
        let id = |id: &Option<ThreadId>| id.as_ref().map(|id| id.as_str().to_owned());
        let noted = row.record.map(|record| record.to_hex());
        let record = self.record.to_hex();
        differs("record_mismatch", "record", noted.as_deref(), Some(&record));
        let directive = Some(self.directive.as_str());
        differs(
            "directive_mismatch",
            "directive",
            Some(&row.directive),
            directive,
        );
        differs(
            "model_mismatch",
            "model",
            row.model.as_deref(),
            self.model.as_deref(),
        );
        for (code, what, noted, record) in [
            ("parent_mismatch", "parent", &row.parent, &self.parent),
            (
                "chain_mismatch",
                "predecessor",
                &row.continuation_of,
                &self.before,
            ),
            (
                "chain_mismatch",
                "successor",
                &row.continuation,
                &self.after,
            ),
            (
                "chain_mismatch",
                "first of the chain",
                &row.chain_root,
                &self.root,
            ),
        ] {
            differs(code, what, noted.as_deref(), id(record).as_deref());
        }
        if row.spawns < self.spawns {
            let (noted, record) = (row.spawns.to_string(), self.spawns.to_string());
            differs("spawns_mismatch", "children", Some(&noted), Some(&record));
        }
        found
    }

    /// Does its record permit this status?
    pub fn suits(&self, status: Status) -> bool {
        match (self.ended, &self.after) {
            (_, Some(_)) => status == Status::Continued,
            (Some(ended), None) => suits(ended, status),
            (None, None) => matches!(status, Status::Created | Status::Running),
        }
    }
}

/// Does this end in a record permit `status`? A record does not distinguish an error from a kill,
/// nor show a later decision about a suspended thread.
pub(crate) fn suits(ended: Status, status: Status) -> bool {
    match ended {
        Status::Completed => matches!(status, Status::Completed | Status::CompletedWithErrors),
        Status::Error => matches!(status, Status::Error | Status::Killed),
        Status::Suspended => matches!(status, Status::Suspended | Status::Cancelled),
        other => status == other,
    }
}
