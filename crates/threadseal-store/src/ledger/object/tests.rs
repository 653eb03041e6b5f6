//! The suite on every storage, and the faults that only object storage can have.

use super::format::{Row, RunFacts, RunHead, SEGMENT_RECORDS};
use super::*;
use crate::fault::FaultFs;
use crate::ledger::LedgerStoreExt as _;
use crate::ledger::conformance::{self, append_next, entry, run_id, whole_chain};
use crate::object_log::FANOUT;
use crate::objects::fault::{FaultObjects, ObjectFault};
use crate::objects::moto::Moto;
use crate::objects::{Cloud, Folder, Object, Put, Version};
use crate::sys::RealFs;
use object_store::memory::InMemory;
use std::sync::Mutex;
use threadseal_core::digest::Digest;
use threadseal_core::error::ErrorKind;

fn in_memory() -> Arc<dyn Objects> {
    Arc::new(Cloud::new(Arc::new(InMemory::new()), "a/prefix"))
}

fn store(objects: &Arc<dyn Objects>) -> ObjectLedgerStore {
    ObjectLedgerStore::new(Arc::clone(objects))
}

#[test]
fn the_store_in_the_librarys_memory_passes_the_suite() {
    conformance::run(&|| {
        let objects = in_memory();
        Box::new(move || Box::new(store(&objects)))
    });
}

#[test]
fn the_store_in_a_folder_passes_the_suite() {
    conformance::run(&|| {
        let folder = tempfile::tempdir().unwrap();
        Box::new(move || {
            let url = format!("object+file:{}", folder.path().display());
            Box::new(store(&objects::open(&url, &[]).unwrap()))
        })
    });
}

#[test]
fn the_store_on_a_server_of_s3_passes_the_suite() {
    let Some(moto) = Moto::shared() else { return };
    conformance::run(&|| {
        let (url, settings) = (moto.fresh(), moto.settings());
        Box::new(move || Box::new(store(&objects::open(&url, &settings).unwrap())))
    });
}

/// So many records on top of `tip`, each named by `name`: its text, and its key, if it has one.
fn batch(
    run: &RunId,
    tip: &Tip,
    size: usize,
    name: impl Fn(u64) -> (String, Option<String>),
) -> Vec<Entry> {
    let mut prev = tip.hash;
    let mut next = |number| {
        let (text, key) = name(number);
        let next = entry(run, prev, &text, key.as_deref());
        prev = next.record_hash;
        next
    };
    (0..size as u64).map(&mut next).collect()
}

/// Appends batches of `size` records until there are `count`.
fn fill(store: &ObjectLedgerStore, run: &RunId, count: u64, size: usize, text: &str) {
    let mut tip = store.tip(run).unwrap().unwrap_or_default();
    while tip.count < count {
        let key = |number: u64| Some((tip.count + number).to_string());
        let entries = batch(run, &tip, size, |number| (text.to_owned(), key(number)));
        let stored = store.append_with(run, &mut |_| Ok(entries.clone()));
        tip = stored.unwrap();
    }
}

#[test]
fn names_that_no_run_has_are_told_and_passed_over_in_object_storage() {
    let objects = in_memory();
    let (store, run) = (store(&objects), run_id("J"));
    fill(&store, &run, 2, 1, "x");
    assert_eq!(store.strays(9).unwrap(), [""; 0]);
    for name in ["heads/4A", "heads/4", "heads/ff", "heads/0a", "heads/zz"] {
        let Put::Stored(_) = objects.create(name, b"x").unwrap() else {
            panic!("{name} is there already");
        };
    }
    assert_eq!(store.runs(None, 9).unwrap(), [run]);
    let told = ["heads/0a", "heads/4", "heads/4A", "heads/ff", "heads/zz"];
    assert_eq!(store.strays(9).unwrap(), told);
    assert_eq!(store.strays(2).unwrap(), told[..2]);
}

