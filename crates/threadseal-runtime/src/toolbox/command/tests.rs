//! Declared commands: arguments, environment, scripts, results.

use super::*;
use crate::testing::prelude::*;

fn run_tool(scene: &Scene, declaration: &str, input: impl Into<Value>) -> Outcome {
    run_under(ItemPolicy::Signed, scene, declaration, input)
}

fn run_under(
    policy: ItemPolicy,
    scene: &Scene,
    declaration: &str,
    input: impl Into<Value>,
) -> Outcome {
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let environment = vec![variable("PATH", "/usr/bin:/bin"), variable("SECRET", "s")];
    let shop = Workshop {
        project: Arc::new(scene.project.clone()),
        host: scene.host.clone(),
        trust: Arc::new(scene.trust.clone()),
        finder: scene.finder(),
        policy,
        environment: Arc::new(environment),
        secrets: Arc::default(),
        supervisor: None,
    };
    let declaration = format!("tool_type: command\n{declaration}");
    let declaration = tool::Tool::parse("t.yaml", &declaration).unwrap();
    let id = ItemId::parse("test/t").unwrap();
    call(
        &DeclaredCommand::new(&id, declaration, shop).unwrap(),
        input,
    )
}

const ECHO: &str = "command: [printf, '%s|%s', \"${inputs.what}\", fixed]\nenv: [PATH]\n\
    config_schema: {type: object, properties: {what: {type: string}}, required: [what], additionalProperties: false}\n";

// T-TOL-07
#[test]
fn an_argument_is_one_argument_whatever_is_in_it() {
    let what = "a; touch /tmp/x $(id) ' \" \n";
    let outcome = run_tool(&Scene::new(), ECHO, json!({ "what": what }));
    assert_eq!(outcome.output["stdout"], format!("{what}|fixed"));
    assert_eq!(
        (outcome.error, &outcome.output["exit_code"]),
        (None, &json!(0))
    );
}

#[test]
fn arguments_that_do_not_suit_the_schema_run_nothing() {
    let scene = Scene::new();
    for input in [
        json!({}),
        json!({"what": 1}),
        json!({"what": "a", "more": 1}),
        json!("a"),
        json!({"what": "a\0"}),
    ] {
        let outcome = run_tool(&scene, ECHO, input.clone());
        assert!(outcome.error.is_some(), "{input}");
    }
}

#[test]
fn a_command_sees_what_is_listed_and_the_name_of_its_call() {
    let env = "command: [/usr/bin/env]\nenv: [PATH, ABSENT]\nset_env: {MODE: fast}\n";
    let outcome = run_tool(&Scene::new(), env, json!({}));
    let mut lines: Vec<&str> = outcome.output["stdout"].text().lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        ["MODE=fast", "PATH=/usr/bin:/bin", "THREADSEAL_CALL=t/1/c"]
    );
}

#[test]
fn a_failure_says_its_code_and_what_was_written() {
    let fails = "command: [/bin/sh, -c, 'echo out; echo no >&2; exit 4']\n";
    let outcome = run_tool(&Scene::new(), fails, json!({}));
    assert_eq!(outcome.output["exit_code"], 4);
    outcome
        .error
        .unwrap()
        .has("exit code 4")
        .has("no\\n")
        .has("out\\n");
}

// T-TOL-12
#[test]
fn a_script_runs_only_while_it_verifies() {
    let scene = Scene::new();
    let path = ".ai/tools/hello.sh";
    scene.seal(path, "#!/bin/sh\necho hello\n");
    let script = "command: [/bin/sh, \"${script}\"]\nscript: hello\nenv: [PATH]\n";
    let run = || run_tool(&scene, script, json!({}));
    assert_eq!(run().output["stdout"], "hello\n");
    edit(scene.path(path), "echo hello", "echo EVIL!");
    run().error.unwrap().has("tampered");
}

// T-DEC-20
#[test]
fn an_unsigned_script_sees_no_secret_under_any_policy() {
    let scene = Scene::new();
    scene.file(".ai/tools/hello.sh", "#!/bin/sh\necho hello $SECRET\n");
    let run = |env: &str| {
        let script = format!("command: [/bin/sh, \"${{script}}\"]\nscript: hello\nenv: [{env}]\n");
        run_under(ItemPolicy::AllowUnsigned, &scene, &script, json!({}))
    };
    assert_eq!(run("PATH").output["stdout"], "hello\n");
    run("PATH, SECRET").error.unwrap().has("unsigned");
}

// T-TOL-12
#[test]
fn a_script_that_is_swapped_after_its_check_does_not_run() {
    let scene = Scene::new();
    let path = ".ai/tools/hello.sh";
    scene.seal(path, "#!/bin/sh\necho hello\n");
    // The file is another one before the program opens its script.
    let swap = "command: [/bin/sh, -c, 'echo echo EVIL > \"$THREADSEAL_SCRIPT\"; exec /bin/sh \"$0\"', \"${script}\"]\n\
         script: hello\nenv: [PATH]\n";
    let swapped = run_tool(&scene, swap, json!({}));
    assert_eq!(swapped.output["stdout"], "hello\n");
    assert_eq!(scene.read(path), b"echo EVIL\n");
}

#[test]
fn a_command_runs_inside_the_project_only() {
    let (scene, outside) = (Scene::new(), folder());
    symlink(outside.path(), scene.path("link")).unwrap();
    let pwd = "command: [pwd]\nworking_directory: link\nenv: [PATH]\n";
    assert!(run_tool(&scene, pwd, json!({})).error.is_some());
}
