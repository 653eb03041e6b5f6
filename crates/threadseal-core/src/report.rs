//! The result of verification: verdicts, findings and checks.
//!
//! One [`Report`] serves every format; text and JSON are two renderings of it (`spec/report.md`).
//! Findings are data. Unknown is never success: only [`Verdict::Verified`] exits 0. A failed check is
//! never [`Verdict::Verified`]: verdict and checks change together, in [`Report`] alone.
//!
//! ```text
//! {"path","format","profile","verdict","completeness","trusted_until":{"line","byte","turn"},
//!  "record","head","dates":{"sealed","first_held","last_held","stamped"},"signers":[{"key","did","name","status"}],
//!  "findings":[{"code","severity","line","bytes":[a,b],"turn","message"}],
//!  "checks":[{"name","result","why"}],"unauthenticated":[…],"trust",
//!  "stats":{"bytes","events","checkpoints"},"compat":{…},"conversion"?:{…}}
//! ```
//! Not here: the decision of each format (`threadseal-formats`); printing and exit codes of the
//! process (the command).

mod code;
mod conversion;
mod dates;
pub mod heads;
mod names;
mod refusal;
mod spelling;

pub use code::FindingCode;
pub use conversion::Conversion;
pub use dates::Dates;
pub use heads::{Bearing, Expectation, KnownBy, KnownFork};
pub use names::{CheckName, Format, Profile};
pub use refusal::NotVerified;

use crate::digest::Digest;
use crate::key::{KeyId, PublicKey};
use crate::limits::{MAX_FINDINGS, MAX_SIGNER_SEALERS};
use crate::record::{Head, RecordId};
use crate::time::Timestamp;
use crate::trust::{EndDoubt, Judgement, Standing};
use serde::Serialize;
use serde::ser::SerializeStruct as _;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

/// The verdicts, worst first: of several that apply, the report gives the smallest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A signature or key does not fit its use.
    Forged,
    /// Content differs from the sealed content, or a known seal is gone.
    Tampered,
    /// Two sealed continuations of one parent.
    Forked,
    /// Older than a trusted head.
    RolledBack,
    /// Shorter than a trusted head requires, or with gaps.
    Truncated,
    /// A sealed record of another thread, run or place.
    Foreign,
    /// A known record is not there.
    Missing,
    /// Not readable as the format that it claims to be, and without a good seal.
    Malformed,
    /// The mathematics holds, or cannot be computed without the key. The trust does not vouch for
    /// the key.
    UnknownSigner,
    /// Nothing claims to protect this record.
    Unsigned,
    /// Every signature holds, but readers see bytes that no signature covers. The report names
    /// them.
    Partial,
    /// An unsigned hash chain holds.
    Consistent,
    /// All seals hold; bytes after the last one are not covered.
    UnsignedTail,
    /// All seals hold and cover every byte, but the last one is not known to be the newest.
    Open,
    /// Every check that applies passed: a trusted signer, and a record known to be complete.
    Verified,
}

impl Verdict {
    /// All verdicts, worst first.
    pub const ALL: [Self; 15] = [
        Self::Forged,
        Self::Tampered,
        Self::Forked,
        Self::RolledBack,
        Self::Truncated,
        Self::Foreign,
        Self::Missing,
        Self::Malformed,
        Self::UnknownSigner,
        Self::Unsigned,
        Self::Partial,
        Self::Consistent,
        Self::UnsignedTail,
        Self::Open,
        Self::Verified,
    ];

