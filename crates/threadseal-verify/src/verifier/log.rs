//! Logs that other programs write, and the seal files beside them.

use super::as_of;
use super::context;
use super::context::{Context, shown};
use super::document;
use super::file_result::FileResult;
use crate::error::VerifyError;
use std::path::{Path, PathBuf};
use threadseal_core::report::{Finding, FindingCode, Format, Profile, Report, Verdict};
use threadseal_formats::transcript::VerifyOptions;
use threadseal_formats::transcript::observed::{self, SealFile};
use threadseal_store::examine::{self, Stripped};
use threadseal_store::heads::RecordKind;
use threadseal_store::moved::{self, SealedLines};
use threadseal_store::observer::{self, seal_path};
use threadseal_store::read::RegularFile;

/// What is found of seals whose log is gone.
pub(super) const LOG_MISSING: FindingCode = FindingCode::LogMissing;

/// Verifies a file against the seals in `seal_file`.
///
/// # Errors
/// When either cannot be read or is too large, or the heads are damaged.
pub(super) fn sealed(
    context: &Context,
    file: &RegularFile,
    seal_file: &Path,
) -> Result<Report, VerifyError> {
    let request = &context.request;
    let bytes = observer::read_seal_file(&context.host, seal_file)?.unwrap_or_default();
    let seals = match observed::parse(&bytes) {
        Ok(seals) => seals,
        Err(finding) => {
            let mut report = Report::begin(Format::Log, Profile::Observed);
            report.trust = Some(request.trust.digest());
            report.stats.bytes = file.size();
            report.downgrade(Verdict::Malformed, finding);
            hold_if_stripped(context, file, &mut report)?;
            return Ok(report);
        }
    };
    let heads = Some(&*context.host.heads);
    let mut known = examine::known(
        heads,
        Some(&seals.record),
        request.expect_head,
        request.exact_head,
    )?;
    known.expect = as_of::without_later(context, known.expect);
    let mut options = VerifyOptions {
        trust: &request.trust,
        now: context.now,
        held_since: None,
        thread: request.thread.as_ref(),
    };
    let mut report = examine::observed(file, &seals, &known.expect, &options, &context.tick())?;
    options.held_since = context::held_since(&known, &report);
    if options.held_since.is_some() && context::has_revoked_signer(&report) {
        report = examine::observed(file, &seals, &known.expect, &options, &|_| {})?;
    }
    if report.verdict.is_evidence() {
        if let Some(moved) = moved_from(context, file.path(), &seals)? {
            return Ok(rotated(context, file, &moved));
        }
        let place = known
            .stored
            .as_ref()
            .and_then(|known| known.path_hint.as_deref());
        if let (Some(sealed), Some(place)) = (SealedLines::of_seals(&seals), place)
            && sealed.cover_another(&context.host, file, Path::new(place))?
        {
            return Ok(rotated(context, file, Path::new(place)));
        }
    }
    if let (None, Some(known)) = (seals.last(), &known.stored) {
        let message = format!(
            "this host sealed it up to seal {}, and its seal file has no seal",
            known.head.seq
        );
        report.downgrade(
            Verdict::Tampered,
            Finding::error(FindingCode::SealsGone, message),
        );
    }
    // Seals that this host never made may be in the place of those it did.
    if known.stored.is_none() {
        hold_if_stripped(context, file, &mut report)?;
    }
    Ok(report)
}

/// The path of the log that `seals` cover, if it was moved, and `log` is another one or is gone.
fn moved_from(
    context: &Context,
    log: &Path,
    seals: &SealFile,
) -> Result<Option<PathBuf>, VerifyError> {
    match SealedLines::of_seals(seals) {
        Some(sealed) => Ok(sealed.moved_from(&context.host, log)?),
        None => Ok(None),
    }
}

/// A log that began in the place of another one, whose seals are still beside it.
fn rotated(context: &Context, file: &RegularFile, moved: &Path) -> Report {
    let mut report = Report::begin(Format::Log, Profile::None);
    report.trust = Some(context.request.trust.digest());
    report.stats.bytes = file.size();
    let message = format!(
        "the seals beside this log cover another one, {}; nothing seals this log",
        shown(moved)
    );
    report.downgrade(
        Verdict::Unsigned,
        Finding::note(FindingCode::LogRotated, message),
    );
    report
}

/// The report of a log that was moved without its seals, by the seals in its earlier place.
fn moved_here(
    context: &Context,
    file: &RegularFile,
    stripped: &Stripped,
) -> Result<Option<Report>, VerifyError> {
    let Some(earlier) = &stripped.sealed_at else {
        return Ok(None);
    };
    if let Some(report) = document::moved_here(context, file, earlier)? {
        return Ok(Some(report));
    }
    let record = &stripped.record;
    let Some(left) = moved::left_seals(&context.host, record, Some(earlier), file.path())? else {
        return Ok(None);
    };
    let seal_file = seal_path(&left);
    let mut report = sealed(context, file, &seal_file)?;
    let message = format!(
        "the log was moved here; its seals are {}",
        shown(&seal_file)
    );
    report.find(Finding::note(FindingCode::SealsElsewhere, message));
    Ok(Some(report))
}

/// A log without seals.
pub(super) fn unsealed(context: &Context, file: &RegularFile) -> Report {
    let mut report = Report::begin(Format::Log, Profile::None);
    report.trust = Some(context.request.trust.digest());
    report.stats.bytes = file.size();
    report.downgrade(
        Verdict::Unsigned,
        Finding::note(FindingCode::Unsigned, "nothing seals this log"),
    );
    context.advance(file.size());
    report
}

