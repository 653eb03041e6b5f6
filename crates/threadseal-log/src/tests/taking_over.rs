//! A log that is made beside heads that are known already.

use super::*;
use key_events::event;
use threadseal_core::tlog::entry::key_event::KeyChange;
use threadseal_store::fault::{FaultKind, Keep};
use threadseal_store::heads::Durability;

/// Heads that were stored while there was no log: of record 1 two, the newer one `written` so.
fn store_some(fs: Arc<dyn Fs>, home: &Path, written: Durability) -> FileHeadStore {
    let heads = FileHeadStore::new(fs, home.join("heads"));
    for number in 1..=3 {
        let stored = known(number, 0);
        assert_eq!(heads.create(&stored).unwrap(), Swap::Stored);
    }
    let newer = known(1, 1);
    let swap = heads.replace_if(&head(1, 0).head, &newer, written);
    assert_eq!(swap.unwrap(), Swap::Stored);
    heads
}

/// What is left where nothing fails: all heads, each the newest of its record.
const NEWEST: [(u8, u64); 3] = [(1, 1), (2, 0), (3, 0)];

fn has_all(log: &SealLog, what: &str) {
    for (number, seq) in NEWEST {
        let (_, newest) = log.newest(&record(number)).unwrap().unwrap();
        assert_eq!(newest.head, head(number, seq).head, "{what}");
    }
}

#[test]
fn a_log_that_is_made_later_knows_every_head_that_was_stored_before() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let heads = store_some(RealFs::shared(), &home, Durability::Written);
    // Neither an alias nor a place nor what a crash left is a head.
    let mut stored = heads.fetch(&record(2)).unwrap().unwrap();
    stored.head = head(2, 1).head;
    stored.aliases = vec![Digest::of(b"line")];
    stored.path_hint = Some("/records/b.jsonl".to_owned());
    let swap = heads.replace_if(&head(2, 0).head, &stored, Durability::Durable);
    assert_eq!(swap.unwrap(), Swap::Stored);
    std::fs::write(home.join("heads/01/.threadseal-1-0.tmp"), "half").unwrap();
    let all = heads.all().unwrap();
    let known: Vec<Head> = all.iter().map(|logged| logged.head).collect();
    assert_eq!(known, [head(1, 1).head, head(2, 1).head, head(3, 0).head]);

    let (places, key) = (places(RealFs::shared(), &home), Remembering::new());
    let log_key = LogKey(Arc::clone(&key) as _);
    places
        .create(&description(&key), &log_key, &all, &|| Ok(()))
        .unwrap();
    let log = Arc::new(open(&places, &key));
    assert_eq!(log.view().unwrap().tree().size, 3);
    assert_eq!(log.marks().unwrap(), [Some(log.view().unwrap().tree())]);
    // A folder of heads that goes back to before is of no use from now on.
    std::fs::remove_dir_all(home.join("heads")).unwrap();
    let files = FileHeadStore::new(RealFs::shared(), home.join("heads"));
    let logged = LoggedHeads::new(Arc::new(files), log);
    assert_eq!(
        logged.fetch(&record(2)).unwrap().unwrap().head,
        head(2, 1).head
    );
}

// T-LOG-11
#[test]
fn a_damaged_head_makes_no_log_that_would_lack_it() {
    let (fs, home) = (FaultFs::new(), Path::new("/home"));
    let heads = store_some(fs.shared(), home, Durability::Durable);
    let hex = record(3).to_hex();
    let path = home.join(format!("heads/03/{}.head", &hex[2..]));
    fs.set_bytes(&path, b"threadseal.head/1 no").unwrap();
    let error = heads.all().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::External);
    assert!(error.to_string().contains("damaged"), "{error}");
}

/// Lets each call of `work` on a disk of `before` fail in every way, cuts the power or lets the process end, and shows `after`
/// what is left.
fn fail_each<S>(
    before: impl Fn() -> (FaultFs, S),
    work: impl Fn(&FaultFs, &S) -> Result<(), Error>,
    after: impl Fn(&FaultFs, &S, bool, &str),
) {
    let calls = {
        let (fs, state) = before();
        fs.plan(usize::MAX, FaultKind::Io);
        work(&fs, &state).unwrap();
        fs.calls()
    };
    assert!(calls > 20, "{calls}");
    let keeps = [
        Keep::Nothing,
        Keep::Everything,
        Keep::ByLot(3),
        Keep::ByLot(4),
    ];
    for call in 0..calls {
        for (number, kind) in FaultKind::ALL.into_iter().enumerate() {
            let (fs, state) = before();
            fs.plan(call, kind);
            let done = work(&fs, &state).is_ok();
            let what = format!("{kind:?} at {call} of {calls} ({:?}), {done}", fs.struck());
            match (call + number).is_multiple_of(5) {
                true => {
                    fs.heal();
                    fs.kill_process();
                }
                false => fs.cut_power(keeps[(call + number) % keeps.len()]),
            }
            after(&fs, &state, done, &what);
        }
    }
}

