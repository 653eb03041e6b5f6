//! Every file and chain that igor made, and every attack on one: `testkit/lineage/expect.toml`
//! gives the verdict for its word.

use crate::scene::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use threadseal_formats::lineage::{FileReader, Judging, LinkFacts, Outcome, View, judge};
use threadseal_testkit::in_repository;

/// The entries of the index of igor's vectors, each with its path; none without them.
fn entries() -> Vec<(Value, PathBuf)> {
    let Some(folder) = beside_repository("vectors/igor") else {
        return Vec::new();
    };
    let index = json_file(folder.join("index.json"));
    let entries = index["entries"].as_array().unwrap().iter();
    let path = |entry: &Value| folder.join(entry["path"].as_str().unwrap());
    entries.map(|entry| (entry.clone(), path(entry))).collect()
}

fn read(path: &Path) -> LinkFacts {
    let bytes = fs::read(path).unwrap();
    let mut reader = FileReader::new();
    // Small pieces, so that headers and states cross their ends.
    for piece in bytes.chunks(97) {
        reader.push(piece);
    }
    reader.finish(path.file_name().unwrap().to_str().unwrap(), 0)
}

fn facts(path: &Path) -> (Vec<LinkFacts>, View) {
    if path.is_file() {
        return (vec![read(path)], View::Single);
    }
    let entries = fs::read_dir(path).unwrap();
    let files = entries.map(|entry| read(&entry.unwrap().path())).collect();
    (files, View::History)
}

/// The flags of a rule, by name, with the values from the entry; flags without a value are omitted.
fn flags<'e>(rule: &toml::Value, entry: &'e Value) -> BTreeMap<String, &'e str> {
    let words = rule["flags"].as_array().unwrap().iter();
    let words: Vec<&str> = words.map(|word| word.as_str().unwrap()).collect();
    let named = words.chunks(2).filter_map(|pair| {
        let field = match pair[1] {
            "{key}" => "pinned_pubkey",
            "{code}" => "wasm_sha256",
            "{head}" => "pinned_head_sha256",
            other => panic!("{other}"),
        };
        Some((pair[0].to_owned(), entry["trust"][field].as_str()?))
    });
    named.collect()
}

fn outcome(path: &Path, flags: &BTreeMap<String, &str>) -> Vec<Outcome> {
    let (facts, view) = facts(path);
    let trust = match flags.get("--key") {
        Some(key) => Trust::key(PublicKey::from_hex(key).unwrap()),
        None => Trust::default(),
    };
    let code = flags
        .get("--code")
        .map(|code| Digest::parse_hex(code).unwrap());
    let code: Vec<Digest> = code.into_iter().collect();
    let head = flags.get("--expect-head");
    let head = head.map(|head| ExpectedHead::parse(head).unwrap());
    let expect = head.map(|head| Expectation::given(head, false));
    let judging = Judging {
        code: &code,
        view,
        expect: expect.into_iter().collect(),
        ..Judging::new(&trust, now())
    };
    judge(facts, &judging).unwrap()
}

// T-LIN-29
#[test]
fn each_word_of_the_index_gets_its_verdict_and_its_finding() {
    let rules = toml_file(in_repository("testkit/lineage/expect.toml"));
    let rules = rules["rule"].as_array().unwrap();
    let mut wrong = Vec::new();
    for (entry, path) in &entries() {
        let id = entry["id"].as_str().unwrap();
        let mut tried: Vec<BTreeMap<String, &str>> = Vec::new();
        let fits = |rule: &&toml::Value| {
            let ids = rule.get("ids").and_then(|ids| ids.as_array());
            rule["expect"].as_str() == entry["expected"].as_str()
                && rule
                    .get("kind")
                    .is_none_or(|kind| kind.as_str() == entry["kind"].as_str())
                && ids.is_none_or(|ids| {
                    ids.iter()
                        .any(|begin| id.starts_with(begin.as_str().unwrap()))
                })
        };
        for rule in rules.iter().filter(fits) {
            let flags = flags(rule, entry);
            if tried.contains(&flags) {
                continue;
            }
            let outcomes = outcome(path, &flags);
            let verdicts: Vec<&str> = outcomes.iter().map(|o| o.report.verdict.as_str()).collect();
            let codes: Vec<&str> = outcomes.iter().flat_map(|o| codes(&o.report)).collect();
            let expected = rule["verdicts"].as_array().unwrap();
            let said =
                outcomes.len() == 1 && expected.iter().any(|v| v.as_str() == Some(verdicts[0]));
            let told = rule
                .get("finding")
                .is_none_or(|f| codes.contains(&f.as_str().unwrap()));
            let minted = outcomes
                .iter()
                .all(|o| o.verified.is_some() == (o.report.verdict.as_str() == "verified"));
            if !said || !told || !minted {
                wrong.push(format!("{id} {flags:?}: {verdicts:?} {codes:?} {minted}"));
            }
            tried.push(flags);
        }
        if tried.is_empty() {
            wrong.push(format!("{id}: no rule for {}", entry["expected"]));
        }
    }
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
}

#[test]
fn the_answer_of_the_original_is_told_word_for_word() {
    for (entry, path) in &entries() {
        let outcomes = outcome(path, &BTreeMap::new());
        let told = outcomes[0].report.compat["igor"].as_json();
        let told: Value = serde_json::from_str(told).unwrap();
        let actual = &entry["igor_actual"];
        if entry["kind"] == "file" {
            let parse = actual["parse"].as_str().unwrap();
            let error = told["inspect"]["error"].as_str();
            let expected = (parse != "ok").then(|| format!("parse checkpoint: {parse}"));
            assert_eq!(error, expected.as_deref(), "{}", entry["id"]);
            let signature = match told["inspect"]["signature_valid"].as_bool() {
                Some(true) => "valid",
                Some(false) => "invalid",
                None if error.is_some() => "n/a",
                None => "absent",
            };
            assert_eq!(actual["signature"], signature, "{}", entry["id"]);
            continue;
        }
        let valid = told["verify"]["valid"].as_bool().unwrap();
        assert_eq!(actual["chain"] == "VALID", valid, "{}", entry["id"]);
        let none = Vec::new();
        let errors = actual["chain_errors"].as_array().unwrap_or(&none);
        let found = told["verify"]["errors"].as_array();
        assert_eq!(found, Some(errors), "{}", entry["id"]);
    }
}
