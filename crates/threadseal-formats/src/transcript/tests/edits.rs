//! Bytes and lines that were changed, cut, moved or stripped.

use super::*;

#[test]
fn a_record_verifies_alike_however_its_bytes_are_cut_into_chunks() {
    let bench = Bench::new();
    let bytes = bench.record();
    for size in [1, 2, 7, 64, 1000, bytes.len()] {
        let mut verifier = Verifier::new(ScanOptions {
            every_signature: true,
            ..ScanOptions::default()
        });
        bytes.chunks(size).for_each(|chunk| verifier.push(chunk));
        let verdict = verifier.finish(&bench.options()).report.verdict;
        assert_eq!(verdict, Verdict::Verified, "chunks of {size}");
    }
}

/// The sweep over all 255 other values runs in release mode (`cargo xtask sweep`). Here each byte
/// is flipped in its lowest and highest bit and made a line break.
// T-TRA-01 T-TRA-06
#[test]
fn every_changed_byte_is_noticed() {
    let bench = Bench::new();
    let bytes = bench.record();
    let last_line = bytes.len() - lines_of(&bytes).last().unwrap().len();
    let mut changed = bytes.clone();
    for at in 0..bytes.len() {
        for value in [bytes[at] ^ 1, bytes[at] ^ 0x80, b'\n', b' '] {
            if value == bytes[at] {
                continue;
            }
            changed[at] = value;
            let outcome = bench.verify(&changed);
            let verdict = outcome.report.verdict;
            assert_ne!(verdict, Verdict::Verified, "byte {at} set to {value}");
            assert!(outcome.verified.is_none());
            // The last line, or the line break before it, may become an unsigned tail.
            let at_end = at + 1 >= last_line;
            assert!(
                at_end || verdict.exit_code() == 1,
                "byte {at} set to {value}: {verdict}"
            );
        }
        changed[at] = bytes[at];
    }
}

// T-TRA-23
#[test]
fn a_record_cut_at_any_byte_is_not_verified_and_loses_no_sealed_turn() {
    let bench = Bench::new();
    let bytes = bench.record();
    for length in 0..bytes.len() {
        let report = bench.verify(&bytes[..length]).report;
        assert_ne!(report.verdict, Verdict::Verified, "cut to {length} bytes");
        let trusted = report.trusted_until;
        assert!(trusted.is_none_or(|trusted| trusted.byte <= length as u64));
    }
}

// T-TRA-02
#[test]
fn lines_deleted_doubled_swapped_or_smuggled_are_tampered() {
    let bench = Bench::new();
    let bytes = bench.record();
    let all = lines_of(&bytes);
    let foreign = br#"{"timestamp":1739820405.000000,"thread_id":"demo/t-1","event_type":"x","salt":"00000000000000000000000000000000","payload":{}}"#;
    let smuggled = [foreign.as_slice(), b"\n"].concat();
    for at in 0..all.len() - 1 {
        let (before, line, after) = (all[..at].concat(), all[at], all[at + 1..].concat());
        let (next, rest) = after.split_at(all[at + 1].len());
        for (edit, parts) in [
            ("deleted", [&before[..], b"", b"", &after]),
            ("doubled", [&before, line, line, &after]),
            ("swapped", [&before, next, line, rest]),
            ("smuggled", [&before, &smuggled, line, &after]),
        ] {
            let verdict = bench.verdict(&parts.concat());
            assert_eq!(verdict.exit_code(), 1, "line {at} {edit}: {verdict}");
        }
    }
}

// T-TRA-01
#[test]
fn a_changed_event_names_its_segment_and_how_far_the_record_holds() {
    let bench = Bench::new();
    let text = String::from_utf8(bench.record()).unwrap();
    let second = text.rfind(r#""text":"go""#).unwrap();
    let changed = text[..second].to_owned() + &text[second..].replacen("go", "no", 1);
    let report = bench.verify(changed.as_bytes()).report;
    is(&report, Verdict::Tampered, "");
    // The second seal is that of turn 1.
    let lines = lines_of(text.as_bytes());
    let seal = (0..lines.len()).filter(|at| is_seal(lines[*at])).nth(1);
    let from = lines[..=seal.unwrap()].concat().len() as u64;
    let finding = &report.findings[0];
    assert_eq!(finding.code, "content_changed");
    assert_eq!(finding.bytes.unwrap()[0], from);
    let until = report.trusted_until.unwrap();
    assert_eq!((until.byte, until.turn), (from, Some(1)));
}

// T-TRA-05
#[test]
fn stripped_seals_and_a_missing_beginning_are_tampered() {
    let bench = Bench::new();
    let bytes = bench.record();
    let lines = lines_of(&bytes);
    let events = lines.iter().copied().filter(|line| !is_seal(line));
    let stripped = events.collect::<Vec<_>>().concat();
    for (number, bytes) in [&stripped[..], &lines[1..].concat(), lines[0], b""]
        .into_iter()
        .enumerate()
    {
        assert_eq!(bench.verdict(bytes), Verdict::Tampered, "{number}");
    }
}

// T-TRA-07
#[test]
fn a_seal_of_another_record_does_not_fit() {
    let bench = Bench::new();
    let (one, two) = (bench.begin(1).bytes, bench.begin(2).bytes);
    let mixed = [lines_of(&one)[0], lines_of(&two)[1]].concat();
    let report = bench.verify(&mixed).report;
    assert_eq!(shown(&report), "tampered: checkpoint_altered");
}
