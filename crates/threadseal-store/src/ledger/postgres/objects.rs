//! [`PostgresObjects`]: named objects as rows of one table, for stores that need no more.
//!
//! ```text
//! threadseal_objects    name, version from a sequence, bytes
//! ```
//! Each call is one statement, so it is done or not, and durable when it was acknowledged. A call
//! that is sent again after a lost answer finds its own earlier write. It reports that the object
//! differs, as [`Objects`] allows.

use super::PostgresLedgerStore;
use super::read::cell;
use crate::objects::{Object, Objects, Put, Version};
use deadpool_postgres::Object as Client;
use std::sync::Arc;
use threadseal_core::error::Error;

/// Objects in the database of a [`PostgresLedgerStore`].
#[derive(Debug)]
pub struct PostgresObjects {
    store: Arc<PostgresLedgerStore>,
}

impl PostgresObjects {
    /// The objects in the database of `store`, over its connections.
    pub fn new(store: Arc<PostgresLedgerStore>) -> Self {
        Self { store }
    }
}

impl Objects for PostgresObjects {
    fn read(&self, name: &str, limit: usize) -> Result<Option<Object>, Error> {
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let found = self.store.ask(&async |client: &Client| {
            let sql = "SELECT version, octet_length(bytes)::bigint,
                              CASE WHEN octet_length(bytes) <= $2::bigint THEN bytes END
                       FROM threadseal_objects WHERE name = $1";
            let statement = client.prepare_cached(sql).await?;
            let row = client.query_opt(&statement, &[&name, &most]).await?;
            row.map(|row| Ok((cell(&row, 0)?, cell::<i64>(&row, 1)?, cell(&row, 2)?)))
                .transpose()
        })?;
        match found {
            None => Ok(None),
            Some((_, length, None::<Vec<u8>>)) => Err(Error::refused(format!(
                "{name} in {} has {length} bytes, more than it can have",
                self.place()
            ))),
            Some((version, _, Some(bytes))) => Ok(Some(Object {
                bytes,
                version: Version::of_number(version),
            })),
        }
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Put, Error> {
        self.store.refuse_standby()?;
        let sql = "INSERT INTO threadseal_objects (name, version, bytes)
                   VALUES ($1, nextval('threadseal_object_versions'), $2)
                   ON CONFLICT (name) DO NOTHING RETURNING version";
        self.store.ask(&async |client: &Client| {
            let statement = client.prepare_cached(sql).await?;
            let row = client.query_opt(&statement, &[&name, &bytes]).await?;
            Ok(put(row.map(|row| cell(&row, 0)).transpose()?))
        })
    }

    fn replace_if(&self, name: &str, version: &Version, bytes: &[u8]) -> Result<Put, Error> {
        self.store.refuse_standby()?;
        let Some(expected) = version.as_number() else {
            return Ok(Put::Differs);
        };
        let sql = "UPDATE threadseal_objects
                   SET bytes = $3, version = nextval('threadseal_object_versions')
                   WHERE name = $1 AND version = $2 RETURNING version";
        self.store.ask(&async |client: &Client| {
            let statement = client.prepare_cached(sql).await?;
            let row = client
                .query_opt(&statement, &[&name, &expected, &bytes])
                .await?;
            Ok(put(row.map(|row| cell(&row, 0)).transpose()?))
        })
    }

    fn list(&self, folder: &str, after: &str, limit: usize) -> Result<Vec<String>, Error> {
        // `0` follows `/` in the order of bytes.
        let (prefix, end) = (format!("{folder}/"), format!("{folder}0"));
        let from = format!("{prefix}{after}");
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let names: Vec<String> = self.store.ask(&async |client: &Client| {
            let sql = "SELECT name FROM threadseal_objects WHERE name > $1 AND name < $2
                       ORDER BY name LIMIT $3";
            let statement = client.prepare_cached(sql).await?;
            let rows = client.query(&statement, &[&from, &end, &limit]).await?;
            rows.iter().map(|row| cell(row, 0)).collect()
        })?;
        let inside = names.iter().filter_map(|name| name.strip_prefix(&prefix));
        Ok(inside.map(str::to_owned).collect())
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        self.store.refuse_standby()?;
        self.store.ask(&async |client: &Client| {
            let sql = "DELETE FROM threadseal_objects WHERE name = $1";
            client.execute(sql, &[&name]).await?;
            Ok(())
        })
    }

    fn place(&self) -> String {
        format!("PostgreSQL at {}", self.store.place())
    }
}

fn put(version: Option<i64>) -> Put {
    version.map_or(Put::Differs, |version| {
        Put::Stored(Version::of_number(version))
    })
}
