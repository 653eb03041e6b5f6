//! Turns, seals and the specification's `verify`, on small chains.

mod quick;
mod verdicts;
mod weaknesses;

use super::*;
use threadseal_core::canon::json::{self, Value};
use threadseal_core::canon::{cbor, jcs};
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, PublicKey, Signer as _};

fn turn(number: u64, text: &str) -> Turn {
    let json = format!(
        r#"{{"version":"scroll/0.1","turn":{number},"role":"user","model":{{"vendor":"v","id":"m"}},"params":{{"temperature":1.0,"top_p":1}},"messages":[{{"role":"user","content":"{text}"}}],"timestamp_ns":1700000000000000000}}"#
    );
    deserialize(json.as_bytes()).unwrap()
}

fn signer(seed: u8) -> LocalSigner {
    LocalSigner::new(PrivateKey::from_seed([seed; 32]), KeyUsage::Scroll)
}

fn key(seed: u8) -> PublicKey {
    *signer(seed).public_key()
}

fn chain(length: u64, seed: Option<u8>) -> Vec<Value> {
    let signer = seed.map(signer);
    let signer = signer
        .as_ref()
        .map(|signer| signer as &dyn threadseal_core::key::Signer);
    let sealed = seal_chain((0..length).map(|number| turn(number, "hi")), signer).unwrap();
    sealed.into_iter().map(SealedTurn::into_value).collect()
}

/// Replaces the member `name` of one turn, or removes it.
fn edit(chain: &mut [Value], index: usize, name: &str, value: Option<Value>) {
    let Value::Object(members) = &mut chain[index] else {
        panic!("a turn is an object");
    };
    members.retain(|(key, _)| key != name);
    members.extend(value.map(|value| (name.into(), value)));
}

fn reasons(result: &VerifyResult) -> Vec<(u64, Reason)> {
    let pair = |failure: &Failure| (failure.turn, failure.reason);
    result.failures.iter().map(pair).collect()
}

