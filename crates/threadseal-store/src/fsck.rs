//! [`Fault`]: what a check of a store finds, whatever the store holds.

use threadseal_core::limits::MAX_FINDINGS;

/// One fault in a store. It does not name its cause: verification does that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// A word for programs; `spec/ledger-store.md` explains each.
    pub code: &'static str,
    /// Number of the record or line from 0, where there is one.
    pub at: Option<u64>,
    /// The message for people.
    pub message: String,
    /// Was it repaired?
    pub repaired: bool,
}

impl Fault {
    pub(crate) fn new(code: &'static str, at: Option<u64>, message: impl Into<String>) -> Self {
        Self {
            code,
            at,
            message: message.into(),
            repaired: false,
        }
    }

    /// Joins the faults that are kept. Beyond [`MAX_FINDINGS`] it is only counted, if it is not
    /// repaired.
    pub(crate) fn note(self, faults: &mut Vec<Self>, more: &mut u64) {
        if faults.len() < MAX_FINDINGS {
            faults.push(self);
        } else if !self.repaired {
            *more += 1;
        }
    }
}
