//! A log that differs from the one in its second place: which entries the next log takes over, and
//! which of them are trusted.

use super::key_events::event;
use super::restarts::{folder_of, newest, published, restarted};
use super::*;
use threadseal_core::tlog::entry::key_event::{KeyChange, KeyEvent};

/// What is committed to a log.
#[derive(Clone)]
enum Entry {
    Head(u8),
    Ended(Box<KeyEvent>),
}

fn committed(places: &LogRegistry, key: &Arc<Remembering>, entries: &[Entry]) {
    let log = open(places, key);
    for entry in entries {
        match entry {
            Entry::Head(record) => log.publish(&head(*record, 0)),
            Entry::Ended(event) => drop(log.commit_key_event(event).unwrap()),
        }
    }
    flushed(&log);
}

/// Puts a log with these entries, which the same key signed, in the place of the one of `places`; its marks stay.
fn replaced(places: &LogRegistry, key: &Arc<Remembering>, entries: &[Entry]) {
    let folder = tempfile::tempdir().unwrap();
    let other = LogRegistry::new(LogHome {
        path: folder.path().join("home"),
        mark: folder.path().join("mark"),
        ..places.home.clone()
    });
    std::fs::create_dir_all(&other.home.path).unwrap();
    made(&other, key);
    committed(&other, key, entries);
    std::fs::remove_dir_all(places.home.logs()).unwrap();
    copy(&other.home.logs(), &places.home.logs());
}

/// The records of the heads, and 0 for each key event, in the order of the log.
fn order(log: &SealLog) -> Vec<u8> {
    let view = log.view().unwrap();
    let entry = |number| match LogEntry::read(&view.entry(number).unwrap()).unwrap() {
        LogEntry::Head(logged) => logged.head.record.as_bytes()[0],
        LogEntry::Key(_) => 0,
        other => panic!("{other:?}"),
    };
    (1..view.tree().size).map(entry).collect()
}

// T-RST-03
#[test]
fn the_copy_that_continues_the_mark_goes_before_a_larger_log_that_forked() {
    let (folder, places, key) = on_disk();
    committed(&places, &key, &[1, 2, 3].map(Entry::Head));
    let whole = folder.path().join("whole");
    copy(&folder_of(&places, 0xab), &whole);
    replaced(&places, &key, &[1, 4, 5, 6, 7, 8].map(Entry::Head));
    let fault = open(&places, &key).fault().unwrap();
    assert!(matches!(fault, Some(Fault::RolledBack { .. })), "{fault:?}");
    let past = places.past(&[], None).unwrap().unwrap();
    assert_eq!((past.tree.size, past.lacking, past.forked), (3, 3, true));
    let past = places
        .past(std::slice::from_ref(&whole), None)
        .unwrap()
        .unwrap();
    assert_eq!((past.tree.size, past.lacking, past.forked), (3, 0, false));
    assert_eq!(restarted(&places, &key, 0xcd, &[whole], &[]), (3, 0));
    assert_eq!(order(&open(&places, &key)), [1, 2, 3]);
}

/// A log that ends before its mark may be another history, too: it goes behind a copy that continues the mark, before one that
/// is older.
// T-RST-03
#[test]
fn of_logs_that_end_before_the_mark_the_largest_is_followed() {
    let (folder, places, key) = on_disk();
    committed(&places, &key, &[1, 2].map(Entry::Head));
    let older = folder.path().join("older");
    copy(&folder_of(&places, 0xab), &older);
    committed(&places, &key, &[Entry::Head(3)]);
    let newer = folder.path().join("newer");
    copy(&places.home.logs(), &newer);
    committed(&places, &key, &[Entry::Head(4)]);
    std::fs::remove_dir_all(places.home.logs()).unwrap();
    copy(&newer, &places.home.logs());
    let past = places.past(&[older], None).unwrap().unwrap();
    assert_eq!((past.tree.size, past.lacking, past.forked), (4, 1, false));
}

