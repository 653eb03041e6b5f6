//! `prove` and `check-proof`: one turn of a record, shown without the other turns.

use crate::anchor::{add, policy};
use crate::prelude::*;
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
    let ran = sandbox.ok(format!("prove t.jsonl#2 --out {PROOF}"));
    assert!(
        ran.stdout.ends_with("bytes prove turn 2\n"),
        "{}",
        ran.stdout
    );
    sandbox
}

/// Runs without any home, in a folder that holds only the proof.
fn elsewhere(sandbox: &Sandbox, arguments: &str) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(sandbox.path(PROOF), folder.path().join(PROOF)).unwrap();
    let mut command = sandbox.command();
    command.env_clear().current_dir(folder.path());
    command.arg("check-proof").arg(PROOF).args(words(arguments));
    Ran::of(command.stdin(Stdio::null()).output().unwrap())
}

#[test]
fn a_proof_shows_its_turn_whole_and_no_other() {
    let sandbox = proved();
    let text = sandbox.read(PROOF);
    for other in ["question 1", "answer 1", "question 3", "result 3"] {
        assert!(!text.contains(other), "{other}");
    }
    let to_output = sandbox.ok("prove t.jsonl#2");
    assert_eq!(to_output.stdout, text);
    assert_eq!(to_output.stderr, "");
    let ran = sandbox.ok(format!("check-proof {PROOF}"));
    for part in [
        "verified  two.turn-proof  (proof, native)\n",
        "turn 2\n",
        "    | question 2\n",
        "    | result 2\n",
    ] {
        ran.stdout.has(part);
    }
    let json = sandbox.json(format!("check-proof {PROOF}"));
    json.is(json!({"turn": 2, "result/verdict": "verified"}));
    let record = sandbox.read("t.jsonl");
    let record: Vec<&str> = record.lines().collect();
    let lines = json["lines"].list();
    assert_eq!(lines.len(), 4);
    for line in lines {
        let number = usize::try_from(line["line"].number()).unwrap();
        assert_eq!(line["text"], record[number - 1]);
    }
    assert_eq!(sandbox.ok(format!("check-proof -q {PROOF}")).stdout, "");
}

// T-PRF-12
#[test]
fn a_proof_needs_no_home_and_without_a_key_its_signer_is_unknown() {
    let sandbox = proved();
    elsewhere(&sandbox, "")
        .exits(3)
        .begins_with("unknown_signer");
    let json = elsewhere(&sandbox, "--json").exits(3).json();
    let did = json["result"]["signers"][0]["did"].text().to_owned();
    elsewhere(&sandbox, &format!("--key {did}")).exits(0);
    let pem = sandbox.path("self.pem");
    let pem = pem.to_str().unwrap();
    sandbox.ok(format!("key export self --out {pem:?}"));
    elsewhere(&sandbox, &format!("--key {pem:?}")).exits(0);
    elsewhere(&sandbox, &format!("--trust {pem:?}")).exits(0);
    let other = ready();
    let path = other.path("self.pem");
    other.ok(format!("key export self --out {path:?}"));
    elsewhere(&sandbox, &format!("--key {path:?}"))
        .exits(3)
        .begins_with("unknown_signer")
        .omits("question 2");
    elsewhere(&sandbox, &format!("--trust {path:?}")).exits(3);
    elsewhere(&sandbox, &format!("--key {pem:?} --thread demo/thread-1")).exits(0);
    elsewhere(&sandbox, &format!("--key {pem:?} --thread demo/other")).exits(1);
}

// T-PRF-13
#[test]
fn a_changed_proof_is_evidence_and_another_file_no_proof() {
    let sandbox = proved();
    let text = sandbox.read(PROOF);
    for (from, to, verdict) in [
        ("answer 2", "answer X", "tampered"),
        ("turn 2", "turn 3", "tampered"),
        ("first ", "first x", "malformed"),
    ] {
        sandbox.write("changed", text.replacen(from, to, 1));
        let json = sandbox.exits(1, "check-proof changed --json").json();
        json.is(json!({"result/verdict": verdict, "turn": Value::Null}));
        assert_eq!(json["lines"].list().len(), 0);
    }
    sandbox.sh("check-proof t.jsonl").fails_with("not a proof");
    sandbox.sh("check-proof none").fails_with("none");
}

// T-PRF-11
#[test]
fn turns_are_proved_of_verified_native_records_only() {
    let sandbox = proved();
    for (named, why) in [
        ("t.jsonl", "for example t.jsonl#2"),
        ("t.jsonl#0", "for example t.jsonl#2"),
        ("t.jsonl#x", "for example t.jsonl#2"),
    ] {
        sandbox.exits(2, format!("prove {named:?}")).warns(why);
    }
    sandbox.sh("prove t.jsonl#4").fails_with("closes turn 4");
    sandbox
        .sh("prove no/thread#1")
        .fails_with("neither a file nor a thread");
    sandbox
        .sh(format!("prove t.jsonl#1 --out {PROOF}"))
        .fails_with(PROOF);
    sandbox.sh("prove t.jsonl#1 --json").fails_with("not JSON");
    rye_events(&sandbox, "r.jsonl", 2);
    sandbox.sh("prove r.jsonl#1").fails_with("Rye's format");

    let refused = |sandbox: &Sandbox, code, verdict: &str| {
        let ran = sandbox
            .exits(code, "prove t.jsonl#1 --out p")
            .warns(verdict);
        assert_eq!(ran.stdout, "");
        let ran = sandbox.exits(code, "prove t.jsonl#1 --out p --json");
        assert_eq!(ran.json()["result"]["verdict"], verdict);
        assert!(!sandbox.path("p").exists());
    };
    let stranger = ready();
    let text = sandbox.read("t.jsonl");
    stranger.write("t.jsonl", &text);
    refused(&stranger, 3, "unknown_signer");
    sandbox.write("t.jsonl", text.replace("answer 1", "answer X"));
    refused(&sandbox, 1, "tampered");
}

