//! The four conformance statements of agent-scroll v0.1 (§7), and `testkit/scroll`.
//!
//! C1: one canonical text. C2: no single-byte change passes. C3: written turns can be read again.
//! C4: no reordering passes.

use crate::scene::{self, *};
use proptest::prelude::*;
use serde_json::Value as Json;
use std::thread;
use threadseal_core::canon::json::{self, Value};
use threadseal_core::encoding::hex;
use threadseal_formats::scroll::{
    ChainOptions, Container, Encoding, Judging, Reason, SealedTurn, Turn, deserialize, judge, seal,
    seal_chain, serialize, verify, verify_as_v01,
};
use threadseal_testkit::in_repository;

fn signer() -> LocalSigner {
    scene::signer(1, KeyUsage::Scroll)
}

fn trust() -> Trust {
    trust_in([(key(1), KeyUsage::Scroll)])
}

/// The report where each digit counts, as C2 demands.
fn judged(bytes: &[u8], container: Container, trust: &Trust) -> Report {
    let strict = ChainOptions {
        strict_digits: true,
        ..ChainOptions::default()
    };
    judge(bytes, container, strict, &Judging::new(trust, now())).report
}

/// The report where the last digits of a timestamp count for nothing.
fn judged_by_default(bytes: &[u8], trust: &Trust) -> Report {
    let judging = Judging::new(trust, now());
    judge(bytes, Container::Array, ChainOptions::default(), &judging).report
}

fn array(turns: &[&[u8]]) -> Vec<u8> {
    [b"[", turns.join(&b',').as_slice(), b"]"].concat()
}

fn testkit(name: &str) -> Json {
    json_file(in_repository("testkit/scroll").join(name))
}

fn text<'j>(entry: &'j Json, member: &str) -> &'j str {
    entry[member].as_str().unwrap()
}

#[test]
fn c1_the_turns_of_the_testkit_have_the_bytes_that_are_written_there() {
    let list = testkit("turns.json");
    let turns = list["turns"].as_array().unwrap();
    assert!(turns.len() >= 20);
    for entry in turns {
        let name = text(entry, "name");
        let turn = deserialize(text(entry, "turn").as_bytes()).unwrap();
        let canonical = text(entry, "canonical").as_bytes();
        assert_eq!(turn.canonical(), canonical, "{name}");
        match entry.get("covered") {
            Some(covered) => assert_eq!(hex(&serialize(&turn)), *covered, "{name}"),
            None => assert_eq!(serialize(&turn), turn.canonical(), "{name}"),
        }
        assert_eq!(deserialize(&serialize(&turn)).unwrap(), turn, "{name}");
        let sealed = seal(turn, None, Some(&signer())).unwrap();
        assert_eq!(
            format!("sha256:{}", sealed.hash()),
            text(entry, "hash"),
            "{name}"
        );
        let sig = sealed.as_value().get("sig").unwrap().get("sig").unwrap();
        assert_eq!(sig.as_str(), Some(text(entry, "sig")), "{name}");
    }
}

#[test]
fn c2_no_single_byte_mutation_of_the_testkit_is_verified() {
    let list = testkit("mutations.json");
    let (first, turn) = (
        text(&list, "first").as_bytes(),
        text(&list, "turn").as_bytes(),
    );
    let trust = trust();
    let report = judged(&array(&[first, turn]), Container::Array, &trust);
    assert_eq!(report.verdict, Verdict::Verified, "{:?}", report.findings);
    let mutations = list["mutations"].as_array().unwrap();
    assert!(mutations.len() > 200);
    for mutation in mutations {
        let at = usize::try_from(mutation["at"].as_u64().unwrap()).unwrap();
        let mut changed = turn.to_vec();
        changed[at] = u8::try_from(mutation["byte"].as_u64().unwrap()).unwrap();
        let report = judged(&array(&[first, &changed]), Container::Array, &trust);
        assert_ne!(report.verdict, Verdict::Verified, "{mutation}");
        let report = judged_by_default(&array(&[first, &changed]), &trust);
        if report.verdict == Verdict::Verified {
            assert_eq!(mutation["member"], "/timestamp_ns");
            assert_eq!(report.findings[0].code, "timestamp_inexact");
            assert_eq!(report.unauthenticated.len(), 1, "{mutation}");
        }
    }
}

