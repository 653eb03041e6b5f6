//! One file in, its reports out: one for each claim that is made about it.
//!
//! | kind | claims | looked at by |
//! |---|---|---|
//! | transcript | its own checkpoints; a seal file beside it | `transcript`, `log` |
//! | log | a seal file beside it | `log` |
//! | document | its own signature; a seal file beside it | `document`, `log` |
//! | scroll | its own hashes and signatures; a seal file beside it | `scroll`, `log` |
//! | checkpoint | its seal and place in the lineage that all checkpoints at hand make; a seal file beside it | `lineage`, `log` |
//! | ledger | its chains, one for each run, and signatures; a signed head, a seal file beside it | `ledger`, `log` |
//!
//! A file inside a folder is passed over when nothing claims to protect it and it is no record
//! (a plain source file); a file that was named always gets a result.

mod as_of;
mod companions;
mod database;
mod displacement;
mod document;
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
mod thread_links;
mod transcript;

pub use database::{DatabaseFiles, DatabaseThread, ThreadDatabase, ThreadDatabases};
pub use ledger::head_path;
pub use lineage::ReadCheckpoint;
pub use logged::tell_log;
pub use thread_links::unfinished;
pub use transcript::{MAX_TAKEN_UP_BYTES, OpenedTranscript, TranscriptResult};

pub(crate) use displacement::report_missing;
pub(crate) use noted_places::nothing_at;

use crate::address::Stores;
use crate::clean::Clean;
use crate::detect::{self, Kind};
use crate::error::{VerifyError, is_gone};
use crate::home_log::HomeLog;
use crate::inputs::Candidate;
use crate::notices::Progress;
use crate::output::PathError;
use crate::request::{RequestedProfile, VerifyRequest};
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use threadseal_core::record::RecordId;
use threadseal_core::report::{Finding, FindingCode, Report, Severity, SignerStatus, Verdict};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::ScopeFormat;
use threadseal_formats::document::DocumentKind;
use threadseal_formats::lineage::LinkFacts;
use threadseal_store::examine::Known;
use threadseal_store::host::Host;
use threadseal_store::observer::seal_path;
use threadseal_store::read::RegularFile;
use threadseal_store::sys::{FileKind, Metadata, path_text};

/// Looks after the first, where a record seems older than its head.
const SECOND_LOOKS: usize = 2;

/// What came of a file.
#[derive(Debug)]
pub enum FileResult {
    /// One report for each claim.
    Reports(Vec<Report>),
    /// No record.
    PassedOver,
    /// Its report is with another file of the same folder.
    Elsewhere,
    /// A checkpoint, to be joined with others, and reports of the files beside it.
    Link(Box<LinkFacts>, Vec<Report>),
    /// No verdict: it was named, was read, and is no record.
    NoRecord(PathError),
    /// No verdict: it could not be read.
    Failed(PathError),
}

impl FileResult {
    /// The reports; none of a checkpoint, which is judged with others.
    pub fn reports(&self) -> &[Report] {
        match self {
            Self::Reports(reports) => reports,
            _ => &[],
        }
    }

    /// Is there a result about a record?
    pub fn tells(&self) -> bool {
        match self {
            Self::Reports(reports) => !reports.is_empty(),
            Self::Link(..) | Self::NoRecord(_) | Self::Failed(_) => true,
            // Its report is with another file.
            Self::PassedOver | Self::Elsewhere => false,
        }
    }
}

/// Verifies files, all by the same request, knowledge and moment.
#[derive(Clone)]
pub struct Verifier {
    request: VerifyRequest,
    now: Timestamp,
    host: Host,
    log: HomeLog,
    stores: Stores,
    databases: Option<Arc<dyn ThreadDatabases>>,
    /// Where tombstones of records in stores are.
    tombstones: Option<PathBuf>,
    progress: Option<Arc<dyn Progress>>,
    /// Are other files verified at the same time?
    among_many: bool,
    /// Are the files in a database?
    is_shared: bool,
    /// Records of the lineages that were verified, under all their names.
    joined: Arc<Mutex<BTreeSet<RecordId>>>,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Verifier");
        shown
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}

impl Verifier {
    /// A verifier of files on `host`, whose heads are those of its home and of `log`. Windows and revocations are judged by `now`.
    pub fn new(request: VerifyRequest, host: Host, log: HomeLog, now: Timestamp) -> Self {
        Self {
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
        }
    }

    /// The same, with these settings of stores.
    #[must_use]
    pub fn with_stores(self, stores: Stores) -> Self {
        Self { stores, ..self }
    }

    /// The same, which can verify threads in databases.
    #[must_use]
    pub fn with_databases(self, databases: Arc<dyn ThreadDatabases>) -> Self {
        Self {
            databases: Some(databases),
            ..self
        }
    }

