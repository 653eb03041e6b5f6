//! The files derived from the record of a run: `thread.json`, the state file, the entry.

use super::super::engine::Engine;
use crate::graph_journal::GraphJournal;
use crate::graph_state::{EntryCover, StateCover, entry, state_file};
use crate::limit::Cost;
use crate::signed_file::SignedFile;
use crate::thread_meta::ThreadMeta;
use threadseal_core::error::Error;

/// The files of a run that are written anew after each seal.
pub(super) struct Files {
    pub(super) meta: ThreadMeta,
    pub(super) file: SignedFile,
    pub(super) state: SignedFile,
    pub(super) entry: SignedFile,
    pub(super) parent: Option<String>,
}

impl Files {
    pub(super) fn write_meta(&mut self, engine: &Engine) -> Result<(), Error> {
        self.meta.updated_at = engine.host.clock.now()?;
        let bytes = self.meta.to_bytes();
        let thread = Some(&self.meta.thread_id);
        let written = self.file.write(&engine.host, &engine.keys, thread, &bytes);
        written.map(drop)
    }

    /// Writes all of them, as the sealed record has the run.
    pub(super) fn write(
        &mut self,
        engine: &Engine,
        record: &GraphJournal,
        nodes: &[&str],
        start: &str,
        cost: &Cost,
    ) -> Result<(), Error> {
        self.meta.cost = Some(*cost);
        self.write_meta(engine)?;
        let course = record.course();
        let head = record.head().map(ToString::to_string).unwrap_or_default();
        let now = engine.host.clock.now()?.to_iso_seconds();
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
                created_at: &self.meta.created_at.to_iso_seconds(),
                elapsed: cost.elapsed.as_secs_f64(),
                nodes,
                start,
            },
        );
        let thread = Some(&self.meta.thread_id);
        let (host, keys) = (&engine.host, &engine.keys);
        self.state.write(host, keys, thread, state.as_bytes())?;
        self.entry
            .write(host, keys, thread, text.as_bytes())
            .map(drop)
    }
}
