//! `verify` and `seal`: from bytes to exit codes.

use crate::fixtures::{ended_record, open_record, ready, recorder, rye_events, say};
use crate::sandbox::{Sandbox, tree_digest};
use std::fs;
use std::path::Path;

/// A home on another host that trusts the native and observed keys of `sandbox`, and nothing else.
fn stranger_who_trusts(sandbox: &Sandbox) -> Sandbox {
    let other = Sandbox::new();
    for name in ["self", "self-rye", "self-observed"] {
        let key = sandbox
            .run(["key", "show", name, "--format", "hex"])
            .exits(0);
        let usage = match name {
            "self" => "native",
            "self-rye" => "rye",
            _ => "observed",
        };
        other
            .run([
                "trust",
                "add",
                key.stdout.trim(),
                "--name",
                name,
                "--usage",
                usage,
            ])
            .exits(0);
    }
    other
}

fn verify(sandbox: &Sandbox, path: &Path) -> crate::sandbox::Ran {
    sandbox.run(["verify".as_ref(), path.as_os_str()])
}

fn replace(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{from} is not in {}", path.display());
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

#[test]
fn an_ended_record_is_verified_here_and_elsewhere() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "t.jsonl", 3);
    let here = verify(&sandbox, &path).exits(0);
    assert!(here.stdout.starts_with("verified  "), "{}", here.stdout);
    assert_eq!(here.stderr, "");
    verify(&stranger_who_trusts(&sandbox), &path).exits(0);
    verify(&ready(), &path).exits(3);
    verify(&Sandbox::new(), &path).exits(3);
}

#[test]
fn an_open_record_is_verified_only_where_its_head_is_known() {
    let sandbox = ready();
    let path = open_record(&sandbox, "t.jsonl", 2);
    verify(&sandbox, &path).exits(0);
    let elsewhere = verify(&stranger_who_trusts(&sandbox), &path).exits(3);
    assert!(
        elsewhere.stdout.starts_with("open  "),
        "{}",
        elsewhere.stdout
    );
}

#[test]
fn a_changed_event_is_named_with_its_turn_and_the_safe_point_before_it() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "t.jsonl", 5);
    replace(&path, "answer 3", "answer X");
    let ran = verify(&sandbox, &path).exits(1);
    assert!(ran.stdout.starts_with("tampered  "), "{}", ran.stdout);
    for part in [
        "turn 2 (line 10",
        "nothing after it is safe to resume from",
        "not checked",
        "signed by",
    ] {
        assert!(
            ran.stdout.contains(part),
            "{part} is not in\n{}",
            ran.stdout
        );
    }
    let json = sandbox
        .run(["verify".as_ref(), path.as_os_str(), "--json".as_ref()])
        .exits(1)
        .json();
    assert_eq!(json["schema"], "threadseal.verify/1");
    assert_eq!(json["summary"]["tampered"], 1);
    let report = &json["results"][0];
    assert_eq!(report["verdict"], "tampered");
    assert_eq!(report["trusted_until"]["turn"], 2);
    assert!(!report["findings"].as_array().unwrap().is_empty());
    assert!(!report["checks"].as_array().unwrap().is_empty());
}

#[test]
fn a_record_cut_back_to_an_earlier_seal_is_noticed_on_its_host() {
    let sandbox = ready();
    let path = open_record(&sandbox, "t.jsonl", 3);
    let text = fs::read_to_string(&path).unwrap();
    let keep: Vec<&str> = text.split_inclusive('\n').take(6).collect();
    fs::write(&path, keep.concat()).unwrap();
    let ran = verify(&sandbox, &path).exits(1);
    assert!(ran.stdout.starts_with("rolled_back  "), "{}", ran.stdout);
    verify(&stranger_who_trusts(&sandbox), &path).exits(3);
}

