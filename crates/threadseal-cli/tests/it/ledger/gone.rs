//! Records that this home sealed in a store, and that another program removed there.

use crate::fleet::{cluster, database_of};
use crate::prelude::*;

const STEP: &str = "{\"node\":\"plan\"}\n";

/// A store with three ledgers, of which `r2` is unsigned.
struct Filled {
    sandbox: Sandbox,
    store: String,
}

impl Filled {
    fn new(store: &str) -> Self {
        let sandbox = ready();
        for (run, more) in [("r1", "--sign"), ("r2", ""), ("r3", "--sign")] {
            let append = format!("ledger append {store} --run {run} {more}");
            piped(&sandbox, &append, STEP).exits(0);
        }
        Self {
            sandbox,
            store: store.to_owned(),
        }
    }

    /// Verifies, checks and looks for all known records: each names so many missing records.
    #[track_caller]
    fn lacks(&self, missing: usize) {
        let Self { sandbox, store } = self;
        let exit = i32::from(missing > 0);
        for command in ["verify", "ledger verify", "verify --all"] {
            let ran = sandbox.exits(exit, format!("{command} {store} --json"));
            let output = ran.json();
            let reports = output["results"].list().iter();
            let gone = reports.filter(|report| report["verdict"] == "missing");
            assert_eq!(gone.count(), missing, "{command} {store}: {output:#}");
            ran.stderr.lacks("was not searched");
        }
        let fsck = sandbox.exits(exit, format!("fsck {store} --json")).json();
        let runs = fsck["runs"].list().iter();
        let is_missing = |run: &&Value| run["faults"].to_string().contains("\"code\":\"missing\"");
        assert_eq!(runs.filter(is_missing).count(), missing, "{fsck:#}");
    }
}

/// Removes runs one after the other with `remove`.
fn each_is_missed(store: &str, remove: impl Fn(&Sandbox, &str)) {
    let filled = Filled::new(store);
    filled.lacks(0);
    for (missing, run) in ["r1", "r2", "r3"].iter().enumerate() {
        remove(&filled.sandbox, run);
        filled.lacks(missing + 1);
    }
    // Another home never knew them.
    let stranger = Sandbox::new();
    stranger.ok("init -q");
    let work = filled.sandbox.work();
    let mut command = filled.sandbox.command();
    command.env("THREADSEAL_HOME", stranger.home());
    command.current_dir(work).args(["verify", store]);
    assert_eq!(Ran::of(command.output().unwrap()).code, 2);
}

fn hex_of(run: &str) -> String {
    run.bytes().map(|byte| format!("{byte:02x}")).collect()
}

// T-STO-29
#[test]
fn a_ledger_whose_head_was_removed_from_object_storage_is_missing() {
    each_is_missed("object+file:objects", |sandbox, run| {
        let head = sandbox.path("objects/heads").join(hex_of(run));
        fs::remove_file(head).unwrap();
    });
}

// T-STO-29
#[test]
fn a_ledger_whose_rows_were_removed_from_sqlite_is_missing() {
    each_is_missed("sqlite:runs.db", |sandbox, run| {
        let file = rusqlite::Connection::open(sandbox.path("runs.db")).unwrap();
        for table in [
            "ledger",
            "ledger_heads",
            "threadseal_heads",
            "threadseal_deleted",
        ] {
            let delete = format!("DELETE FROM {table} WHERE run_id = ?1");
            file.execute(&delete, [run]).unwrap();
        }
    });
}

// T-STO-29
#[test]
fn a_ledger_whose_rows_were_removed_from_postgresql_is_missing() {
    let Some(cluster) = cluster() else { return };
    let url = cluster.fresh();
    each_is_missed(&url, |_, run| {
        let remove = format!(
            "ALTER TABLE threadseal_ledger_records DISABLE TRIGGER USER;
             DELETE FROM threadseal_ledger_records WHERE run_id = '{run}';
             ALTER TABLE threadseal_ledger_heads DISABLE TRIGGER USER;
             DELETE FROM threadseal_ledger_heads WHERE run_id = '{run}'"
        );
        cluster.sql(database_of(&url), &remove);
    });
}

// T-STO-29
#[test]
fn a_transcript_that_was_removed_from_object_storage_is_missing_where_it_was_sealed() {
    let sandbox = ready();
    let path = recorder(&sandbox, "one.jsonl", 1).path().to_owned();
    let (store, record) = ("object+file:objects", "object+file:objects#one");
    sandbox.ok(format!("transcript import {path:?} {record}"));
    fs::remove_file(&path).unwrap();
    sandbox.ok(format!("seal {record} --final"));
    sandbox.ok(format!("verify {store}"));
    sandbox.ok(format!("verify --all {store}"));
    let heads = walk(&sandbox.path("objects/transcripts"));
    let head = heads.iter().find(|path| path.is_file()).unwrap();
    let kept = fs::read(head).unwrap();
    fs::remove_file(head).unwrap();
    for command in ["verify", "verify --all"] {
        let output = sandbox.exits(1, format!("{command} {store} --json")).json();
        let gone = output["results"].item("verdict", "missing");
        assert!(gone.codes().contains(&"record_missing"), "{output:#}");
    }
    sandbox.exits(1, format!("fsck {store}")).prints("missing");
    fs::write(head, kept).unwrap();
    sandbox.ok(format!("verify {store}"));
}

/// A pruned ledger is not missing, and one that went on elsewhere is no record of its former store.
// T-STO-30
#[test]
fn what_was_pruned_or_went_on_elsewhere_is_not_missing() {
    for more in ["--sign", ""] {
        for store in ["sqlite:runs/db", "object+file:runs"] {
            let sandbox = ready();
            let runs = sandbox.path("runs");
            fs::create_dir(&runs).unwrap();
            for run in ["r1", "r2"] {
                let append = format!("ledger append {store} --run {run} {more}");
                piped(&sandbox, &append, STEP).exits(0);
            }
            let kept = sandbox.path("kept");
            copy(&runs, &kept);
            sandbox.ok(format!("prune --yes {store} --run r1 --older-than 0h"));
            for command in ["verify", "ledger verify", "verify --all"] {
                sandbox.ok(format!("{command} {store}"));
            }
            sandbox.ok(format!("fsck {store}"));
            // A copy that was put back is reported, and takes no record.
            put_back(&kept, &runs);
            let output = sandbox.json(format!("ledger verify {store} --run r1"));
            let is_noted = output["results"][0].codes().contains(&"pruned_but_present");
            assert!(is_noted || !more.is_empty(), "{output:#}");
            let append = format!("ledger append {store} --run r1 {more}");
            piped(&sandbox, &append, STEP).exits(2).warns("was pruned");
        }
    }
    let sandbox = ready();
    let append = |store: &str, run: &str| {
        let append = format!("ledger append {store} --run {run} --sign");
        piped(&sandbox, &append, STEP).exits(0);
    };
    append("object+file:a", "r1");
    append("object+file:a", "r2");
    sandbox.ok("ledger import object+file:a sqlite:b.db --run r1");
    append("sqlite:b.db", "r1");
    fs::remove_file(sandbox.path("a/heads").join(hex_of("r1"))).unwrap();
    sandbox.ok("verify object+file:a");
    sandbox.ok("verify b.db");
}
