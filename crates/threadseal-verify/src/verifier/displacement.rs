//! A record in the place of another that this host sealed there.
//!
//! Records move and are copied, so that a place never proves which record a file is. But where this
//! host sealed one record and finds another that it did not seal there, the one was put over the
//! other: each may be whole, and a reader of the place gets a wrong story.

use super::context::{Context, shown};
use crate::error::VerifyError;
use crate::request::RequestedProfile;
use std::path::Path;
use threadseal_core::record::RecordId;
use threadseal_core::report::{Finding, FindingCode, Format, Profile, Report, Verdict};
use threadseal_store::examine;
use threadseal_store::heads::{RecordKind, StoredHead};
use threadseal_store::moved::SealedLines;
use threadseal_store::sys::place_itself as place_itself_on;

/// The code in reports of records that are in the place of another.
const PLACE_OF_ANOTHER: FindingCode = FindingCode::PlaceOfAnother;

/// Downgrades each record of the file at `path` that is in the place of another.
///
/// # Errors
/// When the heads are damaged.
pub(super) fn hold(
    context: &Context,
    path: &Path,
    reports: &mut [Report],
) -> Result<(), VerifyError> {
    let records: Vec<RecordId> = reports.iter().filter_map(|report| report.record).collect();
    for report in reports {
        if let Some(last) = displaced(context, path, report, &records)? {
            let message = format!(
                "this host sealed record {} here, and not this one; if this one was put here on purpose, move it to a place of its own",
                last.head.record
            );
            report.downgrade(Verdict::Foreign, Finding::error(PLACE_OF_ANOTHER, message));
        }
    }
    Ok(())
}

/// A report of the record that was at `path` before, where one of `reports` displaced it.
///
/// # Errors
/// When the heads are damaged.
pub(super) fn missing(
    context: &Context,
    path: &Path,
    reports: &[Report],
) -> Result<Option<Report>, VerifyError> {
    let records: Vec<RecordId> = reports.iter().filter_map(|report| report.record).collect();
    let says_so = |report: &&Report| {
        let mut findings = report.findings.iter();
        findings.any(|found| found.code == PLACE_OF_ANOTHER)
    };
    for report in reports.iter().filter(says_so) {
        if let Some(last) = displaced(context, path, report, &records)? {
            return Ok(Some(displacing(context, path, &last)));
        }
    }
    Ok(None)
}

/// A report of each record that this host sealed at `path`, where the file is no record now.
///
/// # Errors
/// When the heads are damaged.
pub(super) fn overwritten(context: &Context, path: &Path) -> Result<Vec<Report>, VerifyError> {
    let mut gone = Vec::new();
    let (led_to, own) = (context.host.place(path), place_itself(context, path));
    let mut last = sealed_at(context, &led_to)?;
    if own != led_to {
        let logs = sealed_at(context, &own)?.into_iter();
        last.extend(logs.filter(|last| last.kind == RecordKind::Observed));
    }
    for last in last {
        let sealed = SealedLines::of_known(&last).filter(|_| last.kind == RecordKind::Observed);
        let moved = match sealed {
            Some(sealed) => sealed.moved_from(&context.host, path)?,
            None => None,
        };
        if moved.is_none() {
            gone.push(displacing(context, path, &last));
        }
    }
    Ok(gone)
}

/// The records that this host sealed last in a place, one of each kind that is asked for.
pub(super) fn sealed_at(context: &Context, place: &str) -> Result<Vec<StoredHead>, VerifyError> {
    let find = |kind| context.host.heads.find_by_place(kind, place).transpose();
    let found: Result<Vec<StoredHead>, _> = RecordKind::ALL.into_iter().filter_map(find).collect();
    let profile = context.request.profile;
    let found = found?.into_iter();
    Ok(found.filter(|last| is_asked_for(profile, last)).collect())
}

/// Would a report of it be made by this profile? What is not looked at is not missed.
fn is_asked_for(profile: RequestedProfile, last: &StoredHead) -> bool {
    let is_native = last.thread.is_some();
    match (profile, last.kind) {
        (RequestedProfile::Auto, _)
        | (RequestedProfile::Native, RecordKind::Document)
        | (RequestedProfile::Observed, RecordKind::Observed) => true,
        (RequestedProfile::Native, RecordKind::Transcript) => is_native,
        (RequestedProfile::Rye, RecordKind::Transcript) => !is_native,
        _ => false,
    }
}

/// Where `path` itself is: a link at its end is not followed.
pub(super) fn place_itself(context: &Context, path: &Path) -> String {
    match path.file_name() {
        Some(_) => place_itself_on(&*context.host.fs, path),
        None => context.host.place(path),
    }
}

fn displaced(
    context: &Context,
    path: &Path,
    report: &Report,
    records: &[RecordId],
) -> Result<Option<StoredHead>, VerifyError> {
    let Some(record) = report.record else {
        return Ok(None);
    };
    let kind = kind_of(report);
    // Their files are replaced in good faith: a document by the version of a colleague, a
    // transcript that Rye signs by that of its next run. The record of another host is no evidence.
    let is_replaced = kind == RecordKind::Document || report.profile == Profile::Rye;
    let last = examine::displaced(&context.host, path, kind, &record, records)?;
    // VerifyRequest of few: most records lie where they were sealed.
    if last.is_some() && is_replaced && context.host.heads.fetch(&record)?.is_none() {
        return Ok(None);
    }
    Ok(last)
}

pub(super) fn kind_of(report: &Report) -> RecordKind {
    match (report.profile, report.format) {
        (Profile::Observed, _) => RecordKind::Observed,
        (_, Format::Scroll) => RecordKind::Scroll,
        (_, Format::Ledger) => RecordKind::Ledger,
        (_, Format::Lineage) => RecordKind::Lineage,
        (_, Format::Transcript) => RecordKind::Transcript,
        _ => RecordKind::Document,
    }
}

pub(super) fn displacing(context: &Context, path: &Path, last: &StoredHead) -> Report {
    let message = format!(
        "this host sealed it here up to seal {}; something else is in its place, and no searched path contains it",
        last.head.seq
    );
    report_missing(context, &shown(path), last, message)
}

/// A report of a record that is not there; `path` is its earlier place, as it is shown.
pub(crate) fn report_missing(
    context: &Context,
    path: &str,
    last: &StoredHead,
    message: String,
) -> Report {
    let mut report = report_of(context, path, last);
    report.downgrade(
        Verdict::Missing,
        Finding::error(FindingCode::RecordMissing, message),
    );
    report
}

/// A report of what is known of a record whose file is not looked at.
pub(super) fn report_of(context: &Context, path: &str, last: &StoredHead) -> Report {
    let (format, profile) = match (last.kind, &last.thread) {
        (RecordKind::Observed, _) => (Format::Log, Profile::Observed),
        (RecordKind::Scroll, _) => (Format::Scroll, Profile::ScrollV01),
        (RecordKind::Ledger, _) => (Format::Ledger, Profile::AbstractRuntime),
        (RecordKind::Lineage, _) => (Format::Lineage, Profile::ThreadSeal),
        (RecordKind::Transcript, Some(_)) => (Format::Transcript, Profile::Native),
        (RecordKind::Transcript, None) => (Format::Transcript, Profile::Rye),
        (RecordKind::Document, _) if path.ends_with(".json") => (Format::Json, Profile::Native),
        (RecordKind::Document, _) => (Format::Text, Profile::Native),
    };
    let mut report = Report::begin(format, profile);
    report.path = path.to_owned();
    report.trust = Some(context.request.trust.digest());
    report.record = Some(last.head.record);
    report
}
