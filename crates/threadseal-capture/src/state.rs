//! The state of a log in the words of `list`, as the one verifier judges it.
//!
//! ```text
//! source there ─► Verifier on the source ─┬─ verified, tail, unsigned, unknown signer
//!                                         ├─ evidence, log only grows ─► changed, and where
//!                                         └─ evidence, log is written anew ─► Verifier on the archive
//! source gone ──► Verifier on the archive ─► archived
//! ```
//! Invariant: a state is verified only if the verdict is. Nothing that an honest user does every day
//! is a change: a tail, a resume, a compaction, a clean-up by the agent, a version that is not sealed yet.

use crate::archive::{Archive, ArchiveFs, ArchivedLog};
use crate::database;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use threadseal_core::report::{Finding, FindingCode, Report, Severity, Verdict};
use threadseal_store::heads::MemoryHeadStore;
use threadseal_store::host::Host;
use threadseal_store::observer::seal_path;
use threadseal_store::read::Stamp;
use threadseal_store::sys::Fs;
use threadseal_verify::{FileResult, Verifier};

/// What is known of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateKind {
    /// All of the source is sealed, and verified.
    Verified,
    /// The source is gone, and its archived bytes are verified.
    Archived,
    /// The sealed bytes are verified; the agent added some, or wrote the file again.
    Growing,
    /// Rows of the database changed since they were sealed.
    Differs,
    /// The source is gone, and the archive lacks the last sealed bytes, or its key.
    Partial,
    /// The source has no seals.
    NotSealed,
    /// A key that is not trusted sealed it.
    UnknownSigner,
    /// There is no verdict: it cannot be read.
    Unreadable,
    /// There is evidence of a change.
    Changed,
}

/// The colour of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Light {
    /// All is well.
    Green,
    /// Not confirmed.
    Amber,
    /// Evidence.
    Red,
}

/// The state of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogState {
    /// What is known.
    pub kind: StateKind,
    /// The words for a person; safe to print.
    pub words: String,
}

impl StateKind {
    const ALL: [Self; 9] = [
        Self::Verified,
        Self::Archived,
        Self::Growing,
        Self::Differs,
        Self::Partial,
        Self::NotSealed,
        Self::UnknownSigner,
        Self::Unreadable,
        Self::Changed,
    ];

    /// The word in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Archived => "archived",
            Self::Growing => "growing",
            Self::Differs => "differs",
            Self::Partial => "archived_in_part",
            Self::NotSealed => "not_sealed",
            Self::UnknownSigner => "unknown_signer",
            Self::Unreadable => "unreadable",
            Self::Changed => "changed",
        }
    }

    /// Its colour.
    pub fn light(self) -> Light {
        match self {
            Self::Verified | Self::Archived | Self::Growing => Light::Green,
            Self::Changed => Light::Red,
            _ => Light::Amber,
        }
    }
}

impl fmt::Display for LogState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&self.words)
    }
}

impl LogState {
    fn new(kind: StateKind, words: impl Into<String>) -> Self {
        Self {
            kind,
            words: words.into(),
        }
    }

    /// The state of `log`, judged now. A log that was sealed anew has its earlier versions in the
    /// words: what the last seals cover is not all that this host sealed.
    pub fn of(log: &ArchivedLog, archive: &Archive, verifier: &Verifier) -> Self {
        let mut state = Self::judged(log, archive, verifier);
        let earlier = log.versions.len().saturating_sub(1);
        if earlier > 0 && !log.facts.rewrites {
            let plural = if earlier == 1 { "" } else { "s" };
            let text = format!("; sealed anew, {earlier} earlier version{plural} archived");
            state.words.push_str(&text);
        }
        state
    }

