//! Behaviour of the reader.

use super::*;

fn strict_kind(text: &[u8]) -> (usize, JsonErrorKind) {
    let error = parse(text).expect_err("the strict rules refuse this");
    assert_eq!(validate(text), Err(error), "{text:?}");
    (error.offset, error.kind)
}

#[test]
fn strict_refuses_what_two_readers_could_read_differently() {
    use JsonErrorKind::*;
    for (text, offset, kind) in [
        (&b"\xef\xbb\xbf{}"[..], 0, ByteOrderMark),
        (b"[\"\xff\"]", 2, InvalidUtf8),
        (b"[\"\xed\xa0\x80\"]", 2, InvalidUtf8),
        (b"", 0, UnexpectedEnd),
        (b"  ", 2, UnexpectedEnd),
        (b"{", 1, UnexpectedEnd),
        (b"[1", 2, UnexpectedEnd),
        (b"\"a", 2, UnexpectedEnd),
        (b"\"\\u12", 1, UnexpectedEnd),
        (b"[1,]", 3, UnexpectedByte),
        (b"{\"a\":1,}", 7, UnexpectedByte),
        (b"{\"a\" 1}", 5, UnexpectedByte),
        (b"{a:1}", 1, UnexpectedByte),
        (b"[1 2]", 3, UnexpectedByte),
        (b"nul", 3, UnexpectedEnd),
        (b"[fals", 5, UnexpectedEnd),
        (b"[fal]", 1, UnexpectedByte),
        (b"\"\\ud83e", 7, UnexpectedEnd),
        (b"\"\\ud83e\\", 7, UnexpectedEnd),
        (b"\"\\ud83e\\ud8", 7, UnexpectedEnd),
        (b"\"\\ud83e\\x", 1, LoneSurrogate),
        (b"\"\\udc00", 1, LoneSurrogate),
        (b"NaN", 0, UnexpectedByte),
        (b"-Infinity", 1, InvalidNumber),
        (b"+1", 0, UnexpectedByte),
        (b"\x0c1", 0, UnexpectedByte),
        (b"01", 1, TrailingData),
        (b"1.", 2, UnexpectedEnd),
        (b"[1.]", 3, InvalidNumber),
        (b"[1e]", 3, InvalidNumber),
        (b"-", 1, UnexpectedEnd),
        (b"1e400", 0, NonFiniteNumber),
        (b"[-1e400]", 1, NonFiniteNumber),
        (b"\"\\x\"", 1, InvalidEscape),
        (b"\"\\u12g4\"", 1, InvalidEscape),
        (b"\"\\u+123\"", 1, InvalidEscape),
        (b"\"a\x00\"", 2, ControlCharacter),
        (b"\"aaaaaaaaaaaaaaa\n\"", 16, ControlCharacter),
        (b"\"\\ud800\"", 1, LoneSurrogate),
        (b"\"\\udc00\\ud800\"", 1, LoneSurrogate),
        (b"\"\\ud83e\\ud83e\\udd80\"", 1, LoneSurrogate),
        (b"{\"a\":1,\"a\":2}", 7, DuplicateKey),
        (b"[{\"a\":{\"b\":1,\"\\u0062\":2}}]", 13, DuplicateKey),
        (b"{\"\\/\":1,\"/\":2}", 8, DuplicateKey),
        (b"{} x", 3, TrailingData),
        (b"1\0", 1, TrailingData),
    ] {
        assert_eq!(strict_kind(text), (offset, kind), "{}", text.escape_ascii());
    }
}

// T-CMD-12
#[test]
fn a_duplicate_among_many_names_is_found_wherever_it_stands() {
    for total in [15, 16, 17, 18, 40] {
        for (first, second) in [(0, 1), (0, total - 1), (total - 2, total - 1), (3, 12)] {
            let mut members: Vec<String> = (0..total).map(|n| format!("\"k{n}\":{n}")).collect();
            let text = format!("{{{}}}", members.join(","));
            assert_eq!(validate(text.as_bytes()), Ok(()));
            members[second] = format!("\"\\u006b{first}\":0");
            let text = format!("{{{}}}", members.join(","));
            let offset = text.find("\"\\u006b").unwrap();
            assert_eq!(
                strict_kind(text.as_bytes()),
                (offset, JsonErrorKind::DuplicateKey)
            );
        }
    }
}

