//! Logs that other programs write, and the seal files beside them.

use super::{Examiner, Seen, shown};
use crate::exit::Failure;
use std::path::{Path, PathBuf};
use threadseal_core::report::{Finding, Report, Verdict};
use threadseal_formats::transcript::VerifyOptions;
use threadseal_formats::transcript::observed;
use threadseal_store::examine;
use threadseal_store::observer;
use threadseal_store::read::RegularFile;

/// What is found of seals whose log is gone.
pub(super) const LOG_MISSING: &str = "log_missing";

/// Verifies a file against the seals in `seal_file`.
///
/// # Errors
/// When either cannot be read or is too large, or the heads are damaged.
pub(super) fn sealed(
    examiner: &Examiner,
    file: &RegularFile,
    seal_file: &Path,
) -> Result<Report, Failure> {
    let asked = &examiner.asked;
    let bytes = observer::read_seal_file(&examiner.host, seal_file)?.unwrap_or_default();
    let seals = match observed::parse(&bytes) {
        Ok(seals) => seals,
        Err(finding) => {
            let mut report = Report::begin("log", "observed");
            report.trust = Some(asked.trust.digest());
            report.stats.bytes = file.size();
            report.hold_because(Verdict::Malformed, finding);
            hold_if_stripped(examiner, file, &mut report)?;
            return Ok(report);
        }
    };
    let heads = Some(&*examiner.host.heads);
    let mut known = examine::known(
        heads,
        Some(&seals.record),
        asked.expect_head,
        asked.exact_head,
    )?;
    known.expect = examiner.without_later(known.expect);
    let mut options = VerifyOptions {
        trust: &asked.trust,
        now: examiner.now,
        held_since: None,
        thread: asked.thread.as_ref(),
    };
    let mut report = examine::observed(file, &seals, &known.expect, &options, &examiner.tick())?;
    options.held_since = Examiner::held_since(&known, &report);
    if options.held_since.is_some() && super::has_revoked_signer(&report) {
        report = examine::observed(file, &seals, &known.expect, &options, &|_| {})?;
    }
    // Seals that this host never made may stand in the place of those it did.
    if known.stored.is_none() {
        hold_if_stripped(examiner, file, &mut report)?;
    }
    Ok(report)
}

/// A log without seals.
pub(super) fn unsealed(examiner: &Examiner, file: &RegularFile) -> Report {
    let mut report = Report::begin("log", "none");
    report.trust = Some(examiner.asked.trust.digest());
    report.stats.bytes = file.size();
    report.hold_because(
        Verdict::Unsigned,
        Finding::note("unsigned", "nothing seals this log"),
    );
    examiner.bar.inc(file.size());
    report
}

/// Holds it against a file without seals that this host once sealed it.
///
/// # Errors
/// When the file cannot be read or the heads are damaged.
pub(super) fn hold_if_stripped(
    examiner: &Examiner,
    file: &RegularFile,
    report: &mut Report,
) -> Result<(), Failure> {
    let Some(stripped) = examine::stripped_of(file, &examiner.host)? else {
        return Ok(());
    };
    let record = stripped.record;
    if stripped.certain {
        let message = format!("this host sealed it as record {record}, and those seals are gone");
        report.hold_because(Verdict::Tampered, Finding::error("seals_gone", message));
    } else {
        let message = format!("it begins like record {record}, which this host sealed elsewhere");
        report.find(Finding::warning("seals_elsewhere", message));
    }
    Ok(())
}

/// A seal file by itself: its log is looked at instead, or is missing.
///
/// # Errors
/// As [`sealed`].
pub(super) fn sidecar(examiner: &Examiner, seal_file: &Path, named: bool) -> Result<Seen, Failure> {
    let log: PathBuf = seal_file.with_extension("");
    // A walk follows no links: a log behind one is looked at here, with its seals.
    let walked = examiner.is_walked(&log);
    if walked && !named {
        return Ok(Seen::Elsewhere);
    }
    if examiner.is_file(&log) {
        let file = threadseal_store::read::open_regular(&*examiner.host.fs, &log)?;
        let mut reports = vec![sealed(examiner, &file, seal_file)?];
        reports[0].path = shown(&log);
        super::place::hold(examiner, &log, &mut reports)?;
        return Ok(Seen::Reports(reports));
    }
    let bytes = observer::read_seal_file(&examiner.host, seal_file)?.unwrap_or_default();
    let mut report = Report::begin("log", "observed");
    report.path = shown(&log);
    report.trust = Some(examiner.asked.trust.digest());
    report.record = match observed::parse(&bytes) {
        Ok(seals) => Some(seals.record),
        // Other programs use the ending, too.
        Err(_) if !named => return Ok(Seen::PassedOver),
        Err(finding) => return Err(Failure::new(finding.message).about(seal_file)),
    };
    let message = "its seals are here and the log is not";
    report.hold_because(Verdict::Missing, Finding::error(LOG_MISSING, message));
    Ok(Seen::Reports(vec![report]))
}
