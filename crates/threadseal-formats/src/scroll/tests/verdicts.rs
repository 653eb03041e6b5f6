//! Verdicts on whole files.

use super::*;
use threadseal_core::key::PublicKey;
use threadseal_core::record::ExpectedHead;
use threadseal_core::report::Expectation;
use threadseal_core::report::{Completeness, Verdict};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};

pub(super) fn trust_in(seeds: &[u8]) -> Trust {
    let mut store = TrustStore::new();
    for seed in seeds {
        let name = TrustName::parse(&format!("key {seed}")).unwrap();
        store
            .add(TrustedKey::new(name, key(*seed), [KeyUsage::Scroll]))
            .unwrap();
    }
    Trust::new(store)
}

pub(super) fn now() -> Timestamp {
    Timestamp::from_micros(1_800_000_000_000_000).unwrap()
}

pub(super) fn array(chain: &[Value]) -> Vec<u8> {
    let texts: Vec<Vec<u8>> = chain.iter().map(|v| jcs::to_vec(v).unwrap()).collect();
    [b"[".as_slice(), &texts.join(&b','), b"]"].concat()
}

pub(super) fn lines(chain: &[Value]) -> Vec<u8> {
    let line = |value| [jcs::to_vec(value).unwrap(), b"\n".to_vec()].concat();
    chain.iter().flat_map(line).collect()
}

/// Judged by trust in `seeds`.
pub(super) fn judged(bytes: &[u8], seeds: &[u8]) -> Outcome {
    let trust = trust_in(seeds);
    let container = match bytes.first() {
        Some(b'{') => Container::Lines,
        Some(0xa0..=0xbf) => Container::Sequence,
        _ => Container::Array,
    };
    judge(
        bytes,
        container,
        ChainOptions::default(),
        &Judging::new(&trust, now()),
    )
}

/// Judged with a pinned key.
pub(super) fn pinned(bytes: &[u8], key: PublicKey) -> Outcome {
    let options = ChainOptions {
        pinned: Some(key),
        ..ChainOptions::default()
    };
    judge(
        bytes,
        Container::Array,
        options,
        &Judging::new(&Trust::key(key), now()),
    )
}

/// Judged with a head that must be there.
pub(super) fn expecting(bytes: &[u8], seeds: &[u8], head: ExpectedHead, exact: bool) -> Outcome {
    let options = ChainOptions {
        expect: vec![Expectation::given(head, exact)],
        ..ChainOptions::default()
    };
    judge(
        bytes,
        Container::Array,
        options,
        &Judging::new(&trust_in(seeds), now()),
    )
}

pub(super) fn is(outcome: &Outcome, verdict: Verdict, code: &str) {
    let report = &outcome.report;
    assert_eq!(report.verdict, verdict, "{:?}", report.findings);
    let found = report.findings.iter().any(|finding| finding.code == code);
    assert!(found || code.is_empty(), "{code}: {:?}", report.findings);
    assert_eq!(outcome.verified.is_some(), verdict == Verdict::Verified);
}

pub(super) fn compat(outcome: &Outcome) -> serde_json::Value {
    serde_json::from_str(outcome.report.compat["agent_scroll"].as_json()).unwrap()
}

/// Seals the turns of `chain` again from `from`, as a holder of the key could.
pub(super) fn reseal(chain: &mut [Value], from: usize, seed: Option<u8>) {
    let mut prev = from.checked_sub(1).map(|before| {
        SealedTurn::from_value(chain[before].clone())
            .unwrap()
            .hash()
    });
    for index in from..chain.len() {
        for name in ["hash", "sig", "prev_hash"] {
            edit(chain, index, name, None);
        }
        let turn = Turn::from_value(chain[index].clone()).unwrap();
        let signer = seed.map(signer);
        let signer = signer
            .as_ref()
            .map(|signer| signer as &dyn threadseal_core::key::Signer);
        let sealed = seal(turn, prev, signer).unwrap();
        prev = Some(sealed.hash());
        chain[index] = sealed.into_value();
    }
}

