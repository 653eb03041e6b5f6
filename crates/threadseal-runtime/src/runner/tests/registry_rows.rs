//! Rows of the registry that are deleted, edited or invented: records enter them again, and
//! inspections report them.

use super::handoffs::{reads, small};
use crate::registry::Thread;
use crate::testing::prelude::*;

const BEGETS: &str = "answers:\n\
    - {calls: [{tool: rye_agent_threads_thread_directive, input: {directive_name: demo/say}}]}\n\
    - {text: A child., usage: {input_tokens: 7, output_tokens: 3}}\n- {text: Done.}\n";
const DELETED: &str = "DELETE FROM threads WHERE thread_id = ?1";

/// The columns of a row that the record repeats.
fn recorded(row: &Thread) -> Thread {
    Thread {
        created_at: None,
        updated_at: None,
        completed_at: None,
        result: None,
        pid: None,
        process_started: None,
        ..row.clone()
    }
}

/// A parent, its child, and two successors of the parent.
fn family(scene: &Scene) -> [ThreadId; 4] {
    let parent = scene.run(BEGETS).thread;
    let rows = listed(&scene.engine(GLADLY));
    let child = rows.into_iter().find(|row| row.parent.is_some());
    let second = scene.resume(&parent, GLADLY).unwrap().thread;
    let third = scene.resume(&parent, GLADLY).unwrap().thread;
    [parent, child.unwrap().id, second, third]
}

// T-REG-09
#[test]
fn a_deleted_row_of_any_thread_of_a_family_is_told_and_entered_again_as_its_record_says() {
    let scene = Scene::new().signed();
    let family = family(&scene);
    let engine = scene.engine(GLADLY);
    assert_eq!(told(&engine), []);
    for id in &family {
        let before = row(&engine, id);
        scene.edit(DELETED, id);
        assert_eq!(told(&engine), [("row_missing", id.to_string())]);
        let recovered = engine.recover(id).unwrap();
        let after = row(&engine, id);
        assert_eq!(recorded(&after), recorded(&before), "{id}");
        assert_eq!(after.status, Ok(recovered.status), "{id}");
        assert!(after.completed_at.is_some() && after.created_at < after.completed_at);
        assert_eq!(told(&engine), [], "{id}");
        assert!(engine.recover(id).is_err(), "nothing is left to recover");
    }
    // The chain and the child continue as before.
    let last = engine.services.registry.resolve(&family[0]).unwrap().id;
    assert_eq!(last, family[3]);
    for id in &family[..2] {
        scene.resume(id, GLADLY).unwrap().completed();
    }
}

// T-REG-09 T-RYE-14
#[test]
fn a_whole_registry_that_was_deleted_is_made_again_in_whatever_order() {
    for reverse in [false, true] {
        let scene = Scene::new().signed();
        let mut family = family(&scene);
        let engine = scene.engine(GLADLY);
        let rows = || {
            let mut rows: Vec<Thread> = listed(&engine).iter().map(recorded).collect();
            rows.sort_by(|one, other| one.id.cmp(&other.id));
            rows
        };
        let before = rows();
        scene.sql("DELETE FROM threads; DELETE FROM threadseal_threads");
        assert_eq!(told(&engine).len(), family.len());
        if reverse {
            family.reverse();
        }
        for id in &family {
            engine.recover(id).unwrap();
        }
        assert_eq!(told(&engine), []);
        assert_eq!(rows(), before);
    }
}

// T-REG-09
#[test]
fn rows_of_a_thread_that_handed_itself_over_are_entered_again() {
    let scene = small();
    let ran = scene.run(&reads(12, "All done."));
    let engine = scene.engine(GLADLY);
    let chain = || {
        let chain = engine.services.registry.chain(&ran.thread).unwrap();
        assert_eq!(chain.fault, None);
        chain.threads.iter().map(recorded).collect::<Vec<_>>()
    };
    let before = chain();
    assert!(before.len() >= 3);
    assert_eq!(told(&engine), []);
    for row in &before {
        scene.edit(DELETED, &row.id);
    }
    for row in before.iter().rev() {
        engine.recover(&row.id).unwrap();
    }
    assert_eq!(told(&engine), []);
    assert_eq!(chain(), before);
}

