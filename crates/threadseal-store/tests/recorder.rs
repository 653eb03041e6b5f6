//! The recorder under failing disks, failing object storage, power cuts and SIGKILL.
//!
//! One suite for every store: each call of the workload fails in turn, in each way; then the
//! process dies or the power is cut. Checked at every stop:
//!
//! 1. no false alarm: the record is `verified`, `open` or has an unsigned tail;
//! 2. every promised event is in the record: the written ones after a kill, the durable ones after
//!    a power cut;
//! 3. the next writer continues; bytes that no seal covered are never accepted silently: they are
//!    moved aside, and the record names the move.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::panic,
    reason = "a test fails by panicking and says where, also in its helpers"
)]

use std::path::Path;
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_core::report::{Report, Verdict};
use threadseal_formats::transcript::Ending;
use threadseal_formats::transcript::event::{EventType, Payload};
use threadseal_formats::transcript::ext::Ext;
use threadseal_store::append::MovedTail;
use threadseal_store::atomic;
use threadseal_store::fault::{FaultFs, FaultKind, Keep, ends, fail_each_call};
use threadseal_store::heads::FileHeadStore;
use threadseal_store::objects::fault::{FaultObjects, ObjectFault};
use threadseal_store::objects::moto::Moto;
use threadseal_store::objects::{self, Folder, Objects};
use threadseal_store::recorder::Recorder;
use threadseal_store::sys::{Fs, RealFs};
use threadseal_store::testing::{CALM, Scene, child, nothing};
use threadseal_store::transcripts::{
    FileTranscriptStore, ObjectTranscriptStore, RecordName, TranscriptStore,
};

const EVENTS: u64 = 9;
const KILLS: usize = 200;
/// Bytes of an event where some of them must be sealed.
const LONG: usize = 20_000;
const WORK: &str = "/disk";

struct Bench {
    scene: Scene,
    store: Arc<dyn TranscriptStore>,
    name: RecordName,
    /// Bytes of each event.
    long: usize,
}

impl Bench {
    fn on_files(fs: Arc<dyn Fs>, folder: &Path) -> Self {
        let store = FileTranscriptStore::new(Arc::clone(&fs), folder);
        Self::new(fs, folder, Arc::new(store), 0)
    }

    fn on_objects(fs: Arc<dyn Fs>, folder: &Path, objects: Arc<dyn Objects>) -> Self {
        let store = ObjectTranscriptStore::new(objects);
        Self::new(fs, folder, Arc::new(store), LONG)
    }

    fn new(fs: Arc<dyn Fs>, folder: &Path, store: Arc<dyn TranscriptStore>, long: usize) -> Self {
        let heads = FileHeadStore::new(Arc::clone(&fs), folder.join("heads"));
        Self {
            scene: Scene::new(fs, heads),
            store,
            name: RecordName::parse("record").unwrap(),
            long,
        }
    }

    /// The writer of the record, new or opened again; and the tail that was moved aside.
    fn writer(&self) -> Result<(Recorder, Option<MovedTail>), Error> {
        if self.store.read(&self.name)?.is_none() {
            let manifest = self.scene.manifest()?;
            let made = self.scene.create_in(&*self.store, &self.name, manifest)?;
            return Ok((made, None));
        }
        let opened = self.scene.open_in(&*self.store, &self.name)?;
        Ok((opened.recorder, opened.moved))
    }

    fn report(&self) -> Option<Report> {
        let file = self.store.read(&self.name).ok()??;
        Some(self.scene.verify(&file, None).unwrap().report)
    }

    fn bytes(&self) -> Vec<u8> {
        match self.store.read(&self.name) {
            Ok(Some(file)) => file.read_whole(1 << 24).unwrap(),
            _ => Vec::new(),
        }
    }

    fn event(&self, number: u64) -> Payload {
        let rest = "x".repeat(self.long);
        let text = format!("{{\"n\":\"event {number}.\",\"rest\":\"{rest}\"}}");
        Payload::parse(text.as_bytes()).unwrap()
    }

    /// Appends events `from..=EVENTS`, syncs and seals, and ends the record.
    fn work(&self, recorder: &mut Recorder, from: u64, to: &mut Promises) -> Result<(), Error> {
        let event_type = EventType::parse("cognition_in")?;
        for number in from..=EVENTS {
            recorder.append(&event_type, &self.event(number))?;
            to.written = number;
            if number % 2 == 0 {
                recorder.sync()?;
                to.durable = number;
            }
            if number % 3 == 0 {
                recorder.seal(number, Ext::default())?;
                to.durable = number;
            }
        }
        recorder.end(Ending::Completed, &nothing(), EVENTS)?;
        Ok(())
    }

    /// Begins the record and works to its end.
    fn begin(&self, to: &mut Promises) -> Result<(), Error> {
        let (mut recorder, _) = self.writer()?;
        self.work(&mut recorder, 1, to)
    }
}