#[test]
fn members_are_handed_over_with_the_span_of_their_value() {
    let text = br#" { "a" : 1.50 , "\u0062":{"x":[1, 2]} ,"c":"\"" } "#;
    let mut seen = Vec::new();
    scan_object(text, |key, span| {
        seen.push((
            key.name().into_owned(),
            text[span].escape_ascii().to_string(),
        ));
        assert_eq!(key.is("b"), key.name() == "b");
    })
    .unwrap();
    let expected = [
        ("a", "1.50"),
        ("b", "{\\\"x\\\":[1, 2]}"),
        ("c", "\\\"\\\\\\\"\\\""),
    ];
    assert_eq!(seen, expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
    let error = scan_object(b" [1]", |_, _| {}).unwrap_err();
    assert_eq!((error.offset, error.kind), (1, JsonErrorKind::NotAnObject));
}

// T-CMD-12
#[test]
fn nesting_is_bounded_and_costs_no_stack() {
    use crate::limits::{MAX_JSON_DEPTH, MAX_PYTHON_JSON_DEPTH};
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(validate(nested(MAX_JSON_DEPTH).as_bytes()), Ok(()));
    let (offset, kind) = strict_kind(nested(MAX_JSON_DEPTH + 1).as_bytes());
    assert_eq!((offset, kind), (MAX_JSON_DEPTH, JsonErrorKind::TooDeep));
    assert!(parse_python(nested(MAX_PYTHON_JSON_DEPTH).as_bytes()).is_ok());
    let error = parse_python("{\"a\":[".repeat(1 << 20).as_bytes()).unwrap_err();
    assert!(error.kind.is_limit());
}

#[test]
fn numbers_keep_their_spelling_up_to_a_bound() {
    use crate::limits::{MAX_NUMBER_BYTES, MAX_PYTHON_INTEGER_DIGITS};
    let value = parse(b"[-0,1.50,1E+2,123456789012345678901234567890]").unwrap();
    let literals: Vec<_> = value.as_array().unwrap().iter().collect();
    let spelled = |n: usize| literals[n].as_number().unwrap().literal();
    assert_eq!(
        (spelled(0), spelled(1), spelled(2), spelled(3)),
        ("-0", "1.50", "1E+2", "123456789012345678901234567890")
    );
    assert_eq!(
        (literals[0].as_u64(), literals[0].as_i64()),
        (Some(0), Some(0))
    );
    assert_eq!(
        (literals[2].as_u64(), literals[2].as_f64()),
        (None, Some(100.0))
    );

    let long = "1".repeat(MAX_NUMBER_BYTES);
    assert!(parse(long.as_bytes()).is_ok());
    assert_eq!(
        strict_kind(format!("{long}1").as_bytes()),
        (0, JsonErrorKind::NumberTooLong)
    );
    let digits = "1".repeat(MAX_PYTHON_INTEGER_DIGITS);
    for (text, accepted) in [
        (format!("-{digits}"), true),
        (format!("{digits}1"), false),
        (format!("-{digits}1"), false),
        (format!("{digits}1.5"), true),
        (format!("0.{digits}1"), true),
    ] {
        assert_eq!(parse_python(text.as_bytes()).is_ok(), accepted);
    }
}

#[test]
fn python_reading_names_each_irregularity() {
    let text = br#"{"a":NaN,"b":"\ud800","a":[1e999,-Infinity],"\u0061":7}"#;
    let document = parse_python(text).unwrap();
    assert_eq!(
        document
            .value
            .as_object()
            .unwrap()
            .iter()
            .map(|(k, _)| k.as_str())
            .collect::<Vec<_>>(),
        [Some("a"), Some("b")]
    );
    assert_eq!(document.value.get("a").and_then(Value::as_u64), Some(7));
    assert_eq!(document.value.get("b").unwrap().as_str(), None);
    use IrregularityKind::*;
    let found: Vec<_> = document
        .irregularities
        .iter()
        .map(|i| (i.kind, i.offset))
        .collect();
    assert_eq!(
        found,
        [
            (NonFinite, 5),
            (LoneSurrogate, 13),
            (DuplicateKey, 22),
            (NonFinite, 27),
            (NonFinite, 33),
            (DuplicateKey, 44)
        ]
    );
}

#[test]
fn native_strings_are_printable_ascii() {
    let mut out = Vec::new();
    write_ascii_string(
        &mut out,
        "a\"\\/\u{8}\u{c}\n\r\t\u{0}\u{1f}\u{7f}\u{80}é\u{2028}\u{1f980}z",
    );
    assert_eq!(
        out.escape_ascii()
            .to_string()
            .replace("\\\\", "\\")
            .replace("\\\"", "\""),
        r#""a\"\\/\b\f\n\r\t\u0000\u001f\u007f\u0080\u00e9\u2028\ud83e\udd80z""#
    );
}
