//! Updates the files and rows derived from a record that has its end: `thread.json`, the budget,
//! the registry's row.

use super::super::engine::Engine;
use super::super::orchestrator::Records;
use crate::limit::Cost;
use crate::project::ThreadFolder;
use crate::registry::suits;
use crate::signed_file::SignedFile;
use crate::status::Status;
use crate::thread_meta::ThreadMeta;
use std::path::Path;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_formats::document::DocumentKind;

impl Engine {
    /// Updates registry, budget and thread.json from the record; returns the thread's status.
    pub(super) fn follow_record(
        &self,
        id: &ThreadId,
        folder: &ThreadFolder,
        ended: Status,
        successor: Option<&ThreadId>,
    ) -> Result<Status, Error> {
        let Some(successor) = successor else {
            let stated = self.papers(id, folder)?.map(|papers| papers.status);
            let stands = stated.filter(|stated| suits(ended, *stated));
            let stands = stands.unwrap_or(ended);
            self.close(id, &folder.metadata(), stands)?;
            return Ok(stands);
        };
        let now = self.host.clock.now()?;
        // Nothing is entered of a thread whose papers were changed.
        self.papers(id, folder)?;
        self.tell_link(id, successor)?;
        let budget = self.budgets.get(id)?;
        if budget.is_some_and(|budget| budget.status == "active") {
            match self.budgets.get(successor)? {
                None => self.budgets.transfer(id, successor, now)?,
                Some(_) => self.budgets.release(id, Status::Continued, now)?,
            };
        }
        self.rewrite(id, &folder.metadata(), Status::Continued)?;
        self.tell_cost(id, folder)?;
        Ok(Status::Continued)
    }

    fn rewrite(&self, id: &ThreadId, path: &Path, status: Status) -> Result<(), Error> {
        let folder = self.project.thread(id);
        if self.host.fs.symlink_metadata(path).is_err() {
            return self.write_first(id, &folder, status);
        }
        let trusted = ThreadMeta::read(&self.host, &folder, id, None, &self.trust)?;
        let Some(head) = trusted.head() else {
            return Ok(());
        };
        let mut meta = trusted.get().clone();
        if meta.status == status {
            return Ok(());
        }
        meta.status = status;
        meta.updated_at = self.host.clock.now()?;
        let (cost, outputs) = self.said_of(id, &folder)?;
        meta.cost = cost.or(meta.cost).or_else(|| Some(Cost::default()));
        meta.outputs = meta.outputs.or(outputs);
        let mut file = SignedFile::after(&self.host, path, DocumentKind::Json, None, head)?;
        file.write(&self.host, &self.keys, Some(id), &meta.to_bytes())
            .map(drop)
    }

    /// Updates thread.json, the budget and the registry.
    pub(in crate::runner) fn close(
        &self,
        id: &ThreadId,
        path: &Path,
        status: Status,
    ) -> Result<(), Error> {
        let now = self.host.clock.now()?;
        self.rewrite(id, path, status)?;
        if status.is_terminal() && self.budgets.get(id)?.is_some() {
            self.budgets.release(id, status, now)?;
        }
        // The row may be gone, or may have been edited.
        self.enter(id)?;
        self.tell_cost(id, &self.project.thread(id))?;
        let Some(row) = self.registry.get(id)? else {
            return Ok(());
        };
        let stands = row.status == Ok(status);
        let records = Records::from(self);
        if (!stands || row.result.is_none() || records.denies_result(&row))
            && let Ok(result) = records.result(id)
        {
            self.registry.set_result(id, &result, now)?;
        }
        match stands {
            true => Ok(()),
            false => self.registry.correct(id, status, now),
        }
    }

    /// Corrects the row's cost to match thread.json.
    fn tell_cost(&self, id: &ThreadId, folder: &ThreadFolder) -> Result<(), Error> {
        let cost = self.papers(id, folder)?.and_then(|papers| papers.cost);
        let row = self.registry.get(id)?;
        match cost.zip(row).filter(|(cost, row)| !row.cost_is(cost)) {
            Some((cost, _)) => self.registry.set_cost(id, &cost, self.host.clock.now()?),
            None => Ok(()),
        }
    }
}
