//! The faults that only object storage can have, and records that are longer than a head.

mod deleting;

use super::format::{OPEN_BYTES, RecordFacts, RecordHead, Ref, SEGMENT_BYTES, after};
use super::*;
use crate::heads::MemoryHeadStore;
use crate::object_log::{FANOUT, Span as _};
use crate::objects::fault::{FaultObjects, ObjectFault};
use crate::objects::moto::Moto;
use crate::objects::{self, Cloud, Folder};
use crate::recorder::Recorder;
use crate::sys::RealFs;
use crate::testing::{Scene, end, say};
use object_store::memory::InMemory;
use std::sync::Mutex;
use threadseal_core::report::Verdict;
use threadseal_formats::transcript::ext::Ext;

fn in_memory() -> Arc<dyn Objects> {
    Arc::new(Cloud::new(Arc::new(InMemory::new()), "a/prefix"))
}

fn store(objects: &Arc<dyn Objects>) -> ObjectTranscriptStore {
    ObjectTranscriptStore::new(Arc::clone(objects))
}

fn name(text: &str) -> RecordName {
    RecordName::parse(text).unwrap()
}

fn bytes_of(store: &ObjectTranscriptStore, name: &RecordName) -> Vec<u8> {
    let file = store.read(name).unwrap().unwrap();
    file.read_whole(1 << 26).unwrap()
}

fn head_of(store: &ObjectTranscriptStore, name: &RecordName) -> RecordHead {
    store.log(name).fetch().unwrap().unwrap().0
}

/// Bytes of which no two segments are the same.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

/// A host with one record in object storage.
struct Bench {
    scene: Scene,
    store: ObjectTranscriptStore,
    name: RecordName,
}

impl Bench {
    fn new(objects: &Arc<dyn Objects>) -> Self {
        Self {
            scene: Scene::new(RealFs::shared(), MemoryHeadStore::default()),
            store: store(objects),
            name: name("a record"),
        }
    }

    fn create(&self) -> Recorder {
        self.create_in(&self.store)
    }

    fn create_in(&self, store: &dyn TranscriptStore) -> Recorder {
        let manifest = self.scene.manifest().unwrap();
        self.scene.create_in(store, &self.name, manifest).unwrap()
    }

    fn open(&self) -> Result<Recorder, Error> {
        let opened = self.scene.open_in(&self.store, &self.name);
        opened.map(|opened| opened.recorder)
    }

    fn verdict(&self) -> Result<Verdict, Error> {
        let file = self.store.read(&self.name)?.unwrap();
        let outcome = self.scene.verify(&file, None)?;
        Ok(outcome.report.verdict)
    }

    fn bytes(&self) -> Vec<u8> {
        bytes_of(&self.store, &self.name)
    }
}

// T-TRA-35
#[test]
fn whoever_opens_a_record_supersedes_its_writer_who_is_told_so() {
    let objects = in_memory();
    let bench = Bench::new(&objects);
    let mut first = bench.create();
    say(&mut first, "first").unwrap();
    first.seal(1, Ext::default()).unwrap();
    let mut second = bench.open().unwrap();
    let error = say(&mut first, "too late").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Superseded, "{error}");
    assert!(say(&mut first, "again").is_err());
    drop(first);
    say(&mut second, "second").unwrap();
    end(&mut second).unwrap();
    let text = String::from_utf8(bench.bytes()).unwrap();
    assert!(text.contains("\"second\"") && !text.contains("too late"));
    assert_eq!(bench.verdict().unwrap(), Verdict::Verified);
}

// T-TRA-35
#[test]
fn a_writer_superseded_while_his_answer_was_lost_promises_nothing() {
    for fault in [ObjectFault::Fails, ObjectFault::AnswerLost] {
        let behind = in_memory();
        let faulty = Arc::new(FaultObjects::new(Arc::clone(&behind)));
        let (record, objects) = (name("r"), Arc::clone(&faulty) as Arc<dyn Objects>);
        let mut first = store(&objects).create(&record, b"first\n").unwrap();
        // Claimed between the write and the read of its result.
        let claim = store(&behind).claim(&record).unwrap();
        faulty.plan(0, fault);
        first.append_buffered(b"lost\n").unwrap();
        assert_eq!(first.sync().unwrap_err().kind(), ErrorKind::Superseded);
        let mut second = claim.appender(0).unwrap();
        second.append_buffered(b"second\n").unwrap();
        second.sync().unwrap();
        assert_eq!(bytes_of(&store(&behind), &record), b"first\nsecond\n");
    }
}

