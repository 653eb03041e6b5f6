//! [`open_verified`]: a transcript for a caller that relies on it, judged exactly as `verify` judges it.

use crate::error::VerifyError;
use crate::home_log::HomeLog;
use crate::request::VerifyRequest;
use crate::verifier::pruned::{self, Pruned};
use crate::verifier::{MAX_TAKEN_UP_BYTES, OpenedTranscript, Verifier};
use std::fmt;
use std::path::{Path, PathBuf};
use threadseal_core::error::Error;
use threadseal_core::record::Head;
use threadseal_core::report::{NotVerified, Profile, Report, Verdict};
use threadseal_core::trust::Trust;
use threadseal_formats::transcript::Coverage;
use threadseal_formats::transcript::lines::VerifiedLines;
use threadseal_formats::transcript::manifest::{Manifest, parse_line};
use threadseal_formats::verified::Verified;
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
                write!(f, "{} is {}", report.path, NotVerified::of(report))
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
            OpenError::NotVerified(report) => NotVerified::of(&report).error(&report.path, ""),
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
        let is_native = result.report.profile == Profile::Native;
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
        places.extend(pruned::tombstones_of(
            self.context(),
            opened.result.report.record.into_iter(),
        ));
        Pruned::at(self.context(), &places)?.tell(self.context(), &mut opened.result.report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts;
    use std::fs;
    use std::sync::Arc;
    use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer as _};
    use threadseal_core::record::ThreadId;
    use threadseal_core::trust::{TrustName, TrustStore, TrustedKey};
    use threadseal_formats::transcript::Ending;
    use threadseal_formats::transcript::event::{EventType, Payload};
    use threadseal_store::recorder::{Keys, Recorder};

    /// A record of one event that ended, on the host that sealed it, and the trust in its key.
    fn recorded(path: &Path) -> (Host, Trust) {
        let key =
            |seed, usage| Arc::new(LocalSigner::new(PrivateKey::from_seed([seed; 32]), usage));
        let (native, rye) = (key(1, KeyUsage::Native), key(2, KeyUsage::Rye));
        let (authority, rye_key) = (*native.public_key(), *rye.public_key());
        let host = hosts::without_home();
        let manifest = Manifest::new(host.new_record().unwrap(), authority, rye_key);
        let keys = Keys {
            native,
            rye,
            epochs: None,
        };
        let thread = ThreadId::parse("t/1").unwrap();
        let mut recorder = Recorder::create(host.clone(), path, thread, manifest, keys).unwrap();
        let payload = Payload::parse(br#"{"text":"Hello.","role":"user"}"#).unwrap();
        let event = EventType::parse("cognition_in").unwrap();
        recorder.append(&event, &payload).unwrap();
        let end = Payload::parse(b"{}").unwrap();
        recorder.end(Ending::Completed, &end, 1).unwrap();
        let mut store = TrustStore::new();
        let name = TrustName::parse("self").unwrap();
        let trusted = TrustedKey::new(name, authority, [KeyUsage::Native]);
        store.add(trusted).unwrap();
        (host, Trust::new(store))
    }

    fn opened(host: &Host, trust: &Trust, path: &Path, need: Need) -> Result<Head, Verdict> {
        match open_verified(host, &HomeLog::Never, trust, path, need) {
            Ok(record) => Ok(record.head()),
            Err(OpenError::NotVerified(report)) => Err(report.verdict),
            Err(OpenError::Failed(error)) => panic!("{error}"),
        }
    }

    #[test]
    fn each_need_opens_what_it_names_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let (host, trust) = recorded(&path);
        let needs = [Need::Whole, Need::Sealed, Need::Vouched];
        let heads = needs.map(|need| opened(&host, &trust, &path, need).unwrap());
        assert_eq!(heads, [heads[0]; 3]);
        let text = fs::read_to_string(&path).unwrap();
        let tail = text.lines().nth(2).unwrap();
        fs::write(&path, format!("{text}{tail}\n")).unwrap();
        let refused = opened(&host, &trust, &path, Need::Whole);
        assert_eq!(refused, Err(Verdict::UnsignedTail));
        for need in [Need::Sealed, Need::Vouched] {
            assert_eq!(opened(&host, &trust, &path, need), Ok(heads[0]));
        }
        fs::write(&path, text.replace("Hello.", "Hellos")).unwrap();
        for need in needs {
            assert_eq!(opened(&host, &trust, &path, need), Err(Verdict::Tampered));
        }
    }

    #[test]
    fn a_record_is_opened_by_the_report_that_verify_gives() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let (host, trust) = recorded(&path);
        for log in [HomeLog::Never, HomeLog::Missing("it is gone".to_owned())] {
            let (request, now) = (VerifyRequest::by(trust.clone()), host.clock.now().unwrap());
            let verifier = Verifier::new(request, host.clone(), log, now);
            let run = verifier.verify_all(vec![path.clone()]).unwrap();
            let record = verifier.open_verified(&path, Need::Whole).unwrap();
            let json = |report: &Report| serde_json::to_value(report).unwrap();
            assert_eq!(json(&run.results[0]), json(record.report()));
            assert_eq!((run.results.len(), run.exit_code()), (1, 0));
            let text = String::from_utf8(run.to_json()).unwrap();
            assert!(text.starts_with(r#"{"schema":"threadseal.verify/1","results":[{"#));
        }
    }
}
