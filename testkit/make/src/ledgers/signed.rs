//! Signatures of records, and what ledgers declare: `spec/ledger.md` §6.

use super::forge::{Ledger, actor, declaration, genesis, record};
use super::{Adder, Want};
use crate::forge::{hex, key};
use crate::list::Options;
use crate::values::{Value, map};

pub(super) fn add(add: &mut Adder) {
    signatures(add);
    coverage(add);
    actors(add);
    beginnings(add);
}

fn pinning(number: u8) -> Options {
    Options {
        pins: vec![hex(&key(number))],
        ..Options::default()
    }
}

fn signatures(add: &mut Adder) {
    let signed = Ledger::of_steps(2, Some(1));
    add.add(
        "signed",
        "§5.5: no head is known",
        &signed,
        Want::new("open", &["head_unknown"], Some(3)),
    );
    add.add(
        "signed-by-the-pinned-key",
        "§6",
        &signed,
        Want::new("open", &["head_unknown"], Some(3)).asked(pinning(1)),
    );
    add.add(
        "signed-by-another-than-the-pinned",
        "§6: another key is pinned, and this one is not known",
        &signed,
        Want::new("unknown_signer", &["head_unknown", "other_signer"], None).asked(pinning(2)),
    );
    add.add(
        "signed-by-an-unknown-key",
        "§6: known by its id only",
        &Ledger::of_steps(1, Some(3)),
        Want::new("unknown_signer", &["head_unknown", "key_unknown"], None),
    );
    let mut ledger = Ledger::of_steps(1, Some(1));
    ledger.step(1, Some(3));
    add.add(
        "signed-by-a-known-and-an-unknown-key",
        "§5.5: every signer must count",
        &ledger,
        Want::new("unknown_signer", &["head_unknown", "key_unknown"], None),
    );
    let mut ledger = Ledger::of_steps(1, Some(1));
    let other = ledger.records[0].1.clone().expect("a signature");
    ledger.record(record(1, "started"), Some(1));
    ledger.altered(record(1, "completed"), Some(1), |value| {
        value.set("signature", other);
    });
    add.add(
        "signature-of-another-record",
        "§6: it does not hold",
        &ledger,
        Want::new("forged", &["head_unknown", "signature_bad"], Some(2)),
    );
    for (name, alter) in [
        (
            "signature-without-padding",
            (|text| text.replace("==", "")) as fn(String) -> String,
        ),
        ("signature-with-another-word", |text| {
            text.replace("ed25519", "ed25518")
        }),
        ("signature-with-a-blank", |text| format!("{text} ")),
        ("signature-empty", |_| String::new()),
    ] {
        let mut ledger = Ledger::of_steps(1, Some(1));
        ledger.record(record(1, "started"), Some(1));
        ledger.altered(record(1, "completed"), Some(1), |value| {
            let text = alter(value.text_of("signature"));
            value.set("signature", text);
        });
        add.add(
            name,
            "§6: no text of the grammar",
            &ledger,
            Want::new("forged", &["head_unknown", "signature_unreadable"], Some(2)),
        );
    }
    let mut ledger = Ledger::of_steps(1, Some(1));
    ledger.record(record(1, "started"), Some(1));
    ledger.altered(record(1, "completed"), Some(1), |value| {
        value.set("signature", 7);
    });
    add.add(
        "signature-that-is-a-number",
        "§6: no text",
        &ledger,
        Want::new("forged", &["head_unknown", "signature_unreadable"], Some(2)),
    );
    let mut ledger = Ledger::of_steps(1, Some(1));
    ledger.altered(record(1, "started"), Some(1), |value| {
        value.set("node_id", "other");
    });
    ledger.record(record(1, "completed"), Some(1));
    add.add(
        "record-changed",
        "§5.3 step 4: the signature is checked over the stored hash",
        &ledger,
        Want::new("tampered", &["hash_wrong", "head_unknown"], Some(1)),
    );
    let mut ledger = Ledger::of_steps(1, Some(1));
    ledger.altered(record(1, "started"), Some(1), |value| {
        let payload = map([("prompt", map([("$omitted", "for replay".into())]))]);
        value.set(
            "effect",
            map([("type", "llm_call".into()), ("payload", payload)]),
        );
    });
    ledger.record(record(1, "completed"), Some(1));
    add.add(
        "content-omitted",
        "§5.3 step 4: only a bundle for replay may leave content out",
        &ledger,
        Want::new("tampered", &["hash_wrong", "head_unknown"], Some(1)),
    );
}

