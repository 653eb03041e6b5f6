//! Documents, and the answer under each profile.

use super::{replace, stranger_who_trusts, verify};
use crate::prelude::*;

#[test]
fn ryes_formats_are_written_and_read() {
    let sandbox = ready();
    let path = rye_events(&sandbox, "t.jsonl", 2);
    verify(&sandbox, &path).exits(3);
    sandbox.ok("seal t.jsonl --profile rye");
    sandbox
        .ok("seal t.jsonl --profile rye")
        .begins_with("unchanged");
    verify(&sandbox, &path).exits(0);
    // A format without an end mark: verified, with completeness unproved.
    verify(&stranger_who_trusts(&sandbox), &path)
        .exits(0)
        .prints("unproved");
    let text = read(&path);
    let unsealed: String = text.split_inclusive('\n').take(4).collect();
    fs::write(&path, unsealed).unwrap();
    verify(&sandbox, &path).exits(1);
    fs::write(&path, text).unwrap();
    replace(&path, "answer 1", "answer X");
    verify(&sandbox, &path).exits(1).begins_with("tampered  ");
    for (name, text) in [("a.json", "{\"a\": 1}\n"), ("a.py", "print(1)\n")] {
        let path = sandbox.write(name, text);
        sandbox.ok(format!("seal {name} --profile rye"));
        sandbox.ok(format!("verify {path:?} --profile rye"));
    }
}

#[test]
fn each_profile_answers_for_its_own_claim_only() {
    let sandbox = ready();
    rye_events(&sandbox, "t.jsonl", 2);
    let ask = |profile: &str| sandbox.sh(format!("verify t.jsonl --profile {profile}"));
    for profile in ["auto", "native", "rye", "observed"] {
        assert!(
            ask(profile).exits(3).stdout.starts_with("unsigned  "),
            "{profile}"
        );
    }
    sandbox.ok("seal t.jsonl");
    ask("auto").exits(0);
    ask("observed").exits(0);
    ask("rye").exits(3);
    sandbox.ok("seal t.jsonl --profile rye");
    ask("native").exits(3);
    ask("rye").exits(0);
    // The checkpoint was added after the detached seal: the one claim is valid, the other has a
    // tail.
    let both = sandbox.exits(3, "verify t.jsonl --json").json();
    let verdict = |n: usize| both["results"][n]["verdict"].text().to_owned();
    assert_eq!(
        (verdict(0), verdict(1)),
        ("unsigned_tail".to_owned(), "verified".to_owned())
    );
    sandbox.ok("seal t.jsonl");
    ask("auto").exits(0);
    let text = sandbox.read("t.jsonl");
    sandbox.write("t.jsonl", text.replace("answer 1", "answer X"));
    for profile in ["auto", "rye", "observed"] {
        ask(profile).exits(1);
    }
}

#[test]
fn json_carries_what_the_original_would_have_answered() {
    let sandbox = ready();
    let path = rye_events(&sandbox, "t.jsonl", 1);
    sandbox.ok("seal t.jsonl --profile rye");
    let text = read(&path);
    sandbox.write("t.jsonl", format!("{text}{{\"event_type\": \"x\"}}\n"));
    let json = sandbox.sh("verify t.jsonl --json").json();
    let rye = &json["results"][0]["compat"]["rye"];
    rye.is(json!({"strict/valid": false, "lenient/valid": true, "strict/unsigned_bytes": 20}));
}

// T-CMD-07
#[test]
fn a_sealed_text_without_a_telling_name_stays_in_sight_whatever_is_added() {
    let sandbox = ready();
    let path = sandbox.write("d/run.sh", "#!/bin/sh\necho ok\n");
    sandbox.ok("seal --inline d/run.sh");
    let sealed = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let much = "# more\n".repeat(100_000).into_bytes();
    for (before, behind) in [(&b""[..], &much[..]), (&much, b""), (&much, &much)] {
        sandbox.write("d/run", [before, &sealed, behind].concat());
        sandbox.exits(1, "verify d").begins_with("tampered  d/run");
    }
    // The seal is gone completely, but this host knows that there was one.
    sandbox.write("d/run.sh", "#!/bin/sh\necho ok\necho more\n");
    fs::remove_file(sandbox.path("d/run")).unwrap();
    sandbox.exits(1, "verify d").prints("seals_gone");
}

