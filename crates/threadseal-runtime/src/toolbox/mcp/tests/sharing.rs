//! One server for a process: shared, closed when idle, started again within bounds.

use super::*;
use crate::bounds::MAX_MCP_FAILURES;
use crate::toolbox::Parentage;
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_formats::ledger::Parent;

/// The numbers of the processes of a server that wrote them to `starts`.
fn starts(scene: &Scene) -> Vec<String> {
    let text = fs::read_to_string(scene.path("starts")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The declaration of a server that writes its number to `starts`, with these members more.
fn counted(scene: &Scene, more: &str) -> String {
    let file = scene.path("starts");
    program(scene, "starts", file.to_str().unwrap(), 20) + more
}

fn runs(process: &str) -> bool {
    let stat = Path::new("/proc").join(process).join("stat");
    fs::read_to_string(stat).is_ok_and(|stat| !stat.contains(") Z "))
}

fn member(hub: &Arc<Hub>, scene: &Scene, yaml: &str, environment: &[(&str, &str)]) -> DeclaredMcp {
    declared_in(hub, None, scene, yaml, environment, &Arc::default()).unwrap()
}

// T-TOL-44
#[test]
fn parent_children_successor_and_graph_share_one_server() {
    let scene = Scene::new();
    let rights = "<permissions><execute><tool>demo.*</tool><tool>rye.agent.threads.thread_directive</tool>\
                  </execute></permissions>";
    scene.directive("demo/say", rights, "", "Begin them.");
    scene.directive("demo/child", rights, "", "I am a child.");
    scene.seal(".ai/tools/demo/server.yaml", &counted(&scene, ""));
    scene.graph(
        "demo/all",
        "tool_type: graph\npermissions: [rye.execute.tool.demo.*]\nconfig:\n  start: a\n  nodes:\n    \
         a: {action: {primary: execute, item_type: tool, item_id: demo/server, params: {text: x}}, next: b}\n    \
         b: {type: return, output: {}}\n",
    );
    let call = "{tool: demo_server, input: {text: x}}";
    let child = "{tool: rye_agent_threads_thread_directive, input: {directive_id: demo/child}}";
    let script = format!(
        "conversations:\n- when: Begin\n  answers: [{{calls: [{call}, {child}, {child}]}}, {{text: Done.}}, {{calls: [{call}]}}, {{text: Done.}}]\n\
         - when: I am a child\n  answers: [{{calls: [{call}]}}, {{text: Here.}}]\n"
    );
    let engine = scene.engine(&script);
    let ran = engine.run(&order("demo/say")).unwrap().completed();
    assert_eq!(ran.cost.spawns, 2);
    let next = engine.resume(&again(&ran.thread)).unwrap().completed();
    for thread in [&ran.thread, &next.thread] {
        let events = scene.events(thread);
        let results = events.of("tool_call_result");
        assert!(
            results.iter().all(|result| result["error"].is_null()),
            "{results:?}"
        );
    }
    let ran = engine.run_graph(&graph_order("demo/all", json!({})));
    ran.unwrap().completed();
    assert_eq!(starts(&scene).len(), 1);
    drop(engine);
    assert!(!runs(&starts(&scene)[0]));
}

// T-TOL-44
#[test]
fn servers_with_other_variables_or_headers_are_others() {
    let scene = Scene::new();
    let hub = hub(&scene);
    let yaml = counted(&scene, "").replace("[PATH]", "[PATH, TOKEN]");
    let tools: Vec<DeclaredMcp> = ["one", "one", "two"]
        .iter()
        .map(|token| member(&hub, &scene, &yaml, &[("TOKEN", token)]))
        .collect();
    for tool in &tools {
        assert_eq!(echo(tool, "x"), Outcome::ok("x"));
    }
    assert_eq!(starts(&scene).len(), 2);
    let server = web(&scene, "leaks", "");
    let header = server.declaration("header_env: {Authorization: TOKEN}\n");
    for token in ["Bearer one", "Bearer two", "Bearer one"] {
        let tool = member(&hub, &scene, &header, &[("TOKEN", token)]);
        assert!(echo(&tool, "x").text().contains(token), "{token}");
    }
}

#[test]
fn a_server_is_closed_when_no_thread_has_used_it_for_a_while_and_not_before() {
    let scene = Scene::new();
    let clock = Arc::clone(&scene.host.clock);
    let hub = Arc::new(Hub::closing_after(clock, Duration::from_millis(300)));
    let yaml = counted(&scene, "");
    let first = member(&hub, &scene, &yaml, &[]);
    std::thread::sleep(Duration::from_secs(1));
    // Held, and so not idle; left, and taken up again in time.
    drop(member(&hub, &scene, &yaml, &[]));
    drop(first);
    let second = member(&hub, &scene, &yaml, &[]);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(echo(&second, "x"), Outcome::ok("x"));
    assert_eq!(starts(&scene).len(), 1);
    drop(second);
    let ended = || {
        (0..80).any(|_| {
            !runs(&starts(&scene)[0]) || Cancel::default().within(Duration::from_millis(50))
        })
    };
    assert!(ended());
    assert_eq!(
        echo(&member(&hub, &scene, &yaml, &[]), "x"),
        Outcome::ok("x")
    );
    assert_eq!(starts(&scene).len(), 2);
}

/// A record that keeps what it is given about servers.
#[derive(Default)]
struct Restarts(Vec<(String, usize, String)>);

impl Parentage for Restarts {
    fn child_begins(&mut self, child: &ThreadId, _: &RecordId, _: &str) -> Result<Head, Error> {
        panic!("{child} was to begin")
    }

    fn child_ended(&mut self, child: &ThreadId, _: &str, _: &Head) -> Result<(), Error> {
        panic!("{child} ended")
    }

    fn server_restarted(&mut self, server: &str, failures: usize, why: &str) -> Result<(), Error> {
        self.0.push((server.to_owned(), failures, why.to_owned()));
        Ok(())
    }

    fn ledger(&self) -> Result<Parent, Error> {
        panic!("a child was to begin")
    }
}

// T-TOL-44
#[test]
fn a_server_that_dies_is_started_again_so_often_and_each_time_is_recorded() {
    let scene = Scene::new();
    let tool = member(&hub(&scene), &scene, &counted(&scene, ""), &[]);
    let mut record = Restarts::default();
    let mut say = |text: &str| {
        let input = json!({ "text": text });
        tool.run(&mut Invocation {
            idempotency_key: "t/1/c",
            input: &input,
            cancel: &Cancel::default(),
            record: &mut record,
        })
    };
    let died = "it ended with exit code 3; its last line on standard error: out of memory";
    for _ in 0..MAX_MCP_FAILURES {
        let lost = say("die");
        assert!(lost.unknown, "{lost:?}");
        lost.error.unwrap().has(died);
    }
    let began = SystemClock.elapsed();
    let refused = say("x");
    assert!(SystemClock.elapsed() - began < Duration::from_secs(1));
    assert!(!refused.unknown, "{refused:?}");
    let why = refused.error.unwrap();
    why.has("failed 5 times within 120 s").has(died);
    assert_eq!(starts(&scene).len(), MAX_MCP_FAILURES);
    let failures: Vec<usize> = record.0.iter().map(|(_, failures, _)| *failures).collect();
    assert_eq!(failures, [1, 2, 3, 4]);
    assert!(
        record
            .0
            .iter()
            .all(|(server, _, why)| server.contains("server.py") && why == died)
    );
}

// T-TOL-44
#[test]
fn a_supervisor_that_does_not_begin_holds_no_other_server() {
    let scene = Scene::new();
    let hub = hub(&scene);
    let yaml = program(&scene, "plain", "", 20);
    let under = |words: &[&str]| {
        let supervisor = Supervisor::new(words.iter().map(std::ffi::OsString::from));
        declared_in(&hub, Some(supervisor), &scene, &yaml, &[], &Arc::default())
    };
    let began = SystemClock.elapsed();
    for words in [&["/no/such/supervisor"][..], &["/bin/false"]] {
        let error = under(words).map(drop).unwrap_err();
        error.to_string().has("cannot be started").has("hint: ");
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            under(&["/bin/sh", "-c", "exec sleep 8"])
                .map(drop)
                .unwrap_err()
        });
        std::thread::sleep(Duration::from_millis(300));
        let tool = member(&hub, &scene, &yaml, &[]);
        assert_eq!(echo(&tool, "x"), Outcome::ok("x"));
        let took = SystemClock.elapsed() - began;
        assert!(took < Duration::from_secs(7), "{took:?}");
    });
}
