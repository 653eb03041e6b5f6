//! Expected heads and signed heads: `spec/ledger.md` §7.

use super::forge::{Head, Ledger, record_id};
use super::{Adder, Want};
use crate::forge::{hex, key};
use crate::list::Options;
use threadseal_core::digest::Digest;

pub(super) fn add(add: &mut Adder) {
    expected(add);
    beside(add);
    statements(add);
    misspelled(add);
}

fn asking(head: String, exact: bool) -> Options {
    Options {
        head: Some(head),
        exact,
        ..Options::default()
    }
}

fn other() -> Digest {
    Digest::of(b"other")
}

fn expected(add: &mut Adder) {
    let signed = Ledger::of_steps(2, Some(1));
    let plain = Ledger::of_steps(2, None);
    let (record, line) = (record_id("run-1"), signed.records[1].0);
    let cases = [
        (
            "head-last",
            "met",
            signed.head(3),
            true,
            "verified",
            &[][..],
            Some(3),
        ),
        (
            "head-earlier",
            "the last record is signed",
            signed.head(1),
            false,
            "verified",
            &[],
            Some(3),
        ),
        (
            "head-not-last",
            "it must be the last",
            signed.head(1),
            true,
            "open",
            &["head_not_last", "head_unknown"],
            Some(3),
        ),
        (
            "head-of-another-size",
            "it differs",
            format!("{record}:1:9:{line}"),
            false,
            "forked",
            &["head_differs", "head_unknown"],
            Some(0),
        ),
        (
            "head-of-another-run",
            "another record",
            format!("{}:1:2:{line}", record_id("run-2")),
            false,
            "foreign",
            &["head_unknown", "record_differs"],
            Some(3),
        ),
        (
            "head-ahead",
            "beyond the end",
            format!("{record}:4:5:{}", other()),
            false,
            "truncated",
            &["head_ahead", "head_unknown"],
            Some(3),
        ),
        (
            "head-missing",
            "a digest that no record has",
            other().to_string(),
            false,
            "truncated",
            &["head_missing", "head_unknown"],
            Some(3),
        ),
    ];
    for (name, rule, head, exact, verdict, codes, until) in cases {
        let want = Want::new(verdict, codes, until).asked(asking(head, exact));
        add.add(name, &format!("§7: {rule}"), &signed, want);
    }
    add.add(
        "unsigned-and-its-head",
        "§7: a head holds the ledger",
        &plain,
        Want::new("verified", &[], Some(3)).asked(asking(plain.head(3), false)),
    );
    add.add(
        "unsigned-and-an-earlier-head",
        "§5.5 step 4.4",
        &plain,
        Want::new("unsigned_tail", &["unsigned_tail"], Some(1)).asked(asking(plain.head(1), false)),
    );
    for (name, length, verdict, codes) in [
        ("length-right", 4, "open", &["head_unknown"][..]),
        (
            "length-more",
            5,
            "truncated",
            &["head_unknown", "length_differs"],
        ),
        (
            "length-fewer",
            3,
            "open",
            &["head_unknown", "length_differs"],
        ),
    ] {
        let options = Options {
            length: Some(length),
            ..Options::default()
        };
        let want = Want::new(verdict, codes, Some(3)).asked(options);
        add.add(name, "§7", &signed, want);
    }
    let options = Options {
        thread: Some("run-9".to_owned()),
        ..Options::default()
    };
    add.add(
        "run-of-another-name",
        "§5.3 step 1: the run that was asked for",
        &signed,
        Want::new("foreign", &["head_unknown", "record_foreign"], None).asked(options),
    );
    let options = Options {
        name: Some("a/ledger_run-9.jsonl".to_owned()),
        ..Options::default()
    };
    add.add(
        "run-of-another-file-name",
        "§2: a file of such a name must be the ledger of that run",
        &signed,
        Want::new("foreign", &["head_unknown", "record_foreign"], None).asked(options),
    );
}

