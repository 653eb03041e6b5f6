//! Declared commands: arguments, environment, scripts, results.

use super::*;
use crate::testing::{Bench, NoChildren};
use crate::toolbox::Cancel;
use std::fs;

fn run_tool(bench: &Bench, declaration: &str, input: impl Into<Value>) -> Outcome {
    let input = input.into();
    let shop = Workshop {
        project: Arc::new(bench.project.clone()),
        host: bench.host.clone(),
        trust: Arc::new(bench.trust.clone()),
        finder: Finder::new(
            Arc::clone(&bench.host.fs),
            vec![bench.folder.path().to_owned()],
        ),
        policy: ItemPolicy::Signed,
        environment: Arc::new(vec![
            ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
            ("SECRET".to_owned(), "s".to_owned()),
        ]),
    };
    let declaration = tool::Tool::parse("t.yaml", declaration).unwrap();
    let tool = DeclaredCommand::new(&ItemId::parse("test/t").unwrap(), declaration, shop).unwrap();
    tool.run(&mut Invocation {
        idempotency_key: "t/1/c",
        input: &input,
        cancel: &Cancel::default(),
        record: &mut NoChildren,
    })
}

const ECHO: &str = "tool_type: command\ncommand: [printf, '%s|%s', \"${inputs.what}\", fixed]\nenv: [PATH]\n\
    config_schema: {type: object, properties: {what: {type: string}}, required: [what], additionalProperties: false}\n";

// T-TOL-07
#[test]
fn an_argument_is_one_argument_whatever_is_in_it() {
    let outcome = run_tool(
        &Bench::new(),
        ECHO,
        json!({"what": "a; touch /tmp/x $(id) ' \" \n"}),
    );
    assert_eq!(
        outcome.output["stdout"],
        "a; touch /tmp/x $(id) ' \" \n|fixed"
    );
    assert_eq!(
        (outcome.error, &outcome.output["exit_code"]),
        (None, &json!(0))
    );
}

#[test]
fn arguments_that_do_not_suit_the_schema_run_nothing() {
    for input in [
        json!({}),
        json!({"what": 1}),
        json!({"what": "a", "more": 1}),
        json!("a"),
        json!({"what": "a\0"}),
    ] {
        assert!(
            run_tool(&Bench::new(), ECHO, input.clone()).error.is_some(),
            "{input}"
        );
    }
}

#[test]
fn a_command_sees_what_is_listed_and_the_name_of_its_call() {
    let declaration =
        "tool_type: command\ncommand: [/usr/bin/env]\nenv: [PATH, ABSENT]\nset_env: {MODE: fast}\n";
    let outcome = run_tool(&Bench::new(), declaration, json!({}));
    let mut lines: Vec<&str> = outcome.output["stdout"].as_str().unwrap().lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        ["MODE=fast", "PATH=/usr/bin:/bin", "THREADSEAL_CALL=t/1/c"]
    );
}

#[test]
fn a_failure_says_its_code_and_what_was_written() {
    let declaration =
        "tool_type: command\ncommand: [/bin/sh, -c, 'echo out; echo no >&2; exit 4']\n";
    let outcome = run_tool(&Bench::new(), declaration, json!({}));
    assert_eq!(outcome.output["exit_code"], 4);
    let error = outcome.error.unwrap();
    assert!(
        error.contains("exit code 4") && error.contains("no\\n") && error.contains("out\\n"),
        "{error}"
    );
}

// T-TOL-12
#[test]
fn a_script_runs_only_while_it_verifies() {
    let bench = Bench::new();
    let folder = bench.folder.path().join(".ai/tools");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("hello.sh");
    let kind = threadseal_formats::document::DocumentKind::of_name("hello.sh").unwrap();
    let mut file = crate::signed_file::SignedFile::new(&bench.host, &path, kind, None).unwrap();
    file.write(&bench.host, &bench.keys, None, b"#!/bin/sh\necho hello\n")
        .unwrap();
    let declaration =
        "tool_type: command\ncommand: [/bin/sh, \"${script}\"]\nscript: hello\nenv: [PATH]\n";
    assert_eq!(
        run_tool(&bench, declaration, json!({})).output["stdout"],
        "hello\n"
    );
    let signed = fs::read_to_string(&path).unwrap();
    fs::write(&path, signed.replace("echo hello", "echo EVIL!")).unwrap();
    let outcome = run_tool(&bench, declaration, json!({}));
    assert!(outcome.error.unwrap().contains("tampered"));
}

#[test]
fn a_command_runs_inside_the_project_only() {
    let (bench, outside) = (Bench::new(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink(outside.path(), bench.folder.path().join("link")).unwrap();
    let declaration = "tool_type: command\ncommand: [pwd]\nworking_directory: link\nenv: [PATH]\n";
    assert!(run_tool(&bench, declaration, json!({})).error.is_some());
}
