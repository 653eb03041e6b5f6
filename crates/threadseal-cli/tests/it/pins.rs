//! `--key`, once and repeated: another signer is no evidence against a record, and never verified.

use crate::anchored_kinds::go_on;
use crate::prelude::*;
use crate::scroll::turn;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey};
use threadseal_core::record::Head;
use threadseal_formats::document::{DocumentKind, NativeSealing, sign_native};
use threadseal_store::clock::{Clock as _, SystemClock};

const AGENT: &str = "k/agents/counter.identity";

/// A record of each kind: its path, and the keys of the home that signed it.
const KINDS: [(&str, &str, &str); 7] = [
    ("rye", "k/r.jsonl", "self-rye"),
    ("transcript", "k/t.jsonl", "self"),
    ("observed", "k/a.log", "self-observed"),
    ("document", "k/d.json", "self"),
    ("ledger", "k/ledger_r1.jsonl", "self"),
    ("scroll", "k/s.jsonl", "self-scroll"),
    ("lineage", "k/agents", "agent"),
];

fn did(sandbox: &Sandbox, name: &str) -> String {
    sandbox.key(name)["did"].text().to_owned()
}

/// Makes a record of this kind, with two seals.
fn make(sandbox: &Sandbox, kind: &str) {
    fs::create_dir_all(sandbox.path("k")).unwrap();
    match kind {
        "transcript" => {
            ended_record(sandbox, "k/t.jsonl", 2);
        }
        "rye" => {
            rye_events(sandbox, "k/r.jsonl", 1);
            sandbox.ok("seal k/r.jsonl --profile rye");
        }
        kind => {
            for (number, text) in [(0, "one"), (1, "two")] {
                go_on(sandbox, &sandbox.home(), kind, number, text);
            }
        }
    }
}

/// The key of the signer as `--key` takes it.
fn signer(sandbox: &Sandbox, name: &str) -> String {
    match name {
        "agent" => {
            let shown = sandbox.json(format!("lineage identity show {AGENT}"));
            shown["did"].text().to_owned()
        }
        name => did(sandbox, name),
    }
}

// T-KEY-15
#[test]
fn a_record_by_another_key_than_was_asked_for_is_by_an_unknown_signer() {
    for (kind, path, name) in KINDS {
        let sandbox = ready();
        sandbox.ok("key new --name other");
        make(&sandbox, kind);
        let (own, other) = (signer(&sandbox, name), did(&sandbox, "other"));
        let stranger = Sandbox::new();
        let place = sandbox.path(path);
        for home in [&sandbox, &stranger] {
            let asked = |keys: &str| home.report(format!("verify {place:?} {keys}"));
            let report = asked(&format!("--key {other}"));
            assert_eq!(report["verdict"], "unknown_signer", "{kind}: {report:#}");
            report.codes().has("other_signer");
            assert_eq!(report["signers"][0]["status"], "other", "{kind}");
            // Of several keys one is enough, in whatever order they are named.
            let alone = asked(&format!("--key {own}"));
            let both = asked(&format!("--key {other} --key {own}"));
            assert_eq!(both["verdict"], alone["verdict"], "{kind}: {both:#}");
            both.codes().lacks("other_signer");
            let again = asked(&format!("--key {own} --key {other} --key {own}"));
            assert_eq!(both["trust"], again["trust"], "{kind}");
            assert_ne!(both["trust"], alone["trust"], "{kind}");
        }
        sandbox.ok(format!("verify {path} --key {own} --key {other}"));
    }
}

/// The stranger seals the document as the same version of the same record. Documents of other
/// records may come from colleagues.
fn sealed_again_by_a_stranger(sandbox: &Sandbox, stranger: &Sandbox) {
    let report = sandbox.report("verify k/d.json");
    let head = Head::parse(report["head"].text()).unwrap();
    let pem = stranger.path("self.pem");
    stranger.ok(format!("key export self --private --out {pem:?}"));
    let key = PrivateKey::from_pem(&read(&pem)).unwrap();
    let sealing = NativeSealing {
        record: head.record,
        seq: head.seq,
        time: SystemClock.now().unwrap(),
        signer: &LocalSigner::new(key, KeyUsage::Native),
    };
    let path = sandbox.path("k/d.json");
    let sealed = sign_native(&fs::read(&path).unwrap(), DocumentKind::Json, &sealing);
    fs::write(&path, sealed.unwrap()).unwrap();
}

// T-KEY-16
#[test]
fn a_record_of_this_home_that_a_stranger_sealed_anew_is_evidence_whichever_key_is_asked_for() {
    for (kind, path, name) in KINDS {
        // A lineage is named by its key: signed by another one, it is another agent.
        if kind == "lineage" {
            continue;
        }
        let (sandbox, stranger) = (ready(), ready());
        make(&sandbox, kind);
        make(&stranger, kind);
        let (own, other) = (did(&sandbox, name), did(&stranger, name));
        let folder = sandbox.path("k");
        if kind == "document" {
            sealed_again_by_a_stranger(&sandbox, &stranger);
        } else {
            empty(&folder);
            copy(&stranger.path("k"), &folder);
        }
        for keys in [
            format!("--key {own}"),
            format!("--key {other}"),
            format!("--key {own} --key {other}"),
        ] {
            sandbox.exits(1, format!("verify {path} {keys}"));
        }
        let elsewhere = Sandbox::new();
        let place = sandbox.path(path);
        elsewhere.exits(3, format!("verify {place:?} --key {own}"));
    }
}

