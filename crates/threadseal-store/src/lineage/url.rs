//! Opening a store of lineages by its address.
//!
//! ```text
//! file:FOLDER          a folder
//! sqlite:FILE          an SQLite file
//! postgres://…         a PostgreSQL database (also postgresql://)
//! s3://… gs://… az://… object+file:FOLDER     object storage
//! ```
//! Anything else is the path of a folder. A message does not repeat an address, since it may
//! contain a password.

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "object"))]
use super::KeyedCheckpointStore;
use super::{CheckpointStore, FileCheckpointStore};
use crate::ledger::url::{folder_of, is_address, is_object_storage};
use crate::sys::RealFs;
use std::path::Path;
use threadseal_core::error::Error;
#[cfg(not(all(feature = "sqlite", feature = "postgres", feature = "object")))]
use threadseal_core::error::Unbuilt;

/// Opens the store at this address, with the settings of object storage as environments spell them.
///
/// # Errors
/// [`threadseal_core::error::ErrorKind::InvalidInput`] for an address that no store has, or whose
/// store is not built in; the errors of opening the store.
pub fn open(
    address: &str,
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
        return open_objects(address, settings);
    }
    match address.split_once(':') {
        Some(("sqlite", file)) => open_sqlite(file),
        Some(("postgres" | "postgresql", _)) => open_postgres(address),
        _ => Err(Error::invalid(
            "lineages lie in a folder, or at an address that begins with file:, sqlite:, postgres:, \
             s3:, gs:, az: or object+file:",
        )),
    }
}

#[cfg(feature = "sqlite")]
fn open_sqlite(file: &str) -> Result<Box<dyn CheckpointStore>, Error> {
    let objects = crate::objects::SqliteObjects::open(file)?;
    Ok(Box::new(KeyedCheckpointStore::new(std::sync::Arc::new(
        objects,
    ))))
}

#[cfg(not(feature = "sqlite"))]
fn open_sqlite(file: &str) -> Result<Box<dyn CheckpointStore>, Error> {
    Err(Unbuilt::Sqlite.error(format_args!("open {file}")))
}

#[cfg(feature = "postgres")]
fn open_postgres(address: &str) -> Result<Box<dyn CheckpointStore>, Error> {
    use crate::ledger::postgres::{PostgresLedgerStore, PostgresObjects};
    let store = std::sync::Arc::new(PostgresLedgerStore::open(address)?);
    let objects = PostgresObjects::new(store);
    Ok(Box::new(KeyedCheckpointStore::new(std::sync::Arc::new(
        objects,
    ))))
}

#[cfg(not(feature = "postgres"))]
fn open_postgres(address: &str) -> Result<Box<dyn CheckpointStore>, Error> {
    Err(Unbuilt::Postgres.error(format_args!("open {address}")))
}

#[cfg(feature = "object")]
fn open_objects(
    address: &str,
    settings: &[(String, String)],
) -> Result<Box<dyn CheckpointStore>, Error> {
    let objects = crate::objects::open(address, settings)?;
    Ok(Box::new(KeyedCheckpointStore::new(objects)))
}

#[cfg(not(feature = "object"))]
fn open_objects(address: &str, _: &[(String, String)]) -> Result<Box<dyn CheckpointStore>, Error> {
    Err(Unbuilt::Objects.error(format_args!("open {address}")))
}
