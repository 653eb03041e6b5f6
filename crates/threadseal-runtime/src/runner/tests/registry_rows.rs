//! Rows of the registry that are deleted, edited or invented: records enter them again, and
//! inspections report them.

use super::handoffs::{reads, small};
use super::stage::Stage;
use crate::registry::{Filter, Thread};
use crate::runner::Engine;
use crate::runner::Services;
use crate::status::Status;
use crate::testing::told;
use std::fs;
use std::path::Path;
use threadseal_core::record::ThreadId;

const GLADLY: &str = "answers: [{text: Gladly., usage: {input_tokens: 7, output_tokens: 3}}]";
const BEGETS: &str = "answers:\n\
    - {calls: [{tool: rye_agent_threads_thread_directive, input: {directive_name: demo/say}}]}\n\
    - {text: A child.}\n- {text: Done.}\n";
const DELETED: &str = "DELETE FROM threads WHERE thread_id = ?1";

fn row(engine: &Engine, id: &ThreadId) -> Thread {
    engine.services.registry.get(id).unwrap().unwrap()
}

/// The columns of a row that the record repeats.
fn said(row: &Thread) -> Thread {
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
fn family(stage: &Stage) -> [ThreadId; 4] {
    let parent = stage.run(BEGETS).thread;
    let engine = stage.engine(GLADLY);
    let listed = engine.services.registry.list(&Filter::default()).unwrap();
    let child = listed.threads.into_iter().find(|row| row.parent.is_some());
    let second = stage.resume(&parent, GLADLY).unwrap().thread;
    let third = stage.resume(&parent, GLADLY).unwrap().thread;
    [parent, child.unwrap().id, second, third]
}

// T-REG-09
#[test]
fn a_deleted_row_of_any_thread_of_a_family_is_told_and_entered_again_as_its_record_says() {
    let stage = Stage::new();
    let family = family(&stage);
    let engine = stage.engine(GLADLY);
    assert_eq!(told(&engine), []);
    for id in &family {
        let before = row(&engine, id);
        stage.edit(DELETED, id);
        assert_eq!(told(&engine), [("row_missing", id.to_string())]);
        let recovered = engine.recover(id).unwrap();
        let after = row(&engine, id);
        assert_eq!(said(&after), said(&before), "{id}");
        assert_eq!(after.status, Ok(recovered.status), "{id}");
        assert!(after.completed_at.is_some() && after.created_at < after.completed_at);
        assert_eq!(told(&engine), [], "{id}");
        assert!(engine.recover(id).is_err(), "nothing is left to recover");
    }
    // The chain and the child continue as before.
    assert_eq!(
        engine.services.registry.resolve(&family[0]).unwrap().id,
        family[3]
    );
    assert_eq!(
        stage.resume(&family[0], GLADLY).unwrap().status,
        Status::Completed
    );
    assert_eq!(
        stage.resume(&family[1], GLADLY).unwrap().status,
        Status::Completed
    );
}

// T-REG-09 T-RYE-14
#[test]
fn a_whole_registry_that_was_deleted_is_made_again_in_whatever_order() {
    for reverse in [false, true] {
        let stage = Stage::new();
        let mut family = family(&stage).to_vec();
        let engine = stage.engine(GLADLY);
        let before: Vec<Thread> = family.iter().map(|id| said(&row(&engine, id))).collect();
        for id in &family {
            stage.edit(DELETED, id);
            stage.edit("DELETE FROM threadseal_threads WHERE thread_id = ?1", id);
        }
        assert_eq!(told(&engine).len(), family.len());
        let wanted = family.clone();
        if reverse {
            family.reverse();
        }
        for id in &family {
            engine.recover(id).unwrap();
        }
        assert_eq!(told(&engine), []);
        let after: Vec<Thread> = wanted.iter().map(|id| said(&row(&engine, id))).collect();
        assert_eq!(after, before);
    }
}

// T-REG-09
#[test]
fn rows_of_a_thread_that_handed_itself_over_are_entered_again() {
    let stage = small();
    let ran = stage.run(&reads(12, "All done."));
    let engine = stage.engine(GLADLY);
    let before = engine.services.registry.chain(&ran.thread).unwrap().threads;
    assert!(before.len() >= 3);
    assert_eq!(told(&engine), []);
    for row in &before {
        stage.edit(DELETED, &row.id);
    }
    for row in before.iter().rev() {
        engine.recover(&row.id).unwrap();
    }
    assert_eq!(told(&engine), []);
    let after = engine.services.registry.chain(&ran.thread).unwrap();
    assert_eq!(after.fault, None);
    for (after, before) in after.threads.iter().zip(&before) {
        assert_eq!(said(after), said(before));
    }
}

// T-REG-11 T-RYE-14
#[test]
fn a_row_that_was_edited_is_told_and_brought_to_what_its_record_says() {
    let edits = [
        ("parent_id = NULL", "parent_mismatch"),
        ("parent_id = thread_id || 'x'", "parent_mismatch"),
        ("directive = 'demo/other'", "directive_mismatch"),
        ("model = 'other'", "model_mismatch"),
        ("continuation_of = 'demo/say-1'", "chain_mismatch"),
        ("continuation_thread_id = 'demo/say-1'", "chain_mismatch"),
        ("chain_root_id = 'demo/say-1'", "chain_mismatch"),
        ("status = 'running'", "status_mismatch"),
        ("status = 'suspended'", "status_mismatch"),
        ("status = 'continued'", "status_mismatch"),
        ("turns = 0", "cost_mismatch"),
        (
            "result = replace(result, 'A child.', 'Another.')",
            "result_mismatch",
        ),
        ("result = 'x'", "result_mismatch"),
    ];
    let stage = Stage::new();
    let [parent, child, second, third] = family(&stage);
    let engine = stage.engine(GLADLY);
    let before = row(&engine, &child);
    let check = |id: &ThreadId, before: &Thread, sql: &str, code: &'static str| {
        stage.edit(sql, id);
        let found = told(&engine);
        assert!(found.contains(&(code, id.to_string())), "{sql}: {found:?}");
        engine
            .recover(id)
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(told(&engine), [], "{sql}");
        assert_eq!(said(&row(&engine, id)), said(before), "{sql}");
    };
    for (edit, code) in edits {
        let sql = format!("UPDATE threads SET {edit} WHERE thread_id = ?1");
        check(&child, &before, &sql, code);
    }
    for edit in [
        "record = NULL",
        // An id is random: only this changes each.
        "record = iif(substr(record, 1, 1) = '0', '1', '0') || substr(record, 2)",
        "record = 'x'",
    ] {
        let sql = format!("UPDATE threadseal_threads SET {edit} WHERE thread_id = ?1");
        check(&child, &before, &sql, "record_mismatch");
    }
    check(
        &child,
        &before,
        "DELETE FROM threadseal_threads WHERE thread_id = ?1",
        "record_mismatch",
    );
    // A link that was cut, on either side or on both; children that do not count any more.
    for (id, edit, code) in [
        (&parent, "continuation_thread_id = NULL", "chain_mismatch"),
        (
            &parent,
            "continuation_thread_id = NULL, status = 'completed'",
            "chain_mismatch",
        ),
        (&parent, "spawn_count = 0", "spawns_mismatch"),
        (
            &second,
            "continuation_of = NULL, chain_root_id = NULL",
            "chain_mismatch",
        ),
        (
            &second,
            "continuation_thread_id = 'demo/say-1'",
            "chain_mismatch",
        ),
        (&third, "chain_root_id = NULL", "chain_mismatch"),
        (&third, "continuation_of = NULL", "chain_mismatch"),
    ] {
        let before = row(&engine, id);
        let sql = format!("UPDATE threads SET {edit} WHERE thread_id = ?1");
        check(id, &before, &sql, code);
    }
    stage.edit(
        "UPDATE threads SET continuation_of = NULL WHERE thread_id = ?1",
        &second,
    );
    let sql =
        "UPDATE threads SET continuation_thread_id = NULL, status = 'error' WHERE thread_id = ?1";
    let before = row(&engine, &parent);
    check(&parent, &before, sql, "chain_mismatch");
}

