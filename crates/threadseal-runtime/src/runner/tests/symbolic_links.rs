//! Links in the place of a thread's files: nothing is written through them, and no thread continues
//! from there.

use super::stage::{Stage, again};
use crate::runner::summary::keep_summary;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

const GLADLY: &str = "answers: [{text: Gladly.}]";

/// Puts a link to a copy outside of the project in the place of `file`.
fn lead_out(file: &Path, outside: &Path) {
    fs::copy(file, outside).unwrap();
    fs::remove_file(file).unwrap();
    symlink(outside, file).unwrap();
}

// T-FIL-15
#[test]
fn nobody_goes_on_from_a_thread_whose_file_is_a_link_and_nothing_is_written_through_it() {
    let names = ["transcript.jsonl", "thread.json", "capabilities.md"];
    for (name, within) in names
        .into_iter()
        .flat_map(|name| [(name, false), (name, true)])
    {
        let stage = Stage::new();
        let ran = stage.run(GLADLY);
        let outside = tempfile::tempdir().unwrap();
        let away = match within {
            true => stage.bench.project.root().join("away"),
            false => outside.path().join("away"),
        };
        lead_out(&stage.folder(&ran.thread).join(name), &away);
        let (bytes, before) = (fs::read(&away).unwrap(), stage.state());
        let engine = stage.engine(GLADLY);
        for refused in [
            engine.resume(&again(&ran.thread)),
            engine.handoff(&again(&ran.thread)),
        ] {
            let why = refused.unwrap_err().to_string();
            assert!(why.contains("remove the link"), "{name}: {why}");
        }
        let _ = engine.recover(&ran.thread);
        let _ = engine.request_cancel(&ran.thread);
        assert_eq!(fs::read(&away).unwrap(), bytes, "{name}");
        assert_eq!(stage.state(), before, "{name}");
    }
}

// T-FIL-15
#[test]
fn a_thread_that_died_is_not_ended_through_a_link() {
    for name in ["transcript.jsonl", "thread.json"] {
        let stage = Stage::new();
        let ran = stage.run(GLADLY);
        let folder = stage.folder(&ran.thread);
        let transcript = folder.join("transcript.jsonl");
        let text = fs::read_to_string(&transcript).unwrap();
        fs::write(&transcript, format!("{text}{{\"timest")).unwrap();
        let outside = tempfile::tempdir().unwrap();
        let away = outside.path().join("away");
        lead_out(&folder.join(name), &away);
        let (bytes, before) = (fs::read(&away).unwrap(), stage.state());
        let refused = stage.engine(GLADLY).recover(&ran.thread).unwrap_err();
        assert!(refused.to_string().contains("remove the link"), "{refused}");
        assert_eq!(fs::read(&away).unwrap(), bytes, "{name}");
        assert_eq!(stage.state(), before, "{name}");
        // With the file in its place again, it is.
        fs::remove_file(folder.join(name)).unwrap();
        fs::copy(&away, folder.join(name)).unwrap();
        stage.engine(GLADLY).recover(&ran.thread).unwrap();
    }
}

// T-FIL-15
#[test]
fn what_follows_a_record_is_not_written_through_a_link() {
    let stage = Stage::new();
    let outside = tempfile::tempdir().unwrap();
    let away = outside.path().join("away");
    fs::write(&away, "kept").unwrap();
    let id = threadseal_core::record::ThreadId::parse("demo/say-1").unwrap();
    let engine = stage.engine(GLADLY);
    let entry = stage
        .bench
        .project
        .root()
        .join(".ai/knowledge/agent/threads/demo/say/say-1-summary.md");
    fs::create_dir_all(entry.parent().unwrap()).unwrap();
    symlink(&away, &entry).unwrap();
    let refused = keep_summary(&engine.services, &id, "demo/say", "s").unwrap_err();
    assert!(refused.to_string().contains("remove the link"), "{refused}");
    assert_eq!(fs::read(&away).unwrap(), b"kept");
}

// T-FIL-15
#[test]
fn a_ledger_that_becomes_a_link_is_not_appended_to_where_that_leads() {
    let bench = crate::testing::Bench::new();
    let mut journal = bench.journal();
    let folder = bench.folder.path().join(".ai/agent/threads/demo/say-1");
    let outside = tempfile::tempdir().unwrap();
    let mut led = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.starts_with("ledger_") {
            lead_out(&path, &outside.path().join(name));
            led += 1;
        }
    }
    assert!(led > 0);
    let bytes = || {
        let files = fs::read_dir(outside.path()).unwrap();
        let mut files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
            .iter()
            .map(|path| fs::read(path).unwrap())
            .collect::<Vec<_>>()
    };
    let before = bytes();
    let call = crate::journal::HookCall {
        id: "hook_1".to_owned(),
        key: "demo/say-1/hook/1".to_owned(),
        hook: "tell".to_owned(),
        event: "after_step".to_owned(),
        primary: "execute",
        item_type: "tool",
        item_id: "demo/echo".to_owned(),
        input: serde_json::json!({}),
    };
    // A writer that has it open may or may not notice; nothing is written through the link.
    let _ = journal.hook_begins(&call);
    let _ = journal.hook_begins(&call);
    assert_eq!(bytes(), before);
}