/// A sealed turn with an exponent, a long integer, an escape, bodies and every optional member.
fn rich_turn(encoding: Encoding) -> SealedTurn {
    let text = r#"{"version":"scroll/0.1","turn":0,"role":"tool","model":{"vendor":"v","id":"m","fingerprint":"f"},"params":{"temperature":0.7,"top_p":1e-7,"seed":-7,"max_tokens":5},"messages":[{"role":"tool","content":"\u001f\n\u00e9\u2028"}],"tool_results":[{"id":"a","status":"ok","response_hash":"sha256:ef3cdb8c7ab9d2c9a5d1fdf4ba8c6c7f0d0dc5c3b0ef0e4b2df0d5c5d9f0a111"}],"timestamp_ns":1764000000123456800,"n":[1e21,12345678901234567000,null,true]}"#;
    let turn = deserialize(text.as_bytes()).unwrap();
    let turn = turn.with_encoding(encoding).unwrap();
    seal(turn, None, Some(&signer())).unwrap()
}

/// Judges every byte of `bytes` with every other value, on all cores; those that are verified.
fn verified_mutants(
    bytes: &[u8],
    kind: Container,
    before: &[u8],
    after: &[u8],
) -> Vec<(usize, u8)> {
    let trust = trust();
    let some = |offsets: Vec<usize>| {
        let mut verified = Vec::new();
        let mut whole = [before, bytes, after].concat();
        for at in offsets {
            let place = before.len() + at;
            for value in (0..=255).filter(|value| *value != bytes[at]) {
                whole[place] = value;
                if judged(&whole, kind, &trust).verdict == Verdict::Verified {
                    verified.push((at, value));
                }
            }
            whole[place] = bytes[at];
        }
        verified
    };
    let halves = [0, 1].map(|odd| (odd..bytes.len()).step_by(2).collect());
    thread::scope(|scope| {
        let threads = halves.map(|half: Vec<usize>| scope.spawn(|| some(half)));
        let all = threads.map(|thread| thread.join().unwrap());
        all.concat()
    })
}

#[test]
fn c2_no_byte_of_a_sealed_turn_can_be_any_other() {
    let turn = rich_turn(Encoding::Jcs);
    let report = judged(&array(&[turn.canonical()]), Container::Array, &trust());
    assert_eq!(report.verdict, Verdict::Verified);
    let verified = verified_mutants(turn.canonical(), Container::Array, b"[", b"]");
    assert_eq!(verified, []);
}

#[test]
fn c2_no_byte_of_a_turn_in_cbor_can_be_any_other() {
    let item = rich_turn(Encoding::Cbor).to_cbor().unwrap();
    let report = judged(&item, Container::Sequence, &trust());
    assert_eq!(report.verdict, Verdict::Verified);
    assert_eq!(verified_mutants(&item, Container::Sequence, b"", b""), []);
}

/// Values without numbers that lose precision as doubles; a turn cannot hold such numbers exactly.
fn any_value() -> impl Strategy<Value = Json> {
    let number = any::<f64>().prop_filter("finite", |number| number.is_finite());
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i32>().prop_map(Json::from),
        number.prop_map(Json::from),
        any::<String>().prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::from),
            prop::collection::hash_map(any::<String>(), inner, 0..6)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

