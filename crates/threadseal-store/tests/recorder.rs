//! The recorder under failing disks, power cuts and SIGKILL.
//!
//! Each call of the workload fails in turn, in each way; then the process dies or the power goes.
//! Checked at every stop:
//!
//! 1. no false alarm: the record is `verified`, `open` or has an unsigned tail;
//! 2. every event that was promised is in the record: the written ones after a kill, the durable
//!    ones after a power cut;
//! 3. the next writer goes on; nothing that no seal covered is taken over silently: it is in the
//!    file that it was moved to, and the record says so.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::panic,
    reason = "a test fails by panicking and says where, also in its helpers"
)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use threadseal::error::Error;
use threadseal::key::{KeyUsage, LocalSigner, PrivateKey, Signer};
use threadseal::record::ThreadId;
use threadseal::report::{Report, Verdict};
use threadseal::time::Timestamp;
use threadseal::transcript::event::{EventType, Payload};
use threadseal::transcript::ext::Ext;
use threadseal::transcript::manifest::Manifest;
use threadseal::transcript::{Ending, ScanOptions, VerifyOptions};
use threadseal::trust::{Trust, TrustName, TrustStore, TrustedKey};
use threadseal_store::clock::SystemClock;
use threadseal_store::fault::{FaultFs, FaultKind, Keep};
use threadseal_store::heads::FileHeadStore;
use threadseal_store::host::Host;
use threadseal_store::random::SeededRandom;
use threadseal_store::read::open_regular;
use threadseal_store::recorder::{Keys, Recorder, TailPolicy};
use threadseal_store::sys::{Fs, RealFs};
use threadseal_store::{atomic, examine};

const EVENTS: u64 = 9;
const KILLS: usize = 200;
const ROLE: &str = "THREADSEAL_RECORDER_TEST_CHILD";

struct Bench {
    host: Host,
    keys: Keys,
    trust: Trust,
    path: std::path::PathBuf,
}

impl Bench {
    fn new(fs: Arc<dyn Fs>, folder: &Path) -> Self {
        let signer =
            |seed, usage| Arc::new(LocalSigner::new(PrivateKey::from_seed([seed; 32]), usage));
        let native = signer(1, KeyUsage::Native);
        let mut store = TrustStore::new();
        let name = TrustName::parse("self").unwrap();
        store
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
            },
            trust: Trust::new(store),
            path: folder.join("record.jsonl"),
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

    /// The writer of the record, new or opened again; and what was moved aside.
    fn writer(&self) -> Result<(Recorder, Option<std::path::PathBuf>), Error> {
        if self.host.fs.metadata(&self.path).is_err() {
            let (native, rye) = (*self.keys.native.public_key(), *self.keys.rye.public_key());
            let manifest = Manifest::new(self.host.new_record()?, native, rye);
            let thread = ThreadId::parse("t/1")?;
            let keys = self.keys.clone();
            let host = self.host.clone();
            return Ok((
                Recorder::create(host, &self.path, thread, manifest, keys)?,
                None,
            ));
        }
        let (host, keys) = (self.host.clone(), self.keys.clone());
        let opened = Recorder::open(
            host,
            &self.path,
            keys,
            &self.options(),
            TailPolicy::SetAside,
        )?;
        Ok((opened.recorder, opened.moved.map(|moved| moved.path)))
    }

