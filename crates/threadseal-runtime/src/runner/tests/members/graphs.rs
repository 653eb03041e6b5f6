//! Members of graphs, shown by their runs, and the faults of their files.

use super::searches;
use super::*;
use crate::graph::inspect;

pub(super) const ROWS: &[Group] = &[
    group(
        "member of a graph",
        a_graph,
        "tool_type     => permissions: [rye.*] => GRAPH
         permissions   => tool_type: graph => GRAPH
         config_schema => GRAPH => GRAPH\\nconfig_schema: {required: [who]}
         limits        => GRAPH => GRAPH\\nlimits: {duration_seconds: 0}
         env_requires  => GRAPH => GRAPH\\nenv_requires: [NO_SUCH]",
    ),
    group(
        "member of a graph",
        without_config,
        "config => => config: {start: a, nodes: {a: {type: return, output: {end: here}}}}",
    ),
    group(
        "member of a graph",
        described,
        "description => => description: Counts herons.",
    ),
    group(
        "member of a graph",
        searches::a_graph,
        "version     => PARTPART => version: heronPARTPART
         name        => PARTPART => name: heronPARTPART
         category    => PARTPART => category: heronPARTPART
         author      => PARTPART => author: heronPARTPART
         tags        => PARTPART => tags: [heron]PARTPART
         schema_version => PARTPART => schema_version: heronPARTPART
         executor_id => PARTPART => executor_id: heronPARTPART",
    ),
    group(
        "member of `config`",
        configured,
        "start     => nodes: {A, Z} => nodes: {A, Z}, start: a
         nodes     => start: a => nodes: {A, Z}, start: a
         max_steps => start: a, nodes: {A, Z} => start: a, nodes: {A, Z}, max_steps: 1
         on_error  => start: a, nodes: {FAILS, Z} => start: a, nodes: {FAILS, Z}, on_error: continue
         state     => start: a, nodes: {A, Z} => start: a, nodes: {A, Z}, state: {got: begun}
         hooks     => start: a, nodes: {A, Z} => start: a, nodes: {A, Z}, hooks: [{id: h, event: graph_started, action: {CALL}}]
         max_concurrency => start: a, state: {list: [1, 2, 3]}, nodes: {MANY, Z} => start: a, state: {list: [1, 2, 3]}, nodes: {MANY, Z}, max_concurrency: 1",
    ),
    group(
        "member of `config`",
        searches::a_graph,
        "description => PARTPART => PARTdescription: heronPART
         comment     => PARTPART => PARTcomment: heronPART",
    ),
    group(
        "member of a node",
        a_node,
        "type       => {output: x} => {type: return, output: x}
         action     => {next: z} => {action: {CALL}, next: z}
         next       => {action: {CALL}} => {action: {CALL}, next: z}
         on_error   => {action: {FAIL}, next: z} => {action: {FAIL}, next: z, on_error: y}
         assign     => {action: {CALL}, next: z} => {action: {CALL}, next: z, assign: {got: '${result.n}'}}
         env_requires => {action: {CALL}, next: z} => {action: {CALL}, next: z, env_requires: [NO_SUCH]}
         cache      => {type: foreach, over: '${state.twice}', action: {CALL}, next: z} => {type: foreach, over: '${state.twice}', action: {CALL}, next: z, cache: true}
         cache_result => {type: foreach, over: '${state.twice}', action: {CALL}, next: z} => {type: foreach, over: '${state.twice}', action: {CALL}, next: z, cache_result: true}
         over       => {type: foreach, action: {CALL}, next: z} => {type: foreach, over: '${state.list}', action: {CALL}, next: z}
         as         => {type: foreach, over: '${state.list}', action: {ITEM}, collect: got, next: z} => {type: foreach, over: '${state.list}', action: {ITEM}, collect: got, next: z, as: one}
         collect    => {type: foreach, over: '${state.list}', action: {CALL}, next: z} => {type: foreach, over: '${state.list}', action: {CALL}, next: z, collect: got}
         parallel   => {type: foreach, over: '${state.list}', action: {MEET}, next: z} => {type: foreach, over: '${state.list}', action: {MEET}, next: z, parallel: true}
         max_concurrency => {type: foreach, over: '${state.list}', action: {MEET}, next: z, parallel: true} => {type: foreach, over: '${state.list}', action: {MEET}, next: z, parallel: true, max_concurrency: 2}
         output     => {type: return} => {type: return, output: {end: '${state.twice}'}}",
    ),
    group(
        "member of a node",
        resumed,
        "idempotent => {action: {LOST}, next: z} => {action: {LOST}, next: z, idempotent: true}",
    ),
    group(
        "member of a node",
        searches::a_graph,
        "description => PARTPART => PARTPARTdescription: heron
         comment     => PARTPART => PARTPARTcomment: heron",
    ),
    group(
        "type of a node",
        a_node,
        "action  => {type: gate, next: z} => {type: action, action: {CALL}, next: z}
         foreach => {action: {CALL}, next: z} => {type: foreach, over: '${state.list}', action: {CALL}, next: z}
         gate    => {type: action, assign: {got: 1}, next: z} => {type: gate, assign: {got: 1}, next: z}
         return  => {type: gate, next: z} => {type: return, output: {end: here}}",
    ),
    group(
        "member of an edge",
        a_node,
        "to   => {type: gate, next: [{when: {}}]} => {type: gate, next: [{to: z, when: {}}]}
         when => {type: gate, next: [{to: y}, {to: z}]} => {type: gate, next: [{to: y, when: {path: state.none, op: exists}}, {to: z}]}",
    ),
    group(
        "error",
        faults,
        "an unknown member => => speed: 3
         an unknown type of a node => => nodes: {a: {type: goto}}
         an unknown operator => => nodes: {a: {type: gate, next: [{to: a, when: {path: state.x, op: like, value: 1}}]}}
         an unknown event, or one of threads alone => => hooks: [{id: h, event: after_complete, action: {primary: execute, item_type: tool, item_id: x}}]
         no permissions => => permissions: []
         no first node => => start: b
         an edge to a name that is no node => => nodes: {a: {type: gate, next: b}}
         an `on_error` to a name that is no node => => nodes: {a: {action: {CALL}, on_error: b}}
         no action where one is needed => => nodes: {a: {}}
         a foreach without `over` => => nodes: {a: {type: foreach, action: {CALL}}}
         an `as` that hides another value => => nodes: {a: {type: foreach, over: x, as: state, action: {CALL}}}
         an assignment to `inputs` => => nodes: {a: {type: gate, assign: {inputs: 1}}}
         a call that the graph's permissions do not hold => => nodes: {a: {action: {primary: execute, item_type: tool, item_id: rye/bash}}}",
    ),
    group(
        "warning",
        faults,
        "a node that is never reached => => nodes: {a: {type: return}, b: {type: return}}
         no end can be reached => => nodes: {a: {type: gate, next: a}}
         no `next`: the graph is complete there, without output => => nodes: {a: {type: gate}}
         edges of which none always holds: the graph fails where none does => => nodes: {a: {type: gate, next: [{to: b, when: {path: inputs.x, op: exists}}]}, b: {type: return}}
         an edge after one that always holds => => nodes: {a: {type: gate, next: [{to: b}, {to: b}]}, b: {type: return}}
         a member of the state that nothing puts there => => nodes: {a: {type: return, output: '${state.x}'}}
         a name that nothing has => => nodes: {a: {type: return, output: '${x}'}}",
    ),
];

