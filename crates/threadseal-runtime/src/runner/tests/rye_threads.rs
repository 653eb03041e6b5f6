//! Threads of Rye: genuine ones continue, changed ones do not.
//!
//! The data was made by running Rye.

use super::stage::{Stage, again, of};
use crate::history::VerifiedRecord;
use crate::item::ItemId;
use crate::model::ChatMessage;
use crate::runner::Adoption;
use crate::shared::shared;
use crate::status::Status;
use crate::toolbox::Cancel;
use serde_json::Value;
use std::path::{Path, PathBuf};
use threadseal_core::canon::python::rye_line;
use threadseal_core::error::Error;
use threadseal_core::key::{KeyUsage, PublicKey};
use threadseal_core::record::ThreadId;
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};

const ONCE_MORE: &str = "answers: [{when: Once more., text: Gladly.}]";

/// A stage with the files of a project of Rye, whose user is trusted.
fn stage(vectors: &Path, project: &str) -> Stage {
    let mut stage = Stage::new();
    let mut store = TrustStore::new();
    for (name, key, usage) in [
        (
            "self",
            *stage.bench.keys.native.public_key(),
            KeyUsage::Native,
        ),
        (
            "self-rye",
            *stage.bench.keys.rye.public_key(),
            KeyUsage::Rye,
        ),
    ] {
        let name = TrustName::parse(name).unwrap();
        store.add(TrustedKey::new(name, key, [usage])).unwrap();
    }
    let pem =
        std::fs::read_to_string(vectors.join("valid/user/.ai/config/keys/signing/public_key.pem"))
            .unwrap();
    let key = PublicKey::from_pem(&pem).unwrap();
    store
        .add(TrustedKey::new(
            TrustName::parse("rye").unwrap(),
            key,
            [KeyUsage::Rye],
        ))
        .unwrap();
    stage.bench.trust = Trust::new(store);
    copy(
        &vectors.join("valid").join(project).join(".ai"),
        &stage.bench.project.root().join(".ai"),
    );
    for (id, prompt) in [
        ("clean/one", "One."),
        ("clean/three", "Three."),
        ("clean/ten", "Ten."),
        ("test/plain", "Plain."),
    ] {
        stage.directive(id, "", prompt);
    }
    stage
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &target),
            false => std::fs::write(target, std::fs::read(&path).unwrap()).unwrap(),
        }
    }
}

fn adoption(thread: &str, directive: Option<&str>) -> Adoption {
    Adoption {
        thread: ThreadId::parse(thread).unwrap(),
        directive: directive.map(|id| ItemId::parse(id).unwrap()),
        inputs: serde_json::Map::new(),
        cancel: Cancel::default(),
    }
}

fn adopt(
    stage: &Stage,
    thread: &str,
    directive: Option<&str>,
) -> Result<crate::runner::Ran, Error> {
    stage.engine(ONCE_MORE).adopt(&adoption(thread, directive))
}

fn as_the_original_tells(record: &VerifiedRecord) -> Vec<Value> {
    let messages = record.messages().unwrap();
    let lines = messages.iter().map(|message| rye_line(&message.to_value()));
    lines
        .map(|line| serde_json::from_slice(&line).unwrap())
        .collect()
}

