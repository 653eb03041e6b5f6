//! Other files in stores and bundles of ledgers, and the remains of crashes in them.

use super::commands::{STEPS, signed};

use crate::prelude::*;

#[test]
fn a_torn_end_is_reported_and_repaired() {
    let sandbox = ready();
    let path = signed(&sandbox);
    sandbox.ok("fsck runs");
    let honest = fs::read(&path).unwrap();
    fs::write(&path, [&honest[..], b"{\"run_id\":\"r1\",\"st"].concat()).unwrap();
    let found = sandbox.exits(1, "fsck runs --json").json();
    assert_eq!(found["runs"][0]["clean"], false, "{found:#}");
    sandbox.ok("fsck runs --repair");
    assert_eq!(fs::read(&path).unwrap(), honest);
    sandbox.sh("fsck nowhere").fails_with("cannot open nowhere");
    sandbox
        .sh("fsck s4://x")
        .fails_with("no store has addresses");
}

// T-STO-13 T-STO-17
#[test]
fn a_store_that_contradicts_its_records_is_evidence_and_no_failure() {
    let sandbox = ready();
    let store = "sqlite:runs.db";
    let append = format!("ledger append {store} --run r1 --sign");
    piped(&sandbox, &append, STEPS).exits(0);
    assert_eq!(
        sandbox.verdict(format!("ledger verify {store}")),
        "verified"
    );
    let file = sandbox.path("runs.db");
    let honest = sandbox.path("honest.db");
    rusqlite::Connection::open(&file)
        .unwrap()
        .execute("VACUUM INTO ?1", [honest.to_str().unwrap()])
        .unwrap();
    for damage in [
        "DELETE FROM ledger WHERE seq = 3",
        "UPDATE ledger_heads SET last_seq = 9",
        "UPDATE ledger SET record_json = '[1]' WHERE seq = 3",
        "UPDATE ledger SET seq = seq + 1 WHERE seq = 3",
        "INSERT INTO ledger (run_id, seq, record_json) VALUES ('r1', 0, '{}')",
        "INSERT INTO ledger (run_id, seq, record_json) VALUES ('r1', 2.5, '{}')",
        "INSERT INTO ledger (run_id, seq, record_json) VALUES ('r1', 'x', '{}')",
        "UPDATE ledger SET record_json = CAST(record_json AS BLOB) WHERE seq = 2",
        "UPDATE ledger SET record_json = hex(zeroblob(9000000)) WHERE seq = 2",
        "UPDATE ledger_heads SET last_seq = 'x'",
        "UPDATE threadseal_heads SET count = -4",
        "UPDATE threadseal_heads SET count = 'x'",
        "UPDATE threadseal_heads SET hash = 'x'",
        "INSERT INTO threadseal_deleted VALUES ('r1', 3, NULL, 5)",
        "INSERT INTO threadseal_deleted VALUES ('r1', -3, 'x', 'y')",
    ] {
        for log in ["runs.db-wal", "runs.db-shm"] {
            let _ = fs::remove_file(sandbox.path(log));
        }
        fs::copy(&honest, &file).unwrap();
        let triggers = "DROP TRIGGER threadseal_no_rewriting";
        rusqlite::Connection::open(&file)
            .unwrap()
            .execute_batch(&format!("{triggers}; {damage}"))
            .unwrap();
        for command in [&format!("ledger verify {store}"), "verify runs.db"] {
            let report = sandbox.report(command);
            assert_eq!(exit_of(report["verdict"].text()), 1, "{damage}: {report:#}");
        }
        sandbox.exits(1, format!("fsck {store}"));
    }
}

// T-STO-18
#[test]
fn a_bundle_that_contradicts_itself_is_malformed_and_a_beginning_older_than_what_follows() {
    let sandbox = ready();
    let path = signed(&sandbox);
    let honest = sandbox.report(format!("ledger verify {path:?}"));
    let codes: Vec<_> = honest["findings"]
        .list()
        .iter()
        .map(|found| &found["code"])
        .collect();
    assert!(!codes.contains(&&"time_backwards".into()), "{codes:?}");
    sandbox.ok("ledger export file:runs --to bundle --out b.json");
    let bundle = sandbox.path("b.json");
    let text = read(&bundle);
    let mut changes = vec![text[..text.len() - 9].to_owned()];
    for (old, new) in [
        ("\"r1\":{\"run_id\":\"r1\"", "\"r1\":{\"run_id\":\"r2\""),
        ("\"total\":3", "\"total\":2"),
        ("\"cursor\":2", "\"cursor\":3"),
        ("\"cursor\":2", "\"cursor\":-2"),
        ("{\"cursor\":2", "null,{\"cursor\":2"),
    ] {
        let changed = text.replacen(old, new, 1);
        assert_ne!(changed, text, "{old} in {text}");
        changes.push(changed);
    }
    for changed in changes {
        fs::write(&bundle, &changed).unwrap();
        for command in ["ledger verify b.json", "verify b.json"] {
            assert_eq!(sandbox.verdict(command), "malformed", "{changed}");
        }
    }
}

