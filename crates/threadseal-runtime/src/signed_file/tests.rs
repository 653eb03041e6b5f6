//! Writes that fail at each call to the disk, and the writes after them.

use super::*;
use crate::testing::prelude::*;
use std::collections::BTreeMap;
use threadseal_core::digest::Digest;
use threadseal_log::LoggedHeads;
use threadseal_store::heads::{FileHeadStore, HeadStore, StoredHead, Swap};
use threadseal_store::testing::EndingKeys;

const KIND: DocumentKind = DocumentKind::Json;

/// The path of the file on the disk of a scene.
fn path() -> &'static Path {
    Path::new("/p/thread.json")
}

fn failing() -> (FaultFs, Scene) {
    let (disk, mut scene) = Scene::failing();
    scene.host.heads = Arc::new(FileHeadStore::new(disk.shared(), "/p/heads"));
    (disk, scene)
}

fn new(scene: &Scene) -> SignedFile {
    SignedFile::new(&scene.host, path(), KIND, None).unwrap()
}

fn write(scene: &Scene, file: &mut SignedFile, text: &str) -> Result<Head, Error> {
    let content = format!("{{\"says\": \"{text}\"}}\n");
    file.write(&scene.host, &scene.keys, None, content.as_bytes())
}

fn options(scene: &Scene) -> Options<'_> {
    Options::new(KIND, &scene.trust, scene.host.clock.now().unwrap())
}

/// The head of the file, regardless of how far a write came.
fn standing(scene: &Scene) -> Option<Head> {
    let bytes = read_small(&*scene.host.fs, path(), MAX_DOCUMENT_BYTES).ok()?;
    let outcome = document::verify(&bytes, &options(scene));
    outcome.unwrap().report.head
}

/// No number has two contents, and the last file verifies.
fn each_fault(before: usize, again: &dyn Fn(&Scene, SignedFile, &Head) -> SignedFile) {
    let begun = || {
        let (disk, scene) = failing();
        let mut file = new(&scene);
        for version in 0..before {
            write(&scene, &mut file, &format!("before {version}")).unwrap();
        }
        (disk, scene, file)
    };
    let (disk, scene, mut file) = begun();
    let start = disk.calls();
    write(&scene, &mut file, "one").unwrap();
    let calls = disk.calls() - start;
    let mut failed = 0;
    for (call, kind) in (0..calls).flat_map(|call| FaultKind::ALL.map(|kind| (call, kind))) {
        let (disk, scene, mut file) = begun();
        disk.plan(call, kind);
        let done = write(&scene, &mut file, "one");
        let what = format!("call {call} of {calls}, {kind:?} at {:?}", disk.struck());
        // The number of calls differs a little, with the folders that the heads need.
        if disk.struck().is_none() {
            continue;
        }
        failed += usize::from(done.is_err());
        disk.heal();
        let mut seen = BTreeMap::new();
        let known = scene.host.heads.fetch(&file.record).unwrap();
        let known = known.map(|known| known.head);
        let mut see = |head: Head| {
            let first = *seen.entry(head.seq).or_insert(head);
            assert_eq!(first, head, "{what}");
        };
        known.into_iter().chain(standing(&scene)).for_each(&mut see);
        if let Some(known) = known {
            file = again(&scene, file, &known);
        }
        for text in ["two", "three"] {
            see(write(&scene, &mut file, text).unwrap_or_else(|error| panic!("{what}: {error}")));
            let checked = read_verified(&scene.host, path(), &options(&scene));
            let checked = checked.unwrap_or_else(|error| panic!("{what}: {error}"));
            String::from_utf8_lossy(&checked.bytes).has(text);
        }
    }
    assert!(failed > 10, "{failed}");
}

// T-RUN-24
#[test]
fn a_number_that_a_failed_write_used_is_never_used_again() {
    for before in [0, 1] {
        each_fault(before, &|_, file, _| file);
    }
}

// T-RUN-24
#[test]
fn whoever_goes_on_from_the_known_head_spares_the_number_of_a_file_that_is_ahead() {
    each_fault(1, &|scene, _, known| {
        SignedFile::over(&scene.host, &scene.keys, path(), KIND, None, known).unwrap()
    });
}

