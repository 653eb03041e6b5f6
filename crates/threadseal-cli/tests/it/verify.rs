//! `verify` and `seal`: from bytes to exit codes. Transcripts are here, other kinds in the
//! submodules.

mod dates;
mod documents;
mod folders;
mod known;
mod logs;
mod passed_over;
mod seal_log;

use crate::prelude::*;

/// A home on another host that trusts only the native and observed keys of `sandbox`.
fn stranger_who_trusts(sandbox: &Sandbox) -> Sandbox {
    let other = Sandbox::new();
    for name in ["self", "self-rye", "self-observed"] {
        let key = sandbox.ok(format!("key show {name} --format hex"));
        let usage = match name {
            "self" => "native",
            "self-rye" => "rye",
            _ => "observed",
        };
        other.ok(format!(
            "trust add {} --name {name} --usage {usage}",
            key.stdout.trim()
        ));
    }
    other
}

pub(crate) fn verify(sandbox: &Sandbox, path: &Path) -> Ran {
    sandbox.sh(format!("verify {path:?}"))
}

#[test]
fn an_ended_record_is_verified_here_and_elsewhere() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "t.jsonl", 3);
    verify(&sandbox, &path)
        .exits(0)
        .begins_with("verified  ")
        .warns_nothing();
    verify(&stranger_who_trusts(&sandbox), &path).exits(0);
    verify(&ready(), &path).exits(3);
    verify(&Sandbox::new(), &path).exits(3);
}

#[test]
fn an_open_record_is_verified_only_where_its_head_is_known() {
    let sandbox = ready();
    let path = open_record(&sandbox, "t.jsonl", 2);
    verify(&sandbox, &path).exits(0);
    verify(&stranger_who_trusts(&sandbox), &path)
        .exits(3)
        .begins_with("open  ");
}

#[test]
fn a_changed_event_is_named_with_its_turn_and_the_safe_point_before_it() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "t.jsonl", 5);
    replace(&path, "answer 3", "answer X");
    let ran = verify(&sandbox, &path).exits(1).begins_with("tampered  ");
    for part in [
        "turn 2 (line 10",
        "do not resume from later bytes",
        "not checked",
        "signed by",
    ] {
        ran.stdout.has(part);
    }
    let json = sandbox.exits(1, format!("verify {path:?} --json")).json();
    json.is(json!({"schema": "threadseal.verify/1", "summary/tampered": 1}));
    let report = &json["results"][0];
    report.is(json!({"verdict": "tampered", "trusted_until/turn": 2}));
    assert!(!report["findings"].list().is_empty());
    assert!(!report["checks"].list().is_empty());
}

// T-TRA-23
#[test]
fn a_record_cut_back_to_an_earlier_seal_is_noticed_on_its_host() {
    let sandbox = ready();
    let path = open_record(&sandbox, "t.jsonl", 3);
    let text = read(&path);
    let keep: Vec<&str> = text.split_inclusive('\n').take(6).collect();
    fs::write(&path, keep.concat()).unwrap();
    verify(&sandbox, &path)
        .exits(1)
        .begins_with("rolled_back  ");
    verify(&stranger_who_trusts(&sandbox), &path).exits(3);
}

// T-TRA-11 T-TRA-25
#[test]
fn expected_heads_and_threads_are_held_against_the_record() {
    let sandbox = ready();
    let mut first = recorder(&sandbox, "t.jsonl", 2);
    let early = first.state().head().unwrap().to_string();
    let late = {
        say(&mut first, "cognition_in", "more");
        first.seal(3, Ext::default()).unwrap().to_string()
    };
    let other = recorder(&sandbox, "u.jsonl", 1)
        .state()
        .head()
        .unwrap()
        .to_string();
    drop(first);
    let other_host = stranger_who_trusts(&sandbox);
    let path = sandbox.path("t.jsonl");
    let ask = |more: &str| {
        let arguments = format!("verify {path:?} {more}");
        other_host.sh(arguments)
    };
    ask(&format!("--expect-head {late}")).exits(0);
    ask(&format!("--expect-head {late} --exact-head")).exits(0);
    ask(&format!("--expect-head {early}")).exits(0);
    ask(&format!("--expect-head {early} --exact-head")).exits(3);
    ask(&format!("--expect-head {other}")).exits(1);
    ask("--thread demo/thread-1").exits(3);
    ask("--thread demo/thread-2").exits(1);
    ask("--expect-head abc").exits(2);
    ask("--exact-head").exits(2);
}

