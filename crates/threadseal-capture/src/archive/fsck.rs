//! Looks at every file of the archive, and names damage.

use super::forget::Forgotten;
use super::{Archive, ArchivedLog, LogName, StreamKind};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_store::sys::path_text;

/// One fault of the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The log that needs the file, if one does.
    pub log: Option<LogName>,
    /// The file.
    pub place: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FsckResult {
    /// Logs that were checked.
    pub logs: u64,
    /// Chunks and tails that were read.
    pub chunks: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Faults: content that is lost, or cannot be trusted.
    pub damage: Vec<Damage>,
    /// Files that no session needs. A crash leaves such files; `prune` removes them.
    pub orphans: Vec<PathBuf>,
}

impl Archive {
    /// Reads every journal, chunk and tail. `progress` gets the bytes that were read.
    ///
    /// # Errors
    /// Kind `External` when a folder cannot be read, `Key` without the archive's key.
    pub fn fsck(&self, progress: &mut dyn FnMut(u64)) -> Result<FsckResult, Error> {
        self.secret()?;
        // Writers may add and remove files meanwhile.
        let _lock = match self.fs().metadata(&self.root) {
            Ok(_) => Some(self.enter()?),
            Err(_) => None,
        };
        let logs = self.logs()?;
        let mut result = FsckResult::default();
        let mut read = BTreeSet::new();
        for log in &logs {
            result.logs += 1;
            if let Some(why) = &log.damage {
                result.add(log, self.journal_place(&log.name), why.clone());
            }
            self.check_log(log, &mut read, &mut result, progress)?;
        }
        for (record, place) in self.fronts()? {
            match self.front(&record) {
                Err(error) if error.kind() == ErrorKind::External => return Err(error),
                Err(error) => result.damage.push(Damage {
                    log: None,
                    why: why(&error, &place),
                    place,
                }),
                Ok(_) => {}
            }
        }
        for line in self.tombstones()?.1 {
            result.damage.push(Damage {
                log: None,
                place: self.tombstone_place(),
                why: format!("line {line} is no tombstone"),
            });
        }
        // What a damaged journal needs is not known.
        if logs.iter().all(|log| log.damage.is_none()) {
            result.orphans = self.orphans(&logs)?;
        }
        Ok(result)
    }

    fn check_log(
        &self,
        log: &ArchivedLog,
        read: &mut BTreeSet<PathBuf>,
        result: &mut FsckResult,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        for (version, kind) in log
            .versions
            .iter()
            .flat_map(|version| StreamKind::ALL.map(|kind| (version, kind)))
        {
            let stream = kind.of(version);
            for piece in stream.pieces() {
                let place = self.place_of(&log.name, kind, piece, stream);
                if !read.insert(place.clone()) {
                    continue;
                }
                match self.read_piece(&place, piece) {
                    Ok(bytes) => {
                        result.chunks += 1;
                        result.bytes += bytes.len() as u64;
                        progress(bytes.len() as u64);
                    }
                    Err(error) if error.kind() == ErrorKind::External => return Err(error),
                    Err(error) => {
                        let why = why(&error, &place);
                        result.add(log, place, why);
                    }
                }
            }
        }
        Ok(())
    }
}

/// The cause in an error about a file.
fn why(error: &Error, place: &Path) -> String {
    let text = error.to_string();
    let why = text.split_once(&format!("{}: ", place.display()));
    let why = why.map_or(text.as_str(), |(_, why)| why);
    why.split("; hint").next().unwrap_or(why).to_owned()
}

impl FsckResult {
    /// Is nothing damaged? Orphans are no damage.
    pub fn is_sound(&self) -> bool {
        self.damage.is_empty()
    }

    fn add(&mut self, log: &ArchivedLog, place: PathBuf, why: String) {
        self.damage.push(Damage {
            log: Some(log.name.clone()),
            place,
            why,
        });
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = path_text(&self.place);
        match &self.log {
            Some(log) => write!(out, "{log}: {place}: {}", self.why),
            None => write!(out, "{place}: {}", self.why),
        }
    }
}

impl Forgotten {
    /// The words for a person.
    pub fn words(&self) -> String {
        let when = self.when.to_iso_seconds();
        let why = match (self.why, self.reason.as_str()) {
            (super::Why::Asked, "") => String::new(),
            (_, reason) => format!(": {reason}"),
        };
        format!("forgotten {when}{why}")
    }
}
