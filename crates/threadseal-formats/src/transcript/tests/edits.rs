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
        let outcome = verifier.finish(&bench.options());
        assert_eq!(
            outcome.report.verdict,
            Verdict::Verified,
            "chunks of {size}"
        );
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
        let outcome = bench.verify(&bytes[..length]);
        assert_ne!(
            outcome.report.verdict,
            Verdict::Verified,
            "cut to {length} bytes"
        );
        if let Some(trusted) = outcome.report.trusted_until {
            assert!(trusted.byte <= length as u64);
        }
    }
}

// T-TRA-02
#[test]
fn lines_deleted_doubled_swapped_or_smuggled_are_tampered() {
    let bench = Bench::new();
    let bytes = bench.record();
    let all = lines_of(&bytes);
    let foreign = br#"{"timestamp":1739820405.000000,"thread_id":"demo/t-1","event_type":"x","salt":"00000000000000000000000000000000","payload":{}}"#;
    for index in 0..all.len() - 1 {
        let mut deleted = all.clone();
        deleted.remove(index);
        let mut doubled = all.clone();
        doubled.insert(index, all[index]);
        let mut swapped = all.clone();
        swapped.swap(index, index + 1);
        let smuggled = [foreign.as_slice(), b"\n"].concat();
        let mut inserted = all.clone();
        inserted.insert(index, &smuggled);
        for attack in [deleted, doubled, swapped, inserted] {
            let verdict = bench.verify(&attack.concat()).report.verdict;
            assert_eq!(verdict.exit_code(), 1, "line {index}: {verdict}");
        }
    }
}

// T-TRA-01
#[test]
fn a_changed_event_names_its_segment_and_how_far_the_record_holds() {
    let bench = Bench::new();
    let text = String::from_utf8(bench.record()).unwrap();
    let changed = text
        .replacen("\"text\":\"go\"", "\"text\":\"no\"", 2)
        .replacen("\"text\":\"no\"", "\"text\":\"go\"", 1);
    let outcome = bench.verify(changed.as_bytes());
    assert_eq!(outcome.report.verdict, Verdict::Tampered);
    let finding = &outcome.report.findings[0];
    let seals: Vec<usize> = lines_of(text.as_bytes())
        .iter()
        .scan(0, |end, line| {
            *end += line.len();
            Some((*end, line.windows(12).any(|w| w == b"\"checkpoint\"")))
        })
        .filter_map(|(end, is_seal)| is_seal.then_some(end))
        .collect();
    assert_eq!(finding.code, "content_changed");
    let from = seals[1] as u64;
    assert_eq!(finding.bytes.unwrap()[0], from);
    assert_eq!(outcome.report.trusted_until.unwrap().byte, from);
    assert_eq!(outcome.report.trusted_until.unwrap().turn, Some(1));
}

// T-TRA-05
#[test]
fn stripped_seals_and_a_missing_beginning_are_tampered() {
    let bench = Bench::new();
    let bytes = bench.record();
    let is_seal = |line: &&[u8]| line.windows(12).any(|w| w == b"\"checkpoint\"");
    let stripped: Vec<&[u8]> = lines_of(&bytes)
        .into_iter()
        .filter(|line| !is_seal(line))
        .collect();
    assert_eq!(
        bench.verify(&stripped.concat()).report.verdict,
        Verdict::Tampered
    );
    assert_eq!(
        bench.verify(&lines_of(&bytes)[1..].concat()).report.verdict,
        Verdict::Tampered
    );
    assert_eq!(
        bench.verify(lines_of(&bytes)[0]).report.verdict,
        Verdict::Tampered
    );
    assert_eq!(bench.verify(b"").report.verdict, Verdict::Tampered);
}

// T-TRA-07
#[test]
fn a_seal_of_another_record_does_not_fit() {
    let bench = Bench::new();
    let (mut one, mut two) = (Vec::new(), Vec::new());
    bench.begin(1, &mut one);
    bench.begin(2, &mut two);
    let (first, second) = (lines_of(&one), lines_of(&two));
    let outcome = bench.verify(&[first[0], second[1]].concat());
    assert_eq!(outcome.report.verdict, Verdict::Tampered);
    assert_eq!(codes(&outcome), ["checkpoint_altered"]);
}
