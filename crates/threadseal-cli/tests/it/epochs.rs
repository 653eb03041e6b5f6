//! Keys of epochs: where they are kept while a thread is open, and how a record behaves whose key
//! is elsewhere.

use crate::prelude::*;

/// The names of the keys of epochs in the home.
fn keys(sandbox: &Sandbox) -> Vec<String> {
    let Ok(found) = fs::read_dir(sandbox.home().join("epochs")) else {
        return Vec::new();
    };
    let names = found.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

fn lines(path: &Path) -> Vec<Value> {
    let text = read(path);
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

#[test]
fn a_thread_is_sealed_by_keys_that_are_gone_when_it_has_ended() {
    let sandbox = project();
    let script = ["run", "demo/greet", "--project", "p", "-i", "name=Ada"];
    let script = script.iter().chain(&["--script", "answers.yaml"]);
    sandbox.run(script).exits(0);
    assert_eq!(keys(&sandbox), [""; 0], "none is left behind the end");
    let threads = sandbox.path("p/.ai/agent/threads/demo");
    let mut seen = 0;
    for thread in fs::read_dir(threads).unwrap() {
        let events = lines(&thread.unwrap().path().join("transcript.jsonl"));
        let manifest = &events[0]["payload"];
        assert_ne!(manifest["key"], manifest["authority"]);
        assert!(manifest["delegation"].is_string());
        seen += 1;
    }
    assert_eq!(seen, 2);
    sandbox.ok("verify p");
}

#[test]
fn a_stolen_key_of_an_epoch_is_not_the_key_of_the_home() {
    let sandbox = ready();
    open_record(&sandbox, "r.jsonl", 2);
    let names = keys(&sandbox);
    assert_eq!(names.len(), 1);
    let path = sandbox.home().join("epochs").join(&names[0]);
    let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let key = lines(&sandbox.path("r.jsonl"))[0]["payload"]["key"].clone();
    let pinned = format!("verify r.jsonl --key {}", key.text());
    // The only signer is pinned, and the head in the home shows that the record is complete.
    sandbox.ok(pinned);
    let own = sandbox.home().join("keys/self.native.pub");
    sandbox.ok(format!("verify r.jsonl --key {own:?}"));
}

#[test]
fn a_record_whose_key_is_gone_is_refused_and_taken_over_on_request() {
    let sandbox = ready();
    let path = open_record(&sandbox, "r.jsonl", 2);
    fs::write(
        &path,
        [&fs::read(&path).unwrap()[..], b"{\"timestamp\""].concat(),
    )
    .unwrap();
    let elsewhere = sandbox.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    copy(&sandbox.home().join("epochs"), &elsewhere);
    fs::remove_dir_all(sandbox.home().join("epochs")).unwrap();
    let before = fs::read(&path).unwrap();
    sandbox.sh("seal r.jsonl").fails_with("--take-over");
    assert_eq!(fs::read(&path).unwrap(), before);
    sandbox.ok("seal r.jsonl --take-over");
    sandbox.ok("verify r.jsonl");
    assert_eq!(keys(&sandbox).len(), 1);
    // The record continues like any other, and the key elsewhere has no effect.
    sandbox.ok("seal r.jsonl --final");
    assert!(keys(&sandbox).is_empty());
    copy(&elsewhere, &sandbox.home().join("epochs"));
    sandbox.ok("seal r.jsonl");
    assert!(keys(&sandbox).is_empty(), "what was given up is removed");
    sandbox.ok("verify r.jsonl");
}

#[test]
fn take_over_is_for_native_records() {
    let sandbox = ready();
    sandbox.write("a.log", "a\n");
    sandbox
        .sh("seal a.log --take-over")
        .fails_with("native records");
    ended_record(&sandbox, "r.jsonl", 1);
    sandbox
        .ok("seal r.jsonl --take-over")
        .begins_with("unchanged");
}