#[test]
fn a_long_ledger_is_read_through_several_levels_and_its_head_stays_small() {
    let objects = in_memory();
    let (writer, run) = (store(&objects), run_id("long"));
    let count = (SEGMENT_RECORDS * FANOUT * 3) as u64;
    fill(&writer, &run, count, 1000, "x");
    let log = writer.runs.log(&run);
    let head = objects.read(&log.head_name(), Ledgers::MAX_HEAD_BYTES);
    let head = head.unwrap();
    let bytes = head.unwrap().bytes;
    assert!(bytes.len() < 120 << 10, "{}", bytes.len());
    let levels = RunHead::decode(&run, &bytes).unwrap().levels;
    assert!(levels.len() == 2 && levels[1].len() >= 2);
    let reader = store(&objects);
    let all: Vec<u64> = reader.list(&run, 0).map(|r| r.unwrap().seq).collect();
    assert!(all.iter().copied().eq(0..all.len() as u64) && all.len() as u64 >= count);
    for seq in [0, 255, 256, 8191, 8192, count - 1] {
        let found = reader.find_completed(&run, &seq.to_string()).unwrap();
        assert_eq!(found.unwrap().seq, seq);
        assert_eq!(reader.list_after(&run, seq, 1).unwrap()[0].seq, seq);
    }
    assert_eq!(reader.find_completed(&run, "unknown").unwrap(), None);
    let report = reader.fsck(&run, false).unwrap();
    assert!(report.is_clean() && report.records == all.len() as u64);
    let at = Timestamp::from_micros(1).unwrap();
    assert!(reader.delete(&run, None, at).unwrap());
    for folder in log.folders() {
        assert_eq!(objects.list(&folder, "", 9).unwrap(), [""; 0]);
    }
}

#[test]
fn records_of_any_size_are_sealed_within_bounds() {
    let objects = in_memory();
    let (store, run) = (store(&objects), run_id("large"));
    for (count, text) in [(3, "x".repeat(15 << 20)), (90, "y".repeat(100_000))] {
        fill(&store, &run, count, 1, &text);
    }
    assert_eq!(whole_chain(&store, &run).len(), 90);
    assert!(store.fsck(&run, false).unwrap().is_clean());
}

/// The work of a writer: batches of these sizes, some of which are sealed. The caller repeats the
/// reads.
fn work(
    store: &ObjectLedgerStore,
    run: &RunId,
    sizes: &[usize],
    acknowledged: &Mutex<Tip>,
) -> Result<(), Error> {
    let tip = store.tip(run).or_else(|_| store.tip(run))?;
    let mut tip = tip.unwrap_or_default();
    for &size in sizes {
        let name = |number| (format!("{}.{number}", tip.count), None);
        let entries = batch(run, &tip, size, name);
        match store.append_if(run, &tip, &entries)? {
            Append::Stored(now) => tip = now,
            Append::Differs(other) => panic!("{other} where nobody else writes"),
        }
        *acknowledged.lock().unwrap() = tip;
    }
    Ok(())
}

const BATCHES: [usize; 6] = [1, 1, 300, 1, 600, 1];

// T-STO-19
#[test]
fn every_fault_at_every_call_loses_nothing_that_was_acknowledged() {
    let run = run_id("faults");
    let calls = {
        let faulty = Arc::new(FaultObjects::new(in_memory()));
        faulty.plan(usize::MAX, ObjectFault::Fails);
        let objects: Arc<dyn Objects> = faulty.clone();
        work(&store(&objects), &run, &BATCHES, &Mutex::default()).unwrap();
        faulty.calls()
    };
    assert!(calls > 10, "{calls}");
    for (call, fault) in (0..calls).flat_map(|call| ObjectFault::ALL.map(|fault| (call, fault))) {
        let behind = in_memory();
        let faulty = Arc::new(FaultObjects::new(Arc::clone(&behind)));
        faulty.plan(call, fault);
        let objects: Arc<dyn Objects> = faulty;
        let acknowledged = Mutex::default();
        let done = work(&store(&objects), &run, &BATCHES, &acknowledged);
        let after = store(&behind);
        let there = whole_chain(&after, &run).len() as u64;
        let promised = acknowledged.into_inner().unwrap();
        let what = format!("call {call}, {fault:?}: {there} there, {promised} promised");
        let is_stopped = matches!(fault, ObjectFault::Stops | ObjectFault::StopsAfter);
        assert_eq!(done.is_err(), is_stopped, "{what}: {done:?}");
        if is_stopped {
            assert!(there >= promised.count, "{what}");
            let kept = after.list_after(&run, 0, 2000).unwrap();
            let hash = |record: &StoredRecord| {
                let record: serde_json::Value = serde_json::from_slice(&record.line).unwrap();
                Digest::parse_hex(record["record_hash"].as_str().unwrap())
            };
            let index = usize::try_from(promised.count).unwrap();
            let last = index.checked_sub(1).map(|index| &kept[index]);
            assert_eq!(last.and_then(hash), promised.hash, "{what}");
        } else {
            assert_eq!(there, promised.count, "{what}: nothing twice");
        }
        work(&after, &run, &BATCHES, &Mutex::default()).unwrap();
        let report = after.fsck(&run, true).unwrap();
        assert!(report.is_clean(), "{what}: {report:?}");
        assert!(after.fsck(&run, false).unwrap().faults.is_empty(), "{what}");
        assert_eq!(whole_chain(&after, &run).len() as u64, there + 904);
    }
}

