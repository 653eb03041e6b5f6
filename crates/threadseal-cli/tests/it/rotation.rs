//! Rotated keys: every record that the old key sealed before stays valid and can be continued, and
//! its later seals do not count.

use crate::anchor::{add, logged, policy};
use crate::fixtures::{open_record, ready, steal, thief};
use crate::run::{greet, once_more, project, thread};
use crate::sandbox::{Ran, Sandbox};
use crate::witness::{Serving, witness};
use std::path::Path;

const DIRECTIVE: &str = "p/.ai/directives/demo/greet.md";

/// Rotates the key of the home; gives the new name of the old key.
fn rotate(sandbox: &Sandbox) -> String {
    let keys = sandbox.run(["key", "list", "--json"]).exits(0).json();
    let mut keys = keys["keys"].as_array().unwrap().iter();
    let own = keys.find(|key| key["name"] == "self").unwrap();
    let id = own["key_id"].as_str().unwrap().to_owned();
    sandbox.run(["key", "rotate", "self"]).exits(0);
    format!("self-{}", &id[..8])
}

/// The thread of `greet`, run to its end.
fn ran(sandbox: &Sandbox) -> String {
    let told = greet(sandbox, &["--script", "answers.yaml", "--json"]).exits(0);
    told.json()["thread_id"].as_str().unwrap().to_owned()
}

fn resume(sandbox: &Sandbox, thread: &str) -> Ran {
    sandbox.write("more.yaml", "answers: [{when: Once more., text: Gladly.}]");
    sandbox.run(once_more(thread).iter().chain(&["--json"]))
}

fn is_forged(sandbox: &Sandbox, path: &str) {
    let ran = sandbox.run(["verify", path]).exits(1);
    assert!(ran.stdout.contains("key_revoked"), "{}", ran.stdout);
}

// T-KLOG-20
#[test]
fn a_project_is_verified_run_and_resumed_after_its_key_was_rotated() {
    let sandbox = project();
    let first = ran(&sandbox);
    rotate(&sandbox);
    sandbox.run(["verify", "p"]).exits(0);
    ran(&sandbox);
    resume(&sandbox, &first).exits(0);
    sandbox.run(["verify", "p"]).exits(0);
    // A second rotation: the current key follows from two entries.
    let second = ran(&sandbox);
    rotate(&sandbox);
    rotate(&sandbox);
    resume(&sandbox, &first).exits(0);
    resume(&sandbox, &second).exits(0);
    sandbox.run(["verify", "p"]).exits(0);
    sandbox.run(["verify", "--all"]).exits(0);
    // An edited item is sealed again, over the seal of the key before.
    let text = std::fs::read_to_string(sandbox.work().join(DIRECTIVE)).unwrap();
    sandbox.write(
        DIRECTIVE,
        text.replace("Greet {input", "Kindly greet {input"),
    );
    sandbox.run(["seal", DIRECTIVE]).exits(0);
    ran(&sandbox);
    sandbox.run(["verify", "p"]).exits(0);
    // The log after a restart keeps all of that.
    sandbox.run(["log", "restart", "--anyway"]).exits(0);
    sandbox.run(["verify", "p"]).exits(0);
}

// T-KLOG-20
#[test]
fn what_the_old_key_signs_after_its_end_is_refused_wherever_it_lies() {
    let sandbox = project();
    let first = ran(&sandbox);
    let old = rotate(&sandbox);
    sandbox.write("note.json", "{\"a\": 1}\n");
    let thief = thief(&sandbox, &old);
    steal(&thief, &sandbox, "note.json");
    is_forged(&sandbox, "note.json");
    sandbox
        .run(["seal", "note.json"])
        .fails_with("a key that ended sealed it");
    // A directive that the thief wrote does not run.
    let path = sandbox.work().join(DIRECTIVE);
    let good = std::fs::read_to_string(&path).unwrap();
    let seal = good.rfind("<!-- threadseal:signed:").unwrap();
    sandbox.write(DIRECTIVE, good[..seal].replace("Greet", "Rob"));
    steal(&thief, &sandbox, DIRECTIVE);
    is_forged(&sandbox, DIRECTIVE);
    greet(&sandbox, &["--script", "answers.yaml"]).fails_with("another file's");
    // The old key also writes nothing after the end of a thread.
    let transcript = thread(&sandbox, "greet").join("transcript.jsonl");
    assert!(transcript.to_str().unwrap().contains(&first));
    let keys = sandbox.home().join("keys");
    for half in ["key", "pub"] {
        let file = |name: &str| keys.join(format!("{name}.native.{half}"));
        std::fs::copy(file(&old), file("self")).unwrap();
    }
    resume(&sandbox, &first).fails_with("ended");
}