    /// The word used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forged => "forged",
            Self::Tampered => "tampered",
            Self::Forked => "forked",
            Self::RolledBack => "rolled_back",
            Self::Truncated => "truncated",
            Self::Foreign => "foreign",
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::UnknownSigner => "unknown_signer",
            Self::Unsigned => "unsigned",
            Self::Partial => "partial",
            Self::Consistent => "consistent",
            Self::UnsignedTail => "unsigned_tail",
            Self::Open => "open",
            Self::Verified => "verified",
        }
    }

    /// Whether every check that applies passed.
    pub fn is_success(self) -> bool {
        self == Self::Verified
    }

    /// Whether it is evidence against the record.
    pub fn is_evidence(self) -> bool {
        self <= Self::Malformed
    }

    /// Whether a program must not act on the record: evidence against it, or a signer for whom the
    /// trust does not vouch.
    pub fn forbids_use(self) -> bool {
        self <= Self::UnknownSigner
    }

    /// Whether it is `other`, or worse.
    pub fn is_no_better_than(self, other: Self) -> bool {
        self <= other
    }

    /// 0 verified, 1 evidence against the record, 3 undecided.
    pub fn exit_code(self) -> u8 {
        if self.is_success() {
            0
        } else if self.is_evidence() {
            1
        } else {
            3
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether the record is known to be complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Completeness {
    /// Its last seal is final.
    Final,
    /// Equal to, or ahead of, a head that the verifier holds.
    Head,
    /// The format has no end mark, or nothing proves that this is the newest seal.
    Unproved,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Evidence against the record.
    Error,
    /// Worth a look; the verdict shows how much it weighs.
    Warning,
    /// For information.
    Note,
}

/// One observation, placed as exactly as the evidence allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was seen, as a code.
    pub code: FindingCode,
    /// How bad it is.
    pub severity: Severity,
    /// Line, from 1; absent where the evidence names none.
    pub line: Option<u64>,
    /// Byte range `[from, to)` of the file.
    pub bytes: Option<[u64; 2]>,
    /// Turn, as the record counts them.
    pub turn: Option<u64>,
    /// One sentence for people; never contains text of the record that could pass for ours.
    pub message: String,
}

impl Finding {
    /// An error finding without a place.
    pub fn error(code: FindingCode, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, message)
    }

    /// A warning without a place.
    pub fn warning(code: FindingCode, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, message)
    }

    /// A note without a place.
    pub fn note(code: FindingCode, message: impl Into<String>) -> Self {
        Self::new(Severity::Note, code, message)
    }

    /// The finding about a signature by this `key`, whose end accuses no seal.
    pub fn of_doubt(doubt: &EndDoubt, key: impl fmt::Display, at: Timestamp) -> Self {
        let code = match doubt {
            EndDoubt::LogWentBack => FindingCode::KeyEndDoubted,
            EndDoubt::Rotated { .. } => FindingCode::KeyRotated,
        };
        Self::warning(code, doubt.text(key, at))
    }

    fn new(severity: Severity, code: FindingCode, message: impl Into<String>) -> Self {
        Self {
            code,
            severity,
            line: None,
            bytes: None,
            turn: None,
            message: message.into(),
        }
    }

    /// Places the finding at `line`, from 1.
    #[must_use]
    pub fn at_line(mut self, line: u64) -> Self {
        self.line = Some(line);
        self
    }

    /// Places the finding at bytes `[from, to)`.
    #[must_use]
    pub fn at_bytes(mut self, from: u64, to: u64) -> Self {
        self.bytes = Some([from, to]);
        self
    }

    /// Places the finding in `turn`.
    #[must_use]
    pub fn in_turn(mut self, turn: Option<u64>) -> Self {
        self.turn = turn;
        self
    }
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckResult {
    /// It ran and passed.
    Pass,
    /// It ran and failed.
    Fail,
    /// It could not run, or was not needed; `why` gives the reason.
    Skipped,
}

impl CheckResult {
    /// Pass if `good`, else fail.
    pub fn of(good: bool) -> Self {
        match good {
            true => Self::Pass,
            false => Self::Fail,
        }
    }
}

/// One check, run or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Which check.
    pub name: CheckName,
    /// The result.
    pub result: CheckResult,
    /// Why it failed or was skipped.
    pub why: Option<String>,
}

/// The status of a signer under the trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SignerStatus {
    /// In the trust, for this use, at this time.
    Trusted,
    /// One of the keys given with `--key`.
    Pinned,
    /// None of the keys given with `--key`.
    Other,
    /// The trust does not vouch for the key.
    Unknown,
    /// Trusted once, revoked since, and no evidence that the seal is older.
    Revoked,
    /// Trusted for other threads, formats or times.
    OutOfScope,
    /// The signature does not verify, or the key may not seal this record.
    Rejected,
}

