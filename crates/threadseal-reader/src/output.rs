//! Reports as JSON: one value, the same shape for success and failure.
//!
//! ```text
//! {"schema":"threadseal.verify/1","results":[Report…],"errors":[{"path","message"}],
//!  "passed_over":N,"summary":{"verified":N,…},"exit":N,"code":CODE|null}
//! ```
//! Characters that could fake terminal output are written as `\uxxxx`: the value stays the same,
//! and reading it in a terminal stays safe.

use crate::clean::is_unsafe;
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};
use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::io::{self, Write};
use std::path::Path;
use threadseal_core::encoding::path_text;
use threadseal_core::error::Unbuilt;
use threadseal_core::report::{CheckName, CheckResult, FindingCode, Report};

/// The check that the tombstone of a pruned record passed.
pub const TOMBSTONE: CheckName = CheckName::Tombstone;

/// The word of what is not there because it was pruned.
pub const PRUNED: &str = "pruned";

/// A path without a verdict.
#[derive(Debug, Clone, Serialize)]
pub struct PathError {
    /// The path, absent when the failure is about none.
    pub path: Option<String>,
    /// Why there is no verdict.
    pub message: String,
    /// The part that this program lacks for a verdict.
    #[serde(skip)]
    pub unbuilt: Option<Unbuilt>,
    /// An exported page, whose records another function judges.
    #[serde(skip)]
    pub is_page: bool,
}

impl PathError {
    /// That of `path`, or of none.
    pub fn of(path: Option<&Path>, failure: &(impl StdError + 'static)) -> Self {
        Self {
            path: path.map(path_text),
            message: failure.to_string(),
            unbuilt: Unbuilt::cause_of(failure),
            is_page: false,
        }
    }
}

/// All of one `verify`.
#[derive(Debug, Serialize)]
pub struct VerifyOutput<'a> {
    schema: &'static str,
    results: &'a [Report],
    errors: &'a [PathError],
    passed_over: u64,
    summary: BTreeMap<&'static str, u64>,
    /// Where evidence was asked for: the file, or none where there was no evidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<Option<String>>,
    exit: u8,
    /// That of the worst report.
    code: Option<FindingCode>,
}

impl<'a> VerifyOutput<'a> {
    /// Gathers what was found; `passed_over` counts files of no known format inside folders, and `exit` is the code of the
    /// command that shows it.
    pub fn new(results: &'a [Report], errors: &'a [PathError], passed_over: u64, exit: u8) -> Self {
        Self {
            schema: "threadseal.verify/1",
            results,
            errors,
            passed_over,
            summary: summary(results),
            evidence: None,
            exit,
            code: code(results),
        }
    }

    /// With what became of evidence that was asked for.
    pub fn with_evidence(self, evidence: Option<Option<String>>) -> Self {
        Self { evidence, ..self }
    }
}

/// The code of the finding that decided against the first of the worst records.
fn code(results: &[Report]) -> Option<FindingCode> {
    results.iter().min_by_key(|report| report.verdict)?.code()
}

/// How many records came to each verdict; verdicts that no record got are left out. What was pruned is not among what was verified.
pub fn summary(results: &[Report]) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for report in results {
        let word = match is_pruned(report) {
            true => PRUNED,
            false => report.verdict.as_str(),
        };
        *counts.entry(word).or_default() += 1;
    }
    counts
}

/// Writes `value` on one line, safe to read in a terminal.
///
/// # Errors
/// Those of `writer`.
pub fn write(writer: impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut serializer = Serializer::with_formatter(writer, TerminalSafe(CompactFormatter));
    value.serialize(&mut serializer).map_err(io::Error::from)
}

/// As [`write`], in memory.
pub fn to_vec(value: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::new();
    // A vector takes everything, and our own types serialise.
    let _ = write(&mut out, value);
    out
}

struct TerminalSafe(CompactFormatter);

impl Formatter for TerminalSafe {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(is_unsafe) {
            self.0.write_string_fragment(writer, &rest[..at])?;
            let mut chars = rest[at..].chars();
            if let Some(c) = chars.next() {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
            rest = chars.as_str();
        }
        self.0.write_string_fragment(writer, rest)
    }
}

/// Is this the report of a record that was pruned, and not of one that is there?
pub fn is_pruned(report: &Report) -> bool {
    let mut checks = report.checks.iter();
    checks.any(|check| check.name == TOMBSTONE && check.result == CheckResult::Pass)
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_core::error::Error;
    use threadseal_core::report::{Format, Profile};

    fn text(value: &impl Serialize) -> String {
        String::from_utf8(to_vec(value)).unwrap()
    }

    // T-CMD-01
    #[test]
    fn dangerous_characters_are_escaped_and_the_value_stays() {
        let hostile = "\u{202e}é\u{9b}\u{7f}\u{1b}\"\u{e0041}\n";
        let written = text(&hostile);
        assert_eq!(written, r#""\u202eé\u009b\u007f\u001b\"\udb40\udc41\n""#);
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), hostile);
    }

    #[test]
    fn failure_has_the_same_shape_as_success() {
        let reports = [Report::begin(Format::Transcript, Profile::Native)];
        let failed = [PathError::of(None, &Error::refused("no"))];
        let good = serde_json::to_value(VerifyOutput::new(&reports, &[], 2, 0)).unwrap();
        let bad = serde_json::to_value(VerifyOutput::new(&[], &failed, 0, 2)).unwrap();
        let keys =
            |v: &serde_json::Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&good), keys(&bad));
        assert_eq!(good["summary"]["verified"], 1);
        assert_eq!(bad["exit"], 2);
    }
}
