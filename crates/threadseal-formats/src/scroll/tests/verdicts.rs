//! Verdicts on whole files.

use super::*;
use threadseal_core::limits::MAX_FINDINGS;
use threadseal_core::testing::codes;

/// The trust in these keys for scrolls.
pub(super) fn trust(seeds: &[u8]) -> Trust {
    trust_in(seeds.iter().map(|seed| (key(*seed), KeyUsage::Scroll)))
}

pub(super) fn array(chain: &[Value]) -> Vec<u8> {
    let texts: Vec<Vec<u8>> = chain.iter().map(|v| jcs::to_vec(v).unwrap()).collect();
    [b"[".as_slice(), &texts.join(&b','), b"]"].concat()
}

pub(super) fn lines(chain: &[Value]) -> Vec<u8> {
    let line = |value| [jcs::to_vec(value).unwrap(), b"\n".to_vec()].concat();
    chain.iter().flat_map(line).collect()
}

/// The outcome for the container that the first byte shows, under these options.
pub(super) fn outcome(bytes: &[u8], options: ChainOptions, judging: &Judging<'_>) -> Outcome {
    let container = match bytes.first() {
        Some(b'{') => Container::Lines,
        Some(0xa0..=0xbf) => Container::Sequence,
        _ => Container::Array,
    };
    judge(bytes, container, options, judging)
}

/// Judged by trust in `seeds`.
pub(super) fn judged(bytes: &[u8], seeds: &[u8]) -> Outcome {
    judged_with(bytes, seeds, |_, _| {})
}

