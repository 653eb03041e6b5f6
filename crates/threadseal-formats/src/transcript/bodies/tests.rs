//! Detaching and restoring values, and the valid files of bodies.

use super::*;
use crate::transcript::event::Payload;
use proptest::prelude::*;
use std::cell::Cell;
use threadseal_core::canon::json;

const RECORD: RecordId = RecordId::from_bytes([7; 32]);

fn detached(payload: &str) -> Detached {
    let number = Cell::new(0_u8);
    let mut salt = || {
        number.set(number.get() + 1);
        Ok(BodySalt::from_bytes([number.get(); 32]))
    };
    let payload = Payload::parse(payload.as_bytes()).unwrap();
    detach(&RECORD, &payload, &mut salt).unwrap()
}

fn line(payload: &[u8]) -> Vec<u8> {
    let frame = br#"{"timestamp":1771356405.003000,"thread_id":"demo/1","event_type":"x","salt":"03030303030303030303030303030303","payload":"#;
    [&frame[..], payload, b"}"].concat()
}

fn file(entries: &[u8]) -> Vec<u8> {
    [header(&RECORD), entries.to_vec()].concat()
}

fn read(file: &[u8], piece: usize) -> Bodies {
    let mut reader = BodiesReader::new();
    file.chunks(piece.max(1))
        .for_each(|chunk| reader.push(chunk));
    reader.finish()
}

#[test]
fn what_was_said_and_what_is_long_is_detached_and_comes_back() {
    let long = "y".repeat(300);
    let payload = format!(
        r#"{{"role":"user","text":"caf\u00e9","call_id":"c1","n":[1,-2.5e3,true,null],"input":{{"a":["{long}"]}},"other":{{"deep":[{{"z":"{long}"}},""]}},"content":"","x":"{}"}}"#,
        "z".repeat(253)
    );
    let out = detached(&payload);
    let kept = std::str::from_utf8(out.payload.as_bytes()).unwrap();
    assert!(!kept.contains("caf") && !kept.contains("yyy"), "{kept}");
    // 253 characters and two quotes are one byte below the limit for a long value.
    for stays in [
        "\"role\":\"user\"",
        "\"call_id\":\"c1\"",
        "zzz",
        "\"content\":\"\"",
    ] {
        assert!(kept.contains(stays), "{stays}");
    }
    let kinds: Vec<Kind> = commitments(out.payload.as_bytes())
        .unwrap()
        .iter()
        .map(|found| found.kind)
        .collect();
    assert_eq!(kinds, [Kind::String, Kind::Object, Kind::String]);
    let file = file(&out.entries);
    let restorer = Restorer::new(&RECORD, &file);
    let line = line(out.payload.as_bytes());
    assert!(restorer.knows(&line));
    assert_eq!(restorer.restore(&line), self::line(payload.as_bytes()));
    let bodies = read(&file, 7);
    assert_eq!(bodies.held.len(), 3);
    assert_eq!((bodies.malformed, bodies.torn), (None, false));
}

