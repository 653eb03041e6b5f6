//! Links in the place of a thread's files: nothing is written through them, and no thread continues
//! from there.

use crate::runner::summary::keep_summary;
use crate::testing::prelude::*;

/// Puts a link to a copy in the place of `file`.
fn lead_out(file: &Path, outside: &Path) {
    fs::copy(file, outside).unwrap();
    fs::remove_file(file).unwrap();
    symlink(outside, file).unwrap();
}

// T-FIL-15
#[test]
fn nobody_goes_on_from_a_thread_whose_file_is_a_link_and_nothing_is_written_through_it() {
    for name in ["transcript.jsonl", "thread.json", "capabilities.md"] {
        for within in [false, true] {
            let (scene, outside) = (Scene::new().signed(), folder());
            let id = scene.run(GLADLY).thread;
            let away = match within {
                true => scene.path("away"),
                false => outside.path().join("away"),
            };
            lead_out(&scene.folder_of(&id).join(name), &away);
            let bytes = fs::read(&away).unwrap();
            scene.refuses(&id, "remove the link");
            let engine = scene.engine(GLADLY);
            let _ = scene.unchanged(|| engine.recover(&id));
            let _ = scene.unchanged(|| engine.request_cancel(&id));
            assert_eq!(fs::read(&away).unwrap(), bytes, "{name}");
        }
    }
}

// T-FIL-15
#[test]
fn a_thread_that_died_is_not_ended_through_a_link() {
    for name in ["transcript.jsonl", "thread.json"] {
        let (scene, outside) = (Scene::new().signed(), folder());
        let id = scene.run(GLADLY).thread;
        let transcript = scene.transcript(&id);
        fs::write(&transcript, scene.text(&transcript) + "{\"timest").unwrap();
        let (path, away) = (scene.folder_of(&id).join(name), outside.path().join("away"));
        lead_out(&path, &away);
        let bytes = fs::read(&away).unwrap();
        let engine = scene.engine(GLADLY);
        let recovered = scene.unchanged(|| engine.recover(&id));
        recovered.fails_with("remove the link");
        assert_eq!(fs::read(&away).unwrap(), bytes, "{name}");
        // With the file in its place again, it is.
        fs::remove_file(&path).unwrap();
        fs::copy(&away, path).unwrap();
        engine.recover(&id).unwrap();
    }
}

// T-FIL-15
#[test]
fn what_follows_a_record_is_not_written_through_a_link() {
    let (scene, outside) = (Scene::new().signed(), folder());
    let away = outside.path().join("away");
    fs::write(&away, "kept").unwrap();
    let id = ThreadId::parse("demo/say-1").unwrap();
    let entry = scene.path(".ai/knowledge/agent/threads/demo/say/say-1-summary.md");
    fs::create_dir_all(entry.parent().unwrap()).unwrap();
    symlink(&away, &entry).unwrap();
    let services = &scene.engine(GLADLY).services;
    keep_summary(services, &id, "demo/say", "s").fails_with("remove the link");
    assert_eq!(fs::read(&away).unwrap(), b"kept");
}

// T-FIL-15
#[test]
fn a_ledger_that_becomes_a_link_is_not_appended_to_where_that_leads() {
    let (scene, outside) = (Scene::new(), folder());
    let (id, mut journal) = scene.journal();
    let mut away = Vec::new();
    for entry in fs::read_dir(scene.folder_of(&id)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.starts_with("ledger_") {
            away.push(outside.path().join(name));
            lead_out(&path, away.last().unwrap());
        }
    }
    assert!(!away.is_empty());
    let bytes = || {
        away.iter()
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
        input: json!({}),
    };
    // A writer that has it open may or may not notice; nothing is written through the link.
    let _ = journal.hook_begins(&call);
    let _ = journal.hook_begins(&call);
    assert_eq!(bytes(), before);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), away.len());
}