/// The same after a change to the options.
pub(super) fn judged_with(
    bytes: &[u8],
    seeds: &[u8],
    change: impl FnOnce(&mut ChainOptions, &mut Judging<'_>),
) -> Outcome {
    let trust = trust(seeds);
    let (mut options, mut judging) = (ChainOptions::default(), Judging::new(&trust, now()));
    change(&mut options, &mut judging);
    outcome(bytes, options, &judging)
}

/// Judged with the key 1 pinned.
pub(super) fn pinned(bytes: &[u8]) -> Outcome {
    let options = ChainOptions {
        pinned: vec![key(1)],
        ..ChainOptions::default()
    };
    outcome(bytes, options, &Judging::new(&Trust::key(key(1)), now()))
}

/// Judged with a head that must be there.
pub(super) fn expecting(bytes: &[u8], seeds: &[u8], head: ExpectedHead, exact: bool) -> Outcome {
    judged_with(bytes, seeds, |options, _| {
        options.expect = vec![Expectation::given(head, exact)];
    })
}

/// Checks the verdict, and that a finding has this code; "" is any.
#[track_caller]
pub(super) fn is(outcome: &Outcome, verdict: Verdict, code: &str) {
    testing::is(&outcome.report, verdict, code);
    assert_eq!(outcome.verified.is_some(), verdict == Verified);
}

/// Checks the verdict on a chain in an array, where key 1 is trusted.
#[track_caller]
pub(super) fn says(chain: &[Value], verdict: Verdict, code: &str) {
    is(&judged(&array(chain), &[1]), verdict, code);
}

pub(super) fn hash_of(turn: &Value) -> Digest {
    SealedTurn::from_value(turn.clone()).unwrap().hash()
}

pub(super) fn compat(outcome: &Outcome) -> serde_json::Value {
    serde_json::from_str(outcome.report.compat["agent_scroll"].as_json()).unwrap()
}

/// Seals the turns of `chain` again from `from`, as a holder of the key could.
pub(super) fn reseal(chain: &mut [Value], from: usize, seed: Option<u8>) {
    let mut prev = from.checked_sub(1).map(|before| hash_of(&chain[before]));
    for index in from..chain.len() {
        for name in ["hash", "sig", "prev_hash"] {
            edit(chain, index, name, None);
        }
        let turn = Turn::from_value(chain[index].clone()).unwrap();
        let signer = seed.map(signer);
        let signer = signer.as_ref().map(|signer| signer as &dyn Signer);
        let sealed = seal(turn, prev, signer).unwrap();
        prev = Some(sealed.hash());
        chain[index] = sealed.into_value();
    }
}

#[test]
fn a_signed_chain_is_verified_and_its_end_is_unproved() {
    for bytes in [array(&chain(3, Some(1))), lines(&chain(3, Some(1)))] {
        let outcome = judged(&bytes, &[1]);
        is(&outcome, Verified, "");
        assert_eq!(outcome.report.completeness, Completeness::Unproved);
        assert_eq!(outcome.report.trusted_until.unwrap().turn, Some(2));
        assert_eq!(outcome.verified.unwrap().get().turns, 3);
        is(&judged(&bytes, &[]), UnknownSigner, "key_unknown");
        is(&judged(&bytes, &[2]), UnknownSigner, "key_unknown");
    }
}

#[test]
fn a_time_before_that_of_the_turn_before_is_no_fault() {
    let mut turns = [0, 1].map(|number| turn(number, "hi").into_value());
    set(&mut turns[1], "timestamp_ns", Some(9_u64.into()));
    let turns = turns.map(|value| Turn::from_value(value).unwrap());
    is(
        &judged(&array(&chain_of(turns, Some(1))), &[1]),
        Verified,
        "",
    );
}

#[test]
fn an_unsigned_chain_is_consistent_and_verified_only_by_a_head() {
    let chain = chain(3, None);
    let bytes = array(&chain);
    is(&judged(&bytes, &[1]), Consistent, "unsigned");
    let last = ExpectedHead::Line(hash_of(&chain[2]));
    let outcome = expecting(&bytes, &[], last, true);
    is(&outcome, Verified, "unsigned");
    assert_eq!(outcome.report.completeness, Completeness::Head);
    assert!(outcome.verified.unwrap().get().signers.is_empty());
}

#[test]
fn edits_forgeries_and_reorderings_are_told_apart() {
    let edits: [(Verdict, &str, fn(&mut Vec<Value>)); 3] = [
        (Tampered, "hash_wrong", |c| {
            edit(c, 1, "role", Some("system".into()));
        }),
        (Tampered, "chain_broken", |c| c.swap(1, 2)),
        (Forged, "signature_bad", |c| {
            let sig = c[0].get("sig").cloned();
            edit(c, 1, "sig", sig);
        }),
    ];
    for (verdict, code, edit) in edits {
        let mut chain = chain(3, Some(1));
        edit(&mut chain);
        says(&chain, verdict, code);
    }
}

// T-SCR-11
#[test]
fn a_container_that_is_cut_or_followed_by_something_is_noticed() {
    let chain = chain(2, Some(1));
    let (array, lines) = (array(&chain), lines(&chain));
    let after = [array.as_slice(), b"{}"].concat();
    for (bytes, verdict, code) in [
        (&array[..array.len() - 1], Truncated, "array_unended"),
        (&after, Tampered, "stray_bytes"),
        (&lines[..lines.len() - 1], Verified, "unended_turn"),
        (&lines[..lines.len() - 9], UnsignedTail, "torn_tail"),
    ] {
        is(&judged(bytes, &[1]), verdict, code);
    }
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
            assert_eq!(verdict != Verified, changed, "{at} {value}");
            let mut longer = bytes.clone();
            longer.insert(at, value);
            let verdict = judged(&longer, &[1]).report.verdict;
            let blank = b" \t\r\n".contains(&value);
            assert_eq!(verdict == Verified, blank, "{at} {value}");
        }
    }
}

// T-SCR-14
#[test]
fn a_signed_turn_that_is_too_old_is_a_replay() {
    let bytes = array(&chain(1, Some(1)));
    for (limit, verdict) in [
        (1_700_000_000_000_000_000, Verified),
        (1_700_000_000_000_000_001, RolledBack),
    ] {
        let outcome = judged_with(&bytes, &[1], |options, _| {
            options.not_before_ns = Some(limit);
        });
        assert_eq!(outcome.report.verdict, verdict);
    }
}

#[test]
fn a_key_counts_for_scrolls_only_if_it_is_trusted_for_them() {
    let bytes = array(&chain(1, Some(1)));
    let trust = trust_in([(key(1), KeyUsage::Native)]);
    let options = ChainOptions::default();
    let outcome = outcome(&bytes, options, &Judging::new(&trust, now()));
    is(&outcome, UnknownSigner, "key_out_of_scope");
}

