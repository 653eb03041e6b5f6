//! `seal`: sealed files, refused files, and two sealers at once.

use crate::prelude::*;
use crate::verify::verify;

// T-TRA-20 T-TRA-21
#[test]
fn a_tail_is_reported_and_sealing_moves_it_aside_or_marks_it_on_request() {
    let sandbox = ready();
    let mut recorder = recorder(&sandbox, "t.jsonl", 1);
    say(&mut recorder, "cognition_in", "not sealed");
    let path = recorder.path().to_owned();
    drop(recorder);
    verify(&sandbox, &path)
        .exits(3)
        .begins_with("unsigned_tail  ");
    let lenient = sandbox.sh(format!("verify {path:?} --policy=lenient"));
    lenient.exits(3).prints("resume may use bytes 0-");
    let before = fs::read(&path).unwrap();
    let moved = sandbox.json("seal t.jsonl");
    let moved = &moved["results"][0];
    let aside = fs::read(sandbox.path(moved["set_aside"]["path"].text()));
    assert!(before.ends_with(&aside.unwrap()), "{moved}");
    moved.is(json!({"set_aside/bytes/1": before.len(), "adopted": Value::Null}));
    let text = read(&path);
    assert!(text.contains("\"tail_dropped\"") && !text.contains("not sealed"));
    verify(&sandbox, &path).exits(0);

    fs::write(&path, [text.as_bytes(), b"{\"torn"].concat()).unwrap();
    sandbox
        .ok("seal t.jsonl --adopt-tail")
        .prints("stay marked as unverified");
    verify(&sandbox, &path).exits(3).begins_with("partial  ");
    sandbox.ok("seal t.jsonl").begins_with("unchanged  ");
    sandbox.write("s.jsonl", "{\"type\":\"user\"}\n");
    for arguments in ["s.jsonl", "t.jsonl --detached"] {
        let seal = format!("seal --adopt-tail {arguments}");
        sandbox.sh(seal).fails_with("is for native records");
    }
}

