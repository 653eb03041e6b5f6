//! `id export|show|import|recover`, and trust in identities.

use crate::prelude::*;

/// Ann's home with records of each usage, and the home of Bob beside it.
struct Pair {
    ann: Sandbox,
    bob: Sandbox,
}

impl Pair {
    fn new() -> Self {
        let (ann, bob) = (Sandbox::new(), Sandbox::new());
        ann.ok("init");
        bob.ok("init");
        ann.ok("id export -o ann.id");
        Self { ann, bob }
    }

    /// Bob trusts Ann's identity, and has records of hers.
    fn met() -> Self {
        let pair = Self::new();
        pair.give("ann.id");
        pair.give_records();
        pair.bob.ok("trust add ann.id");
        pair
    }

    /// Hands a file of Ann to Bob.
    fn give(&self, name: &str) {
        fs::copy(self.ann.path(name), self.bob.path(name)).unwrap();
    }

    /// Exports again, and hands the file over under another name.
    fn give_next(&self, name: &str) {
        self.ann.ok(format!("id export -o {name}"));
        self.give(name);
    }

    /// A document by the native key, and a log under an observed seal.
    fn give_records(&self) {
        self.ann.write("note.json", "{\"a\":1}\n");
        self.ann.write("log.jsonl", "{\"b\":2}\n");
        self.ann.ok("seal --inline note.json");
        self.ann.ok("seal log.jsonl --final");
        for name in ["note.json", "log.jsonl", "log.jsonl.seal"] {
            self.give(name);
        }
    }

    /// Bob takes the newest file of Ann.
    fn import_next(&self, name: &str) -> Value {
        self.give_next(name);
        self.bob.json(format!("id import {name}"))
    }

    /// Bob's verdict on the record, and the message of the finding about its key.
    #[track_caller]
    fn judged(&self, record: &str, verdict: &str, code: &str) -> String {
        let report = self.bob.report(format!("verify {record}"));
        assert_eq!(report["verdict"], verdict, "{record}: {report}");
        let about_key = ["key_rotated", "key_revoked"];
        let mut findings = report["findings"].list().iter();
        let found = findings.find(|one| about_key.contains(&one["code"].text()));
        let found = found.unwrap_or_else(|| panic!("{record}: {report}"));
        assert_eq!(found["code"], code, "{record}: {report}");
        found["message"].text().to_owned()
    }
}

/// Names that a rotation gives to the old key.
fn kept_name(sandbox: &Sandbox, name: &str) -> String {
    let id = sandbox.key(name)["key_id"].text().to_owned();
    format!("{name}-{}", &id[..8])
}

/// A copy of the home, without its log: that would notice the copy.
fn copied(sandbox: &Sandbox) -> Sandbox {
    let other = Sandbox::new();
    copy(&sandbox.home(), &other.home());
    take_log_away(&other.home());
    other
}

#[test]
fn an_identity_is_exported_imported_and_trusted() {
    let pair = Pair::new();
    pair.give("ann.id");
    pair.give_records();
    let shown = pair.bob.json("id show ann.id");
    let identity = &shown["others"][0];
    assert_eq!(identity["name"], "ann");
    assert_eq!(identity["words"].text().split(' ').count(), 12);
    let usages: BTreeSet<&str> = identity["keys"]
        .list()
        .iter()
        .map(|key| key["usage"].text())
        .collect();
    for usage in ["native", "observed", "rye", "scroll"] {
        assert!(usages.contains(usage), "{usage}");
    }
    // An import trusts nothing.
    let imported = pair.bob.json("id import ann.id");
    assert_eq!(imported["step"], "new");
    assert_eq!(imported["trusted"], json!([]));
    assert_eq!(pair.bob.verdict("verify note.json"), "unknown_signer");
    // One file vouches for each kind of record.
    for option in ["--id ann.id", "--id ann", "--trust ann.id", "--key ann.id"] {
        for record in ["note.json", "log.jsonl"] {
            let line = format!("verify {record} {option}");
            assert_eq!(pair.bob.verdict(&line), "verified", "{line}");
        }
    }
    let words = identity["words"].text().to_owned();
    pair.bob
        .ok("trust add ann.id")
        .prints("ann/observed")
        .prints(&words);
    pair.bob.ok("verify note.json log.jsonl");
    assert_eq!(pair.bob.json("id import ann.id")["trusted"].list().len(), 5);
    pair.bob.ok("trust add ann").prints("nothing new");
}

