//! Step ledgers of threads that ended.
//!
//! ```text
//! <thread_id>/transcript.jsonl  verified, terminal event: ledger {run_id, count, head} ─► <thread_id>/ledger_<run_id>.jsonl ends there
//! ```
//! Where a verified record seals the end of its ledger, no head of the ledger is needed from elsewhere: a reader gets both in one folder.
//! A ledger with another end is reported by `companions`.

use super::companions;
use super::context::Context;
use super::file;
use super::file_result::FileResult;
use crate::error::VerifyError;
use crate::inputs::Candidate;
use crate::request::VerifyRequest;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use threadseal_core::record::{ExpectedHead, Head};
use threadseal_core::report::{FindingCode, Format, Profile, Report, Verdict};

/// Verifies each ledger again whose only gap is its end, where the record beside it seals that end.
///
/// # Errors
/// When a file cannot be read.
pub(super) fn hold(
    context: &Context,
    candidates: &[Candidate],
    seen: &mut [FileResult],
) -> Result<(), VerifyError> {
    // Under a log that went back a record that has ended may be older than what went on from it, and its ledger with it.
    if !context.log.vouches() || context.request.expect_head.is_some() {
        return Ok(());
    }
    let pairs = candidates.par_iter().zip(seen.par_iter());
    let ends = pairs.map(|(candidate, seen)| end_named(context, candidate, seen));
    let ends: Vec<Option<(PathBuf, Head)>> = ends.collect::<Result<_, VerifyError>>()?;
    let ends: BTreeMap<PathBuf, Head> = ends.into_iter().flatten().collect();
    let pairs = candidates.par_iter().zip(seen.par_iter_mut());
    pairs.for_each(|(candidate, seen)| {
        let reports = seen.reports();
        if let Some(end) = ends.get(&candidate.path)
            && reports.iter().all(lacks_its_end)
        {
            let request = VerifyRequest {
                expect_head: Some(ExpectedHead::Head(*end)),
                exact_head: true,
                ..context.request.clone()
            };
            *seen = file::verify_candidate(&context.with(request), candidate);
        }
    });
    Ok(())
}

/// Is the end of a ledger all that is unknown, or known to be gone by its index?
fn lacks_its_end(report: &Report) -> bool {
    let mut findings = report.findings.iter();
    matches!(report.verdict, Verdict::Open | Verdict::Consistent)
        || findings.any(|found| found.code == FindingCode::RecordsLost)
}

/// The ledger of which the transcript `candidate` seals the end, and where that is.
fn end_named(
    context: &Context,
    candidate: &Candidate,
    seen: &FileResult,
) -> Result<Option<(PathBuf, Head)>, VerifyError> {
    let whole = |report: &&Report| {
        report.verdict == Verdict::Verified
            && report.format == Format::Transcript
            && report.profile == Profile::Native
    };
    let head = seen.reports().iter().find(whole);
    let Some(head) = head.and_then(|report| report.head) else {
        return Ok(None);
    };
    let file = context.stores.open(&*context.host.fs, &candidate.path)?;
    companions::ledger_end(&file, head.size)
}
