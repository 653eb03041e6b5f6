//! Redaction on a disk that fails at every call: nothing else is lost, and no file holds a dropped
//! body.

use crate::atomic;
use crate::bodies;
use crate::fault::{FaultFs, FaultKind, Keep, fail_each_call};
use crate::heads::FileHeadStore;
use crate::read::open_regular;
use crate::recorder::{Opened, Recorder, TailPolicy};
use crate::sys::{FileKind, Fs};
use crate::testing::{CALM, Scene, end, say};
use crate::transcripts::{FileTranscriptStore, RecordName};
use std::path::Path;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::Head;
use threadseal_core::report::{Report, Verdict};
use threadseal_formats::transcript::Outcome;
use threadseal_formats::transcript::bodies::commitments;
use threadseal_formats::transcript::event::{EventType, Payload};
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::lines::VerifiedLines;
use threadseal_formats::transcript::manifest::{Bodies, Manifest};

const WORK: &str = "/disk";
const RECORD: &str = "/disk/transcript.jsonl";
const BODIES: &str = "/disk/transcript.bodies";
const SECRET: &str = "the number is 4711";
const KEPT: &str = "the weather is fine";

/// A host on a disk that fails on command, with a record of detached bodies.
struct Bench {
    fs: FaultFs,
    scene: Scene,
}

impl Bench {
    fn empty() -> Self {
        let fs = FaultFs::new();
        atomic::create_directories(&fs, Path::new(WORK), 0o700).unwrap();
        Self::on(&fs)
    }

    /// The next process on this disk.
    fn on(fs: &FaultFs) -> Self {
        let heads = FileHeadStore::new(fs.shared(), Path::new(WORK).join("heads"));
        Self {
            fs: fs.clone(),
            scene: Scene::new(fs.shared(), heads),
        }
    }

    /// The same record on a disk of its own.
    fn copy(&self) -> Self {
        Self::on(&self.fs.copy())
    }

    /// The next process, after this one was killed, or lost its power.
    fn ended_by(&self, end: Option<Keep>) -> Self {
        self.fs.end(end);
        Self::on(&self.fs)
    }

    /// An ended record with a secret and something else.
    fn written() -> Self {
        let bench = Self::empty();
        bench.write().unwrap();
        bench
    }

    fn manifest(&self) -> Result<Manifest, Error> {
        Ok(Manifest {
            bodies: Bodies::Detached,
            ..self.scene.manifest()?
        })
    }

    fn create(&self) -> Result<Recorder, Error> {
        self.scene.create_as(Path::new(RECORD), self.manifest()?)
    }

    /// Writes a record with a secret and something else, ended.
    fn write(&self) -> Result<Head, Error> {
        let mut recorder = self.create()?;
        say(&mut recorder, SECRET)?;
        say(&mut recorder, KEPT)?;
        recorder.seal(1, Ext::default())?;
        end(&mut recorder)
    }

    /// Writes an open record with a secret under a seal and `unsealed` after it.
    fn write_open(&self, unsealed: &str) {
        let mut recorder = self.create().unwrap();
        say(&mut recorder, SECRET).unwrap();
        recorder.seal(1, Ext::default()).unwrap();
        say(&mut recorder, unsealed).unwrap();
        recorder.sync().unwrap();
    }

    fn open(&self, tail: TailPolicy) -> Result<Opened, Error> {
        self.scene.open(Path::new(RECORD), tail)
    }

    fn redact(&self, first: Digest) -> Result<Head, Error> {
        let mut recorder = self.open(TailPolicy::SetAside)?.recorder;
        redact(&mut recorder, first)
    }

    fn commitment(&self, at: usize) -> Digest {
        commitments(&self.bytes(RECORD)).unwrap()[at].digest
    }

    fn bytes(&self, path: &str) -> Vec<u8> {
        let file = open_regular(&self.fs, Path::new(path)).unwrap();
        file.read_whole(1 << 24).unwrap()
    }

    fn put_bodies(&self, bytes: &[u8]) {
        let mode = atomic::Mode::Set(0o600);
        atomic::replace(&self.fs, Path::new(BODIES), bytes, mode).unwrap();
    }

    fn outcome(&self, expected: Option<Head>) -> Outcome {
        let file = open_regular(&self.fs, Path::new(RECORD)).unwrap();
        self.scene.verify(&file, expected).unwrap()
    }

    fn report(&self) -> Report {
        self.outcome(None).report
    }

    fn verdict(&self) -> Verdict {
        self.report().verdict
    }

    fn finds(&self, code: &str) -> bool {
        let findings = self.report().findings;
        findings.iter().any(|found| found.code == code)
    }