#[test]
fn a_tail_is_told_and_sealing_it_marks_it_for_ever() {
    let sandbox = ready();
    let mut recorder = recorder(&sandbox, "t.jsonl", 1);
    say(&mut recorder, "cognition_in", "not sealed");
    let path = recorder.path().to_owned();
    drop(recorder);
    let ran = verify(&sandbox, &path).exits(3);
    assert!(ran.stdout.starts_with("unsigned_tail  "), "{}", ran.stdout);
    let lenient = sandbox.run([
        "verify".as_ref(),
        path.as_os_str(),
        "--policy=lenient".as_ref(),
    ]);
    assert!(lenient.exits(3).stdout.contains("resume may take bytes 0-"));
    let sealed = sandbox.run(["seal", "t.jsonl"]).exits(0);
    assert!(
        sealed.stdout.contains("stay marked as unverified"),
        "{}",
        sealed.stdout
    );
    let ran = verify(&sandbox, &path).exits(3);
    assert!(ran.stdout.starts_with("partial  "), "{}", ran.stdout);
    let again = sandbox.run(["seal", "t.jsonl"]).exits(0);
    assert!(again.stdout.starts_with("unchanged  "), "{}", again.stdout);
}

#[test]
fn expected_heads_and_threads_are_held_against_the_record() {
    let sandbox = ready();
    let mut first = recorder(&sandbox, "t.jsonl", 2);
    let early = first.state().head().unwrap().to_string();
    let late = {
        say(&mut first, "cognition_in", "more");
        first
            .seal(3, threadseal::transcript::ext::Ext::default())
            .unwrap()
            .to_string()
    };
    let other = recorder(&sandbox, "u.jsonl", 1)
        .state()
        .head()
        .unwrap()
        .to_string();
    drop(first);
    let other_host = stranger_who_trusts(&sandbox);
    let path = sandbox.work().join("t.jsonl");
    let ask = |more: &[&str]| {
        let arguments = [&["verify", path.to_str().unwrap()], more].concat();
        other_host.run(arguments)
    };
    ask(&["--expect-head", &late]).exits(0);
    ask(&["--expect-head", &late, "--exact-head"]).exits(0);
    ask(&["--expect-head", &early]).exits(0);
    ask(&["--expect-head", &early, "--exact-head"]).exits(3);
    ask(&["--expect-head", &other]).exits(1);
    ask(&["--thread", "demo/thread-1"]).exits(3);
    ask(&["--thread", "demo/thread-2"]).exits(1);
    ask(&["--expect-head", "abc"]).exits(2);
    ask(&["--exact-head"]).exits(2);
}

#[test]
fn with_a_pinned_key_any_other_signer_is_forged() {
    let sandbox = ready();
    sandbox.run(["key", "new", "--name", "ann"]).exits(0);
    sandbox
        .run(["key", "export", "ann", "--out", "ann.pem"])
        .exits(0);
    let path = ended_record(&sandbox, "t.jsonl", 1);
    let ask = |key: &str| sandbox.run(["verify", path.to_str().unwrap(), "--key", key]);
    ask("self").exits(0);
    let hex = sandbox
        .run(["key", "show", "self", "--format", "hex"])
        .stdout;
    let did = sandbox
        .run(["key", "show", "self", "--format", "did"])
        .stdout;
    ask(hex.trim()).exits(0);
    ask(did.trim()).exits(0);
    let forged = ask("ann.pem").exits(1);
    assert!(forged.stdout.starts_with("forged  "), "{}", forged.stdout);
    ask("nobody").fails_with("is no key");
}

#[test]
fn a_revoked_key_counts_only_for_what_this_host_held_before() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "t.jsonl", 1);
    sandbox
        .run(["trust", "revoke", "self", "--at", "2999-01-01"])
        .exits(0);
    verify(&sandbox, &path).exits(0);
    let other = stranger_who_trusts(&sandbox);
    other.run(["trust", "revoke", "self"]).exits(0);
    let ran = verify(&other, &path).exits(1);
    assert!(ran.stdout.starts_with("forged  "), "{}", ran.stdout);
}

