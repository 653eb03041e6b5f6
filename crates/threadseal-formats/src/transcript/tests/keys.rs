//! The keys that may seal a record: keys that it admits, and no others.

use super::*;

// T-TRA-08
#[test]
fn only_keys_that_the_record_lets_in_may_seal() {
    let bench = Bench::new();
    let other = signer(5, KeyUsage::Native);
    let mut bytes = Vec::new();
    let mut sealer = bench.begin(4, &mut bytes);
    bench.event(&mut sealer, "cognition_in", "{}", &mut bytes);
    let stranger = Signers {
        native: &other,
        rye: &bench.rye,
    };
    let refused = sealer.seal(
        bench.stamp(),
        1,
        false,
        Ext::default(),
        stranger,
        &mut bytes,
    );
    assert!(refused.is_err());

    sealer
        .announce_key(bench.stamp(), other.public_key(), &mut bytes)
        .unwrap();
    let too_early = sealer.seal(
        bench.stamp(),
        1,
        false,
        Ext::default(),
        stranger,
        &mut bytes,
    );
    assert!(too_early.is_err());
    bench.seal(&mut sealer, 1, &mut bytes);
    sealer
        .seal(
            bench.stamp(),
            1,
            false,
            Ext::default(),
            stranger,
            &mut bytes,
        )
        .unwrap();
    let retired = sealer.seal(
        bench.stamp(),
        1,
        false,
        Ext::default(),
        bench.signers(),
        &mut bytes,
    );
    assert!(retired.is_err());
    let outcome = bench.verify(&bytes);
    assert_eq!(
        outcome.report.verdict,
        Verdict::Open,
        "{:?}",
        outcome.report.findings
    );
    assert_eq!(outcome.report.signers.len(), 2);
}

// T-TRA-08
#[test]
fn a_delegate_may_seal_by_the_word_of_the_authority_and_nobody_else() {
    let bench = Bench::new();
    let delegate = signer(6, KeyUsage::Native);
    let mut bytes = Vec::new();
    let mut sealer = bench.begin(4, &mut bytes);
    let by_delegate = Signers {
        native: &delegate,
        rye: &bench.rye,
    };
    let wrong = sealer.delegate(bench.stamp(), delegate.public_key(), &delegate, &mut bytes);
    assert!(wrong.is_err());
    sealer
        .delegate(
            bench.stamp(),
            delegate.public_key(),
            &bench.native,
            &mut bytes,
        )
        .unwrap();
    sealer
        .seal(
            bench.stamp(),
            0,
            false,
            Ext::default(),
            by_delegate,
            &mut bytes,
        )
        .unwrap();
    assert_eq!(bench.verify(&bytes).report.verdict, Verdict::Open);
}

// T-TRA-09
#[test]
fn a_stranger_who_rewrites_the_whole_record_is_an_unknown_signer_and_forged_when_pinned() {
    let bench = Bench::new();
    let mut stranger = Bench::new();
    stranger.native = signer(66, KeyUsage::Native);
    let bytes = stranger.record();
    assert_eq!(bench.verify(&bytes).report.verdict, Verdict::UnknownSigner);
    assert_eq!(bench.verify(&bytes).report.trusted_until, None);
    let pinned = Trust::key(*bench.native.public_key());
    let options = VerifyOptions {
        trust: &pinned,
        ..bench.options()
    };
    let outcome = verify(&bytes, &ScanOptions::default(), &options);
    assert_eq!(outcome.report.verdict, Verdict::Forged);
    let outcome = verify(&bench.record(), &ScanOptions::default(), &options);
    assert_eq!(outcome.report.verdict, Verdict::Verified);
}

// T-TRA-22
#[test]
fn an_adopted_tail_cannot_hand_the_record_to_another_key() {
    let bench = Bench::new();
    let attacker = signer(99, KeyUsage::Native);
    let mut bytes = Vec::new();
    let mut sealer = bench.begin(4, &mut bytes);
    let before = sealer.clone();
    let mut tail = Vec::new();
    sealer
        .announce_key(bench.stamp(), attacker.public_key(), &mut tail)
        .unwrap();
    bytes.extend_from_slice(&tail);
    let mut recovering = before;
    recovering
        .tail_adopted(bench.stamp(), &tail, &mut bytes)
        .unwrap();
    bench.seal(&mut recovering, 0, &mut bytes);
    let by_attacker = Signers {
        native: &attacker,
        rye: &bench.rye,
    };
    let refused = recovering.seal(
        bench.stamp(),
        0,
        false,
        Ext::default(),
        by_attacker,
        &mut bytes,
    );
    assert!(refused.is_err());
    assert_eq!(bench.verify(&bytes).report.verdict, Verdict::Partial);
}
