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

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer};
use threadseal_core::record::ThreadId;
use threadseal_core::report::{Report, Verdict};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};
use threadseal_formats::transcript::event::{EventType, Payload};
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_formats::transcript::{Ending, ScanOptions, VerifyOptions};
use threadseal_store::append::MovedTail;
use threadseal_store::clock::SystemClock;
use threadseal_store::fault::{FaultFs, FaultKind, Keep};
use threadseal_store::heads::FileHeadStore;
use threadseal_store::host::Host;
use threadseal_store::objects::fault::{FaultObjects, ObjectFault};
use threadseal_store::objects::moto::Moto;
use threadseal_store::objects::{self, Folder, Objects};
use threadseal_store::random::SeededRandom;
use threadseal_store::recorder::{Keys, Recorder, TailPolicy};
use threadseal_store::sys::{Fs, RealFs};
use threadseal_store::transcripts::{
    FileTranscriptStore, ObjectTranscriptStore, RecordName, TranscriptStore,
};
use threadseal_store::{atomic, examine};

const EVENTS: u64 = 9;
const KILLS: usize = 200;
/// Bytes of an event where some of them must be sealed.
const LONG: usize = 20_000;
const ROLE: &str = "THREADSEAL_RECORDER_TEST_CHILD";

struct Bench {
    host: Host,
    keys: Keys,
    trust: Trust,
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
        Self::new(
            fs,
            folder,
            Arc::new(ObjectTranscriptStore::new(objects)),
            LONG,
        )
    }

    fn new(fs: Arc<dyn Fs>, folder: &Path, store: Arc<dyn TranscriptStore>, long: usize) -> Self {
        let signer =
            |seed, usage| Arc::new(LocalSigner::new(PrivateKey::from_seed([seed; 32]), usage));
        let native = signer(1, KeyUsage::Native);
        let mut trusted = TrustStore::new();
        let name = TrustName::parse("self").unwrap();
        trusted
            .add(TrustedKey::new(
                name,
                *native.public_key(),
                [KeyUsage::Native],
            ))
            .unwrap();
        let heads = Arc::new(FileHeadStore::new(fs.clone(), folder.join("heads")));
        let random = Arc::new(threadseal_store::random::SystemRandom);
        Self {
            host: Host {
                fs,
                clock: Arc::new(SystemClock),
                random,
                heads,
            },
            keys: Keys {
                native,
                rye: signer(2, KeyUsage::Rye),
                epochs: None,
            },
            trust: Trust::new(trusted),
            store,
            name: RecordName::parse("record").unwrap(),
            long,
        }
    }

    fn options(&self) -> VerifyOptions<'_> {
        let now = Timestamp::from_micros(1_900_000_000_000_000).unwrap();
        VerifyOptions {
            trust: &self.trust,
            now,
            held_since: None,
            thread: None,
        }
    }

    /// The writer of the record, new or opened again; and the tail that was moved aside.
    fn writer(&self) -> Result<(Recorder, Option<MovedTail>), Error> {
        let (host, keys, store) = (self.host.clone(), self.keys.clone(), &*self.store);
        if store.read(&self.name)?.is_none() {
            let (native, rye) = (*self.keys.native.public_key(), *self.keys.rye.public_key());
            let manifest = Manifest::new(self.host.new_record()?, native, rye);
            let thread = ThreadId::parse("t/1")?;
            let made = Recorder::create_in(host, store, &self.name, thread, manifest, keys)?;
            return Ok((made, None));
        }
        let (options, tail) = (self.options(), TailPolicy::SetAside);
        let opened = Recorder::open_in(host, store, &self.name, keys, &options, tail)?;
        Ok((opened.recorder, opened.moved))
    }

    fn report(&self) -> Option<Report> {
        let file = self.store.read(&self.name).ok()??;
        let first = examine::first_line(&file).unwrap();
        let record = first.as_deref().and_then(examine::native_record);
        let known = examine::known(Some(&*self.host.heads), record.as_ref(), None, false).unwrap();
        let scan = ScanOptions {
            expect: known.expect,
            ..ScanOptions::default()
        };
        Some(
            examine::native(&file, &scan, &self.options(), &|_| {})
                .unwrap()
                .report,
        )
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
    fn work(
        &self,
        recorder: &mut Recorder,
        from: u64,
        promises: &mut Promises,
    ) -> Result<(), Error> {
        let event_type = EventType::parse("cognition_in")?;
        for number in from..=EVENTS {
            recorder.append(&event_type, &self.event(number))?;
            promises.written = number;
            if number % 2 == 0 {
                recorder.sync()?;
                promises.durable = number;
            }
            if number % 3 == 0 {
                recorder.seal(number, Ext::default())?;
                promises.durable = number;
            }
        }
        recorder.end(Ending::Completed, &Payload::parse(b"{}")?, EVENTS)?;
        Ok(())
    }
}

fn holds(bytes: &[u8], number: u64) -> bool {
    let needle = format!("\"event {number}.\"");
    bytes
        .windows(needle.len())
        .any(|window| window == needle.as_bytes())
}

