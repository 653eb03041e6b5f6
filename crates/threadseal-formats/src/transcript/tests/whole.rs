//! Whole, open and foreign records, and the bytes after the last seal.

use super::*;
use threadseal_core::digest::work::hashed_by;
use threadseal_core::report::{CheckResult, Report};

#[test]
fn an_ended_record_verifies_and_mints_a_value() {
    let bench = Bench::new();
    let bytes = bench.record();
    let outcome = bench.verify(&bytes);
    assert_eq!(
        outcome.report.verdict,
        Verdict::Verified,
        "{:?}",
        outcome.report
    );
    assert_eq!(outcome.report.completeness, Completeness::Final);
    let verified = outcome.verified.unwrap();
    assert_eq!(verified.get().head.size, bytes.len() as u64);
    assert!(bytes.is_ascii());
}

// T-TRA-24
#[test]
fn an_open_record_is_open_until_a_head_vouches_for_it() {
    let bench = Bench::new();
    let mut bytes = Vec::new();
    let mut sealer = bench.begin(3, &mut bytes);
    bench.event(&mut sealer, "cognition_in", "{\"text\":\"x\"}", &mut bytes);
    let older = bytes.clone();
    let head = bench.seal(&mut sealer, 1, &mut bytes);
    assert_eq!(bench.verify(&bytes).report.verdict, Verdict::Open);
    assert!(bench.verify(&bytes).verified.is_none());
    let expected = ExpectedHead::Head(head);
    let outcome = bench.verify_expecting(&bytes, expected, true);
    assert_eq!(outcome.report.verdict, Verdict::Verified);
    assert_eq!(outcome.report.completeness, Completeness::Head);
    let line = ExpectedHead::Line(head.line);
    assert_eq!(
        bench.verify_expecting(&bytes, line, false).report.verdict,
        Verdict::Verified
    );

    // A head that may itself be rolled back is compared with the record, but does not make it
    // whole.
    let doubted = |bytes: &[u8]| {
        let mut expect = Expectation::logged(expected, "entry 7 of a log".into());
        expect.vouches = false;
        let scan = ScanOptions {
            expect: vec![expect],
            ..ScanOptions::default()
        };
        verify(bytes, &scan, &bench.options())
    };
    let outcome = doubted(&bytes);
    assert_eq!(outcome.report.verdict, Verdict::Open);
    assert_eq!(outcome.report.completeness, Completeness::Unproved);
    assert!(outcome.verified.is_none());
    let check = |report: &Report| {
        let check = report.checks.iter().find(|check| check.name == "log");
        check.map(|check| (check.result, check.why.clone().unwrap_or_default()))
    };
    let passed = check(&outcome.report).unwrap();
    assert_eq!(passed, (CheckResult::Pass, "entry 7 of a log".to_owned()));

    let cut = &older[..usize::try_from(sealer_head_size(&older)).unwrap()];
    let behind = doubted(cut).report;
    assert_eq!(behind.verdict, Verdict::RolledBack);
    assert_eq!(check(&behind).unwrap().0, CheckResult::Fail);
    for (bytes, remembered, verdict) in [
        (cut, true, Verdict::RolledBack),
        (cut, false, Verdict::Truncated),
        (&older[..], true, Verdict::Truncated),
    ] {
        assert_eq!(
            bench
                .verify_expecting(bytes, expected, remembered)
                .report
                .verdict,
            verdict
        );
    }
    let other = Head {
        line: threadseal_core::digest::Digest::of(b"other"),
        ..head
    };
    let forked = bench.verify_expecting(&bytes, ExpectedHead::Head(other), true);
    assert_eq!(forked.report.verdict, Verdict::Forked);
    let foreign = Head {
        record: RecordId::from_bytes([9; 32]),
        ..head
    };
    let foreign = bench.verify_expecting(&bytes, ExpectedHead::Head(foreign), false);
    assert_eq!(foreign.report.verdict, Verdict::Foreign);
}

