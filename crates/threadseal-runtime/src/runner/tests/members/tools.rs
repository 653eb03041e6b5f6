//! Members of tools, shown by their calls, and the keywords of their schemas.

use super::searches;
use super::*;
use crate::schema::Schema;

pub(super) const ROWS: &[Group] = &[
    group(
        "member of a tool",
        called,
        r#"
        tool_type         => {command: [/bin/echo, hello]} => {tool_type: command, command: [/bin/echo, hello]}
        config_schema     => {COMMAND, command: [/bin/echo, '${inputs.what}']} => {COMMAND, WHAT, command: [/bin/echo, '${inputs.what}']}
        timeout_seconds   => {COMMAND, WHAT, command: [/bin/sleep, '2']} => {COMMAND, WHAT, command: [/bin/sleep, '2'], timeout_seconds: 1}
        max_output_bytes  => {COMMAND, WHAT, command: [/bin/echo, hello]} => {COMMAND, WHAT, command: [/bin/echo, hello], max_output_bytes: 2}
        command           => {COMMAND, WHAT} => {COMMAND, WHAT, command: [/bin/echo, hello]}
        stdin             => {COMMAND, WHAT, command: [/bin/cat]} => {COMMAND, WHAT, command: [/bin/cat], stdin: '${inputs.what}'}
        script            => {COMMAND, WHAT, command: [/bin/sh, '${script}']} => {COMMAND, WHAT, command: [/bin/sh, '${script}'], script: demo/hello}
        env               => {COMMAND, WHAT, command: [/bin/sh, -c, 'echo $TZ']} => {COMMAND, WHAT, command: [/bin/sh, -c, 'echo $TZ'], env: [TZ]}
        set_env           => {COMMAND, WHAT, command: [/bin/sh, -c, 'echo $MODE']} => {COMMAND, WHAT, command: [/bin/sh, -c, 'echo $MODE'], set_env: {MODE: '${inputs.what}'}}
        working_directory => {COMMAND, WHAT, command: [/bin/ls]} => {COMMAND, WHAT, command: [/bin/ls], working_directory: data}
        tool              => {MCP, url: URL} => {MCP, url: URL, tool: echo, HEADER}
        url               => {MCP, tool: echo} => {MCP, url: URL, tool: echo, HEADER}
        header_env        => {MCP, url: URL, tool: echo, WHAT} => {MCP, url: URL, tool: echo, WHAT, HEADER}"#,
    ),
    group(
        "member of a tool",
        shown_to_the_model,
        "description => {COMMAND, command: [/bin/true]} => {COMMAND, command: [/bin/true], description: Does it.}",
    ),
    group(
        "member of a tool",
        order_of_two_calls,
        "parallel => {COMMAND, WHAT, command: [/bin/sleep, '0.2']} => {COMMAND, WHAT, command: [/bin/sleep, '0.2'], parallel: true}",
    ),
    group(
        "member of a tool",
        searches::a_tool,
        "version     => => version: heron
         name        => => name: heron
         category    => => category: heron
         author      => => author: heron
         tags        => => tags: [heron]
         schema_version => => schema_version: heron
         executor_id => => executor_id: heron",
    ),
    group(
        "keyword",
        arguments,
        "type           => {a: {}} => {a: {type: integer}}
         properties     => => {b: {}}
         required       => REST {} => REST {required: [b]}
         additionalProperties => REST {} => REST {additionalProperties: false}
         items          => {a: {}} => {a: {items: {type: integer}}}
         enum           => {a: {}} => {a: {enum: [x, 7]}}
         default        => {b: {}} => {b: {default: 5}}
         minimum        => {a: {}} => {a: {minimum: 8}}
         maximum        => {a: {}} => {a: {maximum: 6}}
         minLength      => {a: {}} => {a: {minLength: 2}}
         maxLength      => {a: {}} => {a: {maxLength: 0}}
         minItems       => {a: {}} => {a: {minItems: 3}}
         maxItems       => {a: {}} => {a: {maxItems: 1}}
         pattern        => {a: {}} => {a: {pattern: '^y'}}",
    ),
    group(
        "keyword",
        shown_to_the_model,
        "title       => {COMMAND, command: [/bin/true], config_schema: {}} => {COMMAND, command: [/bin/true], config_schema: {title: T}}
         description => {COMMAND, command: [/bin/true], config_schema: {}} => {COMMAND, command: [/bin/true], config_schema: {description: D}}
         examples    => {COMMAND, command: [/bin/true], config_schema: {}} => {COMMAND, command: [/bin/true], config_schema: {examples: [E]}}
         format      => {COMMAND, command: [/bin/true], config_schema: {}} => {COMMAND, command: [/bin/true], config_schema: {format: F}}",
    ),
];

