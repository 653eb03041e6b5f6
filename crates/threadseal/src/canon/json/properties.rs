//! What must hold for every text: one answer from every entry, and no more than the oracle takes.

use super::super::{arbitrary, jcs};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const LINES: [&str; 6] = [
    r#"{"timestamp": 1739820456.1234567, "thread_id": "agency-kiwi/discover_leads-1739820456", "event_type": "cognition_in", "payload": {"text": "List \"leads\" in C:\\tmp\n\u2028 caf\u00e9 \ud83e\udd80", "role": "user"}}"#,
    r#"{"timestamp": 1739820457.5, "thread_id": "t", "event_type": "checkpoint", "payload": {"turn": 1, "byte_offset": 1069, "hash": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "sig": "AAAA==", "fp": "0123456789abcdef"}}"#,
    r#"{"a":[1,-2,3.5,4e5,-0.0,1E-7,true,false,null,[],{},[[]],{"":{}}]}"#,
    r#"{"k0":0,"k1":1,"k2":2,"k3":3,"k4":4,"k5":5,"k6":6,"k7":7,"k8":8,"k9":9,"k10":10,"k11":11,"k12":12,"k13":13,"k14":14,"k15":15,"k16":16,"k17":17}"#,
    "[\"\u{e9}\u{fffd}\u{1f980}\",\"\\u00e9\",\"\\b\\f\\n\\r\\t\\/\\\\\\\"\",1e308,12345678901234567890]",
    " [ {\"tool\" : \"bash\", \"arguments\" : {\"command\" : \"ls -la /tmp\"}} ,\t1 ]\r\n",
];

/// A spelling of a random document or a real-looking line, with a few bytes changed: mostly by
/// bytes that mean something.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let base = prop_oneof![
        prop::sample::select(&LINES[..]).prop_map(str::to_owned),
        (arbitrary::value(), any::<u64>()).prop_map(|(v, s)| arbitrary::spell(&v, s)),
    ];
    let pieces: Vec<&[u8]> = vec![
        b"\"",
        b"\\",
        b"\\u",
        b"\\ud800",
        b"\\udc00",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"0",
        b"-",
        b".",
        b"e",
        b"9999",
        b"e999",
        b" ",
        b"\n",
        b"\0",
        b"\x1f",
        b"\x7f",
        b"\x80",
        b"\xff",
        b"\xed\xa0\x80",
        b"\xc3\xa9",
        b"n",
        b"t",
        b"NaN",
        b"Infinity",
        b"\"a\":1,",
        b"",
    ];
    let change = (
        any::<prop::sample::Index>(),
        0usize..3,
        prop_oneof![
            prop::sample::select(pieces).prop_map(<[u8]>::to_vec),
            any::<u8>().prop_map(|byte| vec![byte]),
        ],
    );
    (base, prop::collection::vec(change, 0..4)).prop_map(|(text, changes)| {
        let mut bytes = text.into_bytes();
        for (at, removed, inserted) in changes {
            let at = at.index(bytes.len() + 1);
            let to = (at + removed).min(bytes.len());
            bytes.splice(at..to, inserted);
        }
        bytes
    })
}

/// The value as `serde_json` would hold it.
fn as_serde(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => serde_json::from_str(number.literal()).unwrap(),
        Value::String(text) => text.as_str().unwrap().into(),
        Value::Array(elements) => elements.iter().map(as_serde).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.as_str().unwrap().to_owned(), as_serde(value)))
            .collect(),
    }
}

fn check_strict(text: &[u8]) {
    let parsed = parse(text);
    assert_eq!(validate(text), parsed.as_ref().map(drop).map_err(|e| *e));

    let scanned = scan_object(text, |_, _| {});
    match &parsed {
        Ok(Value::Object(members)) => {
            let mut spans = Vec::new();
            scan_object(text, |key, span| {
                spans.push((key.name().into_owned(), parse(&text[span]).unwrap()));
            })
            .unwrap();
            let members = members.iter().map(|(k, v)| (k.as_str().unwrap(), v));
            assert!(members.eq(spans.iter().map(|(k, v)| (k.as_str(), v))));
        }
        _ => assert!(scanned.is_err()),
    }

    match (jcs::canonicalize(text), &parsed) {
        (Ok(canonical), Ok(value)) => assert_eq!(jcs::to_vec(value), Ok(canonical)),
        (Err(error), Ok(_)) => assert_eq!(error.kind, JsonErrorKind::NonFiniteNumber),
        (canonical, Err(_)) => assert!(canonical.is_err()),
    }
}

/// `serde_json` differs where it knowingly does less: it lets names repeat.
fn check_against_serde(text: &[u8]) {
    let theirs: Result<serde_json::Value, _> = serde_json::from_slice(text);
    match (parse(text), theirs) {
        (Ok(ours), Ok(theirs)) => assert_eq!(as_serde(&ours), theirs),
        (Ok(_), Err(refused)) => panic!("serde_json refuses: {refused}"),
        (Err(error), Ok(_)) => assert_eq!(error.kind, JsonErrorKind::DuplicateKey),
        (Err(_), Err(_)) => {}
    }
}

fn check_python(text: &[u8]) {
    let python = parse_python(text);
    match (parse(text), &python) {
        (Ok(strict), Ok(python)) => {
            assert_eq!(strict, python.value);
            assert_eq!(python.irregularities, []);
        }
        (Ok(_), Err(error)) => panic!("Python's rules refuse: {error}"),
        (Err(_), Ok(python)) => assert_ne!(python.irregularities, []),
        (Err(_), Err(_)) => {}
    }
    if let Ok(python) = python {
        no_name_twice(&python.value);
    }
}

fn no_name_twice(value: &Value) {
    match value {
        Value::Array(elements) => elements.iter().for_each(no_name_twice),
        Value::Object(members) => {
            let names: BTreeMap<_, _> = members.iter().map(|(k, v)| (k.as_bytes(), v)).collect();
            assert_eq!(names.len(), members.len());
            members.iter().for_each(|(_, value)| no_name_twice(value));
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn every_entry_gives_one_answer(text in mutated()) {
        check_strict(&text);
        check_against_serde(&text);
        check_python(&text);
    }

    #[test]
    fn any_bytes_are_answered(text in prop::collection::vec(any::<u8>(), 0..64)) {
        check_strict(&text);
        check_against_serde(&text);
        check_python(&text);
    }

    #[test]
    fn every_spelling_of_a_document_reads_as_that_document(
        value in arbitrary::value(),
        seed in any::<u64>(),
    ) {
        let text = arbitrary::spell(&value, seed);
        prop_assert_eq!(as_serde(&parse(text.as_bytes()).unwrap()), value);
        check_python(text.as_bytes());
    }

    #[test]
    fn native_strings_read_back(text in arbitrary::string()) {
        let mut written = Vec::new();
        write_ascii_string(&mut written, &text);
        prop_assert!(written.iter().all(|byte| (0x20..0x7f).contains(byte)));
        let read = parse(&written).unwrap();
        prop_assert_eq!(read.as_str(), Some(&*text));
    }
}

#[test]
fn every_cut_and_every_flip_of_a_line_gets_one_answer() {
    for line in LINES {
        for cut in 0..line.len() {
            check_strict(&line.as_bytes()[..cut]);
            check_against_serde(&line.as_bytes()[..cut]);
        }
        for at in 0..line.len() {
            for bit in 0..8 {
                let mut bytes = line.as_bytes().to_vec();
                bytes[at] ^= 1 << bit;
                check_strict(&bytes);
                check_against_serde(&bytes);
                check_python(&bytes);
            }
        }
    }
}
