//! `prove` and `check-proof`: one turn of a record, shown without the other turns.

use crate::anchor::{add, policy};
use crate::fixtures::{ended_record, ready, recorder, rye_events};
use crate::run::project;
use crate::sandbox::{Ran, Sandbox};
use crate::witness::{Serving, witness};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use threadseal_core::note::{KeyName, SignedNote};
use threadseal_core::tlog::checkpoint::Checkpoint;
use threadseal_core::tlog::cosignature::CosignatureTime;
use threadseal_core::tlog::ml_dsa::MlDsaSigner;
use threadseal_core::tlog::verifier::VerifierKey;

const PROOF: &str = "two.turn-proof";

/// A record of three turns whose second is proved.
fn proved() -> Sandbox {
    let sandbox = ready();
    ended_record(&sandbox, "t.jsonl", 3);
    let ran = sandbox.run(["prove", "t.jsonl#2", "--out", PROOF]).exits(0);
    assert!(
        ran.stdout.ends_with("bytes prove turn 2\n"),
        "{}",
        ran.stdout
    );
    sandbox
}

/// Runs without any home, in a folder that holds only the proof.
fn elsewhere(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(sandbox.work().join(PROOF), folder.path().join(PROOF)).unwrap();
    let mut command = sandbox.command();
    command.env_clear().current_dir(folder.path());
    command.arg("check-proof").arg(PROOF).args(arguments);
    Ran::of(command.stdin(Stdio::null()).output().unwrap())
}