// T-CMD-07
#[test]
fn a_log_of_any_name_whose_seals_were_deleted_is_noticed_in_a_folder() {
    let sandbox = ready();
    sandbox.write("d/agent.log", "started\nran\n");
    sandbox.ok("seal --detached d/agent.log");
    sandbox.ok("verify d");
    fs::remove_file(sandbox.path("d/agent.log.seal")).unwrap();
    sandbox.exits(1, "verify d").prints("seals_gone");
}

// T-DOC-03
#[test]
fn an_expected_head_is_held_against_the_record_that_it_is_of() {
    let sandbox = ready();
    sandbox.write("d.md", "text\n");
    let mut heads = Vec::new();
    for arguments in ["seal --inline d.md", "seal --detached d.md"] {
        let sealed = sandbox.ok(format!("{arguments} --json"));
        let head = sealed.json()["results"][0]["head"].text().to_owned();
        heads.push(head);
    }
    for head in &heads {
        let digest = head.rsplit(':').next().unwrap();
        for expected in [head, digest] {
            sandbox.ok(format!("verify d.md --expect-head {expected:?}"));
        }
    }
    // A head of neither document is missing from both.
    let other = heads[0].replacen(|c: char| c.is_ascii_hexdigit(), "", 1);
    let other = format!(
        "{}{other}",
        if heads[0].starts_with('0') { 'f' } else { '0' }
    );
    let ran = sandbox.exits(1, format!("verify d.md --expect-head {other} --json"));
    let results = ran.json()["results"].clone();
    for result in results.list() {
        assert_eq!(result["verdict"], "foreign", "{results}");
    }
}

// T-DOC-08
#[test]
fn a_seal_beside_a_document_leaves_it_as_it_is_and_covers_all_of_it() {
    for (name, text, other) in [
        ("plan.json", "{\"n\": 1}\n", "{\"n\": 2}\n"),
        ("run.py", "print(1)\n", "print(2)\n"),
        ("notes.md", "# One\n", "# Two\n"),
    ] {
        let sandbox = ready();
        let path = sandbox.write(name, text);
        sandbox.ok(format!("seal {name}"));
        assert_eq!(read(&path), text, "{name}");
        let seal = sandbox.path(format!("{name}.seal"));
        let report = sandbox.report(format!("verify {name}"));
        report.is(json!({"verdict": "verified", "profile": "native", "completeness": "head"}));
        sandbox.exits(0, "verify .");
        sandbox.exits(0, format!("verify {name}.seal"));
        sandbox.ok(format!("seal {name}")).prints("unchanged");

        // An edit is evidence until the owner seals it as the next version.
        let first = fs::read(&seal).unwrap();
        sandbox.write(name, other);
        sandbox.exits(1, format!("verify {name}"));
        sandbox.ok(format!("seal {name}"));
        sandbox.exits(0, format!("verify {name}"));
        let second = fs::read(&seal).unwrap();
        sandbox.write(name, text);
        fs::write(&seal, &first).unwrap();
        let older = sandbox.report(format!("verify {name}"));
        assert_eq!(older["verdict"], "rolled_back", "{name}");
        sandbox.write(name, other);
        sandbox.exits(1, format!("verify {name}"));

        // A seal that is gone or spoilt.
        fs::remove_file(&seal).unwrap();
        sandbox.exits(1, format!("verify {name}"));
        fs::write(&seal, &second[..second.len() - 1]).unwrap();
        sandbox.exits(1, format!("verify {name}"));
        fs::write(&seal, &second).unwrap();
        sandbox.exits(0, format!("verify {name}"));
        fs::remove_file(&path).unwrap();
        sandbox.exits(2, format!("verify {name}"));
        sandbox.exits(1, format!("verify {name}.seal"));
        sandbox.exits(1, "verify .");
    }
}

