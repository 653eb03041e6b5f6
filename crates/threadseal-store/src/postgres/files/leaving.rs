//! A new file among those of an order, from a process that does not hold it: a request to the
//! holder.

use super::row::{new_inode, parent_of, signed};
use crate::postgres::database::{PostgresDatabase, Value};
use threadseal_core::error::{Error, ErrorKind};

/// Nothing is replaced, and nothing is left where the order is done: no process would read it. The
/// order's row is locked in share mode until the file exists, so that it is not finished meanwhile.
const LEAVE: &str = "
WITH open AS MATERIALIZED (
  SELECT 1 FROM threadseal_orders WHERE id = $1 AND state <> 'done' FOR SHARE),
file AS (
  INSERT INTO threadseal_files (path, folder, inode, order_id, is_folder, mode, size, version)
  SELECT $2, $3, $4, $1, false, $5, $6, 1 FROM open
  ON CONFLICT DO NOTHING RETURNING inode)
INSERT INTO threadseal_chunks SELECT inode, 0, $7 FROM file
RETURNING 1, pg_notify('threadseal_requests', '')";

/// Leaves a file at `path`, relative to the root; false where one is there, or the order is done.
///
/// # Errors
/// Kind `External` when the server or the random source fails.
pub fn leave(
    database: &PostgresDatabase,
    order: i64,
    path: &str,
    bytes: &[u8],
) -> Result<bool, Error> {
    let inode = new_inode()
        .map_err(|error| Error::new(ErrorKind::External, error.to_string()).with_source(error))?;
    let (folder, mode) = (parent_of(path), 0o600_i32);
    let size = signed(bytes.len() as u64);
    let values: [Value<'_>; 7] = [&order, &path, &folder, &inode, &mode, &size, &bytes];
    Ok(!database.once(LEAVE, &values)?.is_empty())
}
