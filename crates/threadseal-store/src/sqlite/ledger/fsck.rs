//! Checking everything that a file holds of one run, without the writer's queries.
//!
//! | code | fault | repair |
//! |---|---|---|
//! | `damaged_file` | SQLite finds its pages or indexes inconsistent | no |
//! | `not_a_record` | a row that is no JSON object | no |
//! | `gap` | a number without a row | no |
//! | `misnumbered` | a row with a number that is none, below 1, or another row's | no |
//! | `other_run` | a row that names another run | no |
//! | `broken_link` | a `prev_hash` that is not the `record_hash` before it | no |
//! | `columns_missing` | a row whose key and status were not written beside it | yes, from the record |
//! | `columns_differ` | they are there and not the record's | no |
//! | `count_behind` | `ledger_heads` counts fewer rows than there are | yes, from the rows |
//! | `rolled_back` | a count shows that there were more | no |
//! | `changed` | our last record has another hash | no |
//! | `foreign_rows` | others appended after our last append | no |
//! | `odd_note` | a count, a hash or a number of ours or of the package is not valid | no |
//! | `leftover` | a tombstone, and rows all the same | no |
//!
//! It repairs only values that follow from the rows; AbstractRuntime does the same when it opens a
//! file. A transaction is there whole or not at all, so a torn row was not left by a crash.

use super::end;
use super::file::{LedgerFile, to_read};
use super::names::check_name;
use crate::fsck::Fault;
use crate::ledger::FsckReport;
use crate::sqlite::failure::{failed, is_odd_value, number};
use rusqlite::{Connection, ErrorCode};
use threadseal_core::canon::json::{self, Value};
use threadseal_core::error::Error;
use threadseal_formats::ledger::RunId;

/// Complaints of SQLite that are kept.
const MAX_COMPLAINTS: u32 = 16;

/// Checks the pages of the file once, and the rows of each run.
pub(super) fn fsck(
    file: &LedgerFile,
    runs: &[RunId],
    repair: bool,
) -> Result<Vec<FsckReport>, Error> {
    let complaints = pages(file)?;
    let one = |run| fsck_run(file, run, &complaints, repair);
    runs.iter().map(one).collect()
}

fn fsck_run(
    file: &LedgerFile,
    run: &RunId,
    complaints: &[String],
    repair: bool,
) -> Result<FsckReport, Error> {
    check_name(run)?;
    let mut report = examine(file, run, complaints)?;
    let is_mendable = |fault: &Fault| MENDABLE.contains(&fault.code);
    if repair && report.faults.iter().any(is_mendable) {
        mend(file, run)?;
        let left = examine(file, run, complaints)?;
        for fault in &mut report.faults {
            fault.repaired = !left.faults.contains(fault);
        }
    }
    Ok(report)
}

fn examine(file: &LedgerFile, run: &RunId, complaints: &[String]) -> Result<FsckReport, Error> {
    let reading = to_read(&file.path)?;
    let mut look = Look::new(run);
    for complaint in complaints {
        look.fault("damaged_file", None, complaint.clone());
    }
    let transaction = reading.connection.unchecked_transaction();
    match transaction.and_then(|transaction| look.over(&transaction)) {
        Err(error) if is_odd_value(&error) => look.fault("odd_note", None, error.to_string()),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::TooBig) => {
            let text = "a row is larger than any record";
            look.fault("not_a_record", None, text.to_owned());
        }
        looked => looked.map_err(|error| failed("it cannot be examined", &file.path, &error))?,
    }
    Ok(look.report)
}

