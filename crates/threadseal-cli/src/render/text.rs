//! Reports for people.
//!
//! ```text
//! tampered  runs/7/transcript.jsonl  (transcript, native)
//!   line 131, bytes 88412-88977, turn 7: the line differs from what was sealed [line_changed]
//!   trusted until    turn 6 (line 130, byte 88412); nothing after it may be resumed from
//!   signed by        self, trusted (key 3ef4…)
//!   checked          seals, signatures
//!   not checked      head: this host holds no head of the record
//! ```
//! Every text from a record or a file name passes [`Clean`].

use super::clean::Clean;
use super::json::{PRUNED, PathError, summary};
use super::style::Palette;
use std::fmt::Write as _;
use threadseal_core::report::{
    Check, CheckResult, Completeness, Finding, Format, Profile, Report, Severity, SignerReport,
    SignerStatus, TrustedUntil, Verdict,
};
use threadseal_core::time::Timestamp;
use threadseal_verify::output::is_pruned;

/// The whole report of one record, without a final newline.
pub(crate) fn report(report: &Report, palette: Palette) -> String {
    let mut out = heading(report, palette);
    for finding in &report.findings {
        let _ = write!(out, "\n  {}", self::finding(finding));
    }
    for (label, text) in rows(report) {
        let _ = write!(out, "\n  {}{text}", palette.faint(&format!("{label:<17}")));
    }
    out
}

/// What a report has beside its findings: labels, and texts that are safe to print.
pub(super) fn rows(report: &Report) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    // A document counts as a whole or not at all, so it has no place to name.
    if report.format.grows() || report.trusted_until.is_some() {
        rows.push(("trusted until", trusted_until(report)));
    }
    for signer in &report.signers {
        rows.push(("signed by", self::signer(signer)));
    }
    if let Some(head) = report.head {
        rows.push(("head", head.to_string()));
    }
    rows.extend(dates(report));
    // A part of a record proves nothing about the whole.
    if report.format != Format::Proof {
        rows.push(("completeness", completeness(report.completeness).to_owned()));
    }
    let passed = names(&report.checks, CheckResult::Pass);
    if !passed.is_empty() {
        rows.push(("checked", passed.join(", ")));
    }
    for (label, result) in [
        ("failed", CheckResult::Fail),
        ("not checked", CheckResult::Skipped),
    ] {
        for check in report.checks.iter().filter(|c| c.result == result) {
            rows.push((label, check_with_reason(check)));
        }
    }
    if let Some(conversion) = &report.conversion {
        let text = format!("{conversion}; the converter claims this");
        rows.push(("converted from", text));
    }
    for item in &report.unauthenticated {
        rows.push(("nothing covers", Clean(item).to_string()));
    }
    if let Some(hint) = hint(report) {
        rows.push(("hint", hint));
    }
    rows
}

/// When it was sealed, held and stamped, each with the clock that this rests on.
fn dates(report: &Report) -> impl Iterator<Item = (&'static str, String)> {
    let dates = report.dates;
    let text = |moment: Option<Timestamp>, by: &str| {
        moment.map(|moment| format!("{} ({by})", moment.to_iso_seconds()))
    };
    [
        ("sealed", text(dates.sealed, "by the clock of its signer")),
        (
            "first held here",
            text(dates.first_held, "by the clock of this host"),
        ),
        (
            "last held here",
            text(dates.last_held, "by the clock of this host"),
        ),
        ("stamped", text(dates.stamped, "no later, by an authority")),
    ]
    .into_iter()
    .filter_map(|(label, text)| Some((label, text?)))
}

