//! A record as a log on the disk: tiles and a checkpoint that tools for logs read (`spec/proofs.md`, "Records as logs").
//!
//! The checkpoint is written last, so a folder without it holds no log.

use crate::layout::log_dir::LogDir;
use std::path::Path;
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_formats::transcript::as_log::RecordLog;
use threadseal_store::atomic;
use threadseal_store::atomic::PRIVATE_DIRECTORY;
use threadseal_store::sys::Fs;

/// Entries whose tiles are written at once: sixteen full tiles, so that none is read again to be filled.
const BATCH_ENTRIES: usize = 4096;

/// Writes `log` into `folder`, which is made, or is empty.
///
/// # Errors
/// Kind `Refused` when the folder holds anything, `External` when the system fails.
pub fn write_record_log(fs: &Arc<dyn Fs>, folder: &Path, log: &RecordLog<'_>) -> Result<(), Error> {
    atomic::create_directories(&**fs, folder, PRIVATE_DIRECTORY)?;
    let there = fs
        .read_dir(folder)
        .map_err(|error| threadseal_store::sys::failure("read", folder, &error))?;
    if !there.is_empty() {
        let text = format!("{} is not empty", folder.display());
        return Err(Error::refused(text));
    }
    let dir = LogDir {
        fs: Arc::clone(fs),
        root: folder.to_owned(),
    };
    let mut size = 0;
    for batch in log.entries().chunks(BATCH_ENTRIES) {
        let entries: Vec<Vec<u8>> = batch.iter().map(|entry| entry.to_vec()).collect();
        dir.grow(size, &entries)?;
        size += entries.len() as u64;
    }
    let checkpoint = log.checkpoint().to_string();
    dir.replace(&dir.checkpoint(), checkpoint.as_bytes())
}
