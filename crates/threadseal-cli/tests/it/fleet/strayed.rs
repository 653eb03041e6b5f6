//! Threads in the database of a project to which they do not belong.

use super::Ended;

// T-PRO-01
#[test]
fn a_thread_of_another_project_is_not_gone_on_with_from_a_database() {
    let Some(ended) = Ended::new() else {
        return;
    };
    let own = ended.sql("SELECT id FROM threadseal_project");
    let own = own.trim();
    let named = ended.run(&["thread", "transcript", &ended.thread]).exits(0);
    assert!(!named.stdout.is_empty());
    ended.run(&["thread", "inspect"]).exits(0);
    // As if its rows had been copied here from the database of another project.
    ended.sql("UPDATE threadseal_project SET id = repeat('a', 64)");
    let message = ["-m", "Once more."];
    for command in ["resume", "handoff"] {
        let arguments = ["thread", command, &ended.thread, message[0], message[1]];
        ended.refuses(&arguments, "is foreign");
    }
    ended.refuses(&["thread", "recover", &ended.thread], "is foreign");
    ended.refuses(&["thread", "transcript", &ended.thread], "is foreign");
    let told = ended.run(&["thread", "inspect"]).exits(1).stdout;
    assert!(told.contains(": foreign "), "{told}");
    let listed = ended.run(&["thread", "list"]).exits(0).stdout;
    assert!(listed.contains("  foreign\n"), "{listed}");
    ended.verify("").exits(0);
    // A copy of the whole database is the same project, wherever it is.
    ended.sql(&format!("UPDATE threadseal_project SET id = '{own}'"));
    ended.run(&["thread", "inspect"]).exits(0);
    let resume = [
        "thread",
        "resume",
        &ended.thread,
        message[0],
        message[1],
        "--detach",
    ];
    ended.run(&resume).exits(0);
    ended.work("more.yaml");
    ended.sql("DELETE FROM threadseal_project");
    ended.refuses(&["thread", "transcript", &ended.thread], "holds no id");
}
