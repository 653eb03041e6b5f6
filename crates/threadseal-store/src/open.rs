//! Opening stores by their addresses ([`crate::address`]): the one module that names all stores.
//!
//! | scheme | ledgers | transcripts | lineages |
//! |---|---|---|---|
//! | `file:` | yes | yes | yes |
//! | `sqlite:`, `postgres:` | yes | no | yes |
//! | `s3:`, `gs:`, `az:`, `object+file:` | yes | yes | yes |
//!
//! The settings of object storage are given as environments spell them: `AWS_REGION`, …. A message
//! does not repeat an address, since it may contain a password.

use crate::address::{Intent, folder_of, is_address, is_object_storage, path_of, scheme_of};
use crate::ledger::{JsonlLedgerStore, LedgerStore};
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "object"))]
use crate::lineage::KeyedCheckpointStore;
use crate::lineage::{CheckpointStore, FileCheckpointStore};
#[cfg(feature = "object")]
use crate::objects::{self, Objects};
#[cfg(feature = "postgres")]
use crate::postgres::{PostgresLedgerStore, PostgresObjects};
#[cfg(feature = "sqlite")]
use crate::sqlite::{SqliteLedgerStore, SqliteObjects};
use crate::sys::RealFs;
use crate::transcripts::{FileTranscriptStore, TranscriptStore};
use std::path::Path;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "object"))]
use std::sync::Arc;
use threadseal_core::error::Error;
#[cfg(not(all(feature = "sqlite", feature = "postgres", feature = "object")))]
use threadseal_core::error::Unbuilt;

/// The schemes of ledgers, for people.
const LEDGER_SCHEMES: &str = "file:, sqlite:, postgres:, s3:, gs:, az: and object+file:";

/// The action that fails where a store is not built in; the address may contain a password.
#[cfg(not(all(feature = "sqlite", feature = "postgres", feature = "object")))]
const THIS: &str = "open this store";

/// Opens the ledgers at this address.
///
/// # Errors
/// [`threadseal_core::error::ErrorKind::InvalidInput`] for an address that no store has, or whose
/// store is not built in; the errors of opening the store.
pub fn ledgers(
    address: &str,
    intent: Intent,
    settings: &[(String, String)],
) -> Result<Box<dyn LedgerStore>, Error> {
    let Some((scheme, rest)) = scheme_of(address) else {
        return Err(Error::invalid(format!(
            "the address of a store begins with its kind: {LEDGER_SCHEMES}"
        )));
    };
    match scheme.as_str() {
        "file" => {
            let folder = path_of(rest)?;
            check_folder(&folder, intent)?;
            Ok(Box::new(JsonlLedgerStore::open(RealFs::shared(), &folder)?))
        }
        "sqlite" => ledgers_in_sqlite(&path_of(rest)?, intent),
        "postgres" | "postgresql" => ledgers_in_postgres(address, intent),
        _ if is_object_storage(address) => ledgers_in_objects(address, intent, settings),
        _ => Err(Error::invalid(format!(
            "no store has addresses that begin with {scheme}: (there are {LEDGER_SCHEMES})"
        ))),
    }
}

/// Opens the native records at this address.
///
/// # Errors
/// As [`ledgers`].
pub fn transcripts(
    address: &str,
    intent: Intent,
    settings: &[(String, String)],
) -> Result<Box<dyn TranscriptStore>, Error> {
    if let Some(folder) = folder_of(address)? {
        check_folder(&folder, intent)?;
        return Ok(Box::new(FileTranscriptStore::new(RealFs::shared(), folder)));
    }
    if is_object_storage(address) {
        return transcripts_in_objects(address, intent, settings);
    }
    Err(Error::invalid(
        "a store of transcripts has an address that begins with file:, s3:, gs:, az: or object+file:",
    ))
}

/// Opens the lineages at this address; a text that is no address is the path of a folder.
///
/// # Errors
/// As [`ledgers`].
pub fn lineages(
    address: &str,
    intent: Intent,
    settings: &[(String, String)],
) -> Result<Box<dyn CheckpointStore>, Error> {
    if !is_address(address) {
        return Ok(Box::new(FileCheckpointStore::new(
            RealFs::shared(),
            Path::new(address),
        )));
    }
    if let Some(folder) = folder_of(address)? {
        return Ok(Box::new(FileCheckpointStore::new(RealFs::shared(), folder)));
    }
    if is_object_storage(address) {
        return lineages_in_objects(address, intent, settings);
    }
    match scheme_of(address) {
        Some((scheme, file)) if scheme == "sqlite" => lineages_in_sqlite(&path_of(file)?, intent),
        Some((scheme, _)) if scheme == "postgres" || scheme == "postgresql" => {
            lineages_in_postgres(address, intent)
        }
        _ => Err(Error::invalid(
            "lineages are in a folder, or at an address that begins with file:, sqlite:, postgres:, \
             s3:, gs:, az: or object+file:",
        )),
    }
}

/// Does the folder exist, where nothing may be made?
fn check_folder(folder: &Path, intent: Intent) -> Result<(), Error> {
    match intent == Intent::Write || folder.is_dir() {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "there is no folder {}",
            folder.display()
        ))),
    }
}

