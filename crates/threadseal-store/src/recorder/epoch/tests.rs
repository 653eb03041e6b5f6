//! Rotation under failing disks and theft: which keys are on the disk at each moment, and what they
//! can seal.

use super::*;
use crate::fault::{FaultFs, FaultKind, Keep, ends, fail_each_call};
use crate::heads::FileHeadStore;
use crate::read::open_regular;
use crate::recorder::{Recorder, TailPolicy};
use crate::sys::Fs as _;
use crate::testing::{CALM, Scene, end, nothing};
use std::path::Path;
use threadseal_core::key::{KeyUsage, PrivateKey};
use threadseal_core::report::Verdict;
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::{Link, Outcome, ScanOptions, Signers};

const RECORD: &str = "/disk/transcript.jsonl";

/// A disk, and a host on it that seals one record.
pub(in crate::recorder) struct Bench {
    pub(in crate::recorder) fs: FaultFs,
    scene: Scene,
}

impl Bench {
    fn on(fs: &FaultFs) -> Self {
        let heads = FileHeadStore::new(fs.shared(), "/home/heads");
        let mut scene = Scene::new(fs.shared(), heads);
        scene.keys.epochs = Some(EpochKeys::new(fs.shared(), "/home/epochs".into()));
        let fs = fs.clone();
        Self { fs, scene }
    }

    pub(in crate::recorder) fn empty() -> Self {
        let fs = FaultFs::new();
        for folder in ["/disk", "/home/heads"] {
            crate::atomic::create_directories(&fs, Path::new(folder), 0o700).unwrap();
        }
        Self::on(&fs)
    }

    /// The same record on a disk of its own.
    pub(in crate::recorder) fn copy(&self) -> Self {
        Self::on(&self.fs.copy())
    }

    pub(in crate::recorder) fn create(&self) -> Result<Recorder, Error> {
        self.scene.create(Path::new(RECORD))
    }

    pub(in crate::recorder) fn open(&self, tail: TailPolicy) -> Result<Recorder, Error> {
        let opened = self.scene.open(Path::new(RECORD), tail);
        opened.map(|opened| opened.recorder)
    }

    /// Another host on this disk, whose keys of epochs are elsewhere.
    fn elsewhere(&self, epochs: Option<EpochKeys>) -> Self {
        let mut elsewhere = Self::on(&self.fs);
        elsewhere.scene.keys.epochs = epochs;
        elsewhere
    }

    /// The next process on this disk, after the one before was killed, or lost its power.
    pub(in crate::recorder) fn ended_by(self, end: Option<Keep>) -> Self {
        self.fs.end(end);
        Self::on(&self.fs)
    }

    /// The bytes of the record, if it was made.
    fn record(&self) -> Option<Vec<u8>> {
        self.fs.bytes_of(Path::new(RECORD))
    }

    /// The outcome of verifying the record on the disk without the heads of this host.
    pub(in crate::recorder) fn verify(&self) -> Outcome {
        let file = open_regular(&self.fs, Path::new(RECORD)).unwrap();
        let (scan, options) = (ScanOptions::default(), self.scene.options());
        crate::examine::native(&file, &scan, &options, &|_| {}).unwrap()
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
            rye: &*self.scene.keys.rye,
        };
        let (stamp, turn) = (self.scene.host.stamp().unwrap(), sealer.turn());
        let (mut sealer, mut out) = (sealer.clone(), Vec::new());
        let sealed = sealer.seal(stamp, turn, false, Ext::default(), signers, &mut out);
        sealed.is_ok()
    }
}

/// Appends a message and seals it.
pub(in crate::recorder) fn say(recorder: &mut Recorder) -> Result<(), Error> {
    crate::testing::say(recorder, "a")?;
    let turn = recorder.state().turn();
    recorder.seal(turn, Ext::default()).map(drop)
}

/// Two processes: two seals, then a rotation, a seal, and the end.
fn work(bench: &Bench) -> Result<(), Error> {
    say(&mut bench.create()?)?;
    let mut recorder = bench.open(TailPolicy::SetAside)?;
    say(&mut recorder)?;
    say(&mut recorder)?;
    end(&mut recorder).map(drop)
}

