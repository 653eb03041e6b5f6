//! Redaction on a disk that fails at every call: nothing else is lost, and no file holds a dropped
//! body.

use crate::bodies;
use crate::clock::SystemClock;
use crate::examine;
use crate::fault::{FaultFs, FaultKind, Keep};
use crate::heads::FileHeadStore;
use crate::host::Host;
use crate::random::SystemRandom;
use crate::read::open_regular;
use crate::recorder::{Keys, Opened, Recorder, TailPolicy};
use crate::sys::{FileKind, Fs};
use crate::{atomic, transcripts};
use std::path::Path;
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer};
use threadseal_core::record::{ExpectedHead, Head, ThreadId};
use threadseal_core::report::{Report, Verdict};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};
use threadseal_formats::transcript::bodies::commitments;
use threadseal_formats::transcript::event::{EventType, Payload};
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::lines::VerifiedLines;
use threadseal_formats::transcript::manifest::{Bodies, Manifest};
use threadseal_formats::transcript::{Ending, Outcome, ScanOptions, VerifyOptions};

const WORK: &str = "/disk";
const RECORD: &str = "/disk/transcript.jsonl";
const SECRET: &str = "the number is 4711";
const KEPT: &str = "the weather is fine";

struct Bench {
    host: Host,
    keys: Keys,
    trust: Trust,
}

impl Bench {
    fn new(fs: &FaultFs) -> Self {
        let key =
            |seed, usage| Arc::new(LocalSigner::new(PrivateKey::from_seed([seed; 32]), usage));
        let native = key(1, KeyUsage::Native);
        let mut store = TrustStore::new();
        let name = TrustName::parse("self").unwrap();
        let usages = [KeyUsage::Native];
        store
            .add(TrustedKey::new(name, *native.public_key(), usages))
            .unwrap();
        let heads = FileHeadStore::new(fs.shared(), Path::new(WORK).join("heads"));
        Self {
            host: Host {
                fs: fs.shared(),
                clock: Arc::new(SystemClock),
                random: Arc::new(SystemRandom),
                heads: Arc::new(heads),
            },
            keys: Keys {
                native,
                rye: key(2, KeyUsage::Rye),
                epochs: None,
            },
            trust: Trust::new(store),
        }
    }

    fn options(&self) -> VerifyOptions<'_> {
        VerifyOptions {
            trust: &self.trust,
            now: Timestamp::from_micros(1_900_000_000_000_000).unwrap(),
            held_since: None,
            thread: None,
        }
    }

    fn manifest(&self) -> Manifest {
        let (native, rye) = (*self.keys.native.public_key(), *self.keys.rye.public_key());
        Manifest {
            bodies: Bodies::Detached,
            ..Manifest::new(self.host.new_record().unwrap(), native, rye)
        }
    }

    /// A record with a secret and something else, ended.
    fn write(&self) -> Result<Head, Error> {
        let thread = ThreadId::parse("t/1")?;
        let (host, keys) = (self.host.clone(), self.keys.clone());
        let mut recorder =
            Recorder::create(host, Path::new(RECORD), thread, self.manifest(), keys)?;
        for (event_type, text) in [("cognition_in", SECRET), ("cognition_out", KEPT)] {
            let payload = Payload::parse(format!("{{\"text\":\"{text}\"}}").as_bytes())?;
            recorder.append(&EventType::parse(event_type)?, &payload)?;
        }
        recorder.seal(1, Ext::default())?;
        recorder.end(Ending::Completed, &Payload::parse(b"{}")?, 1)
    }

    /// An open record with a secret under a seal and `unsealed` after it.
    fn write_open(&self, unsealed: &str) -> Result<(), Error> {
        let thread = ThreadId::parse("t/1")?;
        let (host, keys) = (self.host.clone(), self.keys.clone());
        let mut recorder =
            Recorder::create(host, Path::new(RECORD), thread, self.manifest(), keys)?;
        for text in [SECRET, unsealed] {
            let payload = Payload::parse(format!("{{\"text\":\"{text}\"}}").as_bytes())?;
            recorder.append(&EventType::parse("cognition_in")?, &payload)?;
            if text == SECRET {
                recorder.seal(1, Ext::default())?;
            }
        }
        recorder.sync()
    }

    fn open(&self) -> Result<Opened, Error> {
        self.open_with(TailPolicy::SetAside)
    }

    fn open_with(&self, tail: TailPolicy) -> Result<Opened, Error> {
        let (host, keys) = (self.host.clone(), self.keys.clone());
        Recorder::open(host, Path::new(RECORD), keys, &self.options(), tail)
    }

    fn redact(&self, first: Digest) -> Result<Head, Error> {
        let mut recorder = self.open()?.recorder;
        recorder.redact(vec![first], "Ada".into(), "asked to".into())
    }

    fn commitment(&self, at: usize) -> Digest {
        commitments(&self.bytes(RECORD)).unwrap()[at].digest
    }

    fn bytes(&self, path: &str) -> Vec<u8> {
        let file = open_regular(&*self.host.fs, Path::new(path)).unwrap();
        file.read_whole(1 << 24).unwrap()
    }

    fn outcome(&self, expected: Option<Head>) -> Outcome {
        let file = open_regular(&*self.host.fs, Path::new(RECORD)).unwrap();
        let first = examine::first_line(&file).unwrap().unwrap();
        let record = examine::native_record(&first);
        let expected = expected.map(ExpectedHead::Head);
        let heads = Some(&*self.host.heads);
        let known = examine::known(heads, record.as_ref(), expected, false).unwrap();
        let scan = ScanOptions {
            expect: known.expect,
            bodies: bodies::beside(&*self.host.fs, &file, &first).unwrap(),
            ..ScanOptions::default()
        };
        examine::native(&file, &scan, &self.options(), &|_| {}).unwrap()
    }

    fn report(&self) -> Report {
        self.outcome(None).report
    }

    /// The contents that a reader of the verified record gets.
    fn read(&self) -> String {
        let verified = self.outcome(None).verified.unwrap();
        let bytes = self.bytes(RECORD);
        let first = bytes.split(|byte| *byte == b'\n').next().unwrap();
        let fs = &*self.host.fs;
        let text = bodies::text_beside(fs, Path::new(RECORD), first, 1 << 20).unwrap();
        let lines = VerifiedLines::whole(&verified, &bytes, &text).unwrap();
        let shown: Vec<u8> = lines.iter().flat_map(|l| l.bytes.into_owned()).collect();
        String::from_utf8(shown).unwrap()
    }
}