// T-SCR-15
#[test]
fn a_chain_that_is_hashed_as_cbor_says_so_and_is_bad_to_v01() {
    let turns = (0..2).map(|number| turn(number, "x").with_encoding(Encoding::Cbor).unwrap());
    let sealed = seal_chain(turns, Some(&signer(1))).unwrap();
    let sequence: Vec<u8> = sealed.iter().flat_map(|t| t.to_cbor().unwrap()).collect();
    let outcome = judged(&sequence, &[1]);
    is(&outcome, Verified, "");
    let chain: Vec<Value> = sealed.into_iter().map(SealedTurn::into_value).collect();
    let outcome = judged(&array(&chain), &[1]);
    is(&outcome, Verified, "");
    assert_eq!(compat(&outcome)["failures"][0]["reason"], "BadHash");
    let bad = [(0, Reason::BadHash), (1, Reason::BadHash)];
    assert_eq!(reasons(&verify_as_v01(&chain, None)), bad);
    assert!(verify(&chain, Some(&key(1))).ok());
    let mut unmarked = chain.clone();
    edit(&mut unmarked, 0, "enc", None);
    says(&unmarked, Tampered, "hash_wrong");
    for (encoding, verdict, code) in [
        ("cbor", Tampered, "hash_wrong"),
        ("jcs", Malformed, "schema_violation"),
    ] {
        let mut marked = super::chain(1, Some(1));
        edit(&mut marked, 0, "enc", Some(encoding.into()));
        says(&marked, verdict, code);
    }
}

// T-SCR-15
#[test]
fn encodings_are_not_mixed_in_one_chain() {
    let first = seal(turn(0, "x"), None, None).unwrap();
    let second = turn(1, "x").with_encoding(Encoding::Cbor).unwrap();
    let second = seal(second, Some(first.hash()), None).unwrap();
    let chain = [first.into_value(), second.into_value()];
    let outcome = judged(&array(&chain), &[]);
    is(&outcome, Malformed, "encoding_mixed");
    let json_turn = cbor::to_vec(&chain[0]).unwrap();
    is(&judged(&json_turn, &[]), Malformed, "schema_violation");
}

// T-SCR-15
#[test]
fn a_turn_that_cannot_be_read_hides_no_second_encoding() {
    let mut sealed: Vec<SealedTurn> = Vec::new();
    for (number, encoding) in [(0, Encoding::Jcs), (1, Encoding::Jcs), (2, Encoding::Cbor)] {
        let turn = turn(number, "x").with_encoding(encoding).unwrap();
        let prev = sealed.last().map(SealedTurn::hash);
        sealed.push(seal(turn, prev, None).unwrap());
    }
    let mut chain: Vec<Value> = sealed.into_iter().map(SealedTurn::into_value).collect();
    edit(&mut chain, 0, "role", None);
    is(&judged(&array(&chain), &[]), Tampered, "encoding_mixed");
}

/// A chain of these turns in CBOR, as the items of a sequence.
fn items(length: u64) -> Vec<Vec<u8>> {
    let turns = (0..length).map(|number| turn(number, "x").with_encoding(Encoding::Cbor).unwrap());
    let sealed = seal_chain(turns, Some(&signer(1))).unwrap();
    sealed.iter().map(|turn| turn.to_cbor().unwrap()).collect()
}

// T-SCR-57
#[test]
fn only_the_beginning_of_an_item_is_a_torn_end_of_a_sequence() {
    let items = items(2);
    let (first, last) = (&items[0], &items[1]);
    for cut in 1..last.len() {
        let torn = [&first[..], &last[..cut]].concat();
        is(&judged(&torn, &[1]), UnsignedTail, "torn_tail");
    }
    // The length of the last item is one more than it has members.
    let longer = [&first[..], &[last[0] + 1], &last[1..]].concat();
    is(&judged(&longer, &[1]), UnsignedTail, "torn_tail");
    for bytes in [
        &b"\x7b\0\0\0\x01\0\0\0\0approved\xff"[..],
        b"\xb8\x20\x00",
        b"\xba\x00\x01\x00\x00\x64spam\xf7",
        b"\x5a\x00\x01\x00\x00anything",
        b"\xa2\x64turn\x18\x17",
    ] {
        let _row = Row(bytes);
        let other = [&first[..], bytes].concat();
        is(&judged(&other, &[1]), Tampered, "schema_violation");
    }
}

/// The expectation of a head at this turn, as its digest.
fn at_turn(chain: &[Value], index: usize) -> Expectation {
    Expectation::given(ExpectedHead::Line(hash_of(&chain[index])), false)
}

/// Judged with these expectations.
fn under(chain: &[Value], seeds: &[u8], expect: Vec<Expectation>) -> Outcome {
    judged_with(&array(chain), seeds, |options, _| options.expect = expect)
}

