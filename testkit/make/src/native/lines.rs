//! Lines that are spelled as no native line is, and lines at their bounds (§1).
//!
//! Each wrong line is once sealed, and once the tail behind a final seal.

use super::{ALL, Set, verified, want};
use crate::forge::{Forge, authority};

/// A line as it should be; each row of the tables alters one part of it.
const LINE: &str = "{\"timestamp\":1771356406.000000,\"thread_id\":\"testkit/odd\",\"event_type\":\"note\",\"salt\":\"0a0b0c0d0e0f1011121314151617181a\",\"payload\":{\"text\":\"go\"}}";

/// A name, the part, and what takes its place.
type Row = (&'static str, &'static str, Vec<u8>);

pub(super) fn add(set: &mut Set) {
    let tables = [
        ("§1: frame", frame()),
        ("§1: T", timestamps()),
        ("§1: ID", ids()),
        ("§1: TYPE and SALT", types()),
        ("§1: bytes of a line", bytes()),
        ("§1: PAYLOAD, strict reading", payloads()),
    ];
    for (rule, rows) in tables {
        for (at, row) in rows.iter().enumerate() {
            sealed(set, rule, row);
            // Two of three, for the folder is to stay small.
            if at % 3 != 2 {
                tail(set, rule, row);
            }
        }
    }
    for row in valid() {
        let line = altered(&row);
        let mut forge = Forge::begun();
        forge.line(&line).finish(&authority());
        set.add(
            &format!("line-{}", row.0),
            "§1: allowed",
            &forge,
            verified(),
        );
    }
    empty_lines(set);
    several(set);
}

fn sealed(set: &mut Set, rule: &str, row: &Row) {
    let (name, line) = (row.0, altered(row));
    let mut forge = Forge::begun();
    forge.line(&line).seal(&authority());
    let sealed = want("tampered", &["line_malformed"], 1);
    set.add(&format!("line-{name}"), rule, &forge, sealed);
}

fn tail(set: &mut Set, rule: &str, row: &Row) {
    let (name, line) = (row.0, altered(row));
    let mut forge = Forge::begun();
    forge.finish(&authority()).line(&line);
    let tail = want("unsigned_tail", &["line_malformed", "unsigned_tail"], ALL);
    set.add(&format!("tail-{name}"), rule, &forge, tail);
}

fn altered((name, from, to): &Row) -> Vec<u8> {
    let at = LINE.find(from);
    let at = at.unwrap_or_else(|| panic!("{name}: no such part of the line"));
    let (before, behind) = (&LINE[..at], &LINE[at + from.len()..]);
    [before.as_bytes(), to, behind.as_bytes()].concat()
}

fn rows(rows: &[(&'static str, &'static str, &[u8])]) -> Vec<Row> {
    let rows = rows.iter();
    rows.map(|(name, from, to)| (*name, *from, to.to_vec()))
        .collect()
}

fn frame() -> Vec<Row> {
    rows(&[
        (
            "blank-before-timestamp",
            "{\"timestamp\"",
            b"{ \"timestamp\"",
        ),
        ("blank-behind-colon", "\"timestamp\":", b"\"timestamp\": "),
        ("blank-before-payload", "\"payload\":", b"\"payload\": "),
        ("blank-behind-payload", "\"go\"}}", b"\"go\"} }"),
        ("blank-at-end", "\"go\"}}", b"\"go\"}} "),
        (
            "members-swapped",
            "\"timestamp\":1771356406.000000,\"thread_id\":\"testkit/odd\"",
            b"\"thread_id\":\"testkit/odd\",\"timestamp\":1771356406.000000",
        ),
        (
            "salt-missing",
            "\"salt\":\"0a0b0c0d0e0f1011121314151617181a\",",
            b"",
        ),
        ("member-more-behind", "\"go\"}}", b"\"go\"},\"x\":1}"),
        (
            "member-twice",
            "\"event_type\":",
            b"\"event_type\":\"note\",\"event_type\":",
        ),
        ("name-escaped", "\"salt\":", b"\"sal\\u0074\":"),
    ])
}

fn timestamps() -> Vec<Row> {
    rows(&[
        ("timestamp-without-fraction", "406.000000", b"406"),
        ("timestamp-of-five-digits", "406.000000", b"406.00000"),
        (
            "timestamp-with-leading-zero",
            "1771356406.",
            b"01771356406.",
        ),
        ("timestamp-of-year-10000", "1771356406.", b"253402300800."),
    ])
}

fn ids() -> Vec<Row> {
    let mut long = rows(&[
        ("id-escaped", "\"testkit/odd\"", b"\"\\u0074estkit/odd\""),
        (
            "id-upper-case-escape",
            "\"testkit/odd\"",
            b"\"testkit/\\u00E9\"",
        ),
    ]);
    let id = format!("\"{}\"", "i".repeat(513));
    long.push(("id-of-513-bytes", "\"testkit/odd\"", id.into_bytes()));
    long
}

fn types() -> Vec<Row> {
    let mut rows = rows(&[
        ("type-empty", "\"note\"", b"\"\""),
        ("type-with-blank", "\"note\"", b"\"a note\""),
        ("type-with-backslash", "\"note\"", b"\"no\\\\te\""),
        ("salt-of-31-digits", "181a\"", b"181\""),
        ("salt-upper-case", "181a\"", b"181A\""),
    ]);
    let long = format!("\"{}\"", "t".repeat(129));
    rows.push(("type-of-129-bytes", "\"note\"", long.into_bytes()));
    rows
}