// T-STO-09
#[test]
fn commands_that_are_killed_while_they_append_leave_all_that_they_acknowledged() {
    for store in ["file:runs", "sqlite:runs.db"] {
        let sandbox = ready();
        let append = ["ledger", "append", store, "--run", "r1", "--sign"];
        let mut acknowledged = Vec::new();
        for round in 0..12 {
            let mut child = sandbox
                .command()
                .args(append)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let mut input = child.stdin.take().unwrap();
            for part in 0..=round {
                let names = (0..20).map(|number| format!("{round}.{part}.{number}"));
                let names: Vec<String> = names.collect();
                let lines = names
                    .iter()
                    .map(|name| format!("{{\"node\":\"{name}\"}}\n"));
                input
                    .write_all(lines.collect::<String>().as_bytes())
                    .unwrap();
                if round % 3 == 0 {
                    acknowledged.extend(names);
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            if round % 3 == 0 {
                drop(input);
                assert!(child.wait().unwrap().success());
            } else {
                child.kill().unwrap();
                child.wait().unwrap();
            }
        }
        sandbox.ok(format!("fsck {store}"));
        assert_eq!(
            sandbox.verdict(format!("ledger verify {store}")),
            "verified"
        );
        let all = sandbox.ok(format!("ledger export {store} --run r1")).stdout;
        let mut from = 0;
        for name in acknowledged {
            let name = format!("\"{name}\"");
            let at = all[from..].find(&name);
            from += at.unwrap_or_else(|| panic!("{store}: {name} is not behind those before it"));
        }
    }
}

// T-STO-09
#[test]
fn each_answer_of_an_append_that_keeps_running_is_durable() {
    let sandbox = ready();
    let mut child = sandbox
        .command()
        .args([
            "ledger",
            "append",
            "file:runs",
            "--sign",
            "--each",
            "--json",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    // A new ledger gets its first record, too.
    let rounds = [("r1", 2, 2), ("r1", 1, 3), ("r2", 2, 2), ("r1", 1, 4)];
    for (number, (run, appended, records)) in (1..).zip(rounds) {
        writeln!(input, "{{\"run_id\":\"{run}\",\"node\":\"n\"}}").unwrap();
        let answer: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
        assert_eq!(answer["input"], number);
        let [ended] = &answer["runs"].as_array().unwrap()[..] else {
            panic!("{answer}")
        };
        let numbers = (&ended["appended"], &ended["records"], &answer["exit"]);
        assert_eq!(numbers, (&appended.into(), &records.into(), &0.into()));
        let stored = sandbox.ok(format!("ledger verify file:runs --run {run} --json"));
        assert_eq!(stored.json()["results"][0]["head"], ended["head"]);
    }
    writeln!(input, "no JSON").unwrap();
    let failure = answers.next().unwrap().unwrap();
    assert!(failure.contains("threadseal.error/1") && failure.contains("not strict JSON"));
    assert!(answers.next().is_none() && !child.wait().unwrap().success());
}

// T-STO-16
#[test]
fn names_without_a_run_are_reported_and_hide_no_other_run() {
    let sandbox = ready();
    let store = "sqlite:runs.db";
    let append = format!("ledger append {store} --run r1 --sign");
    piped(&sandbox, &append, STEPS).exits(0);
    let file = sandbox.path("runs.db");
    let names = [
        ("''", "\"\""),
        ("' r1'", "\" r1\""),
        ("'r1' || char(10)", "\"r1\\n\""),
        ("hex(zeroblob(300))", &*format!("{:?}", "0".repeat(64))),
        ("CAST(x'72ff' AS TEXT)", "\"r\u{fffd}\""),
        ("x'7231'", "(blob)"),
    ];
    for (value, told) in names {
        let connection = rusqlite::Connection::open(&file).unwrap();
        connection
            .execute_batch(&format!(
                "DELETE FROM ledger WHERE CAST(run_id AS BLOB) <> CAST('r1' AS BLOB) OR typeof(run_id) = 'blob';
                 INSERT INTO ledger (run_id, seq, record_json) VALUES ({value}, 1, '{{}}')"
            ))
            .unwrap();
        drop(connection);
        for command in [&format!("ledger verify {store}"), "verify runs.db"] {
            let told_all = sandbox.exits(1, format!("{command} --json")).json();
            let reports = told_all["results"].list();
            let verdicts: Vec<_> = reports.iter().map(|report| &report["verdict"]).collect();
            assert_eq!(verdicts, ["verified", "malformed"], "{value}: {told_all:#}");
            assert_eq!(reports[1]["findings"][0]["code"], "run_name_bad");
            let path = reports[1]["path"].text();
            assert!(path.ends_with(&format!("#{told}")), "{value}: {path}");
        }
        let fsck = sandbox.exits(1, format!("fsck {store} --json")).json();
        fsck.is(json!({"runs/0/clean": true, "runs/1/faults/0/code": "bad_name"}));
        sandbox
            .sh(format!("ledger import {store} file:copy"))
            .fails_with("which is not a run id");
    }
    sandbox.ok(format!("ledger verify {store} --run r1"));
}

// T-STO-15
#[test]
fn what_is_asked_for_as_verified_is_written_whole_or_not_at_all() {
    let sandbox = ready();
    let path = signed(&sandbox);
    let honest = read(&path);
    let verified = "ledger export file:runs --verified";
    assert_eq!(sandbox.ok(verified).stdout, honest);
    let bundle = sandbox.ok(format!("{verified} --to bundle")).stdout;
    let bundle = sandbox.write("b.json", bundle);
    assert_eq!(
        sandbox
            .ok(format!("ledger export {bundle:?} --verified"))
            .stdout,
        honest
    );

    let lines: Vec<&str> = honest.split_inclusive('\n').collect();
    for (text, expected) in [
        (honest.replace("\"ho\"", "\"he\""), "tampered"),
        (lines[..2].concat(), "rolled_back"),
        (lines.concat() + lines[2], "tampered"),
    ] {
        fs::write(&path, text).unwrap();
        for more in ["", "--to bundle", "--out new"] {
            let ran = sandbox.exits(1, format!("{verified} {more}"));
            assert_eq!(ran.stdout, "");
            ran.stderr.has(expected);
        }
        let told = sandbox.report(verified);
        assert_eq!(told["verdict"], expected, "{told:#}");
    }
    assert!(!sandbox.path("new").exists());
    let elsewhere = sandbox.path("elsewhere");
    let home = format!("--home {elsewhere:?}");
    fs::write(&path, &honest).unwrap();
    let ran = sandbox.exits(3, format!("{verified} {home}"));
    assert_eq!(ran.stdout, "");
    ran.stderr.has("unknown_signer");
}

// T-STO-33
#[test]
fn no_ledger_with_evidence_against_it_is_exported() {
    let sandbox = ready();
    let path = signed(&sandbox);
    let honest = read(&path);
    let lines: Vec<&str> = honest.split_inclusive('\n').collect();
    for (text, expected) in [
        (honest.replace("\"ho\"", "\"he\""), "tampered"),
        (lines[..2].concat(), "rolled_back"),
    ] {
        fs::write(&path, text).unwrap();
        for more in ["", "--to bundle", "--out new"] {
            let ran = sandbox.exits(1, format!("ledger export file:runs {more}"));
            assert_eq!(ran.stdout, "");
            ran.stderr.has(expected);
        }
        let told = sandbox.report("ledger export file:runs");
        assert_eq!(told["verdict"], expected, "{told:#}");
    }
    assert!(!sandbox.path("new").exists());
    // Without evidence the stored bytes are copied, whatever else the verdict.
    fs::write(&path, &honest).unwrap();
    assert_eq!(sandbox.ok("ledger export file:runs").stdout, honest);
    let home = format!("--home {:?}", sandbox.path("elsewhere"));
    let copied = sandbox.ok(format!("ledger export file:runs {home}"));
    assert_eq!(copied.stdout, honest);
}

// T-STO-15
#[test]
fn an_unsigned_ledger_is_exported_as_verified_where_its_head_is_known() {
    let sandbox = ready();
    let append = "ledger append file:runs --run r1";
    piped(&sandbox, append, STEPS).exits(0);
    let verified = "ledger export file:runs --verified";
    sandbox.ok(verified);
    sandbox.forget();
    let ran = sandbox.exits(3, verified);
    assert_eq!(ran.stdout, "");
    ran.stderr.has("consistent");
    let path = sandbox.path("runs/ledger_r1.jsonl");
    sandbox.ok(format!("ledger sign {path:?}"));
    sandbox.forget();
    let lines = read(&path);
    assert_eq!(sandbox.ok(verified).stdout, lines);
}

// T-STO-15
#[test]
fn rows_of_a_database_are_written_as_verified_only_where_its_notes_agree() {
    let sandbox = ready();
    let store = "sqlite:runs.db";
    let append = format!("ledger append {store} --run r1 --sign");
    piped(&sandbox, &append, STEPS).exits(0);
    let verified = format!("ledger export {store} --verified");
    assert_eq!(sandbox.ok(&verified).stdout.lines().count(), 3);
    rusqlite::Connection::open(sandbox.path("runs.db"))
        .unwrap()
        .execute("UPDATE threadseal_heads SET hash = ?1", ["00".repeat(32)])
        .unwrap();
    let ran = sandbox.exits(1, &verified);
    assert_eq!(ran.stdout, "");
    ran.stderr.has("tampered");
}

// T-STO-34
#[test]
fn a_pipe_beside_a_store_holds_up_no_command() {
    let sandbox = ready();
    for suffix in ["", "-journal", "-wal", "-shm"] {
        let pipe = sandbox.path(format!("runs.db{suffix}"));
        let made = Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let command = "ledger append sqlite:runs.db --run r";
        sandbox.exits(2, command).warns("it is a pipe");
        let _absent = fs::remove_file(sandbox.path("runs.db"));
        let _gone = fs::remove_file(&pipe);
    }
}