/// A signer of the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SignerReport {
    /// Key id (64 hex), or Rye's 16-hex fingerprint where the key itself is not known.
    pub key: String,
    /// The key itself as did:key, where it is known.
    pub did: Option<String>,
    /// The name under which the trust knows the key.
    pub name: Option<String>,
    /// The status of the key.
    pub status: SignerStatus,
    /// Ids of the keys whose seals count through this one, in the order of their first seals; of
    /// more than [`MAX_SIGNER_SEALERS`] the last ones. Empty where it is this key alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sealed_by: Vec<String>,
}

/// How far the record can be trusted: a good signature of a trusted key covers everything before
/// this place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TrustedUntil {
    /// Covered lines.
    pub line: u64,
    /// Covered bytes.
    pub byte: u64,
    /// The turn of the last good seal.
    pub turn: Option<u64>,
}

/// Sizes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Bytes of the file.
    pub bytes: u64,
    /// Lines of a log, checkpoints included; 0 for a document.
    pub events: u64,
    /// Checkpoints, or signatures of a document.
    pub checkpoints: u64,
}

/// The answer of the format's first implementation (Rye, agent-scroll, AbstractRuntime), as
/// unchanged JSON text.
///
/// A tree of values cannot hold it: Python's integers have any size, and its strings may contain
/// lone surrogates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compat(String);

impl Compat {
    /// Takes JSON text. Text that is not JSON (Python's `NaN`) is shown as a string.
    pub fn from_json(text: String) -> Self {
        match serde_json::from_str::<&RawValue>(&text) {
            Ok(_) => Self(text),
            Err(_) => Self(serde_json::Value::String(text).to_string()),
        }
    }

    /// The JSON text.
    pub fn as_json(&self) -> &str {
        &self.0
    }
}

impl From<serde_json::Value> for Compat {
    fn from(value: serde_json::Value) -> Self {
        Self(value.to_string())
    }
}

impl Serialize for Compat {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// The verdict of a report, and the checks behind it. Every holder of a [`Report`] reads it; only the
/// report itself changes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Conclusion {
    /// The worst verdict that applies; never [`Verdict::Verified`] beside a check that failed.
    pub verdict: Verdict,
    /// The checks, run or not.
    pub checks: Vec<Check>,
}

/// The answer to "may this record be trusted?", for one record.
///
/// It dereferences to its [`Conclusion`], for reading alone. [`Report::hold`] and [`Report::check`]
/// change that, and neither raises a verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The place of the record, as the caller named it.
    pub path: String,
    /// The format of the record.
    pub format: Format,
    /// Whose rules made its seals.
    pub profile: Profile,
    conclusion: Conclusion,
    /// Whether the record is known to be complete.
    pub completeness: Completeness,
    /// How far the record can be trusted; absent when not at all.
    pub trusted_until: Option<TrustedUntil>,
    /// The record's id.
    pub record: Option<RecordId>,
    /// The last seal that holds.
    pub head: Option<Head>,
    /// What is published together with that head where the format has it: the root in the seal of
    /// an observed log, the digest of a ledger's signatures. No rendering shows it.
    pub root: Option<Digest>,
    /// When it was sealed, held and stamped.
    pub dates: Dates,
    /// The signers.
    pub signers: Vec<SignerReport>,
    /// All observations.
    pub findings: Vec<Finding>,
    /// Data that readers take as fact though no signature covers it, each as `name=value`.
    pub unauthenticated: Vec<String>,
    /// Digest of the trust that was used.
    pub trust: Option<Digest>,
    /// Sizes.
    pub stats: Stats,
    /// The exact answers of the first implementations, by their names.
    pub compat: BTreeMap<&'static str, Compat>,
    /// The claim of the converter that made the record of another one.
    pub conversion: Option<Box<Conversion>>,
}

impl Deref for Report {
    type Target = Conclusion;

    fn deref(&self) -> &Conclusion {
        &self.conclusion
    }
}

