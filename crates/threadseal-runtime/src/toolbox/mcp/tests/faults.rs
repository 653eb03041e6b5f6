//! Each error of a server names the server, the cause and the next step.

use super::*;
use std::net::TcpListener;

/// The error has all these parts, and a hint.
#[track_caller]
fn names(error: &str, parts: &[&str]) {
    error.has("; hint: ");
    for part in parts {
        error.has(part);
    }
}

#[test]
fn each_error_of_a_program_names_the_server_the_cause_and_the_next_step() {
    let scene = Scene::new();
    let ours = "MCP server python3 server.py stdio";
    for (mode, parts) in [
        (
            "fails",
            &[
                "it ended with exit code 1",
                "no module named small",
                "by hand",
            ][..],
        ),
        ("garbled", &["not valid MCP"]),
        ("twice", &["two tools \"echo\"", "list of tools"]),
        ("endless", &["more than 100 pages"]),
    ] {
        let error = stdio(&scene, mode, "").map(drop).unwrap_err().to_string();
        names(&error, &[&[ours, mode], parts].concat());
    }
    for (mode, parts) in [
        (
            "die",
            &["not known", "it ended with exit code 3", "out of memory"][..],
        ),
        ("hang", &["not known", "took too long", "timeout_seconds"]),
        (
            "refuses",
            &["the text is too loud", "code -32602", "arguments"],
        ),
        ("task", &["did not end the call"]),
    ] {
        let tool = stdio_within(2, &scene, mode, "calls").unwrap();
        names(
            &echo(&tool, "x").error.unwrap(),
            &[&[ours, mode], parts].concat(),
        );
    }
    let other = program(&scene, "plain", "", 20).replace("tool: echo", "tool: other");
    let error = declared(&scene, &other, &[])
        .map(drop)
        .unwrap_err()
        .to_string();
    names(
        &error,
        &[
            ours,
            "it has no tool \"other\"",
            "name one of its tools",
            ": echo",
        ],
    );
    let missing = "tool_type: mcp\ntool: echo\ncommand: [/no/such/server, now]\n";
    let error = declared(&scene, missing, &[])
        .map(drop)
        .unwrap_err()
        .to_string();
    names(
        &error,
        &[
            "MCP server /no/such/server now",
            "cannot be started: No such file",
            "install the program",
        ],
    );
}

#[test]
fn each_error_over_http_names_the_server_the_cause_and_the_next_step() {
    let scene = Scene::new();
    for (mode, parts) in [
        ("401", &["status 401", "header_env"][..]),
        ("403", &["status 403", "header_env"]),
        ("404", &["status 404", "path of `url`"]),
        ("429", &["status 429", "wait"]),
        ("500", &["status 500", "log of the server"]),
        ("garbled", &["not valid MCP"]),
    ] {
        let server = web(&scene, mode, "");
        let declaration = server.declaration("timeout_seconds: 20\n");
        let error = declared(&scene, &declaration, &[])
            .map(drop)
            .unwrap_err()
            .to_string();
        names(
            &error,
            &[&[&*format!("MCP server {}", server.url())], parts].concat(),
        );
    }
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let away = format!("tool_type: mcp\ntool: echo\nurl: http://{free}/mcp?key=s3cret\n");
    let error = declared(&scene, &away, &[])
        .map(drop)
        .unwrap_err()
        .to_string();
    names(
        &error,
        &[
            "cannot be reached",
            "refused",
            "start the server",
            &free.to_string(),
        ],
    );
    error.lacks("s3cret");
    let unset = away.clone() + "header_env: {Authorization: TOKEN}\n";
    let error = declared(&scene, &unset, &[])
        .map(drop)
        .unwrap_err()
        .to_string();
    names(&error, &["$TOKEN", "is not set"]);
}
