//! [`Checked`]: what is wrong with a log, or with a mirror of it.

use threadseal_core::limits::MAX_FINDINGS;

/// What is wrong with a log.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Entries that were read.
    pub entries: u64,
    /// What is wrong, in sentences; none when nothing is.
    pub faults: Vec<String>,
    /// Faults beyond those.
    pub more: u64,
}

impl Checked {
    pub(crate) fn fault(&mut self, text: impl Into<String>) {
        match self.faults.len() < MAX_FINDINGS {
            true => self.faults.push(text.into()),
            false => self.more += 1,
        }
    }
}
