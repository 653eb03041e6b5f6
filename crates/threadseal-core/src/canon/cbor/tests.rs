//! Known encodings, refused encodings, and properties of all encodings.

use super::*;
use crate::canon::arbitrary;
use crate::canon::{jcs, json};
use crate::encoding::hex;
use proptest::prelude::*;

fn encode(text: &str) -> String {
    hex(&to_vec(&json::parse(text.as_bytes()).unwrap()).unwrap())
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks_exact(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.map(byte).collect()
}

#[test]
fn the_examples_of_rfc_8949_appendix_a_are_met() {
    let examples = [
        ("0", "00"),
        ("23", "17"),
        ("24", "1818"),
        ("1000", "1903e8"),
        ("1000000000000", "1b000000e8d4a51000"),
        ("-1", "20"),
        ("-1000", "3903e7"),
        ("1.1", "fb3ff199999999999a"),
        ("1.5", "f93e00"),
        ("3.4028234663852886e+38", "fa7f7fffff"),
        ("1.0e+300", "fb7e37e43c8800759c"),
        ("5.960464477539063e-8", "f90001"),
        ("0.00006103515625", "f90400"),
        ("-4.1", "fbc010666666666666"),
        ("false", "f4"),
        ("true", "f5"),
        ("null", "f6"),
        (r#""""#, "60"),
        (r#""\"\\""#, "62225c"),
        (r#""\u6c34""#, "63e6b0b4"),
        (r#""\ud800\udd51""#, "64f0908591"),
        ("[1,[2,3],[4,5]]", "8301820203820405"),
        ("{}", "a0"),
        (r#"{"a":1,"b":[2,3]}"#, "a26161016162820203"),
    ];
    for (text, expected) in examples {
        assert_eq!(encode(text), expected, "{text}");
        let value = parse(&unhex(expected)).unwrap();
        let text = jcs::canonicalize(text.as_bytes()).unwrap();
        assert_eq!(jcs::to_vec(&value).unwrap(), text);
    }
}

#[test]
fn two_spellings_of_one_number_are_one_encoding() {
    for (one, other) in [
        ("1", "1.0"),
        ("100", "1e2"),
        ("0", "-0.0"),
        ("1700000000000000000", "1700000000000000001"),
        ("18446744073709551616", "18446744073709551617"),
        ("0.5", "5e-1"),
    ] {
        assert_eq!(encode(one), encode(other));
    }
}

#[test]
fn integers_end_where_those_of_cbor_do() {
    assert_eq!(encode("18446744073709549568"), "1bfffffffffffff800");
    assert_eq!(encode("18446744073709551616"), "fa5f800000");
    assert_eq!(encode("-18446744073709551616"), "3bffffffffffffffff");
    assert_eq!(encode("-36893488147419103232"), "fae0000000");
}

#[test]
fn keys_ascend_by_their_encoded_bytes() {
    // RFC 8949 §4.2.1: a shorter key goes first, then the bytes decide.
    assert_eq!(
        encode(r#"{"aa":1,"b":2,"":3,"B":4}"#),
        "a46003614204616202626161 01".replace(' ', "")
    );
}

#[test]
fn every_other_encoding_of_a_value_is_refused() {
    use CborErrorKind as Kind;
    let deep = "81".repeat(MAX_JSON_DEPTH + 1) + "00";
    let cases = [
        ("", Kind::UnexpectedEnd),
        ("18", Kind::UnexpectedEnd),
        ("1817", Kind::NotShortest),
        ("1900ff", Kind::NotShortest),
        ("1a0000ffff", Kind::NotShortest),
        ("1b00000000ffffffff", Kind::NotShortest),
        ("3817", Kind::NotShortest),
        ("780161", Kind::NotShortest),
        ("980100", Kind::NotShortest),
        ("b801616100", Kind::NotShortest),
        ("a178016100", Kind::NotShortest),
        ("1c", Kind::NotShortest),
        ("fc", Kind::NotShortest),
        ("1f", Kind::IndefiniteLength),
        ("7f6161ff", Kind::IndefiniteLength),
        ("9fff", Kind::IndefiniteLength),
        ("bfff", Kind::IndefiniteLength),
        ("ff", Kind::IndefiniteLength),
        ("1b0020000000000001", Kind::NotADouble),
        ("3b0020000000000000", Kind::NotADouble),
        ("f90000", Kind::FloatNotShortest),
        ("f98000", Kind::FloatNotShortest),
        ("f93c00", Kind::FloatNotShortest),
        ("fa3fc00000", Kind::FloatNotShortest),
        ("fb3ff8000000000000", Kind::FloatNotShortest),
        ("fb43e0000000000000", Kind::FloatNotShortest),
        ("f97e00", Kind::NonFiniteNumber),
        ("f97c00", Kind::NonFiniteNumber),
        ("fb7ff0000000000000", Kind::NonFiniteNumber),
        ("fb7ff8000000000000", Kind::NonFiniteNumber),
        ("40", Kind::NotJson),
        ("c000", Kind::NotJson),
        ("d9d9f700", Kind::NotJson),
        ("f7", Kind::NotJson),
        ("e0", Kind::NotJson),
        ("f814", Kind::NotJson),
        ("f8ff", Kind::NotJson),
        ("a10000", Kind::KeyNotText),
        ("a2616200616100", Kind::KeyOrder),
        ("a2616100616100", Kind::KeyOrder),
        ("a262616100616200", Kind::KeyOrder),
        ("61ff", Kind::InvalidUtf8),
        ("63eda080", Kind::InvalidUtf8),
        ("0000", Kind::TrailingData),
        ("7bffffffffffffffff", Kind::UnexpectedEnd),
        ("9bffffffffffffffff", Kind::UnexpectedEnd),
        ("bbffffffffffffffff", Kind::UnexpectedEnd),
        ("9affffffff00", Kind::UnexpectedEnd),
        // A length beyond the end hides no other fault before the end.
        ("63e6b0", Kind::UnexpectedEnd),
        ("79ffffff", Kind::InvalidUtf8),
        ("9affffffff1817", Kind::NotShortest),
        ("baffffffff00", Kind::KeyNotText),
        (&deep, Kind::TooDeep),
    ];
    for (hex, kind) in cases {
        assert_eq!(parse(&unhex(hex)).unwrap_err().kind, kind, "{hex}");
    }
    let many = [vec![0x9a, 0, 0x10, 0, 0], vec![0; MAX_CBOR_VALUES]].concat();
    assert_eq!(parse(&many).unwrap_err().kind, Kind::TooManyValues);
}

#[test]
fn what_json_cannot_say_has_no_encoding() {
    let encode = |value: &Value| to_vec(value).unwrap_err();
    let number = Value::Number(Number::parse(&"9".repeat(400)).unwrap());
    assert_eq!(encode(&number), Unrepresentable::NonFinite);
    let lone = json::parse_python(br#""\ud800""#).unwrap().value;
    assert_eq!(encode(&lone), Unrepresentable::LoneSurrogate);
    let twice = Value::Object(vec![("a".into(), Value::Null), ("a".into(), Value::Null)]);
    assert_eq!(encode(&twice), Unrepresentable::DuplicateKey);
}

proptest! {
    #[test]
    fn a_value_comes_back_and_no_other_bytes_say_it(value in arbitrary::value(), at: usize, byte: u8) {
        let value = json::parse(value.to_string().as_bytes()).unwrap();
        let Ok(bytes) = to_vec(&value) else {
            return Ok(());
        };
        let read = parse(&bytes).unwrap();
        prop_assert_eq!(jcs::to_vec(&read), jcs::to_vec(&value));
        let mut changed = bytes.clone();
        changed[at % bytes.len()] = byte;
        if let Ok(other) = parse(&changed) {
            // One encoding for each value: `to_vec` writes back every text that `parse`
            // accepts.
            prop_assert_eq!(to_vec(&other).unwrap(), changed);
        }
    }

    #[test]
    fn any_bytes_are_read_without_panic_and_only_if_they_would_be_written(bytes: Vec<u8>) {
        if let Ok(value) = parse(&bytes) {
            prop_assert_eq!(to_vec(&value).unwrap(), bytes);
        }
    }

    #[test]
    fn the_end_of_an_item_is_found_whatever_the_pieces(value in arbitrary::value(), cut in 1_usize..9) {
        let value = json::parse(value.to_string().as_bytes()).unwrap();
        let Ok(bytes) = to_vec(&value) else {
            return Ok(());
        };
        let followed = [bytes.as_slice(), &[0xff; 4]].concat();
        let (mut skipper, mut at) = (Skipper::new(), 0);
        for piece in followed.chunks(cut) {
            match skipper.push(piece) {
                Skipped::More => at += piece.len(),
                Skipped::Done(rest) => {
                    at += rest;
                    break;
                }
                Skipped::Bad => prop_assert!(false, "a good item"),
            }
        }
        prop_assert_eq!(at, bytes.len());
    }
}
