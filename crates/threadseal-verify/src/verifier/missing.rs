//! What is not where it should be: records that something else displaced, and those of which others tell.
//!
//! ```text
//! a file that is no record, a folder, a pipe, a link ─► what this host sealed in that place ─┐
//! a record in the place of another ───────────────────► the other one ───────────────────────┼─► missing, unless it was
//! what is left of a thread, its kin ──────────────────► its record ──────────────────────────┘   seen elsewhere or pruned
//! ```

use super::{FileResult, Verifier, companions, displacement, ledger_ends, pruned, thread_links};
use crate::error::VerifyError;
use crate::inputs::Candidate;
use crate::output::PathError;
use crate::request::RequestedProfile;
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::path::PathBuf;
use threadseal_core::record::RecordId;
use threadseal_core::report::Report;

impl Verifier {
    /// The records that something else displaced from the places of `candidates`, of which this was `seen`, or from
    /// those of `others`, which are no files; those that were seen elsewhere, or were pruned, are not missing. And the
    /// paths whose earlier record is unknown. The result of a file gets better where another file proves more of it.
    pub fn missing(
        &self,
        candidates: &[Candidate],
        seen: &mut [FileResult],
        others: &[PathBuf],
    ) -> (Vec<Report>, Vec<PathError>) {
        let ends = ledger_ends::hold(self, candidates, seen);
        let (gone, mut unread) = self.displaced(candidates, seen, others);
        unread.extend(ends.err().map(|failure| PathError::of(None, &failure)));
        let mut all = match pruned::explain_pruned(self, gone) {
            Ok(gone) => gone,
            Err(failure) => {
                unread.push(PathError::of(None, &failure));
                Vec::new()
            }
        };
        // Also where this host knows no head: the files left of a thread show that it had a record.
        all.extend(companions::left(self, candidates, seen));
        match self.thread_links(candidates, seen) {
            Ok(links) => all.extend(links),
            Err(failure) => unread.push(PathError::of(None, &failure)),
        }
        (all, unread)
    }

    fn displaced(
        &self,
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
                    displacement::overwritten(self, path)
                }
                _ => displacement::missing(self, path, reports).map(Vec::from_iter),
            };
            gone.map_err(|failure| PathError::of(Some(path), &failure))
        };
        let replaced = |path: &PathBuf| {
            let gone = displacement::replaced(self, path);
            gone.map_err(|failure| PathError::of(Some(path), &failure))
        };
        let pairs = candidates.par_iter().zip(seen.par_iter());
        let all = pairs.map(gone).chain(others.par_iter().map(replaced));
        let all: Vec<Result<Vec<Report>, PathError>> = all.collect();
        let here = seen.iter().flat_map(FileResult::reports);
        let here: BTreeSet<RecordId> = here.filter_map(|report| report.record).collect();
        let is_elsewhere = |report: &Report| report.record.is_some_and(|id| here.contains(&id));
        let (mut missing, mut unread) = (Vec::new(), Vec::new());
        for one in all {
            match one {
                Ok(gone) => missing.extend(gone.into_iter().filter(|gone| !is_elsewhere(gone))),
                Err(error) => unread.push(error),
            }
        }
        (missing, unread)
    }

    /// Threads that are not what the records of others seal of them.
    fn thread_links(
        &self,
        candidates: &[Candidate],
        seen: &mut [FileResult],
    ) -> Result<Vec<Report>, VerifyError> {
        match self.request.profile {
            RequestedProfile::Auto | RequestedProfile::Native => {
                thread_links::missing(self, candidates, seen)
            }
            _ => Ok(Vec::new()),
        }
    }
}