fn sealer_head_size(bytes: &[u8]) -> u64 {
    lines_of(bytes)[..2]
        .iter()
        .map(|line| line.len() as u64)
        .sum()
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
        let outcome = bench.verify(&[&bytes[..], tail].concat());
        assert_eq!(outcome.report.verdict, Verdict::UnsignedTail, "{tail:?}");
        assert!(
            codes(&outcome).contains(&code),
            "{tail:?}: {:?}",
            codes(&outcome)
        );
        assert_eq!(
            outcome.report.trusted_until.unwrap().byte,
            bytes.len() as u64
        );
        assert!(outcome.verified.is_none());
        let lenient = bench
            .verify(&[&bytes[..], tail].concat())
            .lenient()
            .unwrap();
        assert_eq!(lenient.unverified.from, bytes.len() as u64);
    }
}

// T-TRA-03
#[test]
fn rye_8_1_events_smuggled_by_carriage_return_are_never_verified() {
    let bench = Bench::new();
    let bytes = bench.record();
    let all = lines_of(&bytes);
    let evil =
        br#"{"timestamp":1.0,"thread_id":"demo/t-1","event_type":"cognition_in","payload":{}}"#;
    for separator in ["\r", "\u{2028}", "\u{c}", "\u{85}"] {
        let last = all[all.len() - 1];
        let before = [
            &all[..all.len() - 1].concat()[..],
            evil,
            separator.as_bytes(),
            last,
        ]
        .concat();
        let after = [&bytes[..bytes.len() - 1], separator.as_bytes(), evil, b"\n"].concat();
        for attack in [before, after] {
            let outcome = bench.verify(&attack);
            assert_ne!(outcome.report.verdict, Verdict::Verified);
            assert!(outcome.report.trusted_until.unwrap().byte < bytes.len() as u64);
        }
    }
}

// T-TRA-10
#[test]
fn an_unknown_critical_member_is_malformed_and_an_optional_one_is_not() {
    let bench = Bench::new();
    let mut bytes = Vec::new();
    let mut sealer = bench.begin(4, &mut bytes);
    let optional = |name: &str| Ext {
        optional: vec![(name.to_owned(), "x".to_owned())],
        ..Ext::default()
    };
    let mut fine = bytes.clone();
    let mut writer = sealer.clone();
    writer
        .seal(
            bench.stamp(),
            0,
            false,
            optional("opt_x"),
            bench.signers(),
            &mut fine,
        )
        .unwrap();
    assert_eq!(bench.verify(&fine).report.verdict, Verdict::Open);
    sealer
        .seal(
            bench.stamp(),
            0,
            false,
            optional("quorum"),
            bench.signers(),
            &mut bytes,
        )
        .unwrap();
    assert_eq!(bench.verify(&bytes).report.verdict, Verdict::Malformed);
}

// T-TRA-11
#[test]
fn another_thread_than_asked_for_is_foreign() {
    let bench = Bench::new();
    let bytes = bench.record();
    let thread = ThreadId::parse("demo/t-2").unwrap();
    let options = VerifyOptions {
        thread: Some(&thread),
        ..bench.options()
    };
    let outcome = verify(&bytes, &ScanOptions::default(), &options);
    assert_eq!(outcome.report.verdict, Verdict::Foreign);
}

// T-RYE-21
#[test]
fn lines_are_read_only_from_the_bytes_that_were_verified() {
    let bench = Bench::new();
    let bytes = bench.record();
    let tailed = [&bytes[..], b"{\"smuggled\":1}\n"].concat();
    let verified = bench.verify(&bytes).verified.unwrap();
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
        let mut out = Vec::new();
        let mut sealer = bench.begin(7, &mut out);
        for turn in 1..=turns {
            bench.event(&mut sealer, "cognition_out", r#"{"text":"h"}"#, &mut out);
            bench.seal(&mut sealer, turn, &mut out);
        }
        out
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