#[test]
fn a_turn_comes_back_from_its_canonical_text() {
    let turn = turn(0, "h\\u00e9");
    let text = serialize(&turn);
    assert_eq!(deserialize(&text).unwrap(), turn);
    assert_eq!(serialize(&deserialize(&text).unwrap()), text);
    assert!(text.starts_with(br#"{"messages":[{"content":"h"#));
}

#[test]
fn a_sealed_chain_verifies_with_and_without_its_key() {
    for seed in [None, Some(1)] {
        let chain = chain(3, seed);
        assert!(verify(&chain, None).ok());
        assert_eq!(verify(&chain, Some(&key(1))).ok(), seed.is_some());
        assert!(verify_as_v01(&chain, Some(&key(1))).ok());
    }
}

#[test]
fn an_edit_fails_in_its_own_turn_only() {
    let mut chain = chain(3, Some(1));
    edit(&mut chain, 1, "role", Some("system".into()));
    let expected = [(1, Reason::BadHash)];
    assert_eq!(reasons(&verify(&chain, Some(&key(1)))), expected);
    assert_eq!(reasons(&verify_as_v01(&chain, Some(&key(1)))), expected);
}

#[test]
fn a_violation_leaves_the_next_turn_without_a_predecessor() {
    let mut chain = chain(3, None);
    edit(&mut chain, 1, "prev_hash", Some(Value::Null));
    let expected = [(1, Reason::SchemaViolation), (2, Reason::BrokenChain)];
    assert_eq!(reasons(&verify(&chain, None)), expected);
    assert_eq!(reasons(&verify_as_v01(&chain, None)), expected);
}

#[test]
fn a_sealed_turn_is_not_sealed_again() {
    let chain = chain(1, None);
    let again = Turn::from_value(chain[0].clone());
    assert_eq!(again.unwrap_err().problem, "is sealed already");
}

#[test]
fn a_turn_with_another_predecessor_is_not_sealed() {
    let first = seal(turn(0, "a"), None, None).unwrap();
    let other = seal(turn(0, "b"), None, None).unwrap();
    let mut members = turn(1, "c").into_value();
    let Value::Object(list) = &mut members else {
        panic!("a turn is an object");
    };
    list.push(("prev_hash".into(), hash_text(&first.hash()).into()));
    let named = Turn::from_value(members).unwrap();
    assert!(seal(named.clone(), Some(other.hash()), None).is_err());
    assert!(seal(named.clone(), None, None).is_err());
    assert!(seal(named, Some(first.hash()), None).is_ok());
}

#[test]
fn only_a_key_for_scrolls_signs_turns() {
    for usage in KeyUsage::ALL {
        let signer = LocalSigner::new(PrivateKey::from_seed([1; 32]), usage);
        let sealed = seal(turn(0, "a"), None, Some(&signer));
        assert_eq!(sealed.is_ok(), usage == KeyUsage::Scroll, "{usage}");
    }
}

#[test]
fn what_the_peers_let_through_violates_the_schema() {
    let cases = [
        ("turn", "true", "/turn"),
        ("turn", "-1", "/turn"),
        ("turn", "0.5", "/turn"),
        ("turn", "1e300", "/turn"),
        ("timestamp_ns", "1e21", "/timestamp_ns"),
        ("timestamp_ns", "true", "/timestamp_ns"),
        (
            "params",
            r#"{"temperature":true,"top_p":1}"#,
            "/params/temperature",
        ),
        (
            "params",
            r#"{"temperature":1,"top_p":null}"#,
            "/params/top_p",
        ),
        (
            "params",
            r#"{"temperature":1,"top_p":1,"seed":true}"#,
            "/params/seed",
        ),
        (
            "params",
            r#"{"temperature":1,"top_p":1,"seed":1e19}"#,
            "/params/seed",
        ),
        ("model", r#"{"vendor":1,"id":"m"}"#, "/model/vendor"),
        ("model", r#"{"vendor":"","id":"m"}"#, "/model/vendor"),
        (
            "model",
            r#"{"vendor":"v","id":"m","fingerprint":null}"#,
            "/model/fingerprint",
        ),
        ("messages", r#"{"0":{}}"#, "/messages"),
        (
            "messages",
            r#"[{"role":"user","content":null}]"#,
            "/messages/0/content",
        ),
        ("tool_calls", "null", "/tool_calls"),
        (
            "tool_calls",
            r#"[{"id":"a","name":"b","args_hash":"x"}]"#,
            "/tool_calls/0/args_hash",
        ),
        (
            "tool_results",
            r#"[{"id":"a","status":"fine"}]"#,
            "/tool_results/0/status",
        ),
        ("prev_hash", "null", "/prev_hash"),
        ("sig", "null", "/sig"),
        (
            "sig",
            r#"{"alg":"ed25519","pubkey":"","sig":""}"#,
            "/sig/pubkey",
        ),
        ("version", r#""scroll/0.2""#, "/version"),
        ("role", r#""developer""#, "/role"),
    ];
    for (name, value, at) in cases {
        let mut chain = chain(1, None);
        let value = json::parse(value.as_bytes()).unwrap();
        edit(&mut chain, 0, name, Some(value));
        let violation = SealedTurn::from_value(chain.remove(0)).unwrap_err();
        assert_eq!(violation.at, at);
    }
}

#[test]
fn a_number_counts_as_the_double_that_it_stands_for() {
    let mut value = turn(0, "a").into_value();
    let integral = |text: &str| json::parse(text.as_bytes()).unwrap();
    edit(
        std::slice::from_mut(&mut value),
        0,
        "turn",
        Some(integral("1e0")),
    );
    edit(
        std::slice::from_mut(&mut value),
        0,
        "timestamp_ns",
        Some(integral("1700000000000000001")),
    );
    let turn = Turn::from_value(value).unwrap();
    assert_eq!(turn.number(), 1);
    assert_eq!(turn.timestamp_ns(), 1_700_000_000_000_000_000);
}

#[test]
fn unknown_members_are_hashed() {
    let mut chain = chain(1, None);
    edit(&mut chain, 0, "extra", Some("x".into()));
    assert_eq!(reasons(&verify(&chain, None)), [(0, Reason::BadHash)]);
}
