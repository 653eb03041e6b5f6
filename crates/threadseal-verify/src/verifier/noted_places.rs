//! Verifying records in the places that the private index has of them.

use super::context::Context;
use super::file;
use super::file_result::FileResult;
use super::ledger;
use super::lineage;
use super::stored_lineage;
use crate::error::VerifyError;
use crate::error::is_gone;
use crate::inputs;
use rayon::prelude::*;
use std::path::Path;
use threadseal_core::report::Report;
use threadseal_store::address::Intent;
use threadseal_store::sys::text_path;

/// Reports of the records in a place of this machine: a file, a folder, an SQLite file, a record in a store that is a folder. None of any
/// other place: a server is asked only where the user names it.
///
/// # Errors
/// When it cannot be read. What is not there is no report.
pub(super) fn look_into(
    context: &Context,
    place: &str,
) -> Result<Option<Vec<Report>>, VerifyError> {
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
            let (store, name) = context.stores.one(address, Intent::Read)?;
            store.read(&name)?.is_none()
        }
        (Some(file), _) => nothing_at(&text_path(file).unwrap_or_default())?,
        (None, _) => nothing_at(&path)?,
    };
    if nothing {
        return Ok(Some(Vec::new()));
    }
    let mut found = inputs::find(std::slice::from_ref(&path), &context.stores);
    if let Some(error) = found.errors.pop() {
        return Err(VerifyError::refused(error.message));
    }
    let mut reports = Vec::new();
    for address in &found.stores {
        reports.extend(ledger::store_at(context, address)?);
        let lineages = stored_lineage::read(context, address, None)?;
        reports.extend(stored_lineage::reports(context, lineages)?);
    }
    let mut seen: Vec<FileResult> = found
        .files
        .par_iter()
        .map(|file| file::verify_candidate(context, file))
        .collect();
    if let Some(FileResult::Failed(error)) = seen
        .iter()
        .find(|seen| matches!(seen, FileResult::Failed(_)))
    {
        return Err(VerifyError::refused(error.message.clone()));
    }
    reports.extend(lineage::lineage_reports(context, &found.files, &mut seen)?);
    reports.extend(seen.iter().flat_map(FileResult::reports).cloned());
    Ok(Some(reports))
}

/// Is nothing at `path`?
///
/// # Errors
/// When that cannot be known.
pub(crate) fn nothing_at(path: &Path) -> Result<bool, VerifyError> {
    match std::fs::metadata(path) {
        Ok(_) => Ok(false),
        Err(error) if is_gone(&error) => Ok(true),
        Err(error) => Err(VerifyError::refused(format!("cannot be examined: {error}")).about(path)),
    }
}