fn coverage(add: &mut Adder) {
    let mut ledger = Ledger::of_steps(1, None);
    ledger.step(1, Some(1));
    add.add(
        "unsigned-before-signed",
        "§5.5 step 4.3",
        &ledger,
        Want::new("partial", &["head_unknown", "record_unsigned"], Some(3)),
    );
    add.add(
        "unsigned-before-signed-and-a-pinned-key",
        "§6: each record must be signed",
        &ledger,
        Want::new("tampered", &["head_unknown", "signature_missing"], None).asked(pinning(1)),
    );
    let mut ledger = Ledger::of_steps(1, Some(1));
    ledger.step(1, None);
    add.add(
        "unsigned-behind-signed",
        "§5.5 step 4.3",
        &ledger,
        Want::new("unsigned_tail", &["head_unknown", "unsigned_tail"], Some(1)),
    );
    add.add(
        "unsigned-and-a-pinned-key",
        "§6",
        &Ledger::of_steps(1, None),
        Want::new("tampered", &["signature_missing", "unsigned"], None).asked(pinning(1)),
    );
}

fn named(actors: &[u8]) -> Value {
    Value::Map(actors.iter().map(|number| actor(*number)).collect())
}

fn by(mut value: Value, id: &str) -> Value {
    value.set("actor_id", id);
    value
}

/// A ledger that names actor 1, which signs its genesis.
fn begun() -> (Ledger, String) {
    let (id, _) = actor(1);
    let mut ledger = Ledger::new();
    ledger.record(by(genesis(named(&[1])), &id), Some(1));
    (ledger, id)
}