/// The members of the module's heading, in their order.
impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fn text(value: Option<impl fmt::Display>) -> Option<String> {
            value.map(|value| value.to_string())
        }
        let count = 16 + usize::from(self.conversion.is_some());
        let mut members = serializer.serialize_struct("Report", count)?;
        members.serialize_field("path", &self.path)?;
        members.serialize_field("format", &self.format)?;
        members.serialize_field("profile", &self.profile)?;
        members.serialize_field("verdict", &self.conclusion.verdict)?;
        members.serialize_field("completeness", &self.completeness)?;
        members.serialize_field("trusted_until", &self.trusted_until)?;
        members.serialize_field("record", &text(self.record))?;
        members.serialize_field("head", &text(self.head))?;
        members.serialize_field("dates", &self.dates)?;
        members.serialize_field("signers", &self.signers)?;
        members.serialize_field("findings", &self.findings)?;
        members.serialize_field("checks", &self.conclusion.checks)?;
        members.serialize_field("unauthenticated", &self.unauthenticated)?;
        members.serialize_field("trust", &text(self.trust))?;
        members.serialize_field("stats", &self.stats)?;
        members.serialize_field("compat", &self.compat)?;
        if let Some(conversion) = &self.conversion {
            members.serialize_field("conversion", conversion)?;
        }
        members.end()
    }
}

impl Report {
    /// A new report: `verified` until a finding lowers it.
    ///
    /// A format's verifier must lower it by [`Report::hold`] where anything is missing.
    pub fn begin(format: Format, profile: Profile) -> Self {
        Self {
            path: String::new(),
            format,
            profile,
            conclusion: Conclusion {
                verdict: Verdict::Verified,
                checks: Vec::new(),
            },
            completeness: Completeness::Unproved,
            trusted_until: None,
            record: None,
            head: None,
            root: None,
            dates: Dates::default(),
            signers: Vec::new(),
            findings: Vec::new(),
            unauthenticated: Vec::new(),
            trust: None,
            stats: Stats::default(),
            compat: BTreeMap::new(),
            conversion: None,
        }
    }

    /// Lowers the verdict to `verdict` if that is worse.
    pub fn hold(&mut self, verdict: Verdict) {
        self.conclusion.verdict = self.conclusion.verdict.min(verdict);
    }

    /// Lowers the verdict and adds the finding that explains it.
    pub fn downgrade(&mut self, verdict: Verdict, finding: Finding) {
        self.hold(verdict);
        self.find(finding);
    }

    /// Adds a finding. Beyond [`MAX_FINDINGS`] of its code it is dropped, and one note reports that.
    pub fn find(&mut self, finding: Finding) {
        let same = self
            .findings
            .iter()
            .filter(|f| f.code == finding.code)
            .count();
        if same < MAX_FINDINGS {
            self.findings.push(finding);
        } else if !self
            .findings
            .iter()
            .any(|f| f.code == FindingCode::MoreFindings)
        {
            self.findings.push(Finding {
                code: FindingCode::MoreFindings,
                severity: Severity::Note,
                line: None,
                bytes: None,
                turn: None,
                message: format!(
                    "more than {MAX_FINDINGS} findings of one code; the rest are left out"
                ),
            });
        }
    }

    /// Adds a signer, and lowers the verdict if the trust does not vouch for its key. Returns true
    /// if it does.
    pub fn signer(&mut self, key: &PublicKey, judgement: &Judgement<'_>) -> bool {
        self.signer_of(key, judgement, &[])
    }

