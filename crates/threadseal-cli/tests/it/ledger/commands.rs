//! Commands on ledgers: write, sign, cut, move, follow, mend.

use super::ledger;
use crate::prelude::*;

pub(super) const STEPS: &str = "{\"node\":\"plan\",\"effect\":{\"type\":\"llm_call\",\"payload\":{\"p\":\"hi\"}},\"result\":{\"text\":\"ho\"}}\n{\"node\":\"act\",\"status\":\"failed\",\"error\":\"no\"}\n";

/// Two steps in the store `runs`, signed by the home's own key; the file.
pub(super) fn signed(sandbox: &Sandbox) -> PathBuf {
    let arguments = "ledger append file:runs --run r1 --sign --workflow w";
    piped(sandbox, arguments, STEPS).exits(0);
    sandbox.path("runs/ledger_r1.jsonl")
}

#[test]
fn a_signed_ledger_verifies_on_its_host_and_each_attack_is_found() {
    let sandbox = ready();
    let path = signed(&sandbox);
    let file = path.to_str().unwrap();
    let honest = lines(&path);
    assert_eq!(honest.len(), 3, "a beginning and two steps");
    for arguments in [
        &format!("ledger verify {file}"),
        &format!("verify {file}"),
        "ledger verify file:runs --run r1",
    ] {
        let report = sandbox.report(arguments);
        report.is(json!({"verdict": "verified", "profile": "threadseal", "completeness": "head"}));
    }
    let attacked = |text: String, expected: &str| {
        fs::write(&path, text).unwrap();
        assert_eq!(sandbox.verdict(format!("ledger verify {file}")), expected);
    };
    attacked(honest[..2].concat(), "rolled_back");
    attacked(honest.concat().replace("\"ho\"", "\"he\""), "tampered");
    let at = honest[2].find("\"signature\":\"").unwrap();
    let stripped = format!("{}\"signature\":null}}\n", &honest[2][..at]);
    attacked(honest[..2].concat() + &stripped, "tampered");
    attacked(String::new(), "rolled_back");
    attacked(honest.concat(), "verified");
}

// T-LED-31
#[test]
fn elsewhere_a_signed_ledger_is_open_until_a_head_is_known() {
    let sandbox = ready();
    let path = signed(&sandbox);
    let file = path.to_str().unwrap();
    let head = sandbox.ok(format!("ledger head {file}")).stdout;
    let head = head.trim();
    let elsewhere = Sandbox::new();
    assert_eq!(
        elsewhere.verdict(format!("ledger verify {file}")),
        "unknown_signer"
    );
    let key = sandbox.sh("key show self --json").json();
    let key = key["did"]
        .as_str()
        .or(key["keys"][0]["did"].as_str())
        .unwrap()
        .to_owned();
    let by_key = format!("ledger verify {file} --key {key}");
    assert_eq!(elsewhere.verdict(&by_key), "open");
    let with_head = format!("ledger verify {file} --key {key} --expect-head {head}");
    assert_eq!(elsewhere.verdict(with_head), "verified");
    let stranger = format!(
        "ledger verify {file} --key did:key:z6Mkon3Necd6NkkyfoGoHxid2znGc59LU3K7mubaRcFbLfLX"
    );
    assert_eq!(elsewhere.verdict(stranger), "unknown_signer");
}

#[test]
fn a_new_folder_is_made_only_by_its_address_and_a_file_takes_no_records() {
    let sandbox = ready();
    let append = |place: &str| piped(&sandbox, &format!("ledger append {place} --run r1"), STEPS);
    append("new").fails_with("there is no such folder; hint: write file:DIR to create it");
    append("file:new").exits(0);
    append("new").exits(0);
    append("new/ledger_r1.jsonl").fails_with("this is a file; name a store to write to");
    assert_eq!(lines(sandbox.path("new/ledger_r1.jsonl")).len(), 4);
}

