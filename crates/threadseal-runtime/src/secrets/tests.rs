//! Each spelling of a secret, whole and in pieces, and texts that keep all they have.

use super::*;
use crate::testing::prelude::*;

const KEY: &str = "sk-abc/DEF+ghi=0123\"~xyz";

fn known() -> Secrets {
    let secrets = Secrets::default();
    secrets.learn(&format!("Bearer {KEY}"));
    secrets
}

/// Plain base64, to be compared with.
fn encoded(bytes: &[u8]) -> String {
    let all = base64(bytes, 0);
    let whole = all.replace(r"(?:[+\-]|%(?:25){0,3}2[bB]|\\{1,8}u002[bB])", "+");
    whole.replace(r"(?:\\{0,8}/|_|%(?:25){0,3}2[fF]|\\{1,8}u002[fF])", "/")
}

fn each(spell: impl Fn(u8) -> String) -> String {
    KEY.bytes().map(spell).collect()
}

/// The key in every spelling that a hostile provider was seen to use.
fn spellings() -> Vec<String> {
    let json = Value::String(KEY.to_owned()).to_string();
    let twice = Value::String(json.clone()).to_string();
    let mut all = vec![
        KEY.to_owned(),
        json.clone(),
        json.replace('/', "\\/"),
        twice.clone(),
        twice.replace('/', "\\\\/"),
        each(|byte| format!("\\u{byte:04x}")),
        each(|byte| format!("\\u{byte:04X}")),
        each(|byte| format!("\\\\u{byte:04x}")),
        each(|byte| format!("%{byte:02x}")),
        each(|byte| format!("%{byte:02X}")),
        KEY.replace('/', "%2F")
            .replace('+', "%2B")
            .replace('"', "%22"),
        KEY.replace('/', "%252f").replace('=', "%3D"),
        each(|byte| format!("{byte:02x}")),
        each(|byte| format!("{byte:02X}")),
    ];
    for before in ["", "x", "xB", "xBearer "] {
        let text = encoded(format!("{before}{KEY}??").as_bytes());
        all.push(text.replace('+', "-").replace('/', "_"));
        all.push(text.replace('/', "\\/"));
        all.push(text);
    }
    all
}

// T-TOL-35
#[test]
fn a_known_secret_is_found_in_each_spelling() {
    let secrets = known();
    for spelling in spellings() {
        let text = format!("before {spelling} after");
        let (masked, count) = secrets.mask(&text);
        assert_eq!(count, 1, "{spelling}");
        // At most the characters of base64 that its neighbours share are left.
        assert!(
            masked.len() < "before [secret] after".len() + 20,
            "{spelling}: {masked}"
        );
        masked.has("before ").has("[secret]").has(" after");
    }
    let mut value = json!({KEY: [format!("a {KEY}"), {"deep": KEY}], "n": 1, "b": true});
    assert_eq!(secrets.mask_value(&mut value), 3);
    let expected = json!({"[secret]": ["a [secret]", {"deep": "[secret]"}], "n": 1, "b": true});
    assert_eq!(value, expected);
    secrets.learn("1234567890");
    let mut value = json!([1234567890, 123456789]);
    assert_eq!(secrets.mask_value(&mut value), 1);
    assert_eq!(value, json!(["[secret]", 123456789]));
}

// T-TOL-35
#[test]
fn pieces_of_a_stream_show_no_secret() {
    let secrets = known();
    for spelling in spellings() {
        let text = format!("before {spelling} after{spelling}");
        for size in [1, 3, 1000] {
            let mut stream = secrets.streaming();
            let mut shown = String::new();
            let chars: Vec<char> = text.chars().collect();
            for piece in chars.chunks(size) {
                shown.push_str(&stream.push(&piece.iter().collect::<String>()));
            }
            shown.push_str(&stream.finish());
            assert_eq!(shown, secrets.mask(&text).0, "{spelling} by {size}");
        }
    }
    // A word without an end is not held for ever.
    let mut stream = secrets.streaming();
    let mut shown = String::new();
    for _ in 0..100 {
        shown.push_str(&stream.push(&"a".repeat(100)));
        shown.push_str(&stream.push(KEY));
    }
    assert!(shown.len() > 5000 && !shown.contains("sk-abc"), "{shown}");
    assert!(stream.pending.len() < 3000);
}

#[test]
fn a_secret_is_shown_at_once_where_it_cannot_begin() {
    let mut stream = known().streaming();
    assert_eq!(stream.push("one two"), "one");
    assert_eq!(stream.push(" three"), " two");
    assert_eq!(stream.finish(), " three");
    let secrets = Secrets::default();
    secrets.learn("correct horse battery");
    let mut stream = secrets.streaming();
    assert_eq!(stream.push("correct horse "), "");
    assert_eq!(stream.push("battery staple"), "");
    assert_eq!(stream.finish(), "[secret] staple");
}

#[test]
fn what_is_short_or_unknown_stays_as_it_is() {
    let secrets = Secrets::default();
    assert!(secrets.is_empty());
    assert_eq!(secrets.mask("anything"), ("anything".into(), 0));
    secrets.learn("Bearer short");
    secrets.learn("1234567");
    secrets.learn("");
    assert!(secrets.is_empty());
    secrets
        .learn_address("https://user:pass/word@example.org/?region=eu-central&token=abc%2Fdefgh");
    for (text, masked) in [
        ("pass/word", "[secret]"),
        ("abc%2Fdefgh", "[secret]"),
        ("eu-central", "eu-central"),
        ("user", "user"),
    ] {
        assert_eq!(secrets.mask(text).0, masked);
    }
    assert_eq!(format!("{secrets:?}"), "Secrets(…)");
}

// T-TOL-35
#[test]
fn a_long_secret_is_found_whole_and_in_part() {
    let secrets = Secrets::default();
    let lines: Vec<String> = (0..60).map(|n| format!("{n}+line/of a ÄÖ key")).collect();
    let key = lines.join("\n");
    secrets.learn(&key);
    for text in [key.clone(), Value::String(key.clone()).to_string()] {
        let (masked, count) = secrets.mask(&text);
        assert!(count > 1 && !masked.contains("line"), "{masked}");
    }
}
