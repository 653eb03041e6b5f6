//! A sealed item copied to another id: the seal is valid, and does not name a place.

use super::stage::{Stage, of, order};
use crate::limit::Limits;
use crate::runner::Ran;
use crate::signed_file::SignedFile;
use crate::status::Status;
use crate::toolbox::WriteFile;
use serde_json::{Map, json};
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_formats::document::{DocumentKind, ItemType};
use threadseal_store::atomic;

const DANGER: &str = ".ai/tools/danger/rm.yaml";
const SAFE: &str = ".ai/tools/safe/rm.yaml";

/// A project with a tool `danger/rm`, a directive `t/parent` that may use `safe.*`, and its child
/// `t/child`.
fn stage(sign: &str) -> Stage {
    let stage = Stage::new();
    let path = stage.bench.project.root().join(DANGER);
    let (host, keys) = (&stage.bench.host, &stage.bench.keys);
    atomic::create_directories(&*host.fs, path.parent().unwrap(), 0o700).unwrap();
    let kind = DocumentKind::Yaml;
    let mut file = SignedFile::new(host, &path, kind, Some(ItemType::Tool)).unwrap();
    let tool = "tool_type: command\ncommand: [/bin/sh, -c, \"echo ran >> danger.log\"]\n";
    file.write(host, keys, None, tool.as_bytes()).unwrap();
    for (name, permissions) in [
        (
            "parent",
            "<execute><tool>rye.file-system.*</tool><tool>rye.agent.threads.thread_directive</tool>\
             <tool>safe.*</tool><directive>t.*</directive></execute>",
        ),
        ("child", "<execute><tool>safe.*</tool></execute>"),
    ] {
        let text = format!(
            "# {name}\n\n```xml\n<directive name=\"{name}\" version=\"1.0.0\"><metadata><description>d</description>\
             <category>t</category><model tier=\"general\" /><permissions>{permissions}{sign}</permissions></metadata>\
             </directive>\n```\n\nDo it.\n"
        );
        let path = format!(".ai/directives/t/{name}.md");
        stage.seal(&path, &text, ItemType::Directive);
    }
    stage
}

fn run(stage: &Stage, script: &str) -> Result<Ran, Error> {
    let mut engine = stage.engine(script);
    let (fs, project) = (&engine.services.host.fs, &engine.services.project);
    let write = WriteFile::new(Arc::clone(fs), Arc::clone(project));
    engine.services.tools.push(Arc::new(write));
    let mut order = order("t/parent");
    (order.inputs, order.limits) = (Map::new(), Limits::default());
    engine.run(&order)
}

fn attack(stage: &Stage) -> String {
    let sealed = stage.read(&stage.bench.project.root().join(DANGER));
    let copy = json!({"path": SAFE, "content": String::from_utf8(sealed).unwrap()});
    let execute = "{calls: [{tool: rye_execute, input: {item_type: tool, item_id: safe/rm}}]}";
    format!(
        "answers:\n- {{calls: [{{tool: rye_file-system_write, input: {copy}}}]}}\n- {execute}\n\
         - {{calls: [{{tool: rye_agent_threads_thread_directive, input: {{directive_id: t/child}}}}]}}\n\
         - {execute}\n- {{text: The child is done.}}\n- {{text: Done.}}\n"
    )
}

// T-TOL-06
#[test]
fn a_sealed_tool_copied_to_an_id_that_is_permitted_runs_in_no_thread() {
    let stage = stage("");
    let danger = stage.bench.project.root().join("danger.log");
    for _ in 0..2 {
        let ran = run(&stage, &attack(&stage)).unwrap();
        assert_eq!(ran.status, Status::Completed, "{:?}", ran.error);
        let events = stage.events(&ran.thread);
        let results = of(&events, "tool_call_result");
        let why = results[0]["error"].as_str().unwrap();
        assert!(why.contains("rye.sign.tool.safe.rm"), "{why}");
        assert!(results[1]["error"].is_string(), "{results:?}");
        assert!(!stage.bench.project.root().join(SAFE).exists());
        assert!(!danger.exists());
    }
}

// T-TOL-06
#[test]
fn who_may_sign_an_item_may_write_it_and_a_copy_of_another_one_is_refused_all_the_same() {
    let stage = stage("<sign><tool>safe.*</tool></sign>");
    let danger = stage.bench.project.root().join("danger.log");
    let ran = run(&stage, &attack(&stage)).unwrap();
    let events = stage.events(&ran.thread);
    let results = of(&events, "tool_call_result");
    assert!(results[0]["error"].is_null(), "{results:?}");
    assert!(stage.bench.project.root().join(SAFE).exists());
    let said = json!(results).to_string();
    assert!(said.contains("a copy of"), "{said}");
    let why = run(&stage, &attack(&stage)).unwrap_err().to_string();
    assert!(why.contains("a copy of"), "{why}");
    assert!(!danger.exists());
}
