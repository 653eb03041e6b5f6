//! Tools as they may be declared, and effects that arguments cannot have.

use super::*;
use crate::testing::prelude::{Fails as _, Text as _, rows};
use serde_json::json;

const COMMAND: &str = r#"# a comment
tool_type: command
version: "1.0.0"
description: Finds text
category: team
command: [grep, -n, "--", "${inputs.what}", "${inputs.files}", "in-{input:dir|.}", "${inputs.no}"]
stdin: "${inputs.text}"
env: [PATH, LANG]
set_env: {MODE: "${inputs.what}"}
working_directory: ./data//x
timeout_seconds: 5
max_output_bytes: 1000
parallel: true
config_schema:
  type: object
  required: [what]
  properties:
    what: {type: string}
    files: {type: array, default: [a, b]}
"#;

fn parse(text: &str) -> Result<Tool, Error> {
    Tool::parse("t.yaml", text)
}

fn command(text: &str) -> CommandTool {
    match parse(text).unwrap().kind {
        ToolKind::Command(command) => command,
        ToolKind::Mcp(_) => panic!("not a command"),
    }
}

// T-DEC-20
#[test]
fn an_unsigned_tool_gets_no_secret_and_no_address() {
    let command = "tool_type: command\ncommand: [env]\n";
    let server = "tool_type: mcp\ntool: t\n";
    for (head, member, place) in [
        (
            command,
            "env: [PATH, AWS_SECRET_ACCESS_KEY]\n",
            "t.yaml:3: the variable AWS",
        ),
        (
            server,
            "command: [x]\nenv: [TOKEN]\n",
            "t.yaml:4: the variable TOKEN",
        ),
        (server, "url: https://x.example/\n", "t.yaml:3: `url`"),
        (
            server,
            "header_env: {A: TOKEN}\nurl: https://x.example/\n",
            "t.yaml:4: `url`",
        ),
    ] {
        let node = crate::yaml::parse("t.yaml", &format!("{head}{member}")).unwrap();
        Tool::check_unvouched(&node).fails_with(place);
    }
    let harmless = "env: [PATH, LANG, LC_ALL, TZ, HOME, TERM, TMPDIR, USER]\n";
    let node = crate::yaml::parse("t.yaml", &format!("{command}{harmless}")).unwrap();
    assert!(Tool::check_unvouched(&node).is_ok());
}

// T-DEC-14
#[test]
fn a_command_is_read_and_its_arguments_stay_arguments() {
    let tool = parse(COMMAND).unwrap();
    assert_eq!(tool.timeout, Duration::from_secs(5));
    assert_eq!(tool.max_output_bytes, 1000);
    assert_eq!(tool.parallel, Some(true));
    let given = json!({"what": "x; rm -rf $(pwd) -- \"'"});
    let inputs = tool.arguments(given.as_object().cloned().unwrap()).unwrap();
    let command = command(COMMAND);
    assert_eq!(command.working_directory, "data/x");
    assert_eq!(command.env, ["PATH", "LANG"]);
    assert_eq!(command.program(), "grep");
    assert_eq!(
        command.argv(&json!({ "inputs": inputs })).unwrap(),
        [
            "grep",
            "-n",
            "--",
            "x; rm -rf $(pwd) -- \"'",
            "a",
            "b",
            "in-."
        ]
    );
    for bad in [
        json!({"what": "a\u{0}b"}),
        json!({"what": "a", "files": [["x"]]}),
    ] {
        assert!(command.argv(&json!({ "inputs": bad })).is_err(), "{bad}");
    }
    let many = json!({"inputs": {"files": vec![1; MAX_ARGUMENTS + 1]}});
    assert!(command.argv(&many).is_err());
}

