//! Turns, seals and the specification's `verify`, on small chains.

mod quick;
mod verdicts;
mod weaknesses;

use super::*;
use crate::testing::Row;
use threadseal_core::canon::json::{self, Value};
use threadseal_core::canon::{cbor, jcs};
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::key::{KeyUsage, LocalSigner, Signer};
use threadseal_core::record::{ExpectedHead, Head, RecordId};
use threadseal_core::report::Verdict::{
    self, Consistent, Foreign, Forged, Forked, Malformed, Open, Partial, RolledBack, Tampered,
    Truncated, UnknownSigner, Unsigned, UnsignedTail, Verified,
};
use threadseal_core::report::{Completeness, Expectation};
use threadseal_core::testing::{self, key, now, trust_in};
use threadseal_core::trust::Trust;

fn turn(number: u64, text: &str) -> Turn {
    let json = format!(
        r#"{{"version":"scroll/0.1","turn":{number},"role":"user","model":{{"vendor":"v","id":"m"}},"params":{{"temperature":1.0,"top_p":1}},"messages":[{{"role":"user","content":"{text}"}}],"timestamp_ns":1700000000000000000}}"#
    );
    deserialize(json.as_bytes()).unwrap()
}

fn signer(seed: u8) -> LocalSigner {
    testing::signer(seed, KeyUsage::Scroll)
}

fn chain(length: u64, seed: Option<u8>) -> Vec<Value> {
    chain_of((0..length).map(|number| turn(number, "hi")), seed)
}

fn chain_of(turns: impl IntoIterator<Item = Turn>, seed: Option<u8>) -> Vec<Value> {
    let signer = seed.map(signer);
    let signer = signer.as_ref().map(|signer| signer as &dyn Signer);
    let sealed = seal_chain(turns, signer).unwrap();
    sealed.into_iter().map(SealedTurn::into_value).collect()
}

/// Replaces the member `name` of one turn, or removes it.
fn edit(chain: &mut [Value], index: usize, name: &str, value: Option<Value>) {
    set(&mut chain[index], name, value);
}

/// Replaces a member of an object, or removes it.
fn set(object: &mut Value, name: &str, value: Option<Value>) {
    let Value::Object(members) = object else {
        panic!("{object:?}");
    };
    members.retain(|(key, _)| key != name);
    members.extend(value.map(|value| (name.into(), value)));
}

/// A value in place of a part of one turn's signature.
fn edit_sig(chain: &mut [Value], index: usize, name: &str, value: &str) {
    let mut sig = chain[index].get("sig").cloned().unwrap();
    set(&mut sig, name, Some(value.into()));
    edit(chain, index, "sig", Some(sig));
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
    let mut value = turn(1, "c").into_value();
    let hash = hash_text(&first.hash());
    set(&mut value, "prev_hash", Some(hash.into()));
    let named = Turn::from_value(value).unwrap();
    assert!(seal(named.clone(), Some(other.hash()), None).is_err());
    assert!(seal(named.clone(), None, None).is_err());
    assert!(seal(named.clone(), Some(first.hash()), None).is_ok());
    let mut value = named.into_value();
    set(&mut value, "turn", Some(0_u64.into()));
    assert!(seal(Turn::from_value(value).unwrap(), None, None).is_err());
}

#[test]
fn only_a_key_for_scrolls_signs_turns() {
    for usage in KeyUsage::ALL {
        let sealed = seal(turn(0, "a"), None, Some(&testing::signer(1, usage)));
        assert_eq!(sealed.is_ok(), usage == KeyUsage::Scroll, "{usage}");
    }
}

#[test]
fn what_the_peers_let_through_violates_the_schema() {
    for (at, value) in [
        ("/turn", "true"),
        ("/turn", "-1"),
        ("/turn", "0.5"),
        ("/turn", "1e300"),
        ("/timestamp_ns", "1e21"),
        ("/timestamp_ns", "true"),
        ("/params/temperature", r#"{"temperature":true,"top_p":1}"#),
        ("/params/top_p", r#"{"temperature":1,"top_p":null}"#),
        ("/params/temperature", r#"{"top_p":1}"#),
        ("/params/top_p", r#"{"temperature":1}"#),
        (
            "/params/max_tokens",
            r#"{"temperature":1,"top_p":1,"max_tokens":"9"}"#,
        ),
        ("/params/seed", r#"{"temperature":1,"top_p":1,"seed":true}"#),
        ("/params/seed", r#"{"temperature":1,"top_p":1,"seed":1e19}"#),
        ("/model/vendor", r#"{"vendor":1,"id":"m"}"#),
        ("/model/vendor", r#"{"vendor":"","id":"m"}"#),
        (
            "/model/fingerprint",
            r#"{"vendor":"v","id":"m","fingerprint":null}"#,
        ),
        ("/messages", r#"{"0":{}}"#),
        ("/messages/0/content", r#"[{"role":"user","content":null}]"#),
        ("/tool_calls", "null"),
        (
            "/tool_calls/0/args_hash",
            r#"[{"id":"a","name":"b","args_hash":"x"}]"#,
        ),
        ("/tool_results/0/status", r#"[{"id":"a","status":"fine"}]"#),
        ("/prev_hash", "null"),
        ("/sig", "null"),
        ("/sig/pubkey", r#"{"alg":"ed25519","pubkey":"","sig":""}"#),
        ("/version", r#""scroll/0.2""#),
        ("/role", r#""developer""#),
    ] {
        let mut chain = chain(1, None);
        let name = at.split('/').nth(1).unwrap();
        let value = json::parse(value.as_bytes()).unwrap();
        edit(&mut chain, 0, name, Some(value));
        let violation = SealedTurn::from_value(chain.remove(0)).unwrap_err();
        assert_eq!(violation.at, at);
    }
}

#[test]
fn a_number_counts_as_the_double_that_it_stands_for() {
    let mut value = turn(0, "a").into_value();
    for (name, text) in [("turn", "1e0"), ("timestamp_ns", "1700000000000000001")] {
        let number = json::parse(text.as_bytes()).unwrap();
        set(&mut value, name, Some(number));
    }
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
