//! Opening a store by its address.
//!
//! ```text
//! file:FOLDER          files of lines in that folder; file:///FOLDER means the same
//! sqlite:FILE          an SQLite file
//! postgres://…         a PostgreSQL database (also postgresql://)
//! s3://… gs://… az://… object+file:FOLDER     object storage (`objects::open`)
//! ```
//! In the first two the rest is a path as the system takes it, not percent-encoded. A message does
//! not repeat an address, since it may contain a password; it contains the scheme.

use super::{JsonlLedgerStore, LedgerStore};
#[cfg(feature = "object")]
use crate::objects::{self, Objects};
use crate::sys::RealFs;
use std::path::{Path, PathBuf};
#[cfg(feature = "object")]
use std::sync::Arc;
use threadseal_core::error::Error;
#[cfg(not(all(feature = "sqlite", feature = "postgres", feature = "object")))]
use threadseal_core::error::Unbuilt;

/// The schemes, for people.
const KINDS: &str = "file:, sqlite:, postgres:, s3:, gs:, az: and object+file:";

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

/// Opens the store at this address.
///
/// # Errors
/// [`threadseal_core::error::ErrorKind::InvalidInput`] for an address that no store has, or whose
/// store is not built in; the errors of opening the store.
pub fn open(address: &str, intent: Intent) -> Result<Box<dyn LedgerStore>, Error> {
    open_with(address, intent, &[])
}

/// As [`open`], with the settings of object storage, as environments spell them: `AWS_REGION`, ….
///
/// # Errors
/// As [`open`].
pub fn open_with(
    address: &str,
    intent: Intent,
    settings: &[(String, String)],
) -> Result<Box<dyn LedgerStore>, Error> {
    let Some((scheme, rest)) = scheme_of(address) else {
        return Err(Error::invalid(format!(
            "the address of a store begins with its kind: {KINDS}"
        )));
    };
    match scheme.as_str() {
        "file" => open_files(&path_of(rest)?, intent),
        "sqlite" => open_sqlite(&path_of(rest)?, intent),
        "postgres" | "postgresql" => open_postgres(address),
        _ if is_object_storage(address) => open_objects(address, intent, settings),
        _ => Err(Error::invalid(format!(
            "no store has addresses that begin with {scheme}: (there are {KINDS})"
        ))),
    }
}

/// The folder that an address of files names; `None` for any other.
///
/// # Errors
/// As [`open`].
pub fn folder_of(address: &str) -> Result<Option<PathBuf>, Error> {
    match scheme_of(address) {
        Some((scheme, rest)) if scheme == "file" => path_of(rest).map(Some),
        _ => Ok(None),
    }
}

/// Does the folder exist, where nothing may be made?
pub(crate) fn check_folder(folder: &Path, intent: Intent) -> Result<(), Error> {
    match intent == Intent::Write || folder.is_dir() {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "there is no folder {}",
            folder.display()
        ))),
    }
}

fn open_files(folder: &Path, intent: Intent) -> Result<Box<dyn LedgerStore>, Error> {
    check_folder(folder, intent)?;
    Ok(Box::new(JsonlLedgerStore::open(RealFs::shared(), folder)?))
}

#[cfg(feature = "sqlite")]
fn open_sqlite(file: &Path, intent: Intent) -> Result<Box<dyn LedgerStore>, Error> {
    Ok(Box::new(match intent {
        Intent::Write => super::SqliteLedgerStore::open(file)?,
        Intent::Read => super::SqliteLedgerStore::open_read_only(file)?,
    }))
}

#[cfg(not(feature = "sqlite"))]
fn open_sqlite(file: &Path, _: Intent) -> Result<Box<dyn LedgerStore>, Error> {
    let file = file.display();
    Err(Unbuilt::Sqlite.error(format_args!("open {file}")))
}

#[cfg(feature = "postgres")]
fn open_postgres(address: &str) -> Result<Box<dyn LedgerStore>, Error> {
    Ok(Box::new(super::PostgresLedgerStore::open(address)?))
}

