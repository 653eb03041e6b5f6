//! [`RecordPlaces`]: a private index beside the logs: where to look for records that only the log
//! knows.
//!
//! ```text
//! log/places/<record id>   where it was sealed: a path or the address of a store on each line, the last one last
//! ```
//! Nothing depends on it: a line leads to a place, and a record there is judged like any other. So nothing is synced, and
//! a line that cannot be written is left out.

use crate::layout::log_dir::LogDir;
use std::io::ErrorKind;
use std::path::PathBuf;
use threadseal_core::error::Error;
use threadseal_core::record::RecordId;
use threadseal_store::atomic::PRIVATE_DIRECTORY;
use threadseal_store::atomic::{self, PRIVATE_FILE};
use threadseal_store::sys::{self, Access, directory_of};

/// Largest file of one record in bytes; of a record that was in more places the first ones are remembered.
const MAX_PLACES_BYTES: usize = 16 << 10;

/// The index beside one log.
#[derive(Debug)]
pub(crate) struct RecordPlaces<'l>(pub(crate) &'l LogDir);

impl RecordPlaces<'_> {
    /// Remembers that a record was sealed in `place`, if that can be written.
    pub(crate) fn note(&self, record: &RecordId, place: &str) {
        if place.is_empty() || place.contains('\n') {
            return;
        }
        let known = self.of(record);
        if known.last().is_none_or(|last| last != place) {
            let line = format!("{place}\n");
            let known: usize = known.iter().map(|known| known.len() + 1).sum();
            if known + line.len() <= MAX_PLACES_BYTES {
                // Without the line, the caller who looks for the record must name its place.
                let _ = self.append(record, line.as_bytes());
            }
        }
    }

    /// Where a record was sealed, the last place last; nothing where the file is missing or cannot be read.
    pub(crate) fn of(&self, record: &RecordId) -> Vec<String> {
        let read = self.0.read(&self.file(record), MAX_PLACES_BYTES);
        let text = read.ok().flatten().unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let whole = text
            .split_inclusive('\n')
            .filter_map(|line| line.strip_suffix('\n'));
        whole.map(str::to_owned).collect()
    }

    /// The records with a place.
    ///
    /// # Errors
    /// Kind `External` when the folder of the index is there and cannot be read.
    pub(crate) fn records(&self) -> Result<Vec<RecordId>, Error> {
        let folder = self.folder();
        let names = match self.0.fs.read_dir(&folder) {
            Ok(names) => names,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(sys::failure("read", &folder, &error)),
        };
        let records = names
            .iter()
            .filter_map(|name| RecordId::parse_hex(name.to_str()?));
        Ok(records.collect())
    }

    fn append(&self, record: &RecordId, line: &[u8]) -> Result<(), Error> {
        let (fs, path) = (&self.0.fs, self.file(record));
        atomic::create_directories(&**fs, directory_of(&path), PRIVATE_DIRECTORY)?;
        let file = fs.open(&path, Access::OpenOrCreate(PRIVATE_FILE));
        let file = file.map_err(|error| sys::failure("write", &path, &error))?;
        sys::append_all(&*file, line).map_err(|error| sys::failure("write", &path, &error))
    }

    fn file(&self, record: &RecordId) -> PathBuf {
        self.folder().join(record.to_string())
    }

    fn folder(&self) -> PathBuf {
        directory_of(&self.0.root).join("places")
    }
}
