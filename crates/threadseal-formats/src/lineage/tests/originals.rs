//! Verdicts that involve igor's links, unsigned links, and the names of files.

use super::made::*;
use super::*;
use threadseal_core::report::Verdict;
use threadseal_core::trust::Trust;

/// igor's links by `seed`: one for each tick, each after the one before.
fn originals(seed: u8, ticks: &[u64]) -> Vec<Made> {
    let mut made: Vec<Made> = Vec::new();
    for tick in ticks {
        let mut header = original(made.last().map(|made| made.hash));
        header.tick = *tick;
        let state = tick.to_le_bytes();
        made.push(Made::of(
            seal_original(header, &state, &igor(seed)).unwrap(),
            &state,
        ));
    }
    made
}

// T-LIN-26
#[test]
fn an_upgrade_goes_on_under_the_same_key_and_keeps_the_older_history() {
    let old = originals(1, &[5, 10]);
    let upgrade = |root: u8| {
        let writer = writer(root, root, 1);
        let mut header = genesis(root, &writer, b"new");
        header.prev = Some(old[1].hash);
        header.native.as_mut().unwrap().seq = 2;
        header.tick = 15;
        header.budget = old[1].header.budget;
        header.epoch = old[1].header.epoch;
        header.price = old[1].header.price;
        Made::of(seal_native(header, &native(root)).unwrap(), b"new")
    };
    let new = upgrade(1);
    let outcome = pinned(1, &[&old[0], &old[1], &new]);
    says(&outcome, Verdict::Verified, "");
    assert_eq!(outcome.report.profile, "threadseal");
    let other = upgrade(9);
    says(
        &pinned(1, &[&old[0], &old[1], &other]),
        Verdict::Forged,
        "key_changed",
    );
    // Back to igor's format.
    let mut back = original(Some(new.hash));
    back.tick = 20;
    back.budget = 0;
    let back = Made::of(seal_original(back, b"s", &igor(1)).unwrap(), b"s");
    let outcome = pinned(1, &[&old[0], &old[1], &new, &back]);
    says(&outcome, Verdict::Forged, "version_regressed");
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
    let old = originals(1, &[5, 10, 15]);
    for byte in [2, 3] {
        let before = stripped(&originals(1, &[2])[0], byte);
        let outcome = pinned(1, &[&before, &old[0], &old[1]]);
        says(&outcome, Verdict::Verified, "unsigned_prefix");
        assert_eq!(outcome.report.unauthenticated, ["checkpoint=f0"]);
        let middle = stripped(&old[1], byte);
        let outcome = pinned(1, &[&old[0], &middle, &old[2]]);
        says(&outcome, Verdict::Forged, "unsigned_member");
        let head = stripped(&old[2], byte);
        let outcome = pinned(1, &[&old[0], &old[1], &head]);
        says(&outcome, Verdict::Forged, "unsigned_member");
        // Alone it is unsigned, unless a key is pinned.
        let alone = judged(facts(&[&head]), &Judging::new(&Trust::default(), now()));
        says(&alone, Verdict::Unsigned, "unsigned");
        says(&pinned(1, &[&head]), Verdict::Forged, "signature_missing");
    }
}

