//! Attacks on logs that others write, and the states of their seals after a crash.

use super::*;
use crate::clock::SystemClock;
use crate::heads::MemoryHeadStore;
use crate::random::SystemRandom;
use crate::sys::RealFs;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey};
use threadseal_core::report::Report;
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};
use threadseal_formats::transcript::VerifyOptions;

struct Bench {
    host: Host,
    signer: LocalSigner,
    trust: Trust,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let signer = LocalSigner::new(PrivateKey::from_seed([3; 32]), KeyUsage::Observed);
        let mut store = TrustStore::new();
        let name = TrustName::parse("observer").unwrap();
        store
            .add(TrustedKey::new(
                name,
                *signer.public_key(),
                [KeyUsage::Observed],
            ))
            .unwrap();
        let host = Host {
            fs: Arc::new(RealFs),
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
            heads: Arc::new(MemoryHeadStore::default()),
        };
        Self {
            host,
            signer,
            trust: Trust::new(store),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("session.jsonl")
    }

    fn write(&self, text: &str) {
        std::fs::write(self.log(), text).unwrap();
    }

    fn seal(&self) -> Result<Sealed, Error> {
        seal(&self.host, &self.log(), false, &self.signer, &|_| {})
    }

    fn verify(&self) -> Report {
        let bytes = read_seals(&self.host, &self.log()).unwrap().unwrap();
        let seals = observed::parse(&bytes).unwrap();
        let heads = &*self.host.heads;
        let known = examine::known(Some(heads), Some(&seals.record), None, false).unwrap();
        let options = VerifyOptions {
            trust: &self.trust,
            now: Timestamp::from_micros(1_900_000_000_000_000).unwrap(),
            held_since: None,
            thread: None,
        };
        let file = open_regular(&*self.host.fs, &self.log()).unwrap();
        examine::observed(&file, &seals, &known.expect, &options, &|_| {}).unwrap()
    }
}

const LOG: &str = "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n{\"n\":4}\n{\"n\":5}\n";

// T-OBS-01
#[test]
fn the_four_edits_of_a_sealed_log_are_found_at_their_line() {
    let lines: Vec<&str> = LOG.split_inclusive('\n').collect();
    let bench = Bench::new();
    bench.write(LOG);
    assert!(matches!(bench.seal().unwrap(), Sealed::Added(_)));
    assert_eq!(bench.verify().verdict, Verdict::Verified);
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
            let report = bench.verify();
            assert_eq!(report.verdict, Verdict::Tampered, "{code} at {line}");
            let finding = &report.findings[0];
            assert_eq!(
                (finding.code.as_str(), finding.line),
                (code, Some(line as u64 + 1))
            );
            assert_eq!(bench.seal().unwrap_err().kind(), ErrorKind::Refused);
        }
    }
}

#[test]
fn an_edit_among_equal_lines_is_told_for_what_it_is() {
    let bench = Bench::new();
    bench.write("1\n2\n2\n3\n2\n4\n");
    bench.seal().unwrap();
    for (edited, line, code) in [
        ("1\n9\n2\n3\n2\n4\n", 2, "line_changed"),
        ("1\n9\n2\n2\n3\n2\n4\n", 2, "line_inserted"),
        ("1\n2\n2\n3\n9\n4\n", 5, "line_changed"),
        ("1\n2\n2\n2\n4\n", 4, "line_deleted"),
        ("1\n2\n2\n3\n4\n2\n", 5, "line_moved"),
    ] {
        bench.write(edited);
        let report = bench.verify();
        let finding = &report.findings[0];
        assert_eq!(
            (finding.code.as_str(), finding.line),
            (code, Some(line)),
            "{edited:?}"
        );
    }
}