    /// As [`Report::signer`], of a key through which the seals of these keys count.
    pub fn signer_of(
        &mut self,
        key: &PublicKey,
        judgement: &Judgement<'_>,
        sealed_by: &[KeyId],
    ) -> bool {
        let id = key.key_id();
        let others = if *sealed_by == [id] { &[] } else { sealed_by };
        let shown = others.len().saturating_sub(MAX_SIGNER_SEALERS);
        let (status, fault) = match &judgement.standing {
            Standing::Trusted => (SignerStatus::Trusted, None),
            Standing::Pinned => (SignerStatus::Pinned, None),
            Standing::NotPinned => {
                let text = format!("signed by key {id}, which is not a key that was asked for");
                let finding = Finding::warning(FindingCode::OtherSigner, text);
                (SignerStatus::Other, Some((Verdict::UnknownSigner, finding)))
            }
            Standing::Revoked {
                at,
                doubt: Some(doubt),
                ..
            } => {
                let finding = Finding::of_doubt(doubt, id, *at);
                (
                    SignerStatus::Revoked,
                    Some((Verdict::UnknownSigner, finding)),
                )
            }
            Standing::Revoked { at, reason, .. } => {
                let text = format!("key {id} was revoked at {}: {reason}", at.to_iso_seconds());
                let finding = Finding::error(FindingCode::KeyRevoked, text);
                (SignerStatus::Revoked, Some((Verdict::Forged, finding)))
            }
            Standing::Unknown => {
                let finding =
                    Finding::warning(FindingCode::KeyUnknown, format!("key {id} is not trusted"));
                (
                    SignerStatus::Unknown,
                    Some((Verdict::UnknownSigner, finding)),
                )
            }
            Standing::OutOfScope { why } | Standing::Expired { why } => {
                let finding =
                    Finding::warning(FindingCode::KeyOutOfScope, format!("key {id}: {why}"));
                (
                    SignerStatus::OutOfScope,
                    Some((Verdict::UnknownSigner, finding)),
                )
            }
        };
        let name = judgement.name.map(|name| name.as_str().to_owned());
        self.signers.push(SignerReport {
            key: id.to_hex(),
            did: Some(key.to_did_key()),
            name,
            status,
            sealed_by: others.iter().skip(shown).map(KeyId::to_hex).collect(),
        });
        let vouched = fault.is_none();
        if let Some((verdict, finding)) = fault {
            self.downgrade(verdict, finding);
        }
        vouched
    }

    /// The first of the worst findings.
    pub fn worst_finding(&self) -> Option<&Finding> {
        self.findings.iter().min_by_key(|finding| finding.severity)
    }

    /// The code of the finding that decided against the record; none of a verified one.
    pub fn code(&self) -> Option<FindingCode> {
        let finding = self.worst_finding()?;
        Some(finding.code).filter(|_| !self.verdict.is_success())
    }

    /// Whether the caller asked for other signers than one of this record's.
    pub fn has_other_signer(&self) -> bool {
        let mut signers = self.signers.iter();
        signers.any(|signer| signer.status == SignerStatus::Other)
    }

    /// Returns `judged`: this report after judging the keys that made evidence.
    ///
    /// If one of these keys has ended, its holder at that time is unknown, and only that counts.
    /// `text` explains it.
    pub fn judged_unless_ended(self, judged: Self, text: &str) -> Self {
        let has = |status| judged.signers.iter().any(|signer| signer.status == status);
        if !has(SignerStatus::Revoked) || has(SignerStatus::Rejected) {
            return judged;
        }
        let mut report = Self {
            signers: judged.signers,
            ..self
        };
        report.downgrade(
            Verdict::UnknownSigner,
            Finding::warning(FindingCode::KeyEnded, text),
        );
        report.check(CheckName::Trust, CheckResult::Fail, None);
        report
    }

    /// Adds a check. One that failed lowers the verdict: nothing is `verified` beside it.
    pub fn check(&mut self, name: CheckName, result: CheckResult, why: Option<String>) {
        if result == CheckResult::Fail {
            self.hold(Verdict::Open);
        }
        self.conclusion.checks.push(Check { name, result, why });
    }
}

