//! The suite, and the faults that only a server can have: lost answers, failovers, crashes.

use super::*;
use crate::ledger::conformance::{self, append_next, entry, fill, run_id, whole_chain};
use crate::ledger::processes;
use crate::postgres::throwaway::{Cluster, PASSWORD, database_of};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use threadseal_core::error::ErrorKind;

const DAMAGE: &str = "ALTER TABLE threadseal_ledger_records DISABLE TRIGGER USER;";

fn open(url: &str) -> PostgresLedgerStore {
    PostgresLedgerStore::open(url).unwrap()
}

/// The address of a database at this port, with this password.
fn address(user: &str, password: &str, port: u16, database: &str) -> String {
    let password = password.replace(' ', "%20");
    format!("postgres://{user}:{password}@127.0.0.1:{port}/{database}")
}

fn passes_the_suite(cluster: &Cluster) {
    conformance::run(&|| {
        let url = cluster.fresh();
        Box::new(move || Box::new(open(&url)))
    });
}

/// Asserts that the run of the race continues after its writers and has no fault.
fn continues(store: &PostgresLedgerStore) {
    let run = run_id("race");
    append_next(store, &run, "afterwards").unwrap();
    whole_chain(store, &run);
    assert!(store.fsck(&run, false).unwrap().is_clean());
}

#[test]
fn the_store_in_postgresql_passes_the_suite() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    passes_the_suite(cluster);
}

/// Isolation that makes every collision an error, and a server that would lose acknowledged
/// commits.
#[test]
fn a_server_that_is_set_up_otherwise_passes_the_suite_and_is_warned_of() {
    let settings = "-c fsync=off -c full_page_writes=off -c synchronous_commit=off \
                    -c default_transaction_isolation=serializable";
    let Some(cluster) = Cluster::start(settings) else {
        println!("skipped: PostgreSQL's server programs are not installed");
        return;
    };
    passes_the_suite(&cluster);
    let store = open(&cluster.fresh());
    let warnings = store.warnings().join("\n");
    for setting in ["fsync", "full_page_writes"] {
        assert!(warnings.contains(setting), "{warnings}");
    }
    let durable = store.tables.database.ask(&async |client: &Object| {
        let sql = "SELECT current_setting('synchronous_commit')";
        Ok(client.query_one(sql, &[]).await?.get::<_, String>(0))
    });
    assert_eq!(durable.unwrap(), "on");
}

/// A proxy between a client and the server, which breaks the first connection that sends `needle`.
struct Proxy {
    port: u16,
}

impl Proxy {
    /// With `deliver` the server gets the bytes, and its answer is lost; without, it gets nothing.
    fn start(server: u16, needle: &'static [u8], deliver: bool) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            let broken = Arc::new(Mutex::new(false));
            for client in listener.incoming() {
                let client = client.unwrap();
                let server = TcpStream::connect(("127.0.0.1", server)).unwrap();
                let broken = Arc::clone(&broken);
                let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                let silent = Arc::new(Mutex::new(false));
                let is_silent = Arc::clone(&silent);
                thread::spawn(move || {
                    let mut bytes = [0; 65536];
                    while let Ok(count @ 1..) = from.read(&mut bytes) {
                        if *is_silent.lock().unwrap() || to.write_all(&bytes[..count]).is_err() {
                            break;
                        }
                    }
                });
                thread::spawn(move || forward(client, server, needle, deliver, &broken, &silent));
            }
        });
        Self { port }
    }
}

fn forward(
    mut client: TcpStream,
    mut server: TcpStream,
    needle: &[u8],
    deliver: bool,
    broken: &Mutex<bool>,
    silent: &Mutex<bool>,
) {
    let mut bytes = [0; 65536];
    while let Ok(count @ 1..) = client.read(&mut bytes) {
        let said = &bytes[..count];
        let mut broken = broken.lock().unwrap();
        if !*broken && said.windows(needle.len()).any(|window| window == needle) {
            *broken = true;
            *silent.lock().unwrap() = true;
            if deliver {
                server.write_all(said).unwrap();
                thread::sleep(Duration::from_millis(300));
            }
            let _ = client.shutdown(Shutdown::Both);
            let _ = server.shutdown(Shutdown::Both);
            return;
        }
        drop(broken);
        if server.write_all(said).is_err() {
            return;
        }
    }
}

