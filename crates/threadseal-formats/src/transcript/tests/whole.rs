//! Whole, open and foreign records, the bytes after the last seal, and records as logs.

use super::*;
use crate::transcript::as_log::RecordLog;
use threadseal_core::limits::MAX_TILE_ENTRY_BYTES;
use threadseal_core::tlog::verifier;

#[test]
fn an_ended_record_verifies_and_mints_a_value() {
    let bench = Bench::new();
    let bytes = bench.record();
    let outcome = bench.verify(&bytes);
    assert_eq!(shown(&outcome.report), "verified");
    assert_eq!(outcome.report.completeness, Completeness::Final);
    let verified = outcome.verified.unwrap();
    assert_eq!(verified.get().head.size, bytes.len() as u64);
    assert!(bytes.is_ascii());
}

// T-TRA-24
#[test]
fn an_open_record_is_open_until_a_head_vouches_for_it() {
    let bench = Bench::new();
    let mut draft = bench.begin(3);
    let begun = draft.bytes.len();
    draft.say("x");
    let unsealed = draft.bytes.clone();
    let head = draft.seal(1);
    let (whole, cut) = (&draft.bytes[..], &unsealed[..begun]);
    let outcome = bench.verify(whole);
    assert_eq!(outcome.report.verdict, Verdict::Open);
    assert!(outcome.verified.is_none());

    let remembered = |head| Expectation::remembered(ExpectedHead::Head(head));
    let given = |head| Expectation::given(ExpectedHead::Head(head), false);
    let line = Expectation::given(ExpectedHead::Line(head.line), false);
    // A head that may itself be rolled back is compared with the record, but does not make it
    // whole.
    let mut doubted = Expectation::logged(ExpectedHead::Head(head), "entry 7 of a log".into());
    doubted.vouches = false;
    let other = Head {
        line: Digest::of(b"other"),
        ..head
    };
    let foreign = Head {
        record: RecordId::from_bytes([9; 32]),
        ..head
    };
    for (row, bytes, expect, verdict) in [
        ("whole", whole, remembered(head), Verdict::Verified),
        ("its line", whole, line, Verdict::Verified),
        ("doubted", whole, doubted.clone(), Verdict::Open),
        ("cut, doubted", cut, doubted, Verdict::RolledBack),
        ("cut", cut, remembered(head), Verdict::RolledBack),
        ("cut, given", cut, given(head), Verdict::Truncated),
        ("unsealed", &unsealed, remembered(head), Verdict::Truncated),
        ("another line", whole, remembered(other), Verdict::Forked),
        ("another record", whole, given(foreign), Verdict::Foreign),
    ] {
        let outcome = bench.expecting(bytes, expect);
        let report = &outcome.report;
        assert_eq!(report.verdict, verdict, "{row}");
        assert_eq!(outcome.verified.is_some(), verdict == Verdict::Verified);
        let log = report.checks.iter().find(|check| check.name == "log");
        let log = log.map(|check| (check.result, check.why.clone().unwrap_or_default()));
        match row {
            "whole" => assert_eq!(report.completeness, Completeness::Head),
            "doubted" => {
                assert_eq!(report.completeness, Completeness::Unproved);
                let passed = (CheckResult::Pass, "entry 7 of a log".to_owned());
                assert_eq!(log, Some(passed));
            }
            "cut, doubted" => assert_eq!(log.unwrap().0, CheckResult::Fail),
            _ => {}
        }
    }
}

// T-TRA-20
#[test]
fn a_tail_is_told_apart_by_how_it_ends() {
    let bench = Bench::new();
    let bytes = bench.record();
    for (tail, code) in [
        (&b"{\"timestamp\":17"[..], "torn_tail"),
        (b"not json\n", "line_malformed"),
        (b"[1]\n", "line_malformed"),
        (b"\n", "line_malformed"),
        (b"\xff\n", "line_malformed"),
    ] {
        let _row = Row(tail);
        let outcome = bench.verify(&[&bytes[..], tail].concat());
        is(&outcome.report, Verdict::UnsignedTail, code);
        let until = outcome.report.trusted_until.unwrap();
        assert_eq!(until.byte, bytes.len() as u64, "{tail:?}");
        assert!(outcome.verified.is_none());
        let lenient = outcome.lenient().unwrap();
        assert_eq!(lenient.unverified.from, bytes.len() as u64);
    }
}

// T-TRA-03
#[test]
fn rye_8_1_events_smuggled_by_carriage_return_are_never_verified() {
    let bench = Bench::new();
    let bytes = bench.record();
    let last_line = bytes.len() - lines_of(&bytes).last().unwrap().len();
    let evil =
        br#"{"timestamp":1.0,"thread_id":"demo/t-1","event_type":"cognition_in","payload":{}}"#;
    for separator in ["\r", "\u{2028}", "\u{c}", "\u{85}"].map(str::as_bytes) {
        let (before, last) = bytes.split_at(last_line);
        let before = [before, evil, separator, last].concat();
        let after = [&bytes[..bytes.len() - 1], separator, evil, b"\n"].concat();
        for attack in [before, after] {
            let report = bench.verify(&attack).report;
            assert_ne!(report.verdict, Verdict::Verified);
            assert!(report.trusted_until.unwrap().byte < bytes.len() as u64);
        }
    }
}

