//! The suite, the files of the real package, and the faults that only SQLite can have.

use super::*;
use crate::ledger::conformance::{self, append_next, entry, fill, run_id, whole_chain};
use crate::ledger::{LedgerStoreExt as _, processes};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use threadseal_core::error::ErrorKind;
use threadseal_formats::ledger::compute_record_hash;

struct Bench {
    folder: tempfile::TempDir,
    run: RunId,
}

impl Bench {
    fn with_records(count: usize) -> Self {
        let bench = Self {
            folder: tempfile::tempdir().unwrap(),
            run: run_id("race"),
        };
        fill(&bench.store(), &bench.run, count);
        bench
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("ledger.db")
    }

    fn store(&self) -> SqliteLedgerStore {
        SqliteLedgerStore::open(self.path()).unwrap()
    }

    fn reader(&self) -> SqliteLedgerStore {
        SqliteLedgerStore::open_read_only(self.path()).unwrap()
    }

    /// The length of the chain that a store reads, all of which is whole.
    fn length(&self, store: &SqliteLedgerStore) -> usize {
        whole_chain(store, &self.run).len()
    }

    fn append(&self, store: &SqliteLedgerStore, text: &str) {
        append_next(store, &self.run, text).unwrap();
    }

    fn sql(&self, sql: &str) -> rusqlite::Result<()> {
        Connection::open(self.path())?.execute_batch(sql)
    }

    /// As the package's `append` does it.
    fn append_as_the_package(&self, line: &[u8]) {
        let mut connection = Connection::open(self.path()).unwrap();
        let transaction = connection.transaction().unwrap();
        let run = self.run.as_str();
        let count = "UPDATE ledger_heads SET last_seq = last_seq + 1 WHERE run_id = ?1";
        transaction.execute(count, [run]).unwrap();
        let insert = "INSERT INTO ledger (run_id, seq, record_json, idempotency_key, step_status)
             SELECT ?1, last_seq, ?2, NULL, 'completed' FROM ledger_heads WHERE run_id = ?1";
        let row = (run, std::str::from_utf8(line).unwrap());
        transaction.execute(insert, row).unwrap();
        transaction.commit().unwrap();
    }

    fn faults(&self, repair: bool) -> Vec<(&'static str, bool)> {
        conformance::faults(&self.store(), &self.run, repair)
    }

    fn refusal(&self) -> String {
        let error = append_next(&self.store(), &self.run, "next").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        error.to_string()
    }
}

fn files_in(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder).unwrap();
    let paths = files.map(|entry| entry.unwrap().path());
    paths
        .map(|path| (path.display().to_string(), fs::read(path).unwrap()))
        .collect()
}

/// As a power cut would leave the files: the log only grows, and is copied after the file.
fn copy_with_log(from: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["ledger.db", "ledger.db-wal"] {
        fs::copy(from.join(name), copy.path().join(name)).unwrap();
    }
    copy
}

#[test]
fn the_store_in_sqlite_passes_the_suite() {
    conformance::run(&|| {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        Box::new(move || {
            Box::new(SqliteLedgerStore::open(folder.path().join("ledger.db")).unwrap())
        })
    });
}