#[test]
fn a_signed_ledger_is_continued_only_by_an_actor_that_it_names() {
    let sandbox = ready();
    let path = signed(&sandbox);
    let append = "ledger append file:runs --run r1";
    piped(&sandbox, append, STEPS).fails_with("--sign");
    let other = "ledger append file:runs --run r1 --sign --actor-name x";
    piped(&sandbox, other, STEPS).fails_with("does not name actor");
    let again = "ledger append file:runs --run r1 --sign";
    piped(&sandbox, again, STEPS).exits(0);
    assert_eq!(lines(&path).len(), 5);
    assert_eq!(sandbox.verdict(format!("verify {path:?}")), "verified");
    piped(&sandbox, again, "{\"node\":1}\n").fails_with("line 1");
    piped(&sandbox, again, "[]\n").fails_with("not an object");
}

// T-CMD-24
#[test]
fn no_signed_record_follows_changed_ones() {
    let sandbox = ready();
    let path = signed(&sandbox);
    let changed = read(&path).replace("\"ho\"", "\"he\"");
    fs::write(&path, &changed).unwrap();
    let again = "ledger append file:runs --run r1 --sign";
    piped(&sandbox, again, STEPS).refuses_with("the ledger of run r1 is tampered: ");
    assert_eq!(read(&path), changed);
}

// T-LED-01
#[test]
fn a_ledger_of_abstractruntime_is_sealed_unchanged() {
    let Some(folder) = shared("vectors/ledger/run_jsonl_chat") else {
        return;
    };
    let mut files = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let theirs = files
        .find(|path| path.to_str().unwrap().contains("/ledger_"))
        .unwrap();
    let sandbox = ready();
    let path = sandbox.write(name_of(&theirs), fs::read(&theirs).unwrap());
    let file = path.to_str().unwrap();
    let check = format!("ledger verify {file}");
    assert_eq!(sandbox.verdict(&check), "consistent");
    let head = format!("{file}.head");
    sandbox.ok(format!("ledger sign {file}"));
    assert!(read(&head).starts_with("threadseal/1/ledger/"));
    assert_eq!(sandbox.verdict(&check), "verified");

    // A host that knows only the key.
    let elsewhere = Sandbox::new();
    let key = sandbox.sh("key show self --json").json();
    let key = key["did"]
        .as_str()
        .or(key["keys"][0]["did"].as_str())
        .unwrap()
        .to_owned();
    let by_key = format!("ledger verify {file} --key {key}");
    assert_eq!(elsewhere.verdict(&by_key), "verified");
    assert_eq!(
        elsewhere.verdict(format!("verify {file}")),
        "unknown_signer"
    );
    let honest = lines(&path);
    let says = |text: String, expected: &str| {
        fs::write(&path, text).unwrap();
        assert_eq!(elsewhere.verdict(&by_key), expected);
    };
    says(honest[..honest.len() - 1].concat(), "truncated");
    says(format!("\n{}", honest.concat()), "tampered");
    says(
        honest.concat().replacen("\"completed\"", "\"failed\"", 1),
        "tampered",
    );
    says(honest.concat(), "verified");
    fs::write(&head, "no head").unwrap();
    assert_eq!(elsewhere.verdict(format!("verify {file}")), "malformed");
    sandbox
        .sh(format!("ledger sign {file}"))
        .fails_with("malformed");
}

// T-LED-30
#[test]
fn a_head_without_its_ledger_shows_that_it_is_missing() {
    let sandbox = ready();
    let path = signed(&sandbox);
    sandbox.ok(format!("ledger sign {path:?}"));
    fs::remove_file(&path).unwrap();
    let folder = sandbox.work();
    let found = sandbox.exits(1, format!("verify {folder:?} --json")).json();
    assert_eq!(found["results"][0]["verdict"], "missing", "{found:#}");
}

