//! Stamps beside a log: which entries they cover, and what they are not taken for.

use super::prelude::*;
use crate::timestamps::openssl::{FIT, OpenSsl};
use crate::timestamps::{Authority, request, verify};
use threadseal_core::tlog::tile::Tile;

const NONCE: [u8; 8] = *b"12345678";

/// Has the log as it is stamped by the authority of this name.
fn stamp(log: &SealLog, openssl: &OpenSsl, name: &str) -> u64 {
    let view = log.view().unwrap();
    let (note, size) = (view.checkpoint(), view.tree().size);
    let response = openssl.reply(&request(note.to_string().as_bytes(), NONCE).unwrap());
    log.keep_timestamp(size, note, name, &response).unwrap();
    size
}

fn authority(folder: &Path, name: &str) -> (OpenSsl, (String, Authority)) {
    let openssl = OpenSsl::new(&folder.join(name), "P-256", "sha256", FIT);
    let authority = Authority::new("http://localhost/", &openssl.root()).unwrap();
    (openssl, (name.to_owned(), authority))
}

/// The stamp that the authority `a` made of a tree of this size.
fn kept(size: u64) -> KeptStamp {
    KeptStamp {
        size,
        authority: "a".to_owned(),
    }
}

fn commit(log: &SealLog, record: u8) {
    log.publish(&head(record, 0));
    assert!(log.flush().error.is_none());
}

// T-WIT-30
#[test]
fn an_entry_is_as_old_as_the_first_good_stamp_above_it() {
    let scene = on_disk();
    let log = scene.open();
    let (one, first) = authority(scene.disk.path(), "one");
    let (two, second) = authority(scene.disk.path(), "two");
    (0..2).for_each(|record| commit(&log, record));
    let early = stamp(&log, &one, "one");
    (2..4).for_each(|record| commit(&log, record));
    let late = stamp(&log, &two, "two");
    commit(&log, 4);
    let view = log.view().unwrap();
    let both = [first.clone(), second.clone()];
    let covering = |entry, who: &[(String, Authority)]| {
        let found = log.stamped(entry, who, &view, &mut |_, _| {}).unwrap();
        found.map(|(kept, _)| (kept.size, kept.authority))
    };
    assert_eq!(covering(0, &both), Some((early, "one".to_owned())));
    assert_eq!(covering(early - 1, &both), Some((early, "one".to_owned())));
    assert_eq!(covering(early, &both), Some((late, "two".to_owned())));
    assert_eq!(covering(late, &both), None);
    // An authority that is not trusted, or is known by another name, counts for nothing.
    assert_eq!(
        covering(0, std::slice::from_ref(&second)),
        Some((late, "two".to_owned()))
    );
    let swapped = [("one".to_owned(), second.1), ("two".to_owned(), first.1)];
    assert_eq!(covering(0, &swapped), None);
    assert_eq!(covering(0, &[]), None);
}

