//! Threads in a PostgreSQL database: each file there is verified as if it were in a folder.
//!
//! ```text
//! postgres://…            every ledger, every file of every thread
//! postgres://…#THREAD     the files of one thread
//! ```
//! All rows are verified, whatever folders list. A transcript must be of the thread in whose folder it is: records are
//! not copied within a database. A thread of the registry whose record was sealed, and is not there, is missing.

use super::{FileResult, Verifier};
use crate::error::VerifyError;
use crate::inputs::Candidate;
use crate::layout::{THREADS, TRANSCRIPT_FILE};
use crate::request::VerifyRequest;
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use threadseal_core::error::{Error, Unbuilt};
use threadseal_core::record::{RecordId, ThreadId};
use threadseal_core::report::{Finding, FindingCode, Format, Profile, Report, Verdict};
use threadseal_store::host::Host;

/// The root of all paths in a database: no project is needed to verify them.
const ROOT: &str = "/";

/// Opens databases of threads.
pub trait ThreadDatabases: Send + Sync {
    /// The database at `url`; None where it holds no threads. Nothing is made in it.
    ///
    /// # Errors
    /// When it cannot be reached.
    fn open(&self, url: &str) -> Result<Option<Box<dyn ThreadDatabase>>, Error>;
}

/// Paths with their sizes in bytes, and names that no path may have.
pub type DatabaseFiles = (Vec<(String, u64)>, Vec<String>);

/// A database of threads.
pub trait ThreadDatabase {
    /// Its address as it may be shown.
    fn place(&self) -> &str;

    /// A host whose files are those of the database, only to read.
    ///
    /// # Errors
    /// When it cannot be reached.
    fn host(&self, local: &Host, root: &Path) -> Result<Host, Error>;

    /// Paths relative to the root, and sizes, of all threads or of one; and names that no path may have.
    ///
    /// # Errors
    /// When there are too many, or it cannot be read.
    fn files(&self, thread: Option<&ThreadId>) -> Result<DatabaseFiles, Error>;

    /// The threads of its registry, all or one.
    ///
    /// # Errors
    /// When it cannot be read.
    fn threads(&self, thread: Option<&ThreadId>) -> Result<Vec<DatabaseThread>, Error>;
}

/// A row of the registry of a database.
#[derive(Debug, Clone)]
pub struct DatabaseThread {
    /// The thread.
    pub id: ThreadId,
    /// Its record, where the row names it.
    pub record: Option<RecordId>,
}

impl Verifier {
    /// Verifies the ledgers and threads of the database at `url`, or the one `thread`.
    ///
    /// # Errors
    /// When it cannot be reached or read, or has no such thread.
    pub fn database(
        &self,
        url: &str,
        thread: Option<&ThreadId>,
    ) -> Result<Vec<FileResult>, VerifyError> {
        let unbuilt = || Unbuilt::ThreadDatabases.error(format_args!("open {url}"));
        let databases = self.databases.as_ref().ok_or_else(unbuilt)?;
        let database = databases.open(url)?;
        let mut seen = Vec::new();
        if thread.is_none() {
            let ledgers = self.stores.ledgers(url)?;
            seen.push(FileResult::Reports(self.store(&*ledgers, url)?));
        }
        match (database, thread) {
            (Some(database), thread) => seen.extend(self.threads_of(&*database, thread)?),
            (None, None) => {}
            (None, Some(_)) => {
                return Err(VerifyError::refused("no threads lie in this database"));
            }
        }
        Ok(seen)
    }

    fn threads_of(
        &self,
        database: &dyn ThreadDatabase,
        thread: Option<&ThreadId>,
    ) -> Result<Vec<FileResult>, VerifyError> {
        let inside = Self {
            host: database.host(&self.host, Path::new(ROOT))?,
            ..self.asking(None)
        };
        let (files, strays) = database.files(thread)?;
        let rows = database.threads(thread)?;
        if let (Some(id), true, true) = (thread, files.is_empty(), rows.is_empty()) {
            let text = format!("there is no thread {id} in this database");
            return Err(VerifyError::refused(text));
        }
        let candidates: Vec<Candidate> = files
            .into_iter()
            .map(|(path, bytes)| Candidate {
                path: Path::new(ROOT).join(path),
                named: false,
                bytes,
            })
            .collect();
        let look = |candidate: &Candidate| match thread_of(&candidate.path) {
            // The thread id in the record is not enough.
            Some(id) => Self {
                host: inside.host.clone(),
                ..self.asking(Some(id))
            }
            .verify_candidate(candidate),
            None => inside.verify_candidate(candidate),
        };
        let mut seen: Vec<FileResult> = candidates.par_iter().map(look).collect();
        let (mut more, unread) = inside.missing(&candidates, &mut seen, &[]);
        more.extend(inside.lineage_reports(&candidates, &mut seen)?);
        more.extend(strays.iter().map(|path| inside.stray(path)));
        let lost = inside.lost(&rows, &candidates, &seen, &more)?;
        more.extend(lost);
        seen.push(FileResult::Reports(more));
        seen.extend(unread.into_iter().map(FileResult::Failed));
        for seen in &mut seen {
            name(seen, database.place());
        }
        Ok(seen)
    }

