//! Ends of keys that were interrupted, and seals that were interrupted before a key ended: nothing
//! is lost, and no invalid seal counts.

use crate::prelude::*;

/// A home with the keys and the heads of the sandbox's home but without its log: the sandbox's home
/// does not learn of its seals.
fn deaf(sandbox: &Sandbox) -> PathBuf {
    let home = sandbox.work().with_file_name("deaf");
    if home.exists() {
        fs::remove_dir_all(&home).unwrap();
    }
    copy(&sandbox.home(), &home);
    take_log_away(&home);
    home
}

fn run_deaf(sandbox: &Sandbox, arguments: &str) -> Ran {
    sandbox.in_home(&deaf(sandbox), arguments)
}

fn append(sandbox: &Sandbox, node: &str, home: PathBuf) {
    let step = format!(
        "{{\"node\":\"{node}\",\"effect\":{{\"type\":\"llm_call\"}},\"status\":\"completed\"}}\n"
    );
    let path = sandbox.write("step.json", step);
    let mut command = sandbox.command();
    let command = command.env("THREADSEAL_HOME", home);
    let command = command.args(["ledger", "append", "file:store", "--run", "r1", "--sign"]);
    let command = command.stdin(fs::File::open(path).unwrap());
    Ran::of(command.output().unwrap()).exits(0);
}

fn key_revoked(sandbox: &Sandbox, path: &str) {
    sandbox
        .exits(1, format!("verify {path}"))
        .prints("key_revoked");
}

/// The key under this name, as hex.
fn public(sandbox: &Sandbox, name: &str) -> Option<String> {
    let keys = sandbox.json("key list");
    let mut keys = keys["keys"].list().iter();
    let own = keys.find(|key| key["name"] == name)?;
    Some(own["public"].text().to_owned())
}

// T-KLOG-19
#[test]
fn stored_heads_are_published_before_their_key_ends() {
    for end in ["rotate self", "revoke self --reason stolen"] {
        let sandbox = ready();
        // This recorder has no log.
        ended_record(&sandbox, "a.jsonl", 1);
        sandbox.ok(format!("key {end}"));
        sandbox.ok("verify a.jsonl");
    }
}

// T-KLOG-19
#[test]
fn durable_seals_are_published_before_their_key_is_rotated() {
    let sandbox = ready();
    sandbox.sealed("note.json", "{}\n");
    sandbox.write("other.jsonl", "{\"a\":1}\n");
    sandbox.ok("seal other.jsonl");
    append(&sandbox, "one", sandbox.home());
    let mut last = recorder(&sandbox, "thread.jsonl", 1);
    sandbox.ok("verify note.json other.jsonl store");
    let home = deaf(&sandbox);
    let note = sandbox.path("note.json");
    let text = read(&note);
    fs::write(&note, text.replacen('{', "{\"b\":2,", 1)).unwrap();
    sandbox.write("other.jsonl", "{\"a\":1}\n{\"a\":2}\n");
    append(&sandbox, "two", home);
    run_deaf(&sandbox, "seal note.json other.jsonl").exits(0);
    let heads = sandbox.home().join("heads");
    let before = set_aside(&heads);
    last.end(Ending::Completed, &Payload::parse(b"{}").unwrap(), 1)
        .unwrap();
    drop(last);
    put_back(&before, &heads);
    let all = "verify note.json other.jsonl thread.jsonl store";
    sandbox.ok(all);
    sandbox.ok("key rotate self");
    sandbox.ok(all);
    sandbox.ok("verify --all");
    sandbox.ok("log fsck");
}

// T-KLOG-19
#[test]
fn a_key_is_not_rotated_while_a_seal_cannot_be_written_down() {
    let sandbox = ready();
    let path = open_record(&sandbox, "a.jsonl", 1);
    let before = fs::metadata(&path).unwrap().len();
    run_deaf(&sandbox, "seal a.jsonl --final").exits(0);
    // A sealed byte was changed since.
    let mut bytes = fs::read(&path).unwrap();
    let whole = bytes.clone();
    let at = usize::try_from(before).unwrap() + 40;
    bytes[at] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let rotate = "key rotate self";
    let refused = sandbox.exits(2, rotate);
    refused.stderr.has("a.jsonl are not in the log");
    assert_eq!(public(&sandbox, "self-next").map(|key| key.len()), Some(64));
    fs::write(&path, whole).unwrap();
    sandbox.ok(rotate);
    sandbox.ok("verify a.jsonl");
    assert_eq!(public(&sandbox, "self-next"), None);
}