/// Every file on the disk that holds `needle`.
fn holding(fs: &FaultFs, folder: &Path, needle: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for name in fs.read_dir(folder).unwrap() {
        let path = folder.join(name);
        if fs.metadata(&path).unwrap().kind == FileKind::Directory {
            found.extend(holding(fs, &path, needle));
        } else if fs
            .bytes_of(&path)
            .unwrap()
            .windows(needle.len())
            .any(|window| window == needle)
        {
            found.push(path.display().to_string());
        }
    }
    found
}

/// The salt of the first body.
fn salt_of(bodies: &[u8]) -> Vec<u8> {
    let line = bodies.split(|byte| *byte == b'\n').nth(1).unwrap();
    let text = std::str::from_utf8(line).unwrap();
    let (_, rest) = text.split_once("\"salt\":\"").unwrap();
    rest.as_bytes()[..64].to_vec()
}

fn on_disk() -> (FaultFs, Bench) {
    let fs = FaultFs::new();
    atomic::create_directories(&fs, Path::new(WORK), 0o700).unwrap();
    let bench = Bench::new(&fs);
    (fs, bench)
}

const BODIES: &str = "/disk/transcript.bodies";

// T-RED-07
#[test]
fn a_redacted_body_and_its_salt_are_in_no_file_and_every_older_seal_holds() {
    let (fs, bench) = on_disk();
    let older = bench.write().unwrap();
    assert_eq!(bench.report().verdict, Verdict::Verified);
    assert!(bench.read().contains(SECRET));
    assert!(holding(&fs, Path::new(WORK), SECRET.as_bytes()) == [BODIES]);
    let salt = salt_of(&bench.bytes(BODIES));
    let before = bench.bytes(RECORD);
    bench.redact(bench.commitment(0)).unwrap();
    for gone in [SECRET.as_bytes(), &salt] {
        assert!(holding(&fs, Path::new(WORK), gone).is_empty());
    }
    assert!(bench.bytes(RECORD).starts_with(&before));
    let outcome = bench.outcome(Some(older));
    assert_eq!(outcome.report.verdict, Verdict::Verified);
    let shown = bench.read();
    assert!(
        shown.contains("[redacted by Ada at ") && shown.contains(KEPT),
        "{shown}"
    );
    // It continues from there as any ended record does: with another redaction.
    let second = bench.commitment(1);
    let mut recorder = bench.open().unwrap().recorder;
    recorder
        .redact(vec![second], "Ada".into(), "this too".into())
        .unwrap();
    drop(recorder);
    assert!(holding(&fs, Path::new(WORK), KEPT.as_bytes()).is_empty());
    assert_eq!(bench.report().verdict, Verdict::Verified);
}

