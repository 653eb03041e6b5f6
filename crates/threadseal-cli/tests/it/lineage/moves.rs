//! Agents that move between two folders, as between two machines.

use crate::sandbox::{Sandbox, walk};
use serde_json::Value;
use std::path::PathBuf;
use threadseal::digest::Digest;
use threadseal::lineage::{
    AgentName, CheckpointHeader, Epoch, LinkKind, MediaType, NativeHeader, StateSeal, Version,
};
use threadseal_store::clock::SystemClock;
use threadseal_store::lineage::migrate::Node;
use threadseal_store::lineage::{CheckpointStore as _, FileCheckpointStore, Standings, StateBytes};
use threadseal_store::random::SystemRandom;
use threadseal_store::sys::RealFs;

const STATE: &[u8] = b"the state of an agent";

/// Two machines: the agent's root key and its first checkpoint in `here`, a session key in `there`.
struct Machines {
    sandbox: Sandbox,
    root: String,
    session: String,
}

impl Machines {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        for folder in ["here", "there"] {
            std::fs::create_dir(sandbox.work().join(folder)).unwrap();
        }
        let key = |agent: &str, folder: &str| {
            let ran = sandbox.run([
                "lineage", "identity", "new", agent, "--dir", folder, "--json",
            ]);
            ran.json()["did"].as_str().unwrap().to_owned()
        };
        let (root, session) = (key("counter", "here"), key("session", "there"));
        let machines = Self {
            sandbox,
            root,
            session,
        };
        let delegate =
            "lineage identity delegate here/counter.identity --key-epoch 1 -o delegation --to";
        machines.run(delegate, &[&machines.session], 0);
        machines.begin();
        machines
    }

    fn path(&self, name: &str) -> PathBuf {
        self.sandbox.work().join(name)
    }

    fn begin(&self) {
        let agent = AgentName::parse("counter").unwrap();
        let store = FileCheckpointStore::new(RealFs::shared(), self.path("here"));
        let identity = store.load_identity(&agent).unwrap().unwrap();
        let header = CheckpointHeader {
            version: Version::V5,
            budget: 1000,
            price: 1,
            tick: 1,
            code: Digest::of(b"code"),
            epoch: Epoch::default(),
            lease_expiry: 0,
            prev: None,
            signer: None,
            signature: None,
            native: Some(Box::new(NativeHeader {
                kind: LinkKind::Checkpoint,
                seq: 0,
                time: 0,
                state: StateSeal::of(STATE, MediaType::bytes()),
                transcript: None,
                manifest: None,
                receipts: None,
                parent: None,
                name: agent.clone(),
                root: *identity.public_key(),
                certificate: None,
            })),
        };
        let signer = identity.into_native_signer();
        let node = Node {
            store: &store,
            standings: &Standings::new(),
            signer: &signer,
            certificate: None,
            clock: &SystemClock,
            random: &SystemRandom,
        };
        node.begin(&agent, header, &mut StateBytes::new(STATE))
            .unwrap();
    }

    /// Runs the words of `line` and `more`, with `--json`.
    #[track_caller]
    fn run(&self, line: &str, more: &[&str], code: i32) -> Value {
        let words = line
            .split(' ')
            .chain(more.iter().copied())
            .chain(["--json"]);
        let ran = self.sandbox.run(words);
        assert_eq!(ran.code, code, "{line}");
        match code {
            0 => ran.json(),
            _ => Value::Null,
        }
    }

    fn offer(&self) {
        self.run("lineage release here --to", &[&self.session], 0);
        self.run(
            "lineage export here -o package --for-target delegation",
            &[],
            0,
        );
    }

    fn import(&self, code: i32) -> Value {
        let line = "lineage import package there --key there/session.identity --root";
        self.run(line, &[&self.root], code)
    }
}

#[test]
fn a_package_with_another_state_leaves_nothing_behind() {
    let machines = Machines::new();
    machines.sandbox.write("next", "the next state");
    let append = "lineage append here --state next --tick 2 --budget 900 --price 1 --code";
    machines.run(append, &[&Digest::of(b"code").to_hex()], 0);
    machines.offer();
    let package = machines.path("package");
    let mut bytes = std::fs::read(&package).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&package, &bytes).unwrap();
    machines.import(2);
    let left = walk(&machines.path("there"));
    let is_link = |path: &&PathBuf| {
        let ending = path.extension().unwrap_or_default();
        ending == "ckpt" || ending == "head" || ending == "checkpoint"
    };
    assert_eq!(left.iter().find(is_link), None);
}

#[test]
fn an_agent_moves_and_only_the_newest_link_says_who_may_act() {
    let machines = Machines::new();
    let released = machines.run("lineage release here --to", &[&machines.session], 0);
    assert_eq!(released["offered_to"], machines.session.as_str());
    assert_eq!(released["holder"], Value::Null);
    let again = machines.run("lineage release here --to", &[&machines.session], 0);
    assert_eq!(again["newest"], released["newest"]);
    machines.run("lineage release here --to", &[&machines.root], 2);
    machines.run(
        "lineage export here -o package --for-target delegation",
        &[],
        0,
    );
    let line =
        "lineage import package there --key there/session.identity --save-delegation d --root";
    let imported = machines.run(line, &[&machines.root], 0);
    assert_eq!(imported["done"], "imported");
    assert_eq!(imported["newest"], released["newest"]);
    let accept = "lineage accept there --key there/session.identity --delegation d -o";
    let accepted = machines.run(accept, &["answer"], 0);
    assert_eq!(accepted["holder"], machines.session.as_str());
    assert_eq!(machines.import(0)["done"], "answered before");
    let taken = machines.run("lineage import answer here", &[], 0);
    assert_eq!(taken["newest"], accepted["newest"]);
    machines.run("lineage release here --to", &[&machines.session], 2);
    // The source's folder and the target's are one lineage.
    let recovered = machines.run("lineage recover here --to", &[&machines.root], 0);
    assert_eq!(recovered["holder"], machines.root.as_str());
}

#[test]
fn a_refusal_gives_the_agent_back() {
    let machines = Machines::new();
    machines.offer();
    machines.import(0);
    let refuse = "lineage refuse there --key there/session.identity --delegation delegation --reason full -o";
    machines.run(refuse, &["answer"], 0);
    let taken = machines.run("lineage import answer here", &[], 0);
    assert_eq!(taken["holder"], machines.root.as_str());
    let again = machines.run("lineage import answer here", &[], 0);
    assert_eq!(again["done"], "answer taken before");
}

#[test]
fn a_package_that_does_not_hold_leaves_nothing_behind() {
    let machines = Machines::new();
    machines.offer();
    let package = std::fs::read(machines.path("package")).unwrap();
    let last = package.len() - 1;
    for change in [
        |bytes: &mut Vec<u8>, last: usize| bytes[last] ^= 1,
        |bytes: &mut Vec<u8>, last: usize| bytes.truncate(last),
        |bytes: &mut Vec<u8>, _: usize| bytes[700] ^= 1,
        |bytes: &mut Vec<u8>, _: usize| bytes.clear(),
    ] {
        let mut changed = package.clone();
        change(&mut changed, last);
        std::fs::write(machines.path("package"), changed).unwrap();
        machines.import(2);
        assert!(!machines.path("there/counter.checkpoint").exists());
    }
    std::fs::write(machines.path("package"), &package).unwrap();
    let line = "lineage import package there --key there/session.identity";
    machines.run(line, &[], 2);
    machines.run(line, &["--root", &machines.session], 2);
    machines.import(0);
    assert!(machines.path("there/counter.checkpoint").exists());
}
