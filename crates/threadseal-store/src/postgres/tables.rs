//! [`PostgresTables`]: the tables of ledgers, heads and objects in PostgreSQL, and their creation.
//!
//! ```text
//! threadseal_schema            version, applied_at
//! threadseal_ledger_heads      run_id, count, hash, writer, deleted_at
//! threadseal_ledger_records    run_id, seq from 0, line, record_hash, key_digest, status, writer
//! threadseal_known_heads, threadseal_head_lines, threadseal_head_places     (heads.rs)
//! threadseal_objects           name, version, bytes                            (objects.rs)
//! ```
//! `line` is the record's bytes as they were given (`bytea`: text cannot hold every byte). `writer`
//! is the nonce of the append that wrote the row. By it a writer whose connection broke
//! distinguishes its own append from another's. A key is found by its SHA-256, since an index holds
//! no long values. Names of runs are ordered by their bytes (`COLLATE "C"`).
//!
//! Tables are made in the first schema of the search path, under an advisory lock, one transaction
//! per version. A trigger refuses to change records and to delete them outside of a deletion of the
//! whole run. It stops mistakes; the owner of the tables can drop it.

use super::database::{PostgresDatabase, TABLES_LOCK};
use super::failure::{Failure, column};
use crate::runtime::wait_for;
use deadpool_postgres::Object;
use threadseal_core::error::Error;
use tokio_postgres::IsolationLevel;

/// One step of the schema per element; a database has applied the first few or all of them.
const VERSIONS: [&str; 3] = [
    "
CREATE TABLE threadseal_ledger_heads (
  run_id text COLLATE \"C\" PRIMARY KEY,
  count bigint NOT NULL CHECK (count >= 0),
  hash bytea CHECK (octet_length(hash) = 32),
  writer bytea NOT NULL,
  deleted_at bigint
) WITH (fillfactor = 50);
CREATE TABLE threadseal_ledger_records (
  run_id text COLLATE \"C\" NOT NULL,
  seq bigint NOT NULL CHECK (seq >= 0),
  line bytea NOT NULL,
  record_hash bytea CHECK (octet_length(record_hash) = 32),
  key_digest bytea,
  status text NOT NULL,
  writer bytea NOT NULL,
  PRIMARY KEY (run_id, seq)
);
CREATE INDEX threadseal_ledger_completed
  ON threadseal_ledger_records (run_id, key_digest, seq)
  WHERE key_digest IS NOT NULL AND status = 'completed';
CREATE FUNCTION threadseal_keep_records() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND current_setting('threadseal.deleting', true) = OLD.run_id THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION 'ledger records are neither changed nor deleted one by one';
END $$;
CREATE TRIGGER threadseal_keep_records
  BEFORE UPDATE OR DELETE ON threadseal_ledger_records
  FOR EACH ROW EXECUTE FUNCTION threadseal_keep_records();
CREATE TRIGGER threadseal_keep_all_records
  BEFORE TRUNCATE ON threadseal_ledger_records
  FOR EACH STATEMENT EXECUTE FUNCTION threadseal_keep_records();
",
    "
CREATE TABLE threadseal_known_heads (
  record bytea PRIMARY KEY CHECK (octet_length(record) = 32),
  head bytea NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE threadseal_head_lines (
  line bytea NOT NULL,
  record bytea NOT NULL,
  PRIMARY KEY (line, record)
);
CREATE TABLE threadseal_head_places (
  place bytea PRIMARY KEY,
  record bytea NOT NULL
);
",
    "
CREATE SEQUENCE threadseal_object_versions;
CREATE TABLE threadseal_objects (
  name text COLLATE \"C\" PRIMARY KEY,
  version bigint NOT NULL,
  bytes bytea NOT NULL
);
",
];

/// The versions that brought the tables of ledgers, and those of objects.
const LEDGERS_SINCE: usize = 1;
const OBJECTS_SINCE: usize = 3;

/// The tables that are there.
#[derive(Debug, Clone, Copy)]
pub struct Found {
    /// Those of ledgers.
    pub ledgers: bool,
    /// Those of objects.
    pub objects: bool,
}

/// A database that has these tables.
#[derive(Debug, Clone)]
pub struct PostgresTables {
    pub(super) database: PostgresDatabase,
}

impl PostgresTables {
    /// The tables of `database` as they are; nothing is made. [`Found`] names those that are there.
    ///
    /// # Errors
    /// As [`PostgresTables::make`].
    pub fn find(database: &PostgresDatabase) -> Result<Found, Error> {
        let server = database.server();
        let fail = |failure: Failure| failure.into_error(server);
        let version = wait_for(async {
            let client = database.connection().await.map_err(fail)?;
            version(&client).await.map_err(fail)
        })?;
        Ok(Found {
            ledgers: version >= LEDGERS_SINCE,
            objects: version >= OBJECTS_SINCE,
        })
    }

    /// Makes the missing tables of `database`. A standby is opened to be read.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::InvalidInput`] for tables of a later version,
    /// [`threadseal_core::error::ErrorKind::External`] when the server fails.
    pub fn make(database: &PostgresDatabase) -> Result<Self, Error> {
        let server = database.server();
        if !database.is_standby() {
            let fail = |failure: Failure| failure.into_error(server);
            wait_for(async {
                let mut client = database.connection().await.map_err(fail)?;
                migrate(&mut client).await.map_err(fail)
            })?;
        }
        Ok(Self {
            database: database.clone(),
        })
    }
}

/// Brings the tables to the newest version.
async fn migrate(client: &mut Object) -> Result<(), Failure> {
    if version(client).await? == VERSIONS.len() {
        return Ok(());
    }
    loop {
        // The version is read after the wait for the lock. Other levels of isolation would read it as
        // it was before.
        let transaction = client.build_transaction();
        let transaction = transaction.isolation_level(IsolationLevel::ReadCommitted);
        let transaction = transaction.start().await?;
        transaction
            .execute("SELECT pg_advisory_xact_lock($1)", &[&TABLES_LOCK])
            .await?;
        transaction
            .batch_execute(
                "CREATE TABLE IF NOT EXISTS threadseal_schema
                   (version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())",
            )
            .await?;
        let done = version(&transaction).await?;
        let Some(sql) = VERSIONS.get(done) else {
            transaction.commit().await?;
            return Ok(());
        };
        transaction.batch_execute(sql).await?;
        let now = i32::try_from(done + 1).unwrap_or(i32::MAX);
        transaction
            .execute(
                "INSERT INTO threadseal_schema (version) VALUES ($1)",
                &[&now],
            )
            .await?;
        transaction.commit().await?;
    }
}

async fn version(client: &impl deadpool_postgres::GenericClient) -> Result<usize, Failure> {
    let exists = client
        .query_one("SELECT to_regclass('threadseal_schema') IS NOT NULL", &[])
        .await?;
    if !exists.get::<_, bool>(0) {
        return Ok(0);
    }
    let row = client
        .query_one(
            "SELECT coalesce(max(version), 0) FROM threadseal_schema",
            &[],
        )
        .await?;
    let version = usize::try_from(column::<i32>(&row, 0)?).unwrap_or(usize::MAX);
    if version > VERSIONS.len() {
        return Err(Failure::Final(Error::invalid(format!(
            "the tables were made by a later version of this program (version {version}); use that"
        ))));
    }
    Ok(version)
}
