//! Runs of graphs: their ways, and the files that they leave.

mod attacks;
mod disk_faults;
mod graph_hooks;
mod resumption;
mod scene;
mod unresolved_calls;

use crate::testing::prelude::*;
use scene::{demo_graph, engine, entry, graph, outputs, run, runs};
use threadseal_core::digest::Digest;
use threadseal_core::record::{Head, RecordId};
use threadseal_store::heads::{Durability, HeadStore, RecordKind, StoredHead, Swap};

/// One node of each type, an edge with a condition, an assignment.
const ALL: &str = r#"tool_type: graph
permissions: [rye.execute.tool.demo.*]
config_schema:
  type: object
  properties: {list: {type: array}}
  required: [list]
config:
  start: first
  state: {count: 0}
  nodes:
    first: {action: {primary: execute, item_type: tool, item_id: demo/echo, params: {n: "${inputs.list | length}"}}, assign: {count: "${result.n}"}, next: gate}
    gate:
      type: gate
      assign: {seen: "${state.count}"}
      next: [{to: none, when: {path: state.seen, op: eq, value: 0}}, {to: each}]
    each: {type: foreach, over: "${state.inputs.list}", as: it, action: {primary: execute, item_type: tool, item_id: demo/echo, params: {n: "${it}"}}, collect: all, next: done}
    none: {type: return, output: {was: empty}}
    done: {type: return, output: {all: "${state.all}", seen: "${state.seen}"}}
"#;

/// Heads of transcripts, and whether `thread.json` was beside each when it was published.
#[derive(Debug, Default)]
struct Watching {
    heads: MemoryHeadStore,
    seen: Mutex<Vec<(u64, bool)>>,
}

impl Watching {
    fn note(&self, new: &StoredHead) {
        let place = new.path_hint.as_deref().map(Path::new);
        if let (RecordKind::Transcript, Some(place)) = (new.kind, place) {
            let there = place.with_file_name("thread.json").exists();
            self.seen.lock().unwrap().push((new.head.seq, there));
        }
    }
}

impl HeadStore for Watching {
    fn fetch(&self, record: &RecordId) -> Result<Option<StoredHead>, Error> {
        self.heads.fetch(record)
    }

    fn create(&self, new: &StoredHead) -> Result<Swap, Error> {
        self.note(new);
        self.heads.create(new)
    }

    fn replace_if(&self, old: &Head, new: &StoredHead, how: Durability) -> Result<Swap, Error> {
        self.note(new);
        self.heads.replace_if(old, new, how)
    }

    fn find_by_line(&self, line: &Digest) -> Result<Vec<RecordId>, Error> {
        self.heads.find_by_line(line)
    }

    fn find_by_place(&self, kind: RecordKind, place: &str) -> Result<Option<StoredHead>, Error> {
        self.heads.find_by_place(kind, place)
    }
}

// T-GRA-13
#[test]
fn thread_json_is_written_before_the_second_seal() {
    let mut scene = Scene::new();
    let watching = Arc::new(Watching::default());
    scene.host.heads = Arc::clone(&watching) as Arc<dyn HeadStore>;
    scene.graph("demo/all", ALL);
    let engine = engine(&scene, vec![ok("demo/echo")]);
    let order = graph_order("demo/all", json!({"list": [1, 2]}));
    engine.run_graph(&order).unwrap().completed();
    let seen = watching.seen.lock().unwrap();
    assert!(
        seen.iter().filter(|(seal, _)| *seal > 0).count() > 2,
        "{seen:?}"
    );
    assert!(
        seen.iter().all(|(seal, there)| *seal == 0 || *there),
        "{seen:?}"
    );
}

#[test]
fn a_node_that_runs_is_shown_while_it_runs() {
    let scene = scene::three();
    let root = scene.path(".ai/knowledge/agent/threads/g/three");
    let seen = Arc::new(Mutex::new(String::new()));
    let keep = Arc::clone(&seen);
    let b = tool("demo/b", move |input| {
        let file = fs::read_dir(&root).unwrap().next().unwrap().unwrap();
        *keep.lock().unwrap() = fs::read_to_string(file.path()).unwrap();
        Outcome::ok(input.clone())
    });
    run(&engine(&scene, vec![ok("demo/a"), b]), "g/three").completed();
    let seen = seen.lock().unwrap();
    seen.has("| 1 | a | ✅ |")
        .has("| 2 | b | 🔄 |")
        .has("| — | c | ⏳ |");
    scene.all_verify();
}

