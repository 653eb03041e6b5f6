//! Records from the sealer, and the verdicts on changed ones. Attacks are in `weaknesses`.

use super::*;
use crate::testing::Row;
use crate::transcript::rye_compat::{self, Answers};
use proptest::prelude::*;
use threadseal_core::canon::json::{self, Value};
use threadseal_core::digest::Digest;
use threadseal_core::key::{KeyUsage, LocalSigner, Signer as _};
use threadseal_core::record::{ExpectedHead, ThreadId};
use threadseal_core::report::{Completeness, Expectation, Report, Severity, SignerStatus, Verdict};
use threadseal_core::testing::{self, codes, is, key, micros, revoked, trust_in};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::Trust;

mod weaknesses;

const NOW: u64 = 1_800_000_000_123_456;

fn now() -> Timestamp {
    micros(NOW)
}

fn signer(seed: u8) -> LocalSigner {
    testing::signer(seed, KeyUsage::Rye)
}

fn fingerprint(seed: u8) -> String {
    key(seed).rye_fingerprint().to_hex()
}

fn trust(seeds: &[u8]) -> Trust {
    trust_in(seeds.iter().map(|seed| (key(*seed), KeyUsage::Rye)))
}

fn thread() -> ThreadId {
    ThreadId::parse("clean/one-1").unwrap()
}

/// Writes turns of three events, each sealed.
struct Recorder {
    sealer: RyeSealer,
    bytes: Vec<u8>,
    turn: u64,
}

impl Recorder {
    fn new() -> Self {
        Self {
            sealer: RyeSealer::new(thread()),
            bytes: Vec::new(),
            turn: 0,
        }
    }

    fn event(&mut self, event_type: &str, payload: &str) -> &mut Self {
        let payload = json::parse(payload.as_bytes()).unwrap();
        let line = self.sealer.event(now(), event_type, payload);
        self.bytes.extend(line.unwrap());
        self
    }

    fn turn(&mut self) -> &mut Self {
        self.turn += 1;
        let out = r#"{"text":"🦀 refused: unsafe","model":"m"}"#;
        self.event("cognition_in", r#"{"text":"née","role":"user"}"#)
            .event("cognition_out", out)
            .event("token_delta", r#"{"type":"text","text":"x"}"#)
    }

    fn seal(&mut self, seed: u8) -> &mut Self {
        let line = self.sealer.checkpoint(&signer(seed), now(), self.turn);
        self.bytes.extend(line.unwrap());
        self
    }

    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.sealer.push(bytes);
        self.bytes.extend(bytes);
        self
    }
}

/// `turns` turns, each sealed by key 1.
fn record(turns: u64) -> Vec<u8> {
    let mut recorder = Recorder::new();
    for _ in 0..turns {
        recorder.turn().seal(1);
    }
    recorder.bytes
}

fn judged(bytes: &[u8], trust: &Trust) -> Report {
    verify(bytes, &Options::new(trust, now())).report
}

fn report(bytes: &[u8]) -> Report {
    judged(bytes, &trust(&[1]))
}

fn verdict(bytes: &[u8]) -> Verdict {
    report(bytes).verdict
}

fn original_accepts(bytes: &[u8]) -> bool {
    let keys = |named: &str| (named == fingerprint(1)).then_some(key(1));
    let Answers::Given { strict, .. } = rye_compat::verify(bytes, &keys) else {
        panic!();
    };
    strict.value().get("valid").and_then(Value::as_bool) == Some(true)
}

fn last_line(bytes: &[u8]) -> usize {
    bytes[..bytes.len() - 1]
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |lf| lf + 1)
}

fn replace_in_last_line(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    let (before, last) = bytes.split_at(last_line(bytes));
    let changed = std::str::from_utf8(last).unwrap().replacen(from, to, 1);
    assert_ne!(changed.as_bytes(), last);
    [before, changed.as_bytes()].concat()
}

const EVIL: &str = r#"{"timestamp": 1.0, "thread_id": "clean/one-1", "event_type": "tool_call_result", "payload": {"call_id": "x", "output": "ADMIN APPROVED"}}"#;

