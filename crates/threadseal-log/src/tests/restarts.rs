//! A log that replaces another one: which entries of the old one it takes over, and which not.

use super::*;
use threadseal_core::note::{KeyName, NoteSignature};
use threadseal_core::tlog::entry::Restart;

pub(crate) fn published(places: &LogRegistry, key: &Arc<Remembering>, heads: &[LoggedHead]) {
    let log = open(places, key);
    heads.iter().for_each(|head| log.publish(head));
    flushed(&log);
}

pub(crate) fn folder_of(places: &LogRegistry, id: u8) -> PathBuf {
    places
        .home
        .logs()
        .join(LogId::from_bytes([id; 16]).to_string())
}

/// Makes the log with this id in the place of the one that is there; answers how many heads came, and how many entries are lost.
pub(crate) fn restarted(
    places: &LogRegistry,
    key: &Arc<Remembering>,
    id: u8,
    copies: &[PathBuf],
    stored: &[LoggedHead],
) -> (usize, u64) {
    let past = places.past(copies, None).unwrap().unwrap();
    let lacking = past.lacking;
    let next = Description {
        id: LogId::from_bytes([id; 16]),
        ..description(key)
    };
    let log_key = LogKey(Arc::clone(key) as _);
    let came = places.restart(past, &next, &log_key, stored, true).unwrap();
    (came, lacking)
}

