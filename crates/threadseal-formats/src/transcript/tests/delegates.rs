//! Keys that the authority admitted beside a record's own: their seals, and the seals that are
//! refused.

use super::epochs::{begin, by, epoch, seal};
use super::*;
use crate::transcript::manifest;
use crate::transcript::sealing_keys::SealingKeys;
use threadseal_core::encoding;
use threadseal_core::key::Signature;
use threadseal_core::note::KeyName;
use threadseal_core::report::Report;

fn delegate() -> LocalSigner {
    signer(77, KeyUsage::Native)
}

/// A record without an end, sealed by a key of an epoch, which admitted `delegate`.
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

/// The payload of a `delegation` event, signed by `by` for the record of this origin.
fn payload(origin: &KeyName, key: &LocalSigner, by: &LocalSigner) -> String {
    let word = manifest::delegation_message(origin, key.public_key());
    let signature = by.sign(&word).unwrap();
    let signature = encoding::base64(signature.as_bytes());
    format!(
        "{{\"key\":\"{}\",\"signature\":\"{signature}\"}}",
        key.public_key().to_hex()
    )
}

/// The report on a record to which a dishonest writer adds this event and a seal by `thief`.
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
    writer.keys = SealingKeys::of(&manifest);
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

// T-KLOG-25
#[test]
fn a_delegation_of_another_record_lets_nobody_in() {
    let bench = Bench::new();
    let thief = signer(79, KeyUsage::Native);
    let (bytes, sealer) = delegated(&bench);
    let other = KeyName::parse(&manifest::origin(b"another line 1")).unwrap();
    let transplanted = payload(&other, &thief, &bench.native);
    let report = smuggled(&bench, &sealer, &bytes, &transplanted, &thief);
    assert_eq!(report.verdict, Verdict::Forged, "{:?}", report.findings);
    // The same statement for this record counts: the authority may make it.
    let own = payload(&sealer.origin, &thief, &bench.native);
    let report = smuggled(&bench, &sealer, &bytes, &own, &thief);
    assert_eq!(report.verdict, Verdict::Open, "{:?}", report.findings);
}

// T-KLOG-25
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
        let word = payload(&sealer.origin, &thief, &by);
        let report = smuggled(&bench, &sealer, &bytes, &word, &thief);
        assert_eq!(report.verdict, Verdict::Forged, "{:?}", report.findings);
        // A seal by a permitted key does not make it valid either.
        let report = smuggled(&bench, &sealer, &bytes, &word, &delegate());
        assert_eq!(report.verdict, Verdict::Tampered, "{:?}", report.findings);
    }
}

// T-KLOG-28
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
    // Without the writer's own checks, as if it had not noticed the end.
    let mut thief = sealer.clone();
    thief.keys = living;
    let mut more = bytes.clone();
    link(&mut thief, &last, &mut more).unwrap();
    let report = bench.verify(&more).report;
    assert_eq!(report.verdict, Verdict::Forged);
    assert_eq!(report.findings[0].code, "key_not_allowed");
    // The authority links, and admits no further key.
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

/// Line 1 as a delegate would like it, in the name of the authority, with any `delegation`. Adds a
/// final seal by the delegate.
fn invented(bench: &Bench, mut manifest: Manifest, word: Signature, thread: &str) -> Report {
    let thief = delegate();
    manifest.key = *thief.public_key();
    manifest.delegation = Some(word);
    manifest.directive = Some("payments/approve".to_owned());
    let thread = ThreadId::parse(thread).unwrap();
    let (mut bytes, stamps) = (Vec::new(), [bench.stamp(), bench.stamp()]);
    let signers = by(bench, &thief);
    let mut sealer = Sealer::begin(thread, manifest, stamps, signers, &mut bytes).unwrap();
    let nothing = Payload::parse(b"{}").unwrap();
    sealer
        .end(bench.stamp(), Ending::Completed, &nothing, &mut bytes)
        .unwrap();
    let signers = by(bench, &thief);
    sealer
        .seal(bench.stamp(), 0, true, Ext::default(), signers, &mut bytes)
        .unwrap();
    bench.verify(&bytes).report
}

// T-KLOG-26
#[test]
fn the_word_for_a_delegate_begins_no_other_record_with_the_same_id() {
    let bench = Bench::new();
    let (bytes, sealer) = delegated(&bench);
    let text = String::from_utf8(bytes).unwrap();
    let event = text
        .lines()
        .find(|line| line.contains("\"delegation\",\"salt\""));
    let frame = event::parse_frame(event.unwrap().as_bytes()).unwrap();
    let (key, word) = SealingKeys::delegated_by(frame.payload).unwrap();
    assert_eq!(key, *delegate().public_key());
    let report = invented(&bench, sealer.manifest().clone(), word, "demo/t-1");
    assert_eq!(report.verdict, Verdict::Forged, "{:?}", report.findings);
    assert!(
        report
            .findings
            .iter()
            .any(|found| found.code == "delegation_bad")
    );
}

// T-KLOG-26
#[test]
fn the_word_for_a_first_key_begins_nothing_but_what_the_authority_saw() {
    let bench = Bench::new();
    let thief = delegate();
    let thread = ThreadId::parse("demo/t-1").unwrap();
    let mut manifest = bench.manifest(7);
    manifest.key = *thief.public_key();
    manifest.directive = Some("payments/approve".to_owned());
    let word = manifest.first_key_message(&thread).unwrap();
    let word = bench.native.sign(&word).unwrap();
    let report = invented(&bench, manifest.clone(), word, "demo/t-1");
    assert_eq!(report.verdict, Verdict::Verified, "{:?}", report.findings);
    // With another thread, another model, or more capabilities it is no statement of the authority.
    let with_model = Manifest {
        model: Some("other".to_owned()),
        ..manifest.clone()
    };
    let mut able = manifest.clone();
    able.capabilities.push("payments.send".to_owned());
    for (changed, thread) in [
        (manifest, "demo/t-2"),
        (with_model, "demo/t-1"),
        (able, "demo/t-1"),
    ] {
        let report = invented(&bench, changed, word, thread);
        assert_eq!(report.verdict, Verdict::Forged, "{:?}", report.findings);
    }
}