/// Holds it against a file that carries no seal, and has none beside it, that this host once sealed
/// it.
///
/// # Errors
/// As [`hold_if_stripped`].
pub(super) fn hold_if_bare(
    context: &Context,
    file: &RegularFile,
    report: &mut Report,
) -> Result<(), VerifyError> {
    let seals = seal_path(file.path());
    if report.verdict != Verdict::Unsigned || context.exists(&seals) {
        return Ok(());
    }
    hold_if_stripped(context, file, report)?;
    // A program that seals makes the seals visible before their head. So the seals of a known head
    // are visible now, also if they were made after the first look.
    if report.verdict != Verdict::Unsigned && context.exists(&seals) {
        *report = sealed(context, file, &seals)?;
    }
    Ok(())
}

/// Holds it against a file with the seal of a document, which this host did not make, that this host
/// once sealed it as a log or a transcript. A document is replaced in good faith.
///
/// # Errors
/// As [`hold_if_stripped`].
pub(super) fn hold_if_log(
    context: &Context,
    file: &RegularFile,
    report: &mut Report,
) -> Result<(), VerifyError> {
    let Some(stripped) = examine::stripped_of(file, &context.host)? else {
        return Ok(());
    };
    match context.host.heads.fetch(&stripped.record)? {
        Some(known) if known.kind != RecordKind::Document => {
            hold_if_stripped(context, file, report)
        }
        _ => Ok(()),
    }
}

/// Holds it against a file without seals that this host once sealed it.
///
/// # Errors
/// When the file cannot be read or the heads are damaged.
pub(super) fn hold_if_stripped(
    context: &Context,
    file: &RegularFile,
    report: &mut Report,
) -> Result<(), VerifyError> {
    let Some(stripped) = examine::stripped_of(file, &context.host)? else {
        return Ok(());
    };
    let record = stripped.record;
    if !stripped.certain
        && let Some(moved) = moved_here(context, file, &stripped)?
    {
        *report = moved;
    } else if stripped.certain {
        let message = format!("this host sealed it as record {record}, and those seals are gone");
        report.downgrade(
            Verdict::Tampered,
            Finding::error(FindingCode::SealsGone, message),
        );
    } else {
        report.find(sealed_elsewhere(context, file, &stripped)?);
    }
    Ok(())
}

/// Another place has the record that a file begins like. If no file is there, this one may be the
/// record after a change.
fn sealed_elsewhere(
    context: &Context,
    file: &RegularFile,
    stripped: &Stripped,
) -> Result<Finding, VerifyError> {
    let (host, record) = (&context.host, stripped.record);
    let has_ended = host.heads.pruned(&record)?.is_some();
    let left = match &stripped.sealed_at {
        Some(place) if !has_ended && moved::has_left(host, &record, place)? => Some(place)
            .filter(|place| !moved::is_another(host, file.path(), place).unwrap_or(false)),
        _ => None,
    };
    let Some(place) = left else {
        let message =
            format!("it has a first line of record {record}, which this host sealed elsewhere");
        return Ok(Finding::warning(FindingCode::SealsElsewhere, message));
    };
    let message = format!(
        "it has a first line of record {record}, which is no longer at {}, and no seal covers this file",
        shown(place)
    );
    Ok(Finding::warning(FindingCode::SealsGone, message))
}

/// A seal file without its log: the log is verified instead, or is missing.
///
/// # Errors
/// As [`sealed`].
pub(super) fn sidecar(
    context: &Context,
    seal_file: &Path,
    named: bool,
) -> Result<FileResult, VerifyError> {
    let log: PathBuf = seal_file.with_extension("");
    if let Some(seal) = document::seal_beside(context, seal_file)? {
        return document::sidecar(context, seal_file, &seal, named);
    }
    // A walk follows no links: the log that a link leads to is verified here, with its seals.
    let walked = context.is_walked(&log);
    if walked && !named {
        return Ok(FileResult::Elsewhere);
    }
    if context.is_file(&log) {
        let file = threadseal_store::read::open_regular(&*context.host.fs, &log)?;
        let mut reports = vec![sealed(context, &file, seal_file)?];
        reports[0].path = shown(&log);
        super::displacement::hold(context, &log, &mut reports)?;
        return Ok(FileResult::Reports(reports));
    }
    let bytes = observer::read_seal_file(&context.host, seal_file)?.unwrap_or_default();
    let mut report = Report::begin(Format::Log, Profile::Observed);
    report.path = shown(&log);
    report.trust = Some(context.request.trust.digest());
    report.record = match observed::parse(&bytes) {
        Ok(seals) => Some(seals.record),
        // Other programs use the ending, too.
        Err(_) if !named => return Ok(FileResult::PassedOver),
        Err(finding) => return Err(VerifyError::refused(finding.message).about(seal_file)),
    };
    if let Ok(seals) = observed::parse(&bytes)
        && let Some(moved) = moved_from(context, &log, &seals)?
    {
        // A walk also meets the moved log, which finds its seals here.
        let walked = context.is_walked(&moved);
        if walked && !named {
            return Ok(FileResult::Elsewhere);
        }
        let file = threadseal_store::read::open_regular(&*context.host.fs, &moved)?;
        let mut report = sealed(context, &file, seal_file)?;
        report.path = shown(&moved);
        return Ok(FileResult::Reports(vec![report]));
    }
    let message = "its seals are here, but the log is missing";
    report.downgrade(Verdict::Missing, Finding::error(LOG_MISSING, message));
    Ok(FileResult::Reports(vec![report]))
}