fn first(log: &SealLog) -> Restart {
    match LogEntry::read(&log.view().unwrap().entry(0).unwrap()).unwrap() {
        LogEntry::Restart(restart) => restart,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn newest(log: &SealLog, number: u8) -> Option<LoggedHead> {
    log.newest(&record(number)).unwrap().map(|(_, head)| head)
}

// T-RST-08
#[test]
fn the_newest_heads_of_the_log_and_of_the_home_come_along() {
    let (_folder, places, key) = on_disk();
    for seq in 0..400 {
        published(&places, &key, &[head(1, seq)]);
        if seq == 300 {
            // In the tiles.
            published(&places, &key, &[head(2, 5), head(3, 5)]);
        }
    }
    // An entry of a version to come, which means nothing here, is not for this one to drop.
    let coming = br#"{"type":"coming"}"#.to_vec();
    let log = open(&places, &key);
    let commit =
        |writer: &mut Writer<'_>, _: &HeadIndex| writer.commit(std::slice::from_ref(&coming));
    log.access.write(&|| false, commit).unwrap();
    drop(log);
    let mut other = head(3, 5);
    other.head.line = Digest::of(b"another seal 5");
    // The home knows a later head of 2, an older one of 1, another one of 3, and 4 alone.
    let stored = [head(1, 7), head(2, 6), other, head(4, 0)];
    assert_eq!(restarted(&places, &key, 0xcd, &[], &stored), (4, 0));
    let log = open(&places, &key);
    for (number, known) in [
        (1, head(1, 399)),
        (2, head(2, 6)),
        (3, head(3, 5)),
        (4, head(4, 0)),
    ] {
        assert_eq!(newest(&log, number), Some(known));
    }
    // Behind the heads that stood before it, and before what only the home knew.
    assert_eq!(log.view().unwrap().entry(4).unwrap(), coming);
    assert_eq!(log.view().unwrap().tree().size, 7);
    assert_eq!(log.fsck().unwrap().faults, Vec::<String>::new());
    // And once more: entry 0 is of the log before, and of no other.
    assert_eq!(restarted(&places, &key, 0xef, &[], &[]), (4, 0));
    let log = open(&places, &key);
    assert_eq!(
        first(&log).origin.as_str(),
        LogId::from_bytes([0xcd; 16]).origin()
    );
    assert_eq!(log.view().unwrap().tree().size, 7);
}

/// Also where its files are damaged, all that can still be proved.
// T-RST-08
#[test]
fn what_a_damaged_log_still_proves_comes_along_and_what_is_lost_is_counted() {
    let (_folder, places, key) = on_disk();
    let heads: Vec<LoggedHead> = (0..=255).map(|number| head(number, 0)).collect();
    published(&places, &key, &heads);
    published(&places, &key, &[head(7, 1), head(8, 1)]);
    open(&places, &key).fold().unwrap();
    published(&places, &key, &[head(9, 1)]);
    let entries = folder_of(&places, 0xab).join("tile/entries/000");
    let whole = std::fs::read(&entries).unwrap();
    let mut changed = whole.clone();
    // A digit of the digest of entry 0.
    changed[20] ^= 1;
    std::fs::write(&entries, &changed).unwrap();
    let stored = [head(0, 0)];
    // Not by the way: it may be the disk that fails.
    let next = Description {
        id: LogId::from_bytes([0x99; 16]),
        ..description(&key)
    };
    let log_key = LogKey(Arc::clone(&key) as _);
    let past = places.past(&[], None).unwrap().unwrap();
    let error = places.restart(past, &next, &log_key, &stored, false);
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("--copy"), "{error}");
    assert_eq!(restarted(&places, &key, 0xcd, &[], &stored), (256, 1));
    let log = open(&places, &key);
    for number in 0..=255 {
        let seq = u64::from((7..=9).contains(&number));
        assert_eq!(newest(&log, number), Some(head(number, seq)), "{number}");
    }
    drop(log);
    // Without its journal: what was folded before.
    let root = folder_of(&places, 0xcd);
    published(&places, &key, &[head(10, 1)]);
    std::fs::write(root.join("journal"), "damaged").unwrap();
    assert_eq!(restarted(&places, &key, 0xef, &[], &[]), (256, 1));
    let log = open(&places, &key);
    assert_eq!(newest(&log, 9), Some(head(9, 1)));
    assert_eq!(newest(&log, 10), Some(head(10, 0)));
}

// T-RST-02
#[test]
fn a_lost_log_is_followed_with_what_a_copy_of_it_knows_and_no_other_log_is_taken_for_one() {
    let (folder, places, key) = on_disk();
    published(&places, &key, &[head(1, 0), head(2, 0)]);
    let copied = folder.path().join("copied");
    copy(&folder_of(&places, 0xab), &copied);
    published(&places, &key, &[head(1, 1)]);
    let whole = folder.path().join("whole");
    copy(&folder_of(&places, 0xab), &whole);
    std::fs::remove_dir_all(places.home.logs()).unwrap();
    // Of another home, with the same key.
    let other = super::places(RealFs::shared(), &folder.path().join("other"));
    std::fs::create_dir(&other.home.path).unwrap();
    let foreign = Description {
        id: LogId::from_bytes([0x77; 16]),
        ..description(&key)
    };
    let log_key = LogKey(Arc::clone(&key) as _);
    other
        .create(&foreign, &log_key, &[head(1, 9)], &|| Ok(()))
        .unwrap();
    let error = places.past(&[folder_of(&other, 0x77)], None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    // One that claims its id and went another way.
    let twin = super::places(RealFs::shared(), &folder.path().join("twin"));
    std::fs::create_dir(&twin.home.path).unwrap();
    made(&twin, &key);
    let heads: Vec<LoggedHead> = (0..5).map(|seq| head(5, seq)).collect();
    published(&twin, &key, &heads);
    let error = places.past(&[folder_of(&twin, 0xab)], None).unwrap_err();
    assert!(error.to_string().contains("is not a copy"), "{error}");
    // Two copies: the larger one contains all that the other contains.
    assert_eq!(
        places
            .past(std::slice::from_ref(&copied), None)
            .unwrap()
            .unwrap()
            .lacking,
        1
    );
    assert_eq!(
        restarted(&places, &key, 0xcd, &[copied, whole], &[]),
        (2, 0)
    );
    let log = open(&places, &key);
    assert_eq!(newest(&log, 1), Some(head(1, 1)));
    assert_eq!(newest(&log, 2), Some(head(2, 0)));
}

/// A home that had several logs: what its second place knows of those before is larger, and not of the one that is gone.
// T-RST-09
#[test]
fn the_first_entry_holds_the_checkpoint_of_the_log_that_is_replaced_and_of_no_other() {
    let (_folder, places, key) = on_disk();
    let heads: Vec<LoggedHead> = (0..9).map(|seq| head(1, seq)).collect();
    published(&places, &key, &heads);
    restarted(&places, &key, 0x11, &[], &[]);
    let newest = open(&places, &key).view().unwrap().checkpoint().to_string();
    std::fs::remove_dir_all(places.home.logs()).unwrap();
    let error = places.current().unwrap_err().to_string();
    assert!(error.contains(&"11".repeat(16)), "{error}");
    assert_eq!(restarted(&places, &key, 0x22, &[], &[head(1, 8)]), (1, 2));
    let log = open(&places, &key);
    assert_eq!(
        first(&log).origin.as_str(),
        LogId::from_bytes([0x11; 16]).origin()
    );
    assert_eq!(first(&log).checkpoint, newest.into_bytes());
    drop(log);
    // That one has ended, too, and an error reports it where it is brought back.
    std::fs::remove_dir_all(places.home.logs()).unwrap();
    let error = places.current().unwrap_err().to_string();
    assert!(error.contains(&"22".repeat(16)), "{error}");
}

// T-RST-09
#[test]
fn lines_of_witnesses_on_a_checkpoint_do_not_come_along() {
    let (_folder, places, key) = on_disk();
    published(&places, &key, &[head(1, 0)]);
    let plain = open(&places, &key).view().unwrap().checkpoint().to_string();
    let mut note = SignedNote::parse(&plain).unwrap();
    for number in 0..40 {
        let name = KeyName::parse(&format!("witness.example/{number}")).unwrap();
        let signer = LocalSigner::new(PrivateKey::from_seed([number; 32]), KeyUsage::Log);
        let line = NoteSignature::sign(note.text(), &name, &signer).unwrap();
        note.add(line).unwrap();
    }
    // The note is long where witnesses wrote their lines into the mark.
    for mark in std::fs::read_dir(&places.home.mark).unwrap() {
        let path = mark.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "mark") {
            assert!(note.to_string().len() > 4096);
            std::fs::write(path, note.to_string()).unwrap();
        }
    }
    std::fs::remove_dir_all(places.home.logs()).unwrap();
    restarted(&places, &key, 0x33, &[], &[]);
    assert_eq!(first(&open(&places, &key)).checkpoint, plain.into_bytes());
}