// T-TRA-09
#[test]
fn with_a_pinned_key_any_other_signer_is_unknown() {
    let sandbox = ready();
    sandbox.ok("key new --name ann");
    sandbox.ok("key export ann --out ann.pem");
    let path = ended_record(&sandbox, "t.jsonl", 1);
    let ask = |key: &str| sandbox.sh(format!("verify {path:?} --key {key}"));
    ask("self").exits(0);
    let hex = sandbox.sh("key show self --format hex").stdout;
    let did = sandbox.sh("key show self --format did").stdout;
    ask(hex.trim()).exits(0);
    ask(did.trim()).exits(0);
    ask("ann.pem")
        .exits(3)
        .begins_with("unknown_signer  ")
        .prints("[other_signer]");
    ask("ann.pem --key self").exits(0);
    ask("nobody").fails_with("is not a key");
}

// T-KEY-01
#[test]
fn a_revoked_key_counts_only_for_what_this_host_held_before() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "t.jsonl", 1);
    sandbox.sealed("d.json", "{\"a\":1}\n");
    let document = sandbox.path("d.json");
    sandbox.ok("trust revoke self --at 2999-01-01");
    let other = stranger_who_trusts(&sandbox);
    other.ok("trust revoke self");
    for path in [path, document] {
        verify(&sandbox, &path).exits(0);
        verify(&other, &path).exits(1).begins_with("forged  ");
    }
}

// T-TRA-05
#[test]
fn a_native_record_that_lost_all_its_seals_is_noticed() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "t.jsonl", 3);
    let text = read(&path);
    let events = text
        .split_inclusive('\n')
        .filter(|l| !l.contains("\"checkpoint\""));
    let stripped: String = events.clone().collect();
    fs::write(&path, stripped).unwrap();
    verify(&sandbox, &path).exits(1);
    verify(&stranger_who_trusts(&sandbox), &path).exits(1);
    let headless: String = events.skip(1).collect();
    fs::write(&path, headless).unwrap();
    verify(&sandbox, &path).exits(1).prints("seals are gone");
}

// T-TRA-04
#[test]
fn in_a_native_record_a_checkpoint_without_a_seal_counts_under_no_profile() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "t.jsonl", 1);
    let native = read(&path);
    // Without its seal, the last checkpoint is one that Rye's own verifier accepts.
    let (kept, seal) = native.rsplit_once(",\"seal\":").unwrap();
    assert!(seal.ends_with("\"}}}\n"));
    fs::write(&path, format!("{kept}}}}}\n")).unwrap();
    for profile in ["auto", "native", "rye"] {
        let ran = sandbox.sh(format!("verify t.jsonl --profile {profile} --json"));
        let report = ran.exits(1).json()["results"][0].clone();
        assert_eq!(report["profile"], "native", "{profile}: {report}");
        assert_eq!(report["verdict"], "tampered", "{profile}: {report}");
    }
    fs::write(&path, &native).unwrap();
    sandbox.ok("verify t.jsonl --profile rye");
}

#[test]
fn lines_after_the_end_of_a_record_are_reported() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "r.jsonl", 1);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(b"{\"more\":1}\n");
    fs::write(&path, bytes).unwrap();
    sandbox
        .exits(3, "verify r.jsonl")
        .prints("the record had ended")
        .omits("normal while a thread runs");
}

#[test]
fn a_known_head_after_the_first_bad_place_proves_nothing() {
    let sandbox = ready();
    drop(recorder(&sandbox, "r.jsonl", 3));
    sandbox.sealed("log.jsonl", "{\"a\":1}\n{\"a\":2}\n");
    for (path, old, new) in [
        ("r.jsonl", "question 1", "question 9"),
        ("log.jsonl", "\"a\":1", "\"a\":9"),
    ] {
        let place = sandbox.path(path);
        let text = read(&place);
        fs::write(&place, text.replacen(old, new, 1)).unwrap();
        let told = sandbox.exits(1, format!("verify {path} --json")).json();
        let report = &told["results"][0];
        assert_eq!(report["completeness"], "unproved", "{report}");
        let head = report["checks"].item("name", "head");
        // All detached seals of the log are present.
        let expected = if path == "r.jsonl" { "skipped" } else { "pass" };
        assert_eq!(head["result"], expected, "{report}");
    }
}

