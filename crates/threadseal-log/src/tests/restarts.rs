//! A log that replaces another one: which entries of the old one it takes over, and which not.

use super::prelude::*;

fn first(log: &SealLog) -> Restart {
    match log.entry(0) {
        LogEntry::Restart(restart) => restart,
        other => panic!("{other:?}"),
    }
}

// T-RST-08
#[test]
fn the_newest_heads_of_the_log_and_of_the_home_come_along() {
    let scene = on_disk();
    for seq in 0..400 {
        scene.commit([head(1, seq)]);
        if seq == 300 {
            // In the tiles.
            scene.commit([head(2, 5), head(3, 5)]);
        }
    }
    // An entry of a version to come, which means nothing here, is not for this one to drop.
    let coming = br#"{"type":"coming"}"#.to_vec();
    commit_entries(&scene.open(), std::slice::from_ref(&coming));
    // The home knows a later head of 2, an older one of 1, another one of 3, and 4 alone.
    let stored = [head(1, 7), head(2, 6), another(3, 5), head(4, 0)];
    assert_eq!(scene.restart(NEXT, &[], &stored), (4, 0));
    let log = scene.open();
    for newest in [head(1, 399), head(2, 6), head(3, 5), head(4, 0)] {
        let number = newest.head.record.as_bytes()[0];
        assert_eq!(log.newest_of(number), Some(newest));
    }
    // Behind the heads that stood before it, and before what only the home knew.
    assert_eq!(log.view().unwrap().entry(4).unwrap(), coming);
    assert_eq!(log.size(), 7);
    log.assert_whole();
    // And once more: entry 0 is of the log before, and of no other.
    assert_eq!(scene.restart(id(0xef), &[], &[]), (4, 0));
    let log = scene.open();
    assert_eq!(first(&log).origin.as_str(), NEXT.origin());
    assert_eq!(log.size(), 7);
}

/// Also where its files are damaged, all that can still be proved.
// T-RST-08
#[test]
fn what_a_damaged_log_still_proves_comes_along_and_what_is_lost_is_counted() {
    let scene = on_disk();
    scene.commit((0..=255).map(|number| head(number, 0)));
    scene.commit([head(7, 1), head(8, 1)]);
    scene.open().fold().unwrap();
    scene.commit([head(9, 1)]);
    let mut changed = scene.get("tile/entries/000");
    // A digit of the digest of entry 0.
    changed[20] ^= 1;
    scene.put("tile/entries/000", changed);
    let stored = [head(0, 0)];
    // Not by the way: it may be the disk that fails.
    let next = scene.describe(id(0x99));
    let error = scene.replace_by(scene.past(&[]), &next, &stored, false);
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("--copy"), "{error}");
    assert_eq!(scene.restart(NEXT, &[], &stored), (256, 1));
    let log = scene.open();
    for number in 0..=255 {
        let seq = u64::from((7..=9).contains(&number));
        assert_eq!(log.newest_of(number), Some(head(number, seq)), "{number}");
    }
    drop(log);
    // Without its journal: what was folded before.
    scene.commit([head(10, 1)]);
    scene.put(scene.home().dir(NEXT).journal(), "damaged");
    assert_eq!(scene.restart(id(0xef), &[], &[]), (256, 1));
    let log = scene.open();
    assert_eq!(log.newest_of(9), Some(head(9, 1)));
    assert_eq!(log.newest_of(10), Some(head(10, 0)));
}

// T-RST-02
#[test]
fn a_lost_log_is_followed_with_what_a_copy_of_it_knows_and_no_other_log_is_taken_for_one() {
    let scene = on_disk();
    scene.commit([head(1, 0), head(2, 0)]);
    let older = scene.keep(scene.folder(), "older");
    scene.commit([head(1, 1)]);
    let whole = scene.keep(scene.folder(), "whole");
    scene.remove_logs();
    // Of another home, with the same key.
    let other = scene.beside("other");
    let foreign = other.describe(id(0x77));
    other.create(&foreign, &[head(1, 9)]).unwrap();
    let foreign = other.home().dir(foreign.id).root;
    let error = scene.try_past(&[&foreign]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    // One that claims its id and went another way.
    let twin = scene.beside("twin").begun();
    twin.commit(heads(5, 0..5));
    let error = scene.try_past(&[&twin.folder()]).unwrap_err();
    assert!(error.to_string().contains("is not a copy"), "{error}");
    // Two copies: the larger one contains all that the other contains.
    assert_eq!(scene.past(&[&older]).lacking, 1);
    assert_eq!(scene.restart(NEXT, &[&older, &whole], &[]), (2, 0));
    let log = scene.open();
    assert_eq!(log.newest_of(1), Some(head(1, 1)));
    assert_eq!(log.newest_of(2), Some(head(2, 0)));
}

/// A home that had several logs: what its second place knows of those before is larger, and not of the one that is gone.
// T-RST-09
#[test]
fn the_first_entry_holds_the_checkpoint_of_the_log_that_is_replaced_and_of_no_other() {
    let scene = on_disk();
    scene.commit(heads(1, 0..9));
    scene.restart(id(0x11), &[], &[]);
    let newest = scene.open().view().unwrap().checkpoint().to_string();
    let gone = |byte: u8| {
        scene.remove_logs();
        let error = scene.registry.current().unwrap_err().to_string();
        assert!(error.contains(&id(byte).to_string()), "{error}");
    };
    gone(0x11);
    assert_eq!(scene.restart(id(0x22), &[], &[head(1, 8)]), (1, 2));
    let restart = first(&scene.open());
    assert_eq!(restart.origin.as_str(), id(0x11).origin());
    assert_eq!(restart.checkpoint, newest.into_bytes());
    // That one has ended, too, and an error reports it where it is brought back.
    gone(0x22);
}

// T-RST-09
#[test]
fn lines_of_witnesses_on_a_checkpoint_do_not_come_along() {
    let scene = on_disk();
    scene.commit([head(1, 0)]);
    let plain = scene.open().view().unwrap().checkpoint().to_string();
    let mut note = SignedNote::parse(&plain).unwrap();
    for number in 0..40 {
        let name = KeyName::parse(&format!("witness.example/{number}")).unwrap();
        let signer = signer(number, KeyUsage::Log);
        let line = NoteSignature::sign(note.text(), &name, &signer).unwrap();
        note.add(line).unwrap();
    }
    // The note is long where witnesses wrote their lines into the mark.
    let note = note.to_string();
    assert!(note.len() > 4096);
    for mark in scene.mark_files() {
        scene.put(mark, &note);
    }
    scene.remove_logs();
    scene.restart(id(0x33), &[], &[]);
    assert_eq!(first(&scene.open()).checkpoint, plain.into_bytes());
}
