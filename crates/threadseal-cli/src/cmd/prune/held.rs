//! Records in files without an end mark: scrolls, sealed documents, and logs of other programs with
//! detached seals.
//!
//! ```text
//! all records in FILE that this home knows, verified ─► one tombstone ─► is FILE unchanged?
//!                                                    ─► FILE ─► FILE.seal of a log
//! ```
//! The seals beside a file are deleted last: only they show what was there. A program that writes a
//! log or edits a document takes no lock. So each file is verified again even to complete an
//! interrupted prune: only sealed bytes are deleted.

use super::file::{lies_there, reports_at};
use super::{Grave, PrunedRecord, Tools, whole};
use crate::exit::Failure;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::record::{Head, RecordId};
use threadseal_core::report::Profile;
use threadseal_core::tlog::entry::LoggedHead;
use threadseal_core::tlog::tombstone::Tombstone;
use threadseal_formats::document::{MAX_BESIDE_BYTES, is_beside, read_beside};
use threadseal_formats::transcript::observed;
use threadseal_store::append::tails_of;
use threadseal_store::heads::RecordKind;
use threadseal_store::lock::{Exclusive, WriterLock};
use threadseal_store::observer::{read_seals, seal_path};
use threadseal_store::read::{RegularFile, Stability, open_regular, read_small};
use threadseal_store::sys::path_text;
use threadseal_store::tombstones;
use threadseal_verify::detect::{self, Kind};
use threadseal_verify::layout::{CAPABILITIES_FILE, IDENTITY_FILE, THREAD_FILE, TRANSCRIPT_FILE};

/// Nanoseconds of a microsecond.
const MICROSECOND: i128 = 1_000;

/// While this lives, every process that would seal the file waits, or is refused.
struct Held {
    _documents: Option<Exclusive>,
    _scroll: Option<WriterLock>,
    _seals: Option<WriterLock>,
}

