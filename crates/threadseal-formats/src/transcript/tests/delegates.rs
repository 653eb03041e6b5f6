//! Keys that the authority admitted beside a record's own: their seals, and the seals that are
//! refused.

use super::*;
use crate::transcript::manifest;
use crate::transcript::payloads::Delegation;

fn delegate() -> LocalSigner {
    native(77)
}

/// A record without an end, sealed by a key of an epoch, which admitted `delegate`.
fn delegated(bench: &Bench) -> Draft<'_> {
    let mut draft = begin_epochs(bench);
    draft.delegate(&delegate(), &bench.native).unwrap();
    draft.seal_by(&epoch(0), 0).unwrap();
    draft
}

/// The payload of a `delegation` event, signed by `by` for the record of this origin.
fn signed(origin: &KeyName, key: &LocalSigner, by: &LocalSigner) -> String {
    let word = manifest::delegation_message(origin, key.public_key());
    delegation_payload(key, &by.sign(&word).unwrap())
}

/// The report on a record to which a dishonest writer adds this event and a seal by `thief`.
fn smuggled(draft: &Draft<'_>, payload: &str, thief: &LocalSigner) -> Report {
    let mut writer = draft.clone();
    writer
        .add(|sealer, stamp, out| sealer.append(stamp, "delegation", payload.as_bytes(), out))
        .unwrap();
    let mut writer = writer.stolen_by(thief);
    writer.seal_by(thief, 0).unwrap();
    writer.report()
}

#[test]
fn what_sealed_events_say_of_delegates_is_told_and_what_a_tail_says_is_not() {
    let bench = Bench::new();
    let mut draft = delegated(&bench);
    let outcome = bench.verify(&draft.bytes);
    assert_eq!(outcome.report.verdict, Verdict::Open);
    let told = SealedDelegation {
        record: draft.sealer.manifest().record,
        by: *bench.native.public_key(),
        to: *delegate().public_key(),
        line: 3,
    };
    assert_eq!(outcome.delegations, [told]);
    draft.delegate(&native(78), &bench.native).unwrap();
    assert_eq!(bench.verify(&draft.bytes).delegations, [told]);
}

// T-KLOG-25
#[test]
fn a_delegation_of_another_record_lets_nobody_in() {
    let bench = Bench::new();
    let (thief, draft) = (native(79), delegated(&bench));
    let other = KeyName::parse(&manifest::origin(b"another line 1")).unwrap();
    let transplanted = signed(&other, &thief, &bench.native);
    is(
        &smuggled(&draft, &transplanted, &thief),
        Verdict::Forged,
        "",
    );
    // The same statement for this record counts: the authority may make it.
    let own = signed(&draft.sealer.origin, &thief, &bench.native);
    is(&smuggled(&draft, &own, &thief), Verdict::Open, "");
}

// T-KLOG-25
#[test]
fn a_delegate_and_a_key_of_an_epoch_let_nobody_in() {
    let bench = Bench::new();
    let (thief, draft) = (native(79), delegated(&bench));
    for by in [delegate(), epoch(0), native(79)] {
        assert!(draft.clone().delegate(&thief, &by).is_err());
        let word = signed(&draft.sealer.origin, &thief, &by);
        is(&smuggled(&draft, &word, &thief), Verdict::Forged, "");
        // A seal by a permitted key does not make it valid either.
        is(&smuggled(&draft, &word, &delegate()), Verdict::Tampered, "");
    }
}

// T-KLOG-28
#[test]
fn a_delegate_seals_nothing_behind_the_end() {
    let bench = Bench::new();
    let (mut draft, last) = (delegated(&bench), delegate());
    draft.end();
    let living = draft.sealer.keys.clone();
    draft.seal_by(&last, 0).unwrap();
    assert_eq!(draft.verdict(), Verdict::Verified);
    assert!(draft.clone().link_by(&last).is_err());
    // Without the writer's own checks, as if it had not noticed the end.
    let mut thief = draft.clone();
    thief.sealer.keys = living;
    thief.link_by(&last).unwrap();
    assert_eq!(thief.first(), "forged: key_not_allowed");
    // The authority links, and admits no further key.
    assert!(draft.clone().delegate(&native(78), &bench.native).is_err());
    draft.link_by(&bench.native).unwrap();
    assert_eq!(draft.verdict(), Verdict::Verified);
}

#[test]
fn keys_that_seal_already_are_not_let_in_again() {
    let bench = Bench::new();
    let draft = delegated(&bench);
    for key in [&bench.native, &epoch(0)] {
        let again = draft.clone().delegate(key, &bench.native);
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
    let mut draft = bench.begin_in(thread, manifest, &thief);
    draft.end();
    draft.seal_by(&thief, 0).unwrap();
    draft.report()
}

// T-KLOG-26
#[test]
fn the_word_for_a_delegate_begins_no_other_record_with_the_same_id() {
    let bench = Bench::new();
    let draft = delegated(&bench);
    let lines = texts_of(&draft.bytes);
    let event = lines
        .iter()
        .find(|line| line.contains("\"delegation\",\"salt\""));
    let frame = event::parse_frame(event.unwrap().as_bytes()).unwrap();
    let Delegation {
        key,
        signature: word,
    } = Delegation::parse(frame.payload).unwrap();
    assert_eq!(key, *delegate().public_key());
    let report = invented(&bench, draft.sealer.manifest().clone(), word, "demo/t-1");
    is(&report, Verdict::Forged, "delegation_bad");
}

// T-KLOG-26
#[test]
fn the_word_for_a_first_key_begins_nothing_but_what_the_authority_saw() {
    let bench = Bench::new();
    let mut manifest = bench.manifest(7);
    manifest.key = *delegate().public_key();
    manifest.directive = Some("payments/approve".to_owned());
    let word = manifest.first_key_message(&thread_id("demo/t-1")).unwrap();
    let word = bench.native.sign(&word).unwrap();
    let with_model = Manifest {
        model: Some("other".to_owned()),
        ..manifest.clone()
    };
    let mut able = manifest.clone();
    able.capabilities.push("payments.send".to_owned());
    for (manifest, thread, verdict) in [
        (&manifest, "demo/t-1", Verdict::Verified),
        // With another thread, another model, or more capabilities it is no statement of the
        // authority.
        (&manifest, "demo/t-2", Verdict::Forged),
        (&with_model, "demo/t-1", Verdict::Forged),
        (&able, "demo/t-1", Verdict::Forged),
    ] {
        let _row = Row((thread, &manifest.model, &manifest.capabilities));
        let report = invented(&bench, manifest.clone(), word, thread);
        is(&report, verdict, "");
    }
}