#[test]
fn an_answer_that_was_lost_is_found_out_and_nothing_is_stored_twice() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let run = run_id("lost");
    for deliver in [true, false] {
        for (needle, locked) in [
            (&b"needle"[..], false),
            (b"needle", true),
            (b"COMMIT", true),
        ] {
            let direct = cluster.fresh();
            fill(&open(&direct), &run, 2);
            let proxy = Proxy::start(cluster.port(), needle, deliver);
            let database = database_of(&direct);
            let store = open(&address("threadseal", PASSWORD, proxy.port, database));
            let tip = store.tip(&run).unwrap().unwrap();
            let mut make = |tip: &Tip| Ok(vec![entry(&run, tip.hash, "needle", None)]);
            let after = if locked {
                store.append_with(&run, &mut make).unwrap()
            } else {
                match store.append_if(&run, &tip, &make(&tip).unwrap()).unwrap() {
                    Append::Stored(tip) => tip,
                    Append::Differs(tip) => panic!("its own record is taken for another's: {tip}"),
                }
            };
            assert_eq!(after.count, 3, "delivered: {deliver}, locked: {locked}");
            assert_eq!(whole_chain(&open(&direct), &run).len(), 3);
        }
    }
}

#[test]
fn a_server_that_forgot_acknowledged_records_gets_nothing_more() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let (url, run, later) = (cluster.fresh(), run_id("failover"), run_id("later"));
    let database = database_of(&url);
    let store = open(&url);
    fill(&store, &run, 3);
    // The rows of a replica that lacked three records when it took over.
    let file = cluster.folder().join(format!("{database}.sql"));
    cluster.run("pg_dump", &["-d", database, "-f", file.to_str().unwrap()]);
    fill(&store, &run, 3);
    fill(&store, &later, 1);
    let tip = store.tip(&run).unwrap().unwrap();
    let sql = |text: &str| cluster.sql("postgres", text);
    sql(&format!("DROP DATABASE {database} WITH (FORCE)"));
    sql(&format!("CREATE DATABASE {database}"));
    let file = file.to_str().unwrap();
    cluster.run("psql", &["-X", "-q", "-d", database, "-f", file]);

    let mut make = |tip: &Tip| Ok(vec![entry(&run, tip.hash, "next", None)]);
    for error in [
        store.tip(&run).unwrap_err(),
        (store.append_if(&run, &tip, &make(&tip).unwrap())).unwrap_err(),
        store.append_with(&run, &mut make).unwrap_err(),
        store.tip(&later).unwrap_err(),
        append_next(&store, &later, "next").unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert!(error.to_string().starts_with("rolled_back"), "{error}");
    }
    // A store that never saw more continues, and the one that did still notices.
    let other = open(&url);
    for text in ["a", "b", "c", "d"] {
        append_next(&other, &run, text).unwrap();
    }
    assert_eq!(whole_chain(&other, &run).len(), 7);
    let error = store.tip(&run).unwrap_err().to_string();
    assert!(error.starts_with("rolled_back"), "{error}");
}

#[test]
fn names_that_no_run_has_are_told_and_passed_over_in_postgresql() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let (url, run) = (cluster.fresh(), run_id("named"));
    let store = open(&url);
    fill(&store, &run, 2);
    assert_eq!(store.strays(9).unwrap(), [""; 0]);
    cluster.sql(
        database_of(&url),
        "INSERT INTO threadseal_ledger_heads (run_id, count, writer) VALUES
           ('', 1, ''), (repeat('x', 513), 1, ''), (E'a\\nb', 1, '');
         INSERT INTO threadseal_ledger_records (run_id, seq, line, status, writer) VALUES
           (E'\\r', 0, '{}', '', '')",
    );
    assert_eq!(store.runs(None, 9).unwrap(), [run]);
    let long = format!("{:?}", "x".repeat(64));
    let told = ["\"\"", "\"\\r\"", "\"a\\nb\"", &long];
    let mut strays = store.strays(9).unwrap();
    strays.sort();
    assert_eq!(strays, told);
    assert_eq!(store.strays(1).unwrap().len(), 1);
}