#[test]
fn tools_of_servers_are_read() {
    let stdio =
        parse("tool_type: mcp\ncommand: [npx, -y, server]\ntool: read\nenv: [PATH]\n").unwrap();
    let ToolKind::Mcp(McpTool {
        server: McpServer::Stdio(server),
        tool,
    }) = stdio.kind
    else {
        panic!("not a server on standard input");
    };
    assert_eq!(tool, "read");
    assert_eq!(server.argv(&Value::Null).unwrap(), ["npx", "-y", "server"]);
    let http = "tool_type: mcp\nurl: https://x.example/mcp\ntool: read\nheader_env: {Authorization: TOKEN}\n";
    let ToolKind::Mcp(McpTool {
        server: McpServer::Http { url, header_env },
        ..
    }) = parse(http).unwrap().kind
    else {
        panic!("not a server over HTTP");
    };
    assert_eq!(url, "https://x.example/mcp");
    assert_eq!(
        header_env,
        [("Authorization".to_owned(), "TOKEN".to_owned())]
    );
    for url in [
        "http://127.0.0.1:1/x",
        "http://localhost",
        "http://[::1]/mcp",
    ] {
        assert!(
            parse(&http.replace("https://x.example/mcp", &format!("\"{url}\""))).is_ok(),
            "{url}"
        );
    }
}

#[test]
fn a_tool_without_a_schema_takes_nothing() {
    let tool = parse("tool_type: command\ncommand: [date]\n").unwrap();
    assert_eq!(tool.parallel, None);
    assert!(tool.arguments(Map::new()).is_ok());
    assert!(
        tool.arguments(json!({"a": 1}).as_object().cloned().unwrap())
            .is_err()
    );
}

// T-DEC-13
#[test]
fn every_mistake_has_its_line() {
    for [from, to, message] in rows(
        r#"tool_type: command => tool_type: bash => t.yaml:2: unknown tool type `bash`
           command: [grep, => command: ["${inputs.what}", => t.yaml:6: the program must be a text without placeholders
           command: [grep, => command: ["", => t.yaml:6: the program must be a text without placeholders
           env: [PATH => env: [PATH=1 => t.yaml:8:\s
           MODE: => A-B: => t.yaml:9: "A-B" is not a valid variable name
           ./data//x => ../x => t.yaml:10: "../x" does not stay in the project
           ./data//x => /etc => t.yaml:10:\s
           timeout_seconds: 5 => timeout_seconds: 0 => t.yaml:11: `timeout_seconds` is 1 to
           timeout_seconds: 5 => timeout: 5 => t.yaml:11: a tool of this type has no member `timeout`
           max_output_bytes: 1000 => max_output_bytes: 99999999999 => t.yaml:12:\s
           ${inputs.text} => ${inputs text} => t.yaml:7:\s"#,
    ) {
        COMMAND.has(&from);
        let error = parse(&COMMAND.replacen(&from, &to, 1)).why();
        assert!(error.starts_with(&message), "{from} as {to} gave {error}");
    }
    for [text, message] in rows(
        r"tool_type: mcp\nurl: http://x.example\ntool: a\n => t.yaml:2: the address of a server must begin with https
          tool_type: mcp\nurl: http://localhost.evil\ntool: a\n => t.yaml:2:\s
          tool_type: mcp\ncommand: [a, '${inputs.x}']\ntool: a\n => t.yaml:2: a server is started once
          tool_type: mcp\ncommand: [a]\n => t.yaml:1: `tool` is missing
          tool_type: mcp\ncommand: [a]\nstdin: x\ntool: a\n => t.yaml:3:\s
          tool_type: mcp\ncommand: [a]\nurl: https://x\ntool: a\n => t.yaml:2:\s
          tool_type: command\ncommand: []\n => t.yaml:2: `command` is empty
          tool_type: command\n => t.yaml:1: `command` is missing
          tool_type: command\ncommand: grep x\n => t.yaml:2: expected a list",
    ) {
        let error = parse(&text).why();
        assert!(error.starts_with(&message), "{text} gave {error}");
    }
}
