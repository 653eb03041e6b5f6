//! Runs that continue: from a sealed state, and repeating nothing.

use super::scene::{
    THREE, demo_graph, engine, entry, fails_at, good, outputs, refuses, resume, run, runs, state,
    three,
};
use crate::bounds::MAX_ORPHAN_RESUMPTIONS;
use crate::testing::prelude::*;

#[test]
fn a_run_that_is_older_than_projects_with_ids_goes_on_and_the_record_says_so() {
    let mut scene = three();
    let stopped = graph_order("g/three", json!({}));
    stopped.cancel.set();
    let first = good(&scene).run_graph(&stopped).unwrap();
    let first = first.ended(Status::Cancelled).thread;
    scene.record_anew(&first, None);
    // Its state names a seal of the record that was.
    fs::remove_file(state(&scene, "g/three", &first)).unwrap();
    let ran = resume(&good(&scene), &first).unwrap().completed();
    let events = scene.verified(&ran.thread);
    let project = events[0]["payload"]["meta"]["project"].as_str();
    assert_eq!(project.map(str::len), Some(64));
    assert_eq!(events.one("project_unnamed")["thread_id"], first.as_str());
}

#[test]
fn a_run_that_failed_goes_on_where_it_stood_and_repeats_nothing() {
    let scene = three();
    let (a, calls) = counted("demo/a");
    let first = engine(&scene, vec![Arc::clone(&a), failing("demo/b")]);
    let failed = run(&first, "g/three").ended(Status::Error).thread;
    let engine = engine(&scene, vec![a, ok("demo/b")]);
    let ran = resume(&engine, &failed).unwrap().completed();
    let last = ran.thread.clone();
    assert_eq!(outputs(ran), json!({"a": 1, "b": 1}));
    assert_eq!(calls.get(), 1);
    assert_eq!(told(&engine), []);
    let old = row(&engine, &failed);
    assert_eq!(old.status, Ok(Status::Continued));
    assert_eq!(old.continuation.as_deref(), Some(last.as_str()));
    // A second continuation is refused, and so is that of a complete run.
    resume(&engine, &failed).fails_with(last.as_str());
    resume(&engine, &last).fails_with("complete");
    scene.all_verify();
}

/// The row of a node in the table of an entry.
#[track_caller]
fn row_of(entry: &str, node: &str) -> String {
    let found = entry
        .lines()
        .find(|line| line.contains(&format!("| {node} |")));
    found.unwrap().to_owned()
}

#[test]
fn nodes_that_earlier_runs_visited_are_shown_as_done() {
    let scene = three();
    let first = fails_at(&scene, failing("demo/b"));
    let again = engine(&scene, vec![ok("demo/a"), failing("demo/b")]);
    let second = resume(&again, &first).unwrap().ended(Status::Error).thread;
    let engine = good(&scene);
    let third = resume(&engine, &second).unwrap().completed().thread;
    // Each names the run in which the node ended, also two runs later.
    for run in [&second, &third] {
        let shown = entry(&scene, "g/three", run);
        row_of(&shown, "a").has("| ✅ |").has("in g-three-");
    }
    let course = engine.show_graph(&third).unwrap().course;
    let runs: Vec<_> = course.visits().iter().map(|visit| visit.run).collect();
    assert_eq!(runs, [Some(first.as_str()), None, None]);
    let shown = engine.show_graph(&second).unwrap().course;
    let statuses: Vec<_> = shown.visits().iter().map(|visit| visit.status).collect();
    assert_eq!(statuses, ["completed", "error"]);
    scene.all_verify();
}