// T-STO-17
#[test]
fn a_head_cannot_hide_records_and_another_type_is_no_panic_in_postgresql() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let run = run_id("hidden");
    for hide in [
        "DELETE FROM threadseal_ledger_heads",
        "UPDATE threadseal_ledger_heads SET deleted_at = 5",
        "UPDATE threadseal_ledger_heads SET count = 0",
    ] {
        let url = cluster.fresh();
        fill(&open(&url), &run, 2);
        cluster.sql(database_of(&url), hide);
        let store = open(&url);
        assert_eq!(store.runs(None, 9).unwrap(), []);
        assert_eq!(store.strays(9).unwrap(), ["\"hidden\""], "{hide}");
        assert!(!store.fsck(&run, true).unwrap().is_clean(), "{hide}");
    }
    for (table, column) in [("heads", "count"), ("records", "line"), ("records", "seq")] {
        let url = cluster.fresh();
        fill(&open(&url), &run, 2);
        let table = format!("threadseal_ledger_{table}");
        let change = format!(
            "ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {table}_pkey,
               DROP CONSTRAINT IF EXISTS {table}_{column}_check;
             ALTER TABLE {table} ALTER COLUMN {column} TYPE text USING '7'"
        );
        cluster.sql(database_of(&url), &change);
        let store = open(&url);
        let looks = [
            store.tip(&run).map(drop),
            store.list_after(&run, 0, 9).map(drop),
            store.fsck(&run, true).map(drop),
            append_next(&store, &run, "x").map(drop),
        ];
        assert!(looks.iter().any(Result::is_err), "{table}.{column}");
    }
}

#[test]
fn records_are_kept_from_mistakes_and_what_somebody_changed_is_named() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let (url, run) = (cluster.fresh(), run_id("kept"));
    let store = open(&url);
    fill(&store, &run, 4);
    for sql in [
        "UPDATE threadseal_ledger_records SET seq = 9",
        "DELETE FROM threadseal_ledger_records",
        "TRUNCATE threadseal_ledger_records",
    ] {
        let refused = store
            .tables
            .database
            .ask(&async |client: &Object| Ok(client.batch_execute(sql).await?));
        let refused = refused.unwrap_err().to_string();
        let reason = "neither changed nor deleted";
        assert!(refused.contains(reason), "{sql}: {refused}");
    }
    let faults = |damage: &str| {
        cluster.sql(database_of(&url), &format!("{DAMAGE} {damage}"));
        let faults = conformance::faults(&store, &run, true);
        let codes: Vec<&str> = faults.iter().map(|(code, _)| *code).collect();
        codes.join(" ")
    };
    let (change, delete) = (
        "UPDATE threadseal_ledger_records SET line = convert_to('{\"x\":', 'UTF8')",
        "DELETE FROM threadseal_ledger_records",
    );
    assert_eq!(faults(""), "");
    for (damage, seq, codes) in [
        (change, 1, "not_a_record broken_link"),
        (delete, 1, "gap broken_link"),
        (delete, 3, "gap broken_link rolled_back"),
    ] {
        assert_eq!(faults(&format!("{damage} WHERE seq = {seq}")), codes);
    }
}