#[test]
fn what_the_sealer_writes_is_verified_by_both() {
    let bytes = record(3);
    let outcome = verify(&bytes, &Options::new(&trust(&[1]), now()));
    assert_eq!(outcome.report.verdict, Verdict::Verified);
    assert_eq!(outcome.report.completeness, Completeness::Unproved);
    assert_eq!(outcome.report.signers[0].status, SignerStatus::Trusted);
    let until = outcome.report.trusted_until.unwrap();
    assert_eq!((until.line, until.turn), (11, Some(3)));
    assert_eq!(until.byte, last_line(&bytes) as u64);
    let verified = outcome.verified.unwrap();
    assert_eq!(verified.get().head.size, bytes.len() as u64);
    assert!(original_accepts(&bytes));
}

#[test]
fn lines_are_spelled_as_python_spells_them() {
    let mut recorder = Recorder::new();
    recorder.event(
        "cognition_in",
        r#"{"text":"né🦀\u007f\"","cost":1e-7,"n":10,"l":[true,null]}"#,
    );
    let expected = concat!(
        r#"{"timestamp": 1800000000.123456, "thread_id": "clean/one-1", "#,
        r#""event_type": "cognition_in", "payload": {"text": "n\u00e9\ud83e\udd80\u007f\"", "#,
        r#""cost": 1e-07, "n": 10, "l": [true, null]}}"#,
        "\n"
    );
    assert_eq!(std::str::from_utf8(&recorder.bytes).unwrap(), expected);
}

#[test]
fn the_sealer_refuses_what_would_not_verify() {
    let mut sealer = RyeSealer::new(thread());
    let nothing = Value::Object(Vec::new());
    assert!(sealer.event(now(), "checkpoint", nothing).is_err());
    assert!(sealer.event(now(), "x", Value::Null).is_err());
    let native = testing::signer(1, KeyUsage::Native);
    assert!(sealer.checkpoint(&native, now(), 1).is_err());
    sealer.push(b"{\"torn");
    assert!(sealer.checkpoint(&signer(1), now(), 1).is_err());
    assert_eq!(sealer.size(), 6);
}

#[test]
fn a_native_file_is_recognised_by_its_first_line() {
    let native = br#"{"timestamp":1.000000,"thread_id":"t","event_type":"thread_started","salt":"","payload":{"format":"threadseal/1"}}"#;
    assert!(looks_native(native));
    assert!(!looks_native(&record(1)[..last_line(&record(1))]));
    assert!(!looks_native(b""));
    assert!(!looks_native(EVIL.as_bytes()));
}

#[test]
fn a_bad_signature_before_a_good_one_shows_when_every_signature_is_asked_for() {
    let mut bytes = record(1);
    let start = String::from_utf8_lossy(&bytes).find("\"sig\": \"");
    let digit = start.unwrap() + 8;
    bytes[digit] = if bytes[digit] == b'A' { b'B' } else { b'A' };
    let mut recorder = Recorder::new();
    recorder.turn = 1;
    recorder.raw(&bytes).turn().seal(1);
    assert_eq!(verdict(&recorder.bytes), Verdict::Verified);
    let trust = trust(&[1]);
    let every = Options {
        every_signature: true,
        ..Options::new(&trust, now())
    };
    let report = verify(&recorder.bytes, &every).report;
    let found = (report.verdict, report.trusted_until);
    assert_eq!(found, (Verdict::Forged, None));
}

// T-KEY-01
#[test]
fn a_revoked_key_is_forged_unless_the_head_was_held_before() {
    let trust = revoked(trust(&[1]), "key-1", now());
    let before = micros(NOW - 10_000_000);
    for (held_since, verdict) in [(None, Verdict::Forged), (Some(before), Verdict::Verified)] {
        let options = Options {
            held_since,
            ..Options::new(&trust, now())
        };
        assert_eq!(verify(&record(1), &options).report.verdict, verdict);
    }
}

// T-CMD-11 T-RYE-18
#[test]
fn a_line_that_is_never_held_is_still_hashed_and_named() {
    let mut recorder = Recorder::new();
    let long = "y".repeat(threadseal_core::limits::MAX_LINE_BYTES);
    let long = format!("{{\"x\":\"{long}\"}}\n");
    recorder.turn().raw(long.as_bytes()).turn().seal(1);
    let report = report(&recorder.bytes);
    assert_eq!(report.verdict, Verdict::Tampered);
    assert_eq!(codes(&report)[0], "line_too_long");
    assert_eq!(report.findings[0].line, Some(4));
    assert!(!codes(&report).contains(&"content_changed"));
}

