//! The files derived from the record of a run: `thread.json`, the state file, the entry.

use super::super::account::ANCHORED_TURNS;
use super::super::derived_files::DerivedFiles;
use super::super::services::Services;
use crate::graph_journal::GraphJournal;
use crate::graph_state::{Course, EntryCover, Standing, StateCover, entry, state_file};
use crate::limit::Cost;
use crate::signed_file::SignedFile;
use threadseal_core::error::Error;

/// The files of a run that are written anew after each seal.
pub(super) struct Files {
    pub(super) derived: DerivedFiles,
    pub(super) state: SignedFile,
    pub(super) parent: Option<String>,
}

/// The nodes of a graph, in the order of its file, and the first that runs.
pub(super) struct Nodes<'a> {
    pub(super) all: Vec<&'a str>,
    pub(super) start: &'a str,
}

impl Files {
    /// Writes all of them, as the sealed record has the run.
    pub(super) fn write(
        &mut self,
        services: &Services,
        record: &GraphJournal,
        nodes: &Nodes<'_>,
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
        let text = self.entry(course, nodes, cost);
        let thread = Some(&self.derived.meta.thread_id);
        let (host, keys) = (&services.host, &services.keys);
        self.state.write(host, keys, thread, state.as_bytes())?;
        let entry = &mut self.derived.entry;
        let is_anchored =
            course.standing != Standing::Running || cost.turns.is_multiple_of(ANCHORED_TURNS);
        match is_anchored {
            true => entry.write(host, keys, thread, text.as_bytes()).map(drop),
            false => entry.write_ahead(host, keys, text.as_bytes()),
        }
    }

    /// Writes the entry alone, where a step begins: the state file is at a sealed step.
    pub(super) fn show(
        &mut self,
        services: &Services,
        course: &Course,
        nodes: &Nodes<'_>,
        cost: &Cost,
    ) -> Result<(), Error> {
        let text = self.entry(course, nodes, cost);
        let (host, keys) = (&services.host, &services.keys);
        self.derived.entry.write_ahead(host, keys, text.as_bytes())
    }

    fn entry(&self, course: &Course, nodes: &Nodes<'_>, cost: &Cost) -> String {
        let cover = EntryCover {
            created_at: &self.derived.meta.created_at.to_iso_seconds(),
            elapsed: cost.elapsed.as_secs_f64(),
            nodes: &nodes.all,
            start: nodes.start,
        };
        entry(course, &cover)
    }
}