    /// This verifier, asking that a record be of `thread`. What was asked of one record is asked of transcripts.
    fn asking(&self, thread: Option<ThreadId>) -> Self {
        let expect_head = self.request.expect_head.filter(|_| thread.is_some());
        Self {
            among_many: true,
            is_shared: true,
            ..self.with(VerifyRequest {
                exact_head: self.request.exact_head && expect_head.is_some(),
                expect_head,
                thread,
                ..self.request.clone()
            })
        }
    }

    /// A report of each thread of the registry whose record all machines know, and that is nowhere.
    fn lost(
        &self,
        rows: &[DatabaseThread],
        candidates: &[Candidate],
        seen: &[FileResult],
        more: &[Report],
    ) -> Result<Vec<Report>, VerifyError> {
        let all = || seen.iter().flat_map(FileResult::reports).chain(more);
        let here: BTreeSet<RecordId> = all().filter_map(|report| report.record).collect();
        let missing = all().filter(|report| report.verdict == Verdict::Missing);
        let missing: BTreeSet<&str> = missing.map(|report| report.path.as_str()).collect();
        let mut lost = Vec::new();
        for row in rows {
            let Some(record) = row.record.filter(|record| !here.contains(record)) else {
                continue;
            };
            let path = format!("{ROOT}{THREADS}/{}/{TRANSCRIPT_FILE}", row.id);
            let is_new = || {
                // It was made after the files were listed.
                let is_it = |candidate: &Candidate| candidate.path == Path::new(&path);
                self.exists(Path::new(&path)) && !candidates.iter().any(is_it)
            };
            // One that died before its first seal left none.
            if missing.contains(path.as_str())
                || self.host.heads.fetch(&record)?.is_none()
                || is_new()
            {
                continue;
            }
            let text = format!(
                "the registry knows record {record}, which was sealed, and it is not there"
            );
            let mut report = self.begin(Format::Transcript, path);
            report.record = Some(record);
            report.downgrade(
                Verdict::Missing,
                Finding::error(FindingCode::RecordMissing, text),
            );
            lost.push(report);
        }
        Ok(lost)
    }

    fn stray(&self, path: &str) -> Report {
        let text = "it is stored under a name by which nobody opens anything";
        let mut report = self.begin(Format::Log, path.to_owned());
        report.downgrade(
            Verdict::Malformed,
            Finding::error(FindingCode::PathBad, text),
        );
        report
    }

    fn begin(&self, format: Format, path: String) -> Report {
        let mut report = Report::begin(format, Profile::Native);
        report.path = path;
        report.trust = Some(self.request.trust.digest());
        report
    }
}

/// The thread in whose folder a transcript is.
fn thread_of(path: &Path) -> Option<ThreadId> {
    let folder = path.strip_prefix(PathBuf::from(ROOT).join(THREADS)).ok()?;
    let is_record = folder
        .file_name()
        .is_some_and(|name| name == TRANSCRIPT_FILE);
    let id = folder.parent().filter(|_| is_record)?;
    ThreadId::parse(id.to_str()?).ok()
}

/// Puts the database before each path.
fn name(seen: &mut FileResult, place: &str) {
    let named = |path: &str| format!("{place}#{}", path.strip_prefix(ROOT).unwrap_or(path));
    match seen {
        FileResult::Reports(reports) | FileResult::Link(_, reports) => {
            for report in reports {
                report.path = named(&report.path);
            }
        }
        FileResult::NoRecord(error) | FileResult::Failed(error) => {
            error.path = error.path.as_deref().map(named);
        }
        FileResult::PassedOver | FileResult::Elsewhere => {}
    }
}
