//! A record on disk: written, truncated, rolled back, changed, and held by one writer.

mod delegate;
mod redact;

use super::*;
use crate::clock::SystemClock;
use crate::heads::{
    Durability, FileHeadStore, HeadStore, MemoryHeadStore, RecordKind, StoredHead, Swap,
};
use crate::random::SystemRandom;
use crate::read::open_regular;
use crate::sys::RealFs;
use threadseal_core::digest::Digest;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey};
use threadseal_core::record::{Head, RecordId};
use threadseal_core::report::Verdict;
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};
use threadseal_formats::transcript::ScanOptions;
use threadseal_formats::transcript::VerifyOptions;

struct Bench {
    host: Host,
    keys: Keys,
    trust: Trust,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fs = Arc::new(RealFs);
        let heads: Arc<dyn HeadStore> =
            Arc::new(FileHeadStore::new(fs.clone(), folder.path().join("heads")));
        std::fs::create_dir(folder.path().join("heads")).unwrap();
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
        Self {
            host: Host {
                fs,
                clock: Arc::new(SystemClock),
                random: Arc::new(SystemRandom),
                heads,
            },
            keys: Keys {
                native,
                rye: key(2, KeyUsage::Rye),
                epochs: None,
            },
            trust: Trust::new(store),
            folder,
        }
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("transcript.jsonl")
    }

    fn create(&self) -> Recorder {
        let (native, rye) = (*self.keys.native.public_key(), *self.keys.rye.public_key());
        let manifest = Manifest::new(self.host.new_record().unwrap(), native, rye);
        let thread = ThreadId::parse("t/1").unwrap();
        Recorder::create(
            self.host.clone(),
            &self.path(),
            thread,
            manifest,
            self.keys.clone(),
        )
        .unwrap()
    }

    fn options(&self) -> VerifyOptions<'_> {
        VerifyOptions {
            trust: &self.trust,
            now: Timestamp::from_micros(1_900_000_000_000_000).unwrap(),
            held_since: None,
            thread: None,
        }
    }

    fn open(&self, tail: TailPolicy) -> Result<Opened, Error> {
        Recorder::open(
            self.host.clone(),
            &self.path(),
            self.keys.clone(),
            &self.options(),
            tail,
        )
    }

    fn verdict(&self, host: &Host) -> Verdict {
        let file = open_regular(&*host.fs, &self.path()).unwrap();
        let first = examine::first_line(&file).unwrap();
        let record: Option<RecordId> = first.as_deref().and_then(examine::native_record);
        let known = examine::known(Some(&*host.heads), record.as_ref(), None, false).unwrap();
        let scan = ScanOptions {
            expect: known.expect,
            ..ScanOptions::default()
        };
        examine::native(&file, &scan, &self.options(), &|_| {})
            .unwrap()
            .report
            .verdict
    }
}

fn event(recorder: &mut Recorder, text: &str) {
    let event_type = EventType::parse("cognition_in").unwrap();
    let payload = Payload::parse(format!("{{\"text\":\"{text}\"}}").as_bytes()).unwrap();
    recorder.append(&event_type, &payload).unwrap();
}

#[test]
fn a_record_is_verified_on_the_host_that_made_it_and_open_elsewhere_until_it_ends() {
    let bench = Bench::new();
    let mut recorder = bench.create();
    event(&mut recorder, "a");
    recorder.seal(1, Ext::default()).unwrap();
    assert_eq!(bench.verdict(&bench.host), Verdict::Verified);
    let elsewhere = Host {
        heads: Arc::new(MemoryHeadStore::default()),
        ..bench.host.clone()
    };
    assert_eq!(bench.verdict(&elsewhere), Verdict::Open);
    event(&mut recorder, "b");
    assert_eq!(bench.verdict(&bench.host), Verdict::UnsignedTail);
    recorder
        .end(Ending::Completed, &Payload::parse(b"{}").unwrap(), 1)
        .unwrap();
    assert_eq!(bench.verdict(&elsewhere), Verdict::Verified);
}

// T-TRA-24
#[test]
fn an_older_copy_put_back_is_rolled_back_and_cannot_be_continued() {
    let bench = Bench::new();
    let mut recorder = bench.create();
    event(&mut recorder, "a");
    recorder.seal(1, Ext::default()).unwrap();
    let older = std::fs::read(bench.path()).unwrap();
    event(&mut recorder, "b");
    recorder.seal(2, Ext::default()).unwrap();
    drop(recorder);
    std::fs::write(bench.path(), older).unwrap();
    assert_eq!(bench.verdict(&bench.host), Verdict::RolledBack);
    let refused = bench.open(TailPolicy::SetAside).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Refused);
}

// T-TRA-31
#[test]
fn only_one_writer_holds_a_record() {
    let bench = Bench::new();
    let first = bench.create();
    assert!(bench.open(TailPolicy::SetAside).is_err());
    drop(first);
    assert!(bench.open(TailPolicy::SetAside).is_ok());
}

