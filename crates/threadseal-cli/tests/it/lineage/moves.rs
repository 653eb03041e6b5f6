//! Agents that move between two folders, as between two machines.

use super::exit_of;
use crate::prelude::*;
use crate::sandbox::PROGRAM;

const STATE: &[u8] = b"the state of an agent";

/// Two machines: the agent's root key and its first checkpoint in `here`, a session key in `there`.
pub(super) struct Machines {
    pub(super) sandbox: Sandbox,
    pub(super) root: String,
    pub(super) session: String,
}

impl Shell for Machines {
    fn run<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Ran {
        self.sandbox.run(arguments)
    }
}

impl Machines {
    pub(super) fn new() -> Self {
        let machines = Self::without_agent();
        machines.append("here", "1", "");
        machines
    }

    fn without_agent() -> Self {
        let sandbox = Sandbox::new();
        // A host remembers its checkpoints in its home.
        sandbox.ok("init");
        for folder in ["here", "there"] {
            fs::create_dir(sandbox.path(folder)).unwrap();
        }
        let key = |agent: &str, folder: &str| {
            let ran = sandbox.sh(format!(
                "lineage identity new {agent:?} --dir {folder} --json"
            ));
            ran.json()["did"].text().to_owned()
        };
        let (root, session) = (key("counter", "here"), key("session", "there"));
        let machines = Self {
            sandbox,
            root,
            session,
        };
        let delegate =
            "lineage identity delegate here/counter.identity --key-epoch 1 -o delegation --to";
        machines.json(format!("{delegate} {}", machines.session));
        machines.sandbox.write("state", STATE);
        machines
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.sandbox.path(name)
    }

    /// Appends the next checkpoint in `folder`.
    pub(super) fn append(&self, folder: &str, tick: &str, more: &str) -> Value {
        let own = "--agent counter --state state --budget 900 --price 1";
        let code = Digest::of(b"code").to_hex();
        self.json(format!(
            "lineage append {folder} {own} {more} --tick {tick} --code {code}"
        ))
    }

    fn offer(&self) {
        self.json(format!("lineage release here --to {}", self.session));
        self.json("lineage export here -o package --for-target delegation");
    }

    /// The report on these folders.
    fn verify(&self, folders: &str) -> Value {
        let line = format!("lineage verify {folders} --json --did {}", self.root);
        let ran = self.sandbox.run(line.split(' '));
        let report = ran.json()["results"][0].clone();
        assert_eq!(ran.code, exit_of(report["verdict"].text()));
        report
    }

    fn import(&self, code: i32) -> Ran {
        let line = "lineage import package there --key there/session.identity --root";
        self.exits(code, format!("{line} {} --json", self.root))
    }
}

#[test]
fn a_package_with_another_state_leaves_nothing_behind() {
    let machines = Machines::new();
    machines.sandbox.write("state", "the next state");
    machines.append("here", "2", "");
    machines.offer();
    let package = machines.path("package");
    let mut bytes = fs::read(&package).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&package, &bytes).unwrap();
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
    let released = machines.json(format!("lineage release here --to {}", machines.session));
    released.is(json!({"offered_to": machines.session.as_str(), "holder": Value::Null}));
    let again = machines.json(format!("lineage release here --to {}", machines.session));
    assert_eq!(again["newest"], released["newest"]);
    machines.exits(
        2,
        format!("lineage release here --to {} --json", machines.root),
    );
    machines.json("lineage export here -o package --for-target delegation");
    let line =
        "lineage import package there --key there/session.identity --save-delegation d --root";
    let imported = machines.json(format!("{line} {}", machines.root));
    imported.is(json!({"done": "imported", "newest": released["newest"]}));
    let accept = "lineage accept there --key there/session.identity --delegation d -o";
    let accepted = machines.json(format!("{accept} answer"));
    assert_eq!(accepted["holder"], machines.session.as_str());
    assert_eq!(machines.import(0).json()["done"], "answered before");
    let taken = machines.json("lineage import answer here");
    assert_eq!(taken["newest"], accepted["newest"]);
    machines.exits(
        2,
        format!("lineage release here --to {} --json", machines.session),
    );
    // The folder of the source and that of the target hold one lineage.
    let recovered = machines.json(format!("lineage recover here --to {}", machines.root));
    assert_eq!(recovered["holder"], machines.root.as_str());
}

