//! Checkpoints in another spelling, signed as they are spelled (§3, §7 B 1 and 3).

use super::Set;
use super::seals::{Row, last};
use crate::forge::rye_signature;

pub(super) fn add(set: &mut Set) {
    for (name, respell) in lines() {
        let row = named(name, respell);
        last(set, "§3: the whole line has one spelling", &row);
    }
    for row in values() {
        last(set, "§3: spelling of a value", &row);
    }
    for row in ends() {
        last(set, "§7 B 3: the end of the line", &row);
    }
}

/// A row of a spelling that is not the one.
fn named(name: &'static str, set: fn(&mut crate::forge::Seal)) -> Row {
    (name, set, "tampered", "checkpoint_malformed")
}

type Setter = fn(&mut crate::forge::Seal);

fn lines() -> Vec<(&'static str, Setter)> {
    vec![
        ("blank-behind-colon", |s| {
            s.respell = |l| l.replace("\"turn\":", "\"turn\": ");
        }),
        ("blank-before-note", |s| {
            s.respell = |l| l.replace(",\"note\":", ", \"note\":");
        }),
        ("members-swapped", |s| {
            s.respell = |l| swapped(&l, "turn", "byte_offset");
        }),
        ("without-fp", |s| s.respell = |l| without(&l, "fp")),
        ("member-more", |s| {
            s.respell = |l| l.replace("\"seal\":{", "\"x\":1,\"seal\":{");
        }),
        ("member-more-before-note", |s| {
            s.respell = |l| l.replace("\"note\":", "\"x\":1,\"note\":");
        }),
        ("name-escaped", |s| {
            s.respell = |l| l.replace("\"turn\":", "\"tur\\u006e\":");
        }),
        ("turn-of-2-to-64", |s| {
            s.respell = |l| l.replace("\"turn\":2", "\"turn\":18446744073709551616");
        }),
        ("prev-as-string-null", |s| s.prev = "\"null\"".to_owned()),
        ("root-upper-case", |s| s.respell = |l| upper(&l, "root")),
    ]
}

fn values() -> Vec<Row> {
    let rows: [(&str, Setter); 9] = [
        ("hash-upper-case", |s| {
            s.sig = rye_signature(&s.hash);
            s.hash = s.hash.to_uppercase();
        }),
        ("key-upper-case", |s| s.key = s.key.to_uppercase()),
        ("fp-upper-case", |s| s.fp = s.fp.to_uppercase()),
        ("sig-without-padding", |s| {
            s.sig = rye_signature(&s.hash).replace('=', "");
        }),
        ("sig-in-plain-base64", |s| {
            s.sig = plain_base64(&rye_signature(&s.hash));
        }),
        ("sig-with-trailing-bits", |s| {
            s.sig = trailing_bits(&rye_signature(&s.hash));
        }),
        ("ts-one-second-later", |s| s.ts = s.ts.replace("45Z", "46Z")),
        ("ts-with-fraction", |s| s.ts = s.ts.replace('Z', ".001Z")),
        ("timestamp-without-its-ts", |s| {
            s.timestamp = s.timestamp.replace("405.", "406.");
        }),
    ];
    rows.into_iter()
        .map(|(name, set)| named(name, set))
        .collect()
}

fn ends() -> Vec<Row> {
    let rows: [(&str, Setter); 3] = [
        ("blank-at-the-end", |s| {
            s.alter = |l| l.replace("\"}}}", "\" }}}");
        }),
        ("member-behind-note", |s| {
            s.alter = |l| l.replace("\"}}}", "\",\"x\":1}}}");
        }),
        ("note-without-its-last-lf", |s| {
            s.alter = |l| l.replace("\\n\"}}}", "\"}}}");
        }),
    ];
    rows.into_iter()
        .map(|(name, set)| named(name, set))
        .collect()
}

/// `"name":value` and where it is. Values of these members hold no comma.
fn member<'a>(line: &'a str, name: &str) -> &'a str {
    let at = line.find(&format!("\"{name}\":")).expect("a member");
    let end = line[at..].find(',').expect("another member");
    &line[at..at + end]
}

fn swapped(line: &str, first: &str, second: &str) -> String {
    let (first, second) = (member(line, first), member(line, second));
    line.replace(&format!("{first},{second}"), &format!("{second},{first}"))
}

fn without(line: &str, name: &str) -> String {
    line.replace(&format!("{},", member(line, name)), "")
}

fn upper(line: &str, name: &str) -> String {
    let member = member(line, name);
    let (name, value) = member.split_once(':').expect("a member");
    line.replace(member, &format!("{name}:{}", value.to_uppercase()))
}

/// A signature whose plain base64 has `-` or `_` is spelled with `+` and `/`. (Each has one of them.)
fn plain_base64(sig: &str) -> String {
    let plain = sig.replace('-', "+").replace('_', "/");
    if plain == sig {
        sig.replace('A', "+")
    } else {
        plain
    }
}

/// Zero bits are behind the last of 64 bytes: of the last digit the lowest four.
fn trailing_bits(sig: &str) -> String {
    let digits = sig.trim_end_matches('=');
    let (head, last) = digits.split_at(digits.len() - 1);
    let next = char::from(last.as_bytes()[0] + 1);
    format!("{head}{next}==")
}
