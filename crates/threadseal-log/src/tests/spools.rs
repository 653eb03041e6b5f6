//! What is in a spool counts as far as the home itself wrote it, and nothing in one ever holds up a seal.

use super::*;
use threadseal_store::fault::{FaultKind, Keep};
use threadseal_store::heads::Durability;
use threadseal_store::sys::{self, Access};

/// A line as it was written before lines had tags, and as anybody can write it.
fn bare_line(head: &LoggedHead) -> Vec<u8> {
    let mut line = LogEntry::Head(*head).to_bytes().unwrap();
    line.push(b'\n');
    line
}

/// Leaves a file in the spool, as a process that ended does.
fn leave(places: &LogRegistry, name: &str, bytes: &[u8]) {
    let folder = places.home.logs().join("spool");
    atomic::create_directories(&*places.home.fs, &folder, PRIVATE_DIRECTORY).unwrap();
    let access = Access::CreateNew(atomic::PRIVATE_FILE);
    let file = places.home.fs.open(&folder.join(name), access).unwrap();
    sys::append_all(&*file, bytes).unwrap();
}

fn stored(places: &LogRegistry) -> FileHeadStore {
    FileHeadStore::new(Arc::clone(&places.home.fs), places.home.path.join("heads"))
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

/// What is kept of lines that were set aside, in all files.
fn kept(places: &LogRegistry) -> Vec<u8> {
    let folder = places.home.logs().join("set-aside");
    let names = places.home.fs.read_dir(&folder).unwrap_or_default();
    let mut all = Vec::new();
    for name in names {
        let bytes = read::read_small(&*places.home.fs, &folder.join(name), 1 << 20);
        all.extend(bytes.unwrap());
    }
    all
}

// T-LOG-37
#[test]
fn a_forged_line_is_set_aside_and_its_record_is_sealed_as_before() {
    let (fs, places, key) = in_memory();
    assert_eq!(stored(&places).create(&known(1, 0)).unwrap(), Swap::Stored);
    let tagged = {
        // With a tag, but not under the secret of this home.
        let mut line = own_line(&places, &forged());
        line[0] ^= 1;
        line
    };
    for (name, line) in [("00", bare_line(&forged())), ("01", tagged)] {
        leave(&places, name, &line);
    }
    let log = open(&places, &key);
    log.publish(&head(1, 0));
    let published = log.flush();
    assert!(published.error.is_none(), "{published:?}");
    assert_eq!((published.waiting, published.set_aside), (0, 2));
    assert_eq!(published.forks, []);
    // Reported once, and kept.
    assert_eq!(log.flush().set_aside, 0);
    assert_eq!(aside(&log), 2);
    assert_eq!(log.newest(&record(1)).unwrap().unwrap().1, head(1, 0));
    assert_eq!(
        places
            .home
            .fs
            .read_dir(&places.home.logs().join("spool"))
            .unwrap(),
        Vec::<std::ffi::OsString>::new()
    );
    // The record continues, over the number that the line had taken.
    for seq in 1..=8 {
        log.publish(&head(1, seq));
        flushed(&log);
    }
    assert_eq!(log.newest(&record(1)).unwrap().unwrap().1, head(1, 8));
    assert_eq!(log.fsck().unwrap().faults, Vec::<String>::new());
    assert_eq!(aside(&log), 2);
    let path = places.home.path.join("keys/spool.secret");
    assert_eq!(fs.bytes_of(&path).unwrap().len(), 65);
    assert_eq!(places.home.fs.metadata(&path).unwrap().mode & 0o777, 0o600);
}

// T-LOG-37
#[test]
fn a_forged_line_among_true_ones_takes_none_of_them_along() {
    let (_, places, key) = in_memory();
    let mut bytes = own_line(&places, &head(2, 0));
    bytes.extend(bare_line(&forged()));
    bytes.extend(b"no line at all\n\xff\xff\n\n");
    bytes.extend(own_line(&places, &head(3, 0)));
    // Torn by the end of its process.
    bytes.extend(&own_line(&places, &head(4, 0))[..200]);
    leave(&places, "00", &bytes);
    let log = open(&places, &key);
    assert_eq!(log.flush().set_aside, 4);
    for number in [2, 3] {
        let newest = log.newest(&record(number)).unwrap().unwrap().1;
        assert_eq!(newest, head(number, 0));
    }
    for number in [1, 4] {
        assert_eq!(log.newest(&record(number)).unwrap(), None);
    }
    assert_eq!(log.view().unwrap().tree().size, 2);
    let kept = kept(&places);
    let lost = bare_line(&forged());
    assert!(kept.windows(lost.len()).any(|part| part == lost));
}

// T-LOG-38
#[test]
fn lines_of_older_spools_count_as_far_as_the_store_of_heads_agrees() {
    let (_, places, key) = in_memory();
    let heads = stored(&places);
    for stored in [known(1, 4), known(2, 9), known(3, 2)] {
        assert_eq!(heads.create(&stored).unwrap(), Swap::Stored);
    }
    // The store's own; an older one of its record; a later one, which the store never heard of; one of a record that it does not know.
    let lines = [head(1, 4), head(2, 3), head(3, 5), head(4, 0)];
    leave(&places, "00", &lines.map(|head| bare_line(&head)).concat());
    // The log commits the head in the store, and not the different one in a line beside it.
    let mut other_key = head(1, 4);
    other_key.root = Some(Digest::of(b"another root"));
    leave(&places, "01", &bare_line(&other_key));
    let log = open(&places, &key);
    assert_eq!(log.flush().set_aside, 2);
    for (number, seq) in [(1, 4), (2, 9), (3, 2)] {
        let newest = log.newest(&record(number)).unwrap().unwrap().1;
        assert_eq!(newest, head(number, seq));
    }
    assert_eq!(log.newest(&record(4)).unwrap(), None);
    assert_eq!(aside(&log), 2);
}

// T-LOG-37
#[test]
fn a_line_of_another_log_or_home_is_none_of_this_one() {
    let (_, places, key) = in_memory();
    let id = LogId::from_bytes([0xcd; 16]);
    let own = own_line(&places, &head(1, 0));
    let spool_key = HomeSecret::find(&places.home.dir(id)).unwrap().unwrap();
    let mut of_other_log = spool_key.line(id, &LogEntry::Head(head(2, 0)).to_bytes().unwrap());
    of_other_log.push(b'\n');
    let of_other_home = {
        let (_, other, _) = in_memory();
        let place = other.home.dir(LogId::from_bytes([0xab; 16]));
        let key = HomeSecret::make(&place, &SeededRandom::new(1234)).unwrap();
        let entry = LogEntry::Head(head(3, 0)).to_bytes().unwrap();
        [
            key.line(LogId::from_bytes([0xab; 16]), &entry),
            b"\n".to_vec(),
        ]
        .concat()
    };
    leave(&places, "00", &[own, of_other_log, of_other_home].concat());
    let log = open(&places, &key);
    let published = log.flush();
    assert_eq!((published.set_aside, published.forks), (2, Vec::new()));
    assert_eq!(log.view().unwrap().tree().size, 1);
    assert_eq!(log.newest(&record(1)).unwrap().unwrap().1, head(1, 0));
}

/// A home without its secret, or with another one: nothing is accused, and no head that the home knows lacks in the log.
// T-LOG-38
#[test]
fn a_secret_that_is_gone_or_replaced_loses_no_head_and_accuses_nothing() {
    for replaced in [false, true] {
        let (fs, places, key) = in_memory();
        let heads = stored(&places);
        let mut bytes = Vec::new();
        for number in 1..=3 {
            assert_eq!(heads.create(&known(number, 0)).unwrap(), Swap::Stored);
            bytes.extend(own_line(&places, &head(number, 0)));
            let swap = heads.replace_if(
                &known(number, 0).head,
                &known(number, 1),
                Durability::Durable,
            );
            assert_eq!(swap.unwrap(), Swap::Stored);
            bytes.extend(own_line(&places, &head(number, 1)));
        }
        // Of a record whose heads are stored elsewhere.
        bytes.extend(own_line(&places, &head(9, 0)));
        leave(&places, "00", &bytes);
        let secret = places.home.path.join("keys/spool.secret");
        let before = fs.bytes_of(&secret).unwrap();
        match replaced {
            true => fs
                .set_bytes(&secret, format!("{}\n", "5a".repeat(32)).as_bytes())
                .unwrap(),
            false => places.home.fs.unlink(&secret).unwrap(),
        }
        let log = open(&places, &key);
        let published = log.flush();
        assert!(published.error.is_none(), "{published:?}");
        assert_eq!((published.waiting, published.forks), (0, Vec::new()));
        for number in 1..=3 {
            let newest = log.newest(&record(number)).unwrap().unwrap().1;
            assert_eq!(newest, head(number, 1), "{replaced}");
        }
        assert_eq!((published.set_aside, aside(&log)), (1, 1));
        assert_eq!(log.fault().unwrap(), None);
        assert_eq!(log.fsck().unwrap().faults, Vec::<String>::new());
        // With the secret back the line counts.
        match replaced {
            true => fs.set_bytes(&secret, &before).unwrap(),
            false => atomic::create_new(&fs, &secret, &before, atomic::PRIVATE_FILE).unwrap(),
        }
        log.fold().unwrap();
        assert_eq!(log.newest(&record(9)).unwrap().unwrap().1, head(9, 0));
        assert_eq!(aside(&log), 0);
    }
}

// T-LOG-38
#[test]
fn catching_up_writes_down_what_the_store_of_heads_has_beyond_the_copy() {
    let (folder, places, key) = on_disk();
    let log = open(&places, &key);
    (0..3).for_each(|seq| log.publish(&head(1, seq)));
    flushed(&log);
    drop(log);
    let copied = folder.path().join("copy");
    copy(&places.home.logs(), &copied);
    let heads = stored(&places);
    // Torn away with its process: of record 2 no line is left. Record 1 went on, and the log has a later head of 3.
    for stored in [known(1, 5), known(2, 0)] {
        assert_eq!(heads.create(&stored).unwrap(), Swap::Stored);
    }
    let log = open(&places, &key);
    assert_eq!(log.catch_up(&copied.join("ab".repeat(16))).unwrap(), 2);
    assert_eq!(log.newest(&record(1)).unwrap().unwrap().1, head(1, 5));
    assert_eq!(log.newest(&record(2)).unwrap().unwrap().1, head(2, 0));
    assert_eq!(log.fault().unwrap(), None);
}

/// Whatever call fails while a spool with true and forged lines is taken up: no forged line is written down, none is lost, and every true one is
/// written down in the end.
// T-LOG-37
#[test]
fn whatever_fails_no_forged_line_is_written_down_and_no_line_is_lost() {
    let begun = || {
        let (fs, places, key) = in_memory();
        assert_eq!(stored(&places).create(&known(1, 0)).unwrap(), Swap::Stored);
        assert_eq!(stored(&places).create(&known(3, 0)).unwrap(), Swap::Stored);
        let lines = [
            own_line(&places, &head(2, 0)),
            bare_line(&forged()),
            bare_line(&head(3, 0)),
        ];
        leave(&places, "00", &lines.concat());
        (fs, places, key)
    };
    let take_up = |places: &LogRegistry, key: &Arc<Remembering>| {
        if let Ok(log) = crashes::open_or(places, key) {
            log.publish(&head(1, 0));
            log.flush();
        }
    };
    let calls = {
        let (fs, places, key) = begun();
        fs.plan(usize::MAX, FaultKind::Io);
        take_up(&places, &key);
        fs.calls()
    };
    assert!(calls > 20, "{calls}");
    let mut struck = 0;
    for call in 0..calls {
        for kind in FaultKind::ALL {
            let (fs, places, key) = begun();
            fs.plan(call, kind);
            take_up(&places, &key);
            struck += usize::from(fs.struck().is_some());
            let what = format!("{kind:?} at {call} ({:?})", fs.struck());
            // Another process comes, on the same files.
            fs.kill_process();
            fs.heal();
            for _ in 0..2 {
                let log = crashes::open_or(&places, &key).unwrap();
                log.publish(&head(1, 0));
                let published = log.flush();
                assert!(published.error.is_none(), "{what}: {published:?}");
                assert_eq!(published.forks, [], "{what}");
            }
            let log = open(&places, &key);
            for number in 1..=3 {
                let newest = log.newest(&record(number)).unwrap();
                let newest = newest.unwrap_or_else(|| panic!("{what}: {number}"));
                assert_eq!(newest.1, head(number, 0), "{what}");
            }
            crashes::one_history(&log, &key, &what);
            let lost = bare_line(&forged());
            let kept = kept(&places);
            assert!(kept.windows(lost.len()).any(|part| part == lost), "{what}");
            drop(log);
            fs.cut_power(Keep::Nothing);
            let log = open(&places, &key);
            assert!(aside(&log) >= 1, "{what}");
            assert_eq!(
                log.newest(&record(1)).unwrap().unwrap().1,
                head(1, 0),
                "{what}"
            );
        }
    }
    assert!(struck > calls, "{struck} of {calls}");
}
