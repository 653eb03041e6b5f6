//! Items found, loaded and signed by models, and items that models must not get or sign.

use super::*;
use crate::item::{Finder, ItemPolicy};
use crate::testing::{Bench, NoChildren};
use crate::toolbox::Cancel;
use std::fs;

const DIRECTIVE: &str = "# Say\n\n```xml\n<directive name=\"say\" version=\"1.0.0\">\n  <metadata>\n    <description>d</description>\n    \
                         <category>demo</category>\n  </metadata>\n</directive>\n```\n\nSay hello to the harbour.\n";

struct RecordWriter {
    bench: Bench,
    tools: Vec<(Primary, Arc<dyn Tool>)>,
}

impl RecordWriter {
    fn new(capabilities: &[&str]) -> Self {
        let bench = Bench::new();
        let root = bench.project.root().to_owned();
        let workshop = Workshop {
            project: Arc::new(crate::project::Project::open(&*bench.host.fs, &root).unwrap()),
            host: bench.host.clone(),
            trust: Arc::new(bench.trust.clone()),
            finder: Finder::new(Arc::clone(&bench.host.fs), vec![root]),
            policy: ItemPolicy::Signed,
            environment: Arc::default(),
        };
        let capabilities = Capabilities::parse(capabilities).unwrap();
        let tools = ItemPrimary::all(&workshop, &bench.keys, &capabilities);
        Self { bench, tools }
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.bench.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn call(&self, primary: Primary, input: &Value) -> Result<Value, String> {
        let tool = self.tools.iter().find(|(known, _)| *known == primary);
        let (_, tool) = tool.ok_or("not shown")?;
        let outcome = tool.run(&mut Invocation {
            idempotency_key: "k",
            input,
            cancel: &Cancel::default(),
            record: &mut NoChildren,
        });
        match outcome.error {
            None => Ok(outcome.output),
            Some(why) => Err(why),
        }
    }

    fn item(&self, primary: Primary, kind: &str, id: &str) -> Result<Value, String> {
        self.call(primary, &json!({"item_type": kind, "item_id": id}))
    }
}

// T-TOL-09
#[test]
fn what_was_signed_is_found_and_loaded_and_nothing_else_is() {
    let desk = RecordWriter::new(&["rye.search.*", "rye.load.*", "rye.sign.directive.demo.*"]);
    desk.write(".ai/directives/demo/say.md", DIRECTIVE);
    let search = |query: &str| {
        desk.call(
            Primary::Search,
            &json!({"item_type": "directive", "query": query}),
        )
        .unwrap()
    };
    let ids = |found: &Value| {
        let found = found["results"].as_array().unwrap().iter();
        found
            .map(|hit| hit["item_id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert!(ids(&search("harbour")).is_empty());
    assert!(desk.item(Primary::Load, "directive", "demo/say").is_err());
    desk.item(Primary::Sign, "directive", "demo/say").unwrap();
    assert_eq!(ids(&search("HARBOUR hello")), ["demo/say"]);
    assert!(ids(&search("*")).contains(&"demo/say".to_owned()));
    let loaded = desk.item(Primary::Load, "directive", "demo/say").unwrap();
    assert!(loaded["content"].as_str().unwrap().contains("harbour"));
    // After a change it is not found; signed again, it is the next version of the same record.
    let path = desk.bench.folder.path().join(".ai/directives/demo/say.md");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("harbour", "docks")).unwrap();
    assert!(ids(&search("docks")).is_empty());
    assert!(desk.item(Primary::Load, "directive", "demo/say").is_err());
    let again = desk.item(Primary::Sign, "directive", "demo/say").unwrap();
    assert!(again["head"].as_str().unwrap().contains(":1:"), "{again}");
    assert_eq!(ids(&search("docks")), ["demo/say"]);
}

// T-TOL-09
#[test]
fn each_call_needs_its_own_leave() {
    let desk = RecordWriter::new(&["rye.load.knowledge.demo.*"]);
    desk.write(".ai/knowledge/demo/a.md", "words\n");
    assert_eq!(
        desk.item(Primary::Sign, "knowledge", "demo/a"),
        Err("not shown".to_owned())
    );
    assert_eq!(
        desk.call(
            Primary::Search,
            &json!({"item_type": "knowledge", "query": "*"})
        ),
        Err("not shown".to_owned())
    );
    for (kind, id) in [
        ("knowledge", "other/a"),
        ("directive", "demo/a"),
        ("config", "agent/hooks"),
    ] {
        assert!(desk.item(Primary::Load, kind, id).is_err(), "{kind} {id}");
    }
    let desk = RecordWriter::new(&["rye.search.directive", "rye.sign.knowledge.demo.a"]);
    assert!(
        desk.call(Primary::Search, &json!({"item_type": "tool", "query": "*"}))
            .is_err()
    );
    desk.write(".ai/knowledge/demo/b.md", "words\n");
    assert!(desk.item(Primary::Sign, "knowledge", "demo/b").is_err());
    assert_eq!(
        fs::read(desk.bench.folder.path().join(".ai/knowledge/demo/b.md")).unwrap(),
        b"words\n"
    );
    assert!(RecordWriter::new(&["rye.execute.*"]).tools.is_empty());
    assert_eq!(RecordWriter::new(&["rye.*"]).tools.len(), 3);
}

// T-TOL-09
#[test]
fn settings_records_links_and_what_is_malformed_are_not_signed() {
    let desk = RecordWriter::new(&["rye.sign.*"]);
    desk.write(".ai/config/agent/hooks.yaml", "hooks: []\n");
    desk.write(".ai/knowledge/agent/threads/demo/say/say-1.md", "words\n");
    desk.write(".ai/knowledge/graphs/g/r.md", "words\n");
    desk.write(
        ".ai/directives/demo/say.md",
        &DIRECTIVE.replace("\"say\"", "\"other\""),
    );
    desk.write(".ai/tools/demo/t.yaml", "tool_type: command\n");
    desk.write(".ai/tools/demo/g.yaml", "tool_type: graph\n");
    desk.write("outside.md", "words\n");
    let root = desk.bench.folder.path().to_owned();
    fs::create_dir_all(root.join(".ai/knowledge/demo")).unwrap();
    for (link, to) in [
        (".ai/knowledge/demo/x.md", "../../../outside.md"),
        (
            ".ai/knowledge/demo/y.md",
            "../agent/threads/demo/say/say-1.md",
        ),
        (".ai/knowledge/z", "agent"),
    ] {
        std::os::unix::fs::symlink(to, root.join(link)).unwrap();
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
        assert!(desk.item(Primary::Sign, kind, id).is_err(), "{kind} {id}");
    }
    for path in [
        "outside.md",
        ".ai/knowledge/graphs/g/r.md",
        ".ai/knowledge/agent/threads/demo/say/say-1.md",
    ] {
        assert_eq!(fs::read(root.join(path)).unwrap(), b"words\n", "{path}");
    }
}
