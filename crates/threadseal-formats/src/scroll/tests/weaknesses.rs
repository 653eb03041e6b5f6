//! The ten weaknesses that were demonstrated in the published implementations of agent-scroll.

use super::verdicts::*;
use super::*;
use threadseal_core::record::ExpectedHead;
use threadseal_core::report::Verdict;

// T-SCR-01
#[test]
fn weakness_1_a_stripped_signature_is_never_verified() {
    for index in 0..3 {
        let mut stripped = chain(3, Some(1));
        edit(&mut stripped, index, "sig", None);
        let bytes = array(&stripped);
        is(
            &pinned(&bytes, key(1)),
            Verdict::Tampered,
            "signature_missing",
        );
        let (verdict, code) = match index {
            2 => (Verdict::UnsignedTail, "unsigned_tail"),
            _ => (Verdict::Partial, "turn_unsigned"),
        };
        is(&judged(&bytes, &[1]), verdict, code);
        assert_eq!(compat(&pinned(&bytes, key(1)))["ok"], true);
    }
    let all = array(&chain(3, None));
    is(
        &pinned(&all, key(1)),
        Verdict::Tampered,
        "signature_missing",
    );
    let names = [signer_name(&key(1))];
    let trust = trust_in(&[1]);
    let judging = Judging {
        signers: &names,
        ..Judging::new(&trust, now())
    };
    let known = judge(&all, Container::Array, ChainOptions::default(), &judging);
    is(&known, Verdict::Tampered, "signatures_gone");
}

// T-SCR-02
#[test]
fn weakness_2_a_swapped_key_or_another_signer_is_never_verified() {
    let mut swapped = chain(2, Some(1));
    let mut sig = swapped[1].get("sig").cloned().unwrap();
    let other = encoding::base64(key(2).as_bytes());
    edit(
        std::slice::from_mut(&mut sig),
        0,
        "pubkey",
        Some(other.into()),
    );
    edit(&mut swapped, 1, "sig", Some(sig));
    is(
        &judged(&array(&swapped), &[1, 2]),
        Verdict::Forged,
        "signature_bad",
    );
    let outcome = pinned(&array(&swapped), key(1));
    is(&outcome, Verdict::Forged, "signature_bad");
    assert_eq!(compat(&outcome)["ok"], true);
    let mut several = chain(3, Some(1));
    reseal(&mut several, 1, Some(2));
    is(
        &pinned(&array(&several), key(1)),
        Verdict::Forged,
        "key_not_pinned",
    );
    is(
        &judged(&array(&several), &[1]),
        Verdict::UnknownSigner,
        "key_unknown",
    );
    let outcome = judged(&array(&several), &[1, 2]);
    is(&outcome, Verdict::Verified, "");
    assert_eq!(outcome.report.signers.len(), 2);
}

// T-SCR-03
#[test]
fn weakness_3_a_cut_head_or_tail_and_renumbered_turns_are_noticed() {
    let whole = chain(4, Some(1));
    is(
        &judged(&array(&whole[1..]), &[1]),
        Verdict::Truncated,
        "predecessor_missing",
    );
    let mut renumbered = whole[1..].to_vec();
    reseal(&mut renumbered, 0, Some(1));
    is(
        &judged(&array(&renumbered), &[1]),
        Verdict::Truncated,
        "turn_gap",
    );
    let last = SealedTurn::from_value(whole[3].clone()).unwrap().hash();
    let cut = array(&whole[..3]);
    let expected = ExpectedHead::Line(last);
    is(
        &expecting(&cut, &[1], expected, false),
        Verdict::Truncated,
        "head_missing",
    );
    let head = judged(&array(&whole), &[1]).report.head.unwrap();
    let full = ExpectedHead::Head(head);
    is(
        &expecting(&cut, &[1], full, false),
        Verdict::Truncated,
        "head_ahead",
    );
    is(
        &expecting(&array(&whole), &[1], full, true),
        Verdict::Verified,
        "",
    );
    let third = judged(&cut, &[1]).report.head.unwrap();
    is(
        &expecting(&array(&whole), &[1], ExpectedHead::Head(third), true),
        Verdict::Open,
        "head_not_last",
    );
    let mut other = whole.clone();
    edit(&mut other, 3, "timestamp_ns", Some(0_u64.into()));
    reseal(&mut other, 3, Some(1));
    is(
        &expecting(&array(&other), &[1], full, false),
        Verdict::Forked,
        "head_differs",
    );
    let elsewhere = threadseal_core::record::Head {
        record: threadseal_core::record::RecordId::from_bytes([0; 32]),
        ..head
    };
    let elsewhere = ExpectedHead::Head(elsewhere);
    is(
        &expecting(&array(&whole), &[1], elsewhere, false),
        Verdict::Foreign,
        "record_differs",
    );
    let trust = trust_in(&[1]);
    for (length, verdict) in [
        (3, Verdict::Verified),
        (4, Verdict::Truncated),
        (2, Verdict::Open),
    ] {
        let judging = Judging {
            length: Some(length),
            ..Judging::new(&trust, now())
        };
        let outcome = judge(&cut, Container::Array, ChainOptions::default(), &judging);
        assert_eq!(outcome.report.verdict, verdict);
    }
}

