//! Keys that are valid for a part of a record, and the forgeries that a stolen one does and does
//! not allow.

use super::*;

/// Three epochs of two seals each, the second of which names the next key. Also returns the
/// writers before each event and its seal.
fn three_epochs(bench: &Bench) -> (Draft<'_>, Vec<Draft<'_>>) {
    let mut draft = begin_epochs(bench);
    let mut before = Vec::new();
    for number in 0..3 {
        for next in [false, true] {
            before.push(draft.clone());
            draft.say(&format!("in epoch {number}"));
            let key = epoch(number);
            let sealed = match next {
                true => draft.seal_naming(&key, 0, &epoch(number + 1)),
                false => draft.seal_by(&key, 0),
            };
            sealed.unwrap();
        }
    }
    (draft, before)
}

#[test]
fn a_record_of_several_epochs_verifies_by_its_authority_alone() {
    let bench = Bench::new();
    let (mut draft, _) = three_epochs(&bench);
    assert_eq!(draft.verdict(), Verdict::Open);
    assert_eq!(draft.sealer.current_key(), Some(epoch(3).public_key()));
    draft.end();
    draft.seal_by(&epoch(3), 0).unwrap();
    for every_signature in [false, true] {
        let scan = ScanOptions {
            every_signature,
            ..ScanOptions::default()
        };
        let report = verify(&draft.bytes, &scan, &bench.options()).report;
        is(&report, Verdict::Verified, "");
    }
}

// T-EPO-04
#[test]
fn a_key_that_named_the_next_one_seals_no_more() {
    let bench = Bench::new();
    let (whole, before) = three_epochs(&bench);
    assert!(whole.clone().seal_by(&epoch(2), 0).is_err());
    // A dishonest writer with the stolen key: its state does not know of the rotation.
    let mut thief = before[5].clone();
    thief.say("x");
    let from = thief.bytes.len();
    thief.seal_by(&epoch(2), 0).unwrap();
    let report = bench.verify(&[&whole.bytes, &thief.bytes[from..]].concat());
    assert_eq!(first(&report.report), "forged: key_not_allowed");
}

// T-EPO-01
#[test]
fn whoever_steals_the_key_of_an_epoch_forges_nothing_older() {
    let bench = Bench::new();
    let (_, before) = three_epochs(&bench);
    for (stolen, older) in [(1, 0), (2, 0), (2, 1), (3, 2)] {
        for honest in &before[older * 2..older * 2 + 2] {
            // Other text in the older epoch, sealed by the stolen key. The honest writer refuses
            // this, so its rules are left out.
            let mut writer = honest.clone();
            writer.say("no");
            assert!(writer.clone().seal_by(&epoch(stolen), 0).is_err());
            let mut thief = writer.stolen_by(&epoch(stolen));
            thief.seal_by(&epoch(stolen), 0).unwrap();
            assert_eq!(thief.first(), "forged: key_not_allowed", "{stolen} {older}");
        }
    }
}

// T-EPO-03
#[test]
fn the_last_key_of_a_record_seals_nothing_behind_its_end() {
    let bench = Bench::new();
    let (mut draft, _) = three_epochs(&bench);
    let (last, living) = (epoch(3), draft.sealer.keys.clone());
    draft.end();
    draft.seal_by(&last, 0).unwrap();
    assert!(draft.clone().link_by(&last).is_err());
    // A writer of the thief does not apply that rule.
    let mut thief = draft.clone();
    thief.sealer.keys = living;
    thief.link_by(&last).unwrap();
    assert_eq!(thief.first(), "forged: key_not_allowed");
    // The authority does.
    draft.link_by(&bench.native).unwrap();
    is(&draft.report(), Verdict::Verified, "");
}

// T-EPO-05
#[test]
fn a_key_that_was_given_up_never_comes_back() {
    let bench = Bench::new();
    let (draft, _) = three_epochs(&bench);
    let first = epoch(0);
    // Line 1 has the authority's signature for the first key: repeated, it does not admit that key
    // again.
    assert!(draft.clone().delegate(&first, &bench.native).is_err());
    let signature = draft.sealer.manifest().delegation.unwrap();
    let payload = delegation_payload(&first, &signature);
    let mut again = draft.clone();
    again
        .add(|sealer, stamp, out| sealer.append(stamp, "delegation", payload.as_bytes(), out))
        .unwrap();
    is(&again.report(), Verdict::UnsignedTail, "event_malformed");
    // The key of a later epoch may not name it either.
    let named = draft.clone().seal_naming(&epoch(3), 0, &first);
    assert!(named.unwrap_err().to_string().contains("was replaced"));
}

#[test]
fn the_authority_takes_a_record_over_whose_key_is_lost_and_the_lost_key_is_out() {
    let bench = Bench::new();
    let (mut draft, _) = three_epochs(&bench);
    let next = epoch(9);
    draft.event("cognition_in", "{}");
    draft.seal_naming(&bench.native, 0, &next).unwrap();
    assert!(draft.clone().seal_by(&epoch(3), 0).is_err());
    draft.event("cognition_in", "{}");
    draft.seal_by(&next, 0).unwrap();
    assert_eq!(draft.verdict(), Verdict::Open);
}

// T-EPO-06
#[test]
fn a_delegate_names_no_next_key_and_nobody_names_the_authority() {
    let bench = Bench::new();
    let delegate = native(77);
    let mut draft = begin_epochs(&bench);
    draft.delegate(&delegate, &bench.native).unwrap();
    for (key, next) in [
        (&delegate, &epoch(1)),
        (&epoch(0), &bench.native),
        (&epoch(0), &epoch(0)),
    ] {
        assert!(draft.clone().seal_naming(key, 0, next).is_err());
    }
    // A writer that skips the check writes a line that the verifier refuses.
    let mut rogue = draft.stolen_by(&delegate);
    rogue.seal_naming(&delegate, 0, &epoch(1)).unwrap();
    assert_eq!(rogue.first(), "forged: next_key_bad");
}

#[test]
fn a_turn_of_a_later_epoch_is_proved_through_the_keys_before_it() {
    let bench = Bench::new();
    let mut draft = begin_epochs(&bench);
    let keys = [
        (&epoch(0), epoch(1)),
        (&epoch(1), epoch(2)),
        (&bench.native, epoch(9)),
    ];
    for (turn, (key, next)) in (1..).zip(&keys) {
        draft.say(&format!("turn {turn}"));
        draft.seal_naming(key, turn, next).unwrap();
    }
    draft.end();
    draft.seal_by(&keys[2].1, 4).unwrap();
    // After the end the authority links to the continuing thread.
    draft.link_by(&bench.native).unwrap();
    let verified = bench.verified(&draft.bytes);
    for turn in 1..=4 {
        let _row = Row(turn);
        let proof = TurnProof::make(&verified, &draft.bytes, turn).unwrap();
        let checked = check_file(proof.to_string().as_bytes(), &bench.options());
        is(&checked.report, Verdict::Verified, "");
        assert_eq!(checked.turn, Some(turn));
    }
}
