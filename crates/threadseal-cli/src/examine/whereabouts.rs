//! Looking where the private index says that a record lies.

use super::{Examiner, Seen, is_gone, reports_of};
use crate::exit::Failure;
use crate::record;
use crate::walk;
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::PoisonError;
use threadseal_core::record::RecordId;
use threadseal_core::report::Report;
use threadseal_store::ledger::url::Intent;
use threadseal_store::sys::text_path;

impl Examiner {
    /// Records that were found beside those that reports name: an agent that goes on in v0x05 has another id from there on.
    pub(crate) fn joined(&self) -> BTreeSet<RecordId> {
        let joined = self.joined.lock();
        joined.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What lies in a place of this machine: a file, a folder, an SQLite file, a record in a store that is a folder. None of any
    /// other place: who verifies says himself whom to ask over a network.
    ///
    /// # Errors
    /// When it cannot be read. What is not there is no report.
    pub(crate) fn look_into(&self, place: &str) -> Result<Option<Vec<Report>>, Failure> {
        // Nothing else is ever written down.
        let Some(path) = text_path(place) else {
            return Ok(None);
        };
        let is_record = place.starts_with("object+file:") && place.contains('#');
        if !path.is_absolute() && !place.starts_with("sqlite:") && !is_record {
            return Ok(None);
        }
        let nothing = match (place.strip_prefix("sqlite:"), path.to_str()) {
            (None, Some(address)) if is_record => {
                let (store, name) = record::one(address, Intent::Read)?;
                store.read(&name)?.is_none()
            }
            (Some(file), _) => nothing_at(&text_path(file).unwrap_or_default())?,
            (None, _) => nothing_at(&path)?,
        };
        if nothing {
            return Ok(Some(Vec::new()));
        }
        let mut found = walk::find(std::slice::from_ref(&path));
        if let Some(error) = found.errors.pop() {
            return Err(Failure::new(error.message));
        }
        let mut reports = Vec::new();
        for address in &found.stores {
            reports.extend(self.store(&*record::ledgers(address)?, address)?);
        }
        let mut seen: Vec<Seen> = found
            .files
            .par_iter()
            .map(|file| self.examine(file))
            .collect();
        if let Some(Seen::Failed(error)) = seen.iter().find(|seen| matches!(seen, Seen::Failed(_)))
        {
            return Err(Failure::new(error.message.clone()));
        }
        reports.extend(self.lineage_reports(&found.files, &mut seen)?);
        reports.extend(seen.iter().flat_map(reports_of).cloned());
        Ok(Some(reports))
    }
}

/// Is nothing at `path`?
///
/// # Errors
/// When nobody can say.
pub(super) fn nothing_at(path: &Path) -> Result<bool, Failure> {
    match std::fs::metadata(path) {
        Ok(_) => Ok(false),
        Err(error) if is_gone(&error) => Ok(true),
        Err(error) => Err(Failure::new(format!("cannot be looked at: {error}")).about(path)),
    }
}
