//! [`EvidenceFiles`]: the evidence of forks, as files of the home.
//!
//! ```text
//! $THREADSEAL_HOME/evidence/<SHA-256>.seal-conflict, or .fork
//! ```

use crate::layout::log_home::LogHome;
use std::path::PathBuf;
use threadseal_core::error::Error;
use threadseal_core::tlog::entry::fork::{ForkPlace, LoggedFork};
use threadseal_store::atomic::PRIVATE_DIRECTORY;
use threadseal_store::atomic::{self, Mode, PRIVATE_FILE};

const FOLDER: &str = "evidence";

/// The result of taking evidence into a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accused {
    /// The name of the entry.
    pub entry: String,
    /// Was it written now, and not before?
    pub is_new: bool,
    /// Where the evidence is kept.
    pub path: PathBuf,
}

/// The evidence of one home.
#[derive(Debug)]
pub(crate) struct EvidenceFiles<'h>(pub(crate) &'h LogHome);

impl EvidenceFiles<'_> {
    /// Keeps the evidence of a fork, durably: the entry must not come before its evidence.
    pub(crate) fn keep(&self, fork: &LoggedFork, evidence: &[u8]) -> Result<PathBuf, Error> {
        let (fs, path) = (&*self.0.fs, self.path(fork));
        atomic::create_directories(fs, &self.0.path.join(FOLDER), PRIVATE_DIRECTORY)?;
        atomic::replace(fs, &path, evidence, Mode::Set(PRIVATE_FILE))?;
        Ok(path)
    }

    /// The file for the evidence of a fork.
    pub(crate) fn path(&self, fork: &LoggedFork) -> PathBuf {
        let ending = match fork.place {
            ForkPlace::Transcript { .. } => "seal-conflict",
            ForkPlace::Lineage(_) => "fork",
        };
        let name = format!("{}.{ending}", fork.evidence);
        self.0.path.join(FOLDER).join(name)
    }
}