fn holds(bytes: &[u8], number: u64) -> bool {
    let needle = format!("\"event {number}.\"");
    let mut windows = bytes.windows(needle.len());
    windows.any(|window| window == needle.as_bytes())
}

#[derive(Debug, Default)]
struct Promises {
    written: u64,
    durable: u64,
}

fn assert_no_false_alarm(bench: &Bench) {
    if let Some(report) = bench.report() {
        assert!(CALM.contains(&report.verdict), "{:?}", report.findings);
    }
}

fn assert_promised(bench: &Bench, promised: u64) {
    let bytes = bench.bytes();
    for number in 1..=promised {
        let is_there = holds(&bytes, number);
        assert!(is_there, "event {number} of {promised} is lost");
    }
}

/// The next process: opens, continues, ends; all is verified and no promised event was lost.
fn go_on(bench: &Bench, promised: u64) {
    let kept = bench.bytes();
    let verdict = bench.report().map(|report| report.verdict);
    let is_verified = verdict == Some(Verdict::Verified);
    let has_ended = String::from_utf8_lossy(&kept).contains("thread_completed");
    if is_verified && has_ended && holds(&kept, EVENTS) {
        return;
    }
    let (mut recorder, moved) = bench.writer().unwrap();
    let aside = moved.map_or(Vec::new(), |moved| {
        let aside = bench.store.read_aside(&bench.name, &moved, 1 << 24);
        aside.unwrap()
    });
    let kept = bench.bytes();
    for number in 1..=promised {
        let found = holds(&kept, number) || holds(&aside, number);
        assert!(found, "event {number} of {promised} is nowhere");
    }
    assert!(aside.is_empty() || String::from_utf8_lossy(&kept).contains("tail_dropped"));
    if recorder.state().is_ended() {
        return;
    }
    let next = (1..=EVENTS).find(|number| !holds(&kept, *number));
    let (next, mut promises) = (next.unwrap_or(EVENTS + 1), Promises::default());
    bench.work(&mut recorder, next, &mut promises).unwrap();
    drop(recorder);
    assert_eq!(bench.report().unwrap().verdict, Verdict::Verified);
}

/// Begins and works; then one fault, one end, and the next process.
fn survive(
    bench: &dyn Fn(&FaultFs) -> Bench,
    call: usize,
    kind: FaultKind,
    end: Option<Keep>,
) -> bool {
    let fs = FaultFs::new();
    atomic::create_directories(&fs, Path::new(WORK), 0o700).unwrap();
    let begun = bench(&fs);
    let mut promises = Promises::default();
    fs.plan(call, kind);
    let done = begun.begin(&mut promises);
    let Some(struck) = fs.struck() else {
        done.unwrap();
        return false;
    };
    println!("{kind:?} in {struck}, call {call}, {end:?}: {promises:?}");
    fs.end(end);
    let next = bench(&fs);
    assert_no_false_alarm(&next);
    // A failed fsync may lose bytes that were only written, kill or not.
    let promised = match end {
        None if kind != FaultKind::SyncLost => promises.written,
        _ => promises.durable,
    };
    assert_promised(&next, promised);
    go_on(&next, promised);
    assert!(next.store.fsck(&next.name, true).unwrap().is_clean());
    true
}

// T-TRA-30
#[test]
fn every_fault_at_every_call_of_the_recorder_is_survived() {
    let bench = |fs: &FaultFs| Bench::on_files(fs.shared(), Path::new(WORK));
    fail_each_call(
        60,
        |call, _| ends(call),
        |call, kind, end| survive(&bench, call, kind, end),
    );
}

// T-TRA-34
#[test]
fn every_fault_of_the_disk_below_a_folder_of_objects_is_survived() {
    let bench = |fs: &FaultFs| {
        let objects = Arc::new(Folder::new(fs.shared(), "/disk/objects"));
        Bench::on_objects(fs.shared(), Path::new(WORK), objects)
    };
    // Of three calls one for each kind; an error in any of them, and then a cut, is the worst.
    let few = |call: usize, kind| {
        let number = FaultKind::ALL.iter().position(|one| *one == kind);
        let number = number.unwrap();
        match kind {
            FaultKind::Io => Some(Some(Keep::Nothing)),
            _ if call % 3 == number % 3 => Some(ends(call)[(number + call / 3) % 4]),
            _ => None,
        }
    };
    fail_each_call(200, few, |call, kind, end| survive(&bench, call, kind, end));
}

