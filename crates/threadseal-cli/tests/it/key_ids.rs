//! The id of a key in place of the key: reports print ids, so people pass them.

use crate::fixtures::{ended_record, ready};
use crate::sandbox::Sandbox;

/// The id and did:key of a key of this home.
fn names(sandbox: &Sandbox, name: &str) -> [String; 2] {
    let keys = sandbox.run(["key", "list", "--json"]).exits(0).json();
    let mut keys = keys["keys"].as_array().unwrap().iter();
    let own = keys.find(|key| key["name"] == name).unwrap();
    ["key_id", "did"].map(|text| own[text].as_str().unwrap().to_owned())
}

/// About half of all ids are also the bytes of a valid key: several homes cover both kinds.
const HOMES: usize = 4;

// T-KEY-02
#[test]
fn a_signer_is_asked_for_by_its_id_and_another_id_is_another_signer() {
    for _ in 0..HOMES {
        let sandbox = ready();
        let record = ended_record(&sandbox, "r.jsonl", 1);
        sandbox.write("note.json", "{}\n");
        sandbox.run(["seal", "note.json"]).exits(0);
        let note = sandbox.work().join("note.json");
        let [id, _] = names(&sandbox, "self");
        let [other, _] = names(&sandbox, "self-rye");
        let stranger = Sandbox::new();
        for path in [&record, &note] {
            let path = path.to_str().unwrap();
            sandbox.run(["verify", path, "--key", &id]).exits(0);
            sandbox.run(["verify", path, "--key", &other]).exits(1);
            stranger.run(["verify", path, "--key", &id]).exits(0);
            stranger.run(["verify", path, "--key", &other]).exits(1);
        }
    }
}

#[test]
fn what_is_proved_is_asked_for_by_the_id_of_its_signer() {
    let sandbox = ready();
    let record = ended_record(&sandbox, "r.jsonl", 2);
    let turn = format!("{}#1", record.to_str().unwrap());
    sandbox.run(["prove", &turn, "--out", "turn"]).exits(0);
    let proof = sandbox.work().join("turn");
    let [id, _] = names(&sandbox, "self");
    let stranger = Sandbox::new();
    let judge = ["check-proof", proof.to_str().unwrap()];
    stranger
        .run([&judge[..], &["--key", &id]].concat())
        .exits(0);
    let open = stranger.run(judge).exits(3).stdout;
    let hint = open
        .lines()
        .find(|line| line.contains("trust add"))
        .unwrap();
    let key = hint
        .split_whitespace()
        .find(|word| word.starts_with("did:key:"));
    stranger
        .run([&judge[..], &["--key", key.unwrap()]].concat())
        .exits(0);
}

// T-KEY-02
#[test]
fn an_id_is_trusted_as_the_key_that_has_it_or_not_at_all() {
    for _ in 0..HOMES {
        let sandbox = ready();
        sandbox.run(["key", "new", "--name", "ann"]).exits(0);
        let [id, did] = names(&sandbox, "ann");
        sandbox.run(["trust", "add", &id, "--name", "ann"]).exits(0);
        let trusted = sandbox.run(["trust", "list", "--json"]).exits(0).json();
        let mut keys = trusted["keys"].as_array().unwrap().iter();
        let ann = keys.find(|key| key["name"] == "ann").unwrap();
        assert_eq!(ann["key_id"], id.as_str());
        assert_ne!(did, id);
        // Sealed here by a key that was deleted since: its id names no key.
        sandbox.write("note.json", "{}\n");
        sandbox.run(["key", "new", "--name", "bob"]).exits(0);
        sandbox.run(["seal", "note.json", "--key", "bob"]).exits(0);
        let [gone, _] = names(&sandbox, "bob");
        for half in ["key", "pub"] {
            let path = sandbox.home().join(format!("keys/bob.native.{half}"));
            std::fs::remove_file(path).unwrap();
        }
        sandbox
            .run(["trust", "add", &gone, "--name", "bob"])
            .fails_with("is the id of a key and not the key");
    }
}

#[test]
fn a_new_key_says_that_nobody_trusts_it_and_how_that_is_changed() {
    let sandbox = ready();
    let made = sandbox.run(["key", "new", "--name", "ann"]).exits(0).stderr;
    let add = made.trim().rsplit("threadseal ").next().unwrap();
    sandbox.run(add.split(' ')).exits(0);
    let witness = sandbox.run(["witness", "serve"]);
    witness.fails_with("threadseal key new --usage witness --name self-witness");
}
