//! The committed vectors are those that the program makes, and its verifier answers as they list.
#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code; clippy knows only the functions marked #[test]"
)]

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_threadseal-vectors");
/// Each folder with an index.json, and how many vectors it has at least.
const FOLDERS: [(&str, usize); 7] = [
    ("native", 300),
    ("observed", 80),
    ("proofs", 60),
    ("rules/scroll", 150),
    ("rules/ledger", 80),
    ("rules/documents", 110),
    ("rules/tlog", 120),
];
/// What a vector has beside its answer.
const ASKED: [&str; 5] = ["name", "kind", "files", "options", "rule"];
/// 2027-01-15T08:00:00Z.
const NOW: u64 = 1_800_000_000;

fn testkit() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect()
}

#[test]
fn the_vectors_are_those_that_the_program_makes() {
    let made = tempfile::tempdir().unwrap();
    let status = Command::new(PROGRAM).arg("make").arg(made.path()).status();
    assert!(status.unwrap().success());
    for (folder, _) in FOLDERS {
        let (made, kept) = (
            files(&made.path().join(folder)),
            files(&testkit().join(folder)),
        );
        let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&made), names(&kept), "{folder}");
        for (name, bytes) in &made {
            assert!(
                kept[name] == *bytes,
                "{folder}/{name} is another one; hint: cargo run -p threadseal-vectors -- make testkit"
            );
        }
    }
}

/// The questions of a list, each with its vector.
fn questions(folder: &str) -> Vec<(Value, Value)> {
    let place = testkit().join(folder);
    let index: Value =
        serde_json::from_slice(&fs::read(place.join("index.json")).unwrap()).unwrap();
    let trusted = |keys: &Value, usage: &Value| -> Value {
        let keys = keys.as_array().unwrap().iter();
        keys.map(|key| match key.as_str().unwrap().split_once(':') {
            Some((usage, key)) => json!({"key": key, "usage": usage}),
            None => json!({"key": key, "usage": usage}),
        })
        .collect()
    };
    let vectors = index["vectors"].as_array().unwrap().iter().zip(0..);
    vectors
        .map(|(vector, id)| {
            let mut question = vector.get("options").cloned().unwrap_or(json!({}));
            let usage = match question.get("usage") {
                Some(usage) => usage.clone(),
                None => index["usage"].clone(),
            };
            let trust = question.get("trust").unwrap_or(&index["trust"]);
            question["trust"] = trusted(trust, &usage);
            question.as_object_mut().unwrap().remove("usage");
            question["id"] = json!(id);
            question["kind"] = vector["kind"].clone();
            question["now"] = json!(NOW);
            for pair in vector["files"].as_array().unwrap() {
                let path = place.join(pair[1].as_str().unwrap());
                question["files"][pair[0].as_str().unwrap()] = json!({"path": path});
            }
            (vector.clone(), question)
        })
        .collect()
}

fn answers(questions: &[(Value, Value)]) -> Vec<Value> {
    let mut child = Command::new(PROGRAM)
        .arg("answer")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let text: String = questions.iter().map(|(_, q)| format!("{q}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    let lines = output.stdout.split(|byte| *byte == b'\n');
    lines
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

#[test]
fn every_vector_is_answered_as_it_is_listed() {
    let mut differing = Vec::new();
    for (folder, least) in FOLDERS {
        let questions = questions(folder);
        assert!(questions.len() >= least, "{folder}: {}", questions.len());
        let answers = answers(&questions);
        assert_eq!(answers.len(), questions.len());
        for ((vector, _), answer) in questions.iter().zip(&answers) {
            let mut expected = vector.as_object().unwrap().clone();
            expected.retain(|member, _| !ASKED.contains(&member.as_str()));
            let mut answer = answer.as_object().unwrap().clone();
            answer.remove("id");
            if answer != expected {
                let (name, rule) = (&vector["name"], &vector["rule"]);
                let (is, listed) = (Value::from(answer), Value::from(expected));
                differing.push(format!("{name} ({rule}): {is}, listed {listed}"));
            }
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}