const HEAD: &str = "tool_type: graph\npermissions: [rye.execute.tool.demo.*]";

/// A call of a tool of `demo`.
fn call(id: &str, params: &str) -> String {
    format!("primary: execute, item_type: tool, item_id: demo/{id}, params: {{{params}}}")
}

/// Replaces the words in capitals.
fn filled(text: &str) -> String {
    let end = "z: {type: return, output: {got: '${state.got}', why: '${state._last_error.error}'}}";
    let many = "a: {type: foreach, over: '${state.list}', parallel: true, action: {MEET}, next: z}";
    text.replace("{A, ", "{a: {action: {CALL}, next: z}, ")
        .replace("{FAILS, ", "{a: {action: {FAIL}, next: z}, ")
        .replace("{MANY, ", &format!("{{{many}, "))
        .replace(", Z}", &format!(", {end}}}"))
        .replace("CALL", &call("echo", "n: 1"))
        .replace("ITEM", &call("echo", "n: '${item}', one: '${one}'"))
        .replace("FAIL", &call("bad", ""))
        .replace("MEET", &call("meet", ""))
        .replace("LOST", &call("lost", ""))
        .replace("GRAPH", HEAD)
}

/// The calls of `demo/meet` that run, and the most at once.
type Together = Arc<Mutex<[usize; 2]>>;

