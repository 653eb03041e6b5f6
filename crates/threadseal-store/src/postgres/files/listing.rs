//! All files of a database by their own names, for verification.
//!
//! A folder lists the rows that name it, and an attacker can edit a row so that no folder lists it;
//! readers open files by path. So verification covers every row, whatever lists it.

use crate::postgres::database::{PostgresDatabase, cell};
use std::path::{Component, Path};
use threadseal_core::error::{Error, ErrorKind};

/// Most rows that are listed.
const MAX_LISTED: i64 = 1 << 20;

/// `$1` and `$2` bound the paths: `folder/` and the next text after all paths with that prefix.
const LIST: &str = "
SELECT path, size, is_folder FROM threadseal_files
WHERE $1::text IS NULL OR (path >= $1 AND path < $2)
ORDER BY path LIMIT $3";

/// The files in a database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Paths relative to the root, and sizes, in the order of the paths.
    pub files: Vec<(String, u64)>,
    /// Names under which no program opens anything.
    pub strays: Vec<String>,
}

/// The order to which the file at `path` belongs; None where there is no file.
///
/// # Errors
/// Kind `External` when the server fails.
pub fn order_of(database: &PostgresDatabase, path: &str) -> Result<Option<i64>, Error> {
    database.read(|session| {
        let has_files = "SELECT to_regclass('threadseal_files') IS NOT NULL";
        if !cell::<bool>(&session.one(has_files, &[])?, 0)? {
            return Ok(None);
        }
        let sql = "SELECT order_id FROM threadseal_files WHERE path = $1 AND NOT is_folder";
        let row = session.opt(sql, &[&path])?;
        row.as_ref().map(|row| cell(row, 0)).transpose()
    })
}

/// The paths of the files of an order that have this name, sorted. Only the holder of its lease
/// calls this.
///
/// # Errors
/// Kind `External` when the server fails.
pub fn of_order(database: &PostgresDatabase, order: i64, name: &str) -> Result<Vec<String>, Error> {
    let sql = "SELECT path FROM threadseal_files
       WHERE order_id = $1 AND NOT is_folder AND right(path, length($2) + 1) = '/' || $2 ORDER BY path";
    database.read(|session| {
        let rows = session.query(sql, &[&order, &name])?;
        rows.iter().map(|row| cell(row, 0)).collect()
    })
}

/// The files below one of `folders`; with `below` only those below that one.
///
/// # Errors
/// Kind `Limit` when there are too many, `External` when the server fails.
pub fn list(
    database: &PostgresDatabase,
    folders: &[&str],
    below: Option<&str>,
) -> Result<Listing, Error> {
    // `0` follows `/`, and the column is compared byte by byte.
    let bounds = below.map(|folder| (format!("{folder}/"), format!("{folder}0")));
    let (from, to) = (bounds.as_ref().map(|b| &b.0), bounds.as_ref().map(|b| &b.1));
    let limit = MAX_LISTED + 1;
    database.read(|session| {
        let rows = session.query(LIST, &[&from, &to, &limit])?;
        if i64::try_from(rows.len()).is_ok_and(|rows| rows > MAX_LISTED) {
            let text = format!("more than {MAX_LISTED} files; name one thread");
            return Err(Error::new(ErrorKind::Limit, text));
        }
        let mut listing = Listing::default();
        for row in &rows {
            let (path, size): (String, i64) = (cell(row, 0)?, cell(row, 1)?);
            match (cell(row, 2)?, is_plain(&path, folders)) {
                (true, true) => {}
                (false, true) => listing.files.push((path, u64::try_from(size).unwrap_or(0))),
                (_, false) => listing.strays.push(path),
            }
        }
        Ok(listing)
    })
}

/// Is it a path below one of the folders, spelled as its readers spell it?
fn is_plain(path: &str, folders: &[&str]) -> bool {
    let whole = Path::new(path);
    let mut parts = whole.components();
    let spelled: Vec<&str> = path.split('/').collect();
    parts.all(|part| matches!(part, Component::Normal(_)))
        && whole.components().count() == spelled.len()
        && folders.iter().any(|folder| whole.starts_with(folder))
}