fn beside(add: &mut Adder) {
    let plain = Ledger::of_steps(2, None);
    let head = Head::of(&plain);
    add.add(
        "signed-head",
        "§7: it holds the ledger",
        &plain,
        Want::new("verified", &[], Some(3)).beside(head.bytes()),
    );
    add.add(
        "signed-head-by-an-unknown-key",
        "§7: its signer does not count",
        &plain,
        Want::new("unknown_signer", &["key_unknown", "unsigned"], None).beside(
            Head {
                key: 3,
                ..Head::of(&plain)
            }
            .bytes(),
        ),
    );
    let options = Options {
        pins: vec![hex(&key(2))],
        ..Options::default()
    };
    add.add(
        "signed-head-by-another-than-the-pinned-key",
        "§7: another key is pinned",
        &plain,
        Want::new("unknown_signer", &["other_signer", "unsigned"], None)
            .asked(options)
            .beside(head.bytes()),
    );
    let mut partly = Ledger::of_steps(1, Some(1));
    partly.step(1, None);
    let options = Options {
        pins: vec![hex(&key(2))],
        ..Options::default()
    };
    add.add(
        "signed-in-part-and-its-head-by-another-than-the-pinned-key",
        "§5.5 step 4.3: a key is pinned",
        &partly,
        Want::new("unknown_signer", &["head_unknown", "other_signer"], None)
            .asked(options)
            .beside(Head::of(&partly).bytes()),
    );
    let options = Options {
        pins: vec![hex(&key(1))],
        ..Options::default()
    };
    add.add(
        "signed-head-by-the-pinned-key",
        "§6: with a signed head beside it no record must be signed",
        &plain,
        Want::new("verified", &[], Some(3))
            .asked(options)
            .beside(head.bytes()),
    );
    add.add(
        "signed-head-of-another-signature",
        "§7: it does not hold under `key`",
        &plain,
        Want::new("forged", &["head_forged", "unsigned"], None).beside(head.signed_by(3)),
    );
    add.add(
        "signed-head-of-another-run",
        "§7: another run",
        &plain,
        Want::new("foreign", &["head_foreign", "unsigned"], None).beside(
            Head {
                run: "run-2".to_owned(),
                ..Head::of(&plain)
            }
            .bytes(),
        ),
    );
    add.add(
        "signed-head-ahead",
        "§7: there are fewer records",
        &plain,
        Want::new("truncated", &["head_ahead", "unsigned"], None)
            .beside(Head::of(&Ledger::of_steps(3, None)).bytes()),
    );
    add.add(
        "signed-head-behind",
        "§5.5 step 4.4: records follow",
        &plain,
        Want::new("unsigned_tail", &["unsigned_tail"], Some(1))
            .beside(Head::of(&Ledger::of_steps(1, None)).bytes()),
    );
    let mut signed = Ledger::of_steps(1, None);
    signed.step(1, Some(1));
    add.add(
        "signed-head-behind-signed-records",
        "§5.5 step 4.4: the last record is signed",
        &signed,
        Want::new("partial", &["record_unsigned"], Some(3))
            .beside(Head::of(&Ledger::of_steps(1, None)).bytes()),
    );
    let mut forked = Ledger::of_steps(1, None);
    forked.step(7, None);
    add.add(
        "signed-head-of-a-fork",
        "§7: another record has its number",
        &plain,
        Want::new("tampered", &["head_broken", "unsigned"], None).beside(Head::of(&forked).bytes()),
    );
    let mut torn = Ledger::of_steps(2, None);
    torn.behind = "{\"run_id\":\"run";
    add.add(
        "signed-head-and-a-torn-line",
        "§5.1: the bytes behind the last record",
        &torn,
        Want::new("unsigned_tail", &["torn_tail"], Some(3)).beside(head.bytes()),
    );
    let mut skipped = Ledger::of_steps(2, None);
    skipped.lines[1].insert_str(0, "7\n");
    let (_, places) = Ledger::of_steps(2, None).written();
    assert_eq!(places.len(), 4);
    add.add(
        "signed-head-and-a-line-skipped",
        "§5.1: a line that is no record, with records behind it",
        &skipped,
        Want::new("tampered", &["line_skipped"], None).beside(head.bytes()),
    );
}