#[test]
fn a_proof_shows_its_turn_whole_and_no_other() {
    let sandbox = proved();
    let text = fs::read_to_string(sandbox.work().join(PROOF)).unwrap();
    for other in ["question 1", "answer 1", "question 3", "result 3"] {
        assert!(!text.contains(other), "{other}");
    }
    let to_output = sandbox.run(["prove", "t.jsonl#2"]).exits(0);
    assert_eq!(to_output.stdout, text);
    assert_eq!(to_output.stderr, "");
    let ran = sandbox.run(["check-proof", PROOF]).exits(0);
    for part in [
        "verified  two.turn-proof  (proof, native)\n",
        "turn 2\n",
        "    | question 2\n",
        "    | result 2\n",
    ] {
        assert!(
            ran.stdout.contains(part),
            "{part} is not in\n{}",
            ran.stdout
        );
    }
    let json = sandbox
        .run(["check-proof", PROOF, "--json"])
        .exits(0)
        .json();
    assert_eq!(json["turn"], 2);
    assert_eq!(json["result"]["verdict"], "verified");
    let record = fs::read_to_string(sandbox.work().join("t.jsonl")).unwrap();
    let record: Vec<&str> = record.lines().collect();
    let lines = json["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 4);
    for line in lines {
        let number = usize::try_from(line["line"].as_u64().unwrap()).unwrap();
        assert_eq!(line["text"], record[number - 1]);
    }
    let quiet = sandbox.run(["check-proof", "-q", PROOF]).exits(0);
    assert_eq!(quiet.stdout, "");
}

// T-PRF-12
#[test]
fn a_proof_needs_no_home_and_without_a_key_nobody_vouches_for_it() {
    let sandbox = proved();
    let ran = elsewhere(&sandbox, &[]).exits(3);
    assert!(ran.stdout.starts_with("unknown_signer"), "{}", ran.stdout);
    let json = elsewhere(&sandbox, &["--json"]).exits(3).json();
    let did = json["result"]["signers"][0]["did"]
        .as_str()
        .unwrap()
        .to_owned();
    elsewhere(&sandbox, &["--key", &did]).exits(0);
    let pem = sandbox.work().join("self.pem");
    let pem = pem.to_str().unwrap();
    sandbox
        .run(["key", "export", "self", "--out", pem])
        .exits(0);
    elsewhere(&sandbox, &["--key", pem]).exits(0);
    elsewhere(&sandbox, &["--trust", pem]).exits(0);
    let other = ready();
    let path = other.work().join("self.pem");
    let path = path.to_str().unwrap();
    other.run(["key", "export", "self", "--out", path]).exits(0);
    let ran = elsewhere(&sandbox, &["--key", path]).exits(1);
    assert!(ran.stdout.starts_with("forged"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("question 2"), "{}", ran.stdout);
    elsewhere(&sandbox, &["--trust", path]).exits(3);
    elsewhere(&sandbox, &["--key", pem, "--thread", "demo/thread-1"]).exits(0);
    elsewhere(&sandbox, &["--key", pem, "--thread", "demo/other"]).exits(1);
}

// T-PRF-13
#[test]
fn a_changed_proof_is_evidence_and_another_file_no_proof() {
    let sandbox = proved();
    let text = fs::read_to_string(sandbox.work().join(PROOF)).unwrap();
    for (from, to, verdict) in [
        ("answer 2", "answer X", "tampered"),
        ("turn 2", "turn 3", "tampered"),
        ("first ", "first x", "malformed"),
    ] {
        sandbox.write("changed", text.replacen(from, to, 1));
        let ran = sandbox.run(["check-proof", "changed", "--json"]).exits(1);
        let json = ran.json();
        assert_eq!(json["result"]["verdict"], verdict);
        assert_eq!(json["turn"], serde_json::Value::Null);
        assert_eq!(json["lines"].as_array().unwrap().len(), 0);
    }
    sandbox
        .run(["check-proof", "t.jsonl"])
        .fails_with("no proof");
    sandbox.run(["check-proof", "none"]).fails_with("none");
}

// T-PRF-11
#[test]
fn turns_are_proved_of_verified_native_records_only() {
    let sandbox = proved();
    for (named, why) in [
        ("t.jsonl", "as t.jsonl#2"),
        ("t.jsonl#0", "as t.jsonl#2"),
        ("t.jsonl#x", "as t.jsonl#2"),
    ] {
        let ran = sandbox.run(["prove", named]).exits(2);
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
    }
    sandbox
        .run(["prove", "t.jsonl#4"])
        .fails_with("closes turn 4");
    sandbox
        .run(["prove", "no/thread#1"])
        .fails_with("neither a file nor a thread");
    sandbox
        .run(["prove", "t.jsonl#1", "--out", PROOF])
        .fails_with(PROOF);
    sandbox
        .run(["prove", "t.jsonl#1", "--json"])
        .fails_with("no JSON");
    rye_events(&sandbox, "r.jsonl", 2);
    sandbox
        .run(["prove", "r.jsonl#1"])
        .fails_with("Rye's format");

    let refused = |sandbox: &Sandbox, code, verdict: &str| {
        let ran = sandbox
            .run(["prove", "t.jsonl#1", "--out", "p"])
            .exits(code);
        assert!(ran.stderr.contains(verdict), "{}", ran.stderr);
        assert_eq!(ran.stdout, "");
        let ran = sandbox
            .run(["prove", "t.jsonl#1", "--out", "p", "--json"])
            .exits(code);
        assert_eq!(ran.json()["result"]["verdict"], verdict);
        assert!(!sandbox.work().join("p").exists());
    };
    let stranger = ready();
    let text = fs::read_to_string(sandbox.work().join("t.jsonl")).unwrap();
    stranger.write("t.jsonl", &text);
    refused(&stranger, 3, "unknown_signer");
    sandbox.write("t.jsonl", text.replace("answer 1", "answer X"));
    refused(&sandbox, 1, "tampered");
}

// T-PRF-06
#[test]
fn the_newest_turn_of_a_record_that_goes_on_is_open() {
    let sandbox = ready();
    let recorder = recorder(&sandbox, "t.jsonl", 2);
    let ran = sandbox.run(["prove", "t.jsonl#2", "--out", PROOF]).exits(0);
    assert!(ran.stderr.contains("turn_may_go_on"), "{}", ran.stderr);
    let ran = sandbox.run(["check-proof", PROOF]).exits(3);
    assert!(ran.stdout.starts_with("open"), "{}", ran.stdout);
    sandbox.run(["prove", "t.jsonl#1", "--out", "one"]).exits(0);
    sandbox.run(["check-proof", "one"]).exits(0);
    drop(recorder);
}

#[test]
fn a_thread_of_a_project_is_named_by_its_id() {
    let sandbox = project();
    let options = [
        "--project",
        "p",
        "-i",
        "name=Ada",
        "--script",
        "answers.yaml",
        "--json",
    ];
    let ran = sandbox
        .run(["run", "demo/greet"].iter().chain(&options))
        .exits(0);
    let thread = ran.json()["thread_id"].as_str().unwrap().to_owned();
    let turn = |number: u64| format!("{thread}#{number}");
    sandbox
        .run(["prove", &turn(1), "--project", "p", "-o", PROOF])
        .exits(0);
    let json = sandbox
        .run(["check-proof", PROOF, "--thread", &thread, "--json"])
        .exits(0)
        .json();
    assert_eq!(json["turn"], 1);
    let by_path = format!("p/.ai/agent/threads/{thread}/transcript.jsonl#1");
    let text = sandbox.run(["prove", &by_path]).exits(0).stdout;
    assert_eq!(
        fs::read_to_string(sandbox.work().join(PROOF)).unwrap(),
        text
    );
    sandbox
        .run(["prove", &turn(1)])
        .fails_with("neither a file nor a thread");
}

/// A proved thread of one turn that this home's log and two witnesses know, and the policy that
/// requires both witnesses.
fn seen() -> (Sandbox, Vec<Serving>, String) {
    let sandbox = project();
    let options = [
        "--project",
        "p",
        "-i",
        "name=Ada",
        "--script",
        "answers.yaml",
    ];
    sandbox
        .run(["run", "demo/greet"].iter().chain(&options))
        .exits(0);
    let status = sandbox.run(["log", "status", "--json"]).exits(0).json();
    let vkey = status["vkey"].as_str().unwrap().to_owned();
    let witnesses: Vec<_> = (0..2).map(|_| witness(&[&vkey])).collect();
    let serving: Vec<_> = witnesses.iter().map(Serving::start).collect();
    let text = policy(&vkey, &serving.iter().collect::<Vec<_>>(), 2);
    add(&sandbox, "both", &text);
    sandbox.run(["anchor", "check"]).exits(0);
    let record = transcript(&sandbox.work().join("p")).unwrap();
    sandbox
        .run(["prove", &format!("{}#1", record.display()), "-o", PROOF])
        .exits(0);
    (sandbox, serving, vkey)
}

fn transcript(folder: &Path) -> Option<PathBuf> {
    fs::read_dir(folder).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => transcript(&path),
            false => path.ends_with("transcript.jsonl").then_some(path),
        }
    })
}

