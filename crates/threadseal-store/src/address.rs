//! Addresses of stores: their schemes, and the paths in those of files.
//!
//! ```text
//! file:FOLDER          a folder; file:///FOLDER means the same
//! sqlite:FILE          an SQLite file
//! postgres://…         a PostgreSQL database (also postgresql://)
//! s3://… gs://… az://… object+file:FOLDER     object storage (`objects::open`)
//! ```
//! In the first two the rest is a path as the system takes it, not percent-encoded. A message does
//! not repeat an address, since it may contain a password; it contains the scheme.
//!
//! Not here: the stores at these addresses, see [`crate::open`].

use std::path::PathBuf;
use threadseal_core::error::Error;

/// The planned use of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// Append to it; missing parts are made.
    Write,
    /// Read it: nothing is made and nothing is changed.
    Read,
}

/// Is this an address, not a path? A scheme has two letters at least, so that a drive is none.
pub fn is_address(text: &str) -> bool {
    scheme_of(text).is_some()
}

/// Is this the address of object storage?
pub fn is_object_storage(address: &str) -> bool {
    let scheme = scheme_of(address).map(|(scheme, _)| scheme);
    matches!(scheme.as_deref(), Some("s3" | "gs" | "az" | "object+file"))
}

/// The folder that an address of files names; `None` for any other.
///
/// # Errors
/// [`threadseal_core::error::ErrorKind::InvalidInput`] when it names a host, or no path.
pub fn folder_of(address: &str) -> Result<Option<PathBuf>, Error> {
    match scheme_of(address) {
        Some((scheme, rest)) if scheme == "file" => path_of(rest).map(Some),
        _ => Ok(None),
    }
}

/// The file that an address of SQLite names; `None` for any other.
///
/// # Errors
/// As [`folder_of`].
pub fn sqlite_file_of(address: &str) -> Result<Option<PathBuf>, Error> {
    match scheme_of(address) {
        Some((scheme, rest)) if scheme == "sqlite" => path_of(rest).map(Some),
        _ => Ok(None),
    }
}

/// The scheme in lower case (RFC 3986 §3.1), and the text after its colon.
pub(crate) fn scheme_of(text: &str) -> Option<(String, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let is_scheme = scheme.len() > 1
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_scheme.then(|| (scheme.to_ascii_lowercase(), rest))
}

/// `//` begins an authority, which must be empty: the folder or file is on this machine.
pub(crate) fn path_of(rest: &str) -> Result<PathBuf, Error> {
    let path = match rest.strip_prefix("//") {
        Some(path) if !path.starts_with('/') => {
            return Err(Error::invalid(
                "the address names a host, but files are on this machine: write three slashes",
            ));
        }
        Some(path) => path,
        None => rest,
    };
    match path.is_empty() {
        true => Err(Error::invalid("the address names no path")),
        false => Ok(PathBuf::from(path)),
    }
}
