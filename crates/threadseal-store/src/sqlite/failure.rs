//! Errors of SQLite, converted for the caller.

use rusqlite::{ErrorCode, Row};
use std::path::Path;
use threadseal_core::error::{Error, ErrorKind};

/// Converts an error of SQLite for the caller.
pub(super) fn failed(what: &str, path: &Path, error: &rusqlite::Error) -> Error {
    let kind = match error.sqlite_error_code() {
        None if is_odd_value(error) => ErrorKind::Refused,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => ErrorKind::Refused,
        Some(ErrorCode::TooBig) => ErrorKind::Limit,
        _ => ErrorKind::External,
    };
    Error::new(
        kind,
        format!("SQLite file {}: {what}: {error}", path.display()),
    )
}

/// Is it a value that no writer of these tables would put there?
pub(super) fn is_odd_value(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{
        FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error,
    };
    matches!(
        error,
        InvalidColumnType(..)
            | IntegralValueOutOfRange(..)
            | FromSqlConversionFailure(..)
            | Utf8Error(..)
    )
}

/// A number that is never negative.
pub(super) fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}
