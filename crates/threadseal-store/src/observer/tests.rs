//! Attacks on logs that others write, and the states of their seals after a crash.

use super::*;
use crate::heads::MemoryHeadStore;
use crate::sys::RealFs;
use crate::testing::{EndingKeys, host, options, signer, trust};
use std::fs;
use threadseal_core::key::{KeyUsage, LocalSigner};
use threadseal_core::report::Report;

/// A host that observes one log.
struct Bench {
    host: Host,
    signer: LocalSigner,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new(text: &str) -> Self {
        let bench = Self {
            host: host(RealFs::shared(), MemoryHeadStore::default()),
            signer: signer(3, KeyUsage::Observed),
            folder: tempfile::tempdir().unwrap(),
        };
        bench.write(text);
        bench
    }

    fn sealed(text: &str) -> Self {
        let bench = Self::new(text);
        assert!(matches!(bench.seal().unwrap(), Sealed::Added(_)));
        bench
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("session.jsonl")
    }

    fn write(&self, text: &str) {
        fs::write(self.log(), text).unwrap();
    }

    fn added(&self) -> ObservedSeal {
        match self.seal().unwrap() {
            Sealed::Added(seal) => *seal,
            other => panic!("{other:?}"),
        }
    }

    fn seal(&self) -> Result<Sealed, Error> {
        seal(
            &self.host,
            &self.log(),
            false,
            Duration::ZERO,
            &self.signer,
            &|_| {},
        )
        .map(|done| done.sealed)
    }

    fn verify(&self) -> Report {
        let bytes = read_seals(&self.host, &self.log()).unwrap().unwrap();
        let seals = observed::parse(&bytes).unwrap();
        let heads = &*self.host.heads;
        let known = examine::known(Some(heads), Some(&seals.record), None, false).unwrap();
        let (trust, file) = (trust(&self.signer), self.file(&self.log()));
        let options = options(&trust);
        examine::observed(&file, &seals, &known.expect, &options, &|_| {}).unwrap()
    }

    fn verdict(&self) -> Verdict {
        self.verify().verdict
    }

    /// The code and the line of the first finding.
    fn finding(&self) -> (String, Option<u64>) {
        let finding = self.verify().findings.remove(0);
        (finding.code.as_str().to_owned(), finding.line)
    }

    fn file(&self, path: &Path) -> RegularFile {
        open_regular(&*self.host.fs, path).unwrap()
    }

    fn seals(&self) -> Vec<u8> {
        fs::read(seal_path(&self.log())).unwrap()
    }

    fn put_seals(&self, bytes: &[u8]) {
        fs::write(seal_path(&self.log()), bytes).unwrap();
    }
}

const LOG: &str = "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n{\"n\":4}\n{\"n\":5}\n";

// T-OBS-01
#[test]
fn the_four_edits_of_a_sealed_log_are_found_at_their_line() {
    let lines: Vec<&str> = LOG.split_inclusive('\n').collect();
    let bench = Bench::sealed(LOG);
    assert_eq!(bench.verdict(), Verdict::Verified);
    for line in 0..lines.len() - 1 {
        let mut changed = lines.clone();
        changed[line] = "{\"n\":9}\n";
        let mut inserted = lines.clone();
        inserted.insert(line, "{\"n\":9}\n");
        let mut deleted = lines.clone();
        deleted.remove(line);
        let mut moved = lines.clone();
        moved.swap(line, line + 1);
        for (edit, code) in [
            (changed, "line_changed"),
            (inserted, "line_inserted"),
            (deleted, "line_deleted"),
            (moved, "line_moved"),
        ] {
            bench.write(&edit.concat());
            assert_eq!(bench.verdict(), Verdict::Tampered, "{code} at {line}");
            let expected = (code.to_owned(), Some(line as u64 + 1));
            assert_eq!(bench.finding(), expected);
            assert_eq!(bench.seal().unwrap_err().kind(), ErrorKind::Refused);
        }
    }
}

