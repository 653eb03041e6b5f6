//! Runs that continue: from a sealed state, and repeating nothing.

use super::scene::{Field, ok, order, tool};
use crate::limit::Limits;
use crate::runner::{Engine, Ran};
use crate::runner::{GraphResumption, Unresolved};
use crate::status::Status;
use crate::testing::told;
use crate::toolbox::{Cancel, Outcome};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;

/// Three calls, one after the other; each adds to the state.
pub(super) const THREE: &str = r#"tool_type: graph
permissions: [rye.execute.tool.demo.*]
config:
  start: a
  nodes:
    a: {action: {primary: execute, item_type: tool, item_id: demo/a, params: {n: 1}}, assign: {a: "${result.n}"}, next: b}
    b: {action: {primary: execute, item_type: tool, item_id: demo/b, params: {n: "${state.a}"}}, assign: {b: "${result.n}"}, next: c}
    c: {type: return, output: {a: "${state.a}", b: "${state.b}"}}
"#;

pub(super) fn resume(
    engine: &Engine,
    run: &ThreadId,
    unresolved: Unresolved,
) -> Result<Ran, Error> {
    engine.resume_graph(&GraphResumption {
        run: run.clone(),
        unresolved,
        limits: Limits::default(),
        cancel: Cancel::default(),
    })
}

#[test]
fn a_run_that_is_older_than_projects_with_ids_goes_on_and_the_record_says_so() {
    let mut field = Field::new();
    field.graph("g/three", THREE);
    let stopped = order("g/three", json!({}));
    stopped.cancel.set();
    let tools = || vec![ok("demo/a"), ok("demo/b")];
    let first = field.engine(tools()).run_graph(&stopped).unwrap();
    assert_eq!(first.status, Status::Cancelled);
    field.bench.record_anew(&first.thread, None);
    // Its state names a seal of the record that was.
    std::fs::remove_file(field.state("g/three", &first.thread)).unwrap();
    let ran = resume(&field.engine(tools()), &first.thread, Unresolved::Refuse).unwrap();
    assert_eq!(ran.status, Status::Completed, "{:?}", ran.error);
    let events = field.events(&ran.thread);
    assert_eq!(
        events[0].1["meta"]["project"].as_str().map(str::len),
        Some(64)
    );
    let mut told = events.iter().filter(|(kind, _)| kind == "project_unnamed");
    let (_, told) = told.next().unwrap();
    assert_eq!(told["thread_id"], first.thread.as_str());
}

#[test]
fn a_run_that_failed_goes_on_where_it_stood_and_repeats_nothing() {
    let field = Field::new();
    field.graph("g/three", THREE);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let a = tool("demo/a", move |input| {
        counted.fetch_add(1, Ordering::SeqCst);
        Outcome::ok(input.clone())
    });
    let bad = tool("demo/b", |_| Outcome::failed("not now"));
    let failed = field
        .engine(vec![Arc::clone(&a), bad])
        .run_graph(&order("g/three", json!({})))
        .unwrap();
    assert_eq!(failed.status, Status::Error);
    let engine = field.engine(vec![a, ok("demo/b")]);
    let ran = resume(&engine, &failed.thread, Unresolved::Refuse).unwrap();
    assert_eq!(ran.status, Status::Completed);
    assert_eq!(Value::Object(ran.outputs.unwrap()), json!({"a": 1, "b": 1}));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert_eq!(told(&engine), []);
    let old = engine
        .services
        .registry
        .get(&failed.thread)
        .unwrap()
        .unwrap();
    assert_eq!(
        (old.status, old.continuation.as_deref()),
        (Ok(Status::Continued), Some(ran.thread.as_str()))
    );
    // A second continuation is refused, and so is that of a complete run.
    let again = resume(&engine, &failed.thread, Unresolved::Refuse)
        .unwrap_err()
        .to_string();
    assert!(again.contains(ran.thread.as_str()), "{again}");
    let done = resume(&engine, &ran.thread, Unresolved::Refuse)
        .unwrap_err()
        .to_string();
    assert!(done.contains("complete"), "{done}");
    field.all_verify();
}

