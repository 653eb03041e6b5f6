//! Files that count only if no other user could write them, or read them.

use crate::read;
use crate::sys::{self, FileKind, Fs, Metadata};
use std::io;
use std::path::Path;
use threadseal_core::error::Error;
use threadseal_core::limits::MAX_KEY_FILE_BYTES;

const OTHERS_WRITE: u32 = 0o022;
const OTHERS: u32 = 0o077;

/// A file that decides trust. It is read only when it belongs to the user or to root and no other
/// user may write to it. `None` when there is none.
///
/// # Errors
/// [`threadseal_core::error::ErrorKind::InvalidInput`] when others could have written it, or as
/// [`read::read_small`].
pub fn read_trusted_file(
    fs: &dyn Fs,
    path: &Path,
    limit_bytes: usize,
) -> Result<Option<Vec<u8>>, Error> {
    match fs.metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(sys::failure("read", path, &error)),
        Ok(_) => {}
    }
    check_owned(fs, path, FileKind::Regular)?;
    read::read_small(fs, path, limit_bytes).map(Some)
}

/// A private key file, wherever it is: refused when others may read it.
///
/// # Errors
/// As [`KeyFiles::read_private`].
pub fn read_private_key_file(fs: &dyn Fs, path: &Path) -> Result<Vec<u8>, Error> {
    let file = read::open_regular(fs, path)?;
    // The check uses the open file, not the name, so it applies to the bytes that are read.
    let found = file.metadata()?;
    let shown = path.display();
    if !owned_by_user_or_root(fs, &found) {
        return Err(Error::key(format!(
            "private key {shown} belongs to user {}, not to you",
            found.uid
        )));
    }
    if found.mode & OTHERS != 0 {
        return Err(Error::key(format!(
            "others may use private key {shown} (mode {:04o}); hint: chmod 600 {shown}, or make a \
             new key if another user read it",
            found.mode
        )));
    }
    file.read_whole(MAX_KEY_FILE_BYTES)
}

/// Refuses a file or directory that another user owns or may write to.
pub(crate) fn check_owned(fs: &dyn Fs, path: &Path, kind: FileKind) -> Result<Metadata, Error> {
    let found = fs
        .metadata(path)
        .map_err(|error| sys::failure("read", path, &error))?;
    let shown = path.display();
    if found.kind != kind {
        return Err(Error::invalid(format!(
            "{shown} is {}, not {kind}",
            found.kind
        )));
    }
    if !owned_by_user_or_root(fs, &found) {
        return Err(Error::invalid(format!(
            "{shown} belongs to user {}, not to you; nothing in it is trusted",
            found.uid
        )));
    }
    if found.mode & OTHERS_WRITE != 0 {
        return Err(Error::invalid(format!(
            "others may write to {shown} (mode {:04o}); hint: chmod go-w {shown}",
            found.mode
        )));
    }
    Ok(found)
}

fn owned_by_user_or_root(fs: &dyn Fs, found: &Metadata) -> bool {
    found.uid == fs.effective_uid() || found.uid == 0
}