// T-OBS-13
#[test]
fn a_record_that_is_not_there_is_no_other_kind_of_record() {
    let sandbox = ready();
    sandbox.write("a.log", "{\"text\":\"a\"}\n");
    sandbox.ok("seal --detached a.log");
    let step = "{\"node\":\"n\",\"result\":{\"text\":\"t\"}}\n";
    let append = "ledger append file:runs --run r1 --sign";
    piped(&sandbox, append, step).exits(0);
    sandbox.ok("ledger sign runs/ledger_r1.jsonl");
    for (gone, named) in [("a.log", "a.log.seal"), ("runs/ledger_r1.jsonl", "runs")] {
        fs::remove_file(sandbox.path(gone)).unwrap();
        let report = sandbox.report(format!("verify {named}"));
        assert_eq!(report["verdict"], "missing", "{gone}: {report:#}");
        let log = report["checks"].item("name", "log");
        log["why"].text().has("the record is not here");
    }
}

// T-CMD-23
#[test]
fn a_report_for_people_names_each_record_and_is_never_written_over_a_file() {
    let sandbox = ready();
    fs::create_dir(sandbox.path("runs")).unwrap();
    ended_record(&sandbox, "runs/<b>good<b>.jsonl", 2);
    let bad = ended_record(&sandbox, "runs/bad.jsonl", 2);
    let text = read(&bad).replacen("thread_started", "thread_Started", 1);
    fs::write(&bad, text).unwrap();
    for ending in ["html", "md"] {
        let verify = format!("verify runs --list --report out.{ending}");
        let ran = sandbox.exits(1, &verify);
        ran.stdout
            .has("verified  runs/<b>good<b>.jsonl")
            .has("  runs/bad.jsonl");
        let page = read(sandbox.path(format!("out.{ending}")));
        page.has("1 verified").has("runs").lacks("<b>");
        sandbox.exits(1, &verify).warns(&format!("out.{ending}"));
        assert_eq!(read(sandbox.path(format!("out.{ending}"))), page);
    }
    sandbox
        .exits(1, "verify runs --report out.pdf")
        .warns("ends in .html or .md");
}

// T-CMD-24
#[test]
fn a_refusal_names_turn_bytes_and_code_and_has_the_report() {
    let sandbox = ready();
    let path = open_record(&sandbox, "t.jsonl", 2);
    let mut bytes = fs::read(&path).unwrap();
    let event = memchr::memchr_iter(b'\n', &bytes).nth(2).unwrap() - 5;
    bytes[event] ^= 1;
    fs::write(&path, &bytes).unwrap();
    sandbox
        .sh("seal t.jsonl")
        .refuses_with("turn 1, bytes ")
        .warns("]");
    let prune = sandbox.exits(1, "transcript head t.jsonl --json").json();
    assert_eq!(prune["success"], false, "{prune}");
    assert_eq!(prune["exit"], 1);
    let code = prune["code"].text();
    assert_eq!(prune["report"]["findings"][0]["code"].text(), code);
}

// T-CMD-24
#[test]
fn no_command_seals_over_a_changed_log_and_each_shows_the_evidence() {
    let sandbox = ready();
    let session = sandbox.path("s.jsonl");
    let line = |number: u32, text: &str| {
        let line = json!({"type": "user", "uuid": format!("u{number}"), "parentUuid": null, "isSidechain": false,
            "sessionId": "s", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/w",
            "message": {"role": "user", "content": text}});
        format!("{line}\n")
    };
    fs::write(&session, line(1, "Run the tests") + &line(2, "And now?")).unwrap();
    sandbox.ok("seal s.jsonl");
    let changed = line(1, "Run no tests") + &line(2, "And now?") + &line(3, "More");
    fs::write(&session, changed).unwrap();
    for (command, list) in [
        ("seal s.jsonl --json", "errors"),
        ("archive add s.jsonl --json", "refused"),
    ] {
        let ran = sandbox.exits(1, command);
        let output = ran.json();
        let refused = &output[list][0];
        let code = refused["code"].text();
        assert_eq!(refused["report"]["verdict"], "tampered", "{command}");
        assert_eq!(output["code"].text(), code, "{command}");
        ran.warns(&format!("[{code}]")).warns("bytes ");
    }
    fs::create_dir(sandbox.path("logs")).unwrap();
    for name in ["s.jsonl", "s.jsonl.seal"] {
        fs::rename(sandbox.path(name), sandbox.path("logs").join(name)).unwrap();
    }
    sandbox
        .exits(1, "watch logs --once")
        .warns("[line_changed]");
}
