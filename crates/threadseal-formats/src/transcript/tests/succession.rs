//! Keys in the place of an authority that ended: permitted seals, forbidden ones, and proofs of the
//! last turn before that.

use super::*;

// T-KLOG-21
// T-KLOG-49
#[test]
fn a_key_in_the_place_of_the_authority_seals_behind_the_end_and_the_old_one_no_more() {
    let bench = Bench::new();
    let (before, head) = ended(&bench);
    let trust = trust_after(&bench, &[head]);
    let verdict = |draft: &Draft<'_>| bench.judged(&draft.bytes, &trust).verdict;
    assert_eq!(verdict(&before), Verdict::Verified);
    let mut draft = before.clone();
    draft.succeed(&word(&bench.native, &heir())).unwrap();
    assert!(!draft.sealer.may_seal(bench.native.public_key()));
    assert!(draft.clone().link_by(&bench.native).is_err());
    draft.link_by(&heir()).unwrap();
    assert_eq!(verdict(&draft), Verdict::Verified);
    // A verifier that trusts the authority alone knows nothing of its successor: the authority
    // ended before that key sealed, and does not vouch for it. The same where it is pinned.
    for trust in [bench.trust.clone(), pin(&bench.native)] {
        let report = bench.judged(&draft.bytes, &trust);
        assert_eq!(report.verdict, Verdict::UnknownSigner);
        let signers: Vec<_> = report.signers.iter().map(|signer| signer.status).collect();
        assert!(signers[0] != signers[1], "{signers:?}");
    }
    let knows_both =
        trust_in([&bench.native, &heir()].map(|key| (*key.public_key(), KeyUsage::Native)));
    assert_eq!(
        bench.judged(&draft.bytes, &knows_both).verdict,
        Verdict::Verified
    );
    // The stolen old key continues alone, or names one of the thief's keys.
    let mut thief = before.clone();
    thief.link_by(&bench.native).unwrap();
    assert_eq!(verdict(&thief), Verdict::Forged);
    let (mut thief, mine) = (before, native(66));
    thief.succeed(&word(&bench.native, &mine)).unwrap();
    thief.link_by(&mine).unwrap();
    assert_eq!(verdict(&thief), Verdict::Forged);
}

// T-KLOG-22
#[test]
fn what_stood_in_no_log_before_the_authority_ended_is_forged_whoever_seals_behind_it() {
    let bench = Bench::new();
    let trust = trust_after(&bench, &[]);
    let (before, _) = ended(&bench);
    for draft in [before, succeeded(&bench).0] {
        let verdict = bench.judged(&draft.bytes, &trust).verdict;
        assert_eq!(verdict, Verdict::Forged);
    }
}

/// The reader trusts the delegate directly, and a log had the record before its authority ended.
/// That does not validate later statements of the authority's key.
// T-KLOG-27
#[test]
fn a_delegate_that_an_ended_key_let_in_makes_nothing_good_and_one_let_in_before_goes_on() {
    let bench = Bench::new();
    let mut draft = bench.begin(7);
    let before = draft.seal(0);
    draft.delegate(&heir(), &bench.native).unwrap();
    let mut late = draft.clone();
    late.seal_by(&heir(), 0).unwrap();
    let trust = trust_after(&bench, &[before]);
    assert_eq!(bench.judged(&late.bytes, &trust).verdict, Verdict::Forged);
    let over_it = draft.seal(0);
    draft.seal_by(&heir(), 0).unwrap();
    let trust = trust_after(&bench, &[before, over_it]);
    assert_eq!(bench.judged(&draft.bytes, &trust).verdict, Verdict::Open);
}

// T-KLOG-24
#[test]
fn only_the_word_of_the_present_authority_of_a_record_that_ended_lets_another_key_in() {
    let bench = Bench::new();
    let (ended, _) = ended(&bench);
    let (stranger, heir, authority) = (native(66), heir(), &bench.native);
    let end = KeyEvent::sign(KeyChange::Revoke, authority).unwrap();
    let mut later = ended.clone();
    later.succeed(&word(authority, &heir)).unwrap();
    for (row, draft, event) in [
        ("a stranger's", &ended, word(&stranger, &heir)),
        ("an end", &ended, end),
        ("too early", &bench.begin(7), word(authority, &heir)),
        ("too late", &later, word(authority, &stranger)),
        ("back", &later, word(&heir, authority)),
    ] {
        assert!(draft.clone().succeed(&event).is_err(), "{row}");
    }
    // A line that states it nevertheless.
    let text = String::from_utf8(later.bytes).unwrap();
    let text = text.replace(&heir.public_key().to_hex(), &stranger.public_key().to_hex());
    let report = bench.verify(text.as_bytes()).report;
    assert!(codes(&report).contains(&"event_malformed"), "{report:?}");
}

// T-TRA-22
#[test]
fn a_word_for_another_key_in_an_adopted_tail_is_said_again_by_its_writer() {
    let bench = Bench::new();
    let (mut draft, head) = ended(&bench);
    let trust = trust_after(&bench, &[head]);
    let said = word(&bench.native, &heir());
    // An attacker who can write to the file finds the statement in the log.
    draft.adopt(|tail| tail.succeed(&said).unwrap());
    // Adopted alone, it admits no key.
    assert!(draft.clone().link_by(&heir()).is_err());
    draft.succeed(&said).unwrap();
    draft.link_by(&heir()).unwrap();
    assert_eq!(bench.judged(&draft.bytes, &trust).verdict, Verdict::Partial);
}