// T-LED-29
#[test]
fn runs_move_between_stores_byte_for_byte() {
    let Some(folder) = shared("vectors/ledger") else {
        return;
    };
    let sandbox = ready();
    let bundle = folder.join("bundles/run_jsonl_subworkflow_full.json");
    let bundle = bundle.to_str().unwrap();
    let import = format!("ledger import {bundle} sqlite:runs.db --json");
    let first = sandbox.ok(&import).json();
    assert_eq!(first["runs"][0]["appended"], 4);
    let again = sandbox.ok(&import).json();
    assert_eq!(again["runs"][0]["appended"], 0);
    let back = "ledger export sqlite:runs.db --to bundle --out b.json";
    sandbox.sh(back).fails_with("--run");
    let root = "54ebe100-f52a-465c-ba48-7c1f0c20afea";
    sandbox.ok(format!("{back} --run {root}"));
    let ran = sandbox.sh("verify b.json --json");
    let reports = ran.json()["results"].list().clone();
    assert_eq!(reports.len(), 2, "the run and the one that it started");
    assert!(
        reports
            .iter()
            .all(|report| report["verdict"] == "consistent")
    );

    let lines = sandbox.ok(format!("ledger export sqlite:runs.db --run {root}"));
    let lines = ledger(lines).stdout;
    let theirs = folder.join(format!("run_jsonl_subworkflow/ledger_{root}.jsonl"));
    assert_eq!(lines, read(theirs));

    let window = folder.join("bundles/run_jsonl_chat_big_slim_tail5.json");
    sandbox
        .sh(format!("ledger import {window:?} sqlite:runs.db"))
        .fails_with("partial");
    let changed = sandbox.write("x.jsonl", lines.replacen("second", "third", 1));
    sandbox
        .sh(format!("ledger import {changed:?} sqlite:runs.db"))
        .fails_with("tampered");
}

