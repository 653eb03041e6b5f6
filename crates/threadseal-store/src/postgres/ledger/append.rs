//! Appending: one statement that compares the head and writes the records, or nothing.
//!
//! ```text
//! append_if     head: UPDATE … WHERE count and hash are as expected ─┐ one statement, one commit
//!               records: INSERT … FROM that UPDATE's row ────────────┘
//! append_with   BEGIN, SELECT head FOR UPDATE ─► make ─► the same statement, COMMIT
//!               (two round trips)
//! ```
//! A statement whose answer was lost may have been committed. The same statement with the same
//! nonce is sent again on another connection. If the first is still running, the second waits for
//! its row lock. Then either it stores the records itself, or it finds that the head has moved. In
//! the second case the nonce of the record at the expected place shows which append wrote it. So
//! nothing is stored twice and nothing is guessed.

use super::read::{self, LedgerTables, digest_of_key};
use crate::ledger::{Append, Entry, Make, Tip, Tombstone};
use crate::postgres::failure::{Failure, Tries, column};
use crate::random::{self, SystemRandom};
use crate::runtime::both;
use deadpool_postgres::{GenericClient, Object};
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_formats::ledger::RunId;

const NEXT: &str = "
WITH head AS (
  UPDATE threadseal_ledger_heads SET count = $2 + cardinality($6::bytea[]), hash = $4, writer = $5
  WHERE run_id = $1 AND count = $2 AND hash IS NOT DISTINCT FROM $3 AND deleted_at IS NULL
  RETURNING count
), records AS (
  INSERT INTO threadseal_ledger_records
    (run_id, seq, line, record_hash, key_digest, status, writer)
  SELECT $1, $2 + r.n - 1, r.line, r.hash, r.key, r.status, $5
  FROM head, unnest($6::bytea[], $7::bytea[], $8::bytea[], $9::text[])
    WITH ORDINALITY AS r (line, hash, key, status, n)
)
SELECT count FROM head";

/// As [`NEXT`] where there may be no head yet; `$2` is 0 and `$3` null.
const FIRST: &str = "
WITH head AS (
  INSERT INTO threadseal_ledger_heads AS h (run_id, count, hash, writer)
  SELECT $1, $2::bigint + cardinality($6::bytea[]), $4::bytea, $5::bytea
  WHERE $2 = 0 AND $3::bytea IS NULL
  ON CONFLICT (run_id) DO UPDATE
    SET count = excluded.count, hash = excluded.hash, writer = excluded.writer
    WHERE h.count = 0 AND h.deleted_at IS NULL
  RETURNING count
), records AS (
  INSERT INTO threadseal_ledger_records
    (run_id, seq, line, record_hash, key_digest, status, writer)
  SELECT $1, r.n - 1, r.line, r.hash, r.key, r.status, $5
  FROM head, unnest($6::bytea[], $7::bytea[], $8::bytea[], $9::text[])
    WITH ORDINALITY AS r (line, hash, key, status, n)
)
SELECT count FROM head";

/// One append: the same in each attempt, nonce included.
pub(super) struct Batch<'e> {
    run: &'e RunId,
    expected: Tip,
    entries: &'e [Entry],
    nonce: [u8; 16],
    /// The end of the ledger when it is stored.
    after: Tip,
}

impl<'e> Batch<'e> {
    pub(super) fn new(run: &'e RunId, expected: Tip, entries: &'e [Entry]) -> Result<Self, Error> {
        if entries.iter().any(|entry| entry.status.contains('\0')) {
            return Err(Error::invalid("a status cannot contain NUL"));
        }
        Ok(Self {
            run,
            expected,
            entries,
            nonce: random::array(&SystemRandom)?,
            after: Tip {
                count: expected.count + entries.len() as u64,
                hash: entries.last().and_then(|entry| entry.record_hash),
            },
        })
    }