// T-LIN-21
#[test]
fn a_first_byte_that_hides_a_signature_is_tampering_whoever_is_trusted() {
    let old = originals(1, &[5]);
    for byte in [2, 3] {
        let mut hidden = old[0].clone();
        hidden.file[0] = byte;
        let outcome = judged(facts(&[&hidden]), &Judging::new(&Trust::default(), now()));
        says(&outcome, Verdict::Tampered, "version_changed");
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
    let facts = vec![LinkFacts::of("f", &file)];
    let outcome = judged(facts, &Judging::new(&Trust::default(), now()));
    says(&outcome, Verdict::Forged, "key_unusable");
}

#[test]
fn a_linked_unsigned_beginning_is_vouched_for_by_its_hash() {
    let old = stripped(&originals(1, &[5])[0], 3);
    let mut header = original(Some(old.hash));
    header.tick = 10;
    let new = Made::of(seal_original(header, b"s", &igor(1)).unwrap(), b"s");
    let outcome = pinned(1, &[&old, &new]);
    says(&outcome, Verdict::Verified, "unsigned_prefix");
    assert!(outcome.report.unauthenticated.is_empty());
    assert_eq!(outcome.tip.unwrap().position, Some(1));
}

// T-LIN-22
#[test]
fn an_older_checkpoint_in_the_place_of_the_live_one_is_a_rollback() {
    let old = originals(1, &[5, 10, 15]);
    let named = |live: &Made| {
        let mut files = facts(&[&old[0], &old[1], &old[2]]);
        files.push(LinkFacts::of("counter.checkpoint", &live.file));
        judged(files, &Judging::new(&Trust::key(key(1)), now()))
    };
    says(&named(&old[0]), Verdict::RolledBack, "live_behind");
    says(&named(&old[1]), Verdict::Verified, "live_behind");
    let newest = named(&old[2]);
    says(&newest, Verdict::Verified, "");
    assert!(newest.report.findings.is_empty());
}

#[test]
fn a_handover_is_live_on_the_machine_that_gave_the_agent_away_and_nowhere_else() {
    let one = first(1, 2);
    let offer = release(&one, 1, 2, 3, 7);
    let body = LinkBody::Accept {
        release: offer.hash,
    };
    let taken = hand(&offer, 1, 3, &body);
    let later = next(&taken, 3, b"later", |_| {});
    let read = |name: &str, made: &Made, home| LinkFacts {
        home,
        ..LinkFacts::of(name, &made.file)
    };
    let judged = |source: &Made, target: &Made, and: &[(&Made, u32)]| {
        let mut files = vec![
            read("here/counter.checkpoint", source, 1),
            read("there/counter.checkpoint", target, 2),
        ];
        for made in [&one, &offer, &taken, &later] {
            files.push(read("there/history/link.ckpt", made, 2));
        }
        let more = and.iter();
        files.extend(more.map(|(made, home)| read("here/history/link.ckpt", made, *home)));
        judged(files, &Judging::new(&Trust::key(key(1)), now()))
    };
    let whole = [(&one, 1), (&offer, 1)];
    for source in [&offer, &taken] {
        says(
            &judged(source, &later, &whole),
            Verdict::Verified,
            "live_elsewhere",
        );
    }
    // A lineage that continued in the same store was rolled back. So was a checkpoint from which a
    // process may act.
    says(
        &judged(&offer, &offer, &whole),
        Verdict::RolledBack,
        "live_behind",
    );
    says(
        &judged(&one, &later, &whole),
        Verdict::RolledBack,
        "live_behind",
    );
}

// T-LIN-23
#[test]
fn a_copy_under_the_name_of_another_tick_is_a_replay() {
    let old = originals(1, &[5, 10]);
    let named = |name: &str, made: &Made| LinkFacts::of(name, &made.file);
    let files = |third| {
        vec![
            named("h/0000000005.ckpt", &old[0]),
            named("h/0000000010.ckpt", &old[1]),
            named(third, &old[0]),
        ]
    };
    let trust = Trust::key(key(1));
    let judging = Judging::new(&trust, now());
    says(
        &judged(files("h/0000000015.ckpt"), &judging),
        Verdict::RolledBack,
        "replay",
    );
    says(
        &judged(files("h/copy.ckpt"), &judging),
        Verdict::Verified,
        "duplicate",
    );
}

#[test]
fn two_agents_in_one_folder_are_two_lineages() {
    let (a, b) = (first(1, 1), first(2, 2));
    let other = next(&b, 2, b"more", |_| {});
    let outcomes = judge(
        facts(&[&a, &other, &b]),
        &Judging::new(&Trust::default(), now()),
    );
    let events: Vec<u64> = outcomes
        .unwrap()
        .iter()
        .map(|o| o.report.stats.events)
        .collect();
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
