//! Verdicts on lineages of v0x04 and v0x05: links of the line, forks, and rollbacks.

use super::made::*;
use super::*;
use threadseal_core::record::{ExpectedHead, Head};
use threadseal_core::report::Expectation;
use threadseal_core::report::{Completeness, SignerStatus, Verdict};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Trust, TrustName, TrustedKey};

fn expecting(head: ExpectedHead, remembered: bool) -> Vec<Expectation> {
    vec![if remembered {
        Expectation::remembered(head)
    } else {
        Expectation::given(head, false)
    }]
}

// T-LIN-26
#[test]
fn a_lineage_is_verified_in_whatever_order_its_files_come() {
    let a = first(1, 1);
    let b = next(&a, 1, b"second", |_| {});
    let c = next(&b, 1, b"third", |_| {});
    for files in [[&a, &b, &c], [&c, &a, &b], [&b, &c, &a]] {
        let outcome = pinned(1, &files);
        says(&outcome, Verdict::Verified, "");
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
    let unknown = judged(facts(&[&a]), &Judging::new(&Trust::default(), now()));
    says(&unknown, Verdict::UnknownSigner, "key_unknown");
    says(&pinned(9, &[&a]), Verdict::Forged, "key_not_pinned");
}

#[test]
fn a_session_key_signs_for_the_root_while_its_delegation_holds() {
    let a = first(1, 2);
    let b = next(&a, 2, b"second", |_| {});
    let outcome = pinned(1, &[&a, &b]);
    says(&outcome, Verdict::Verified, "");
    let statuses: Vec<SignerStatus> = outcome.report.signers.iter().map(|s| s.status).collect();
    assert_eq!(statuses, [SignerStatus::Pinned, SignerStatus::Trusted]);
    let trust = Trust::key(key(1));
    let later = Timestamp::from_micros(now().as_micros() + 60_000_000).unwrap();
    let ended = judged(facts(&[&a, &b]), &Judging::new(&trust, later));
    says(&ended, Verdict::UnknownSigner, "delegation_ended");
    let held = Judging {
        held_since: Some(now()),
        ..Judging::new(&trust, later)
    };
    says(&judged(facts(&[&a, &b]), &held), Verdict::Verified, "");
}

// T-LIN-28
#[test]
fn a_revoked_session_key_is_forgery() {
    let a = first(1, 2);
    let mut trust = Trust::key(key(1));
    let name = TrustName::parse("node").unwrap();
    trust
        .store
        .add(TrustedKey::new(name.clone(), key(2), [KeyUsage::Native]))
        .unwrap();
    let revocation = threadseal_core::trust::Revocation {
        at: now(),
        reason: "stolen".to_owned(),
        entry: None,
    };
    trust.store.revoke(&name, revocation).unwrap();
    let outcome = judged(facts(&[&a]), &Judging::new(&trust, now()));
    says(&outcome, Verdict::Forged, "key_revoked");
}

// T-LIN-24
#[test]
fn two_signed_children_of_one_parent_are_a_fork_wherever_they_lie() {
    let a = first(1, 1);
    let b = next(&a, 1, b"one", |_| {});
    let c = next(&a, 1, b"two", |header| header.tick += 7);
    let mut files = facts(&[&a, &b, &c]);
    files[2].folder = 4;
    let outcome = judged(files, &Judging::new(&Trust::key(key(1)), now()));
    says(&outcome, Verdict::Forked, "fork");
    assert_eq!(outcome.forks[0].parent, Some(a.hash));
    assert_eq!(outcome.report.trusted_until.unwrap().line, 1);
    // Also where the parent is not available.
    says(&pinned(1, &[&b, &c]), Verdict::Forked, "fork");
    // And the same link twice is none.
    says(&pinned(1, &[&a, &b, &b]), Verdict::Verified, "duplicate");
}

#[test]
fn two_beginnings_of_one_agent_are_a_fork() {
    let a = first(1, 1);
    let writer = writer(1, 1, 1);
    let again = genesis(1, &writer, b"again");
    let again = Made::of(seal_native(again, &native(1)).unwrap(), b"again");
    says(&pinned(1, &[&a, &again]), Verdict::Forked, "second_genesis");
}

// T-LIN-24
#[test]
fn two_links_with_one_number_are_a_fork_although_their_parents_are_gone() {
    let a = first(1, 1);
    let b = next(&a, 1, b"b", |_| {});
    let c = next(&b, 1, b"c", |_| {});
    let d = next(&c, 1, b"d", |_| {});
    let other = next(&a, 1, b"other", |_| {});
    let other = next(&other, 1, b"c", |_| {});
    let other = next(&other, 1, b"d", |_| {});
    says(&pinned(1, &[&d, &other]), Verdict::Forked, "fork");
}

// T-LIN-25
#[test]
fn what_a_stranger_signs_behind_a_link_is_forged_and_no_fork() {
    let a = first(1, 1);
    let b = next(&a, 1, b"one", |_| {});
    let mut header = b.header.clone();
    let native_part = header.native.as_mut().unwrap();
    native_part.root = key(9);
    header.signer = Some(*key(9).as_bytes());
    let stranger = Made::of(seal_native(header, &native(9)).unwrap(), b"one");
    let outcome = pinned(1, &[&a, &b, &stranger]);
    says(&outcome, Verdict::Forged, "key_changed");
    assert!(outcome.forks.is_empty());
    let nobody = judged(
        facts(&[&a, &b, &stranger]),
        &Judging::new(&Trust::default(), now()),
    );
    says(&nobody, Verdict::Forged, "key_changed");
}

// T-LIN-28
#[test]
fn a_key_without_the_authority_is_forged_however_well_it_was_delegated_to() {
    let a = first(1, 2);
    let usurper = next(&a, 3, b"mine", |_| {});
    let outcome = pinned(1, &[&a, &usurper]);
    says(&outcome, Verdict::Forged, "not_holder");
    let b = next(&a, 2, b"mine", |_| {});
    let outcome = pinned(1, &[&a, &b, &usurper]);
    says(&outcome, Verdict::Forged, "not_holder");
    assert!(outcome.forks.is_empty());
}

#[test]
fn authority_moves_by_release_and_accept_and_comes_back_by_refuse() {
    let a = first(1, 2);
    let offered = release(&a, 1, 2, 3, 0);
    let accept = LinkBody::Accept {
        release: offered.hash,
    };
    let taken = hand(&offered, 1, 3, &accept);
    let b = next(&taken, 3, b"there", |_| {});
    let outcome = pinned(1, &[&a, &offered, &taken, &b]);
    says(&outcome, Verdict::Verified, "");
    assert_eq!(outcome.tip.unwrap().authority.holder(), Some(&key(3)));
    // The source continues although it released.
    let after = next(&offered, 2, b"still here", |_| {});
    let outcome = pinned(1, &[&a, &offered, &after]);
    says(&outcome, Verdict::Forged, "out_of_turn");
    // It continues beside its release: one parent has two children.
    let beside = next(&a, 2, b"still here", |_| {});
    let outcome = pinned(1, &[&a, &offered, &beside]);
    says(&outcome, Verdict::Forked, "fork");
    // Accepted and refused.
    let refuse = LinkBody::Refuse {
        release: offered.hash,
        reason: RefusalReason::parse("full").unwrap(),
    };
    let refused = hand(&offered, 1, 3, &refuse);
    let c = next(&refused, 2, b"back", |_| {});
    let outcome = pinned(1, &[&a, &offered, &refused, &c]);
    says(&outcome, Verdict::Verified, "");
    let outcome = pinned(1, &[&a, &offered, &taken, &refused]);
    says(&outcome, Verdict::Forked, "fork");
}

#[test]
fn a_recovery_replaces_the_branch_that_it_names_and_no_other() {
    let a = first(1, 2);
    let offered = release(&a, 1, 2, 3, 0);
    let accept = LinkBody::Accept {
        release: offered.hash,
    };
    let taken = hand(&offered, 1, 3, &accept);
    let b = next(&taken, 3, b"lost", |_| {});
    let recover = |void| {
        LinkBody::Recover(Recover {
            epoch: 2,
            void,
            key: key(4),
            nonce: [0; 32],
        })
    };
    let named = hand(&offered, 1, 1, &recover(Some(taken.hash)));
    let goes_on = next(&named, 4, b"new", |_| {});
    let outcome = pinned(1, &[&a, &offered, &taken, &b, &named, &goes_on]);
    says(&outcome, Verdict::Verified, "link_void");
    assert_eq!(outcome.tip.unwrap().link.hash, goes_on.hash);
    let unnamed = hand(&offered, 1, 1, &recover(None));
    let outcome = pinned(1, &[&a, &offered, &taken, &unnamed]);
    says(&outcome, Verdict::Forked, "fork");
    // Only the root recovers.
    let usurped = hand(&offered, 1, 4, &recover(None));
    let outcome = pinned(1, &[&a, &offered, &usurped]);
    says(&outcome, Verdict::Forged, "not_holder");
}

// T-LIN-26 T-LIN-29
#[test]
fn each_rule_between_two_links_has_its_verdict() {
    type Change = fn(&mut CheckpointHeader);
    let a = first(1, 1);
    let rules: [(&str, Verdict, Change); 9] = [
        ("tick_regressed", Verdict::RolledBack, |h| h.tick = 1),
        ("same_tick", Verdict::Verified, |h| h.tick = 5),
        ("budget_increased", Verdict::Tampered, |h| h.budget += 1),
        ("epoch_wrong", Verdict::Forged, |h| h.epoch.major = 1),
        ("code_changed", Verdict::Verified, |h| {
            h.code = Digest::of(b"other");
        }),
        ("seq_wrong", Verdict::Tampered, |h| {
            h.native.as_mut().unwrap().seq = 7;
        }),
        ("time_regressed", Verdict::Verified, |h| {
            h.native.as_mut().unwrap().time -= 1;
        }),
        ("", Verdict::Verified, |h| h.epoch.generation = 1),
        ("", Verdict::Verified, |h| h.lease_expiry = NOW),
    ];
    for (code, verdict, change) in rules {
        let b = next(&a, 1, b"second", change);
        says(&pinned(1, &[&a, &b]), verdict, code);
    }
    let b = next(&a, 1, b"b", |h| h.epoch.generation = 3);
    let c = next(&b, 1, b"c", |h| h.epoch.generation = 2);
    says(
        &pinned(1, &[&a, &b, &c]),
        Verdict::RolledBack,
        "epoch_regressed",
    );
    let leased = next(&a, 1, b"b", |h| h.lease_expiry = NOW - 5);
    let late = next(&leased, 1, b"c", |_| {});
    let outcome = pinned(1, &[&a, &leased, &late]);
    says(&outcome, Verdict::Verified, "lease_overrun");
}

#[test]
fn a_changed_state_is_tampered_and_a_changed_header_forged() {
    let a = first(1, 1);
    let mut b = next(&a, 1, b"second", |_| {});
    let last = b.file.len() - 1;
    b.file[last] ^= 1;
    says(&pinned(1, &[&a, &b]), Verdict::Tampered, "state_differs");
    b.file[last] ^= 1;
    b.file.push(0);
    says(&pinned(1, &[&a, &b]), Verdict::Tampered, "state_differs");
    b.file.pop();
    b.file[24] ^= 1;
    says(&pinned(1, &[&a, &b]), Verdict::Forged, "signature_bad");
}

#[test]
fn a_broken_copy_beside_a_whole_one_is_told_and_does_not_hide_it() {
    let a = first(1, 1);
    let mut broken = a.clone();
    let last = broken.file.len() - 1;
    broken.file[last] ^= 1;
    for files in [[&a, &broken], [&broken, &a]] {
        says(&pinned(1, &files), Verdict::Tampered, "state_differs");
    }
}

#[test]
fn a_header_without_its_state_proves_its_place_and_nothing_to_start_from() {
    let a = first(1, 1);
    let b = next(&a, 1, b"b", |_| {});
    let head_of = |made: &Made| {
        let file = [HEAD_MAGIC, &made.file[..HEADER_LENGTH]].concat();
        LinkFacts::of("head", &file)
    };
    let trust = Trust::key(key(1));
    let judging = Judging::new(&trust, now());
    let older = vec![head_of(&a), LinkFacts::of("f", &b.file)];
    says(&judged(older, &judging), Verdict::Verified, "state_absent");
    let newest = vec![head_of(&b), LinkFacts::of("f", &a.file)];
    says(&judged(newest, &judging), Verdict::Partial, "state_absent");
    // The whole file represents both.
    let both = vec![
        head_of(&b),
        LinkFacts::of("f", &a.file),
        LinkFacts::of("g", &b.file),
    ];
    says(&judged(both, &judging), Verdict::Verified, "");
    let changed = [HEAD_MAGIC, &b.file[..HEADER_LENGTH], b"b"].concat();
    let refused = vec![LinkFacts::of("f", &changed)];
    says(
        &judged(refused, &judging),
        Verdict::Tampered,
        "state_differs",
    );
}

// T-LIN-22
#[test]
fn a_head_that_is_not_here_is_a_rollback_and_one_that_is_makes_it_whole() {
    let a = first(1, 1);
    let b = next(&a, 1, b"b", |_| {});
    let c = next(&b, 1, b"c", |_| {});
    let trust = Trust::key(key(1));
    let head = pinned(1, &[&a, &b, &c]).report.head.unwrap();
    assert_eq!((head.seq, head.size, head.line), (2, 15, c.hash.digest()));
    let judged_with = |files: &[&Made], head, remembered| {
        let judging = Judging {
            expect: expecting(head, remembered),
            ..Judging::new(&trust, now())
        };
        judged(facts(files), &judging)
    };
    let line = ExpectedHead::Line(c.hash.digest());
    let whole = judged_with(&[&a, &b, &c], line, false);
    says(&whole, Verdict::Verified, "");
    assert_eq!(whole.report.completeness, Completeness::Head);
    says(
        &judged_with(&[&a, &b], line, false),
        Verdict::RolledBack,
        "head_missing",
    );
    let full = ExpectedHead::Head(head);
    says(
        &judged_with(&[&a, &b], full, false),
        Verdict::Truncated,
        "head_ahead",
    );
    says(
        &judged_with(&[&a, &b], full, true),
        Verdict::RolledBack,
        "head_ahead",
    );
    let other = next(&b, 1, b"other", |_| {});
    says(
        &judged_with(&[&a, &b, &other], full, true),
        Verdict::Forked,
        "head_differs",
    );
    let foreign = ExpectedHead::Head(Head {
        record: threadseal_core::record::RecordId::from_bytes([7; 32]),
        ..head
    });
    says(
        &judged_with(&[&a, &b], foreign, false),
        Verdict::Foreign,
        "record_differs",
    );
    // Files that begin directly after the head are ahead of it.
    let d = next(&c, 1, b"d", |_| {});
    let window = judged_with(&[&d], line, false);
    says(&window, Verdict::Partial, "no_genesis");
}

#[test]
fn a_link_in_the_middle_that_is_gone_is_a_gap_and_a_beginning_that_is_gone_no_forgery() {
    let a = first(1, 1);
    let b = next(&a, 1, b"b", |_| {});
    let c = next(&b, 1, b"c", |_| {});
    says(&pinned(1, &[&a, &c]), Verdict::Truncated, "gap");
    says(&pinned(1, &[&b, &c]), Verdict::Partial, "no_genesis");
    let trust = Trust::key(key(1));
    let single = Judging {
        view: View::Single,
        ..Judging::new(&trust, now())
    };
    let alone = judge(facts(&[&c]), &single);
    says(&alone.unwrap()[0], Verdict::Verified, "");
}