/// The faults that SQLite finds in the pages and indexes of the whole file.
fn pages(file: &LedgerFile) -> Result<Vec<String>, Error> {
    let look = |connection: &Connection| {
        let sql = format!("PRAGMA main.integrity_check({MAX_COMPLAINTS})");
        let mut statement = connection.prepare(&sql)?;
        let complaints = statement.query_map([], |row| row.get::<_, String>(0))?;
        complaints.collect::<rusqlite::Result<Vec<_>>>()
    };
    let reading = to_read(&file.path)?;
    let complaints = look(&reading.connection)
        .map_err(|error| failed("it cannot be examined", &file.path, &error))?;
    Ok(complaints.into_iter().filter(|text| text != "ok").collect())
}

/// Codes of faults that can be repaired.
const MENDABLE: [&str; 2] = ["columns_missing", "count_behind"];

struct Look<'r> {
    run: &'r RunId,
    report: FsckReport,
    /// The number that the next row should have.
    next: u64,
}

impl<'r> Look<'r> {
    fn new(run: &'r RunId) -> Self {
        let report = FsckReport::of(run);
        Self {
            run,
            report,
            next: 1,
        }
    }

    fn over(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if exists(connection, "threadseal_deleted", self.run)? {
            if end::has_rows(connection, self.run)? {
                let text = "the run is marked as deleted and has rows";
                self.fault("leftover", None, text.to_owned());
            }
            return Ok(());
        }
        let head: Option<(u64, Option<String>)> = one(
            connection,
            "SELECT count, hash FROM threadseal_heads WHERE run_id = ?1",
            self.run,
            |row| Ok((number(row, 0)?, row.get(1)?)),
        )?;
        let hash_there = self.rows(connection, head.as_ref().map(|(count, _)| *count))?;
        self.ends(connection, head, hash_there.as_ref())
    }

    /// Every row in order; the hash that the row of this number carries.
    fn rows(
        &mut self,
        connection: &Connection,
        wanted: Option<u64>,
    ) -> rusqlite::Result<Option<Value>> {
        let mut statement = connection.prepare(
            "SELECT CAST(record_json AS BLOB), seq, idempotency_key, step_status,
                    typeof(seq) = 'integer' AND seq > 0, typeof(record_json) = 'text'
             FROM ledger WHERE run_id = ?1 ORDER BY seq",
        )?;
        let mut rows = statement.query([self.run.as_str()])?;
        let (mut hash_there, mut last_hash) = (None, None);
        while let Some(row) = rows.next()? {
            if !row.get::<_, bool>(4)? {
                let text = "the number of a row is not valid, or is before the first";
                self.fault("misnumbered", None, text.into());
                continue;
            }
            let seq = number(row, 1)?;
            if seq < self.next {
                let text = "two rows have one number".to_owned();
                self.fault("misnumbered", Some(seq), text);
                continue;
            }
            if seq > self.next {
                let text = format!(
                    "rows {} to {} are missing",
                    self.next,
                    seq.saturating_sub(1)
                );
                self.fault("gap", Some(self.next), text);
            }
            self.next = seq + 1;
            let is_text = row.get::<_, bool>(5)?;
            let line = row.get_ref(0)?.as_blob().unwrap_or_default();
            let line = if is_text { line } else { b"" };
            match json::parse_python(line).map(|read| read.value) {
                Ok(record) if record.as_object().is_some() => {
                    self.report.records += 1;
                    let beside = |column| row.get(column).unwrap_or(Some(String::new()));
                    self.columns(seq, &record, beside(2), beside(3));
                    let of = |name: &str| record.get(name).filter(|hash| !hash.is_null()).cloned();
                    if of("prev_hash") != last_hash {
                        let text = "prev_hash is not the record_hash before it".to_owned();
                        self.fault("broken_link", Some(seq), text);
                    }
                    last_hash = of("record_hash");
                    if wanted == Some(seq) {
                        hash_there.clone_from(&last_hash);
                    }
                }
                Ok(_) => self.fault(
                    "not_a_record",
                    Some(seq),
                    "the row is not a JSON object".into(),
                ),
                Err(error) => self.fault("not_a_record", Some(seq), error.to_string()),
            }
        }
        Ok(hash_there)
    }