/// A scene with the tool `demo/t`, which a thread calls so often in one answer; `URL` is a server
/// that wants a header.
fn calls_of(declaration: &str, calls: usize) -> (Scene, Result<Ran, Error>) {
    let scene = Scene::new();
    let server = declaration
        .contains("URL")
        .then(|| web(&scene, "secret", ""));
    let declaration = declaration
        .replace("COMMAND", "tool_type: command")
        .replace("MCP", "tool_type: mcp")
        .replace("WHAT", "config_schema: {properties: {what: {}, text: {}}}")
        .replace("HEADER", "header_env: {Authorization: TOKEN}")
        .replace("URL", &server.as_ref().map(Web::url).unwrap_or_default());
    scene.file("data/inside", "");
    scene.seal(".ai/tools/demo/hello.sh", "#!/bin/sh\necho a script\n");
    scene.seal(".ai/tools/demo/t.yaml", &format!("{declaration}\n"));
    let rights = "<permissions><execute><tool>demo.t</tool></execute></permissions>";
    scene.directive("demo/say", rights, "", "Say it.");
    let call = "{tool: demo_t, input: {what: given, text: given}}";
    let script = format!(
        "answers: [{{calls: [{}]}}, {{text: Done.}}]",
        vec![call; calls].join(", ")
    );
    let mut engine = scene.engine_with(&script, Vec::new());
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    engine.services.environment = Arc::new(vec![
        variable("TZ", "UTC"),
        variable("TOKEN", "Bearer s3cret"),
    ]);
    let ran = engine.run(&order("demo/say"));
    (scene, ran)
}

/// What a call of a tool gives, or why the thread does not begin.
fn called(declaration: &str) -> String {
    let (scene, ran) = calls_of(declaration, 1);
    let Ok(ran) = ran else {
        return ended(&scene, &ran);
    };
    let events = scene.verified(&ran.thread);
    let result = events.one("tool_call_result");
    if let Some(why) = result["error"].as_str() {
        // The address of the server has a port of this run.
        let why = why.lines().next().unwrap();
        let why = why.rsplit("it answers").next().unwrap();
        return format!("an error: {}", why.trim());
    }
    let output = result["output"].text();
    let output: Value = serde_json::from_str(output).unwrap_or_else(|_| output.into());
    let text = output["stdout"].as_str().or(output["text"].as_str());
    let text = text.map_or_else(|| output.to_string(), |text| format!("{:?}", text.trim()));
    match output["truncated"].is_null() {
        true => format!("its output is {text}"),
        false => format!("its output begins with {text}"),
    }
}

/// The description and the schema of a tool for a model.
fn shown_to_the_model(declaration: &str) -> String {
    let (scene, ran) = calls_of(declaration, 0);
    let ran = ran.unwrap().completed();
    let file = scene.text(scene.project.thread(&ran.thread).capabilities());
    let definitions = file
        .split("```json\n")
        .nth(1)
        .unwrap()
        .split("\n```")
        .next();
    let tools: Value = serde_json::from_str(definitions.unwrap()).unwrap();
    let own = tools.list().iter().find(|tool| tool["name"] == "demo_t");
    let own = own.unwrap();
    format!("{} {}", own["description"], own["schema"])
}

/// The events of two calls in one answer.
fn order_of_two_calls(declaration: &str) -> String {
    let (scene, ran) = calls_of(declaration, 2);
    let events = scene.verified(&ran.unwrap().completed().thread);
    let kinds = events.kinds().into_iter().filter_map(|kind| match kind {
        "tool_call_start" => Some("start"),
        "tool_call_result" => Some("result"),
        _ => None,
    });
    kinds.collect::<Vec<_>>().join(", ")
}

/// What these properties admit as `a`, and what becomes of other members.
fn arguments(properties: &str) -> String {
    let properties = match properties.split_once("REST ") {
        Some((_, rest)) => rest.to_owned(),
        None if properties.is_empty() => "{additionalProperties: false}".to_owned(),
        None => format!("{{additionalProperties: false, properties: {properties}}}"),
    };
    let node = crate::yaml::parse("s.yaml", &properties).unwrap();
    let schema = Schema::parse(&node).unwrap();
    let values = [
        json!({"a": 7}),
        json!({"a": "x"}),
        json!({"a": [1, "y"]}),
        json!({"b": 1}),
        json!({}),
    ];
    let admitted = values.iter().filter_map(|value| {
        let given = value.as_object().cloned().unwrap();
        let becomes = schema.apply(given).ok()?;
        Some(Value::Object(becomes).to_string())
    });
    format!("it admits {}", admitted.collect::<Vec<_>>().join(", "))
}