    /// The same, which finds the tombstones of records in stores in `folder`.
    #[must_use]
    pub fn with_tombstones(self, folder: Option<PathBuf>) -> Self {
        Self {
            tombstones: folder,
            ..self
        }
    }

    /// The same, which reports its reads to `progress`.
    #[must_use]
    pub fn with_progress(self, progress: Arc<dyn Progress>) -> Self {
        Self {
            progress: Some(progress),
            ..self
        }
    }

    /// The same verifier with another request.
    #[must_use]
    pub fn with(&self, request: VerifyRequest) -> Self {
        Self {
            request,
            progress: None,
            ..self.clone()
        }
    }

    /// The same verifier with another request, which reports its progress as before.
    pub(crate) fn with_request(&self, request: VerifyRequest) -> Self {
        Self {
            request,
            ..self.clone()
        }
    }

    pub(crate) fn progress(&self) -> Option<&dyn Progress> {
        self.progress.as_deref()
    }

    pub(crate) fn stores(&self) -> &Stores {
        &self.stores
    }

    /// What it asks of each record.
    pub fn request(&self) -> &VerifyRequest {
        &self.request
    }

    /// Where it reads, and what it knows of heads.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The moment by which it judges.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Sets how many files this verifier looks at on all cores: of many, each gets one.
    pub fn among(self, files: usize) -> Self {
        Self {
            among_many: files > 1,
            ..self
        }
    }

    /// The same, looking at the files of this host, which lie in a database.
    pub fn over(self, host: Host) -> Self {
        Self {
            host,
            is_shared: true,
            ..self
        }
    }

    /// Verifies the file or record at `path`, as one that was named.
    pub fn verify_path(&self, path: &Path) -> FileResult {
        self.verify_candidate(&Candidate {
            path: path.to_owned(),
            named: true,
            bytes: 0,
        })
    }

    /// Verifies one file.
    pub fn verify_candidate(&self, candidate: &Candidate) -> FileResult {
        let mut seen = self.look_or_fail(candidate);
        // A record that was sealed while it was read seems older than its head: the file was
        // opened before the head was fetched. Another look, after that head, decides.
        for _ in 0..SECOND_LOOKS {
            let again = match &seen {
                FileResult::Reports(reports) | FileResult::Link(_, reports) => {
                    reports.iter().any(seems_older)
                }
                // In a database a reader loses a file that is replaced while it is open.
                FileResult::Failed(_) => self.is_shared,
                _ => false,
            };
            if !again {
                break;
            }
            seen = self.look_or_fail(candidate);
        }
        if let FileResult::Reports(reports) | FileResult::Link(_, reports) = &mut seen {
            for report in reports {
                self.finish(report, &candidate.path);
            }
        }
        seen
    }

    fn look_or_fail(&self, candidate: &Candidate) -> FileResult {
        self.look(candidate).unwrap_or_else(|failure| {
            FileResult::Failed(PathError::of(Some(&candidate.path), &failure))
        })
    }

    fn look(&self, candidate: &Candidate) -> Result<FileResult, VerifyError> {
        // A small file is looked at several times, for what it is and for what it proves.
        let file = self
            .stores
            .open(&*self.host.fs, &candidate.path)?
            .hold_if_small()?;
        if !candidate.named && leftover::is_one(self, &file)? {
            return Ok(FileResult::PassedOver);
        }
        let kind = self.kind(&file)?;
        if kind == Some(Kind::Sidecar) {
            return log::sidecar(self, file.path(), candidate.named);
        }
        if kind == Some(Kind::LedgerHead) {
            return ledger::sidecar(self, file.path(), candidate.named);
        }
        if kind == Some(Kind::Checkpoint) && self.request.profile != RequestedProfile::Observed {
            return self.beside(&file, kind);
        }
        let is_other = kind.is_some_and(|kind| !matches!(kind, Kind::Scroll(_)));
        if self.request.scroll.is_some() && (is_other || (kind.is_none() && candidate.named)) {
            let text = "a length or an age was asked for, and only scrolls have them";
            return Err(VerifyError::refused(text).about(&candidate.path));
        }
        let mut reports = self.claims(&file, kind, candidate.named)?;
        self.excuse_from_head(&file, kind, candidate.named, &mut reports)?;
        // Its real place: a record in a store is named in another way.
        displacement::hold(self, file.path(), &mut reports)?;
        match (reports.is_empty(), kind) {
            (false, _) => Ok(FileResult::Reports(reports)),
            (true, None) if candidate.named => {
                let text = match detect::proof(&file)? {
                    Some(what) => format!(
                        "{what}, and no record: threadseal check-proof {}",
                        Clean(&shown(&candidate.path))
                    ),
                    None => "unknown format".to_owned(),
                };
                let failure = VerifyError::refused(text).about(&candidate.path);
                let error = PathError::of(Some(&candidate.path), &failure);
                Ok(FileResult::NoRecord(error))
            }
            (true, _) => Ok(FileResult::PassedOver),
        }
    }