prop_compose! {
    fn any_turn()(
        number in 0_u64..1 << 53,
        role in prop::sample::select(vec!["user", "assistant", "tool", "system"]),
        vendor in ".{1,12}",
        temperature in 0.0..2.0_f64,
        seed in prop::option::of(any::<i32>()),
        content in prop_oneof![any::<String>().prop_map(Json::from), prop::collection::vec(any_value(), 0..4).prop_map(Json::from)],
        extra in any_value(),
        timestamp_ns in 0_u64..1 << 53,
        cbor: bool,
    ) -> Turn {
        let mut turn = serde_json::json!({
            "version": "scroll/0.1", "turn": number, "role": role,
            "model": {"vendor": vendor, "id": "m"},
            "params": {"temperature": temperature, "top_p": 1},
            "messages": [{"role": role, "content": content}],
            "timestamp_ns": timestamp_ns, "extra": extra,
        });
        if let Some(seed) = seed {
            turn["params"]["seed"] = seed.into();
        }
        if cbor {
            turn["enc"] = "cbor".into();
        }
        deserialize(turn.to_string().as_bytes()).unwrap()
    }
}

proptest! {
    #[test]
    fn c3_a_turn_comes_back_from_its_bytes(turn in any_turn()) {
        let bytes = serialize(&turn);
        let back = deserialize(&bytes).unwrap();
        prop_assert_eq!(&back, &turn);
        prop_assert_eq!(serialize(&back), bytes);
        let spelled = deserialize(turn.canonical()).unwrap();
        prop_assert_eq!(serialize(&spelled), serialize(&turn));
    }

    #[test]
    fn c3_a_sealed_turn_verifies_in_each_form(turn in any_turn()) {
        let sealed = seal(turn, None, Some(&signer())).unwrap();
        let key = key(1);
        prop_assert!(verify(std::slice::from_ref(sealed.as_value()), Some(&key)).ok());
        let again = SealedTurn::from_value(json::parse(sealed.canonical()).unwrap()).unwrap();
        prop_assert_eq!(again.canonical(), sealed.canonical());
        prop_assert_eq!(again.hash(), sealed.hash());
    }
}

/// All orders of the first `n` numbers.
fn orders(n: usize) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for next in 0..n {
        let with = |order: &Vec<usize>, at| [&order[..at], &[next], &order[at..]].concat();
        let grown = all
            .iter()
            .flat_map(|order| (0..=next).map(move |at| with(order, at)));
        all = grown.collect();
    }
    all
}

fn chain_of(turns: u64, signed: bool) -> Vec<Value> {
    let turns = (0..turns).map(|number| {
        let text = format!(
            r#"{{"version":"scroll/0.1","turn":{number},"role":"user","model":{{"vendor":"v","id":"m"}},"params":{{"temperature":1,"top_p":1}},"messages":[],"timestamp_ns":1}}"#
        );
        deserialize(text.as_bytes()).unwrap()
    });
    let signer = signer();
    let sealed = seal_chain(turns, signed.then_some(&signer as &dyn Signer)).unwrap();
    sealed.into_iter().map(SealedTurn::into_value).collect()
}

#[test]
fn c4_no_reordering_of_a_chain_passes() {
    for signed in [false, true] {
        let chain = chain_of(5, signed);
        for order in orders(5) {
            let reordered: Vec<Value> = order.iter().map(|at| chain[*at].clone()).collect();
            let in_order = order.is_sorted();
            assert_eq!(verify(&reordered, None).ok(), in_order, "{order:?}");
            assert_eq!(verify_as_v01(&reordered, None).ok(), in_order, "{order:?}");
        }
    }
}

#[test]
fn c4_no_rewritten_link_passes() {
    let chain = chain_of(3, false);
    for at in 0..3 {
        for other in 0..3 {
            let mut rewritten = chain.clone();
            let hash = chain[other].get("hash").unwrap().clone();
            let Value::Object(members) = &mut rewritten[at] else {
                panic!("a turn is an object");
            };
            let before = members.clone();
            members.retain(|(name, _)| name != "prev_hash");
            members.push(("prev_hash".into(), hash));
            let same = before.iter().any(|member| Some(member) == members.last());
            let result = verify(&rewritten, None);
            assert_eq!(result.ok(), same, "{at} {other}");
            if !same {
                assert_eq!(result.failures[0].reason, Reason::BadHash);
            }
        }
    }
}