/// An attacker who has a stolen key and may write to the home puts a head before the end of that
/// key.
// T-RST-04
#[test]
fn what_no_mark_vouches_for_comes_behind_the_ends_of_keys() {
    let ended = || Entry::Ended(Box::new(event(1, KeyChange::Revoke)));
    let (_folder, places, key) = on_disk();
    committed(&places, &key, &[Entry::Head(1), ended(), Entry::Head(2)]);
    // As it is, all that the mark knows keeps its order.
    let past = places.past(&[], None).unwrap().unwrap();
    assert!(!past.is_order_lost());
    restarted(&places, &key, 0xcd, &[], &[]);
    assert_eq!(order(&open(&places, &key)), [1, 0, 2]);

    // Another history, as large, or larger than what the mark knows.
    for more in [vec![], vec![Entry::Head(3)]] {
        let (_folder, places, key) = on_disk();
        committed(&places, &key, &[Entry::Head(1), ended(), Entry::Head(2)]);
        let entries = [vec![Entry::Head(1), Entry::Head(9), ended()], more].concat();
        replaced(&places, &key, &entries);
        let past = places.past(&[], None).unwrap().unwrap();
        assert!(past.forked && past.is_order_lost());
        restarted(&places, &key, 0xcd, &[], &[]);
        let order = order(&open(&places, &key));
        assert_eq!(order[..2], [0, 1], "{order:?}");
    }

    // Behind what the mark knows, and without any mark.
    for (marked, expected) in [(true, [1, 0, 9]), (false, [0, 1, 9])] {
        let (_folder, places, key) = on_disk();
        committed(&places, &key, &[Entry::Head(1)]);
        let entries = [Entry::Head(1), Entry::Head(9), ended()];
        replaced(&places, &key, &entries);
        if !marked {
            std::fs::remove_dir_all(&places.home.mark).unwrap();
        }
        assert_eq!(open(&places, &key).fault().unwrap(), None);
        restarted(&places, &key, 0xcd, &[], &[]);
        assert_eq!(order(&open(&places, &key)), expected);
    }
}

