//! [`JudgedSource`]: the source of a conversion, with the verdict on the very bytes that are converted.

use crate::detect::may_have_signature;
use crate::error::VerifyError;
use crate::verifier::Verifier;
use std::path::Path;
use threadseal_core::record::Head;
use threadseal_core::report::{FindingCode, Format, Profile, Report, Verdict};
use threadseal_store::read::RegularFile;

/// A file that was read once and verified, for a caller that makes another record or text of it.
#[derive(Debug)]
pub struct JudgedSource {
    file: RegularFile,
    reports: Vec<Report>,
}

impl Verifier {
    /// Reads the file at `path`, of at most `limit` bytes, and verifies these bytes as
    /// [`Verifier::verify_path`] does.
    ///
    /// # Errors
    /// When it cannot be read, is too large, or there is no verdict on it.
    pub fn read_source(&self, path: &Path, limit: usize) -> Result<JudgedSource, VerifyError> {
        let (file, mut reports) = self.look_at_source(path, Some(limit))?;
        let bytes = file.held_bytes().unwrap_or_default();
        reports.retain(|report| !is_no_record(report, bytes));
        Ok(JudgedSource { file, reports })
    }

    /// The same of a file of any size, which is not held: a caller that reads it must notice a
    /// change, by the head.
    ///
    /// # Errors
    /// When it cannot be read, or there is no verdict on it.
    pub fn judge_source(&self, path: &Path) -> Result<JudgedSource, VerifyError> {
        let (file, reports) = self.look_at_source(path, None)?;
        Ok(JudgedSource { file, reports })
    }
}

impl JudgedSource {
    /// The file; after [`Verifier::read_source`] its bytes are held.
    pub fn file(&self) -> &RegularFile {
        &self.file
    }

    /// The bytes that may be converted: all that are held, but for those that follow a final seal.
    pub fn bytes(&self) -> &[u8] {
        let bytes = self.file.held_bytes().unwrap_or_default();
        let ends = self.reports.iter().filter(|report| is_continued(report));
        let ends = ends.filter_map(|report| usize::try_from(report.head?.size).ok());
        let end = ends.min().unwrap_or(bytes.len());
        bytes.get(..end).unwrap_or(bytes)
    }

    /// How many bytes follow a final seal.
    pub fn left_out(&self) -> u64 {
        self.file.size() - self.bytes().len() as u64
    }

    /// A report for each claim about the file; none where nothing seals it.
    pub fn reports(&self) -> &[Report] {
        &self.reports
    }

    /// The report with the worst verdict.
    pub fn worst(&self) -> Option<&Report> {
        self.reports.iter().min_by_key(|report| report.verdict)
    }

    /// The worst verdict; `unsigned` where nothing seals the file.
    pub fn verdict(&self) -> Verdict {
        self.worst()
            .map_or(Verdict::Unsigned, |report| report.verdict)
    }

    /// The report on the evidence against the file, if there is evidence. Nothing may be made of
    /// such a file, and of one that may be a sealed record after a change.
    pub fn evidence(&self) -> Option<&Report> {
        let worst = self.worst().filter(|report| report.verdict.is_evidence());
        worst.or_else(|| self.reports.iter().find(|report| lost_its_seals(report)))
    }

    /// The format in which the file is a record; `None` where nothing seals it.
    pub fn format(&self) -> Option<Format> {
        let worst = self.worst()?;
        let sealed = worst.head.is_some() || worst.verdict != Verdict::Unsigned;
        sealed.then_some(worst.format)
    }

    /// The last seal of the file that holds.
    pub fn head(&self) -> Option<Head> {
        let worst = self.worst().and_then(|report| report.head);
        worst.or_else(|| self.reports.iter().find_map(|report| report.head))
    }
}

/// Is this a text that is no document, and that nothing ever sealed? Programs write sessions that
/// are no strict JSON; their mapping decides what can be read.
fn is_no_record(report: &Report, bytes: &[u8]) -> bool {
    report.verdict == Verdict::Malformed
        && report.profile == Profile::None
        && matches!(report.format, Format::Json | Format::Text)
        && (report.record, report.head) == (None, None)
        && report.signers.is_empty()
        && !may_have_signature(bytes)
}

/// Did the log end with a final seal, and were lines appended later?
fn is_continued(report: &Report) -> bool {
    let mut findings = report.findings.iter();
    findings.any(|found| found.code == FindingCode::LinesAfterFinal)
}

/// Is the file in the place of no record, while the record that it begins like is in none?
fn lost_its_seals(report: &Report) -> bool {
    let mut findings = report.findings.iter();
    findings.any(|found| found.code == FindingCode::SealsGone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home_log::HomeLog;
    use crate::hosts;
    use crate::request::VerifyRequest;
    use std::fs;
    use threadseal_core::trust::Trust;

    // T-SCR-36
    #[test]
    fn a_file_that_is_exchanged_after_its_verification_is_not_the_one_that_is_converted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        fs::write(&path, "{\"a\":1}\n").unwrap();
        let host = hosts::without_home();
        let now = host.clock.now().unwrap();
        let request = VerifyRequest::by(Trust::default());
        let verifier = Verifier::new(request, host, HomeLog::Never, now);
        let source = verifier.read_source(&path, 100).unwrap();
        fs::write(&path, "{\"b\":2}\n").unwrap();
        assert_eq!(source.bytes(), b"{\"a\":1}\n");
        assert_eq!(
            (source.verdict(), source.format()),
            (Verdict::Unsigned, None)
        );
        assert!(source.evidence().is_none() && source.head().is_none());
        assert!(verifier.read_source(&path, 7).is_err());
        // A session that is no strict JSON is no record, unless it may have been sealed.
        for (text, verdict) in [
            ("{\"a\":1}}", Verdict::Unsigned),
            ("{\"a\":\"\\u003c\"}}", Verdict::Unsigned),
            ("{\"_threadseal\":1}}", Verdict::Malformed),
            ("{\"\\u005fthreadseal\":1}}", Verdict::Malformed),
        ] {
            let path = folder.path().join("session.json");
            fs::write(&path, text).unwrap();
            let source = verifier.read_source(&path, 100).unwrap();
            assert_eq!(source.verdict(), verdict, "{text}");
        }
        assert!(verifier.judge_source(&path).unwrap().bytes().is_empty());
    }
}
