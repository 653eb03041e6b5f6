//! [`SqliteObjects`]: named objects as rows of one table in an SQLite file.
//!
//! ```text
//! threadseal_objects    version: numbers that are never used again, name, bytes
//! ```
//! A commit that returned has reached the disk (`synchronous = FULL`). Of several writers, of this
//! process or others, one is in a transaction at a time. [`SqliteObjects::open_read_only`] changes
//! nothing on the disk (`sqlite::connect`).

use super::connect::{self, Reading};
use super::failure::failed;
use super::turn::Turnstile;
use crate::objects::{self, Object, Objects, Put, Version};
use rusqlite::{Connection, OptionalExtension};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use threadseal_core::error::{Error, ErrorKind};

/// How often a file that is only read is read again when it changed meanwhile.
const MAX_LOOKS: usize = 5;

const TABLE: &str = "
CREATE TABLE IF NOT EXISTS threadseal_objects (
  version INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  bytes BLOB NOT NULL
)";

/// The table of a file that has none, in memory.
const NO_TABLE: &str = "
CREATE TEMP TABLE threadseal_objects (version INTEGER, name TEXT, bytes BLOB)";

/// Objects in an SQLite file.
#[derive(Debug)]
pub struct SqliteObjects {
    path: PathBuf,
    opened: Opened,
}

#[derive(Debug)]
enum Opened {
    ToWrite(Turnstile, Mutex<Connection>),
    ToRead(Mutex<Reading>),
}

impl SqliteObjects {
    /// Opens the file at `path`, and makes it where there is none.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::Refused`] for a file that is damaged or no SQLite file,
    /// [`threadseal_core::error::ErrorKind::External`] when it cannot be opened.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        let connection = connect::durable(&path)?;
        connection
            .execute_batch(TABLE)
            .map_err(|error| failed("the table cannot be made", &path, &error))?;
        Ok(Self {
            opened: Opened::ToWrite(Turnstile::of(&path), Mutex::new(connection)),
            path,
        })
    }

    /// Opens an existing file only to read it: no byte of it, and no file beside it, is written. A
    /// file without the table has no objects.
    ///
    /// # Errors
    /// As [`SqliteObjects::open`]; [`ErrorKind::Refused`] also when an unfinished transaction must be
    /// rolled back first.
    pub fn open_read_only(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        let reading = to_read(&path)?;
        Ok(Self {
            opened: Opened::ToRead(Mutex::new(reading)),
            path,
        })
    }

    /// Does `work` while no other writer is in the file.
    fn write<T>(&self, work: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        let fail = |error| failed("it cannot be written", &self.path, &error);
        let Opened::ToWrite(turnstile, connection) = &self.opened else {
            let path = self.path.display();
            return Err(Error::refused(format!("{path} is opened read-only")));
        };
        // A transaction that was not committed is rolled back, so the connection is good.
        let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
        let transaction = turnstile.begin(&mut connection).map_err(fail)?;
        let done = work(&transaction).map_err(fail)?;
        transaction.commit().map_err(fail)?;
        Ok(done)
    }

    fn look<T>(&self, work: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        let fail = |error| failed("it cannot be read", &self.path, &error);
        let reading = match &self.opened {
            Opened::ToWrite(_, connection) => {
                let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                return work(&connection).map_err(fail);
            }
            Opened::ToRead(reading) => reading,
        };
        let mut reading = reading.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..MAX_LOOKS {
            if !reading.is_unchanged() {
                *reading = to_read(&self.path)?;
            }
            let seen = work(&reading.connection);
            if reading.is_unchanged() {
                return seen.map_err(fail);
            }
        }
        Err(Error::new(
            ErrorKind::External,
            format!(
                "{} keeps changing while it is read; try again",
                self.path.display()
            ),
        ))
    }
}

/// A connection that only reads; a missing table is replaced in memory.
fn to_read(path: &Path) -> Result<Reading, Error> {
    let fail = |error| failed("it cannot be read", path, &error);
    let reading = Reading::bare(path)?;
    connect::without_triggers(&reading.connection).map_err(fail)?;
    let is_table = "SELECT EXISTS (SELECT 1 FROM pragma_table_list
                    WHERE schema = 'main' AND name = 'threadseal_objects' AND type = 'table')";
    let is_table = reading
        .connection
        .query_row(is_table, [], |row| row.get::<_, bool>(0));
    if !is_table.map_err(fail)? {
        reading.connection.execute_batch(NO_TABLE).map_err(fail)?;
    }
    Ok(reading)
}

impl Objects for SqliteObjects {
    fn read(&self, name: &str, limit: usize) -> Result<Option<Object>, Error> {
        let found = self.look(|connection| {
            connection
                .prepare_cached("SELECT version, bytes FROM threadseal_objects WHERE name = ?1")?
                .query_row([name], |row| {
                    let bytes = row.get_ref(1)?.as_bytes()?;
                    let fits = bytes.len() <= limit;
                    Ok((row.get::<_, i64>(0)?, fits.then(|| bytes.to_vec())))
                })
                .optional()
        })?;
        match found {
            None => Ok(None),
            Some((_, None)) => Err(objects::damaged(self, name, "is larger than it can be")),
            Some((version, Some(bytes))) => Ok(Some(Object {
                bytes,
                version: Version::of_number(version),
            })),
        }
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Put, Error> {
        self.write(|connection| {
            let made = connection
                .prepare_cached(
                    "INSERT INTO threadseal_objects (name, bytes) VALUES (?1, ?2)
                     ON CONFLICT (name) DO NOTHING",
                )?
                .execute((name, bytes))?;
            Ok(match made {
                0 => Put::Differs,
                _ => Put::Stored(Version::of_number(connection.last_insert_rowid())),
            })
        })
    }

    fn replace_if(&self, name: &str, version: &Version, bytes: &[u8]) -> Result<Put, Error> {
        let Some(expected) = version.as_number() else {
            return Ok(Put::Differs);
        };
        self.write(|connection| {
            let gone = connection
                .prepare_cached("DELETE FROM threadseal_objects WHERE name = ?1 AND version = ?2")?
                .execute((name, expected))?;
            if gone == 0 {
                return Ok(Put::Differs);
            }
            connection
                .prepare_cached("INSERT INTO threadseal_objects (name, bytes) VALUES (?1, ?2)")?
                .execute((name, bytes))?;
            Ok(Put::Stored(Version::of_number(
                connection.last_insert_rowid(),
            )))
        })
    }

    fn list(&self, folder: &str, after: &str, limit: usize) -> Result<Vec<String>, Error> {
        // `0` follows `/` in the order of bytes.
        let (prefix, end) = (format!("{folder}/"), format!("{folder}0"));
        let from = format!("{prefix}{after}");
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let names: Vec<String> = self.look(|connection| {
            connection
                .prepare_cached(
                    "SELECT name FROM threadseal_objects WHERE name > ?1 AND name < ?2
                     ORDER BY name LIMIT ?3",
                )?
                .query_map((&from, &end, limit), |row| row.get(0))?
                .collect()
        })?;
        let inside = names.iter().filter_map(|name| name.strip_prefix(&prefix));
        Ok(inside.map(str::to_owned).collect())
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        self.write(|connection| {
            connection.execute("DELETE FROM threadseal_objects WHERE name = ?1", [name])
        })
        .map(drop)
    }

    fn own_place(&self) -> Option<String> {
        None
    }

    fn place(&self) -> String {
        let real = std::path::absolute(&self.path);
        real.as_deref()
            .unwrap_or(Path::new(&self.path))
            .display()
            .to_string()
    }
}
