//! The id of a key in place of the key: reports print ids, so people pass them.

use crate::prelude::*;

/// The id and did:key of a key of this home.
fn names(sandbox: &Sandbox, name: &str) -> [String; 2] {
    let own = sandbox.key(name);
    ["key_id", "did"].map(|text| own[text].text().to_owned())
}

/// About half of all ids are also the bytes of a valid key: several homes cover both kinds.
const HOMES: usize = 4;

// T-KEY-02
#[test]
fn a_signer_is_asked_for_by_its_id_and_another_id_is_another_signer() {
    for _ in 0..HOMES {
        let sandbox = ready();
        let record = ended_record(&sandbox, "r.jsonl", 1);
        sandbox.sealed("note.json", "{}\n");
        let note = sandbox.path("note.json");
        let [id, _] = names(&sandbox, "self");
        let [other, _] = names(&sandbox, "self-rye");
        let stranger = Sandbox::new();
        for path in [&record, &note] {
            sandbox.ok(format!("verify {path:?} --key {id}"));
            sandbox.exits(3, format!("verify {path:?} --key {other}"));
            stranger.ok(format!("verify {path:?} --key {id}"));
            stranger.exits(3, format!("verify {path:?} --key {other}"));
        }
    }
}

#[test]
fn what_is_proved_is_asked_for_by_the_id_of_its_signer() {
    let sandbox = ready();
    let record = ended_record(&sandbox, "r.jsonl", 2);
    let turn = format!("{}#1", record.to_str().unwrap());
    sandbox.ok(format!("prove {turn} --out turn"));
    let proof = sandbox.path("turn");
    let [id, _] = names(&sandbox, "self");
    let stranger = Sandbox::new();
    let judge = format!("check-proof {proof:?}");
    stranger.ok(format!("{judge} --key {id}"));
    let open = stranger.exits(3, &judge).stdout;
    let hint = open
        .lines()
        .find(|line| line.contains("trust add"))
        .unwrap();
    let key = hint
        .split_whitespace()
        .find(|word| word.starts_with("did:key:"));
    stranger.ok(format!("{judge} --key {}", key.unwrap()));
}

// T-KEY-02
#[test]
fn an_id_is_trusted_as_the_key_that_has_it_or_not_at_all() {
    for _ in 0..HOMES {
        let sandbox = ready();
        sandbox.ok("key new --name ann");
        let [id, did] = names(&sandbox, "ann");
        sandbox.ok(format!("trust add {id} --name ann"));
        let trusted = sandbox.json("trust list");
        let ann = trusted["keys"].item("name", "ann");
        assert_eq!(ann["key_id"], id.as_str());
        assert_ne!(did, id);
        // Sealed here by a key that was deleted since: its id names no key.
        sandbox.write("note.json", "{}\n");
        sandbox.ok("key new --name bob");
        sandbox.ok("seal note.json --key bob");
        let [gone, _] = names(&sandbox, "bob");
        for half in ["key", "pub"] {
            let path = sandbox.home().join(format!("keys/bob.native.{half}"));
            fs::remove_file(path).unwrap();
        }
        sandbox
            .sh(format!("trust add {gone:?} --name bob"))
            .fails_with("is the id of a key and not the key");
    }
}

#[test]
fn a_new_key_is_reported_as_untrusted_with_a_hint() {
    let sandbox = ready();
    let made = sandbox.ok("key new --name ann").stderr;
    sandbox.ok(made.trim().rsplit("threadseal ").next().unwrap());
    let witness = sandbox.sh("witness serve");
    witness.fails_with("threadseal key new --usage witness --name self-witness");
}
