//! The table of `threats/attack-suite.md`, on threads that `run` made. Each of the twelve attacks
//! gets its verdict and exit code, and every command that would continue the thread refuses it.
//! Five actions in good faith follow, which raise no alarm.
//!
//! ```text
//! home, home.marks
//! work/p           a thread, its child, and a thread that continues it
//! work/before      home and p as they were before the continuation
//! ```

use crate::prelude::*;
use crate::witness::check_with;
use std::ops::Deref;

const THREADS: &str = "p/.ai/agent/threads";

struct Scene {
    sandbox: Sandbox,
    /// The thread that was resumed: its record has a link after its end.
    first: String,
    /// The thread that continues it.
    second: String,
}

fn scene() -> Scene {
    let sandbox = project();
    let first = greeted(&sandbox, "");
    sandbox.keep(&["home", "p"]);
    let resumed = sandbox.sh(once_more(&first) + " --json");
    let second = id_of(&resumed.exits(0));
    let scene = Scene {
        sandbox,
        first,
        second,
    };
    scene.is_good("p");
    scene
}

fn id_of(ran: &Ran) -> String {
    let told: Value = serde_json::from_str(&ran.stdout).unwrap();
    told["thread_id"].text().to_owned()
}

impl Deref for Scene {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.sandbox
    }
}

impl Scene {
    fn transcript(&self, id: &str) -> PathBuf {
        self.path(THREADS).join(id).join("transcript.jsonl")
    }

    /// Checks the report on the record of a thread.
    #[track_caller]
    fn says(&self, id: &str, verdict: &str, exit: i32) {
        assert_eq!(self.verdict_of(self.transcript(id), exit), verdict);
    }

    /// Neither resume nor handoff continues the thread.
    #[track_caller]
    fn refused(&self, id: &str, why: &str) {
        self.refused_to(&self.home(), id, why);
    }

    #[track_caller]
    fn refused_to(&self, home: &Path, id: &str, why: &str) {
        for command in ["resume", "handoff"] {
            let line = once_more(id).replace("resume", command);
            let told = self.in_home(home, &line).fails().stderr;
            assert!(told.contains(why), "{command}: {told}");
        }
    }

    /// The thread resumes in this project, and afterwards everything verifies.
    #[track_caller]
    fn goes_on(&self, folder: &str) {
        let line = once_more(&self.second);
        self.ok(line.replace("--project p", &format!("--project {folder}")));
        self.is_good(folder);
    }
}

// T-SUITE-01
#[test]
fn cut() {
    let scene = scene();
    let path = scene.transcript(&scene.second);
    cut_to_seal(&path);
    for _ in 0..2 {
        scene.says(&scene.second, "rolled_back", 1);
        scene.refused(&scene.second, "rolled_back");
        scene.forget_heads();
    }
}

// T-SUITE-02
#[test]
fn roll_back() {
    let scene = scene();
    let there = scene.path(THREADS).join(&scene.first);
    fs::remove_dir_all(&there).unwrap();
    let older = scene.path("before").join(THREADS).join(&scene.first);
    copy(&older, &there);
    for _ in 0..2 {
        scene.says(&scene.first, "rolled_back", 1);
        scene.refused(&scene.first, "rolled_back");
        scene.forget_heads();
    }
}

/// An ended record verifies although it is the older copy; no command takes it for the latest.
// T-SUITE-03
#[test]
fn restore_home_and_records() {
    let scene = scene();
    scene.restore("p");
    scene.restore("home");
    scene.says(&scene.first, "verified", 0);
    scene.refused(&scene.first, "hint: threadseal log status");
    let status = scene.exits(1, "log status --json");
    assert_eq!(status.json()["state"], "log_rolled_back");
    scene.exits(3, "verify p");
    scene.exits(2, "verify --all").warns("log_rolled_back");
}

// T-SUITE-04
#[test]
fn delete() {
    let scene = scene();
    let first = json_lines(scene.transcript(&scene.second)).remove(0);
    let record = first["payload"]["record"].clone();
    fs::remove_dir_all(scene.path(THREADS).join(&scene.second)).unwrap();
    for named in ["", "p"] {
        let line = format!("verify --all --json {named}");
        let told = scene.exits(1, line).json();
        let gone = |report: &&Value| report["record"] == record && report["verdict"] == "missing";
        assert!(
            told["results"].list().iter().any(|report| gone(&report)),
            "{told}"
        );
        scene.refused(&scene.second, "has no files here");
        scene.refused(&scene.first, "has no files here");
        scene.forget_heads();
    }
}

