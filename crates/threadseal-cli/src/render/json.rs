//! Machine output: one JSON value, the same shape for success and failure.
//!
//! ```text
//! verify   {"schema":"threadseal.verify/1","results":[Report…],"errors":[{"path","message"}],
//!           "passed_over":N,"summary":{"verified":N,…},"exit":N}
//! failure  {"schema":"threadseal.error/1","message":"…","exit":2}
//! ```
//! Characters that could fake terminal output are written as `\uxxxx`: the value stays the same,
//! and reading it in a terminal stays safe.

use super::clean::is_unsafe;
use crate::examine::pruned::is_pruned;
use crate::exit::{Exit, Failure};
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use threadseal_core::report::Report;
use threadseal_store::sys::path_text;

/// The word of what is not there because it was pruned.
pub(crate) const PRUNED: &str = "pruned";

/// A path without a verdict.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PathError {
    /// The path, absent when the failure is about none.
    pub(crate) path: Option<String>,
    /// Why there is no verdict.
    pub(crate) message: String,
}

impl PathError {
    /// That of `path`, or of none.
    pub(crate) fn of(path: Option<&Path>, failure: &Failure) -> Self {
        Self {
            path: path.map(path_text),
            message: failure.to_string(),
        }
    }
}

/// All of one `verify`.
#[derive(Debug, Serialize)]
pub(crate) struct VerifyOutput<'a> {
    schema: &'static str,
    results: &'a [Report],
    errors: &'a [PathError],
    passed_over: u64,
    summary: BTreeMap<&'static str, u64>,
    /// Where evidence was asked for: the file, or none where there was no evidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<Option<String>>,
    exit: u8,
}

impl<'a> VerifyOutput<'a> {
    /// Gathers what was found; `passed_over` counts files of no known format inside folders.
    pub(crate) fn new(
        results: &'a [Report],
        errors: &'a [PathError],
        passed_over: u64,
        exit: Exit,
    ) -> Self {
        Self {
            schema: "threadseal.verify/1",
            results,
            errors,
            passed_over,
            summary: summary(results),
            evidence: None,
            exit: exit.code(),
        }
    }

    /// With what became of evidence that was asked for.
    pub(crate) fn with_evidence(self, evidence: Option<Option<String>>) -> Self {
        Self { evidence, ..self }
    }
}

/// How many records came to each verdict; verdicts that nobody got are left out. What was pruned is not among what was verified.
pub(crate) fn summary(results: &[Report]) -> BTreeMap<&'static str, u64> {
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

/// A command that failed, for a reader that expects JSON.
#[derive(Debug, Serialize)]
pub(crate) struct FailureOutput {
    schema: &'static str,
    message: String,
    exit: u8,
}

impl FailureOutput {
    /// The failure's sentence.
    pub(crate) fn new(failure: &Failure) -> Self {
        Self {
            schema: "threadseal.error/1",
            message: failure.to_string(),
            exit: Exit::NoVerdict.code(),
        }
    }
}

/// Writes `value` on one line, safe to read in a terminal.
///
/// # Errors
/// Those of `writer`.
pub(crate) fn write(writer: impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut serializer = Serializer::with_formatter(writer, TerminalSafe(CompactFormatter));
    value.serialize(&mut serializer).map_err(io::Error::from)
}

/// As [`write`], in memory.
pub(crate) fn to_vec(value: &impl Serialize) -> Vec<u8> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_core::report::{Format, Profile};

    fn text(value: &impl Serialize) -> String {
        let mut out = Vec::new();
        write(&mut out, value).unwrap();
        String::from_utf8(out).unwrap()
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
        let good = serde_json::to_value(VerifyOutput::new(&reports, &[], 2, Exit::Done)).unwrap();
        let bad = serde_json::to_value(VerifyOutput::new(&[], &[], 0, Exit::NoVerdict)).unwrap();
        let keys =
            |v: &serde_json::Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&good), keys(&bad));
        assert_eq!(good["summary"]["verified"], 1);
        assert_eq!(bad["exit"], 2);
    }
}