// T-ID-06
#[test]
fn a_key_of_an_identity_counts_for_its_own_usage_alone() {
    let pair = Pair::new();
    pair.give("ann.id");
    pair.give_records();
    // Bob trusts only the observed key.
    pair.bob.ok("trust add ann.id --usage observed");
    assert_eq!(pair.bob.verdict("verify log.jsonl"), "verified");
    assert_eq!(pair.bob.verdict("verify note.json"), "unknown_signer");
    // Ann's observed key, misused for a native record.
    let thief = Sandbox::new();
    fs::create_dir_all(thief.home().join("keys")).unwrap();
    fs::create_dir_all(thief.home().join("heads")).unwrap();
    let key = pair.ann.home().join("keys/self-observed.observed.key");
    fs::copy(key, thief.path("stolen.key")).unwrap();
    thief.ok("key import stolen.key --name self --usage native");
    thief.write("forged.json", "{\"a\":1}\n");
    thief.ok("seal --inline forged.json");
    fs::copy(thief.path("forged.json"), pair.bob.path("forged.json")).unwrap();
    for option in ["--id ann.id", "--key ann.id", "--trust ann.id"] {
        let line = format!("verify forged.json {option}");
        assert_eq!(pair.bob.verdict(&line), "unknown_signer", "{line}");
    }
}

// T-ID-03 T-ID-04
#[test]
fn a_later_file_updates_and_an_earlier_or_forked_one_is_refused() {
    let pair = Pair::new();
    let twin = copied(&pair.ann);
    pair.give("ann.id");
    pair.bob.ok("trust add ann.id");
    pair.ann.ok("key rotate self");
    pair.give_next("ann-2.id");
    let updated = pair.bob.json("id import ann-2.id");
    assert_eq!(updated["step"], "updated");
    // The end of the old key counts at once, and the next key is not trusted in silence.
    assert_eq!(updated["ended"], json!(["ann"]));
    assert_eq!(updated["untrusted"].list().len(), 1);
    pair.ann.write("new.json", "{}\n");
    pair.ann.ok("seal --inline new.json");
    pair.give("new.json");
    assert_eq!(pair.bob.verdict("verify new.json"), "unknown_signer");
    pair.bob.ok("trust add ann --name ann-2");
    assert_eq!(pair.bob.verdict("verify new.json"), "verified");
    // The first file does not take it back, wherever it is named.
    let home = tree_digest(&pair.bob.home().join("identities"));
    assert_eq!(
        pair.bob.exits(2, "id import ann.id --json").json()["step"],
        "older"
    );
    pair.bob.sh("trust add ann.id").fails_with("older");
    assert_eq!(pair.bob.verdict("verify new.json --id ann.id"), "verified");
    // A fork: the same key signed another successor.
    twin.ok("key rotate self");
    twin.ok("id export -o fork.id");
    fs::copy(twin.path("fork.id"), pair.bob.path("fork.id")).unwrap();
    let forked = pair.bob.exits(1, "id import fork.id --json").json();
    assert_eq!(forked["step"], "forked");
    pair.bob
        .sh("verify new.json --id fork.id")
        .fails_with("contradict");
    assert_eq!(tree_digest(&pair.bob.home().join("identities")), home);
}