/// The next step, if the verdict needs one.
fn hint(report: &Report) -> Option<String> {
    let hint = match report.verdict {
        Verdict::UnknownSigner => {
            let Some(key) = unknown_key(report) else {
                let other = other_key(report)?;
                return Some(format!(
                    "to accept this signer as well, name it: --key {}",
                    Clean(other)
                ));
            };
            return Some(trust_hint(key, report));
        }
        Verdict::Unsigned => {
            "the record has no seals, so nothing is proved; if it was sent to you, ask for its seals, too; to seal your own: threadseal seal PATH"
        }
        Verdict::UnsignedTail
            if report.completeness == Completeness::Final && report.format == Format::Log =>
        {
            "its program appended after the final seal; to seal the log anew: threadseal seal --restart --why TEXT PATH"
        }
        Verdict::UnsignedTail if report.completeness == Completeness::Final => {
            "the record had ended: no writer should have appended after its last seal"
        }
        Verdict::UnsignedTail => "normal while a thread runs, or after it crashed",
        Verdict::Open if report.format == Format::Proof => {
            "prove the turn again after the next turn is sealed"
        }
        Verdict::Open => {
            "to check that this is the newest seal, give a head that you keep elsewhere: --expect-head HEAD"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

/// The signer that is not trusted; a placeholder if the record does not contain it. None if trust in
/// a key is not the problem.
fn unknown_key(report: &Report) -> Option<Unknown<'_>> {
    let unknown = |signer: &&SignerReport| signer.status == SignerStatus::Unknown;
    match report.signers.iter().find(unknown) {
        Some(signer) => Some(match signer.did.as_deref() {
            Some(did) => Unknown::Key(did),
            None => Unknown::Name(&signer.key),
        }),
        None if report.signers.is_empty() => Some(Unknown::Key("KEY")),
        None => None,
    }
}

/// A signer that is not trusted.
#[derive(Clone, Copy)]
enum Unknown<'r> {
    /// Its key, in the form for `trust add`.
    Key(&'r str),
    /// Only a short name or an id, as Rye's records and ledgers have it.
    Name(&'r str),
}

/// The one command that trusts the signer, for the usage of its signature.
fn trust_hint(unknown: Unknown<'_>, report: &Report) -> String {
    let usage = match (report.profile, report.format) {
        (Profile::Rye, _) => "rye",
        (Profile::Observed, _) | (_, Format::Log) => "observed",
        (_, Format::Scroll) => "scroll",
        (Profile::Igor, _) => "igor",
        _ => "native",
    };
    let option = match usage {
        "native" => String::new(),
        usage => format!(" --usage {usage}"),
    };
    match unknown {
        // A record of Rye names its key by 64 bits; Rye keeps the key in a file of that name.
        Unknown::Name(name) if usage == "rye" => format!(
            "if you know the owner of this key, trust its key file of Rye: threadseal trust add \
             .ai/config/keys/trusted/{}.toml --name NAME",
            Clean(name)
        ),
        Unknown::Name(_) => format!(
            "ask its owner for an identity (threadseal id export), and name it: --id FILE; or trust the key, \
             if its owner named it to you: threadseal trust add KEY --name NAME{option}"
        ),
        Unknown::Key(key) => format!(
            "ask its owner for an identity (threadseal id export), and name it: --id FILE; or trust the key, \
             if its owner named it to you: threadseal trust add {} --name NAME{option}",
            Clean(key)
        ),
    }
}

/// The key of a signer that was not asked for, in the form for `--key`.
fn other_key(report: &Report) -> Option<&str> {
    let other = |signer: &&SignerReport| signer.status == SignerStatus::Other;
    let other = report.signers.iter().find(other)?;
    Some(other.did.as_deref().unwrap_or(&other.key))
}

/// The part that `--policy lenient` would resume from: the sealed part, with its tail kept apart.
pub(crate) fn lenient(report: &Report, palette: Palette) -> String {
    let acceptable = [
        Verdict::Verified,
        Verdict::Open,
        Verdict::UnsignedTail,
        Verdict::Partial,
    ];
    let text = match report.trusted_until {
        Some(until)
            if acceptable.contains(&report.verdict) && report.format == Format::Transcript =>
        {
            format!(
                "resume may use bytes 0-{}; later bytes stay marked as unverified",
                until.byte
            )
        }
        _ => "resume also refuses this record".to_owned(),
    };
    format!(
        "  {}{text}",
        palette.faint(&format!("{:<17}", "lenient policy"))
    )
}

/// The verdict and the place of a record, on a line.
pub(crate) fn heading(report: &Report, palette: Palette) -> String {
    // Nothing of it is here, so it is not shown as a record that was read and verified.
    let word = match is_pruned(report) {
        true => palette.strong(PRUNED),
        false => palette.verdict(report.verdict),
    };
    format!(
        "{word}  {}  {}",
        palette.strong(&Clean(&report.path).to_string()),
        palette.faint(&format!("({}, {})", report.format, report.profile)),
    )
}

/// `line 131, bytes 88412-88977, turn 7: … [code]`
pub(super) fn finding(finding: &Finding) -> String {
    let mut place = Vec::new();
    if let Some(turn) = finding.turn {
        place.push(format!("turn {turn}"));
    }
    if let Some(line) = finding.line {
        place.push(format!("line {line}"));
    }
    if let Some([from, to]) = finding.bytes {
        place.push(format!("bytes {from}-{to}"));
    }
    let mut place = place.join(", ");
    if !place.is_empty() {
        place.push_str(": ");
    }
    let severity = match finding.severity {
        Severity::Error => "",
        Severity::Warning => "warning: ",
        Severity::Note => "note: ",
    };
    format!(
        "{severity}{place}{} [{}]",
        Clean(&finding.message),
        finding.code
    )
}

fn trusted_until(report: &Report) -> String {
    let Some(TrustedUntil { line, byte, turn }) = report.trusted_until else {
        return "no part of it: do not resume from this record".to_owned();
    };
    let place = match turn {
        Some(turn) => format!("turn {turn} (line {line}, byte {byte})"),
        None if line > 0 => format!("line {line}, byte {byte}"),
        None => format!("byte {byte}"),
    };
    if report.verdict == Verdict::Verified {
        place
    } else {
        format!("{place}; do not resume from later bytes")
    }
}

fn signer(signer: &SignerReport) -> String {
    let status = match signer.status {
        SignerStatus::Trusted => "trusted",
        SignerStatus::Pinned => "the key given with --key",
        SignerStatus::Other => "not the key given with --key",
        SignerStatus::Unknown => "not trusted",
        SignerStatus::Revoked => "revoked",
        SignerStatus::OutOfScope => "trusted for other threads, formats or times",
        SignerStatus::Rejected => "rejected",
    };
    let key = Clean(&signer.key);
    match &signer.name {
        Some(name) => format!("{} ({status}), key {key}", Clean(name)),
        None => format!("key {key} ({status})"),
    }
}

fn completeness(completeness: Completeness) -> &'static str {
    match completeness {
        Completeness::Final => "complete: the last seal is final",
        Completeness::Head => "complete up to a head that this verifier knows",
        Completeness::Unproved => "unproved",
    }
}

fn names(checks: &[Check], result: CheckResult) -> Vec<&'static str> {
    let matching = checks.iter().filter(|c| c.result == result);
    matching.map(|c| c.name.as_str()).collect()
}

fn check_with_reason(check: &Check) -> String {
    match &check.why {
        Some(why) => format!("{}: {}", check.name, Clean(why)),
        None => check.name.to_string(),
    }
}

/// The last line of a run over several records: `312 records, 1.2 GB: 310 verified, 1 unsigned, 1
/// tampered; 40 files passed over`
pub(crate) fn closing(results: &[Report], errors: &[PathError], passed_over: u64) -> String {
    let bytes = results.iter().map(|r| r.stats.bytes).sum();
    let counts = summary(results);
    let mut counts: Vec<String> = Verdict::ALL
        .iter()
        .rev()
        .map(|verdict| verdict.as_str())
        .chain([PRUNED])
        .filter_map(|word| counts.get(word).map(|count| format!("{count} {word}")))
        .collect();
    if !errors.is_empty() {
        counts.push(format!("{} without verdict", errors.len()));
    }
    let mut line = format!("{}, {}", plural(results.len(), "record"), size(bytes));
    if !counts.is_empty() {
        let _ = write!(line, ": {}", counts.join(", "));
    }
    if passed_over > 0 {
        let passed_over = usize::try_from(passed_over).unwrap_or(usize::MAX);
        let _ = write!(line, "; {} not recognised", plural(passed_over, "file"));
    }
    line
}

/// A time in seconds since 1970, for people: `2026-02-18T10:30:00Z`.
pub(crate) fn date(seconds: u64) -> String {
    let micros = seconds.checked_mul(1_000_000);
    let at = micros.and_then(|micros| Timestamp::from_micros(micros).ok());
    at.map_or_else(|| seconds.to_string(), Timestamp::to_iso_seconds)
}

/// `1 entry`, `2 entries`
pub(crate) fn entries(count: u64) -> String {
    counted(count, "entry", "entries")
}

/// `1 body`, `2 bodies`
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn plural(count: usize, noun: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{end}")
}

/// `1.2 GB`, in powers of 1000.
pub(crate) fn size(bytes: u64) -> String {
    let units = [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
    for (unit, scale) in units {
        if bytes >= scale {
            let tenths = bytes / (scale / 10);
            return format!("{}.{} {unit}", tenths / 10, tenths % 10);
        }
    }
    format!("{bytes} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_core::report::{CheckName, FindingCode, Profile};

    fn tampered() -> Report {
        let mut report = Report::begin(Format::Transcript, Profile::Native);
        report.path = "runs/\u{1b}[1mx.jsonl".to_owned();
        report.downgrade(
            Verdict::Tampered,
            Finding::error(
                FindingCode::LineChanged,
                "the line differs from what was sealed",
            )
            .at_line(131)
            .at_bytes(88_412, 88_977)
            .in_turn(Some(7)),
        );
        report.trusted_until = Some(TrustedUntil {
            line: 130,
            byte: 88_412,
            turn: Some(6),
        });
        report.signers.push(SignerReport {
            key: "3ef4".to_owned(),
            did: None,
            name: Some("ann\nverified".to_owned()),
            status: SignerStatus::Trusted,
            sealed_by: Vec::new(),
        });
        report.check(CheckName::Signatures, CheckResult::Pass, None);
        report.check(CheckName::Seals, CheckResult::Fail, None);
        report.check(
            CheckName::Head,
            CheckResult::Skipped,
            Some("none held".to_owned()),
        );
        report.unauthenticated.push("ts=2026".to_owned());
        report
    }

    #[test]
    fn a_failure_names_the_place_the_safe_point_and_what_was_not_checked() {
        assert_eq!(
            report(&tampered(), Palette::PLAIN),
            "tampered  runs/\\u{1b}[1mx.jsonl  (transcript, native)\n  \
             turn 7, line 131, bytes 88412-88977: the line differs from what was sealed [line_changed]\n  \
             trusted until    turn 6 (line 130, byte 88412); do not resume from later bytes\n  \
             signed by        ann\\nverified (trusted), key 3ef4\n  \
             completeness     unproved\n  \
             checked          signatures\n  \
             failed           seals\n  \
             not checked      head: none held\n  \
             nothing covers   ts=2026"
        );
    }

    #[test]
    fn the_closing_line_counts_best_first_and_names_what_was_passed_over() {
        let mut good = Report::begin(Format::Json, Profile::Rye);
        good.stats.bytes = 1_250_000_000;
        let error = PathError {
            path: None,
            message: String::new(),
            unbuilt: None,
            is_page: false,
        };
        assert_eq!(
            closing(&[tampered(), good], &[error], 40),
            "2 records, 1.2 GB: 1 verified, 1 tampered, 1 without verdict; 40 files not recognised"
        );
        assert_eq!(
            closing(&[], &[], 1),
            "0 records, 0 bytes; 1 file not recognised"
        );
    }

    #[test]
    fn what_leaves_something_to_do_says_what() {
        let mut unsigned = Report::begin(Format::Json, Profile::None);
        unsigned.hold(Verdict::Unsigned);
        assert!(report(&unsigned, Palette::PLAIN).ends_with("threadseal seal PATH"));
        assert!(!report(&tampered(), Palette::PLAIN).contains("hint"));
    }

    #[test]
    fn sizes_are_in_powers_of_a_thousand() {
        assert_eq!(size(999), "999 bytes");
        assert_eq!(size(1_999), "1.9 kB");
        assert_eq!(size(100_000_000), "100.0 MB");
    }
}