#[test]
fn files_of_the_real_package_are_read_without_a_trace_and_continued() {
    let Some(shared) = threadseal_testkit::beside_repository("vectors/ledger") else {
        return;
    };
    let index = fs::read(shared.join("index.json")).unwrap();
    let index: serde_json::Value = serde_json::from_slice(&index).unwrap();
    let mut cases = 0;
    for case in index["cases"].as_array().unwrap() {
        if case["format"] != "sqlite" {
            continue;
        }
        cases += 1;
        let run = run_id(case["run_id"].as_str().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ledger.db");
        fs::copy(shared.join(case["file"].as_str().unwrap()), &file).unwrap();
        let before = files_in(folder.path());
        let store = SqliteLedgerStore::open_read_only(&file).unwrap();
        let records: Vec<_> = store.list(&run, 0).map(Result::unwrap).collect();
        assert!(store.runs(None, 100).unwrap().contains(&run));
        assert!(store.fsck(&run, false).unwrap().is_clean());
        assert_eq!(files_in(folder.path()), before);
        assert_eq!(records.len() as u64, case["loaded_records"]);
        let mut prev = None;
        for record in &records {
            let value = json::parse_python(&record.line).unwrap().value;
            prev = Some(compute_record_hash(&value, prev.as_ref()).unwrap());
        }
        assert_eq!(case["expected"]["head_hash"], prev.unwrap().to_hex());
        let tip = Tip {
            count: records.len() as u64,
            hash: prev,
        };
        assert_eq!(store.tip(&run).unwrap(), Some(tip));
        let error = append_next(&store, &run, "x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);

        let store = SqliteLedgerStore::open(&file).unwrap();
        append_next(&store, &run, "ours").unwrap();
        assert_eq!(store.tip(&run).unwrap().unwrap().count, tip.count + 1);
        assert!(store.fsck(&run, false).unwrap().is_clean());
    }
    assert_eq!(cases, 10);
}

#[test]
fn rows_of_a_writer_that_knows_nothing_of_us_are_noticed_and_not_overwritten() {
    let bench = Bench::with_records(3);
    let store = bench.store();
    let old = store.tip(&bench.run).unwrap().unwrap();
    let theirs = entry(&bench.run, old.hash, "theirs", None);
    bench.append_as_the_package(&theirs.line);
    let ours = entry(&bench.run, old.hash, "ours", None);
    let now = Tip {
        count: 4,
        hash: theirs.record_hash,
    };
    let answer = store.append_if(&bench.run, &old, &[ours]).unwrap();
    assert_eq!(answer, Append::Differs(now));
    assert_eq!(bench.faults(true), [("foreign_rows", false)]);
    bench.append(&store, "ours");
    assert_eq!(bench.length(&store), 5);
    assert_eq!(bench.faults(false), []);
    let connection = Connection::open(bench.path()).unwrap();
    let spans = "SELECT first_seq || '-' || last_seq FROM threadseal_foreign";
    let spans: String = connection.query_row(spans, [], |row| row.get(0)).unwrap();
    assert_eq!(spans, "4-4");
}

#[test]
fn rows_of_ours_that_are_gone_or_changed_stop_every_append() {
    let bench = Bench::with_records(4);
    let rewritten = bench.sql("UPDATE ledger SET record_json = '{}' WHERE seq = 2");
    assert!(rewritten.is_err());
    bench.sql("DELETE FROM ledger WHERE seq = 4").unwrap();
    assert!(bench.refusal().contains("rolled_back"));
    assert_eq!(bench.faults(true), [("rolled_back", false)]);
    bench.sql("UPDATE ledger_heads SET last_seq = 3").unwrap();
    assert!(bench.refusal().contains("rolled_back"));

    let bench = Bench::with_records(2);
    bench
        .sql(
            "DROP TRIGGER threadseal_no_rewriting;
             UPDATE ledger SET record_json = '{\"run_id\":\"race\",\"status\":\"completed\"}' WHERE seq = 2",
        )
        .unwrap();
    assert!(bench.refusal().contains("not the one that was written"));
    let both = |code| [(code, false), ("changed", false)];
    assert_eq!(bench.faults(true), both("broken_link"));
    bench
        .sql("UPDATE ledger SET record_json = '{\"run_id\"' WHERE seq = 2")
        .unwrap();
    assert!(bench.refusal().contains("cannot be read"));
    assert_eq!(bench.faults(true), both("not_a_record"));
}

#[test]
fn only_what_the_rows_determine_is_mended() {
    let bench = Bench::with_records(3);
    bench
        .sql(
            "UPDATE ledger SET step_status = NULL, idempotency_key = NULL WHERE seq = 2;
             UPDATE ledger_heads SET last_seq = 1",
        )
        .unwrap();
    let both = |mended| [("columns_missing", mended), ("count_behind", mended)];
    assert_eq!(bench.faults(false), both(false));
    assert_eq!(bench.faults(true), both(true));
    assert_eq!(bench.faults(false), []);
    bench
        .sql("UPDATE ledger SET seq = 9 WHERE seq = 1")
        .unwrap_err();
    bench.sql("DELETE FROM ledger WHERE seq = 1").unwrap();
    assert_eq!(bench.faults(true), [("gap", false), ("broken_link", false)]);
}

#[test]
fn a_run_that_the_package_deletes_leaves_a_tombstone_too() {
    let bench = Bench::with_records(3);
    let tip = bench.store().tip(&bench.run).unwrap().unwrap();
    bench
        .sql("DELETE FROM ledger; DELETE FROM ledger_heads")
        .unwrap();
    let stone = bench.store().tombstone(&bench.run).unwrap().unwrap();
    assert_eq!(stone.tip, tip);
    assert!(stone.at > Timestamp::from_micros(1_700_000_000_000_000).unwrap());
    assert!(bench.refusal().contains("was deleted"));
    let revival = "INSERT INTO ledger VALUES ('race', 1, '{}', NULL, 'started')";
    let refused = bench.sql(revival).unwrap_err().to_string();
    assert!(refused.contains("deleted"), "{refused}");
}

#[test]
fn a_log_that_lies_beside_a_copy_is_read_without_a_trace() {
    let bench = Bench::with_records(0);
    let store = bench.store();
    bench.append(&store, "0");
    let copy = copy_with_log(bench.folder.path());
    let before = files_in(copy.path());
    assert!(before.values().any(|bytes| bytes.len() > 1000));
    {
        let reader = SqliteLedgerStore::open_read_only(copy.path().join("ledger.db")).unwrap();
        assert_eq!(bench.length(&reader), 1);
        assert!(reader.fsck(&bench.run, false).unwrap().is_clean());
    }
    assert_eq!(files_in(copy.path()), before);

    // A file in use is read through the locks, and later rows are seen.
    let reader = bench.reader();
    assert_eq!(bench.length(&reader), 1);
    bench.append(&store, "1");
    assert_eq!(bench.length(&reader), 2);
}

#[cfg(unix)]
#[test]
fn a_link_leads_to_the_file_with_its_log_and_its_queue() {
    let bench = Bench::with_records(0);
    let store = bench.store();
    bench.append(&store, "0");
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link.db");
    std::os::unix::fs::symlink(bench.path(), &link).unwrap();
    let reader = SqliteLedgerStore::open_read_only(&link).unwrap();
    assert_eq!(bench.length(&reader), 1);
    bench.append(&store, "1");
    assert_eq!(bench.length(&reader), 2);
    let writer = SqliteLedgerStore::open(&link).unwrap();
    bench.append(&writer, "2");
    assert_eq!(bench.length(&store), 3);
    assert_eq!(files_in(elsewhere.path()).len(), 1);
}

#[cfg(unix)]
#[test]
fn a_writer_stands_behind_whoever_waits_and_goes_on_where_there_is_no_queue() {
    let bench = Bench::with_records(1);
    let queue = bench.folder.path().join("ledger.db-turn");
    let other = fs::File::open(&queue).unwrap();
    other.lock().unwrap();
    let store = bench.store();
    let stored = std::thread::scope(|scope| {
        let writer = scope.spawn(|| append_next(&store, &bench.run, "1"));
        std::thread::sleep(std::time::Duration::from_millis(100));
        let overtaken = bench.length(&bench.store());
        other.unlock().unwrap();
        writer.join().unwrap().map(|_| overtaken)
    });
    assert_eq!(stored.unwrap(), 1);
    assert_eq!(bench.length(&store), 2);

    fs::remove_file(&queue).unwrap();
    std::os::unix::fs::symlink("/nowhere/at/all", &queue).unwrap();
    bench.append(&bench.store(), "2");
    assert_eq!(bench.length(&store), 3);
}

#[test]
fn files_that_are_no_ledgers_stay_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let later = folder.path().join("later.db");
    drop(SqliteLedgerStore::open(&later).unwrap());
    let opened = |file: &Path, kind: ErrorKind| {
        let writable = SqliteLedgerStore::open(file).map(drop);
        let read_only = SqliteLedgerStore::open_read_only(file).map(drop);
        for error in [writable, read_only].map(Result::unwrap_err) {
            assert_eq!(error.kind(), kind, "{error}");
        }
    };
    for (name, sql) in [
        ("other.db", "CREATE TABLE t (x)"),
        (
            "view.db",
            "CREATE VIEW ledger AS SELECT 'r' AS run_id, 1 AS seq, '{}' AS record_json",
        ),
        ("later.db", "UPDATE threadseal_schema SET version = 99"),
    ] {
        let file = folder.path().join(name);
        Connection::open(&file).unwrap().execute_batch(sql).unwrap();
        opened(&file, ErrorKind::InvalidInput);
    }
    let noise = folder.path().join("noise.db");
    fs::write(&noise, [7; 5000]).unwrap();
    opened(&noise, ErrorKind::Refused);
    assert_eq!(fs::read(&noise).unwrap(), [7; 5000]);
}

#[test]
fn killed_writers_have_left_every_record_they_acknowledged_in_sqlite() {
    if let Some(path) = processes::role() {
        processes::append_until_killed(&SqliteLedgerStore::open(path).unwrap());
    }
    let bench = Bench::with_records(0);
    drop(bench.store());
    let mut copies = Vec::new();
    let acknowledged = processes::kill_writers(
        "sqlite::ledger::tests::killed_writers_have_left_every_record_they_acknowledged_in_sqlite",
        bench.path().to_str().unwrap(),
        &mut || copies.push(copy_with_log(bench.folder.path())),
    );
    assert!(acknowledged.len() > 100);
    let store = bench.store();
    processes::assert_all_there(&store, &acknowledged);
    assert!(store.fsck(&bench.run, false).unwrap().is_clean());
    bench.append(&store, "afterwards");
    whole_chain(&store, &bench.run);
    for copy in copies {
        let store = SqliteLedgerStore::open(copy.path().join("ledger.db")).unwrap();
        assert!(bench.length(&store) > 30);
        assert!(store.fsck(&bench.run, false).unwrap().is_clean());
    }
}

#[test]
fn eight_processes_append_to_one_run_in_sqlite() {
    if let Some(path) = processes::role() {
        return processes::append_many(&SqliteLedgerStore::open(path).unwrap());
    }
    let bench = Bench::with_records(0);
    processes::race(
        "sqlite::ledger::tests::eight_processes_append_to_one_run_in_sqlite",
        bench.path().to_str().unwrap(),
        "SQLite",
        &bench.store(),
    );
}

// T-STO-24
#[test]
fn an_answer_to_a_commit_that_was_lost_is_found_out_by_count_hash_and_nonce() {
    let bench = Bench::with_records(0);
    let store = bench.store();
    let lost = || Error::new(ErrorKind::External, "the answer was lost");
    let entry_at = |tip: &Tip, text: &str| entry(&bench.run, tip.hash, text, None);
    let nothing = Tip::default();
    let first = entry_at(&nothing, "first");
    let tip = Tip {
        count: 1,
        hash: first.record_hash,
    };
    // Nothing was stored.
    assert!(settle::settle(&store.file, &bench.run, tip, lost()).is_err());
    let stored = store.append_if(&bench.run, &nothing, &[first]).unwrap();
    assert_eq!(stored, Append::Stored(tip));
    let answer = settle::settle(&store.file, &bench.run, tip, lost()).unwrap();
    assert_eq!(answer, Append::Stored(tip));
    let log = fs::metadata(bench.folder.path().join("ledger.db-wal")).unwrap();
    assert_eq!(log.len(), 0, "what was found lies in the file itself");
    // The same record from another writer is another append.
    assert!(settle::settle(&bench.store().file, &bench.run, tip, lost()).is_err());
    let other = Tip {
        count: 1,
        hash: entry_at(&nothing, "other").record_hash,
    };
    assert!(settle::settle(&store.file, &bench.run, other, lost()).is_err());
    bench.append(&bench.store(), "somebody else's");
    assert!(settle::settle(&store.file, &bench.run, tip, lost()).is_err());
    assert_eq!(bench.length(&store), 2);
}

// T-STO-13
#[test]
fn rows_that_only_another_reader_would_find_are_refused_and_named() {
    for number in ["0", "-3", "1.5", "'x'", "x'01'", "9e300"] {
        let bench = Bench::with_records(3);
        bench
            .sql(&format!(
                "INSERT INTO ledger (run_id, seq, record_json) VALUES ('race', {number}, '{{}}')"
            ))
            .unwrap();
        let store = bench.reader();
        let read: Result<Vec<_>, _> = store.list(&bench.run, 0).collect();
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Refused, "{number}");
        assert_eq!(bench.faults(true), [("misnumbered", false)], "{number}");
    }
    // A table without the key, which contains each row twice, also where one read ends.
    for limit in [1, 2, 3, 100] {
        let bench = Bench::with_records(3);
        bench
            .sql(
                "CREATE TABLE other (run_id TEXT, seq INTEGER, record_json TEXT,
                                     idempotency_key TEXT, step_status TEXT);
                 INSERT INTO other SELECT * FROM ledger;
                 INSERT INTO other SELECT run_id, seq, '{}', NULL, 'x' FROM ledger WHERE seq = 2;
                 DROP TABLE ledger; ALTER TABLE other RENAME TO ledger",
            )
            .unwrap();
        let store = bench.reader();
        let page = |after| store.list_after(&bench.run, after, limit);
        let read: Result<Vec<_>, _> = (0..3).map(page).collect();
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Refused, "{limit}");
        assert!(bench.faults(true).contains(&("misnumbered", false)));
    }
}

