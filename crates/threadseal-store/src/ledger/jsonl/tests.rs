//! Ledger files: their contents, the remains of crashes and other programs, and refusals.

use super::*;
use crate::ledger::LedgerStoreExt as _;
use crate::ledger::conformance::{self, append_next, entry, fill, run_id, whole_chain};
use crate::sys::RealFs;
use std::fs;
use threadseal_core::digest::Digest;

struct Bench {
    folder: tempfile::TempDir,
    run: RunId,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            folder,
            run: run_id("r-1"),
        }
    }

    fn store(&self) -> JsonlLedgerStore {
        JsonlLedgerStore::open(RealFs::shared(), self.folder.path()).unwrap()
    }

    fn with_records(count: usize) -> Self {
        let bench = Self::new();
        fill(&bench.store(), &bench.run, count);
        bench
    }

    fn path(&self, ending: &str) -> PathBuf {
        let name = format!("ledger_{}{ending}", self.run);
        self.folder.path().join(name)
    }

    fn index(&self) -> Vec<u8> {
        fs::read(self.path(".index")).unwrap()
    }

    fn put_index(&self, bytes: &[u8]) {
        fs::write(self.path(".index"), bytes).unwrap();
    }

    /// How many records a new process reads, all of which are one chain.
    fn length(&self) -> usize {
        whole_chain(&self.store(), &self.run).len()
    }

    /// Asserts that a new process refuses to append.
    #[track_caller]
    fn refuses(&self, what: impl std::fmt::Debug) {
        let refused = self.append("next").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Refused, "{what:?}");
    }

    fn ledger(&self) -> Vec<u8> {
        fs::read(self.path(".jsonl")).unwrap()
    }

    fn put(&self, bytes: &[u8]) {
        fs::write(self.path(".jsonl"), bytes).unwrap();
    }

    fn append(&self, text: &str) -> Result<u64, Error> {
        append_next(&self.store(), &self.run, text)
    }

    fn faults(&self, repair: bool) -> Vec<(&'static str, bool)> {
        conformance::faults(&self.store(), &self.run, repair)
    }

    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<_> = names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

// T-PRU-20 T-STO-02 T-STO-06 T-STO-07 T-STO-27
#[test]
fn ledger_files_pass_the_suite_with_fsync_and_without() {
    for open in [JsonlLedgerStore::open, JsonlLedgerStore::open_without_fsync] {
        conformance::run(&|| {
            let folder = tempfile::tempdir().unwrap();
            Box::new(move || Box::new(open(RealFs::shared(), folder.path()).unwrap()))
        });
    }
}

#[test]
fn a_ledger_is_its_lines_and_nothing_else() {
    let bench = Bench::with_records(3);
    let mut expected = Vec::new();
    for record in bench.store().list(&bench.run, 0) {
        expected.extend(record.unwrap().line);
        expected.push(b'\n');
    }
    assert_eq!(bench.ledger(), expected);
    assert_eq!(bench.names(), ["ledger_r-1.index", "ledger_r-1.jsonl"]);
    assert_eq!(bench.index().len(), 4 * 64);
}

/// W3: AbstractRuntime glues the next record to a torn line and loses both.
// T-STO-01
#[test]
fn a_torn_line_is_moved_aside_and_never_written_after() {
    let bench = Bench::with_records(3);
    let whole = bench.ledger();
    let torn = [&whole[..], b"{\"run_id\":\"r-1\",\"st"].concat();
    bench.put(&torn);
    assert_eq!(bench.length(), 3);
    assert_eq!(bench.faults(false), [("torn_tail", false)]);
    bench.append("next").unwrap();
    assert_eq!(bench.length(), 4);
    assert!(bench.ledger().starts_with(&whole));
    let tail = &torn[whole.len()..];
    let aside = format!(".jsonl.tail-{}-{}", whole.len(), Digest::of(tail));
    assert_eq!(fs::read(bench.path(&aside)).unwrap(), tail);
    assert_eq!(bench.faults(false), []);
}

