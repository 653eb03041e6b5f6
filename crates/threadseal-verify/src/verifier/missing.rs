//! What is not where it should be: records that something else displaced, and those of which others tell.
//!
//! ```text
//! a file that is no record, a folder, a pipe, a link ─► what this host sealed in that place ─┐
//! a record in the place of another ───────────────────► the other one ───────────────────────┼─► missing, unless it was
//! what is left of a thread, its kin ──────────────────► its record ──────────────────────────┘   seen elsewhere or pruned
//! ```

use super::companions;
use super::context::{Context, shown};
use super::displacement;
use super::file;
use super::file_result::FileResult;
use super::ledger_ends;
use super::pruned;
use super::thread_links;
use crate::error::VerifyError;
use crate::inputs::Candidate;
use crate::output::PathError;
use crate::request::RequestedProfile;
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use threadseal_core::record::RecordId;
use threadseal_core::report::{Finding, FindingCode, Profile, Report, Verdict};
use threadseal_store::heads::StoredHead;
use threadseal_store::moved::was_changed;

/// The records that something else displaced from the places of `candidates`, of which this was `seen`, or from
/// those of `others`, which are no files; those that were seen elsewhere, or were pruned, are not missing. And the
/// paths whose earlier record is unknown. The result of a file gets better where another file proves more of it.
pub(super) fn missing(
    context: &Context,
    candidates: &[Candidate],
    seen: &mut [FileResult],
    others: &[PathBuf],
) -> (Vec<Report>, Vec<PathError>) {
    let ends = ledger_ends::hold(context, candidates, seen);
    let (gone, mut unread) = displaced(context, candidates, seen, others);
    unread.extend(ends.err().map(|failure| PathError::of(None, &failure)));
    let mut all = match pruned::explain_pruned(context, gone) {
        Ok(gone) => gone,
        Err(failure) => {
            unread.push(PathError::of(None, &failure));
            Vec::new()
        }
    };
    // Also where this host knows no head: the files left of a thread show that it had a record.
    all.extend(companions::left(context, candidates, seen));
    match thread_links(context, candidates, seen) {
        Ok(links) => all.extend(links),
        Err(failure) => unread.push(PathError::of(None, &failure)),
    }
    (all, unread)
}

fn displaced(
    context: &Context,
    candidates: &[Candidate],
    seen: &[FileResult],
    others: &[PathBuf],
) -> (Vec<Report>, Vec<PathError>) {
    let gone = |(candidate, seen): (&Candidate, &FileResult)| {
        let (path, reports) = (&candidate.path, seen.reports());
        let gone = match seen {
            // Its own error is reported already.
            FileResult::Failed(_) => Ok(Vec::new()),
            _ if reports.iter().all(|report| report.record.is_none()) => {
                displacement::overwritten(context, path)
            }
            _ => displacement::missing(context, path, reports).map(Vec::from_iter),
        };
        gone.map_err(|failure| PathError::of(Some(path), &failure))
    };
    let replaced = |path: &PathBuf| {
        let gone = replaced(context, path);
        gone.map_err(|failure| PathError::of(Some(path), &failure))
    };
    let pairs = candidates.par_iter().zip(seen.par_iter());
    let all = pairs.map(gone).chain(others.par_iter().map(replaced));
    let all: Vec<Result<Vec<Report>, PathError>> = all.collect();
    let here = seen.iter().flat_map(FileResult::reports);
    let here: BTreeSet<RecordId> = here.filter_map(|report| report.record).collect();
    let is_elsewhere = |report: &Report| report.record.is_some_and(|id| here.contains(&id));
    let (mut missing, mut unread) = (Vec::new(), Vec::new());
    for (place, one) in all.into_iter().enumerate() {
        let gone = match one {
            Ok(gone) => gone,
            Err(error) => {
                unread.push(error);
                continue;
            }
        };
        for gone in gone {
            if !is_elsewhere(&gone) {
                missing.push(gone);
            } else if let Some(file) = candidates.get(place) {
                match changed(context, file, &gone, candidates, seen) {
                    Ok(changed) => missing.extend(changed),
                    Err(failure) => unread.push(PathError::of(Some(&file.path), &failure)),
                }
            }
        }
    }
    (missing, unread)
}

/// A report of the file in the earlier place of the log `gone`, which was moved with its seals to another
/// of `candidates`, if the file was made of it by a change: a moved log excuses no change.
fn changed(
    context: &Context,
    file: &Candidate,
    gone: &Report,
    candidates: &[Candidate],
    seen: &[FileResult],
) -> Result<Option<Report>, VerifyError> {
    let is_it = |report: &Report| {
        report.record == gone.record && report.profile == Profile::Observed && report.head.is_some()
    };
    let mut pairs = candidates.iter().zip(seen);
    let moved = pairs.find(|(_, seen)| seen.reports().iter().any(is_it));
    let Some((moved, _)) = moved.filter(|_| gone.profile == Profile::Observed) else {
        return Ok(None);
    };
    if !was_changed(&context.host, &file.path, &moved.path)? {
        return Ok(None);
    }
    let mut report = Report::begin(gone.format, gone.profile);
    report.path.clone_from(&gone.path);
    report.trust = gone.trust;
    report.record = gone.record;
    let text = format!(
        "this host sealed this log here; the file has lines of it, other lines were changed, and the log \
         that was sealed is {}",
        shown(&moved.path)
    );
    let finding = Finding::error(FindingCode::SealsGone, text);
    report.downgrade(Verdict::Tampered, finding);
    Ok(Some(report))
}

/// Threads that are not what the records of others seal of them.
fn thread_links(
    context: &Context,
    candidates: &[Candidate],
    seen: &mut [FileResult],
) -> Result<Vec<Report>, VerifyError> {
    match context.request.profile {
        RequestedProfile::Auto | RequestedProfile::Native => {
            thread_links::missing(context, candidates, seen)
        }
        _ => Ok(Vec::new()),
    }
}

/// A report of each record that this host sealed at `path`, where no file is now: a folder, a pipe, or a link that does
/// not lead to that record.
///
/// # Errors
/// When the heads are damaged.
fn replaced(context: &Context, path: &Path) -> Result<Vec<Report>, VerifyError> {
    let (own, led_to) = (
        displacement::place_itself(context, path),
        context.host.place(path),
    );
    let is_file = context.is_file(path);
    let mut last = displacement::sealed_at(context, &own)?;
    if own != led_to && !is_file {
        last.extend(displacement::sealed_at(context, &led_to)?);
    }
    // Who moves a record and leaves a link to it hides nothing.
    if is_file && !last.is_empty() {
        let there = file::verify_candidate(
            context,
            &Candidate {
                path: path.to_owned(),
                named: false,
                bytes: 0,
            },
        );
        let is_there = |last: &StoredHead| {
            let mut there = there.reports().iter();
            there.any(|report| report.record == Some(last.head.record))
        };
        last.retain(|last| !is_there(last));
    }
    let last = last
        .iter()
        .map(|last| displacement::displacing(context, path, last));
    Ok(last.collect())
}
