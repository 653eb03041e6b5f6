//! What is in a spool counts as far as the home itself wrote it, and nothing in one ever holds up a seal.

use super::prelude::*;
use threadseal_store::sys::{self, Access};

/// A line as it was written before lines had tags, and as anybody can write it.
fn bare_line(head: &LoggedHead) -> Vec<u8> {
    let mut line = LogEntry::Head(*head).to_bytes().unwrap();
    line.push(b'\n');
    line
}

/// Leaves a file in the spool, as a process that ended does.
fn leave(scene: &InMemory, name: &str, lines: &[Vec<u8>]) {
    let (fs, folder) = (&scene.disk, scene.home().logs().join("spool"));
    atomic::create_directories(fs, &folder, PRIVATE_DIRECTORY).unwrap();
    let file = fs.open(&folder.join(name), Access::CreateNew(PRIVATE_FILE));
    sys::append_all(&*file.unwrap(), &lines.concat()).unwrap();
}

/// Stores heads in the home that has a log, without that log.
fn store<D: Disk>(scene: &Scene<D>, heads: &[(u8, u64)]) {
    for (number, seq) in heads {
        let swap = scene.stored().create(&known(*number, *seq));
        assert_eq!(swap.unwrap(), Swap::Stored);
    }
}

/// What an attacker would have written down: a seal of a record that the home knows, and that it never made.
fn forged() -> LoggedHead {
    let mut forged = head(1, 7);
    forged.head.line = Digest::of(b"never sealed");
    forged
}

fn aside(log: &SealLog) -> usize {
    log.set_aside().unwrap().lines
}

/// Asserts that a forged line is among those that were set aside.
#[track_caller]
fn assert_forged_is_kept(scene: &InMemory, what: &str) {
    let folder = scene.home().logs().join("set-aside");
    let names = scene.disk.read_dir(&folder).unwrap_or_default();
    let files = names.iter().map(|name| scene.get(folder.join(name)));
    let kept: Vec<u8> = files.flatten().collect();
    let lost = bare_line(&forged());
    assert!(kept.windows(lost.len()).any(|part| part == lost), "{what}");
}

// T-LOG-37
#[test]
fn a_forged_line_is_set_aside_and_its_record_is_sealed_as_before() {
    let scene = in_memory();
    store(&scene, &[(1, 0)]);
    // With a tag, but not under the secret of this home.
    let mut tagged = own_line(&scene, &forged());
    tagged[0] ^= 1;
    leave(&scene, "00", &[bare_line(&forged())]);
    leave(&scene, "01", &[tagged]);
    let log = scene.open();
    log.publish(&head(1, 0));
    let published = log.flush();
    assert!(published.error.is_none(), "{published:?}");
    assert_eq!((published.waiting, published.set_aside), (0, 2));
    assert_eq!(published.forks, []);
    // Reported once, and kept.
    assert_eq!(log.flush().set_aside, 0);
    assert_eq!(aside(&log), 2);
    assert_eq!(log.newest_of(1), Some(head(1, 0)));
    let spool = scene.disk.read_dir(&scene.home().logs().join("spool"));
    assert!(spool.unwrap().is_empty());
    // The record continues, over the number that the line had taken.
    heads(1, 1..9).for_each(|head| log.commit_heads([head]));
    assert_eq!(log.newest_of(1), Some(head(1, 8)));
    log.assert_whole();
    assert_eq!(aside(&log), 2);
    let path = scene.home().path.join("keys/spool.secret");
    assert_eq!(scene.get(&path).len(), 65);
    assert_eq!(scene.disk.metadata(&path).unwrap().mode & 0o777, 0o600);
}

// T-LOG-37
#[test]
fn a_forged_line_among_true_ones_takes_none_of_them_along() {
    let scene = in_memory();
    let own = |number| own_line(&scene, &head(number, 0));
    let lines = [
        own(2),
        bare_line(&forged()),
        b"no line at all\n\xff\xff\n\n".to_vec(),
        own(3),
        // Torn by the end of its process.
        own(4)[..200].to_vec(),
    ];
    leave(&scene, "00", &lines);
    let log = scene.open();
    assert_eq!(log.flush().set_aside, 4);
    for (number, is_logged) in [(1, false), (2, true), (3, true), (4, false)] {
        let newest = is_logged.then(|| head(number, 0));
        assert_eq!(log.newest_of(number), newest);
    }
    assert_eq!(log.size(), 2);
    assert_forged_is_kept(&scene, "among true ones");
}

// T-LOG-38
#[test]
fn lines_of_older_spools_count_as_far_as_the_store_of_heads_agrees() {
    let scene = in_memory();
    store(&scene, &[(1, 4), (2, 9), (3, 2)]);
    // The store's own; an older one of its record; a later one, which the store never heard of; one of a record that it does not know.
    let lines = [head(1, 4), head(2, 3), head(3, 5), head(4, 0)];
    leave(&scene, "00", &lines.map(|head| bare_line(&head)));
    // The log commits the head in the store, and not the different one in a line beside it.
    let mut other_key = head(1, 4);
    other_key.root = Some(Digest::of(b"another root"));
    leave(&scene, "01", &[bare_line(&other_key)]);
    let log = scene.open();
    assert_eq!(log.flush().set_aside, 2);
    for (number, seq) in [(1, 4), (2, 9), (3, 2)] {
        assert_eq!(log.newest_of(number), Some(head(number, seq)));
    }
    assert_eq!(log.newest_of(4), None);
    assert_eq!(aside(&log), 2);
}

