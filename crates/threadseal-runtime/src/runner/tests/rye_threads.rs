//! Threads of Rye: genuine ones continue, changed ones do not.
//!
//! The data was made by running Rye.

use crate::runner::Adoption;
use crate::testing::prelude::*;
use threadseal_core::canon::python::rye_line;
use threadseal_core::key::{KeyUsage, PublicKey};
use threadseal_core::trust::{TrustName, TrustedKey};

/// A scene with the files of a project of Rye, whose user is trusted.
fn scene(project: &str) -> Option<Scene> {
    let vectors = beside_repository("vectors/rye/valid")?;
    let mut scene = Scene::new().signed();
    let pem = fs::read_to_string(vectors.join("user/.ai/config/keys/signing/public_key.pem"));
    let (key, name) = (PublicKey::from_pem(&pem.unwrap()), TrustName::parse("rye"));
    let key = TrustedKey::new(name.unwrap(), key.unwrap(), [KeyUsage::Rye]);
    scene.trust.store.add(key).unwrap();
    copy(&vectors.join(project).join(".ai"), &scene.path(".ai"));
    for id in ["clean/one", "clean/three", "clean/ten", "test/plain"] {
        scene.reader(id, "", "Do it.");
    }
    // Makes both databases.
    drop(scene.engine(GLADLY));
    Some(scene)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &target),
            false => fs::write(target, fs::read(&path).unwrap()).unwrap(),
        }
    }
}

fn adopt(scene: &Scene, thread: &ThreadId, directive: Option<&str>) -> Result<Ran, Error> {
    scene.engine(GLADLY).adopt(&Adoption {
        thread: thread.clone(),
        directive: directive.map(|id| ItemId::parse(id).unwrap()),
        inputs: Map::new(),
        cancel: Cancel::default(),
    })
}

/// It is neither adopted nor resumed, and nothing changes.
#[track_caller]
fn refuses(scene: &Scene, thread: &ThreadId, directive: Option<&str>, why: &str) {
    scene
        .unchanged(|| adopt(scene, thread, directive))
        .fails_with(why);
    assert!(
        scene.unchanged(|| scene.resume(thread, GLADLY)).is_err(),
        "{thread}"
    );
}

fn id(text: &str) -> ThreadId {
    ThreadId::parse(text).unwrap()
}

const PLAIN: &str = "test/plain/plain-1795293095262";

#[test]
fn threads_of_the_original_go_on_with_exactly_the_messages_that_it_reconstructs() {
    for name in ["one", "three", "ten"] {
        let Some(scene) = scene("proj_clean") else {
            return;
        };
        let (thread, directive) = (id(&format!("clean/{name}-1")), format!("clean/{name}"));
        let before = scene.read(scene.transcript(&thread));
        let expected = scene.json(scene.folder_of(&thread).join("EXPECTED_messages.json"));
        let ran = adopt(&scene, &thread, Some(&directive))
            .unwrap()
            .completed();
        let engine = scene.engine(GLADLY);
        // As Rye spells them.
        let record = engine.services.archive().record(&thread, None).unwrap();
        let messages = record.messages().unwrap();
        let lines = messages.iter().map(|message| rye_line(&message.to_value()));
        let found: Vec<Value> = lines
            .map(|line| serde_json::from_slice(&line).unwrap())
            .collect();
        assert_eq!(Value::from(found), expected, "{name}");
        let events = scene.events(&ran.thread);
        let adopted = events.of("thread_adopted")[0];
        assert_eq!(adopted["thread_id"], thread.as_str());
        assert_eq!(adopted["verdict"], "verified");
        let resumed = engine.resume(&again(&thread)).unwrap();
        assert_eq!(resumed.text, "Gladly.");
        // For threads of Rye, only the registry names their successors.
        assert_eq!(told(&engine), []);
        let before_row = row(&engine, &resumed.thread);
        scene.edit("DELETE FROM threads WHERE thread_id = ?1", &resumed.thread);
        engine.recover(&resumed.thread).unwrap();
        assert_eq!(told(&engine), []);
        let after = row(&engine, &resumed.thread);
        assert_eq!(after.continuation_of, before_row.continuation_of);
        assert_eq!(after.chain_root, before_row.chain_root);
        let asked = scene.last_asked();
        assert_eq!(asked.len(), expected.list().len() + 1, "{name}");
        for (asked, expected) in asked.iter().zip(expected.list()) {
            assert_eq!(asked.text(), expected["content"].text(), "{name}");
        }
        let chain = engine.services.registry.chain(&resumed.thread).unwrap();
        let ids: Vec<&ThreadId> = chain.threads.iter().map(|thread| &thread.id).collect();
        assert_eq!(ids, [&thread, &ran.thread, &resumed.thread]);
        assert_eq!(scene.read(scene.transcript(&thread)), before);
        // A second adoption is refused.
        assert!(adopt(&scene, &thread, Some(&directive)).is_err());
    }
}

