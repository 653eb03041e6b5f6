//! Checking everything that the database holds of one run, without the writer's statements.
//!
//! | code | fault |
//! |---|---|
//! | `not_a_record` | a line that is no JSON object |
//! | `gap` | a number without a record |
//! | `other_run` | a record that names another run |
//! | `broken_link` | a `prev_hash` that is not the `record_hash` before it |
//! | `columns_differ` | hash, key or status beside the record are not the record's |
//! | `count_behind` | the head counts fewer records than there are |
//! | `rolled_back` | the head counts more records than there are |
//! | `changed` | the last record has another hash than the head |
//!
//! A transaction is there whole or not at all, so no crash left a torn record here. Nothing is
//! repaired: another program or person caused each of these faults.

use crate::ledger::FsckReport;
use crate::postgres::connect::Server;
use crate::postgres::failure::{Failure, column};
use threadseal_core::canon::json::{self, Value};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_formats::ledger::RunId;
use tokio_postgres::Row;

/// Records that a cursor gives at once.
const PAGE: &str = "FETCH 256 FROM threadseal_fsck";

pub(super) async fn fsck(server: &Server, run: &RunId) -> Result<FsckReport, Error> {
    let connected = server.config.connect(server.tls.clone()).await;
    let (mut client, connection) =
        connected.map_err(|error| Failure::from(error).into_error(server))?;
    let driver = crate::runtime::runtime()?.spawn(connection);
    let looked = look(&mut client, run).await;
    driver.abort();
    looked.map_err(|failure| failure.into_error(server))
}

/// In one snapshot, through a cursor: memory does not grow with the run.
async fn look(client: &mut tokio_postgres::Client, run: &RunId) -> Result<FsckReport, Failure> {
    let transaction = client
        .build_transaction()
        .isolation_level(tokio_postgres::IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await?;
    let head = transaction
        .query_opt(
            "SELECT count, hash, deleted_at IS NOT NULL FROM threadseal_ledger_heads
             WHERE run_id = $1",
            &[&run.as_str()],
        )
        .await?;
    let mut look = Look::new(run);
    transaction
        .execute(
            "SELECT set_config('threadseal.run', $1, true)",
            &[&run.as_str()],
        )
        .await?;
    transaction
        .batch_execute(
            "DECLARE threadseal_fsck NO SCROLL CURSOR FOR
             SELECT seq, line, record_hash, key_digest, status FROM threadseal_ledger_records
             WHERE run_id = current_setting('threadseal.run') ORDER BY seq",
        )
        .await?;
    loop {
        let rows = transaction.query(PAGE, &[]).await?;
        if rows.is_empty() {
            break;
        }
        rows.iter().try_for_each(|row| look.record(row))?;
    }
    look.end(head.as_ref())?;
    Ok(look.report)
}

struct Look<'r> {
    run: &'r RunId,
    report: FsckReport,
    /// The number that the next record should have.
    next: i64,
    /// Hash of the last record, from its line.
    last: Option<Digest>,
}

impl<'r> Look<'r> {
    fn new(run: &'r RunId) -> Self {
        let report = FsckReport::of(run);
        Self {
            run,
            report,
            next: 0,
            last: None,
        }
    }

    fn record(&mut self, row: &Row) -> Result<(), Failure> {
        let seq: i64 = column(row, 0)?;
        if seq != self.next {
            let text = format!("records {} to {} are missing", self.next, seq - 1);
            self.fault("gap", self.next, text);
        }
        self.next = seq.saturating_add(1);
        let record = match json::parse_python(column(row, 1)?) {
            Ok(read) if read.value.as_object().is_some() => read.value,
            Ok(_) => {
                self.fault("not_a_record", seq, "the line is not a JSON object".into());
                return Ok(());
            }
            Err(error) => {
                self.fault("not_a_record", seq, error.to_string());
                return Ok(());
            }
        };
        self.report.records += 1;
        let text = |name: &str| record.get(name).and_then(Value::as_str);
        if text("run_id").is_some_and(|name| name != self.run.as_str()) {
            self.fault("other_run", seq, "the record names another run".into());
        }
        let before = self.last.map(|digest| digest.to_hex());
        if text("prev_hash") != before.as_deref() {
            let text = "prev_hash is not the record_hash before it".to_owned();
            self.fault("broken_link", seq, text);
        }
        self.last = text("record_hash").and_then(Digest::parse_hex);
        let key = text("idempotency_key").filter(|key| !key.is_empty());
        let key = key.map(|key| Digest::of(key.as_bytes()));
        let status: &str = column(row, 4)?;
        let differs = column::<Option<&[u8]>>(row, 2)?
            != self.last.as_ref().map(|d| &d.as_bytes()[..])
            || column::<Option<&[u8]>>(row, 3)? != key.as_ref().map(|d| &d.as_bytes()[..])
            || text("status").is_some_and(|text| status != text);
        if differs {
            let text = "hash, key or status beside the record differ from the record";
            self.fault("columns_differ", seq, text.into());
        }
        Ok(())
    }

    fn end(&mut self, head: Option<&Row>) -> Result<(), Failure> {
        let (count, hash, is_deleted): (i64, Option<&[u8]>, bool) = match head {
            Some(head) => (column(head, 0)?, column(head, 1)?, column(head, 2)?),
            None => (0, None, false),
        };
        if is_deleted {
            if self.next > 0 {
                let text = "the run is marked as deleted and has records";
                self.fault("leftover", 0, text.to_owned());
            }
            return Ok(());
        }
        if count < self.next {
            let text = format!("the head counts {count} of {} records", self.next);
            self.fault("count_behind", count, text);
        } else if count > self.next {
            let text = format!("there were {count} records, now there are {}", self.next);
            self.fault("rolled_back", self.next, text);
        } else if hash != self.last.as_ref().map(|digest| &digest.as_bytes()[..]) {
            let text = "the hash of the last record differs from the hash in the head".to_owned();
            self.fault("changed", count.saturating_sub(1), text);
        }
        Ok(())
    }

    fn fault(&mut self, code: &'static str, seq: i64, message: String) {
        self.report.fault(code, u64::try_from(seq).ok(), message);
    }
}