#[test]
fn a_foreign_log_is_sealed_beside_and_every_change_is_named() {
    let sandbox = ready();
    let log = sandbox.write("s.jsonl", "{\"type\":\"user\"}\n{\"type\":\"assistant\"}\n");
    verify(&sandbox, &log).exits(3);
    let sealed = sandbox.run(["seal", "s.jsonl"]).exits(0);
    assert!(sealed.stdout.contains("head "), "{}", sealed.stdout);
    verify(&sandbox, &log).exits(0);
    let again = sandbox.run(["seal", "s.jsonl"]).exits(0);
    assert!(again.stdout.starts_with("unchanged"), "{}", again.stdout);

    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, format!("{text}{{\"type\":\"user\"}}\n")).unwrap();
    let tail = verify(&sandbox, &log).exits(3);
    assert!(
        tail.stdout.starts_with("unsigned_tail  "),
        "{}",
        tail.stdout
    );
    sandbox.run(["seal", "s.jsonl", "--final"]).exits(0);
    verify(&stranger_who_trusts(&sandbox), &log).exits(0);

    replace(&log, "assistant", "assassins");
    let changed = verify(&sandbox, &log).exits(1);
    assert!(changed.stdout.contains("line 2"), "{}", changed.stdout);
    let before = tree_digest(&sandbox.work());
    sandbox.run(["seal", "s.jsonl"]).fails_with("verify it");
    assert_eq!(
        tree_digest(&sandbox.work()),
        before,
        "nothing is sealed over a change"
    );
}

#[test]
fn a_log_whose_seals_were_deleted_is_noticed_and_not_sealed_anew() {
    let sandbox = ready();
    let log = sandbox.write("s.jsonl", "{\"type\":\"user\"}\n{\"type\":\"assistant\"}\n");
    sandbox.run(["seal", "s.jsonl"]).exits(0);
    fs::remove_file(sandbox.work().join("s.jsonl.seal")).unwrap();
    let ran = verify(&sandbox, &log).exits(1);
    assert!(ran.stdout.contains("seals are gone"), "{}", ran.stdout);
    sandbox
        .run(["seal", "s.jsonl"])
        .fails_with("seals are gone");
}

#[test]
fn seals_put_in_the_place_of_those_that_this_host_made_are_noticed() {
    let sandbox = ready();
    let log = sandbox.write("s.jsonl", "{\"type\":\"user\"}\n{\"type\":\"assistant\"}\n");
    sandbox.run(["seal", "s.jsonl"]).exits(0);
    let attacker = ready();
    let copy = attacker.write("s.jsonl", fs::read(&log).unwrap());
    attacker.run(["seal", "s.jsonl"]).exits(0);
    let seals = |of: &Path| of.with_extension("jsonl.seal");
    fs::copy(seals(&copy), seals(&log)).unwrap();
    let ran = verify(&sandbox, &log).exits(1);
    assert!(ran.stdout.contains("seals are gone"), "{}", ran.stdout);
}

#[test]
fn seals_without_their_log_are_a_missing_record() {
    let sandbox = ready();
    let log = sandbox.write("d/s.jsonl", "{\"type\":\"user\"}\n");
    sandbox.run(["seal", "d/s.jsonl"]).exits(0);
    fs::remove_file(&log).unwrap();
    for path in ["d", "d/s.jsonl.seal"] {
        let ran = sandbox.run(["verify", path]).exits(1);
        assert!(
            ran.stdout.starts_with("missing  d/s.jsonl  "),
            "{}",
            ran.stdout
        );
    }
}

#[test]
fn a_native_record_that_lost_all_its_seals_is_noticed() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "t.jsonl", 3);
    let text = fs::read_to_string(&path).unwrap();
    let events = text
        .split_inclusive('\n')
        .filter(|l| !l.contains("\"checkpoint\""));
    let stripped: String = events.clone().collect();
    fs::write(&path, stripped).unwrap();
    verify(&sandbox, &path).exits(1);
    verify(&stranger_who_trusts(&sandbox), &path).exits(1);
    let headless: String = events.skip(1).collect();
    fs::write(&path, headless).unwrap();
    let ran = verify(&sandbox, &path).exits(1);
    assert!(ran.stdout.contains("seals are gone"), "{}", ran.stdout);
}

