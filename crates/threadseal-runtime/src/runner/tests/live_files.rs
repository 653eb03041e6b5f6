//! What a running thread shows of itself after each seal.

use crate::directive::ModelChoice;
use crate::model::{Chosen, ScriptModel};
use crate::testing::prelude::*;

#[test]
fn the_entry_and_the_row_of_a_thread_have_each_turn_once_it_is_sealed() {
    let scene = Scene::new();
    scene.reader("demo/say", "", "Say it.");
    scene.file("notes.txt", "some notes");
    let mut engine = scene.engine(GLADLY);
    let chosen = engine.services.models.choose(&ModelChoice::default());
    let script = super::handoffs::reads(2, "Done.");
    let (project, registry) = (scene.project.clone(), Arc::clone(&engine.services.registry));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let look = move || {
        let row = registry.list(&Filter::default()).unwrap().threads.remove(0);
        let entry = project.knowledge_entry(&ThreadId::parse("demo/say").unwrap(), &row.id);
        let entry = fs::read_to_string(entry).unwrap_or_default();
        let cover = entry.lines().find(|line| line.starts_with("turns:"));
        let record = fs::read(project.thread(&row.id).transcript()).unwrap();
        let seals = Events::parse(&record).count("checkpoint");
        let cover = cover.unwrap_or("no entry").to_owned();
        log.lock().unwrap().push((seals, row.turns, cover));
    };
    engine.services.models = Arc::new(Only(Chosen {
        model: Arc::new(Acting {
            script: ScriptModel::parse("script", &script).unwrap(),
            does: Box::new(look),
        }),
        ..chosen.unwrap()
    }));
    let ran = engine.run(&order("demo/say")).unwrap().completed();
    let row = row(&engine, &ran.thread);
    assert_eq!((row.turns, row.status), (3, Ok(Status::Completed)));
    let entry = ThreadId::parse("demo/say").unwrap();
    let entry = scene.text(scene.project.knowledge_entry(&entry, &ran.thread));
    entry.has("turns: 3").has("status: completed");
    let seen = seen.lock().unwrap();
    let turns: Vec<(u64, &str)> = seen.iter().map(|look| (look.1, look.2.as_str())).collect();
    assert_eq!(turns, [(0, "no entry"), (1, "turns: 1"), (2, "turns: 2")]);
    assert!(seen.is_sorted_by(|one, next| one.0 < next.0), "{seen:?}");
}