/// A tool whose calls wait a moment for two others.
fn meet(together: &Together) -> Arc<dyn Tool> {
    let together = Arc::clone(together);
    tool("demo/meet", move |_| {
        let change = |by: fn(&mut [usize; 2])| {
            let mut seen = together.lock().unwrap();
            by(&mut seen);
            *seen
        };
        change(|[now, most]| {
            *now += 1;
            *most = (*most).max(*now);
        });
        for _ in 0..40 {
            if change(|_| ())[1] == 3 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        change(|[now, _]| *now -= 1);
        Outcome::ok("met")
    })
}

/// Runs `g/own`, and shows its end, its outputs and its calls.
fn runs(graph: &str) -> String {
    let scene = Scene::new();
    scene.graph("g/own", graph);
    let (echo, calls) = counted("demo/echo");
    let together = Together::default();
    let tools = vec![echo, failing("demo/bad"), meet(&together)];
    let engine = scene.engine_with(GLADLY, tools);
    let ran = engine.run_graph(&graph_order("g/own", json!({})));
    let mut shown = ended(&scene, &ran);
    let Ok(ran) = ran else { return shown };
    if let Some(outputs) = ran.outputs {
        shown.push_str(&format!("; outputs {}", Value::Object(outputs)));
    }
    shown.push_str(&format!(
        "; {} steps, {} calls",
        ran.cost.turns,
        calls.get()
    ));
    match together.lock().unwrap()[1] {
        0 => {}
        most => shown.push_str(&format!("; {most} at once")),
    }
    let events = scene.verified(&ran.thread);
    match events.count("hook_call_start") {
        0 => shown,
        count => format!("{shown}; {count} calls by hooks"),
    }
}

/// A graph of this head, with a node that ends it.
fn a_graph(head: &str) -> String {
    let config = "config: {start: a, nodes: {a: {type: return, output: {end: here}}}}";
    runs(&filled(&format!("{head}\n{config}\n")))
}

fn without_config(config: &str) -> String {
    runs(&format!("{HEAD}\n{config}\n"))
}

fn configured(config: &str) -> String {
    runs(&filled(&format!("{HEAD}\nconfig: {{{config}}}\n")))
}

/// A graph with the first node `a`, and the ends `y` and `z`.
fn a_node(node: &str) -> String {
    let state = "state: {list: [1, 2, 3], twice: [5, 5]}";
    let nodes = format!("{{a: {node}, y: {{type: return, output: {{end: other}}}}, Z}}");
    runs(&filled(&format!(
        "{HEAD}\nconfig: {{start: a, {state}, nodes: {nodes}}}\n"
    )))
}

/// A graph whose call has an unknown end, and its continuation.
fn resumed(node: &str) -> String {
    let scene = Scene::new();
    let nodes = format!("{{a: {node}, Z}}");
    scene.graph(
        "g/own",
        &filled(&format!("{HEAD}\nconfig: {{start: a, nodes: {nodes}}}\n")),
    );
    let once = Count::default();
    let lost = tool("demo/lost", move |_| match once.add() {
        0 => Outcome::unknown("no answer"),
        _ => Outcome::ok("done"),
    });
    let engine = scene.engine_with(GLADLY, vec![lost]);
    let ran = engine.run_graph(&graph_order("g/own", json!({}))).unwrap();
    let ran = resume_graph(&engine, &ran.thread, Unresolved::Refuse);
    match ran {
        Err(_) => "it is not resumed".to_owned(),
        Ok(ran) => format!("it is resumed: {}", ran.status),
    }
}

/// The description of a graph as a tool of a thread.
fn described(members: &str) -> String {
    let scene = Scene::new();
    let config = "config: {start: a, nodes: {a: {type: return}}}";
    scene.graph("g/own", &format!("{HEAD}\n{members}\n{config}\n"));
    let rights =
        "<permissions><execute><tool>g.own</tool><tool>demo.*</tool></execute></permissions>";
    scene.directive("demo/say", rights, "", "Say it.");
    let ran = scene.engine(GLADLY).run(&order("demo/say")).unwrap();
    let file = scene.text(scene.project.thread(&ran.thread).capabilities());
    let lines = file.lines().map(str::trim);
    let line = lines.skip_while(|line| !line.starts_with("\"description\""));
    line.take(1).collect()
}

/// The faults of a graph with this member of its `config`, or of its own.
fn faults(member: &str) -> String {
    let (name, _) = member.split_once(':').unwrap_or_default();
    let own = [
        ("start", "start: a"),
        ("nodes", "nodes: {a: {type: return}}"),
    ];
    let own = own.into_iter().filter(|(known, _)| *known != name);
    let mut config: Vec<&str> = own.map(|(_, text)| text).collect();
    let head = match name {
        "permissions" => format!("tool_type: graph\n{member}"),
        _ => HEAD.to_owned(),
    };
    if !["", "permissions"].contains(&name) {
        config.push(member);
    }
    let text = filled(&format!("{head}\nconfig: {{{}}}\n", config.join(", ")));
    let found = inspect("g.yaml", &text).unwrap().faults;
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    match found.is_empty() {
        true => "no fault".to_owned(),
        false => found.join("; "),
    }
}