fn actors(add: &mut Adder) {
    let (mut ledger, id) = begun();
    ledger.record(by(record(1, "started"), &id), Some(1));
    ledger.record(by(record(1, "completed"), &id), Some(1));
    add.add(
        "actors",
        "§6",
        &ledger,
        Want::new("open", &["head_unknown"], Some(2)),
    );
    let (mut ledger, id) = begun();
    ledger.record(by(record(1, "started"), &id), Some(1));
    ledger.record(by(record(1, "completed"), &id), None);
    add.add(
        "actors-and-a-record-unsigned",
        "§6: a ledger that names actors is signed",
        &ledger,
        Want::new("tampered", &["head_unknown", "signature_missing"], Some(1)),
    );
    let (mut ledger, id) = begun();
    ledger.record(by(record(1, "started"), &id), Some(1));
    ledger.record(by(record(1, "completed"), "ar_other"), Some(1));
    add.add(
        "actor-unnamed",
        "§6",
        &ledger,
        Want::new("forged", &["actor_unnamed", "head_unknown"], Some(1)),
    );
    let (mut ledger, id) = begun();
    ledger.record(by(record(1, "started"), &id), Some(1));
    ledger.record(by(record(1, "completed"), &id), Some(3));
    add.add(
        "actor-of-another-key",
        "§6: the key is not the actor's, known or not",
        &ledger,
        Want::new("forged", &["actor_differs", "head_unknown"], Some(1)),
    );
    let (mut ledger, id) = begun();
    let (other, _) = actor(3);
    let naming = declaration(1, "threadseal.actors", map([("actors", named(&[3]))]));
    ledger.record(by(naming.clone(), &id), Some(1));
    ledger.record(by(record(2, "started"), &other), Some(3));
    ledger.record(by(record(2, "completed"), &other), Some(3));
    let both = Options {
        trust: Some(vec![hex(&key(1)), hex(&key(3))]),
        ..Options::default()
    };
    add.add(
        "actor-named-later",
        "§6: it counts from the next record on",
        &ledger,
        Want::new("open", &["head_unknown"], Some(3)).asked(both.clone()),
    );
    add.add(
        "actor-named-later-that-no-one-vouches-for",
        "§6: naming lets a key sign, and vouches for none",
        &ledger,
        Want::new("unknown_signer", &["head_unknown", "key_unknown"], None),
    );
    let (mut ledger, _) = begun();
    ledger.record(by(naming, &other), Some(3));
    add.add(
        "actor-names-itself",
        "§6: it counts if a named actor signed it",
        &ledger,
        Want::new("forged", &["actor_unnamed", "head_unknown"], Some(0)).asked(both),
    );
    let (mut ledger, id) = begun();
    ledger.lines[0].insert(0, '\u{a0}');
    ledger.record(by(record(1, "started"), &id), None);
    add.add(
        "genesis-behind-a-blank-of-unicode",
        "§5.1 step 4: it is dropped, and the genesis counts",
        &ledger,
        Want::new(
            "tampered",
            &["head_unknown", "signature_missing", "step_unended"],
            Some(0),
        ),
    );
    let mut ledger = Ledger::new();
    ledger.record(record(1, "completed"), Some(1));
    ledger.lines[0] = format!("\u{2003}{}\u{2003}", ledger.lines[0]);
    add.add(
        "record-within-blanks-of-unicode",
        "§5.1 step 4: they are no part of it",
        &ledger,
        Want::new("open", &["head_unknown", "step_unstarted"], Some(0)),
    );
    let mut ledger = Ledger::new();
    let (_, fingerprint) = actor(1);
    ledger.record(genesis(map([("ar_0", fingerprint)])), None);
    add.add(
        "genesis-with-another-id",
        "§6: a fingerprint under another id",
        &ledger,
        Want::new("malformed", &["genesis_bad", "unsigned"], None),
    );
    let mut ledger = Ledger::new();
    ledger.record(genesis(Value::Null), None);
    ledger.lines[0] =
        ledger.lines[0].replacen("\"workflow_id\":null", "\"workflow_id\":\"\\ud800\"", 1);
    add.add(
        "genesis-with-a-lone-surrogate",
        "§2: it is no text, where §6 needs one",
        &ledger,
        Want::new(
            "tampered",
            &["genesis_bad", "hash_wrong", "lone_surrogate", "unsigned"],
            None,
        ),
    );
    let mut ledger = Ledger::new();
    let mut bad = genesis(Value::Null);
    let mut effect = bad.get("effect").cloned().expect("an effect");
    let mut payload = effect.get("payload").cloned().expect("a payload");
    payload.set("format", "threadseal-ledger/2");
    effect.set("payload", payload);
    bad.set("effect", effect);
    ledger.record(bad, None);
    add.add(
        "genesis-of-another-format",
        "§6",
        &ledger,
        Want::new("malformed", &["genesis_bad", "unsigned"], None),
    );
}

fn beginnings(add: &mut Adder) {
    let mut ledger = Ledger::new();
    ledger.record(genesis(Value::Null), None);
    ledger.record(genesis(Value::Null), None);
    add.add(
        "genesis-later",
        "§6: only record 0 begins a ledger",
        &ledger,
        Want::new(
            "tampered",
            &["genesis_misplaced", "step_ended_twice", "unsigned"],
            None,
        ),
    );
    let hash = ledger.records[1].0.to_string();
    for (name, rule, hash, verdict, codes) in [
        (
            "genesis-later-admitted",
            "§6: later beginnings",
            hash,
            "consistent",
            &["genesis_repeated", "step_ended_twice", "unsigned"],
        ),
        (
            "genesis-later-with-another-hash-admitted",
            "§6: by number and hash",
            "ab".repeat(32),
            "tampered",
            &["genesis_misplaced", "step_ended_twice", "unsigned"],
        ),
    ] {
        let mut ledger = Ledger::new();
        ledger.record(genesis(Value::Null), None);
        ledger.record(genesis(Value::Null), None);
        let admitted = map([("record", 1.into()), ("hash", hash.into())]);
        let payload = map([
            ("beginnings", Value::List(vec![admitted])),
            ("why", "two writers began".into()),
        ]);
        ledger.record(declaration(2, "threadseal.beginnings", payload), None);
        add.add(name, rule, &ledger, Want::new(verdict, codes, None));
    }
}