/// Each `step`-th call of the storage fails in each way; a fresh place for each.
fn fail_objects(fresh: &dyn Fn() -> Arc<dyn Objects>, step: usize) {
    let folder = Path::new(WORK);
    for fault in ObjectFault::ALL {
        for call in (0..).step_by(step) {
            let fs = FaultFs::new();
            atomic::create_directories(&fs, folder, 0o700).unwrap();
            let behind = fresh();
            let faulty = Arc::new(FaultObjects::new(Arc::clone(&behind)));
            let begun = Bench::on_objects(fs.shared(), folder, Arc::clone(&faulty) as _);
            let mut promises = Promises::default();
            faulty.plan(call, fault);
            let done = begun.begin(&mut promises);
            let what = format!("{fault:?}, call {call}: {promises:?}, {done:?}");
            let is_stopped = matches!(fault, ObjectFault::Stops | ObjectFault::StopsAfter);
            if faulty.calls() <= call {
                done.unwrap();
                assert!(call > 15, "the workload makes {call} calls only");
                break;
            }
            assert_eq!(done.is_err(), is_stopped, "{what}");
            println!("{what}");
            fs.kill_process();
            let next = Bench::on_objects(fs.shared(), folder, behind);
            assert_no_false_alarm(&next);
            // Acknowledged events are durable.
            assert_promised(&next, promises.written);
            go_on(&next, promises.written);
            assert!(next.store.fsck(&next.name, true).unwrap().is_clean());
            let again = next.store.fsck(&next.name, false).unwrap();
            assert_eq!(again.faults, [], "{what}");
        }
    }
}

// T-TRA-34
#[test]
fn every_fault_at_every_call_of_object_storage_is_survived() {
    let fresh = || Arc::new(Folder::new(FaultFs::new().shared(), "/objects")) as _;
    fail_objects(&fresh, 1);
}

// T-TRA-34
#[test]
fn faults_at_calls_of_a_server_of_s3_are_survived() {
    let Some(moto) = Moto::shared() else { return };
    let fresh = || objects::open(&moto.fresh(), &moto.settings()).unwrap();
    fail_objects(&fresh, 4);
}

fn record_until_killed(bench: &Bench) -> ! {
    let (mut recorder, _) = bench.writer().unwrap();
    let event_type = EventType::parse("cognition_in").unwrap();
    let first = highest(&bench.bytes()) + 1;
    for number in first.. {
        recorder.append(&event_type, &bench.event(number)).unwrap();
        child::answer(&format!("written {number}"));
        if number % 5 == 0 {
            recorder.seal(number, Ext::default()).unwrap();
        }
    }
    unreachable!("the parent kills this process first")
}

/// The highest event number in the record or beside it.
fn highest(bytes: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(bytes);
    let numbers = text
        .split("\"event ")
        .skip(1)
        .filter_map(|rest| rest.split('.').next()?.parse().ok());
    numbers.max().unwrap_or(0)
}

/// Kills recorders in `test`, a process each; `forget` removes a record that has become long.
fn kill_recorders(test: &str, kills: usize, bench: fn(&Path) -> Bench, forget: fn(&Path)) {
    if let Some(folder) = child::role() {
        record_until_killed(&bench(Path::new(&folder)));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let parse = |line: &str| line.strip_prefix("written ")?.parse().ok();
    let check = |promised| {
        let bench = bench(path);
        assert_no_false_alarm(&bench);
        let Some(report) = bench.report() else {
            assert_eq!(promised, None);
            return;
        };
        if let Some(promised) = promised {
            assert!(holds(&bench.bytes(), promised), "event {promised} is lost");
        }
        drop(bench.writer().unwrap());
        assert_ne!(bench.report().unwrap().verdict.exit_code(), 1);
        if report.stats.bytes > 200_000 {
            std::fs::remove_dir_all(path.join("heads")).unwrap();
            forget(path);
        }
    };
    let busy = child::kill_many(test, path.to_str().unwrap(), kills, 20_000, parse, check);
    assert!(busy > kills / 2, "{busy} of {kills} recorders were busy");
}

// T-TRA-30
#[test]
fn a_recorder_killed_at_any_point_left_all_it_promised_and_no_false_alarm() {
    kill_recorders(
        "a_recorder_killed_at_any_point_left_all_it_promised_and_no_false_alarm",
        KILLS,
        |folder| Bench::on_files(RealFs::shared(), folder),
        |folder| std::fs::remove_file(folder.join("record.jsonl")).unwrap(),
    );
}

// T-TRA-34
#[test]
fn a_recorder_in_a_folder_of_objects_killed_at_any_point_left_all_it_promised() {
    kill_recorders(
        "a_recorder_in_a_folder_of_objects_killed_at_any_point_left_all_it_promised",
        KILLS / 2,
        |folder| {
            let objects = Folder::new(RealFs::shared(), folder.join("objects"));
            Bench::on_objects(RealFs::shared(), folder, Arc::new(objects))
        },
        |folder| std::fs::remove_dir_all(folder.join("objects")).unwrap(),
    );
}