// T-GRA-05
#[test]
fn items_of_a_foreach_that_were_called_are_not_called_again() {
    let field = Field::new();
    field.graph("g/each", "tool_type: graph\npermissions: [rye.execute.tool.demo.*]\nconfig:\n  start: a\n  state: {l: [0, 1, 2, 3]}\n  nodes:\n    a: {type: foreach, over: \"${state.l}\", action: {primary: execute, item_type: tool, item_id: demo/t, params: {n: \"${item}\"}}, collect: all, next: b}\n    b: {type: return, output: {all: \"${state.all}\"}}\n");
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let broken = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let (log, fails) = (Arc::clone(&seen), Arc::clone(&broken));
    let t = tool("demo/t", move |input| {
        let n = input["n"].as_u64().unwrap();
        log.lock().unwrap().push(n);
        match n == 2 && fails.load(Ordering::SeqCst) {
            true => Outcome::failed("two"),
            false => Outcome::ok(json!(n * 10)),
        }
    });
    let engine = field.engine(vec![t]);
    let failed = engine.run_graph(&order("g/each", json!({}))).unwrap();
    assert_eq!(failed.status, Status::Error);
    broken.store(false, Ordering::SeqCst);
    let ran = resume(&engine, &failed.thread, Unresolved::Refuse).unwrap();
    assert_eq!(ran.outputs.unwrap()["all"], json!([0, 10, 20, 30]));
    assert_eq!(*seen.lock().unwrap(), [0, 1, 2, 3, 2]);
    field.all_verify();
}

/// A run whose process died in the middle of a call: it has everything after the last seal, and no
/// end.
pub(super) fn died(field: &Field, graph: &str) -> ThreadId {
    let died = Arc::new(std::sync::Mutex::new(None));
    let (keep, threads) = (Arc::clone(&died), field.ai("agent/threads"));
    let (entries, states) = (field.ai("knowledge"), field.ai("kept-knowledge"));
    let b = tool("demo/b", move |_| {
        // The disk during the call is what a killed process leaves.
        let mut kept = keep.lock().unwrap();
        if kept.is_none() {
            let mut files = Vec::new();
            for folder in std::fs::read_dir(&threads)
                .unwrap()
                .map(|entry| entry.unwrap().path())
            {
                if folder.is_dir() {
                    for file in std::fs::read_dir(&folder)
                        .unwrap()
                        .map(|entry| entry.unwrap().path())
                    {
                        files.push((file.clone(), std::fs::read(&file).unwrap()));
                    }
                }
            }
            assert!(
                std::process::Command::new("cp")
                    .arg("-r")
                    .arg(&entries)
                    .arg(&states)
                    .status()
                    .unwrap()
                    .success()
            );
            *kept = Some(files);
        }
        Outcome::ok("never known")
    });
    let heads = Arc::new(threadseal_store::heads::MemoryHeadStore::default());
    let mut engine = field.engine(vec![ok("demo/a"), b]);
    // The heads that were published after the death are unknown to this host.
    engine.services.host.heads = heads;
    let ran = engine.run_graph(&order(graph, json!({}))).unwrap();
    for (path, bytes) in died.lock().unwrap().take().unwrap() {
        std::fs::write(path, bytes).unwrap();
    }
    let knowledge = field.ai("knowledge");
    std::fs::remove_dir_all(&knowledge).unwrap();
    std::fs::rename(field.ai("kept-knowledge"), knowledge).unwrap();
    let registry = field.bench.project.registry(crate::project::Layout::Seed);
    let database = rusqlite::Connection::open(registry).unwrap();
    database
        .execute(
            "update threads set status = 'running', completed_at = null where thread_id = ?1",
            [ran.thread.as_str()],
        )
        .unwrap();
    let budgets = field.bench.project.budgets(crate::project::Layout::Seed);
    let database = rusqlite::Connection::open(budgets).unwrap();
    database
        .execute(
            "update budget_ledger set status = 'active' where thread_id = ?1",
            [ran.thread.as_str()],
        )
        .unwrap();
    ran.thread
}

// T-GRA-05
#[test]
fn a_call_of_which_nobody_knows_stops_the_run_until_somebody_decides() {
    let field = Field::new();
    field.graph("g/three", THREE);
    for (decision, status) in [
        (Unresolved::Skip, Status::Completed),
        (Unresolved::Fail, Status::Error),
    ] {
        let run = died(&field, "g/three");
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let b = tool("demo/b", move |input| {
            counted.fetch_add(1, Ordering::SeqCst);
            Outcome::ok(input.clone())
        });
        let engine = field.engine(vec![ok("demo/a"), b]);
        let before = field.tree();
        let why = resume(&engine, &run, Unresolved::Refuse)
            .unwrap_err()
            .to_string();
        assert!(
            why.contains("demo/b") && why.contains("--skip-unresolved"),
            "{why}"
        );
        assert_eq!(before, field.tree(), "a refusal changed something");
        let ran = resume(&engine, &run, decision).unwrap();
        assert_eq!(
            (ran.status, calls.load(Ordering::SeqCst)),
            (status, 0),
            "{ran:?}"
        );
        let old: Vec<String> = field
            .events(&run)
            .into_iter()
            .map(|event| event.0)
            .collect();
        assert!(old.contains(&"tool_call_unresolved".to_owned()), "{old:?}");
        assert!(
            field
                .events(&ran.thread)
                .iter()
                .any(|(kind, _)| kind == "tool_call_settled")
        );
    }
    field.all_verify();
}

