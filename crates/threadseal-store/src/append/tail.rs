//! Moving a tail aside: the bytes after the last seal, found when a record is opened.
//!
//! ```text
//! NAME                          sealed bytes │ tail
//! NAME.tail-<offset>-<sha256>                  tail      written and durable first
//! NAME                          sealed bytes             then cut, and synced
//! ```
//! A crash at any point leaves the tail in the record, beside it, or in both places; doing it
//! again ends the same way. Nothing is ever deleted.

use crate::sys::{self, Fs, directory_of};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;

/// The text between the name of a record and the offset in the name of its tail.
const TAIL: &str = ".tail-";

/// A tail that was moved out of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedTail {
    /// The file that holds its bytes now.
    pub path: PathBuf,
    /// Its offset in the record.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
    /// SHA-256 of them.
    pub sha256: Digest,
}

/// The files beside the record at `path` into which bytes of it were moved, by their names.
///
/// # Errors
/// [`threadseal_core::error::ErrorKind::External`] when its folder cannot be read.
pub fn tails_of(fs: &dyn Fs, path: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut begin = OsString::from(path.file_name().unwrap_or_default());
    begin.push(TAIL);
    let folder = directory_of(path);
    let names = fs.read_dir(folder);
    let names = names.map_err(|error| sys::failure("read", folder, &error))?;
    let of_it = |name: &OsString| {
        let name = name.as_encoded_bytes();
        name.starts_with(begin.as_encoded_bytes())
    };
    let names = names.into_iter().filter(of_it);
    let mut found: Vec<PathBuf> = names.map(|name| folder.join(name)).collect();
    found.sort();
    Ok(found)
}

pub(super) fn aside(path: &Path, offset: u64, sha256: Digest) -> PathBuf {
    let mut name = OsString::from(path.file_name().unwrap_or_default());
    name.push(format!("{TAIL}{offset}-{sha256}"));
    path.with_file_name(name)
}
