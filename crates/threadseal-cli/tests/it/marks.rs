//! Second places elsewhere: a database, and a witness of another host. They show a rollback of the
//! whole disk.

use crate::fleet::cluster;
use crate::sandbox::{Ran, Sandbox, copy};
use crate::witness::{Serving, witness};
use serde_json::Value;
use std::fs;

/// The host, with the variables of its environment.
pub(crate) struct Kept {
    pub(crate) sandbox: Sandbox,
    pub(crate) environment: Vec<(&'static str, String)>,
}

impl Kept {
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = self.sandbox.command();
        command.args(arguments).envs(self.environment.clone());
        Ran::of(command.output().unwrap())
    }

    pub(crate) fn seal(&self, name: &str) -> Ran {
        self.sandbox.write(name, format!("{{\"made\":\"{name}\"}}"));
        self.run(&["seal", name]).exits(0)
    }

    pub(crate) fn status(&self) -> Value {
        self.run(&["log", "status", "--json"]).json()
    }

    /// Restores the home and the folder of marks, as after the loss of a disk.
    pub(crate) fn put_back(&self) {
        let home = self.sandbox.home();
        for (there, older) in [("home", "older"), ("home.marks", "older.marks")] {
            let there = home.with_file_name(there);
            fs::remove_dir_all(&there).unwrap();
            copy(&home.with_file_name(older), &there);
        }
    }

    pub(crate) fn put_aside(&self) {
        let home = self.sandbox.home();
        for (there, older) in [("home", "older"), ("home.marks", "older.marks")] {
            copy(&home.with_file_name(there), &home.with_file_name(older));
        }
    }

    /// A home that was put back is distinguished from one that was not, accuses nothing and commits
    /// nothing.
    pub(crate) fn notices_that_it_was_put_back(&self) {
        self.seal("a.json");
        self.put_aside();
        assert_eq!(self.seal("b.json").stderr, "");
        let status = self.status();
        assert_eq!(
            (&status["state"], &status["size"]),
            (&"good".into(), &3.into())
        );
        assert_eq!(status["marks"][1]["size"], 3, "{status}");
        self.put_back();
        let told = self.run(&["log", "status", "--json"]).exits(1).json();
        assert_eq!(told["state"], "log_rolled_back");
        assert_eq!(
            (&told["size"], &told["marks"][0]["size"]),
            (&2.into(), &2.into())
        );
        self.sandbox.write("later.json", "{}");
        let sealed = self.run(&["seal", "later.json"]);
        assert!(
            sealed.stderr.contains("log_rolled_back"),
            "{}",
            sealed.stderr
        );
        assert_eq!(self.status()["size"], 2);
        self.run(&["log", "restart"]).exits(0);
        assert_eq!(self.status()["state"], "good");
    }
}

fn password() -> Vec<(&'static str, String)> {
    vec![("PGPASSWORD", "correct horse".to_owned())]
}

// T-MARK-14 T-MARK-18
#[test]
fn a_disk_that_was_put_back_whole_is_noticed_by_the_row_of_a_database() {
    let Some(cluster) = cluster() else { return };
    let kept = Kept {
        sandbox: Sandbox::new(),
        environment: password(),
    };
    let database = cluster.fresh();
    let database = database.rsplit('/').next().unwrap();
    let place = format!(
        "postgres://threadseal@127.0.0.1:{}/{database}",
        cluster.port()
    );
    let open = place.replace("threadseal@", "threadseal:correct%20horse@");
    let refused = kept.run(&["init", "--mark", &open]).exits(2);
    assert!(refused.stderr.contains("PGPASSWORD"), "{}", refused.stderr);
    assert!(!kept.sandbox.home().exists());
    kept.run(&["init", "--mark", &place]).exits(0);
    kept.notices_that_it_was_put_back();
    // No file under the home contains the password.
    let found = std::process::Command::new("grep")
        .args(["-r", "-i", "horse"])
        .arg(kept.sandbox.home())
        .output();
    assert_eq!(found.unwrap().status.code(), Some(1));
    // Without the password the place cannot be asked: sealed heads wait, and no command reports
    // success.
    let blind = Kept {
        environment: Vec::new(),
        ..kept
    };
    blind.run(&["log", "status"]).exits(3);
    let sealed = blind.seal("c.json");
    assert!(sealed.stderr.contains("to be written"), "{}", sealed.stderr);
    let seeing = Kept {
        environment: password(),
        ..blind
    };
    assert_eq!(seeing.seal("d.json").stderr, "");
    assert_eq!(seeing.run(&["log", "status"]).exits(0).stderr, "");
    // A server that is lost for good does not block the log for ever.
    let blind = Kept {
        environment: Vec::new(),
        ..seeing
    };
    blind.run(&["log", "restart", "--anyway"]).exits(2);
    blind.run(&["log", "mark", "remove", &place]).exits(0);
    blind.run(&["log", "status"]).exits(0);
}

