//! Verdicts on lineages of v0x04 and v0x05: links of the line, forks, and rollbacks.

use super::*;

// T-LIN-26
#[test]
fn a_lineage_is_verified_in_whatever_order_its_files_come() {
    let a = first(1, 1);
    let b = a.next(1, b"second");
    let c = b.next(1, b"third");
    for files in [[&a, &b, &c], [&c, &a, &b], [&b, &c, &a]] {
        let outcome = pinned(&files, Verified, "");
        assert_eq!(outcome.report.completeness, Completeness::Unproved);
        let head = outcome.verified.unwrap();
        assert_eq!(head.get().link.hash, c.hash);
        assert_eq!(head.get().position, Some(2));
        assert_eq!(head.get().authority.holder(), Some(&key(1)));
        let until = head.grounds().trusted_until;
        assert_eq!((until.line, until.turn), (3, Some(15)));
    }
}

// T-LIN-18
#[test]
fn a_lineage_that_holds_under_its_own_key_is_consistent_and_not_authentic() {
    let a = first(1, 1);
    untrusted(&[&a], UnknownSigner, "key_unknown");
    by(&Trust::key(key(9)), &[&a], UnknownSigner, "other_signer");
}

#[test]
fn a_session_key_signs_for_the_root_while_its_delegation_holds() {
    let a = first(1, 2);
    let b = a.next(2, b"second");
    let outcome = pinned(&[&a, &b], Verified, "");
    let statuses: Vec<SignerStatus> = outcome.report.signers.iter().map(|s| s.status).collect();
    assert_eq!(statuses, [SignerStatus::Pinned, SignerStatus::Trusted]);
    let trust = Trust::key(key(1));
    for (held_since, verdict, code) in [
        (None, UnknownSigner, "delegation_ended"),
        (Some(now()), Verified, ""),
    ] {
        let judging = Judging {
            held_since,
            ..Judging::new(&trust, later())
        };
        is(&judged(facts(&[&a, &b]), &judging).report, verdict, code);
    }
}

// T-LIN-28
#[test]
fn a_revoked_session_key_is_forgery() {
    let session = revoked(trust_in([(key(2), KeyUsage::Native)]), "key-1", now());
    let trust = Trust {
        store: session.store,
        ..Trust::key(key(1))
    };
    by(&trust, &[&first(1, 2)], Forged, "key_revoked");
}

// T-LIN-24
#[test]
fn two_signed_children_of_one_parent_are_a_fork_wherever_they_lie() {
    let a = first(1, 1);
    let b = a.next(1, b"one");
    let c = a.next_with(1, b"two", |header| header.tick += 7);
    let mut files = facts(&[&a, &b, &c]);
    files[2].folder = 4;
    let outcome = judged(files, &Judging::new(&Trust::key(key(1)), now()));
    is(&outcome.report, Forked, "fork");
    assert_eq!(outcome.forks[0].parent, Some(a.hash));
    assert_eq!(outcome.report.trusted_until.unwrap().line, 1);
    // Also where the parent is not available.
    pinned(&[&b, &c], Forked, "fork");
    // And the same link twice is none.
    pinned(&[&a, &b, &b], Verified, "duplicate");
}

#[test]
fn two_beginnings_of_one_agent_are_a_fork() {
    let again = Made::native(genesis(1, &writer(1, 1, 1), b"again"), 1, b"again");
    pinned(&[&first(1, 1), &again], Forked, "second_genesis");
}

// T-LIN-24
#[test]
fn two_links_with_one_number_are_a_fork_although_their_parents_are_gone() {
    let a = first(1, 1);
    let d = a.next(1, b"b").next(1, b"c").next(1, b"d");
    let other = a.next(1, b"other").next(1, b"c").next(1, b"d");
    pinned(&[&d, &other], Forked, "fork");
}

// T-LIN-25
#[test]
fn what_a_stranger_signs_behind_a_link_is_forged_and_no_fork() {
    let a = first(1, 1);
    let b = a.next(1, b"one");
    let mut header = b.header.clone();
    part(&mut header).root = key(9);
    header.signer = Some(*key(9).as_bytes());
    let stranger = Made::native(header, 9, b"one");
    let outcome = pinned(&[&a, &b, &stranger], Forged, "key_changed");
    assert!(outcome.forks.is_empty());
    untrusted(&[&a, &b, &stranger], Forged, "key_changed");
}

