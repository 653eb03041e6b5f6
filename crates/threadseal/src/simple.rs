//! Bytes in, a verdict or a verified value out: [`verify`] and [`seal`].
//!
//! Nothing here reads a file, a clock or the environment.

use std::fmt;
use threadseal_core::error::Error;
use threadseal_core::key::Signer;
use threadseal_core::record::RecordId;
use threadseal_core::report::{Report, Verdict};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::Trust;
use threadseal_formats::document::{self, DocumentKind, NativeSealing};
use threadseal_formats::transcript::manifest;
use threadseal_formats::transcript::{self, ScanOptions, VerifyOptions};
use threadseal_formats::verified::Grounds;

/// The result of [`verify`]: a report, and the bytes if they are verified.
#[derive(Debug)]
pub struct Verification<'a> {
    report: Report,
    verified: Option<VerifiedBytes<'a>>,
}

/// Bytes that a trusted key sealed, all of them. Only [`verify`] makes this value.
#[derive(Debug, Clone)]
pub struct VerifiedBytes<'a> {
    bytes: &'a [u8],
    grounds: Grounds,
}

/// The record is not verified: its report gives the reason.
#[derive(Debug, Clone)]
pub struct NotVerified(Box<Report>);

impl<'a> Verification<'a> {
    /// The verdict and everything that it rests on.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The verified bytes.
    ///
    /// # Errors
    /// For every verdict but [`Verdict::Verified`].
    pub fn into_verified(self) -> Result<VerifiedBytes<'a>, NotVerified> {
        self.verified.ok_or(NotVerified(Box::new(self.report)))
    }
}

impl<'a> VerifiedBytes<'a> {
    /// The bytes, as they were given to [`verify`].
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Record, head, trust and time of the verification.
    pub fn grounds(&self) -> &Grounds {
        &self.grounds
    }
}

impl NotVerified {
    /// The verdict.
    pub fn verdict(&self) -> Verdict {
        self.0.verdict
    }

    /// The verdict and everything that it rests on.
    pub fn report(&self) -> &Report {
        &self.0
    }
}

impl fmt::Display for NotVerified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the record is {}", self.0.verdict)?;
        match self.0.findings.first() {
            Some(finding) => write!(f, ": {}", finding.message),
            None => Ok(()),
        }
    }
}

impl std::error::Error for NotVerified {}

/// Verifies a native record or a sealed document (JSON, Markdown, YAML, …).
///
/// No host is asked: known heads, logs, redactions and files beside the record are the business of
/// [`Verifier`](crate::Verifier). A record that has not ended is `open` here, since its end cannot
/// be known from bytes alone.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use threadseal::{KeyUsage, LocalSigner, PrivateKey, Signer, Timestamp, Trust, Verdict};
/// # let signer = LocalSigner::new(PrivateKey::from_seed([7; 32]), KeyUsage::Native);
/// # let now = Timestamp::from_micros(1_800_000_000_000_000)?;
/// # let record = threadseal::RecordId::from_bytes([1; 32]);
/// # let bytes = threadseal::seal(b"# Approved\n", "note.md", record, now, &signer)?;
/// // Nothing vouches for a key that the trust does not name.
/// let trust = Trust::new(Default::default());
/// let unknown = threadseal::verify(&bytes, &trust, now)?;
/// assert_eq!(unknown.report().verdict, Verdict::UnknownSigner);
/// assert!(unknown.into_verified().is_err());
///
/// let trust = Trust::key(*signer.public_key());
/// let verified = threadseal::verify(&bytes, &trust, now)?.into_verified()?;
/// assert_eq!(verified.grounds().record, Some(record));
/// # Ok(()) }
/// ```
///
/// # Errors
/// Kind `InvalidInput` for bytes that are neither. A bad record is no error: see the report.
pub fn verify<'a>(
    bytes: &'a [u8],
    trust: &Trust,
    now: Timestamp,
) -> Result<Verification<'a>, Error> {
    let first = bytes
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let covered = |grounds: &Grounds| VerifiedBytes {
        bytes,
        grounds: *grounds,
    };
    if manifest::parse_line(first).is_some() {
        let options = VerifyOptions {
            trust,
            now,
            held_since: None,
            thread: None,
        };
        let outcome = transcript::verify(bytes, &ScanOptions::default(), &options);
        let verified = outcome.verified.as_ref().map(|it| covered(it.grounds()));
        return Ok(Verification {
            report: outcome.report,
            verified,
        });
    }
    let kind = DocumentKind::detect("", bytes)
        .ok_or_else(|| Error::invalid("neither a native record nor a sealed document"))?;
    let outcome = document::verify(bytes, &document::Options::new(kind, trust, now))?;
    // A Rye signature covers a part of the file: then the file is not what was verified.
    let whole = |it: &document::Document<'_>| it.seal().is_some();
    let verified = outcome.verified.as_ref().filter(|it| whole(it.get()));
    Ok(Verification {
        verified: verified.map(|it| covered(it.grounds())),
        report: outcome.report,
    })
}

/// Seals a document and returns it with its seal. The kind is that of `name`, else of the content.
///
/// `record` is 32 random bytes, drawn when the document is first sealed.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use threadseal::{KeyUsage, LocalSigner, PrivateKey, RecordId, Signer, Timestamp, Trust};
///
/// let signer = LocalSigner::new(PrivateKey::from_seed([7; 32]), KeyUsage::Native);
/// let now = Timestamp::from_micros(1_800_000_000_000_000)?;
/// let record = RecordId::from_bytes([1; 32]);
/// let sealed = threadseal::seal(br#"{"approved":true}"#, "approval.json", record, now, &signer)?;
///
/// let trust = Trust::key(*signer.public_key());
/// assert!(threadseal::verify(&sealed, &trust, now)?.into_verified().is_ok());
/// let changed = String::from_utf8(sealed)?.replace("true", "false");
/// assert!(threadseal::verify(changed.as_bytes(), &trust, now)?.into_verified().is_err());
/// # Ok(()) }
/// ```
///
/// # Errors
/// Kind `InvalidInput` when the content is not of its kind; an error of the signer.
pub fn seal(
    content: &[u8],
    name: &str,
    record: RecordId,
    now: Timestamp,
    signer: &dyn Signer,
) -> Result<Vec<u8>, Error> {
    let kind = DocumentKind::detect(name, content)
        .ok_or_else(|| Error::invalid("the name and the content tell no kind of document"))?;
    let sealing = NativeSealing {
        record,
        seq: 0,
        time: now,
        signer,
    };
    document::sign_native(content, kind, &sealing)
}