/// The exit code over several records (`spec/report.md` §2).
///
/// It is 1 if any is 1, else 2 for errors, else 3 if any is 3, else 0. No record at all gives 2.
pub fn combined_exit_code(verdicts: &[Verdict], errors: usize) -> u8 {
    let codes = verdicts.iter().map(|v| v.exit_code());
    match codes.reduce(|a, b| if a == 1 || b == 1 { 1 } else { a.max(b) }) {
        Some(1) => 1,
        None => 2,
        Some(_) if errors > 0 => 2,
        Some(code) => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_order_and_exit_codes_are_the_designs() {
        assert!(Verdict::ALL.is_sorted());
        for verdict in Verdict::ALL {
            let code = match verdict {
                Verdict::Verified => 0,
                Verdict::Forged
                | Verdict::Tampered
                | Verdict::Forked
                | Verdict::RolledBack
                | Verdict::Truncated
                | Verdict::Foreign
                | Verdict::Missing
                | Verdict::Malformed => 1,
                _ => 3,
            };
            assert_eq!(verdict.exit_code(), code, "{verdict}");
            assert_eq!(serde_json::to_value(verdict).unwrap(), verdict.as_str());
        }
    }

    // T-CMD-06
    #[test]
    fn several_records_exit_by_the_worst() {
        use Verdict::{Open, Tampered, Verified};
        assert_eq!(combined_exit_code(&[], 0), 2);
        assert_eq!(combined_exit_code(&[], 1), 2);
        assert_eq!(combined_exit_code(&[Verified], 0), 0);
        assert_eq!(combined_exit_code(&[Verified, Open], 0), 3);
        assert_eq!(combined_exit_code(&[Verified, Open], 1), 2);
        assert_eq!(combined_exit_code(&[Verified, Open, Tampered], 1), 1);
    }

    #[test]
    fn the_answers_of_the_originals_are_passed_on_to_the_last_digit() {
        let mut report = Report::begin(Format::Transcript, Profile::Rye);
        let text = r#"{"byte_offset": 1000000000000000000000000000000, "fp": "\ud800"}"#;
        report
            .compat
            .insert("rye", Compat::from_json(text.to_owned()));
        report
            .compat
            .insert("x", Compat::from_json("NaN".to_owned()));
        let shown = serde_json::to_string(&report).unwrap();
        assert!(shown.contains(text), "{shown}");
        assert!(shown.contains(r#""x":"NaN""#), "{shown}");
    }

    /// One call by which a verifier changes a report.
    #[derive(Debug, Clone, Copy)]
    enum Call {
        Hold(usize),
        Downgrade(usize),
        Check(CheckResult),
        UnlessEnded(usize, CheckResult),
    }

    fn calls() -> impl Strategy<Value = Vec<Call>> {
        let verdict = || 0..Verdict::ALL.len();
        let result = || {
            prop::sample::select(vec![
                CheckResult::Pass,
                CheckResult::Fail,
                CheckResult::Skipped,
            ])
        };
        let call = prop_oneof![
            verdict().prop_map(Call::Hold),
            verdict().prop_map(Call::Downgrade),
            result().prop_map(Call::Check),
            (verdict(), result()).prop_map(|(at, result)| Call::UnlessEnded(at, result)),
        ];
        prop::collection::vec(call, 0..12)
    }

    fn call(mut report: Report, call: Call) -> Report {
        let finding = || Finding::note(FindingCode::Unsigned, "seen");
        match call {
            Call::Hold(at) => report.hold(Verdict::ALL[at]),
            Call::Downgrade(at) => report.downgrade(Verdict::ALL[at], finding()),
            Call::Check(result) => report.check(CheckName::Log, result, None),
            Call::UnlessEnded(at, result) => {
                let mut judged = report.clone();
                judged.hold(Verdict::ALL[at]);
                judged.check(CheckName::Trust, result, None);
                judged.signers.push(SignerReport {
                    key: "key".to_owned(),
                    did: None,
                    name: None,
                    status: SignerStatus::Revoked,
                    sealed_by: Vec::new(),
                });
                report = report.judged_unless_ended(judged, "it ended");
            }
        }
        report
    }

    proptest! {
        // T-CMD-19
        #[test]
        fn a_report_with_a_failed_check_is_never_verified_and_no_call_raises_a_verdict(
            calls in calls()
        ) {
            let mut report = Report::begin(Format::Json, Profile::Native);
            for next in calls {
                let before = report.verdict;
                report = call(report, next);
                prop_assert!(report.verdict.is_no_better_than(before), "{next:?}");
                let failed = report.checks.iter().any(|c| c.result == CheckResult::Fail);
                prop_assert!(!(failed && report.verdict.is_success()), "{next:?}");
                prop_assert!(!failed || report.verdict.exit_code() != 0, "{next:?}");
                let shown = serde_json::to_value(&report).unwrap();
                prop_assert_eq!(&shown["verdict"], report.verdict.as_str());
                let shown = shown["checks"].as_array().unwrap();
                let failed_shown = shown.iter().any(|check| check["result"] == "fail");
                prop_assert_eq!(failed_shown, failed);
            }
        }
    }

    #[test]
    fn a_report_only_gets_worse() {
        let mut report = Report::begin(Format::Json, Profile::Rye);
        report.hold(Verdict::Tampered);
        report.hold(Verdict::Open);
        assert_eq!(report.verdict, Verdict::Tampered);
    }
}
