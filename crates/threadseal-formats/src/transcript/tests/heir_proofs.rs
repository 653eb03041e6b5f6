//! Proofs of the last turn of a record after whose end keys replaced its authority.

use super::succession::{ended, heir, judged, link, rotated, word};
use super::*;
use crate::transcript::turn_proof::{self, TurnProof};
use threadseal_core::report::Report;

fn proved(bench: &Bench, bytes: &[u8]) -> String {
    let verified = bench.verify(bytes).verified.unwrap();
    TurnProof::make(&verified, bytes, 1).unwrap().to_string()
}

fn check(bench: &Bench, text: &[u8], trust: &Trust) -> Report {
    let options = VerifyOptions {
        trust,
        ..bench.options()
    };
    turn_proof::check_file(text, &options).report
}

fn codes(report: &Report) -> Vec<&'static str> {
    report
        .findings
        .iter()
        .map(|found| found.code.as_str())
        .collect()
}

/// An ended record, with another seal by `heir` after its end; the head of that end.
fn succeeded(bench: &Bench) -> (Vec<u8>, Sealer, Head) {
    let (mut bytes, mut sealer, head) = ended(bench);
    let said = word(&bench.native, &heir());
    sealer.succeed(bench.stamp(), &said, &mut bytes).unwrap();
    link(bench, &mut sealer, &heir(), &mut bytes).unwrap();
    (bytes, sealer, head)
}

// T-PRF-05
#[test]
fn the_proof_of_the_last_turn_is_judged_as_its_record_is() {
    let bench = Bench::new();
    let (bytes, _, head) = succeeded(&bench);
    let text = proved(&bench, &bytes);
    let alone = Trust::key(*heir().public_key());
    let stranger = Trust::key(*signer(77, KeyUsage::Native).public_key());
    for (trust, verdict) in [
        // A log had the end of the record before the authority named its successor.
        (rotated(&bench, &[head]), Verdict::Verified),
        // No log had it: whichever key seals after it, the authority's key had ended by then.
        (rotated(&bench, &[]), Verdict::Forged),
        // A verifier that does not know of this accepts the authority's statement.
        (bench.trust.clone(), Verdict::Verified),
        (stranger, Verdict::Forged),
    ] {
        assert_eq!(judged(&bench, &bytes, &trust).verdict, verdict);
        let report = check(&bench, text.as_bytes(), &trust);
        assert_eq!(report.verdict, verdict, "{report:?}");
    }
    let both = [
        judged(&bench, &bytes, &alone),
        check(&bench, text.as_bytes(), &alone),
    ];
    assert_eq!(both[0].verdict, both[1].verdict);
}

// T-PRF-05
#[test]
fn one_key_after_another_takes_the_place_of_the_authority() {
    let bench = Bench::new();
    let (mut bytes, mut sealer, _) = succeeded(&bench);
    let [third, fourth] = [62, 63].map(|seed| signer(seed, KeyUsage::Native));
    // Of these two the first one never seals.
    for (from, to) in [(&heir(), &third), (&third, &fourth)] {
        sealer
            .succeed(bench.stamp(), &word(from, to), &mut bytes)
            .unwrap();
    }
    link(&bench, &mut sealer, &fourth, &mut bytes).unwrap();
    let text = proved(&bench, &bytes);
    let report = check(&bench, text.as_bytes(), &bench.trust);
    assert_eq!(report.verdict, Verdict::Verified, "{report:?}");
}

// T-PRF-05
#[test]
fn every_changed_byte_of_such_a_proof_is_noticed() {
    let bench = Bench::new();
    let (bytes, _, head) = succeeded(&bench);
    let text = proved(&bench, &bytes);
    let trust = rotated(&bench, &[head]);
    for at in 0..text.len() {
        let mut other = text.clone().into_bytes();
        other[at] ^= 1 << (at % 7);
        let report = check(&bench, &other, &trust);
        assert_eq!(report.verdict.exit_code(), 1, "{at}: {report:?}");
    }
}

/// A key that is to follow, and knows the whole record, seals a line that the writer would refuse.
// T-PRF-05
#[test]
fn nobody_takes_the_place_of_the_authority_but_by_its_word_behind_an_end() {
    let bench = Bench::new();
    let (bytes, _, _) = succeeded(&bench);
    let text = proved(&bench, &bytes);
    let refused = |text: &str, code: &str| {
        let report = check(&bench, text.as_bytes(), &bench.trust);
        assert_eq!(report.verdict.exit_code(), 1, "{report:?}");
        assert_eq!(codes(&report), [code], "{text}");
    };
    // Without the statement, or with another key's.
    let authority = |line: &&str| line.contains("\"event_type\":\"authority\"");
    let kept: String = text
        .split_inclusive('\n')
        .filter(|line| !authority(line))
        .collect();
    assert_ne!(kept, text);
    refused(&kept, "key_not_allowed");
    let other = signer(78, KeyUsage::Native).public_key().to_hex();
    refused(
        &text.replace(&heir().public_key().to_hex(), &other),
        "event_malformed",
    );
    // A turn that the authority sealed before the end cannot be attributed to the next key.
    let mut open = Vec::new();
    let mut sealer = bench.begin(8, &mut open);
    for turn in [1, 2] {
        bench.event(&mut sealer, "cognition_in", "{}", &mut open);
        bench.seal(&mut sealer, turn, &mut open);
    }
    bench.finish(&mut sealer, 2, &mut open);
    let word_line = text.lines().find(authority).unwrap();
    let text = proved(&bench, &open);
    let at = text.find("\nhash ").or(text.rfind("\nseal ")).unwrap();
    let with_word = format!("{}\n{word_line}{}", &text[..at], &text[at..]);
    let report = check(&bench, with_word.as_bytes(), &bench.trust);
    assert_eq!(codes(&report), ["event_malformed"], "{report:?}");
    assert_eq!(report.verdict.exit_code(), 1);
}
