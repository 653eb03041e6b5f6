//! Folders, the trust of a run, and its output.

use super::{replace, verify};
use crate::prelude::*;

#[test]
fn a_folder_is_summed_up_in_one_line_and_only_what_is_wrong_is_told() {
    let sandbox = ready();
    ended_record(&sandbox, "d/good.jsonl", 1);
    let bad = ended_record(&sandbox, "d/deep/bad.jsonl", 2);
    sandbox.write("d/plain.py", "print(1)\n");
    sandbox.write("d/photo.png", [0x89, 0x50, 0x4e, 0x47]);
    let good = sandbox.ok("verify d");
    assert_eq!(good.stdout.lines().count(), 1, "{}", good.stdout);
    good.stdout.has(": 2 verified; 2 files not recognised");
    assert_eq!(sandbox.ok("-q verify d").stdout, "");
    replace(&bad, "answer 2", "answer X");
    let ran = sandbox
        .exits(1, "verify d")
        .begins_with("tampered  d/deep/bad.jsonl");
    assert!(
        ran.stdout
            .ends_with(": 1 verified, 1 tampered; 2 files not recognised\n"),
        "{}",
        ran.stdout
    );
    sandbox.write("d/unsigned.json", "{}");
    sandbox.exits(1, "verify d");
    fs::remove_file(&bad).unwrap();
    sandbox.exits(3, "verify d");
}

// T-CMD-06
#[test]
fn nothing_to_verify_is_no_verdict() {
    let sandbox = ready();
    fs::create_dir(sandbox.path("empty")).unwrap();
    sandbox.sh("verify empty").fails_with("nothing to verify");
    sandbox.write("d/x.bin", [0, 1]);
    sandbox.sh("verify d").fails_with("nothing to verify");
    sandbox.sh("verify d/x.bin").fails_with("unknown format");
    sandbox.sh("verify absent").fails_with("absent");
    let json = sandbox
        .sh("verify absent --json")
        .fails_with("absent")
        .json();
    json.is(json!({"schema": "threadseal.verify/1", "exit": 2, "errors/0/path": "absent"}));
}

#[test]
fn trust_given_on_the_command_line_replaces_the_home() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "d/t.jsonl", 1);
    sandbox.ok("key export self --out self.pem");
    sandbox.ok("key new --name ann");
    sandbox.ok("key export ann --out ann.pem");
    fs::create_dir(sandbox.path("keys")).unwrap();
    fs::copy(sandbox.path("self.pem"), sandbox.path("keys/self.pem")).unwrap();
    sandbox.exits(3, format!("verify {path:?} --trust ann.pem"));
    sandbox.ok(format!("verify {path:?} --trust ann.pem --trust self.pem"));
    sandbox.ok(format!("verify {path:?} --trust keys"));
    let store = sandbox.home().join("trust.toml");
    sandbox.ok(format!("verify {path:?} --trust {store:?}"));
    sandbox.write("not.toml", "hello");
    sandbox
        .sh(format!("verify {path:?} --trust not.toml"))
        .fails_with("not.toml");
    sandbox
        .sh(format!("verify {path:?} --trust absent.pem"))
        .fails_with("absent.pem");
}

// T-CMD-01
#[test]
fn names_and_records_cannot_fake_our_output() {
    let sandbox = ready();
    let name = "x\u{1b}[2K\nverified  y.json";
    let path = sandbox.write(name, "{\"type\":1}");
    let json_name = sandbox.path("z\u{202e}.json");
    fs::write(&json_name, "{}").unwrap();
    for path in [&path, &json_name] {
        let ran = verify(&sandbox, path);
        for printed in [&ran.stdout, &ran.stderr] {
            assert!(
                !printed.contains('\u{1b}') && !printed.contains('\u{202e}'),
                "{printed:?}"
            );
            printed.lacks("\nverified");
        }
    }
}

// T-CMD-15
#[test]
fn verify_writes_nothing() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "t.jsonl", 2);
    let before = (tree_digest(&sandbox.home()), tree_digest(&sandbox.work()));
    verify(&sandbox, &path).exits(0);
    let after = (tree_digest(&sandbox.home()), tree_digest(&sandbox.work()));
    assert_eq!(before, after);
    verify(&Sandbox::new(), &path).exits(3);
}

#[test]
fn an_empty_folder_is_a_home_that_nobody_has_made_yet() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.home()).unwrap();
    let demo = sandbox.json("demo");
    let record = format!("{}/records/transcript.jsonl", demo["folder"].text());
    sandbox.exits(3, format!("verify {record}"));
    let key = demo["steps"][0]["report"]["signers"][0]["key"].text().len();
    assert_eq!(key, 64);
    sandbox.exits(2, format!("seal {record}"));
    sandbox.ok("init");
}