    /// The claims that the profile asks for. A file that makes none is reported as unsigned where
    /// it was named or should make one.
    fn claims(
        &self,
        file: &RegularFile,
        kind: Option<Kind>,
        named: bool,
    ) -> Result<Vec<Report>, VerifyError> {
        let mut reports = Vec::new();
        let beside = matches!(
            self.request.profile,
            RequestedProfile::Auto | RequestedProfile::Observed
        );
        if beside && self.exists(&seal_path(file.path())) {
            reports.push(log::sealed(self, file, &seal_path(file.path()))?);
        }
        if self.request.profile == RequestedProfile::Observed {
            if reports.is_empty() && (named || kind == Some(Kind::Log)) {
                reports.push(self.unsealed(file)?);
            }
            return Ok(reports);
        }
        if let Some(Kind::Ledger(shape)) = kind {
            reports.extend(ledger::look(self, file, shape)?);
            return Ok(reports);
        }
        if kind == Some(Kind::Checkpoint) {
            return Ok(reports);
        }
        if let Some(report) = self.own_claim(file, kind)? {
            let is_source =
                matches!(kind, Some(Kind::Document(kind)) if kind != DocumentKind::Json);
            let should_claim = reports.is_empty() && (named || !is_source);
            // One file does not show what else is missing.
            let beside = match kind {
                Some(Kind::Native) if !named => companions::beside(self, file, &report)?,
                _ => Vec::new(),
            };
            if should_claim || !claims_nothing(&report) {
                reports.push(report);
            }
            reports.extend(beside);
        }
        Ok(reports)
    }

    /// An expected head is of one record. Of a file that is several, those that it was not meant
    /// for are looked at without it.
    fn excuse_from_head(
        &self,
        file: &RegularFile,
        kind: Option<Kind>,
        named: bool,
        reports: &mut [Report],
    ) -> Result<(), VerifyError> {
        let is_meant = reports.iter().any(|report| !misses_head(report));
        if self.request.expect_head.is_none() || !is_meant || !reports.iter().any(misses_head) {
            return Ok(());
        }
        let without = self.with(VerifyRequest {
            expect_head: None,
            exact_head: false,
            ..self.request.clone()
        });
        let again = without.claims(file, kind, named)?;
        for (report, again) in reports.iter_mut().zip(again) {
            if misses_head(report) {
                *report = again;
            }
        }
        Ok(())
    }

    /// What the file itself carries. That it carries nothing is evidence where this host sealed it
    /// and no seals lie beside it either.
    fn own_claim(
        &self,
        file: &RegularFile,
        kind: Option<Kind>,
    ) -> Result<Option<Report>, VerifyError> {
        let mut report = match kind {
            Some(Kind::Native) => transcript::native(self, file)?.report,
            // Rye's checkpoints are nothing to who asks for native seals.
            Some(Kind::Events) if self.request.profile != RequestedProfile::Native => {
                transcript::rye(self, file)?.report
            }
            Some(Kind::Events | Kind::Log) => log::unsealed(self, file),
            Some(Kind::Document(kind)) => document::look(self, file, kind)?,
            Some(Kind::Scroll(container)) => scroll::look(self, file, container)?,
            Some(Kind::Sidecar | Kind::LedgerHead | Kind::Ledger(_) | Kind::Checkpoint) => {
                return Ok(None);
            }
            // It holds lines of a record, and is marked as a copy.
            None if detect::is_copy(file)? => return Ok(None),
            // This host may know that such a file was a record.
            None if self.exists(&seal_path(file.path())) => return Ok(None),
            None => {
                let report = self.unsealed(file)?;
                return Ok((report.verdict == Verdict::Tampered).then_some(report));
            }
        };
        if report.verdict == Verdict::Unsigned && !self.exists(&seal_path(file.path())) {
            log::hold_if_stripped(self, file, &mut report)?;
        }
        Ok(Some(report))
    }

    /// A file that should have a seal file beside it, and has none.
    fn unsealed(&self, file: &RegularFile) -> Result<Report, VerifyError> {
        let mut report = log::unsealed(self, file);
        log::hold_if_stripped(self, file, &mut report)?;
        Ok(report)
    }

