//! `testkit/transcripts/rye`: each file has the verdict that its `expect.toml` names.

use serde::Deserialize;
use std::path::Path;
use threadseal_core::key::{KeyUsage, PublicKey};
use threadseal_core::record::{ExpectedHead, ThreadId};
use threadseal_core::report::Expectation;
use threadseal_core::report::{Report, Severity};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};
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

fn key(folder: &Path, name: &str) -> PublicKey {
    let pem = std::fs::read_to_string(folder.join(format!("keys/{name}_public.pem")));
    PublicKey::from_pem(&pem.unwrap()).unwrap()
}

fn trust(folder: &Path, names: &[&str]) -> Trust {
    let mut store = TrustStore::new();
    for name in names {
        let entry = TrustedKey::new(
            TrustName::parse(name).unwrap(),
            key(folder, name),
            [KeyUsage::Rye],
        );
        store.add(entry).unwrap();
    }
    Trust::new(store)
}

fn assert_verdict(report: &Report, expected: &str, row: &Row) {
    assert_eq!(
        report.verdict.as_str(),
        expected,
        "{}: {} {report:#?}",
        row.file,
        row.why
    );
}

#[test]
fn every_transcript_has_the_expected_verdicts() {
    let folder = in_repository("testkit/transcripts/rye");
    let expect = std::fs::read_to_string(folder.join("expect.toml")).unwrap();
    let expect: Expect = toml::from_str(&expect).unwrap();
    let now = Timestamp::parse_iso_seconds("2026-12-01T00:00:00Z").unwrap();
    for row in &expect.file {
        let bytes = std::fs::read(folder.join(&row.file)).unwrap();
        let names = row
            .trust
            .as_deref()
            .map_or_else(|| vec!["self", "colleague"], |name| vec![name]);
        let trust = trust(&folder, &names);
        let plain = Options::new(&trust, now);
        let report = |options: &Options<'_>| verify(&bytes, options).report;
        let seen = report(&plain);
        assert_verdict(&seen, &row.verdict, row);
        if let Some(code) = &row.error {
            let error = |f: &&threadseal_core::report::Finding| {
                f.severity == Severity::Error && f.code == code.as_str()
            };
            assert!(
                seen.findings.iter().any(|f| error(&f)),
                "{}: {seen:#?}",
                row.file
            );
        }
        let pinned = Trust::key(key(&folder, "self"));
        if let Some(verdict) = &row.pinned {
            assert_verdict(&report(&Options::new(&pinned, now)), verdict, row);
        }
        if let (Some(head), Some(verdict)) = (&row.head, &row.with_head) {
            let head = ExpectedHead::parse(head).unwrap();
            let expect = vec![Expectation::given(head, false)];
            assert_verdict(
                &report(&Options {
                    expect,
                    ..plain.clone()
                }),
                verdict,
                row,
            );
        }
        if let Some(thread) = &row.thread {
            let thread = ThreadId::parse(thread).unwrap();
            let options = Options {
                thread: Some(&thread),
                ..plain.clone()
            };
            assert_verdict(
                &report(&options),
                row.with_thread.as_ref().unwrap_or(&row.verdict),
                row,
            );
        }
    }
    assert!(expect.file.len() >= 40);
}
