//! `thread watch`: threads of other processes, as they run.

use crate::hook::wait_until;
use crate::prelude::*;

/// A watch in a process of its own, and its output so far.
struct Watch<'a> {
    process: Child,
    sandbox: &'a Sandbox,
}

impl<'a> Watch<'a> {
    fn of(sandbox: &'a Sandbox, thread: &str, more: &str) -> Self {
        let file = |name: &str| fs::File::create(sandbox.path(name)).unwrap();
        let mut command = sandbox.command();
        command
            .args(words(&format!("thread watch {thread} --project p {more}")))
            .stdout(file("watch.out"))
            .stderr(file("watch.err"));
        let process = command.spawn().unwrap();
        Self { process, sandbox }
    }

    fn output(&self) -> String {
        self.sandbox.read("watch.out")
    }

    #[track_caller]
    fn shows(&self, part: &str) {
        wait_until(part, || self.output().contains(part));
    }

    /// Its output and its warnings, once it ended with this code.
    #[track_caller]
    fn ends(mut self, code: i32) -> (String, String) {
        let ended = self.process.wait().unwrap();
        let (out, warned) = (self.output(), self.sandbox.read("watch.err"));
        assert_eq!(ended.code(), Some(code), "{out}{warned}");
        (out, warned)
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The lines of a watch as objects, and the last one, its result.
#[track_caller]
fn objects(output: &str) -> (Vec<Value>, Value) {
    let lines = output
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let mut objects: Vec<Value> = lines.collect();
    let last = objects.pop().unwrap();
    assert_eq!(last["schema"], "threadseal.thread.watch/1");
    (objects, last)
}

#[test]
fn a_watch_shows_a_thread_its_child_and_its_successor_and_exits_as_the_last_one() {
    let sandbox = project();
    let thread = greeted(&sandbox, "");
    let watch = |more: &str| sandbox.sh(format!("thread watch {thread} --project p {more}"));
    let (seen, last) = objects(&watch("--json").exits(0).stdout);
    last["results"][&thread].is(json!({"status": "completed", "outputs/path": "out.txt"}));
    let whose = |depth: u64| {
        let of_it = seen.iter().filter(|seen| seen["depth"] == depth);
        let kinds = of_it.map(|seen| seen["event"]["event_type"].as_str().unwrap_or("-"));
        kinds.collect::<Vec<_>>()
    };
    for depth in [0, 1] {
        let kinds = whose(depth);
        assert!(kinds.contains(&"cognition_out"), "{kinds:?}");
        assert!(kinds.contains(&"thread_completed"), "{kinds:?}");
    }
    assert!(seen.iter().all(|seen| seen["sealed"] != false), "{seen:?}");
    let (seen, _) = objects(&watch("--json --no-children --tail 3").exits(0).stdout);
    let lines = seen.iter().filter(|seen| seen["kind"] == "line");
    assert_eq!(lines.count(), 3);
    assert!(seen.iter().all(|seen| seen["depth"] == 0), "{seen:?}");

    let resumed = sandbox.sh(format!("{} --json", once_more(&thread)));
    let resumed = resumed.exits(0).json()["thread_id"].text().to_owned();
    let shown = watch("").exits(0).stdout;
    shown
        .has("cognition_in        user: Greet Ada.")
        .has(&format!("continued           by {resumed}"))
        .has("Gladly.")
        .has("by the registry")
        .has(&format!("completed  {thread}"));
}

#[test]
fn a_watch_follows_a_thread_while_it_runs_and_a_signal_ends_the_watch_alone() {
    let sandbox = project();
    let mut runs = running(&sandbox, "", 1);
    let watch = Watch::of(&sandbox, &runs.thread, "--json");
    watch.shows("tool_call_start");
    let interrupted = Watch::of(&sandbox, &runs.thread, "--json -q");
    std::thread::sleep(Duration::from_secs(1));
    let stopped = Command::new("kill")
        .args(["-INT", &interrupted.process.id().to_string()])
        .status();
    assert!(stopped.unwrap().success());
    let mut interrupted = interrupted;
    assert_eq!(interrupted.process.wait().unwrap().code(), Some(3));
    drop(interrupted);
    sandbox.ok(format!("thread cancel {} --project p", runs.thread));
    drop(watch);

    let watch = Watch::of(&sandbox, &runs.thread, "--json");
    let (out, _) = watch.ends(2);
    runs.process.wait().unwrap();
    let (_, last) = objects(&out);
    last["results"][&runs.thread].is(json!({"status": "cancelled"}));
}

/// The tail claims an end, a successor and a child; a writer of the file can put anything there.
// T-RUN-41
#[test]
fn a_line_that_no_seal_covers_is_shown_as_such_and_decides_nothing() {
    let sandbox = project();
    let runs = running(&sandbox, "", 1);
    let watch = Watch::of(&sandbox, &runs.thread, "");
    watch.shows("· tool_call_start");
    let path = runs.folder.join("transcript.jsonl");
    let before = fs::metadata(&path).unwrap().len();
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    for payload in [
        r#""thread_completed","payload":{"cost":{},"x":"\u001b[2J\u202e"}"#,
        r#""thread_handoff","payload":{"new_thread_id":"demo/none"}"#,
        r#""checkpoint","payload":{}"#,
    ] {
        writeln!(
            file,
            r#"{{"timestamp":1.0,"thread_id":"x","event_type":{payload}}}"#
        )
        .unwrap();
    }
    watch.shows("· thread_handoff");
    let shown = watch.output();
    shown.lacks("\u{1b}").lacks("\u{202e}").lacks("continued ");
    file.set_len(before).unwrap();
    watch.shows("withdrawn");
    let mut watch = watch;
    assert!(watch.process.try_wait().unwrap().is_none());
}

// T-RUN-41
#[test]
fn a_record_that_was_changed_is_not_watched() {
    let sandbox = project();
    let thread = greeted(&sandbox, "");
    let path = transcript(&sandbox, "greet");
    let watch = |more: &str| sandbox.sh(format!("thread watch {thread} --project p {more}"));
    let good = fs::read(&path).unwrap();
    replace(&path, "I write it.", "I wrote it.");
    watch("").exits(1).warns("tampered").omits("I wrote it");
    watch("--json").exits(1).prints("threadseal.error/1");
    fs::write(&path, &good).unwrap();
    // Of a child that was changed nothing is shown, and its parent has no result.
    let child = transcript(&sandbox, "child");
    replace(&child, "I am the child.", "I am a child.");
    watch("").exits(1).prints("refused").omits("I am a child.");
}

#[test]
fn a_watch_ends_where_the_process_of_its_thread_is_gone() {
    let sandbox = project();
    let runs = running(&sandbox, "", 1);
    let thread = runs.thread.clone();
    let watch = Watch::of(&sandbox, &thread, "--json");
    watch.shows("tool_call_start");
    drop(runs);
    let (out, warned) = watch.ends(3);
    warned.has("threadseal thread recover");
    objects(&out).1["results"][&thread].is(json!({"status": "orphaned"}));
}