// T-GRA-05
#[test]
fn a_call_that_only_the_step_ledger_knows_is_unresolved_too() {
    let field = Field::new();
    field.graph("g/three", THREE);
    let run = died(&field, "g/three");
    // The tail of the transcript is gone: it ends at its last seal.
    let path = field.folder(&run).join("transcript.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    let last = lines
        .iter()
        .rposition(|line| line.contains("\"event_type\":\"checkpoint\""))
        .unwrap();
    assert!(last + 1 < lines.len());
    lines.truncate(last + 1);
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    let engine = field.engine(vec![ok("demo/a"), ok("demo/b")]);
    let why = resume(&engine, &run, Unresolved::Refuse)
        .unwrap_err()
        .to_string();
    assert!(why.contains("demo/b"), "{why}");
}

// T-GRA-05
#[test]
fn a_result_that_stands_in_a_tail_is_not_believed() {
    let field = Field::new();
    field.graph("g/three", THREE);
    let run = died(&field, "g/three");
    let path = field.folder(&run).join("transcript.jsonl");
    let mut text = std::fs::read_to_string(&path).unwrap();
    let start = text
        .lines()
        .find(|line| line.contains("tool_call_start") && line.contains("demo/b"))
        .unwrap();
    let forged = start
        .replace("tool_call_start", "tool_call_result")
        .replace("\"tool\":", "\"output\":");
    text.push_str(&forged);
    text.push('\n');
    std::fs::write(&path, text).unwrap();
    let engine = field.engine(vec![ok("demo/a"), ok("demo/b")]);
    let why = resume(&engine, &run, Unresolved::Refuse)
        .unwrap_err()
        .to_string();
    assert!(why.contains("demo/b"), "{why}");
}

#[test]
fn a_node_that_says_that_it_is_idempotent_is_called_again_under_the_same_key() {
    let field = Field::new();
    field.graph(
        "g/idem",
        &THREE.replace("assign: {b:", "idempotent: true, assign: {b:"),
    );
    let run = died(&field, "g/idem");
    let engine = field.engine(vec![ok("demo/a"), ok("demo/b")]);
    let ran = resume(&engine, &run, Unresolved::Refuse).unwrap();
    assert_eq!(ran.status, Status::Completed);
    let key = |run: &ThreadId, kind: &str| {
        let events = field.events(run);
        let mut found = events
            .iter()
            .filter(|(found, payload)| found == kind && payload["item_id"] == "demo/b");
        found.next().unwrap().1["idempotency_key"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        key(&run, "tool_call_unresolved"),
        key(&ran.thread, "tool_call_start")
    );
}

#[test]
fn a_run_that_was_recovered_has_its_unresolved_calls_and_goes_on() {
    let field = Field::new();
    field.graph("g/three", THREE);
    let run = died(&field, "g/three");
    let engine = field.engine(vec![ok("demo/a"), ok("demo/b")]);
    let recovered = engine.recover(&run).unwrap();
    assert_eq!(
        (recovered.status, recovered.unresolved.len()),
        (Status::Error, 1)
    );
    let why = resume(&engine, &run, Unresolved::Refuse)
        .unwrap_err()
        .to_string();
    assert!(why.contains("demo/b"), "{why}");
    let ran = resume(&engine, &run, Unresolved::Skip).unwrap();
    assert_eq!(ran.outputs.unwrap()["b"], Value::Null);
    field.all_verify();
}

#[test]
fn a_request_to_cancel_ends_a_run_that_another_engine_walks() {
    let field = Field::new();
    field.graph("g/three", THREE);
    let other = field.engine(vec![]);
    let (threads, asked) = (field.ai("agent/threads"), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&asked);
    let a = tool("demo/a", move |input| {
        let folders = std::fs::read_dir(&threads).unwrap();
        let names = folders.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let run = names
            .into_iter()
            .find(|name| name.starts_with("g-three"))
            .unwrap();
        other
            .request_cancel(&ThreadId::parse(&run).unwrap())
            .unwrap();
        counted.fetch_add(1, Ordering::SeqCst);
        // The run checks for the request now and then.
        std::thread::sleep(std::time::Duration::from_secs(2));
        Outcome::ok(input.clone())
    });
    let engine = field.engine(vec![a, ok("demo/b")]);
    let ran = engine.run_graph(&order("g/three", json!({}))).unwrap();
    assert_eq!(
        (ran.status, asked.load(Ordering::SeqCst)),
        (Status::Cancelled, 1)
    );
    assert!(
        field
            .events(&ran.thread)
            .iter()
            .any(|(kind, _)| kind == "cancel_requested")
    );
    let went_on = resume(&engine, &ran.thread, Unresolved::Refuse).unwrap();
    assert_eq!(
        (went_on.status, asked.load(Ordering::SeqCst)),
        (Status::Completed, 1)
    );
}