fn bytes() -> Vec<Row> {
    rows(&[
        ("cr-at-end", "\"go\"}}", b"\"go\"}}\r"),
        ("tab-in-payload", "\"go\"}", b"\t\"go\"}"),
        ("delete-in-text", "\"go\"", b"\"g\x7fo\""),
        ("nul-in-text", "\"go\"", b"\"g\0o\""),
        ("utf8-in-text", "\"go\"", "\"gö\"".as_bytes()),
        (
            "byte-order-mark",
            "{\"timestamp\"",
            b"\xef\xbb\xbf{\"timestamp\"",
        ),
    ])
}

fn payloads() -> Vec<Row> {
    let mut rows = rows(&[
        ("payload-array", "{\"text\":\"go\"}", b"[{}]"),
        ("payload-two-values", "\"go\"}", b"\"go\"}{}"),
        ("payload-name-twice", "\"go\"}", b"\"go\",\"text\":\"go\"}"),
        (
            "payload-name-twice-inside",
            "\"go\"}",
            b"[{\"a\":1,\"a\":1}]}",
        ),
        ("payload-lone-surrogate", "\"go\"}", b"\"\\ud83e\"}"),
        ("payload-unknown-escape", "\"go\"}", b"\"\\x41\"}"),
        ("payload-number-01", "\"go\"}", b"01}"),
        ("payload-infinite-number", "\"go\"}", b"1e400}"),
    ]);
    rows.push(("payload-number-of-4097-bytes", "\"go\"}", digits(4097)));
    rows.push(("payload-of-depth-129", "\"go\"}", nested(128)));
    rows
}

/// So many arrays inside the payload, and its end.
fn nested(arrays: usize) -> Vec<u8> {
    format!("{}{}}}", "[".repeat(arrays), "]".repeat(arrays)).into_bytes()
}

fn digits(count: usize) -> Vec<u8> {
    format!("{}}}", "7".repeat(count)).into_bytes()
}

fn valid() -> Vec<Row> {
    let mut rows = rows(&[
        (
            "blanks-inside-payload",
            "{\"text\":\"go\"}",
            b"{  \"text\" : [ 1 , 2 ]  }",
        ),
        (
            "escapes-inside-payload",
            "\"go\"",
            b"\"\\u0067\\/\\u00E9\\ud83e\\udd80\"",
        ),
        (
            "numbers-inside-payload",
            "\"go\"",
            b"[-0,1E5,1.50,123456789012345678901234567890,1e-400]",
        ),
        ("empty-payload", "\"text\":\"go\"", b""),
        (
            "of-the-last-moment",
            "1771356406.000000",
            b"253402300799.999999",
        ),
        (
            "type-of-odd-bytes",
            "\"note\"",
            b"\"#$%&'()*+,-./:;<=>?@[]^_`{|}~\"",
        ),
        (
            "body-of-an-inline-record",
            "\"go\"",
            b"{\"$body\":{\"commitment\":\"0\"}}",
        ),
    ]);
    let long = format!("\"{}\"", "t".repeat(128));
    rows.push(("type-of-128-bytes", "\"note\"", long.into_bytes()));
    rows.push(("payload-of-depth-128", "\"go\"}", nested(127)));
    rows.push(("payload-number-of-4096-bytes", "\"go\"}", digits(4096)));
    rows
}

fn empty_lines(set: &mut Set) {
    for (name, line) in [("nothing", ""), ("an-empty-object", "{}")] {
        let mut forge = Forge::begun();
        forge.turn().line(line.as_bytes()).seal(&authority());
        let sealed = want("tampered", &["line_malformed"], 1);
        set.add(&format!("line-of-{name}"), "§1: frame", &forge, sealed);
        let mut forge = Forge::begun();
        forge.turn().finish(&authority()).line(line.as_bytes());
        let tail = want("unsigned_tail", &["line_malformed", "unsigned_tail"], ALL);
        set.add(&format!("tail-of-{name}"), "§1: frame", &forge, tail);
    }
}

/// Of several faults the first counts; a checkpoint in a wrong frame is no checkpoint.
fn several(set: &mut Set) {
    let tampered = |code| want("tampered", &[code], 1);
    for (name, words, code) in [
        ("line-of-another-thread", "b1 t o s1", "thread_id_changed"),
        ("fault-thread-then-line", "b1 t o j s1", "thread_id_changed"),
        ("fault-line-then-thread", "b1 t j o s1", "line_malformed"),
        ("fault-end-then-line", "b1 t c e j f1", "event_after_end"),
        ("fault-event-then-line", "b1 t m j s1", "event_malformed"),
    ] {
        let rule = "§7 A: of several faults the first counts";
        set.add(name, rule, &super::script::record(words), tampered(code));
    }
    let forge = super::script::record("b1 t c f1 o");
    let tail = want(
        "unsigned_tail",
        &["thread_id_changed", "unsigned_tail"],
        ALL,
    );
    set.add(
        "tail-of-another-thread",
        "§7 A 4: the first fault counts",
        &forge,
        tail,
    );
    checkpoints(set);
}

fn checkpoints(set: &mut Set) {
    let blank: fn(String) -> String = |line| line.replace("\"payload\":{", "\"payload\": {");
    let mut forge = Forge::begun();
    forge
        .turn()
        .seal_with(&authority(), |seal| seal.respell = blank);
    let open = want(
        "unsigned_tail",
        &["end_unproved", "line_malformed", "unsigned_tail"],
        1,
    );
    set.add(
        "checkpoint-in-a-wrong-frame-last",
        "§7 A 3: no checkpoint",
        &forge,
        open,
    );
    let mut forge = Forge::begun();
    forge
        .turn()
        .seal_with(&authority(), |seal| seal.respell = blank);
    forge.turn().seal(&authority());
    let gap = want("tampered", &["line_malformed", "seal_missing"], 1);
    set.add(
        "checkpoint-in-a-wrong-frame",
        "§7 A 3, B 5: fault and gap",
        &forge,
        gap,
    );
}