// T-TOL-35
#[test]
fn a_secret_that_a_call_returns_gets_neither_into_the_state_nor_into_a_file() {
    const KEY: &str = "sk-abc/DEF+ghi=0123";
    let scene = Scene::new();
    scene.graph("demo/all", ALL);
    let leak = tool("demo/echo", |_| Outcome::ok(json!({ "n": KEY })));
    let engine = engine(&scene, vec![leak]);
    engine.services.secrets.learn(KEY);
    let order = graph_order("demo/all", json!({"list": [1]}));
    let ran = engine.run_graph(&order).unwrap().completed();
    let events = scene.verified(&ran.thread);
    assert_eq!(events.count("secrets_replaced"), 2);
    assert_eq!(outputs(ran)["all"], json!([{"n": "[secret]"}]));
    for (path, bytes) in scene.state() {
        String::from_utf8_lossy(&bytes).lacks(KEY);
        assert!(!path.to_string_lossy().contains(KEY));
    }
}

#[test]
fn a_graph_runs_to_its_end_and_all_that_it_leaves_verifies() {
    let scene = Scene::new();
    scene.graph("demo/all", ALL);
    let engine = engine(&scene, vec![ok("demo/echo")]);
    let over = |list: Value| engine.run_graph(&graph_order("demo/all", json!({ "list": list })));
    let ran = over(json!([1, 2])).unwrap().completed();
    let id = ran.thread.clone();
    assert_eq!(
        outputs(ran),
        json!({"all": [{"n": 1}, {"n": 2}], "seen": 2})
    );
    let events = scene.verified(&id);
    for kind in [
        "graph_started",
        "step_started",
        "foreach_completed",
        "graph_completed",
    ] {
        assert_ne!(events.count(kind), 0, "{kind}");
    }
    assert_eq!(events.count("step_completed"), 4);
    assert!(id.as_str().starts_with("demo-all-"), "{id}");
    let entry = entry(&scene, "demo/all", &id);
    entry.has("| 1 | first | ✅ |").has("| — | none | ⏳ |");
    scene.all_verify();
    assert_eq!(outputs(over(json!([])).unwrap()), json!({"was": "empty"}));
}

#[test]
fn wrong_inputs_unknown_graphs_and_missing_variables_leave_nothing() {
    let scene = Scene::new();
    scene.graph("demo/all", ALL);
    let needs = ALL.replace("config_schema", "env_requires: [NO_SUCH]\nconfig_schema");
    scene.graph("demo/env", &needs);
    let engine = engine(&scene, vec![ok("demo/echo")]);
    for (graph, inputs, why) in [
        ("demo/all", json!({}), "list"),
        ("demo/all", json!({"list": 1}), "list"),
        ("demo/none", json!({}), "demo/none"),
        ("demo/env", json!({"list": []}), "NO_SUCH"),
    ] {
        let order = graph_order(graph, inputs);
        scene.unchanged(|| engine.run_graph(&order)).fails_with(why);
    }
}