#[test]
fn every_cut_of_the_last_record_is_settled_or_refused_as_rolled_back() {
    let bench = Bench::with_records(3);
    let (whole, index) = (bench.ledger(), bench.index());
    let mut before_last = whole[..whole.len() - 1].iter();
    let last = before_last.rposition(|byte| *byte == b'\n').unwrap() + 1;
    for end in last..whole.len() {
        bench.put(&whole[..end]);
        // The record was acknowledged: the index knows.
        bench.put_index(&index);
        bench.refuses(end);
        // Only the line feed is missing: nothing was lost, and fsck may report that.
        let lacks_only_its_end = end == whole.len() - 1;
        let faults = bench.faults(true);
        if lacks_only_its_end {
            assert_eq!(faults, [("no_line_feed", true)]);
            assert_eq!(bench.ledger(), whole);
            bench.put(&whole[..end]);
        } else {
            let is_found = faults.contains(&("rolled_back", false));
            assert!(is_found, "{end}: {faults:?}");
            assert_eq!(bench.ledger(), whole[..end]);
        }
        // The record was not acknowledged: a crash before the entry was written.
        bench.put_index(&index[..3 * 64]);
        bench.append("next").unwrap();
        let expected = if lacks_only_its_end { 4 } else { 3 };
        assert_eq!(bench.length(), expected, "{end}");
        assert_eq!(bench.faults(false), [], "{end}");
        assert_eq!(bench.index().len(), 64 * (expected + 1));
    }
}

#[test]
fn a_lost_or_damaged_index_is_made_again_and_never_believed_against_the_file() {
    let bench = Bench::with_records(20);
    let (whole, index) = (bench.ledger(), bench.index());
    let mut damaged = vec![
        Vec::new(),
        index[..64].to_vec(),
        index[..64 * 7 + 5].to_vec(),
        vec![0; index.len()],
        index[64..].to_vec(),
    ];
    for place in [3, 64, 70, 64 * 20, 64 * 21 - 1] {
        let mut flipped = index.clone();
        flipped[place] ^= 1;
        damaged.push(flipped);
    }
    for bytes in damaged {
        bench.put_index(&bytes);
        assert_eq!(bench.length(), 20);
        let found = bench.store().find_completed(&bench.run, "no key");
        assert_eq!(found.unwrap(), None);
        bench.append("next").unwrap();
        assert_eq!(bench.length(), 21);
        bench.faults(true);
        assert_eq!(bench.faults(false), []);
        assert!(bench.ledger().starts_with(&whole));
        bench.put(&whole);
        let _ = fs::remove_file(bench.path(".index"));
    }
}

// T-STO-03
#[test]
fn a_file_that_was_cut_changed_put_back_or_removed_takes_no_record() {
    let bench = Bench::with_records(5);
    let (whole, index) = (bench.ledger(), bench.index());
    let cut = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let mut changed = whole.clone();
    let last = changed.len() - 30;
    changed[last] ^= 1;
    for (bytes, code) in [
        (&whole[..cut], "rolled_back"),
        (b"", "rolled_back"),
        (&changed, "changed"),
    ] {
        bench.put(bytes);
        bench.refuses(code);
        let faults = bench.faults(true);
        assert!(faults.contains(&(code, false)), "{faults:?}");
        assert_eq!(bench.ledger(), bytes);
        assert_eq!(bench.index(), index);
    }
    fs::remove_file(bench.path(".jsonl")).unwrap();
    bench.refuses("missing");
    assert_eq!(bench.faults(true), [("missing", false)]);
}

#[test]
fn a_change_of_the_file_between_two_appends_of_one_process_is_noticed() {
    let bench = Bench::with_records(5);
    let store = bench.store();
    append_next(&store, &bench.run, "warm").unwrap();
    let whole = bench.ledger();
    bench.put(&whole[..whole.len() / 2]);
    let refused = append_next(&store, &bench.run, "next").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    bench.put(&whole);
    append_next(&store, &bench.run, "next").unwrap();
    fs::remove_file(bench.path(".index")).unwrap();
    append_next(&store, &bench.run, "after the index went").unwrap();
    assert_eq!(bench.length(), 8);
    assert_eq!(bench.index().len(), 9 * 64);
}

#[test]
fn what_another_program_wrote_is_taken_over_and_what_is_no_record_stops_the_store() {
    let bench = Bench::new();
    let first = entry(&bench.run, None, "first", Some("k")).line;
    let odd = b"{\"run_id\": \"r-1\", \"n\": NaN, \"run_id\": \"r-1\"}";
    bench.put(&[&first[..], b"\n", odd, b"\n"].concat());
    let store = bench.store();
    let tip = |count, hash| Tip { count, hash };
    assert_eq!(store.tip(&bench.run).unwrap(), Some(tip(2, None)));
    let found = store.find_completed(&bench.run, "k").unwrap();
    assert_eq!(found.unwrap().seq, 0);
    let next = entry(&bench.run, None, "next", None);
    let stored = store.append_if(&bench.run, &tip(2, None), std::slice::from_ref(&next));
    assert_eq!(stored.unwrap(), Append::Stored(tip(3, next.record_hash)));
    for bad in [
        &b"garbage\n"[..],
        b"{\"run_id\":\"r-1\",{\"run_id\":\"r-1\"}\n",
        b"\n",
        b"[]\n",
    ] {
        let before = bench.ledger();
        bench.put(&[&before[..], bad].concat());
        bench.refuses(bad);
        let refused = bench.store().tip(&bench.run).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Refused);
        assert!(bench.faults(true).contains(&("not_a_record", false)));
        bench.put(&before);
    }
}