impl Tools<'_> {
    /// Verifies the file under its locks, and signs a tombstone of it. The record has no end mark:
    /// the tombstone is its end.
    pub(super) fn begin_held(&self, path: &Path) -> Result<PrunedRecord, Failure> {
        self.refuse_of_others(path)?;
        let held = self.hold(path)?;
        let file = open_regular(&*self.host.fs, path)?;
        let records = self.known_in(path)?;
        for known in &records {
            self.refuse_running(&known.head.record)?;
        }
        if records.iter().any(is_observed) && !self.is_unwritten(&file)? {
            let text = "it was written to too recently: --older-than excludes it";
            return Err(Failure::new(text));
        }
        refuse_moving(&file)?;
        let tombstone = self.sign(records)?;
        let done = self.drop_held(path, Some(&file), &tombstone, true)?;
        drop(held);
        Ok(done)
    }

    /// Completes a prune: a tombstone and the log show that the file is pruned.
    pub(super) fn finish_held(
        &self,
        path: &Path,
        found: &Tombstone,
    ) -> Result<PrunedRecord, Failure> {
        let is_there = |path: &Path| self.host.fs.metadata(path).is_ok();
        let last = self.last_of(path, found)?;
        if !is_there(&last) {
            if is_there(path) {
                let text = "its seals, which are deleted last, are gone: the present file is not the one that was pruned";
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

    /// The log of the seals at `seals`, if this home made them. None if the log was sealed or
    /// written to since `before`. A scroll or a document with detached seals is no log. If the log
    /// itself is gone, its tombstone shows that the seals must be deleted, too.
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

    /// Was the file not written to for the age that was given, if one was?
    fn is_unwritten(&self, file: &RegularFile) -> Result<bool, Failure> {
        let written = file.metadata()?.modified_ns / MICROSECOND;
        let oldest = self.oldest()?;
        Ok(oldest.is_none_or(|before| written < i128::from(before)))
    }

    /// The record that the seals beside a file name.
    fn seals_of(&self, path: &Path) -> Result<Option<RecordId>, Failure> {
        Ok(match read_seals(&self.host, path)? {
            Some(begin) if is_beside(&begin) => self.document_beside(path)?,
            Some(bytes) => observed::parse(&bytes).ok().map(|seals| seals.record),
            None => None,
        })
    }

    /// The record of the document whose seal is in a file beside it.
    fn document_beside(&self, path: &Path) -> Result<Option<RecordId>, Failure> {
        let seals = seal_path(path);
        if self.host.fs.metadata(&seals).is_err() {
            return Ok(None);
        }
        let begin = read_seals(&self.host, path)?.unwrap_or_default();
        if !is_beside(&begin) {
            return Ok(None);
        }
        let bytes = read_small(&*self.host.fs, &seals, MAX_BESIDE_BYTES)?;
        Ok(read_beside(&bytes).map(|seal| seal.record))
    }

    /// Refuses files of a thread, which are pruned with it, and files on which all threads of a
    /// project depend.
    fn refuse_of_others(&self, path: &Path) -> Result<(), Failure> {
        let is_there = |name: &str| self.host.fs.metadata(&path.with_file_name(name)).is_ok();
        let text = match path.file_name().and_then(|name| name.to_str()) {
            Some(IDENTITY_FILE) => {
                "it identifies the project of the threads beside it, and is not pruned"
            }
            Some(THREAD_FILE | CAPABILITIES_FILE) if is_there(TRANSCRIPT_FILE) => {
                "it belongs to a thread and is pruned with it; hint: prune the thread"
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

    /// The newest heads of all records in the file that this home knows, each of which must be
    /// fully valid. Claims of other keys in the file are ordinary bytes.
    pub(super) fn known_in(&self, path: &Path) -> Result<Vec<LoggedHead>, Failure> {
        let mut records = Vec::new();
        for report in reports_at(&self.verifier()?, path, true)? {
            let stored = report.record.map(|record| self.host.heads.fetch(&record));
            if stored.transpose()?.flatten().is_none() {
                continue;
            }
            if report.profile == Profile::Rye {
                let text = "this home made Rye seals in it, which do not cover a whole record";
                return Err(Failure::new(text));
            }
            records.push(self.newest(&whole(&report)?)?.to_log());
        }
        let has_seals = self.host.fs.metadata(&seal_path(path)).is_ok();
        let beside = self.document_beside(path)?;
        let is_known =
            |logged: &LoggedHead| is_observed(logged) || Some(logged.head.record) == beside;
        if has_seals && !records.iter().any(is_known) {
            let text = "this home does not know the seals beside it; without this file they cannot be verified";
            return Err(Failure::new(text));
        }
        match records.is_empty() {
            true => Err(Failure::new(
                "it contains no record that this home knows: only known records are pruned",
            )),
            false => Ok(records),
        }
    }

    /// Deletes the content of a file and then its detached seals.
    fn drop_held(
        &self,
        path: &Path,
        file: Option<&RegularFile>,
        tombstone: &Tombstone,
        is_new: bool,
    ) -> Result<PrunedRecord, Failure> {
        let last = self.last_of(path, tombstone)?;
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

    /// The file that is deleted last: the seals of a log or of a document, if they are beside it.
    fn last_of(&self, path: &Path, tombstone: &Tombstone) -> Result<PathBuf, Failure> {
        let has_log = tombstone.statement().records.iter().any(is_observed);
        Ok(match has_log || self.document_beside(path)?.is_some() {
            true => seal_path(path),
            false => path.to_owned(),
        })
    }

    /// The files with bytes that were moved out of a scroll, or out of the seals of a log.
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

fn heads_of(records: &[LoggedHead]) -> Vec<Head> {
    records.iter().map(|logged| logged.head).collect()
}

pub(super) fn is_observed(logged: &LoggedHead) -> bool {
    logged.kind == RecordKind::Observed
}

/// Refuses a file that was appended to, or replaced, since it was opened.
fn refuse_moving(file: &RegularFile) -> Result<(), Failure> {
    match file.stability()? {
        Stability::Same => Ok(()),
        Stability::Grown | Stability::Changed => Err(Failure::new(
            "it changed during the prune; verify it, then prune it again when no process writes to it",
        )),
    }
}