    /// Sends the statement; was the head as expected?
    async fn send(&self, client: &impl GenericClient) -> Result<bool, Failure> {
        let sql = if self.expected == Tip::EMPTY {
            FIRST
        } else {
            NEXT
        };
        let statement = client.prepare_cached(sql).await?;
        let lines: Vec<&[u8]> = self.entries.iter().map(|entry| &*entry.line).collect();
        let hashes: Vec<Option<&[u8]>> = self
            .entries
            .iter()
            .map(|entry| bytes(entry.record_hash.as_ref()))
            .collect();
        let keys: Vec<Option<Vec<u8>>> = self.entries.iter().map(key_digest).collect();
        let statuses: Vec<&str> = self.entries.iter().map(|entry| &*entry.status).collect();
        let row = client
            .query_opt(
                &statement,
                &[
                    &self.run.as_str(),
                    &read::number(self.expected.count),
                    &bytes(self.expected.hash.as_ref()),
                    &bytes(self.after.hash.as_ref()),
                    &&self.nonce[..],
                    &lines,
                    &hashes,
                    &keys,
                    &statuses,
                ],
            )
            .await?;
        Ok(row.is_some())
    }

    /// Is the record after the expected tip this append's?
    async fn is_there(&self, client: &impl GenericClient) -> Result<bool, Failure> {
        let row = client
            .query_opt(
                "SELECT writer FROM threadseal_ledger_records WHERE run_id = $1 AND seq = $2",
                &[&self.run.as_str(), &read::number(self.expected.count)],
            )
            .await?;
        match row {
            Some(row) => Ok(column::<&[u8]>(&row, 0)? == self.nonce),
            None => Ok(false),
        }
    }
}

/// Appends if the ledger ends at the expected tip.
pub(super) async fn append_if(tables: &LedgerTables, batch: &Batch<'_>) -> Result<Append, Error> {
    let mut tries = Tries::default();
    let mut in_doubt = false;
    loop {
        let failure = match once(tables, batch, in_doubt).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        in_doubt |= failure.is_in_doubt();
        tries.again(tables.database.server(), failure).await?;
    }
}

async fn once(tables: &LedgerTables, batch: &Batch<'_>, in_doubt: bool) -> Result<Append, Failure> {
    let client = tables.database.connection().await?;
    // A server that lost acknowledged records must not get more after them.
    if in_doubt {
        tables.tip(&client, batch.run, false).await?;
    }
    if batch.send(&client).await? || (in_doubt && batch.is_there(&client).await?) {
        return Ok(Append::Stored(batch.after));
    }
    let tip = tables.tip(&client, batch.run, false).await?;
    Ok(Append::Differs(tip.unwrap_or_default()))
}

/// Appends the entries that `make` returns for the tip while the head's row is locked.
pub(super) async fn append_with(
    tables: &LedgerTables,
    run: &RunId,
    make: &mut Make<'_>,
) -> Result<Tip, Error> {
    let mut tries = Tries::default();
    loop {
        let failure = match locked(tables, run, make).await {
            Ok(Append::Stored(tip)) => return Ok(tip),
            Ok(Append::Differs(_)) => continue,
            Err(failure) => failure,
        };
        tries.again(tables.database.server(), failure).await?;
    }
}

async fn locked(
    tables: &LedgerTables,
    run: &RunId,
    make: &mut Make<'_>,
) -> Result<Append, Failure> {
    let open = Open(Some(tables.database.connection().await?));
    let client = open.client()?;
    // Both statements of a pair are sent at once. So the lock is held for one answer of ours and
    // one of the server's.
    let read = tables.tip(client, run, true);
    let (begun, tip) = both(client.batch_execute("BEGIN"), read).await;
    begun?;
    let tip = match tip {
        Ok(Some(tip)) => tip,
        Ok(None) => {
            make_head(client, run).await?;
            let tip = tables.tip(client, run, true).await?;
            tip.unwrap_or_default()
        }
        Err(failure) => return open.give_up(Err(failure)).await,
    };
    let entries = match make(&tip).and_then(|entries| {
        crate::ledger::check_entries(&entries)?;
        Ok(entries)
    }) {
        Ok(entries) if entries.is_empty() => return open.give_up(Ok(Append::Stored(tip))).await,
        Ok(entries) => entries,
        Err(error) => return open.give_up(Err(error.into())).await,
    };
    let batch = match Batch::new(run, tip, &entries) {
        Ok(batch) => batch,
        Err(error) => return open.give_up(Err(error.into())).await,
    };
    // A commit after a failed statement rolls the transaction back.
    let (sent, committed) = both(batch.send(client), client.batch_execute("COMMIT")).await;
    match (sent, committed.map_err(Failure::from)) {
        (Ok(sent), Ok(())) => {
            open.keep();
            Ok(match sent {
                true => Append::Stored(batch.after),
                false => Append::Differs(tip),
            })
        }
        // From here on it is an append whose answer was lost.
        (_, Err(failure)) | (Err(failure), _) if failure.is_in_doubt() => {
            drop(open);
            Ok(settle(tables, &batch).await?)
        }
        (Err(failure), Ok(())) => {
            open.keep();
            Err(failure)
        }
        (_, Err(failure)) => Err(failure),
    }
}

