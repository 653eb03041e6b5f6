//! Keys that are valid for a part of a record, and the forgeries that a stolen one does and does
//! not allow.

use super::*;

/// The authority is `bench.native`; it signs line 1 and lets the epochs' keys seal.
pub(super) fn begin(bench: &Bench, epoch: &LocalSigner, out: &mut Vec<u8>) -> Sealer {
    let mut manifest = bench.manifest(7);
    manifest.key = *epoch.public_key();
    let thread = ThreadId::parse("demo/t-1").unwrap();
    let message = manifest.first_key_message(&thread).unwrap();
    manifest.delegation = Some(bench.native.sign(&message).unwrap());
    let stamps = [bench.stamp(), bench.stamp()];
    Sealer::begin(thread, manifest, stamps, by(bench, epoch), out).unwrap()
}

pub(super) fn by<'a>(bench: &'a Bench, key: &'a LocalSigner) -> Signers<'a> {
    Signers {
        native: key,
        rye: &bench.rye,
    }
}

pub(super) fn epoch(number: u8) -> LocalSigner {
    signer(40 + number, KeyUsage::Native)
}

pub(super) fn seal(
    bench: &Bench,
    sealer: &mut Sealer,
    key: &LocalSigner,
    next: Option<&LocalSigner>,
    out: &mut Vec<u8>,
) -> Result<Head, threadseal_core::error::Error> {
    let ext = Ext {
        next_key: next.map(|next| *next.public_key()),
        ..Ext::default()
    };
    let turn = sealer.turn();
    sealer.seal(bench.stamp(), turn, false, ext, by(bench, key), out)
}

/// Three epochs of two seals each, the second of which names the next key. Also returns the
/// writer's state before each seal.
fn three_epochs(bench: &Bench) -> (Vec<u8>, Vec<(Sealer, usize)>, Sealer) {
    let mut out = Vec::new();
    let mut sealer = begin(bench, &epoch(0), &mut out);
    let mut before = Vec::new();
    for number in 0..3 {
        for next in [None, Some(epoch(number + 1))] {
            before.push((sealer.clone(), out.len()));
            let text = format!("{{\"text\":\"in epoch {number}\"}}");
            bench.event(&mut sealer, "cognition_in", &text, &mut out);
            seal(bench, &mut sealer, &epoch(number), next.as_ref(), &mut out).unwrap();
        }
    }
    (out, before, sealer)
}

#[test]
fn a_record_of_several_epochs_verifies_by_its_authority_alone() {
    let bench = Bench::new();
    let (mut bytes, _, mut sealer) = three_epochs(&bench);
    assert_eq!(bench.verify(&bytes).report.verdict, Verdict::Open);
    assert_eq!(sealer.current_key(), Some(epoch(3).public_key()));
    let payload = Payload::parse(b"{}").unwrap();
    sealer
        .end(bench.stamp(), Ending::Completed, &payload, &mut bytes)
        .unwrap();
    let third = epoch(3);
    let last = by(&bench, &third);
    sealer
        .seal(bench.stamp(), 0, true, Ext::default(), last, &mut bytes)
        .unwrap();
    for every_signature in [false, true] {
        let scan = ScanOptions {
            every_signature,
            ..ScanOptions::default()
        };
        let report = verify(&bytes, &scan, &bench.options()).report;
        assert_eq!(report.verdict, Verdict::Verified, "{:?}", report.findings);
    }
}

// T-EPO-04
#[test]
fn a_key_that_named_the_next_one_seals_no_more() {
    let bench = Bench::new();
    let (_, _, mut sealer) = three_epochs(&bench);
    let refused = seal(&bench, &mut sealer, &epoch(2), None, &mut Vec::new());
    assert!(refused.is_err());
    // A dishonest writer with the stolen key: its state does not know of the rotation.
    let (whole, before, _) = three_epochs(&bench);
    let (last_of_epoch, _) = &before[5];
    let mut thief = last_of_epoch.clone();
    let mut line = Vec::new();
    bench.event(&mut thief, "cognition_in", "{\"text\":\"x\"}", &mut line);
    line.clear();
    seal(&bench, &mut thief, &epoch(2), None, &mut line).unwrap();
    let report = bench.verify(&[whole, line].concat()).report;
    assert_eq!(report.verdict, Verdict::Forged);
    assert_eq!(report.findings[0].code, "key_not_allowed");
}