/// Each file of the first stamp, as a disk that fails or any writer of the folder leaves it.
// T-WIT-13
#[test]
fn a_stamp_that_cannot_be_read_is_told_and_hides_none_behind_it() {
    let scene = on_disk();
    let log = scene.open();
    let (openssl, trusted) = authority(scene.disk.path(), "a");
    commit(&log, 1);
    let early = stamp(&log, &openssl, "a");
    commit(&log, 2);
    let late = stamp(&log, &openssl, "a");
    let view = log.view().unwrap();
    let covering = || {
        let mut bad = Vec::new();
        let mut told = |kept: &KeptStamp, _: &str| bad.push(kept.size);
        let found = log.stamped(0, std::slice::from_ref(&trusted), &view, &mut told);
        (found.unwrap().map(|(kept, _)| kept.size), bad)
    };
    assert_eq!(covering(), (Some(early), vec![]));
    let files = log.access.dir.file("timestamps");
    for name in [format!("{early}.a.tsr"), format!("{early}.checkpoint")] {
        let path = files.join(name);
        let good = fs::read(&path).unwrap();
        for bad in [&b""[..], b"no stamp", &[b'x'; 256 << 10]] {
            fs::write(&path, bad).unwrap();
            assert_eq!(covering(), (Some(late), vec![early]), "{path:?}");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(covering(), (Some(late), vec![early]), "{path:?}");
        fs::remove_dir(&path).unwrap();
        fs::write(&path, good).unwrap();
    }
    assert_eq!(covering(), (Some(early), vec![]));
}

// T-WIT-27
#[test]
fn a_stamp_of_another_size_or_of_what_the_log_does_not_continue_covers_nothing() {
    let scene = on_disk();
    let log = scene.open();
    let (openssl, trusted) = authority(scene.disk.path(), "a");
    commit(&log, 1);
    let size = stamp(&log, &openssl, "a");
    let files = log.access.dir.file("timestamps");
    let [note, response] = ["checkpoint", "a.tsr"].map(|ending| format!("{size}.{ending}"));
    let judge =
        |log: &SealLog, size| log.judge_timestamp(&kept(size), &trusted.1, &log.view().unwrap());
    assert!(matches!(judge(&log, size), JudgedStamp::Good(_)));
    // The response alone is moved to another size; then its note, too.
    fs::copy(files.join(&response), files.join("9.a.tsr")).unwrap();
    assert!(matches!(judge(&log, 9), JudgedStamp::Bad(_)));
    fs::copy(files.join(&note), files.join("9.checkpoint")).unwrap();
    assert!(matches!(judge(&log, 9), JudgedStamp::Bad(_)));
    commit(&log, 2);
    let bytes = fs::read(files.join(&response)).unwrap();
    let note_now = log.view().unwrap().checkpoint().clone();
    log.keep_timestamp(size + 1, &note_now, "a", &bytes)
        .unwrap();
    assert_eq!(
        judge(&log, size + 1),
        JudgedStamp::Bad(timestamps::NotStamped::OtherMessage.to_string())
    );
    let message = log.view().unwrap().checkpoint().to_string();
    assert!(verify(&bytes, message.as_bytes(), &trusted.1, None).is_err());
    // Another log of this key and id, which never had that entry.
    let other = scene.beside("other").begun().open();
    (3..6).for_each(|record| commit(&other, record));
    let view = other.view().unwrap();
    let kept = kept(size);
    assert!(matches!(
        log.judge_timestamp(&kept, &trusted.1, &view),
        JudgedStamp::Contradicts(_)
    ));
    let covered = log
        .stamped(0, std::slice::from_ref(&trusted), &view, &mut |_, _| {})
        .unwrap();
    assert_eq!(covered, None);
}

/// An attacker who has the home and the key of its log writes another entry 0 into it, and leaves
/// the hash of the old one in its tile. The tree of the stamp and of the mark has its root there,
/// and the signed one is above another leaf.
// T-LOG-25
#[test]
fn hashes_of_tiles_that_do_not_fit_each_other_carry_no_stamp_and_no_mark() {
    let scene = on_disk();
    let log = scene.open();
    let (openssl, trusted) = authority(scene.disk.path(), "a");
    let fill = |log: &SealLog| {
        heads(2, 1..300).for_each(|head| log.publish(&head));
        assert!(log.flush().error.is_none());
        log.fold().unwrap();
    };
    commit(&log, 1);
    let size = stamp(&log, &openssl, "a");
    let marks = scene.mark_files();
    let early: Vec<_> = marks.iter().map(|mark| scene.get(mark)).collect();
    fill(&log);
    let kept = kept(size);
    let judge = |log: &SealLog| log.judge_timestamp(&kept, &trusted.1, &log.view().unwrap());
    assert!(matches!(judge(&log), JudgedStamp::Good(_)));
    assert_eq!(log.marked().unwrap(), log.size());

    let forged = scene.beside("other").begun().open();
    commit(&forged, 9);
    fill(&forged);
    let (ours, theirs) = (&log.access.dir, &forged.access.dir);
    let leaf = scene.get("tile/0/000")[..32].to_vec();
    overlay(&theirs.file("tile"), &ours.file("tile"));
    for file in ["journal", "checkpoint"] {
        scene.put(file, scene.get(theirs.file(file)));
    }
    let mut hashes = scene.get("tile/0/000");
    hashes[..32].copy_from_slice(&leaf);
    scene.put("tile/0/000", hashes);
    for (mark, bytes) in marks.iter().zip(early) {
        scene.put(mark, bytes);
    }
    drop(log);
    let log = scene.open();
    // The other entry is proved to be in the signed tree, and the hashes begin with those of the old one.
    let view = log.view().unwrap();
    let entries = theirs.entries(&Tile::of_entry(0, 256).unwrap()).unwrap();
    view.inclusion(0, &entries[0]).unwrap();
    let old = log.stamp_files().stamped_note(size).unwrap().unwrap().1;
    assert_eq!(view.contents().frontier(old.size).unwrap().head(), old);
    assert!(matches!(judge(&log), JudgedStamp::Contradicts(_)));
    // Nor does the log agree with its mark: nothing is vouched for, committed or published.
    assert!(log.marked().is_err() && log.fault().is_err());
    let standing = log.standing();
    assert!(matches!(standing, Standing::Damaged(_)), "{standing:?}");
    log.publish(&head(3, 0));
    assert!(log.flush().error.is_some());
    assert_eq!(log.tree(), view.tree());
}
