//! Records in files that have no end of their own: scrolls, sealed documents, and logs of other programs under the seals beside them.
//!
//! ```text
//! all records in FILE that this home knows, verified ─► one tombstone ─► does FILE stand still? ─► FILE ─► FILE.seal, where it is a log
//! ```
//! The seals of a log go last: they alone tell which log lay there. Who writes a log or edits a document asks for no lock, so each is
//! verified again also where only the rest of a prune is finished: nothing goes that no seal covers.

use super::file::{lies_there, reports_at};
use super::{Done, Grave, Tools, whole};
use crate::detect::{self, Kind};
use crate::exit::Failure;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::record::{Head, RecordId};
use threadseal_core::report::Profile;
use threadseal_core::tlog::entry::LoggedHead;
use threadseal_core::tlog::tombstone::Tombstone;
use threadseal_formats::transcript::observed;
use threadseal_runtime::project::{CAPABILITIES_FILE, IDENTITY_FILE, THREAD_FILE, TRANSCRIPT_FILE};
use threadseal_store::append::tails_of;
use threadseal_store::heads::RecordKind;
use threadseal_store::lock::{Exclusive, WriterLock};
use threadseal_store::observer::{read_seals, seal_path};
use threadseal_store::read::{RegularFile, Stability, open_regular};
use threadseal_store::sys::path_text;
use threadseal_store::tombstones;

/// Nanoseconds of a microsecond.
const MICROSECOND: i128 = 1_000;

/// Whoever seals what lies in a file waits, or is refused, for as long as this lives.
struct Held {
    _documents: Option<Exclusive>,
    _scroll: Option<WriterLock>,
    _seals: Option<WriterLock>,
}