type Attack = dyn Fn(&str) -> String;

// T-REG-10 T-RYE-14
#[test]
fn a_record_that_does_not_verify_enters_nothing() {
    let stage = Stage::new();
    let ran = stage.run(GLADLY);
    let engine = stage.engine(GLADLY);
    stage.edit(DELETED, &ran.thread);
    let folder = stage.folder(&ran.thread);
    let (record, papers) = (folder.join("transcript.jsonl"), folder.join("thread.json"));
    let half = |text: &str| text.split_inclusive('\n').take(3).collect::<String>();
    let attacks: [(&Path, &Attack); 5] = [
        (&record, &|text| text.replace("Gladly.", "Never.")),
        (&record, &|text| {
            text.replace("\"model\":\"script\"", "\"model\":\"scripT\"")
        }),
        (&record, &half),
        (&record, &|text| {
            let lines = text.split_inclusive('\n');
            lines.filter(|line| !line.contains("checkpoint")).collect()
        }),
        (&papers, &|text| text.replace("\"turns\"", "\"turnS\"")),
    ];
    for (at, (path, attack)) in attacks.into_iter().enumerate() {
        let whole = fs::read_to_string(path).unwrap();
        let changed = attack(&whole);
        assert_ne!(changed, whole, "attack {at} changes nothing");
        fs::write(path, changed).unwrap();
        let before = stage.state();
        assert!(engine.recover(&ran.thread).is_err(), "attack {at}");
        assert!(stage.state() == before, "attack {at} left something");
        assert_eq!(
            engine.services.registry.get(&ran.thread).unwrap(),
            None,
            "attack {at}"
        );
        assert_eq!(
            told(&engine),
            [("row_missing", ran.thread.to_string())],
            "attack {at}"
        );
        fs::write(path, whole).unwrap();
    }
    // Nor does one under the name of another thread.
    let other = ThreadId::parse("demo/say-2").unwrap();
    fs::create_dir_all(stage.folder(&other)).unwrap();
    for name in ["transcript.jsonl", "thread.json", "capabilities.md"] {
        fs::copy(folder.join(name), stage.folder(&other).join(name)).unwrap();
    }
    assert!(engine.recover(&other).is_err());
    assert_eq!(engine.services.registry.get(&other).unwrap(), None);
    engine.recover(&ran.thread).unwrap();
    assert_eq!(told(&engine), [("row_missing", other.to_string())]);
}

