//! Rotation under failing disks and theft: which keys are on the disk at each moment, and what they
//! can seal.

use super::*;
use crate::clock::SystemClock;
use crate::examine;
use crate::fault::{FaultFs, FaultKind, Keep};
use crate::heads::FileHeadStore;
use crate::random::SystemRandom;
use crate::read::open_regular;
use crate::recorder::{Opened, Recorder, TailPolicy};
use crate::sys::Fs as _;
use std::path::Path;
use std::sync::Arc;
use threadseal_core::key::{KeyUsage, PrivateKey};
use threadseal_core::record::ThreadId;
use threadseal_core::report::Verdict;
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};
use threadseal_formats::transcript::event::{EventType, Payload};
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::{Ending, Link, ScanOptions, Signers, VerifyOptions};

const RECORD: &str = "/disk/transcript.jsonl";

/// A disk, and a host on it that seals one record.
pub(in crate::recorder) struct Bench {
    pub(in crate::recorder) fs: FaultFs,
    host: Host,
    keys: Keys,
    trust: Trust,
}

impl Bench {
    pub(in crate::recorder) fn new(fs: &FaultFs) -> Self {
        let key =
            |seed, usage| Arc::new(LocalSigner::new(PrivateKey::from_seed([seed; 32]), usage));
        let native = key(1, KeyUsage::Native);
        let mut store = TrustStore::new();
        let name = TrustName::parse("self").unwrap();
        store
            .add(TrustedKey::new(
                name,
                *native.public_key(),
                [KeyUsage::Native],
            ))
            .unwrap();
        let epochs = EpochKeys::new(fs.shared(), "/home/epochs".into());
        Self {
            fs: fs.clone(),
            host: Host {
                fs: fs.shared(),
                clock: Arc::new(SystemClock),
                random: Arc::new(SystemRandom),
                heads: Arc::new(FileHeadStore::new(fs.shared(), "/home/heads")),
            },
            keys: Keys {
                native,
                rye: key(2, KeyUsage::Rye),
                epochs: Some(epochs),
            },
            trust: Trust::new(store),
        }
    }

    pub(in crate::recorder) fn empty() -> Self {
        let fs = FaultFs::new();
        for folder in ["/disk", "/home/heads"] {
            crate::atomic::create_directories(&fs, Path::new(folder), 0o700).unwrap();
        }
        Self::new(&fs)
    }

    pub(in crate::recorder) fn create(&self) -> Result<Recorder, Error> {
        let (native, rye) = (*self.keys.native.public_key(), *self.keys.rye.public_key());
        let manifest = Manifest::new(self.host.new_record()?, native, rye);
        let thread = ThreadId::parse("t/1")?;
        let (host, keys) = (self.host.clone(), self.keys.clone());
        Recorder::create(host, Path::new(RECORD), thread, manifest, keys)
    }

    fn options(&self) -> VerifyOptions<'_> {
        VerifyOptions {
            trust: &self.trust,
            now: Timestamp::from_micros(1_900_000_000_000_000).unwrap(),
            held_since: None,
            thread: None,
        }
    }

    pub(in crate::recorder) fn open(&self, tail: TailPolicy) -> Result<Recorder, Error> {
        let (host, keys) = (self.host.clone(), self.keys.clone());
        let opened = Recorder::open(host, Path::new(RECORD), keys, &self.options(), tail);
        opened.map(|Opened { recorder, .. }| recorder)
    }

    /// The next process on this disk, after the one before was killed, or lost its power.
    pub(in crate::recorder) fn ended_by(self, end: Option<Keep>) -> Self {
        match end {
            None => {
                self.fs.kill_process();
                self.fs.heal();
            }
            Some(keep) => self.fs.cut_power(keep),
        }
        Self::new(&self.fs)
    }

    /// The outcome of verifying the record on the disk without the heads of this host.
    pub(in crate::recorder) fn verify(&self) -> threadseal_formats::transcript::Outcome {
        let file = open_regular(&self.fs, Path::new(RECORD)).unwrap();
        let scan = ScanOptions::default();
        examine::native(&file, &scan, &self.options(), &|_| {}).unwrap()
    }

    /// A copy of every key of an epoch on the disk.
    pub(in crate::recorder) fn loot(&self) -> Vec<LocalSigner> {
        let folder = Path::new("/home/epochs");
        let names = self.fs.read_dir(folder).unwrap_or_default();
        let names = names.iter().filter_map(|name| name.to_str());
        let keys = names.filter(|name| name.ends_with(".key"));
        let read = keys.filter_map(|name| self.fs.bytes_of(&folder.join(name)));
        let texts = read.filter_map(|bytes| String::from_utf8(bytes).ok());
        let keys = texts.filter_map(|text| PrivateKey::from_pem(&text).ok());
        keys.map(|key| LocalSigner::new(key, KeyUsage::Native))
            .collect()
    }

    /// Could this key make the next seal after `sealer`?
    pub(in crate::recorder) fn may_seal(&self, sealer: &Sealer, key: &LocalSigner) -> bool {
        let signers = Signers {
            native: key,
            rye: &*self.keys.rye,
        };
        let stamp = self.host.stamp().unwrap();
        let turn = sealer.turn();
        let sealed =
            sealer
                .clone()
                .seal(stamp, turn, false, Ext::default(), signers, &mut Vec::new());
        sealed.is_ok()
    }
}

