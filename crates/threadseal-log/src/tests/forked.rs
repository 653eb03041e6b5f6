//! A log that differs from the one in its second place: which entries the next log takes over, and
//! which of them are trusted.

use super::prelude::*;

/// What is committed to a log.
#[derive(Clone, Copy)]
enum Entry {
    /// The first head of a record.
    Head(u8),
    /// The end of a key.
    End,
}
use Entry::{End, Head as Of};

fn committed(scene: &OnDisk, entries: &[Entry]) {
    let log = scene.open();
    for entry in entries {
        match entry {
            Of(record) => log.publish(&head(*record, 0)),
            End => drop(log.commit_key_event(&revoked(1)).unwrap()),
        }
    }
    log.settle();
}

/// Puts a log with these entries, which the same key signed, in the place of the one of the scene; its marks stay.
fn replaced(scene: &OnDisk, entries: &[Entry]) {
    let other = Scene {
        key: Arc::clone(&scene.key),
        ..bare()
    };
    let other = other.begun();
    committed(&other, entries);
    scene.put_logs_back(&other.home().logs());
}

/// Begins the next log, whatever is lost, and shows its order.
fn next_order(scene: &OnDisk) -> String {
    scene.restart(NEXT, &[], &[]);
    order(&scene.open())
}

/// The size of the old log, how many entries of it are lost, and whether it forked.
fn facts(old: &OldLog) -> (u64, u64, bool) {
    (old.tree.size, old.lacking, old.forked)
}

// T-RST-03
#[test]
fn the_copy_that_continues_the_mark_goes_before_a_larger_log_that_forked() {
    let scene = on_disk();
    committed(&scene, &[1, 2, 3].map(Of));
    let whole = scene.keep(scene.folder(), "whole");
    replaced(&scene, &[1, 4, 5, 6, 7, 8].map(Of));
    let fault = scene.fault();
    assert!(matches!(fault, Some(Fault::RolledBack { .. })), "{fault:?}");
    assert_eq!(facts(&scene.past(&[])), (3, 3, true));
    assert_eq!(facts(&scene.past(&[&whole])), (3, 0, false));
    assert_eq!(scene.restart(NEXT, &[&whole], &[]), (3, 0));
    assert_eq!(order(&scene.open()), "1:0 2:0 3:0");
}

/// A log that ends before its mark may be another history, too: it goes behind a copy that continues the mark, before one that
/// is older.
// T-RST-03
#[test]
fn of_logs_that_end_before_the_mark_the_largest_is_followed() {
    let scene = on_disk();
    committed(&scene, &[1, 2].map(Of));
    let older = scene.keep(scene.folder(), "older");
    committed(&scene, &[Of(3)]);
    let newer = scene.keep_logs("newer");
    committed(&scene, &[Of(4)]);
    scene.put_logs_back(&newer);
    assert_eq!(facts(&scene.past(&[&older])), (4, 1, false));
}

/// An attacker who has a stolen key and may write to the home puts a head before the end of that
/// key.
// T-RST-04
#[test]
fn what_no_mark_vouches_for_comes_behind_the_ends_of_keys() {
    let scene = on_disk();
    committed(&scene, &[Of(1), End, Of(2)]);
    // As it is, all that the mark knows keeps its order.
    assert!(!scene.past(&[]).is_order_lost());
    assert_eq!(next_order(&scene), "1:0 end 2:0");

    // Another history, as large, or larger than what the mark knows.
    for other in [&[Of(1), Of(9), End][..], &[Of(1), Of(9), End, Of(3)]] {
        let scene = on_disk();
        committed(&scene, &[Of(1), End, Of(2)]);
        replaced(&scene, other);
        let past = scene.past(&[]);
        assert!(past.forked && past.is_order_lost());
        let order = next_order(&scene);
        assert!(order.starts_with("end 1:0"), "{order:?}");
    }

    // Behind what the mark knows, and without any mark.
    for (marked, expected) in [(true, "1:0 end 9:0"), (false, "end 1:0 9:0")] {
        let scene = on_disk();
        committed(&scene, &[Of(1)]);
        replaced(&scene, &[Of(1), Of(9), End]);
        if !marked {
            fs::remove_dir_all(&scene.home().mark).unwrap();
        }
        assert_eq!(scene.fault(), None);
        assert_eq!(next_order(&scene), expected);
    }
}