// T-LOG-37
#[test]
fn a_line_of_another_log_or_home_is_none_of_this_one() {
    let scene = in_memory();
    let line = |secret: &HomeSecret, log: LogId, number: u8| {
        let entry = LogEntry::Head(head(number, 0)).to_bytes().unwrap();
        [secret.line(log, &entry), b"\n".to_vec()].concat()
    };
    let own = own_line(&scene, &head(1, 0));
    let secret = HomeSecret::find(&scene.home().dir(NEXT)).unwrap().unwrap();
    let other = in_memory();
    let others = HomeSecret::make(&other.home().dir(OWN), &SeededRandom::new(1234)).unwrap();
    let lines = [own, line(&secret, NEXT, 2), line(&others, OWN, 3)];
    leave(&scene, "00", &lines);
    let log = scene.open();
    let published = log.flush();
    assert_eq!((published.set_aside, published.forks), (2, Vec::new()));
    assert_eq!(log.size(), 1);
    assert_eq!(log.newest_of(1), Some(head(1, 0)));
}

/// A home without its secret, or with another one: nothing is accused, and no head that the home knows lacks in the log.
// T-LOG-38
#[test]
fn a_secret_that_is_gone_or_replaced_loses_no_head_and_accuses_nothing() {
    for replaced in [false, true] {
        let scene = in_memory();
        let mut lines = Vec::new();
        for number in 1..=3 {
            store(&scene, &[(number, 0)]);
            let (first, next) = (known(number, 0), known(number, 1));
            let swap = scene
                .stored()
                .replace_if(&first.head, &next, Durability::Durable);
            assert_eq!(swap.unwrap(), Swap::Stored);
            lines.extend(heads(number, 0..2).map(|head| own_line(&scene, &head)));
        }
        // Of a record whose heads are stored elsewhere.
        lines.push(own_line(&scene, &head(9, 0)));
        leave(&scene, "00", &lines);
        let secret = scene.home().path.join("keys/spool.secret");
        let before = scene.get(&secret);
        match replaced {
            true => scene.put(&secret, format!("{}\n", "5a".repeat(32))),
            false => scene.remove(&secret),
        }
        let log = scene.open();
        let published = log.flush();
        assert!(published.error.is_none(), "{published:?}");
        assert_eq!((published.waiting, published.forks), (0, Vec::new()));
        for number in 1..=3 {
            assert_eq!(log.newest_of(number), Some(head(number, 1)), "{replaced}");
        }
        assert_eq!((published.set_aside, aside(&log)), (1, 1));
        assert_eq!(log.fault().unwrap(), None);
        log.assert_whole();
        // With the secret back the line counts.
        scene.put(&secret, before);
        log.fold().unwrap();
        assert_eq!(log.newest_of(9), Some(head(9, 0)));
        assert_eq!(aside(&log), 0);
    }
}

// T-LOG-38
#[test]
fn catching_up_writes_down_what_the_store_of_heads_has_beyond_the_copy() {
    let scene = on_disk();
    scene.commit(heads(1, 0..3));
    let copy = scene.keep(scene.folder(), "copy");
    // Torn away with its process: of record 2 no line is left. Record 1 went on, and the log has a later head of 3.
    store(&scene, &[(1, 5), (2, 0)]);
    let log = scene.open();
    assert_eq!(log.catch_up(&copy).unwrap(), 2);
    assert_eq!(log.newest_of(1), Some(head(1, 5)));
    assert_eq!(log.newest_of(2), Some(head(2, 0)));
    assert_eq!(log.fault().unwrap(), None);
}

/// Whatever call fails while a spool with true and forged lines is taken up: no forged line is written down, none is lost, and every true one is
/// written down in the end.
// T-LOG-37
#[test]
fn whatever_fails_no_forged_line_is_written_down_and_no_line_is_lost() {
    let begun = in_memory();
    store(&begun, &[(1, 0), (3, 0)]);
    let lines = [
        own_line(&begun, &head(2, 0)),
        bare_line(&forged()),
        bare_line(&head(3, 0)),
    ];
    leave(&begun, "00", &lines);
    let take_up = |scene: &InMemory| {
        if let Ok(log) = scene.try_open() {
            log.publish(&head(1, 0));
            log.flush();
        }
    };
    let scene = begun.fork();
    let calls = scene.disk.calls_of(|| take_up(&scene));
    assert!(calls > 20, "{calls}");
    let mut struck = 0;
    for call in 0..calls {
        for kind in FaultKind::ALL {
            let scene = begun.fork();
            scene.disk.plan(call, kind);
            take_up(&scene);
            struck += usize::from(scene.disk.struck().is_some());
            let what = format!("{kind:?} at {call} ({:?})", scene.disk.struck());
            // Another process comes, on the same files.
            scene.disk.end(None);
            for _ in 0..2 {
                let log = scene.open();
                log.publish(&head(1, 0));
                let published = log.flush();
                assert!(published.error.is_none(), "{what}: {published:?}");
                assert_eq!(published.forks, [], "{what}");
            }
            let log = scene.open();
            for number in 1..=3 {
                assert_eq!(log.newest_of(number), Some(head(number, 0)), "{what}");
            }
            one_history(&log, &scene.key, &what);
            assert_forged_is_kept(&scene, &what);
            drop(log);
            scene.disk.cut_power(Keep::Nothing);
            let log = scene.open();
            assert!(aside(&log) >= 1, "{what}");
            assert_eq!(log.newest_of(1), Some(head(1, 0)), "{what}");
        }
    }
    assert!(struck > calls, "{struck} of {calls}");
}