#[test]
fn growth_is_an_unsigned_tail_until_it_is_sealed() {
    let bench = Bench::new();
    bench.write(LOG);
    bench.seal().unwrap();
    let first = std::fs::read(seal_path(&bench.log())).unwrap();
    bench.write(&format!("{LOG}{{\"n\":6}}\n{{\"to"));
    assert_eq!(bench.verify().verdict, Verdict::UnsignedTail);
    assert!(matches!(bench.seal().unwrap(), Sealed::Added(seal) if seal.lines == 6));
    let second = std::fs::read(seal_path(&bench.log())).unwrap();
    assert!(second.starts_with(&first), "a seal is never replaced");
    assert_eq!(bench.verify().verdict, Verdict::UnsignedTail);
    assert_eq!(bench.seal().unwrap(), Sealed::Unchanged);
}

#[test]
fn a_whole_object_without_line_end_is_sealed_and_may_get_its_line_end_later() {
    let bench = Bench::new();
    bench.write("{\"n\":1}\n{\"n\":2}");
    assert!(matches!(bench.seal().unwrap(), Sealed::Added(seal) if seal.lines == 2));
    assert_eq!(bench.verify().verdict, Verdict::Verified);
    bench.write("{\"n\":1}\n{\"n\":2}\n");
    assert_eq!(bench.verify().verdict, Verdict::Verified);
    bench.write("{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n");
    assert!(matches!(bench.seal().unwrap(), Sealed::Added(seal) if seal.lines == 3));
    assert_eq!(bench.verify().verdict, Verdict::Verified);
}

// T-OBS-03
#[test]
fn cut_logs_older_seals_and_lost_seals_are_noticed_on_this_host() {
    let bench = Bench::new();
    bench.write("{\"n\":1}\n{\"n\":2}\n");
    bench.seal().unwrap();
    let older = std::fs::read(seal_path(&bench.log())).unwrap();
    bench.write(LOG);
    bench.seal().unwrap();
    bench.write("{\"n\":1}\n{\"n\":2}\n");
    assert_eq!(bench.verify().verdict, Verdict::Truncated);
    std::fs::write(seal_path(&bench.log()), older).unwrap();
    assert_eq!(bench.verify().verdict, Verdict::RolledBack);
    assert!(bench.seal().is_err());
    std::fs::remove_file(seal_path(&bench.log())).unwrap();
    assert!(bench.seal().is_err());
    let file = open_regular(&*bench.host.fs, &bench.log()).unwrap();
    assert!(
        examine::stripped_of(&file, &bench.host)
            .unwrap()
            .unwrap()
            .certain
    );

    let copy = bench.folder.path().join("copy.jsonl");
    std::fs::write(&copy, LOG).unwrap();
    let file = open_regular(&*bench.host.fs, &copy).unwrap();
    assert!(
        !examine::stripped_of(&file, &bench.host)
            .unwrap()
            .unwrap()
            .certain
    );
}

// T-OBS-02
#[test]
fn every_changed_byte_of_a_seal_file_is_noticed() {
    let bench = Bench::new();
    bench.write(LOG);
    bench.seal().unwrap();
    let path = seal_path(&bench.log());
    let good = std::fs::read(&path).unwrap();
    for at in 0..good.len() {
        for value in [good[at] ^ 1, good[at] ^ 0x80, b'\n'] {
            if value == good[at] {
                continue;
            }
            let mut bad = good.clone();
            bad[at] = value;
            std::fs::write(&path, &bad).unwrap();
            let bytes = read_seals(&bench.host, &bench.log()).unwrap().unwrap();
            let verified =
                observed::parse(&bytes).is_ok() && bench.verify().verdict == Verdict::Verified;
            assert!(!verified, "byte {at} set to {value}");
        }
    }
}

#[test]
fn a_seal_file_that_a_crash_left_torn_is_mended_by_the_next_seal() {
    let leaves = "{\"leaves\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"}\n";
    for torn in ["{\"leaves\":\"", leaves] {
        let bench = Bench::new();
        bench.write("{\"n\":1}\n");
        bench.seal().unwrap();
        let path = seal_path(&bench.log());
        let good = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&good[..], torn.as_bytes()].concat()).unwrap();
        assert_eq!(bench.verify().verdict, Verdict::Verified);
        bench.write("{\"n\":1}\n{\"n\":2}\n");
        bench.seal().unwrap();
        assert_eq!(bench.verify().verdict, Verdict::Verified);
        assert!(bench.verify().findings.is_empty());
    }
}
