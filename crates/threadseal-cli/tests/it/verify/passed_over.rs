//! Files that a walk through a folder must not pass over: they were records, or should be.

use crate::prelude::*;
use crate::scroll::turns;

const STEP: &str = "{\"node\":\"plan\"}\n";
const CODE: &str = "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab";
/// What an attacker may put in the place of a record.
const OVERWRITTEN: [&[u8]; 3] = [b"", b"a note\n", b"\0\x01\xff"];

/// A home, and in `d` a good document, so that a file that is passed over leaves exit 0.
fn beside_a_good_document() -> Sandbox {
    let sandbox = ready();
    sandbox.write("d/good.py", "print(1)\n");
    sandbox.ok("seal d/good.py");
    sandbox
}

/// Signs the ledger of two steps of the run `r1`, in a store below the working folder.
fn ledger(sandbox: &Sandbox, store: &str) {
    ledger_of("r1", sandbox, store);
}

fn ledger_of(run: &str, sandbox: &Sandbox, store: &str) {
    let append = format!("ledger append {store} --run {run} --sign");
    piped(sandbox, &append, &STEP.repeat(2)).exits(0);
}

/// An SQLite ledger in `d/runs.db` alone, without a log beside it.
fn sqlite_ledger(sandbox: &Sandbox) -> PathBuf {
    ledger(sandbox, "sqlite:d/runs.db");
    let path = sandbox.path("d/runs.db");
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch("PRAGMA journal_mode = DELETE").unwrap();
    drop(file);
    sandbox.ok("verify d");
    path
}

fn change_a_record(path: &Path) {
    let file = rusqlite::Connection::open(path).unwrap();
    file.execute_batch(
        "DROP TRIGGER threadseal_no_rewriting;
         UPDATE ledger SET record_json = replace(record_json, 'plan', 'plot')",
    )
    .unwrap();
}

fn overwrite(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    // What a database leaves beside itself is no evidence.
    for ending in ["-wal", "-shm", "-turn"] {
        let _ = fs::remove_file(format!("{}{ending}", path.display()));
    }
}

// T-CMD-16
#[test]
fn a_changed_sqlite_ledger_is_not_hidden_by_a_journal_beside_it() {
    let sandbox = beside_a_good_document();
    let path = sqlite_ledger(&sandbox);
    change_a_record(&path);
    let commands = [
        "verify d",
        "verify d/runs.db",
        "ledger verify sqlite:d/runs.db",
    ];
    // SQLite plays back no journal without its magic, so the file is what a reader gets.
    sandbox.write("d/runs.db-journal", "junk ".repeat(200));
    for command in commands {
        let report = sandbox.exits(1, format!("{command} --json")).json();
        assert_eq!(report.report_on("runs.db#r1")["verdict"], "tampered");
    }
    // What this one would restore is unknown.
    let magic = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    sandbox.write("d/runs.db-journal", [&magic[..], &[1; 600]].concat());
    for command in commands {
        sandbox.exits(2, command).warns("was not finished");
    }
}

/// (no attack) A database of another program that is busy.
// T-CMD-18
#[test]
fn an_unfinished_database_of_another_program_is_passed_over() {
    let sandbox = beside_a_good_document();
    let path = sandbox.path("d/accounts.db");
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch("CREATE TABLE ledger (id INTEGER, amount INTEGER)")
        .unwrap();
    drop(file);
    let passed_over = || {
        let output = sandbox.json("verify d");
        assert_eq!(output["results"].list().len(), 1, "{output:#}");
    };
    passed_over();
    let magic = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    sandbox.write("d/accounts.db-journal", [&magic[..], &[1; 600]].concat());
    passed_over();
}

