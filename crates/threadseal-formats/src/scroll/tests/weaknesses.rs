//! The ten weaknesses that were demonstrated in the published implementations of agent-scroll.

use super::verdicts::*;
use super::*;

// T-SCR-01
#[test]
fn weakness_1_a_stripped_signature_is_never_verified() {
    for (index, verdict, code) in [
        (0, Partial, "turn_unsigned"),
        (1, Partial, "turn_unsigned"),
        (2, UnsignedTail, "unsigned_tail"),
    ] {
        let mut stripped = chain(3, Some(1));
        edit(&mut stripped, index, "sig", None);
        says(&stripped, verdict, code);
        let outcome = pinned(&array(&stripped));
        is(&outcome, Tampered, "signature_missing");
        assert_eq!(compat(&outcome)["ok"], true);
    }
    let all = array(&chain(3, None));
    is(&pinned(&all), Tampered, "signature_missing");
    let trust = trust(&[1]);
    let judging = Judging {
        signers: &[signer_name(&key(1))],
        ..Judging::new(&trust, now())
    };
    let known = outcome(&all, ChainOptions::default(), &judging);
    is(&known, Tampered, "signatures_gone");
}

// T-SCR-02
#[test]
fn weakness_2_a_swapped_key_or_another_signer_is_never_verified() {
    let mut swapped = chain(2, Some(1));
    let other = encoding::base64(key(2).as_bytes());
    edit_sig(&mut swapped, 1, "pubkey", &other);
    let swapped = array(&swapped);
    is(&judged(&swapped, &[1, 2]), Forged, "signature_bad");
    let outcome = pinned(&swapped);
    is(&outcome, Forged, "signature_bad");
    assert_eq!(compat(&outcome)["ok"], true);
    let mut several = chain(3, Some(1));
    reseal(&mut several, 1, Some(2));
    let several = array(&several);
    is(&pinned(&several), UnknownSigner, "other_signer");
    is(&judged(&several, &[1]), UnknownSigner, "key_unknown");
    let outcome = judged(&several, &[1, 2]);
    is(&outcome, Verified, "");
    assert_eq!(outcome.report.signers.len(), 2);
}

// T-SCR-03
#[test]
fn weakness_3_a_cut_head_or_tail_and_renumbered_turns_are_noticed() {
    let chain = chain(4, Some(1));
    says(&chain[1..], Truncated, "predecessor_missing");
    let mut renumbered = chain[1..].to_vec();
    reseal(&mut renumbered, 0, Some(1));
    says(&renumbered, Truncated, "turn_gap");
    let mut other = chain.clone();
    edit(&mut other, 3, "timestamp_ns", Some(0_u64.into()));
    reseal(&mut other, 3, Some(1));
    let (whole, cut, other) = (array(&chain), array(&chain[..3]), array(&other));
    let head = judged(&whole, &[1]).report.head.unwrap();
    let elsewhere = ExpectedHead::Head(Head {
        record: RecordId::from_bytes([0; 32]),
        ..head
    });
    let third = ExpectedHead::Head(judged(&cut, &[1]).report.head.unwrap());
    let full = ExpectedHead::Head(head);
    let last = ExpectedHead::Line(hash_of(&chain[3]));
    for (bytes, head, exact, verdict, code) in [
        (&cut, last, false, Truncated, "head_missing"),
        (&cut, full, false, Truncated, "head_ahead"),
        (&whole, full, true, Verified, ""),
        (&whole, third, true, Open, "head_not_last"),
        (&other, full, false, Forked, "head_differs"),
        (&whole, elsewhere, false, Foreign, "record_differs"),
    ] {
        is(&expecting(bytes, &[1], head, exact), verdict, code);
    }
    for (length, verdict) in [(3, Verified), (4, Truncated), (2, Open)] {
        let outcome = judged_with(&cut, &[1], |_, judging| judging.length = Some(length));
        assert_eq!(outcome.report.verdict, verdict);
    }
}

// T-SCR-03
#[test]
fn weakness_3_gaps_and_repetitions_in_a_sealed_chain_are_noticed() {
    for (numbers, verdict, code) in [
        (&[0, 2][..], Truncated, "turn_gap"),
        (&[1], Truncated, "turn_gap"),
        (&[0, 0], Tampered, "turn_repeated"),
        (&[0, 1, 0], Tampered, "turn_repeated"),
    ] {
        let _row = Row(numbers);
        let turns = numbers.iter().map(|number| turn(*number, "x"));
        says(&chain_of(turns, Some(1)), verdict, code);
    }
}