// T-LIN-28
#[test]
fn a_key_without_the_authority_is_forged_however_well_it_was_delegated_to() {
    let a = first(1, 2);
    let usurper = a.next(3, b"mine");
    pinned(&[&a, &usurper], Forged, "not_holder");
    let b = a.next(2, b"mine");
    let outcome = pinned(&[&a, &b, &usurper], Forged, "not_holder");
    assert!(outcome.forks.is_empty());
}

#[test]
fn authority_moves_by_release_and_accept_and_comes_back_by_refuse() {
    let a = first(1, 2);
    let offered = a.release(2, 3);
    let taken = offered.accept(3);
    let b = taken.next(3, b"there");
    let outcome = pinned(&[&a, &offered, &taken, &b], Verified, "");
    assert_eq!(outcome.tip.unwrap().authority.holder(), Some(&key(3)));
    // The source continues although it released.
    let after = offered.next(2, b"still here");
    pinned(&[&a, &offered, &after], Forged, "out_of_turn");
    // It continues beside its release: one parent has two children.
    let beside = a.next(2, b"still here");
    pinned(&[&a, &offered, &beside], Forked, "fork");
    // Accepted and refused.
    let refused = offered.refuse(3);
    let c = refused.next(2, b"back");
    pinned(&[&a, &offered, &refused, &c], Verified, "");
    pinned(&[&a, &offered, &taken, &refused], Forked, "fork");
}

#[test]
fn a_recovery_replaces_the_branch_that_it_names_and_no_other() {
    let a = first(1, 2);
    let offered = a.release(2, 3);
    let taken = offered.accept(3);
    let b = taken.next(3, b"lost");
    let named = offered.recover(1, Some(&taken));
    let goes_on = named.next(4, b"new");
    let files = [&a, &offered, &taken, &b, &named, &goes_on];
    let outcome = pinned(&files, Verified, "link_void");
    assert_eq!(outcome.tip.unwrap().link.hash, goes_on.hash);
    let unnamed = offered.recover(1, None);
    pinned(&[&a, &offered, &taken, &unnamed], Forked, "fork");
    // Only the root recovers.
    let usurped = offered.recover(4, None);
    pinned(&[&a, &offered, &usurped], Forged, "not_holder");
}

// T-LIN-26 T-LIN-29
#[test]
fn each_rule_between_two_links_has_its_verdict() {
    type Change = fn(&mut CheckpointHeader);
    let a = first(1, 1);
    let rules: [(&str, Verdict, Change); 9] = [
        ("tick_regressed", RolledBack, |h| h.tick = 1),
        ("same_tick", Verified, |h| h.tick = 5),
        ("budget_increased", Tampered, |h| h.budget += 1),
        ("epoch_wrong", Forged, |h| h.epoch.major = 1),
        ("code_changed", Verified, |h| h.code = Digest::of(b"other")),
        ("seq_wrong", Tampered, |h| part(h).seq = 7),
        ("time_regressed", Verified, |h| part(h).time -= 1),
        ("", Verified, |h| h.epoch.generation = 1),
        ("", Verified, |h| h.lease_expiry = NOW),
    ];
    for (number, (code, verdict, change)) in rules.into_iter().enumerate() {
        let _row = Row(number);
        let b = a.next_with(1, b"second", change);
        pinned(&[&a, &b], verdict, code);
    }
    let b = a.next_with(1, b"b", |h| h.epoch.generation = 3);
    let c = b.next_with(1, b"c", |h| h.epoch.generation = 2);
    pinned(&[&a, &b, &c], RolledBack, "epoch_regressed");
    let leased = a.next_with(1, b"b", |h| h.lease_expiry = NOW - 5);
    let late = leased.next(1, b"c");
    pinned(&[&a, &leased, &late], Verified, "lease_overrun");
}

