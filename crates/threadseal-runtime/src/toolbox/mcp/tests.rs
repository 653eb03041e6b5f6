//! MCP servers over both transports, honest ones and others.

mod faults;
mod revisions;
mod sharing;

use super::*;
use crate::item::ItemPolicy;
use crate::secrets::Secrets;
use crate::testing::prelude::*;
use crate::toolbox::Supervisor;

fn declared(scene: &Scene, yaml: &str, environment: &[(&str, &str)]) -> Result<DeclaredMcp, Error> {
    declared_with(scene, yaml, environment, &Arc::default())
}

fn declared_with(
    scene: &Scene,
    yaml: &str,
    environment: &[(&str, &str)],
    secrets: &Arc<Secrets>,
) -> Result<DeclaredMcp, Error> {
    declared_in(&hub(scene), None, scene, yaml, environment, secrets)
}

fn declared_in(
    hub: &Arc<Hub>,
    supervisor: Option<Supervisor>,
    scene: &Scene,
    yaml: &str,
    environment: &[(&str, &str)],
    secrets: &Arc<Secrets>,
) -> Result<DeclaredMcp, Error> {
    let mut environment: Vec<(String, String)> = environment
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    environment.push(("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()));
    let shop = Workshop {
        project: Arc::new(scene.project.clone()),
        host: scene.host.clone(),
        trust: Arc::new(scene.trust.clone()),
        finder: scene.finder(),
        policy: ItemPolicy::Signed,
        environment: Arc::new(environment),
        secrets: Arc::clone(secrets),
        supervisor,
    };
    let tool = tool::Tool::parse("t.yaml", yaml).unwrap();
    let id = ItemId::parse("team/echo").unwrap();
    let made = DeclaredMcp::new(&id, tool, &shop, hub, &Cancel::default())?;
    Ok(made.unwrap())
}

fn hub(scene: &Scene) -> Arc<Hub> {
    Arc::new(Hub::new(Arc::clone(&scene.host.clock)))
}

fn stdio(scene: &Scene, mode: &str, more: &str) -> Result<DeclaredMcp, Error> {
    stdio_within(20, scene, mode, more)
}

/// A server on standard input, each of whose calls may take so many seconds.
fn stdio_within(seconds: u64, scene: &Scene, mode: &str, more: &str) -> Result<DeclaredMcp, Error> {
    let yaml = program(scene, mode, more, seconds);
    declared(scene, &yaml, &[("SECRET", "not listed")])
}

/// The declaration of a server on standard input.
fn program(scene: &Scene, mode: &str, more: &str, seconds: u64) -> String {
    scene.file("server.py", SERVER);
    format!(
        "tool_type: mcp\ntool: echo\ncommand: [python3, server.py, stdio, {mode}, \"{more}\"]\nenv: [PATH]\n\
         set_env: {{MODE: x}}\ntimeout_seconds: {seconds}\nmax_output_bytes: 1000\n"
    )
}

fn say(tool: &DeclaredMcp, input: &Value, cancel: &Cancel) -> Outcome {
    tool.run(&mut Invocation {
        idempotency_key: "t/1/c",
        input,
        cancel,
        record: &mut NoChildren,
    })
}

fn echo(tool: &DeclaredMcp, text: &str) -> Outcome {
    call(tool, json!({ "text": text }))
}

/// The outcome of one call of a server on standard input.
fn echo_of(scene: &Scene, mode: &str) -> Outcome {
    echo(&stdio(scene, mode, "").unwrap(), "x")
}

/// Waits until a file contains this text.
fn holds(path: &Path, part: &str) -> bool {
    (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        fs::read_to_string(path).is_ok_and(|text| text.contains(part))
    })
}

#[test]
fn a_tool_of_a_server_runs_over_standard_input_and_over_http() {
    let scene = Scene::new();
    let tool = stdio(&scene, "plain", "").unwrap();
    let schema = tool.schema();
    assert_eq!(
        (&*schema.name, &*schema.description),
        ("team_echo", "Says it back.")
    );
    assert_eq!(schema.parameters["required"], json!(["text"]));
    assert!(tool.parallel(&Value::Null));
    assert_eq!(echo(&tool, "gr\u{fc}n"), Outcome::ok("gr\u{fc}n"));
    for mode in ["plain", "events"] {
        let server = web(&scene, mode, "");
        let tool = declared(&scene, &server.declaration(""), &[]).unwrap();
        assert_eq!(echo(&tool, "there"), Outcome::ok("there"));
    }
}

// T-TOL-12
#[test]
fn a_server_runs_the_script_that_was_verified() {
    let scene = Scene::new();
    let path = ".ai/tools/server.py";
    scene.seal(path, SERVER);
    let yaml = "tool_type: mcp\ntool: echo\ncommand: [python3, \"${script}\", stdio, plain, \"\"]\nscript: server\n\
         env: [PATH]\nconfig_schema: {type: object, properties: {text: {type: string}}}\n";
    let tool = declared(&scene, yaml, &[]).unwrap();
    // The schema is given, so that the server starts with the first call.
    edit(scene.path(path), "import", "impart");
    assert_eq!(echo(&tool, "there"), Outcome::ok("there"));
    let error = declared(&scene, yaml, &[]).map(drop).unwrap_err();
    error.to_string().has("tampered");
}

// T-TOL-23
#[test]
fn a_server_sees_the_listed_environment_its_folder_and_the_name_of_the_call() {
    let scene = Scene::new();
    let seen: Value = serde_json::from_str(&echo_of(&scene, "environment").text()).unwrap();
    let (env, names) = (&seen["env"], seen["env"].as_object().unwrap().keys());
    assert!(env["PATH"].is_string() && env["MODE"] == "x", "{names:?}");
    assert!(env["SECRET"].is_null(), "{names:?}");
    assert_eq!(seen["cwd"], scene.project.root().to_str().unwrap());
    assert_eq!(echo_of(&scene, "named").text(), "t/1/c");
}

// T-TOL-23
#[test]
fn headers_come_from_the_environment_and_go_to_their_address_alone() {
    let scene = Scene::new();
    let server = web(&scene, "secret", "");
    let elsewhere = web(&scene, "moved", &server.url());
    let token = [("TOKEN", "Bearer s3cret")];
    let with = |server: &Web, environment| {
        let header = "header_env: {Authorization: TOKEN}\n";
        declared(&scene, &server.declaration(header), environment)
    };
    let tool = with(&server, &token).unwrap();
    assert_eq!(tool.replaced(), 0);
    assert_eq!(echo(&tool, "in"), Outcome::ok("in"));
    assert!(with(&server, &[]).is_err());
    assert!(with(&server, &[("TOKEN", "wrong")]).is_err());
    assert!(with(&elsewhere, &token).is_err());
}

// T-TOL-36
#[test]
fn a_server_that_returns_its_header_gets_it_into_no_description_and_no_result() {
    let scene = Scene::new();
    let server = web(&scene, "leaks", "");
    let header = server.declaration("header_env: {Authorization: TOKEN}\n");
    let token = "tok/en+0123456789\"";
    let secrets = Arc::new(Secrets::default());
    let environment = [("TOKEN", &*format!("Bearer {token}"))];
    let tool = declared_with(&scene, &header, &environment, &secrets).unwrap();
    assert_eq!(tool.replaced(), 2);
    let schema = tool.schema();
    schema.description.has("Bearer [secret]");
    schema.parameters["properties"]["Bearer [secret]"]["type"]
        .text()
        .has("string");
    let mut outcome = echo(&tool, "in");
    // The runner masks each result before it records or uses it.
    assert_eq!(outcome.mask(&secrets), 3);
    outcome.text().lacks("0123456789").lacks(token);
}

// T-TOL-22
#[test]
fn what_a_server_says_of_a_tool_is_bounded_and_what_is_beyond_is_refused() {
    let scene = Scene::new();
    let long = stdio(&scene, "long", "").unwrap();
    assert!(long.schema().description.len() <= MAX_MCP_DESCRIPTION_BYTES);
    for mode in ["wide", "list", "twice", "many", "endless"] {
        assert!(stdio(&scene, mode, "").is_err(), "{mode}");
    }
}

// T-TOL-22
#[test]
fn a_result_is_bounded_and_an_error_is_one() {
    let scene = Scene::new();
    let giant = echo_of(&scene, "giant").text();
    assert!(giant.len() < 1100 && giant.ends_with("[cut: 3000000 bytes in all]"));
    // A message beyond the bound is no result.
    let flood = stdio_within(2, &scene, "flood", "").unwrap();
    assert!(echo(&flood, "x").error.is_some());
    echo_of(&scene, "error").error.unwrap().has("no such file");
    let image = &echo_of(&scene, "image").output[1];
    assert_eq!(image["mime_type"], "image/png");
    assert!(image["data"].is_null(), "{image}");
    assert_eq!(echo_of(&scene, "noise"), Outcome::ok("x"));
}

// T-TOL-22
#[test]
fn a_server_that_offers_another_tool_than_was_shown_is_not_called_again() {
    let scene = Scene::new();
    for mode in ["changes", "changes-old"] {
        let tool = stdio(&scene, mode, "").unwrap();
        assert_eq!(echo(&tool, "one"), Outcome::ok("one"));
        std::thread::sleep(Duration::from_millis(300));
        echo(&tool, "two").error.unwrap().has("another \"echo\"");
    }
}

// T-TOL-21
#[test]
fn a_call_that_a_server_does_not_end_may_have_been_carried_out() {
    let scene = Scene::new();
    for mode in ["task", "input"] {
        let outcome = echo_of(&scene, mode);
        assert!(outcome.unknown, "{mode}: {outcome:?}");
        outcome.error.unwrap().has("did not end the call");
    }
}

// T-TOL-22
#[test]
fn a_server_may_ask_for_nothing() {
    let scene = Scene::new();
    let answers = scene.path("answers");
    let tool = stdio(&scene, "asks", answers.to_str().unwrap()).unwrap();
    assert_eq!(echo(&tool, "x"), Outcome::ok("x"));
    assert!(holds(&answers, "s2"));
    for answer in scene.json(answers).list() {
        let nothing = answer["error"].is_object() || answer["result"]["roots"] == json!([]);
        assert!(nothing, "{answer}");
    }
}

// T-TOL-22
#[test]
fn a_server_that_hangs_is_given_up_and_one_that_dies_is_told() {
    let scene = Scene::new();
    let told = scene.path("told");
    let slow = stdio(&scene, "slow", told.to_str().unwrap()).unwrap();
    let cancel = Cancel::default();
    let setter = cancel.clone();
    let began = SystemClock.elapsed();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        setter.set();
    });
    let stopped = say(&slow, &json!({"text": "x"}), &cancel).error.unwrap();
    stopped.has("cancelled");
    assert!(SystemClock.elapsed() - began < Duration::from_secs(5));
    assert!(
        holds(&told, "notifications/cancelled"),
        "the server was not told"
    );
    let hung = stdio_within(2, &scene, "hang", "told").unwrap();
    echo(&hung, "x").error.unwrap().has("too long");
    echo_of(&scene, "die").error.unwrap().has("not known");
}

// T-TOL-23
#[test]
fn a_server_and_what_it_started_end_with_its_thread() {
    let scene = Scene::new();
    let mark = scene.path("mark");
    let tool = stdio(&scene, "leaves", mark.to_str().unwrap()).unwrap();
    assert_eq!(echo(&tool, "x"), Outcome::ok("x"));
    let process = Path::new("/proc").join(scene.text(mark)).join("stat");
    let runs = || fs::read_to_string(&process).is_ok_and(|stat| !stat.contains(") Z "));
    assert!(runs());
    let began = SystemClock.elapsed();
    drop(tool);
    assert!(SystemClock.elapsed() - began < Duration::from_secs(6));
    let ended = || (0..40).any(|_| !runs() || Cancel::default().within(Duration::from_millis(50)));
    assert!(ended(), "a process of its group outlived it");
    drop(stdio(&scene, "stays", "").unwrap());
}