// T-SCR-04
#[test]
fn weakness_4_a_body_that_is_not_what_its_hash_says_is_tampered() {
    let good = body_hash(&json::parse(b"{\"a\":1.0}").unwrap()).unwrap();
    for (list, hash, body, number, verdict, code) in [
        ("tool_calls", "args_hash", "args", 1, Verified, ""),
        (
            "tool_calls",
            "args_hash",
            "args",
            2,
            Tampered,
            "body_hash_wrong",
        ),
        ("tool_results", "response_hash", "response", 1, Verified, ""),
        (
            "tool_results",
            "response_hash",
            "response",
            2,
            Tampered,
            "body_hash_wrong",
        ),
    ] {
        let _row = Row((list, number));
        let tool = format!(
            r#"[{{"id":"1","name":"n","status":"ok","{hash}":"sha256:{good}","{body}":{{"a":{number}}}}}]"#
        );
        let mut value = turn(0, "x").into_value();
        set(
            &mut value,
            list,
            Some(json::parse(tool.as_bytes()).unwrap()),
        );
        let chain = chain_of([Turn::from_value(value).unwrap()], Some(1));
        let outcome = judged(&array(&chain), &[1]);
        is(&outcome, verdict, code);
        assert_eq!(compat(&outcome)["ok"], true);
        assert_eq!(verify(&chain, None).ok(), verdict == Verified);
        assert!(verify_as_v01(&chain, None).ok());
    }
}

// T-SCR-05
#[test]
fn weakness_5_digits_that_no_hash_covers_are_partial() {
    let amount = |digits: &str| {
        let mut chain = chain(1, Some(1));
        let number = json::parse(digits.as_bytes()).unwrap();
        edit(&mut chain, 0, "amount", Some(number));
        reseal(&mut chain, 0, Some(1));
        String::from_utf8(array(&chain)).unwrap()
    };
    let text = amount("100000000000000000000");
    let changed = text.replace("100000000000000000000", "100000000000000000001");
    assert_ne!(changed, text);
    let outcome = judged(changed.as_bytes(), &[1]);
    is(&outcome, Partial, "number_inexact");
    let at = changed.find("100000000000000000001").unwrap() as u64;
    assert_eq!(outcome.report.findings[0].bytes.unwrap()[0], at);
    assert_eq!(compat(&outcome)["ok"], true);
    let accepted = judged_with(changed.as_bytes(), &[1], |_, judging| judging.as_v01 = true);
    is(&accepted, Verified, "number_inexact");
    let respelled = text.replace("\"temperature\":1,", "\"temperature\":1.0,");
    assert_ne!(respelled, text);
    is(&judged(respelled.as_bytes(), &[1]), Verified, "");
}

