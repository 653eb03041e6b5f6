//! Items found, loaded and signed by models, and items that models must not get or sign.

use super::*;
use crate::testing::prelude::*;

const SAY: &str = ".ai/directives/demo/say.md";

/// A scene with the directive `demo/say`, and the tools of a thread with these capabilities.
struct Desk {
    scene: Scene,
    tools: Vec<(Primary, Arc<dyn Tool>)>,
}

impl Desk {
    fn new(capabilities: &[&str]) -> Self {
        let scene = Scene::new();
        scene.directive("demo/say", "", "", "Say hello to the harbour.");
        let workshop = Workshop {
            project: Arc::new(scene.project.clone()),
            host: scene.host.clone(),
            trust: Arc::new(scene.trust.clone()),
            finder: scene.finder(),
            policy: ItemPolicy::Signed,
            environment: Arc::default(),
            secrets: Arc::default(),
            supervisor: None,
        };
        let capabilities = Capabilities::parse(capabilities).unwrap();
        let tools = ItemPrimary::all(&workshop, &scene.keys, &capabilities);
        Self { scene, tools }
    }

    fn call(&self, primary: Primary, input: Value) -> Result<Value, String> {
        let tool = self.tools.iter().find(|(known, _)| *known == primary);
        let outcome = call(&*tool.ok_or("not shown")?.1, input);
        outcome.error.map_or(Ok(outcome.output), Err)
    }

    fn load(&self, kind: &str, id: &str) -> Result<Value, String> {
        self.call(Primary::Load, json!({"item_type": kind, "item_id": id}))
    }

    fn sign(&self, kind: &str, id: &str) -> Result<Value, String> {
        self.call(Primary::Sign, json!({"item_type": kind, "item_id": id}))
    }

    fn search(&self, kind: &str, query: &str) -> Result<Value, String> {
        self.call(Primary::Search, json!({"item_type": kind, "query": query}))
    }
}

// T-TOL-09
#[test]
fn what_was_signed_is_found_and_loaded_and_nothing_else_is() {
    let desk = Desk::new(&["rye.search.*", "rye.load.*", "rye.sign.directive.demo.*"]);
    let ids = |query: &str| {
        let found = desk.search("directive", query).unwrap();
        let ids = found["results"].each("item_id").into_iter();
        ids.map(|id| id.text().to_owned()).collect::<Vec<_>>()
    };
    let load = || desk.load("directive", "demo/say");
    let sign = || desk.sign("directive", "demo/say").unwrap();
    assert_eq!(ids("harbour"), [""; 0]);
    assert!(load().is_err());
    sign();
    assert_eq!(ids("HARBOUR hello"), ["demo/say"]);
    assert!(ids("*").contains(&"demo/say".to_owned()));
    load().unwrap()["content"].text().has("harbour");
    // After a change it is not found; signed again, it is the next version of the same record.
    edit(desk.scene.path(SAY), "harbour", "docks");
    assert_eq!(ids("docks"), [""; 0]);
    assert!(load().is_err());
    sign()["head"].text().has(":1:");
    assert_eq!(ids("docks"), ["demo/say"]);
}

// T-TOL-09
#[test]
fn each_call_needs_its_own_leave() {
    let not_shown = Err("not shown".to_owned());
    let desk = Desk::new(&["rye.load.knowledge.demo.*"]);
    desk.scene.file(".ai/knowledge/demo/a.md", "words\n");
    assert_eq!(desk.sign("knowledge", "demo/a"), not_shown);
    assert_eq!(desk.search("knowledge", "*"), not_shown);
    for (kind, id) in [
        ("knowledge", "other/a"),
        ("directive", "demo/a"),
        ("config", "agent/hooks"),
    ] {
        assert!(desk.load(kind, id).is_err(), "{kind} {id}");
    }
    let desk = Desk::new(&["rye.search.directive", "rye.sign.knowledge.demo.a"]);
    assert!(desk.search("tool", "*").is_err());
    desk.scene.file(".ai/knowledge/demo/b.md", "words\n");
    assert!(desk.sign("knowledge", "demo/b").is_err());
    assert_eq!(desk.scene.text(".ai/knowledge/demo/b.md"), "words\n");
    assert!(Desk::new(&["rye.execute.*"]).tools.is_empty());
    assert_eq!(Desk::new(&["rye.*"]).tools.len(), 3);
}

// T-TOL-09
#[test]
fn settings_records_links_and_what_is_malformed_are_not_signed() {
    let desk = Desk::new(&["rye.sign.*"]);
    let scene = &desk.scene;
    edit(scene.path(SAY), "name=\"say\"", "name=\"other\"");
    let words = [
        "outside.md",
        ".ai/knowledge/graphs/g/r.md",
        ".ai/knowledge/agent/threads/demo/say/say-1.md",
    ];
    for path in words {
        scene.file(path, "words\n");
    }
    scene.file(".ai/config/agent/hooks.yaml", "hooks: []\n");
    scene.file(".ai/tools/demo/t.yaml", "tool_type: command\n");
    scene.file(".ai/tools/demo/g.yaml", "tool_type: graph\n");
    fs::create_dir_all(scene.path(".ai/knowledge/demo")).unwrap();
    for (link, to) in [
        ("demo/x.md", "../../../outside.md"),
        ("demo/y.md", "../agent/threads/demo/say/say-1.md"),
        ("z", "agent"),
    ] {
        symlink(to, scene.path(".ai/knowledge").join(link)).unwrap();
    }
    for (kind, id) in [
        ("config", "agent/hooks"),
        ("knowledge", "../config/agent/hooks"),
        ("knowledge", "agent/threads/demo/say/say-1"),
        ("knowledge", "graphs/g/r"),
        ("knowledge", "demo/x"),
        ("knowledge", "demo/y"),
        ("knowledge", "z/threads/demo/say/say-1"),
        ("directive", "demo/say"),
        ("tool", "demo/t"),
        ("tool", "demo/g"),
        ("tool", "rye/bash"),
        ("directive", "demo/absent"),
    ] {
        assert!(desk.sign(kind, id).is_err(), "{kind} {id}");
    }
    for path in words {
        assert_eq!(scene.text(path), "words\n", "{path}");
    }
}
