//! Files that igor made, and every attack on them. The command gives each word of the index the
//! verdict, the exit code and the finding that `testkit/lineage/expect.toml` lists.

use crate::prelude::*;

struct Rule {
    flags: Vec<String>,
    verdicts: Vec<String>,
    finding: Option<String>,
}

fn texts(value: &toml::Value) -> Vec<String> {
    let values = value.as_array().unwrap().iter();
    values
        .map(|text| text.as_str().unwrap().to_owned())
        .collect()
}

/// The rules of an entry with their flags filled in; only the first of those with equal flags.
fn rules_of(rules: &[toml::Value], entry: &Value) -> Vec<Rule> {
    let id = entry["id"].as_str().unwrap();
    let fits = |rule: &&toml::Value| {
        let ids = rule.get("ids").map(texts);
        rule["expect"].as_str() == entry["expected"].as_str()
            && rule
                .get("kind")
                .is_none_or(|kind| kind.as_str() == entry["kind"].as_str())
            && ids.is_none_or(|ids| ids.iter().any(|begin| id.starts_with(begin)))
    };
    let mut found: Vec<Rule> = Vec::new();
    for rule in rules.iter().filter(fits) {
        let words = texts(&rule["flags"]);
        let filled = words.chunks(2).filter_map(|pair| {
            let field = match pair[1].as_str() {
                "{key}" => "pinned_pubkey",
                "{code}" => "wasm_sha256",
                _ => "pinned_head_sha256",
            };
            let value = entry["trust"][field].as_str()?;
            Some([pair[0].clone(), value.to_owned()])
        });
        let flags: Vec<String> = filled.flatten().collect();
        if found.iter().all(|rule| rule.flags != flags) {
            found.push(Rule {
                flags,
                verdicts: texts(&rule["verdicts"]),
                finding: rule.get("finding").map(|f| f.as_str().unwrap().to_owned()),
            });
        }
    }
    found
}

fn entries(folder: &Path) -> Vec<Value> {
    let index = fs::read(folder.join("index.json")).unwrap();
    let index: Value = serde_json::from_slice(&index).unwrap();
    index["entries"].as_array().unwrap().clone()
}

fn rules() -> Vec<toml::Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testkit/lineage/expect.toml");
    let table: toml::Table = read(path).parse().unwrap();
    table["rule"].as_array().unwrap().clone()
}

#[test]
fn each_word_of_the_index_gets_its_verdict_its_exit_code_and_its_finding() {
    let Some(folder) = shared("vectors/igor") else {
        return;
    };
    let (sandbox, rules, mut wrong) = (Sandbox::new(), rules(), Vec::new());
    for entry in entries(&folder) {
        let path = folder.join(entry["path"].as_str().unwrap());
        let rules = rules_of(&rules, &entry);
        assert!(!rules.is_empty(), "no rule for {}", entry["expected"]);
        for rule in rules {
            let line = format!("lineage verify {path:?} {}", rule.flags.join(" "));
            let report = sandbox.report(line);
            let verdict = report["verdict"].as_str().unwrap();
            let said = rule.verdicts.iter().any(|expected| expected == verdict);
            let codes = report.codes();
            let told = rule
                .finding
                .iter()
                .all(|code| codes.contains(&code.as_str()));
            let unproved = !rule.flags.contains(&"--expect-head".to_owned());
            let whole = verdict != "verified"
                || report["completeness"] == if unproved { "unproved" } else { "head" };
            if !said || !told || !whole || report["format"] != "lineage" {
                wrong.push(format!(
                    "{} {:?}: {verdict} {codes:?}",
                    entry["id"], rule.flags
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
}

#[test]
fn verify_detects_them_and_never_accepts_what_must_be_refused() {
    let Some(folder) = shared("vectors/igor") else {
        return;
    };
    let sandbox = Sandbox::new();
    for entry in entries(&folder) {
        let path = folder.join(entry["path"].as_str().unwrap());
        let key = entry["trust"]["pinned_pubkey"].as_str().unwrap();
        let ran = sandbox.sh(format!("verify --json --key {key} {path:?}"));
        let (id, expected) = (
            entry["id"].as_str().unwrap(),
            entry["expected"].as_str().unwrap(),
        );
        // A run without an expected head and without the code cannot detect these.
        let needs_more = expected == "rollback" || id == "t_wasm_mismatch";
        let fine = expected == "accept" || expected.starts_with("valid") || needs_more;
        assert_eq!(ran.code == 0, fine, "{id}: {}", ran.stdout);
        // Also a file that only its name makes a checkpoint: it is malformed.
        assert_eq!(ran.json()["results"][0]["format"], "lineage", "{id}");
    }
}

/// The files have another name, and then a name without any hint.
// T-LIN-32
#[test]
fn a_folder_of_them_is_found_by_content() {
    let Some(folder) = shared("vectors/igor") else {
        return;
    };
    let sandbox = Sandbox::new();
    for (chain, verdict) in [
        ("chains/valid_linear", "verified"),
        ("forks/fork_two_branches", "forked"),
    ] {
        let entry = entries(&folder)
            .into_iter()
            .find(|e| e["path"] == chain)
            .unwrap();
        for (at, file) in fs::read_dir(folder.join(chain)).unwrap().enumerate() {
            let part = if at % 2 == 0 { "a" } else { "b" };
            let bytes = fs::read(file.unwrap().path()).unwrap();
            sandbox.write(format!("{verdict}/{part}/x{at}.dat"), bytes);
        }
        let key = entry["trust"]["pinned_pubkey"].as_str().unwrap();
        let report = sandbox.report(format!("verify --key {key} {verdict}"));
        report.is(json!({"verdict": verdict, "path": verdict}));
    }
    let every = [
        "formats/v4_extremes.ckpt",
        "formats/v2_min.ckpt",
        "formats/v3.ckpt",
    ];
    for (at, file) in every.iter().enumerate() {
        let bytes = fs::read(folder.join(file)).unwrap();
        let path = sandbox.write(format!("single/{at}"), bytes);
        let ran = sandbox.sh(format!("verify --json {path:?}"));
        assert_eq!(ran.json()["results"][0]["format"], "lineage", "{file}");
    }
}