// T-DOC-09
#[test]
fn a_document_that_is_moved_or_copied_is_found_by_its_seal() {
    let sandbox = ready();
    sandbox.write("a.md", "# One\n");
    sandbox.ok("seal a.md");
    let (from, seal) = (sandbox.path("a.md"), sandbox.path("a.md.seal"));
    // Both, into a folder.
    fs::create_dir(sandbox.path("d")).unwrap();
    fs::rename(&from, sandbox.path("d/b.md")).unwrap();
    fs::rename(&seal, sandbox.path("d/b.md.seal")).unwrap();
    sandbox.exits(0, "verify d/b.md");
    sandbox.exits(0, "verify .");
    // The document alone.
    fs::rename(sandbox.path("d/b.md.seal"), &seal).unwrap();
    let report = sandbox.report("verify d/b.md");
    assert_eq!(report["verdict"], "verified");
    report.codes().has("seals_elsewhere");
    sandbox.exits(0, "verify .");
    sandbox.exits(0, "verify a.md.seal");
    sandbox.write("d/b.md", "# Two\n");
    sandbox.exits(1, "verify .");
    sandbox.write("d/b.md", "# One\n");
    // A stranger's seal over the same content proves nothing here.
    sandbox.exits(0, "verify d/b.md");
    let stranger = ready();
    stranger.write("d/b.md", "# One\n");
    stranger.ok("seal d/b.md");
    fs::copy(stranger.path("d/b.md.seal"), sandbox.path("d/b.md.seal")).unwrap();
    sandbox.exits(3, "verify d/b.md");
}

// T-OBS-03
#[test]
fn the_seal_of_a_document_replaces_no_seals_of_a_log() {
    let (sandbox, stranger) = (ready(), ready());
    let lines = "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n";
    sandbox.write("y.jsonl", lines);
    sandbox.ok("seal y.jsonl");
    let edited = lines.replace('3', "9");
    stranger.write("y.md", &edited);
    stranger.ok("seal y.md");
    sandbox.write("y.jsonl", &edited);
    fs::copy(stranger.path("y.md.seal"), sandbox.path("y.jsonl.seal")).unwrap();
    let report = sandbox.report("verify y.jsonl");
    assert_eq!(report["verdict"], "tampered");
    sandbox.exits(1, "verify .");
    sandbox.exits(1, "seal y.jsonl");
}

#[test]
fn the_seal_of_a_document_is_in_it_on_request_and_in_a_project() {
    let sandbox = ready();
    sandbox.write("a.json", "{\"n\":1}\n");
    sandbox.ok("seal --inline a.json");
    assert!(!sandbox.path("a.json.seal").exists());
    sandbox.read("a.json").has("_threadseal");
    replace(sandbox.path("a.json"), "\"n\":1", "\"n\":2");
    sandbox.ok("seal a.json");
    assert!(!sandbox.path("a.json.seal").exists());
    sandbox.write("p/.ai/tools/run.py", "print(1)\n");
    sandbox.ok("seal p/.ai/tools/run.py");
    sandbox.read("p/.ai/tools/run.py").has("threadseal:signed:");
    // What was sealed as a log continues as one.
    sandbox.write("b.md", "# One\n");
    sandbox.ok("seal --detached b.md");
    fs::write(sandbox.path("b.md"), "# One\nmore\n").unwrap();
    sandbox.ok("seal b.md");
    assert_eq!(sandbox.report("verify b.md")["profile"], "observed");
    sandbox.write("c.md", "# One\n");
    sandbox.ok("seal c.md");
    sandbox.exits(2, "seal --inline c.md").warns("beside it");
    sandbox.exits(2, "seal --detached c.md");
    sandbox.write("c.log", "one\n");
    sandbox
        .exits(2, "seal --inline c.log")
        .warns("--inline is for");
}