#[test]
fn documents_are_sealed_in_place_and_again_after_an_edit() {
    let sandbox = ready();
    for (name, text, edit) in [
        ("a.json", "{\"limits\": {\"turns\": 3}}\n", ("3", "4")),
        ("a.md", "# Title\n\ntext\n", ("text", "test")),
        ("a.py", "#!/usr/bin/env python3\nprint(1)\n", ("1", "2")),
        ("a.ts", "export {}\n", ("{}", "{ }")),
    ] {
        let path = sandbox.write(name, text);
        verify(&sandbox, &path).exits(3);
        sandbox.run(["seal", name]).exits(0);
        verify(&sandbox, &path).exits(0);
        let unchanged = sandbox.run(["seal", name]).exits(0);
        assert!(
            unchanged.stdout.starts_with("unchanged"),
            "{}",
            unchanged.stdout
        );
        let first = fs::read(&path).unwrap();
        replace(&path, edit.0, edit.1);
        let ran = verify(&sandbox, &path).exits(1);
        assert!(!ran.stdout.starts_with("verified"), "{}", ran.stdout);
        sandbox.run(["seal", name]).exits(0);
        verify(&sandbox, &path).exits(0);
        fs::write(&path, first).unwrap();
        let ran = verify(&sandbox, &path).exits(1);
        assert!(
            ran.stdout.starts_with("rolled_back") || ran.stdout.starts_with("truncated"),
            "{}",
            ran.stdout
        );
    }
}

#[test]
fn another_keys_document_seal_is_not_taken_away() {
    let sandbox = ready();
    sandbox.run(["key", "new", "--name", "ann"]).exits(0);
    sandbox.write("a.md", "text\n");
    sandbox.run(["seal", "a.md", "--key", "ann"]).exits(0);
    sandbox.run(["seal", "a.md"]).fails_with("another key");
    sandbox
        .run(["seal", "a.md", "--key", "self-rye"])
        .fails_with("is for rye records");
}

#[test]
fn ryes_formats_are_written_and_read() {
    let sandbox = ready();
    let path = rye_events(&sandbox, "t.jsonl", 2);
    verify(&sandbox, &path).exits(3);
    sandbox
        .run(["seal", "t.jsonl", "--profile", "rye"])
        .exits(0);
    let unchanged = sandbox
        .run(["seal", "t.jsonl", "--profile", "rye"])
        .exits(0);
    assert!(
        unchanged.stdout.starts_with("unchanged"),
        "{}",
        unchanged.stdout
    );
    verify(&sandbox, &path).exits(0);
    // A format without an end mark: verified, and its completeness unproved.
    let elsewhere = verify(&stranger_who_trusts(&sandbox), &path).exits(0);
    assert!(
        elsewhere.stdout.contains("unproved"),
        "{}",
        elsewhere.stdout
    );
    let text = fs::read_to_string(&path).unwrap();
    let unsealed: String = text.split_inclusive('\n').take(4).collect();
    fs::write(&path, unsealed).unwrap();
    verify(&sandbox, &path).exits(1);
    fs::write(&path, text).unwrap();
    replace(&path, "answer 1", "answer X");
    let ran = verify(&sandbox, &path).exits(1);
    assert!(ran.stdout.starts_with("tampered  "), "{}", ran.stdout);
    for (name, text) in [("a.json", "{\"a\": 1}\n"), ("a.py", "print(1)\n")] {
        let path = sandbox.write(name, text);
        sandbox.run(["seal", name, "--profile", "rye"]).exits(0);
        let path = path.to_str().unwrap();
        sandbox.run(["verify", path, "--profile", "rye"]).exits(0);
    }
}