    fn report(&self) -> Option<Report> {
        let file = open_regular(&*self.host.fs, &self.path).ok()?;
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

    fn bytes(&self, path: &Path) -> Vec<u8> {
        match open_regular(&*self.host.fs, path) {
            Ok(file) => file.read_whole(1 << 24).unwrap(),
            Err(_) => Vec::new(),
        }
    }
}

fn event(number: u64) -> Payload {
    Payload::parse(format!("{{\"n\":\"event {number}.\"}}").as_bytes()).unwrap()
}

fn holds(bytes: &[u8], number: u64) -> bool {
    let needle = format!("\"event {number}.\"");
    bytes
        .windows(needle.len())
        .any(|window| window == needle.as_bytes())
}

/// What the recorder promised.
#[derive(Debug, Default)]
struct Promises {
    written: u64,
    durable: u64,
}

/// Appends events `from..=EVENTS`, syncs and seals, and ends the record.
fn work(recorder: &mut Recorder, from: u64, promises: &mut Promises) -> Result<(), Error> {
    let event_type = EventType::parse("cognition_in")?;
    for number in from..=EVENTS {
        recorder.append(&event_type, &event(number))?;
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

fn assert_no_false_alarm(bench: &Bench) {
    if let Some(report) = bench.report() {
        let calm = [Verdict::Verified, Verdict::Open, Verdict::UnsignedTail];
        assert!(calm.contains(&report.verdict), "{:?}", report.findings);
    }
}

fn assert_promised(bench: &Bench, promised: u64) {
    let bytes = bench.bytes(&bench.path);
    for number in 1..=promised {
        assert!(
            holds(&bytes, number),
            "event {number} of {promised} is lost"
        );
    }
}

/// The next process: opens, goes on, ends; all is verified and nothing was lost on the way.
fn go_on(bench: &Bench, promised: u64) {
    let ended = bench.report().is_some_and(|report| {
        report.verdict == Verdict::Verified && holds(&bench.bytes(&bench.path), EVENTS) && {
            let text = String::from_utf8(bench.bytes(&bench.path)).unwrap();
            text.contains("thread_completed")
        }
    });
    if ended {
        return;
    }
    let (mut recorder, moved) = bench.writer().unwrap();
    let aside = moved.map_or(Vec::new(), |path| bench.bytes(&path));
    let kept = bench.bytes(&bench.path);
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
    work(&mut recorder, next, &mut Promises::default()).unwrap();
    drop(recorder);
    assert_eq!(bench.report().unwrap().verdict, Verdict::Verified);
}

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
                let fs = FaultFs::new();
                let folder = Path::new("/work");
                atomic::create_directories(&fs, folder, 0o700).unwrap();
                let bench = Bench::new(fs.shared(), folder);
                let mut promises = Promises::default();
                fs.plan(call, kind);
                let done = bench
                    .writer()
                    .and_then(|(mut recorder, _)| work(&mut recorder, 1, &mut promises));
                let Some(struck) = fs.struck() else {
                    done.unwrap();
                    break 'calls;
                };
                runs += 1;
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
                let bench = Bench::new(fs.shared(), folder);
                assert_no_false_alarm(&bench);
                // A failed fsync may lose bytes that were only written, kill or not.
                let promised = if kind == FaultKind::SyncLost {
                    promises.durable
                } else {
                    promised
                };
                assert_promised(&bench, promised);
                go_on(&bench, promised);
            }
            call += 1;
        }
        assert!(call > 60, "the workload makes {call} calls only");
    }
    println!("{runs} runs");
}

#[expect(
    clippy::disallowed_methods,
    reason = "how a test program learns that it is the child"
)]
fn folder_if_child() -> Option<std::ffi::OsString> {
    std::env::var_os(ROLE)
}

fn record_until_killed(folder: &Path) -> ! {
    let bench = Bench::new(RealFs::shared(), folder);
    let (mut recorder, _) = bench.writer().unwrap();
    let event_type = EventType::parse("cognition_in").unwrap();
    let mut out = std::io::stdout().lock();
    let first = highest(&bench.bytes(&bench.path)) + 1;
    for number in first.. {
        recorder.append(&event_type, &event(number)).unwrap();
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

#[test]
fn a_recorder_killed_at_any_point_left_all_it_promised_and_no_false_alarm() {
    if let Some(folder) = folder_if_child() {
        record_until_killed(Path::new(&folder));
    }
    let lots = SeededRandom::new(11);
    let folder = tempfile::tempdir().unwrap();
    let (mut tails, mut busy) = (0, 0);
    for kill in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["a_recorder_killed_at_any_point_left_all_it_promised_and_no_false_alarm"])
            .args(["--exact", "--nocapture", "--test-threads=1"])
            .env(ROLE, folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
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
        // One in four is killed at any moment of its life, the others while they write: however
        // slow the machine, most kills must find a busy recorder.
        if kill % 4 != 0 {
            first_answer.recv_timeout(Duration::from_secs(60)).unwrap();
        }
        std::thread::sleep(Duration::from_micros(lots.below(20_000) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        let promised = reader.join().unwrap();
        let bench = Bench::new(RealFs::shared(), folder.path());
        assert_no_false_alarm(&bench);
        let Some(report) = bench.report() else {
            assert_eq!(promised, None);
            continue;
        };
        tails += usize::from(report.verdict == Verdict::UnsignedTail);
        if let Some(promised) = promised {
            busy += 1;
            assert!(
                holds(&bench.bytes(&bench.path), promised),
                "event {promised} is lost"
            );
        }
        drop(bench.writer().unwrap());
        assert_ne!(bench.report().unwrap().verdict.exit_code(), 1);
        if report.stats.bytes > 200_000 {
            std::fs::remove_dir_all(folder.path().join("heads")).unwrap();
            std::fs::remove_file(&bench.path).unwrap();
        }
    }
    println!("{busy} of {KILLS} recorders were busy, {tails} left a tail");
    assert!(
        busy > KILLS / 2,
        "only {busy} of {KILLS} recorders were busy"
    );
}
