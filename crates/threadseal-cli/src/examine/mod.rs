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
//! A file inside a folder is passed over when nothing claims to protect it and it is no record by
//! itself (a plain source file); a file that was named is always answered for.

mod ahead;
pub(crate) mod all;
mod anchored;
mod as_of;
mod companions;
mod document;
mod ends;
mod fleet;
pub(crate) mod kin;
pub(crate) mod ledger;
mod leftover;
pub(crate) mod lineage;
mod log;
pub(crate) mod logged;
mod missing;
mod place;
pub(crate) mod pruned;
mod scroll;
mod transcript;
mod whereabouts;

pub(crate) use ahead::Unpublished;
pub(crate) use anchored::{Anchors, witnessed};
pub(crate) use ledger::LedgerAsked;
pub(crate) use lineage::LineageAsked;
pub(crate) use scroll::{ScrollArgs, ScrollAsked};
pub(crate) use transcript::TakenUp;

use crate::cmd::trust::FormatArg;
use crate::context::Context;
use crate::detect::{self, Kind};
use crate::exit::Failure;
use crate::record;
use crate::render::clean::Clean;
use crate::render::json::PathError;
use crate::seal_log::HomeLog;
use crate::walk::Candidate;
use clap::ValueEnum;
use indicatif::ProgressBar;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use threadseal_core::record::{ExpectedHead, Head, RecordId, ThreadId};
use threadseal_core::report::{Finding, Report, Severity, SignerStatus, Verdict};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::Trust;
use threadseal_formats::document::DocumentKind;
use threadseal_formats::lineage::LinkFacts;
use threadseal_store::examine::Known;
use threadseal_store::host::Host;
use threadseal_store::observer::seal_path;
use threadseal_store::read::RegularFile;
use threadseal_store::sys::{FileKind, Metadata, path_text};

/// Looks after the first, where a record seems older than its head.
const SECOND_LOOKS: usize = 2;

/// `--profile`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileArg {
    /// Every claim; what a format leaves open is held against the record
    Auto,
    /// ThreadSeal's own seals
    Native,
    /// Rye's signatures, as far as Rye covers
    Rye,
    /// The seal file beside a log
    Observed,
    /// agent-scroll's own seals, as far as v0.1 covers
    #[value(name = "scroll-v0.1")]
    ScrollV01,
}

/// What a run asks of each record.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Whose signatures count.
    pub(crate) trust: Trust,
    /// `--profile`
    pub(crate) profile: ProfileArg,
    /// `--format`
    pub(crate) format: Option<FormatArg>,
    /// `--thread`
    pub(crate) thread: Option<ThreadId>,
    /// `--expect-head`
    pub(crate) expect_head: Option<ExpectedHead>,
    /// `--exact-head`
    pub(crate) exact_head: bool,
    /// `--as-of`: the expected head, where what is known of later ones does not count
    pub(crate) as_of: Option<Head>,
    /// `--require-anchor`: what witnesses saw
    pub(crate) anchors: Option<Anchors>,
    /// `--every-signature`
    pub(crate) every_signature: bool,
    /// What is asked of scrolls only.
    pub(crate) scroll: ScrollAsked,
    /// What is asked of ledgers only.
    pub(crate) ledger: LedgerAsked,
    /// What is asked of lineages only.
    pub(crate) lineage: LineageAsked,
}

impl Asked {
    /// Everything at its default.
    pub(crate) fn by(trust: Trust) -> Self {
        Self {
            trust,
            profile: ProfileArg::Auto,
            format: None,
            thread: None,
            expect_head: None,
            exact_head: false,
            as_of: None,
            anchors: None,
            every_signature: false,
            scroll: ScrollAsked::default(),
            ledger: LedgerAsked::default(),
            lineage: LineageAsked::default(),
        }
    }
}