    fn judged(log: &ArchivedLog, archive: &Archive, verifier: &Verifier) -> Self {
        if let Some(why) = &log.damage {
            let text = format!("archive damaged: {why}");
            return Self::new(StateKind::Unreadable, text);
        }
        let source = log.source();
        let fs = &*verifier.host().fs;
        let source = source.filter(|path| fs.symlink_metadata(path).is_ok());
        match source {
            None => Self::of_archive(log, archive, verifier),
            Some(path) => match Self::of_source(&path, verifier) {
                changed if changed.kind == StateKind::Changed && log.facts.rewrites => {
                    let archived = Self::of_archive(log, archive, verifier);
                    match archived.kind {
                        StateKind::Archived => {
                            let words = "sealed; written again since, not sealed yet";
                            Self::new(StateKind::Growing, words)
                        }
                        _ => changed,
                    }
                }
                state => state,
            },
        }
    }

    /// The state of the log at `path`, and of the database that it is an export of.
    fn of_source(path: &Path, verifier: &Verifier) -> Self {
        let mut result = verifier.verify_path(path);
        if let FileResult::Reports(reports) = &mut result {
            for report in reports {
                database::judge(&*verifier.host().fs, path, report);
            }
        }
        Self::of_result(&result)
    }

    /// The state of the archived copy of `log`, whatever became of its source.
    pub fn of_archive(log: &ArchivedLog, archive: &Archive, verifier: &Verifier) -> Self {
        match verify_archived(log, archive, verifier) {
            None => Self::new(StateKind::Unreadable, "nothing is archived"),
            Some(result) => Self::of_archived_result(&result),
        }
    }

    fn of_archived_result(result: &FileResult) -> Self {
        let state = Self::of_result(result);
        let is_older = result.reports().iter().any(|report| {
            let codes = report.findings.iter().map(|finding| finding.code);
            report.verdict == Verdict::RolledBack
                && codes
                    .into_iter()
                    .all(|code| code != FindingCode::LineChanged)
        });
        match state.kind {
            StateKind::Verified => {
                Self::new(StateKind::Archived, "archived (source gone), verified")
            }
            _ if is_older => {
                let words = "archived in part (source gone): later seals are known";
                Self::new(StateKind::Partial, words)
            }
            _ => state,
        }
    }

    fn of_result(result: &FileResult) -> Self {
        let worst = worst(result.reports());
        let Some(report) = worst else {
            return match result {
                FileResult::Failed(error) | FileResult::NoRecord(error) => {
                    let words = error.message.split(['\n', '\r', '\u{1b}']).next();
                    let words = format!("no verdict: {}", words.unwrap_or_default());
                    Self::new(StateKind::Unreadable, words)
                }
                _ => Self::new(StateKind::NotSealed, "not sealed"),
            };
        };
        match report.verdict {
            Verdict::Verified if finding_of(report, &[FindingCode::SessionDeleted]).is_some() => {
                Self::new(
                    StateKind::Archived,
                    "archived (gone from the database), verified",
                )
            }
            Verdict::Verified => Self::new(StateKind::Verified, "verified"),
            Verdict::Partial | Verdict::Open => match finding_of(report, &DIFFERENCES) {
                Some(found) if found.code == FindingCode::DatabaseUnread => {
                    Self::new(StateKind::Unreadable, clean(&found.message))
                }
                Some(found) => Self::new(StateKind::Differs, clean(&found.message)),
                None => {
                    let words = format!("not confirmed: {}", report.verdict);
                    Self::new(StateKind::NotSealed, words)
                }
            },
            Verdict::UnsignedTail => {
                let after_final = |code| code == FindingCode::LinesAfterFinal;
                let is_final = report
                    .findings
                    .iter()
                    .any(|finding| after_final(finding.code));
                let words = match is_final {
                    true => "sealed; continued after the final seal",
                    false => "sealed, still growing",
                };
                Self::new(StateKind::Growing, words)
            }
            Verdict::Unsigned => Self::new(StateKind::NotSealed, "not sealed"),
            Verdict::UnknownSigner => Self::new(StateKind::UnknownSigner, "unknown signer"),
            verdict if verdict.exit_code() == 1 => Self::new(StateKind::Changed, changed(report)),
            verdict => Self::new(StateKind::NotSealed, format!("not confirmed: {verdict}")),
        }
    }

