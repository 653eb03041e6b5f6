//! The files derived from the record of a run: `thread.json`, the state file, the entry.

use super::super::derived_files::DerivedFiles;
use super::super::services::Services;
use crate::graph_journal::GraphJournal;
use crate::graph_state::{EntryCover, StateCover, entry, state_file};
use crate::limit::Cost;
use crate::signed_file::SignedFile;
use threadseal_core::error::Error;

/// The files of a run that are written anew after each seal.
pub(super) struct Files {
    pub(super) derived: DerivedFiles,
    pub(super) state: SignedFile,
    pub(super) parent: Option<String>,
}

impl Files {
    /// Writes all of them, as the sealed record has the run.
    pub(super) fn write(
        &mut self,
        services: &Services,
        record: &GraphJournal,
        nodes: &[&str],
        start: &str,
        cost: &Cost,
    ) -> Result<(), Error> {
        self.derived.meta.cost = Some(*cost);
        self.derived.write(services)?;
        let course = record.course();
        let head = record.head().map(ToString::to_string).unwrap_or_default();
        let now = services.host.clock.now()?.to_iso_seconds();
        let state = state_file(
            course,
            &StateCover {
                parent: self.parent.as_deref(),
                updated_at: &now,
                head: &head,
                status: course.standing.as_str(),
            },
        );
        let text = entry(
            course,
            &EntryCover {
                created_at: &self.derived.meta.created_at.to_iso_seconds(),
                elapsed: cost.elapsed.as_secs_f64(),
                nodes,
                start,
            },
        );
        let thread = Some(&self.derived.meta.thread_id);
        let (host, keys) = (&services.host, &services.keys);
        self.state.write(host, keys, thread, state.as_bytes())?;
        self.derived
            .entry
            .write(host, keys, thread, text.as_bytes())
            .map(drop)
    }
}
