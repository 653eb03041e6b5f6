//! A record on disk: written, truncated, rolled back, changed, and held by one writer.

mod delegate;
mod redact;

use super::*;
use crate::heads::{
    Durability, FileHeadStore, HeadStore, MemoryHeadStore, RecordKind, StoredHead, Swap,
};
use crate::read::open_regular;
use crate::sys::RealFs;
use crate::testing::{EndingKeys, Scene, end, host, nothing, say};
use std::fs;
use threadseal_core::digest::Digest;
use threadseal_core::record::{Head, RecordId};
use threadseal_core::report::Verdict;

/// A host on a real disk with one record.
struct Bench {
    scene: Scene,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let heads = folder.path().join("heads");
        fs::create_dir(&heads).unwrap();
        let heads = FileHeadStore::new(RealFs::shared(), heads);
        let scene = Scene::new(RealFs::shared(), heads);
        Self { scene, folder }
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("transcript.jsonl")
    }

    fn create(&self) -> Recorder {
        self.scene.create(&self.path()).unwrap()
    }

    /// A record of one message and a seal.
    fn sealed(&self, text: &str) -> Recorder {
        let mut recorder = self.create();
        say(&mut recorder, text).unwrap();
        recorder.seal(1, Ext::default()).unwrap();
        recorder
    }

    fn open(&self, tail: TailPolicy) -> Result<Opened, Error> {
        self.scene.open(&self.path(), tail)
    }

    fn refusal(&self) -> Error {
        self.open(TailPolicy::SetAside).map(drop).unwrap_err()
    }

    fn verdict(&self) -> Verdict {
        let file = open_regular(&RealFs, &self.path()).unwrap();
        self.scene.verify(&file, None).unwrap().report.verdict
    }

    /// The verdict of a host that does not know the record.
    fn verdict_elsewhere(&self) -> Verdict {
        let host = host(RealFs::shared(), MemoryHeadStore::default());
        let file = open_regular(&RealFs, &self.path()).unwrap();
        let outcome = Scene::of(host).verify(&file, None);
        outcome.unwrap().report.verdict
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.path()).unwrap()
    }

    fn put(&self, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(), bytes).unwrap();
    }

    /// Adds the beginning of a line; the bytes of the file.
    fn tear(&self) -> Vec<u8> {
        let torn = [&self.bytes()[..], b"{\"timest"].concat();
        self.put(&torn);
        torn
    }
}

#[test]
fn a_record_is_verified_on_the_host_that_made_it_and_open_elsewhere_until_it_ends() {
    let bench = Bench::new();
    let mut recorder = bench.sealed("a");
    assert_eq!(bench.verdict(), Verdict::Verified);
    assert_eq!(bench.verdict_elsewhere(), Verdict::Open);
    say(&mut recorder, "b").unwrap();
    assert_eq!(bench.verdict(), Verdict::UnsignedTail);
    end(&mut recorder).unwrap();
    assert_eq!(bench.verdict_elsewhere(), Verdict::Verified);
}

// T-TRA-24
#[test]
fn an_older_copy_put_back_is_rolled_back_and_cannot_be_continued() {
    let bench = Bench::new();
    let mut recorder = bench.sealed("a");
    let older = bench.bytes();
    say(&mut recorder, "b").unwrap();
    recorder.seal(2, Ext::default()).unwrap();
    drop(recorder);
    bench.put(older);
    assert_eq!(bench.verdict(), Verdict::RolledBack);
    assert_eq!(bench.refusal().kind(), ErrorKind::Refused);
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
        let mut recorder = bench.sealed("sealed");
        let sealed = bench.bytes().len();
        say(&mut recorder, "not sealed").unwrap();
        drop(recorder);
        let torn = bench.tear();
        let opened = bench.open(policy);
        if policy == TailPolicy::Refuse {
            assert!(opened.is_err());
            assert_eq!(bench.bytes(), torn);
            continue;
        }
        let mut opened = opened.unwrap();
        let ended = opened.recorder.end(Ending::Error, &nothing(), 1);
        ended.unwrap();
        if policy == TailPolicy::SetAside {
            let aside = fs::read(opened.moved.unwrap().path).unwrap();
            assert_eq!(aside, torn[sealed..]);
            assert_eq!(bench.verdict(), Verdict::Verified);
        } else {
            assert!(bench.bytes().starts_with(&torn));
            assert_eq!(bench.verdict(), Verdict::Partial);
        }
    }
}

#[test]
fn an_ended_record_with_a_tail_is_ended_again_and_a_held_tail_waits() {
    for (policy, expected) in [
        (TailPolicy::SetAside, Verdict::Verified),
        (TailPolicy::Adopt, Verdict::Partial),
        (TailPolicy::Hold, Verdict::Partial),
    ] {
        let bench = Bench::new();
        let mut recorder = bench.create();
        say(&mut recorder, "a").unwrap();
        recorder.end(Ending::Completed, &nothing(), 1).unwrap();
        drop(recorder);
        // A link that was cut off before its seal.
        let torn = bench.tear();
        let mut recorder = bench.open(policy).unwrap().recorder;
        let link = |recorder: &mut Recorder| {
            let linked = recorder.link(Link::Resumed, &nothing(), Ext::default());
            linked.map(drop)
        };
        if policy == TailPolicy::Hold {
            assert_eq!(bench.bytes(), torn);
            let refused = link(&mut recorder).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Refused);
            assert_eq!(bench.bytes(), torn);
            recorder.adopt_tail().unwrap();
        } else {
            assert_eq!(bench.verdict(), expected);
        }
        link(&mut recorder).unwrap();
        assert_eq!(bench.verdict(), expected);
    }
}

#[test]
fn a_changed_record_is_refused_with_its_reason() {
    let bench = Bench::new();
    drop(bench.sealed("allow nothing"));
    let text = String::from_utf8(bench.bytes()).unwrap();
    bench.put(text.replace("nothing", "all that"));
    let refused = bench.refusal();
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
    bench.create().seal(1, Ext::default()).unwrap();
    let good = Arc::clone(&bench.scene.host.heads);
    bench.scene.host.heads = Arc::new(Unvouched(Arc::clone(&good)));
    let refused = bench.open(TailPolicy::Refuse).map(drop).unwrap_err();
    assert!(refused.to_string().contains("log status"), "{refused}");
    bench.scene.host.heads = good;
    assert!(bench.open(TailPolicy::Refuse).is_ok());
}

// T-KLOG-48
#[test]
fn a_key_that_ends_right_before_a_seal_of_a_record_makes_none() {
    let mut bench = Bench::new();
    bench.scene.host.keys = EndingKeys::after(0);
    assert!(bench.scene.create(&bench.path()).is_err());
    assert!(!bench.path().exists());
    bench.scene.host.keys = EndingKeys::after(2);
    let mut recorder = bench.sealed("one");
    let head = *recorder.state().head().unwrap();
    say(&mut recorder, "two").unwrap();
    let refused = recorder.seal(2, Ext::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    let refused = end(&mut recorder).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    drop(recorder);
    // The lines stay, without a seal; the part before them is as good as it was.
    let known = bench.scene.host.heads.fetch(&head.record).unwrap().unwrap();
    assert_eq!(known.head, head);
    assert_eq!(bench.verdict(), Verdict::UnsignedTail);
}
