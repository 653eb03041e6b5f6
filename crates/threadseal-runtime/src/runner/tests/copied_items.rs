//! A sealed item copied to another id: the seal is valid, and does not name a place.

use crate::testing::prelude::*;
use crate::toolbox::WriteFile;

const DANGER: &str = ".ai/tools/danger/rm.yaml";
const SAFE: &str = ".ai/tools/safe/rm.yaml";

/// A project with a tool `danger/rm`, a directive `t/parent` that may use `safe.*` and has these
/// permissions more, and its child `t/child`.
fn scene(more: &str) -> Scene {
    let scene = Scene::new().signed();
    let tool = "tool_type: command\ncommand: [/bin/sh, -c, \"echo ran >> danger.log\"]\n";
    scene.seal(DANGER, tool);
    for (name, permissions) in [
        (
            "parent",
            "<tool>rye.file-system.*</tool><tool>rye.agent.threads.thread_directive</tool>\
             <tool>safe.*</tool><directive>t.*</directive>",
        ),
        ("child", "<tool>safe.*</tool>"),
    ] {
        let rights = format!("<permissions><execute>{permissions}</execute>{more}</permissions>");
        scene.directive(&format!("t/{name}"), &rights, "", "Do it.");
    }
    scene
}

/// Runs `t/parent`, which copies the tool and executes the copy, and so does its child.
fn attack(scene: &Scene) -> Result<Ran, Error> {
    let copy = json!({"path": SAFE, "content": scene.text(DANGER)});
    let execute = "{calls: [{tool: rye_execute, input: {item_type: tool, item_id: safe/rm}}]}";
    let mut engine = scene.engine(&format!(
        "answers:\n- {{calls: [{{tool: rye_file-system_write, input: {copy}}}]}}\n- {execute}\n\
         - {{calls: [{{tool: rye_agent_threads_thread_directive, input: {{directive_id: t/child}}}}]}}\n\
         - {execute}\n- {{text: The child is done.}}\n- {{text: Done.}}\n"
    ));
    let (fs, project) = (&engine.services.host.fs, &engine.services.project);
    let write = WriteFile::new(Arc::clone(fs), Arc::clone(project));
    engine.services.tools.push(Arc::new(write));
    engine.run(&order("t/parent"))
}

// T-TOL-06
#[test]
fn a_sealed_tool_copied_to_an_id_that_is_permitted_runs_in_no_thread() {
    let scene = scene("");
    for _ in 0..2 {
        let ran = attack(&scene).unwrap().completed();
        let events = scene.events(&ran.thread);
        let results = events.of("tool_call_result");
        results[0]["error"].text().has("rye.sign.tool.safe.rm");
        assert!(results[1]["error"].is_string(), "{results:?}");
        assert!(!scene.is_there(SAFE) && !scene.is_there("danger.log"));
    }
}

// T-TOL-06
#[test]
fn who_may_sign_an_item_may_write_it_and_a_copy_of_another_one_is_refused_all_the_same() {
    let scene = scene("<sign><tool>safe.*</tool></sign>");
    let ran = attack(&scene).unwrap();
    let events = scene.events(&ran.thread);
    let results = events.of("tool_call_result");
    assert_eq!(results[0]["error"], Value::Null);
    assert!(scene.is_there(SAFE));
    json!(results).to_string().has("a copy of");
    attack(&scene).fails_with("a copy of");
    assert!(!scene.is_there("danger.log"));
}
