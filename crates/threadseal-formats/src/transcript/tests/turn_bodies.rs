//! Proofs of turns whose lines commit to detached bodies: they show the bodies, and accept no
//! other.

use super::bodies::{Written, written};
use super::*;
use crate::transcript::turn_proof::{Checked, ShownLine, TurnProof, WithBodies, check_file};
use threadseal_core::report::Verdict;

fn prove(bench: &Bench, written: &Written) -> WithBodies {
    let scan = ScanOptions {
        bodies: Some(written.read()),
        ..ScanOptions::default()
    };
    let outcome = verify(&written.record, &scan, &bench.options());
    let verified = outcome.verified.unwrap();
    let proof = TurnProof::make(&verified, &written.record, 1).unwrap();
    proof.with_bodies(&written.record, &written.bodies).unwrap()
}

fn look(bench: &Bench, text: &str) -> (Checked, Vec<&'static str>) {
    let checked = check_file(text.as_bytes(), &bench.options());
    let findings = checked.report.findings.iter();
    let codes = findings.map(|finding| finding.code.as_str()).collect();
    (checked, codes)
}

fn said(checked: &Checked) -> String {
    checked.lines.iter().map(ShownLine::said).collect()
}

/// The proof's text with its lines of bodies replaced by these.
fn with(text: &str, bodies: &[String]) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        if !line.starts_with("body ") {
            out.push_str(line);
        }
    }
    bodies.iter().for_each(|body| out.push_str(body));
    out
}

fn bodies_of(text: &str) -> Vec<String> {
    let lines = text.split_inclusive('\n').map(str::to_owned);
    lines.filter(|line| line.starts_with("body ")).collect()
}

// T-PRF-15
#[test]
fn a_proof_carries_the_bodies_of_its_turn_and_says_where_it_does_not() {
    let bench = Bench::new();
    let whole = prove(&bench, &written(&bench));
    assert!(whole.redacted.is_empty());
    let text = whole.proof.to_string();
    let (checked, codes) = look(&bench, &text);
    assert_eq!(
        (checked.report.verdict, codes),
        (Verdict::Verified, vec![]),
        "{checked:?}"
    );
    assert!(said(&checked).contains("my number is 12"));
    // One is left out: the other is shown.
    let (checked, codes) = look(&bench, &with(&text, &bodies_of(&text)[1..]));
    assert_eq!(checked.report.verdict, Verdict::Partial);
    assert_eq!(codes, ["bodies_unread"]);
    let said = said(&checked);
    assert!(said.contains("noted") && said.contains("[the body is not in the proof]"));
    assert!(!said.contains("my number"), "{said}");
}

// T-PRF-14
#[test]
fn a_body_that_no_line_of_the_turn_commits_to_is_evidence() {
    let bench = Bench::new();
    let text = prove(&bench, &written(&bench)).proof.to_string();
    let bodies = bodies_of(&text);
    let [one, two] = &bodies[..] else {
        panic!("{bodies:?}")
    };
    let (one, two) = (one.clone(), two.clone());
    for changed in [
        // Another text, another salt, the body of another commitment, another order, twice.
        vec![one.replace("12", "13"), two.clone()],
        vec![one.replace("\"salt\":\"01", "\"salt\":\"02"), two.clone()],
        vec![one.replace("my number is 12", "noted"), two.clone()],
        vec![two.clone(), one.clone()],
        vec![one.clone(), one.clone(), two.clone()],
        vec![one.clone(), two.clone(), two.clone()],
    ] {
        let (checked, codes) = look(&bench, &with(&text, &changed));
        assert_eq!(checked.report.verdict, Verdict::Tampered, "{changed:?}");
        assert_eq!(codes, ["body_changed"]);
        assert!(checked.lines.is_empty());
    }
    let (checked, codes) = look(&bench, &with(&text, &[one.replace("\"salt\"", "\"sold\"")]));
    assert_eq!(checked.report.verdict, Verdict::Malformed);
    assert_eq!(codes, ["proof_malformed"]);
    // A record with inline texts commits to no body.
    let inline = turns::rotated(&bench, 7);
    let verified = bench.verify(&inline).verified.unwrap();
    let inline = TurnProof::make(&verified, &inline, 2).unwrap().to_string();
    let (checked, codes) = look(&bench, &with(&inline, &[one]));
    assert_eq!(checked.report.verdict, Verdict::Tampered);
    assert_eq!(codes, ["body_changed"]);
}

// T-PRF-16
#[test]
fn a_redacted_body_is_in_no_proof_and_the_turn_that_redacts_it_says_so() {
    let bench = Bench::new();
    let mut written = written(&bench);
    written.redact(&bench, &[0]);
    // The file still has it, as after a crash.
    let proof = prove(&bench, &written);
    assert_eq!(proof.redacted.len(), 1);
    assert!(proof.redacted.first().unwrap().contains("redacted by Ada"));
    let text = proof.proof.to_string();
    assert!(!text.contains("my number is 12"), "{text}");
    let (checked, codes) = look(&bench, &text);
    assert_eq!(checked.report.verdict, Verdict::Verified, "{checked:?}");
    assert_eq!(codes, ["redacted"]);
    let said = said(&checked);
    assert!(said.contains("[redacted by Ada at ") && said.contains("noted"));
}
