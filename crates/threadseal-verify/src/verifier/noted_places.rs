//! Verifying records in the places that the private index has of them.

use super::{FileResult, Verifier};
use crate::error::VerifyError;
use crate::error::is_gone;
use crate::inputs;
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::PoisonError;
use threadseal_core::record::RecordId;
use threadseal_core::report::Report;
use threadseal_store::address::Intent;
use threadseal_store::sys::text_path;

impl Verifier {
    /// Records that were found beside those that reports name: an agent that continues in v0x05 has another id from then on.
    pub fn joined(&self) -> BTreeSet<RecordId> {
        let joined = self.joined.lock();
        joined.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reports of the records in a place of this machine: a file, a folder, an SQLite file, a record in a store that is a folder. None of any
    /// other place: a server is asked only where the user names it.
    ///
    /// # Errors
    /// When it cannot be read. What is not there is no report.
    pub fn look_into(&self, place: &str) -> Result<Option<Vec<Report>>, VerifyError> {
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
                let (store, name) = self.stores.one(address, Intent::Read)?;
                store.read(&name)?.is_none()
            }
            (Some(file), _) => nothing_at(&text_path(file).unwrap_or_default())?,
            (None, _) => nothing_at(&path)?,
        };
        if nothing {
            return Ok(Some(Vec::new()));
        }
        let mut found = inputs::find(std::slice::from_ref(&path), &self.stores);
        if let Some(error) = found.errors.pop() {
            return Err(VerifyError::refused(error.message));
        }
        let mut reports = Vec::new();
        for address in &found.stores {
            reports.extend(self.store_at(address)?);
        }
        let mut seen: Vec<FileResult> = found
            .files
            .par_iter()
            .map(|file| self.verify_candidate(file))
            .collect();
        if let Some(FileResult::Failed(error)) = seen
            .iter()
            .find(|seen| matches!(seen, FileResult::Failed(_)))
        {
            return Err(VerifyError::refused(error.message.clone()));
        }
        reports.extend(self.lineage_reports(&found.files, &mut seen)?);
        reports.extend(seen.iter().flat_map(FileResult::reports).cloned());
        Ok(Some(reports))
    }
}

/// Is nothing at `path`?
///
/// # Errors
/// When that cannot be known.
pub(crate) fn nothing_at(path: &Path) -> Result<bool, VerifyError> {
    match std::fs::metadata(path) {
        Ok(_) => Ok(false),
        Err(error) if is_gone(&error) => Ok(true),
        Err(error) => {
            Err(VerifyError::refused(format!("cannot be looked at: {error}")).about(path))
        }
    }
}
