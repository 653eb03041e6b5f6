//! [`open_verified`]: a transcript for a caller that relies on it, judged exactly as `verify` judges it.

use crate::error::VerifyError;
use crate::home_log::HomeLog;
use crate::request::VerifyRequest;
use crate::verifier::pruned::Pruned;
use crate::verifier::{MAX_TAKEN_UP_BYTES, OpenedTranscript, Verifier};
use std::fmt;
use std::path::{Path, PathBuf};
use threadseal::error::Error;
use threadseal::record::Head;
use threadseal::report::{Report, Verdict, Verified};
use threadseal::transcript::Coverage;
use threadseal::transcript::lines::VerifiedLines;
use threadseal::transcript::manifest::{Manifest, parse_line};
use threadseal::trust::Trust;
use threadseal_store::host::Host;
use threadseal_store::tombstones;

/// How much of a record must be under seals that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// All of it: no verdict but `verified` will do.
    Whole,
    /// The part under its seals, of a record that may still grow: also `open` and `unsigned_tail`.
    Sealed,
    /// The part under its seals, also where the record keeps unsealed bytes or lacks bodies: also `partial`.
    Vouched,
}

impl Need {
    fn admits(self, verdict: Verdict) -> bool {
        match self {
            Self::Whole => verdict == Verdict::Verified,
            Self::Sealed => matches!(
                verdict,
                Verdict::Verified | Verdict::Open | Verdict::UnsignedTail
            ),
            // No other verdict leaves a part that may be trusted.
            Self::Vouched => true,
        }
    }
}

/// A transcript of which a part may be trusted, with the bytes that were verified.
#[derive(Debug)]
pub struct VerifiedRecord {
    path: PathBuf,
    report: Report,
    verified: Verified<Coverage>,
    tail: [u64; 2],
    manifest: Option<Manifest>,
    bytes: Vec<u8>,
    bodies: Vec<u8>,
}

impl VerifiedRecord {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The report on the whole record.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The part that may be trusted.
    pub fn verified(&self) -> &Verified<Coverage> {
        &self.verified
    }

    /// Its last seal.
    pub fn head(&self) -> Head {
        self.verified.get().head
    }

    /// Where the bytes after that part are.
    pub fn tail(&self) -> [u64; 2] {
        self.tail
    }

    /// Its line 1; None for a transcript in Rye's format.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    /// All its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its detached bodies; empty where it has none.
    pub fn bodies(&self) -> &[u8] {
        &self.bodies
    }

    /// The lines that may be trusted, bodies in their places.
    ///
    /// # Errors
    /// Kind `Refused` when the record changed while it was read.
    pub fn lines(&self) -> Result<VerifiedLines<'_>, Error> {
        VerifiedLines::whole(&self.verified, &self.bytes, &self.bodies)
    }

    /// All that was read, for a caller that keeps it in its own way.
    pub fn into_parts(self) -> RecordParts {
        RecordParts {
            path: self.path,
            report: self.report,
            verified: self.verified,
            tail: self.tail,
            manifest: self.manifest,
            bytes: self.bytes,
            bodies: self.bodies,
        }
    }
}

/// The parts of a [`VerifiedRecord`].
#[derive(Debug)]
pub struct RecordParts {
    /// Where it is.
    pub path: PathBuf,
    /// The report on the whole record.
    pub report: Report,
    /// The part that may be trusted.
    pub verified: Verified<Coverage>,
    /// Where the bytes after that part are.
    pub tail: [u64; 2],
    /// Its line 1; None for a transcript in Rye's format.
    pub manifest: Option<Manifest>,
    /// All its bytes.
    pub bytes: Vec<u8>,
    /// Its detached bodies.
    pub bodies: Vec<u8>,
}

/// Why a record was not opened.
#[derive(Debug, Clone)]
pub enum OpenError {
    /// Its verdict does not allow what the caller needs.
    NotVerified(Box<Report>),
    /// There is no verdict.
    Failed(VerifyError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotVerified(report) => {
                write!(f, "{} is {}", report.path, report.verdict)?;
                let findings = report.findings.iter();
                match findings.min_by_key(|finding| finding.severity) {
                    Some(worst) => write!(f, ": {}", worst.message),
                    None => Ok(()),
                }
            }
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotVerified(_) => None,
            Self::Failed(error) => error.source(),
        }
    }
}

impl From<VerifyError> for OpenError {
    fn from(error: VerifyError) -> Self {
        Self::Failed(error)
    }
}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::NotVerified(_) => Self::refused(error.to_string()),
            OpenError::Failed(error) => error.into(),
        }
    }
}

/// Opens the transcript at `path`, if its verdict allows what the caller needs. It is judged by all that `host` and `log` know:
/// heads, entries of the log, forks, keys, the place of the file, detached bodies, tombstones.
///
/// # Errors
/// The report, where the verdict does not allow it; when it cannot be read.
pub fn open_verified(
    host: &Host,
    log: &HomeLog,
    trust: &Trust,
    path: &Path,
    need: Need,
) -> Result<VerifiedRecord, OpenError> {
    let now = host.clock.now()?;
    let request = VerifyRequest::by(trust.clone());
    Verifier::new(request, host.clone(), log.clone(), now).open_verified(path, need)
}

impl Verifier {
    /// As [`open_verified`], by the request of this verifier.
    ///
    /// # Errors
    /// As [`open_verified`].
    pub fn open_verified(&self, path: &Path, need: Need) -> Result<VerifiedRecord, OpenError> {
        self.opened(path, need, None)
    }

    /// The same of a record of at most `limit` bytes, and as many of bodies.
    ///
    /// # Errors
    /// As [`open_verified`]; kind `Limit` when it is larger.
    pub fn open_verified_within(
        &self,
        path: &Path,
        need: Need,
        limit: usize,
    ) -> Result<VerifiedRecord, OpenError> {
        self.opened(path, need, Some(limit))
    }

    fn opened(
        &self,
        path: &Path,
        need: Need,
        limit: Option<usize>,
    ) -> Result<VerifiedRecord, OpenError> {
        let mut opened = self.open_transcript_within(path, limit)?;
        self.note_pruned(&mut opened)?;

        let manifest = parse_line(&opened.first_line);
        let bytes = match need.admits(opened.result.report.verdict) {
            true => opened.bytes_within(limit.unwrap_or(MAX_TAKEN_UP_BYTES))?,
            false => Vec::new(),
        };
        let OpenedTranscript {
            file,
            bodies,
            result,
            ..
        } = opened;
        let is_native = result.report.profile == "native";
        match result.verified_part {
            Some(verified) if need.admits(result.report.verdict) => Ok(VerifiedRecord {
                path: file.path().to_owned(),
                report: result.report,
                verified,
                tail: result.tail,
                manifest: manifest.filter(|_| is_native),
                bytes,
                bodies,
            }),
            _ => Err(OpenError::NotVerified(Box::new(result.report))),
        }
    }

    /// Adds what tombstones say of the record.
    fn note_pruned(&self, opened: &mut OpenedTranscript) -> Result<(), VerifyError> {
        let mut places = vec![tombstones::place_of(opened.file.path())];
        places.extend(self.tombstones_of(opened.result.report.record.into_iter()));
        Pruned::at(self, &places)?.tell(self, &mut opened.result.report)
    }
}