// T-SCR-56
#[test]
fn turns_that_anyone_appended_behind_a_known_head_are_not_verified() {
    let unsigned = chain(4, None);
    let known = |index: usize| at_turn(&unsigned, index);
    let doubted = Expectation {
        vouches: false,
        ..known(3)
    };
    for (expect, verdict, until) in [
        (vec![known(3)], Verified, 3),
        (vec![known(3), known(1)], Verified, 3),
        (vec![known(1)], UnsignedTail, 1),
        (vec![known(1), known(0)], UnsignedTail, 1),
        (vec![known(1), doubted], UnsignedTail, 1),
    ] {
        let _row = Row(until);
        let outcome = under(&unsigned, &[], expect);
        is(&outcome, verdict, "unsigned");
        let report = &outcome.report;
        assert_eq!(report.trusted_until.unwrap().turn, Some(until));
        assert_eq!(report.completeness, Completeness::Head);
        let mut tail = report.findings.iter();
        let tail = tail.find(|finding| finding.code == "unsigned_tail");
        let first = (verdict == UnsignedTail).then_some(until + 1);
        assert_eq!(tail.and_then(|tail| tail.turn), first);
    }
}

// T-SCR-56
#[test]
fn a_scroll_is_trusted_up_to_the_later_of_signature_and_known_head() {
    let mut signed = chain(3, Some(1));
    edit(&mut signed, 2, "sig", None);
    for (index, seeds, verdict, until) in [
        (0, &[1][..], UnsignedTail, 1),
        (2, &[1], UnsignedTail, 2),
        (0, &[], UnknownSigner, 0),
        (2, &[], UnknownSigner, 2),
    ] {
        let outcome = under(&signed, seeds, vec![at_turn(&signed, index)]);
        is(&outcome, verdict, "unsigned_tail");
        assert_eq!(outcome.report.trusted_until.unwrap().turn, Some(until));
    }
}

#[test]
fn a_turn_that_cannot_be_read_is_neither_signed_nor_unsigned() {
    let unreadable = |index: usize, unsigned: Option<usize>| {
        let mut turns = chain(3, Some(1));
        edit(&mut turns, index, "version", None);
        if let Some(unsigned) = unsigned {
            edit(&mut turns, unsigned, "sig", None);
        }
        let report = judged(&array(&turns), &[1]).report;
        assert_eq!(report.verdict, Tampered);
        codes(&report)
    };
    assert_eq!(unreadable(0, None), ["schema_violation"]);
    assert_eq!(unreadable(2, None), ["schema_violation"]);
    assert_eq!(
        unreadable(0, Some(2)),
        ["schema_violation", "unsigned_tail"]
    );
    assert_eq!(
        unreadable(2, Some(0)),
        ["schema_violation", "turn_unsigned"]
    );
}

#[test]
fn one_code_does_not_hide_another() {
    let mut turns = chain(MAX_FINDINGS as u64 + 3, Some(1));
    for index in 0..=MAX_FINDINGS {
        edit(&mut turns, index, "role", Some("system".into()));
    }
    edit_sig(
        &mut turns,
        MAX_FINDINGS + 1,
        "sig",
        &encoding::base64(&[0; 64]),
    );
    let report = judged(&array(&turns), &[1]).report;
    let of = |code: &str| {
        report
            .findings
            .iter()
            .filter(|found| found.code == code)
            .count()
    };
    let kept = ["hash_wrong", "signature_bad", "more_findings"].map(of);
    assert_eq!(kept, [MAX_FINDINGS, 1, 1]);
}

#[test]
fn a_known_head_proves_no_scroll_complete_against_which_there_is_evidence() {
    let signed = chain(2, Some(1));
    let expect = vec![at_turn(&signed, 1)];
    let ended = testing::revoked(trust(&[1]), "key-1", testing::micros(1));
    let options = ChainOptions {
        expect: expect.clone(),
        ..ChainOptions::default()
    };
    let revoked = outcome(&array(&signed), options, &Judging::new(&ended, now()));
    is(&revoked, Forged, "key_revoked");
    assert_eq!(revoked.report.completeness, Completeness::Unproved);
    let unsigned = chain(2, None);
    let asked = judged_with(&array(&unsigned), &[], |options, judging| {
        options.expect = vec![at_turn(&unsigned, 1)];
        options.pinned = vec![key(1)];
        judging.length = Some(2);
    });
    is(&asked, Tampered, "signature_missing");
    assert_eq!(asked.report.completeness, Completeness::Unproved);
    let whole = under(&signed, &[1], expect);
    assert_eq!(whole.report.completeness, Completeness::Head);
}
