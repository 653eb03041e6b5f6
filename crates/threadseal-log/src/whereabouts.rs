//! Where records lie: the private index beside the log, which says where to look for what only the log knows.
//!
//! ```text
//! log/places/<record id>   where it was sealed: a path or the address of a store on each line, the last one last
//! ```
//! Nothing rests on it: a line leads to a place, and what lies there is judged like anything else. So nothing is synced, and what
//! cannot be written is left out.

use super::SealLog;
use std::path::{Path, PathBuf};
use threadseal_core::error::Error;
use threadseal_core::record::RecordId;
use threadseal_store::atomic::{self, PRIVATE_FILE};
use threadseal_store::home::PRIVATE_DIRECTORY;
use threadseal_store::sys::{self, Access, directory_of};

/// Largest file of one record in bytes; of a record that lay in more places the first ones are remembered.
const MAX_PLACES_BYTES: usize = 16 << 10;

impl SealLog {
    /// Remembers that a record was sealed in `place`, if that can be written down.
    pub(super) fn note_place(&self, record: &RecordId, place: &str) {
        if place.is_empty() || place.contains('\n') {
            return;
        }
        let known = self.places_of(record);
        if known.last().is_none_or(|last| last != place) {
            let line = format!("{place}\n");
            let known: usize = known.iter().map(|known| known.len() + 1).sum();
            if known + line.len() <= MAX_PLACES_BYTES {
                // Who looks for the record is then asked where it lies.
                let _ = self.write_place(record, line.as_bytes());
            }
        }
    }

    /// Where a record was sealed, the last place last; nothing where nobody wrote that down, or it cannot be read.
    pub fn places_of(&self, record: &RecordId) -> Vec<String> {
        let read = self.shared.place.read(&self.file(record), MAX_PLACES_BYTES);
        let text = read.ok().flatten().unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let whole = text
            .split_inclusive('\n')
            .filter_map(|line| line.strip_suffix('\n'));
        whole.map(str::to_owned).collect()
    }

    fn write_place(&self, record: &RecordId, line: &[u8]) -> Result<(), Error> {
        let (fs, path) = (&self.shared.place.fs, self.file(record));
        atomic::create_directories(&**fs, directory_of(&path), PRIVATE_DIRECTORY)?;
        let file = fs.open(&path, Access::OpenOrCreate(PRIVATE_FILE));
        let file = file.map_err(|error| sys::failure("write", &path, &error))?;
        sys::append_all(&*file, line).map_err(|error| sys::failure("write", &path, &error))
    }

    fn file(&self, record: &RecordId) -> PathBuf {
        let log: &Path = &self.shared.place.root;
        directory_of(log).join("places").join(record.to_string())
    }
}
