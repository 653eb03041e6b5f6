//! `testkit/transcripts/rye`: each file has the verdict that its `expect.toml` names.

use crate::scene::*;
use serde::Deserialize;
use threadseal_formats::transcript::rye::{Options, verify};
use threadseal_testkit::in_repository;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    file: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    file: String,
    verdict: String,
    error: Option<String>,
    trust: Option<String>,
    pinned: Option<String>,
    head: Option<String>,
    with_head: Option<String>,
    thread: Option<String>,
    with_thread: Option<String>,
    why: String,
}

fn assert_verdict(report: &Report, expected: &str, row: &Row) {
    let at = format!("{}: {} {report:#?}", row.file, row.why);
    assert_eq!(report.verdict.as_str(), expected, "{at}");
}

#[test]
fn every_transcript_has_the_expected_verdicts() {
    let folder = in_repository("testkit/transcripts/rye");
    let expect = std::fs::read_to_string(folder.join("expect.toml")).unwrap();
    let expect: Expect = toml::from_str(&expect).unwrap();
    let now = Timestamp::parse_iso_seconds("2026-12-01T00:00:00Z").unwrap();
    for row in &expect.file {
        let bytes = std::fs::read(folder.join(&row.file)).unwrap();
        let file_key = |name: &str| pem_file(folder.join(format!("keys/{name}_public.pem")));
        let names = row
            .trust
            .as_deref()
            .map_or_else(|| vec!["self", "colleague"], |name| vec![name]);
        let trust = trust_in(
            names
                .into_iter()
                .map(|name| (file_key(name), KeyUsage::Rye)),
        );
        let plain = Options::new(&trust, now);
        let report = |options: &Options<'_>| verify(&bytes, options).report;
        let seen = report(&plain);
        assert_verdict(&seen, &row.verdict, row);
        if let Some(code) = &row.error {
            let mut findings = seen.findings.iter();
            let named = findings.any(|f| f.severity == Severity::Error && f.code == code.as_str());
            assert!(named, "{}: {seen:#?}", row.file);
        }
        if let Some(verdict) = &row.pinned {
            let pinned = Trust::key(file_key("self"));
            assert_verdict(&report(&Options::new(&pinned, now)), verdict, row);
        }
        if let (Some(head), Some(verdict)) = (&row.head, &row.with_head) {
            let head = ExpectedHead::parse(head).unwrap();
            let options = Options {
                expect: vec![Expectation::given(head, false)],
                ..plain.clone()
            };
            assert_verdict(&report(&options), verdict, row);
        }
        if let Some(thread) = &row.thread {
            let thread = ThreadId::parse(thread).unwrap();
            let options = Options {
                thread: Some(&thread),
                ..plain.clone()
            };
            let verdict = row.with_thread.as_ref().unwrap_or(&row.verdict);
            assert_verdict(&report(&options), verdict, row);
        }
    }
    assert!(expect.file.len() >= 40);
}