#[test]
fn each_profile_answers_for_its_own_claim_only() {
    let sandbox = ready();
    rye_events(&sandbox, "t.jsonl", 2);
    let ask = |profile: &str| sandbox.run(["verify", "t.jsonl", "--profile", profile]);
    for profile in ["auto", "native", "rye", "observed"] {
        assert!(
            ask(profile).exits(3).stdout.starts_with("unsigned  "),
            "{profile}"
        );
    }
    sandbox.run(["seal", "t.jsonl"]).exits(0);
    ask("auto").exits(0);
    ask("observed").exits(0);
    ask("rye").exits(3);
    sandbox
        .run(["seal", "t.jsonl", "--profile", "rye"])
        .exits(0);
    ask("native").exits(3);
    ask("rye").exits(0);
    // The checkpoint came after the detached seal: the one claim holds, the other has a tail.
    let both = sandbox.run(["verify", "t.jsonl", "--json"]).exits(3).json();
    let verdict = |n: usize| both["results"][n]["verdict"].as_str().unwrap().to_owned();
    assert_eq!(
        (verdict(0), verdict(1)),
        ("unsigned_tail".to_owned(), "verified".to_owned())
    );
    sandbox.run(["seal", "t.jsonl"]).exits(0);
    ask("auto").exits(0);
    let text = fs::read_to_string(sandbox.work().join("t.jsonl")).unwrap();
    sandbox.write("t.jsonl", text.replace("answer 1", "answer X"));
    for profile in ["auto", "rye", "observed"] {
        ask(profile).exits(1);
    }
}

#[test]
fn json_carries_what_the_original_would_have_answered() {
    let sandbox = ready();
    let path = rye_events(&sandbox, "t.jsonl", 1);
    sandbox
        .run(["seal", "t.jsonl", "--profile", "rye"])
        .exits(0);
    let text = fs::read_to_string(&path).unwrap();
    sandbox.write("t.jsonl", format!("{text}{{\"event_type\": \"x\"}}\n"));
    let json = sandbox.run(["verify", "t.jsonl", "--json"]).json();
    let rye = &json["results"][0]["compat"]["rye"];
    assert_eq!(rye["strict"]["valid"], false, "{rye}");
    assert_eq!(rye["lenient"]["valid"], true, "{rye}");
    assert_eq!(rye["strict"]["unsigned_bytes"], 20, "{rye}");
}