/// Several writers take one record from each other; each counts only acknowledged events.
fn race(objects: &Arc<dyn Objects>, writers: usize, events: usize) {
    let bench = Bench::new(objects);
    bench.create().seal(0, Ext::default()).unwrap();
    let acknowledged = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let (bench, acknowledged) = (&bench, &acknowledged);
            scope.spawn(move || {
                for number in 0..events {
                    let text = format!("{writer}.{number}");
                    let done = bench.open().and_then(|mut recorder| {
                        say(&mut recorder, &text)?;
                        recorder.seal(0, Ext::default())
                    });
                    match done {
                        Ok(_) => acknowledged.lock().unwrap().push(text),
                        // Superseded, or the head was published by the next writer already.
                        Err(error) => assert!(
                            matches!(error.kind(), ErrorKind::Superseded | ErrorKind::Refused),
                            "{error}"
                        ),
                    }
                }
            });
        }
    });
    let mut last = bench.open().unwrap();
    end(&mut last).unwrap();
    assert_eq!(bench.verdict().unwrap(), Verdict::Verified);
    let text = String::from_utf8(bench.bytes()).unwrap();
    let acknowledged = acknowledged.into_inner().unwrap();
    assert!(!acknowledged.is_empty());
    for event in acknowledged {
        assert_eq!(text.matches(&format!("\"{event}\"")).count(), 1, "{event}");
    }
    assert!(bench.store.fsck(&bench.name, true).unwrap().is_clean());
}

// T-TRA-35
#[test]
fn of_writers_who_race_every_sealed_event_stays_and_none_is_there_twice() {
    let folder = tempfile::tempdir().unwrap();
    let folder = Folder::new(RealFs::shared(), folder.path());
    race(&(Arc::new(folder) as _), 3, 20);
    race(&in_memory(), 3, 20);
    let Some(moto) = Moto::shared() else { return };
    let s3 = objects::open(&moto.fresh(), &moto.settings()).unwrap();
    race(&s3, 3, 5);
}

#[test]
fn a_long_record_is_read_through_levels_and_cut_anywhere() {
    let objects = in_memory();
    let (store, record) = (store(&objects), name("long"));
    let all = noise(FANOUT * 300_000 * 2);
    let mut log = store.create(&record, &all[..100]).unwrap();
    for piece in all[100..].chunks(300_000) {
        log.append_buffered(piece).unwrap();
    }
    log.sync().unwrap();
    drop(log);
    let head = head_of(&store, &record);
    assert!(head.levels.len() >= 2, "{} levels", head.levels.len());
    assert!(head.encode(&record).len() < OPEN_BYTES + 32_000);
    let mut length = all.len();
    assert!(bytes_of(&store, &record) == all);
    let border = usize::try_from(head.levels[1][0].end()).unwrap();
    let cuts = [
        length - 10,
        length - 299_000,
        border + 7,
        border,
        border - 5,
        300_100,
        200,
        0,
    ];
    for cut in cuts {
        let mut log = store.claim(&record).unwrap().appender(0).unwrap();
        let moved = log.move_tail_aside(cut as u64).unwrap().unwrap();
        assert_eq!(moved.length, (length - cut) as u64);
        assert!(log.move_tail_aside(cut as u64).unwrap().is_none());
        log.append_buffered(b"+").unwrap();
        drop(log);
        let aside = store.read_aside(&record, &moved, 1 << 26).unwrap();
        let there = bytes_of(&store, &record);
        assert!(there.starts_with(&all[..cut]) && there.ends_with(b"+"));
        assert!(aside.starts_with(&all[cut..(length - 1).max(cut)]), "{cut}");
        length = cut + 1;
        assert_eq!(there.len(), length);
    }
    drop(store.claim(&record).unwrap());
    let report = store.fsck(&record, true).unwrap();
    assert!(report.is_clean() && report.faults.iter().all(|fault| fault.code == "orphan"));
    assert_eq!(store.fsck(&record, false).unwrap().faults, []);
    assert_eq!(bytes_of(&store, &record), b"+");
}

#[test]
fn lines_of_any_size_are_sealed_within_bounds_and_read_back() {
    let objects = in_memory();
    let (store, record) = (store(&objects), name("large"));
    let large = noise(3 * SEGMENT_BYTES + 5);
    let mut log = store.create(&record, b"").unwrap();
    log.append_buffered(b"small").unwrap();
    log.append_buffered(&large).unwrap();
    log.flush().unwrap();
    assert!(bytes_of(&store, &record) == [b"small", &large[..]].concat());
    for found in head_of(&store, &record).levels.iter().flatten() {
        assert!(found.count <= SEGMENT_BYTES as u64);
    }
}

#[test]
fn an_imported_record_appears_whole_under_a_free_name_and_is_listed() {
    let objects = in_memory();
    let store = store(&objects);
    let bytes = noise(2 * SEGMENT_BYTES);
    let import = |text: &str| store.import(&name(text), &mut Stream::new(&bytes[..], "the source"));
    for text in ["b", "ä", "a.1"] {
        import(text).unwrap();
        assert!(bytes_of(&store, &name(text)) == bytes);
    }
    assert_eq!(import("b").unwrap_err().kind(), ErrorKind::InvalidInput);
    let names = |after: Option<&str>, limit| {
        let found = store.names(after.map(name).as_ref(), limit).unwrap();
        let names: Vec<String> = found.iter().map(ToString::to_string).collect();
        names.join(" ")
    };
    assert_eq!(names(None, 9), "a.1 b ä");
    assert_eq!(names(Some("a.1"), 1), "b");
    assert!(store.read(&name("none")).unwrap().is_none());
    let claimed = store.claim(&name("none")).map(drop).unwrap_err();
    assert_eq!(claimed.kind(), ErrorKind::InvalidInput);
}

