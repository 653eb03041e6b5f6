//! Links in the place of a thread's files: nothing is written where they lead, and nobody goes on from there.

use super::stage::{Stage, again};
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

#[test]
fn a_thread_that_died_is_not_ended_through_a_link() {
    let stage = Stage::new();
    let ran = stage.run(GLADLY);
    let folder = stage.folder(&ran.thread);
    // Its end was lost: line 1 and seal 0 are left.
    let transcript = folder.join("transcript.jsonl");
    let text = fs::read_to_string(&transcript).unwrap();
    let torn = format!("{text}{{\"timest");
    fs::write(&transcript, torn).unwrap();
    let outside = tempfile::tempdir().unwrap();
    let away = outside.path().join("away");
    lead_out(&transcript, &away);
    let bytes = fs::read(&away).unwrap();
    let refused = stage.engine(GLADLY).recover(&ran.thread).unwrap_err();
    assert!(refused.to_string().contains("remove the link"), "{refused}");
    assert_eq!(fs::read(&away).unwrap(), bytes);
    // The file itself in its place again, it is.
    fs::remove_file(&transcript).unwrap();
    fs::copy(&away, &transcript).unwrap();
    stage.engine(GLADLY).recover(&ran.thread).unwrap();
}

#[test]
fn what_follows_a_record_is_not_written_through_a_link() {
    let stage = Stage::new();
    let outside = tempfile::tempdir().unwrap();
    let away = outside.path().join("away");
    fs::write(&away, "kept").unwrap();
    let id = threadseal::record::ThreadId::parse("demo/say-1").unwrap();
    let engine = stage.engine(GLADLY);
    let entry = stage
        .bench
        .project
        .root()
        .join(".ai/knowledge/agent/threads/demo/say/say-1-summary.md");
    fs::create_dir_all(entry.parent().unwrap()).unwrap();
    symlink(&away, &entry).unwrap();
    let refused = engine.keep_summary(&id, "demo/say", "s").unwrap_err();
    assert!(refused.to_string().contains("remove the link"), "{refused}");
    assert_eq!(fs::read(&away).unwrap(), b"kept");
}
