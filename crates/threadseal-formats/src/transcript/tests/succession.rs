//! Keys in the place of an authority that ended: permitted seals, and forbidden ones.

use super::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::report::Report;
use threadseal_core::tlog::entry::key_event::{KeyChange, KeyEvent, KeyHistory};
use threadseal_core::trust::{Revocation, SealPlaces};

/// A log that contained these heads when `bench.native` stated, at entry 100, that `heir` replaces
/// it.
#[derive(Debug)]
struct Log {
    heads: BTreeSet<Digest>,
    keys: KeyHistory,
}

impl SealPlaces for Log {
    fn place(&self, head: &Head) -> Option<u64> {
        self.heads.contains(&head.line).then_some(99)
    }

    fn stamped(&self, _: &Head) -> Option<Timestamp> {
        None
    }

    fn keys(&self) -> Option<&KeyHistory> {
        Some(&self.keys)
    }
}

pub(super) fn heir() -> LocalSigner {
    signer(61, KeyUsage::Native)
}

pub(super) fn word(from: &LocalSigner, to: &LocalSigner) -> KeyEvent {
    KeyEvent::sign(KeyChange::Rotate(*to.public_key()), from).unwrap()
}

/// The trust of a home that rotated its key after these heads were in its log.
pub(super) fn rotated(bench: &Bench, heads: &[Head]) -> Trust {
    let event = word(&bench.native, &heir());
    let keys = KeyHistory::of(&[(100, event)]);
    let mut trust = bench.trust.clone();
    let old = trust
        .store
        .by_key(bench.native.public_key())
        .next()
        .unwrap()
        .clone();
    let revocation = Revocation {
        at: Timestamp::from_micros(1_700_000_000_000_000).unwrap(),
        reason: "its place was taken".into(),
        entry: Some(100),
    };
    trust.store.revoke(&old.name, revocation).unwrap();
    let mut next = old;
    (next.key, next.name) = (*heir().public_key(), TrustName::parse("heir").unwrap());
    trust.store.add(next).unwrap();
    trust.places = Some(Arc::new(Log {
        heads: heads.iter().map(|head| head.line).collect(),
        keys,
    }));
    trust
}

pub(super) fn judged(bench: &Bench, bytes: &[u8], trust: &Trust) -> Report {
    let options = VerifyOptions {
        trust,
        ..bench.options()
    };
    verify(bytes, &ScanOptions::default(), &options).report
}

/// A record that ended, its writer, and its last head.
pub(super) fn ended(bench: &Bench) -> (Vec<u8>, Sealer, Head) {
    let mut out = Vec::new();
    let mut sealer = bench.begin(7, &mut out);
    bench.event(&mut sealer, "cognition_in", "{\"text\":\"go\"}", &mut out);
    let head = bench.finish(&mut sealer, 1, &mut out);
    (out, sealer, head)
}

pub(super) fn link(
    bench: &Bench,
    sealer: &mut Sealer,
    key: &LocalSigner,
    out: &mut Vec<u8>,
) -> Result<Head, threadseal_core::error::Error> {
    let payload = Payload::parse(b"{}").unwrap();
    sealer.link(bench.stamp(), Link::Resumed, &payload, out)?;
    let signers = Signers {
        native: key,
        rye: &bench.rye,
    };
    sealer.seal(bench.stamp(), 1, true, Ext::default(), signers, out)
}

// T-KLOG-21
#[test]
fn a_key_in_the_place_of_the_authority_seals_behind_the_end_and_the_old_one_no_more() {
    let bench = Bench::new();
    let (mut bytes, mut sealer, head) = ended(&bench);
    let trust = rotated(&bench, &[head]);
    assert_eq!(judged(&bench, &bytes, &trust).verdict, Verdict::Verified);
    let before = (bytes.clone(), sealer.clone());
    let said = word(&bench.native, &heir());
    sealer.succeed(bench.stamp(), &said, &mut bytes).unwrap();
    assert!(!sealer.may_seal(bench.native.public_key()));
    assert!(link(&bench, &mut sealer.clone(), &bench.native, &mut Vec::new()).is_err());
    link(&bench, &mut sealer, &heir(), &mut bytes).unwrap();
    assert_eq!(judged(&bench, &bytes, &trust).verdict, Verdict::Verified);
    // A verifier that trusts the authority alone, and does not know of its end, accepts its
    // successor.
    assert_eq!(bench.verify(&bytes).report.verdict, Verdict::Verified);
    // The stolen old key continues alone, or names one of the thief's keys.
    let (mut forged, mut thief) = before.clone();
    link(&bench, &mut thief, &bench.native, &mut forged).unwrap();
    assert_eq!(judged(&bench, &forged, &trust).verdict, Verdict::Forged);
    let (mut forged, mut thief) = before;
    let mine = signer(66, KeyUsage::Native);
    let said = word(&bench.native, &mine);
    thief.succeed(bench.stamp(), &said, &mut forged).unwrap();
    link(&bench, &mut thief, &mine, &mut forged).unwrap();
    assert_eq!(judged(&bench, &forged, &trust).verdict, Verdict::Forged);
}