#[test]
fn a_finished_thread_whose_end_is_not_sealed_is_adopted_and_not_resumed() {
    let Some(scene) = scene("proj") else {
        return;
    };
    let thread = id(PLAIN);
    refuses(&scene, &thread, Some("test/other"), "test/plain");
    let ran = adopt(&scene, &thread, None).unwrap().completed();
    let text = "All done, no tools. \u{65e5}\u{672c}\u{8a9e} \u{2028} line sep";
    assert_eq!(ran.text, text);
    let events = scene.events(&ran.thread);
    let adopted = events.of("thread_adopted")[0];
    assert_eq!(adopted["verdict"], "unsigned_tail");
    assert_eq!(adopted["unverified"]["events"], json!(["thread_completed"]));
    assert_eq!(adopted["end_sealed"], false);
    assert_eq!(adopted["thread_json"], "verified");
    assert_eq!(scene.resume(&thread, GLADLY).unwrap().text, "Gladly.");
    assert_eq!(scene.last_asked().len(), 5);
    // No checkpoint at all, and no ending.
    for thread in ["test/err/err-1795293095497", "live-root-1"] {
        refuses(&scene, &id(thread), None, "");
    }
}

// T-RUN-08
#[test]
fn papers_of_the_original_must_verify_where_they_are_there() {
    let Some(scene) = scene("proj") else {
        return;
    };
    let thread = id(PLAIN);
    let folder = scene.folder_of(&thread);
    for (name, from, to) in [
        ("thread.json", "\"turns\": 25", "\"turns\": 99"),
        ("thread.json", PLAIN, "test/plain/plain-1795293095263"),
        ("capabilities.md", "Read a file", "Read any file"),
        ("transcript.jsonl", "hello", "hallo"),
    ] {
        let path = folder.join(name);
        let whole = scene.text(&path);
        whole.has(from);
        fs::write(&path, whole.replacen(from, to, 1)).unwrap();
        refuses(&scene, &thread, None, "");
        fs::write(&path, whole).unwrap();
    }
    adopt(&scene, &thread, None).unwrap();
}

/// The tampered transcripts: none with another verdict is continued, and nothing changes.
// T-RUN-08
#[test]
fn no_changed_thread_of_the_original_is_resumed_or_adopted_and_nothing_changes() {
    let Some(vectors) = beside_repository("vectors/rye/tampered") else {
        return;
    };
    let index = fs::read(vectors.join("index.json")).unwrap();
    let index: Vec<Value> = serde_json::from_slice(&index).unwrap();
    let scene = scene("proj_clean").unwrap();
    let (mut refused, mut tails) = (0, 0);
    for case in &index {
        let source = case["source"].as_str().unwrap_or_default();
        let name = match source.rsplit('/').nth(1) {
            Some("ten-1") => "clean/ten",
            Some("three-1") => "clean/three",
            _ => continue,
        };
        let expect = case["expect"].text();
        if case["kind"] != "transcript" || !(expect == "invalid" || expect.starts_with("unsigned"))
        {
            continue;
        }
        let Ok(bytes) = fs::read(vectors.join(case["file"].text())) else {
            continue;
        };
        let thread = id(&format!("{name}-1"));
        let path = scene.transcript(&thread);
        let whole = scene.read(&path);
        fs::write(&path, bytes).unwrap();
        // Only an end, or nothing, may follow the seals of an adopted thread.
        let went_on = scene.unchanged(|| scene.resume(&thread, GLADLY).is_ok());
        let adopted = scene.unchanged(|| adopt(&scene, &thread, Some(name)).is_ok());
        assert!(!went_on && !adopted, "{case}");
        refused += 1;
        tails += usize::from(expect.starts_with("unsigned_tail"));
        fs::write(&path, whole).unwrap();
    }
    assert!(refused > 80 && tails > 5, "{refused} {tails}");
}

