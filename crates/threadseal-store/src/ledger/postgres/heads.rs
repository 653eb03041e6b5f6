//! [`PostgresHeadStore`]: last known heads in PostgreSQL, for hosts that share what they know.
//!
//! ```text
//! threadseal_known_heads    record, head: the bytes of a head file of this host (`heads::codec`)
//! threadseal_head_lines     line, record: the line is an alias of the record
//! threadseal_head_places    place, record: sealed last there; place = tagged("head place", [kind, hint])
//! ```
//! A swap is one statement: the head is written where the bytes that were read still stand, and its
//! aliases and place from the row that this returns. Sent again after a lost answer it changes nothing;
//! then the head that stands there tells whether it was stored. All heads are durable, whatever was
//! asked for.

use super::read::cell;
use super::{Failure, PostgresLedgerStore, append::refused};
use crate::heads::{
    Durability, HeadStore, MAX_RECORDS_PER_LINE, RecordKind, StoredHead, Swap, checked, codec,
    succeed,
};
use deadpool_postgres::Object;
use std::sync::Arc;
use threadseal::digest::Digest;
use threadseal::error::{Error, ErrorKind};
use threadseal::record::{Head, RecordId};

const INDEX: &str = "
lines AS (
  INSERT INTO threadseal_head_lines (line, record)
  SELECT l.line, s.record FROM swapped s, unnest($3::bytea[]) AS l (line)
  ON CONFLICT DO NOTHING
), places AS (
  INSERT INTO threadseal_head_places (place, record)
  SELECT $4::bytea, s.record FROM swapped s WHERE $4::bytea IS NOT NULL
  ON CONFLICT (place) DO UPDATE SET record = excluded.record
)
SELECT 1 FROM swapped";
const FIRST: &str = "
WITH swapped AS (
  INSERT INTO threadseal_known_heads (record, head) VALUES ($1, $2)
  ON CONFLICT DO NOTHING RETURNING record
), ";
const NEXT: &str = "
WITH swapped AS (
  UPDATE threadseal_known_heads SET head = $2 WHERE record = $1 AND head = $5 RETURNING record
), ";

/// Heads in the database of a [`PostgresLedgerStore`].
#[derive(Debug)]
pub struct PostgresHeadStore {
    store: Arc<PostgresLedgerStore>,
}

impl PostgresHeadStore {
    /// The heads in the database of `store`, over its connections.
    pub fn new(store: Arc<PostgresLedgerStore>) -> Self {
        Self { store }
    }

    /// Writes `new` in place of `old`, or where there is none.
    fn swap(&self, old: Option<&StoredHead>, new: &StoredHead) -> Result<Swap, Error> {
        self.store.refuse_standby()?;
        let record = new.head.record;
        let (bytes, old) = (codec::encode(new)?, old.map(codec::encode).transpose()?);
        let lines: Vec<&[u8]> = new
            .aliases
            .iter()
            .map(|line| &line.as_bytes()[..])
            .collect();
        let place = new.path_hint.as_deref().map(|hint| place(new.kind, hint));
        let place = place.as_ref().map(|place| &place.as_bytes()[..]);
        let stored = self.store.ask(&async |client: &Object| {
            let record = &record.as_bytes()[..];
            let row = match &old {
                None => {
                    let statement = client.prepare_cached(&format!("{FIRST}{INDEX}")).await?;
                    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
                        [&record, &bytes, &lines, &place];
                    client.query_opt(&statement, &values).await?
                }
                Some(old) => {
                    let statement = client.prepare_cached(&format!("{NEXT}{INDEX}")).await?;
                    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
                        [&record, &bytes, &lines, &place, old];
                    client.query_opt(&statement, &values).await?
                }
            };
            Ok(row.is_some())
        })?;
        if stored {
            return Ok(Swap::Stored);
        }
        Ok(match self.fetch(&record)? {
            Some(found) if found == *new => Swap::Stored,
            found => Swap::Differs(found.map(Box::new)),
        })
    }
}

impl HeadStore for PostgresHeadStore {
    fn fetch(&self, record: &RecordId) -> Result<Option<StoredHead>, Error> {
        self.store
            .ask(&async |client: &Object| read(client, record).await)
    }

    fn create(&self, new: &StoredHead) -> Result<Swap, Error> {
        let new = checked(new.clone())?;
        match self.fetch(&new.head.record)? {
            Some(old) => Ok(Swap::Differs(Some(Box::new(old)))),
            None => self.swap(None, &new),
        }
    }

    fn replace_if(&self, expected: &Head, new: &StoredHead, _: Durability) -> Result<Swap, Error> {
        match self.fetch(&new.head.record)? {
            Some(old) if old.head == *expected => self.swap(Some(&old), &succeed(&old, new)?),
            other => Ok(Swap::Differs(other.map(Box::new))),
        }
    }

    fn find_by_line(&self, line: &Digest) -> Result<Vec<RecordId>, Error> {
        let limit = i64::try_from(MAX_RECORDS_PER_LINE + 1).unwrap_or(i64::MAX);
        let found: Vec<Vec<u8>> = self.store.ask(&async |client: &Object| {
            let rows = client
                .query(
                    "SELECT record FROM threadseal_head_lines WHERE line = $1
                     ORDER BY record LIMIT $2",
                    &[&&line.as_bytes()[..], &limit],
                )
                .await?;
            rows.iter().map(|row| cell(row, 0)).collect()
        })?;
        if found.len() > MAX_RECORDS_PER_LINE {
            return Err(Error::new(
                ErrorKind::Limit,
                format!("more than {MAX_RECORDS_PER_LINE} records share the line {line}"),
            ));
        }
        let records: Option<Vec<RecordId>> = found.iter().map(|bytes| record_id(bytes)).collect();
        records.ok_or_else(|| self.store.server.external("an alias leads to no record id"))
    }

    fn find_by_place(&self, kind: RecordKind, hint: &str) -> Result<Option<StoredHead>, Error> {
        let place = place(kind, hint);
        let found = self.store.ask(&async |client: &Object| {
            let row = client
                .query_opt(
                    "SELECT record FROM threadseal_head_places WHERE place = $1",
                    &[&&place.as_bytes()[..]],
                )
                .await?;
            let Some(row) = row else { return Ok(None) };
            let record = record_id(cell(&row, 0)?);
            let record = record.ok_or_else(|| refused("a place leads to no record id".into()))?;
            read(client, &record).await
        })?;
        Ok(found.filter(|stored| stored.path_hint.as_deref() == Some(hint)))
    }
}

async fn read(client: &Object, record: &RecordId) -> Result<Option<StoredHead>, Failure> {
    let statement = client
        .prepare_cached("SELECT head FROM threadseal_known_heads WHERE record = $1")
        .await?;
    let row = client
        .query_opt(&statement, &[&&record.as_bytes()[..]])
        .await?;
    let Some(row) = row else { return Ok(None) };
    let stored = codec::decode(cell(&row, 0)?).filter(|stored| stored.head.record == *record);
    stored.map(Some).ok_or_else(|| {
        let text = format!("the head of record {record} in PostgreSQL is damaged; restore it");
        Failure::Told(Error::new(ErrorKind::External, text))
    })
}

fn record_id(bytes: &[u8]) -> Option<RecordId> {
    Some(RecordId::from_bytes(bytes.try_into().ok()?))
}

fn place(kind: RecordKind, hint: &str) -> Digest {
    Digest::tagged("head place", &[kind.as_str().as_bytes(), hint.as_bytes()])
}