/// A call of `demo/t` with these members more, and two ends.
fn one_call(member: &str, more: &str) -> String {
    let nodes = "
    a: {action: {primary: execute, item_type: tool, item_id: demo/t}, assign: {got: \"${result.x}\"}, MORE}
    b: {type: return, output: {e: \"${state._last_error.error}\", got: \"${state.got}\"}}
    c: {type: return}";
    demo_graph(member, &nodes.replace("MORE", more))
}

#[test]
fn a_failed_node_leads_along_its_edge_or_the_graphs_way_or_ends_the_run() {
    let scene = Scene::new();
    scene.graph("g/edge", &one_call("", "on_error: b, next: c"));
    scene.graph("g/go", &one_call("on_error: continue", "next: b"));
    scene.graph("g/fail", &one_call("", "next: b"));
    let bad = tool("demo/t", |_| Outcome::failed("no `luck` |"));
    let engine = engine(&scene, vec![bad]);
    let edge = run(&engine, "g/edge").completed();
    assert_eq!(outputs(edge)["e"], "no `luck` |");
    let go = run(&engine, "g/go").ended(Status::CompletedWithErrors);
    assert_eq!(outputs(go)["got"], Value::Null);
    let fail = run(&engine, "g/fail").ended(Status::Error);
    assert_eq!(fail.error.as_deref(), Some("no `luck` |"));
    let entry = entry(&scene, "g/fail", &fail.thread);
    entry.has("| 1 | a | ❌ |").has("no &#96;luck&#96; &#124;");
    scene.verified(&fail.thread).one("graph_error");
    scene.all_verify();
}

#[test]
fn a_failed_node_has_its_step_completed_as_an_error_where_the_graph_leads_on() {
    let scene = Scene::new();
    scene.graph("g/edge", &one_call("", "on_error: b, next: c"));
    scene.graph("g/fail", &one_call("", "next: b"));
    let engine = engine(&scene, vec![failing("demo/t")]);
    let steps = |graph, status| {
        let ran = run(&engine, graph).ended(status);
        let events = scene.verified(&ran.thread);
        let steps = events.of("step_completed").into_iter().map(|step| {
            let error = step["error"].as_str().unwrap_or("-");
            format!("{} {} {error}", step["node"].text(), step["status"].text())
        });
        (events.count("step_started"), steps.collect::<Vec<_>>())
    };
    let (started, completed) = steps("g/edge", Status::Completed);
    assert_eq!(started, 2);
    assert_eq!(completed, ["a error not now", "b completed -"]);
    // The run ends within the step: its effects stay known.
    assert_eq!(steps("g/fail", Status::Error), (1, Vec::new()));
}

// T-GRA-11
#[test]
fn a_circle_ends_at_the_limit_of_steps_and_a_limit_ends_a_run() {
    let scene = Scene::new();
    let circle = "
    a: {type: gate, next: b}
    b: {type: gate, next: a}";
    scene.graph("g/circle", &demo_graph("max_steps: 7", circle));
    scene.graph("g/one", &one_call("", "next: b"));
    let engine = engine(&scene, vec![ok("demo/t")]);
    let ran = run(&engine, "g/circle").ended(Status::Error);
    assert_eq!(ran.cost.turns, 7);
    ran.error.unwrap().has("max steps exceeded (7)");
    let mut limited = graph_order("g/one", json!({}));
    limited.limits.duration_seconds = Some(0);
    engine
        .run_graph(&limited)
        .unwrap()
        .ended(Status::LimitReached);
    scene.all_verify();
}

#[test]
fn a_parallel_foreach_calls_as_many_at_once_as_it_says_and_keeps_the_order() {
    let scene = Scene::new();
    let fan = "
    a: {type: foreach, over: \"${state.l}\", parallel: true, max_concurrency: 3, action: {primary: execute, item_type: tool, item_id: demo/slow, params: {n: \"${item}\"}}, collect: all, next: b}
    b: {type: return, output: {all: \"${state.all}\"}}";
    scene.graph("g/fan", &demo_graph("state: {l: [5, 4, 3, 2, 1, 0]}", fan));
    // The calls that run, and the most at once.
    let running = Arc::new(Mutex::new((0, 0)));
    let seen = Arc::clone(&running);
    let slow = tool("demo/slow", move |input| {
        let more = |by: i32| {
            let mut seen = seen.lock().unwrap();
            *seen = (seen.0 + by, seen.1.max(seen.0 + by));
        };
        more(1);
        std::thread::sleep(Duration::from_millis(30));
        more(-1);
        Outcome::ok(input["n"].clone())
    });
    let ran = run(&engine(&scene, vec![slow]), "g/fan");
    assert_eq!(outputs(ran)["all"], json!([5, 4, 3, 2, 1, 0]));
    let most = running.lock().unwrap().1;
    assert!((2..=3).contains(&most), "{most} at once");
    scene.all_verify();
}

#[test]
fn items_that_fail_make_the_node_fail_and_what_is_no_list_does_too() {
    let scene = Scene::new();
    let over = "
    a: {type: foreach, over: \"${state.OVER}\", action: {primary: execute, item_type: tool, item_id: demo/odd, params: {n: \"${item}\"}}, collect: all, on_error: b, next: c}
    b: {type: return, output: {all: \"${state.all}\", why: \"${state._last_error.error}\"}}
    c: {type: return}";
    for (id, name) in [("g/odd", "l"), ("g/text", "t")] {
        let nodes = over.replace("OVER", name);
        scene.graph(id, &demo_graph("state: {l: [1, 2, 3], t: text}", &nodes));
    }
    let odd = tool("demo/odd", |input| match input["n"].as_u64() {
        Some(2) => Outcome::ok(json!({"success": false, "error": "two"})),
        _ => Outcome::ok(json!({"thread_id": "t", "n": input["n"]})),
    });
    let engine = engine(&scene, vec![odd]);
    let all = json!(["t", {"success": false, "error": "two"}, "t"]);
    let why = "1 of 3 items failed; the first: two";
    assert_eq!(
        outputs(run(&engine, "g/odd")),
        json!({"all": all, "why": why})
    );
    assert_eq!(outputs(run(&engine, "g/text"))["why"], "`over` is no list");
}

#[test]
fn a_graph_starts_threads_and_graphs_below_it_within_what_it_may() {
    let scene = Scene::new();
    scene.graph("g/inner", ALL);
    let rights = "rye.execute.tool.g.*, rye.execute.tool.demo.*, rye.execute.directive.demo.say";
    let outer = "
    a: {action: {primary: execute, item_type: tool, item_id: g/inner, params: {list: [7]}}, assign: {inner: \"${result.outputs.seen}\"}, next: b}
    b: {action: {primary: execute, item_type: directive, item_id: demo/say, params: {name: Ada}}, assign: {said: \"${result.result}\"}, next: c}
    c: {type: return, output: {inner: \"${state.inner}\", said: \"${state.said}\"}}";
    scene.graph("g/outer", &graph(rights, "", outer));
    scene.reader("demo/say", "", "Greet.");
    let ran = run(&engine(&scene, vec![ok("demo/echo")]), "g/outer");
    assert_eq!(ran.cost.spawns, 2);
    let ended = scene.verified(&ran.thread);
    let ended = ended.of("child_thread_ended").into_iter();
    assert_eq!(
        ended.map(|end| end["status"].text()).collect::<Vec<_>>(),
        ["completed"; 2]
    );
    assert_eq!(outputs(ran), json!({"inner": 1, "said": "Hello Ada."}));
    scene.all_verify();
}

// T-GRA-11
#[test]
fn graphs_that_run_each_other_end_at_the_depth() {
    let scene = Scene::new();
    let nodes = "
    a: {action: {primary: execute, item_type: tool, item_id: g/self}, next: b}
    b: {type: return}\nlimits: {depth: 3}";
    scene.graph("g/self", &graph("rye.execute.tool.g.*", "", nodes));
    let ran = run(&engine(&scene, vec![]), "g/self").ended(Status::Error);
    ran.error.unwrap().has("depth_exceeded");
    assert_eq!(runs(&scene.path(".ai/agent/threads"), "g-self").len(), 4);
    scene.all_verify();
}

#[test]
fn knowledge_is_loaded_and_found_only_with_leave() {
    let scene = Scene::new();
    scene.file(
        ".ai/knowledge/notes/one.md",
        "# One\n\nThe heron stands still.\n",
    );
    let nodes = "
    a: {action: {primary: load, item_type: knowledge, item_id: \"${state.id}\"}, assign: {text: \"${result.content}\"}, next: b}
    b: {action: {primary: search, item_type: knowledge, item_id: any, params: {query: heron}}, assign: {hit: \"${result.results | json}\"}, next: c}
    c: {type: return, output: {text: \"${state.text}\", hit: \"${state.hit}\"}}";
    for (id, loads) in [("g/may", "notes.*"), ("g/not", "other")] {
        let rights = format!("rye.load.knowledge.{loads}, rye.search.knowledge");
        let member = "on_error: continue\n  state: {id: notes/one}";
        scene.graph(id, &graph(&rights, member, nodes));
    }
    let engine = engine(&scene, vec![]);
    let found = outputs(run(&engine, "g/may"));
    found["text"].text().has("heron");
    found["hit"].text().has("notes/one");
    let ran = run(&engine, "g/not").ended(Status::CompletedWithErrors);
    assert_eq!(outputs(ran)["text"], Value::Null);
}

#[test]
fn a_cancelled_run_ends_sealed() {
    let scene = Scene::new();
    scene.graph("demo/all", ALL);
    let order = graph_order("demo/all", json!({"list": [1]}));
    let stop = order.cancel.clone();
    let stops = tool("demo/echo", move |input| {
        stop.set();
        Outcome::ok(input.clone())
    });
    let ran = engine(&scene, vec![stops]).run_graph(&order).unwrap();
    scene
        .verified(&ran.ended(Status::Cancelled).thread)
        .one("graph_cancelled");
    scene.all_verify();
}

#[test]
fn the_originals_graphs_run_to_their_ends() {
    let Some(folder) = beside_repository("corpus/rye-real/graphs") else {
        return;
    };
    let scene = Scene::new();
    let mut graphs: Vec<String> = Vec::new();
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        // As Rye keeps them, but signed by a key that is unknown here.
        let text = fs::read_to_string(&path).unwrap();
        scene.file(&format!(".ai/tools/graphs/{name}.yaml"), text);
        graphs.push(name);
    }
    assert_eq!(graphs.len(), 6);
    let bash = tool("rye/bash", |input| {
        match input["command"].text().contains("/nonexistent") {
            true => Outcome::failed("it ended with exit code 1"),
            false => Outcome::ok(
                json!({"success": true, "stdout": "42\n", "stderr": "", "exit_code": 0}),
            ),
        }
    });
    let inputs = ["name", "code_snippet", "output_path", "output_dir", "text"];
    let inputs = inputs.map(|input| format!("<input name=\"{input}\" type=\"string\">w</input>"));
    let inputs = format!("<inputs>{}</inputs>", inputs.concat());
    for name in ["analyze_code", "summarize_text", "orchestrate_review"] {
        scene.directive(&format!("test/graphs/{name}"), "", &inputs, "Greet.");
    }
    let engine = engine(&scene, vec![bash]);
    for name in graphs {
        let order = graph_order(&format!("graphs/{name}"), json!({"file_path": "x.py"}));
        engine.run_graph(&order).unwrap().completed();
    }
    scene.all_verify();
}

#[test]
fn a_node_with_a_cache_calls_once_for_each_input_and_a_failure_is_not_kept() {
    let calls = |cache: &str| {
        let scene = Scene::new();
        let nodes = format!(
            "
    a: {{type: foreach, over: \"${{state.l}}\", action: {{primary: execute, item_type: tool, item_id: demo/t, params: {{n: \"${{item}}\"}}}}, {cache}collect: all, next: b}}
    b: {{type: return, output: {{all: \"${{state.all}}\"}}}}"
        );
        let member = "state: {l: [1, 2, 1, 9, 9, 2]}\n  on_error: continue";
        scene.graph("g/kept", &demo_graph(member, &nodes));
        let count = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&count);
        let t = tool("demo/t", move |input| {
            *counted.lock().unwrap() += 1;
            match input["n"].as_u64().unwrap() {
                9 => Outcome::failed("nine"),
                n => Outcome::ok(json!(n * 10)),
            }
        });
        let engine = engine(&scene, vec![t]);
        let ran = run(&engine, "g/kept");
        let events = scene.verified(&ran.thread);
        let reused = events.count("tool_call_reused");
        let all = outputs(ran)["all"].clone();
        assert_eq!(all[0], all[2]);
        (all[5].clone(), *count.lock().unwrap(), reused)
    };
    assert_eq!(calls(""), (json!(20), 6, 0));
    assert_eq!(calls("cache: true, "), (json!(20), 4, 2));
    assert_eq!(calls("cache_result: true, "), (json!(20), 4, 2));
}