// T-SCR-03
#[test]
fn weakness_3_gaps_and_repetitions_in_a_sealed_chain_are_noticed() {
    let numbered = |numbers: &[u64]| {
        let turns = numbers.iter().map(|number| turn(*number, "x"));
        let sealed = seal_chain(turns, Some(&signer(1))).unwrap();
        let chain: Vec<Value> = sealed.into_iter().map(SealedTurn::into_value).collect();
        judged(&array(&chain), &[1])
    };
    is(&numbered(&[0, 2]), Verdict::Truncated, "turn_gap");
    is(&numbered(&[1]), Verdict::Truncated, "turn_gap");
    is(&numbered(&[0, 0]), Verdict::Tampered, "turn_repeated");
    is(&numbered(&[0, 1, 0]), Verdict::Tampered, "turn_repeated");
}

// T-SCR-04
#[test]
fn weakness_4_a_body_that_is_not_what_its_hash_says_is_tampered() {
    for (list, hash, body) in [
        ("tool_calls", "args_hash", "args"),
        ("tool_results", "response_hash", "response"),
    ] {
        for (value, verdict) in [
            ("{\"a\":1}", Verdict::Verified),
            ("{\"a\":2}", Verdict::Tampered),
        ] {
            let good = body_hash(&json::parse(b"{\"a\":1.0}").unwrap()).unwrap();
            let tool = format!(
                r#"[{{"id":"1","name":"n","status":"ok","{hash}":"sha256:{good}","{body}":{value}}}]"#
            );
            let mut value = turn(0, "x").into_value();
            let tool = json::parse(tool.as_bytes()).unwrap();
            edit(std::slice::from_mut(&mut value), 0, list, Some(tool));
            let sealed = seal(Turn::from_value(value).unwrap(), None, Some(&signer(1))).unwrap();
            let chain = [sealed.into_value()];
            let outcome = judged(&array(&chain), &[1]);
            let code = if verdict == Verdict::Tampered {
                "body_hash_wrong"
            } else {
                ""
            };
            is(&outcome, verdict, code);
            assert_eq!(compat(&outcome)["ok"], true);
            let good = verdict == Verdict::Verified;
            assert_eq!(verify(&chain, None).ok(), good);
            assert!(verify_as_v01(&chain, None).ok());
        }
    }
}

// T-SCR-05
#[test]
fn weakness_5_digits_that_no_hash_covers_are_partial() {
    let text = String::from_utf8(array(&chain(1, Some(1)))).unwrap();
    let changed = text.replace("1700000000000000000", "1700000000000000001");
    let outcome = judged(changed.as_bytes(), &[1]);
    is(&outcome, Verdict::Partial, "number_inexact");
    let at = changed.find("1700000000000000001").unwrap() as u64;
    assert_eq!(outcome.report.findings[0].bytes.unwrap()[0], at);
    assert_eq!(compat(&outcome)["ok"], true);
    let trust = trust_in(&[1]);
    let judging = Judging {
        as_v01: true,
        ..Judging::new(&trust, now())
    };
    let accepted = judge(
        changed.as_bytes(),
        Container::Array,
        ChainOptions::default(),
        &judging,
    );
    is(&accepted, Verdict::Verified, "number_inexact");
    let respelled = text.replace("\"temperature\":1,", "\"temperature\":1.0,");
    assert_ne!(respelled, text);
    is(&judged(respelled.as_bytes(), &[1]), Verdict::Verified, "");
}

// T-SCR-06
#[test]
fn weakness_6_what_two_readers_understand_differently_is_refused() {
    let text = String::from_utf8(array(&chain(1, Some(1)))).unwrap();
    let twice = text.replace("\"messages\"", "\"messages\":[],\"messages\"");
    assert_ne!(twice, text);
    let outcome = judged(twice.as_bytes(), &[1]);
    is(&outcome, Verdict::Malformed, "schema_violation");
    assert_eq!(compat(&outcome)["ok"], true, "the last member wins there");
    for (from, to) in [
        ("\"hi\"", "\"\\ud800\""),
        ("\"hi\"", "\"\u{1}\""),
        ("\"turn\":0", "\"turn\":NaN"),
        ("\"turn\":0", "\"turn\":1e400"),
        (
            "\"hi\"",
            &format!("[{}{}]", "[".repeat(200), "]".repeat(200)),
        ),
    ] {
        let changed = text.replace(from, to);
        assert_ne!(changed, text);
        is(
            &judged(changed.as_bytes(), &[1]),
            Verdict::Malformed,
            "schema_violation",
        );
    }
    let mut bytes = text.into_bytes();
    let at = bytes.windows(2).position(|pair| pair == b"hi").unwrap();
    bytes[at] = 0xff;
    is(
        &judged(&bytes, &[1]),
        Verdict::Malformed,
        "schema_violation",
    );
}

