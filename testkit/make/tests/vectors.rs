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
const FOLDERS: [(&str, usize); 8] = [
    ("native", 300),
    ("observed", 80),
    ("proofs", 60),
    ("rules/scroll", 150),
    ("rules/ledger", 80),
    ("rules/bundle", 50),
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

/// The tables of worked examples in the text, each with its folder: name, verdict and codes of a row.
fn worked(spec: &str) -> Vec<(String, Vec<[String; 3]>)> {
    let text = fs::read_to_string(testkit().join("../spec").join(spec)).unwrap();
    let tables = text.split("<!-- examples: ").skip(1);
    tables
        .map(|table| {
            let (folder, rest) = table.split_once(" -->\n").unwrap();
            let rows = rest.lines().take_while(|line| line.starts_with('|'));
            let rows = rows.skip(2).map(|row| {
                let cells: Vec<&str> = row.split('|').collect();
                [1, 3, 4].map(|cell| cells[cell].replace(['`', ' '], ""))
            });
            (folder.to_owned(), rows.collect())
        })
        .collect()
}

#[test]
fn the_worked_examples_of_the_text_are_what_it_states() {
    let mut judged = 0;
    for (folder, rows) in ["transcript.md", "proofs.md"].into_iter().flat_map(worked) {
        let questions = questions(folder.strip_prefix("testkit/").unwrap());
        for [name, verdict, codes] in rows {
            let asked = questions
                .iter()
                .filter(|(vector, _)| vector["name"] == *name);
            let asked: Vec<_> = asked.cloned().collect();
            let [answer] = answers(&asked).try_into().unwrap();
            let codes: Vec<&str> = codes.split(',').filter(|code| !code.is_empty()).collect();
            assert_eq!(answer["verdict"], *verdict, "{name}");
            assert_eq!(answer["codes"], json!(codes), "{name}");
            judged += 1;
        }
    }
    assert!(judged >= 20, "{judged}");
}

/// Line and number, the key and the `ext` of each seal in the table of `next_key`.
#[test]
fn the_example_of_next_key_has_the_seals_that_the_text_states() {
    let text = fs::read_to_string(testkit().join("../spec/transcript.md")).unwrap();
    let (_, table) = text.split_once("<!-- example: next-key -->\n").unwrap();
    let record = fs::read_to_string(testkit().join("native/next-key-example.jsonl")).unwrap();
    let lines: Vec<Value> = record
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let manifest = &lines[0]["payload"];
    let second = &lines[4]["payload"]["seal"]["ext"]["next_key"];
    let keys = [
        ("A", &manifest["authority"]),
        ("1", &manifest["key"]),
        ("2", second),
    ];
    let rows = table
        .lines()
        .take_while(|line| line.starts_with('|'))
        .skip(2);
    let mut seals = 0;
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let place: Vec<&str> = cells[1].split(", ").collect();
        let line = &lines[place[0].parse::<usize>().unwrap() - 1];
        let seal = &line["payload"]["seal"];
        assert_eq!(format!("seq {}", seal["seq"]), place[1]);
        assert_eq!(seal["final"], json!(place.get(2) == Some(&"final")));
        let (_, key) = keys.iter().find(|(name, _)| *name == cells[2]).unwrap();
        assert_eq!(seal["key"], json!(key_id(key.as_str().unwrap())));
        let ext = cells[3]
            .trim_matches('`')
            .replace("<2>", second.as_str().unwrap());
        assert_eq!(seal["ext"], serde_json::from_str::<Value>(&ext).unwrap());
        seals += 1;
    }
    let checkpoints = lines
        .iter()
        .filter(|line| line["event_type"] == "checkpoint");
    assert_eq!(seals, checkpoints.count());
}

/// The id of the key in hex.
fn key_id(key: &str) -> String {
    threadseal_core::key::PublicKey::from_hex(key)
        .unwrap()
        .key_id()
        .to_hex()
}
