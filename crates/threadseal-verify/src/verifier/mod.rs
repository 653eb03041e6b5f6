//! [`Verifier`]: what a program asks of records, and the reports it gets.
//!
//! ```text
//! Verifier ─► file: which claims a file makes ─► transcript · document · scroll · ledger · lineage · log ─► Report
//!                                              └► finish: what holds for the whole run
//! ```
//! | module | owns |
//! |---|---|
//! | `context` | the request, the host, the log and the moment, which all others share |
//! | `file`, `file_result` | one file in, its reports out |
//! | `transcript`, `document`, `scroll`, `ledger`, `lineage`, `log` | one kind of record |
//! | `logged`, `as_of`, `finish` | what the log and the request add to each report |
//! | `displacement`, `companions`, `ledger_ends`, `thread_links`, `missing` | records that are not where others place them |
//! | `pruned` | records that this host removed |
//! | `noted_places`, `sealed_places`, `gone` | the places that an index names; what a place or a store lacks |
//! | `stored_lineage` | lineages in stores |
//! | `database`, `thread_databases` | threads in databases |

mod as_of;
mod companions;
mod context;
mod database;
mod displacement;
mod document;
mod file;
mod file_result;
mod finish;
mod gone;
mod ledger;
mod ledger_ends;
mod leftover;
mod lineage;
mod log;
mod logged;
mod missing;
mod noted_places;
pub mod pruned;
mod scroll;
mod sealed_places;
mod stored_lineage;
mod thread_databases;
mod thread_links;
mod transcript;

pub use file_result::FileResult;
pub use gone::is_openable;
pub use ledger::head_path;
pub use lineage::ReadCheckpoint;
pub use logged::tell_log;
pub use stored_lineage::StoredLineages;
pub use thread_databases::{DatabaseFiles, DatabaseThread, ThreadDatabase, ThreadDatabases};
pub use thread_links::unfinished;
pub use transcript::{MAX_TAKEN_UP_BYTES, OpenedTranscript, TranscriptResult};

pub(crate) use context::Context;
pub(crate) use displacement::report_missing;
pub(crate) use noted_places::nothing_at;

use crate::address::Stores;
use crate::error::VerifyError;
use crate::home_log::HomeLog;
use crate::inputs::Candidate;
use crate::notices::Progress;
use crate::output::PathError;
use crate::request::VerifyRequest;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use threadseal_core::error::Error;
use threadseal_core::record::{RecordId, RecordKind, ThreadId};
use threadseal_core::report::Report;
use threadseal_core::time::Timestamp;
use threadseal_formats::ledger::{self as ledgers, BundledLedger, RunId};
use threadseal_formats::lineage::{self as lineages, AgentName, View};
use threadseal_formats::scroll::{self as scrolls, Container};
use threadseal_formats::transcript::VerifyOptions;
use threadseal_store::host::Host;
use threadseal_store::ledger::LedgerStore;
use threadseal_store::read::{RegularFile, Source};
use threadseal_store::recorder::{Judge, Judged};

/// Verifies files, all by the same request, knowledge and moment.
#[derive(Clone)]
pub struct Verifier(Context);

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Verifier");
        shown
            .field("request", &self.0.request)
            .finish_non_exhaustive()
    }
}

impl Verifier {
    /// A verifier of files on `host`, whose heads are those of its home and of `log`. Windows and revocations are judged by `now`.
    pub fn new(request: VerifyRequest, host: Host, log: HomeLog, now: Timestamp) -> Self {
        Self(Context {
            request,
            now,
            host,
            log,
            stores: Stores::default(),
            databases: None,
            tombstones: None,
            progress: None,
            among_many: false,
            is_shared: false,
            joined: Arc::default(),
        })
    }

    /// The same, with these settings of stores.
    #[must_use]
    pub fn with_stores(self, stores: Stores) -> Self {
        Self(Context { stores, ..self.0 })
    }

    /// The same, which can verify threads in databases.
    #[must_use]
    pub fn with_databases(self, databases: Arc<dyn ThreadDatabases>) -> Self {
        Self(Context {
            databases: Some(databases),
            ..self.0
        })
    }

    /// The same, which finds the tombstones of records in stores in `folder`.
    #[must_use]
    pub fn with_tombstones(self, folder: Option<PathBuf>) -> Self {
        Self(Context {
            tombstones: folder,
            ..self.0
        })
    }

    /// The same, which reports its reads to `progress`.
    #[must_use]
    pub fn with_progress(self, progress: Arc<dyn Progress>) -> Self {
        Self(Context {
            progress: Some(progress),
            ..self.0
        })
    }