#[cfg(feature = "sqlite")]
fn ledgers_in_sqlite(file: &Path, intent: Intent) -> Result<Box<dyn LedgerStore>, Error> {
    Ok(Box::new(match intent {
        Intent::Write => SqliteLedgerStore::open(file)?,
        Intent::Read => SqliteLedgerStore::open_read_only(file)?,
    }))
}

#[cfg(feature = "sqlite")]
fn lineages_in_sqlite(file: &Path, intent: Intent) -> Result<Box<dyn CheckpointStore>, Error> {
    let objects = match intent {
        Intent::Write => SqliteObjects::open(file)?,
        Intent::Read => SqliteObjects::open_read_only(file)?,
    };
    Ok(Box::new(KeyedCheckpointStore::new(Arc::new(objects))))
}

#[cfg(not(feature = "sqlite"))]
fn ledgers_in_sqlite(_: &Path, _: Intent) -> Result<Box<dyn LedgerStore>, Error> {
    Err(Unbuilt::Sqlite.error(THIS))
}

#[cfg(not(feature = "sqlite"))]
fn lineages_in_sqlite(_: &Path, _: Intent) -> Result<Box<dyn CheckpointStore>, Error> {
    Err(Unbuilt::Sqlite.error(THIS))
}

#[cfg(feature = "postgres")]
fn ledgers_in_postgres(address: &str, intent: Intent) -> Result<Box<dyn LedgerStore>, Error> {
    Ok(match intent {
        Intent::Write => Box::new(PostgresLedgerStore::open(address)?),
        Intent::Read => PostgresLedgerStore::open_read_only(address)?,
    })
}

#[cfg(feature = "postgres")]
fn lineages_in_postgres(address: &str, intent: Intent) -> Result<Box<dyn CheckpointStore>, Error> {
    let objects = match intent {
        Intent::Write => PostgresObjects::open(address)?,
        Intent::Read => PostgresObjects::open_read_only(address)?,
    };
    Ok(Box::new(KeyedCheckpointStore::new(Arc::new(objects))))
}

#[cfg(not(feature = "postgres"))]
fn ledgers_in_postgres(_: &str, _: Intent) -> Result<Box<dyn LedgerStore>, Error> {
    Err(Unbuilt::Postgres.error(THIS))
}

#[cfg(not(feature = "postgres"))]
fn lineages_in_postgres(_: &str, _: Intent) -> Result<Box<dyn CheckpointStore>, Error> {
    Err(Unbuilt::Postgres.error(THIS))
}

#[cfg(feature = "object")]
fn ledgers_in_objects(
    address: &str,
    intent: Intent,
    settings: &[(String, String)],
) -> Result<Box<dyn LedgerStore>, Error> {
    let objects = objects_at(address, intent, settings)?;
    Ok(Box::new(crate::ledger::ObjectLedgerStore::new(objects)))
}

#[cfg(feature = "object")]
fn transcripts_in_objects(
    address: &str,
    intent: Intent,
    settings: &[(String, String)],
) -> Result<Box<dyn TranscriptStore>, Error> {
    let objects = objects_at(address, intent, settings)?;
    Ok(Box::new(crate::transcripts::ObjectTranscriptStore::new(
        objects,
    )))
}

#[cfg(feature = "object")]
fn lineages_in_objects(
    address: &str,
    intent: Intent,
    settings: &[(String, String)],
) -> Result<Box<dyn CheckpointStore>, Error> {
    let objects = objects_at(address, intent, settings)?;
    Ok(Box::new(KeyedCheckpointStore::new(objects)))
}

/// The object storage at this address.
#[cfg(feature = "object")]
fn objects_at(
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
fn ledgers_in_objects(
    _: &str,
    _: Intent,
    _: &[(String, String)],
) -> Result<Box<dyn LedgerStore>, Error> {
    Err(Unbuilt::Objects.error(THIS))
}

#[cfg(not(feature = "object"))]
fn transcripts_in_objects(
    _: &str,
    _: Intent,
    _: &[(String, String)],
) -> Result<Box<dyn TranscriptStore>, Error> {
    Err(Unbuilt::Objects.error(THIS))
}

#[cfg(not(feature = "object"))]
fn lineages_in_objects(
    _: &str,
    _: Intent,
    _: &[(String, String)],
) -> Result<Box<dyn CheckpointStore>, Error> {
    Err(Unbuilt::Objects.error(THIS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::conformance::{append_next, run_id};
    use threadseal_core::error::ErrorKind;

    fn open(address: &str, intent: Intent) -> Result<Box<dyn LedgerStore>, Error> {
        ledgers(address, intent, &[])
    }

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

    #[test]
    fn what_holds_no_transcripts_is_refused_and_not_repeated() {
        for address in [
            "",
            "x",
            "sqlite:a.db",
            "postgres://u:secret@h/d",
            "s3://k:secret@b",
        ] {
            let error = transcripts(address, Intent::Write, &[]).unwrap_err();
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let folder = tempfile::tempdir().unwrap();
        for scheme in ["file", "object+file"] {
            let address = format!("{scheme}:{}/none", folder.path().display());
            assert!(transcripts(&address, Intent::Read, &[]).is_err());
            let store = transcripts(&address, Intent::Write, &[]).unwrap();
            assert_eq!(store.names(None, 9).unwrap(), []);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
