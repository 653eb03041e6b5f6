//! Checkpoints by a policy: `spec/tlog.md`, "Checkpoints", "Cosignatures" and "Policies".

use super::{Adder, answer, signed_by_the_log};
use crate::list::{Expected, Options, Short};
use crate::proof_forge::{LOG, LogPart, log_key, signature_line, vkey, witness, witness_name};
use threadseal_core::digest::Digest;
use threadseal_core::encoding;

pub(super) fn add(add: &mut Adder) {
    others(add);
    times(add);
    lines(add);
    texts(add);
    policies(add);
    names(add);
}

pub(super) fn part() -> LogPart {
    LogPart::of("four")
}

pub(super) fn note(part: &LogPart) -> String {
    format!("{}\n{}", part.checkpoint, part.signatures.concat())
}

pub(super) fn log_line() -> String {
    format!("log {}\n", vkey(LOG, 1, &log_key()))
}

pub(super) fn witness_line(number: u8) -> String {
    let vkey = vkey(&witness_name(number), 4, &witness(number));
    format!("witness w{number} {vkey}\n")
}

/// The log, three witnesses, and this.
fn policy(rest: &str) -> String {
    let witnesses: String = (1..=3).map(witness_line).collect();
    format!("{}{witnesses}{rest}", log_line())
}

fn two_of_three() -> String {
    policy("group g 2 w1 w2 w3\nquorum g\n")
}

pub(super) fn at(time: u64) -> Short {
    Short {
        at: Some(time.to_string()),
        ..answer("witnessed")
    }
}

impl Adder {
    pub(super) fn checkpoint(
        &mut self,
        name: &str,
        rule: &str,
        note: &str,
        policy: &(impl AsRef<[u8]> + ?Sized),
        short: Short,
    ) {
        let files: [super::File<'_>; 2] = [
            ("note", ".note", note.as_bytes()),
            ("policy", ".policy", policy.as_ref()),
        ];
        let name = format!("checkpoint-{name}");
        self.add(
            ("checkpoint", &name),
            &format!("tlog.md, {rule}"),
            &[],
            short,
            &files,
        );
    }
}

/// Made by other implementations.
fn others(add: &mut Adder) {
    for (name, time) in [("cosigned", "1679315148"), ("ml_dsa", "1679315147")] {
        let short = Short {
            at: Some(time.to_owned()),
            ..answer("witnessed")
        };
        let files = vec![
            ("note", format!("../../tlog/{name}.note")),
            ("policy", format!("../../tlog/{name}.policy")),
        ];
        let rule = "tlog.md, \"Judging a note\": of another implementation";
        let name = format!("checkpoint-{}-of-others", name.replace('_', "-"));
        let expected = Expected::Short(short);
        add.0.add_named(
            "checkpoint",
            (&name, rule),
            Options::default(),
            expected,
            files,
        );
    }
}

fn times(add: &mut Adder) {
    let rule = "\"Judging a note\" 5: the latest time at which it is met";
    let mut two = part();
    two.signatures
        .extend([two.cosigned(1, 100), two.cosigned(2, 200)]);
    add.checkpoint(
        "by-two-of-three",
        rule,
        &note(&two),
        &two_of_three(),
        at(100),
    );
    let mut three = two.clone();
    three.signatures.push(three.cosigned(3, 300));
    add.checkpoint(
        "by-three-of-three",
        rule,
        &note(&three),
        &two_of_three(),
        at(200),
    );
    let all = policy("group g all w1 w2 w3\nquorum g\n");
    add.checkpoint("by-all", rule, &note(&three), &all, at(100));
    let any = policy("group g any w1 w2 w3\nquorum g\n");
    add.checkpoint("by-any", rule, &note(&three), &any, at(300));
    let nested = policy("group a all w1 w2\ngroup g any a w3\nquorum g\n");
    add.checkpoint("by-a-group-in-a-group", rule, &note(&two), &nested, at(100));
    let mut again = two.clone();
    again.signatures.push(again.cosigned(1, 250));
    let newest = "\"Which known keys signed\": of several lines the newest time counts";
    add.checkpoint(
        "by-one-key-twice",
        newest,
        &note(&again),
        &two_of_three(),
        at(200),
    );
    let mut last = part();
    last.signatures
        .push(last.cosigned(1, i64::MAX.unsigned_abs()));
    let one = policy("quorum w1\n");
    add.checkpoint(
        "at-the-last-second",
        "\"Cosignatures\": time",
        &note(&last),
        &one,
        at(i64::MAX.unsigned_abs()),
    );
    let alone = part();
    add.checkpoint(
        "by-one-of-three",
        rule,
        &note(&alone),
        &two_of_three(),
        answer("not_met"),
    );
    let none = policy("quorum none\n");
    add.checkpoint(
        "by-the-log-alone",
        "\"Judging a note\" 4",
        &note(&alone),
        &none,
        answer("log_alone"),
    );
    add.checkpoint(
        "witnessed-and-quorum-none",
        "\"Judging a note\" 4",
        &note(&three),
        &none,
        answer("log_alone"),
    );
}