/// An ended record, with another seal by `heir` after its end; the head of that end.
fn succeeded(bench: &Bench) -> (Draft<'_>, Head) {
    let (mut draft, head) = ended(bench);
    draft.succeed(&word(&bench.native, &heir())).unwrap();
    draft.link_by(&heir()).unwrap();
    (draft, head)
}

/// The proof of turn 1.
fn proved(bench: &Bench, bytes: &[u8]) -> String {
    let keys = [&bench.native, &heir(), &native(62), &native(63)];
    let trust = trust_in(keys.map(|key| (*key.public_key(), KeyUsage::Native)));
    let outcome = verify(bytes, &ScanOptions::default(), &bench.trusting(&trust));
    let proof = TurnProof::make(&outcome.verified.unwrap(), bytes, 1).unwrap();
    proof.to_string()
}

fn check(bench: &Bench, text: &[u8], trust: &Trust) -> Report {
    check_file(text, &bench.trusting(trust)).report
}

// T-PRF-05
#[test]
fn the_proof_of_the_last_turn_is_judged_as_its_record_is() {
    let bench = Bench::new();
    let (draft, head) = succeeded(&bench);
    let text = proved(&bench, &draft.bytes);
    for (row, trust, expected) in [
        // A log had the end of the record before the authority named its successor.
        (
            "logged",
            trust_after(&bench, &[head]),
            Some(Verdict::Verified),
        ),
        // No log had it: whichever key seals after it, the authority's key had ended by then.
        (
            "not logged",
            trust_after(&bench, &[]),
            Some(Verdict::Forged),
        ),
        // The authority does not vouch for its successor.
        ("unknown", bench.trust.clone(), Some(Verdict::UnknownSigner)),
        ("a stranger", pin(&native(77)), Some(Verdict::UnknownSigner)),
        ("the heir", pin(&heir()), None),
    ] {
        let record = bench.judged(&draft.bytes, &trust).verdict;
        let proof = check(&bench, text.as_bytes(), &trust).verdict;
        assert_eq!(proof, record, "{row}");
        assert!(expected.is_none_or(|expected| record == expected), "{row}");
    }
}

// T-PRF-05
#[test]
fn one_key_after_another_takes_the_place_of_the_authority() {
    let bench = Bench::new();
    let (mut draft, _) = succeeded(&bench);
    let [third, fourth] = [62, 63].map(native);
    // Of these two the first one never seals.
    for (from, to) in [(&heir(), &third), (&third, &fourth)] {
        draft.succeed(&word(from, to)).unwrap();
    }
    draft.link_by(&fourth).unwrap();
    let text = proved(&bench, &draft.bytes);
    let report = check(&bench, text.as_bytes(), &bench.trust);
    is(&report, Verdict::UnknownSigner, "key_unknown");
    let sealers = [&bench.native, &heir(), &fourth];
    let trust = trust_in(sealers.map(|key| (*key.public_key(), KeyUsage::Native)));
    let report = check(&bench, text.as_bytes(), &trust);
    is(&report, Verdict::Verified, "");
    assert_eq!(report.signers.len(), 3);
}

// T-PRF-05
#[test]
fn every_changed_byte_of_such_a_proof_is_noticed() {
    let bench = Bench::new();
    let (draft, head) = succeeded(&bench);
    let text = proved(&bench, &draft.bytes);
    let trust = trust_after(&bench, &[head]);
    for at in 0..text.len() {
        let mut other = text.clone().into_bytes();
        other[at] ^= 1 << (at % 7);
        let report = check(&bench, &other, &trust);
        assert_eq!(report.verdict.exit_code(), 1, "{at}: {report:?}");
    }
}

/// A key that is to follow, and knows the whole record, seals a line that the writer would refuse.
// T-PRF-05
#[test]
fn nobody_takes_the_place_of_the_authority_but_by_its_word_behind_an_end() {
    let bench = Bench::new();
    let text = proved(&bench, &succeeded(&bench).0.bytes);
    // Without the statement.
    let authority = |line: &&str| line.contains("\"event_type\":\"authority\"");
    let lines = text.split_inclusive('\n');
    let without: String = lines.filter(|line| !authority(line)).collect();
    assert_ne!(without, text);
    // With another key's.
    let other = native(78).public_key().to_hex();
    let others = text.replace(&heir().public_key().to_hex(), &other);
    // A turn that the authority sealed before the end cannot be attributed to the next key.
    let mut draft = bench.begin(8);
    for turn in [1, 2] {
        draft.event("cognition_in", "{}");
        draft.seal(turn);
    }
    draft.finish(2);
    let word_line = text.lines().find(authority).unwrap();
    let early = proved(&bench, &draft.bytes);
    let at = early.find("\nhash ").or(early.rfind("\nseal ")).unwrap();
    let early = format!("{}\n{word_line}{}", &early[..at], &early[at..]);
    for (text, code) in [
        (without, "key_not_allowed"),
        (others, "event_malformed"),
        (early, "event_malformed"),
    ] {
        let report = check(&bench, text.as_bytes(), &bench.trust);
        assert_eq!(report.verdict.exit_code(), 1, "{report:?}");
        assert_eq!(codes(&report), [code], "{text}");
    }
}
