//! The source of a conversion: verified by the home's trust, then converted from the bytes that were verified.

use crate::context::Context;
use crate::exit::{Exit, Failure, complain};
use crate::output::Out;
use crate::progress::Bar;
use crate::render::clean::Clean;
use crate::render::json::VerifyOutput;
use crate::verifying;
use std::path::Path;
use threadseal_core::report::{Report, combined_exit_code};
#[cfg(feature = "convert")]
use threadseal_verify::Verifier;
use threadseal_verify::request::RequestedProfile;
use threadseal_verify::trust_locality::Locality;
use threadseal_verify::{JudgedSource, VerifyRequest};

/// Reads and verifies the file at `path`, of at most `limit` bytes.
///
/// # Errors
/// When it cannot be read, or there is no verdict on it.
#[cfg(feature = "convert")]
pub(super) fn read(path: &Path, limit: usize, context: &Context) -> Result<JudgedSource, Failure> {
    read_by(&verifying::verifier_of_home(context)?, path, limit)
}

/// The file at `path` as the seals beside it show it: whatever it holds is not judged itself.
///
/// # Errors
/// As [`read`].
pub(super) fn by_seals(path: &Path, context: &Context) -> Result<JudgedSource, Failure> {
    let locality = Locality::to(&[], false, &context.fs);
    let request = VerifyRequest {
        profile: RequestedProfile::Observed,
        ..VerifyRequest::by(verifying::gather(&[], &[], &locality, context)?)
    };
    Ok(verifying::verifier(request, &Bar::hidden(), context)?.judge_source(path)?)
}

/// As [`read`], by a verifier with another request.
///
/// # Errors
/// As [`read`].
#[cfg(feature = "convert")]
pub(super) fn read_by(
    verifier: &Verifier,
    path: &Path,
    limit: usize,
) -> Result<JudgedSource, Failure> {
    Ok(verifier.read_source(path, limit)?)
}

/// Why nothing is made of a source: there is evidence against it.
pub(super) fn why_not(report: &Report) -> String {
    let mut findings: Vec<_> = report.findings.iter().collect();
    findings.sort_by_key(|finding| finding.severity);
    let why = findings.first().map(|finding| finding.message.as_str());
    format!(
        "{} is {}: {}; nothing was written; hint: threadseal verify {}",
        Clean(&report.path),
        report.verdict,
        Clean(why.unwrap_or("it does not verify")),
        Clean(&report.path)
    )
}

/// Reports the evidence against a source; the exit is that of all verdicts on it.
pub(super) fn refuse(reports: &[Report], worst: &Report, context: &Context, out: &mut Out) -> Exit {
    let verdicts: Vec<_> = reports.iter().map(|report| report.verdict).collect();
    let exit = Exit::from_code(combined_exit_code(&verdicts, 0));
    if context.json {
        out.json_line(&VerifyOutput::new(reports, &[], 0, exit.code()));
    }
    complain(&why_not(worst));
    exit
}
