//! Properties of every text: all entry points agree, and accept no more than the oracle does.

use super::super::{arbitrary, jcs};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

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
    if text.is_ascii() {
        assert_eq!(is_valid_ascii(text), parsed.is_ok());
    }

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
    fn every_entry_gives_one_answer(text in arbitrary::mutated()) {
        check_strict(&text);
        check_against_serde(&text);
        check_python(&text);
    }

    #[test]
    fn every_entry_gives_one_answer_wherever_blocks_begin(
        text in arbitrary::mutated(),
        shift in 0usize..200,
    ) {
        let filler = "x\\n\\\\\\\"".chars().cycle().take(shift).collect::<String>();
        // Cutting the filler may leave half an escape. Then no reader may accept it.
        let wrapped = [b"{\"a\":\"", filler.as_bytes(), b"\",\"b\":", &text, b"}"].concat();
        check_strict(&wrapped);
        check_against_serde(&wrapped);
        let blank = [" ".repeat(shift).as_bytes(), &text].concat();
        check_strict(&blank);
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

/// Whether the careful reader is not needed.
fn fast(text: &[u8]) -> bool {
    walk(text, &mut fast::Scan::new(|_, _| {})).is_some()
}

#[test]
fn the_usual_line_takes_the_fast_way() {
    for line in arbitrary::LINES {
        let usual = !line.contains("k17");
        assert_eq!(fast(line.as_bytes()), usual, "{line}");
    }
    for shift in 0..130 {
        let filler = "\\\\".repeat(shift / 2) + &"y".repeat(shift % 2);
        let line = format!("{{\"a\":\"{filler}\\\"\\ud83e\\udd80\",\"b\":[\"\\u0000\"]}}");
        assert!(fast(line.as_bytes()), "{line}");
        let broken = line.replace("\\u0000", "\u{1}");
        assert!(!fast(broken.as_bytes()), "{broken:?}");
        let lone = line.replace("\\udd80", "\\\\udd80");
        assert!(!fast(lone.as_bytes()), "{lone}");
        let lone = line.replace("\\ud83e", "\\\\ud83e");
        assert!(!fast(lone.as_bytes()), "{lone}");
    }
}

#[test]
fn every_cut_and_every_flip_of_a_line_gets_one_answer() {
    for line in arbitrary::LINES {
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