// T-ID-05
#[test]
fn the_recovery_key_replaces_a_lost_key_and_outranks_a_thief() {
    let pair = Pair::new();
    let recovery = pair.ann.home().with_file_name("home.recovery.key");
    assert!(recovery.exists(), "init made {recovery:?}");
    pair.give("ann.id");
    pair.bob.ok("trust add ann.id");
    // A thief of the home without the recovery key continues the identity.
    let thief = copied(&pair.ann);
    thief.ok("key rotate self");
    thief.ok("id export -o stolen.id");
    fs::copy(thief.path("stolen.id"), pair.bob.path("stolen.id")).unwrap();
    assert_eq!(pair.bob.json("id import stolen.id")["step"], "updated");
    pair.bob.ok("trust add ann --name ann-2");
    // Ann lost her home, and has the recovery key and an old file.
    let anew = Sandbox::new();
    anew.ok("init");
    fs::copy(&recovery, anew.path("recovery.key")).unwrap();
    fs::copy(pair.ann.path("ann.id"), anew.path("old.id")).unwrap();
    anew.sh("id recover recovery.key -o ann.id")
        .fails_with("--from");
    anew.ok("id recover recovery.key --from old.id --since 2026-01-01 -o ann.id");
    fs::copy(anew.path("ann.id"), pair.bob.path("recovered.id")).unwrap();
    let recovered = pair.bob.json("id import recovered.id");
    assert_eq!(recovered["step"], "recovered");
    // The thief's key was not of the new file: its entry ended with the rest.
    let ended = recovered["ended"].to_string();
    assert!(ended.contains("ann-2"), "{ended}");
    thief.write("forged.json", "{}\n");
    thief.ok("seal --inline forged.json");
    fs::copy(thief.path("forged.json"), pair.bob.path("forged.json")).unwrap();
    assert_eq!(pair.bob.verdict("verify forged.json"), "forged");
    // Keys that the new home does not have ended as well.
    let keys = pair.bob.json("id show ann")["others"][0]["keys"].clone();
    let living = keys.list().iter().filter(|key| key["ended"].is_null());
    assert_eq!(living.count(), 5, "{keys}");
    let replaced = pair.bob.exits(1, "id import stolen.id --json").json();
    assert_eq!(replaced["step"], "replaced");
    // Another key recovers nothing.
    let other = anew.home().with_file_name("home.recovery.key");
    anew.sh(format!("id recover {} -o x.id", other.display()))
        .fails_with("not the recovery key");
}