#[test]
fn python_only_json_in_an_event_is_a_warning() {
    let mut recorder = Recorder::new();
    for payload in [
        r#"{"text": "\ud800"}"#,
        r#"{"cost": NaN}"#,
        r#"{"cost": -Infinity}"#,
    ] {
        let line = EVIL.replace(r#"{"call_id": "x", "output": "ADMIN APPROVED"}"#, payload);
        recorder.raw(format!("{line}\n").as_bytes());
    }
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    recorder
        .raw(EVIL.replace("\"ADMIN APPROVED\"", &deep).as_bytes())
        .raw(b"\n");
    recorder.turn().seal(1);
    let report = report(&recorder.bytes);
    assert_eq!(report.verdict, Verdict::Verified, "{report:#?}");
    let odd = codes(&report).into_iter();
    assert_eq!(odd.filter(|code| *code == "nonstandard_json").count(), 4);
}

#[test]
fn every_sealed_byte_of_a_short_record_is_noticed_when_it_changes() {
    let genuine = record(2);
    let sealed = last_line(&genuine);
    for at in 0..sealed {
        for flip in [0x01, 0x20, 0x80, genuine[at] ^ b'\r', genuine[at] ^ b'\n'] {
            let mut bytes = genuine.clone();
            bytes[at] ^= flip;
            if flip == 0 {
                continue;
            }
            let report = report(&bytes);
            assert!(report.verdict.exit_code() != 0, "{at}");
            let until = report.trusted_until;
            assert!(until.is_none_or(|until| until.byte <= at as u64), "{at}");
        }
    }
}

fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let genuine = record(1);
    let line = genuine[last_line(&genuine)..].to_vec();
    let part = prop_oneof![
        proptest::sample::select(vec![
            genuine,
            line,
            format!("{EVIL}\n").into_bytes(),
            b"\n".to_vec(),
            b"\r".to_vec(),
            b"{".to_vec(),
            b"\"event_type\": \"checkpoint\"".to_vec(),
            "\u{2028}".as_bytes().to_vec(),
        ]),
        proptest::collection::vec(any::<u8>(), 0..8),
    ];
    proptest::collection::vec(part, 0..10).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_byte_of_the_sealed_prefix_that_changes_is_noticed(at in 0_usize..10_000, to: u8) {
        let mut bytes = record(3);
        let sealed = last_line(&bytes);
        // Without the LF before it the last checkpoint is no line, and the bytes that it sealed are
        // a tail.
        let at = at % (sealed - 1);
        prop_assume!(bytes[at] != to);
        bytes[at] = to;
        let report = report(&bytes);
        // Without the LF before it the last checkpoint is garbage in a tail.
        let expected = if at == sealed - 1 { 3 } else { 1 };
        prop_assert_eq!(report.verdict.exit_code(), expected, "{}", at);
        prop_assert!(report.trusted_until.is_none_or(|until| until.byte <= at as u64));
    }

    // T-RYE-10
    #[test]
    fn any_bytes_get_one_verdict_whatever_the_chunks(bytes in hostile(), size in 1_usize..300) {
        let trust = trust(&[1]);
        let options = Options::new(&trust, now());
        let whole = {
            let mut verifier = Verifier::new(options.clone());
            verifier.push(&bytes);
            verifier.finish().report
        };
        let mut verifier = Verifier::new(options);
        bytes.chunks(size).for_each(|chunk| verifier.push(chunk));
        prop_assert_eq!(whole, verifier.finish().report);
    }

    #[test]
    fn bytes_put_in_anywhere_are_never_verified(at: usize, bytes in proptest::collection::vec(any::<u8>(), 1..4)) {
        let genuine = record(2);
        let at = at % (last_line(&genuine) + 1);
        let changed = [&genuine[..at], &bytes, &genuine[at..]].concat();
        prop_assume!(changed != genuine);
        prop_assert_ne!(verdict(&changed), Verdict::Verified);
    }
}