    /// The same verifier with another request.
    #[must_use]
    pub fn with(&self, request: VerifyRequest) -> Self {
        Self(self.0.with(request))
    }

    /// The same verifier with another request, which reports its progress as before.
    pub(crate) fn with_request(&self, request: VerifyRequest) -> Self {
        Self(Context {
            request,
            ..self.0.clone()
        })
    }

    /// The request, knowledge and moment.
    pub(crate) fn context(&self) -> &Context {
        &self.0
    }

    pub(crate) fn progress(&self) -> Option<&dyn Progress> {
        self.0.progress.as_deref()
    }

    pub(crate) fn stores(&self) -> &Stores {
        &self.0.stores
    }

    /// What it asks of each record.
    pub fn request(&self) -> &VerifyRequest {
        &self.0.request
    }

    /// Where it reads, and what it knows of heads.
    pub fn host(&self) -> &Host {
        &self.0.host
    }

    /// The moment by which it judges.
    pub fn now(&self) -> Timestamp {
        self.0.now
    }

    /// Sets how many files this verifier looks at on all cores: of many, each gets one.
    pub fn among(self, files: usize) -> Self {
        Self(Context {
            among_many: files > 1,
            ..self.0
        })
    }

    /// The same, looking at the files of this host, which lie in a database.
    pub fn over(self, host: Host) -> Self {
        Self(Context {
            host,
            is_shared: true,
            ..self.0
        })
    }

    /// Adds what holds for the whole run to the report on a copy that was judged alone, with nothing beside
    /// it: whether the log has its newest seal, and what witnesses saw. What came later does not count against it.
    pub fn finish_copy(&self, report: &mut Report) {
        let context = &self.0;
        logged::hold_copy(report, &context.log);
        let path = PathBuf::from(&report.path);
        finish::finish(context, report, &path);
    }

    /// Verifies the file or record at `path`, as one that was named.
    pub fn verify_path(&self, path: &Path) -> FileResult {
        self.verify_candidate(&Candidate {
            path: path.to_owned(),
            named: true,
            bytes: 0,
        })
    }

    /// Is it known that this host never sealed a record at `path`, or in that folder?
    pub(crate) fn never_sealed(&self, path: &Path) -> bool {
        file::never_sealed(&self.0, path)
    }

    /// Looks again at files beside records that are missing, if seals may have been made there
    /// meanwhile; whether it did.
    pub(crate) fn look_again(
        &self,
        candidates: &[Candidate],
        seen: &mut [FileResult],
        missing: &[Report],
    ) -> bool {
        let mut folders: Vec<&Path> = missing
            .iter()
            .filter_map(|report| Path::new(&report.path).parent())
            .collect();
        folders.sort_unstable();
        folders.dedup();
        folders.retain(|folder| file::may_be_sealing_beside(&self.0, &folder.join("any")));
        let pairs = candidates.iter().zip(seen);
        let beside = pairs.filter(|(candidate, _)| {
            let folder = candidate.path.parent();
            folder.is_some_and(|folder| folders.contains(&folder))
        });
        let mut looked = false;
        for (candidate, seen) in beside {
            *seen = self.verify_candidate(candidate);
            looked = true;
        }
        looked
    }

    /// Verifies one file.
    pub fn verify_candidate(&self, candidate: &Candidate) -> FileResult {
        file::verify_candidate(&self.0, candidate)
    }

    /// Looks at the file at `path`; with a limit, at bytes that it reads once and holds.
    pub(crate) fn look_at_source(
        &self,
        path: &Path,
        limit: Option<usize>,
    ) -> Result<(RegularFile, Vec<Report>), VerifyError> {
        file::read_source(&self.0, path, limit)
    }

    /// Verifies the transcript at `path` and holds it, so that a caller can rely on the part that may be trusted.
    ///
    /// # Errors
    /// When it cannot be read, or is no transcript.
    pub fn open_transcript(&self, path: &Path) -> Result<OpenedTranscript, VerifyError> {
        transcript::open_transcript_within(&self.0, path, None)
    }

    /// The same of a record of at most `limit` bytes, and as many of bodies.
    ///
    /// # Errors
    /// As [`Verifier::open_transcript`]; kind `Limit` when it has more.
    pub(crate) fn open_transcript_within(
        &self,
        path: &Path,
        limit: Option<usize>,
    ) -> Result<OpenedTranscript, VerifyError> {
        transcript::open_transcript_within(&self.0, path, limit)
    }

    /// Verifies the transcript in a file that the caller holds.
    ///
    /// # Errors
    /// As [`Verifier::open_transcript`].
    pub fn transcript_file(&self, file: &RegularFile) -> Result<TranscriptResult, VerifyError> {
        transcript::transcript_file(&self.0, file)
    }

