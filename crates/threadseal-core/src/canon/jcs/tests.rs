//! RFC 8785 against its own examples and against an independent implementation.

use super::super::arbitrary;
use super::super::json::{self, parse};
use super::*;
use proptest::prelude::*;

fn canonical(text: &str) -> String {
    let bytes = canonicalize(text.as_bytes()).expect("the text is JSON");
    let tree = to_vec(&parse(text.as_bytes()).expect("the text is JSON"));
    assert_eq!(
        tree.as_deref(),
        Ok(&bytes[..]),
        "tree and text differ on {text}"
    );
    String::from_utf8(bytes).expect("canonical text is UTF-8")
}

#[test]
fn doubles_of_rfc_8785_appendix_b_are_printed_as_it_says() {
    for (bits, printed) in [
        (0x0000_0000_0000_0000, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
        (0x4340_0000_0000_0000, "9007199254740992"),
        (0xc340_0000_0000_0000, "-9007199254740992"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
    ] {
        let value = f64::from_bits(bits);
        assert_eq!(canonical(&format!("{value:e}")), printed, "{bits:016x}");
        assert_eq!(
            canonical(printed),
            printed,
            "{printed} is its own canonical form"
        );
    }
}

#[test]
fn the_worked_example_of_rfc_8785_comes_out_as_it_says() {
    let text = "{\n  \"numbers\": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],\n  \"string\": \"\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\\"\\/\",\n  \"literals\": [null, true, false]\n}";
    assert_eq!(
        canonical(text),
        "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\"string\":\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}"
    );
}

#[test]
fn names_sort_by_utf16_code_unit() {
    // RFC 8785 §3.2.3.
    let text = "{\"\\u20ac\":\"Euro Sign\",\"\\r\":\"Carriage Return\",\"\\ufb33\":\"Hebrew Letter Dalet With Dagesh\",\"1\":\"One\",\"\\ud83d\\ude00\":\"Emoji: Grinning Face\",\"\\u0080\":\"Control\",\"\\u00f6\":\"Latin Small Letter O With Diaeresis\"}";
    assert_eq!(
        canonical(text),
        "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",\"\u{f6}\":\"Latin Small Letter O With Diaeresis\",\"\u{20ac}\":\"Euro Sign\",\"\u{1f600}\":\"Emoji: Grinning Face\",\"\u{fb33}\":\"Hebrew Letter Dalet With Dagesh\"}"
    );
}

#[test]
fn integers_come_out_as_their_double() {
    for (text, printed) in [
        ("-0", "0"),
        ("999999999999999", "999999999999999"),
        ("9007199254740993", "9007199254740992"),
        ("123456789012345678901", "123456789012345680000"),
        ("1234567890123456789012", "1.2345678901234568e+21"),
        ("-0.0", "0"),
        ("1.0", "1"),
        ("100e-2", "1"),
        ("1e-400", "0"),
    ] {
        assert_eq!(canonical(text), printed);
    }
    let huge = format!("[{}]", "9".repeat(400));
    assert_eq!(
        canonicalize(huge.as_bytes()),
        Err(JsonError::new(1, JsonErrorKind::NonFiniteNumber))
    );
    assert_eq!(
        to_vec(&parse(huge.as_bytes()).unwrap()),
        Err(Unrepresentable::NonFinite)
    );
}

#[test]
fn what_rfc_8785_cannot_hold_is_named() {
    let lone = json::parse_python(br#"["\ud800"]"#).unwrap().value;
    assert_eq!(to_vec(&lone), Err(Unrepresentable::LoneSurrogate));
    let twice = Value::Object(vec![("a".into(), Value::Null), ("a".into(), Value::Null)]);
    assert_eq!(to_vec(&twice), Err(Unrepresentable::DuplicateKey));
    let nested = br#"{"b":1,"a":{"d":0,"c":1,"\u0064":2}}"#;
    assert_eq!(
        canonicalize(nested),
        Err(JsonError::new(24, JsonErrorKind::DuplicateKey))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn agrees_with_serde_json_canonicalizer(value in arbitrary::value(), style in any::<u64>()) {
        let text = arbitrary::spell(&value, style);
        let theirs = serde_json_canonicalizer::to_vec(&value).unwrap();
        let ours = canonicalize(text.as_bytes()).unwrap();
        prop_assert_eq!(String::from_utf8(ours.clone()), String::from_utf8(theirs));
        prop_assert_eq!(to_vec(&parse(text.as_bytes()).unwrap()), Ok(ours.clone()));
        prop_assert_eq!(canonicalize(&ours), Ok(ours));
    }

    #[test]
    fn a_number_taken_as_it_stands_is_what_its_double_prints(
        literal in "-?(0|[1-9][0-9]{0,15})(\\.[0-9]{1,12}|\\.0{0,7}[1-9]{1,4})?([eE][+-]?[0-9]{1,2})?",
    ) {
        let integer = literal.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        if is_canonical(literal.as_bytes(), integer) {
            let mut printed = Vec::new();
            prop_assert!(write_number(&mut printed, &literal));
            prop_assert_eq!(String::from_utf8(printed), Ok(literal));
        }
    }

    #[test]
    fn utf16_order_is_the_order_of_code_units(a in "\\PC{0,4}", b in "\\PC{0,4}") {
        let units = |text: &str| text.encode_utf16().collect::<Vec<_>>();
        prop_assert_eq!(compare_utf16(a.as_bytes(), b.as_bytes()), units(&a).cmp(&units(&b)));
    }
}