// T-STO-19
#[test]
fn a_folder_survives_every_cut_of_the_power() {
    use crate::fault::{FaultKind, Keep};
    let run = run_id("power");
    let folder =
        |disk: &FaultFs| -> Arc<dyn Objects> { Arc::new(Folder::new(disk.shared(), "/ledgers")) };
    let calls = {
        let disk = FaultFs::new();
        work(&store(&folder(&disk)), &run, &[1, 300], &Mutex::default()).unwrap();
        disk.calls()
    };
    for call in 0..calls {
        for keep in [Keep::Nothing, Keep::ByLot(call as u64)] {
            let disk = FaultFs::new();
            disk.plan(call, FaultKind::PowerOff);
            let acknowledged = Mutex::default();
            let _ = work(&store(&folder(&disk)), &run, &[1, 300], &acknowledged);
            disk.cut_power(keep);
            let after = store(&folder(&disk));
            let there = whole_chain(&after, &run).len() as u64;
            let promised = acknowledged.into_inner().unwrap();
            assert!(there >= promised.count, "call {call}: {there}, {promised}");
            append_next(&after, &run, "goes on").unwrap();
            assert!(after.fsck(&run, true).unwrap().is_clean());
        }
    }
}

/// Storage in which another writer appends right before a write is done.
#[derive(Debug)]
struct Overtaken {
    behind: Arc<dyn Objects>,
    run: RunId,
    once: Mutex<bool>,
    is_after: bool,
}

impl Overtaken {
    fn other(&self) {
        if std::mem::take(&mut *self.once.lock().unwrap()) {
            append_next(&store(&self.behind), &self.run, "other").unwrap();
        }
    }
}