/// The log of this id by another key is another log, whatever its description states.
// T-RST-05
#[test]
fn a_copy_of_a_log_that_is_gone_is_believed_only_if_its_key_is_known_here() {
    let (folder, places, key) = on_disk();
    published(&places, &key, &[head(1, 0), head(2, 0)]);
    let (kept, whole) = (folder.path().join("kept"), folder.path().join("whole"));
    copy(&places.home.logs(), &kept);
    copy(&folder_of(&places, 0xab), &whole);
    let (_other, twin, thief) = {
        let folder = tempfile::tempdir().unwrap();
        let places = places_in(folder.path());
        let key = Remembering::of(77);
        made(&places, &key);
        published(&places, &key, &[head(3, 0), head(4, 0), head(5, 0)]);
        (folder, places, key)
    };
    let forged = folder_of(&twin, 0xab);
    assert_ne!(thief.public_key(), key.public_key());
    let refused = |copy: &PathBuf| {
        let error = places.past(std::slice::from_ref(copy), None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert!(error.to_string().contains("nothing here shows"), "{error}");
    };
    // Gone as a whole, and gone but for `current`.
    for current in [false, true] {
        match current {
            false => std::fs::remove_dir_all(places.home.logs()).unwrap(),
            true => std::fs::create_dir_all(places.home.logs()).unwrap(),
        }
        if current {
            std::fs::copy(kept.join("current"), places.home.logs().join("current")).unwrap();
        }
        refused(&forged);
        let past = places
            .past(std::slice::from_ref(&whole), None)
            .unwrap()
            .unwrap();
        assert_eq!(past.lacking, 0);
    }
    // Without a second place the key of the home decides.
    std::fs::remove_dir_all(&places.home.mark).unwrap();
    refused(&forged);
    refused(&whole);
    std::fs::create_dir_all(places.home.path.join("keys")).unwrap();
    let public = places.home.path.join("keys/log-abababababababab.log.pub");
    std::fs::write(public, key.public_key().to_pem()).unwrap();
    assert!(places.past(std::slice::from_ref(&forged), None).is_err());
    assert_eq!(restarted(&places, &key, 0xcd, &[whole], &[]), (2, 0));
    assert_eq!(newest(&open(&places, &key), 2), Some(head(2, 0)));
}

fn places_in(folder: &Path) -> LogRegistry {
    let home = folder.join("home");
    std::fs::create_dir_all(&home).unwrap();
    places(RealFs::shared(), &home)
}

/// What was committed and never signed is no part of what the log signed since, where the mark knows something else there.
// T-RST-03
#[test]
fn an_unsigned_batch_makes_no_fork_of_a_log_that_was_put_back() {
    let (fs, places, key) = unsigned::put_back(unsigned::Marked::Forked);
    let past = places.past(&[], None).unwrap().unwrap();
    assert_eq!((past.tree.size, past.lacking, past.forked), (3, 1, false));
    restarted(&places, &key, 0xcd, &[], &[]);
    assert_eq!(order(&open(&places, &key)), [1]);
    drop(fs);
}

/// Another process commits between the look at the old log and its end.
// T-RST-06
#[test]
fn a_log_that_grew_meanwhile_is_not_ended() {
    let (_folder, places, key) = on_disk();
    published(&places, &key, &[head(1, 0)]);
    let past = places.past(&[], None).unwrap().unwrap();
    published(&places, &key, &[head(2, 0)]);
    let next = Description {
        id: LogId::from_bytes([0xcd; 16]),
        ..description(&key)
    };
    let log_key = LogKey(Arc::clone(&key) as _);
    let error = places
        .restart(past, &next, &log_key, &[], false)
        .unwrap_err();
    assert!(error.to_string().contains("run this again"), "{error}");
    published(&places, &key, &[head(3, 0)]);
    assert_eq!(open(&places, &key).view().unwrap().tree().size, 3);
}

/// Where the home would have its second place under another name, and what its keys say.
// T-LOG-46
#[test]
fn a_log_that_is_gone_is_missed_however_the_home_is_named() {
    let (folder, places, key) = on_disk();
    published(&places, &key, &[head(1, 0)]);
    std::fs::remove_dir_all(places.home.logs()).unwrap();
    let beside = folder.path().join("home.marks");
    let missing = |places: &LogRegistry, what: &str| {
        let error = places.current().expect_err(what);
        assert!(error.to_string().contains("log_missing"), "{what}: {error}");
        assert!(places.past(&[], None).unwrap().is_some(), "{what}");
    };
    let named = LogRegistry::new(LogHome {
        mark: beside.clone(),
        elsewhere: vec![places.home.mark.clone()],
        ..places.home.clone()
    });
    missing(&named, "known elsewhere");
    // The folder beside the home is the home's, also of one that was called otherwise.
    std::fs::rename(&places.home.mark, &beside).unwrap();
    for mark in std::fs::read_dir(&beside).unwrap() {
        let path = mark.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if let Some((_, id)) = name.strip_suffix(".mark").and_then(|n| n.split_once('-')) {
            let other = format!("0123456789abcdef-{id}.mark");
            std::fs::rename(&path, beside.join(other)).unwrap();
        }
    }
    missing(&named, "beside");
    let other = LogRegistry::new(LogHome {
        elsewhere: vec![beside.clone()],
        ..places.home.clone()
    });
    missing(&other, "beside, and not where it is looked for first");
    std::fs::remove_dir_all(&beside).unwrap();
    assert!(places.current().unwrap().is_none());
    // The key of a log is left, and nothing else.
    std::fs::create_dir_all(places.home.path.join("keys")).unwrap();
    for other in [
        "self.native.key",
        "log-12.log.key",
        "log-abababababababab.log.pub",
    ] {
        std::fs::write(places.home.path.join("keys").join(other), "").unwrap();
    }
    assert!(places.current().unwrap().is_none());
    let own = places.home.path.join("keys/log-abababababababab.log.key");
    std::fs::write(&own, "").unwrap();
    let error = places.current().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("log_missing"), "{error}");
    assert!(places.past(&[], None).unwrap().is_none());
    made(&places, &key);
    assert!(places.current().unwrap().is_some());
}

