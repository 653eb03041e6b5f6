//! A record in the place of another that this host sealed there.
//!
//! Records move and are copied, so that a place never says which record a file is. But where this
//! host sealed one record and finds another that it did not seal there, somebody put the one over
//! the other: each may be whole by itself, and whoever reads the place is told a wrong story.

use super::{Examiner, ProfileArg, reports_of, shown};
use crate::exit::Failure;
use crate::walk::Candidate;
use std::path::Path;
use threadseal_core::record::RecordId;
use threadseal_core::report::{Finding, Report, Verdict};
use threadseal_store::examine;
use threadseal_store::heads::{RecordKind, StoredHead};
use threadseal_store::sys::{directory_of, path_text};

/// What stands in reports of records that lie in the place of another.
const PLACE_OF_ANOTHER: &str = "place_of_another";

/// Holds it against each record of the file at `path` that it lies in the place of another.
///
/// # Errors
/// When the heads are damaged.
pub(super) fn hold(
    examiner: &Examiner,
    path: &Path,
    reports: &mut [Report],
) -> Result<(), Failure> {
    let records: Vec<RecordId> = reports.iter().filter_map(|report| report.record).collect();
    for report in reports {
        if let Some(last) = displaced(examiner, path, report, &records)? {
            let message = format!(
                "this host sealed record {} here and did not seal this one here; if it was put here on purpose, give it a place of its own",
                last.head.record
            );
            report.hold_because(Verdict::Foreign, Finding::error(PLACE_OF_ANOTHER, message));
        }
    }
    Ok(())
}

/// A report of what `reports`, on the file at `path`, say lay there before.
///
/// # Errors
/// When the heads are damaged.
pub(super) fn missing(
    examiner: &Examiner,
    path: &Path,
    reports: &[Report],
) -> Result<Option<Report>, Failure> {
    let records: Vec<RecordId> = reports.iter().filter_map(|report| report.record).collect();
    let says_so = |report: &&Report| {
        let mut findings = report.findings.iter();
        findings.any(|found| found.code == PLACE_OF_ANOTHER)
    };
    for report in reports.iter().filter(says_so) {
        if let Some(last) = displaced(examiner, path, report, &records)? {
            return Ok(Some(displacing(examiner, path, &last)));
        }
    }
    Ok(None)
}

/// A report of each record that this host sealed at `path`, where a file lies now that is no record at all.
///
/// # Errors
/// When the heads are damaged.
pub(super) fn overwritten(examiner: &Examiner, path: &Path) -> Result<Vec<Report>, Failure> {
    let last = sealed_at(examiner, &examiner.host.place(path))?;
    let last = last.iter().map(|last| displacing(examiner, path, last));
    Ok(last.collect())
}

/// A report of each record that this host sealed at `path`, where no file lies now: a folder, a pipe, or a link that does
/// not lead to that record.
///
/// # Errors
/// When the heads are damaged.
pub(super) fn replaced(examiner: &Examiner, path: &Path) -> Result<Vec<Report>, Failure> {
    let (own, led_to) = (place_itself(examiner, path), examiner.host.place(path));
    let is_file = examiner.is_file(path);
    let mut last = sealed_at(examiner, &own)?;
    if own != led_to && !is_file {
        last.extend(sealed_at(examiner, &led_to)?);
    }
    // Who moves a record and leaves a link to it hides nothing.
    if is_file && !last.is_empty() {
        let behind = examiner.examine(&Candidate {
            path: path.to_owned(),
            named: false,
            bytes: 0,
        });
        let is_behind = |last: &StoredHead| {
            let mut behind = reports_of(&behind).iter();
            behind.any(|report| report.record == Some(last.head.record))
        };
        last.retain(|last| !is_behind(last));
    }
    let last = last.iter().map(|last| displacing(examiner, path, last));
    Ok(last.collect())
}