// T-ID-01
#[test]
fn a_bad_file_is_accepted_by_no_command() {
    let pair = Pair::new();
    let text = pair.ann.read("ann.id");
    let other = Sandbox::new();
    other.ok("init");
    other.ok("id export -o eve.id");
    let signature = |text: &str| text.split("\"signature\":\"").nth(1).unwrap()[..88].to_owned();
    let eve = other.read("eve.id");
    for (number, bad) in [
        text.replace("\"name\":\"ann\"", "\"name\":\"bob\""),
        text.replace("\"usage\":\"observed\"", "\"usage\":\"native\""),
        text.replace(&signature(&text), &signature(&eve)),
        text.replace(
            "\"ended\":null",
            "\"ended\":{\"at\":\"2026-01-01T00:00:00Z\",\"why\":\"\"}",
        ),
        text.replacen('{', "{ ", 1),
        text[..text.len() - 1].to_owned(),
        text.clone() + &text,
        text.replace("\n", &" ".repeat(70_000)),
    ]
    .into_iter()
    .enumerate()
    {
        assert_ne!(bad, text, "{number}");
        pair.bob.write("bad.id", &bad);
        pair.bob.write("note.json", "{}\n");
        let before = tree_digest(&pair.bob.home());
        for line in [
            "id import bad.id",
            "id show bad.id",
            "trust add bad.id --name x",
            "verify note.json --id bad.id",
            "verify note.json --key bad.id",
        ] {
            pair.bob.exits(2, line);
        }
        assert_eq!(tree_digest(&pair.bob.home()), before, "{number}");
    }
    // A link, a FIFO, a folder.
    let fifo = pair.bob.path("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    fs::create_dir(pair.bob.path("folder.id")).unwrap();
    for name in ["fifo", "folder.id", "absent.id"] {
        pair.bob.exits(2, format!("id import {name}"));
    }
}

#[test]
fn an_export_changes_nothing_where_nothing_changed_and_replaces_no_other_file() {
    let pair = Pair::new();
    let first = pair.ann.read("ann.id");
    pair.ann.ok("id export -o ann.id").prints("nothing new");
    assert_eq!(pair.ann.read("ann.id"), first);
    pair.ann.write("other.txt", "mine\n");
    pair.ann.sh("id export -o other.txt").fails_with("exists");
    pair.bob.ok("id export -o bob.id");
    pair.give("ann.id");
    pair.bob
        .sh("id export -o ann.id")
        .fails_with("no file of your identity");
    pair.bob.sh("id export --json").fails_with("-o FILE");
    Sandbox::new().sh("id export -o x.id").fails_with("no home");
}

// T-KEY-09
#[test]
fn a_revoked_key_is_not_taken_back_by_removing_and_adding_it() {
    let pair = Pair::met();
    pair.bob.ok("trust revoke ann --why stolen --at 2026-01-01");
    pair.bob.sh("trust remove ann").fails_with("--anyway");
    pair.bob.ok("trust add ann.id").prints("nothing new");
    for option in ["", "--id ann.id", "--key ann.id"] {
        let line = format!("verify note.json {option}");
        assert_eq!(pair.bob.verdict(&line), "forged", "{line}");
    }
    pair.bob.ok("trust remove ann --anyway");
}

#[test]
fn the_hint_of_an_unknown_signer_is_the_command_that_trusts_it() {
    let pair = Pair::new();
    pair.give_records();
    for record in ["note.json", "log.jsonl"] {
        let report = pair.bob.exits(3, format!("verify {record}")).stdout;
        let hint = report.split("named it to you: ").nth(1).unwrap();
        let command = hint
            .lines()
            .next()
            .unwrap()
            .replace("NAME", "x")
            .replace("threadseal ", "");
        pair.bob.ok(&command);
        pair.bob.ok(format!("verify {record}"));
        pair.bob.ok("trust remove x");
    }
}

// T-KEY-23 T-KEY-24
#[test]
fn what_a_rotated_key_sealed_is_of_an_unknown_signer_elsewhere_and_names_its_next_key() {
    let pair = Pair::new();
    pair.give("ann.id");
    pair.give_records();
    ended_record(&pair.ann, "thread.jsonl", 2);
    pair.give("thread.jsonl");
    pair.bob.ok("trust add ann.id");
    let records = [
        ("note.json", "self"),
        ("log.jsonl", "self-observed"),
        ("thread.jsonl", "self"),
    ];
    let old: Vec<Value> = records.iter().map(|(_, key)| pair.ann.key(key)).collect();
    for key in ["self", "self-observed"] {
        pair.ann.ok(format!("key rotate {key}"));
    }
    let imported = pair.import_next("ann-2.id");
    assert_eq!(imported["ended"].list().len(), 2, "{imported}");
    for ((record, key), old) in records.iter().zip(&old) {
        let told = pair.judged(record, "unknown_signer", "key_rotated");
        let next = pair.ann.key(key);
        for part in [&old["key_id"], &next["key_id"]] {
            told.has(part.text());
        }
        for part in [
            "ended at 20",
            "sealed anew by the later key",
            "proof of its age",
        ] {
            told.has(part);
        }
        for option in ["--id ann", "--trust ann-2.id", "--key ann-2.id"] {
            let line = format!("verify {record} {option}");
            assert_eq!(pair.bob.verdict(&line), "unknown_signer", "{line}");
        }
        // The home that rotated the key knows its own records.
        pair.ann.ok(format!("verify {record}"));
    }
    pair.bob.ok("trust list").prints("ROTATED");
    let listed = pair.bob.json("trust list")["keys"].clone();
    let entry = listed.item("public", old[0]["public"].text());
    assert_eq!(entry["revoked"]["next"], pair.ann.key("self")["public"]);
    // Nothing continues such a record.
    piped(&pair.bob, "record --resume thread.jsonl", "").fails_with("key_rotated");
    // The next key counts for what it seals anew, once it is trusted itself.
    pair.ann.ok("seal --inline note.json");
    pair.give("note.json");
    assert_eq!(pair.bob.verdict("verify note.json"), "unknown_signer");
    pair.bob.ok("trust add ann --name ann-2");
    assert_eq!(pair.bob.verdict("verify note.json"), "verified");
}

// T-KEY-25
#[test]
fn a_key_that_was_rotated_and_then_stolen_is_judged_as_stolen() {
    let pair = Pair::met();
    let kept = kept_name(&pair.ann, "self");
    pair.ann.ok("key rotate self");
    pair.import_next("ann-2.id");
    pair.judged("note.json", "unknown_signer", "key_rotated");
    pair.ann.ok(format!("key revoke {kept} --why stolen"));
    assert_eq!(pair.import_next("ann-3.id")["ended"], json!(["ann"]));
    pair.judged("note.json", "forged", "key_revoked");
    // No file takes that back, nor does a user who learned of the theft otherwise.
    pair.bob.exits(2, "id import ann-2.id");
    pair.judged("note.json", "forged", "key_revoked");
    let other = Pair::met();
    other.ann.ok("key rotate self");
    other.import_next("ann-2.id");
    other.judged("note.json", "unknown_signer", "key_rotated");
    other.bob.ok("trust revoke ann --why stolen");
    other.judged("note.json", "forged", "key_revoked");
    // A key that was stolen first is no rotated one.
    let third = Pair::met();
    third.ann.ok("key revoke self --why stolen");
    third.ann.ok("key rotate self");
    third.import_next("ann-2.id");
    third.judged("note.json", "forged", "key_revoked");
}

// T-KEY-25
#[test]
fn a_theft_that_only_the_log_has_and_a_lost_private_half_are_no_rotations() {
    let pair = Pair::met();
    let kept = kept_name(&pair.ann, "self");
    pair.ann.ok("key rotate self");
    // The command was killed between the log and the trust store.
    let trust = pair.ann.home().join("trust.toml");
    let before = fs::read(&trust).unwrap();
    pair.ann.ok(format!("key revoke {kept} --why stolen"));
    fs::write(&trust, before).unwrap();
    // No private half signs the end of the observed key: it may be in other hands.
    fs::remove_file(pair.ann.home().join("keys/self-observed.observed.key")).unwrap();
    pair.ann.ok("key rotate self-observed --anyway");
    pair.import_next("ann-2.id");
    for record in ["note.json", "log.jsonl"] {
        pair.judged(record, "forged", "key_revoked");
    }
}

// T-KEY-25
#[test]
fn a_chain_of_rotations_accuses_no_record_and_the_theft_of_the_last_key_its_own_alone() {
    let pair = Pair::new();
    pair.give("ann.id");
    pair.bob.ok("trust add ann.id");
    let mut ids = Vec::new();
    for number in 1..=3 {
        let record = format!("{number}.json");
        pair.ann.write(&record, format!("{{\"n\":{number}}}\n"));
        pair.ann.ok(format!("seal --inline {record}"));
        pair.give(&record);
        ids.push(pair.ann.key("self")["key_id"].text().to_owned());
        let end = match number {
            3 => "key revoke self --why stolen",
            _ => "key rotate self",
        };
        pair.ann.ok(end);
        if number == 3 {
            pair.ann.ok("key rotate self");
        }
        pair.import_next(&format!("ann-{number}.id"));
        pair.bob.ok(format!("trust add ann --name ann-{number}"));
    }
    for number in [1, 2] {
        let record = format!("{number}.json");
        let told = pair.judged(&record, "unknown_signer", "key_rotated");
        told.has(&ids[number - 1]).has(&ids[number]);
    }
    pair.judged("3.json", "forged", "key_revoked");
}

// T-KEY-23
#[test]
fn an_identity_is_exported_after_several_rotations_at_once() {
    let pair = Pair::met();
    let first = pair.ann.key("self")["key_id"].text().to_owned();
    for key in ["self", "self", "self", "self-observed", "self-observed"] {
        pair.ann.ok(format!("key rotate {key}"));
    }
    pair.import_next("ann-2.id");
    let shown = pair.bob.json("id show ann")["others"][0].clone();
    assert_eq!(shown["links"], json!(["key", "key", "key"]));
    pair.judged("note.json", "unknown_signer", "key_rotated")
        .has(&first);
    pair.judged("log.jsonl", "unknown_signer", "key_rotated");
}

// T-ID-11
#[test]
fn a_thief_of_a_rotated_key_who_names_a_successor_gains_no_trust() {
    let pair = Pair::met();
    let thief = copied(&pair.ann);
    thief.ok("key rotate self");
    thief.ok("id export -o thief.id");
    thief.write("forged.json", "{}\n");
    thief.ok("seal --inline forged.json");
    for name in ["thief.id", "forged.json"] {
        fs::copy(thief.path(name), pair.bob.path(name)).unwrap();
    }
    // Bob knows only the file from before, which the thief continues: no key is trusted by that.
    pair.bob.ok("id import thief.id");
    assert_eq!(pair.bob.verdict("verify forged.json"), "unknown_signer");
    pair.judged("note.json", "unknown_signer", "key_rotated");
    // Carol knows the file of Ann's own rotation: the thief contradicts it.
    pair.ann.ok("key rotate self");
    pair.ann.ok("id export -o ann-2.id");
    let carol = Sandbox::new();
    carol.ok("init");
    for (from, name) in [
        (&pair.ann, "ann-2.id"),
        (&thief, "thief.id"),
        (&thief, "forged.json"),
    ] {
        fs::copy(from.path(name), carol.path(name)).unwrap();
    }
    carol.ok("trust add ann-2.id");
    carol.exits(1, "id import thief.id");
    carol
        .sh("verify forged.json --id thief.id")
        .fails_with("contradict");
    assert_eq!(carol.verdict("verify forged.json"), "unknown_signer");
}