/// The log of this id by another key is another log, whatever its description states.
// T-RST-05
#[test]
fn a_copy_of_a_log_that_is_gone_is_believed_only_if_its_key_is_known_here() {
    let scene = on_disk();
    scene.commit([head(1, 0), head(2, 0)]);
    let current = scene.get(scene.home().logs().join("current"));
    let whole = scene.keep(scene.folder(), "whole");
    let thief = Scene {
        key: RecordingKey::of(77),
        ..bare()
    };
    let thief = thief.begun();
    thief.commit([head(3, 0), head(4, 0), head(5, 0)]);
    let forged = thief.folder();
    let refused = |copy: &Path| {
        let error = scene.try_past(&[copy]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert!(error.to_string().contains("nothing here shows"), "{error}");
    };
    // Gone as a whole, and gone but for `current`.
    scene.remove_logs();
    for has_current in [false, true] {
        if has_current {
            scene.put(scene.home().logs().join("current"), &current);
        }
        refused(&forged);
        assert_eq!(scene.past(&[&whole]).lacking, 0);
    }
    // Without a second place the key of the home decides.
    fs::remove_dir_all(&scene.home().mark).unwrap();
    refused(&forged);
    refused(&whole);
    let public = scene.home().path.join("keys/log-abababababababab.log.pub");
    scene.put(public, scene.key.public_key().to_pem());
    assert!(scene.try_past(&[&forged]).is_err());
    assert_eq!(scene.restart(NEXT, &[&whole], &[]), (2, 0));
    assert_eq!(scene.open().newest_of(2), Some(head(2, 0)));
}

/// What was committed and never signed is no part of what the log signed since, where the mark knows something else there.
// T-RST-03
#[test]
fn an_unsigned_batch_makes_no_fork_of_a_log_that_was_put_back() {
    let scene = super::unsigned::put_back(super::unsigned::Marked::Forked);
    assert_eq!(facts(&scene.past(&[])), (3, 1, false));
    scene.restart(NEXT, &[], &[]);
    assert_eq!(order(&scene.open()), "1:1");
}

/// Another process commits between the look at the old log and its end.
// T-RST-06
#[test]
fn a_log_that_grew_meanwhile_is_not_ended() {
    let scene = on_disk();
    scene.commit([head(1, 0)]);
    let past = scene.past(&[]);
    scene.commit([head(2, 0)]);
    let error = scene.replace(past).unwrap_err();
    assert!(error.to_string().contains("run this again"), "{error}");
    scene.commit([head(3, 0)]);
    assert_eq!(scene.open().size(), 3);
}

/// Where the home would have its second place under another name, and what its keys say.
// T-LOG-46
#[test]
fn a_log_that_is_gone_is_missed_however_the_home_is_named() {
    let scene = on_disk();
    scene.commit([head(1, 0)]);
    scene.remove_logs();
    let beside = scene.path("home.marks");
    let missing = |scene: &OnDisk, what: &str| {
        scene.assert_missing(what);
        assert!(scene.registry.past(&[], None).unwrap().is_some(), "{what}");
    };
    let named = scene.with(|home| {
        home.elsewhere = vec![home.mark.clone()];
        home.mark = beside.clone();
    });
    missing(&named, "known elsewhere");
    // The folder beside the home is the home's, also of one that was called otherwise.
    fs::rename(&scene.home().mark, &beside).unwrap();
    for mark in fs::read_dir(&beside).unwrap() {
        let path = mark.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if let Some((_, id)) = name.strip_suffix(".mark").and_then(|n| n.split_once('-')) {
            let other = format!("0123456789abcdef-{id}.mark");
            fs::rename(&path, beside.join(other)).unwrap();
        }
    }
    missing(&named, "beside");
    let other = scene.with(|home| home.elsewhere = vec![beside.clone()]);
    missing(&other, "beside, and not where it is looked for first");
    fs::remove_dir_all(&beside).unwrap();
    assert!(scene.registry.current().unwrap().is_none());
    // The key of a log is left, and nothing else.
    let key = |name: &str| scene.put(scene.home().path.join("keys").join(name), "");
    key("self.native.key");
    key("log-12.log.key");
    key("log-abababababababab.log.pub");
    assert!(scene.registry.current().unwrap().is_none());
    key("log-abababababababab.log.key");
    let error = scene.assert_missing("its key is left");
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(scene.registry.past(&[], None).unwrap().is_none());
    let scene = scene.begun();
    assert!(scene.registry.current().unwrap().is_some());
}

/// A log of another history lacks what would show that: it is damaged, and no log that only ends too early.
// T-MARK-09
#[test]
fn a_log_that_may_be_any_history_is_followed_by_a_copy_or_on_purpose() {
    for lacking in ["tile/0/000", "journal"] {
        let scene = on_disk();
        scene.commit(heads(1, 0..200));
        let whole = scene.keep(scene.folder(), "whole");
        let other = scene.beside("other").begun();
        other.commit(heads(2, 0..600));
        other.open().fold().unwrap();
        scene.put_logs_back(&other.home().logs());
        match lacking {
            "journal" => scene.put(lacking, ""),
            _ => scene.remove(lacking),
        }
        let error = scene.replace(scene.past(&[])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{lacking}: {error}");
        assert!(error.to_string().contains("--copy"), "{lacking}: {error}");
        let log = scene.open();
        assert!(log.access.marks.displacement().unwrap().is_none());
        drop(log);
        let past = scene.past(&[]);
        assert_eq!(past.forked, lacking == "journal");
        assert_eq!(past.lacking, past.tree.size);
        // One that lacks the same is of no help; a whole one is.
        if lacking != "journal" {
            let error = scene.try_past(&[&scene.folder()]).unwrap_err();
            assert!(error.to_string().contains("damaged"), "{error}");
        }
        assert_eq!(scene.replace(scene.past(&[&whole])).unwrap(), 1);
        assert_eq!(scene.open().newest_of(1), Some(head(1, 199)));
        assert_eq!(scene.open().newest_of(2), None);
    }
}

/// A home that was restored from a backup: its mark is ahead, so nothing shows that its entries
/// were always in their places.
// T-RST-01
#[test]
fn what_an_ended_key_sealed_is_not_lost_by_the_way() {
    let scene = on_disk();
    committed(&scene, &[Of(1), End]);
    let older = scene.keep_logs("older");
    let seen = scene.open().tree();
    committed(&scene, &[Of(2)]);
    let newer = scene.keep(scene.folder(), "newer");
    scene.put_logs_back(&older);
    let error = scene.replace(scene.past(&[])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    let text = error.to_string();
    let both = text.contains("--copy") && text.contains("--anyway");
    assert!(both, "{text}");
    let witnessed = |tree| scene.replace(scene.registry.past(&[], Some(tree))?.unwrap());
    // A tree that the log does not continue vouches for nothing.
    let other = TreeHead {
        root: Digest::of(b"another tree"),
        ..seen
    };
    assert!(witnessed(other).is_err());
    // What witnesses saw does, and so does the newer log.
    let home = scene.keep(&scene.home().path, "kept");
    let marks = scene.keep(&scene.home().mark, "marks");
    assert_eq!(witnessed(seen).unwrap(), 1);
    assert_eq!(order(&scene.open()), "1:0 end");
    put_back(&home, &scene.home().path);
    put_back(&marks, &scene.home().mark);
    assert_eq!(scene.replace(scene.past(&[&newer])).unwrap(), 2);
    assert_eq!(order(&scene.open()), "1:0 end 2:0");
}
