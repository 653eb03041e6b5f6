//! Graphs to run, and views of the files that their runs leave.

use crate::testing::prelude::*;

/// Three nodes, one after the other; two call and add to the state.
pub(super) const THREE: &str = r#"tool_type: graph
permissions: [rye.execute.tool.demo.*]
config:
  start: a
  nodes:
    a: {action: {primary: execute, item_type: tool, item_id: demo/a, params: {n: 1}}, assign: {a: "${result.n}"}, next: b}
    b: {action: {primary: execute, item_type: tool, item_id: demo/b, params: {n: "${state.a}"}}, assign: {b: "${result.n}"}, next: c}
    c: {type: return, output: {a: "${state.a}", b: "${state.b}"}}
"#;

/// A graph with these permissions, this member of its configuration, and these nodes; `a` is the
/// first.
pub(super) fn graph(permissions: &str, member: &str, nodes: &str) -> String {
    format!(
        "tool_type: graph\npermissions: [{permissions}]\nconfig:\n  start: a\n  {member}\n  nodes:{nodes}\n"
    )
}

/// The same with a permission for tools of `demo`.
pub(super) fn demo_graph(member: &str, nodes: &str) -> String {
    graph("rye.execute.tool.demo.*", member, nodes)
}

/// A scene with the graph `g/three`.
pub(super) fn three() -> Scene {
    let scene = Scene::new();
    scene.graph("g/three", THREE);
    scene
}

/// An engine with these tools; its model always answers `Hello Ada.`.
pub(super) fn engine(scene: &Scene, tools: Vec<Arc<dyn Tool>>) -> Engine {
    let script = format!("answers:\n{}", "  - text: Hello Ada.\n".repeat(200));
    scene.engine_with(&script, tools)
}

/// The engine for [`THREE`], whose tools return their inputs.
pub(super) fn good(scene: &Scene) -> Engine {
    engine(scene, vec![ok("demo/a"), ok("demo/b")])
}

/// Runs a graph without inputs.
#[track_caller]
pub(super) fn run(engine: &Engine, graph: &str) -> Ran {
    engine.run_graph(&graph_order(graph, json!({}))).unwrap()
}

/// Runs `g/three`, whose second tool is this one, to its failure.
#[track_caller]
pub(super) fn fails_at(scene: &Scene, second: Arc<dyn Tool>) -> ThreadId {
    let engine = engine(scene, vec![ok("demo/a"), second]);
    run(&engine, "g/three").ended(Status::Error).thread
}

pub(super) fn resume(engine: &Engine, run: &ThreadId) -> Result<Ran, Error> {
    resume_graph(engine, run, Unresolved::Refuse)
}

/// The run is not resumed, for this reason, and nothing changes.
#[track_caller]
pub(super) fn refuses(scene: &Scene, engine: &Engine, run: &ThreadId, why: &str) {
    scene.unchanged(|| resume(engine, run)).fails_with(why);
}

/// The outputs of a run.
#[track_caller]
pub(super) fn outputs(ran: Ran) -> Value {
    Value::Object(ran.outputs.unwrap())
}

/// The text of the knowledge entry of a run.
pub(super) fn entry(scene: &Scene, graph: &str, run: &ThreadId) -> String {
    scene.text(format!(".ai/knowledge/agent/threads/{graph}/{run}.md"))
}

/// The state file of a run.
pub(super) fn state(scene: &Scene, graph: &str, run: &ThreadId) -> PathBuf {
    scene.path(format!(".ai/knowledge/graphs/{graph}/{run}.md"))
}

/// The folders of the runs whose names begin so.
pub(super) fn runs(threads: &Path, name: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(threads)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let begins = |path: &PathBuf| {
        path.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with(name)
    };
    paths.filter(begins).collect()
}