#[derive(Debug, Default)]
struct Promises {
    written: u64,
    durable: u64,
}

fn assert_no_false_alarm(bench: &Bench) {
    if let Some(report) = bench.report() {
        let calm = [Verdict::Verified, Verdict::Open, Verdict::UnsignedTail];
        assert!(calm.contains(&report.verdict), "{:?}", report.findings);
    }
}

fn assert_promised(bench: &Bench, promised: u64) {
    let bytes = bench.bytes();
    for number in 1..=promised {
        assert!(
            holds(&bytes, number),
            "event {number} of {promised} is lost"
        );
    }
}

/// The next process: opens, continues, ends; all is verified and no promised event was lost.
fn go_on(bench: &Bench, promised: u64) {
    let kept = bench.bytes();
    let is_verified = bench
        .report()
        .is_some_and(|report| report.verdict == Verdict::Verified);
    let has_ended = String::from_utf8_lossy(&kept).contains("thread_completed");
    if is_verified && has_ended && holds(&kept, EVENTS) {
        return;
    }
    let (mut recorder, moved) = bench.writer().unwrap();
    let aside = moved.map_or(Vec::new(), |moved| {
        let read = bench.store.read_aside(&bench.name, &moved, 1 << 24);
        read.unwrap()
    });
    let kept = bench.bytes();
    for number in 1..=promised {
        let found = holds(&kept, number) || holds(&aside, number);
        assert!(
            found,
            "event {number} of {promised} is neither in the record nor beside it"
        );
    }
    assert!(aside.is_empty() || String::from_utf8_lossy(&kept).contains("tail_dropped"));
    let next = (1..=EVENTS)
        .find(|number| !holds(&kept, *number))
        .unwrap_or(EVENTS + 1);
    if recorder.state().is_ended() {
        return;
    }
    bench
        .work(&mut recorder, next, &mut Promises::default())
        .unwrap();
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
    let done = begun
        .writer()
        .and_then(|(mut recorder, _)| begun.work(&mut recorder, 1, &mut promises));
    let Some(struck) = fs.struck() else {
        done.unwrap();
        return false;
    };
    println!("{kind:?} in {struck}, call {call}, {end:?}: {promises:?}");
    let promised = match end {
        None => {
            fs.kill_process();
            fs.heal();
            promises.written
        }
        Some(keep) => {
            fs.cut_power(keep);
            promises.durable
        }
    };
    let next = bench(&fs);
    assert_no_false_alarm(&next);
    // A failed fsync may lose bytes that were only written, kill or not.
    let promised = if kind == FaultKind::SyncLost {
        promises.durable
    } else {
        promised
    };
    assert_promised(&next, promised);
    go_on(&next, promised);
    assert!(next.store.fsck(&next.name, true).unwrap().is_clean());
    true
}

const WORK: &str = "/disk";

// T-TRA-30
#[test]
fn every_fault_at_every_call_of_the_recorder_is_survived() {
    let mut runs = 0;
    for kind in FaultKind::ALL {
        let mut call = 0;
        'calls: loop {
            let ends = [
                None,
                Some(Keep::Nothing),
                Some(Keep::Everything),
                Some(Keep::ByLot(call as u64)),
            ];
            for end in ends {
                let bench = |fs: &FaultFs| Bench::on_files(fs.shared(), Path::new(WORK));
                if !survive(&bench, call, kind, end) {
                    break 'calls;
                }
                runs += 1;
            }
            call += 1;
        }
        assert!(call > 60, "the workload makes {call} calls only");
    }
    println!("{runs} runs");
}

// T-TRA-34
#[test]
fn every_fault_of_the_disk_below_a_folder_of_objects_is_survived() {
    let bench = |fs: &FaultFs| {
        let objects = Arc::new(Folder::new(fs.shared(), "/disk/objects"));
        Bench::on_objects(fs.shared(), Path::new(WORK), objects)
    };
    let mut runs = 0;
    for (number, kind) in FaultKind::ALL.into_iter().enumerate() {
        let mut call = 0;
        loop {
            let end = match (number + call / 3) % 4 {
                0 => None,
                1 => Some(Keep::Nothing),
                2 => Some(Keep::Everything),
                _ => Some(Keep::ByLot(call as u64)),
            };
            // Of three calls one for each kind; an error in any of them, and then a cut, is the
            // worst.
            let is_worst = kind == FaultKind::Io;
            if is_worst || call % 3 == number % 3 {
                let end = if is_worst { Some(Keep::Nothing) } else { end };
                if !survive(&bench, call, kind, end) {
                    break;
                }
                runs += 1;
            }
            call += 1;
        }
        assert!(call > 200, "the workload makes {call} calls only");
    }
    println!("{runs} runs");
}