    /// Verifies a ledger in a file of lines.
    ///
    /// # Errors
    /// When it cannot be read, or the heads are damaged.
    pub fn ledger_file(&self, file: &RegularFile) -> Result<ledgers::Outcome, VerifyError> {
        ledger::ledger_file(&self.0, file)
    }

    /// Verifies the ledger at `path`, which may grow meanwhile; and the file whose bytes were judged.
    ///
    /// # Errors
    /// When it cannot be read, or the heads are damaged.
    pub fn ledger_at(&self, path: &Path) -> Result<(RegularFile, ledgers::Outcome), VerifyError> {
        ledger::ledger_at(&self.0, path)
    }

    /// Verifies the ledgers and lineages of the store at `address`.
    ///
    /// # Errors
    /// As [`Verifier::store`]; when no store has this address.
    pub fn store_at(&self, address: &str) -> Result<Vec<Report>, VerifyError> {
        let mut reports = ledger::store_at(&self.0, address)?;
        let lineages = stored_lineage::read(&self.0, address, None)?;
        reports.extend(stored_lineage::reports(&self.0, lineages)?);
        Ok(reports)
    }

    /// Verifies the runs of a store, or the one that was asked for.
    ///
    /// # Errors
    /// When it cannot be read, or the heads are damaged.
    pub fn store(&self, store: &dyn LedgerStore, name: &str) -> Result<Vec<Report>, VerifyError> {
        ledger::verify_store(&self.0, store, name)
    }

