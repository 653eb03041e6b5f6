//! Verdicts that involve igor's links, unsigned links, and the names of files.

use super::*;

/// igor's links by key 1: one for each tick, each after the one before.
fn originals(ticks: &[u64]) -> Vec<Made> {
    let mut made: Vec<Made> = Vec::new();
    for tick in ticks {
        let mut header = original(made.last().map(|made| made.hash));
        header.tick = *tick;
        made.push(Made::igor(header, 1, &tick.to_le_bytes()));
    }
    made
}

// T-LIN-26
#[test]
fn an_upgrade_goes_on_under_the_same_key_and_keeps_the_older_history() {
    let old = originals(&[5, 10]);
    let upgrade = |root: u8| {
        let mut header = genesis(root, &writer(root, root, 1), b"new");
        header.prev = Some(old[1].hash);
        part(&mut header).seq = 2;
        header.tick = 15;
        header.budget = old[1].header.budget;
        header.epoch = old[1].header.epoch;
        header.price = old[1].header.price;
        Made::native(header, root, b"new")
    };
    let new = upgrade(1);
    let outcome = pinned(&[&old[0], &old[1], &new], Verified, "");
    assert_eq!(outcome.report.profile, "threadseal");
    pinned(&[&old[0], &old[1], &upgrade(9)], Forged, "key_changed");
    // Back to igor's format.
    let mut back = original(Some(new.hash));
    (back.tick, back.budget) = (20, 0);
    let back = Made::igor(back, 1, b"s");
    let files = [&old[0], &old[1], &new, &back];
    pinned(&files, Forged, "version_regressed");
}

/// The link without the fields of v0x04: budget, epoch, code and state are kept.
fn stripped(made: &Made, byte: u8) -> Made {
    let length = if byte == 3 { 81 } else { 57 };
    let state = &made.file[209..];
    let mut file = [&made.file[..length], state].concat();
    file[0] = byte;
    Made {
        hash: ContentHash::of(&file),
        header: made.header.clone(),
        file,
    }
}

// T-LIN-21
#[test]
fn an_unsigned_link_counts_before_the_first_signature_and_nowhere_else() {
    let old = originals(&[5, 10, 15]);
    for byte in [2, 3] {
        let before = stripped(&originals(&[2])[0], byte);
        let middle = stripped(&old[1], byte);
        let head = stripped(&old[2], byte);
        let files = [&before, &old[0], &old[1]];
        let outcome = pinned(&files, Verified, "unsigned_prefix");
        assert_eq!(outcome.report.unauthenticated, ["checkpoint=f0"]);
        pinned(&[&old[0], &middle, &old[2]], Forged, "unsigned_member");
        pinned(&[&old[0], &old[1], &head], Forged, "unsigned_member");
        // Alone it is unsigned, unless a key is pinned.
        untrusted(&[&head], Unsigned, "unsigned");
        pinned(&[&head], Forged, "signature_missing");
    }
}

// T-LIN-21
#[test]
fn a_first_byte_that_hides_a_signature_is_tampering_whoever_is_trusted() {
    for byte in [2, 3] {
        let mut hidden = originals(&[5]).remove(0);
        hidden.file[0] = byte;
        untrusted(&[&hidden], Tampered, "version_changed");
    }
}

// T-LIN-19
#[test]
fn a_key_of_small_order_under_which_anything_verifies_is_forged() {
    // The point of order 1 as key and as R, and S = 0: lax verification accepts it for any message.
    let mut header = original(None);
    let mut one = [0; 32];
    one[0] = 1;
    let mut signature = [0; 64];
    signature[0] = 1;
    header.signer = Some(one);
    header.signature = Some(threadseal_core::key::Signature::from_bytes(signature));
    let file = [header.encode().unwrap().as_slice(), b"state"].concat();
    let forged = Made {
        hash: ContentHash::of(&file),
        header,
        file,
    };
    untrusted(&[&forged], Forged, "key_unusable");
}