// T-SCR-34
#[test]
fn digits_of_a_timestamp_that_no_double_keeps_are_listed_and_count_for_nothing() {
    let text = String::from_utf8(array(&chain(1, Some(1)))).unwrap();
    let strict = |text: &str| {
        judged_with(text.as_bytes(), &[1], |options, _| {
            options.strict_digits = true;
        })
    };
    for written in [
        "1700000000000000001",
        "1700000000000000127",
        "1699999999999999900",
    ] {
        let changed = text.replace("1700000000000000000", written);
        for changed in [
            changed.clone(),
            changed.replace("\"timestamp_ns\"", "\"timestamp\\u005fns\""),
        ] {
            let outcome = judged(changed.as_bytes(), &[1]);
            is(&outcome, Verified, "timestamp_inexact");
            assert!(outcome.verified.is_some());
            let listed = format!("timestamp_ns={written} (turn 0; covered: 1700000000000000000)");
            assert_eq!(outcome.report.unauthenticated, [listed]);
            let at = changed.find(written).unwrap() as u64;
            assert_eq!(outcome.report.findings[0].bytes.unwrap()[0], at);
            is(&strict(&changed), Partial, "number_inexact");
            // Age is judged by the covered value.
            for (limit, verdict) in [
                (1_700_000_000_000_000_000, Verified),
                (1_700_000_000_000_000_001, RolledBack),
            ] {
                let aged = judged_with(changed.as_bytes(), &[1], |options, _| {
                    options.not_before_ns = Some(limit);
                });
                assert_eq!(aged.report.verdict, verdict, "{written} {limit}");
            }
        }
    }
    // Other spellings, other places and other doubles are as before.
    for (written, verdict, code) in [
        ("1700000000000000000.5", Partial, "number_inexact"),
        ("1.700000000000000001e18", Partial, "number_inexact"),
        ("1700000000000000129", Tampered, "hash_wrong"),
    ] {
        let changed = text.replace("1700000000000000000", written);
        is(&judged(changed.as_bytes(), &[1]), verdict, code);
    }
    let mut nested = chain(1, Some(1));
    let inner = json::parse(br#"{"timestamp_ns":1700000000000000000}"#).unwrap();
    edit(&mut nested, 0, "more", Some(inner));
    reseal(&mut nested, 0, Some(1));
    let nested = String::from_utf8(array(&nested)).unwrap();
    let nested = nested.replacen("1700000000000000000", "1700000000000000001", 1);
    assert!(nested.contains("\"more\":{\"timestamp_ns\":1700000000000000001}"));
    is(&judged(nested.as_bytes(), &[1]), Partial, "number_inexact");
    let both = nested.replace("1700000000000000000", "1700000000000000003");
    let outcome = judged(both.as_bytes(), &[1]);
    is(&outcome, Partial, "number_inexact");
    assert_eq!(outcome.report.unauthenticated.len(), 1);
}

// T-SCR-34
#[test]
fn a_report_lists_few_of_many_timestamps_and_counts_the_others() {
    let text = String::from_utf8(array(&chain(40, Some(1)))).unwrap();
    let changed = text.replace("1700000000000000000", "1700000000000000001");
    let outcome = judged(changed.as_bytes(), &[1]);
    is(&outcome, Verified, "timestamp_inexact");
    let listed = &outcome.report.unauthenticated;
    assert_eq!(listed.len(), 17);
    let written = "timestamp_ns=1700000000000000001";
    let covered = "covered: 1700000000000000000";
    assert_eq!(listed[15], format!("{written} (turn 15; {covered})"));
    assert_eq!(listed[16], "timestamp_ns=… (24 more turns)");
    let findings = outcome.report.findings.iter();
    let inexact = findings.filter(|found| found.code == "timestamp_inexact");
    assert_eq!(inexact.count(), 1);
}

// T-SCR-06
#[test]
fn weakness_6_what_two_readers_understand_differently_is_refused() {
    let text = String::from_utf8(array(&chain(1, Some(1)))).unwrap();
    let deep = format!("[{}{}]", "[".repeat(200), "]".repeat(200));
    for (from, to) in [
        ("\"messages\"", "\"messages\":[],\"messages\""),
        ("\"hi\"", "\"\\ud800\""),
        ("\"hi\"", "\"\u{1}\""),
        ("\"turn\":0", "\"turn\":NaN"),
        ("\"turn\":0", "\"turn\":1e400"),
        ("\"hi\"", &deep),
    ] {
        let _row = Row(to);
        let changed = text.replace(from, to);
        assert_ne!(changed, text);
        let outcome = judged(changed.as_bytes(), &[1]);
        is(&outcome, Malformed, "schema_violation");
        // For the published implementations the last member of a name wins.
        assert!(from != "\"messages\"" || compat(&outcome)["ok"] == true);
    }
    let mut bytes = text.into_bytes();
    let at = bytes.windows(2).position(|pair| pair == b"hi").unwrap();
    bytes[at] = 0xff;
    is(&judged(&bytes, &[1]), Malformed, "schema_violation");
}

// T-SCR-06
#[test]
fn weakness_6_an_unreadable_turn_among_good_ones_is_tampered() {
    let text = String::from_utf8(lines(&chain(2, Some(1)))).unwrap();
    let broken = text.replacen("\"turn\":0", "\"turn\":00", 1);
    let outcome = judged(broken.as_bytes(), &[1]);
    is(&outcome, Tampered, "schema_violation");
}

// T-SCR-07
#[test]
fn weakness_7_names_are_sorted_by_utf_16_and_weak_keys_refused() {
    // The published Rust crate sorts quoted names, which gives another order.
    let text = br#"{"file":1,"file name":2,"file!":3}"#;
    let value = json::parse(text).unwrap();
    assert_eq!(body_hash(&value), Ok(Digest::of(text)));
    let mut weak = chain(1, Some(1));
    let small = |zeros| encoding::base64(&[vec![1], vec![0; zeros]].concat());
    edit_sig(&mut weak, 0, "pubkey", &small(31));
    edit_sig(&mut weak, 0, "sig", &small(63));
    says(&weak, Forged, "key_unusable");
    assert_eq!(reasons(&verify(&weak, None)), [(0, Reason::BadSignature)]);
}

// T-SCR-08
#[test]
fn weakness_8_unknown_members_are_covered_by_the_hash() {
    let mut extra = chain(1, Some(1));
    edit(&mut extra, 0, "top_k", Some(1_u64.into()));
    says(&extra, Tampered, "hash_wrong");
    reseal(&mut extra, 0, Some(1));
    says(&extra, Verified, "");
    let mut inside = chain(1, Some(1));
    edit_sig(&mut inside, 0, "note", "approved by legal");
    says(&inside, Partial, "sig_member_uncovered");
}

// T-SCR-09
#[test]
fn weakness_9_what_is_sealed_here_has_its_canonical_spelling() {
    let sealed = seal(turn(0, "x"), None, Some(&signer(1))).unwrap();
    let line = [sealed.canonical(), b"\n"].concat();
    let text = String::from_utf8(line).unwrap();
    assert!(text.contains("\"temperature\":1,"), "{text}");
    is(&judged(text.as_bytes(), &[1]), Verified, "");
}

// T-SCR-10
#[test]
fn weakness_10_only_an_array_of_turns_is_a_scroll_and_an_empty_one_proves_nothing() {
    is(&judged(b"[]", &[1]), Unsigned, "scroll_empty");
    let one = jcs::to_vec(&chain(1, Some(1))[0]).unwrap();
    let trust = trust(&[1]);
    for text in [&b"{}"[..], b"42", b"", b"\"x\"", b"null", &one] {
        let _row = Row(text);
        let options = ChainOptions::default();
        let judging = Judging::new(&trust, now());
        let outcome = judge(text, Container::Array, options, &judging);
        is(&outcome, Malformed, "no_array");
        assert_eq!(compat(&outcome)["ok"], false);
    }
}
