//! Rye's own answers: recorded ones, its crashes, and bounds on hostile files.

use super::*;
use proptest::prelude::*;

fn testkit(name: &str) -> String {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../testkit/transcripts/rye/"
    );
    std::fs::read_to_string(format!("{path}{name}")).unwrap()
}

fn trusted() -> Vec<(String, PublicKey)> {
    ["keys/self_public.pem", "keys/colleague_public.pem"]
        .map(|name| PublicKey::from_pem(&testkit(name)).unwrap())
        .map(|key| (key.rye_fingerprint().to_hex(), key))
        .to_vec()
}

fn look_up<'k>(keys: &'k [(String, PublicKey)]) -> impl Fn(&str) -> Option<PublicKey> + 'k {
    |fingerprint| {
        keys.iter()
            .find(|(known, _)| known == fingerprint)
            .map(|(_, key)| *key)
    }
}

/// `compat.jsonl` has the recorded answers of Rye's package: `why`, `base64`, `strict`, `lenient`.
#[test]
fn every_recorded_answer_of_the_original_is_given() {
    let keys = trusted();
    for line in testkit("compat.jsonl").lines() {
        let case = json::parse_python(line.as_bytes()).unwrap().value;
        let bytes = case.get("base64").and_then(Value::as_str).unwrap();
        let bytes = threadseal_core::encoding::parse_base64(bytes).unwrap();
        let Answers::Given { strict, lenient } = verify(&bytes, &look_up(&keys)) else {
            panic!("{line}");
        };
        let why = case.get("why").unwrap();
        assert_eq!(Some(strict.value()), case.get("strict"), "{why:?}");
        assert_eq!(Some(lenient.value()), case.get("lenient"), "{why:?}");
    }
}

#[test]
fn the_answer_is_printed_as_python_prints_it() {
    let Answers::Given { strict, .. } = verify_missing() else {
        panic!();
    };
    assert_eq!(
        strict.to_json(),
        r#"{"valid": true, "checkpoints": 0, "unsigned": true}"#
    );
}

#[test]
fn where_the_answer_depends_on_the_surroundings_there_is_none() {
    let nested = [b"[".repeat(600), b"]".repeat(600)].concat();
    let none = |_: &str| None;
    assert!(matches!(verify(&nested, &none), Answers::Omitted(_)));
    let long = vec![b'x'; threadseal_core::limits::MAX_LINE_BYTES + 2];
    assert!(matches!(verify(&long, &none), Answers::Omitted(_)));
    let digest = Digest::of(b"");
    let fingerprint = "f".repeat(300);
    let text = format!(
        r#"{{"event_type":"checkpoint","payload":{{"byte_offset":0,"hash":"{digest}","fp":"{fingerprint}"}}}}"#
    );
    assert!(matches!(
        verify(text.as_bytes(), &none),
        Answers::Omitted(_)
    ));
}

#[test]
fn an_integer_of_many_digits_crashes_the_original() {
    let text = format!("{{\"a\":-{}}}\n", "1".repeat(4301));
    let Answers::Given { strict, .. } = verify(text.as_bytes(), &|_| None) else {
        panic!();
    };
    let crash = strict.value().get("crash").and_then(Value::as_str).unwrap();
    assert!(
        crash.starts_with("ValueError: Exceeds the limit (4300 digits)"),
        "{crash}"
    );
    assert!(crash.contains("value has 4301 digits;"), "{crash}");
}

// T-RYE-18
#[test]
fn checkpoints_that_wait_for_a_second_pass_are_bounded() {
    let filler = "x".repeat(1 << 20);
    let line = format!(
        r#"{{"event_type":"checkpoint","payload":{{"byte_offset":-1,"hash":"","x":"{filler}"}}}}"#
    );
    let keys = |_: &str| None;
    let mut scanner = Scanner::new(&keys);
    for _ in 0..20 {
        scanner.push(line.as_bytes());
        scanner.push(b"\n");
    }
    assert!(scanner.state.deferred.len() <= 16);
}

/// Lines that Rye would split differently, and bytes of any kind.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        4 => proptest::sample::select(vec![
            &b"{"[..], b"}", b"\"event_type\":\"checkpoint\"", b",", b":", b"\"payload\":", b"[", b"]",
            b"\"byte_offset\":", b"0", b"-1", b"\n", b"\r", b"\x0b", b"\x85", b"\xe2\x80\xa8", b"null",
            b"{\"event_type\":\"checkpoint\",\"payload\":{\"byte_offset\":0,\"hash\":\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\",\"fp\":\"x\",\"turn\":1}}",
            b"{\"event_type\":\"checkpoint\",\"payload\":{\"byte_offset\":-3,\"hash\":\"\"}}\n",
        ])
        .prop_map(<[u8]>::to_vec),
        1 => proptest::collection::vec(any::<u8>(), 0..6),
    ];
    proptest::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn any_bytes_get_an_answer_and_chunk_borders_change_nothing(
        bytes in hostile(),
        size in 1_usize..40,
    ) {
        let keys = |_: &str| None;
        let whole = verify(&bytes, &keys);
        let mut scanner = Scanner::new(&keys);
        bytes.chunks(size).for_each(|chunk| scanner.push(chunk));
        let pieces = match scanner.finish() {
            Pass::Done(answers) => answers,
            Pass::Again(mut second) => {
                bytes.chunks(size).for_each(|chunk| second.push(chunk));
                second.finish()
            }
        };
        prop_assert_eq!(whole, pieces);
    }
}