#[test]
fn threads_of_the_original_go_on_with_exactly_the_messages_that_it_reconstructs() {
    let Some(vectors) = shared("vectors/rye") else {
        return;
    };
    for (id, directive) in [
        ("clean/one-1", "clean/one"),
        ("clean/three-1", "clean/three"),
        ("clean/ten-1", "clean/ten"),
    ] {
        let stage = stage(&vectors, "proj_clean");
        let thread = ThreadId::parse(id).unwrap();
        let before = stage.read(&stage.folder(&thread).join("transcript.jsonl"));
        let expected: Value = serde_json::from_slice(
            &stage.read(&stage.folder(&thread).join("EXPECTED_messages.json")),
        )
        .unwrap();
        let ran = adopt(&stage, id, Some(directive)).unwrap();
        assert_eq!(ran.status, Status::Completed);
        let engine = stage.engine(ONCE_MORE);
        let found =
            as_the_original_tells(&engine.services.archive().record(&thread, None).unwrap());
        assert_eq!(Value::from(found), expected, "{id}");
        let events = stage.events(&ran.thread);
        let told = of(&events, "thread_adopted")[0];
        assert_eq!(
            (&told["thread_id"], &told["verdict"]),
            (&id.into(), &"verified".into()),
            "{told}"
        );
        let resumed = engine.resume(&again(&thread)).unwrap();
        assert_eq!(resumed.text, "Gladly.");
        // For threads of Rye, only the registry names their successors.
        assert_eq!(crate::testing::told(&engine), []);
        let told = engine
            .services
            .registry
            .get(&resumed.thread)
            .unwrap()
            .unwrap();
        stage.edit("DELETE FROM threads WHERE thread_id = ?1", &resumed.thread);
        engine.recover(&resumed.thread).unwrap();
        assert_eq!(crate::testing::told(&engine), []);
        let after = engine
            .services
            .registry
            .get(&resumed.thread)
            .unwrap()
            .unwrap();
        assert_eq!(after.continuation_of, told.continuation_of);
        assert_eq!(after.chain_root, told.chain_root);
        let asked = stage.last_asked();
        assert_eq!(asked.len(), expected.as_array().unwrap().len() + 1, "{id}");
        for (asked, expected) in asked.iter().zip(expected.as_array().unwrap()) {
            let text = match asked {
                ChatMessage::User(text) | ChatMessage::Assistant { text, .. } => text,
                ChatMessage::ToolResult { content, .. } => content,
            };
            assert_eq!(text, expected["content"].as_str().unwrap(), "{id}");
        }
        let chain = engine.services.registry.chain(&resumed.thread).unwrap();
        let ids: Vec<&str> = chain
            .threads
            .iter()
            .map(|thread| thread.id.as_str())
            .collect();
        assert_eq!(ids, [id, ran.thread.as_str(), resumed.thread.as_str()]);
        assert_eq!(
            stage.read(&stage.folder(&thread).join("transcript.jsonl")),
            before
        );
        // A second adoption is refused.
        assert!(adopt(&stage, id, Some(directive)).is_err());
    }
}