// T-CMD-16
#[test]
fn an_sqlite_ledger_with_a_changed_header_or_schema_is_not_passed_over() {
    let sandbox = beside_a_good_document();
    let path = sqlite_ledger(&sandbox);
    let honest = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let mut files = 0;
    for at in (0..24).chain(100..108) {
        for bit in 0..8 {
            let mut changed = honest.clone();
            changed[at] ^= 1 << bit;
            sandbox.write(format!("d/{at}-{bit}"), changed);
            files += 1;
        }
    }
    for (number, sql) in [
        "ALTER TABLE ledger RENAME TO other",
        "DROP TABLE ledger",
        "DROP TABLE ledger; CREATE VIEW ledger AS SELECT 1 AS run_id, 1 AS seq, 1 AS record_json",
    ]
    .iter()
    .enumerate()
    {
        let path = sandbox.write(format!("d/schema-{number}"), &honest);
        let file = rusqlite::Connection::open(&path).unwrap();
        file.execute_batch(sql).unwrap();
        files += 1;
    }
    let output = sandbox.sh("verify d --json").json();
    let told = |name: &Value| name.text().starts_with("d/");
    let failed = output["errors"].list().iter();
    let failed = failed.filter(|error| told(&error["path"])).count();
    let reports = output["results"].list().iter();
    let ledgers = reports.filter(|report| report["format"] == "ledger");
    let ledgers: BTreeSet<&str> = ledgers
        .map(|report| report["path"].text().split('#').next().unwrap())
        .collect();
    assert_eq!(failed + ledgers.len(), files, "{output:#}");
}

// T-CMD-17
#[test]
fn a_ledger_or_scroll_that_was_emptied_or_overwritten_is_missing() {
    for bytes in OVERWRITTEN {
        let sandbox = beside_a_good_document();
        let database = sqlite_ledger(&sandbox);
        ledger_of("r2", &sandbox, "file:d/runs");
        piped(
            &sandbox,
            "scroll seal --key self-scroll --out d/s.json",
            &turns(2),
        )
        .exits(0);
        sandbox.ok("verify d");
        let lines = sandbox.path("d/runs/ledger_r2.jsonl");
        let scroll = sandbox.path("d/s.json");
        for path in [&database, &lines, &scroll] {
            let kept = fs::read(path).unwrap();
            overwrite(path, bytes);
            // The same record in another file of the folder is not missing.
            let index = sandbox.path("d/runs/ledger_r2.index");
            let entries = fs::read(&index).unwrap();
            for folder in ["d", "d/runs"] {
                if path.starts_with(sandbox.path(folder)) {
                    let output = sandbox.exits(1, format!("verify {folder} --json")).json();
                    let name = name_of(path);
                    let evidence = output["results"].list().iter().any(|report| {
                        report["path"].text().contains(name)
                            && exit_of(report["verdict"].text()) == 1
                    });
                    assert!(evidence, "{name}, {bytes:?}: {output:#}");
                }
            }
            fs::remove_file(&index).unwrap();
            sandbox.exits(1, "verify d");
            fs::write(path, &kept).unwrap();
            fs::write(&index, entries).unwrap();
            sandbox.ok("verify d");
        }
        // Moved within the folder, and something else begins in its place.
        fs::rename(&scroll, sandbox.path("d/moved.json")).unwrap();
        fs::write(&scroll, bytes).unwrap();
        let output = sandbox.sh("verify d --json").json();
        let verdicts = output["results"].texts("verdict");
        assert!(!verdicts.contains(&"missing"), "{output:#}");
    }
}

// T-CMD-17
#[test]
fn a_store_of_objects_in_a_folder_is_looked_into_where_this_host_sealed_there() {
    let sandbox = beside_a_good_document();
    ledger(&sandbox, "object+file:d/objects");
    let output = sandbox.json("verify d");
    assert_eq!(output["results"].list().len(), 2, "{output:#}");
    let mut objects = walk(&sandbox.path("d/objects"));
    objects.retain(|path| path.is_file() && !name_of(path).starts_with('.'));
    for path in objects {
        let whole = fs::read(&path).unwrap();
        fs::write(&path, "junk").unwrap();
        let code = sandbox.sh("verify d").code;
        assert!(matches!(code, 1 | 2), "{path:?}: {code}");
        fs::write(&path, whole).unwrap();
    }
}

/// (no attack) A record that this host pruned, and whose place took another file.
// T-CMD-18
#[test]
fn the_place_of_a_pruned_ledger_may_have_any_file() {
    let sandbox = beside_a_good_document();
    ledger(&sandbox, "file:d/runs");
    sandbox.ok("prune --yes --older-than 0h file:d/runs --run r1");
    sandbox.write("d/runs/ledger_r1.txt", "a note");
    sandbox.ok("verify d");
}