// T-PRF-19
#[test]
fn what_witnesses_saw_of_the_seal_is_judged_without_a_home_and_without_a_network() {
    let (sandbox, serving, vkey) = seen();
    let names: Vec<&Serving> = serving.iter().collect();
    let both = sandbox.write("both.policy", policy(&vkey, &names, 2));
    let none = sandbox.write("none.policy", format!("log {vkey}\nquorum none\n"));
    let other = witness(&[]);
    let third = Serving::start(&other);
    let strangers = sandbox.write("other.policy", policy(&vkey, &[&third], 1));
    drop((serving, third));
    let trusted = sandbox.home().join("keys/self.native.pub");
    let trusted = trusted.to_str().unwrap();
    let check = |policy: Option<&Path>| {
        let mut arguments = vec!["--json", "--trust", trusted];
        if let Some(policy) = policy {
            arguments.extend(["--policy", policy.to_str().unwrap()]);
        }
        elsewhere(&sandbox, &arguments)
    };
    let judged = check(Some(&both)).exits(0).json();
    assert_eq!(
        judged["anchor"]["witnesses"],
        serde_json::json!(["w0", "w1"])
    );
    assert!(judged["anchor"]["witnessed_at"].as_u64().unwrap() > 1_700_000_000);
    assert_eq!(judged["anchor"]["origin"], vkey[..47]);
    // Without a policy the report names no witness.
    let alone = check(None).exits(0).json();
    assert!(alone["anchor"]["witnessed_at"].is_null());
    for policy in [&none, &strangers] {
        let judged = check(Some(policy)).exits(3).json();
        assert_eq!(judged["result"]["findings"][0]["code"], "anchor_missing");
    }
    // The proof can be made without the entry of the log.
    fs::remove_file(sandbox.work().join(PROOF)).unwrap();
    let record = transcript(&sandbox.work().join("p")).unwrap();
    let named = format!("{}#1", record.display());
    sandbox
        .run(["prove", &named, "--no-anchor", "-o", PROOF])
        .exits(0);
    let judged = check(Some(&both)).exits(3).json();
    assert!(judged["anchor"].is_null());
    let why = judged["result"]["findings"][0]["message"].as_str().unwrap();
    assert!(why.contains("unanchored"), "{why}");
}

/// Puts the cosignature of a witness with an ML-DSA-44 key under the proof's checkpoint.
fn cosigned_by_ml_dsa(sandbox: &Sandbox, origin: &str, time: u64) -> VerifierKey {
    let (name, key) = (KeyName::parse("pq.example").unwrap(), [5; 32]);
    let key = MlDsaSigner::from_seed(key);
    let path = sandbox.work().join(PROOF);
    let proof = fs::read_to_string(&path).unwrap();
    let note = proof.rfind(&format!("\n{origin}\n")).unwrap() + 1;
    let note = SignedNote::parse(&proof[note..]).unwrap();
    let checkpoint = Checkpoint::parse(note.text()).unwrap();
    let line = key.cosign(&checkpoint, &name, CosignatureTime::from_seconds(time));
    fs::write(&path, format!("{proof}{}", line.unwrap())).unwrap();
    VerifierKey::of_ml_dsa(name, key.public_key())
}

#[test]
fn a_witness_with_a_key_of_ml_dsa_counts_as_any_other() {
    let (sandbox, serving, vkey) = seen();
    drop(serving);
    let at = 1_790_000_000;
    let witness = cosigned_by_ml_dsa(&sandbox, &vkey[..47], at);
    let text = format!("log {vkey}\nwitness pq {witness}\nquorum pq\n");
    let trusted = sandbox.home().join("keys/self.native.pub");
    let policy = sandbox.write("pq.policy", text);
    let arguments = [
        "--json",
        "--trust",
        trusted.to_str().unwrap(),
        "--policy",
        policy.to_str().unwrap(),
    ];
    let judged = elsewhere(&sandbox, &arguments).exits(0).json();
    assert_eq!(judged["anchor"]["witnesses"], serde_json::json!(["pq"]));
    assert_eq!(judged["anchor"]["witnessed_at"], at);
    // A cosignature with one changed letter is bad, which is worse than none.
    let path = sandbox.work().join(PROOF);
    let mut proof = fs::read(&path).unwrap();
    let last = proof.len() - 40;
    proof[last] = if proof[last] == b'A' { b'B' } else { b'A' };
    fs::write(&path, proof).unwrap();
    let judged = elsewhere(&sandbox, &arguments).exits(1).json();
    assert_eq!(judged["result"]["findings"][0]["code"], "anchor_bad");
}