pub(super) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

// T-LIN-12
#[test]
fn what_a_host_wrote_it_knows_and_an_older_copy_is_a_rollback() {
    let machines = Machines::new();
    let (release, recover) = ("lineage release here --to", "lineage recover here --to");
    let (session, root) = (&machines.session, &machines.root);
    let steps = [
        format!("{release} {session}"),
        format!("{recover} {root}"),
        String::new(),
        format!("{release} {session}"),
        format!("{recover} {session}"),
    ];
    for (number, line) in steps.into_iter().enumerate() {
        let (here, older) = (machines.path("here"), machines.path("older"));
        copy(&here, &older);
        match line.as_str() {
            "" => machines.append("here", "9", ""),
            line => machines.json(line),
        };
        let report = machines.verify("here");
        assert_eq!(report["verdict"], "verified", "{number}");
        assert_eq!(report["completeness"], "head", "{number}");
        fs::rename(&here, machines.path("newer")).unwrap();
        fs::rename(&older, &here).unwrap();
        let report = machines.verify("here");
        assert_eq!(report["verdict"], "rolled_back", "{number}");
        assert!(report.codes().contains(&"head_ahead"), "{report}");
        // Appending to the restored folder would be a fork, so it is refused.
        let ran = machines
            .sandbox
            .sh(format!("lineage recover here --to {}", machines.root));
        ran.exits(2).fails_with("restore it");
        fs::remove_dir_all(&here).unwrap();
        fs::rename(machines.path("newer"), &here).unwrap();
    }
}

#[test]
fn folders_of_both_machines_are_one_lineage_that_nobody_set_back() {
    let machines = Machines::new();
    machines.offer();
    machines.import(0);
    let accept = "lineage accept there --key there/session.identity --delegation delegation -o";
    machines.json(format!("{accept} answer"));
    let by_session = "--identity there/session.identity --delegation delegation";
    let newest = ["2", "3", "4"].map(|tick| machines.append("there", tick, by_session));
    let newest = &newest[2];
    // The source accepts the answer although this host knows later checkpoints.
    let taken = machines.json("lineage import answer here");
    assert_eq!(taken["done"], "answer taken");
    let report = machines.verify("here there");
    assert_eq!(report["verdict"], "verified");
    assert!(report.codes().contains(&"live_elsewhere"), "{report}");
    assert!(!report.codes().contains(&"live_behind"), "{report}");
    // An expected head needs no `--did` that names its agent.
    let head = newest["hash"].text();
    for line in ["verify here there", "verify there"] {
        let line = format!("{line} --json --key {} --expect-head {head}", machines.root);
        let ran = machines.sandbox.run(line.split(' ')).exits(0);
        assert_eq!(ran.json()["results"][0]["completeness"], "head");
    }
    let line = format!("verify here --json --expect-head {head}");
    let ran = machines.sandbox.run(line.split(' ')).exits(1);
    assert_eq!(ran.json()["results"][0]["verdict"], "rolled_back");
    machines.sandbox.write("plain/notes.txt", "no lineage");
    let ran = machines
        .sandbox
        .sh(format!("verify plain --expect-head {head}"));
    ran.fails_with("--expect-head");
}

#[test]
fn an_agent_moves_between_stores_of_any_kind() {
    let machines = Machines::without_agent();
    let here = "sqlite:here.db";
    let there = "object+file:there-objects";
    let by_root = "--identity here/counter.identity";
    let first = machines.append(here, "1", by_root);
    let second = machines.append(here, "2", by_root);
    assert_eq!(second["prev"], first["hash"]);
    let root = "--key here/counter.identity";
    machines.json(format!(
        "lineage release {here} {root} --to {}",
        machines.session
    ));
    machines.json(format!("lineage export {here} {root} -o moved"));
    let session = "--key there/session.identity";
    let import = format!("lineage import moved {there} {session} --root");
    machines.json(format!("{import} {}", machines.root));
    let accept = format!("lineage accept {there} {session} --delegation delegation -o taken");
    machines.json(accept);
    let taken = machines.json(format!("lineage import taken {here} {root}"));
    assert_eq!(taken["done"], "answer taken");
    let by_session = "--identity there/session.identity --delegation delegation";
    let third = machines.append(there, "3", by_session);
    assert_eq!(third["prev"], taken["newest"]);
}