impl Tools<'_> {
    /// Verifies what lies in the file under its locks, and says with a tombstone that it is pruned. It has no end of its own: this
    /// is one.
    pub(super) fn begin_held(&self, path: &Path) -> Result<Done, Failure> {
        self.refuse_of_others(path)?;
        let held = self.hold(path)?;
        let file = open_regular(&*self.host.fs, path)?;
        let records = self.known_in(path)?;
        refuse_moving(&file)?;
        let tombstone = self.sign(records)?;
        let done = self.drop_held(path, Some(&file), &tombstone, true)?;
        drop(held);
        Ok(done)
    }

    /// Goes on where a tombstone and the log say that it is pruned.
    pub(super) fn finish_held(&self, path: &Path, found: &Tombstone) -> Result<Done, Failure> {
        let is_there = |path: &Path| self.host.fs.metadata(path).is_ok();
        let last = last_of(path, found);
        if !is_there(&last) {
            if is_there(path) {
                let text = "its seals, which go last, are gone: what lies there now is none of what was pruned";
                return Err(Failure::new(text));
            }
            return self.drop_held(path, None, found, false);
        }
        let held = self.hold(path)?;
        let file = match is_there(path) {
            true => Some(open_regular(&*self.host.fs, path)?),
            false => None,
        };
        let is_it = match &file {
            Some(_) => heads_of(&self.known_in(path)?) == heads_of(&found.statement().records),
            None => {
                let seals = self.seals_of(path)?;
                seals.is_some_and(|record| found.of(&record).is_some())
            }
        };
        if !is_it {
            return Err(lies_there());
        }
        let done = self.drop_held(path, file.as_ref(), found, false)?;
        drop(held);
        Ok(done)
    }

    /// The log whose seals lie at `seals`, where this home made them, and neither sealed nor saw it written since `before`. A scroll or a
    /// document with seals beside it is no log; of a log that is gone, its tombstone tells that the seals are to go as well.
    pub(super) fn log_before(&self, seals: &Path, before: u64) -> Result<Option<PathBuf>, Failure> {
        let log = seals.with_extension("");
        let known = self.seals_of(&log)?;
        let known = known.map(|record| self.host.heads.fetch(&record));
        let is_old = known
            .transpose()?
            .flatten()
            .is_some_and(|known| known.updated.as_micros() < before);
        if !is_old {
            return Ok(None);
        }
        let Ok(file) = open_regular(&*self.host.fs, &log) else {
            let place = tombstones::place_of(&log);
            return Ok(Some(log).filter(|_| self.host.fs.metadata(&place).is_ok()));
        };
        let is_log = matches!(detect::kind(&file)?, Some(Kind::Log | Kind::Events) | None);
        let written = file.metadata()?.modified_ns / MICROSECOND;
        Ok(Some(log).filter(|_| is_log && written < i128::from(before)))
    }

    /// The record that the seals beside a log say they are of.
    fn seals_of(&self, log: &Path) -> Result<Option<RecordId>, Failure> {
        let seals = read_seals(&self.host, log)?;
        let seals = seals.and_then(|bytes| observed::parse(&bytes).ok());
        Ok(seals.map(|seals| seals.record))
    }

    /// What belongs to a thread goes with that, and what all threads of a project hang on stays.
    fn refuse_of_others(&self, path: &Path) -> Result<(), Failure> {
        let is_there = |name: &str| self.host.fs.metadata(&path.with_file_name(name)).is_ok();
        let text = match path.file_name().and_then(|name| name.to_str()) {
            Some(IDENTITY_FILE) => {
                "it says which project the threads beside it are of, and is not pruned"
            }
            Some(THREAD_FILE | CAPABILITIES_FILE) if is_there(TRANSCRIPT_FILE) => {
                "it belongs to a thread, and goes with that: prune the thread"
            }
            _ => return Ok(()),
        };
        Err(Failure::new(text))
    }

    fn hold(&self, path: &Path) -> Result<Held, Failure> {
        let kind = match open_regular(&*self.host.fs, path) {
            Ok(file) => detect::kind(&file)?,
            Err(_) => None,
        };
        let lock = |path: &Path| WriterLock::acquire(Arc::clone(&self.host.fs), path);
        let seals = seal_path(path);
        let has_seals = self.host.fs.metadata(&seals).is_ok();
        Ok(Held {
            _documents: match kind {
                Some(Kind::Document(_)) => Some(self.home.enter_documents()?),
                _ => None,
            },
            _scroll: match kind {
                Some(Kind::Scroll(_)) => Some(lock(path)?),
                _ => None,
            },
            _seals: has_seals.then(|| lock(&seals)).transpose()?,
        })
    }

    /// The newest heads of all records in the file that this home knows, each of which must hold as a whole. The claims of others in it
    /// are bytes like any.
    pub(super) fn known_in(&self, path: &Path) -> Result<Vec<LoggedHead>, Failure> {
        let mut records = Vec::new();
        for report in reports_at(&self.examiner()?, path, true)? {
            let stored = report.record.map(|record| self.host.heads.fetch(&record));
            if stored.transpose()?.flatten().is_none() {
                continue;
            }
            if report.profile == Profile::Rye {
                let text =
                    "it has seals of Rye that this home made, which do not cover a whole record";
                return Err(Failure::new(text));
            }
            records.push(self.newest(&whole(&report)?)?.to_log());
        }
        let has_seals = self.host.fs.metadata(&seal_path(path)).is_ok();
        if has_seals && !records.iter().any(is_observed) {
            let text = "the seals beside it are none that this home knows, and would miss it";
            return Err(Failure::new(text));
        }
        match records.is_empty() {
            true => Err(Failure::new(
                "no record that this home knows lies in it: nothing else is pruned",
            )),
            false => Ok(records),
        }
    }

    /// Buries what lies in a file, and the seals beside it behind it.
    fn drop_held(
        &self,
        path: &Path,
        file: Option<&RegularFile>,
        tombstone: &Tombstone,
        is_new: bool,
    ) -> Result<Done, Failure> {
        let last = last_of(path, tombstone);
        let mut files = self.set_aside(path, tombstone)?;
        if last != path && self.host.fs.metadata(&last).is_ok() {
            files.push(last.clone());
        }
        let grave = Grave {
            shown: path_text(path),
            place: &tombstones::place_of(path),
            files,
            left: Vec::new(),
        };
        self.bury(grave, tombstone, is_new, |files| {
            if let Some(file) = file {
                refuse_moving(file)?;
            }
            let all = files.iter().map(PathBuf::as_path).chain([path]);
            let before: Vec<PathBuf> = all
                .filter(|file| *file != last)
                .map(Path::to_owned)
                .collect();
            Ok(tombstones::drop_all(&*self.host.fs, &last, &before)?)
        })
    }

    /// Where bytes lie that were moved out of a scroll, or out of the seals of a log.
    fn set_aside(&self, path: &Path, tombstone: &Tombstone) -> Result<Vec<PathBuf>, Failure> {
        let mut found = Vec::new();
        for logged in &tombstone.statement().records {
            let of = match logged.kind {
                RecordKind::Scroll => path.to_owned(),
                RecordKind::Observed => seal_path(path),
                _ => continue,
            };
            found.extend(tails_of(&*self.host.fs, &of)?);
        }
        Ok(found)
    }
}

/// The file that goes last.
fn last_of(path: &Path, tombstone: &Tombstone) -> PathBuf {
    match tombstone.statement().records.iter().any(is_observed) {
        true => seal_path(path),
        false => path.to_owned(),
    }
}

fn heads_of(records: &[LoggedHead]) -> Vec<Head> {
    records.iter().map(|logged| logged.head).collect()
}

pub(super) fn is_observed(logged: &LoggedHead) -> bool {
    logged.kind == RecordKind::Observed
}

/// Refuses what was written on, or replaced, since it was opened.
fn refuse_moving(file: &RegularFile) -> Result<(), Failure> {
    match file.stability()? {
        Stability::Same => Ok(()),
        Stability::Grown | Stability::Changed => Err(Failure::new(
            "it changed while it was pruned; verify it, and prune it again when nothing writes to it",
        )),
    }
}