    fn columns(&mut self, seq: u64, record: &Value, key: Option<String>, status: Option<String>) {
        let text = |name: &str| {
            let text = record.get(name).and_then(Value::as_str);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        if text("run_id").as_deref() != Some(self.run.as_str()) {
            self.fault(
                "other_run",
                Some(seq),
                "the record names another run".into(),
            );
        }
        let there = (text("idempotency_key"), text("status"));
        let message = "key and status beside the record differ from the record";
        match (key, status) {
            (None, None) if there.1.is_some() => {
                self.fault("columns_missing", Some(seq), message.into());
            }
            beside if beside == there => {}
            _ => self.fault("columns_differ", Some(seq), message.into()),
        }
    }

    fn ends(
        &mut self,
        connection: &Connection,
        head: Option<(u64, Option<String>)>,
        hash_there: Option<&Value>,
    ) -> rusqlite::Result<()> {
        let last = self.next - 1;
        let counted: Option<u64> = one(
            connection,
            "SELECT last_seq FROM ledger_heads WHERE run_id = ?1",
            self.run,
            |row| number(row, 0),
        )?;
        let most = counted
            .max(head.as_ref().map(|(count, _)| *count))
            .unwrap_or(0);
        if most > last {
            let text = format!("there were {most} rows, now there are {last}");
            self.fault("rolled_back", Some(last + 1), text);
        }
        if counted.unwrap_or(0) < last {
            let text = format!(
                "ledger_heads counts {} of {last} rows",
                counted.unwrap_or(0)
            );
            self.fault("count_behind", None, text);
        }
        let Some((count, hash)) = head else {
            return Ok(());
        };
        if count <= last && hash_there.map(Value::as_str) != hash.as_deref().map(Some) {
            let text = "the hash of the record differs from the one that was written".to_owned();
            self.fault("changed", Some(count), text);
        }
        if count < last {
            let text = format!("rows {} to {last} were appended by others", count + 1);
            self.fault("foreign_rows", Some(count + 1), text);
        }
        Ok(())
    }

    /// Notes a fault at the row of this number, counted from 1.
    fn fault(&mut self, code: &'static str, row: Option<u64>, message: String) {
        let at = row.map(|row| row.saturating_sub(1));
        self.report.fault(code, at, message);
    }
}

/// Fills in the values that follow from the rows, in one transaction.
fn mend(file: &LedgerFile, run: &RunId) -> Result<(), Error> {
    file.write(|connection| {
        let transaction = file.turnstile.begin(connection).and_then(|transaction| {
            transaction.execute(
                "UPDATE ledger SET
                       idempotency_key = NULLIF(json_extract(record_json, '$.idempotency_key'), ''),
                       step_status = json_extract(record_json, '$.status')
                     WHERE run_id = ?1 AND step_status IS NULL AND idempotency_key IS NULL
                       AND json_valid(record_json)",
                [run.as_str()],
            )?;
            transaction.execute(
                "INSERT INTO ledger_heads (run_id, last_seq)
                     SELECT run_id, MAX(seq) FROM ledger WHERE run_id = ?1 GROUP BY run_id
                     ON CONFLICT (run_id) DO UPDATE
                     SET last_seq = MAX(last_seq, excluded.last_seq)",
                [run.as_str()],
            )?;
            Ok(transaction)
        });
        transaction
            .and_then(rusqlite::Transaction::commit)
            .map_err(file.fail("it cannot be repaired"))
    })
}

fn exists(connection: &Connection, table: &str, run: &RunId) -> rusqlite::Result<bool> {
    connection
        .prepare(&format!("SELECT 1 FROM {table} WHERE run_id = ?1"))?
        .exists([run.as_str()])
}

fn one<T>(
    connection: &Connection,
    sql: &str,
    run: &RunId,
    read: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    use rusqlite::OptionalExtension as _;
    connection.query_row(sql, [run.as_str()], read).optional()
}