// T-PRF-06
#[test]
fn the_newest_turn_of_an_open_record_is_open() {
    let sandbox = ready();
    let recorder = recorder(&sandbox, "t.jsonl", 2);
    sandbox
        .ok(format!("prove t.jsonl#2 --out {PROOF}"))
        .warns("turn_may_go_on");
    sandbox
        .exits(3, format!("check-proof {PROOF}"))
        .begins_with("open");
    sandbox.ok("prove t.jsonl#1 --out one");
    sandbox.ok("check-proof one");
    drop(recorder);
}

#[test]
fn a_thread_of_a_project_is_named_by_its_id() {
    let sandbox = project();
    let thread = greeted(&sandbox, "");
    let turn = |number: u64| format!("{thread}#{number}");
    sandbox.ok(format!("prove {} --project p -o {PROOF}", turn(1)));
    let json = sandbox.json(format!("check-proof {PROOF} --thread {thread}"));
    assert_eq!(json["turn"], 1);
    let by_path = format!("p/.ai/agent/threads/{thread}/transcript.jsonl#1");
    let text = sandbox.ok(format!("prove {by_path}")).stdout;
    assert_eq!(sandbox.read(PROOF), text);
    sandbox
        .sh(format!("prove {}", turn(1)))
        .fails_with("neither a file nor a thread");
}

/// A proved thread of one turn that this home's log and two witnesses know, and the policy that
/// requires both witnesses.
fn seen() -> (Sandbox, Vec<Serving>, String) {
    let sandbox = project();
    greeted(&sandbox, "");
    let status = sandbox.json("log status");
    let vkey = status["vkey"].text().to_owned();
    let witnesses: Vec<_> = (0..2).map(|_| witness(&[&vkey])).collect();
    let serving: Vec<_> = witnesses.iter().map(Serving::start).collect();
    let text = policy(&vkey, &serving.iter().collect::<Vec<_>>(), 2);
    add(&sandbox, "both", &text);
    sandbox.ok("anchor check");
    let record = transcript(&sandbox.path("p")).unwrap();
    sandbox.ok(format!("prove {}#1 -o {PROOF}", record.display()));
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
        let policy = policy.map(|policy| format!("--policy {policy:?}"));
        let policy = policy.unwrap_or_default();
        elsewhere(&sandbox, &format!("--json --trust {trusted:?} {policy}"))
    };
    let judged = check(Some(&both)).exits(0).json();
    assert_eq!(judged["anchor"]["witnesses"], json!(["w0", "w1"]));
    assert!(judged["anchor"]["witnessed_at"].number() > 1_700_000_000);
    assert_eq!(judged["anchor"]["origin"], vkey[..47]);
    assert_eq!(judged["anchor"]["authenticated"], true);
    assert!(judged["result"]["unauthenticated"].list().is_empty());
    // Without a policy the report names no witness, and the log is a claim of the proof.
    let claims = |judged: &Value| {
        let claims = judged["result"]["unauthenticated"].list();
        claims
            .iter()
            .map(|claim| claim.text().to_owned())
            .collect::<Vec<_>>()
    };
    let origin = format!("log={}", &vkey[..47]);
    let alone = check(None).exits(0).json();
    assert!(alone["anchor"]["witnessed_at"].is_null());
    assert_eq!(alone["anchor"]["authenticated"], false);
    claims(&alone).has(&origin);
    let shown = elsewhere(&sandbox, &format!("--trust {trusted:?}"));
    let shown = shown.exits(0).prints(&format!("nothing covers   {origin}"));
    assert!(!shown.stdout.contains("\nlog "), "{}", shown.stdout);
    for policy in [&none, &strangers] {
        let judged = check(Some(policy)).exits(3).json();
        assert_eq!(judged["result"]["findings"][0]["code"], "anchor_missing");
        claims(&judged).has(&origin);
    }
    // The proof can be made without the entry of the log.
    fs::remove_file(sandbox.path(PROOF)).unwrap();
    let record = transcript(&sandbox.path("p")).unwrap();
    let named = format!("{}#1", record.display());
    sandbox.ok(format!("prove {named} --no-anchor -o {PROOF}"));
    let judged = check(Some(&both)).exits(3).json();
    assert!(judged["anchor"].is_null());
    let why = judged["result"]["findings"][0]["message"].text();
    why.has("unanchored");
}

/// Puts the cosignature of a witness with an ML-DSA-44 key under the proof's checkpoint.
fn cosigned_by_ml_dsa(sandbox: &Sandbox, origin: &str, time: u64) -> VerifierKey {
    let (name, key) = (KeyName::parse("pq.example").unwrap(), [5; 32]);
    let key = MlDsaSigner::from_seed(key);
    let path = sandbox.path(PROOF);
    let proof = read(&path);
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
    let arguments = format!("--json --trust {trusted:?} --policy {policy:?}");
    let judged = elsewhere(&sandbox, &arguments).exits(0).json();
    judged.is(json!({"anchor/witnesses": json!(["pq"]), "anchor/witnessed_at": at}));
    // A cosignature with one changed letter is bad, which is worse than none.
    let path = sandbox.path(PROOF);
    let mut proof = fs::read(&path).unwrap();
    let last = proof.len() - 40;
    proof[last] = if proof[last] == b'A' { b'B' } else { b'A' };
    fs::write(&path, proof).unwrap();
    let judged = elsewhere(&sandbox, &arguments).exits(1).json();
    assert_eq!(judged["result"]["findings"][0]["code"], "anchor_bad");
}
