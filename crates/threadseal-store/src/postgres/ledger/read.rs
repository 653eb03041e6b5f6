//! Reading ledgers, and noticing a server that lost data.
//!
//! This process remembers the newest tip of each run that the server acknowledged or showed
//! ([`KnownTips`]). A server that shows less, or another record in that place, was restored or replaced
//! by a late replica. (Asynchronous replication loses the last commits in a failover.) Then the
//! ledger is `rolled_back`, and nothing is appended after its remaining records.

use crate::ledger::{COMPLETED, MAX_BATCH_BYTES, StoredRecord, Tip, Tombstone, deleted};
use crate::postgres::database::PostgresDatabase;
use crate::postgres::failure::{Failure, column, damaged, refused};
use deadpool_postgres::GenericClient;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::limits::MAX_RUN_ID_BYTES;
use threadseal_core::time::Timestamp;
use threadseal_formats::ledger::RunId;
use tokio_postgres::Row;

/// Runs whose tips are remembered; the one that was seen first is forgotten first.
const MAX_KNOWN_TIPS: usize = 65_536;
/// Most records or runs of one page.
const MAX_PAGE: usize = 4096;

/// `$2` is the number of the record that was last at this process's latest read.
const TIP: &str = "
SELECT h.count, h.hash, h.deleted_at,
       (SELECT r.record_hash FROM threadseal_ledger_records r WHERE r.run_id = $1 AND r.seq = $2)
FROM threadseal_ledger_heads h WHERE h.run_id = $1";

/// The same, and no other writer gets the row until this transaction ends.
const TIP_LOCKED: &str = "
SELECT h.count, h.hash, h.deleted_at,
       (SELECT r.record_hash FROM threadseal_ledger_records r WHERE r.run_id = $1 AND r.seq = $2)
FROM threadseal_ledger_heads h WHERE h.run_id = $1 FOR UPDATE OF h";

/// The sum of the lengths before a record is computed without their contents.
const PAGE: &str = "
SELECT seq, line FROM (
  SELECT seq, line, sum(octet_length(line)) OVER (ORDER BY seq) - octet_length(line) AS before
  FROM (SELECT seq, line FROM threadseal_ledger_records
        WHERE run_id = $1 AND seq >= $2 ORDER BY seq LIMIT $3) page
) measured WHERE before < $4 ORDER BY seq";

/// The tables of ledgers, and the newest tips that the server showed to this process.
pub(super) struct LedgerTables {
    pub(super) database: PostgresDatabase,
    tips: Mutex<KnownTips>,
}

impl LedgerTables {
    pub(super) fn new(database: PostgresDatabase) -> Self {
        Self {
            database,
            tips: Mutex::default(),
        }
    }

    fn tips(&self) -> MutexGuard<'_, KnownTips> {
        // Each change of the map is whole.
        self.tips.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers an acknowledged tip, and sends others a hint.
    pub(super) fn acknowledged(&self, run: &RunId, tip: Tip) -> Result<(), Error> {
        self.tips().put(run, tip);
        self.database.tell()
    }

    /// The end of the ledger of `run`; `None` where there is no head.
    pub(super) async fn tip(
        &self,
        client: &impl GenericClient,
        run: &RunId,
        lock: bool,
    ) -> Result<Option<Tip>, Failure> {
        let seen = self.tips().get(run);
        let last_seen = seen.map_or(-1, |tip| number(tip.count) - 1);
        let statement = client
            .prepare_cached(if lock { TIP_LOCKED } else { TIP })
            .await?;
        let row = client
            .query_opt(&statement, &[&run.as_str(), &last_seen])
            .await?;
        let Some(row) = row else {
            return match seen {
                None => Ok(None),
                Some(seen) => Err(self.rolled_back(run, &seen, "knows nothing of the run")),
            };
        };
        if let Some(stone) = stone(&row)? {
            return Err(Failure::Final(deleted(run, &stone)));
        }
        let tip = tip_of(&row)?;
        if let Some(seen) = seen {
            let there = if tip.count == seen.count {
                tip.hash
            } else {
                digest(column(&row, 3)?)?
            };
            if tip.count < seen.count {
                return Err(self.rolled_back(run, &seen, &format!("has {tip}")));
            }
            if there != seen.hash {
                return Err(self.rolled_back(run, &seen, "has another record there"));
            }
        }
        self.tips().put(run, tip);
        Ok(Some(tip))
    }

    fn rolled_back(&self, run: &RunId, seen: &Tip, but: &str) -> Failure {
        refused(format!(
            "rolled_back: the ledger of run {run} had {seen} when PostgreSQL at {} was asked before, but \
             now it {but}; a replica that lagged may have taken over, or a backup was restored: \
             nothing is appended to it",
            self.database.place()
        ))
    }
}

pub(super) async fn page(
    client: &impl GenericClient,
    run: &RunId,
    after: u64,
    limit: usize,
) -> Result<Vec<StoredRecord>, Failure> {
    let bytes = i64::try_from(MAX_BATCH_BYTES).unwrap_or(i64::MAX);
    let statement = client.prepare_cached(PAGE).await?;
    let rows = client
        .query(
            &statement,
            &[&run.as_str(), &number(after), &page_size(limit), &bytes],
        )
        .await?;
    rows.iter().map(record).collect()
}

pub(super) async fn completed(
    client: &impl GenericClient,
    run: &RunId,
    key: &str,
) -> Result<Option<StoredRecord>, Failure> {
    let statement = client
        .prepare_cached(
            "SELECT seq, line FROM threadseal_ledger_records
             WHERE run_id = $1 AND key_digest = $2 AND status = $3 ORDER BY seq DESC LIMIT 1",
        )
        .await?;
    let digest = digest_of_key(key);
    let row = client
        .query_opt(
            &statement,
            &[&run.as_str(), &&digest.as_bytes()[..], &COMPLETED],
        )
        .await?;
    row.as_ref().map(record).transpose()
}