/// A home whose key rotation was interrupted right after the entry of the old key in the log. The
/// old key sealed one record before, and another one later in the hands of a thief.
fn cut_short() -> (Sandbox, PathBuf) {
    let sandbox = ready();
    sandbox.write("before.json", "{}\n");
    sandbox.write("stolen.json", "{}\n");
    sandbox.ok("seal before.json");
    sandbox.ok("key new --name self-next");
    let before = sandbox.work().with_file_name("before");
    for part in ["keys", "trust"] {
        fs::create_dir_all(before.join(part)).unwrap();
    }
    copy(&sandbox.home().join("keys"), &before.join("keys"));
    fs::copy(
        sandbox.home().join("trust.toml"),
        before.join("trust/trust.toml"),
    )
    .unwrap();
    run_deaf(&sandbox, "seal stolen.json").exits(0);
    sandbox.ok("key rotate self");
    (sandbox, before)
}

fn restore(sandbox: &Sandbox, before: &Path, parts: &[&str]) {
    if parts.contains(&"keys") {
        let keys = sandbox.home().join("keys");
        put_back(&before.join("keys"), &keys);
        set_private(&keys, 0o700);
        for key in fs::read_dir(&keys).unwrap() {
            let path = key.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "key") {
                set_private(&path, 0o600);
            }
        }
    }
    if parts.contains(&"trust") {
        fs::copy(
            before.join("trust/trust.toml"),
            sandbox.home().join("trust.toml"),
        )
        .unwrap();
    }
}