// T-REG-11 T-RYE-14
#[test]
fn a_row_that_was_edited_is_told_and_brought_to_what_its_record_says() {
    let scene = Scene::new().signed();
    let [parent, child, second, third] = family(&scene);
    let engine = scene.engine(GLADLY);
    for [thread, table, change, code] in rows(
        "child => threads => parent_id = NULL => parent_mismatch
         child => threads => parent_id = thread_id || 'x' => parent_mismatch
         child => threads => directive = 'demo/other' => directive_mismatch
         child => threads => model = 'other' => model_mismatch
         child => threads => continuation_of = 'demo/say-1' => chain_mismatch
         child => threads => continuation_thread_id = 'demo/say-1' => chain_mismatch
         child => threads => chain_root_id = 'demo/say-1' => chain_mismatch
         child => threads => status = 'running' => status_mismatch
         child => threads => status = 'suspended' => status_mismatch
         child => threads => status = 'continued' => status_mismatch
         child => threads => turns = 0 => cost_mismatch
         child => threads => result = replace(result, 'A child.', 'Another.') => result_mismatch
         child => threads => result = 'x' => result_mismatch
         child => threadseal_threads => record = NULL => record_mismatch
         child => threadseal_threads => record = iif(substr(record, 1, 1) = '0', '1', '0') || substr(record, 2) => record_mismatch
         child => threadseal_threads => record = 'x' => record_mismatch
         child => threadseal_threads => => record_mismatch
         parent => threads => continuation_thread_id = NULL => chain_mismatch
         parent => threads => continuation_thread_id = NULL, status = 'completed' => chain_mismatch
         parent => threads => spawn_count = 0 => spawns_mismatch
         second => threads => continuation_of = NULL, chain_root_id = NULL => chain_mismatch
         second => threads => continuation_thread_id = 'demo/say-1' => chain_mismatch
         third => threads => chain_root_id = NULL => chain_mismatch
         third => threads => continuation_of = NULL => chain_mismatch
         both => threads => continuation_thread_id = NULL, status = 'error' => chain_mismatch",
    ) {
        let id = match thread.as_str() {
            "child" => &child,
            "second" => &second,
            "third" => &third,
            _ => &parent,
        };
        let before = row(&engine, id);
        if thread == "both" {
            // The link was cut on the other side, too.
            let other = "UPDATE threads SET continuation_of = NULL WHERE thread_id = ?1";
            scene.edit(other, &second);
        }
        let sql = match change.is_empty() {
            true => format!("DELETE FROM {table} WHERE thread_id = ?1"),
            false => format!("UPDATE {table} SET {change} WHERE thread_id = ?1"),
        };
        scene.edit(&sql, id);
        let found = told(&engine);
        let is_told = found.iter().any(|(told, of)| *told == code && of == id.as_str());
        assert!(is_told, "{sql}: {found:?}");
        engine.recover(id).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(told(&engine), [], "{sql}");
        assert_eq!(recorded(&row(&engine, id)), recorded(&before), "{sql}");
    }
}