/// What came of a file.
#[derive(Debug)]
pub(crate) enum Seen {
    /// One report for each claim.
    Reports(Vec<Report>),
    /// No record.
    PassedOver,
    /// Its report stands with another file of the same folder.
    Elsewhere,
    /// A checkpoint, to be joined with others, and reports of what lies beside it.
    Link(Box<LinkFacts>, Vec<Report>),
    /// No verdict: it was named, was read, and is no record.
    NoRecord(PathError),
    /// No verdict: nobody can say what it is.
    Failed(PathError),
}

impl Seen {
    /// Is anything said of a record?
    pub(crate) fn tells(&self) -> bool {
        match self {
            Self::Reports(reports) => !reports.is_empty(),
            Self::Link(..) | Self::NoRecord(_) | Self::Failed(_) => true,
            // Whose report stands with another file is said there.
            Self::PassedOver | Self::Elsewhere => false,
        }
    }
}

/// Looks at files, all by the same trust and the same moment.
pub(crate) struct Examiner {
    asked: Asked,
    now: Timestamp,
    host: Host,
    log: HomeLog,
    bar: ProgressBar,
    /// Are other files looked at at the same time?
    among_many: bool,
    /// Do the files lie in a database?
    is_shared: bool,
    /// Records that are in lineages which were looked at, under whatever name.
    joined: Arc<Mutex<BTreeSet<RecordId>>>,
}

impl Examiner {
    /// Takes the question, the clock and the heads of the home. `bar` is told of bytes read.
    ///
    /// # Errors
    /// When the home must not be trusted, or the clock is out of range.
    pub(crate) fn new(asked: Asked, bar: ProgressBar, context: &Context) -> Result<Self, Failure> {
        let (host, log) = context.reading_host()?;
        Ok(Self {
            asked,
            now: context.now()?,
            host,
            log,
            bar,
            among_many: false,
            is_shared: false,
            joined: Arc::default(),
        })
    }

    /// The same examiner with another question.
    fn with(&self, asked: Asked) -> Self {
        Self {
            asked,
            host: self.host.clone(),
            log: self.log.clone(),
            bar: ProgressBar::hidden(),
            now: self.now,
            among_many: self.among_many,
            is_shared: self.is_shared,
            joined: Arc::clone(&self.joined),
        }
    }

    /// Says how many files this examiner looks at on all cores: of many, each gets one.
    pub(crate) fn among(self, files: usize) -> Self {
        Self {
            among_many: files > 1,
            ..self
        }
    }

    /// The same, looking at the files of this host, which lie in a database.
    pub(crate) fn over(self, host: Host) -> Self {
        Self {
            host,
            is_shared: true,
            ..self
        }
    }

    /// Looks at one file.
    pub(crate) fn examine(&self, candidate: &Candidate) -> Seen {
        let mut seen = self.look_or_fail(candidate);
        // A record that was sealed while it was read seems older than its head: the file was
        // opened before the head was fetched. Another look, after that head, tells.
        for _ in 0..SECOND_LOOKS {
            let again = match &seen {
                Seen::Reports(reports) | Seen::Link(_, reports) => reports.iter().any(seems_older),
                // In a database a file that is replaced is gone for whoever had opened it.
                Seen::Failed(_) => self.is_shared,
                _ => false,
            };
            if !again {
                break;
            }
            seen = self.look_or_fail(candidate);
        }
        if let Seen::Reports(reports) | Seen::Link(_, reports) = &mut seen {
            for report in reports {
                self.finish(report, &candidate.path);
            }
        }
        seen
    }

    fn look_or_fail(&self, candidate: &Candidate) -> Seen {
        self.look(candidate)
            .unwrap_or_else(|failure| Seen::Failed(PathError::of(Some(&candidate.path), &failure)))
    }

