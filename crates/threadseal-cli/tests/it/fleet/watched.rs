//! `thread watch` of threads in a database.

use super::Ended;
use crate::hook::wait_until;
use crate::prelude::*;

#[test]
fn a_thread_in_a_database_is_watched_while_it_runs_and_after_its_end() {
    let Some(ended) = Ended::new() else {
        return;
    };
    let watched = |thread: &str, code| {
        let ran = ended
            .sh(format!("thread watch {thread} --json"))
            .exits(code);
        let lines = ran.stdout.lines();
        let mut seen: Vec<Value> = lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let last = seen.pop().unwrap();
        (seen, last["results"][thread]["status"].text().to_owned())
    };
    let (seen, status) = watched(&ended.thread, 0);
    assert_eq!(status, "completed");
    for depth in [0, 1] {
        let of_it = seen.iter().filter(|seen| seen["depth"] == depth);
        let mut kinds = of_it.map(|seen| &seen["event"]["event_type"]);
        assert!(kinds.any(|kind| kind == "thread_completed"), "{seen:?}");
    }

    ended.slow(2);
    ended.sh("run demo/slow --detach").exits(0);
    let mut worker = ended.worker("--script nap.yaml");
    wait_until("the tool runs", || ended.naps() == 1);
    // Its script has no second answer.
    let (seen, status) = watched(&ended.root().unwrap(), 2);
    assert_eq!(status, "error");
    let begun = seen
        .iter()
        .find(|seen| seen["event"]["event_type"] == "tool_call_start");
    assert_eq!(begun.unwrap()["sealed"], false, "{seen:?}");
    assert!(
        seen.iter()
            .any(|seen| seen["kind"] == "sealed" && seen["line"] != 0)
    );
    worker.kill().unwrap();
    worker.wait().unwrap();
}