// T-KEY-17
#[test]
fn a_record_of_several_signers_is_verified_only_where_all_of_them_are_asked_for() {
    let sandbox = ready();
    sandbox.ok("key new --name ann");
    sandbox.ok("key new --usage scroll --name second-scroll");
    for (name, usage) in [("ann", "native"), ("second-scroll", "scroll")] {
        let key = did(&sandbox, name);
        sandbox.ok(format!("trust add {key} --name {name} --usage {usage}"));
    }
    let step = "{\"node\":\"n\",\"result\":{\"text\":\"t\"}}\n";
    let begin = "ledger append file:runs --run r1 --sign --other-actor human:Ann=ann";
    piped(&sandbox, begin, step).exits(0);
    let join =
        "ledger append file:runs --run r1 --sign --key ann --actor-kind human --actor-name Ann";
    piped(&sandbox, join, step).exits(0);
    for (number, key) in [(0, "self-scroll"), (1, "second-scroll")] {
        let seal = format!("scroll seal --append s.jsonl --key {key}");
        piped(&sandbox, &seal, &turn(number, "hi")).exits(0);
    }
    for (line, one, another) in [
        ("verify runs/ledger_r1.jsonl", "self", "ann"),
        ("ledger verify runs/ledger_r1.jsonl", "self", "ann"),
        ("verify s.jsonl", "self-scroll", "second-scroll"),
        ("scroll verify s.jsonl", "self-scroll", "second-scroll"),
    ] {
        for key in [one, another] {
            let report = sandbox.report(format!("{line} --key {key}"));
            assert_eq!(report["verdict"], "unknown_signer", "{line}: {report:#}");
            report.codes().has("other_signer");
        }
        sandbox.ok(format!("{line} --key {one} --key {another}"));
    }
    sandbox.exits(3, "scroll to markdown s.jsonl --key self-scroll");
    sandbox.ok("scroll to markdown s.jsonl --key self-scroll --key second-scroll");
    // The published command takes one key; with several a turn may be by any of them.
    let compat = "scroll verify --compat s.jsonl --key self-scroll";
    sandbox.exits(1, compat);
    sandbox.ok(format!("{compat} --key second-scroll"));
}

// T-KEY-15
#[test]
fn proofs_by_another_key_than_was_asked_for_are_by_an_unknown_signer() {
    let sandbox = ready();
    sandbox.ok("key new --name other");
    let (own, other) = (did(&sandbox, "self"), did(&sandbox, "other"));
    let record = ended_record(&sandbox, "r.jsonl", 2);
    let turn = format!("{}#1", record.to_str().unwrap());
    sandbox.ok(format!("prove {turn} --out turn"));
    sandbox.ok(format!("prune --yes {record:?}"));
    let stranger = Sandbox::new();
    for file in ["turn", "r.jsonl.tombstone"] {
        let judge = format!("check-proof {:?}", sandbox.path(file));
        stranger
            .exits(3, format!("{judge} --key {other}"))
            .begins_with("unknown_signer  ")
            .prints("[other_signer]");
        stranger.ok(format!("{judge} --key {other} --key {own}"));
    }
}

// T-KEY-18
#[test]
fn a_revocation_counts_of_a_signer_that_was_not_asked_for() {
    let sandbox = ready();
    let record = ended_record(&sandbox, "r.jsonl", 1);
    let other = Sandbox::new();
    let key = did(&sandbox, "self");
    other.ok(format!("trust add {key} --name self"));
    let other_key = did(&sandbox, "self-observed");
    let judge = format!("verify {record:?} --key {other_key}");
    assert_eq!(other.verdict(&judge), "unknown_signer");
    other.ok("trust revoke self");
    let report = other.report(&judge);
    assert_eq!(report["verdict"], "forged");
    report.codes().has("key_revoked");
}

// T-KEY-15
#[test]
fn who_pruned_a_record_may_be_another_key_than_was_asked_for() {
    let sandbox = ready();
    let record = ended_record(&sandbox, "r.jsonl", 2);
    let (home, kept) = (sandbox.home(), sandbox.home().with_extension("kept"));
    copy(&home, &kept);
    sandbox.ok(format!("prune --yes {record:?}"));
    // The log went back, so the tombstone counts by its key.
    put_back(&kept, &home);
    let report = sandbox.report("verify r.jsonl --key self-observed");
    assert_eq!(report["verdict"], "open", "{report:#}");
    report.codes().has("pruned_unproved");
}
