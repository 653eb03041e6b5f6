//! The worked example of `spec/ledger.md`, computed again.

use threadseal_core::canon::json;
use threadseal_core::digest::Digest;
use threadseal_core::record::ExpectedHead;
use threadseal_core::report::Expectation;
use threadseal_core::report::Verdict;
use threadseal_core::time::Timestamp;
use threadseal_core::trust::Trust;
use threadseal_formats::ledger::{
    ChainOptions, Judging, StepRecord, compute_record_hash, covered_bytes, judge,
};
use threadseal_testkit::in_repository;

fn example(name: &str) -> String {
    let spec = std::fs::read_to_string(in_repository("spec/ledger.md")).unwrap();
    let (_, rest) = spec.split_once("<!-- example: chain -->").unwrap();
    let block = rest.split("```").nth(1).unwrap();
    let line = block
        .lines()
        .find(|line| line.split(' ').next() == Some(name));
    line.unwrap()[name.len()..].trim_start().to_owned()
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
    let judged = |expect: Option<&str>| {
        let expect =
            expect.map(|hash| Expectation::given(ExpectedHead::parse(hash).unwrap(), false));
        let options = ChainOptions {
            expect: expect.into_iter().collect(),
            ..ChainOptions::default()
        };
        let now = Timestamp::from_micros(1_800_000_000_000_000).unwrap();
        judge(
            file.as_bytes(),
            options,
            &Judging::new(&Trust::default(), now),
        )
    };
    assert_eq!(judged(None).report.verdict, Verdict::Consistent);
    let outcome = judged(Some(&example("hash1")));
    assert_eq!(outcome.report.verdict, Verdict::Verified);
    assert_eq!(outcome.verified.unwrap().get().tip.count, 2);
    let behind = judged(Some(&example("hash0"))).report;
    assert_eq!(behind.verdict, Verdict::UnsignedTail);
    assert_eq!(behind.trusted_until.unwrap().turn, Some(0));
    let other = Digest::of(b"other").to_hex();
    assert_eq!(judged(Some(&other)).report.verdict, Verdict::Truncated);
}