// T-EPO-01
#[test]
fn whoever_steals_the_key_of_an_epoch_forges_nothing_older() {
    let bench = Bench::new();
    let (whole, before, _) = three_epochs(&bench);
    for (stolen, older) in [(1, 0), (2, 0), (2, 1), (3, 2)] {
        let thief = epoch(stolen);
        for (honest, at) in &before[older * 2..older * 2 + 2] {
            // Other text in the older epoch, sealed by the stolen key. The honest writer refuses
            // this, so its rules are left out.
            let mut writer = honest.clone();
            let mut forged = whole[..*at].to_vec();
            bench.event(
                &mut writer,
                "cognition_in",
                "{\"text\":\"no\"}",
                &mut forged,
            );
            assert!(seal(&bench, &mut writer, &thief, None, &mut forged.clone()).is_err());
            let mut manifest = writer.manifest().clone();
            manifest.key = *thief.public_key();
            writer.keys = sealing_keys::SealingKeys::of(&manifest);
            seal(&bench, &mut writer, &thief, None, &mut forged).unwrap();
            let report = bench.verify(&forged).report;
            assert_eq!(report.verdict, Verdict::Forged, "{:?}", report.findings);
            assert_eq!(report.findings[0].code, "key_not_allowed");
        }
    }
}

// T-EPO-03
#[test]
fn the_last_key_of_a_record_seals_nothing_behind_its_end() {
    let bench = Bench::new();
    let (mut bytes, _, mut sealer) = three_epochs(&bench);
    let (payload, last) = (Payload::parse(b"{}").unwrap(), epoch(3));
    let (stamp, living) = (bench.stamp(), sealer.keys.clone());
    sealer
        .end(stamp, Ending::Completed, &payload, &mut bytes)
        .unwrap();
    sealer
        .seal(
            bench.stamp(),
            0,
            true,
            Ext::default(),
            by(&bench, &last),
            &mut bytes,
        )
        .unwrap();
    let link = |sealer: &mut Sealer, key: &LocalSigner, out: &mut Vec<u8>| {
        sealer
            .link(bench.stamp(), Link::Resumed, &payload, out)
            .unwrap();
        sealer.seal(bench.stamp(), 0, true, Ext::default(), by(&bench, key), out)
    };
    let refused = link(&mut sealer.clone(), &last, &mut Vec::new());
    assert!(refused.is_err());
    // A writer of the thief does not apply that rule.
    let mut thief = sealer.clone();
    thief.keys = living;
    let mut more = Vec::new();
    link(&mut thief, &last, &mut more).unwrap();
    let report = bench.verify(&[&bytes[..], &more].concat()).report;
    assert_eq!(report.verdict, Verdict::Forged);
    assert_eq!(report.findings[0].code, "key_not_allowed");
    // The authority does.
    let mut more = Vec::new();
    link(&mut sealer, &bench.native, &mut more).unwrap();
    let report = bench.verify(&[&bytes[..], &more].concat()).report;
    assert_eq!(report.verdict, Verdict::Verified, "{:?}", report.findings);
}

// T-EPO-05
#[test]
fn a_key_that_was_given_up_never_comes_back() {
    let bench = Bench::new();
    let (whole, _, sealer) = three_epochs(&bench);
    let first = epoch(0);
    // Line 1 has the authority's signature for the first key: repeated, it does not admit that key
    // again.
    let mut writer = sealer.clone();
    let again = writer.delegate(
        bench.stamp(),
        first.public_key(),
        &bench.native,
        &mut vec![],
    );
    assert!(again.is_err());
    let signature = writer.manifest().delegation.unwrap();
    let payload = format!(
        "{{\"key\":\"{}\",\"signature\":\"{}\"}}",
        first.public_key().to_hex(),
        threadseal_core::encoding::base64(signature.as_bytes())
    );
    let mut line = Vec::new();
    let thread = ThreadId::parse("demo/t-1").unwrap();
    let stamp = bench.stamp();
    let (at, salt) = (stamp.timestamp, stamp.salt);
    event::write_frame(&mut line, at, &thread, "delegation", salt);
    line.extend_from_slice(payload.as_bytes());
    line.extend_from_slice(b"}\n");
    let bytes = [&whole[..], &line].concat();
    let report = bench.verify(&bytes).report;
    assert_eq!(report.verdict, Verdict::UnsignedTail);
    let codes: Vec<_> = report
        .findings
        .iter()
        .map(|found| found.code.as_str())
        .collect();
    assert!(codes.contains(&"event_malformed"), "{codes:?}");
    // The key of a later epoch may not name it either.
    let mut writer = sealer;
    let named = seal(
        &bench,
        &mut writer,
        &epoch(3),
        Some(&first),
        &mut Vec::new(),
    );
    assert!(named.unwrap_err().to_string().contains("was replaced"));
}