// T-TRA-36
#[test]
fn fsck_removes_only_what_no_head_can_come_to_name() {
    let objects = in_memory();
    let (store, record) = (store(&objects), name("orphans"));
    drop(store.create(&record, &noise(OPEN_BYTES + 1)).unwrap());
    let head = head_of(&store, &record);
    let put = |writer: [u8; 16]| {
        let found = Ref {
            first: head.facts.size,
            count: 1,
            sha256: threadseal_core::digest::Digest::of(b"x").to_hex(),
            writer: encoding::hex(&writer),
        };
        let name = store.log(&record).segment_name(&found);
        objects::seal(&*objects, &name, b"x").unwrap();
        name
    };
    let (pending, orphan) = (put(head.facts.writer), put([7; 16]));
    let stranger = format!("{}/x", store.log(&record).folders()[0]);
    objects::seal(&*objects, &stranger, b"").unwrap();
    let codes = |repair| {
        let report = store.fsck(&record, repair).unwrap();
        let faults = report.faults.iter();
        let codes = faults.map(|fault| (fault.code, fault.repaired));
        codes.collect::<Vec<_>>()
    };
    assert_eq!(codes(false), [("orphan", false), ("stranger", false)]);
    assert_eq!(codes(true), [("orphan", true), ("stranger", false)]);
    assert_eq!(objects.read(&orphan, 9).unwrap(), None);
    assert!(objects.read(&pending, 9).unwrap().is_some());
    // Its writer is gone when another writer has claimed the record.
    drop(store.claim(&record).unwrap());
    assert_eq!(codes(true), [("orphan", true), ("stranger", false)]);
    assert_eq!(objects.read(&pending, 9).unwrap(), None);
    assert!(bytes_of(&store, &record) == noise(OPEN_BYTES + 1));
}

// T-TRA-32
#[test]
fn changed_missing_and_put_back_objects_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let objects: Arc<dyn Objects> = Arc::new(Folder::new(RealFs::shared(), folder.path()));
    let bench = Bench::new(&objects);
    let mut recorder = bench.create();
    say(&mut recorder, &"x".repeat(OPEN_BYTES)).unwrap();
    recorder.seal(1, Ext::default()).unwrap();
    let log = bench.store.log(&bench.name);
    let head_file = folder.path().join(log.head_name());
    let older = std::fs::read(&head_file).unwrap();
    say(&mut recorder, "newer").unwrap();
    recorder.seal(2, Ext::default()).unwrap();
    let newer = std::fs::read(&head_file).unwrap();
    assert_eq!(bench.verdict().unwrap(), Verdict::Verified);

    let segment = head_of(&bench.store, &bench.name).levels[0][0].clone();
    let segment_file = folder.path().join(log.segment_name(&segment));
    let whole = std::fs::read(&segment_file).unwrap();
    let codes = || {
        let report = bench.store.fsck(&bench.name, true).unwrap();
        assert!(!report.is_clean());
        report.faults[0].code
    };
    let mut changed = whole.clone();
    changed[OPEN_BYTES] = b'y';
    std::fs::write(&segment_file, &changed).unwrap();
    assert_eq!(bench.verdict().unwrap(), Verdict::Tampered);
    assert_eq!(codes(), "changed");
    std::fs::write(&segment_file, &whole[1..]).unwrap();
    assert!(bench.verdict().is_err());
    std::fs::remove_file(&segment_file).unwrap();
    assert!(bench.verdict().is_err());
    assert_eq!(codes(), "missing");
    std::fs::write(&segment_file, whole).unwrap();
    assert!(bench.store.fsck(&bench.name, false).unwrap().is_clean());

    for at in (0..newer.len()).step_by(97) {
        let mut changed = newer.clone();
        changed[at] ^= 0x20;
        std::fs::write(&head_file, changed).unwrap();
        assert_eq!(bench.verdict().unwrap_err().kind(), ErrorKind::Refused);
    }
    assert_eq!(codes(), "head_damaged");
    std::fs::write(&head_file, older).unwrap();
    assert_eq!(bench.verdict().unwrap(), Verdict::RolledBack);
    let error = say(&mut recorder, "on top").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("put back"), "{error}");
    let error = bench.open().map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
}

// T-TRA-32
#[test]
fn a_head_that_names_objects_outside_its_record_is_no_head() {
    let record = name("r");
    let begun = || RecordHead::bare(RecordFacts::new([1; 16]));
    let mut head = begun();
    head.facts.size = 5;
    head.levels = vec![vec![Ref {
        first: 0,
        count: 5,
        sha256: "../../secret".into(),
        writer: encoding::hex(&[1; 16]),
    }]];
    assert_eq!(RecordHead::decode(&record, &head.encode(&record)), None);
    let whole = after(&begun(), &record, b"x").0;
    let bytes = whole.encode(&record);
    assert_eq!(RecordHead::decode(&record, &bytes), Some(whole));
    assert_eq!(RecordHead::decode(&name("other"), &bytes), None);
}
