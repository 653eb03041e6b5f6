//! Logs that other programs write, and the seal files beside them.

use super::as_of;
use super::context;
use super::context::{Context, shown};
use super::file_result::FileResult;
use crate::error::VerifyError;
use std::path::{Path, PathBuf};
use threadseal_core::report::{Finding, FindingCode, Format, Profile, Report, Verdict};
use threadseal_formats::transcript::VerifyOptions;
use threadseal_formats::transcript::observed;
use threadseal_store::examine;
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
    // Seals that this host never made may stand in the place of those it did.
    if known.stored.is_none() {
        hold_if_stripped(context, file, &mut report)?;
    }
    Ok(report)
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
    if report.verdict != Verdict::Unsigned || context.exists(&seal_path(file.path())) {
        return Ok(());
    }
    hold_if_stripped(context, file, report)
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
    if stripped.certain {
        let message = format!("this host sealed it as record {record}, and those seals are gone");
        report.downgrade(
            Verdict::Tampered,
            Finding::error(FindingCode::SealsGone, message),
        );
    } else {
        let message = format!("it begins like record {record}, which this host sealed elsewhere");
        report.find(Finding::warning(FindingCode::SealsElsewhere, message));
    }
    Ok(())
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
    let message = "its seals are here, but the log is missing";
    report.downgrade(Verdict::Missing, Finding::error(LOG_MISSING, message));
    Ok(FileResult::Reports(vec![report]))
}