// T-KLOG-21
#[test]
fn bodies_that_the_old_key_sealed_are_redacted_by_the_one_that_took_its_place() {
    let sandbox = project();
    greet(
        &sandbox,
        &["--script", "answers.yaml", "--bodies", "detached"],
    )
    .exits(0);
    let transcript = thread(&sandbox, "child").join("transcript.jsonl");
    let old = rotate(&sandbox);
    let path = transcript.to_str().unwrap();
    let redact = |more: &[&str]| {
        let own = ["redact", path, "--match", "the child", "--why", "a name"];
        sandbox.run(own.iter().chain(more))
    };
    redact(&["--key", &old]).fails_with("ended");
    redact(&[]).exits(0);
    sandbox.run(["verify", "p"]).exits(0);
    let bodies = std::fs::read_to_string(Path::new(path).with_extension("bodies")).unwrap();
    assert!(!bodies.contains("I am the child."), "{bodies}");
    let text = std::fs::read_to_string(path).unwrap();
    assert_eq!(text.matches("\"event_type\":\"authority\"").count(), 1);
    // Without trust in the next key, its seal after the end of the old one counts for nothing.
    sandbox.run(["trust", "remove", "self"]).exits(0);
    sandbox.run(["verify", path]).exits(1);
}

/// Only the key that sealed the record before is accepted: the next key, which it let in, seals
/// after its end.
// T-KLOG-18
#[test]
fn what_was_redacted_after_a_rotation_holds_for_who_accepts_the_old_key_alone() {
    let sandbox = project();
    let detached = ["--script", "answers.yaml", "--bodies", "detached"];
    greet(&sandbox, &detached).exits(0);
    let record = thread(&sandbox, "child").join("transcript.jsonl");
    let record = record.to_str().unwrap();
    let old = sandbox.work().join("old.pem");
    let old = old.to_str().unwrap();
    sandbox
        .run(["key", "export", "self", "--out", old])
        .exits(0);
    let kept = rotate(&sandbox);
    let redact = ["redact", record, "--match", "the child", "--why", "a name"];
    sandbox.run(redact).exits(0);
    for key in [old, &kept] {
        let told = sandbox.run(["verify", record, "--key", key]).exits(0);
        assert!(
            told.stdout.contains("the key given with --key"),
            "{}",
            told.stdout
        );
    }
    // The stranger trusts only that key.
    let stranger = Sandbox::new();
    stranger.run(["verify", record, "--key", old]).exits(0);
    // In a home that does not trust the next key, the delegation of an ended key has no effect.
    sandbox.run(["trust", "remove", "self"]).exits(0);
    let forged = sandbox.run(["verify", record, "--key", old]).exits(1);
    assert!(forged.stdout.contains("key_revoked"), "{}", forged.stdout);
}

#[test]
fn a_rotation_says_where_the_old_key_ended_and_what_its_name_means_now() {
    let sandbox = ready();
    sandbox.write("before.json", "{}\n");
    sandbox.run(["seal", "before.json"]).exits(0);
    let told = sandbox.run(["key", "rotate", "self"]).exits(0).stderr;
    let did = sandbox
        .run(["key", "show", "self", "--format", "did"])
        .exits(0)
        .stdout;
    for said in [
        "ended at entry 2 of the log",
        did.trim(),
        "who verifies elsewhere",
    ] {
        assert!(told.contains(said), "{told}");
    }
    let by_name = sandbox
        .run(["verify", "before.json", "--key", "self"])
        .exits(1);
    let kept = by_name.stderr.rsplit(' ').next().unwrap().trim();
    assert!(
        by_name.stderr.contains("self is another key since"),
        "{}",
        by_name.stderr
    );
    sandbox
        .run(["verify", "before.json", "--key", kept])
        .exits(0);
}

// T-KLOG-23
#[test]
fn a_key_is_not_rotated_while_a_thread_that_it_answers_for_goes_on() {
    let sandbox = ready();
    let path = open_record(&sandbox, "open.jsonl", 1);
    sandbox
        .run(["key", "rotate", "self"])
        .fails_with("open.jsonl");
    sandbox.run(["seal", "open.jsonl", "--final"]).exits(0);
    let other = open_record(&sandbox, "other.jsonl", 1);
    let mut torn = std::fs::read(&other).unwrap();
    torn.push(b'{');
    std::fs::write(&other, torn).unwrap();
    sandbox.run(["seal", "other.jsonl"]).exits(0);
    sandbox.run(["key", "rotate", "self", "--anyway"]).exits(0);
    sandbox.run(["verify", path.to_str().unwrap()]).exits(0);
    // The sealed record remains valid, and no command continues it.
    sandbox.run(["verify", "other.jsonl"]).exits(0);
    sandbox
        .run(["seal", "other.jsonl", "--final"])
        .fails_with("ended");
}