#[test]
fn a_signed_chain_is_verified_and_its_end_is_unproved() {
    for bytes in [array(&chain(3, Some(1))), lines(&chain(3, Some(1)))] {
        let outcome = judged(&bytes, &[1]);
        is(&outcome, Verdict::Verified, "");
        assert_eq!(outcome.report.completeness, Completeness::Unproved);
        assert_eq!(outcome.report.trusted_until.unwrap().turn, Some(2));
        assert_eq!(outcome.verified.unwrap().get().turns, 3);
        is(&judged(&bytes, &[]), Verdict::UnknownSigner, "key_unknown");
        is(&judged(&bytes, &[2]), Verdict::UnknownSigner, "key_unknown");
    }
}

#[test]
fn an_unsigned_chain_is_consistent_and_verified_only_by_a_head() {
    let chain = chain(3, None);
    let bytes = array(&chain);
    is(&judged(&bytes, &[1]), Verdict::Consistent, "unsigned");
    let last = SealedTurn::from_value(chain[2].clone()).unwrap().hash();
    let outcome = expecting(&bytes, &[], ExpectedHead::Line(last), true);
    is(&outcome, Verdict::Verified, "unsigned");
    assert_eq!(outcome.report.completeness, Completeness::Head);
    assert!(outcome.verified.unwrap().get().signers.is_empty());
}

#[test]
fn edits_forgeries_and_reorderings_are_told_apart() {
    let mut edited = chain(3, Some(1));
    edit(&mut edited, 1, "role", Some("system".into()));
    is(
        &judged(&array(&edited), &[1]),
        Verdict::Tampered,
        "hash_wrong",
    );
    let mut swapped = chain(3, Some(1));
    swapped.swap(1, 2);
    is(
        &judged(&array(&swapped), &[1]),
        Verdict::Tampered,
        "chain_broken",
    );
    let mut copied = chain(3, Some(1));
    let sig = copied[0].get("sig").cloned();
    edit(&mut copied, 1, "sig", sig);
    is(
        &judged(&array(&copied), &[1]),
        Verdict::Forged,
        "signature_bad",
    );
}

// T-SCR-11
#[test]
fn a_container_that_is_cut_or_followed_by_something_is_noticed() {
    let bytes = array(&chain(2, Some(1)));
    let all = bytes.len();
    is(
        &judged(&bytes[..all - 1], &[1]),
        Verdict::Truncated,
        "array_unended",
    );
    let after = [bytes.as_slice(), b"{}"].concat();
    is(&judged(&after, &[1]), Verdict::Tampered, "stray_bytes");
    let bytes = lines(&chain(2, Some(1)));
    let all = bytes.len();
    is(
        &judged(&bytes[..all - 1], &[1]),
        Verdict::Verified,
        "unended_turn",
    );
    is(
        &judged(&bytes[..all - 9], &[1]),
        Verdict::UnsignedTail,
        "torn_tail",
    );
}

// T-SCR-11
#[test]
fn no_other_value_of_a_byte_of_the_container_is_verified() {
    let bytes = array(&chain(2, Some(1)));
    let turn = lines(&chain(2, Some(1)));
    let first = turn.iter().position(|byte| *byte == b'\n').unwrap();
    for at in [0, first + 1, bytes.len() - 1] {
        for value in 0..=u8::MAX {
            let mut other = bytes.clone();
            other[at] = value;
            let changed = other != bytes;
            let verdict = judged(&other, &[1]).report.verdict;
            assert_eq!(verdict != Verdict::Verified, changed, "{at} {value}");
            let mut longer = bytes.clone();
            longer.insert(at, value);
            let verdict = judged(&longer, &[1]).report.verdict;
            let blank = b" \t\r\n".contains(&value);
            assert_eq!(verdict == Verdict::Verified, blank, "{at} {value}");
        }
    }
}

