//! Second places elsewhere: a database, and a witness of another host. They show a rollback of the
//! whole disk.

use crate::fleet::cluster;
use crate::prelude::*;

/// The host, with the variables of its environment.
pub(crate) struct Kept {
    pub(crate) sandbox: Sandbox,
    pub(crate) environment: Vec<(&'static str, String)>,
}

impl Shell for Kept {
    fn run<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Ran {
        let mut command = self.sandbox.command();
        command.args(arguments).envs(self.environment.clone());
        Ran::of(command.output().unwrap())
    }
}

impl Kept {
    fn new() -> Self {
        Self {
            sandbox: Sandbox::new(),
            environment: Vec::new(),
        }
    }

    pub(crate) fn seal(&self, name: &str) -> Ran {
        self.sandbox.write(name, format!("{{\"made\":\"{name}\"}}"));
        self.ok(format!("seal {name}"))
    }

    pub(crate) fn status(&self) -> Value {
        self.sh("log status --json").json()
    }

    /// Restores the home and the folder of marks, as after the loss of a disk.
    pub(crate) fn put_back(&self) {
        let home = self.sandbox.home();
        for (there, older) in [("home", "older"), ("home.marks", "older.marks")] {
            let there = home.with_file_name(there);
            put_back(&home.with_file_name(older), &there);
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
        self.seal("b.json").warns_nothing();
        let status = self.status();
        status.is(json!({"state": "good", "size": 4, "marks/1/size": 4}));
        self.put_back();
        let told = self.exits(1, "log status --json").json();
        told.is(json!({"state": "log_rolled_back", "size": 3, "marks/0/size": 3}));
        self.sandbox.write("later.json", "{}");
        self.sh("seal later.json").warns("log_rolled_back");
        assert_eq!(self.status()["size"], 3);
        self.ok("log restart");
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
    kept.exits(2, format!("init --mark {open}"))
        .warns("PGPASSWORD");
    assert!(!kept.sandbox.home().exists());
    kept.ok(format!("init --mark {place}"));
    kept.notices_that_it_was_put_back();
    // No file under the home contains the password.
    let found = Command::new("grep")
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
    blind.exits(3, "log status");
    blind.seal("c.json").warns("to be written");
    let seeing = Kept {
        environment: password(),
        ..blind
    };
    seeing.seal("d.json").warns_nothing();
    seeing.ok("log status").warns_nothing();
    // A server that is lost for good does not block the log for ever.
    let blind = Kept {
        environment: Vec::new(),
        ..seeing
    };
    blind.exits(2, "log restart --anyway");
    blind.ok(format!("log mark remove {place}"));
    blind.ok("log status");
}

// T-MARK-14
#[test]
fn a_disk_that_was_put_back_whole_is_noticed_by_the_witness_of_another_host() {
    let (other, kept) = (witness(&[]), Kept::new());
    let serving = Serving::start(&other);
    let place = format!("http://{}", serving.address);
    // The witness must know the log before it remembers anything of it.
    kept.ok(format!("init --mark {place}"))
        .warns("witness add")
        .does_not_warn("new key");
    kept.ok("key history").prints("create");
    let vkey = kept.status()["vkey"].text().to_owned();
    other.ok(format!("witness add {vkey}"));
    kept.ok("log mark raise");
    kept.seal("a.json");
    kept.put_aside();
    kept.seal("b.json");
    let status = kept.status();
    assert_eq!(status["marks"][1]["size"], 4, "{status}");
    kept.put_back();
    let told = kept.exits(1, "log status --json").json();
    assert_eq!(told["state"], "log_rolled_back");
    kept.sh("verify a.json").warns("log_rolled_back");
    drop(serving);
    kept.exits(3, "log status");
}

#[test]
fn one_place_of_several_that_does_not_answer_is_counted() {
    let (other, kept) = (witness(&[]), Kept::new());
    let serving = Serving::start(&other);
    let place = format!("http://{}", serving.address);
    kept.ok(format!("init --mark {place}"));
    let vkey = kept.status()["vkey"].text().to_owned();
    other.ok(format!("witness add {vkey}"));
    kept.ok("log mark add disk2");
    kept.seal("a.json");
    drop(serving);
    kept.ok("verify a.json")
        .warns("1 of 3 second places does not answer")
        .warns(&place)
        .does_not_warn("nothing would show");
}

#[test]
fn a_place_is_named_later_and_raised_at_once() {
    let kept = Kept::new();
    kept.ok("init");
    kept.seal("a.json");
    let there = kept.sandbox.path("disk2");
    let there = there.to_str().unwrap();
    kept.ok("log mark add disk2");
    let status = kept.status();
    assert_eq!(status["marks"].list().len(), 2, "{status}");
    for mark in status["marks"].list() {
        assert_eq!(mark["size"], 3, "{status}");
    }
    kept.ok(format!("log mark remove {there:?}"));
    let status = kept.status();
    assert_eq!(status["marks"].list().len(), 1);
    kept.exits(2, format!("log mark remove {there:?}"));
    let own = status["marks"][0]["place"].text();
    kept.exits(2, format!("log mark remove {own}"));
    for bad in ["http://witness.example/", "ftp://x/y", "sqlite:x"] {
        kept.exits(2, format!("log mark add {bad}"));
    }
}

impl Kept {
    /// Removes every place but the default one from `log.json`, as with an editor.
    fn unname(&self) {
        let logs = self.sandbox.home().join("log");
        let id = read(logs.join("current"));
        let path = logs.join(id.trim_end()).join("log.json");
        let mut value = json_file(&path);
        value["marks"].as_array_mut().unwrap().truncate(1);
        fs::write(&path, format!("{value}\n")).unwrap();
    }

    /// Removes what the default folder knows of addresses.
    fn forget_addresses(&self) {
        let marks = self.sandbox.home().with_file_name("home.marks");
        let files = walk(&marks).into_iter();
        let lists = files.filter(|path| path.extension().is_some_and(|end| end == "places"));
        lists.for_each(|path| fs::remove_file(path).unwrap());
    }
}

// T-MARK-23
#[test]
fn a_removed_line_of_log_json_is_named_by_status_and_verify_and_mended_by_one_command() {
    let kept = Kept::new();
    let place = kept.sandbox.path("disk2");
    let place = place.to_str().unwrap();
    kept.ok("init --mark disk2");
    kept.seal("a.json");
    kept.ok("log entries")
        .prints("1 second place besides the default one")
        .omits("disk2");
    kept.unname();
    let status = kept.exits(3, "log status --json").json();
    assert_eq!(status["state"], "place_forgotten");
    kept.exits(3, "log status")
        .prints(place)
        .prints("threadseal log mark add PLACE");
    kept.sh("verify a.json --json").prints("place_forgotten");
    kept.seal("b.json").warns("to be written");
    kept.ok("log mark add disk2");
    kept.ok("log status").prints("state  good");
    kept.seal("c.json").warns_nothing();
    // Its owner removes it: that is no alarm, neither by its address nor without one.
    kept.ok("log mark remove disk2");
    kept.ok("log status");
    kept.exits(2, "log mark remove disk2");
    kept.ok("log mark add disk2");
    kept.unname();
    kept.forget_addresses();
    kept.exits(3, "log status").prints("1 without an address");
    kept.ok("log mark remove --forgotten");
    kept.ok("log status");
    kept.exits(2, "log mark remove");
}

// T-MARK-23
#[test]
fn a_disk_that_was_put_back_without_the_line_of_its_place_is_noticed() {
    let kept = Kept::new();
    kept.ok("init --mark disk2");
    kept.seal("a.json");
    kept.put_aside();
    kept.seal("b.json");
    kept.put_back();
    kept.unname();
    kept.exits(1, "log status").prints("log_rolled_back");
    kept.forget_addresses();
    kept.exits(3, "log status").prints("place_forgotten");
    kept.exits(2, "log restart").warns("place_forgotten");
    kept.exits(2, "log mark add disk2").warns("log_rolled_back");
    kept.exits(2, "log mark remove disk2")
        .warns("log_rolled_back");
    kept.exits(3, "log status");
}

/// With copies of everything, also of the place, its removal is signed in the older log.
// T-MARK-33
#[test]
fn a_signed_removal_hides_a_rollback_that_the_removed_place_still_knows() {
    let kept = Kept::new();
    let [there, older, newer] = ["disk2", "older2", "newer2"].map(|name| kept.sandbox.path(name));
    kept.ok("init --mark disk2");
    kept.seal("a.json");
    kept.put_aside();
    copy(&there, &older);
    kept.seal("b.json");
    kept.put_back();
    kept.exits(1, "log status").prints("log_rolled_back");
    fs::rename(&there, &newer).unwrap();
    fs::rename(&older, &there).unwrap();
    kept.ok("log mark remove disk2");
    fs::remove_dir_all(&there).unwrap();
    fs::rename(&newer, &there).unwrap();
    kept.ok("log status").prints("state  good");
    kept.exits(2, "log mark add disk2").warns("log_rolled_back");
}