/// Either there is no log, and one can be made, or it is there with every head.
// T-LOG-11
#[test]
fn whatever_fails_a_log_that_is_made_later_is_not_there_or_knows_every_head() {
    let home = Path::new("/home");
    let before = || {
        let fs = FaultFs::new();
        store_some(fs.shared(), home, Durability::Durable);
        (fs, Remembering::new())
    };
    let make = |fs: &FaultFs, key: &Arc<Remembering>, id: u8| {
        let heads = FileHeadStore::new(fs.shared(), home.join("heads"));
        let description = Description {
            id: LogId::from_bytes([id; 16]),
            ..description(key)
        };
        let log_key = LogKey(Arc::clone(key) as _);
        places(fs.shared(), home).create(&description, &log_key, &heads.all()?, &|| Ok(()))
    };
    fail_each(
        before,
        |fs, key| make(fs, key, 1),
        |fs, key, done, what| {
            let places = places(fs.shared(), home);
            let made = places.current();
            let made = made
                .unwrap_or_else(|error| panic!("{what}: {error}"))
                .is_some();
            assert!(made || !done, "{what}");
            if !made {
                make(fs, key, 2).unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            let log = open(&places, key);
            assert_eq!(log.fault().unwrap(), None, "{what}");
            assert_eq!(log.view().unwrap().tree().size, 3, "{what}");
            has_all(&log, what);
            log.publish(&head(4, 0));
            flushed(&log);
            assert_eq!(
                log.marks().unwrap(),
                [Some(log.view().unwrap().tree())],
                "{what}"
            );
        },
    );
}

/// Either the old log remains, or the new one with all heads of both; and the tree last signed for
/// the old one is its end.
// T-KLOG-14 T-RST-08
#[test]
fn whatever_fails_a_restart_leaves_the_old_log_or_a_new_one_that_knows_every_head() {
    let home = Path::new("/home");
    let revoked = event(7, KeyChange::Revoke);
    let before = || {
        let (fs, places, key) = in_memory();
        store_some(fs.shared(), home, Durability::Durable);
        let log = open(&places, &key);
        (5..9).for_each(|number| log.publish(&head(number, 0)));
        // Behind the heads that were stored and not published.
        assert_eq!(log.commit_key_event(&revoked).unwrap(), 7);
        drop(log);
        (fs, key)
    };
    let restart = |fs: &FaultFs, key: &Arc<Remembering>, id: u8| {
        let places = places(fs.shared(), home);
        let stored = FileHeadStore::new(fs.shared(), home.join("heads")).all()?;
        let past = places.past(&[], None)?;
        let past = past.ok_or_else(|| Error::invalid("nothing is left"))?;
        let next = Description {
            id: LogId::from_bytes([id; 16]),
            ..description(key)
        };
        let log_key = LogKey(Arc::clone(key) as _);
        places
            .restart(past, &next, &log_key, &stored, false)
            .map(drop)
    };
    fail_each(
        before,
        |fs, key| restart(fs, key, 1),
        |fs, key, done, what| {
            let places = places(fs.shared(), home);
            let current = places.current();
            let current = current
                .unwrap_or_else(|error| panic!("{what}: {error}"))
                .unwrap();
            let is_new = current.id == LogId::from_bytes([1; 16]);
            assert!(is_new || !done, "{what}");
            if !is_new {
                // It may have ended already; that it has is no way back.
                restart(fs, key, 2).unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            let log = open(&places, key);
            assert_eq!(log.fault().unwrap(), None, "{what}");
            assert_eq!(log.view().unwrap().tree().size, 9, "{what}");
            has_all(&log, what);
            // A trust store that names the entry of the log before is understood, whether it has followed or not.
            assert_eq!(log.key_events().unwrap(), [(8, revoked.clone())], "{what}");
            assert!(log.ended_before(revoked.public(), 7), "{what}");
            assert!(!log.ended_before(revoked.public(), 6), "{what}");
            for number in 5..9 {
                let (_, newest) = log.newest(&record(number)).unwrap().unwrap();
                assert_eq!(newest, head(number, 0), "{what}");
            }
            log.publish(&head(4, 0));
            flushed(&log);
        },
    );
}