pub(in crate::recorder) fn say(recorder: &mut Recorder) -> Result<(), Error> {
    let event_type = EventType::parse("cognition_in")?;
    recorder.append(&event_type, &Payload::parse(b"{\"text\":\"a\"}")?)?;
    recorder
        .seal(recorder.state().turn(), Ext::default())
        .map(drop)
}

pub(in crate::recorder) fn nothing() -> Payload {
    Payload::parse(b"{}").unwrap()
}

/// Fails every call in every way, each with every end, until `survives` reports that no call was
/// left to fail. More than `least` calls are required.
pub(in crate::recorder) fn fail_each_call(
    least: usize,
    survives: impl Fn(usize, FaultKind, Option<Keep>) -> bool,
) {
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
                if !survives(call, kind, end) {
                    break 'calls;
                }
            }
            call += 1;
        }
        assert!(call > least, "there are {call} calls only");
    }
}

/// Two processes: two seals, then a rotation, a seal, and the end.
fn work(bench: &Bench) -> Result<(), Error> {
    say(&mut bench.create()?)?;
    let mut recorder = bench.open(TailPolicy::SetAside)?;
    say(&mut recorder)?;
    say(&mut recorder)?;
    let turn = recorder.state().turn();
    recorder.end(Ending::Completed, &nothing(), turn).map(drop)
}

/// Works until the fault, ends according to `end`, checks the disk, and continues. False when no
/// call was left to fail.
fn survives(call: usize, kind: FaultKind, end: Option<Keep>) -> bool {
    let bench = Bench::empty();
    bench.fs.plan(call, kind);
    let done = work(&bench);
    if bench.fs.struck().is_none() {
        done.unwrap();
        return false;
    }
    let bench = bench.ended_by(end);
    if bench.fs.bytes_of(Path::new(RECORD)).is_none() {
        return true;
    }
    let outcome = bench.verify();
    let calm = [Verdict::Verified, Verdict::Open, Verdict::UnsignedTail];
    assert!(
        calm.contains(&outcome.report.verdict),
        "{:?}",
        outcome.report.findings
    );
    if let Some(sealer) = outcome.sealer.filter(|sealer| !sealer.is_ended()) {
        let able = bench
            .loot()
            .iter()
            .filter(|key| bench.may_seal(&sealer, key))
            .count();
        assert_eq!(able, 1, "{kind:?} at call {call}, {end:?}");
    }
    let mut recorder = bench.open(TailPolicy::SetAside).unwrap();
    let ended = recorder.state().is_ended();
    assert_eq!(
        bench.loot().len(),
        usize::from(!ended),
        "{kind:?} at call {call}, {end:?}"
    );
    if !ended {
        say(&mut recorder).unwrap();
        assert_eq!(bench.loot().len(), 1);
        let turn = recorder.state().turn();
        recorder.end(Ending::Completed, &nothing(), turn).unwrap();
        assert!(bench.loot().is_empty());
    }
    drop(recorder);
    assert_eq!(bench.verify().report.verdict, Verdict::Verified);
    true
}

// T-EPO-07
#[test]
fn whatever_fails_in_a_rotation_one_key_can_go_on_and_the_others_are_removed() {
    fail_each_call(80, survives);
}

/// The states of a record at each of its seals, by its bytes at that time.
fn states(bench: &Bench) -> Vec<Sealer> {
    let bytes = bench.fs.bytes_of(Path::new(RECORD)).unwrap();
    let ends = bytes.iter().zip(1..).filter(|(byte, _)| **byte == b'\n');
    let prefixes = ends.map(|(_, end)| &bytes[..end]);
    let verify = |prefix| {
        let scan = ScanOptions::default();
        threadseal_formats::transcript::verify(prefix, &scan, &bench.options()).sealer
    };
    prefixes.filter_map(verify).collect()
}

