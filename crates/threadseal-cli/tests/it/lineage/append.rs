//! `lineage append`: who may write the next checkpoint, and that a refused writer leaves the store
//! as it was.

use crate::prelude::*;

const CODE: &str = "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab";

fn ready() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("init");
    sandbox.write("state", "what the agent is");
    sandbox
}

fn line(tick: &str, budget: &str, more: &str) -> String {
    let own = format!("--agent counter --state state --tick {tick} --budget {budget}");
    format!("lineage append here {own} --price 10 --code {CODE} {more}")
}

fn append(sandbox: &Sandbox, tick: &str, budget: &str, more: &str) -> Ran {
    sandbox.sh(line(tick, budget, more))
}

#[track_caller]
fn appended(sandbox: &Sandbox, tick: &str, more: &str) -> Value {
    let ran = append(sandbox, tick, "100", &format!("{more} --json"));
    ran.exits(0).json()
}

fn did(sandbox: &Sandbox) -> String {
    let path = "here/counter.identity";
    let ran = sandbox.sh(format!("lineage identity show {path} --json"));
    ran.exits(0).json()["did"].text().to_owned()
}

fn verify(sandbox: &Sandbox) -> Value {
    let did = did(sandbox);
    sandbox.report(format!("lineage verify here --did {did}"))
}

/// All files of a folder but locks, with their bytes.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else if path.extension().is_none_or(|extension| extension != "lock") {
            all.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    all
}

/// The command is refused, and leaves the store as it was.
#[track_caller]
fn refused(sandbox: &Sandbox, part: &str, run: impl FnOnce() -> Ran) {
    let store = sandbox.path("here");
    let before = files(&store);
    run().exits(2).warns(part);
    assert_eq!(files(&store), before);
}

#[test]
fn signed_checkpoints_link_to_the_one_before_and_verify_here() {
    for version in ["4", "5"] {
        let sandbox = ready();
        let first = appended(&sandbox, "1", &format!("--version {version}"));
        assert_eq!(first["prev"], Value::Null);
        assert_eq!(verify(&sandbox)["verdict"], "verified");
        let second = appended(&sandbox, "2", "");
        second.is(json!({"prev": first["hash"], "version": first["version"]}));
        assert_eq!(verify(&sandbox)["verdict"], "verified");
    }
}

#[test]
fn unsigned_checkpoints_stay_unsigned_until_a_signed_one_links_them() {
    let sandbox = ready();
    let first = appended(&sandbox, "1", "--version 3");
    let second = appended(&sandbox, "2", "");
    assert_eq!(
        (&first["prev"], &second["prev"]),
        (&Value::Null, &Value::Null)
    );
    let live = "here/counter.checkpoint";
    let judged = sandbox.report(format!("lineage verify {live}"));
    assert_eq!(judged["verdict"], "unsigned");
    assert!(!sandbox.path("here/counter.identity").exists());
    let third = appended(&sandbox, "3", "--version 5");
    assert_eq!(third["prev"], second["hash"]);
    refused(&sandbox, "would remove its signature", || {
        append(&sandbox, "4", "100", "--version 3")
    });
}

#[test]
fn a_lineage_of_the_original_is_upgraded_and_never_downgraded() {
    let sandbox = ready();
    appended(&sandbox, "1", "--version 4");
    let older = appended(&sandbox, "2", "");
    let newer = appended(&sandbox, "3", "--version 5");
    assert_eq!(newer["prev"], older["hash"]);
    assert_eq!(verify(&sandbox)["verdict"], "verified");
    refused(&sandbox, "older format", || {
        append(&sandbox, "4", "100", "--version 4")
    });
}

#[test]
fn what_may_not_follow_is_refused_and_changes_nothing() {
    let sandbox = ready();
    appended(&sandbox, "5", "");
    appended(&sandbox, "6", "");
    refused(&sandbox, "budget", || append(&sandbox, "7", "101", ""));
    refused(&sandbox, "tick", || append(&sandbox, "5", "100", ""));
    refused(&sandbox, "--budget", || append(&sandbox, "7", "-1", ""));
    sandbox.ok("lineage identity new counter");
    let other = "--identity counter.identity";
    refused(&sandbox, "another agent", || {
        append(&sandbox, "7", "100", other)
    });
    let key = sandbox.path("here/counter.identity");
    let held = fs::read(&key).unwrap();
    fs::write(&key, &held[..67]).unwrap();
    refused(&sandbox, "identity", || append(&sandbox, "7", "100", ""));
    fs::remove_file(&key).unwrap();
    refused(&sandbox, "has no key", || append(&sandbox, "7", "100", ""));
    fs::write(&key, &held).unwrap();
    let archive = sandbox.path("here/history/counter");
    let (old, bytes) = files(&archive).into_iter().next().unwrap();
    let mut changed = bytes.clone();
    changed[24] ^= 1;
    fs::write(&old, changed).unwrap();
    refused(&sandbox, "", || append(&sandbox, "7", "100", ""));
    fs::remove_file(&old).unwrap();
    refused(&sandbox, "lacks the link", || {
        append(&sandbox, "7", "100", "")
    });
}

