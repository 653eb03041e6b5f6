//! Checks the rows of a registry against the files of its threads.
//!
//! | code | fault |
//! |---|---|
//! | `row_missing` | a thread left files of ThreadSeal's own, and has no row |
//! | `record_missing` | all files are missing of a thread that began by its row or by seals here |
//! | `record_refused` | its record does not verify, or is not the one that its row names |
//! | `record_mismatch`, `directive_mismatch`, `model_mismatch`, `parent_mismatch`, `chain_mismatch`, `spawns_mismatch` | its row contradicts its record |
//! | `status_mismatch`, `cost_mismatch`, `result_mismatch` | its row contradicts record and `thread.json` about its state |
//! | `metadata_refused` | its `thread.json` does not verify, or is missing although it has ended |
//! | `foreign`, `project_refused` | it belongs to another project, or this one's own file does not verify |
//! | `budget_mismatch` | its budget allows more than the signed limit |
//! | `budget_missing` | it has a record, and no budget |
//!
//! For threads of Rye only one fault is reported: that they left no files at all.

use super::records::Records;
use crate::bounds::MAX_INSPECTED_ROWS;
use crate::budget::{self, BudgetLedger};
use crate::history::ThreadLinks;
use crate::project::{Layout, THREAD_FILE, TRANSCRIPT_FILE, ThreadFolder};
use crate::project_id::Identity;
use crate::registry::{Fault, Inspection, Recorded, Thread, contradictions};
use crate::status::Status;
use crate::thread_meta::ThreadMeta;
use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::ThreadId;
use threadseal_store::heads::RecordKind;
use threadseal_store::sys::FileKind;

impl Records {
    /// Adds to `inspection` the faults of `rows`, and of rows that are missing although their
    /// threads, `left`, exist. Rows that change during the check are checked again.
    ///
    /// # Errors
    /// Kind `External` when the registry, the budgets or the disk fails.
    pub fn audit(
        &self,
        rows: &[Thread],
        left: &[ThreadId],
        budgets: Option<&dyn BudgetLedger>,
        inspection: &mut Inspection,
    ) -> Result<(), Error> {
        let identity = Identity::read(&self.host, &self.project, &self.trust);
        if let Err(error) = &identity {
            inspection.add("project_refused", "", error.to_string());
        }
        let stray = |id: &ThreadId| {
            let identity = identity.as_ref().ok()?;
            let why = identity.stray(&self.host, &self.project, id)?;
            Some(fault("foreign", id, why.to_string()))
        };
        let mut kin = ThreadLinks::new(self.archive());
        for row in rows {
            let strays = row.record.as_ref().and_then(|_| stray(&row.id));
            // The budget of a thread of another project is there.
            let budgets = budgets.filter(|_| strays.is_none());
            strays.into_iter().for_each(|fault| inspection.push(fault));
            let mut found = self.faults_of(&mut kin, row, budgets)?;
            if !found.is_empty() && inspection.has_room() {
                // A thread that runs may have ended meanwhile.
                let mut kin = ThreadLinks::new(self.archive());
                found = match self.registry.get(&row.id)? {
                    Some(row) => self.faults_of(&mut kin, &row, budgets)?,
                    None => Vec::new(),
                };
            }
            found.into_iter().for_each(|fault| inspection.push(fault));
        }
        let known: HashSet<&ThreadId> = rows.iter().map(|row| &row.id).collect();
        for id in left.iter().filter(|id| !known.contains(id)) {
            if self.registry.get(id)?.is_none() && self.is_own(id)? {
                let message =
                    "it has files here, but it is not registered; hint: threadseal thread recover";
                let missing = || fault("row_missing", id, message.to_owned());
                inspection.push(stray(id).unwrap_or_else(missing));
            }
        }
        Ok(())
    }