/// The transcript up to its `count`-th checkpoint.
fn cut(transcript: &str, count: usize) -> String {
    let mut seen = 0;
    let lines = transcript.split_inclusive('\n');
    let kept = lines.take_while(|line| {
        let whole = seen < count;
        let event: Value = serde_json::from_str(line).unwrap();
        seen += usize::from(event["event_type"] == "checkpoint");
        whole
    });
    kept.collect()
}

// T-RUN-09
#[test]
fn a_transcript_that_was_cut_at_a_seal_is_told_by_the_turns_of_its_thread_json() {
    let Some(scene) = scene("proj") else {
        return;
    };
    scene.reader("agency-kiwi/discover_leads", "", "Leads.");
    let thread = id("agency-kiwi/discover_leads/discover_leads-1795293094813");
    let path = scene.transcript(&thread);
    let whole = scene.text(&path);
    for count in [1, 2] {
        fs::write(&path, cut(&whole, count)).unwrap();
        refuses(&scene, &thread, None, "truncated");
    }
    fs::write(&path, whole).unwrap();
    adopt(&scene, &thread, None).unwrap();
}

// T-RUN-09
#[test]
fn what_the_original_writes_after_its_adoption_pushes_nothing_out() {
    let Some(scene) = scene("proj_clean") else {
        return;
    };
    let thread = id("clean/ten-1");
    let path = scene.transcript(&thread);
    let whole = scene.text(&path);
    let end = json!({"timestamp": 1.0, "thread_id": thread.as_str(), "event_type": "thread_completed",
                     "payload": {}});
    fs::write(&path, format!("{}{end}\n", cut(&whole, 2))).unwrap();
    adopt(&scene, &thread, Some("clean/ten")).unwrap();
    scene.resume(&thread, GLADLY).unwrap();
    let heard = scene.last_asked();
    // It continues there, too.
    fs::write(&path, whole).unwrap();
    scene.resume(&thread, GLADLY).unwrap();
    assert_eq!(scene.last_asked()[..heard.len()], heard);
}

// T-RUN-11
#[test]
fn a_child_of_the_original_is_resumed_under_what_its_parents_signed_thread_json_leaves() {
    let Some(scene) = scene("proj") else {
        return;
    };
    for id in ["test/child", "test/parent"] {
        scene.reader(id, "", "Child.");
    }
    // The first writer creates the tables.
    adopt(&scene, &id(PLAIN), None).unwrap();
    let thread = id("test/child/child-1795293095983");
    scene.edit(
        "INSERT INTO threads (thread_id, directive, parent_id, status, created_at, updated_at) VALUES \
         (?1, 'test/child', 'live-root-1', 'completed', '2026-11-21T20:31:36+00:00', \
         '2026-11-21T20:31:36+00:00')",
        &thread,
    );
    let adopted = adopt(&scene, &thread, None).unwrap().thread;
    let ran = scene.resume(&thread, GLADLY).unwrap();
    assert_eq!(ran.text, "Gladly.");
    // Of that one there is no record, only its thread.json.
    for thread in [&adopted, &ran.thread] {
        let meta = &scene.events(thread)[0]["payload"]["meta"];
        assert_eq!(meta["parent_thread"], "live-root-1");
    }
    // Its thread.json must verify then, too; and no other thread becomes its parent.
    let papers = scene.project.thread(&id("live-root-1")).metadata();
    let whole = scene.read(&papers);
    edit(&papers, "\"turns\": 25", "\"turns\": 99");
    assert!(scene.resume(&thread, GLADLY).is_err());
    fs::write(&papers, whole).unwrap();
    for other in [&format!("'{PLAIN}'"), "NULL"] {
        let sql = format!("UPDATE threads SET parent_id = {other} WHERE thread_id = ?1");
        scene.edit(&sql, &ran.thread);
        scene
            .resume(&thread, GLADLY)
            .fails_with("disagree about its parent");
    }
}
