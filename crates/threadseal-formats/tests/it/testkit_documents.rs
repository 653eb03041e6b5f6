//! `testkit/documents`: each file has the verdict that its `expect.toml` names.

use crate::scene::*;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use threadseal_formats::document::{DocumentKind, ItemType, Options, ProfileChoice, verify};
use threadseal_testkit::in_repository;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    trust: BTreeMap<String, Vec<String>>,
    file: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    file: String,
    item: Option<String>,
    trust: Option<String>,
    auto: String,
    rye: Option<String>,
    native: Option<String>,
    pinned: Option<String>,
    head: Option<String>,
    thread: Option<String>,
    answer: Option<String>,
    why: Option<String>,
}

fn read(folder: &Path) -> Expect {
    toml::from_str(&std::fs::read_to_string(folder.join("expect.toml")).unwrap()).unwrap()
}

fn report(folder: &Path, row: &Row, profile: ProfileChoice, told: bool, trust: &Trust) -> Report {
    let bytes = std::fs::read(folder.join(&row.file)).unwrap();
    let kind = DocumentKind::of_name(&row.file).unwrap();
    let thread = row.thread.as_deref().map(|id| ThreadId::parse(id).unwrap());
    let item = row.item.as_deref().filter(|_| told);
    let head = row.head.as_deref();
    let now = Timestamp::parse_iso_seconds("2026-12-01T00:00:00Z").unwrap();
    let options = Options {
        path: &row.file,
        profile,
        item_type: item.map(|item| ItemType::parse(item).unwrap()),
        expect_thread: thread.as_ref(),
        expect_head: head.map(|head| ExpectedHead::parse(head).unwrap()),
        ..Options::new(kind, trust, now)
    };
    verify(&bytes, &options).unwrap().report
}

fn assert_verdict(folder: &Path, row: &Row, profile: ProfileChoice, trust: &Trust, want: &str) {
    for told in [true, false] {
        let report = report(folder, row, profile, told, trust);
        assert_eq!(
            report.verdict.as_str(),
            want,
            "{} under {profile:?} ({:?}): {report:#?}",
            row.file,
            row.why
        );
    }
}

#[test]
fn documents_of_rye_have_the_expected_verdicts_and_answers() {
    let folder = in_repository("testkit/documents/rye");
    let expect = read(&folder);
    for row in &expect.file {
        let names = &expect.trust[row.trust.as_deref().unwrap_or("user")];
        let keys: Vec<_> = names
            .iter()
            .map(|name| pem_file(folder.join(name)))
            .collect();
        let trust = trust_in(keys.iter().map(|key| (*key, KeyUsage::Rye)));
        let rye = row.rye.as_ref().unwrap();
        assert_verdict(&folder, row, ProfileChoice::Auto, &trust, &row.auto);
        assert_verdict(&folder, row, ProfileChoice::Rye, &trust, rye);
        let pinned = Trust::key(keys[0]);
        let want = row.pinned.as_ref().unwrap_or(&row.auto);
        assert_verdict(&folder, row, ProfileChoice::Auto, &pinned, want);
        if let Some(answer) = &row.answer {
            let answer: Value = serde_json::from_str(answer).unwrap();
            let report = report(&folder, row, ProfileChoice::Rye, true, &trust);
            let given = report.compat.get("rye");
            assert_eq!(given, Some(&answer.into()), "{}", row.file);
        }
    }
    assert!(expect.file.len() > 200);
}

#[test]
fn natively_sealed_documents_have_the_expected_verdicts() {
    let folder = in_repository("testkit/documents/native");
    let trust = trust_in([
        (pem_file(folder.join("keys/native.pem")), KeyUsage::Native),
        (pem_file(folder.join("keys/rye.pem")), KeyUsage::Rye),
    ]);
    let expect = read(&folder);
    for row in &expect.file {
        assert_verdict(&folder, row, ProfileChoice::Auto, &trust, &row.auto);
        for (profile, want) in [
            (ProfileChoice::Rye, &row.rye),
            (ProfileChoice::Native, &row.native),
        ] {
            if let Some(want) = want {
                assert_verdict(&folder, row, profile, &trust, want);
            }
        }
    }
    let listed = expect.file.len() + 2;
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), listed);
}