/// A log of another history lacks what would show that: it is damaged, and no log that only ends too early.
// T-MARK-09
#[test]
fn a_log_that_may_be_any_history_is_followed_by_a_copy_or_on_purpose() {
    for lacking in ["tile/0/000", "journal"] {
        let (folder, places, key) = on_disk();
        let heads: Vec<LoggedHead> = (0..200).map(|seq| head(1, seq)).collect();
        published(&places, &key, &heads);
        let whole = folder.path().join("whole");
        copy(&folder_of(&places, 0xab), &whole);
        let other = LogRegistry::new(LogHome {
            path: folder.path().join("other"),
            mark: folder.path().join("other.mark"),
            ..places.home.clone()
        });
        std::fs::create_dir_all(&other.home.path).unwrap();
        made(&other, &key);
        let heads: Vec<LoggedHead> = (0..600).map(|seq| head(2, seq)).collect();
        published(&other, &key, &heads);
        open(&other, &key).fold().unwrap();
        std::fs::remove_dir_all(places.home.logs()).unwrap();
        copy(&other.home.logs(), &places.home.logs());
        match lacking {
            "journal" => std::fs::write(folder_of(&places, 0xab).join(lacking), "").unwrap(),
            _ => std::fs::remove_file(folder_of(&places, 0xab).join(lacking)).unwrap(),
        }
        let error = try_restart(&places, &key, &[], None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{lacking}: {error}");
        assert!(error.to_string().contains("--copy"), "{lacking}: {error}");
        assert!(
            open(&places, &key)
                .access
                .marks
                .displacement()
                .unwrap()
                .is_none()
        );
        let past = places.past(&[], None).unwrap().unwrap();
        assert_eq!(past.forked, lacking == "journal");
        assert_eq!(past.lacking, past.tree.size);
        // One that lacks the same is of no help; a whole one is.
        if lacking != "journal" {
            let error = places.past(&[folder_of(&places, 0xab)], None).unwrap_err();
            assert!(error.to_string().contains("damaged"), "{error}");
        }
        assert_eq!(try_restart(&places, &key, &[whole], None).unwrap(), 1);
        assert_eq!(newest(&open(&places, &key), 1), Some(head(1, 199)));
        assert_eq!(newest(&open(&places, &key), 2), None);
    }
}

/// A home that was restored from a backup: its mark is ahead, so nothing shows that its entries
/// were always in their places.
// T-RST-01
#[test]
fn what_an_ended_key_sealed_is_not_lost_by_the_way() {
    let (folder, places, key) = on_disk();
    let ended = Entry::Ended(Box::new(event(1, KeyChange::Revoke)));
    committed(&places, &key, &[Entry::Head(1), ended]);
    let (older, newer) = (folder.path().join("older"), folder.path().join("newer"));
    copy(&places.home.logs(), &older);
    let seen = open(&places, &key).view().unwrap().tree();
    committed(&places, &key, &[Entry::Head(2)]);
    copy(&folder_of(&places, 0xab), &newer);
    std::fs::remove_dir_all(places.home.logs()).unwrap();
    copy(&older, &places.home.logs());
    let error = try_restart(&places, &key, &[], None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    let text = error.to_string();
    assert!(
        text.contains("--copy") && text.contains("--anyway"),
        "{text}"
    );
    // A tree that the log does not continue vouches for nothing.
    let other = TreeHead {
        root: Digest::of(b"another tree"),
        ..seen
    };
    assert!(try_restart(&places, &key, &[], Some(other)).is_err());
    // What witnesses saw does, and so does the newer log.
    let (kept, marks) = (folder.path().join("kept"), folder.path().join("marks"));
    copy(&places.home.path, &kept);
    copy(&places.home.mark, &marks);
    assert_eq!(try_restart(&places, &key, &[], Some(seen)).unwrap(), 1);
    assert_eq!(order(&open(&places, &key)), [1, 0]);
    for (there, before) in [(&places.home.path, kept), (&places.home.mark, marks)] {
        std::fs::remove_dir_all(there).unwrap();
        copy(&before, there);
    }
    assert_eq!(try_restart(&places, &key, &[newer], None).unwrap(), 2);
    assert_eq!(order(&open(&places, &key)), [1, 0, 2]);
}

/// A restart of which nothing is to be lost; answers how many heads came along.
fn try_restart(
    places: &LogRegistry,
    key: &Arc<Remembering>,
    copies: &[PathBuf],
    witnessed: Option<TreeHead>,
) -> Result<usize, Error> {
    let past = places.past(copies, witnessed)?.unwrap();
    let next = Description {
        id: LogId::from_bytes([0xcd; 16]),
        ..description(key)
    };
    places.restart(past, &next, &LogKey(Arc::clone(key) as _), &[], false)
}
