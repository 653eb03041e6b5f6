//! Rotated keys: every record that the old key sealed before stays valid and can be continued, and
//! its later seals do not count.

use crate::anchor::{add, logged, policy};
use crate::prelude::*;

const DIRECTIVE: &str = "p/.ai/directives/demo/greet.md";

/// Rotates the key of the home; gives the new name of the old key.
fn rotate(sandbox: &Sandbox) -> String {
    let own = sandbox.key("self");
    let id = own["key_id"].text().to_owned();
    sandbox.ok("key rotate self");
    format!("self-{}", &id[..8])
}

fn resume(sandbox: &Sandbox, thread: &str) -> Ran {
    sandbox.sh(once_more(thread) + " --json")
}

fn is_forged(sandbox: &Sandbox, path: &str) {
    sandbox
        .exits(1, format!("verify {path}"))
        .prints("key_revoked");
}

// T-KLOG-20
#[test]
fn a_project_is_verified_run_and_resumed_after_its_key_was_rotated() {
    let sandbox = project();
    let first = greeted(&sandbox, "");
    rotate(&sandbox);
    sandbox.ok("verify p");
    greeted(&sandbox, "");
    resume(&sandbox, &first).exits(0);
    sandbox.ok("verify p");
    // A second rotation: the current key follows from two entries.
    let second = greeted(&sandbox, "");
    rotate(&sandbox);
    rotate(&sandbox);
    resume(&sandbox, &first).exits(0);
    resume(&sandbox, &second).exits(0);
    sandbox.ok("verify p");
    sandbox.ok("verify --all");
    // An edited item is sealed again, over the seal of the key before.
    let text = sandbox.read(DIRECTIVE);
    sandbox.write(
        DIRECTIVE,
        text.replace("Greet {input", "Kindly greet {input"),
    );
    sandbox.ok(format!("seal {DIRECTIVE}"));
    greeted(&sandbox, "");
    sandbox.ok("verify p");
    // The log after a restart keeps all of that.
    sandbox.ok("log restart --anyway");
    sandbox.ok("verify p");
}

// T-KLOG-20
#[test]
fn seals_of_the_old_key_after_its_end_are_refused_everywhere() {
    let sandbox = project();
    let first = greeted(&sandbox, "");
    let old = rotate(&sandbox);
    sandbox.write("note.json", "{\"a\": 1}\n");
    let thief = thief(&sandbox, &old);
    steal(&thief, &sandbox, "note.json");
    is_forged(&sandbox, "note.json");
    sandbox
        .sh("seal note.json")
        .fails_with("a key that has ended sealed it");
    // A directive that the thief wrote does not run.
    let path = sandbox.path(DIRECTIVE);
    let good = read(&path);
    let seal = good.rfind("<!-- threadseal:signed:").unwrap();
    sandbox.write(DIRECTIVE, good[..seal].replace("Greet", "Rob"));
    steal(&thief, &sandbox, DIRECTIVE);
    is_forged(&sandbox, DIRECTIVE);
    greet(&sandbox, "").fails_with("another file");
    // The old key also writes nothing after the end of a thread.
    let transcript = transcript(&sandbox, "greet");
    assert!(transcript.to_str().unwrap().contains(&first));
    let keys = sandbox.home().join("keys");
    for half in ["key", "pub"] {
        let file = |name: &str| keys.join(format!("{name}.native.{half}"));
        fs::copy(file(&old), file("self")).unwrap();
    }
    resume(&sandbox, &first).fails_with("ended");
}

// T-KLOG-21
#[test]
fn bodies_that_the_old_key_sealed_are_redacted_by_the_one_that_took_its_place() {
    let sandbox = project();
    greeted(&sandbox, "--bodies detached");
    let transcript = transcript(&sandbox, "child");
    let old = rotate(&sandbox);
    let path = transcript.to_str().unwrap();
    let redact = |more: &str| {
        let own = format!("redact {path} --match 'the child' --why 'a name'");
        sandbox.sh(format!("{own} {more}"))
    };
    redact(&format!("--key {old}")).fails_with("ended");
    redact("").exits(0);
    sandbox.ok("verify p");
    read(Path::new(path).with_extension("bodies")).lacks("I am the child.");
    let text = read(path);
    assert_eq!(text.matches("\"event_type\":\"authority\"").count(), 1);
    // Without trust in the next key, its seal after the end of the old one counts for nothing.
    sandbox.ok("trust remove self");
    sandbox.exits(1, format!("verify {path}"));
}

/// Only the key that sealed the record before is accepted: the next key, which it let in, seals
/// after its end.
// T-KLOG-18
#[test]
fn what_was_redacted_after_a_rotation_holds_for_who_accepts_the_old_key_and_knows_the_next() {
    let sandbox = project();
    greeted(&sandbox, "--bodies detached");
    let record = transcript(&sandbox, "child");
    let old = sandbox.path("old.pem");
    let old = old.to_str().unwrap();
    sandbox.ok(format!("key export self --out {old}"));
    let kept = rotate(&sandbox);
    sandbox.ok(format!(
        "redact {record:?} --match 'the child' --why 'a name'"
    ));
    for key in [old, &kept] {
        sandbox
            .ok(format!("verify {record:?} --key {key}"))
            .prints("the key given with --key");
    }
    // The stranger knows only that key, which does not vouch for the one that took its place.
    let stranger = Sandbox::new();
    let next = sandbox.path("next.pem");
    let next = next.to_str().unwrap();
    sandbox.ok(format!("key export self --out {next}"));
    stranger.exits(3, format!("verify {record:?} --key {old:?}"));
    stranger.ok(format!("verify {record:?} --key {old:?} --key {next:?}"));
    // In a home that does not trust the next key, the delegation of an ended key has no effect.
    sandbox.ok("trust remove self");
    sandbox
        .exits(1, format!("verify {record:?} --key {old:?}"))
        .prints("key_revoked");
}

