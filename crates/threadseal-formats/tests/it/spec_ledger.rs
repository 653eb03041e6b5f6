//! The worked example of `spec/ledger.md`, computed again.

use crate::scene::*;
use threadseal_core::canon::json;
use threadseal_formats::ledger::{
    ChainOptions, Judging, StepRecord, compute_record_hash, covered_bytes, judge,
};

fn example(name: &str) -> String {
    example_line("spec/ledger.md", "chain", name)
}

#[test]
fn the_records_of_the_specification_are_covered_hashed_and_written_as_it_says() {
    let mut prev: Option<Digest> = None;
    for number in 0..2 {
        let [line, covered, hash] =
            ["line", "covered", "hash"].map(|name| example(&format!("{name}{number}")));
        let value = json::parse(line.as_bytes()).unwrap();
        assert_eq!(
            covered_bytes(&value, prev.as_ref()).unwrap(),
            covered.as_bytes()
        );
        let computed = compute_record_hash(&value, prev.as_ref()).unwrap();
        assert_eq!(computed.to_hex(), hash);
        let record = StepRecord::from_value(value).unwrap();
        assert_eq!(record.record_hash, Some(computed));
        assert_eq!(record.to_line().unwrap(), line.as_bytes());
        prev = Some(computed);
    }
}

#[test]
fn the_chain_of_the_specification_is_consistent_and_verified_by_its_head_alone() {
    let file = format!("{}\n{}\n", example("line0"), example("line1"));
    let other = Digest::of(b"other").to_hex();
    for (head, verdict) in [
        (None, Verdict::Consistent),
        (Some(example("hash1")), Verdict::Verified),
        (Some(example("hash0")), Verdict::UnsignedTail),
        (Some(other), Verdict::Truncated),
    ] {
        let head = head.map(|hash| ExpectedHead::parse(&hash).unwrap());
        let expect = head.map(|head| Expectation::given(head, false));
        let options = ChainOptions {
            expect: expect.into_iter().collect(),
            ..ChainOptions::default()
        };
        let trust = Trust::default();
        let outcome = judge(file.as_bytes(), options, &Judging::new(&trust, now()));
        assert_eq!(outcome.report.verdict, verdict);
        match verdict {
            Verdict::Verified => assert_eq!(outcome.verified.unwrap().get().tip.count, 2),
            Verdict::UnsignedTail => {
                assert_eq!(outcome.report.trusted_until.unwrap().turn, Some(0));
            }
            _ => {}
        }
    }
}