// T-SUITE-05
#[test]
fn fork() {
    let scene = scene();
    let thief = scene.path("before/home");
    take_log_away(&thief);
    scene.restore("p");
    scene.in_home(&thief, &once_more(&scene.first)).exits(0);
    for _ in 0..2 {
        scene.says(&scene.first, "forked", 1);
        scene.refused(&scene.first, "forked");
        scene.forget_heads();
    }
}

/// A record moves into the place of another record, into another thread and into another project.
// T-SUITE-06
#[test]
fn transplant() {
    let scene = scene();
    let (path, whole) = (
        scene.transcript(&scene.first),
        lines(scene.transcript(&scene.first)),
    );
    fs::copy(scene.transcript(&scene.second), &path).unwrap();
    scene.says(&scene.first, "foreign", 1);
    scene.refused(&scene.first, "foreign");
    fs::write(&path, whole.concat()).unwrap();
    copy(
        &scene.path("p/.ai/directives"),
        &scene.path("q/.ai/directives"),
    );
    copy(&scene.path("p/.ai/agent"), &scene.path("q/.ai/agent"));
    fs::remove_file(scene.path("q/.ai/agent/threads/project.json")).unwrap();
    for command in ["resume", "handoff"] {
        let line = once_more(&scene.first).replace("resume", command);
        scene
            .exits(2, line.replace("--project p", "--project q"))
            .warns("is foreign: its line 1 names project");
    }
}

/// Lines of another thread, before the last seal and after it.
// T-SUITE-07
#[test]
fn replay() {
    let scene = scene();
    let path = scene.transcript(&scene.first);
    let own = lines(&path);
    let other = &lines(scene.transcript(&scene.second))[2..4];
    let (last, sealed) = own.split_last().unwrap();
    fs::write(
        &path,
        [sealed, other, std::slice::from_ref(last)]
            .concat()
            .concat(),
    )
    .unwrap();
    scene.says(&scene.first, "tampered", 1);
    scene.refused(&scene.first, "tampered");
    fs::write(&path, [&own, other].concat().concat()).unwrap();
    scene.says(&scene.first, "unsigned_tail", 3);
    scene.refused(&scene.first, "unsigned_tail");
}

/// The process was killed in the middle of a call; the key of its epoch seals two different ends.
// T-SUITE-08
#[test]
fn seal_another_end_with_a_stolen_key_of_the_epoch() {
    let mut scene = scene();
    scene.first = running(&scene, "", 1).thread.clone();
    let thief = scene.stolen();
    assert_eq!(fs::read_dir(thief.join("epochs")).unwrap().count(), 1);
    copy(&scene.path("p"), &scene.path("stolen"));
    let recover = format!("thread recover {} --project", scene.first);
    scene.ok(format!("{recover} p"));
    scene.says(&scene.first, "verified", 0);
    scene.in_home(&thief, &format!("{recover} stolen")).exits(0);
    let path = scene.transcript(&scene.first);
    let stolen = scene.path("stolen/.ai/agent/threads").join(&scene.first);
    fs::copy(stolen.join("transcript.jsonl"), &path).unwrap();
    for _ in 0..2 {
        scene.says(&scene.first, "forked", 1);
        scene.refused(&scene.first, "forked");
        scene.forget_heads();
    }
}

// T-SUITE-09
#[test]
fn sign_with_a_key_that_was_revoked() {
    let scene = scene();
    let thief = scene.stolen();
    scene.ok("key revoke self --reason stolen");
    let run = "run demo/greet --project p -i name=Eve --script answers.yaml --json";
    let made = id_of(&scene.in_home(&thief, run).exits(0));
    scene.says(&made, "forged", 1);
    // The home checks its own key first. Records that the key sealed before remain valid, and
    // continue only under another key.
    scene.refused(&made, "ended");
    scene.says(&scene.second, "verified", 0);
    scene.refused(&scene.second, "ended");
}

