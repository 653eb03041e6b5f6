//! Ledgers that AbstractRuntime wrote and that were then changed: the command repeats its recorded
//! answer key by key, and a verdict never trusts the attacked part.

use super::report;
use crate::prelude::*;

fn cases(folder: &Path) -> Vec<Value> {
    let index = fs::read(folder.join("index.json")).unwrap();
    let index: Value = serde_json::from_slice(&index).unwrap();
    let cases = index["cases"].list();
    let there = |case: &&Value| folder.join(case["file"].text()).exists();
    cases.iter().filter(there).cloned().collect()
}

#[test]
fn the_command_answers_as_the_original_and_believes_no_chain_by_itself() {
    let Some(folder) = shared("vectors/ledger") else {
        return;
    };
    let sandbox = Sandbox::new();
    let cases = cases(&folder);
    assert!(cases.len() > 220);
    for case in &cases {
        let file = folder.join(case["file"].text());
        let mut line = format!("ledger verify {file:?}");
        if case["format"] == "sqlite" {
            line += &format!(" --run {}", case["run_id"].text());
        }
        let (code, report) = report(&sandbox, &line);
        let name = &case["name"];
        let expected = match &case["expected_exception"] {
            Value::Null => case["expected"].clone(),
            exception => json!({ "exception": exception }),
        };
        assert_eq!(report["compat"]["abstractruntime"], expected, "{name}");
        assert_eq!(report["format"], "ledger", "{name}");
        assert_ne!(report["verdict"], "verified", "{name}");
        assert!(code == 1 || code == 3, "{name}: {code}");
        if case["detected_by_abstractruntime"] == true && case["category"] != "fuzz" {
            let told = code == 1 || name == "tamper_bad_utf8";
            assert!(told, "{name}: {}", report["verdict"]);
        }
    }
}

#[test]
fn a_folder_of_them_is_told_apart_by_content() {
    let Some(folder) = shared("vectors/ledger") else {
        return;
    };
    let sandbox = Sandbox::new();
    let mut paths = vec!["verify".to_owned(), "--json".to_owned()];
    let parts = [
        "bundles",
        "run_sqlite_subworkflow",
        "run_jsonl_chat",
        "tamper_bom",
        "tamper_truncate_all",
    ];
    paths.extend(parts.map(|part| folder.join(part).to_str().unwrap().to_owned()));
    let found = sandbox.run(&paths).json();
    let reports = found["results"].list();
    let ledgers = reports.iter().filter(|report| report["format"] == "ledger");
    let ledgers: Vec<&Value> = ledgers.collect();
    let verdicts: BTreeSet<&str> = ledgers
        .iter()
        .map(|report| report["verdict"].text())
        .collect();
    assert_eq!(
        verdicts,
        ["consistent", "partial", "tampered", "unsigned"].into()
    );
    // Six bundles of nine ledgers, two runs of a database, three files.
    assert_eq!(ledgers.len(), 9 + 2 + 3, "{reports:#?}");
}

#[test]
fn compat_prints_what_the_original_prints_and_says_that_it_is_no_verdict() {
    let Some(folder) = shared("vectors/ledger") else {
        return;
    };
    let sandbox = Sandbox::new();
    for (case, code) in [("tamper_recompute_full", 0), ("tamper_edit_result", 1)] {
        let all = cases(&folder);
        let case = all.iter().find(|found| found["name"] == case).unwrap();
        let file = folder.join(case["file"].text());
        let ran = sandbox.exits(code, format!("ledger verify --compat {file:?}"));
        assert_eq!(ran.json(), case["expected"]);
        ran.stderr.has("warning");
    }
}