fn set_private(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

// T-KLOG-08
#[test]
fn a_key_that_ended_in_the_log_counts_no_more_whatever_the_trust_store_holds() {
    let (sandbox, before) = cut_short();
    for parts in [&["keys", "trust"][..], &["trust"]] {
        restore(&sandbox, &before, parts);
        let trust = sandbox.home().join("trust.toml");
        let store = fs::read(&trust).unwrap();
        sandbox.ok("verify before.json");
        key_revoked(&sandbox, "stolen.json");
        // Commands that only read change nothing.
        assert_eq!(fs::read(&trust).unwrap(), store);
    }
}

// T-KLOG-08
#[test]
fn the_next_writer_of_a_home_completes_an_interrupted_rotation() {
    let (sandbox, before) = cut_short();
    let next = public(&sandbox, "self").unwrap();
    for parts in [&["keys", "trust"][..], &["keys"]] {
        restore(&sandbox, &before, parts);
        assert_eq!(public(&sandbox, "self-next").as_ref(), Some(&next));
        sandbox.sealed("after.json", "{}\n");
        assert_eq!(public(&sandbox, "self").as_ref(), Some(&next));
        assert_eq!(public(&sandbox, "self-next"), None);
        read(sandbox.home().join("trust.toml")).has("its place was taken by");
        sandbox.ok("verify before.json after.json");
        key_revoked(&sandbox, "stolen.json");
    }
}

// T-KLOG-08
#[test]
fn a_rotation_that_is_run_again_makes_no_third_key() {
    let (sandbox, before) = cut_short();
    let next = public(&sandbox, "self").unwrap();
    restore(&sandbox, &before, &["keys", "trust"]);
    sandbox.ok("key rotate self");
    assert_eq!(public(&sandbox, "self"), Some(next.clone()));
    // The old key already has its other name, the next key does not have its own yet.
    let keys = sandbox.home().join("keys");
    for half in ["key", "pub"] {
        let file = |name: &str| keys.join(format!("{name}.native.{half}"));
        fs::rename(file("self"), file("self-next")).unwrap();
    }
    sandbox.ok("key rotate self");
    assert_eq!(public(&sandbox, "self"), Some(next.clone()));
    sandbox.ok("verify before.json");
    // A second rotation, on purpose.
    sandbox.ok("key rotate self");
    assert_ne!(public(&sandbox, "self"), Some(next));
}

// T-KLOG-08
#[test]
fn an_interrupted_revocation_is_completed_by_the_next_writer_of_the_home() {
    let sandbox = ready();
    sandbox.write("before.json", "{}\n");
    sandbox.write("stolen.json", "{}\n");
    sandbox.ok("seal before.json");
    run_deaf(&sandbox, "seal stolen.json").exits(0);
    let trust = sandbox.home().join("trust.toml");
    let store = fs::read(&trust).unwrap();
    let revoke = "key revoke self --reason stolen";
    sandbox.ok(revoke);
    fs::write(&trust, &store).unwrap();
    key_revoked(&sandbox, "stolen.json");
    assert_eq!(fs::read(&trust).unwrap(), store);
    sandbox.ok("key history");
    read(&trust).has("it said in the log that it ended");
    key_revoked(&sandbox, "stolen.json");
    sandbox.ok("verify before.json");
    sandbox.ok(revoke);
}

/// A home that was put back does not know before its restart which records a rotated key sealed: no
/// record is accused.
// T-KLOG-15 T-KLOG-16
#[test]
fn a_home_that_was_put_back_accuses_nothing_that_a_rotated_key_sealed() {
    let sandbox = ready();
    sandbox.write("before.json", "{}\n");
    sandbox.write("stolen.json", "{}\n");
    sandbox.ok("seal before.json");
    ended_record(&sandbox, "t.jsonl", 1);
    run_deaf(&sandbox, "seal stolen.json").exits(0);
    let older_log = set_aside(&sandbox.home().join("log"));
    sandbox.ok("key rotate self");
    let older = set_aside(&sandbox.home());
    sandbox.sealed("more.json", "{}\n");
    sandbox.ok("verify before.json t.jsonl");
    let is_doubted = |path: &str| {
        let ran = sandbox.exits(3, format!("verify {path} --json")).json();
        let report = &ran["results"][0];
        assert_eq!(report["verdict"], "unknown_signer", "{report}");
        assert!(report.codes().contains(&"key_end_doubted"), "{report}");
    };
    let log = sandbox.home().join("log");
    put_back(&older.join("log"), &log);
    is_doubted("before.json");
    is_doubted("t.jsonl");
    // A record that this log would have known before the end, had it existed then, is still forged.
    key_revoked(&sandbox, "stolen.json");
    // No command seals over it or continues it.
    sandbox
        .exits(2, "seal before.json")
        .warns("log status")
        .does_not_warn("remove");
    // A log from before the end does not know of it; the trust store does.
    put_back(&older_log, &log);
    is_doubted("before.json");
    is_doubted("stolen.json");
    sandbox
        .exits(2, "seal before.json")
        .warns("log status")
        .does_not_warn("remove");
}

// T-KLOG-16
#[test]
fn a_project_whose_log_went_back_is_sent_to_the_log_and_not_to_seal_again() {
    let sandbox = project();
    let older = set_aside(&sandbox.home().join("log"));
    sandbox.ok("key rotate self");
    put_back(&older, &sandbox.home().join("log"));
    greet(&sandbox, "")
        .exits(2)
        .warns("log status")
        .does_not_warn("seal it with");
}

/// A proved turn is judged by the head of the seal that closes it, not by the last head of the
/// record.
// T-KLOG-17
#[test]
fn turns_that_a_rotated_key_sealed_are_proved_also_in_the_log_that_takes_the_place_of_the_old_one()
{
    let sandbox = project();
    greeted(&sandbox, "");
    let transcript = transcript(&sandbox, "greet");
    let first = format!("{}#1", transcript.display());
    sandbox.ok(format!("prove {}#2", transcript.display()));
    sandbox.ok(format!("prove {first} --out one.turn-proof"));
    sandbox.ok("key rotate self");
    sandbox.ok("check-proof one.turn-proof");
    for _ in 0..2 {
        sandbox.ok("log restart --anyway");
        sandbox.ok("check-proof one.turn-proof");
    }
    // After the end, the successor of the old key links the thread to the next one: its seal closes
    // the last turn.
    sandbox.ok(once_more(&thread_id(transcript.parent().unwrap())));
    let prove = |turn| sandbox.sh(format!("prove {}#{turn}", transcript.display()));
    let proofs = (1..).map(prove).take_while(|ran| ran.code == 0);
    let text = proofs.last().unwrap().stdout;
    assert_eq!(text.matches("\"event_type\":\"authority\"").count(), 1);
    sandbox.write("last.turn-proof", text);
    sandbox.ok("check-proof last.turn-proof");
}
