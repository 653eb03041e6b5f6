//! Forks in the log of a host: records of which two histories were sealed (`spec/anchors.md`, "Forks in the log").
//!
//! ```text
//! evidence, verified ─► evidence/<SHA-256>.<what it is>, durable ─► entry ─► every copy of the record is `forked` here
//! ```
//! The entry alone speaks against the record; the file is kept for who wants to see why.

use super::rare::RareKind;
use super::{LogPlaces, SealLog};
use std::path::PathBuf;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::record::RecordId;
use threadseal_core::report::KnownFork;
use threadseal_core::tlog::entry::LogEntry;
use threadseal_core::tlog::entry::fork::{ForkPlace, LoggedFork};
use threadseal_formats::verified::Verified;
use threadseal_store::atomic::{self, Mode, PRIVATE_FILE};
use threadseal_store::home::PRIVATE_DIRECTORY;

const FOLDER: &str = "evidence";

/// What became of evidence that was taken into a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accused {
    /// How the entry is called.
    pub entry: String,
    /// Was it written now, and not before?
    pub is_new: bool,
    /// Where the evidence is kept.
    pub path: PathBuf,
}

impl SealLog {
    /// Keeps the file that proves a fork, and commits what it proves behind all that waits in this process. What the log says of the
    /// record already, by whatever evidence against the same key, is not said twice.
    ///
    /// # Errors
    /// Kind `InvalidInput` when these bytes are other evidence, `Refused` when the log commits nothing, `External` when the system fails.
    pub fn commit_fork(
        &self,
        proved: &Verified<LoggedFork>,
        evidence: &[u8],
    ) -> Result<Accused, Error> {
        let fork = *proved.get();
        if Digest::of(evidence) != fork.evidence {
            return Err(Error::invalid(
                "these are not the bytes of the evidence that was judged",
            ));
        }
        if let Some(error) = self.flush().error {
            return Err(error);
        }
        let forks = self.forks_of(&fork.record)?;
        if let Some(known) = forks.iter().find(|known| known.fork.covers(&fork)) {
            // It may be gone from its folder, and this is another copy.
            if known.fork.evidence == fork.evidence {
                self.keep_evidence(&fork, evidence)?;
            }
            return Ok(Accused {
                entry: known.entry.to_string(),
                is_new: false,
                path: evidence_path(&self.shared.places, &known.fork),
            });
        }
        let path = self.keep_evidence(&fork, evidence)?;
        let entry = LogEntry::Fork(fork).to_bytes();
        let entry = entry.ok_or_else(|| Error::invalid("a number in it is too large for a log"))?;
        let written = self.shared.write(&|| false, |writer, _| {
            let at = writer.tree().size;
            writer.commit(&[entry]).map(|()| at)
        });
        let (at, unmarked) = written?;
        let accused = Accused {
            entry: self.entry_name(at).to_string(),
            is_new: true,
            path,
        };
        unmarked.map_or(Ok(accused), Err)
    }

    /// What the log says of forks of a record, each entry proved to be in it, and none left out.
    ///
    /// # Errors
    /// As [`SealLog::key_events`].
    pub fn forks_of(&self, record: &RecordId) -> Result<Vec<KnownFork>, Error> {
        let wanted = RareKind::Fork(*record);
        let forks = self.rare_entries(
            |kind| *kind == wanted,
            |entry| match entry {
                LogEntry::Fork(fork) if fork.record == *record => Some(fork),
                _ => None,
            },
        )?;
        let known = forks.into_iter().map(|(at, fork)| KnownFork {
            fork,
            entry: self.entry_name(at),
        });
        Ok(known.collect())
    }

    /// Evidence is durable before anything is said by it.
    fn keep_evidence(&self, fork: &LoggedFork, evidence: &[u8]) -> Result<PathBuf, Error> {
        let places = &self.shared.places;
        let path = evidence_path(places, fork);
        atomic::create_directories(&*places.fs, &places.home.join(FOLDER), PRIVATE_DIRECTORY)?;
        atomic::replace(&*places.fs, &path, evidence, Mode::Set(PRIVATE_FILE))?;
        Ok(path)
    }
}

fn evidence_path(places: &LogPlaces, fork: &LoggedFork) -> PathBuf {
    let ending = match fork.place {
        ForkPlace::Transcript { .. } => "seal-conflict",
        ForkPlace::Lineage(_) => "fork",
    };
    let name = format!("{}.{ending}", fork.evidence);
    places.home.join(FOLDER).join(name)
}