// T-REG-10 T-RYE-14
#[test]
fn a_record_that_does_not_verify_enters_nothing() {
    let scene = Scene::new().signed();
    let id = scene.run(GLADLY).thread;
    let engine = scene.engine(GLADLY);
    scene.edit(DELETED, &id);
    let half = |text: &str| text.split_inclusive('\n').take(3).collect::<String>();
    let unsealed = |text: &str| {
        let lines = text.split_inclusive('\n');
        lines
            .filter(|line| !line.contains("checkpoint"))
            .collect::<String>()
    };
    let attacks: [(&str, &Attack<'_>); 5] = [
        ("transcript.jsonl", &|text| {
            text.replace("Gladly.", "Never.")
        }),
        ("transcript.jsonl", &|text| {
            text.replace("\"model\":\"script\"", "\"model\":\"scripT\"")
        }),
        ("transcript.jsonl", &half),
        ("transcript.jsonl", &unsealed),
        ("thread.json", &|text| {
            text.replace("\"turns\"", "\"turnS\"")
        }),
    ];
    for (at, (name, attack)) in attacks.into_iter().enumerate() {
        let path = scene.folder_of(&id).join(name);
        let whole = scene.text(&path);
        let changed = attack(&whole);
        assert_ne!(changed, whole, "attack {at} changes nothing");
        fs::write(&path, changed).unwrap();
        let recovered = scene.unchanged(|| engine.recover(&id));
        assert!(recovered.is_err(), "attack {at}");
        assert_eq!(listed(&engine), [], "attack {at}");
        assert_eq!(
            told(&engine),
            [("row_missing", id.to_string())],
            "attack {at}"
        );
        fs::write(&path, whole).unwrap();
    }
    // Nor does one under the name of another thread.
    let other = ThreadId::parse("demo/say-2").unwrap();
    fs::create_dir_all(scene.folder_of(&other)).unwrap();
    for name in ["transcript.jsonl", "thread.json", "capabilities.md"] {
        let from = scene.folder_of(&id).join(name);
        fs::copy(from, scene.folder_of(&other).join(name)).unwrap();
    }
    assert!(engine.recover(&other).is_err());
    assert_eq!(listed(&engine), []);
    engine.recover(&id).unwrap();
    assert_eq!(told(&engine), [("row_missing", other.to_string())]);
}

#[test]
fn a_thread_whose_row_and_process_are_gone_is_ended_and_entered() {
    let scene = Scene::new().signed();
    let id = scene.run(GLADLY).thread;
    let (folder, path) = (scene.folder_of(&id), scene.transcript(&id));
    let engine = scene.elsewhere(GLADLY);
    // As its process would have left it before it was answered.
    let text = scene.text(&path);
    let end = text.find("\"cognition_out\"").unwrap();
    let end = text[..end].rfind('\n').unwrap() + 1;
    fs::write(&path, &text[..end]).unwrap();
    for file in fs::read_dir(&folder).unwrap() {
        let found = file.unwrap().path();
        if found != path && !found.ends_with("capabilities.md") {
            fs::remove_file(found).unwrap();
        }
    }
    scene.edit(DELETED, &id);
    for table in ["budget_ledger", "threadseal_budgets", "threadseal_commits"] {
        scene.edit_budgets(&format!("DELETE FROM {table} WHERE thread_id = ?1"), &id);
    }
    assert_eq!(engine.recover(&id).unwrap().status, Status::Error);
    let row = row(&engine, &id);
    assert_eq!(
        (row.status, row.directive.as_str()),
        (Ok(Status::Error), "demo/say")
    );
    assert_eq!(told(&engine), [("budget_missing", id.to_string())]);
}

// T-REG-12
#[test]
fn rows_and_files_that_are_not_there_are_missed_and_threads_that_never_began_are_not() {
    let scene = Scene::new().signed();
    let id = scene.run(GLADLY).thread;
    let engine = scene.engine(GLADLY);
    // An invented row, and rows of threads that failed before their records began.
    for (name, status) in [
        ("made/up-1", "completed"),
        ("made/up-2", "error"),
        ("made/up-3", "created"),
    ] {
        scene.sql(&format!(
            "INSERT INTO threads (thread_id, directive, status) VALUES ('{name}', 'd', '{status}')"
        ));
    }
    assert_eq!(told(&engine), [("record_missing", "made/up-1".to_owned())]);
    scene.sql("DELETE FROM threads WHERE thread_id = 'made/up-1'");
    let fault = |code: &'static str| (code, id.to_string());
    let folder = scene.folder_of(&id);
    let away = folder.with_file_name("away");
    // The files of a thread are gone, regardless of its row.
    fs::rename(&folder, &away).unwrap();
    for edit in [
        "",
        "UPDATE threads SET status = 'error', turns = 0 WHERE thread_id = ?1",
        "DELETE FROM threadseal_threads WHERE thread_id = ?1",
    ] {
        if !edit.is_empty() {
            scene.edit(edit, &id);
        }
        assert!(told(&engine).contains(&fault("record_missing")), "{edit}");
    }
    // The transcript alone.
    fs::rename(&away, &folder).unwrap();
    engine.recover(&id).unwrap();
    assert_eq!(told(&engine), []);
    let (path, away) = (scene.transcript(&id), folder.join("t"));
    fs::rename(&path, &away).unwrap();
    assert_eq!(told(&engine), [fault("record_missing")]);
    scene.edit(DELETED, &id);
    assert_eq!(told(&engine), [fault("row_missing")]);
    fs::rename(away, path).unwrap();
    engine.recover(&id).unwrap();
    fs::remove_file(folder.join("thread.json")).unwrap();
    assert_eq!(told(&engine), [fault("metadata_refused")]);
}

// T-REG-13
#[test]
fn a_trigger_or_a_second_row_changes_nothing_unseen() {
    let scene = Scene::new().signed();
    // Makes both databases.
    drop(scene.engine(GLADLY));
    scene.sql(
        "CREATE TRIGGER a AFTER UPDATE ON threads BEGIN DELETE FROM threads; END;
         CREATE TRIGGER b AFTER INSERT ON threads BEGIN UPDATE threads SET parent_id = 'x'; END",
    );
    let budgets = rusqlite::Connection::open(scene.budgets()).unwrap();
    let trigger = "CREATE TRIGGER c AFTER UPDATE ON threadseal_budgets BEGIN UPDATE threadseal_budgets SET max_nanos = 0; END";
    budgets.execute_batch(trigger).unwrap();
    let id = scene.run(GLADLY).thread;
    let engine = scene.engine(GLADLY);
    assert_eq!(row(&engine, &id).parent, None);
    assert_eq!(told(&engine), []);
    let codes = || {
        let faults = crate::registry::inspect(&scene.registry()).unwrap().faults;
        faults.iter().map(|fault| fault.code).collect::<Vec<_>>()
    };
    assert_eq!(codes(), ["foreign_schema", "foreign_schema"]);
    let faults = crate::budget::inspect(&scene.budgets()).unwrap().faults;
    assert_eq!((faults.len(), faults[0].code), (1, "foreign_schema"));
    scene.sql(
        "DROP TRIGGER a; DROP TRIGGER b; CREATE TABLE u AS SELECT * FROM threads; INSERT INTO u SELECT * FROM threads;
         DROP TABLE threads; ALTER TABLE u RENAME TO threads",
    );
    assert_eq!(codes(), ["double"]);
    scene.sql("DELETE FROM threads");
    assert_eq!(codes(), ["orphan"]);
}

// T-REG-18
#[test]
fn a_budget_that_is_gone_is_named_for_each_thread_with_a_record() {
    let scene = Scene::new().signed();
    let family = family(&scene);
    let engine = scene.engine(GLADLY);
    let mut gone = Vec::new();
    for id in &family {
        let budgets = rusqlite::Connection::open(scene.budgets()).unwrap();
        budgets.pragma_update(None, "foreign_keys", false).unwrap();
        let delete = "DELETE FROM budget_ledger WHERE thread_id = ?1";
        budgets.execute(delete, [id.as_str()]).unwrap();
        gone.push(("budget_missing", id.to_string()));
        gone.sort();
        let mut named = told(&engine);
        named.sort();
        assert_eq!(named, gone);
    }
    // A thread whose record did not begin had none to lose, and one without a row is named for that.
    scene.edit(DELETED, &family[0]);
    assert!(told(&engine).contains(&("row_missing", family[0].to_string())));
    assert!(!told(&engine).contains(&("budget_missing", family[0].to_string())));
}