// T-CMD-17
#[test]
fn a_file_beside_the_signed_head_of_a_ledger_is_that_ledger() {
    let sandbox = beside_a_good_document();
    piped(
        &sandbox,
        "ledger append file:runs --run r1",
        &STEP.repeat(2),
    )
    .exits(0);
    let path = sandbox.path("d/steps.txt");
    fs::copy(sandbox.path("runs/ledger_r1.jsonl"), &path).unwrap();
    sandbox.ok("ledger sign d/steps.txt");
    sandbox.ok("verify d");
    // A home that knows nothing of it.
    let other = ready();
    for bytes in OVERWRITTEN {
        fs::write(&path, bytes).unwrap();
        for host in [&sandbox, &other] {
            let path = sandbox.path("d");
            let output = host.exits(1, format!("verify {path:?} --json")).json();
            output.report_on("steps.txt");
        }
    }
}

// T-SCR-40
#[test]
fn a_scroll_with_one_changed_bit_is_not_passed_over() {
    for (name, count, more) in [
        ("one.cbor", 1, "--cbor"),
        ("two.cbor", 2, "--cbor"),
        ("one.json", 1, ""),
        ("one.jsonl", 1, "--to lines"),
    ] {
        let sandbox = ready();
        let seal = format!("scroll seal --key self-scroll {more} --out {name}");
        piped(&sandbox, &seal, &turns(count)).exits(0);
        let honest = fs::read(sandbox.path(name)).unwrap();
        let ending = name.split_once('.').unwrap().1;
        let mut files = 0;
        for at in 0..honest.len() {
            // Each bit of the parts that show what the file is, one of each other byte.
            let bits = if at < 4 || count == 1 {
                0..8
            } else {
                at % 8..at % 8 + 1
            };
            for bit in bits {
                let mut changed = honest.clone();
                changed[at] ^= 1 << bit;
                sandbox.write(format!("d/{at}-{bit}.{ending}"), changed);
                files += 1;
            }
        }
        let output = sandbox.sh("verify d --json").json();
        let told = output["results"]
            .list()
            .iter()
            .chain(output["errors"].list());
        let told: BTreeSet<&str> = told.map(|told| told["path"].text()).collect();
        assert_eq!(
            told.len(),
            files,
            "{name}: {} passed over",
            output["passed_over"]
        );
        // The digits of a timestamp that no double keeps are listed, and count for nothing.
        let good = |report: &&Value| {
            report["verdict"] == "verified" && report["unauthenticated"].list().is_empty()
        };
        let good: Vec<&Value> = output["results"].list().iter().filter(good).collect();
        assert!(good.is_empty(), "{name}: {good:#?}");
    }
}

/// (no attack) Logs of other programs have some members of a turn, too.
// T-SCR-42
#[test]
fn a_scroll_that_was_cut_is_not_passed_over() {
    for (name, more) in [
        ("one.cbor", "--cbor"),
        ("one.json", ""),
        ("one.jsonl", "--to lines"),
    ] {
        let sandbox = ready();
        let seal = format!("scroll seal --key self-scroll {more} --out {name}");
        piped(&sandbox, &seal, &turns(1)).exits(0);
        let honest = fs::read(sandbox.path(name)).unwrap();
        let ending = name.split_once('.').unwrap().1;
        // The first mark of a turn in CBOR follows its signature.
        let mark = b"dhashxGsha256:";
        let first = match honest.windows(mark.len()).position(|bytes| bytes == mark) {
            Some(at) => at + mark.len(),
            None => b"[{\"hash\":\"sha256:".len(),
        };
        let ends = first..honest.len() - 1;
        for end in ends.clone() {
            sandbox.write(format!("d/{end}.{ending}"), &honest[..end]);
        }
        let output = sandbox.sh("verify d --json").json();
        let count = output["results"].list().len() + output["errors"].list().len();
        assert_eq!(count, ends.len(), "{name}: {}", output["passed_over"]);
        let results = output["results"].list();
        assert!(
            results.iter().all(|report| report["verdict"] != "verified"),
            "{name}"
        );
    }
    let sandbox = ready();
    for (name, text) in [
        ("a.json", "{\"hash\":\"sha256:12\"}"),
        ("b.json", "[{\"hash\":\"sha512:12"),
    ] {
        sandbox.write(format!("d/{name}"), text);
    }
    // One is a document without a seal, the other nothing that is known.
    let ran = sandbox.exits(3, "verify d");
    assert!(
        ran.stdout.contains("1 file not recognised"),
        "{}",
        ran.stdout
    );
}

