//! Writes that fail at each call to the disk, and the writes after them.

use super::*;
use crate::testing::Bench;
use std::collections::BTreeMap;
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_log::LoggedHeads;
use threadseal_store::fault::{FaultFs, FaultKind};
use threadseal_store::heads::{FileHeadStore, HeadStore, StoredHead, Swap};
use threadseal_store::sys::Fs as _;

const PATH: &str = "/p/thread.json";

fn failing() -> (FaultFs, Bench) {
    let disk = FaultFs::new();
    disk.create_dir(Path::new("/p"), 0o700).unwrap();
    let mut bench = Bench::new();
    bench.host.fs = disk.shared();
    bench.host.heads = Arc::new(FileHeadStore::new(disk.shared(), "/p/heads"));
    (disk, bench)
}

fn write(bench: &Bench, file: &mut SignedFile, text: &str) -> Result<Head, Error> {
    let content = format!("{{\"says\": \"{text}\"}}\n");
    file.write(&bench.host, &bench.keys, None, content.as_bytes())
}

fn options(bench: &Bench) -> Options<'_> {
    Options::new(
        DocumentKind::Json,
        &bench.trust,
        bench.host.clock.now().unwrap(),
    )
}

/// The head of the file, regardless of how far a write came.
fn standing(bench: &Bench) -> Option<Head> {
    let bytes = read_small(&*bench.host.fs, Path::new(PATH), MAX_DOCUMENT_BYTES).ok()?;
    document::verify(&bytes, &options(bench))
        .unwrap()
        .report
        .head
}

/// No number has two contents, and the last file verifies.
fn each_fault(before: usize, again: &dyn Fn(&Bench, SignedFile, &Head) -> SignedFile) {
    let begun = |bench: &Bench| {
        let mut file =
            SignedFile::new(&bench.host, Path::new(PATH), DocumentKind::Json, None).unwrap();
        for version in 0..before {
            write(bench, &mut file, &format!("before {version}")).unwrap();
        }
        file
    };
    let (disk, bench) = failing();
    let mut file = begun(&bench);
    let start = disk.calls();
    write(&bench, &mut file, "one").unwrap();
    let calls = disk.calls() - start;
    let mut failed = 0;
    for (call, kind) in (0..calls).flat_map(|call| FaultKind::ALL.map(|kind| (call, kind))) {
        let (disk, bench) = failing();
        let mut file = begun(&bench);
        disk.plan(call, kind);
        let done = write(&bench, &mut file, "one");
        let what = format!("call {call} of {calls}, {kind:?} at {:?}", disk.struck());
        // The number of calls differs a little, with the folders that the heads need.
        if disk.struck().is_none() {
            continue;
        }
        failed += usize::from(done.is_err());
        disk.heal();
        let mut seen = BTreeMap::new();
        let known = bench.host.heads.fetch(&file.record).unwrap();
        let known = known.map(|known| known.head);
        let mut see = |head: Head| {
            let first = *seen.entry(head.seq).or_insert(head);
            assert_eq!(first, head, "{what}");
        };
        known.into_iter().chain(standing(&bench)).for_each(&mut see);
        if let Some(known) = known {
            file = again(&bench, file, &known);
        }
        for text in ["two", "three"] {
            see(write(&bench, &mut file, text).unwrap_or_else(|error| panic!("{what}: {error}")));
            let checked = read_verified(&bench.host, Path::new(PATH), &options(&bench));
            let checked = checked.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(
                String::from_utf8_lossy(&checked.bytes).contains(text),
                "{what}"
            );
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
    each_fault(1, &|bench, _, known| {
        let path = Path::new(PATH);
        SignedFile::over(
            &bench.host,
            &bench.keys,
            path,
            DocumentKind::Json,
            None,
            known,
        )
        .unwrap()
    });
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
    let (_, mut bench) = failing();
    let path = Path::new(PATH);
    let mut file = SignedFile::new(&bench.host, path, DocumentKind::Json, None).unwrap();
    let before = write(&bench, &mut file, "before").unwrap();
    bench.host.heads = Arc::new(AllPruned(Arc::clone(&bench.host.heads)));
    let mut after =
        SignedFile::after(&bench.host, path, DocumentKind::Json, None, &before).unwrap();
    let first = write(&bench, &mut after, "after").unwrap();
    assert_ne!(first.record, before.record);
    assert_eq!(first.seq, 0);
    let known = bench.host.heads.fetch(&before.record).unwrap().unwrap();
    assert_eq!(known.head, before);
    let second = write(&bench, &mut after, "again").unwrap();
    assert_eq!((second.record, second.seq), (first.record, 1));
}

// T-MARK-04
#[test]
fn no_file_is_gone_on_with_where_the_log_cannot_vouch_for_its_head() {
    let (_, mut bench) = failing();
    let mut file = SignedFile::new(&bench.host, Path::new(PATH), DocumentKind::Json, None).unwrap();
    let head = write(&bench, &mut file, "one").unwrap();
    let good = Arc::clone(&bench.host.heads);
    bench.host.heads = Arc::new(LoggedHeads::without_log(Arc::clone(&good)));
    let open = |bench: &Bench| {
        SignedFile::after(
            &bench.host,
            Path::new(PATH),
            DocumentKind::Json,
            None,
            &head,
        )
    };
    let refused = open(&bench).unwrap_err();
    assert!(refused.to_string().contains("log status"), "{refused}");
    bench.host.heads = good;
    write(&bench, &mut open(&bench).unwrap(), "two").unwrap();
}
