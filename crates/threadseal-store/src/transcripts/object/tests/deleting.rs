//! Records that are deleted, whole or not at all, also when the process is killed meanwhile.

use super::*;
use crate::transcripts::FileTranscriptStore;
use crate::transcripts::object::format::buried;

/// A record that ended, of several segments, with a tail that was set aside; how many bytes it has.
fn ended(bench: &Bench) -> (RecordId, u64) {
    let mut recorder = bench.create();
    say(&mut recorder, &"x".repeat(OPEN_BYTES)).unwrap();
    recorder.seal(1, Ext::default()).unwrap();
    say(&mut recorder, "not sealed").unwrap();
    drop(recorder);
    let mut recorder = bench.open().unwrap();
    let head = end(&mut recorder).unwrap();
    (head.record, head.size)
}

/// All objects of the record but its head.
fn objects_of(objects: &Arc<dyn Objects>, name: &RecordName) -> usize {
    let folders = write::all_folders(&store(objects).log(name));
    let count = |folder: &String| objects.list(folder, "", 99).unwrap().len();
    folders.iter().map(count).sum()
}

fn is_gone(bench: &Bench, objects: &Arc<dyn Objects>, record: RecordId) {
    let (store, name) = (&bench.store, &bench.name);
    assert_eq!(store.deleted(name).unwrap(), Some(record));
    assert!(store.read(name).unwrap().is_none());
    assert_eq!(objects_of(objects, name), 0);
    assert_eq!(store.names(None, 9).unwrap(), []);
    assert_eq!(store.fsck(name, false).unwrap().faults, []);
}

fn deletes(objects: &Arc<dyn Objects>) {
    let bench = Bench::new(objects);
    let (store, name) = (&bench.store, &bench.name);
    let mut writer = store.create(&self::name("other"), b"first\n").unwrap();
    let (record, size) = ended(&bench);
    let other = RecordId::from_bytes([7; 32]);
    assert!(objects_of(objects, name) >= 2);
    assert!(!store.delete(name, &record, size - 1).unwrap());
    assert!(!store.delete(name, &other, size).unwrap());
    assert!(!store.delete(&self::name("none"), &record, size).unwrap());
    assert_eq!(bench.verdict().unwrap(), Verdict::Verified);
    // A claim that only reads supersedes no deletion; the deletion supersedes the claim.
    let claim = store.claim(name).unwrap();
    assert!(store.delete(name, &record, size).unwrap());
    let mut late = claim.appender(0).unwrap();
    late.append_buffered(b"late").unwrap();
    assert_eq!(late.sync().unwrap_err().kind(), ErrorKind::Superseded);
    drop(late);
    writer.append_buffered(b"second\n").unwrap();
    writer.sync().unwrap();
    let names = store.names(None, 9).unwrap();
    assert_eq!(names, [self::name("other")]);
    assert!(store.delete(name, &record, size).unwrap());
    assert!(!store.delete(name, &other, size).unwrap());
    // Its name takes nothing any more, by any call.
    assert!(store.claim(name).is_err());
    assert!(store.create(name, b"first\n").is_err());
    assert_eq!(store.names(None, 9).unwrap(), names);
    assert_eq!(objects_of(objects, name), 0);
    // A writer there hides no record by an object that marks it as gone.
    objects::seal(&**objects, &store.log(&names[0]).gone_name(), b"").unwrap();
    assert_eq!(store.names(None, 9).unwrap(), names);
}

// T-PRU-21
#[test]
fn a_record_is_deleted_only_where_it_ends_as_it_was_seen_to_end_and_its_name_takes_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    deletes(&(Arc::new(Folder::new(RealFs::shared(), folder.path())) as _));
    deletes(&in_memory());
    let Some(moto) = Moto::shared() else { return };
    deletes(&objects::open(&moto.fresh(), &moto.settings()).unwrap());
}

// T-PRU-22
#[test]
fn a_deletion_that_fails_anywhere_is_whole_or_not_begun_and_can_be_finished() {
    let calls = {
        let behind = in_memory();
        let bench = Bench::new(&behind);
        let (record, size) = ended(&bench);
        let faulty = Arc::new(FaultObjects::new(behind));
        let objects: Arc<dyn Objects> = faulty.clone();
        assert!(store(&objects).delete(&bench.name, &record, size).unwrap());
        faulty.calls()
    };
    assert!(calls > 8, "{calls}");
    for (call, fault) in (0..calls).flat_map(|call| ObjectFault::ALL.map(|fault| (call, fault))) {
        let behind = in_memory();
        let bench = Bench::new(&behind);
        let (record, size) = ended(&bench);
        let faulty = Arc::new(FaultObjects::new(Arc::clone(&behind)));
        faulty.plan(call, fault);
        let objects: Arc<dyn Objects> = faulty;
        let done = store(&objects).delete(&bench.name, &record, size);
        let what = format!("call {call}, {fault:?}: {done:?}");
        match bench.store.deleted(&bench.name).unwrap() {
            // Each reader reads all of it.
            None => {
                assert!(done.is_err(), "{what}");
                assert_eq!(bench.verdict().unwrap(), Verdict::Verified, "{what}");
            }
            Some(deleted) => {
                assert_eq!(deleted, record, "{what}");
                assert!(bench.store.read(&bench.name).unwrap().is_none(), "{what}");
                let report = bench.store.fsck(&bench.name, true).unwrap();
                assert!(report.is_clean(), "{what}: {report:?}");
                assert!(done.is_err() || report.faults.is_empty(), "{what}");
            }
        }
        assert!(bench.store.delete(&bench.name, &record, size).unwrap());
        is_gone(&bench, &behind, record);
    }
}

#[test]
fn a_head_that_says_deleted_and_holds_something_is_no_head() {
    let record = name("r");
    let begun = RecordHead::bare(RecordFacts::new([1; 16]));
    let whole = after(&begun, &record, b"x").0;
    let buried = buried(&whole, RecordId::from_bytes([7; 32]));
    let bytes = buried.encode(&record);
    assert_eq!(RecordHead::decode(&record, &bytes), Some(buried.clone()));
    let mut holds = whole;
    holds.facts.deleted = buried.facts.deleted;
    assert_eq!(RecordHead::decode(&record, &holds.encode(&record)), None);
}

#[test]
fn a_file_is_deleted_with_what_lies_beside_it_only_where_it_ends_as_it_was_seen_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let files = FileTranscriptStore::new(RealFs::shared(), folder.path());
    let bench = Bench::new(&in_memory());
    let name = &bench.name;
    let mut recorder = bench.create_in(&files);
    let head = end(&mut recorder).unwrap();
    let held = files.delete(name, &head.record, head.size);
    assert!(held.is_err(), "it is held");
    drop(recorder);
    std::fs::write(folder.path().join("a record.jsonl.tail-0-x"), b"x").unwrap();
    std::fs::write(folder.path().join("another.jsonl"), b"x").unwrap();
    let other = RecordId::from_bytes([7; 32]);
    assert!(!files.delete(name, &head.record, head.size - 1).unwrap());
    assert!(!files.delete(name, &other, head.size).unwrap());
    assert!(files.read(name).unwrap().is_some());
    assert!(files.delete(name, &head.record, head.size).unwrap());
    assert!(!files.delete(name, &head.record, head.size).unwrap());
    assert_eq!(files.deleted(name).unwrap(), None);
    let left = std::fs::read_dir(folder.path()).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["another.jsonl"]);
}
