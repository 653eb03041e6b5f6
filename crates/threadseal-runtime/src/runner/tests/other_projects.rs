//! Threads that name no project, since they are older than that; and a line 1 that names an
//! impossible one.

use super::stage::{Stage, again, of};
use crate::signed_file::SignedFile;
use crate::status::Status;
use serde_json::Value;
use threadseal_core::canon::json;
use threadseal_formats::document::DocumentKind;

const GLADLY: &str = "answers: [{text: Gladly.}]";

// T-PRO-04
#[test]
fn a_thread_that_is_older_than_projects_with_ids_goes_on_and_the_record_says_so() {
    let mut stage = Stage::new();
    let first = stage.run(GLADLY).thread;
    stage.bench.record_anew(&first, None);
    // Nothing shows which project it was then.
    std::fs::remove_file(stage.bench.project.identity()).unwrap();
    let ran = stage.resume(&first, GLADLY).unwrap();
    assert_eq!(ran.status, Status::Completed, "{:?}", ran.error);
    let note = format!("project_unnamed: {{\"thread_id\":\"{first}\"}}");
    assert_eq!(ran.warnings, [note]);
    let events = stage.events(&ran.thread);
    assert_eq!(of(&events, "project_unnamed").len(), 1);
    let named = events[0]["payload"]["meta"]["project"].as_str().unwrap();
    let made: Value = serde_json::from_slice(&stage.read(&stage.bench.project.identity())).unwrap();
    assert_eq!(made["project"], named);
    // The next one continues one that names it, by way of one that does not.
    let ran = stage.resume(&ran.thread, GLADLY).unwrap();
    assert!(of(&stage.events(&ran.thread), "project_unnamed").is_empty());
}

// T-PRO-01
#[test]
fn a_line_1_whose_project_is_no_id_belongs_nowhere() {
    for named in ["null", "7", "\"\"", "\"P\"", "[]", "{}"] {
        let mut stage = Stage::new();
        let first = stage.run(GLADLY).thread;
        let named = json::parse(named.as_bytes()).unwrap();
        stage.bench.record_anew(&first, Some(&named));
        let before = stage.state();
        let engine = stage.engine(GLADLY);
        for refused in [
            engine.resume(&again(&first)),
            engine.handoff(&again(&first)),
        ] {
            let why = refused.unwrap_err().to_string();
            assert!(why.contains("is foreign"), "{why}");
        }
        assert_eq!(stage.state(), before);
    }
}

// T-PRO-02
#[test]
fn a_sealed_file_that_names_no_project_says_nothing() {
    for content in [
        "{}",
        "{\"project\": \"P\", \"also\": []}",
        "{\"also\": [], \"project\": 1}",
    ] {
        let stage = Stage::new();
        let (host, keys) = (&stage.bench.host, &stage.bench.keys);
        let path = stage.bench.project.identity();
        let mut file = SignedFile::new(host, &path, DocumentKind::Json, None).unwrap();
        file.write(host, keys, None, content.as_bytes()).unwrap();
        let refused = stage.engine(GLADLY).run(&super::stage::order("demo/say"));
        let why = refused.unwrap_err().to_string();
        assert!(why.contains("does not contain a valid project id"), "{why}");
        assert!(stage.state().1.is_empty());
    }
}
