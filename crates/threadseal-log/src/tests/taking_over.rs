//! A log that is made beside heads that are known already.

use super::prelude::*;

/// Heads that were stored while there was no log: of record 1 two, the newer one `written` so.
fn store_some<D: Disk>(scene: &Scene<D>, written: Durability) {
    let heads = scene.stored();
    for number in 1..=3 {
        assert_eq!(heads.create(&known(number, 0)).unwrap(), Swap::Stored);
    }
    let swap = heads.replace_if(&head(1, 0).head, &known(1, 1), written);
    assert_eq!(swap.unwrap(), Swap::Stored);
}

/// A home without a log, on a disk that fails on command.
fn without_log() -> InMemory {
    let scene = Scene::empty(FaultFs::new(), Path::new("/home"));
    store_some(&scene, Durability::Durable);
    scene
}

#[test]
fn a_log_that_is_made_later_knows_every_head_that_was_stored_before() {
    let scene = bare();
    store_some(&scene, Durability::Written);
    let folder = scene.home().path.join("heads");
    let heads = scene.stored();
    // Neither an alias nor a place nor what a crash left is a head.
    let mut stored = heads.fetch(&record(2)).unwrap().unwrap();
    stored.head = head(2, 1).head;
    stored.aliases = vec![Digest::of(b"line")];
    stored.path_hint = Some("/records/b.jsonl".to_owned());
    let swap = heads.replace_if(&head(2, 0).head, &stored, Durability::Durable);
    assert_eq!(swap.unwrap(), Swap::Stored);
    fs::write(folder.join("01/.threadseal-1-0.tmp"), "half").unwrap();
    let all = heads.all().unwrap();
    let known: Vec<Head> = all.iter().map(|logged| logged.head).collect();
    assert_eq!(known, [head(1, 1).head, head(2, 1).head, head(3, 0).head]);

    scene.create(&scene.describe(OWN), &all).unwrap();
    let log = Arc::new(scene.open());
    assert_eq!(log.size(), 3);
    assert_eq!(log.marks().unwrap(), [Some(log.tree())]);
    // A folder of heads that goes back to before is of no use from now on.
    fs::remove_dir_all(folder).unwrap();
    let found = scene.logged(&log).fetch(&record(2)).unwrap().unwrap();
    assert_eq!(found.head, head(2, 1).head);
}

// T-LOG-11
#[test]
fn a_damaged_head_makes_no_log_that_would_lack_it() {
    let scene = without_log();
    let hex = record(3).to_hex();
    let path = format!("/home/heads/03/{}.head", &hex[2..]);
    scene.put(path, b"threadseal.head/1 no");
    let error = scene.stored().all().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::External);
    assert!(error.to_string().contains("damaged"), "{error}");
}

/// Lets each call of `work` fail in every way, cuts the power or lets the process end, and shows `after` what is left, and
/// whether the work was done.
fn fail_each(
    before: &InMemory,
    work: impl Fn(&InMemory) -> Result<(), Error>,
    after: impl Fn(&InMemory, bool, &str),
) {
    let scene = before.fork();
    let calls = scene.disk.calls_of(|| work(&scene).unwrap());
    assert!(calls > 20, "{calls}");
    let keeps = [
        Keep::Nothing,
        Keep::Everything,
        Keep::ByLot(3),
        Keep::ByLot(4),
    ];
    for call in 0..calls {
        for (number, kind) in FaultKind::ALL.into_iter().enumerate() {
            let scene = before.fork();
            scene.disk.plan(call, kind);
            let done = work(&scene).is_ok();
            let struck = scene.disk.struck();
            let what = format!("{kind:?} at {call} of {calls} ({struck:?}), {done}");
            let turn = call + number;
            let cut = (!turn.is_multiple_of(5)).then(|| keeps[turn % keeps.len()]);
            scene.disk.end(cut);
            after(&scene, done, &what);
        }
    }
}

/// Asserts that a log has so many entries, and of each stored record the newest head; and that it continues.
fn assert_has_all(log: &SealLog, size: u64, what: &str) {
    assert_eq!(log.fault().unwrap(), None, "{what}");
    assert_eq!(log.size(), size, "{what}");
    for (number, seq) in [(1, 1), (2, 0), (3, 0)] {
        let newest = log.newest_of(number).unwrap();
        assert_eq!(newest.head, head(number, seq).head, "{what}");
    }
}

/// Either there is no log, and one can be made, or it is there with every head.
// T-LOG-11
#[test]
fn whatever_fails_a_log_that_is_made_later_is_not_there_or_knows_every_head() {
    let make = |scene: &InMemory, byte: u8| {
        scene.create(&scene.describe(id(byte)), &scene.stored().all()?)
    };
    fail_each(
        &without_log(),
        |scene| make(scene, 1),
        |scene, done, what| {
            let made = scene.registry.current();
            let made = made.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(made.is_some() || !done, "{what}");
            if made.is_none() {
                make(scene, 2).unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            let log = scene.open();
            assert_has_all(&log, 3, what);
            log.commit_heads([head(4, 0)]);
            assert_eq!(log.marks().unwrap(), [Some(log.tree())], "{what}");
        },
    );
}

/// Either the old log remains, or the new one with all heads of both; and the tree last signed for
/// the old one is its end.
// T-KLOG-14 T-RST-08
#[test]
fn whatever_fails_a_restart_leaves_the_old_log_or_a_new_one_that_knows_every_head() {
    let revoked = revoked(7);
    let before = in_memory();
    store_some(&before, Durability::Durable);
    let log = before.open();
    (5..9).for_each(|number| log.publish(&head(number, 0)));
    // Behind the heads that were stored and not published.
    assert_eq!(log.commit_key_event(&revoked).unwrap(), 7);
    drop(log);
    let restart = |scene: &InMemory, byte: u8| {
        let stored = scene.stored().all()?;
        let past = scene.registry.past(&[], None)?;
        let past = past.ok_or_else(|| Error::invalid("nothing is left"))?;
        let next = scene.describe(id(byte));
        scene.replace_by(past, &next, &stored, false).map(drop)
    };
    fail_each(
        &before,
        |scene| restart(scene, 1),
        |scene, done, what| {
            let current = scene.registry.current();
            let current = current.unwrap_or_else(|error| panic!("{what}: {error}"));
            let is_new = current.unwrap().id == id(1);
            assert!(is_new || !done, "{what}");
            if !is_new {
                // It may have ended already; that it has is no way back.
                restart(scene, 2).unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            let log = scene.open();
            assert_has_all(&log, 9, what);
            // A trust store that names the entry of the log before is understood, whether it has followed or not.
            assert_eq!(log.key_events().unwrap(), [(8, revoked.clone())], "{what}");
            assert!(log.ended_before(revoked.public(), 7), "{what}");
            assert!(!log.ended_before(revoked.public(), 6), "{what}");
            for number in 5..9 {
                assert_eq!(log.newest_of(number), Some(head(number, 0)), "{what}");
            }
            log.commit_heads([head(4, 0)]);
        },
    );
}
