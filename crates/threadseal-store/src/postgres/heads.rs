//! [`PostgresHeadStore`]: last known heads in PostgreSQL, for hosts that share their knowledge.
//!
//! ```text
//! threadseal_known_heads    record, head: the bytes of a head file of this host (`heads::codec`)
//! threadseal_head_lines     line, record: the line is an alias of the record
//! threadseal_head_places    place, record: sealed last there;
//!                           place = tagged("head place", [kind, hint])
//! ```
//! A swap is one statement: it writes the head if the bytes that were read are still there. Its
//! aliases and place follow from the row that this returns. A second attempt after a lost answer
//! changes nothing; then the present head shows whether it was stored. All heads are durable,
//! whatever durability was requested.

use super::database::{PostgresDatabase, Value};
use super::failure::{Failure, column, refused};
use super::leases::Lease;
use super::tables::PostgresTables;
use crate::heads::{
    Durability, HeadStore, MAX_RECORDS_PER_LINE, RecordKind, StoredHead, Swap, checked, codec,
    succeed,
};
use deadpool_postgres::Object;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::{Head, RecordId};

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
swapped AS (
  INSERT INTO threadseal_known_heads (record, head) SELECT $1, $2 FROM may
  ON CONFLICT DO NOTHING RETURNING record
), ";
const NEXT: &str = "
swapped AS (
  UPDATE threadseal_known_heads SET head = $2
  WHERE record = $1 AND head = $5 AND EXISTS (SELECT 1 FROM may) RETURNING record
), ";
/// A writer without a lease always may.
const FREE: &str = "WITH may AS (SELECT 1), ";

/// Heads in a PostgreSQL database.
#[derive(Debug)]
pub struct PostgresHeadStore {
    database: PostgresDatabase,
    lease: Option<Lease>,
}

impl PostgresHeadStore {
    /// The heads in these tables.
    pub fn over(tables: PostgresTables) -> Self {
        let PostgresTables { database } = tables;
        Self {
            database,
            lease: None,
        }
    }

    /// The same for the holder of a lease: each swap checks it, in the same statement, and seals
    /// hold its token.
    pub fn leased(tables: PostgresTables, lease: Lease) -> Self {
        Self {
            lease: Some(lease),
            ..Self::over(tables)
        }
    }

    /// The statement, and the values of the lease that follow its own `count` ones.
    fn statement(&self, swap: &str, count: usize) -> String {
        let may = match &self.lease {
            None => FREE.to_owned(),
            Some(_) => format!(
                "WITH may AS MATERIALIZED (
                   SELECT 1 FROM threadseal_orders
                   WHERE id = ${} AND token = ${} AND holder = ${} AND state = 'taken'
                     AND expires_at > clock_timestamp()
                   FOR SHARE), ",
                count + 1,
                count + 2,
                count + 3
            ),
        };
        format!("{may}{swap}{INDEX}")
    }

    /// Writes `new` in place of `old`, or where there is none.
    fn swap(&self, old: Option<&StoredHead>, new: &StoredHead) -> Result<Swap, Error> {
        self.database.refuse_standby()?;
        let record = new.head.record;
        let (bytes, old) = (codec::encode(new)?, old.map(codec::encode).transpose()?);
        let lines: Vec<&[u8]> = new
            .aliases
            .iter()
            .map(|line| &line.as_bytes()[..])
            .collect();
        let place = new.path_hint.as_deref().map(|hint| place(new.kind, hint));
        let place = place.as_ref().map(|place| &place.as_bytes()[..]);
        let held = self.lease.as_ref().map(Lease::values);
        let stored = self.database.ask(&async |client: &Object| {
            let record = &record.as_bytes()[..];
            let row = match &old {
                None => {
                    let statement = client.prepare_cached(&self.statement(FIRST, 4)).await?;
                    let mut values: Vec<Value<'_>> = vec![&record, &bytes, &lines, &place];
                    values.extend(held.iter().flat_map(values_of));
                    client.query_opt(&statement, &values).await?
                }
                Some(old) => {
                    let statement = client.prepare_cached(&self.statement(NEXT, 5)).await?;
                    let mut values: Vec<Value<'_>> = vec![&record, &bytes, &lines, &place, old];
                    values.extend(held.iter().flat_map(values_of));
                    client.query_opt(&statement, &values).await?
                }
            };
            Ok(row.is_some())
        })?;
        if stored {
            return Ok(Swap::Stored);
        }
        if let Some(lease) = &self.lease {
            lease.check()?;
        }
        Ok(match self.fetch(&record)? {
            Some(found) if found == *new => Swap::Stored,
            found => Swap::Differs(found.map(Box::new)),
        })
    }
}

fn values_of<'v>(held: &'v (i64, i64, &'v [u8])) -> [Value<'v>; 3] {
    [&held.0, &held.1, &held.2]
}

impl HeadStore for PostgresHeadStore {
    fn place(&self) -> Option<String> {
        Some(format!("postgres://{}", self.database.place()))
    }

    fn fence(&self) -> Option<u64> {
        self.lease.as_ref().map(Lease::token)
    }

    fn fetch(&self, record: &RecordId) -> Result<Option<StoredHead>, Error> {
        self.database
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
        let found: Vec<Vec<u8>> = self.database.ask(&async |client: &Object| {
            let rows = client
                .query(
                    "SELECT record FROM threadseal_head_lines WHERE line = $1
                     ORDER BY record LIMIT $2",
                    &[&&line.as_bytes()[..], &limit],
                )
                .await?;
            rows.iter().map(|row| column(row, 0)).collect()
        })?;
        if found.len() > MAX_RECORDS_PER_LINE {
            return Err(Error::new(
                ErrorKind::Limit,
                format!("more than {MAX_RECORDS_PER_LINE} records share the line {line}"),
            ));
        }
        let records: Option<Vec<RecordId>> = found.iter().map(|bytes| record_id(bytes)).collect();
        records.ok_or_else(|| {
            self.database
                .server()
                .external("an alias does not name a record id")
        })
    }

    fn find_by_place(&self, kind: RecordKind, hint: &str) -> Result<Option<StoredHead>, Error> {
        let place = place(kind, hint);
        let found = self.database.ask(&async |client: &Object| {
            let row = client
                .query_opt(
                    "SELECT record FROM threadseal_head_places WHERE place = $1",
                    &[&&place.as_bytes()[..]],
                )
                .await?;
            let Some(row) = row else { return Ok(None) };
            let record = record_id(column(&row, 0)?);
            let record =
                record.ok_or_else(|| refused("a place does not name a record id".into()))?;
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
    let stored = codec::decode(column(&row, 0)?).filter(|stored| stored.head.record == *record);
    stored.map(Some).ok_or_else(|| {
        let text = format!("the head of record {record} in PostgreSQL is damaged; restore it");
        Failure::Final(Error::new(ErrorKind::External, text))
    })
}

fn record_id(bytes: &[u8]) -> Option<RecordId> {
    Some(RecordId::from_bytes(bytes.try_into().ok()?))
}

fn place(kind: RecordKind, hint: &str) -> Digest {
    Digest::tagged("head place", &[kind.as_str().as_bytes(), hint.as_bytes()])
}