fn statements(add: &mut Adder) {
    let plain = Ledger::of_steps(2, None);
    let (bytes, _) = plain.written();
    let file = format!("file {} {}", Digest::of(&bytes), bytes.len());
    let whole = Head::of(&plain)
        .with("first 2026-11-22T20:30:00+00:00".to_owned())
        .with("last 2026-11-22T20:30:01+00:00".to_owned())
        .with(format!("signatures {}", plain.signatures(4)))
        .with(file.clone());
    add.add(
        "signed-head-with-all-lines",
        "§7",
        &plain,
        Want::new("verified", &[], Some(3)).beside(whole.bytes()),
    );
    let mut respelled = Ledger::of_steps(2, None);
    respelled.lines[0].insert(1, ' ');
    add.add(
        "signed-head-of-a-file-with-other-bytes",
        "§7: the hash is there, but the first bytes are others",
        &respelled,
        Want::new("tampered", &["file_differs", "unsigned"], None)
            .beside(Head::of(&plain).with(file).bytes()),
    );
    let signed = Ledger::of_steps(2, Some(1));
    let head = Head::of(&signed).with(format!("signatures {}", signed.signatures(4)));
    add.add(
        "signed-head-with-signatures",
        "§7",
        &signed,
        Want::new("verified", &[], Some(3)).beside(head.bytes()),
    );
    add.add(
        "signed-head-and-signatures-taken",
        "§5.3 step 8: the digest of signatures differs",
        &plain,
        Want::new("tampered", &["signatures_changed", "unsigned"], None).beside(head.bytes()),
    );
    let head = Head::of(&plain).with(format!("signatures {}", plain.signatures(4)));
    add.add(
        "signed-head-and-signatures-added",
        "§5.3 step 8",
        &signed,
        Want::new("tampered", &["head_unknown", "signatures_changed"], Some(2))
            .beside(head.bytes()),
    );
    add.add(
        "signed-head-that-is-forged-states-no-signatures",
        "§7: only the first row applies",
        &signed,
        Want::new("forged", &["head_forged", "head_unknown"], Some(3)).beside(head.signed_by(3)),
    );
}

fn misspelled(add: &mut Adder) {
    let plain = Ledger::of_steps(2, None);
    let good = String::from_utf8(Head::of(&plain).bytes()).expect("UTF-8");
    let cases: [(&str, String); 6] = [
        ("without-its-last-lf", good.trim_end().to_owned()),
        (
            "with-a-line-more",
            Head::of(&plain).with("more 1".to_owned()).text_of(),
        ),
        (
            "with-another-zone",
            Head {
                time: "2026-11-22T20:40:00+00:00".to_owned(),
                ..Head::of(&plain)
            }
            .text_of(),
        ),
        (
            "of-no-records",
            Head {
                count: "0".to_owned(),
                ..Head::of(&plain)
            }
            .text_of(),
        ),
        (
            "with-a-leading-zero",
            Head {
                count: "04".to_owned(),
                ..Head::of(&plain)
            }
            .text_of(),
        ),
        ("empty", String::new()),
    ];
    for (name, text) in cases {
        add.add(
            &format!("signed-head-{name}"),
            "§7: it has one spelling; the ledger is judged as without it",
            &plain,
            Want::new("malformed", &["head_malformed", "unsigned"], None).beside(text),
        );
    }
}

impl Head {
    fn text_of(&self) -> String {
        String::from_utf8(self.bytes()).expect("UTF-8")
    }
}
