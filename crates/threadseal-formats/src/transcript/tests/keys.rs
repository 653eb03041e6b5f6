//! The keys that may seal a record: keys that it admits, and no others.

use super::*;

// T-TRA-08
#[test]
fn only_keys_that_the_record_lets_in_may_seal() {
    let bench = Bench::new();
    let other = native(5);
    let mut draft = bench.begin(4);
    draft.event("cognition_in", "{}");
    assert!(draft.seal_by(&other, 1).is_err());
    draft.announce(&other);
    assert!(draft.seal_by(&other, 1).is_err(), "too early");
    draft.seal(1);
    draft.seal_by(&other, 1).unwrap();
    assert!(draft.seal_by(&bench.native, 1).is_err(), "replaced");
    let report = draft.report();
    is(&report, Verdict::Open, "");
    // Both seals count by the word of the authority, which is reported once.
    assert_eq!(report.signers.len(), 1);
    assert_eq!(report.signers[0].sealed_by.len(), 2);
}

// T-TRA-08
#[test]
fn a_delegate_may_seal_by_the_word_of_the_authority_and_nobody_else() {
    let bench = Bench::new();
    let delegate = native(6);
    let mut draft = bench.begin(4);
    assert!(draft.delegate(&delegate, &delegate).is_err());
    draft.delegate(&delegate, &bench.native).unwrap();
    draft.seal_by(&delegate, 0).unwrap();
    assert_eq!(draft.verdict(), Verdict::Open);
}

// T-TRA-09
#[test]
fn a_stranger_who_rewrites_the_whole_record_is_an_unknown_signer_also_when_another_key_is_pinned() {
    let bench = Bench::new();
    let mut stranger = Bench::new();
    stranger.native = native(66);
    let bytes = stranger.record();
    let report = bench.verify(&bytes).report;
    assert_eq!(report.verdict, Verdict::UnknownSigner);
    assert_eq!(report.trusted_until, None);
    let pinned = |bytes: &[u8]| bench.judged(bytes, &pin(&bench.native)).verdict;
    assert_eq!(pinned(&bytes), Verdict::UnknownSigner);
    assert_eq!(pinned(&bench.record()), Verdict::Verified);
}

// T-TRA-22
#[test]
fn an_adopted_tail_cannot_hand_the_record_to_another_key() {
    let bench = Bench::new();
    let attacker = native(99);
    let mut draft = bench.begin(4);
    draft.adopt(|tail| tail.announce(&attacker));
    draft.seal(0);
    assert!(draft.seal_by(&attacker, 0).is_err());
    assert_eq!(draft.verdict(), Verdict::Partial);
}