#[test]
fn a_rotation_reports_the_end_of_the_old_key_and_its_new_name() {
    let sandbox = ready();
    sandbox.sealed("before.json", "{}\n");
    let told = sandbox.ok("key rotate self").stderr;
    let did = sandbox.ok("key show self --format did").stdout;
    for said in [
        "ended at entry 2 of the log",
        did.trim(),
        "verifiers elsewhere",
    ] {
        told.has(said);
    }
    let by_name = sandbox.exits(3, "verify before.json --key self");
    let kept = by_name.stderr.rsplit(' ').next().unwrap().trim();
    by_name.stderr.has("self is a new key since");
    sandbox.ok(format!("verify before.json --key {kept}"));
}

// T-KLOG-23
#[test]
fn a_key_is_not_rotated_while_its_thread_runs() {
    let sandbox = ready();
    let path = open_record(&sandbox, "open.jsonl", 1);
    sandbox.sh("key rotate self").fails_with("open.jsonl");
    sandbox.ok("seal open.jsonl --final");
    let other = open_record(&sandbox, "other.jsonl", 1);
    let mut torn = fs::read(&other).unwrap();
    torn.push(b'{');
    fs::write(&other, torn).unwrap();
    sandbox.ok("seal other.jsonl");
    sandbox.ok("key rotate self --anyway");
    sandbox.ok(format!("verify {path:?}"));
    // The sealed record remains valid, and no command continues it.
    sandbox.ok("verify other.jsonl");
    sandbox.sh("seal other.jsonl --final").fails_with("ended");
}

// T-KLOG-23
#[test]
fn a_key_is_not_rotated_while_the_state_of_a_moved_thread_is_unknown() {
    let sandbox = project();
    let open = open_record(&sandbox, "open.jsonl", 1);
    let moved = sandbox.path("moved.jsonl");
    fs::rename(&open, &moved).unwrap();
    let rotate = "key rotate self";
    sandbox
        .exits(2, rotate)
        .warns("cannot determine")
        .warns("open.jsonl");
    fs::rename(&moved, &open).unwrap();
    sandbox.sh(rotate).fails_with("have not ended");
    fs::rename(&open, &moved).unwrap();
    sandbox.ok("key rotate self --anyway");
}

#[test]
fn a_key_that_was_revoked_and_then_rotated_leaves_a_trusted_one() {
    let sandbox = ready();
    sandbox.sealed("before.json", "{}\n");
    sandbox.ok("key revoke self --reason stolen");
    rotate(&sandbox);
    sandbox.sealed("after.json", "{}\n");
    sandbox.ok("verify before.json after.json");
    read(sandbox.home().join("trust.toml")).has("reason = \"stolen\"");
}

// T-KLOG-20
#[test]
fn a_next_key_that_was_trusted_before_ends_the_old_one_no_less() {
    let sandbox = ready();
    sandbox.ok("key new --name self-next");
    let next = sandbox.home().join("keys/self-next.native.pub");
    sandbox.ok(format!("trust add {next:?} --name heir"));
    let old = rotate(&sandbox);
    sandbox.write("after.json", "{}\n");
    steal(&thief(&sandbox, &old), &sandbox, "after.json");
    let judged = sandbox.sh("verify after.json");
    assert_ne!(judged.code, 0, "{}", judged.stdout);
    sandbox.sealed("mine.json", "{}\n");
    sandbox.ok("verify mine.json");
}

// T-KLOG-23
#[test]
fn a_key_whose_end_cannot_be_logged_is_not_rotated_while_it_is_trusted() {
    let sandbox = ready();
    sandbox.ok("key new --name self-next");
    let private = sandbox.home().join("keys/self.native.key");
    assert!(private.exists());
    fs::remove_file(private).unwrap();
    let rotate = "key rotate self";
    sandbox.sh(rotate).fails_with("key rotate self --anyway");
    sandbox.ok("trust revoke self");
    sandbox.ok(rotate);
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
        let command = command.stdin(fs::File::open(path).unwrap());
        Ran::of(command.output().unwrap())
    };
    append("r1").exits(0);
    rotate(&sandbox);
    sandbox.ok("ledger verify store");
    append("r1").fails_with("does not name actor");
    append("r2").exits(0);
    sandbox.ok("ledger verify store");
}

// T-KLOG-12
#[test]
fn what_witnesses_saw_before_a_key_ended_counts_also_where_the_second_place_is_gone() {
    let (sandbox, log) = logged();
    let witness = witness(&[&log]);
    let serving = Serving::start(&witness);
    sandbox.sealed("seen.json", "{}\n");
    add(&sandbox, "w", &policy(&log, &[&serving], 1));
    sandbox.ok("anchor check w");
    sandbox.sealed("unseen.json", "{}\n");
    rotate(&sandbox);
    sandbox.ok("verify seen.json unseen.json");
    fs::remove_dir_all(sandbox.home().with_file_name("home.marks")).unwrap();
    sandbox.ok("verify seen.json");
    is_forged(&sandbox, "unseen.json");
    // A witness of no policy proves nothing.
    fs::remove_file(sandbox.home().join("anchors/w.policy")).unwrap();
    is_forged(&sandbox, "seen.json");
}