#[test]
fn holes_that_a_power_cut_leaves_are_moved_aside() {
    let bench = Bench::with_records(2);
    let whole = bench.ledger();
    let next = entry(&bench.run, None, "lost", None).line;
    for hole in [
        &b"\0\0\0\0"[..],
        b"\0\0\0\n",
        &[b"\0\0", &next[5..], b"\n", &next[..], b"\n"].concat(),
    ] {
        bench.put(&[&whole[..], hole].concat());
        assert_eq!(bench.length(), 2);
        bench.append("next").unwrap();
        assert_eq!(bench.length(), 3);
        bench.put(&[&whole[..], hole].concat());
        bench.put_index(b"");
        assert!(!bench.store().fsck(&bench.run, false).unwrap().is_clean());
        assert!(bench.store().fsck(&bench.run, true).unwrap().is_clean());
        assert_eq!(bench.ledger(), whole);
        assert_eq!(bench.faults(false), []);
    }
}

#[test]
fn links_and_records_of_other_runs_are_seen_by_fsck_and_left_alone() {
    let bench = Bench::with_records(3);
    let whole = String::from_utf8(bench.ledger()).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    fs::remove_file(bench.path(".index")).unwrap();
    bench.put(format!("{}\n{}\n", lines[0], lines[2]).as_bytes());
    assert_eq!(bench.faults(true), [("broken_link", false)]);
    bench.put(whole.replacen("r-1", "r-2", 1).as_bytes());
    assert_eq!(bench.faults(true), [("other_run", false)]);
}

#[test]
fn an_interrupted_deletion_counts_at_once_and_is_finished_by_the_next() {
    let bench = Bench::with_records(2);
    let files = [".jsonl", ".index"]
        .map(|ending| (bench.path(ending), fs::read(bench.path(ending)).unwrap()));
    let near = run_id("r-1.jsonl.tail-1-x");
    append_next(&bench.store(), &near, "of another run").unwrap();
    let tail = bench.path(&format!(".jsonl.tail-7-{}", Digest::of(b"t")));
    fs::write(&tail, "t").unwrap();
    let warm = bench.store();
    append_next(&warm, &bench.run, "third").unwrap();
    let at = Timestamp::from_micros(7).unwrap();
    assert!(bench.store().delete(&bench.run, None, at).unwrap());
    assert!(!tail.exists());
    for (path, bytes) in &files {
        fs::write(path, bytes).unwrap();
    }
    for store in [warm, bench.store()] {
        let refused = append_next(&store, &bench.run, "x").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Refused);
        assert_eq!(store.runs(None, 9).unwrap(), std::slice::from_ref(&near));
    }
    assert_eq!(bench.faults(false), [("leftover", false); 2]);
    assert_eq!(bench.faults(true), [("leftover", true); 2]);
    let stone = bench.store().tombstone(&bench.run).unwrap();
    assert_eq!(stone.unwrap().tip.count, 3);
    assert_eq!(whole_chain(&bench.store(), &near).len(), 1);
    fs::write(bench.path(".deleted"), "{}").unwrap();
    assert_eq!(bench.append("x").unwrap_err().kind(), ErrorKind::External);
}

/// W7: the tenth and the ten-thousandth append make the same calls to the disk.
// T-STO-05
#[test]
fn an_append_costs_the_same_whatever_the_length() {
    let disk = crate::fault::FaultFs::new();
    let run = run_id("long");
    let calls_of = |store: &JsonlLedgerStore, text: &str| {
        let before = disk.calls();
        append_next(store, &run, text).unwrap();
        disk.calls() - before
    };
    let again = || JsonlLedgerStore::open(disk.shared(), Path::new("/ledgers")).unwrap();
    let store = again();
    calls_of(&store, "first");
    let (warm, cold) = (calls_of(&store, "warm"), calls_of(&again(), "cold"));
    fill(&store, &run, 300);
    assert_eq!(calls_of(&store, "warm"), warm);
    assert_eq!(calls_of(&again(), "cold"), cold);
    assert!(cold < 40, "{cold} calls");
}