// T-KLOG-23
#[test]
fn a_key_is_not_rotated_while_nobody_can_say_whether_a_thread_that_was_moved_ended() {
    let sandbox = project();
    let open = open_record(&sandbox, "open.jsonl", 1);
    let moved = sandbox.work().join("moved.jsonl");
    std::fs::rename(&open, &moved).unwrap();
    let rotate = ["key", "rotate", "self"];
    let refused = sandbox.run(rotate).exits(2).stderr;
    assert!(
        refused.contains("nobody can say") && refused.contains("open.jsonl"),
        "{refused}"
    );
    std::fs::rename(&moved, &open).unwrap();
    sandbox.run(rotate).fails_with("have not ended");
    std::fs::rename(&open, &moved).unwrap();
    sandbox.run(["key", "rotate", "self", "--anyway"]).exits(0);
}

#[test]
fn a_key_that_was_revoked_and_then_rotated_leaves_a_trusted_one() {
    let sandbox = ready();
    sandbox.write("before.json", "{}\n");
    sandbox.run(["seal", "before.json"]).exits(0);
    let said = ["key", "revoke", "self", "--reason", "stolen"];
    sandbox.run(said).exits(0);
    rotate(&sandbox);
    sandbox.write("after.json", "{}\n");
    sandbox.run(["seal", "after.json"]).exits(0);
    sandbox
        .run(["verify", "before.json", "after.json"])
        .exits(0);
    let trust = std::fs::read_to_string(sandbox.home().join("trust.toml")).unwrap();
    assert!(trust.contains("reason = \"stolen\""), "{trust}");
}

// T-KLOG-20
#[test]
fn a_next_key_that_was_trusted_before_ends_the_old_one_no_less() {
    let sandbox = ready();
    sandbox.run(["key", "new", "--name", "self-next"]).exits(0);
    let next = sandbox.home().join("keys/self-next.native.pub");
    sandbox
        .run(["trust", "add", next.to_str().unwrap(), "--name", "heir"])
        .exits(0);
    let old = rotate(&sandbox);
    sandbox.write("after.json", "{}\n");
    steal(&thief(&sandbox, &old), &sandbox, "after.json");
    let judged = sandbox.run(["verify", "after.json"]);
    assert_ne!(judged.code, 0, "{}", judged.stdout);
    sandbox.write("mine.json", "{}\n");
    sandbox.run(["seal", "mine.json"]).exits(0);
    sandbox.run(["verify", "mine.json"]).exits(0);
}

// T-KLOG-23
#[test]
fn a_key_that_cannot_say_that_it_ended_is_not_rotated_while_it_is_trusted() {
    let sandbox = ready();
    sandbox.run(["key", "new", "--name", "self-next"]).exits(0);
    let private = sandbox.home().join("keys/self.native.key");
    assert!(private.exists());
    std::fs::remove_file(private).unwrap();
    let rotate = ["key", "rotate", "self"];
    sandbox.run(rotate).fails_with("trust revoke self");
    sandbox.run(["trust", "revoke", "self"]).exits(0);
    sandbox.run(rotate).exits(0);
}

// T-KLOG-20
#[test]
fn a_ledger_that_the_old_key_signed_stays_whole_and_the_next_one_signs_others() {
    let sandbox = ready();
    let append = |run: &str| {
        let step = format!(
            "{{\"node\":\"{run}\",\"effect\":{{\"type\":\"llm_call\"}},\"status\":\"completed\"}}\n"
        );
        let path = sandbox.write("step.json", step);
        let mut command = sandbox.command();
        let command = command.args(["ledger", "append", "file:store", "--run", run, "--sign"]);
        let command = command.stdin(std::fs::File::open(path).unwrap());
        Ran::of(command.output().unwrap())
    };
    append("r1").exits(0);
    rotate(&sandbox);
    sandbox.run(["ledger", "verify", "store"]).exits(0);
    append("r1").fails_with("does not name actor");
    append("r2").exits(0);
    sandbox.run(["ledger", "verify", "store"]).exits(0);
}

// T-KLOG-12
#[test]
fn what_witnesses_saw_before_a_key_ended_counts_also_where_the_second_place_is_gone() {
    let (sandbox, log) = logged();
    let witness = witness(&[&log]);
    let serving = Serving::start(&witness);
    sandbox.write("seen.json", "{}\n");
    sandbox.run(["seal", "seen.json"]).exits(0);
    add(&sandbox, "w", &policy(&log, &[&serving], 1));
    sandbox.run(["anchor", "check", "w"]).exits(0);
    sandbox.write("unseen.json", "{}\n");
    sandbox.run(["seal", "unseen.json"]).exits(0);
    rotate(&sandbox);
    sandbox.run(["verify", "seen.json", "unseen.json"]).exits(0);
    std::fs::remove_dir_all(sandbox.home().with_file_name("home.marks")).unwrap();
    sandbox.run(["verify", "seen.json"]).exits(0);
    is_forged(&sandbox, "unseen.json");
    // A witness of no policy proves nothing.
    std::fs::remove_file(sandbox.home().join("anchors/w.policy")).unwrap();
    is_forged(&sandbox, "seen.json");
}