// T-SCR-41
#[test]
fn a_log_with_members_of_a_turn_stays_a_log() {
    let sandbox = ready();
    let line = "{\"role\":\"user\",\"model\":\"m\",\"messages\":[],\"version\":1,\"turn\":1,\"params\":{}}\n";
    sandbox.write("d/a.jsonl", line.repeat(3));
    sandbox.ok("seal d/a.jsonl");
    let report = sandbox.report("verify d");
    report.is(json!({"format": "log", "verdict": "verified"}));
}

// T-STO-31
#[test]
fn an_index_shows_records_that_its_ledger_lost() {
    let sandbox = ready();
    ledger(&sandbox, "file:runs");
    let (path, index) = (
        sandbox.path("runs/ledger_r1.jsonl"),
        sandbox.path("runs/ledger_r1.index"),
    );
    let honest = lines(&path);
    let entries = fs::read(&index).unwrap();
    // A home that knows no head of it.
    let other = ready();
    let folder = sandbox.path("runs");
    let both = |exit: i32, verdict: &str, code: &str| {
        for command in ["verify", "ledger verify"] {
            let ran = other.exits(exit, format!("{command} {folder:?} --json"));
            let output = ran.json();
            let found = output["results"].item("verdict", verdict);
            assert!(found.codes().contains(&code), "{command}: {output:#}");
        }
    };
    both(3, "unknown_signer", "key_unknown");
    fs::write(&path, honest[..2].concat()).unwrap();
    both(1, "rolled_back", "records_lost");
    fs::write(&path, "").unwrap();
    both(1, "rolled_back", "records_lost");
    fs::write(&path, "junk\n").unwrap();
    both(1, "rolled_back", "records_lost");
    fs::remove_file(&path).unwrap();
    let output = other.exits(1, format!("verify {folder:?} --json")).json();
    assert_eq!(output.codes(), ["ledger_missing"], "{output:#}");
    assert!(
        output["results"][0]["path"]
            .text()
            .ends_with("ledger_r1.jsonl")
    );
    fs::write(&path, honest.concat()).unwrap();
    // Other bytes than an index accuse the index, and not the ledger.
    let mut flipped = entries.clone();
    flipped[100] ^= 1;
    for changed in [b"junk".to_vec(), flipped, vec![7; 640]] {
        fs::write(&index, changed).unwrap();
        both(1, "malformed", "index_malformed");
        both(1, "unknown_signer", "key_unknown");
    }
    sandbox.exits(1, "verify runs");
    sandbox.ok("fsck runs --repair");
    sandbox.ok("verify runs");
}

/// (no attack) A loss of power leaves an index that is short, or has zeros.
// T-STO-32
#[test]
fn an_index_after_a_loss_of_power_accuses_nothing() {
    let sandbox = ready();
    ledger(&sandbox, "file:runs");
    let index = sandbox.path("runs/ledger_r1.index");
    let entries = fs::read(&index).unwrap();
    let mut hole = entries.clone();
    hole[64..128].fill(0);
    for left in [
        Vec::new(),
        entries[..10].to_vec(),
        entries[..64].to_vec(),
        entries[..100].to_vec(),
        vec![0; entries.len()],
        hole,
    ] {
        fs::write(&index, left).unwrap();
        sandbox.ok("verify runs");
        sandbox.ok("ledger verify file:runs");
    }
    fs::remove_file(&index).unwrap();
    sandbox.ok("verify runs");
}

/// Three links of an agent in `agents`, which this home trusts.
fn agent(sandbox: &Sandbox) {
    for tick in 1..=3 {
        sandbox.write("state", format!("state {tick}"));
        sandbox.ok(format!(
            "lineage append agents --agent sorter --state state --tick {tick} --budget 9 --price 1 --code {CODE}"
        ));
    }
}