/// Each `step`-th call of the storage fails in each way; a fresh place for each.
fn fail_objects(fresh: &dyn Fn() -> Arc<dyn Objects>, step: usize) {
    let (folder, mut runs) = (Path::new(WORK), 0);
    for fault in ObjectFault::ALL {
        for call in (0..).step_by(step) {
            let fs = FaultFs::new();
            atomic::create_directories(&fs, folder, 0o700).unwrap();
            let behind = fresh();
            let faulty = Arc::new(FaultObjects::new(Arc::clone(&behind)));
            let begun = Bench::on_objects(fs.shared(), folder, Arc::clone(&faulty) as _);
            let mut promises = Promises::default();
            faulty.plan(call, fault);
            let done = begun
                .writer()
                .and_then(|(mut recorder, _)| begun.work(&mut recorder, 1, &mut promises));
            let is_stopped = matches!(fault, ObjectFault::Stops | ObjectFault::StopsAfter);
            if faulty.calls() <= call {
                done.unwrap();
                assert!(call > 15, "the workload makes {call} calls only");
                break;
            }
            assert_eq!(
                done.is_err(),
                is_stopped,
                "{fault:?}, call {call}: {done:?}"
            );
            runs += 1;
            println!("{fault:?}, call {call}: {promises:?}");
            fs.kill_process();
            let next = Bench::on_objects(fs.shared(), folder, behind);
            assert_no_false_alarm(&next);
            // Acknowledged events are durable.
            assert_promised(&next, promises.written);
            go_on(&next, promises.written);
            assert!(next.store.fsck(&next.name, true).unwrap().is_clean());
            let again = next.store.fsck(&next.name, false).unwrap();
            assert_eq!(again.faults, [], "{fault:?}, call {call}");
        }
    }
    println!("{runs} runs");
}

// T-TRA-34
#[test]
fn every_fault_at_every_call_of_object_storage_is_survived() {
    fail_objects(
        &|| Arc::new(Folder::new(FaultFs::new().shared(), "/objects")),
        1,
    );
}

// T-TRA-34
#[test]
fn faults_at_calls_of_a_server_of_s3_are_survived() {
    let Some(moto) = Moto::shared() else { return };
    fail_objects(
        &|| objects::open(&moto.fresh(), &moto.settings()).unwrap(),
        4,
    );
}

#[expect(
    clippy::disallowed_methods,
    reason = "how a test program learns that it is the child"
)]
fn folder_if_child() -> Option<std::ffi::OsString> {
    std::env::var_os(ROLE)
}

fn record_until_killed(bench: &Bench) -> ! {
    let (mut recorder, _) = bench.writer().unwrap();
    let event_type = EventType::parse("cognition_in").unwrap();
    let mut out = std::io::stdout().lock();
    let first = highest(&bench.bytes()) + 1;
    for number in first.. {
        recorder.append(&event_type, &bench.event(number)).unwrap();
        writeln!(out, "\nwritten {number}").unwrap();
        out.flush().unwrap();
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
    if let Some(folder) = folder_if_child() {
        record_until_killed(&bench(Path::new(&folder)));
    }
    let lots = SeededRandom::new(11);
    let folder = tempfile::tempdir().unwrap();
    let beside = tempfile::tempdir().unwrap();
    let said = beside.path().join("stderr");
    let (mut tails, mut busy) = (0, 0);
    for kill in 0..kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .env(ROLE, folder.path())
            .stdout(Stdio::piped())
            .stderr(File::create(&said).unwrap())
            .spawn()
            .unwrap();
        let out = child.stdout.take().unwrap();
        let (to_parent, first_answer) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(Result::ok);
            lines
                .filter_map(|line| line.strip_prefix("written ")?.parse::<u64>().ok())
                .inspect(|_| to_parent.send(()).unwrap_or_default())
                .last()
        });
        // One in four is killed at any moment of its life, the others while they write. However
        // slow the machine, most kills must find a busy recorder.
        if kill % 4 != 0 {
            first_answer
                .recv_timeout(Duration::from_secs(60))
                .unwrap_or_else(|error| {
                    let said = std::fs::read_to_string(&said).unwrap_or_default();
                    panic!("the recorder answered nothing: {error}\n{said}")
                });
        }
        std::thread::sleep(Duration::from_micros(lots.below(20_000) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        let promised = reader.join().unwrap();
        let bench = bench(folder.path());
        assert_no_false_alarm(&bench);
        let Some(report) = bench.report() else {
            assert_eq!(promised, None);
            continue;
        };
        tails += usize::from(report.verdict == Verdict::UnsignedTail);
        if let Some(promised) = promised {
            busy += 1;
            assert!(holds(&bench.bytes(), promised), "event {promised} is lost");
        }
        drop(bench.writer().unwrap());
        assert_ne!(bench.report().unwrap().verdict.exit_code(), 1);
        if report.stats.bytes > 200_000 {
            std::fs::remove_dir_all(folder.path().join("heads")).unwrap();
            forget(folder.path());
        }
    }
    println!("{busy} of {kills} recorders were busy, {tails} left a tail");
    assert!(
        busy > kills / 2,
        "only {busy} of {kills} recorders were busy"
    );
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
