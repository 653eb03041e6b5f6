//! `testkit/scroll`: scrolls and attacks on them, through the command.

use crate::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    trusted_key: String,
    vector: Vec<Vector>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    file: String,
    verdict: String,
    /// The answer of v0.1 without a key.
    v01: Option<String>,
    #[serde(default)]
    flags: Vec<String>,
    why: String,
}

/// The answer of v0.1 in the spelling of the index.
fn v01(answer: &Value) -> String {
    if answer["ok"] == true {
        return "ok".to_owned();
    }
    let Some(failures) = answer["failures"].as_array() else {
        return "no answer".to_owned();
    };
    let word = |failure: &Value| format!("{}:{}", failure["turn"], failure["reason"].text());
    let words: Vec<String> = failures.iter().map(word).collect();
    words.join(" ")
}

#[test]
fn every_scroll_vector_gets_its_verdict_and_none_is_forgotten() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testkit/scroll");
    let text = read(folder.join("expect.toml"));
    let list: List = toml::from_str(&text).unwrap();
    let exits = super::Expectations::read().exit;
    let sandbox = Sandbox::new();
    let key = &list.trusted_key;
    let store = format!(
        "version = 1\n\n[[key]]\nname = \"testkit\"\nkey = \"{key}\"\nusage = [\"scroll\"]\n"
    );
    let trust = sandbox.write("trust.toml", store);
    let mut named = BTreeSet::new();
    let mut wrong = Vec::new();
    for vector in list.vector {
        let path = folder.join(&vector.file);
        let mut command = sandbox.command();
        command
            .args(["verify", "--json", "--trust"])
            .arg(&trust)
            .args(&vector.flags)
            .arg(&path);
        let output = command.output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let verdict = &report["results"][0]["verdict"];
        let exit = output.status.code();
        if *verdict != *vector.verdict || exit != Some(exits[&vector.verdict]) {
            let (file, why) = (&vector.file, &vector.why);
            let findings = &report["results"][0]["findings"];
            wrong.push(format!("{file} ({why}): {verdict}, {exit:?}: {findings}"));
        }
        if let Some(expected) = &vector.v01 {
            let answer = v01(&report["results"][0]["compat"]["agent_scroll"]);
            if answer != *expected && !vector.flags.iter().any(|flag| flag == "--key") {
                wrong.push(format!("{}: v0.1 answers {answer}", vector.file));
            }
        }
        named.insert(vector.file);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for part in ["attacks", "chains"] {
        for entry in fs::read_dir(folder.join(part)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(
                named.contains(&format!("{part}/{name}")),
                "{name} is in no list"
            );
        }
    }
}
