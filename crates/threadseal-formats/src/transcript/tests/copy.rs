//! Copies of a record without some of its lines.

use super::super::copy::{check, make};
use super::*;

/// The number of the line that these copies leave out.
const OUT: u64 = 4;

fn copied(bench: &Bench, record: &[u8]) -> Vec<u8> {
    make(&bench.verified(record), record, &|number, _| number == OUT).unwrap()
}

fn verdict(bench: &Bench, copy: &[u8]) -> Verdict {
    check(copy, &bench.options()).report.verdict
}

// T-RED-24
#[test]
fn a_copy_proves_the_lines_that_it_shows_and_says_what_it_does_not_prove() {
    let bench = Bench::new();
    let record = bench.record();
    let copy = copied(&bench, &record);
    let line = lines_of(&record)[usize::try_from(OUT).unwrap() - 1];
    assert!(!copy.windows(line.len()).any(|window| window == line));
    let checked = check(&copy, &bench.options());
    let report = &checked.report;
    assert_eq!((report.verdict, checked.left_out), (Verdict::Partial, 1));
    assert_eq!(report.findings[0].code, "lines_left_out");
    assert_eq!(report.findings[0].line, Some(OUT));
    assert_eq!(report.head, bench.verify(&record).report.head);
    let skipped = report.checks.iter().find(|c| c.name == "prefix_hash");
    assert_eq!(skipped.unwrap().result, CheckResult::Skipped);
}

// T-RED-23
#[test]
fn every_byte_of_a_copy_counts() {
    let bench = Bench::new();
    let copy = copied(&bench, &bench.record());
    let last_seal = copy.len() - lines_of(&copy).last().unwrap().len();
    for at in 0..copy.len() {
        let mut bad = copy.clone();
        bad[at] ^= 1;
        // The offset in the next seal binds the length of a line that is left out.
        let report = check(&bad, &bench.options()).report;
        // A last seal that is no longer a line covers nothing, as after a crash. Its lines are
        // reported as a tail.
        let is_told = at + 1 >= last_seal && codes(&report).contains(&"unsigned_tail");
        assert!(report.verdict.is_evidence() || is_told, "{at}");
    }
}

// T-RED-23
#[test]
fn what_is_left_out_cannot_be_put_back_otherwise_moved_or_dropped() {
    let bench = Bench::new();
    let record = bench.record();
    let copy = copied(&bench, &record);
    let lines = lines_of(&copy);
    let stub = usize::try_from(OUT).unwrap();
    assert!(lines[stub].starts_with(b"-"));
    let with = |parts: &[&[&[u8]]]| verdict(&bench, &parts.concat().concat());
    let (before, after) = (&lines[..stub], &lines[stub + 1..]);
    let swapped = with(&[&lines[..stub - 1], &[lines[stub], lines[stub - 1]], after]);
    let dropped = with(&[before, after]);
    let other = format!("-{} {}\n", leaf_hash(b"other"), 5);
    let replaced = with(&[before, &[other.as_bytes()], after]);
    for verdict in [swapped, dropped, replaced] {
        assert!(verdict.is_evidence(), "{verdict}");
    }
    // With the exact line in its place the copy is the record, but still no record to continue.
    let own = lines_of(&record)[stub - 1];
    assert_eq!(with(&[before, &[own], after]), Verdict::Partial);
}

// T-RED-25
#[test]
fn seals_and_what_the_recorder_says_are_never_left_out() {
    let bench = Bench::new();
    let record = bench.record();
    let verified = bench.verified(&record);
    for (number, line) in (1..).zip(lines_of(&record)) {
        let text = String::from_utf8_lossy(line);
        let is_own = ["thread_started", "checkpoint", "thread_completed"]
            .iter()
            .any(|kind| text.contains(&format!("\"event_type\":\"{kind}\"")));
        let made = make(&verified, &record, &|at, _| at == number);
        assert_eq!(made.is_err(), is_own, "{text}");
    }
    assert!(make(&verified, &record, &|_, _| false).is_err());
    let longer = [&record[..], b"x"].concat();
    assert!(make(&verified, &longer[1..], &|_, _| true).is_err());
}

// T-RED-25
#[test]
fn who_sealed_a_copy_is_judged_as_of_a_record() {
    let bench = Bench::new();
    let copy = copied(&bench, &bench.record());
    let report = check(&copy, &bench.trusting(&Trust::default())).report;
    assert_eq!(report.verdict, Verdict::UnknownSigner);
    assert_eq!(verdict(&bench, b"x"), Verdict::Tampered);
}