// T-TRA-21
#[test]
fn a_tail_is_refused_set_aside_or_adopted_and_never_taken_over_silently() {
    for policy in [TailPolicy::Refuse, TailPolicy::SetAside, TailPolicy::Adopt] {
        let bench = Bench::new();
        let mut recorder = bench.create();
        event(&mut recorder, "sealed");
        let head = recorder.seal(1, Ext::default()).unwrap();
        event(&mut recorder, "not sealed");
        drop(recorder);
        let before = std::fs::read(bench.path()).unwrap();
        let torn = [&before[..], b"{\"timest"].concat();
        std::fs::write(bench.path(), &torn).unwrap();
        let opened = bench.open(policy);
        if policy == TailPolicy::Refuse {
            assert!(opened.is_err());
            assert_eq!(std::fs::read(bench.path()).unwrap(), torn);
            continue;
        }
        let mut opened = opened.unwrap();
        let end = Payload::parse(b"{}").unwrap();
        opened.recorder.end(Ending::Error, &end, 1).unwrap();
        let after = std::fs::read(bench.path()).unwrap();
        let tail = &torn[usize::try_from(head.size).unwrap()..];
        if policy == TailPolicy::SetAside {
            assert_eq!(std::fs::read(opened.moved.unwrap().path).unwrap(), tail);
            assert_eq!(bench.verdict(&bench.host), Verdict::Verified);
        } else {
            assert!(after.starts_with(&torn));
            assert_eq!(bench.verdict(&bench.host), Verdict::Partial);
        }
    }
}

#[test]
fn an_ended_record_with_a_tail_is_ended_again_and_a_held_tail_waits() {
    for policy in [TailPolicy::SetAside, TailPolicy::Adopt, TailPolicy::Hold] {
        let bench = Bench::new();
        let mut recorder = bench.create();
        event(&mut recorder, "a");
        let end = Payload::parse(b"{}").unwrap();
        recorder.end(Ending::Completed, &end, 1).unwrap();
        drop(recorder);
        let whole = std::fs::read(bench.path()).unwrap();
        // A link that was cut off before its seal.
        let torn = [&whole[..], b"{\"timest"].concat();
        std::fs::write(bench.path(), &torn).unwrap();
        let mut opened = bench.open(policy).unwrap();
        let expected = if policy == TailPolicy::SetAside {
            Verdict::Verified
        } else {
            Verdict::Partial
        };
        if policy == TailPolicy::Hold {
            assert_eq!(std::fs::read(bench.path()).unwrap(), torn);
            let link = opened.recorder.link(Link::Resumed, &end, Ext::default());
            assert_eq!(link.unwrap_err().kind(), ErrorKind::Refused);
            assert_eq!(std::fs::read(bench.path()).unwrap(), torn);
            opened.recorder.adopt_tail().unwrap();
        } else {
            assert_eq!(bench.verdict(&bench.host), expected);
        }
        opened
            .recorder
            .link(Link::Resumed, &end, Ext::default())
            .unwrap();
        assert_eq!(bench.verdict(&bench.host), expected);
    }
}

#[test]
fn a_changed_record_is_refused_with_its_reason() {
    let bench = Bench::new();
    let mut recorder = bench.create();
    event(&mut recorder, "allow nothing");
    recorder.seal(1, Ext::default()).unwrap();
    drop(recorder);
    let text = std::fs::read_to_string(bench.path()).unwrap();
    std::fs::write(bench.path(), text.replace("nothing", "all that")).unwrap();
    let refused = bench.open(TailPolicy::SetAside).err().unwrap();
    assert!(refused.to_string().contains("tampered"), "{refused}");
}

/// The heads of a home whose log is gone: each counts, and none is known to be the newest.
#[derive(Debug)]
struct Unvouched(Arc<dyn HeadStore>);

impl HeadStore for Unvouched {
    fn fetch(&self, record: &RecordId) -> Result<Option<StoredHead>, Error> {
        let unvouched = |stored| StoredHead {
            vouches: false,
            ..stored
        };
        Ok(self.0.fetch(record)?.map(unvouched))
    }

    fn create(&self, new: &StoredHead) -> Result<Swap, Error> {
        self.0.create(new)
    }

    fn replace_if(
        &self,
        expected: &Head,
        new: &StoredHead,
        durability: Durability,
    ) -> Result<Swap, Error> {
        self.0.replace_if(expected, new, durability)
    }

    fn find_by_line(&self, line: &Digest) -> Result<Vec<RecordId>, Error> {
        self.0.find_by_line(line)
    }

    fn find_by_place(&self, kind: RecordKind, place: &str) -> Result<Option<StoredHead>, Error> {
        self.0.find_by_place(kind, place)
    }

    fn vouches(&self) -> bool {
        false
    }
}

/// An older copy of an open record, beside equally old heads: a continuation would fork the newer
/// record.
// T-MARK-03
#[test]
fn an_open_record_is_not_gone_on_with_where_the_log_cannot_vouch_for_its_head() {
    let mut bench = Bench::new();
    let mut recorder = bench.create();
    recorder.seal(1, Ext::default()).unwrap();
    drop(recorder);
    let good = Arc::clone(&bench.host.heads);
    bench.host.heads = Arc::new(Unvouched(Arc::clone(&good)));
    let open = |bench: &Bench| {
        Recorder::open(
            bench.host.clone(),
            &bench.path(),
            bench.keys.clone(),
            &bench.options(),
            TailPolicy::Refuse,
        )
    };
    let refused = open(&bench).err().unwrap();
    assert!(refused.to_string().contains("log status"), "{refused}");
    bench.host.heads = good;
    assert!(open(&bench).is_ok());
}
