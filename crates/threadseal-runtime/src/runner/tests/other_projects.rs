//! Threads that name no project, since they are older than that; and a line 1 that names an
//! impossible one.

use crate::testing::prelude::*;

// T-PRO-04
#[test]
fn a_thread_that_is_older_than_projects_with_ids_goes_on_and_the_record_says_so() {
    let mut scene = Scene::new().signed();
    let first = scene.run(GLADLY).thread;
    scene.record_anew(&first, None);
    // Nothing shows which project it was then.
    fs::remove_file(scene.project.identity()).unwrap();
    let ran = scene.resume(&first, GLADLY).unwrap().completed();
    let note = format!("project_unnamed: {{\"thread_id\":\"{first}\"}}");
    assert_eq!(ran.warnings, [note]);
    let events = scene.events(&ran.thread);
    events.one("project_unnamed");
    let made = &scene.json(scene.project.identity())["project"];
    assert_eq!(*made, events[0]["payload"]["meta"]["project"].text());
    // The next one continues one that names it, by way of one that does not.
    let ran = scene.resume(&ran.thread, GLADLY).unwrap();
    assert_eq!(scene.events(&ran.thread).count("project_unnamed"), 0);
}

// T-PRO-01
#[test]
fn a_line_1_whose_project_is_no_id_belongs_nowhere() {
    use threadseal_core::canon::json;
    for named in ["null", "7", "\"\"", "\"P\"", "[]", "{}"] {
        let mut scene = Scene::new().signed();
        let first = scene.run(GLADLY).thread;
        let named = json::parse(named.as_bytes()).unwrap();
        scene.record_anew(&first, Some(&named));
        scene.refuses(&first, "is foreign");
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
        let scene = Scene::new().signed();
        let identity = scene.project.identity();
        let path = identity.strip_prefix(scene.project.root()).unwrap();
        scene.seal(path.to_str().unwrap(), content);
        let engine = scene.engine(GLADLY);
        let run = engine.run(&order("demo/say"));
        run.fails_with("does not contain a valid project id");
        assert_eq!(listed(&engine), []);
    }
}