#[test]
fn a_folder_that_was_put_back_is_rolled_back_and_not_built_on() {
    for version in ["4", "5"] {
        let sandbox = ready();
        appended(&sandbox, "1", &format!("--version {version}"));
        let live = sandbox.path("here/counter.checkpoint");
        let older = fs::read(&live).unwrap();
        appended(&sandbox, "2", "");
        fs::write(&live, older).unwrap();
        fs::remove_dir_all(sandbox.path("here/history")).unwrap();
        let judged = verify(&sandbox);
        assert_eq!(judged["verdict"], "rolled_back");
        assert!(judged.codes().contains(&"head_ahead"));
        // A state that was never made is not the one in the store.
        let head = judged["head"].text();
        let none = format!("{}:0:1:{}", head.split(':').next().unwrap(), "0".repeat(64));
        let file = "here/counter.checkpoint";
        let asked = sandbox.sh(format!("verify {file} --as-of {none}"));
        assert_ne!(asked.code, 0, "{}", asked.stdout);
        asked.stdout.lacks("verified  ");
        refused(&sandbox, "restore it", || append(&sandbox, "2", "100", ""));
    }
}

#[test]
fn of_writers_at_once_each_links_to_the_newest_or_is_refused() {
    let sandbox = ready();
    appended(&sandbox, "1", "");
    let start = |_| {
        let mut command = sandbox.command();
        command.args(words(&line("2", "100", "")));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let running: Vec<_> = (0..6).map(start).collect();
    let ran = running
        .into_iter()
        .map(|child| Ran::of(child.wait_with_output().unwrap()));
    let (won, lost): (Vec<Ran>, Vec<Ran>) = ran.partition(|ran| ran.code == 0);
    assert!(!won.is_empty());
    for ran in lost {
        ran.fails_with("another writer was faster");
    }
    assert_eq!(verify(&sandbox)["verdict"], "verified");
    let drawn = sandbox.sh("lineage log here --json").json();
    let links = drawn["lineages"][0]["links"].list().len();
    assert_eq!(links, 1 + won.len());
}

#[test]
fn a_session_key_writes_under_its_delegation_and_no_other() {
    let sandbox = ready();
    let new = |name| {
        let ran = sandbox.sh(format!("lineage identity new {name} --json"));
        ran.exits(0).json()["did"].text().to_owned()
    };
    let (root, session) = (new("counter"), new("session"));
    let delegate = "lineage identity delegate counter.identity --key-epoch 1 -o d --to";
    sandbox.ok(format!("{delegate} {session}"));
    let by_session = "--identity session.identity --delegation d";
    appended(&sandbox, "1", by_session);
    let second = appended(&sandbox, "2", by_session);
    let verify = format!("lineage verify here --did {root}");
    let judged = sandbox.report(verify);
    assert_eq!(judged["verdict"], "verified", "{judged}");
    assert_eq!(second["version"], "v0x05");
    let by_root = "--identity counter.identity --delegation d";
    refused(&sandbox, "another session key", || {
        append(&sandbox, "3", "100", by_root)
    });
    refused(&sandbox, "another agent", || {
        append(&sandbox, "3", "100", "--identity session.identity")
    });
}

// T-LIN-35
#[test]
fn a_lineage_with_a_key_that_this_home_made_verifies_at_once() {
    for version in ["4", "5"] {
        let sandbox = ready();
        let first = append(&sandbox, "1", "100", &format!("--version {version}"));
        first.exits(0).warns("which this home trusts as counter");
        sandbox.ok("lineage verify here");
        append(&sandbox, "2", "100", "").exits(0);
        sandbox.ok("verify here");
        // The key counts for lineages alone, and here alone.
        let trusted = sandbox.json("trust list");
        let entry = trusted["keys"].item("name", "counter");
        entry.is(json!({"formats": ["lineage"]}));
        let other = Sandbox::new();
        other.ok("init -q --no-log");
        let folder = sandbox.path("here");
        other.exits(3, format!("verify {folder:?}"));
        // A key that was there before is not trusted by its use.
        copy(&folder, &other.path("here"));
        other.write("state", "what the agent is");
        append(&other, "3", "100", "").exits(0);
        other.exits(3, "verify here");
    }
    // A key made first, under a name that is taken.
    let sandbox = ready();
    fs::create_dir(sandbox.path("here")).unwrap();
    sandbox.ok("key new --name ann");
    let ann = sandbox.key("ann")["did"].text().to_owned();
    sandbox.ok(format!("trust add {ann} --name counter"));
    let made = sandbox.json("lineage identity new counter --dir here");
    assert!(made["trusted_as"].text().starts_with("agent-"));
    append(&sandbox, "1", "100", "").exits(0);
    sandbox.ok("verify here");
    // Without a home nothing is trusted, and none is made.
    let nowhere = Sandbox::new();
    let made = nowhere.json("lineage identity new counter");
    assert_eq!(made["trusted_as"], Value::Null);
    assert!(!nowhere.home().exists());
}

// T-CMD-20
#[test]
fn a_tick_that_no_log_holds_is_refused_before_anything_is_signed() {
    let sandbox = ready();
    appended(&sandbox, "1", "");
    let largest = (1_u64 << 53) - 1;
    let beyond = (largest + 1).to_string();
    refused(&sandbox, "the largest tick is", || {
        append(&sandbox, &beyond, "90", "")
    });
    appended(&sandbox, &largest.to_string(), "");
    let report = verify(&sandbox);
    let checks = report["checks"].list();
    let log = checks.iter().find(|check| check["name"] == "log").unwrap();
    assert_eq!(log["result"], "pass", "{report}");
}