fn lines(add: &mut Adder) {
    let two = part().witnessed(&[1, 2]);
    let other = LogPart {
        checkpoint: two.checkpoint.replacen("\n5\n", "\n6\n", 1),
        ..part()
    };
    let bad = "\"Judging a note\" 1: a line of a known key is bad";
    let with = |line: String| {
        let mut two = two.clone();
        two.signatures.push(line);
        note(&two)
    };
    add.checkpoint(
        "with-a-bad-cosignature",
        bad,
        &with(other.cosigned(3, 100)),
        &two_of_three(),
        answer("bad"),
    );
    add.checkpoint(
        "with-a-bad-line-of-the-log",
        bad,
        &with(other.signed(LOG, &log_key())),
        &two_of_three(),
        answer("bad"),
    );
    let unknown = with(other.cosigned(4, 100));
    add.checkpoint(
        "with-a-bad-line-of-no-known-key",
        "\"Which known keys signed\"",
        &unknown,
        &two_of_three(),
        at(1_771_356_500),
    );
    let mut blob = encoding::parse_base64(
        two.cosigned(3, 100)
            .trim_end()
            .rsplit(' ')
            .next()
            .unwrap_or_default(),
    )
    .expect("base64");
    for (name, time) in [("time-0", 0), ("time-of-2-to-63", 1_u64 << 63)] {
        blob[4..12].copy_from_slice(&time.to_be_bytes());
        let line = signature_line(&witness_name(3), &blob);
        add.checkpoint(
            &format!("with-{name}"),
            "\"Cosignatures\": a bad line",
            &with(line),
            &two_of_three(),
            answer("bad"),
        );
    }
    let line = signature_line(&witness_name(3), &blob[..76 - 1]);
    add.checkpoint(
        "with-a-short-cosignature",
        bad,
        &with(line),
        &two_of_three(),
        answer("bad"),
    );
    let unsigned = LogPart {
        signatures: two.signatures[1..].to_vec(),
        ..two.clone()
    };
    add.checkpoint(
        "that-the-log-did-not-sign",
        "\"Judging a note\" 3",
        &note(&unsigned),
        &two_of_three(),
        answer("not_met"),
    );
    let foreign = policy("quorum none\n").replace(
        &log_line(),
        &format!("log {}\n", vkey("example.com/other", 1, &log_key())),
    );
    add.checkpoint(
        "of-no-log-of-the-policy",
        "\"Judging a note\" 2",
        &note(&two),
        &foreign,
        answer("not_met"),
    );
    let none = format!("{}quorum none\n", witness_line(1));
    add.checkpoint(
        "by-a-policy-without-logs",
        "\"Judging a note\": met by no note",
        &note(&two),
        &none,
        answer("not_met"),
    );
}