#[test]
fn a_thread_whose_row_and_process_are_gone_is_ended_and_entered() {
    let stage = Stage::new();
    let ran = stage.run(GLADLY);
    let folder = stage.folder(&ran.thread);
    let record = folder.join("transcript.jsonl");
    let engine = Engine::new(Services {
        host: threadseal_store::host::Host {
            heads: std::sync::Arc::new(threadseal_store::heads::MemoryHeadStore::default()),
            ..stage.engine(GLADLY).services.host.clone()
        },
        ..stage.engine(GLADLY).services
    });
    // As its process would have left it before it was answered.
    let text = fs::read_to_string(&record).unwrap();
    let end = text.find("\"cognition_out\"").unwrap();
    let end = text[..end].rfind('\n').unwrap() + 1;
    fs::write(&record, &text[..end]).unwrap();
    for file in fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        if path != record && !path.ends_with("capabilities.md") {
            fs::remove_file(path).unwrap();
        }
    }
    stage.edit(DELETED, &ran.thread);
    for table in ["budget_ledger", "threadseal_budgets", "threadseal_commits"] {
        let sql = format!("DELETE FROM {table} WHERE thread_id = ?1");
        stage.edit_in("budgets.db", &sql, &ran.thread);
    }
    let recovered = engine.recover(&ran.thread).unwrap();
    assert_eq!(recovered.status, Status::Error);
    let row = row(&engine, &ran.thread);
    assert_eq!(
        (row.status, row.directive.as_str()),
        (Ok(Status::Error), "demo/say")
    );
    assert_eq!(told(&engine), []);
}