#[test]
fn a_changed_state_is_tampered_and_a_changed_header_forged() {
    let a = first(1, 1);
    let b = a.next(1, b"second");
    let edits: [(fn(&mut Vec<u8>), Verdict, &str); 3] = [
        (|f| *f.last_mut().unwrap() ^= 1, Tampered, "state_differs"),
        (|f| f.push(0), Tampered, "state_differs"),
        (|f| f[24] ^= 1, Forged, "signature_bad"),
    ];
    for (edit, verdict, code) in edits {
        let mut changed = b.clone();
        edit(&mut changed.file);
        pinned(&[&a, &changed], verdict, code);
    }
}

#[test]
fn a_broken_copy_beside_a_whole_one_is_told_and_does_not_hide_it() {
    let a = first(1, 1);
    let mut broken = a.clone();
    *broken.file.last_mut().unwrap() ^= 1;
    for files in [[&a, &broken], [&broken, &a]] {
        pinned(&files, Tampered, "state_differs");
    }
}

#[test]
fn a_header_without_its_state_proves_its_place_and_nothing_to_start_from() {
    let a = first(1, 1);
    let b = a.next(1, b"b");
    let head = |made: &Made| [HEAD_MAGIC, &made.file[..HEADER_LENGTH]].concat();
    let (head_a, head_b) = (head(&a), head(&b));
    let changed = [&head_b[..], b"b"].concat();
    for (files, verdict, code) in [
        (&[&head_a, &b.file][..], Verified, "state_absent"),
        (&[&head_b, &a.file], Partial, "state_absent"),
        // The whole file represents both.
        (&[&head_b, &a.file, &b.file], Verified, ""),
        (&[&changed], Tampered, "state_differs"),
    ] {
        let files = files.iter().enumerate();
        let facts = files.map(|(at, file)| LinkFacts::of(&format!("f{at}"), file));
        let trust = Trust::key(key(1));
        let outcome = judged(facts.collect(), &Judging::new(&trust, now()));
        is(&outcome.report, verdict, code);
    }
}

// T-LIN-22
#[test]
fn a_head_that_is_not_here_is_a_rollback_and_one_that_is_makes_it_whole() {
    let a = first(1, 1);
    let b = a.next(1, b"b");
    let c = b.next(1, b"c");
    let (other, d) = (b.next(1, b"other"), c.next(1, b"d"));
    let head = pinned(&[&a, &b, &c], Verified, "").report.head.unwrap();
    assert_eq!((head.seq, head.size, head.line), (2, 15, c.hash.digest()));
    let foreign = Head {
        record: RecordId::from_bytes([7; 32]),
        ..head
    };
    let given = |head| Expectation::given(head, false);
    let line = given(ExpectedHead::Line(head.line));
    let full = given(ExpectedHead::Head(head));
    let remembered = Expectation::remembered(ExpectedHead::Head(head));
    let foreign = given(ExpectedHead::Head(foreign));
    let trust = Trust::key(key(1));
    for (files, expect, verdict, code) in [
        (&[&a, &b, &c][..], &line, Verified, ""),
        (&[&a, &b], &line, RolledBack, "head_missing"),
        (&[&a, &b], &full, Truncated, "head_ahead"),
        (&[&a, &b], &remembered, RolledBack, "head_ahead"),
        (&[&a, &b, &other], &remembered, Forked, "head_differs"),
        (&[&a, &b], &foreign, Verdict::Foreign, "record_differs"),
        // Files that begin directly after the head are ahead of it.
        (&[&d], &line, Partial, "no_genesis"),
    ] {
        let judging = Judging {
            expect: vec![expect.clone()],
            ..Judging::new(&trust, now())
        };
        let report = judged(facts(files), &judging).report;
        is(&report, verdict, code);
        let known = report.completeness == Completeness::Head;
        assert!(known || verdict != Verified);
    }
}

#[test]
fn a_link_in_the_middle_that_is_gone_is_a_gap_and_a_beginning_that_is_gone_no_forgery() {
    let a = first(1, 1);
    let b = a.next(1, b"b");
    let c = b.next(1, b"c");
    pinned(&[&a, &c], Truncated, "gap");
    pinned(&[&b, &c], Partial, "no_genesis");
    let trust = Trust::key(key(1));
    let single = Judging {
        view: View::Single,
        ..Judging::new(&trust, now())
    };
    is(&judged(facts(&[&c]), &single).report, Verified, "");
}