// T-LIN-12
#[test]
fn the_old_holder_writes_nothing_that_counts() {
    let machines = Machines::new();
    machines.offer();
    let code = Digest::of(b"code").to_hex();
    let line = "lineage append here --state state --tick 7 --budget 900 --price 1 --code";
    machines.exits(2, format!("{line} {code} --json"));
    machines.import(0);
    let accept = "lineage accept there --key there/session.identity --delegation delegation -o";
    machines.json(format!("{accept} answer"));
    machines.exits(2, format!("{line} {code} --json"));
    machines.json("lineage import answer here");
    machines.exits(2, format!("{line} {code} --json"));
    machines.append(
        "there",
        "8",
        "--identity there/session.identity --delegation delegation",
    );
}

// T-LIN-14
#[test]
fn two_answers_to_one_release_are_proved_to_anybody() {
    let machines = Machines::new();
    machines.offer();
    machines.import(0);
    copy(&machines.path("there"), &machines.path("again"));
    let by = "--key there/session.identity --delegation delegation -o";
    machines.json(format!("lineage accept there {by} taken"));
    // A host that wrote one answer does not write a different one.
    let refuse = format!("lineage refuse again --reason full {by}");
    machines.exits(2, format!("{refuse} refused --json"));
    let elsewhere = |line: &str| {
        let mut command = Command::new(PROGRAM);
        command.env_clear().current_dir(machines.sandbox.work());
        command.env("THREADSEAL_HOME", machines.path("elsewhere"));
        Ran::of(command.args(line.split(' ')).output().unwrap())
    };
    elsewhere(&format!("{refuse} refused")).exits(0);
    machines.json("lineage import taken here");
    let ran = machines.sandbox.sh("lineage import refused here");
    ran.exits(1).warns("forked");
    machines.json("lineage fork-proof taken refused -o proof");
    let proved = elsewhere("lineage check-proof proof --json")
        .exits(0)
        .json();
    assert_eq!(proved["did"], machines.root.as_str());
    let judged = machines.verify("there again");
    assert_eq!(judged["verdict"], "forked");
    let bytes = fs::read(machines.path("proof")).unwrap();
    for at in (0..bytes.len()).step_by(41) {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        machines.sandbox.write("changed", changed);
        elsewhere("lineage check-proof changed").exits(1);
    }
}

#[test]
fn a_refusal_gives_the_agent_back() {
    let machines = Machines::new();
    machines.offer();
    machines.import(0);
    let refuse = "lineage refuse there --key there/session.identity --delegation delegation --reason full -o";
    machines.json(format!("{refuse} answer"));
    let taken = machines.json("lineage import answer here");
    assert_eq!(taken["holder"], machines.root.as_str());
    let again = machines.json("lineage import answer here");
    assert_eq!(again["done"], "answer taken before");
}

#[test]
fn a_package_that_does_not_hold_leaves_nothing_behind() {
    let machines = Machines::new();
    machines.offer();
    let package = fs::read(machines.path("package")).unwrap();
    let last = package.len() - 1;
    for change in [
        |bytes: &mut Vec<u8>, last: usize| bytes[last] ^= 1,
        |bytes: &mut Vec<u8>, last: usize| bytes.truncate(last),
        |bytes: &mut Vec<u8>, _: usize| bytes[700] ^= 1,
        |bytes: &mut Vec<u8>, _: usize| bytes.clear(),
    ] {
        let mut changed = package.clone();
        change(&mut changed, last);
        machines.sandbox.write("package", changed);
        machines.import(2);
        assert!(!machines.path("there/counter.checkpoint").exists());
    }
    machines.sandbox.write("package", &package);
    let line = "lineage import package there --key there/session.identity";
    machines.exits(2, format!("{line} --json"));
    machines.exits(2, format!("{line} --root {} --json", machines.session));
    machines.import(0);
    assert!(machines.path("there/counter.checkpoint").exists());
}
