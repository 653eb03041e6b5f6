//! The conflicts of this host's log, beside it.
//!
//! ```text
//! <16 hex>.tlog-conflict   two checkpoints that this log signed, as a witness showed them
//! ```
//! A log with such a file signed two histories, and continues neither.

use crate::layout::description::Description;
use crate::layout::log_dir::LogDir;
use std::path::PathBuf;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::limits::MAX_CONFLICT_BYTES;
use threadseal_core::merkle::TreeHead;
use threadseal_core::tlog::conflict::Conflict;

const CONFLICT_ENDING: &str = ".tlog-conflict";
/// Most files of conflicts beside one log that are read.
const MAX_KEPT_CONFLICTS: usize = 64;

/// The trees that the log signed by these files, though no history has all of them.
pub(crate) fn convicting(dir: &LogDir, description: &Description) -> Vec<TreeHead> {
    let names = dir.fs.read_dir(&dir.root).unwrap_or_default();
    let names = names.into_iter().filter_map(|name| name.into_string().ok());
    let kept = names.filter(|name| name.ends_with(CONFLICT_ENDING));
    let conflicts = kept.take(MAX_KEPT_CONFLICTS).filter_map(|name| {
        let bytes = dir.read(&dir.file(&name), MAX_CONFLICT_BYTES).ok()??;
        let conflict = Conflict::parse(std::str::from_utf8(&bytes).ok()?).ok()?;
        (*conflict.key() == description.verifier().ok()?).then_some(conflict)
    });
    let trees =
        conflicts.flat_map(|conflict| conflict.checkpoints().each_ref().map(|one| *one.tree()));
    trees.collect()
}

/// Keeps a conflict that convicts the log, and answers where.
///
/// # Errors
/// Kind `External` when the system fails.
pub(crate) fn keep(dir: &LogDir, conflict: &Conflict) -> Result<PathBuf, Error> {
    let [one, other] = conflict.checkpoints();
    let roots = [one, other].map(ToString::to_string);
    let parts = roots.each_ref().map(String::as_bytes);
    let digest = Digest::tagged("conflict of this log", &parts).to_hex();
    let path = dir.file(&format!("{}{CONFLICT_ENDING}", &digest[..16]));
    dir.replace(&path, conflict.to_string().as_bytes())?;
    Ok(path)
}
