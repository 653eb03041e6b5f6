//! Agents that move as igor moves them: one JSON message with the newest checkpoint.

use super::report;
use crate::prelude::*;
use std::os::unix::fs::PermissionsExt as _;

const CODE: &str = "the code of an agent";

struct Agent {
    sandbox: Sandbox,
    did: String,
}

impl Agent {
    /// An agent with two checkpoints of v0x04 in `here`, and a message with each of them.
    fn new() -> Self {
        let agent = Self {
            sandbox: Sandbox::new(),
            did: String::new(),
        };
        agent.sandbox.ok("init");
        agent.sandbox.write("code", CODE);
        agent.sandbox.write("manifest", "{}");
        for tick in ["1", "2"] {
            agent.append("here", tick, "4").exits(0);
            agent.export(&format!("message{tick}"), "").exits(0);
        }
        let did = agent
            .sandbox
            .sh("lineage identity show here/counter.identity --json")
            .json()["did"]
            .text()
            .to_owned();
        Self { did, ..agent }
    }

    fn append(&self, folder: &str, tick: &str, version: &str) -> Ran {
        self.sandbox.write("state", format!("state {tick}"));
        let code = Digest::of(CODE.as_bytes()).to_hex();
        let line = format!(
            "lineage append {folder} --agent counter --version {version} --state state --tick {tick} \
             --budget 900 --price 1 --code {code}"
        );
        self.sandbox.run(line.split_whitespace())
    }

    fn export(&self, to: &str, more: &str) -> Ran {
        let line =
            format!("lineage export here --igor --code code --manifest manifest -o {to} {more}");
        self.sandbox.run(line.split_whitespace())
    }

    fn import(&self, message: &str, more: &str) -> Ran {
        let line = format!("lineage import {message} there --json {more}");
        self.sandbox.run(line.split_whitespace())
    }

    fn import_trusted(&self, message: &str, more: &str) -> Ran {
        self.import(message, &format!("--root {} {more}", self.did))
    }

    fn is_empty(&self) -> bool {
        let there = self.sandbox.path("there");
        !there.exists()
            || walk(&there)
                .iter()
                .all(|path| path.extension().is_some_and(|e| e == "lock"))
    }
}

#[test]
fn a_message_of_the_original_is_given_out_and_taken_in() {
    let agent = Agent::new();
    let text = agent.sandbox.read("message2");
    assert!(text.starts_with("{\"Package\":{\"AgentID\":\"counter\",\"WASMBinary\":"));
    assert!(!text.contains("AgentIdentity"));
    let told = agent
        .import_trusted("message2", "-o answer --save-parts parts")
        .exits(0)
        .json();
    told.is(json!({"done": "imported", "authority": Value::Null}));
    let read = |name: &str| agent.sandbox.read(name);
    assert_eq!(
        read("answer"),
        "{\"AgentID\":\"counter\",\"NodeID\":\"\",\"Success\":true,\"Error\":\"\"}\n"
    );
    assert_eq!(
        (read("parts/code").as_str(), read("parts/manifest").as_str()),
        (CODE, "{}")
    );
    let live = "counter.checkpoint";
    let bytes = |folder: &str| fs::read(agent.sandbox.path(folder).join(live)).unwrap();
    assert_eq!(bytes("here"), bytes("there"));
    // Its beginning is elsewhere, and every checkpoint here is valid.
    let judged = report(
        &agent.sandbox,
        &format!("lineage verify there --did {}", agent.did),
    );
    assert_eq!(judged["verdict"], "partial");
    assert_eq!(
        agent.import_trusted("message2", "").exits(0).json()["done"],
        "imported before"
    );
    agent.import_trusted("message1", "").exits(2);
    agent.append("here", "3", "4").exits(0);
    agent.export("message3", "").exits(0);
    assert_eq!(
        agent.import("message3", "").exits(0).json()["done"],
        "imported"
    );
}

#[test]
fn a_message_with_the_private_key_says_that_it_is_shared() {
    let agent = Agent::new();
    agent.export("secret", "--with-key --source a").exits(0);
    let mode = |name: &str| {
        let metadata = fs::metadata(agent.sandbox.path(name)).unwrap();
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(mode("secret"), 0o600);
    let told = agent.import_trusted("secret", "").exits(0).json();
    assert_eq!(told["authority"], "shared");
    assert_eq!(mode("there/counter.identity"), 0o600);
    agent.append("there", "3", "4").exits(0);
    // From here on both sides continue, which is a fork.
    let ran = agent.append("here", "4", "4");
    ran.exits(2).fails_with("restore it");
}

// T-LIN-15
#[test]
fn a_message_that_does_not_hold_leaves_nothing_behind() {
    let agent = Agent::new();
    agent.import("message2", "").exits(2).fails_with("--root");
    let stranger = ["lineage", "identity", "new", "stranger", "--json"];
    let stranger = agent.sandbox.run(stranger).json()["did"].text().to_owned();
    agent
        .import("message2", &format!("--root {stranger}"))
        .exits(2);
    let path = agent.sandbox.path("message2");
    let bytes = fs::read(&path).unwrap();
    // Names and the manifest are only claims of the sender: v0x04 signs neither.
    let text = String::from_utf8(bytes.clone()).unwrap();
    let part = |name: &str| text.find(name).unwrap();
    for at in (part("WASMBinary")..part("ManifestData")).step_by(7) {
        let mut changed = bytes.clone();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        fs::write(&path, &changed).unwrap();
        agent.import_trusted("message2", "").exits(2);
        fs::write(&path, &bytes[..at]).unwrap();
        agent.import_trusted("message2", "").exits(2);
    }
    assert!(agent.is_empty());
    fs::write(&path, &bytes).unwrap();
    agent.import_trusted("message2", "").exits(0);
}

#[test]
fn what_the_original_does_not_read_is_not_sent_to_it() {
    let agent = Agent::new();
    agent.sandbox.write("other", "other code");
    let line = "lineage export here --igor --code other -o wrong";
    agent
        .sandbox
        .run(line.split(' '))
        .exits(2)
        .fails_with("the code is not");
    agent.append("here", "3", "5").exits(0);
    agent.export("newer", "").exits(2).fails_with("v0x05");
}