// T-RUN-24
#[test]
fn a_version_without_a_head_is_whole_or_gone_and_no_number_of_it_is_used_again() {
    let write_ahead = |scene: &Scene, file: &mut SignedFile, text: &str| {
        let content = format!("{{\"says\": \"{text}\"}}\n");
        file.write_ahead(&scene.host, &scene.keys, content.as_bytes())
    };
    let keeps = |call| [Keep::Nothing, Keep::Everything, Keep::ByLot(call as u64)];
    let mut gone = 0;
    for (call, keep) in (0..30).flat_map(|call| keeps(call).map(|keep| (call, keep))) {
        let (disk, scene) = failing();
        let mut file = new(&scene);
        let known = write(&scene, &mut file, "one").unwrap();
        disk.plan(call, FaultKind::PowerOff);
        for text in ["two", "three"] {
            let _ = write_ahead(&scene, &mut file, text);
        }
        let last = file.next;
        disk.cut_power(keep);
        let read = || read_verified(&scene.host, path(), &options(&scene));
        let found = read().unwrap_or_else(|error| panic!("call {call}, {keep:?}: {error}"));
        let head = found.head.unwrap();
        assert!((known.seq..last).contains(&head.seq), "{head}");
        gone += u64::from(head == known);
        let mut next = SignedFile::after(&scene.host, path(), KIND, None, &head).unwrap();
        next.pass_over(64);
        let four = write(&scene, &mut next, "four").unwrap();
        assert!(four.seq >= last, "{four}");
        assert_eq!(read().unwrap().head, Some(four));
    }
    assert!((10..90).contains(&gone), "{gone}");
}

/// Heads on a host whose log declares everything as pruned.
#[derive(Debug)]
struct AllPruned(Arc<dyn HeadStore>);

impl HeadStore for AllPruned {
    fn fetch(&self, record: &RecordId) -> Result<Option<StoredHead>, Error> {
        self.0.fetch(record)
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

    fn pruned(&self, record: &RecordId) -> Result<Option<Arc<str>>, Error> {
        Ok(self.0.fetch(record)?.map(|_| Arc::from("entry 7")))
    }
}

// T-PRU-18
#[test]
fn a_file_that_was_pruned_takes_no_version_and_what_is_written_there_is_another_record() {
    let (_, mut scene) = failing();
    let before = write(&scene, &mut new(&scene), "before").unwrap();
    scene.host.heads = Arc::new(AllPruned(Arc::clone(&scene.host.heads)));
    let mut after = SignedFile::after(&scene.host, path(), KIND, None, &before).unwrap();
    let first = write(&scene, &mut after, "after").unwrap();
    assert_ne!(first.record, before.record);
    assert_eq!(first.seq, 0);
    let known = scene.host.heads.fetch(&before.record).unwrap().unwrap();
    assert_eq!(known.head, before);
    let second = write(&scene, &mut after, "again").unwrap();
    assert_eq!((second.record, second.seq), (first.record, 1));
}

// T-MARK-04
#[test]
fn no_file_is_gone_on_with_where_the_log_cannot_vouch_for_its_head() {
    let (_, mut scene) = failing();
    let head = write(&scene, &mut new(&scene), "one").unwrap();
    let good = Arc::clone(&scene.host.heads);
    scene.host.heads = Arc::new(LoggedHeads::without_log(Arc::clone(&good)));
    let open = |scene: &Scene| SignedFile::after(&scene.host, path(), KIND, None, &head);
    open(&scene).fails_with("log status");
    scene.host.heads = good;
    write(&scene, &mut open(&scene).unwrap(), "two").unwrap();
}

// T-KLOG-48
#[test]
fn a_key_that_ends_right_before_a_signed_file_writes_none() {
    let (_, mut scene) = failing();
    scene.host.keys = EndingKeys::after(1);
    let mut file = new(&scene);
    let head = write(&scene, &mut file, "one").unwrap();
    let refused = write(&scene, &mut file, "two").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    assert_eq!(standing(&scene), Some(head));
}
