//! `status` about sessions: which were changed, which are gone, which were never sealed.

use crate::archive::turns;
use crate::install::User;
use crate::prelude::*;
use std::fs::File;
use std::time::Duration;
use threadseal_store::clock::{Clock as _, SystemClock};

/// Ids of sessions that differ in their first digit.
fn id(number: u8) -> String {
    format!("{number}f9c1a2e-0b1c-4d5e-8f60-718293a4b5c6")
}

fn place(number: u8) -> String {
    format!(".claude/projects/-src-api/{}.jsonl", id(number))
}

/// A user with three sealed sessions.
fn three_sessions() -> User {
    let user = User::new(&[("claude", "echo 2.1.331")]);
    for number in 1..=3 {
        user.put(
            &place(number),
            &turns(&id(number), 0, "list the frobnicators"),
        );
    }
    user.exits(0, "install claude-code --no-watcher --yes");
    user.exits(0, "watch --once");
    user
}

// T-CAP-40
#[test]
fn status_names_the_session_that_was_edited_and_the_one_that_was_deleted() {
    let user = three_sessions();
    let well = user.exits(0, "status");
    well.prints("3 sessions: 3 verified").prints("all is well");
    let edited = user.read(&place(1)).replace("output 0", "output 9");
    user.put(&place(1), &edited);
    fs::remove_file(user.path(&place(2))).unwrap();
    let status = user.exits(3, "status");
    status
        .prints("3 sessions: 1 archived, 1 changed, 1 verified")
        .prints(&format!("claude-code:{}: TAMPERED at line 3", id(1)))
        .prints(&format!(
            "claude-code:{}  archived (source gone), verified",
            id(2)
        ))
        .omits(&id(3));
    let json = user.status();
    assert_eq!(
        json["archived"]["states"],
        json!({"archived": 1, "changed": 1, "verified": 1})
    );
    assert_eq!(json["problems"].list().len(), 1, "{json:#}");
    // What the agent deletes is no problem.
    user.put(&place(1), &edited.replace("output 9", "output 0"));
    user.exits(0, "status").prints("all is well");
}

// T-CAP-41
#[test]
fn status_names_a_session_that_was_never_sealed() {
    let user = three_sessions();
    user.put(&place(4), &turns(&id(4), 0, "list them"));
    // Its hook may be at work.
    user.exits(0, "status");
    let file = File::options()
        .write(true)
        .open(user.path(&place(4)))
        .unwrap();
    let minutes = SystemClock.now().unwrap().as_micros() - 120_000_000;
    let before = std::time::UNIX_EPOCH + Duration::from_micros(minutes);
    file.set_modified(before).unwrap();
    user.exits(3, "status").prints(&format!(
        "{}.jsonl is not sealed; hint: threadseal watch --once",
        id(4)
    ));
    user.exits(0, "watch --once");
    user.exits(0, "status").prints("4 sessions: 4 verified");
    // A file of the agent that is no session is none of ours.
    user.put(".claude/projects/-src-api/notes.jsonl", "{}\n");
    user.exits(0, "status");
}

// T-ARC-24
#[test]
fn a_watcher_meets_the_quota_of_the_archive() {
    let user = three_sessions();
    user.exits(0, "archive quota 1").warns("exceeds its quota");
    fs::remove_file(user.path(&place(2))).unwrap();
    user.put(&place(4), &turns(&id(4), 0, "list them"));
    user.exits(3, "watch --once")
        .warns(&format!(
            "claude-code:{} was removed from the archive",
            id(2)
        ))
        .warns("exceeds its quota by");
    user.exits(3, "status")
        .prints("watch: the archive exceeds its quota by")
        .omits(&id(2));
    user.exits(0, "archive quota 0");
    user.put(&place(5), &turns(&id(5), 0, "list them"));
    user.exits(0, "watch --once");
    user.exits(0, "status").prints("4 sessions: 4 verified");
}
