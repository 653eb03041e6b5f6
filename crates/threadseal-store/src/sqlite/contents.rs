//! The records that an SQLite file contains, by its tables.

use super::connect::Reading;
use super::failure::failed;
use super::ledger::is_ledger;
use rusqlite::Connection;
use std::path::Path;
use threadseal_core::error::Error;

/// The records that an SQLite file contains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Contents {
    /// Ledgers, or what is left of their tables.
    pub ledgers: bool,
    /// Named objects: lineages.
    pub objects: bool,
}

impl Contents {
    /// Looks for the tables of these stores in the file at `path`, which stays as it is.
    ///
    /// # Errors
    /// When it cannot be read as an SQLite file.
    pub fn of(path: &Path) -> Result<Self, Error> {
        let reading = Reading::bare(path)?;
        let has = |name: &str| {
            let found = has_table(&reading.connection, name);
            found.map_err(|error| failed("it cannot be read", path, &error))
        };
        // Where the table of ledgers was dropped or renamed, those beside it show that.
        let beside = has("threadseal_heads")? || has("ledger_heads")?;
        Ok(Self {
            ledgers: beside || is_ledger(&reading.connection, path)?,
            objects: has("threadseal_objects")?,
        })
    }
}

fn has_table(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM main.sqlite_schema WHERE name = ?1)";
    connection.query_row(sql, [name], |row| row.get(0))
}
