//! What is not where it should be: records that something else displaced, and those of which others tell.
//!
//! ```text
//! a file that is no record, a folder, a pipe, a link ─► what this host sealed in that place ─┐
//! a record in the place of another ───────────────────► the other one ───────────────────────┼─► missing, unless it was
//! what is left of a thread, its kin ──────────────────► its record ──────────────────────────┘   seen elsewhere or pruned
//! ```

use super::{Examiner, ProfileArg, Seen, companions, ends, kin, place, pruned, reports_of};
use crate::exit::Failure;
use crate::render::json::PathError;
use crate::walk::Candidate;
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::path::PathBuf;
use threadseal_core::record::RecordId;
use threadseal_core::report::Report;

impl Examiner {
    /// The records that something else displaced from the places of `candidates`, of which this was `seen`, or from
    /// those of `others`, which are no files; those that were seen elsewhere, or were pruned, are not missing. And the
    /// paths of which nobody can say what lay there. What is seen of a file gets better where another one says what it was.
    pub(crate) fn missing(
        &self,
        candidates: &[Candidate],
        seen: &mut [Seen],
        others: &[PathBuf],
    ) -> (Vec<Report>, Vec<PathError>) {
        let ends = ends::hold(self, candidates, seen);
        let (gone, mut unread) = self.displaced(candidates, seen, others);
        unread.extend(ends.err().map(|failure| PathError::of(None, &failure)));
        let mut all = match pruned::excuse(self, gone) {
            Ok(gone) => gone,
            Err(failure) => {
                unread.push(PathError::of(None, &failure));
                Vec::new()
            }
        };
        // Also where this host knows no head: what is left of a thread tells that it had a record.
        all.extend(companions::left(self, candidates, seen));
        match self.kin(candidates, seen) {
            Ok(kin) => all.extend(kin),
            Err(failure) => unread.push(PathError::of(None, &failure)),
        }
        (all, unread)
    }

    fn displaced(
        &self,
        candidates: &[Candidate],
        seen: &[Seen],
        others: &[PathBuf],
    ) -> (Vec<Report>, Vec<PathError>) {
        let gone = |(candidate, seen): (&Candidate, &Seen)| {
            let (path, reports) = (&candidate.path, reports_of(seen));
            let gone = match seen {
                // What lies there is told as what nobody could look at.
                Seen::Failed(_) => Ok(Vec::new()),
                _ if reports.iter().all(|report| report.record.is_none()) => {
                    place::overwritten(self, path)
                }
                _ => place::missing(self, path, reports).map(Vec::from_iter),
            };
            gone.map_err(|failure| PathError::of(Some(path), &failure))
        };
        let replaced = |path: &PathBuf| {
            let gone = place::replaced(self, path);
            gone.map_err(|failure| PathError::of(Some(path), &failure))
        };
        let pairs = candidates.par_iter().zip(seen.par_iter());
        let all = pairs.map(gone).chain(others.par_iter().map(replaced));
        let all: Vec<Result<Vec<Report>, PathError>> = all.collect();
        let here = seen.iter().flat_map(reports_of);
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
    fn kin(&self, candidates: &[Candidate], seen: &mut [Seen]) -> Result<Vec<Report>, Failure> {
        match self.asked.profile {
            ProfileArg::Auto | ProfileArg::Native => kin::missing(self, candidates, seen),
            _ => Ok(Vec::new()),
        }
    }
}