// T-RYE-03
#[test]
fn a_transcript_that_is_older_than_its_head_is_not_sealed_on_as_ryes() {
    let sandbox = ready();
    let path = rye_events(&sandbox, "t.jsonl", 2);
    let seal = "seal t.jsonl --profile rye";
    let events = read(&path);
    sandbox.ok(seal);
    let once = read(&path);
    let event = events.lines().next().unwrap();
    fs::write(&path, format!("{once}{event}\n")).unwrap();
    sandbox.ok(seal);
    for older in [&events, &once, &format!("{once}{event}\n")] {
        fs::write(&path, older).unwrap();
        sandbox.sh(seal).fails_with("hint: threadseal verify");
        assert_eq!(&read(&path), older);
    }
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
        sandbox.ok(format!("seal --inline {name}"));
        verify(&sandbox, &path).exits(0);
        sandbox.ok(format!("seal {name}")).begins_with("unchanged");
        let first = fs::read(&path).unwrap();
        replace(&path, edit.0, edit.1);
        let ran = verify(&sandbox, &path).exits(1);
        assert!(!ran.stdout.starts_with("verified"), "{}", ran.stdout);
        sandbox.ok(format!("seal {name}"));
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

// T-DOC-05
#[test]
fn a_rewritten_document_is_the_next_version_and_nothing_is_missing() {
    let sandbox = ready();
    let seal = |more: &str| {
        let ran = sandbox.sh(format!("seal a.md --inline --json {more}"));
        let head = &ran.exits(0).json()["results"][0]["head"];
        let mut parts = head.text().split(':').map(str::to_owned);
        (parts.next().unwrap(), parts.next().unwrap())
    };
    sandbox.write("a.md", "be kind\n");
    let (record, _) = seal("");
    sandbox.write("a.md", "be very kind\n");
    assert_eq!(seal(""), (record.clone(), "1".to_owned()));
    sandbox.ok("verify --all");
    // The seal of another key there is its own, and a pruned document is not continued.
    sandbox.ok("key new --name ann");
    sandbox.write("a.md", "be kind to all\n");
    let (other, number) = seal("--key ann");
    assert!(other != record && number == "0", "{other}:{number}");
    sandbox.sealed("b.md", "text\n");
    sandbox.ok("prune --yes b.md");
    sandbox.sealed("b.md", "another text\n");
    verify(&sandbox, &sandbox.path("b.md")).exits(0);
}

/// Record and number of the head in the output of `seal --json`.
fn sealed_as(sandbox: &Sandbox, name: &str) -> (String, u64) {
    let head = &sandbox.json(format!("seal --inline {name}"))["results"][0]["head"];
    let mut parts = head.text().split(':').map(str::to_owned);
    let record = parts.next().unwrap();
    (record, parts.next().unwrap().parse().unwrap())
}

// T-DOC-10
#[test]
fn a_document_whose_beginning_changes_is_sealed_without_end_and_each_number_once() {
    let sandbox = ready();
    let path = sandbox.path("a.md");
    let text = |version: u64| format!("title {version}\nbody\nend {version}\n");
    let mut versions = Vec::new();
    for version in 0..40 {
        sandbox.write("a.md", text(version));
        versions.push(sealed_as(&sandbox, "a.md"));
    }
    let record = &versions[0].0;
    let numbers: Vec<u64> = versions.iter().map(|version| version.1).collect();
    assert_eq!(numbers, (0..40).collect::<Vec<u64>>());
    assert!(versions.iter().all(|version| version.0 == *record));
    verify(&sandbox, &path).exits(0);
    // Without its seal, no version passes for a document that was never sealed.
    for version in [0, 39] {
        sandbox.write("a.md", text(version));
        verify(&sandbox, &path).exits(1);
    }
}

// T-DOC-10
#[test]
fn a_document_ahead_of_its_known_head_gets_no_number_twice_and_its_head_is_published() {
    let sandbox = Sandbox::new();
    sandbox.ok("init --no-log");
    sandbox.sealed("a.md", "first\nbody\n");
    let path = sandbox.path("a.md");
    let first = fs::read(&path).unwrap();
    let heads = set_aside(&sandbox.home().join("heads"));
    replace(&path, "first", "second");
    assert_eq!(sealed_as(&sandbox, "a.md").1, 1);
    let second = fs::read(&path).unwrap();
    // The process was killed before it published head 1, and the file was edited again.
    put_back(&heads, &sandbox.home().join("heads"));
    replace(&path, "second", "third");
    assert_eq!(sealed_as(&sandbox, "a.md").1, 2);
    fs::write(&path, &second).unwrap();
    verify(&sandbox, &path).exits(1).begins_with("rolled_back");
    // Without an edit, the next `seal` publishes the head.
    put_back(&heads, &sandbox.home().join("heads"));
    verify(&sandbox, &path).exits(0);
    sandbox.ok("seal a.md").begins_with("unchanged");
    verify(&sandbox, &path).exits(0);
    fs::write(&path, &first).unwrap();
    verify(&sandbox, &path).exits(1).begins_with("rolled_back");
    // A number that is far ahead is no number of this home.
    fs::write(&path, &second).unwrap();
    let text = read(&path).replacen("-1-2", "-900000-2", 1);
    fs::write(&path, text.replace("second", "fourth")).unwrap();
    sandbox.sh("seal a.md").fails_with("hint: remove the seal");
}

// T-CMD-19
#[test]
fn a_document_that_is_newer_than_the_log_fails_no_check() {
    let sandbox = ready();
    sandbox.sealed("a.md", "first\nbody\n");
    let path = sandbox.path("a.md");
    let before = sandbox.home().with_file_name("before");
    copy(&sandbox.home(), &before);
    replace(&path, "first", "second");
    sandbox.ok("seal a.md");
    let ran = sandbox.in_home(&before, "verify a.md --json");
    let report = &ran.exits(0).json()["results"][0];
    let checks = report["checks"].list();
    let log = checks.iter().find(|check| check["name"] == "log").unwrap();
    assert_eq!(log["result"], "skipped", "{report}");
    assert!(log["why"].text().contains("a newer version"), "{report}");
}

// T-DOC-06
#[test]
fn another_keys_document_seal_is_not_taken_away() {
    let sandbox = ready();
    sandbox.ok("key new --name ann");
    sandbox.write("a.md", "text\n");
    sandbox.ok("seal a.md --key ann");
    sandbox.sh("seal a.md").fails_with("another key");
    sandbox
        .sh("seal a.md --key self-rye")
        .fails_with("is for rye records");
}

// T-TRA-31
#[test]
fn of_several_sealers_of_one_document_one_seals_and_the_others_find_it_sealed() {
    let sandbox = ready();
    for round in 0..8 {
        let name = format!("{round}.md");
        let path = sandbox.write(&name, "text\n");
        let seal = || {
            let mut command = sandbox.command();
            command.args(["seal", &name]).stdout(Stdio::piped());
            command.spawn().unwrap()
        };
        let sealers: Vec<Child> = (0..4).map(|_| seal()).collect();
        let said = sealers
            .into_iter()
            .map(|sealer| Ran::of(sealer.wait_with_output().unwrap()).exits(0).stdout);
        let sealed = said.filter(|line| line.starts_with("sealed  ")).count();
        assert_eq!(sealed, 1, "in round {round}");
        verify(&sandbox, &path).exits(0);
    }
}

// T-OBS-03
#[test]
fn a_native_record_is_not_sealed_beside_because_it_carries_its_own_seals() {
    let sandbox = ready();
    ended_record(&sandbox, "t.jsonl", 1);
    sandbox
        .sh("seal --detached t.jsonl")
        .fails_with("contains its own seals");
}

// T-OBS-03
#[test]
fn what_carries_its_own_seals_may_be_sealed_beside_while_they_are_there() {
    let sandbox = ready();
    let transcript = rye_events(&sandbox, "r.jsonl", 1);
    sandbox.ok("seal r.jsonl --profile rye");
    let document = sandbox.write("d.md", "# Title\n\ntext\n");
    sandbox.ok("seal --inline d.md");
    let sealed = [&transcript, &document].map(|path| fs::read(path).unwrap());
    sandbox.ok("seal --detached r.jsonl d.md");
    for path in [&transcript, &document] {
        verify(&sandbox, path).exits(0);
    }
    for name in ["r.jsonl.seal", "d.md.seal"] {
        fs::remove_file(sandbox.path(name)).unwrap();
    }
    // Files whose seals were removed are not sealed over.
    for (path, bytes) in [(&transcript, &sealed[0]), (&document, &sealed[1])] {
        let text = String::from_utf8(bytes.clone()).unwrap();
        let kept = text
            .split_inclusive('\n')
            .filter(|line| !line.contains("checkpoint") && !line.contains("threadseal:signed:"));
        fs::write(path, kept.collect::<String>()).unwrap();
        sandbox
            .sh(format!("seal --detached {path:?}"))
            .refuses_with("seals are gone");
    }
}

// T-DOC-07
#[test]
fn a_member_that_only_has_the_name_of_a_seal_is_not_overwritten() {
    let sandbox = ready();
    for text in [
        r#"{"a": 1, "\u005fthreadseal": "threadseal:signed:x"}"#,
        r#"{"a": 1, "\u005fthreadseal": {"mine": true}}"#,
        r#"{"a": 1, "_threadseal": {"mine": true}}"#,
        r#"{"a": 1, "_threadseal": "\u0074hreadseal:signed:x"}"#,
        r#"{"a": 1, "_threadseal": null}"#,
    ] {
        let path = sandbox.write("a.json", text);
        sandbox
            .sh(format!("seal {path:?}"))
            .fails_with("the member `_threadseal` is no seal");
        sandbox.exits(2, format!("seal {path:?} --profile rye"));
        assert_eq!(read(&path), text);
    }
    // A seal that was damaged is replaced by the next one, as before.
    sandbox.sealed("b.json", "{\"a\": 1}\n");
    let sealed = sandbox.read("b.json");
    sandbox.write("b.json", sealed.replace("\"a\": 1", "\"a\": 2"));
    sandbox.ok("seal b.json");
    sandbox.ok("verify b.json");
}

// T-RYE-24
#[test]
fn a_blank_before_a_checkpoint_of_rye_is_named_under_every_profile() {
    let sandbox = ready();
    let path = rye_events(&sandbox, "t.jsonl", 1);
    sandbox.ok("seal t.jsonl --profile rye");
    sandbox.ok("verify t.jsonl");
    let mut all = lines(&path);
    let last = all.pop().unwrap();
    let at = all.concat().len();
    let changed = format!("{} {last}", all.concat());
    while_it_holds(&path, changed, || {
        let elsewhere = Sandbox::new();
        let key = sandbox.key("self-rye")["did"].text().to_owned();
        for profile in ["auto", "rye"] {
            let judge = format!("verify {path:?} --profile {profile} --key {key}");
            let report = elsewhere.report(judge);
            assert_eq!(report["verdict"], "partial", "{profile}: {report:#}");
            let finding = report["findings"].item("code", "spelling_uncovered");
            assert_eq!(finding["bytes"], json!([at, at + 1]));
        }
        assert_ne!(sandbox.sh("verify t.jsonl").code, 0);
    });
}

// T-OBS-52
#[test]
fn an_unended_last_line_is_named_and_what_has_no_lines_is_sealed_whole() {
    let sandbox = ready();
    sandbox.write("log.jsonl", "{\"a\":1}\n{\"b\"");
    for action in ["sealed", "unchanged"] {
        let ran = sandbox.ok("seal log.jsonl");
        ran.stdout
            .has(action)
            .has("bytes 8-12, an unended last line");
    }
    sandbox.exits(3, "seal log.jsonl --require-complete");
    for (name, content) in [("x.eval", "PK\u{3}\u{4}ab"), ("p.txt", "{\n \"a\": 1\n}")] {
        let path = sandbox.write(name, content);
        sandbox
            .ok(format!("seal --detached {name} --require-complete"))
            .prints("not made of lines");
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, bytes).unwrap();
        sandbox
            .exits(1, format!("verify {name}"))
            .prints("tampered");
    }
}