#[test]
fn a_folder_is_summed_up_in_one_line_and_only_what_is_wrong_is_told() {
    let sandbox = ready();
    ended_record(&sandbox, "d/good.jsonl", 1);
    let bad = ended_record(&sandbox, "d/deep/bad.jsonl", 2);
    sandbox.write("d/plain.py", "print(1)\n");
    sandbox.write("d/photo.png", [0x89, 0x50, 0x4e, 0x47]);
    let good = sandbox.run(["verify", "d"]).exits(0);
    assert_eq!(good.stdout.lines().count(), 1, "{}", good.stdout);
    assert!(
        good.stdout.contains(": 2 verified; 2 files not recognised"),
        "{}",
        good.stdout
    );
    assert_eq!(sandbox.run(["-q", "verify", "d"]).exits(0).stdout, "");
    replace(&bad, "answer 2", "answer X");
    let ran = sandbox.run(["verify", "d"]).exits(1);
    assert!(
        ran.stdout.starts_with("tampered  d/deep/bad.jsonl"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout
            .ends_with(": 1 verified, 1 tampered; 2 files not recognised\n"),
        "{}",
        ran.stdout
    );
    sandbox.write("d/unsigned.json", "{}");
    sandbox.run(["verify", "d"]).exits(1);
    fs::remove_file(&bad).unwrap();
    sandbox.run(["verify", "d"]).exits(3);
}

#[test]
fn nothing_to_verify_is_no_verdict() {
    let sandbox = ready();
    fs::create_dir(sandbox.work().join("empty")).unwrap();
    sandbox
        .run(["verify", "empty"])
        .fails_with("nothing to verify");
    sandbox.write("d/x.bin", [0, 1]);
    sandbox.run(["verify", "d"]).fails_with("nothing to verify");
    sandbox
        .run(["verify", "d/x.bin"])
        .fails_with("unknown format");
    sandbox.run(["verify", "absent"]).fails_with("absent");
    let json = sandbox
        .run(["verify", "absent", "--json"])
        .fails_with("absent")
        .json();
    assert_eq!(json["schema"], "threadseal.verify/1");
    assert_eq!(json["exit"], 2);
    assert_eq!(json["errors"][0]["path"], "absent");
}

#[test]
fn trust_from_inside_the_tree_is_refused_unless_allowed_and_then_told() {
    let sandbox = ready();
    ended_record(&sandbox, "d/t.jsonl", 1);
    sandbox
        .run(["key", "export", "self", "--out", "d/self.pem"])
        .exits(0);
    sandbox
        .run(["verify", "d", "--trust", "d/self.pem"])
        .fails_with("lies inside");
    sandbox
        .run(["verify", "d", "--key", "d/self.pem"])
        .fails_with("lies inside");
    let home = sandbox.home();
    let parent = home.parent().unwrap().to_str().unwrap().to_owned();
    sandbox.run(["verify", &parent]).fails_with("lies inside");
    let allowed = [
        "verify",
        "d",
        "--trust",
        "d/self.pem",
        "--allow-local-trust",
        "--json",
    ];
    let json = sandbox.run(allowed).exits(0).json();
    assert_eq!(json["results"][0]["findings"][0]["code"], "local_trust");
}

#[test]
fn trust_given_on_the_command_line_replaces_the_home() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "d/t.jsonl", 1);
    sandbox
        .run(["key", "export", "self", "--out", "self.pem"])
        .exits(0);
    sandbox.run(["key", "new", "--name", "ann"]).exits(0);
    sandbox
        .run(["key", "export", "ann", "--out", "ann.pem"])
        .exits(0);
    fs::create_dir(sandbox.work().join("keys")).unwrap();
    fs::copy(
        sandbox.work().join("self.pem"),
        sandbox.work().join("keys/self.pem"),
    )
    .unwrap();
    let path = path.to_str().unwrap();
    sandbox.run(["verify", path, "--trust", "ann.pem"]).exits(3);
    sandbox
        .run(["verify", path, "--trust", "ann.pem", "--trust", "self.pem"])
        .exits(0);
    sandbox.run(["verify", path, "--trust", "keys"]).exits(0);
    let store = sandbox.home().join("trust.toml");
    sandbox
        .run(["verify", path, "--trust", store.to_str().unwrap()])
        .exits(0);
    sandbox.write("not.toml", "hello");
    sandbox
        .run(["verify", path, "--trust", "not.toml"])
        .fails_with("not.toml");
    sandbox
        .run(["verify", path, "--trust", "absent.pem"])
        .fails_with("absent.pem");
}

#[test]
fn names_and_records_cannot_fake_our_output() {
    let sandbox = ready();
    let name = "x\u{1b}[2K\nverified  y.json";
    let path = sandbox.write(name, "{\"type\":1}");
    let json_name = sandbox.work().join("z\u{202e}.json");
    fs::write(&json_name, "{}").unwrap();
    for path in [&path, &json_name] {
        let ran = verify(&sandbox, path);
        for printed in [&ran.stdout, &ran.stderr] {
            assert!(
                !printed.contains('\u{1b}') && !printed.contains('\u{202e}'),
                "{printed:?}"
            );
            assert!(!printed.contains("\nverified"), "{printed:?}");
        }
    }
}

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
    let demo = sandbox.run(["demo", "--json"]).exits(0).json();
    let record = format!(
        "{}/records/transcript.jsonl",
        demo["folder"].as_str().unwrap()
    );
    sandbox.run(["verify", &record]).exits(3);
    let key = demo["steps"][0]["report"]["signers"][0]["key"]
        .as_str()
        .unwrap()
        .len();
    assert_eq!(key, 64);
    sandbox.run(["seal", &record]).exits(2);
    sandbox.run(["init"]).exits(0);
}