// T-KLOG-22
#[test]
fn what_stood_in_no_log_before_the_authority_ended_is_forged_whoever_seals_behind_it() {
    let bench = Bench::new();
    let (mut bytes, mut sealer, _) = ended(&bench);
    let trust = rotated(&bench, &[]);
    assert_eq!(judged(&bench, &bytes, &trust).verdict, Verdict::Forged);
    let said = word(&bench.native, &heir());
    sealer.succeed(bench.stamp(), &said, &mut bytes).unwrap();
    link(&bench, &mut sealer, &heir(), &mut bytes).unwrap();
    assert_eq!(judged(&bench, &bytes, &trust).verdict, Verdict::Forged);
}

/// The reader trusts the delegate directly, and a log had the record before its authority ended.
/// That does not validate later statements of the authority's key.
// T-KLOG-27
#[test]
fn a_delegate_that_an_ended_key_let_in_makes_nothing_good_and_one_let_in_before_goes_on() {
    let bench = Bench::new();
    let mut bytes = Vec::new();
    let mut sealer = bench.begin(7, &mut bytes);
    let seal = |sealer: &mut Sealer, key: &LocalSigner, out: &mut Vec<u8>| {
        let signers = Signers {
            native: key,
            rye: &bench.rye,
        };
        let turn = sealer.turn();
        sealer
            .seal(bench.stamp(), turn, false, Ext::default(), signers, out)
            .unwrap()
    };
    let before = seal(&mut sealer, &bench.native, &mut bytes);
    let key = *heir().public_key();
    sealer
        .delegate(bench.stamp(), &key, &bench.native, &mut bytes)
        .unwrap();
    let (mut late, mut later) = (bytes.clone(), sealer.clone());
    seal(&mut later, &heir(), &mut late);
    let trust = rotated(&bench, &[before]);
    assert_eq!(judged(&bench, &late, &trust).verdict, Verdict::Forged);
    let over_it = seal(&mut sealer, &bench.native, &mut bytes);
    seal(&mut sealer, &heir(), &mut bytes);
    let trust = rotated(&bench, &[before, over_it]);
    assert_eq!(judged(&bench, &bytes, &trust).verdict, Verdict::Open);
}

// T-KLOG-24
#[test]
fn only_the_word_of_the_present_authority_of_a_record_that_ended_lets_another_key_in() {
    let bench = Bench::new();
    let (bytes, sealer, _) = ended(&bench);
    let (stranger, heir) = (signer(66, KeyUsage::Native), heir());
    let refused = |sealer: &Sealer, said: &KeyEvent| {
        let said = sealer.clone().succeed(bench.stamp(), said, &mut Vec::new());
        assert!(said.is_err(), "{said:?}");
    };
    refused(&sealer, &word(&stranger, &heir));
    let end = KeyEvent::sign(KeyChange::Revoke, &bench.native).unwrap();
    refused(&sealer, &end);
    let mut out = Vec::new();
    let going_on = bench.begin(7, &mut out);
    refused(&going_on, &word(&bench.native, &heir));
    let mut later = sealer.clone();
    later
        .succeed(bench.stamp(), &word(&bench.native, &heir), &mut Vec::new())
        .unwrap();
    refused(&later, &word(&bench.native, &stranger));
    refused(&later, &word(&heir, &bench.native));
    // A line that states it nevertheless.
    let mut thief = sealer.clone();
    let good = word(&bench.native, &heir);
    let mut line = Vec::new();
    thief.succeed(bench.stamp(), &good, &mut line).unwrap();
    let text = String::from_utf8(line).unwrap();
    let text = text.replace(&heir.public_key().to_hex(), &stranger.public_key().to_hex());
    let report = bench.verify(&[&bytes[..], text.as_bytes()].concat()).report;
    let codes: Vec<_> = report
        .findings
        .iter()
        .map(|found| found.code.as_str())
        .collect();
    assert!(codes.contains(&"event_malformed"), "{codes:?}");
}

// T-TRA-22
#[test]
fn a_word_for_another_key_in_an_adopted_tail_is_said_again_by_its_writer() {
    let bench = Bench::new();
    let (mut bytes, mut sealer, head) = ended(&bench);
    let trust = rotated(&bench, &[head]);
    let said = word(&bench.native, &heir());
    // An attacker who can write to the file finds the statement in the log.
    let (before, mut tail) = (sealer.clone(), Vec::new());
    sealer.succeed(bench.stamp(), &said, &mut tail).unwrap();
    bytes.extend_from_slice(&tail);
    let mut recovering = before;
    recovering
        .tail_adopted(bench.stamp(), &tail, &mut bytes)
        .unwrap();
    let unsaid = (bytes.clone(), recovering.clone());
    recovering
        .succeed(bench.stamp(), &said, &mut bytes)
        .unwrap();
    link(&bench, &mut recovering, &heir(), &mut bytes).unwrap();
    assert_eq!(judged(&bench, &bytes, &trust).verdict, Verdict::Partial);
    // Adopted alone, it admits no key.
    let (mut bytes, mut sealer) = unsaid;
    assert!(link(&bench, &mut sealer, &heir(), &mut bytes).is_err());
}
