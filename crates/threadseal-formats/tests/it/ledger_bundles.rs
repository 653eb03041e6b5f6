//! Run history bundles: those that `AbstractRuntime` exported, and those that this crate writes.

use crate::scene::*;
use std::fs;
use threadseal_core::error::Error;
use threadseal_formats::ledger::{
    Bundle, BundledLedger, ChainOptions, Judging, LineReader, Outcome, Place, Records, RunId,
    Verifier, View, conclude, write_bundle,
};

fn judged(ledger: &BundledLedger) -> Outcome {
    let options = ChainOptions {
        run: Some(ledger.run.clone()),
        view: ledger.view,
        first: ledger.first,
        ..ChainOptions::default()
    };
    judged_by(ledger, options)
}

fn judged_by(ledger: &BundledLedger, options: ChainOptions) -> Outcome {
    let (mut verifier, mut reader) = (Verifier::new(options), LineReader::new());
    for (number, line) in (1..).zip(&ledger.lines) {
        let place = Place::row(number, line.len() as u64);
        verifier.take(&reader.read_row(line), line, place);
    }
    conclude(verifier, 0, &Judging::new(&Trust::default(), now()))
}

/// A bundle of the testkit.
fn of_testkit(name: &str) -> Bundle {
    let path = format!("testkit/rules/bundle/{name}.json");
    let text = fs::read(threadseal_testkit::in_repository(&path)).unwrap();
    Bundle::parse(&text).unwrap()
}

// T-LED-38
#[test]
fn digits_that_no_hash_covers_are_named_in_a_bundle() {
    let whole = of_testkit("number-with-zeros-behind");
    assert_eq!(
        judged(&whole.ledgers[0]).report.verdict,
        Verdict::Consistent
    );
    let more = of_testkit("number-with-digits-that-no-hash-covers");
    let report = judged(&more.ledgers[0]).report;
    assert_eq!(report.verdict, Verdict::Partial);
    assert!(codes(&report).contains(&"number_inexact"));
}

// T-LED-39
#[test]
fn a_known_head_accuses_no_window() {
    let bundle = of_testkit("window-at-the-end");
    let ledger = &bundle.ledgers[0];
    let record = ledger.run.record_id();
    for seq in 0..6 {
        let head = format!("{record}:{seq}:{}:{}", seq + 1, Digest::of(b"another"));
        let expected = Expectation::given(ExpectedHead::parse(&head).unwrap(), true);
        let options = ChainOptions {
            run: Some(ledger.run.clone()),
            view: ledger.view,
            first: ledger.first,
            expect: vec![expected],
            ..ChainOptions::default()
        };
        let outcome = judged_by(ledger, options);
        assert_eq!(outcome.report.verdict, Verdict::Partial, "{seq}");
        assert!(outcome.report.head.is_none() && outcome.tip.is_none());
    }
}

// T-LED-28
#[test]
fn bundles_of_the_original_are_judged_by_what_they_hold() {
    let Some(folder) = beside_repository("vectors/ledger") else {
        return;
    };
    let index = json_file(folder.join("bundles/index.json"));
    for case in index.as_array().unwrap() {
        let file = case["file"].as_str().unwrap();
        let bytes = fs::read(folder.join(file)).unwrap();
        assert!(Bundle::looks_like(&bytes));
        let bundle = Bundle::parse(&bytes).unwrap();
        assert_eq!(bundle.repeated, None);
        for ledger in &bundle.ledgers {
            let outcome = judged(ledger);
            let answer = outcome.report.compat["abstractruntime"].as_json();
            let answer: Value = serde_json::from_str(answer).unwrap();
            assert_eq!(answer, case["ledgers"][ledger.run.as_str()], "{file}");
            let verdict = match ledger.view {
                View::Whole => Verdict::Consistent,
                View::Window | View::Replay => Verdict::Partial,
            };
            assert_eq!(outcome.report.verdict, verdict, "{file}");
            assert!(file.contains("full") || file.contains("tail") || ledger.view == View::Replay);
        }
    }
}

#[test]
fn a_changed_record_of_a_bundle_is_tampered_with() {
    let Some(folder) = beside_repository("vectors/ledger") else {
        return;
    };
    let text = fs::read_to_string(folder.join("bundles/run_jsonl_subworkflow_full.json")).unwrap();
    let at = text.find("\"record\"").unwrap();
    let (head, tail) = text.split_at(at);
    let tail = tail.replacen("\"node_id\": \"a\"", "\"node_id\": \"b\"", 1);
    let changed = [head, &tail].concat();
    assert_ne!(changed, text);
    let bundle = Bundle::parse(changed.as_bytes()).unwrap();
    let mut verdicts = bundle
        .ledgers
        .iter()
        .map(|ledger| judged(ledger).report.verdict);
    assert!(verdicts.any(|verdict| verdict == Verdict::Tampered));
}

struct Held(Vec<BundledLedger>);

impl Records for Held {
    fn each(
        &self,
        run: &RunId,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let ledger = self.0.iter().find(|ledger| ledger.run == *run).unwrap();
        ledger.lines.iter().try_for_each(|line| take(line))
    }
}

#[test]
fn what_is_written_comes_back_and_tells_what_the_original_tells() {
    let Some(folder) = beside_repository("vectors/ledger") else {
        return;
    };
    for name in ["chat_big_slim", "subworkflow"] {
        let file = folder.join(format!("bundles/run_jsonl_{name}_full.json"));
        let theirs = fs::read(file).unwrap();
        let bundle = Bundle::parse(&theirs).unwrap();
        let runs = bundle.ledgers.iter().map(|ledger| ledger.run.clone());
        let (runs, mut ours) = (runs.collect::<Vec<_>>(), Vec::new());
        let held = Held(bundle.ledgers.clone());
        let written = write_bundle(&runs, None, micros(0), &held, &mut |bytes| {
            ours.extend_from_slice(bytes);
            Ok(())
        });
        written.unwrap();
        assert_eq!(Bundle::parse(&ours).unwrap().ledgers, bundle.ledgers);
        let [ours, theirs]: [Value; 2] =
            [&ours, &theirs].map(|b| serde_json::from_slice(b).unwrap());
        for member in ["timeline", "resolved_actions", "root_run_id"] {
            assert_eq!(ours[member], theirs[member]);
        }
        for member in theirs.as_object().unwrap().keys() {
            assert!(ours.get(member).is_some(), "{member}");
        }
    }
}

#[test]
fn what_is_no_bundle_is_refused_by_name() {
    for text in [
        "",
        "[]",
        "{}",
        r#"{"version":2,"root_run_id":"r","ledgers":{}}"#,
        r#"{"version":1,"root_run_id":"","ledgers":{}}"#,
        r#"{"version":1,"root_run_id":"r","ledgers":{}}"#,
        r#"{"version":1,"root_run_id":"r","ledgers":{"r":{}}}"#,
        r#"{"version":1,"root_run_id":"r","ledgers":{"r":{"total":1,"cursor_start":1,"items":[{"cursor":2,"record":{}}]}}}"#,
        r#"{"version":1,"root_run_id":"r","ledgers":{"r":{"total":1,"cursor_start":1,"items":[{"cursor":1,"record":1}]}}}"#,
    ] {
        assert!(Bundle::parse(text.as_bytes()).is_err(), "{text}");
    }
    let ledgers = r#""ledgers":{"r":{"total":0,"cursor_start":1,"items":[]}}"#;
    let twice = format!(r#"{{"version":1,"root_run_id":"r",{ledgers},{ledgers}}}"#);
    assert!(Bundle::parse(twice.as_bytes()).unwrap().repeated.is_some());
}