#[test]
fn passwords_are_in_no_message() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let port = cluster.port();
    for (user, port, database) in [
        ("threadseal", port, "postgres"),
        ("nobody", port, "postgres"),
        ("threadseal", port, "none?sslmode=require"),
        ("threadseal", 1, "postgres"),
    ] {
        let url = address(user, "hunter2", port, database);
        let error = PostgresLedgerStore::open(&url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::External, "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
    let good = address("threadseal", PASSWORD, port, "postgres");
    assert!(!format!("{:?}", open(&good)).contains("correct"));
}

#[test]
fn killed_writers_have_left_every_record_they_acknowledged_in_postgresql() {
    if let Some(url) = processes::role() {
        processes::append_until_killed(&open(&url));
    }
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let url = cluster.fresh();
    let store = open(&url);
    let acknowledged = processes::kill_writers(
        "postgres::ledger::tests::killed_writers_have_left_every_record_they_acknowledged_in_postgresql",
        &url,
        &mut || (),
    );
    assert!(acknowledged.len() > 100);
    processes::assert_all_there(&store, &acknowledged);
    continues(&store);
}

// T-STO-25
#[test]
fn a_server_that_crashes_under_its_writers_keeps_every_record_it_acknowledged() {
    if let Some(url) = processes::role() {
        processes::append_until_killed(&open(&url));
    }
    let Some(mut cluster) = Cluster::start("") else {
        println!("skipped: PostgreSQL's server programs are not installed");
        return;
    };
    let url = cluster.fresh();
    drop(open(&url));
    let told = processes::disturb_writers(
        "postgres::ledger::tests::a_server_that_crashes_under_its_writers_keeps_every_record_it_acknowledged",
        &url,
        3,
        &mut || cluster.crash_and_restart(),
    );
    assert!(told.afterwards > 100, "the writers went on");
    let store = open(&url);
    processes::assert_all_there(&store, &told.acknowledged);
    continues(&store);
}

#[test]
fn eight_processes_append_to_one_run_in_postgresql() {
    if let Some(url) = processes::role() {
        return processes::append_many(&open(&url));
    }
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let url = cluster.fresh();
    processes::race(
        "postgres::ledger::tests::eight_processes_append_to_one_run_in_postgresql",
        &url,
        "PostgreSQL",
        &open(&url),
    );
}

#[test]
fn processes_append_to_several_runs_at_once_in_postgresql() {
    if let Some(url) = processes::role() {
        return processes::append_to_several(&open(&url));
    }
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let url = cluster.fresh();
    processes::share(
        "postgres::ledger::tests::processes_append_to_several_runs_at_once_in_postgresql",
        &url,
        &open(&url),
    );
}

// T-STO-26
#[test]
fn a_server_is_reached_by_tls_and_only_under_a_certificate_that_is_trusted() {
    for (certificate, authority) in [
        ("server.pem", "authority.pem"),
        ("itself.pem", "itself.pem"),
    ] {
        let Some(cluster) = Cluster::start_with_tls(certificate) else {
            println!("skipped: PostgreSQL's server programs are not installed");
            return;
        };
        let database = database_of(&cluster.fresh()).to_owned();
        let url = |host: &str, mode: &str, root: &str| {
            let root = cluster.folder().join(root).display().to_string();
            format!(
                "postgres://threadseal:{}@{host}:{}/{database}?sslmode={mode}&sslrootcert={}",
                PASSWORD.replace(' ', "%20"),
                cluster.port(),
                root.replace('/', "%2F")
            )
        };
        for mode in ["require", "verify-ca", "verify-full", "prefer"] {
            let store = open(&url("localhost", mode, authority));
            let encrypted = store.tables.database.ask(&async |client: &Object| {
                let sql = "SELECT ssl AND version LIKE 'TLSv1.%' FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
                Ok(client.query_one(sql, &[]).await?.get::<_, bool>(0))
            });
            assert!(encrypted.unwrap(), "{mode}");
            fill(&store, &run_id(mode), 2);
            assert_eq!(whole_chain(&store, &run_id(mode)).len(), 2);
            for (host, root, why) in [
                ("localhost", "stranger.pem", "UnknownIssuer"),
                ("127.0.0.1", authority, "not valid for"),
            ] {
                let error = PostgresLedgerStore::open(&url(host, mode, root)).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::External);
                assert!(error.to_string().contains(why), "{mode} {root}: {error}");
            }
        }
    }
}
