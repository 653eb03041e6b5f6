//! Opening a store of transcripts by its address.
//!
//! ```text
//! file:FOLDER                                 the files of a folder
//! s3://… gs://… az://… object+file:FOLDER     object storage
//! STORE#NAME                                  a record in it
//! ```
//! The other rules for addresses in [`crate::ledger::url`] hold here too. Databases hold ledgers
//! only.

use super::{FileTranscriptStore, RecordName, TranscriptStore};
use crate::ledger::url::{self, Intent};
use crate::sys::RealFs;
use threadseal_core::error::Error;
#[cfg(not(feature = "object"))]
use threadseal_core::error::Unbuilt;

/// The address of a store, and the record in it that is meant, if one is.
///
/// A name never contains `#`. A folder may; a `#` at the end of its address distinguishes it.
///
/// # Errors
/// [`threadseal_core::error::ErrorKind::InvalidInput`] for a text after `#` that is no name.
pub fn split_address(address: &str) -> Result<(&str, Option<RecordName>), Error> {
    match address.rsplit_once('#') {
        None => Ok((address, None)),
        Some((store, "")) => Ok((store, None)),
        Some((store, name)) => Ok((store, Some(RecordName::parse(name)?))),
    }
}

/// Opens the store at this address, with the settings of object storage as environments spell them.
///
/// # Errors
/// [`threadseal_core::error::ErrorKind::InvalidInput`] for an address that no store of transcripts
/// has, or whose store is not built in; the errors of opening the store.
pub fn open_with(
    address: &str,
    intent: Intent,
    settings: &[(String, String)],
) -> Result<Box<dyn TranscriptStore>, Error> {
    if let Some(folder) = url::folder_of(address)? {
        url::check_folder(&folder, intent)?;
        return Ok(Box::new(FileTranscriptStore::new(RealFs::shared(), folder)));
    }
    if url::is_object_storage(address) {
        return open_objects(address, intent, settings);
    }
    Err(Error::invalid(
        "a store of transcripts has an address that begins with file:, s3:, gs:, az: or object+file:",
    ))
}

#[cfg(feature = "object")]
fn open_objects(
    address: &str,
    intent: Intent,
    settings: &[(String, String)],
) -> Result<Box<dyn TranscriptStore>, Error> {
    let objects = url::objects_at(address, intent, settings)?;
    Ok(Box::new(super::ObjectTranscriptStore::new(objects)))
}

#[cfg(not(feature = "object"))]
fn open_objects(
    address: &str,
    _: Intent,
    _: &[(String, String)],
) -> Result<Box<dyn TranscriptStore>, Error> {
    Err(Unbuilt::Objects.error(format_args!("open {address}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_store_and_perhaps_a_record() {
        let name = |text| Some(RecordName::parse(text).unwrap());
        for (address, store, record) in [
            ("s3://b/p", "s3://b/p", None),
            ("s3://b/p#", "s3://b/p", None),
            ("s3://b/p#a b.1", "s3://b/p", name("a b.1")),
            ("file:/x#y#z", "file:/x#y", name("z")),
        ] {
            assert_eq!(split_address(address).unwrap(), (store, record));
        }
        assert!(split_address("s3://b/p#.hidden").is_err());
    }

    #[test]
    fn what_holds_no_transcripts_is_refused_and_not_repeated() {
        for address in [
            "",
            "x",
            "sqlite:a.db",
            "postgres://u:secret@h/d",
            "s3://k:secret@b",
        ] {
            let error = open_with(address, Intent::Write, &[]).unwrap_err();
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let folder = tempfile::tempdir().unwrap();
        for scheme in ["file", "object+file"] {
            let address = format!("{scheme}:{}/none", folder.path().display());
            assert!(open_with(&address, Intent::Read, &[]).is_err());
            let store = open_with(&address, Intent::Write, &[]).unwrap();
            assert_eq!(store.names(None, 9).unwrap(), []);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