    fn look(&self, candidate: &Candidate) -> Result<Seen, Failure> {
        // A small file is looked at several times, for what it is and for what it proves.
        let file = record::open(&*self.host.fs, &candidate.path)?.hold_if_small()?;
        if !candidate.named && leftover::is_one(self, &file)? {
            return Ok(Seen::PassedOver);
        }
        let kind = self.kind(&file)?;
        if kind == Some(Kind::Sidecar) {
            return log::sidecar(self, file.path(), candidate.named);
        }
        if kind == Some(Kind::LedgerHead) {
            return ledger::sidecar(self, file.path(), candidate.named);
        }
        if kind == Some(Kind::Checkpoint) && self.asked.profile != ProfileArg::Observed {
            return self.beside(&file, kind);
        }
        let is_other = kind.is_some_and(|kind| !matches!(kind, Kind::Scroll(_)));
        if self.asked.scroll.is_some() && (is_other || (kind.is_none() && candidate.named)) {
            let text = "a length or an age was asked for, and only scrolls have them";
            return Err(Failure::new(text).about(&candidate.path));
        }
        let mut reports = self.claims(&file, kind, candidate.named)?;
        self.excuse_from_head(&file, kind, candidate.named, &mut reports)?;
        // Where it really lies, which is not how it was named where that is in a store.
        place::hold(self, file.path(), &mut reports)?;
        match (reports.is_empty(), kind) {
            (false, _) => Ok(Seen::Reports(reports)),
            (true, None) if candidate.named => {
                let text = match detect::proof(&file)? {
                    Some(what) => format!(
                        "{what}, and no record: threadseal check-proof {}",
                        Clean(&shown(&candidate.path))
                    ),
                    None => "unknown format".to_owned(),
                };
                let failure = Failure::new(text).about(&candidate.path);
                let error = PathError::of(Some(&candidate.path), &failure);
                Ok(Seen::NoRecord(error))
            }
            (true, _) => Ok(Seen::PassedOver),
        }
    }