// T-SCR-06
#[test]
fn weakness_6_an_unreadable_turn_among_good_ones_is_tampered() {
    let text = String::from_utf8(lines(&chain(2, Some(1)))).unwrap();
    let broken = text.replacen("\"turn\":0", "\"turn\":00", 1);
    is(
        &judged(broken.as_bytes(), &[1]),
        Verdict::Tampered,
        "schema_violation",
    );
}

// T-SCR-07
#[test]
fn weakness_7_names_are_sorted_by_utf_16_and_weak_keys_refused() {
    // The published Rust crate sorts quoted names, which gives another order.
    let value = json::parse(br#"{"file":1,"file name":2,"file!":3}"#).unwrap();
    let expected = Digest::of(br#"{"file":1,"file name":2,"file!":3}"#);
    assert_eq!(body_hash(&value), Ok(expected));
    let mut weak = chain(1, Some(1));
    let mut sig = weak[0].get("sig").cloned().unwrap();
    let small = encoding::base64(&[[1].as_slice(), &[0; 31]].concat());
    let fits_all = encoding::base64(&[[1].as_slice(), &[0; 63]].concat());
    edit(
        std::slice::from_mut(&mut sig),
        0,
        "pubkey",
        Some(small.into()),
    );
    edit(
        std::slice::from_mut(&mut sig),
        0,
        "sig",
        Some(fits_all.into()),
    );
    edit(&mut weak, 0, "sig", Some(sig));
    is(
        &judged(&array(&weak), &[1]),
        Verdict::Forged,
        "key_unusable",
    );
    assert_eq!(reasons(&verify(&weak, None)), [(0, Reason::BadSignature)]);
}

// T-SCR-08
#[test]
fn weakness_8_unknown_members_are_covered_by_the_hash() {
    let mut extra = chain(1, Some(1));
    edit(&mut extra, 0, "top_k", Some(1_u64.into()));
    is(
        &judged(&array(&extra), &[1]),
        Verdict::Tampered,
        "hash_wrong",
    );
    reseal(&mut extra, 0, Some(1));
    is(&judged(&array(&extra), &[1]), Verdict::Verified, "");
    let mut inside = chain(1, Some(1));
    let mut sig = inside[0].get("sig").cloned().unwrap();
    edit(
        std::slice::from_mut(&mut sig),
        0,
        "note",
        Some("approved by legal".into()),
    );
    edit(&mut inside, 0, "sig", Some(sig));
    is(
        &judged(&array(&inside), &[1]),
        Verdict::Partial,
        "sig_member_uncovered",
    );
}

// T-SCR-09
#[test]
fn weakness_9_what_is_sealed_here_has_its_canonical_spelling() {
    let sealed = seal(turn(0, "x"), None, Some(&signer(1))).unwrap();
    let text = String::from_utf8(sealed.canonical().to_vec()).unwrap();
    assert!(text.contains("\"temperature\":1,"), "{text}");
    is(
        &judged(&[text.as_bytes(), b"\n"].concat(), &[1]),
        Verdict::Verified,
        "",
    );
}

// T-SCR-10
#[test]
fn weakness_10_only_an_array_of_turns_is_a_scroll_and_an_empty_one_proves_nothing() {
    is(&judged(b"[]", &[1]), Verdict::Unsigned, "scroll_empty");
    for text in ["{}", "42", "", "\"x\"", "null"] {
        let trust = trust_in(&[1]);
        let judging = Judging::new(&trust, now());
        let outcome = judge(
            text.as_bytes(),
            Container::Array,
            ChainOptions::default(),
            &judging,
        );
        is(&outcome, Verdict::Malformed, "no_array");
        assert_eq!(compat(&outcome)["ok"], false);
    }
    let one = jcs::to_vec(&chain(1, Some(1))[0]).unwrap();
    let trust = trust_in(&[1]);
    let judging = Judging::new(&trust, now());
    let outcome = judge(&one, Container::Array, ChainOptions::default(), &judging);
    is(&outcome, Verdict::Malformed, "no_array");
}