// T-EPO-01 T-EPO-02
#[test]
fn whoever_takes_all_keys_of_epochs_at_any_moment_changes_nothing_older_than_one_epoch() {
    let mut call = 0;
    let (mut thefts, mut epochs) = (0, 0);
    loop {
        let bench = Bench::empty();
        bench.fs.plan(call, FaultKind::PowerOff);
        let done = work(&bench);
        bench.fs.heal();
        // The thief was there at this very moment, and the record continues without noticing.
        let loot = bench.loot();
        if done.is_ok() {
            assert!(
                loot.is_empty(),
                "a record that has ended leaves no key behind"
            );
            break;
        }
        if bench.fs.bytes_of(Path::new(RECORD)).is_some() {
            let states = states(&bench);
            let epoch = states.last().unwrap().keys_given_up();
            for (sealer, stolen) in states
                .iter()
                .flat_map(|state| loot.iter().map(move |key| (state, key)))
            {
                let may = bench.may_seal(sealer, stolen);
                assert!(
                    !may || sealer.keys_given_up() + 1 >= epoch,
                    "at call {call}"
                );
                thefts += 1;
            }
            epochs = epochs.max(epoch);
        }
        call += 1;
    }
    assert!(
        epochs >= 1 && thefts > 100,
        "{thefts} thefts over {epochs} epochs"
    );
}

// T-EPO-08
#[test]
fn a_record_whose_key_is_elsewhere_is_refused_until_its_authority_takes_it_over() {
    let bench = Bench::empty();
    say(&mut bench.create().unwrap()).unwrap();
    let lost = bench.loot().remove(0);
    let files = EpochKeys::new(bench.fs.shared(), "/home/other".into());
    let mut elsewhere = Bench::new(&bench.fs);
    elsewhere.keys.epochs = Some(files.clone());
    let before = bench.fs.bytes_of(Path::new(RECORD));
    let refused = elsewhere.open(TailPolicy::SetAside).err().unwrap();
    assert!(refused.to_string().contains("--take-over"), "{refused}");
    elsewhere.keys.epochs = None;
    assert!(elsewhere.open(TailPolicy::SetAside).is_err());
    assert_eq!(bench.fs.bytes_of(Path::new(RECORD)), before);

    elsewhere.keys.epochs = Some(files.taking_over());
    let mut recorder = elsewhere.open(TailPolicy::SetAside).unwrap();
    say(&mut recorder).unwrap();
    assert!(!bench.may_seal(recorder.state(), &lost));
    say(&mut recorder).unwrap();
    drop(recorder);
    assert_eq!(bench.verify().report.verdict, Verdict::Open);
    // The authority sealed elsewhere, so the key of this disk is given up.
    assert!(bench.open(TailPolicy::SetAside).is_err());
}

#[test]
fn links_behind_the_end_need_the_authority_and_no_file() {
    let bench = Bench::empty();
    let mut recorder = bench.create().unwrap();
    recorder.end(Ending::Completed, &nothing(), 0).unwrap();
    drop(recorder);
    assert!(bench.loot().is_empty());
    for epochs in [bench.keys.epochs.clone(), None] {
        let mut elsewhere = Bench::new(&bench.fs);
        elsewhere.keys.epochs = epochs;
        let mut recorder = elsewhere.open(TailPolicy::Refuse).unwrap();
        recorder
            .link(Link::Resumed, &nothing(), Ext::default())
            .unwrap();
        assert!(bench.loot().is_empty());
    }
    assert_eq!(bench.verify().report.verdict, Verdict::Verified);
}

#[test]
fn a_long_run_rotates_behind_so_many_seals_and_a_held_tail_changes_no_key() {
    let bench = Bench::empty();
    let mut recorder = bench.create().unwrap();
    for seal in 0..2 * SEALS_PER_EPOCH + 2 {
        let epochs = u32::try_from(recorder.state().keys_given_up()).unwrap();
        assert_eq!(epochs, seal / SEALS_PER_EPOCH, "at seal {seal}");
        say(&mut recorder).unwrap();
    }
    drop(recorder);
    let before: Vec<_> = bench.loot().iter().map(|key| *key.public_key()).collect();
    drop(bench.open(TailPolicy::Hold).unwrap());
    let after: Vec<_> = bench.loot().iter().map(|key| *key.public_key()).collect();
    assert_eq!(before, after);
    assert_eq!(
        bench.verify().report.signers.len(),
        1,
        "the authority speaks for all of its keys"
    );
}

/// The names of the calls of one seal.
fn calls_of_a_seal(rotating: bool) -> Vec<&'static str> {
    let bench = Bench::empty();
    let mut recorder = bench.create().unwrap();
    if rotating {
        drop(recorder);
        recorder = bench.open(TailPolicy::SetAside).unwrap();
    }
    let before = bench.fs.calls();
    say(&mut recorder).unwrap();
    bench.fs.called().split_off(before)
}

#[test]
fn a_rotation_costs_four_fsyncs_more_than_a_seal() {
    let fsyncs = |rotating| {
        let calls = calls_of_a_seal(rotating);
        calls
            .iter()
            .filter(|name| name.starts_with("fsync"))
            .count()
    };
    let (plain, rotating) = (fsyncs(false), fsyncs(true));
    println!("a seal: {plain} fsyncs, with a rotation: {rotating}");
    assert_eq!(rotating, plain + 4);
}
