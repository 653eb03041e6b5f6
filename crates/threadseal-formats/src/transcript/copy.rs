//! Copies of a record with lines left out, each known by its leaf hash (`spec/proofs.md`, "Copies
//! with lines left out").
//!
//! ```text
//! Verified<Coverage> + bytes + chosen lines ─► make ─► copy ─► check ─► Report: at best `partial`
//! ```
//! Invariants: seals and the recorder's own lines are never left out. The scanner for records also
//! checks copies, so that there is one set of rules. A check that needs all bytes is reported as
//! skipped, and a copy never gives a value of [`crate::verified::Verified`].

use super::event::{self, RESERVED};
use super::lines::VerifiedLines;
use super::prefix::PrefixHasher;
use super::scan::Scanner;
use super::verify::{Coverage, VerifyOptions, conclude};
use crate::verified::Verified;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::limits::MAX_LINE_BYTES;
use threadseal_core::merkle::leaf_hash;
use threadseal_core::record::parse_decimal;
use threadseal_core::report::{CheckName, CheckResult, Finding, FindingCode, Report, Verdict};

/// The first line of a copy, without its LF.
pub const FIRST_LINE: &str = "threadseal/1 copy with lines left out";

/// The copy of the verified record, without the lines that `leaves_out` selects by number and
/// bytes.
///
/// # Errors
/// Kind `Refused` when `file` has other bytes than the verified ones, or is no native record.
/// `InvalidInput` when a line of the recorder's own would be left out, or none at all.
pub fn make(
    verified: &Verified<Coverage>,
    file: &[u8],
    leaves_out: &dyn Fn(u64, &[u8]) -> bool,
) -> Result<Vec<u8>, Error> {
    let lines = VerifiedLines::open(verified, file)?;
    let mut out = Vec::with_capacity(file.len());
    out.extend_from_slice(FIRST_LINE.as_bytes());
    out.push(b'\n');
    let mut left_out = 0_u64;
    for (line, number) in lines.all().zip(1..) {
        if !leaves_out(number, line) {
            out.extend_from_slice(line);
            out.push(b'\n');
            continue;
        }
        let frame = event::check_line(line).map_err(|_| {
            Error::refused("not a native record: its lines are not leaves of a tree")
        })?;
        if RESERVED.contains(&frame.event_type) {
            let kind = frame.event_type;
            let text = format!(
                "line {number} is a {kind} event and cannot be left out: the other lines prove nothing without it"
            );
            return Err(Error::invalid(text));
        }
        let stub = format!("-{} {}\n", leaf_hash(line), line.len());
        out.extend_from_slice(stub.as_bytes());
        left_out += 1;
    }
    match left_out {
        0 => Err(Error::invalid(
            "no line is left out; hint: export the whole record",
        )),
        _ => Ok(out),
    }
}

/// A copy that was checked.
#[derive(Debug, Clone)]
pub struct CheckedCopy<'a> {
    /// The report of the check.
    pub report: Report,
    /// How many lines are left out.
    pub left_out: u64,
    /// The lines of the record, the first one first; none where there is evidence against the copy,
    /// or it is by another signer than was asked for.
    pub lines: Vec<CopiedLine<'a>>,
}

/// One line of the record, as a copy has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopiedLine<'a> {
    /// The line, without its LF.
    Shown {
        /// Its type.
        event_type: &'a str,
        /// Its JSON text.
        text: &'a str,
    },
    /// It is left out.
    LeftOut {
        /// How long it was, without its LF.
        bytes: u64,
    },
}

/// Checks a copy: the root and the signature of each seal, over lines and hashes.
pub fn check<'a>(copy: &'a [u8], options: &VerifyOptions<'_>) -> CheckedCopy<'a> {
    let mut scanner = Scanner::of_copy();
    let begin = copy.strip_prefix(FIRST_LINE.as_bytes());
    let body = begin.and_then(|rest| rest.strip_prefix(b"\n"));
    let (mut left_out, mut first, mut misspelled) = (0, None, body.is_none().then_some(1));
    let mut copied = Vec::new();
    let lines = body.unwrap_or_default().split_inclusive(|b| *b == b'\n');
    for (line, number) in lines.zip(1..) {
        if !line.starts_with(b"-") {
            scanner.push(line);
            copied.extend(shown(line));
            continue;
        }
        // Lines 1 and 2 name the record and its keys.
        let Some((leaf, bytes)) = parse_stub(line).filter(|_| number > 2) else {
            misspelled.get_or_insert(number + 1);
            break;
        };
        scanner.push_stub(leaf, bytes);
        left_out += 1;
        copied.push(CopiedLine::LeftOut { bytes });
        first.get_or_insert(number);
    }
    // No byte went through the hasher, so checks that need all bytes neither fail nor pass.
    let mut report = conclude(scanner, &PrefixHasher::new(), options).report;
    if let Some(line) = misspelled {
        let text = format!("line {line} of the copy is not valid");
        report.downgrade(
            Verdict::Malformed,
            Finding::error(FindingCode::CopyMalformed, text),
        );
    }
    let why = "lines are left out, so not all bytes before a seal are here";
    report.check(
        CheckName::PrefixHash,
        CheckResult::Skipped,
        Some(why.to_owned()),
    );
    let text = match left_out {
        1 => "1 line is left out: its existence is proved, but not its content".to_owned(),
        _ => format!(
            "{left_out} lines are left out: their existence is proved, but not their content"
        ),
    };
    let finding = Finding::warning(FindingCode::LinesLeftOut, text);
    report.downgrade(
        Verdict::Partial,
        first.map_or(finding.clone(), |line| finding.at_line(line)),
    );
    // A caller who asks for a signer does not ask for the words of another one.
    if report.verdict.is_evidence() || report.has_other_signer() {
        copied.clear();
    }
    CheckedCopy {
        report,
        left_out,
        lines: copied,
    }
}

/// A line that the copy shows; the scanner reports one that is invalid.
fn shown(line: &[u8]) -> Option<CopiedLine<'_>> {
    let line = line.strip_suffix(b"\n")?;
    let frame = event::parse_frame(line)?;
    Some(CopiedLine::Shown {
        event_type: frame.event_type,
        text: std::str::from_utf8(line).ok()?,
    })
}

fn parse_stub(line: &[u8]) -> Option<(Digest, u64)> {
    let text = std::str::from_utf8(line).ok()?;
    let text = text.strip_prefix('-')?.strip_suffix('\n')?;
    let (leaf, bytes) = text.split_once(' ')?;
    let bytes = parse_decimal(bytes).filter(|bytes| *bytes < MAX_LINE_BYTES as u64)?;
    Some((Digest::parse_hex(leaf)?, bytes))
}