pub(super) async fn runs(
    client: &impl GenericClient,
    after: Option<&RunId>,
    limit: usize,
) -> Result<Vec<RunId>, Failure> {
    let sql = format!(
        "SELECT run_id FROM threadseal_ledger_heads
         WHERE run_id > $1 AND count > 0 AND deleted_at IS NULL AND NOT ({NO_NAME})
         ORDER BY run_id LIMIT $2"
    );
    let after = after.map_or("", RunId::as_str);
    let rows = client.query(&sql, &[&after, &page_size(limit)]).await?;
    let run = |row: &Row| RunId::parse(column(row, 0)?).map_err(Failure::Final);
    rows.iter().map(run).collect()
}

/// The names that [`RunId::parse`] refuses; the server keeps no NUL in a text.
const NO_NAME: &str = "run_id = '' OR octet_length(run_id) > 512 OR run_id ~ '[\\r\\n]'";
const _: () = assert!(MAX_RUN_ID_BYTES == 512);

/// Names of heads and records that no run has, or no run that is not deleted, each in quotes.
pub(super) async fn strays(
    client: &impl GenericClient,
    limit: usize,
) -> Result<Vec<String>, Failure> {
    // Each name of records is found by one step down the primary key.
    let sql = format!(
        "WITH RECURSIVE names AS (
           (SELECT run_id FROM threadseal_ledger_records ORDER BY run_id LIMIT 1)
           UNION ALL
           SELECT (SELECT r.run_id FROM threadseal_ledger_records r
                   WHERE r.run_id > names.run_id ORDER BY r.run_id LIMIT 1)
           FROM names WHERE names.run_id IS NOT NULL)
         SELECT left(run_id, 64) FROM threadseal_ledger_heads WHERE {NO_NAME}
         UNION
         SELECT left(run_id, 64) FROM names WHERE run_id IS NOT NULL
           AND run_id NOT IN (SELECT run_id FROM threadseal_ledger_heads
                              WHERE count > 0 AND deleted_at IS NULL AND NOT ({NO_NAME}))
         ORDER BY 1 LIMIT $1"
    );
    let rows = client.query(&sql, &[&page_size(limit)]).await?;
    let told = |row: &Row| Ok(format!("{:?}", column::<&str>(row, 0)?));
    rows.iter().map(told).collect()
}

pub(super) async fn tombstone(
    client: &impl GenericClient,
    run: &RunId,
) -> Result<Option<Tombstone>, Failure> {
    let row = client
        .query_opt(
            "SELECT count, hash, deleted_at FROM threadseal_ledger_heads WHERE run_id = $1",
            &[&run.as_str()],
        )
        .await?;
    row.as_ref().map_or(Ok(None), stone)
}

/// The refusal of a deleted run, if it is one.
pub(super) async fn refuse_deleted(
    client: &impl GenericClient,
    run: &RunId,
) -> Result<(), Failure> {
    match tombstone(client, run).await? {
        Some(stone) => Err(Failure::Final(deleted(run, &stone))),
        None => Ok(()),
    }
}

/// Newest tips, by run.
#[derive(Debug, Default)]
struct KnownTips {
    tips: HashMap<RunId, Tip>,
    order: VecDeque<RunId>,
}

impl KnownTips {
    fn get(&self, run: &RunId) -> Option<Tip> {
        self.tips.get(run).copied()
    }

    /// Remembers `tip` unless a later one is known.
    fn put(&mut self, run: &RunId, tip: Tip) {
        if tip.count == 0 {
            return;
        }
        if let Some(known) = self.tips.get_mut(run) {
            if known.count < tip.count {
                *known = tip;
            }
            return;
        }
        if self.order.len() == MAX_KNOWN_TIPS
            && let Some(first) = self.order.pop_front()
        {
            self.tips.remove(&first);
        }
        self.order.push_back(run.clone());
        self.tips.insert(run.clone(), tip);
    }
}

/// Counts and microseconds never come near the end of a `bigint`.
pub(super) fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn page_size(limit: usize) -> i64 {
    i64::try_from(limit.min(MAX_PAGE)).unwrap_or(0)
}

fn count(number: i64) -> Result<u64, Failure> {
    u64::try_from(number).map_err(|_| damaged("a number is negative"))
}

fn digest(bytes: Option<&[u8]>) -> Result<Option<Digest>, Failure> {
    let array = |bytes: &[u8]| {
        bytes
            .try_into()
            .map_err(|_| damaged("a hash does not have 32 bytes"))
    };
    Ok(bytes.map(array).transpose()?.map(Digest::from_bytes))
}

fn tip_of(row: &Row) -> Result<Tip, Failure> {
    Ok(Tip {
        count: count(column(row, 0)?)?,
        hash: digest(column(row, 1)?)?,
    })
}

fn stone(row: &Row) -> Result<Option<Tombstone>, Failure> {
    let Some(at) = column::<Option<i64>>(row, 2)? else {
        return Ok(None);
    };
    let at = Timestamp::from_micros(count(at)?).map_err(Failure::Final)?;
    Ok(Some(Tombstone {
        tip: tip_of(row)?,
        at,
    }))
}

fn record(row: &Row) -> Result<StoredRecord, Failure> {
    Ok(StoredRecord {
        seq: count(column(row, 0)?)?,
        line: column(row, 1)?,
    })
}

/// The digest of a key in the index of keys.
pub(super) fn digest_of_key(key: &str) -> Digest {
    Digest::of(key.as_bytes())
}