// T-RED-01 T-RED-06
#[test]
fn whoever_drops_a_body_without_saying_so_is_found_out() {
    let (fs, bench) = on_disk();
    bench.write().unwrap();
    let whole = bench.bytes(BODIES);
    fs.unlink(Path::new(BODIES)).unwrap();
    assert_eq!(bench.report().verdict, Verdict::Tampered);
    let refused = bench.open().map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    fs.heal();
    let text = String::from_utf8(whole.clone())
        .unwrap()
        .replace("4711", "4712");
    atomic::replace(
        &fs,
        Path::new(BODIES),
        text.as_bytes(),
        atomic::Mode::Set(0o600),
    )
    .unwrap();
    let report = bench.report();
    assert_eq!(report.verdict, Verdict::Tampered);
    assert!(
        report
            .findings
            .iter()
            .any(|found| found.code == "body_changed")
    );
    // A dropped body that was put back is shown to no reader, and dropped again.
    atomic::replace(&fs, Path::new(BODIES), &whole, atomic::Mode::Set(0o600)).unwrap();
    bench.redact(bench.commitment(0)).unwrap();
    atomic::replace(&fs, Path::new(BODIES), &whole, atomic::Mode::Set(0o600)).unwrap();
    let report = bench.report();
    assert_eq!(report.verdict, Verdict::Verified);
    assert!(
        report
            .findings
            .iter()
            .any(|found| found.code == "redaction_unfinished")
    );
    assert!(!bench.read().contains(SECRET));
    drop(bench.open().unwrap());
    assert!(holding(&fs, Path::new(WORK), SECRET.as_bytes()).is_empty());
}

// T-RED-17
#[test]
fn only_what_a_redaction_left_is_set_aside_for_the_next_one() {
    let (_fs, bench) = on_disk();
    bench.write_open("unsealed").unwrap();
    let before = bench.bytes(RECORD);
    let opened = bench.open_with(TailPolicy::SetAsideRedaction);
    let refused = opened.map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    assert!(refused.to_string().contains("threadseal seal"), "{refused}");
    assert_eq!(bench.bytes(RECORD), before);
}

/// One fault while a record is redacted, one end of the process, and the next one.
fn survive(call: usize, kind: FaultKind, end: Option<Keep>) -> bool {
    let (fs, bench) = on_disk();
    let older = bench.write().unwrap();
    let salt = salt_of(&bench.bytes(BODIES));
    let first = bench.commitment(0);
    fs.plan(call, kind);
    let done = bench.redact(first);
    if fs.struck().is_none() {
        done.unwrap();
        return false;
    }
    match end {
        None => {
            fs.kill_process();
            fs.heal();
        }
        Some(keep) => fs.cut_power(keep),
    }
    let next = Bench::new(&fs);
    let report = next.report();
    let calm = [Verdict::Verified, Verdict::Open, Verdict::UnsignedTail];
    assert!(
        calm.contains(&report.verdict),
        "{call} {kind:?} {end:?}: {report:?}"
    );
    // Opening it carries out a sealed redaction. Without a seal its lines are set aside, and the
    // redaction is requested again.
    drop(next.open_with(TailPolicy::SetAsideRedaction).unwrap());
    let was_sealed = |bench: &Bench| {
        let findings = bench.report().findings;
        findings.iter().any(|found| found.code == "redacted")
    };
    if done.is_ok() {
        assert!(was_sealed(&next), "{call} {kind:?} {end:?}");
    }
    if !was_sealed(&next) {
        assert!(next.read().contains(SECRET), "{call} {kind:?} {end:?}");
        next.redact(first).unwrap();
    }
    for gone in [SECRET.as_bytes(), &salt] {
        let left = holding(&fs, Path::new(WORK), gone);
        assert!(left.is_empty(), "{call} {kind:?} {end:?}: {left:?}");
    }
    let outcome = next.outcome(Some(older));
    assert_eq!(
        outcome.report.verdict,
        Verdict::Verified,
        "{call} {kind:?} {end:?}"
    );
    assert!(next.read().contains(KEPT));
    // After a crash an unfinished copy holds the kept body; opening the record removes that copy.
    let left = holding(&fs, Path::new(WORK), KEPT.as_bytes());
    assert_eq!(left, [BODIES], "{call} {kind:?} {end:?}");
    true
}

fn temporary_files(fs: &FaultFs) -> usize {
    let names = fs.read_dir(Path::new(WORK)).unwrap();
    let names = names.iter().map(|name| name.to_string_lossy());
    names.filter(|name| atomic::is_temporary(name)).count()
}