#[cfg(not(feature = "postgres"))]
fn open_postgres(address: &str) -> Result<Box<dyn LedgerStore>, Error> {
    Err(Unbuilt::Postgres.error(format_args!("open {address}")))
}

#[cfg(feature = "object")]
fn open_objects(
    address: &str,
    intent: Intent,
    settings: &[(String, String)],
) -> Result<Box<dyn LedgerStore>, Error> {
    let objects = objects_at(address, intent, settings)?;
    Ok(Box::new(super::ObjectLedgerStore::new(objects)))
}

/// The object storage at this address.
#[cfg(feature = "object")]
pub(crate) fn objects_at(
    address: &str,
    intent: Intent,
    settings: &[(String, String)],
) -> Result<Arc<dyn Objects>, Error> {
    match scheme_of(address) {
        Some((scheme, rest)) if scheme == "object+file" => {
            let folder = path_of(rest)?;
            check_folder(&folder, intent)?;
            Ok(Arc::new(objects::Folder::new(RealFs::shared(), folder)))
        }
        Some((scheme, rest)) => objects::open(&format!("{scheme}:{rest}"), settings),
        None => objects::open(address, settings),
    }
}

#[cfg(not(feature = "object"))]
fn open_objects(
    address: &str,
    _: Intent,
    _: &[(String, String)],
) -> Result<Box<dyn LedgerStore>, Error> {
    Err(Unbuilt::Objects.error(format_args!("open {address}")))
}

/// The scheme in lower case (RFC 3986 §3.1), and the text after its colon.
fn scheme_of(text: &str) -> Option<(String, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let is_scheme = scheme.len() > 1
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_scheme.then(|| (scheme.to_ascii_lowercase(), rest))
}

/// `//` begins an authority, which must be empty: the folder or file is on this machine.
fn path_of(rest: &str) -> Result<PathBuf, Error> {
    let path = match rest.strip_prefix("//") {
        Some(path) if !path.starts_with('/') => {
            return Err(Error::invalid(
                "the address names a host, and files are of this machine: write three slashes",
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::conformance::{append_next, run_id};
    use threadseal_core::error::ErrorKind;

    #[test]
    fn a_store_is_opened_by_its_address_and_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().display();
        for address in [
            format!("file:{place}"),
            format!("FILE://{place}"),
            format!("sqlite:{place}/a.db"),
            format!("sqlite://{place}/b.db"),
            format!("object+file:{place}/objects"),
        ] {
            assert!(is_address(&address));
            let run = run_id("r");
            let before = open(&address, Intent::Write).unwrap().tip(&run).unwrap();
            append_next(&*open(&address, Intent::Write).unwrap(), &run, "x").unwrap();
            let after = open(&address, Intent::Read)
                .unwrap()
                .tip(&run)
                .unwrap()
                .unwrap();
            assert_eq!(after.count, before.unwrap_or_default().count + 1);
        }
    }

    #[test]
    fn what_is_no_address_is_refused_and_not_repeated() {
        for address in [
            "",
            "ledger",
            "C:\\x",
            "file:",
            "sqlite:",
            "file://host/x",
            "ftp://u:secret@h/",
            "x://secret",
            "postgres://u:secret@[/",
            "postgres://u:se@cret@h/d",
            "postgres://u:secret@h/d?sslmode=secret",
            "postgres://u:secret@h:secret/d",
            "postgres://u:secret@h/d?port=secret",
            "postgres:secret",
            "postgres://u:secret@h/d?sslrootcert=/nowhere",
            "s3://key:secret@bucket",
            "object+file:",
        ] {
            let error = open(address, Intent::Write).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{address}: {error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn looking_makes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().display();
        assert!(open(&format!("file:{place}/none"), Intent::Read).is_err());
        assert!(open(&format!("sqlite:{place}/none.db"), Intent::Read).is_err());
        assert!(open(&format!("object+file:{place}/none"), Intent::Read).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