#[test]
fn an_edit_among_equal_lines_is_told_for_what_it_is() {
    let bench = Bench::sealed("1\n2\n2\n3\n2\n4\n");
    for (edited, line, code) in [
        ("1\n9\n2\n3\n2\n4\n", 2, "line_changed"),
        ("1\n9\n2\n2\n3\n2\n4\n", 2, "line_inserted"),
        ("1\n2\n2\n3\n9\n4\n", 5, "line_changed"),
        ("1\n2\n2\n2\n4\n", 4, "line_deleted"),
        ("1\n2\n2\n3\n4\n2\n", 5, "line_moved"),
    ] {
        bench.write(edited);
        let expected = (code.to_owned(), Some(line));
        assert_eq!(bench.finding(), expected, "{edited:?}");
    }
}

#[test]
fn growth_is_an_unsigned_tail_until_it_is_sealed() {
    let bench = Bench::sealed(LOG);
    let first = bench.seals();
    bench.write(&format!("{LOG}{{\"n\":6}}\n{{\"to"));
    assert_eq!(bench.verdict(), Verdict::UnsignedTail);
    assert!(matches!(bench.seal().unwrap(), Sealed::Added(seal) if seal.lines == 6));
    let second = bench.seals();
    assert!(second.starts_with(&first), "a seal is never replaced");
    assert_eq!(bench.verdict(), Verdict::UnsignedTail);
    assert_eq!(bench.seal().unwrap(), Sealed::Unchanged);
}

#[test]
fn a_whole_object_without_line_end_is_sealed_and_may_get_its_line_end_later() {
    let bench = Bench::new("{\"n\":1}\n{\"n\":2}");
    assert!(matches!(bench.seal().unwrap(), Sealed::Added(seal) if seal.lines == 2));
    assert_eq!(bench.verdict(), Verdict::Verified);
    bench.write("{\"n\":1}\n{\"n\":2}\n");
    assert_eq!(bench.verdict(), Verdict::Verified);
    bench.write("{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n");
    assert!(matches!(bench.seal().unwrap(), Sealed::Added(seal) if seal.lines == 3));
    assert_eq!(bench.verdict(), Verdict::Verified);
}

// T-OBS-03
#[test]
fn cut_logs_older_seals_and_lost_seals_are_noticed_on_this_host() {
    let bench = Bench::sealed("{\"n\":1}\n{\"n\":2}\n");
    let older = bench.seals();
    bench.write(LOG);
    bench.seal().unwrap();
    bench.write("{\"n\":1}\n{\"n\":2}\n");
    assert_eq!(bench.verdict(), Verdict::Truncated);
    bench.put_seals(&older);
    assert_eq!(bench.verdict(), Verdict::RolledBack);
    assert!(bench.seal().is_err());
    fs::remove_file(seal_path(&bench.log())).unwrap();
    assert!(bench.seal().is_err());
    let is_certain = |path: &Path| {
        let stripped = examine::stripped_of(&bench.file(path), &bench.host);
        stripped.unwrap().unwrap().certain
    };
    assert!(is_certain(&bench.log()));
    let copy = bench.folder.path().join("copy.jsonl");
    fs::write(&copy, LOG).unwrap();
    assert!(!is_certain(&copy));
}

// T-OBS-02
#[test]
fn every_changed_byte_of_a_seal_file_is_noticed() {
    let bench = Bench::sealed(LOG);
    let good = bench.seals();
    for at in 0..good.len() {
        for value in [good[at] ^ 1, good[at] ^ 0x80, b'\n'] {
            if value == good[at] {
                continue;
            }
            let mut bad = good.clone();
            bad[at] = value;
            bench.put_seals(&bad);
            let bytes = read_seals(&bench.host, &bench.log()).unwrap().unwrap();
            let verified = observed::parse(&bytes).is_ok() && bench.verdict() == Verdict::Verified;
            assert!(!verified, "byte {at} set to {value}");
        }
    }
}