    /// The text that [`Self::read`] reads.
    pub fn write(&self) -> String {
        format!("{} {}", self.kind.name(), self.words)
    }

    /// The state that [`Self::write`] wrote.
    pub fn read(text: &str) -> Option<Self> {
        let (name, words) = text.split_once(' ')?;
        let kind = StateKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name)?;
        Some(Self::new(kind, words))
    }
}

/// The verifier's result for the newest archived state of `log`.
pub fn verify_archived(
    log: &ArchivedLog,
    archive: &Archive,
    verifier: &Verifier,
) -> Option<FileResult> {
    verify_version(log, log.versions.len().checked_sub(1)?, archive, verifier)
}

/// The verifier's result for the last state of one version of `log`. An earlier version of a document
/// is older than the head that the host knows of it, and that is no evidence.
pub fn verify_version(
    log: &ArchivedLog,
    number: usize,
    archive: &Archive,
    verifier: &Verifier,
) -> Option<FileResult> {
    let version = log.versions.get(number)?;
    let mut fs = ArchiveFs::new(archive);
    let mounted = fs.mount(log, version, &version.last());
    let mut verifier = verifier_over(fs, verifier);
    let later = log.versions.get(number + 1..).unwrap_or_default();
    if later.iter().any(|later| later.record() == version.record()) {
        let host = Host {
            heads: Arc::new(MemoryHeadStore::default()),
            ..verifier.host().clone()
        };
        verifier = verifier.over(host);
    }
    Some(verifier.verify_path(&mounted.log))
}

/// A verifier that also reads what is mounted in `fs`.
pub fn verifier_over(fs: ArchiveFs, verifier: &Verifier) -> Verifier {
    verifier.clone().over(Host {
        fs: Arc::new(fs),
        ..verifier.host().clone()
    })
}

/// What a state was made on: the stamp of the journal, that of the log at `source` and of its seals,
/// and the trust. Another text means that the state must be made again.
pub fn basis(source: Option<&Path>, stamp: &str, trust: &str, fs: &dyn Fs) -> String {
    let of = |path: &Path| {
        let found = fs.metadata(path).ok().map(Stamp::from);
        found.map_or_else(String::new, |stamp| {
            let (size, modified, changed) = (stamp.size, stamp.modified_ns, stamp.changed_ns);
            format!("{size}.{modified}.{changed}")
        })
    };
    let files = source.map(|path| format!("{} {}", of(path), of(&seal_path(path))));
    let database = source.and_then(|path| database::database_of(fs, path));
    let database = database.map(|path| database::database_stamp(fs, &path));
    let (files, database) = (files.unwrap_or_default(), database.unwrap_or_default());
    format!("2 {stamp} {files} {database} {trust}")
}

/// What a database shows of a log.
const DIFFERENCES: [FindingCode; 3] = [
    FindingCode::RowChanged,
    FindingCode::RowGone,
    FindingCode::DatabaseUnread,
];

fn finding_of<'r>(report: &'r Report, codes: &[FindingCode]) -> Option<&'r Finding> {
    let mut found = report.findings.iter();
    found.find(|finding| codes.contains(&finding.code))
}

/// The part of a text before anything that could pass for another line.
fn clean(text: &str) -> String {
    let part = text.split(|letter: char| letter.is_control()).next();
    part.unwrap_or_default().to_owned()
}

/// The report that decides: evidence, then no confirmation, then verified.
fn worst(reports: &[Report]) -> Option<&Report> {
    let weight = |report: &&Report| match report.verdict.exit_code() {
        1 => 2,
        0 => 0,
        _ => 1,
    };
    reports.iter().max_by_key(weight)
}

fn changed(report: &Report) -> String {
    let word = report.verdict.as_str().to_uppercase().replace('_', " ");
    let mut errors = report
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error);
    match errors.find_map(|finding| finding.line) {
        Some(line) => format!("{word} at line {line}"),
        None => word,
    }
}