    /// The claims that the profile asks for. A file that makes none is reported as unsigned where
    /// it was named or should make one.
    fn claims(
        &self,
        file: &RegularFile,
        kind: Option<Kind>,
        named: bool,
    ) -> Result<Vec<Report>, Failure> {
        let mut reports = Vec::new();
        let beside = matches!(self.asked.profile, ProfileArg::Auto | ProfileArg::Observed);
        if beside && self.exists(&seal_path(file.path())) {
            reports.push(log::sealed(self, file, &seal_path(file.path()))?);
        }
        if self.asked.profile == ProfileArg::Observed {
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
            // Of one file nobody can say what else is missing.
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
    ) -> Result<(), Failure> {
        let is_meant = reports.iter().any(|report| !misses_head(report));
        if self.asked.expect_head.is_none() || !is_meant || !reports.iter().any(misses_head) {
            return Ok(());
        }
        let without = self.with(Asked {
            expect_head: None,
            exact_head: false,
            ..self.asked.clone()
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
    fn own_claim(&self, file: &RegularFile, kind: Option<Kind>) -> Result<Option<Report>, Failure> {
        let mut report = match kind {
            Some(Kind::Native) => transcript::native(self, file)?.report,
            // Rye's checkpoints are nothing to who asks for native seals.
            Some(Kind::Events) if self.asked.profile != ProfileArg::Native => {
                transcript::rye(self, file)?.report
            }
            Some(Kind::Events | Kind::Log) => log::unsealed(self, file),
            Some(Kind::Document(kind)) => document::look(self, file, kind)?,
            Some(Kind::Scroll(container)) => scroll::look(self, file, container)?,
            Some(Kind::Sidecar | Kind::LedgerHead | Kind::Ledger(_) | Kind::Checkpoint) => {
                return Ok(None);
            }
            // It holds lines of a record, and says of itself that it is none.
            None if detect::is_copy(file)? => return Ok(None),
            // Of a file that is nothing by itself this host may know that it was more.
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
    fn unsealed(&self, file: &RegularFile) -> Result<Report, Failure> {
        let mut report = log::unsealed(self, file);
        log::hold_if_stripped(self, file, &mut report)?;
        Ok(report)
    }

    fn kind(&self, file: &RegularFile) -> Result<Option<Kind>, Failure> {
        let name = file.path().to_string_lossy();
        Ok(match self.asked.format {
            None => match (detect::kind(file)?, DocumentKind::of_name(&name)) {
                (Some(Kind::Native | Kind::Events), Some(text))
                    if text != DocumentKind::Json && self.is_sealed_text(file, text) =>
                {
                    Some(Kind::Document(text))
                }
                (found, _) => found,
            },
            Some(FormatArg::Transcript) => Some(detect::transcript(file)?),
            Some(FormatArg::Log) => Some(Kind::Log),
            Some(FormatArg::Scroll) => Some(Kind::Scroll(detect::container(file)?)),
            Some(FormatArg::Ledger) => Some(Kind::Ledger(detect::ledger_shape(file)?)),
            Some(FormatArg::Lineage) => Some(Kind::Checkpoint),
            Some(FormatArg::Json) => Some(Kind::Document(DocumentKind::Json)),
            Some(FormatArg::Text) => {
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

    /// Is anything there? Asked of the disk that is looked at, which may be a database. What cannot be looked at is not
    /// said to be gone, here and below: who opens it is told why.
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

    /// Tells the bar of bytes read.
    fn tick(&self) -> impl Fn(u64) + Sync {
        |bytes| self.bar.inc(bytes)
    }

    /// When this host already held the record's last seal: evidence against a later revocation.
    /// Seals after the one that is held are not covered by it.
    fn held_since(known: &Known, report: &Report) -> Option<Timestamp> {
        let stored = known.stored.as_ref()?;
        stored
            .held_since()
            .filter(|_| report.head == Some(stored.head))
    }

    /// Says in every report what holds for the whole run.
    fn finish(&self, report: &mut Report, path: &Path) {
        if report.path.is_empty() {
            report.path = shown(path);
        }
        if self.asked.thread.is_some()
            && matches!(
                report.format,
                "log" | "text" | "scroll" | "ledger" | "lineage"
            )
        {
            let text = "a thread was asked for, and this kind of record names none";
            report.hold_because(Verdict::Foreign, Finding::error("thread_unnamed", text));
        }
        self.supersede(report);
        logged::tell(report, &self.log);
        logged::doubt(report, &self.log);
        if let Some(anchors) = &self.asked.anchors {
            anchors.hold(report, &self.log);
        }
        if self.asked.trust.local {
            report.find(Finding::warning(
                "local_trust",
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

/// Does the system say that nothing is there? Anything else that it says is no such thing.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Is the expected head none of this record's?
fn misses_head(report: &Report) -> bool {
    const OTHERS: [&str; 4] = [
        "record_differs",
        "head_missing",
        "other_record",
        "other_head",
    ];
    let mut findings = report.findings.iter();
    findings.any(|found| OTHERS.contains(&found.code))
}

fn reports_of(seen: &Seen) -> &[Report] {
    match seen {
        Seen::Reports(reports) => reports,
        _ => &[],
    }
}

fn seems_older(report: &Report) -> bool {
    // Bodies are read behind the record that names them.
    let lacks = |finding: &Finding| finding.code == "body_missing";
    matches!(report.verdict, Verdict::Truncated | Verdict::RolledBack)
        || report.findings.iter().any(lacks)
}

/// Does nothing in the file claim to protect it, and nothing else speak of it?
fn claims_nothing(report: &Report) -> bool {
    let mut findings = report.findings.iter();
    report.verdict == Verdict::Unsigned
        && findings.all(|found| found.severity == Severity::Note || found.code == "no_checkpoint")
}

fn has_revoked_signer(report: &Report) -> bool {
    let mut signers = report.signers.iter();
    signers.any(|signer| signer.status == SignerStatus::Revoked)
}

fn shown(path: &Path) -> String {
    path_text(path)
}