// T-LIN-36
#[test]
fn both_commands_agree_on_a_lineage_of_which_files_are_gone_or_overwritten() {
    let sandbox = ready();
    agent(&sandbox);
    let kept = sandbox.path("kept");
    let folder = sandbox.path("agents");
    copy(&folder, &kept);
    let links = walk(&folder);
    let is_link = |path: &PathBuf| !path.is_dir() && !path.to_str().unwrap().ends_with("identity");
    let links: Vec<PathBuf> = links.into_iter().filter(is_link).collect();
    let links: Vec<PathBuf> = links
        .into_iter()
        .filter(|path| !path.to_str().unwrap().ends_with("lock"))
        .collect();
    assert_eq!(links.len(), 3);
    let other = ready();
    let both = |host: &Sandbox, name: &str| {
        let verdicts = ["verify", "lineage verify"].map(|command| {
            let ran = host.sh(format!("{command} {folder:?} --json"));
            assert_eq!(ran.code, 1, "{command}, {name}: {}", ran.stdout);
            let output = ran.json();
            let mut verdicts: Vec<String> = output["results"]
                .list()
                .iter()
                .map(|report| format!("{} {}", report["path"], report["verdict"]))
                .collect();
            verdicts.sort();
            verdicts
        });
        assert_eq!(verdicts[0], verdicts[1], "{name}");
        assert!(!verdicts[0].is_empty(), "{name}");
    };
    for path in &links {
        let name = name_of(path);
        for bytes in OVERWRITTEN {
            fs::write(path, bytes).unwrap();
            both(&sandbox, name);
            both(&other, name);
            put_back(&kept, &folder);
        }
    }
    // The newest link alone.
    fs::remove_file(folder.join("sorter.checkpoint")).unwrap();
    both(&sandbox, "newest");
    both(&other, "newest");
    let output = other.sh(format!("verify {folder:?} --json")).json();
    assert!(output.codes().contains(&"live_missing"), "{output:#}");
    put_back(&kept, &folder);
    for path in &links {
        fs::write(path, "a note\n").unwrap();
    }
    both(&sandbox, "all");
    both(&other, "all");
    for path in &links {
        fs::remove_file(path).unwrap();
    }
    both(&other, "all gone");
}

/// (no attack) An archive of a model, and an agent that was deleted.
// T-LIN-39
#[test]
fn a_checkpoint_of_another_program_and_a_deleted_agent_are_no_evidence() {
    let sandbox = beside_a_good_document();
    sandbox.write("d/model.ckpt", b"PK\x03\x04 and what follows");
    sandbox.write("d/old.ckpt", b"\x80\x02}q\x00.");
    sandbox.ok("verify d");
    agent(&sandbox);
    let hash = sandbox.read("agents/.sorter.lock");
    assert_eq!(hash, "begun\n");
    fs::remove_dir_all(sandbox.path("agents/history")).unwrap();
    fs::remove_file(sandbox.path("agents/sorter.checkpoint")).unwrap();
    sandbox.write("agents/sorter.deleted", format!("{}\n", "ab".repeat(32)));
    let output = Sandbox::new()
        .sh(format!("verify {:?} --json", sandbox.path("agents")))
        .json();
    assert!(!output.codes().contains(&"live_missing"), "{output:#}");
}

/// A link that was overwritten by a file of another program is known by its place.
// T-LIN-36
#[test]
fn a_newest_link_that_became_an_archive_is_missing_where_it_was_sealed() {
    let sandbox = beside_a_good_document();
    sandbox.write("state", "state");
    sandbox.ok(format!(
        "lineage append d/agents --agent sorter --state state --tick 1 --budget 9 --price 1 --code {CODE}"
    ));
    sandbox.ok("verify d");
    sandbox.write("d/agents/sorter.checkpoint", b"PK\x03\x04 and what follows");
    let output = sandbox.exits(1, "verify d --json").json();
    assert_eq!(
        output["results"].item("verdict", "missing")["format"],
        "lineage"
    );
}
