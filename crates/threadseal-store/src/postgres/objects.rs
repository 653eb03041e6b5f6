//! [`PostgresObjects`]: named objects as rows of one table, for stores that need no more.
//!
//! ```text
//! threadseal_objects    name, version from a sequence, bytes
//! ```
//! Each call is one statement, so it is done or not, and durable when it was acknowledged. A call
//! that is sent again after a lost answer finds its own earlier write. It reports that the object
//! differs, as [`Objects`] allows.

use super::database::PostgresDatabase;
use super::failure::column;
use super::tables::PostgresTables;
use crate::objects::{Object, Objects, Put, Version};
use deadpool_postgres::Object as Client;
use threadseal_core::error::Error;

/// Objects in a PostgreSQL database.
#[derive(Debug)]
pub struct PostgresObjects {
    database: PostgresDatabase,
    may_write: bool,
    has_table: bool,
}

impl PostgresObjects {
    /// Connects to the server of this address and makes its missing tables.
    ///
    /// # Errors
    /// As [`PostgresDatabase::open`] and [`PostgresTables::make`].
    pub fn open(url: &str) -> Result<Self, Error> {
        PostgresTables::make(&PostgresDatabase::open(url)?).map(Self::over)
    }

    /// Connects to the server of this address only to read: no table is made, and where there is none
    /// there are no objects.
    ///
    /// # Errors
    /// As [`PostgresDatabase::open`].
    pub fn open_read_only(url: &str) -> Result<Self, Error> {
        let database = PostgresDatabase::open(url)?;
        let has_table = PostgresTables::find(&database)?.objects;
        Ok(Self {
            database,
            may_write: false,
            has_table,
        })
    }

    fn refuse_to_write(&self) -> Result<(), Error> {
        match self.may_write {
            true => self.database.refuse_standby(),
            false => Err(Error::refused(format!(
                "{} is opened read-only",
                self.place()
            ))),
        }
    }

    /// The objects in these tables.
    pub fn over(tables: PostgresTables) -> Self {
        let PostgresTables { database } = tables;
        Self {
            database,
            may_write: true,
            has_table: true,
        }
    }
}

impl Objects for PostgresObjects {
    fn read(&self, name: &str, limit: usize) -> Result<Option<Object>, Error> {
        if !self.has_table {
            return Ok(None);
        }
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let found = self.database.ask(&async |client: &Client| {
            let sql = "SELECT version, octet_length(bytes)::bigint,
                              CASE WHEN octet_length(bytes) <= $2::bigint THEN bytes END
                       FROM threadseal_objects WHERE name = $1";
            let statement = client.prepare_cached(sql).await?;
            let row = client.query_opt(&statement, &[&name, &most]).await?;
            row.map(|row| Ok((column(&row, 0)?, column::<i64>(&row, 1)?, column(&row, 2)?)))
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
        self.refuse_to_write()?;
        let sql = "INSERT INTO threadseal_objects (name, version, bytes)
                   VALUES ($1, nextval('threadseal_object_versions'), $2)
                   ON CONFLICT (name) DO NOTHING RETURNING version";
        self.database.ask(&async |client: &Client| {
            let statement = client.prepare_cached(sql).await?;
            let row = client.query_opt(&statement, &[&name, &bytes]).await?;
            Ok(put(row.map(|row| column(&row, 0)).transpose()?))
        })
    }

    fn replace_if(&self, name: &str, version: &Version, bytes: &[u8]) -> Result<Put, Error> {
        self.refuse_to_write()?;
        let Some(expected) = version.as_number() else {
            return Ok(Put::Differs);
        };
        let sql = "UPDATE threadseal_objects
                   SET bytes = $3, version = nextval('threadseal_object_versions')
                   WHERE name = $1 AND version = $2 RETURNING version";
        self.database.ask(&async |client: &Client| {
            let statement = client.prepare_cached(sql).await?;
            let row = client
                .query_opt(&statement, &[&name, &expected, &bytes])
                .await?;
            Ok(put(row.map(|row| column(&row, 0)).transpose()?))
        })
    }

    fn list(&self, folder: &str, after: &str, limit: usize) -> Result<Vec<String>, Error> {
        if !self.has_table {
            return Ok(Vec::new());
        }
        // `0` follows `/` in the order of bytes.
        let (prefix, end) = (format!("{folder}/"), format!("{folder}0"));
        let from = format!("{prefix}{after}");
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let names: Vec<String> = self.database.ask(&async |client: &Client| {
            let sql = "SELECT name FROM threadseal_objects WHERE name > $1 AND name < $2
                       ORDER BY name LIMIT $3";
            let statement = client.prepare_cached(sql).await?;
            let rows = client.query(&statement, &[&from, &end, &limit]).await?;
            rows.iter().map(|row| column(row, 0)).collect()
        })?;
        let inside = names.iter().filter_map(|name| name.strip_prefix(&prefix));
        Ok(inside.map(str::to_owned).collect())
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        self.refuse_to_write()?;
        self.database.ask(&async |client: &Client| {
            let sql = "DELETE FROM threadseal_objects WHERE name = $1";
            client.execute(sql, &[&name]).await?;
            Ok(())
        })
    }

    fn own_place(&self) -> Option<String> {
        Some(format!("postgres:{}", self.database.place()))
    }

    fn place(&self) -> String {
        format!("PostgreSQL at {}", self.database.place())
    }
}

fn put(version: Option<i64>) -> Put {
    version.map_or(Put::Differs, |version| {
        Put::Stored(Version::of_number(version))
    })
}