/// The records that this host sealed last in a place, one of each kind that is asked for.
fn sealed_at(examiner: &Examiner, place: &str) -> Result<Vec<StoredHead>, Failure> {
    let find = |kind| examiner.host.heads.find_by_place(kind, place).transpose();
    let found: Result<Vec<StoredHead>, _> = RecordKind::ALL.into_iter().filter_map(find).collect();
    let profile = examiner.asked.profile;
    let found = found?.into_iter();
    Ok(found.filter(|last| is_asked_for(profile, last)).collect())
}

/// Would a report of it be made by this profile? What is not looked at is not missed.
fn is_asked_for(profile: ProfileArg, last: &StoredHead) -> bool {
    let is_native = last.thread.is_some();
    match (profile, last.kind) {
        (ProfileArg::Auto, _)
        | (ProfileArg::Native, RecordKind::Document)
        | (ProfileArg::Observed, RecordKind::Observed) => true,
        (ProfileArg::Native, RecordKind::Transcript) => is_native,
        (ProfileArg::Rye, RecordKind::Transcript) => !is_native,
        _ => false,
    }
}

/// Where `path` itself lies: a link at its end is not followed.
fn place_itself(examiner: &Examiner, path: &Path) -> String {
    let Some(name) = path.file_name() else {
        return examiner.host.place(path);
    };
    let folder = directory_of(path);
    let real = examiner.host.fs.canonicalize(folder);
    path_text(&real.unwrap_or_else(|_| folder.to_owned()).join(name))
}

fn displaced(
    examiner: &Examiner,
    path: &Path,
    report: &Report,
    records: &[RecordId],
) -> Result<Option<StoredHead>, Failure> {
    let Some(record) = report.record else {
        return Ok(None);
    };
    let kind = kind_of(report);
    // Their files are replaced in good faith: a document by the version of a colleague, a
    // transcript that Rye signs by that of its next run. The record of another host says nothing.
    let is_replaced = kind == RecordKind::Document || report.profile == "rye";
    let last = examine::displaced(&examiner.host, path, kind, &record, records)?;
    // Asked of few: most records lie where they were sealed.
    if last.is_some() && is_replaced && examiner.host.heads.fetch(&record)?.is_none() {
        return Ok(None);
    }
    Ok(last)
}

fn kind_of(report: &Report) -> RecordKind {
    match (report.profile, report.format) {
        ("observed", _) => RecordKind::Observed,
        (_, "scroll") => RecordKind::Scroll,
        (_, "ledger") => RecordKind::Ledger,
        (_, "lineage") => RecordKind::Lineage,
        (_, "transcript") => RecordKind::Transcript,
        _ => RecordKind::Document,
    }
}

fn displacing(examiner: &Examiner, path: &Path, last: &StoredHead) -> Report {
    let message = format!(
        "this host sealed it here up to seal {}; something else lies in its place, and it is nowhere in what was looked at",
        last.head.seq
    );
    report_missing(examiner, &shown(path), last, message)
}

/// A report of a record that is not there; `path` is where it lay, as it is shown.
pub(super) fn report_missing(
    examiner: &Examiner,
    path: &str,
    last: &StoredHead,
    message: String,
) -> Report {
    let mut report = report_of(examiner, path, last);
    report.hold_because(Verdict::Missing, Finding::error("record_missing", message));
    report
}

/// A report of what is known of a record whose file is not looked at.
pub(super) fn report_of(examiner: &Examiner, path: &str, last: &StoredHead) -> Report {
    let (format, profile) = match (last.kind, &last.thread) {
        (RecordKind::Observed, _) => ("log", "observed"),
        (RecordKind::Scroll, _) => ("scroll", "scroll-v0.1"),
        (RecordKind::Ledger, _) => ("ledger", "abstractruntime"),
        (RecordKind::Lineage, _) => ("lineage", "threadseal"),
        (RecordKind::Transcript, Some(_)) => ("transcript", "native"),
        (RecordKind::Transcript, None) => ("transcript", "rye"),
        (RecordKind::Document, _) if path.ends_with(".json") => ("json", "native"),
        (RecordKind::Document, _) => ("text", "native"),
    };
    let mut report = Report::begin(format, profile);
    report.path = path.to_owned();
    report.trust = Some(examiner.asked.trust.digest());
    report.record = Some(last.head.record);
    report
}
