//! Threads in the database of a project to which they do not belong.

use super::Ended;
use crate::prelude::*;

// T-PRO-01
#[test]
fn a_thread_of_another_project_is_not_gone_on_with_from_a_database() {
    let Some(ended) = Ended::new() else {
        return;
    };
    let own = ended.sql("SELECT id FROM threadseal_project");
    let own = own.trim();
    let named = ended.ok(format!("thread transcript {}", ended.thread));
    assert!(!named.stdout.is_empty());
    ended.ok("thread inspect");
    // As if its rows had been copied here from the database of another project.
    ended.sql("UPDATE threadseal_project SET id = repeat('a', 64)");
    let message = "-m 'Once more.'";
    for command in ["resume", "handoff"] {
        let line = format!("thread {command} {} {message}", ended.thread);
        ended.refuses(&line, "is foreign");
    }
    ended.refuses(&format!("thread recover {}", ended.thread), "is foreign");
    ended.refuses(&format!("thread transcript {}", ended.thread), "is foreign");
    ended.exits(1, "thread inspect").prints(": foreign ");
    ended.ok("thread list").prints("  foreign\n");
    ended.verify("").exits(0);
    // A copy of the whole database is the same project, wherever it is.
    ended.sql(&format!("UPDATE threadseal_project SET id = '{own}'"));
    ended.ok("thread inspect");
    ended.ok(format!("thread resume {} {message} --detach", ended.thread));
    ended.work("more.yaml");
    ended.sql("DELETE FROM threadseal_project");
    ended.refuses(
        &format!("thread transcript {}", ended.thread),
        "does not contain a project id",
    );
}