// T-TRA-10
#[test]
fn an_unknown_critical_member_is_malformed_and_an_optional_one_is_not() {
    let bench = Bench::new();
    for (name, verdict) in [("opt_x", Verdict::Open), ("quorum", Verdict::Malformed)] {
        let ext = Ext {
            optional: vec![(name.to_owned(), "x".to_owned())],
            ..Ext::default()
        };
        let mut draft = bench.begin(4);
        draft.seal_with(&bench.native, 0, ext).unwrap();
        assert_eq!(draft.verdict(), verdict, "{name}");
    }
}

// T-TRA-11
#[test]
fn another_thread_than_asked_for_is_foreign() {
    let bench = Bench::new();
    let options = VerifyOptions {
        thread: Some(&thread_id("demo/t-2")),
        ..bench.options()
    };
    let outcome = verify(&bench.record(), &ScanOptions::default(), &options);
    assert_eq!(outcome.report.verdict, Verdict::Foreign);
}

// T-RYE-21
#[test]
fn lines_are_read_only_from_the_bytes_that_were_verified() {
    let bench = Bench::new();
    let bytes = bench.record();
    let tailed = [&bytes[..], b"{\"smuggled\":1}\n"].concat();
    let verified = bench.verified(&bytes);
    let read = lines::VerifiedLines::open(&verified, &tailed).unwrap();
    let read: Vec<Vec<u8>> = read.iter().map(|line| line.bytes.into_owned()).collect();
    let all: Vec<&[u8]> = bytes.trim_ascii_end().split(|b| *b == b'\n').collect();
    assert_eq!(read, all);
    let mut changed = bytes.clone();
    changed[300] ^= 1;
    assert!(lines::VerifiedLines::open(&verified, &changed).is_err());
    assert!(lines::VerifiedLines::open(&verified, &bytes[..300]).is_err());
}

// T-RYE-18
#[test]
fn rye_8_17_sealing_and_verifying_hash_each_byte_as_often_whatever_the_length() {
    let bench = Bench::new();
    let write = |turns: u64| {
        let mut draft = bench.begin(7);
        for turn in 1..=turns {
            draft.event("cognition_out", r#"{"text":"h"}"#);
            draft.seal(turn);
        }
        draft.bytes
    };
    let per_byte = |turns: u64| {
        let record = write(turns);
        let text = String::from_utf8(record.clone()).unwrap();
        let changed = text.replacen(r#""text":"h""#, r#""text":"x""#, 1);
        [
            hashed_by(|| write(turns)),
            hashed_by(|| bench.verify(&record)),
            hashed_by(|| bench.verify(changed.as_bytes())),
        ]
        .map(|hashed| hashed / record.len() as u64)
    };
    let (short, long) = (per_byte(8), per_byte(256));
    // Hashing each prefix anew would make the second 32 times the first.
    for (short, long) in short.into_iter().zip(long) {
        assert!(short > 0 && long <= short + 1, "{short} {long}");
    }
}

#[test]
fn the_lines_of_a_record_are_the_entries_of_the_tree_that_its_last_seal_signs() {
    let bench = Bench::new();
    // The key of line 1 made the last seal of one record. A key that a seal named made that of the
    // other.
    for bytes in [bench.record(), rotated(&bench, 7)] {
        let log = RecordLog::open(&bench.verified(&bytes), &bytes).unwrap();
        let lines = texts_of(&bytes);
        let entries = log.entries();
        assert_eq!(entries.len(), lines.len() - 1);
        assert!(entries.iter().zip(&lines).all(|(e, l)| *e == l.as_bytes()));
        let (checkpoint, signed) = verifier::open(log.checkpoint(), &[log.key()]).unwrap();
        assert_eq!(signed.len(), 1);
        assert_eq!(checkpoint.tree(), log.tree());
        let leaves: Vec<_> = entries.iter().map(|entry| leaf_hash(entry)).collect();
        let tree = TreeHead {
            size: entries.len() as u64,
            root: root(&leaves),
        };
        assert_eq!(*log.tree(), tree);
        assert_eq!(checkpoint.extensions().len(), 1);
    }
}

#[test]
fn a_line_that_no_tile_holds_and_bytes_that_were_not_verified_are_refused() {
    let bench = Bench::new();
    let mut draft = bench.begin(7);
    draft.say(&"a".repeat(MAX_TILE_ENTRY_BYTES));
    draft.finish(1);
    let verified = bench.verified(&draft.bytes);
    let refused = RecordLog::open(&verified, &draft.bytes).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Limit);
    assert!(refused.to_string().contains("line 3 "), "{refused}");
    let refused = RecordLog::open(&verified, &bench.record()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
}