    fn kind(&self, file: &RegularFile) -> Result<Option<Kind>, VerifyError> {
        let name = file.path().to_string_lossy();
        Ok(match self.request.format {
            None => match (detect::kind(file)?, DocumentKind::of_name(&name)) {
                (Some(Kind::Native | Kind::Events), Some(text))
                    if text != DocumentKind::Json && self.is_sealed_text(file, text) =>
                {
                    Some(Kind::Document(text))
                }
                (found, _) => found,
            },
            Some(ScopeFormat::Transcript) => Some(detect::transcript(file)?),
            Some(ScopeFormat::Log) => Some(Kind::Log),
            Some(ScopeFormat::Scroll) => Some(Kind::Scroll(detect::container(file)?)),
            Some(ScopeFormat::Ledger) => Some(Kind::Ledger(detect::ledger_shape(file)?)),
            Some(ScopeFormat::Lineage) => Some(Kind::Checkpoint),
            Some(ScopeFormat::Json) => Some(Kind::Document(DocumentKind::Json)),
            Some(ScopeFormat::Text) => {
                let by_name = DocumentKind::of_name(&name);
                let text = by_name.filter(|kind| *kind != DocumentKind::Json);
                Some(Kind::Document(text.unwrap_or(DocumentKind::Markdown)))
            }
        })
    }

    /// Is all of a file one text under the seal of a trusted key? A text may quote the lines of transcripts, as the entry
    /// of a thread that read one does; nothing is hidden where every byte is vouched for.
    fn is_sealed_text(&self, file: &RegularFile, kind: DocumentKind) -> bool {
        let looked = document::look(self, file, kind);
        looked.is_ok_and(|report| report.verdict == Verdict::Verified)
    }

    /// Is anything there? Asks the disk of the host, which may be a database. A path that cannot be
    /// looked at does not count as gone, here and below: opening it reports why.
    fn exists(&self, path: &Path) -> bool {
        !self
            .host
            .fs
            .metadata(path)
            .is_err_and(|error| is_gone(&error))
    }

    /// Is a regular file there?
    fn is_file(&self, path: &Path) -> bool {
        is_regular(self.host.fs.metadata(path))
    }

    /// The same, a final link not followed: what a walk finds.
    fn is_walked(&self, path: &Path) -> bool {
        is_regular(self.host.fs.symlink_metadata(path))
    }

    fn advance(&self, bytes: u64) {
        if let Some(progress) = &self.progress {
            progress.read(bytes);
        }
    }

    /// [`Verifier::advance`] for code that reads for this verifier.
    fn tick(&self) -> impl Fn(u64) + Sync {
        |bytes| self.advance(bytes)
    }

    /// When this host already held the record's last seal: evidence against a later revocation.
    /// Seals after the one that is held are not covered by it.
    fn held_since(known: &Known, report: &Report) -> Option<Timestamp> {
        let stored = known.stored.as_ref()?;
        stored
            .held_since()
            .filter(|_| report.head == Some(stored.head))
    }

    /// Adds to every report what holds for the whole run.
    fn finish(&self, report: &mut Report, path: &Path) {
        if report.path.is_empty() {
            report.path = shown(path);
        }
        if self.request.thread.is_some() && !report.format.may_name_a_thread() {
            let text = "a thread was asked for, and this kind of record names none";
            report.downgrade(
                Verdict::Foreign,
                Finding::error(FindingCode::ThreadUnnamed, text),
            );
        }
        self.supersede(report);
        tell_log(report, &self.log);
        logged::doubt(report, &self.log);
        if let Some(anchors) = &self.request.anchors {
            anchors.hold(report, &self.log);
        }
        if self.request.trust.local {
            report.find(Finding::warning(
                FindingCode::LocalTrust,
                "the trust lies inside the tree that it judges: whoever made the one could make the other",
            ));
        }
    }
}

fn is_regular(found: io::Result<Metadata>) -> bool {
    match found {
        Ok(found) => found.kind == FileKind::Regular,
        Err(error) => !is_gone(&error),
    }
}

/// Is the expected head none of this record's?
fn misses_head(report: &Report) -> bool {
    const OTHERS: [FindingCode; 4] = [
        FindingCode::RecordDiffers,
        FindingCode::HeadMissing,
        FindingCode::OtherRecord,
        FindingCode::OtherHead,
    ];
    let mut findings = report.findings.iter();
    findings.any(|found| OTHERS.contains(&found.code))
}

fn seems_older(report: &Report) -> bool {
    // Bodies are read after the record that names them.
    let lacks = |finding: &Finding| finding.code == FindingCode::BodyMissing;
    matches!(report.verdict, Verdict::Truncated | Verdict::RolledBack)
        || report.findings.iter().any(lacks)
}

/// Does nothing in the file claim to protect it, and nothing else speak of it?
fn claims_nothing(report: &Report) -> bool {
    let mut findings = report.findings.iter();
    report.verdict == Verdict::Unsigned
        && findings.all(|found| {
            found.severity == Severity::Note || found.code == FindingCode::NoCheckpoint
        })
}

fn has_revoked_signer(report: &Report) -> bool {
    let mut signers = report.signers.iter();
    signers.any(|signer| signer.status == SignerStatus::Revoked)
}

fn shown(path: &Path) -> String {
    path_text(path)
}