// T-RED-18
#[test]
fn what_a_killed_redaction_left_goes_with_the_next_writer_and_nothing_else_does() {
    let mut left_some = 0;
    for call in 0..200 {
        let (fs, bench) = on_disk();
        bench.write().unwrap();
        let other = Path::new(WORK).join(".threadseal-1-1.tmp");
        atomic::create_new(&fs, &other, b"of somebody else\n", 0o600).unwrap();
        let first = bench.commitment(0);
        fs.plan(call, FaultKind::PowerOff);
        let done = bench.redact(first);
        let was_struck = fs.struck().is_some();
        fs.kill_process();
        fs.heal();
        left_some += temporary_files(&fs) - 1;
        drop(Bench::new(&fs).open().unwrap());
        let left = holding(&fs, Path::new(WORK), KEPT.as_bytes());
        assert_eq!(left, [BODIES], "{call}");
        assert!(fs.bytes_of(&other).is_some(), "{call}");
        if !was_struck {
            done.unwrap();
            break;
        }
    }
    assert!(left_some > 2, "{left_some} temporary files");
}

// T-RED-19
#[test]
fn a_body_that_no_line_commits_to_goes_with_the_next_redaction() {
    const UNSAID: &str = "set aside with its line";
    let (fs, bench) = on_disk();
    bench.write_open(UNSAID).unwrap();
    let opened = bench.open().unwrap();
    assert!(opened.moved.is_some());
    let mut recorder = opened.recorder;
    assert_eq!(holding(&fs, Path::new(WORK), UNSAID.as_bytes()), [BODIES]);
    let first = bench.commitment(0);
    recorder
        .redact(vec![first], "Ada".into(), "asked to".into())
        .unwrap();
    for gone in [UNSAID, SECRET] {
        assert!(holding(&fs, Path::new(WORK), gone.as_bytes()).is_empty());
    }
    assert_eq!(recorder.drop_unbound().unwrap(), 0);
    // A body recorded afterwards is bound, whenever unbound bodies are dropped.
    let payload = Payload::parse(format!("{{\"text\":\"{KEPT}\"}}").as_bytes()).unwrap();
    recorder
        .append_buffered(&EventType::parse("cognition_out").unwrap(), &payload)
        .unwrap();
    assert_eq!(recorder.drop_unbound().unwrap(), 0);
    recorder.seal(2, Ext::default()).unwrap();
    assert_eq!(bench.report().verdict, Verdict::Verified);
    assert_eq!(holding(&fs, Path::new(WORK), KEPT.as_bytes()), [BODIES]);
}

// T-RED-16 T-RED-18
#[test]
fn every_fault_at_every_call_of_a_redaction_is_survived() {
    for kind in FaultKind::ALL {
        let mut call = 0;
        'calls: loop {
            for end in [None, Some(Keep::Nothing), Some(Keep::ByLot(call as u64))] {
                if !survive(call, kind, end) {
                    break 'calls;
                }
            }
            call += 1;
        }
        assert!(call > 30, "redacting makes {call} calls only");
    }
}

// T-RED-16
#[test]
fn every_fault_at_every_call_of_a_writer_leaves_no_sealed_line_without_its_body() {
    for kind in FaultKind::ALL {
        for call in 0.. {
            let mut struck = false;
            for end in [None, Some(Keep::Nothing), Some(Keep::ByLot(call as u64))] {
                let (fs, bench) = on_disk();
                fs.plan(call, kind);
                let written = bench.write();
                struck = fs.struck().is_some();
                match end {
                    None => {
                        fs.kill_process();
                        fs.heal();
                    }
                    Some(keep) => fs.cut_power(keep),
                }
                let next = Bench::new(&fs);
                if fs.metadata(Path::new(RECORD)).is_err() {
                    assert!(written.is_err(), "{call} {kind:?} {end:?}");
                    continue;
                }
                let verdict = next.report().verdict;
                let calm = [Verdict::Verified, Verdict::Open, Verdict::UnsignedTail];
                assert!(
                    calm.contains(&verdict),
                    "{call} {kind:?} {end:?}: {verdict}"
                );
                drop(next.open().unwrap());
            }
            if !struck {
                assert!(call > 40, "writing makes {call} calls only");
                break;
            }
        }
    }
}

#[test]
fn detached_bodies_need_a_store_that_has_a_place_for_them() {
    let (fs, bench) = on_disk();
    bench.write().unwrap();
    // A new record may not take over bodies that exist already.
    fs.unlink(Path::new(RECORD)).unwrap();
    let taken = bench.write().unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::InvalidInput);
    let folder = transcripts::FileTranscriptStore::new(fs.shared(), Path::new(WORK).join("s"));
    let name = transcripts::RecordName::parse("r").unwrap();
    let (host, keys) = (bench.host.clone(), bench.keys.clone());
    let thread = ThreadId::parse("t/1").unwrap();
    let made = Recorder::create_in(host, &folder, &name, thread, bench.manifest(), keys);
    assert!(made.is_ok());
}
