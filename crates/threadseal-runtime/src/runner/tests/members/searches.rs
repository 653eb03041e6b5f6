//! Texts for people: `rye_search` finds an item by them.

use crate::testing::prelude::*;

/// Which line a search for the word `heron` shows of an item of this type.
fn found(scene: &Scene, kind: &str) -> String {
    let rights = "<permissions><search>*</search></permissions>";
    scene.directive("demo/finder", rights, "", "Find it.");
    let call = format!("{{tool: rye_search, input: {{item_type: {kind}, query: heron}}}}");
    let script = format!("answers: [{{calls: [{call}]}}, {{text: Done.}}]");
    let ran = scene.engine(&script).run(&order("demo/finder")).unwrap();
    let events = scene.verified(&ran.thread);
    let output = events.one("tool_call_result")["output"].text();
    let output: Value = serde_json::from_str(output).unwrap();
    match output["results"].list() {
        [] => "a search finds nothing".to_owned(),
        [hit] => format!("a search shows `{}`", hit["snippet"].text()),
        more => panic!("{more:?}"),
    }
}

/// A directive with these parts.
pub(super) fn a_directive(parts: &str) -> String {
    let scene = Scene::new();
    let (metadata, rest) = parts.split_once("META").unwrap_or(("", parts));
    let text = format!(
        "```xml\n<directive name=\"say\" version=\"1\">\n<metadata>\n<category>demo</category>\n\
         {metadata}\n</metadata>\n{rest}\n</directive>\n```\n\nSay it.\n"
    );
    scene.file(".ai/directives/demo/say.md", text);
    scene
        .engine(GLADLY)
        .run(&order("demo/say"))
        .unwrap()
        .completed();
    found(&scene, "directive")
}

/// A command with these members.
pub(super) fn a_tool(members: &str) -> String {
    let scene = Scene::new();
    let text = format!("tool_type: command\ncommand: [/bin/true]\n{members}\n");
    crate::tool::Tool::parse("t.yaml", &text).unwrap();
    scene.file(".ai/tools/demo/t.yaml", text);
    found(&scene, "tool")
}

/// A graph among the tools with these members of its own, of its `config` and of its node.
pub(super) fn a_graph(members: &str) -> String {
    let scene = Scene::new();
    let parts: Vec<&str> = members.split("PART").collect();
    let [own, config, node] = parts[..] else {
        panic!("{members}");
    };
    let text = format!(
        "tool_type: graph\npermissions: [rye.search.*]\n{own}\nconfig:\n  start: a\n  {config}\n  nodes:\n    \
         a:\n      type: return\n      {node}\n"
    );
    crate::graph::Graph::parse("g.yaml", &text).unwrap();
    scene.file(".ai/tools/demo/g.yaml", text);
    found(&scene, "tool")
}