    /// The contents that a reader of the verified record gets.
    fn read(&self) -> String {
        let verified = self.outcome(None).verified.unwrap();
        let bytes = self.bytes(RECORD);
        let first = bytes.split(|byte| *byte == b'\n').next().unwrap();
        let text = bodies::text_beside(&self.fs, Path::new(RECORD), first, 1 << 20).unwrap();
        let lines = VerifiedLines::whole(&verified, &bytes, &text).unwrap();
        let shown: Vec<u8> = lines.iter().flat_map(|l| l.bytes.into_owned()).collect();
        String::from_utf8(shown).unwrap()
    }

    /// Every file on the disk that holds `needle`.
    fn holding(&self, needle: impl AsRef<[u8]>) -> Vec<String> {
        holding(&self.fs, Path::new(WORK), needle.as_ref())
    }
}

fn redact(recorder: &mut Recorder, body: Digest) -> Result<Head, Error> {
    recorder.redact(vec![body], "Ada".into(), "asked to".into())
}

fn holding(fs: &FaultFs, folder: &Path, needle: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for name in fs.read_dir(folder).unwrap() {
        let path = folder.join(name);
        if fs.metadata(&path).unwrap().kind == FileKind::Directory {
            found.extend(holding(fs, &path, needle));
            continue;
        }
        let bytes = fs.bytes_of(&path).unwrap();
        if bytes.windows(needle.len()).any(|window| window == needle) {
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

// T-RED-07
#[test]
fn a_redacted_body_and_its_salt_are_in_no_file_and_every_older_seal_holds() {
    let bench = Bench::empty();
    let older = bench.write().unwrap();
    assert_eq!(bench.verdict(), Verdict::Verified);
    assert!(bench.read().contains(SECRET));
    assert_eq!(bench.holding(SECRET), [BODIES]);
    let salt = salt_of(&bench.bytes(BODIES));
    let before = bench.bytes(RECORD);
    bench.redact(bench.commitment(0)).unwrap();
    for gone in [SECRET.as_bytes(), &salt] {
        assert_eq!(bench.holding(gone), [""; 0]);
    }
    assert!(bench.bytes(RECORD).starts_with(&before));
    let outcome = bench.outcome(Some(older));
    assert_eq!(outcome.report.verdict, Verdict::Verified);
    let shown = bench.read();
    let by_whom = shown.contains("[redacted by Ada at ");
    assert!(by_whom && shown.contains(KEPT), "{shown}");
    // It continues from there as any ended record does: with another redaction.
    bench.redact(bench.commitment(1)).unwrap();
    assert_eq!(bench.holding(KEPT), [""; 0]);
    assert_eq!(bench.verdict(), Verdict::Verified);
}

// T-RED-01 T-RED-06
#[test]
fn whoever_drops_a_body_without_saying_so_is_found_out() {
    let bench = Bench::written();
    let whole = bench.bytes(BODIES);
    bench.fs.unlink(Path::new(BODIES)).unwrap();
    assert_eq!(bench.verdict(), Verdict::Tampered);
    let refused = bench.open(TailPolicy::SetAside).map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    bench.fs.heal();
    let text = String::from_utf8(whole.clone()).unwrap();
    bench.put_bodies(text.replace("4711", "4712").as_bytes());
    assert_eq!(bench.verdict(), Verdict::Tampered);
    assert!(bench.finds("body_changed"));
    // A dropped body that was put back is shown to no reader, and dropped again.
    bench.put_bodies(&whole);
    bench.redact(bench.commitment(0)).unwrap();
    bench.put_bodies(&whole);
    assert_eq!(bench.verdict(), Verdict::Verified);
    assert!(bench.finds("redaction_unfinished"));
    assert!(!bench.read().contains(SECRET));
    drop(bench.open(TailPolicy::SetAside).unwrap());
    assert_eq!(bench.holding(SECRET), [""; 0]);
}

// T-RED-17
#[test]
fn only_what_a_redaction_left_is_set_aside_for_the_next_one() {
    let bench = Bench::empty();
    bench.write_open("unsealed");
    let before = bench.bytes(RECORD);
    let opened = bench.open(TailPolicy::SetAsideRedaction);
    let refused = opened.map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    assert!(refused.to_string().contains("threadseal seal"), "{refused}");
    assert_eq!(bench.bytes(RECORD), before);
}

/// One fault while the record of `older` is redacted, one end of the process, and the next one.
fn survive(
    (written, older): (&Bench, Head),
    call: usize,
    kind: FaultKind,
    end: Option<Keep>,
) -> bool {
    let bench = written.copy();
    let salt = salt_of(&bench.bytes(BODIES));
    let first = bench.commitment(0);
    bench.fs.plan(call, kind);
    let done = bench.redact(first);
    if bench.fs.struck().is_none() {
        done.unwrap();
        return false;
    }
    let what = format!("{call} {kind:?} {end:?}");
    let next = bench.ended_by(end);
    let report = next.report();
    assert!(CALM.contains(&report.verdict), "{what}: {report:?}");
    // Opening it carries out a sealed redaction. Without a seal its lines are set aside, and the
    // redaction is requested again.
    drop(next.open(TailPolicy::SetAsideRedaction).unwrap());
    let was_sealed = next.finds("redacted");
    assert!(was_sealed || done.is_err(), "{what}");
    if !was_sealed {
        assert!(next.read().contains(SECRET), "{what}");
        next.redact(first).unwrap();
    }
    for gone in [SECRET.as_bytes(), &salt] {
        assert_eq!(next.holding(gone), [""; 0], "{what}");
    }
    let report = next.outcome(Some(older)).report;
    assert_eq!(report.verdict, Verdict::Verified, "{what}");
    assert!(next.read().contains(KEPT));
    // After a crash an unfinished copy holds the kept body; opening the record removes that copy.
    assert_eq!(next.holding(KEPT), [BODIES], "{what}");
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
    let (written, mut left_some) = (Bench::written(), 0);
    for call in 0..200 {
        let bench = written.copy();
        let other = Path::new(WORK).join(".threadseal-1-1.tmp");
        atomic::create_new(&bench.fs, &other, b"of somebody else\n", 0o600).unwrap();
        let first = bench.commitment(0);
        bench.fs.plan(call, FaultKind::PowerOff);
        let done = bench.redact(first);
        let was_struck = bench.fs.struck().is_some();
        let next = bench.ended_by(None);
        left_some += temporary_files(&next.fs) - 1;
        drop(next.open(TailPolicy::SetAside).unwrap());
        assert_eq!(next.holding(KEPT), [BODIES], "{call}");
        assert!(next.fs.bytes_of(&other).is_some(), "{call}");
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
    const UNBOUND: &str = "set aside with its line";
    let bench = Bench::empty();
    bench.write_open(UNBOUND);
    let opened = bench.open(TailPolicy::SetAside).unwrap();
    assert!(opened.moved.is_some());
    let mut recorder = opened.recorder;
    assert_eq!(bench.holding(UNBOUND), [BODIES]);
    redact(&mut recorder, bench.commitment(0)).unwrap();
    for gone in [UNBOUND, SECRET] {
        assert_eq!(bench.holding(gone), [""; 0]);
    }
    assert_eq!(recorder.drop_unbound().unwrap(), 0);
    // A body recorded afterwards is bound, whenever unbound bodies are dropped.
    let payload = Payload::parse(format!("{{\"text\":\"{KEPT}\"}}").as_bytes()).unwrap();
    recorder
        .append_buffered(&EventType::parse("cognition_out").unwrap(), &payload)
        .unwrap();
    assert_eq!(recorder.drop_unbound().unwrap(), 0);
    recorder.seal(2, Ext::default()).unwrap();
    assert_eq!(bench.verdict(), Verdict::Verified);
    assert_eq!(bench.holding(KEPT), [BODIES]);
}

fn ends(call: usize, _: FaultKind) -> [Option<Keep>; 3] {
    [None, Some(Keep::Nothing), Some(Keep::ByLot(call as u64))]
}

// T-RED-16 T-RED-18
#[test]
fn every_fault_at_every_call_of_a_redaction_is_survived() {
    let written = Bench::empty();
    let older = written.write().unwrap();
    fail_each_call(30, ends, |call, kind, end| {
        survive((&written, older), call, kind, end)
    });
}

// T-RED-16
#[test]
fn every_fault_at_every_call_of_a_writer_leaves_no_sealed_line_without_its_body() {
    fail_each_call(40, ends, |call, kind, end| {
        let bench = Bench::empty();
        bench.fs.plan(call, kind);
        let written = bench.write();
        if bench.fs.struck().is_none() {
            written.unwrap();
            return false;
        }
        let next = bench.ended_by(end);
        if next.fs.bytes_of(Path::new(RECORD)).is_none() {
            assert!(written.is_err(), "{call} {kind:?} {end:?}");
            return true;
        }
        let verdict = next.verdict();
        assert!(
            CALM.contains(&verdict),
            "{call} {kind:?} {end:?}: {verdict}"
        );
        drop(next.open(TailPolicy::SetAside).unwrap());
        true
    });
}

#[test]
fn detached_bodies_need_a_store_that_has_a_place_for_them() {
    let bench = Bench::written();
    // A new record may not take over bodies that exist already.
    bench.fs.unlink(Path::new(RECORD)).unwrap();
    let taken = bench.write().unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::InvalidInput);
    let folder = FileTranscriptStore::new(bench.fs.shared(), Path::new(WORK).join("s"));
    let name = RecordName::parse("r").unwrap();
    let manifest = bench.manifest().unwrap();
    assert!(bench.scene.create_in(&folder, &name, manifest).is_ok());
}