/// A connection within a transaction. It goes back to the pool only after the transaction ended. If
/// it is dropped before, it is closed, and the server rolls the transaction back.
struct Open(Option<Object>);

impl Open {
    fn client(&self) -> Result<&Object, Error> {
        let gone = || Error::new(ErrorKind::External, "the connection was already returned");
        self.0.as_ref().ok_or_else(gone)
    }

    fn keep(mut self) {
        drop(self.0.take());
    }

    /// Rolls the transaction back, and returns `answer`.
    async fn give_up<T>(self, answer: Result<T, Failure>) -> Result<T, Failure> {
        if self.client()?.batch_execute("ROLLBACK").await.is_ok() {
            self.keep();
        }
        answer
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            drop(Object::take(client));
        }
    }
}

async fn settle(tables: &LedgerTables, batch: &Batch<'_>) -> Result<Append, Error> {
    let mut tries = Tries::default();
    loop {
        match once(tables, batch, true).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => tries.again(tables.database.server(), failure).await?,
        }
    }
}

/// An empty head, so that there is a row to lock.
async fn make_head(client: &impl GenericClient, run: &RunId) -> Result<(), Failure> {
    client
        .execute(
            "INSERT INTO threadseal_ledger_heads (run_id, count, writer) VALUES ($1, 0, '')
             ON CONFLICT (run_id) DO NOTHING",
            &[&run.as_str()],
        )
        .await?;
    Ok(())
}

/// Deletes the records of `run`, if they end as expected, and leaves its head as the tombstone.
pub(super) async fn delete(
    tables: &LedgerTables,
    run: &RunId,
    expected: Option<&Tip>,
    at: u64,
) -> Result<bool, Error> {
    let mut tries = Tries::default();
    loop {
        let mut client = match tables.database.connection().await {
            Ok(client) => client,
            Err(failure) => {
                tries.again(tables.database.server(), failure).await?;
                continue;
            }
        };
        match delete_once(&mut client, run, expected, at).await {
            Ok(is_deleted) => return Ok(is_deleted),
            Err(failure) => tries.again(tables.database.server(), failure).await?,
        }
    }
}

async fn delete_once(
    client: &mut Object,
    run: &RunId,
    expected: Option<&Tip>,
    at: u64,
) -> Result<bool, Failure> {
    let transaction = client.transaction().await?;
    let count = expected.map(|expected| read::number(expected.count));
    let hash = expected.and_then(|expected| expected.hash);
    let hash = hash.as_ref().map(|hash| hash.as_bytes().as_slice());
    let row = transaction
        .query_opt(
            "UPDATE threadseal_ledger_heads SET deleted_at = $2
             WHERE run_id = $1 AND deleted_at IS NULL AND count > 0
               AND ($3::bigint IS NULL OR (count = $3 AND hash IS NOT DISTINCT FROM $4::bytea))
             RETURNING 1",
            &[&run.as_str(), &read::number(at), &count, &hash],
        )
        .await?;
    if row.is_some() {
        transaction
            .execute(
                "SELECT set_config('threadseal.deleting', $1, true)",
                &[&run.as_str()],
            )
            .await?;
        transaction
            .execute(
                "DELETE FROM threadseal_ledger_records WHERE run_id = $1",
                &[&run.as_str()],
            )
            .await?;
    }
    let stone = read::tombstone(&transaction, run).await?;
    transaction.commit().await?;
    let is_expected = |stone: &Tombstone| expected.is_none_or(|expected| *expected == stone.tip);
    Ok(stone.as_ref().is_some_and(is_expected))
}

fn key_digest(entry: &Entry) -> Option<Vec<u8>> {
    let key = entry
        .idempotency_key
        .as_deref()
        .filter(|key| !key.is_empty())?;
    Some(digest_of_key(key).as_bytes().to_vec())
}

fn bytes(digest: Option<&Digest>) -> Option<&[u8]> {
    digest.map(|digest| &digest.as_bytes()[..])
}