// T-GRA-05
#[test]
fn items_of_a_foreach_that_were_called_are_not_called_again() {
    let scene = Scene::new();
    let each = "
    a: {type: foreach, over: \"${state.l}\", action: {primary: execute, item_type: tool, item_id: demo/t, params: {n: \"${item}\"}}, collect: all, next: b}
    b: {type: return, output: {all: \"${state.all}\"}}";
    scene.graph("g/each", &demo_graph("state: {l: [0, 1, 2, 3]}", each));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let t = tool("demo/t", move |input| {
        let n = input["n"].as_u64().unwrap();
        let mut log = log.lock().unwrap();
        log.push(n);
        match n == 2 && log.len() == 3 {
            true => Outcome::failed("two"),
            false => Outcome::ok(json!(n * 10)),
        }
    });
    let engine = engine(&scene, vec![t]);
    let failed = run(&engine, "g/each").ended(Status::Error).thread;
    let ran = resume(&engine, &failed).unwrap();
    assert_eq!(outputs(ran)["all"], json!([0, 10, 20, 30]));
    assert_eq!(*seen.lock().unwrap(), [0, 1, 2, 3, 2]);
    scene.all_verify();
}

/// A run of `g/three` whose process died in the middle of a call: it has everything after the last
/// seal, and no end.
fn died(scene: &Scene) -> ThreadId {
    let threads = scene.path(".ai/agent/threads");
    let (knowledge, kept) = (scene.path(".ai/knowledge"), scene.path("kept"));
    let (from, to) = (knowledge.clone(), kept.clone());
    let files = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&files);
    let b = tool("demo/b", move |_| {
        // The disk during the call is what a killed process leaves.
        for folder in runs(&threads, "g-three") {
            for file in runs(&folder, "") {
                let bytes = fs::read(&file).unwrap();
                keep.lock().unwrap().push((file, bytes));
            }
        }
        let copy = std::process::Command::new("cp")
            .arg("-r")
            .args([&from, &to])
            .status();
        assert!(copy.unwrap().success());
        Outcome::ok("never known")
    });
    let mut engine = engine(scene, vec![ok("demo/a"), b]);
    // The heads that were published after the death are unknown to this host.
    engine.services.host.heads = Arc::new(MemoryHeadStore::default());
    let run = run(&engine, "g/three").thread;
    for (path, bytes) in files.lock().unwrap().drain(..) {
        fs::write(path, bytes).unwrap();
    }
    fs::remove_dir_all(&knowledge).unwrap();
    fs::rename(kept, knowledge).unwrap();
    scene.as_if_killed(&run);
    run
}

/// A project that leaves unsealed bytes aside.
fn lenient() -> Scene {
    let mut scene = three();
    scene.coordination = "transcript_integrity: lenient".to_owned();
    scene
}

// T-GRA-05
#[test]
fn a_call_of_which_nobody_knows_stops_the_run_until_somebody_decides() {
    let scene = lenient();
    for (decision, status) in [
        (Unresolved::Skip, Status::Completed),
        (Unresolved::Fail, Status::Error),
    ] {
        let run = died(&scene);
        let (b, calls) = counted("demo/b");
        let mut engine = engine(&scene, vec![ok("demo/a"), b]);
        let heard = Arc::new(Heard::default());
        engine.services.watch = Arc::clone(&heard) as Arc<dyn Watch>;
        refuses(&scene, &engine, &run, "demo/b");
        refuses(&scene, &engine, &run, "--skip-unresolved");
        assert_eq!(heard.notices(), [""; 0]);
        let ran = resume_graph(&engine, &run, decision).unwrap().ended(status);
        assert_eq!(calls.get(), 0, "{decision:?}");
        let heard = heard.notices();
        assert_eq!(heard.len(), 2, "{heard:?}");
        heard[0].has(run.as_str()).has("bytes after the last seal");
        heard[1].has("its process is gone; it ended as error, with 1 calls");
        assert_ne!(scene.verified(&run).count("tool_call_unresolved"), 0);
        assert_ne!(scene.verified(&ran.thread).count("tool_call_settled"), 0);
    }
    scene.all_verify();
}

// T-GRA-05
#[test]
fn a_call_that_only_the_step_ledger_knows_is_unresolved_too() {
    let scene = three();
    let run = died(&scene);
    // The tail of the transcript is gone: it ends at its last seal.
    let path = scene.transcript(&run);
    let text = scene.text(&path);
    let last = text.rfind("\"event_type\":\"checkpoint\"").unwrap();
    let end = last + text[last..].find('\n').unwrap() + 1;
    assert!(end < text.len());
    fs::write(&path, &text[..end]).unwrap();
    resume(&good(&scene), &run).fails_with("demo/b");
}

// T-GRA-05
#[test]
fn a_result_that_stands_in_a_tail_is_not_believed() {
    let scene = lenient();
    let run = died(&scene);
    let path = scene.transcript(&run);
    let text = scene.text(&path);
    let starts = |line: &&str| line.contains("tool_call_start") && line.contains("demo/b");
    let forged = text
        .lines()
        .find(starts)
        .unwrap()
        .replace("tool_call_start", "tool_call_result");
    let forged = forged.replace("\"tool\":", "\"output\":");
    fs::write(&path, format!("{text}{forged}\n")).unwrap();
    resume(&good(&scene), &run).fails_with("demo/b");
}

#[test]
fn a_node_that_says_that_it_is_idempotent_is_called_again_under_the_same_key() {
    let scene = Scene::new();
    scene.graph(
        "g/three",
        &THREE.replace("assign: {b:", "idempotent: true, assign: {b:"),
    );
    let run = died(&scene);
    good(&scene).recover(&run).unwrap();
    let ran = resume(&good(&scene), &run).unwrap().completed();
    let key = |run: &ThreadId, kind: &str| {
        let events = scene.verified(run);
        let mut found = events.of(kind).into_iter();
        let of_b = found.find(|call| call["item_id"] == "demo/b").unwrap();
        of_b["idempotency_key"].text().to_owned()
    };
    assert_eq!(
        key(&run, "tool_call_unresolved"),
        key(&ran.thread, "tool_call_start")
    );
}

#[test]
fn a_run_that_was_recovered_has_its_unresolved_calls_and_goes_on() {
    let scene = three();
    let run = died(&scene);
    let engine = good(&scene);
    refuses(&scene, &engine, &run, &format!("thread recover {run}"));
    let recovered = engine.recover(&run).unwrap();
    assert_eq!(
        (recovered.status, recovered.unresolved.len()),
        (Status::Error, 1)
    );
    resume(&engine, &run).fails_with("demo/b");
    let ran = resume_graph(&engine, &run, Unresolved::Skip).unwrap();
    assert_eq!(outputs(ran)["b"], Value::Null);
    scene.all_verify();
}

#[test]
fn a_request_to_cancel_ends_a_run_that_another_engine_walks() {
    let scene = three();
    let (other, threads) = (engine(&scene, vec![]), scene.path(".ai/agent/threads"));
    let asked = Count::default();
    let counted = asked.clone();
    let a = stub("demo/a", move |call| {
        let run = runs(&threads, "g-three").remove(0);
        let run = run.file_name().unwrap().to_str().unwrap();
        other
            .request_cancel(&ThreadId::parse(run).unwrap())
            .unwrap();
        counted.add();
        // The run checks for the request now and then.
        assert!(call.cancel.within(Duration::from_secs(20)));
        Outcome::ok(call.input.clone())
    });
    let engine = engine(&scene, vec![a, ok("demo/b")]);
    let ran = run(&engine, "g/three").ended(Status::Cancelled);
    assert_eq!(asked.get(), 1);
    scene.verified(&ran.thread).one("cancel_requested");
    resume(&engine, &ran.thread).unwrap().completed();
    assert_eq!(asked.get(), 1);
}

// T-DEC-07
#[test]
fn a_signed_setting_that_is_gone_is_named_by_the_run_that_continues() {
    const FILE: &str = ".ai/config/agent/resilience.yaml";
    let mut scene = three();
    drop(scene.seal(FILE, "limits: {defaults: {depth: 3}}\n"));
    let run = fails_at(&scene, failing("demo/b"));
    fs::remove_file(scene.path(FILE)).unwrap();
    scene.forget_heads();
    let ran = resume(&good(&scene), &run).unwrap().completed();
    let events = scene.events(&ran.thread);
    assert_eq!(
        events.one("settings_missing")["settings"][0]["id"],
        "agent/resilience"
    );
    ran.warnings.concat().has("agent/resilience");
}

// T-RUN-45
#[test]
fn a_run_whose_process_was_gone_is_resumed_by_the_settings_a_few_times_in_a_row() {
    let mut scene = three();
    let run = fails_at(&scene, failing("demo/b"));
    let ask = |engine: &Engine, run: &ThreadId| {
        let mut resumed = engine.resume_orphans([run], &Cancel::default());
        resumed.pop().map(|one| one.ran)
    };
    assert!(ask(&good(&scene), &run).is_none());
    scene.coordination = "orphan_detection: {action: resume}".to_owned();
    let again = engine(&scene, vec![ok("demo/a"), failing("demo/b")]);
    let mut last = run.clone();
    for attempt in 1..=MAX_ORPHAN_RESUMPTIONS {
        let ran = ask(&again, &last).unwrap().unwrap();
        let next = ran.ended(Status::Error).thread;
        let line_1 = &scene.events(&next)[0]["payload"]["meta"];
        assert_eq!(line_1["orphan_resumed"], attempt);
        last = next;
    }
    ask(&again, &last).unwrap().fails_with("3 times in a row");
    // A person who resumes it begins anew.
    let next = resume(&again, &last).unwrap().ended(Status::Error).thread;
    ask(&good(&scene), &next).unwrap().unwrap().completed();
}
