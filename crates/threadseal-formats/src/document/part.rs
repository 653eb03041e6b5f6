//! The evidence from one signature of a file, before it is known whether that signature counts.
//!
//! A file may carry a native seal and a Rye signature. The profile decides which of them counts. A
//! signature that is provably wrong counts against the file under every profile.

use threadseal_core::report::{Finding, Report, Severity, SignerReport, SignerStatus, Verdict};

/// The evidence of one signature.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// Counts against the file, whichever signature counts.
    faults: Vec<(Verdict, Finding)>,
    /// Matters only if this signature counts: no trusted key vouches for its key.
    doubts: Vec<(Verdict, Finding)>,
    /// As a doubt, unless the caller accepts the gaps in the format's coverage.
    gaps: Vec<(Verdict, Finding)>,
    remarks: Vec<Finding>,
    /// Listed if this signature counts or is provably wrong: a verdict rests on no other signer.
    pub(super) signer: Option<SignerReport>,
    /// Content that a reader would take as fact and no signature covers.
    pub(super) unauthenticated: Vec<String>,
}

impl Part {
    pub(super) fn fault(&mut self, verdict: Verdict, finding: Finding) {
        self.faults.push((verdict, finding));
    }

    pub(super) fn doubt(&mut self, verdict: Verdict, finding: Finding) {
        self.doubts.push((verdict, finding));
    }

    /// Adds a finding for information, whichever signature counts.
    pub(super) fn remark(&mut self, finding: Finding) {
        self.remarks.push(finding);
    }

    pub(super) fn gap(&mut self, verdict: Verdict, finding: Finding) {
        self.gaps.push((verdict, finding));
    }

    /// Whether nothing is provably wrong with the signature.
    pub(super) fn holds(&self) -> bool {
        self.faults.is_empty()
    }

    /// Whether the trust vouches for its key.
    pub(super) fn vouched_for(&self) -> bool {
        self.doubts.is_empty()
    }

    /// Whether it covers all that one would read.
    pub(super) fn covers_all(&self) -> bool {
        self.gaps.is_empty()
    }

    /// Enters the evidence into `report`.
    pub(super) fn enter(self, report: &mut Report, counts: bool, accept_gaps: bool) {
        for (verdict, finding) in self.faults {
            report.downgrade(verdict, finding);
        }
        for (verdict, finding) in self.doubts {
            if counts {
                report.downgrade(verdict, finding);
            } else {
                report.find(softened(finding, Severity::Note));
            }
        }
        // Bytes that another signature covers are no gap of the file.
        for (verdict, finding) in self.gaps.into_iter().filter(|_| counts) {
            if accept_gaps {
                report.find(softened(finding, Severity::Warning));
            } else {
                report.downgrade(verdict, finding);
            }
        }
        for finding in self.remarks {
            report.find(finding);
        }
        let is_wrong = |signer: &SignerReport| signer.status == SignerStatus::Rejected;
        let signer = self.signer.filter(|signer| counts || is_wrong(signer));
        report.signers.extend(signer);
        report.unauthenticated.extend(self.unauthenticated);
    }
}

fn softened(mut finding: Finding, severity: Severity) -> Finding {
    finding.severity = severity;
    finding
}