#[test]
fn a_finished_thread_whose_end_is_not_sealed_is_adopted_and_not_resumed() {
    let Some(vectors) = shared("vectors/rye") else {
        return;
    };
    let stage = stage(&vectors, "proj");
    let id = "test/plain/plain-1795293095262";
    let thread = ThreadId::parse(id).unwrap();
    let before = stage.state();
    let error = adopt(&stage, id, Some("test/other"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("test/plain"), "{error}");
    assert!(stage.state() == before);
    let ran = adopt(&stage, id, None).unwrap();
    assert_eq!(
        (ran.status, ran.text.as_str()),
        (
            Status::Completed,
            "All done, no tools. \u{65e5}\u{672c}\u{8a9e} \u{2028} line sep"
        )
    );
    let events = stage.events(&ran.thread);
    let told = of(&events, "thread_adopted")[0];
    assert_eq!(told["verdict"], "unsigned_tail");
    assert_eq!(
        told["unverified"]["events"],
        serde_json::json!(["thread_completed"])
    );
    assert_eq!(
        (&told["end_sealed"], &told["thread_json"]),
        (&false.into(), &"verified".into())
    );
    assert_eq!(stage.resume(&thread, ONCE_MORE).unwrap().text, "Gladly.");
    assert_eq!(stage.last_asked().len(), 5);
    // No checkpoint at all, and no ending.
    for id in ["test/err/err-1795293095497", "live-root-1"] {
        let before = stage.state();
        assert!(adopt(&stage, id, None).is_err(), "{id}");
        assert!(stage.state() == before, "{id}");
    }
}

// T-RUN-08
#[test]
fn papers_of_the_original_must_verify_where_they_are_there() {
    let Some(vectors) = shared("vectors/rye") else {
        return;
    };
    let stage = stage(&vectors, "proj");
    let id = "test/plain/plain-1795293095262";
    let folder = stage.folder(&ThreadId::parse(id).unwrap());
    for (name, from, to) in [
        ("thread.json", "\"turns\": 25", "\"turns\": 99"),
        (
            "thread.json",
            "test/plain/plain-1795293095262",
            "test/plain/plain-1795293095263",
        ),
        ("capabilities.md", "Read a file", "Read any file"),
        ("transcript.jsonl", "hello", "hallo"),
    ] {
        let path = folder.join(name);
        let whole = stage.read(&path);
        let changed = String::from_utf8(whole.clone())
            .unwrap()
            .replacen(from, to, 1);
        assert_ne!(changed.as_bytes(), whole);
        std::fs::write(&path, changed).unwrap();
        let before = stage.state();
        assert!(adopt(&stage, id, None).is_err(), "{name}");
        assert!(stage.state() == before, "{name}");
        std::fs::write(&path, whole).unwrap();
    }
    adopt(&stage, id, None).unwrap();
}

/// The tampered transcripts: none with another verdict is continued, and nothing changes.
// T-RUN-08
#[test]
fn no_changed_thread_of_the_original_is_resumed_or_adopted_and_nothing_changes() {
    let Some(vectors) = shared("vectors/rye") else {
        return;
    };
    let index = std::fs::read(vectors.join("tampered/index.json")).unwrap();
    let index: Vec<Value> = serde_json::from_slice(&index).unwrap();
    let stage = stage(&vectors, "proj_clean");
    let (mut refused, mut tails) = (0, 0);
    for case in &index {
        let source = case["source"].as_str().unwrap_or_default();
        let (thread, directive) = match source.rsplit('/').nth(1) {
            Some("ten-1") => ("clean/ten-1", "clean/ten"),
            Some("three-1") => ("clean/three-1", "clean/three"),
            _ => continue,
        };
        let expect = case["expect"].as_str().unwrap();
        if case["kind"] != "transcript" || !(expect == "invalid" || expect.starts_with("unsigned"))
        {
            continue;
        }
        let file: PathBuf = vectors
            .join("tampered")
            .join(case["file"].as_str().unwrap());
        let Ok(bytes) = std::fs::read(&file) else {
            continue;
        };
        let id = ThreadId::parse(thread).unwrap();
        let path = stage.folder(&id).join("transcript.jsonl");
        let whole = stage.read(&path);
        std::fs::write(&path, bytes).unwrap();
        let before = stage.state();
        let what = &case["why"];
        assert!(stage.resume(&id, ONCE_MORE).is_err(), "{file:?} {what}");
        match adopt(&stage, thread, Some(directive)) {
            Err(_) => {
                assert!(stage.state() == before, "{file:?} {what}");
                refused += 1;
            }
            Ok(ran) => {
                // Only an end, or nothing, may follow the seals of an adopted thread.
                assert_eq!(expect, "unsigned_tail", "{file:?} {what}");
                let events = stage.events(&ran.thread);
                let told = of(&events, "thread_adopted")[0].clone();
                assert_eq!(told["verdict"], "unsigned_tail", "{told}");
                panic!("{file:?} {what}: adopted, {told}");
            }
        }
        tails += usize::from(expect.starts_with("unsigned_tail"));
        std::fs::write(&path, whole).unwrap();
    }
    assert!(refused > 80 && tails > 5, "{refused} {tails}");
}

/// The transcript up to its `count`-th checkpoint.
fn cut(transcript: &[u8], count: usize) -> Vec<u8> {
    let mut seen = 0;
    let lines = transcript.split_inclusive(|byte| *byte == b'\n');
    let kept = lines.take_while(|line| {
        let whole = seen < count;
        let event: Value = serde_json::from_slice(line).unwrap();
        seen += usize::from(event["event_type"] == "checkpoint");
        whole
    });
    kept.flatten().copied().collect()
}

// T-RUN-09
#[test]
fn a_transcript_that_was_cut_at_a_seal_is_told_by_the_turns_of_its_thread_json() {
    let Some(vectors) = shared("vectors/rye") else {
        return;
    };
    let stage = stage(&vectors, "proj");
    stage.directive("agency-kiwi/discover_leads", "", "Leads.");
    let id = "agency-kiwi/discover_leads/discover_leads-1795293094813";
    let path = stage
        .folder(&ThreadId::parse(id).unwrap())
        .join("transcript.jsonl");
    let whole = stage.read(&path);
    for count in [1, 2] {
        std::fs::write(&path, cut(&whole, count)).unwrap();
        let before = stage.state();
        let error = adopt(&stage, id, None).unwrap_err().to_string();
        assert!(error.contains("truncated"), "{error}");
        let error = stage.resume(&ThreadId::parse(id).unwrap(), ONCE_MORE);
        assert!(error.is_err());
        assert!(stage.state() == before);
    }
    std::fs::write(&path, whole).unwrap();
    adopt(&stage, id, None).unwrap();
}

// T-RUN-09
#[test]
fn what_the_original_writes_after_its_adoption_pushes_nothing_out() {
    let Some(vectors) = shared("vectors/rye") else {
        return;
    };
    let stage = stage(&vectors, "proj_clean");
    let id = ThreadId::parse("clean/ten-1").unwrap();
    let path = stage.folder(&id).join("transcript.jsonl");
    let whole = stage.read(&path);
    let mut early = cut(&whole, 2);
    let end = serde_json::json!({"timestamp": 1.0, "thread_id": id.as_str(), "event_type": "thread_completed",
                                 "payload": {}});
    early.extend_from_slice(format!("{end}\n").as_bytes());
    std::fs::write(&path, early).unwrap();
    adopt(&stage, id.as_str(), Some("clean/ten")).unwrap();
    stage.resume(&id, ONCE_MORE).unwrap();
    let heard = stage.last_asked();
    // It continues there, too.
    std::fs::write(&path, whole).unwrap();
    stage.resume(&id, ONCE_MORE).unwrap();
    let now = stage.last_asked();
    assert_eq!(now[..heard.len()], heard);
}

// T-RUN-11
#[test]
fn a_child_of_the_original_is_resumed_under_what_its_parents_signed_thread_json_leaves() {
    let Some(vectors) = shared("vectors/rye") else {
        return;
    };
    let stage = stage(&vectors, "proj");
    for id in ["test/child", "test/parent"] {
        stage.directive(id, "", "Child.");
    }
    // The first writer creates the tables.
    adopt(&stage, "test/plain/plain-1795293095262", None).unwrap();
    let id = ThreadId::parse("test/child/child-1795293095983").unwrap();
    stage.edit(
        "INSERT INTO threads (thread_id, directive, parent_id, status, created_at, updated_at) VALUES \
         (?1, 'test/child', 'live-root-1', 'completed', '2026-11-21T20:31:36+00:00', \
         '2026-11-21T20:31:36+00:00')",
        &id,
    );
    let adopted = adopt(&stage, id.as_str(), None).unwrap().thread;
    let ran = stage.resume(&id, ONCE_MORE).unwrap();
    assert_eq!(ran.text, "Gladly.");
    let parent =
        |thread: &ThreadId| stage.events(thread)[0]["payload"]["meta"]["parent_thread"].clone();
    // Of that one there is no record, only its thread.json.
    assert_eq!(parent(&adopted), "live-root-1");
    assert_eq!(parent(&ran.thread), "live-root-1");
    // Its thread.json must verify then, too; and no other thread becomes its parent.
    let papers = stage.folder(&ThreadId::parse("live-root-1").unwrap());
    let papers = papers.join("thread.json");
    let whole = stage.read(&papers);
    let more = String::from_utf8(whole.clone()).unwrap();
    std::fs::write(&papers, more.replace("\"turns\": 25", "\"turns\": 99")).unwrap();
    assert!(stage.resume(&id, ONCE_MORE).is_err());
    std::fs::write(&papers, whole).unwrap();
    for other in ["'test/plain/plain-1795293095262'", "NULL"] {
        stage.edit(
            &format!("UPDATE threads SET parent_id = {other} WHERE thread_id = ?1"),
            &ran.thread,
        );
        let error = stage.resume(&id, ONCE_MORE).unwrap_err().to_string();
        assert!(error.contains("disagree about its parent"), "{error}");
    }
}