// T-SCR-14
#[test]
fn a_signed_turn_that_is_too_old_is_a_replay() {
    let bytes = array(&chain(1, Some(1)));
    for (limit, verdict) in [
        (1_700_000_000_000_000_000, Verdict::Verified),
        (1_700_000_000_000_000_001, Verdict::RolledBack),
    ] {
        let options = ChainOptions {
            not_before_ns: Some(limit),
            ..ChainOptions::default()
        };
        let trust = trust_in(&[1]);
        let outcome = judge(
            &bytes,
            Container::Array,
            options,
            &Judging::new(&trust, now()),
        );
        assert_eq!(outcome.report.verdict, verdict);
    }
}

#[test]
fn a_key_counts_for_scrolls_only_if_it_is_trusted_for_them() {
    let bytes = array(&chain(1, Some(1)));
    let mut store = TrustStore::new();
    let name = TrustName::parse("native").unwrap();
    store
        .add(TrustedKey::new(name, key(1), [KeyUsage::Native]))
        .unwrap();
    let trust = Trust::new(store);
    let judging = Judging::new(&trust, now());
    let outcome = judge(&bytes, Container::Array, ChainOptions::default(), &judging);
    is(&outcome, Verdict::UnknownSigner, "key_out_of_scope");
}

// T-SCR-15
#[test]
fn a_chain_that_is_hashed_as_cbor_says_so_and_is_bad_to_v01() {
    let turns = (0..2).map(|number| turn(number, "x").with_encoding(Encoding::Cbor).unwrap());
    let sealed = seal_chain(turns, Some(&signer(1))).unwrap();
    let sequence: Vec<u8> = sealed.iter().flat_map(|t| t.to_cbor().unwrap()).collect();
    let outcome = judged(&sequence, &[1]);
    is(&outcome, Verdict::Verified, "");
    let chain: Vec<Value> = sealed.into_iter().map(SealedTurn::into_value).collect();
    let outcome = judged(&array(&chain), &[1]);
    is(&outcome, Verdict::Verified, "");
    assert_eq!(compat(&outcome)["failures"][0]["reason"], "BadHash");
    assert_eq!(
        reasons(&verify_as_v01(&chain, None)),
        [(0, Reason::BadHash), (1, Reason::BadHash)]
    );
    assert!(verify(&chain, Some(&key(1))).ok());
    let mut unmarked = chain.clone();
    edit(&mut unmarked, 0, "enc", None);
    is(
        &judged(&array(&unmarked), &[1]),
        Verdict::Tampered,
        "hash_wrong",
    );
    let mut marked = super::chain(1, Some(1));
    edit(&mut marked, 0, "enc", Some("cbor".into()));
    is(
        &judged(&array(&marked), &[1]),
        Verdict::Tampered,
        "hash_wrong",
    );
    edit(&mut marked, 0, "enc", Some("jcs".into()));
    is(
        &judged(&array(&marked), &[1]),
        Verdict::Malformed,
        "schema_violation",
    );
}

// T-SCR-15
#[test]
fn encodings_are_not_mixed_in_one_chain() {
    let first = seal(turn(0, "x"), None, None).unwrap();
    let second = turn(1, "x").with_encoding(Encoding::Cbor).unwrap();
    let second = seal(second, Some(first.hash()), None).unwrap();
    let chain = [first.into_value(), second.into_value()];
    is(
        &judged(&array(&chain), &[]),
        Verdict::Malformed,
        "encoding_mixed",
    );
    let trust = trust_in(&[]);
    let json_turn = cbor::to_vec(&chain[0]).unwrap();
    let judging = Judging::new(&trust, now());
    let outcome = judge(
        &json_turn,
        Container::Sequence,
        ChainOptions::default(),
        &judging,
    );
    is(&outcome, Verdict::Malformed, "schema_violation");
}