// T-MARK-14
#[test]
fn a_disk_that_was_put_back_whole_is_noticed_by_the_witness_of_another_host() {
    let other = witness(&[]);
    let serving = Serving::start(&other);
    let place = format!("http://{}", serving.address);
    let kept = Kept {
        sandbox: Sandbox::new(),
        environment: Vec::new(),
    };
    // The witness must know the log before it remembers anything of it.
    let made = kept.run(&["init", "--mark", &place]).exits(0);
    assert!(made.stderr.contains("witness add"), "{}", made.stderr);
    assert!(!made.stderr.contains("new key"), "{}", made.stderr);
    let history = kept.run(&["key", "history"]).exits(0).stdout;
    assert!(history.contains("create"), "{history}");
    let vkey = kept.status()["vkey"].as_str().unwrap().to_owned();
    other.run(["witness", "add", &vkey]).exits(0);
    kept.run(&["log", "mark", "raise"]).exits(0);
    kept.seal("a.json");
    kept.put_aside();
    kept.seal("b.json");
    let status = kept.status();
    assert_eq!(status["marks"][1]["size"], 3, "{status}");
    kept.put_back();
    let told = kept.run(&["log", "status", "--json"]).exits(1).json();
    assert_eq!(told["state"], "log_rolled_back");
    let verified = kept.run(&["verify", "a.json"]);
    assert!(
        verified.stderr.contains("log_rolled_back"),
        "{}",
        verified.stderr
    );
    drop(serving);
    kept.run(&["log", "status"]).exits(3);
}

#[test]
fn one_place_of_several_that_does_not_answer_is_told_as_that() {
    let other = witness(&[]);
    let serving = Serving::start(&other);
    let place = format!("http://{}", serving.address);
    let kept = Kept {
        sandbox: Sandbox::new(),
        environment: Vec::new(),
    };
    kept.run(&["init", "--mark", &place]).exits(0);
    let vkey = kept.status()["vkey"].as_str().unwrap().to_owned();
    other.run(["witness", "add", &vkey]).exits(0);
    kept.run(&["log", "mark", "add", "disk2"]).exits(0);
    kept.seal("a.json");
    drop(serving);
    let told = kept.run(&["verify", "a.json"]).exits(0).stderr;
    assert!(
        told.contains("1 of 3 second places does not answer"),
        "{told}"
    );
    assert!(
        told.contains(&place) && !told.contains("nothing would show"),
        "{told}"
    );
}

#[test]
fn a_place_is_named_later_and_raised_at_once() {
    let kept = Kept {
        sandbox: Sandbox::new(),
        environment: Vec::new(),
    };
    kept.run(&["init"]).exits(0);
    kept.seal("a.json");
    let there = kept.sandbox.work().join("disk2");
    let there = there.to_str().unwrap();
    kept.run(&["log", "mark", "add", "disk2"]).exits(0);
    let status = kept.status();
    assert_eq!(status["marks"].as_array().unwrap().len(), 2, "{status}");
    for mark in status["marks"].as_array().unwrap() {
        assert_eq!(mark["size"], 2, "{status}");
    }
    kept.run(&["log", "mark", "remove", there]).exits(0);
    let status = kept.status();
    assert_eq!(status["marks"].as_array().unwrap().len(), 1);
    kept.run(&["log", "mark", "remove", there]).exits(2);
    let own = status["marks"][0]["place"].as_str().unwrap();
    kept.run(&["log", "mark", "remove", own]).exits(2);
    for bad in ["http://witness.example/", "ftp://x/y", "sqlite:x"] {
        kept.run(&["log", "mark", "add", bad]).exits(2);
    }
}