// T-REG-12
#[test]
fn rows_and_files_that_are_not_there_are_missed_and_threads_that_never_began_are_not() {
    let stage = Stage::new();
    let ran = stage.run(GLADLY);
    let engine = stage.engine(GLADLY);
    let id = |text: &str| ThreadId::parse(text).unwrap();
    // An invented row, and rows of threads that failed before their records began.
    for (name, status) in [
        ("made/up-1", "completed"),
        ("made/up-2", "error"),
        ("made/up-3", "created"),
    ] {
        let sql = format!(
            "INSERT INTO threads (thread_id, directive, status) VALUES (?1, 'd', '{status}')"
        );
        stage.edit(&sql, &id(name));
    }
    assert_eq!(told(&engine), [("record_missing", "made/up-1".to_owned())]);
    stage.edit(DELETED, &id("made/up-1"));
    let folder = stage.folder(&ran.thread);
    let away = folder.with_file_name("away");
    // The files of a thread are gone, regardless of its row.
    fs::rename(&folder, &away).unwrap();
    for edit in [
        "",
        "UPDATE threads SET status = 'error', turns = 0 WHERE thread_id = ?1",
        "DELETE FROM threadseal_threads WHERE thread_id = ?1",
    ] {
        if !edit.is_empty() {
            stage.edit(edit, &ran.thread);
        }
        assert!(
            told(&engine).contains(&("record_missing", ran.thread.to_string())),
            "{edit}"
        );
    }
    // The transcript alone.
    fs::rename(&away, &folder).unwrap();
    engine.recover(&ran.thread).unwrap();
    assert_eq!(told(&engine), []);
    fs::rename(folder.join("transcript.jsonl"), folder.join("t")).unwrap();
    assert_eq!(told(&engine), [("record_missing", ran.thread.to_string())]);
    stage.edit(DELETED, &ran.thread);
    assert_eq!(told(&engine), [("row_missing", ran.thread.to_string())]);
    fs::rename(folder.join("t"), folder.join("transcript.jsonl")).unwrap();
    engine.recover(&ran.thread).unwrap();
    fs::remove_file(folder.join("thread.json")).unwrap();
    assert_eq!(
        told(&engine),
        [("metadata_refused", ran.thread.to_string())]
    );
}

// T-REG-13
#[test]
fn a_trigger_or_a_second_row_changes_nothing_unseen() {
    let stage = Stage::new();
    // Makes both databases.
    drop(stage.engine(GLADLY));
    stage.batch(
        "registry.db",
        "CREATE TRIGGER a AFTER UPDATE ON threads BEGIN DELETE FROM threads; END;
         CREATE TRIGGER b AFTER INSERT ON threads BEGIN UPDATE threads SET parent_id = 'x'; END",
    );
    stage.batch(
        "budgets.db",
        "CREATE TRIGGER c AFTER UPDATE ON threadseal_budgets BEGIN UPDATE threadseal_budgets SET max_nanos = 0; END",
    );
    let ran = stage.run(GLADLY);
    let engine = stage.engine(GLADLY);
    assert_eq!(row(&engine, &ran.thread).parent, None);
    assert_eq!(told(&engine), []);
    let codes = |file: &str| -> Vec<&str> {
        let faults = match file {
            "registry.db" => crate::registry::inspect(&stage.database(file)),
            _ => crate::budget::inspect(&stage.database(file)),
        };
        faults
            .unwrap()
            .faults
            .iter()
            .map(|fault| fault.code)
            .collect()
    };
    assert_eq!(codes("registry.db"), ["foreign_schema", "foreign_schema"]);
    assert_eq!(codes("budgets.db"), ["foreign_schema"]);
    stage.batch(
        "registry.db",
        "DROP TRIGGER a; DROP TRIGGER b; CREATE TABLE u AS SELECT * FROM threads; INSERT INTO u SELECT * FROM threads;
         DROP TABLE threads; ALTER TABLE u RENAME TO threads",
    );
    assert_eq!(codes("registry.db"), ["double"]);
    stage.batch("registry.db", "DELETE FROM threads");
    assert_eq!(codes("registry.db"), ["orphan"]);
}