#[test]
fn what_is_in_runs_is_listed_counted_and_followed() {
    let sandbox = ready();
    signed(&sandbox);
    ledger(sandbox.sh("ledger list runs"))
        .exits(0)
        .begins_with("r1  3 records  ");
    sandbox
        .ok("ledger list runs --run r1")
        .prints("threadseal.genesis")
        .prints("llm_call");
    let stats = sandbox.json("ledger stats runs");
    stats.is(json!({"statuses/failed": 1, "records": 3, "signed": 3}));
    let last = sandbox.json("ledger tail runs -n 1");
    assert_eq!((&last["node"], &last["seq"]), (&"act".into(), &2.into()));

    let mut follower = sandbox
        .command()
        .args(["ledger", "tail", "runs", "-f", "-n", "0", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(follower.stdout.take().unwrap());
    let again = "ledger append runs --run r1 --sign";
    // The follower may look for the end before or after the first of these appends.
    for _ in 0..3 {
        piped(&sandbox, again, STEPS).exits(0);
        std::thread::sleep(Duration::from_millis(300));
    }
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    follower.kill().unwrap();
    follower.wait().unwrap();
    schemas::check(&line);
    let line: Value = serde_json::from_str(&line).unwrap();
    assert!(line["seq"].number() >= 3, "{line}");
}

#[test]
fn what_is_asked_of_the_beginning_must_be_what_a_ledger_began_with() {
    let sandbox = ready();
    signed(&sandbox);
    let workflow = sandbox.path("flow");
    fs::write(&workflow, "x").unwrap();
    let append = |run: &str, more: &str| {
        let line = format!("ledger append file:runs --run {run} --sign {more}");
        piped(&sandbox, &line, STEPS)
    };
    append("r1", "--workflow w --genesis").exits(0);
    for more in [
        "--workflow v",
        &format!("--workflow-file {workflow:?}"),
        &format!("--inputs-file {workflow:?}"),
        "--parent r0",
    ] {
        let text = format!("contradicts {}", &more[..more.find(' ').unwrap()]);
        append("r1", more).fails_with(&text);
    }
    let plain = "ledger append file:runs --run r2";
    piped(&sandbox, plain, STEPS).exits(0);
    let late = format!("{plain} --genesis");
    piped(&sandbox, &late, STEPS).fails_with("has begun without a first record that describes it");
}

#[test]
fn other_actors_are_named_at_the_beginning_or_join_later() {
    let sandbox = ready();
    for name in ["ann", "bob"] {
        sandbox.ok(format!("key new --name {name}"));
        let key = sandbox.sh(format!("key show {name} --json")).json();
        let did = key["keys"][0]["did"].text().to_owned();
        sandbox.ok(format!("trust add {did} --name {name}"));
    }
    let begin = "ledger append file:runs --run r1 --sign --other-actor human:Ann=ann";
    piped(&sandbox, begin, STEPS).exits(0);
    let answer = |name: &str, called: &str, code: i32| {
        let arguments = format!(
            "ledger append file:runs --run r1 --sign --key {name} --actor-kind human --actor-name {called:?}"
        );
        let line =
            "{\"node\":\"ask\",\"effect\":{\"type\":\"resume\"},\"result\":{\"resumed\":true}}\n";
        piped(&sandbox, &arguments, line).exits(code);
    };
    answer("ann", "Ann", 0);
    answer("ann", "Somebody", 2);
    answer("bob", "Bob", 2);
    let join = "ledger append file:runs --run r1 --sign --other-actor human:Bob=bob";
    piped(&sandbox, join, "").exits(0);
    answer("bob", "Bob", 0);
    let report = sandbox.report("ledger verify file:runs");
    assert_eq!(report["verdict"], "verified", "{report:#}");
    assert_eq!(report["signers"].list().len(), 3);
}

// T-LED-32
#[test]
fn a_signature_that_a_known_head_covers_cannot_be_taken_away_or_exchanged() {
    let sandbox = ready();
    sandbox.ok("key new --name ann");
    let ann = sandbox.key("ann")["did"].text().to_owned();
    sandbox.ok(format!("trust add {ann} --name ann"));
    let append = "ledger append file:runs --run r1";
    let step = "{\"node\":\"n\",\"result\":{\"text\":\"t\"}}\n";
    for how in ["", "--sign", "--sign", "--sign --key ann"] {
        piped(&sandbox, &format!("{append} {how}"), step).exits(0);
    }
    let path = sandbox.path("runs/ledger_r1.jsonl");
    let check = format!("verify {path:?}");
    sandbox.ok(&check);
    let signature = |line: &str| {
        let record: Value = serde_json::from_str(line).unwrap();
        record["signature"].text().to_owned()
    };
    let honest = lines(&path);
    let own = format!("\"{}\"", signature(&honest[1]));
    let stripped = honest.concat().replacen(&own, "null", 1);
    let is_noticed = || {
        let report = sandbox.report(&check);
        assert_eq!(report["verdict"], "tampered", "{report:#}");
        report.codes().has("signatures_changed");
    };
    while_it_holds(&path, &stripped, is_noticed);
    // A signed head states the same elsewhere, also where no file of it is known.
    let elsewhere = Sandbox::new();
    elsewhere.ok(format!("trust add {ann} --name ann"));
    let own_key = sandbox.key("self")["did"].text().to_owned();
    elsewhere.ok(format!("trust add {own_key} --name self"));
    sandbox.ok(format!("ledger sign {path:?}"));
    elsewhere.ok(&check);
    // The log alone knows them as well.
    empty(&sandbox.home().join("heads"));
    fs::write(&path, &stripped).unwrap();
    is_noticed();
    // No signature follows the changed one, and another append hides nothing.
    for beside in ["ledger_r1.jsonl.head", "ledger_r1.index"] {
        fs::remove_file(sandbox.path("runs").join(beside)).unwrap();
    }
    piped(&sandbox, &format!("{append} --sign"), step).refuses_with("[signatures_changed]");
    is_noticed();
}