/// The text of a checkpoint, signed as it is.
fn texts(add: &mut Adder) {
    let good = part().checkpoint;
    let root = good.lines().nth(2).unwrap_or_default().to_owned();
    let none = policy("quorum none\n");
    let empty = encoding::base64(Digest::of(b"").as_bytes());
    let many = "x\n".repeat(16);
    for (name, text, short) in [
        ("with-an-extension", format!("{good}more\n"), "log_alone"),
        ("with-16-extensions", format!("{good}{many}"), "log_alone"),
        ("with-17-extensions", format!("{good}{many}x\n"), "bad"),
        ("of-size-05", good.replacen("\n5\n", "\n05\n", 1), "bad"),
        ("of-size-plus-5", good.replacen("\n5\n", "\n+5\n", 1), "bad"),
        (
            "of-size-2-to-63",
            good.replacen("\n5\n", "\n9223372036854775808\n", 1),
            "bad",
        ),
        (
            "of-size-2-to-63-less-1",
            good.replacen("\n5\n", "\n9223372036854775807\n", 1),
            "log_alone",
        ),
        (
            "of-size-0-with-leaves",
            good.replacen("\n5\n", "\n0\n", 1),
            "bad",
        ),
        ("of-size-0", format!("{LOG}\n0\n{empty}\n"), "log_alone"),
        ("without-root", format!("{LOG}\n5\n"), "bad"),
        (
            "with-a-root-of-31-bytes",
            format!("{LOG}\n5\n{}\n", encoding::base64(&[7; 31])),
            "bad",
        ),
        (
            "with-an-unpadded-root",
            format!("{LOG}\n5\n{}\n", root.trim_end_matches('=')),
            "bad",
        ),
    ] {
        let part = signed_by_the_log(LogPart {
            checkpoint: text,
            ..part()
        });
        add.checkpoint(name, "\"Checkpoints\"", &note(&part), &none, answer(short));
    }
}

fn policies(add: &mut Adder) {
    let good = note(&part().witnessed(&[1, 2]));
    let log = log_line();
    let w1 = witness_line(1);
    let threadseal = format!("log {}\n", vkey("threadseal/1", 1, &log_key()));
    let as_log = format!("log {}\n", vkey("example.com/w", 1, &witness(1)));
    for (name, policy) in [
        ("without-its-last-lf", two_of_three().trim_end().to_owned()),
        ("empty", String::new()),
        ("without-quorum", policy("")),
        ("with-two-quorums", policy("quorum w1\nquorum w1\n")),
        ("with-an-unknown-word", policy("quorum w1\nmore\n")),
        ("with-an-unknown-name", policy("quorum w4\n")),
        ("with-a-name-twice", policy("group w1 any w2\nquorum w1\n")),
        (
            "with-a-group-of-none",
            policy("group none any w1\nquorum w1\n"),
        ),
        (
            "with-a-member-of-two-groups",
            policy("group a any w1\ngroup b any w1\nquorum a\n"),
        ),
        ("with-a-member-twice", policy("group a 1 w1 w1\nquorum a\n")),
        ("with-more-than-all", policy("group a 3 w1 w2\nquorum a\n")),
        ("with-zero", policy("group a 0 w1 w2\nquorum a\n")),
        ("with-01", policy("group a 01 w1 w2\nquorum a\n")),
        (
            "with-a-group-without-members",
            policy("group a any\nquorum none\n"),
        ),
        (
            "with-a-name-behind-its-use",
            format!("{log}group g any w1\n{w1}quorum g\n"),
        ),
        ("with-a-control-character", policy("# \u{1}\nquorum w1\n")),
        ("with-cr", policy("quorum w1\r\n")),
        ("with-a-key-twice", format!("{log}{log}quorum none\n")),
        (
            "with-a-log-s-key-as-a-witness",
            format!("{as_log}{w1}quorum none\n"),
        ),
        (
            "with-a-witness-s-key-as-a-log",
            format!("{}quorum none\n", w1.replace("witness w1", "log")),
        ),
        (
            "with-a-log-of-threadseal",
            format!("{threadseal}quorum none\n"),
        ),
        (
            "with-another-id",
            two_of_three().replacen("log example.com/log+", "log example.com/log+0", 1),
        ),
    ] {
        add.checkpoint(
            &format!("policy-{name}"),
            "\"Policies\": refused",
            &good,
            &policy,
            answer("policy_refused"),
        );
    }
    let time = at(1_771_356_500);
    for (name, policy) in [
        (
            "with-blanks-and-comments",
            format!(
                "# \u{e9}\n\n \t{}",
                two_of_three().replace("group g", "\tgroup\tg ")
            ),
        ),
        (
            "with-addresses",
            two_of_three().replacen("\nwitness", " https://log.example/\nwitness", 1),
        ),
    ] {
        add.checkpoint(
            &format!("policy-{name}"),
            "\"Policies\"",
            &good,
            &policy,
            time.clone(),
        );
    }
}