/// Works until the fault, ends according to `end`, checks the disk, and continues. False when no
/// call was left to fail.
fn survives(call: usize, kind: FaultKind, end_of_process: Option<Keep>) -> bool {
    let bench = Bench::empty();
    bench.fs.plan(call, kind);
    let done = work(&bench);
    if bench.fs.struck().is_none() {
        done.unwrap();
        return false;
    }
    let bench = bench.ended_by(end_of_process);
    if bench.record().is_none() {
        return true;
    }
    let what = format!("{kind:?} at call {call}, {end_of_process:?}");
    let Outcome { report, sealer, .. } = bench.verify();
    let findings = &report.findings;
    assert!(CALM.contains(&report.verdict), "{what}: {findings:?}");
    if let Some(sealer) = sealer.filter(|sealer| !sealer.is_ended()) {
        let loot = bench.loot();
        let able = loot.iter().filter(|key| bench.may_seal(&sealer, key));
        assert_eq!(able.count(), 1, "{what}");
    }
    let mut recorder = bench.open(TailPolicy::SetAside).unwrap();
    let ended = recorder.state().is_ended();
    assert_eq!(bench.loot().len(), usize::from(!ended), "{what}");
    if !ended {
        say(&mut recorder).unwrap();
        assert_eq!(bench.loot().len(), 1);
        end(&mut recorder).unwrap();
        assert!(bench.loot().is_empty());
    }
    drop(recorder);
    assert_eq!(bench.verify().report.verdict, Verdict::Verified);
    true
}

// T-EPO-07
#[test]
fn whatever_fails_in_a_rotation_one_key_can_go_on_and_the_others_are_removed() {
    fail_each_call(80, |call, _| ends(call), survives);
}

/// The states of a record at each of its seals, by its bytes at that time.
fn states(bench: &Bench) -> Vec<Sealer> {
    let bytes = bench.record().unwrap();
    let ends = bytes.iter().zip(1..).filter(|(byte, _)| **byte == b'\n');
    let prefixes = ends.map(|(_, end)| &bytes[..end]);
    let verify = |prefix| {
        let scan = ScanOptions::default();
        let options = bench.scene.options();
        threadseal_formats::transcript::verify(prefix, &scan, &options).sealer
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
            assert!(loot.is_empty(), "a record that has ended keeps its keys");
            break;
        }
        if bench.record().is_some() {
            let states = states(&bench);
            let epoch = states.last().unwrap().keys_given_up();
            for sealer in &states {
                let is_recent = sealer.keys_given_up() + 1 >= epoch;
                for stolen in &loot {
                    let may = bench.may_seal(sealer, stolen);
                    assert!(!may || is_recent, "at call {call}");
                    thefts += 1;
                }
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
    let open = |epochs| bench.elsewhere(epochs).open(TailPolicy::SetAside);
    let before = bench.record();
    let refused = open(Some(files.clone())).map(drop).unwrap_err();
    assert!(refused.to_string().contains("--take-over"), "{refused}");
    assert!(open(None).is_err());
    assert_eq!(bench.record(), before);

    let mut recorder = open(Some(files.taking_over())).unwrap();
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
    end(&mut recorder).unwrap();
    drop(recorder);
    assert!(bench.loot().is_empty());
    for epochs in [bench.scene.keys.epochs.clone(), None] {
        let elsewhere = bench.elsewhere(epochs);
        let mut recorder = elsewhere.open(TailPolicy::Refuse).unwrap();
        let linked = recorder.link(Link::Resumed, &nothing(), Ext::default());
        linked.unwrap();
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
    let keys = || -> Vec<_> {
        let loot = bench.loot();
        loot.iter().map(|key| *key.public_key()).collect()
    };
    let before = keys();
    drop(bench.open(TailPolicy::Hold).unwrap());
    assert_eq!(before, keys());
    let signers = bench.verify().report.signers;
    assert_eq!(signers.len(), 1, "the authority speaks for all of its keys");
}

#[test]
fn a_rotation_costs_four_fsyncs_more_than_a_seal() {
    let fsyncs = |rotating| {
        let bench = Bench::empty();
        let mut recorder = bench.create().unwrap();
        if rotating {
            drop(recorder);
            recorder = bench.open(TailPolicy::SetAside).unwrap();
        }
        let before = bench.fs.calls();
        say(&mut recorder).unwrap();
        let calls = bench.fs.called().split_off(before);
        calls
            .iter()
            .filter(|name| name.starts_with("fsync"))
            .count()
    };
    // By chance two digests of a record begin alike, and one folder of heads serves both: a sync less.
    let most = |rotating| (0..4).map(|_| fsyncs(rotating)).max();
    assert_eq!(most(true), most(false).map(|seal| seal + 4));
}
