//! Threads in a PostgreSQL database: each file there is looked at as if it lay in a folder.
//!
//! ```text
//! postgres://…            every ledger, every file of every thread
//! postgres://…#THREAD     the files of one thread
//! ```
//! All rows are looked at, whatever folders list. A transcript must be of the thread in whose folder it lies: nobody
//! copies records about in there. A thread of the registry whose record was sealed, and is not there, is missing.

use super::{Asked, Examiner, Seen, reports_of};
use crate::exit::Failure;
use crate::record;
use crate::walk::Candidate;
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use threadseal_core::record::{RecordId, ThreadId};
use threadseal_core::report::{Finding, Report, Verdict};
use threadseal_runtime::fleet::{Fleet, THREADS};
use threadseal_runtime::project::TRANSCRIPT_FILE;
use threadseal_runtime::registry::{Filter, Registry as _, Thread};

/// What paths of the database are shown and looked up below: no project is needed to verify them.
const ROOT: &str = "/";

impl Examiner {
    /// Looks at the ledgers and threads of the database at `url`, or at the one `thread`.
    ///
    /// # Errors
    /// When it cannot be reached or read, or has no such thread.
    pub(crate) fn database(
        &self,
        url: &str,
        thread: Option<&ThreadId>,
    ) -> Result<Vec<Seen>, Failure> {
        let fleet = Fleet::existing(url)?;
        let mut seen = Vec::new();
        if thread.is_none() {
            let ledgers = record::ledgers(url)?;
            seen.push(Seen::Reports(self.store(&*ledgers, url)?));
        }
        match (fleet, thread) {
            (Some(fleet), thread) => seen.extend(self.fleet(&fleet, thread)?),
            (None, None) => {}
            (None, Some(_)) => return Err(Failure::new("no threads lie in this database")),
        }
        Ok(seen)
    }

    fn fleet(&self, fleet: &Fleet, thread: Option<&ThreadId>) -> Result<Vec<Seen>, Failure> {
        let inside = Self {
            host: fleet.host(&self.host, Path::new(ROOT), None)?,
            ..self.asking(None)
        };
        let listing = fleet.files(thread)?;
        let rows = match thread {
            Some(id) => fleet.registry().get(id)?.into_iter().collect(),
            None => fleet.registry().list(&Filter::default())?.threads,
        };
        if let (Some(id), true, true) = (thread, listing.files.is_empty(), rows.is_empty()) {
            let text = format!("there is no thread {id} in this database");
            return Err(Failure::new(text));
        }
        let candidates: Vec<Candidate> = listing
            .files
            .into_iter()
            .map(|(path, bytes)| Candidate {
                path: Path::new(ROOT).join(path),
                named: false,
                bytes,
            })
            .collect();
        let look = |candidate: &Candidate| match thread_of(&candidate.path) {
            // Which one it says itself is not enough.
            Some(id) => Self {
                host: inside.host.clone(),
                ..self.asking(Some(id))
            }
            .examine(candidate),
            None => inside.examine(candidate),
        };
        let mut seen: Vec<Seen> = candidates.par_iter().map(look).collect();
        let (mut more, unread) = inside.missing(&candidates, &mut seen, &[]);
        more.extend(inside.lineage_reports(&candidates, &mut seen)?);
        more.extend(listing.strays.iter().map(|path| inside.stray(path)));
        let lost = inside.lost(&rows, &candidates, &seen, &more)?;
        more.extend(lost);
        seen.push(Seen::Reports(more));
        seen.extend(unread.into_iter().map(Seen::Failed));
        for seen in &mut seen {
            name(seen, fleet.place());
        }
        Ok(seen)
    }

    /// This examiner, asking that a record be of `thread`. What was asked of one record is asked of transcripts.
    fn asking(&self, thread: Option<ThreadId>) -> Self {
        let expect_head = self.asked.expect_head.filter(|_| thread.is_some());
        Self {
            among_many: true,
            is_shared: true,
            ..self.with(Asked {
                exact_head: self.asked.exact_head && expect_head.is_some(),
                expect_head,
                thread,
                ..self.asked.clone()
            })
        }
    }

    /// A report of each thread of the registry whose record all machines know, and that is nowhere.
    fn lost(
        &self,
        rows: &[Thread],
        candidates: &[Candidate],
        seen: &[Seen],
        more: &[Report],
    ) -> Result<Vec<Report>, Failure> {
        let all = || seen.iter().flat_map(reports_of).chain(more);
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
            let mut report = self.begin("transcript", path);
            report.record = Some(record);
            report.hold_because(Verdict::Missing, Finding::error("record_missing", text));
            lost.push(report);
        }
        Ok(lost)
    }

    fn stray(&self, path: &str) -> Report {
        let text = "it is stored under a name by which nobody opens anything";
        let mut report = self.begin("log", path.to_owned());
        report.hold_because(Verdict::Malformed, Finding::error("path_bad", text));
        report
    }

    fn begin(&self, format: &'static str, path: String) -> Report {
        let mut report = Report::begin(format, "native");
        report.path = path;
        report.trust = Some(self.asked.trust.digest());
        report
    }
}

/// The thread in whose folder a transcript lies.
fn thread_of(path: &Path) -> Option<ThreadId> {
    let folder = path.strip_prefix(PathBuf::from(ROOT).join(THREADS)).ok()?;
    let is_record = folder
        .file_name()
        .is_some_and(|name| name == TRANSCRIPT_FILE);
    let id = folder.parent().filter(|_| is_record)?;
    ThreadId::parse(id.to_str()?).ok()
}

/// Says of each path in which database it lies.
fn name(seen: &mut Seen, place: &str) {
    let named = |path: &str| format!("{place}#{}", path.strip_prefix(ROOT).unwrap_or(path));
    match seen {
        Seen::Reports(reports) | Seen::Link(_, reports) => {
            for report in reports {
                report.path = named(&report.path);
            }
        }
        Seen::NoRecord(error) | Seen::Failed(error) => {
            error.path = error.path.as_deref().map(named);
        }
        Seen::PassedOver | Seen::Elsewhere => {}
    }
}