// T-RED-05
#[test]
fn a_caller_cannot_forge_a_commitment() {
    let secret = detached(r#"{"text":"secret"}"#);
    let stolen = std::str::from_utf8(secret.payload.as_bytes()).unwrap();
    // A tool returns a commitment that the record has elsewhere: it becomes a body of its own.
    let answer = format!(r#"{{"x":{}}}"#, &stolen[8..stolen.len() - 1]);
    let out = detached(&answer);
    let found = commitments(out.payload.as_bytes()).unwrap();
    assert_eq!((found.len(), found[0].place.start), (1, 0));
    let file = file(&[secret.entries, out.entries].concat());
    let restored = Restorer::new(&RECORD, &file)
        .restore(&line(out.payload.as_bytes()))
        .into_owned();
    assert_eq!(restored, line(answer.as_bytes()));
    // Inside a string its quotes are escaped.
    let quoted = detached(r#"{"x":"{\"$body\":{\"commitment\":\"00"}"#);
    assert!(quoted.entries.is_empty());
    assert_eq!(commitments(quoted.payload.as_bytes()), Ok(Vec::new()));
    let misspelled = br#"{"a":{"$body":{"commitment":"00"}}}"#;
    assert_eq!(commitments(misspelled), Err(Misspelled));
}

// T-RED-04
#[test]
fn bodies_of_another_record_or_salt_or_text_do_not_fit() {
    let out = detached(r#"{"text":"secret"}"#);
    let good = file(&out.entries);
    let text = String::from_utf8(good.clone()).unwrap();
    for (from, to) in [("secret", "secreT"), ("\"salt\":\"01", "\"salt\":\"02")] {
        let bad = text.replacen(from, to, 1);
        let bodies = read(bad.as_bytes(), 1000);
        assert_eq!((bodies.held.len(), bodies.changed.len()), (0, 1));
        let restorer = Restorer::new(&RECORD, bad.as_bytes());
        let line = line(out.payload.as_bytes());
        assert!(!restorer.knows(&line));
        let shown = restorer.restore(&line).into_owned();
        assert!(
            String::from_utf8(shown)
                .unwrap()
                .contains("the body is missing")
        );
    }
    let other = RecordId::from_bytes([8; 32]);
    let moved = [header(&other), out.entries].concat();
    assert_eq!(read(&moved, 100).changed.len(), 1);
    let restorer = Restorer::new(&other, &moved);
    let found = commitments(out.payload.as_bytes()).unwrap();
    assert_eq!(restorer.text_of(&found[0].digest), None);
}

// T-RED-03
#[test]
fn each_line_of_the_file_has_one_spelling() {
    let out = detached(r#"{"text":"a","output":"b"}"#);
    let good = String::from_utf8(file(&out.entries)).unwrap();
    assert_eq!(read(good.as_bytes(), 1).malformed, None);
    for (from, to, line) in [
        ("threadseal-bodies/1", "threadseal-bodies/2", 1),
        ("{\"commitment\"", "{ \"commitment\"", 2),
        ("\"body\":\"a\"", "\"body\":\"a\" ", 2),
        ("\"body\":\"a\"", "\"body\":\"a\",\"x\":1", 2),
        ("\"body\":\"a\"", "\"body\":\"\u{e9}\"", 2),
        ("\"body\":\"b\"}\n", "\"body\":\"b\"}\n\n", 4),
    ] {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good);
        // Blanks within a body are JSON, but make another body.
        let bodies = read(bad.as_bytes(), 50);
        assert!(
            bodies.malformed == Some(line) || bodies.changed.len() == 1,
            "{bad}"
        );
    }
    let twice = [good.as_bytes(), good.split_once('\n').unwrap().1.as_bytes()].concat();
    assert_eq!(read(&twice, 64).malformed, Some(4));
    let torn = read(&good.as_bytes()[..good.len() - 1], 64);
    assert!(torn.is_torn() && torn.held.len() == 1);
}

#[test]
fn a_redaction_says_all_or_nothing() {
    let key = threadseal_core::key::KeyId::parse_hex(&"ab".repeat(32)).unwrap();
    let redaction = Redaction {
        commitments: vec![Digest::of(b"x")],
        key,
        by: "Ada \u{e9}".to_owned(),
        why: "asked to".to_owned(),
    };
    let payload = redaction.to_payload().unwrap();
    assert!(payload.is_ascii());
    assert_eq!(Redaction::parse(&payload), Some(redaction.clone()));
    for bad in [
        Redaction {
            commitments: Vec::new(),
            ..redaction.clone()
        },
        Redaction {
            by: String::new(),
            ..redaction.clone()
        },
        Redaction {
            why: "w".repeat(5000),
            ..redaction.clone()
        },
    ] {
        assert!(bad.to_payload().is_err(), "{bad:?}");
    }
    let text = String::from_utf8(payload).unwrap();
    let reordered = text.replace("\"by\":", "\"who\":");
    assert_eq!(Redaction::parse(reordered.as_bytes()), None);
}

#[test]
fn names_of_files_lie_beside_the_record() {
    assert_eq!(bodies_name("transcript.jsonl"), "transcript.bodies");
    assert_eq!(bodies_name("run.log"), "run.log.bodies");
}

fn payloads() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        "\\PC{0,12}".prop_map(serde_json::Value::from),
        (200_usize..320).prop_map(|n| "q".repeat(n).into()),
    ];
    let value = leaf.prop_recursive(4, 32, 4, |inner| {
        let name = prop_oneof![
            Just("text".to_owned()),
            Just("input".to_owned()),
            Just("$body".to_owned()),
            "[a-z\"\\\\]{0,4}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::btree_map(name, inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    });
    prop::collection::btree_map("[a-z]{1,8}|text", value, 0..4)
        .prop_map(|map| serde_json::Value::Object(map.into_iter().collect()))
}

proptest! {
    #[test]
    fn any_payload_comes_back_byte_for_byte(value in payloads(), spaced in any::<bool>()) {
        let text = if spaced { value.to_string().replace(',', ", ") } else { value.to_string() };
        let payload = Payload::parse(text.as_bytes()).unwrap();
        let out = detached(std::str::from_utf8(payload.as_bytes()).unwrap());
        prop_assert!(json::validate(out.payload.as_bytes()).is_ok());
        let file = file(&out.entries);
        let restorer = Restorer::new(&RECORD, &file);
        let line = line(out.payload.as_bytes());
        prop_assert!(restorer.knows(&line));
        prop_assert_eq!(restorer.restore(&line).into_owned(), self::line(payload.as_bytes()));
    }

    #[test]
    fn any_bytes_are_read_the_same_in_any_pieces(bytes in prop::collection::vec(any::<u8>(), 0..400), piece in 1_usize..60) {
        let whole = read(&bytes, bytes.len());
        let pieces = read(&bytes, piece);
        prop_assert_eq!(whole.malformed, pieces.malformed);
        prop_assert_eq!(whole.torn, pieces.torn);
    }
}