#[test]
fn a_seal_file_that_a_crash_left_torn_is_mended_by_the_next_seal() {
    let leaves = "{\"leaves\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"}\n";
    for torn in ["{\"leaves\":\"", leaves] {
        let bench = Bench::sealed("{\"n\":1}\n");
        bench.put_seals(&[&bench.seals()[..], torn.as_bytes()].concat());
        assert_eq!(bench.verdict(), Verdict::Verified);
        bench.write("{\"n\":1}\n{\"n\":2}\n");
        bench.seal().unwrap();
        assert_eq!(bench.verdict(), Verdict::Verified);
        assert!(bench.verify().findings.is_empty());
    }
}

// T-OBS-16
#[test]
fn the_next_seal_publishes_a_head_that_a_killed_process_did_not() {
    let nothing_known = || host(RealFs::shared(), MemoryHeadStore::default());
    let mut bench = Bench::new("{\"a\":1}\n");
    let first = bench.added();
    // The process made the first seal, and was killed before its head was known.
    bench.host = nothing_known();
    assert_eq!(bench.seal().unwrap(), Sealed::Unchanged);
    assert_eq!(known_head(&bench, &first), Some(first.head));
    // The same at the second seal.
    let known = std::mem::replace(&mut bench.host, nothing_known());
    bench.write("{\"a\":1}\n{\"b\":2}\n");
    let second = bench.added();
    bench.host = known;
    assert_eq!(known_head(&bench, &first), Some(first.head));
    assert_eq!(bench.seal().unwrap(), Sealed::Unchanged);
    assert_eq!(known_head(&bench, &first), Some(second.head));
    // A home does not take the seals of another key for its own.
    bench.host = nothing_known();
    bench.signer = signer(4, KeyUsage::Observed);
    assert_eq!(bench.seal().unwrap(), Sealed::Unchanged);
    assert_eq!(known_head(&bench, &first), None);
}

fn known_head(bench: &Bench, seal: &ObservedSeal) -> Option<threadseal_core::record::Head> {
    let known = bench.host.heads.fetch(&seal.head.record).unwrap();
    known.map(|known| known.head)
}

// T-OBS-51
#[test]
fn a_log_of_more_lines_than_a_seal_file_covers_is_refused() {
    let bench = Bench::new(&"\n".repeat(MAX_OBSERVED_LINES + 1));
    let refused = bench.seal().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Limit);
    assert!(
        refused.to_string().contains("more than 1048576 lines"),
        "{refused}"
    );
    assert!(!seal_path(&bench.log()).exists());
}

// T-CMD-20
#[test]
fn a_seal_file_keeps_room_for_the_next_seal() {
    let limit = MAX_SEAL_FILE_BYTES as u64;
    check_size(0, MAX_OBSERVED_LINES).unwrap();
    check_size(limit / 2, 1024).unwrap();
    for (sealed, leaves) in [
        (limit, 1),
        (limit - 4096, 1),
        (limit / 2, MAX_OBSERVED_LINES),
    ] {
        let error = check_size(sealed, leaves).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
    }
}

// T-KLOG-48
#[test]
fn a_key_that_ends_right_before_a_seal_of_a_log_makes_none() {
    let mut bench = Bench::new("{\"a\":1}\n");
    bench.host.keys = EndingKeys::after(0);
    assert_eq!(bench.seal().unwrap_err().kind(), ErrorKind::Refused);
    assert!(!seal_path(&bench.log()).exists());
    bench.host.keys = EndingKeys::after(1);
    let first = bench.added();
    let seals = bench.seals();
    bench.write("{\"a\":1}\n{\"b\":2}\n");
    assert_eq!(bench.seal().unwrap_err().kind(), ErrorKind::Refused);
    assert_eq!(bench.seals(), seals);
    assert_eq!(known_head(&bench, &first), Some(first.head));
}
