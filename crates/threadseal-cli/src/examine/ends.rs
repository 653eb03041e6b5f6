//! Step ledgers of threads that ended.
//!
//! ```text
//! <thread_id>/transcript.jsonl  verified, terminal event: ledger {run_id, count, head} ─► <thread_id>/ledger_<run_id>.jsonl ends there
//! ```
//! Where a verified record seals the end of its ledger, nobody needs a head of that from elsewhere: who was not there gets both
//! in one folder. That a ledger does not end so, `companions` tells.

use super::{Asked, Examiner, Seen, companions, reports_of};
use crate::exit::Failure;
use crate::seal_log::HomeLog;
use crate::walk::Candidate;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use threadseal_core::record::{ExpectedHead, Head};
use threadseal_core::report::Verdict;
use threadseal_store::read::open_regular;

/// Looks once more at each ledger of which only that is unknown whether it is whole, where the record beside it says so.
///
/// # Errors
/// When a file cannot be read.
pub(super) fn hold(
    examiner: &Examiner,
    candidates: &[Candidate],
    seen: &mut [Seen],
) -> Result<(), Failure> {
    // Under a log that went back a record that has ended may be older than what went on from it, and its ledger with it.
    let vouches = match &examiner.log {
        HomeLog::Never => true,
        HomeLog::There(log) => log.standing().vouches(),
        HomeLog::Missing(_) | HomeLog::Damaged(_) => false,
    };
    if !vouches || examiner.asked.expect_head.is_some() {
        return Ok(());
    }
    let pairs = candidates.par_iter().zip(seen.par_iter());
    let ends = pairs.map(|(candidate, seen)| end_named(examiner, candidate, seen));
    let ends: Vec<Option<(PathBuf, Head)>> = ends.collect::<Result<_, Failure>>()?;
    let ends: BTreeMap<PathBuf, Head> = ends.into_iter().flatten().collect();
    let pairs = candidates.par_iter().zip(seen.par_iter_mut());
    pairs.for_each(|(candidate, seen)| {
        let is_open = |verdict| matches!(verdict, Verdict::Open | Verdict::Consistent);
        let reports = reports_of(seen);
        if let Some(end) = ends.get(&candidate.path)
            && reports.iter().all(|report| is_open(report.verdict))
        {
            let asked = Asked {
                expect_head: Some(ExpectedHead::Head(*end)),
                exact_head: true,
                ..examiner.asked.clone()
            };
            *seen = examiner.with(asked).examine(candidate);
        }
    });
    Ok(())
}

/// The ledger of which the transcript `candidate` seals the end, and where that is.
fn end_named(
    examiner: &Examiner,
    candidate: &Candidate,
    seen: &Seen,
) -> Result<Option<(PathBuf, Head)>, Failure> {
    let whole = |report: &&threadseal_core::report::Report| {
        report.verdict == Verdict::Verified
            && report.format == "transcript"
            && report.profile == "native"
    };
    let head = reports_of(seen).iter().find(whole);
    let Some(head) = head.and_then(|report| report.head) else {
        return Ok(None);
    };
    let file = open_regular(&*examiner.host.fs, &candidate.path)?;
    companions::ledger_end(&file, head.size)
}