/// The home that continued asked one witness; the restored home asked the other.
// T-SUITE-10
#[test]
fn show_two_witnesses_two_histories() {
    let scene = scene();
    let status = scene.json("log status");
    let log = status["vkey"].text();
    let (first, second) = (witness(&[log]), witness(&[log]));
    let (one, two) = (Serving::start(&first), Serving::start(&second));
    let ask = |name, serving, exit| check_with(&scene, log, name, serving, exit);
    ask("one", &one, 0);
    scene.restore("home");
    scene.restore("p");
    fs::remove_dir_all(scene.home().with_file_name("home.marks")).unwrap();
    scene.ok(once_more(&scene.first));
    // Nothing on this host shows it, and neither does a witness that never saw the other tree.
    ask("two", &two, 0);
    let told = ask("one", &one, 1);
    let told = &told["policies"][0]["witnesses"][0];
    assert_eq!(told["state"], "contradicted");
    let kept = told["why"].text().split_once("kept: ");
    let kept = read(kept.unwrap().1);
    assert!(Conflict::parse(&kept).is_ok());
    scene.exits(1, "anchor check");
    scene.exits(3, "verify p").warns("log_rolled_back");
    scene.refused(&scene.first, "hint: threadseal log status");
}

// T-SUITE-11
#[test]
fn continue_with_a_clone_of_the_home() {
    let scene = scene();
    let clone = scene.path("clone");
    copy(&scene.home(), &clone);
    // Until one of the two homes continues, nothing differs.
    scene.in_home(&clone, "verify p").exits(0);
    scene.goes_on("p");
    scene.in_home(&clone, "log status").exits(1);
    scene
        .in_home(&clone, "verify p")
        .exits(3)
        .warns("log_rolled_back");
    scene.refused_to(&clone, &scene.second, "hint: threadseal log status");
    scene.is_good("p");
}

/// The records stay as they are, newer than the knowledge of the home.
// T-SUITE-12
#[test]
fn restore_the_home_alone() {
    let scene = scene();
    scene.restore("home");
    let status = scene.exits(1, "log status --json");
    assert_eq!(status.json()["state"], "log_rolled_back");
    scene.exits(3, "verify p");
    scene.says(&scene.second, "verified", 0);
    scene.refused(&scene.second, "hint: threadseal log status");
}

// T-SUITE-13
#[test]
fn move_in_good_faith() {
    let scene = scene();
    fs::rename(scene.path("p"), scene.path("moved")).unwrap();
    scene.is_good("moved");
    scene.goes_on("moved");
}

// T-SUITE-14
#[test]
fn copy_in_good_faith() {
    let scene = scene();
    copy(&scene.path("p"), &scene.path("copied"));
    scene.is_good("copied");
    scene.is_good("p");
    scene.goes_on("p");
}

// T-SUITE-15
#[test]
fn archive_in_good_faith() {
    let scene = scene();
    for (arguments, gone) in [("-cf p.tar p", true), ("-xf p.tar p", false)] {
        let mut tar = Command::new("tar");
        let ran = tar
            .args(words(arguments))
            .current_dir(scene.work())
            .status();
        assert!(ran.unwrap().success());
        if gone {
            fs::remove_dir_all(scene.path("p")).unwrap();
        }
    }
    scene.is_good("p");
    scene.goes_on("p");
}

/// Home and records come from one backup.
// T-SUITE-16
#[test]
fn restore_in_good_faith_and_restart_the_log() {
    let mut scene = scene();
    scene.restore("home");
    scene.restore("p");
    scene.ok("log restart");
    scene.is_good("p");
    scene.second.clone_from(&scene.first);
    scene.goes_on("p");
}

/// On another machine, without the second place of the old one.
// T-SUITE-17
#[test]
fn take_a_new_laptop_in_good_faith() {
    let scene = scene();
    let log = scene.home().join("log");
    let id = read(log.join("current"));
    let path = log.join(id.trim()).join("log.json");
    let mut description = json_file(&path);
    description["host"] = "ab".repeat(32).into();
    fs::write(&path, format!("{description}\n")).unwrap();
    fs::remove_dir_all(scene.home().with_file_name("home.marks")).unwrap();
    scene.exits(3, "verify p");
    scene.refused(&scene.second, "hint: threadseal log status");
    scene.ok("log restart").does_not_warn("warning");
    scene.is_good("p");
    scene.goes_on("p");
}