    /// The threads in the folder of the seed's layout, by its contents.
    ///
    /// # Errors
    /// Kind `Limit` above [`MAX_INSPECTED_ROWS`], `External` when the disk fails.
    pub fn left(&self) -> Result<Vec<ThreadId>, Error> {
        let fs = &*self.host.fs;
        let root = self.project.threads(Layout::Seed);
        let mut found = BTreeSet::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            let failed = |error: std::io::Error| {
                let text = format!("cannot look at {}: {error}", folder.display());
                Error::new(ErrorKind::External, text)
            };
            if fs.symlink_metadata(&folder).is_err() {
                continue;
            }
            for name in fs.read_dir(&folder).map_err(failed)? {
                let path = folder.join(&name);
                let kind = fs.symlink_metadata(&path).map(|found| found.kind);
                match kind {
                    Ok(FileKind::Directory) => folders.push(path),
                    Ok(_) if name == TRANSCRIPT_FILE || name == THREAD_FILE => {
                        found.extend(id_of(&root, &folder));
                    }
                    _ => {}
                }
            }
            if found.len().max(folders.len()) > MAX_INSPECTED_ROWS {
                let text = format!(
                    "{} has more than {MAX_INSPECTED_ROWS} threads",
                    root.display()
                );
                return Err(Error::new(ErrorKind::Limit, text));
            }
        }
        Ok(found.into_iter().collect())
    }

    fn faults_of(
        &self,
        kin: &mut ThreadLinks<'_>,
        row: &Thread,
        budgets: Option<&dyn BudgetLedger>,
    ) -> Result<Vec<Fault>, Error> {
        let refused = |error: Error| vec![fault("record_refused", &row.id, error.to_string())];
        let folder = match self.project.find_thread(&*self.host.fs, &row.id) {
            Ok(folder) => folder,
            Err(error) => return Ok(refused(error)),
        };
        let there = |folder: &ThreadFolder| self.is_there(&folder.transcript());
        let Some(folder) = folder.as_ref().filter(|folder| there(folder)) else {
            return self.gone(row, folder.is_some());
        };
        if row.record.is_none() && !self.is_own(&row.id)? {
            return Ok(Vec::new());
        }
        let said = match kin.recorded(&row.id, Some(row)) {
            Ok(said) => said,
            Err(error) => return Ok(refused(error)),
        };
        let mut found = said.contradictions(row);
        for other in self.papers_of(row, &said, folder, budgets)? {
            if found.iter().all(|known| known.code != other.code) {
                found.push(other);
            }
        }
        // A thread gets its budget before its record, and keeps it after its end.
        if let Some(budgets) = budgets
            && budgets.get(&row.id)?.is_none()
        {
            let message =
                "it has a record, but no budget: what it and its children spent is not known here";
            found.push(fault("budget_missing", &row.id, message.to_owned()));
        }
        let row = match row.result {
            Some(_) => Some(row.clone()),
            // A listing has no results.
            None => self.registry.get(&row.id)?,
        };
        if row.is_some_and(|row| self.denies_result(&row)) {
            let message = "the registry has another result than record and thread.json";
            found.push(fault("result_mismatch", &said.id, message.to_owned()));
        }
        Ok(found)
    }

    /// Contradictions between the row and `thread.json`, or the record's end.
    fn papers_of(
        &self,
        row: &Thread,
        said: &Recorded,
        folder: &ThreadFolder,
        budgets: Option<&dyn BudgetLedger>,
    ) -> Result<Vec<Fault>, Error> {
        let mut found = Vec::new();
        if self.is_there(&folder.metadata()) {
            match ThreadMeta::read(&self.host, folder, &row.id, None, &self.trust) {
                Ok(meta) => {
                    let meta = meta.get();
                    let (directive, cost) = (&meta.directive, meta.cost.as_ref());
                    found = contradictions(row, meta.status, directive, cost);
                    let budget = budgets.map(|budgets| budgets.get(&row.id)).transpose()?;
                    let budget = budget.flatten().zip(meta.limits.spend);
                    found.extend(budget.and_then(|(budget, limit)| {
                        budget::contradiction(&row.id, &budget, limit)
                    }));
                }
                Err(error) => found.push(fault("metadata_refused", &row.id, error.to_string())),
            }
        } else if said.ended.is_some() {
            let message = "it has ended, and its thread.json is missing".to_owned();
            found.push(fault("metadata_refused", &row.id, message));
        }
        let suits = row.status.as_ref().is_ok_and(|status| said.suits(*status));
        if !suits && found.iter().all(|known| known.code != "status_mismatch") {
            let says = match (&said.after, said.ended) {
                (Some(after), _) => format!("{after} continues it"),
                (None, Some(ended)) => format!("it is {ended}"),
                (None, None) => "it has no end".to_owned(),
            };
            let word = super::results::word(row);
            let message = format!("the registry has {word}, but the record shows that {says}");
            found.push(fault("status_mismatch", &row.id, message));
        }
        Ok(found)
    }

    /// Are files missing of a thread without a transcript? A thread that ended before its record
    /// began left none.
    fn gone(&self, row: &Thread, has_folder: bool) -> Result<Vec<Fault>, Error> {
        let early = matches!(
            row.status,
            Ok(Status::Created | Status::Error | Status::Killed)
        );
        let began = (!early || row.turns > 0) && (row.record.is_some() || !has_folder);
        let known = match &row.record {
            Some(record) => self.host.heads.fetch(record)?.is_some(),
            None => false,
        };
        if !began && !known && !self.is_own(&row.id)? {
            return Ok(Vec::new());
        }
        let message = "its record is not found here".to_owned();
        Ok(vec![fault("record_missing", &row.id, message)])
    }

    /// Is a thread one of ThreadSeal's, by its record, its `thread.json`, or this host's seals in
    /// their places?
    fn is_own(&self, id: &ThreadId) -> Result<bool, Error> {
        let found = self.project.find_thread(&*self.host.fs, id);
        // A path that leads out of the project is judged by its intended place.
        let folder = found
            .ok()
            .flatten()
            .unwrap_or_else(|| self.project.thread(id));
        let (record, papers) = (folder.transcript(), folder.metadata());
        for (kind, path) in [
            (RecordKind::Transcript, &record),
            (RecordKind::Document, &papers),
        ] {
            let place = self.place(path);
            if self.host.heads.find_by_place(kind, &place)?.is_some() {
                return Ok(true);
            }
        }
        if self.is_there(&record) && !self.archive().is_original(id).unwrap_or(false) {
            return Ok(true);
        }
        let meta = ThreadMeta::read(&self.host, &folder, id, None, &self.trust);
        Ok(meta.is_ok_and(|meta| meta.head().is_some()))
    }

    /// The place of a path; a missing file has none, so its folder's is used.
    pub(in crate::runner) fn place(&self, path: &Path) -> String {
        let folder = path.parent().map(|folder| self.host.place(folder));
        match (folder, path.file_name()) {
            (Some(folder), Some(name)) => self.host.place(&Path::new(&folder).join(name)),
            _ => self.host.place(path),
        }
    }

    fn is_there(&self, path: &Path) -> bool {
        self.host.fs.symlink_metadata(path).is_ok()
    }
}

/// The thread of `folder`, if its name is valid.
fn id_of(root: &Path, folder: &Path) -> Option<ThreadId> {
    ThreadId::parse(folder.strip_prefix(root).ok()?.to_str()?).ok()
}

fn fault(code: &'static str, thread: &ThreadId, message: String) -> Fault {
    Fault {
        code,
        thread: Some(thread.to_string()),
        message,
    }
}