/// The names of witnesses and groups, addresses and comments are bytes.
fn names(add: &mut Adder) {
    let rule = "\"Policies\": names and addresses are bytes, keys are UTF-8";
    let good = note(&part().witnessed(&[1, 2]));
    let key = |number: u8| vkey(&witness_name(number), 4, &witness(number)).into_bytes();
    let two_named = |one: &[u8], two: &[u8], group: &[u8]| -> Vec<u8> {
        let (first, second) = (key(1), key(2));
        let lines: [&[&[u8]]; 4] = [
            &[b"witness", one, &first],
            &[b"witness", two, &second],
            &[b"group", group, b"all", one, two],
            &[b"quorum", group],
        ];
        let lines = lines.map(|items| [items.join(&b' '), b"\n".to_vec()].concat());
        [log_line().into_bytes(), lines.concat()].concat()
    };
    let time = at(1_771_356_500);
    for (name, one, two, group) in [
        ("no-utf-8", &b"w\xff"[..], &b"w\xfe"[..], &b"\xc3"[..]),
        (
            "an-accent-in-two-ways",
            "\u{e9}".as_bytes(),
            "e\u{301}".as_bytes(),
            b"g",
        ),
        ("both-cases", b"w", b"W", b"g"),
        ("the-words-of-groups", b"all", b"any", b"2"),
        ("the-words-of-lines", b"log", b"witness", b"quorum"),
        ("a-number-sign", b"#w", b"w#", b"##"),
        (
            "blanks-of-unicode",
            "\u{a0}".as_bytes(),
            "\u{3000}".as_bytes(),
            "\u{85}".as_bytes(),
        ),
        ("bytes-from-0x80", b"\x80", b"\x9f", b"\xa0"),
        (
            "a-byte-order-mark",
            "\u{feff}w".as_bytes(),
            b"w",
            "\u{feff}".as_bytes(),
        ),
    ] {
        let policy = two_named(one, two, group);
        add.checkpoint(
            &format!("policy-with-names-of-{name}"),
            rule,
            &good,
            &policy,
            time.clone(),
        );
    }
    let refused = answer("policy_refused");
    for (name, one, two) in [
        ("the-same-bytes", &b"w\xff"[..], &b"w\xff"[..]),
        ("0x7f", b"w\x7f", b"w"),
        ("0x0b", b"w\x0bw", b"w"),
        ("0x00", b"\0", b"w"),
        ("none", b"none", b"w"),
    ] {
        let policy = two_named(one, two, b"g");
        add.checkpoint(
            &format!("policy-with-names-of-{name}"),
            rule,
            &good,
            &policy,
            refused.clone(),
        );
    }
    let mut address = log_line().trim_end().as_bytes().to_vec();
    address.extend_from_slice(b" \xff\xfe\n# \xff\nquorum none\n");
    add.checkpoint(
        "policy-with-an-address-of-no-utf-8",
        rule,
        &good,
        &address,
        answer("log_alone"),
    );
    let mut unread = log_line().into_bytes();
    unread.extend_from_slice(b"log \xff");
    unread.extend_from_slice(&key(3));
    unread.extend_from_slice(b"\nquorum none\n");
    add.checkpoint(
        "policy-with-a-key-of-no-utf-8",
        rule,
        &good,
        &unread,
        refused.clone(),
    );
    for (name, before) in [
        ("a-byte-order-mark", "\u{feff}"),
        ("a-no-break-space", "\u{a0}"),
    ] {
        let policy = format!("{before}{}", policy("quorum none\n"));
        add.checkpoint(
            &format!("policy-behind-{name}"),
            rule,
            &good,
            &policy,
            refused.clone(),
        );
    }
}