    /// A report of each name in a store that no run has.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn strays(&self, store: &dyn LedgerStore, name: &str) -> Result<Vec<Report>, VerifyError> {
        ledger::strays(&self.0, store, name)
    }

    /// Verifies one run of a store.
    ///
    /// # Errors
    /// As [`Verifier::store`].
    pub fn run(
        &self,
        store: &dyn LedgerStore,
        run: &RunId,
        name: &str,
    ) -> Result<ledgers::Outcome, VerifyError> {
        ledger::verify_run(&self.0, store, run, name)
    }

    /// Verifies the ledgers of the bundle at `path`.
    ///
    /// # Errors
    /// As [`Verifier::store`].
    pub fn bundle_file(&self, path: &str) -> Result<Vec<Report>, VerifyError> {
        ledger::bundle_file(&self.0, path)
    }

    /// Verifies one ledger of a bundle.
    ///
    /// # Errors
    /// When the heads are damaged.
    pub fn bundled(&self, bundled: &BundledLedger) -> Result<ledgers::Outcome, VerifyError> {
        ledger::bundled(&self.0, bundled)
    }

    /// Reads checkpoints: each file that was named, and of folders each file that is one, as
    /// [`crate::detect::kind`] finds.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn links(&self, candidates: &[Candidate]) -> Result<Vec<ReadCheckpoint>, VerifyError> {
        lineage::links(&self.0, candidates)
    }

    /// Judges what was read of checkpoints, together.
    ///
    /// # Errors
    /// When there are too many, or the heads are damaged.
    pub fn lineages(
        &self,
        found: Vec<ReadCheckpoint>,
        view: View,
    ) -> Result<Vec<lineages::Outcome>, VerifyError> {
        lineage::lineages(&self.0, found, view)
    }

    /// The reports of the checkpoints among all files of a run.
    ///
    /// # Errors
    /// As [`Verifier::lineages`].
    pub fn lineage_reports(
        &self,
        candidates: &[Candidate],
        seen: &mut [FileResult],
    ) -> Result<Vec<Report>, VerifyError> {
        lineage::lineage_reports(&self.0, candidates, seen)
    }

    /// Reads all links of the store at `address`, or those of one agent.
    ///
    /// # Errors
    /// When no store has this address, or it cannot be read.
    pub fn stored_lineages(
        &self,
        address: &str,
        only: Option<&AgentName>,
    ) -> Result<StoredLineages, VerifyError> {
        stored_lineage::read(&self.0, address, only)
    }

    /// A report of each lineage that this host sealed last in a store, and that neither `here` nor any
    /// lineage that this verifier saw is.
    ///
    /// # Errors
    /// When the heads, the log or its index of places cannot be read; when an agent was deleted there at
    /// a link that this host does not know, which may be any of them.
    pub fn lineages_gone(
        &self,
        found: &StoredLineages,
        here: &BTreeSet<RecordId>,
    ) -> Result<Vec<Report>, VerifyError> {
        stored_lineage::gone(&self.0, found, here)
    }

    /// Records that were found beside those that reports name: an agent that continues in v0x05 has another id from then on.
    pub fn joined(&self) -> BTreeSet<RecordId> {
        let joined = self.0.joined.lock();
        joined.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Verifies a scroll in memory.
    ///
    /// # Errors
    /// When the heads are damaged.
    pub fn scroll_bytes(
        &self,
        bytes: &[u8],
        container: Container,
    ) -> Result<scrolls::Outcome, VerifyError> {
        scroll::scroll_bytes(&self.0, bytes, container)
    }

    /// Verifies a scroll that comes once; `first` is its beginning, with the whole first turn.
    ///
    /// # Errors
    /// When it cannot be read or the heads are damaged.
    pub fn scroll_stream(
        &self,
        first: &[u8],
        source: impl Source + Send,
        container: Container,
    ) -> Result<scrolls::Outcome, VerifyError> {
        scroll::scroll_stream(&self.0, first, source, container)
    }

    /// Verifies a scroll in a file.
    ///
    /// # Errors
    /// When it cannot be read or the heads are damaged.
    pub fn scroll_file(
        &self,
        file: &RegularFile,
        container: Container,
    ) -> Result<scrolls::Outcome, VerifyError> {
        scroll::scroll_file(&self.0, file, container)
    }

    /// Verifies the ledgers and threads of the database at `url`, or the one `thread`.
    ///
    /// # Errors
    /// When it cannot be reached or read, or has no such thread.
    pub fn database(
        &self,
        url: &str,
        thread: Option<&ThreadId>,
    ) -> Result<Vec<FileResult>, VerifyError> {
        database::database(&self.0, url, thread)
    }

    /// The records that something else displaced from the places of `candidates`, whose results are `seen`, or from
    /// those of `others`, which are no files. A record that was seen elsewhere, or was pruned, is not missing. The second
    /// list is of paths whose earlier record is unknown. A result improves where another file proves more of it.
    pub fn missing(
        &self,
        candidates: &[Candidate],
        seen: &mut [FileResult],
        others: &[PathBuf],
    ) -> (Vec<Report>, Vec<PathError>) {
        missing::missing(&self.0, candidates, seen, others)
    }

    /// A report of each scroll, ledger and lineage that this host sealed last in the place of one of
    /// `paths`, which are no records now, and that none of `here` is. One that was pruned is not missing.
    ///
    /// # Errors
    /// When the heads, the log or its index of places cannot be read.
    pub fn gone_from_places(
        &self,
        paths: &[PathBuf],
        here: &BTreeSet<RecordId>,
    ) -> Result<Vec<Report>, VerifyError> {
        sealed_places::gone(&self.0, paths, here)
    }

    /// The addresses of the folders of objects among `folders` in which this host sealed records last.
    ///
    /// # Errors
    /// When the index of places cannot be read.
    pub fn stores_in(&self, folders: &[PathBuf]) -> Result<Vec<String>, VerifyError> {
        sealed_places::stores_in(&self.0, folders)
    }

    /// A report of each agent in the folders of `candidates` whose newest link is gone, although the files beside it
    /// show that there was one.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn newest_links_gone(&self, candidates: &[Candidate]) -> Result<Vec<Report>, VerifyError> {
        lineage::newest_gone(&self.0, candidates)
    }

    /// A report of the index beside the ledger at `path`, where it contains other bytes than an index.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn ledger_index(&self, path: &Path) -> Result<Option<Report>, VerifyError> {
        ledger::index_report(&self.0, path)
    }

    /// A report of each record of this kind that this host sealed last in the store at `address`,
    /// whose own place is `own`, and that none of `here` is. One that this host pruned is not missing.
    ///
    /// # Errors
    /// When the heads, the log or its index of places cannot be read.
    pub fn gone_from(
        &self,
        kind: RecordKind,
        address: &str,
        own: Option<&str>,
        here: &BTreeSet<RecordId>,
    ) -> Result<Vec<Report>, VerifyError> {
        gone::gone_from(&self.0, kind, (address, own), here)
    }

    /// Reports of the records in a place of this machine: a file, a folder, an SQLite file, a record in a store that is a folder. None of any
    /// other place: a server is asked only where the user names it.
    ///
    /// # Errors
    /// When it cannot be read. What is not there is no report.
    pub fn look_into(&self, place: &str) -> Result<Option<Vec<Report>>, VerifyError> {
        noted_places::look_into(&self.0, place)
    }
}

impl Judge for Verifier {
    fn options(&self) -> VerifyOptions<'_> {
        VerifyOptions {
            trust: &self.0.request.trust,
            now: self.0.now,
            held_since: None,
            thread: self.0.request.thread.as_ref(),
        }
    }

    fn judge(&self, host: &Host, file: &RegularFile) -> Result<Judged, Error> {
        Ok(transcript::judge(&self.0, host, file)?)
    }
}
