//! Keys that the authority let in beside a record's own: what they seal, and what nobody has them seal.

use super::epochs::{begin, by, epoch, seal};
use super::*;
use crate::encoding;
use crate::report::Report;
use crate::transcript::manifest;

fn delegate() -> LocalSigner {
    signer(77, KeyUsage::Native)
}

/// A record that goes on, sealed by a key of an epoch, which let `delegate` in.
fn delegated(bench: &Bench) -> (Vec<u8>, Sealer) {
    let mut bytes = Vec::new();
    let mut sealer = begin(bench, &epoch(0), &mut bytes);
    let (stamp, key) = (bench.stamp(), *delegate().public_key());
    sealer
        .delegate(stamp, &key, &bench.native, &mut bytes)
        .unwrap();
    seal(bench, &mut sealer, &epoch(0), None, &mut bytes).unwrap();
    (bytes, sealer)
}

/// The payload of a `delegation` event, signed by `by` for `record`.
fn payload(record: &RecordId, key: &LocalSigner, by: &LocalSigner) -> String {
    let word = manifest::delegation_message(record, key.public_key());
    let signature = by.sign(&word).unwrap();
    let signature = encoding::base64(signature.as_bytes());
    format!(
        "{{\"key\":\"{}\",\"signature\":\"{signature}\"}}",
        key.public_key().to_hex()
    )
}

/// What a verifier says of a record to which somebody without scruples adds this event and a seal by `thief`.
fn smuggled(
    bench: &Bench,
    sealer: &Sealer,
    whole: &[u8],
    payload: &str,
    thief: &LocalSigner,
) -> Report {
    let mut writer = sealer.clone();
    let mut bytes = whole.to_vec();
    writer
        .append(bench.stamp(), "delegation", payload.as_bytes(), &mut bytes)
        .unwrap();
    let mut manifest = writer.manifest().clone();
    manifest.key = *thief.public_key();
    writer.keys = sealing_keys::SealingKeys::of(&manifest);
    seal(bench, &mut writer, thief, None, &mut bytes).unwrap();
    bench.verify(&bytes).report
}

#[test]
fn what_sealed_events_say_of_delegates_is_told_and_what_a_tail_says_is_not() {
    let bench = Bench::new();
    let (mut bytes, mut sealer) = delegated(&bench);
    let outcome = bench.verify(&bytes);
    assert_eq!(outcome.report.verdict, Verdict::Open);
    let [told] = <[_; 1]>::try_from(outcome.delegations).unwrap();
    assert_eq!(told.record, sealer.manifest().record);
    assert_eq!(
        (told.by, told.to),
        (*bench.native.public_key(), *delegate().public_key())
    );
    assert_eq!(told.line, 3);
    let other = *signer(78, KeyUsage::Native).public_key();
    sealer
        .delegate(bench.stamp(), &other, &bench.native, &mut bytes)
        .unwrap();
    assert_eq!(bench.verify(&bytes).delegations, [told]);
}

#[test]
fn a_delegation_of_another_record_lets_nobody_in() {
    let bench = Bench::new();
    let thief = signer(79, KeyUsage::Native);
    let (bytes, sealer) = delegated(&bench);
    let transplanted = payload(&RecordId::from_bytes([99; 32]), &thief, &bench.native);
    let report = smuggled(&bench, &sealer, &bytes, &transplanted, &thief);
    assert_eq!(report.verdict, Verdict::Forged, "{:?}", report.findings);
    // The same word for this record does: it is the authority's to say.
    let own = payload(&sealer.manifest().record, &thief, &bench.native);
    let report = smuggled(&bench, &sealer, &bytes, &own, &thief);
    assert_eq!(report.verdict, Verdict::Open, "{:?}", report.findings);
}

#[test]
fn a_delegate_and_a_key_of_an_epoch_let_nobody_in() {
    let bench = Bench::new();
    let thief = signer(79, KeyUsage::Native);
    let (bytes, sealer) = delegated(&bench);
    for by in [delegate(), epoch(0), signer(79, KeyUsage::Native)] {
        let mut writer = sealer.clone();
        let key = thief.public_key();
        let refused = writer.delegate(bench.stamp(), key, &by, &mut Vec::new());
        assert!(refused.is_err());
        let word = payload(&sealer.manifest().record, &thief, &by);
        let report = smuggled(&bench, &sealer, &bytes, &word, &thief);
        assert_eq!(report.verdict, Verdict::Forged, "{:?}", report.findings);
        // Nor does a seal of a key that may seal make it good.
        let report = smuggled(&bench, &sealer, &bytes, &word, &delegate());
        assert_eq!(report.verdict, Verdict::Tampered, "{:?}", report.findings);
    }
}

#[test]
fn a_delegate_seals_nothing_behind_the_end() {
    let bench = Bench::new();
    let (mut bytes, mut sealer) = delegated(&bench);
    let nothing = Payload::parse(b"{}").unwrap();
    sealer
        .end(bench.stamp(), Ending::Completed, &nothing, &mut bytes)
        .unwrap();
    let living = sealer.keys.clone();
    let last = delegate();
    let by_delegate = by(&bench, &last);
    sealer
        .seal(
            bench.stamp(),
            0,
            true,
            Ext::default(),
            by_delegate,
            &mut bytes,
        )
        .unwrap();
    assert_eq!(bench.verify(&bytes).report.verdict, Verdict::Verified);
    let link = |sealer: &mut Sealer, key: &LocalSigner, bytes: &mut Vec<u8>| {
        let stamp = bench.stamp();
        sealer.link(stamp, Link::Resumed, &nothing, bytes).unwrap();
        let signers = by(&bench, key);
        sealer.seal(bench.stamp(), 0, true, Ext::default(), signers, bytes)
    };
    assert!(link(&mut sealer.clone(), &last, &mut Vec::new()).is_err());
    // Without the writer's scruples, as if it had not noticed the end.
    let mut thief = sealer.clone();
    thief.keys = living;
    let mut more = bytes.clone();
    link(&mut thief, &last, &mut more).unwrap();
    let report = bench.verify(&more).report;
    assert_eq!(report.verdict, Verdict::Forged);
    assert_eq!(report.findings[0].code, "key_not_allowed");
    // The authority links, and lets nobody in any more.
    let mut late = sealer.clone();
    let key = *signer(78, KeyUsage::Native).public_key();
    let refused = late.delegate(bench.stamp(), &key, &bench.native, &mut Vec::new());
    assert!(refused.is_err());
    link(&mut sealer, &bench.native, &mut bytes).unwrap();
    assert_eq!(bench.verify(&bytes).report.verdict, Verdict::Verified);
}

#[test]
fn keys_that_seal_already_are_not_let_in_again() {
    let bench = Bench::new();
    let (_, sealer) = delegated(&bench);
    for key in [&bench.native, &epoch(0)] {
        let mut writer = sealer.clone();
        let key = key.public_key();
        let again = writer.delegate(bench.stamp(), key, &bench.native, &mut Vec::new());
        assert!(again.unwrap_err().to_string().contains("already"));
    }
}