#[test]
fn the_authority_takes_a_record_over_whose_key_is_lost_and_the_lost_key_is_out() {
    let bench = Bench::new();
    let (mut bytes, _, mut sealer) = three_epochs(&bench);
    let next = epoch(9);
    bench.event(&mut sealer, "cognition_in", "{}", &mut bytes);
    seal(&bench, &mut sealer, &bench.native, Some(&next), &mut bytes).unwrap();
    let lost = seal(&bench, &mut sealer, &epoch(3), None, &mut Vec::new());
    assert!(lost.is_err());
    bench.event(&mut sealer, "cognition_in", "{}", &mut bytes);
    seal(&bench, &mut sealer, &next, None, &mut bytes).unwrap();
    assert_eq!(bench.verify(&bytes).report.verdict, Verdict::Open);
}

// T-EPO-06
#[test]
fn a_delegate_names_no_next_key_and_nobody_names_the_authority() {
    let bench = Bench::new();
    let mut bytes = Vec::new();
    let mut sealer = begin(&bench, &epoch(0), &mut bytes);
    let delegate = signer(77, KeyUsage::Native);
    sealer
        .delegate(
            bench.stamp(),
            delegate.public_key(),
            &bench.native,
            &mut bytes,
        )
        .unwrap();
    let named = seal(
        &bench,
        &mut sealer,
        &delegate,
        Some(&epoch(1)),
        &mut Vec::new(),
    );
    assert!(named.is_err());
    for nobody in [&bench.native, &epoch(0)] {
        let named = seal(
            &bench,
            &mut sealer,
            &epoch(0),
            Some(nobody),
            &mut Vec::new(),
        );
        assert!(named.is_err());
    }
    // A writer that skips the check writes a line that the verifier refuses.
    let mut rogue = sealer.clone();
    let mut manifest = rogue.manifest().clone();
    manifest.key = *delegate.public_key();
    rogue.keys = sealing_keys::SealingKeys::of(&manifest);
    seal(&bench, &mut rogue, &delegate, Some(&epoch(1)), &mut bytes).unwrap();
    let report = bench.verify(&bytes).report;
    assert_eq!(report.verdict, Verdict::Forged);
    assert_eq!(report.findings[0].code, "next_key_bad");
}

#[test]
fn a_turn_of_a_later_epoch_is_proved_through_the_keys_before_it() {
    let bench = Bench::new();
    let mut bytes = Vec::new();
    let mut sealer = begin(&bench, &epoch(0), &mut bytes);
    let turns: [(&LocalSigner, LocalSigner); 3] = [
        (&epoch(0), epoch(1)),
        (&epoch(1), epoch(2)),
        (&bench.native, epoch(9)),
    ];
    for (turn, (key, next)) in (1..).zip(&turns) {
        let text = format!("{{\"text\":\"turn {turn}\",\"role\":\"user\"}}");
        bench.event(&mut sealer, "cognition_in", &text, &mut bytes);
        let ext = Ext {
            next_key: Some(*next.public_key()),
            ..Ext::default()
        };
        let signers = by(&bench, key);
        sealer
            .seal(bench.stamp(), turn, false, ext, signers, &mut bytes)
            .unwrap();
    }
    let payload = Payload::parse(b"{}").unwrap();
    sealer
        .end(bench.stamp(), Ending::Completed, &payload, &mut bytes)
        .unwrap();
    let last = by(&bench, &turns[2].1);
    sealer
        .seal(bench.stamp(), 4, true, Ext::default(), last, &mut bytes)
        .unwrap();
    // After the end the authority links to the continuing thread.
    sealer
        .link(bench.stamp(), Link::Resumed, &payload, &mut bytes)
        .unwrap();
    let authority = bench.signers();
    sealer
        .seal(
            bench.stamp(),
            4,
            true,
            Ext::default(),
            authority,
            &mut bytes,
        )
        .unwrap();
    let verified = bench.verify(&bytes).verified.unwrap();
    for turn in 1..=4 {
        let proof = turn_proof::TurnProof::make(&verified, &bytes, turn).unwrap();
        let text = proof.to_string();
        let checked = turn_proof::check_file(text.as_bytes(), &bench.options());
        let report = &checked.report;
        assert_eq!(
            report.verdict,
            Verdict::Verified,
            "{turn}: {:?}",
            report.findings
        );
        assert_eq!(checked.turn, Some(turn));
    }
}