// T-STO-14
#[test]
fn a_row_holds_what_the_package_reads_of_it() {
    let bench = Bench::with_records(1);
    for (value, text) in [
        ("'{\"a\":1}'", "{\"a\":1}"),
        ("x'7b7d'", "b'2 bytes'"),
        ("x''", "{}"),
        ("''", "{}"),
    ] {
        bench
            .sql(&format!(
                "DROP TRIGGER IF EXISTS threadseal_no_rewriting; UPDATE ledger SET record_json = {value}"
            ))
            .unwrap();
        let records = bench.store().list_after(&bench.run, 0, 9).unwrap();
        assert_eq!(String::from_utf8_lossy(&records[0].line), text);
        let is_fault = bench.faults(false).contains(&("not_a_record", false));
        assert_eq!(is_fault, !value.starts_with("'{"), "{value}");
    }
}

#[test]
fn many_runs_are_examined_as_each_by_itself() {
    let bench = Bench::with_records(2);
    let other = run_id("other");
    append_next(&bench.store(), &other, "0").unwrap();
    bench.sql("UPDATE ledger_heads SET last_seq = 1").unwrap();
    let runs = [bench.run.clone(), other];
    let fsck = |run| bench.store().fsck(run, false).unwrap();
    let each = runs.each_ref().map(fsck);
    assert_eq!(bench.store().fsck_runs(&runs, false).unwrap(), each);
    assert!(!each[0].is_clean() && each[1].is_clean());
}