#[test]
fn a_linked_unsigned_beginning_is_vouched_for_by_its_hash() {
    let old = stripped(&originals(&[5])[0], 3);
    let mut header = original(Some(old.hash));
    header.tick = 10;
    let new = Made::igor(header, 1, b"s");
    let outcome = pinned(&[&old, &new], Verified, "unsigned_prefix");
    assert!(outcome.report.unauthenticated.is_empty());
    assert_eq!(outcome.tip.unwrap().position, Some(1));
}

/// Checks the verdict on files of these names.
#[track_caller]
fn named(files: &[(&str, &Made)], verdict: Verdict, code: &str) -> Outcome {
    let files = files.iter();
    let files = files.map(|(name, made)| LinkFacts::of(name, &made.file));
    let trust = Trust::key(key(1));
    let outcome = judged(files.collect(), &Judging::new(&trust, now()));
    is(&outcome.report, verdict, code);
    outcome
}

// T-LIN-22
#[test]
fn an_older_checkpoint_in_the_place_of_the_live_one_is_a_rollback() {
    let old = originals(&[5, 10, 15]);
    for (live, verdict, code) in [
        (0, RolledBack, "live_behind"),
        (1, Verified, "live_behind"),
        (2, Verified, ""),
    ] {
        let live = ("counter.checkpoint", &old[live]);
        let files = [("f0", &old[0]), ("f1", &old[1]), ("f2", &old[2]), live];
        let outcome = named(&files, verdict, code);
        assert_eq!(outcome.report.findings.is_empty(), code.is_empty());
    }
}

#[test]
fn a_handover_is_live_on_the_machine_that_gave_the_agent_away_and_nowhere_else() {
    let one = first(1, 2);
    let offer = one.release(2, 3);
    let taken = offer.accept(3);
    let later = taken.next(3, b"later");
    for (source, target, verdict, code) in [
        (&offer, &later, Verified, "live_elsewhere"),
        (&taken, &later, Verified, "live_elsewhere"),
        // A lineage that continued in the same store was rolled back. So was a checkpoint from
        // which a process may act.
        (&offer, &offer, RolledBack, "live_behind"),
        (&one, &later, RolledBack, "live_behind"),
    ] {
        let _row = Row((source.header.tick, target.header.tick, verdict));
        let live = [
            ("here/counter.checkpoint", source, 1),
            ("there/counter.checkpoint", target, 2),
        ];
        let there = [&one, &offer, &taken, &later].map(|made| ("there/history/link.ckpt", made, 2));
        let here = [&one, &offer].map(|made| ("here/history/link.ckpt", made, 1));
        let files = live.into_iter().chain(there).chain(here);
        let files = files.map(|(name, made, home)| LinkFacts {
            home,
            ..LinkFacts::of(name, &made.file)
        });
        let trust = Trust::key(key(1));
        let outcome = judged(files.collect(), &Judging::new(&trust, now()));
        is(&outcome.report, verdict, code);
    }
}

// T-LIN-23
#[test]
fn a_copy_under_the_name_of_another_tick_is_a_replay() {
    let old = originals(&[5, 10]);
    for (third, verdict, code) in [
        ("h/0000000015.ckpt", RolledBack, "replay"),
        ("h/copy.ckpt", Verified, "duplicate"),
    ] {
        let files = [
            ("h/0000000005.ckpt", &old[0]),
            ("h/0000000010.ckpt", &old[1]),
            (third, &old[0]),
        ];
        named(&files, verdict, code);
    }
}

#[test]
fn two_agents_in_one_folder_are_two_lineages() {
    let (a, b) = (first(1, 1), first(2, 2));
    let other = b.next(2, b"more");
    let files = facts(&[&a, &other, &b]);
    let outcomes = judge(files, &Judging::new(&Trust::default(), now())).unwrap();
    let events: Vec<u64> = outcomes.iter().map(|o| o.report.stats.events).collect();
    assert_eq!(events, [1, 2]);
}

// T-LIN-31
#[test]
fn more_files_than_are_joined_at_once_are_refused() {
    let empty = LinkFacts::of("", b"");
    let files = vec![empty; threadseal_core::limits::MAX_LINEAGE_LINKS + 1];
    let error = judge(files, &Judging::new(&Trust::default(), now())).unwrap_err();
    assert_eq!(error.kind(), threadseal_core::error::ErrorKind::Limit);
}