impl Objects for Overtaken {
    fn read(&self, name: &str, limit: usize) -> Result<Option<Object>, Error> {
        self.behind.read(name, limit)
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Put, Error> {
        self.behind.create(name, bytes)
    }

    fn replace_if(&self, name: &str, version: &Version, bytes: &[u8]) -> Result<Put, Error> {
        if !self.is_after {
            self.other();
            return self.behind.replace_if(name, version, bytes);
        }
        let put = self.behind.replace_if(name, version, bytes)?;
        let is_first = *self.once.lock().unwrap();
        self.other();
        match is_first {
            true => Err(Error::new(ErrorKind::External, "the answer was lost")),
            false => Ok(put),
        }
    }

    fn list(&self, folder: &str, after: &str, limit: usize) -> Result<Vec<String>, Error> {
        self.behind.list(folder, after, limit)
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        self.behind.remove(name)
    }

    fn place(&self) -> String {
        self.behind.place()
    }
}

// T-STO-19
#[test]
fn a_writer_who_was_overtaken_is_told_and_one_whose_answer_was_lost_finds_its_record() {
    for is_after in [false, true] {
        let behind = in_memory();
        let run = run_id("overtaken");
        append_next(&store(&behind), &run, "first").unwrap();
        let overtaken: Arc<dyn Objects> = Arc::new(Overtaken {
            behind: Arc::clone(&behind),
            run: run.clone(),
            once: Mutex::new(true),
            is_after,
        });
        let writer = store(&overtaken);
        let tip = writer.tip(&run).unwrap().unwrap();
        let next = entry(&run, tip.hash, "next", None);
        let answer = writer.append_if(&run, &tip, std::slice::from_ref(&next));
        let all = whole_chain(&store(&behind), &run);
        let hash = next.record_hash;
        match answer.unwrap() {
            Append::Stored(now) => {
                assert!(is_after);
                assert_eq!(now, Tip { count: 2, hash });
                assert_eq!((all.len(), &all[1].line), (3, &next.line));
            }
            Append::Differs(now) => {
                assert!(!is_after);
                assert_eq!((now.count, all.len()), (2, 2));
            }
        }
    }
}

// T-STO-22
#[test]
fn fsck_removes_only_what_no_head_can_come_to_name() {
    let objects = in_memory();
    let (store, run) = (store(&objects), run_id("orphans"));
    fill(&store, &run, 300, 300, "x");
    let head = store.runs.fetch(&run).unwrap().unwrap().0;
    let sealed_at = |first: u64| {
        let mut lost = RunHead::bare(RunFacts::default());
        lost.facts.tip.count = first + 1;
        lost.open = vec![Row::new(&entry(&run, None, "lost", None), [7; 16])];
        lost.seal_open(&run).remove(0)
    };
    let (early, pending) = (sealed_at(0), sealed_at(head.sealed()));
    for object in [&early, &pending] {
        objects::seal(&*objects, &object.name, &object.bytes).unwrap();
    }
    let report = store.fsck(&run, false).unwrap();
    let [fault] = &report.faults[..] else {
        panic!("{report:?}")
    };
    assert_eq!(fault.code, "orphan");
    assert!(fault.message.contains(&early.name));
    assert!(store.fsck(&run, true).unwrap().is_clean());
    assert_eq!(objects.read(&early.name, 9999).unwrap(), None);
    assert!(objects.read(&pending.name, 9999).unwrap().is_some());
}

// T-STO-20
#[test]
fn changed_missing_and_rolled_back_objects_are_refused_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let objects: Arc<dyn Objects> = Arc::new(Folder::new(RealFs::shared(), folder.path()));
    let (writer, run) = (store(&objects), run_id("damage"));
    fill(&writer, &run, 300, 300, "x");
    let log = writer.runs.log(&run);
    let head_file = folder.path().join(log.head_name());
    let old_head = std::fs::read(&head_file).unwrap();
    append_next(&writer, &run, "newer").unwrap();
    let segment = writer.runs.fetch(&run).unwrap().unwrap().0.levels[0][0].clone();
    let segment_file = folder.path().join(log.segment_name(&segment));
    let codes = || {
        let report = store(&objects).fsck(&run, true).unwrap();
        assert!(!report.is_clean());
        report.faults[0].code
    };
    let whole = std::fs::read(&segment_file).unwrap();
    let mut changed = whole.clone();
    changed[2000] ^= 1;
    std::fs::write(&segment_file, changed).unwrap();
    let error = store(&objects).list_after(&run, 0, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert_eq!(codes(), "changed");
    std::fs::remove_file(&segment_file).unwrap();
    assert_eq!(codes(), "missing");
    std::fs::write(&segment_file, whole).unwrap();
    assert!(store(&objects).fsck(&run, false).unwrap().is_clean());
    let newer = std::fs::read(&head_file).unwrap();
    for at in (0..newer.len()).step_by(97) {
        let mut changed = newer.clone();
        changed[at] ^= 0x20;
        std::fs::write(&head_file, changed).unwrap();
        let refused = store(&objects).tip(&run).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Refused);
    }
    assert_eq!(codes(), "head_damaged");
    std::fs::write(&head_file, old_head).unwrap();
    let error = append_next(&writer, &run, "after").unwrap_err();
    assert!(error.to_string().contains("rolled back"), "{error}");
}
