//! Scrolls on the command line: sealed, verified, cut, converted, written live, and the official
//! vectors of agent-scroll.

use crate::prelude::*;
use std::io::ErrorKind;

pub(crate) fn turn(number: u64, text: &str) -> String {
    format!(
        r#"{{"version":"scroll/0.1","turn":{number},"role":"user","model":{{"vendor":"v","id":"m"}},"params":{{"temperature":1.0,"top_p":1}},"messages":[{{"role":"user","content":"{text}"}}],"timestamp_ns":1700000000000000000}}"#
    )
}

pub(crate) fn turns(count: u64) -> String {
    let all: Vec<String> = (0..count).map(|number| turn(number, "hi")).collect();
    format!("[{}]", all.join(",\n"))
}

/// Runs with `input` on standard input.
pub(crate) fn piped(sandbox: &Sandbox, arguments: &str, input: &str) -> Ran {
    let mut child = sandbox
        .command()
        .args(words(arguments))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    match child.stdin.take().unwrap().write_all(input.as_bytes()) {
        // A command that refuses its arguments ends before it reads any input.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        written => written.unwrap(),
    }
    Ran::of(child.wait_with_output().unwrap())
}

/// A scroll of `count` turns signed by the home's own key.
pub(crate) fn signed(sandbox: &Sandbox, name: &str, count: u64) -> String {
    let input = turns(count);
    let path = sandbox.path(name);
    let path = path.to_str().unwrap();
    let arguments = format!("scroll seal --key self-scroll --out {path:?}");
    piped(sandbox, &arguments, &input).exits(0);
    path.to_owned()
}

pub(crate) fn verdict(ran: &Ran) -> String {
    let report = &ran.json()["results"][0];
    assert_eq!(report["format"], "scroll");
    report["verdict"].text().to_owned()
}

#[test]
fn the_reference_commands_work_on_the_standard_streams() {
    let sandbox = Sandbox::new();
    let canon = piped(&sandbox, "scroll canon", "{\"b\": 1.0, \"a\": \"\\u00e9\"}").exits(0);
    assert_eq!(canon.stdout, "{\"a\":\"é\",\"b\":1}");
    let seed = "01".repeat(32);
    let sealed = piped(&sandbox, &format!("scroll seal --key {seed}"), &turns(2)).exits(0);
    let key = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c";
    let compat = format!("scroll verify --compat --pubkey {key}");
    let ran = piped(&sandbox, &compat, &sealed.stdout).exits(0);
    assert_eq!(ran.stdout, "ok\n");
    ran.stderr.has("warning");
    let did = "did:key:z6Mkon3Necd6NkkyfoGoHxid2znGc59LU3K7mubaRcFbLfLX";
    let by_did = format!("scroll verify --key {did} --json");
    let ran = piped(&sandbox, &by_did, &sealed.stdout).exits(0);
    assert_eq!(ran.json()["results"][0]["signers"][0]["did"], did);
    let changed = sealed.stdout.replacen("\"hi\"", "\"ho\"", 1);
    let ran = piped(&sandbox, &compat, &changed).exits(1);
    assert_eq!(ran.stdout, "");
    assert!(
        ran.stderr.ends_with("\nturn 0: BadHash\n"),
        "{}",
        ran.stderr
    );
    let strict = format!("scroll verify --key {key} --json");
    let ran = piped(&sandbox, &strict, &sealed.stdout).exits(0);
    assert_eq!(verdict(&ran), "verified");
    let unsigned = piped(&sandbox, "scroll seal", &turns(2)).exits(0);
    piped(&sandbox, &compat, &unsigned.stdout).exits(0);
    let ran = piped(&sandbox, &strict, &unsigned.stdout).exits(1);
    assert_eq!(verdict(&ran), "tampered");
    let ran = piped(&sandbox, "scroll verify --json", &unsigned.stdout).exits(3);
    assert_eq!(verdict(&ran), "consistent");
    piped(&sandbox, &compat, "{}").exits(1);
}

#[test]
fn a_scroll_is_recognised_whatever_its_container_and_name() {
    let sandbox = ready();
    let array = signed(&sandbox, "a.json", 3);
    for (to, name) in [("lines", "b.jsonl"), ("array", "c.txt"), ("lines", "d")] {
        let out = sandbox.path(name);
        sandbox.ok(format!("scroll convert {array} --to {to} --out {out:?}"));
        let ran = sandbox.ok(format!("verify --json {out:?}"));
        assert_eq!(verdict(&ran), "verified");
        assert_eq!(ran.json()["results"][0]["completeness"], "head");
    }
    let cbor = sandbox.path("e.cbor");
    let cbor = cbor.to_str().unwrap();
    let arguments = format!("scroll seal --cbor --key self-scroll --out {cbor:?}");
    piped(&sandbox, &arguments, &turns(2)).exits(0);
    let ran = sandbox.ok(format!("verify --json {cbor:?}"));
    assert_eq!(verdict(&ran), "verified");
    sandbox.exits(2, format!("scroll convert {array} --to cbor"));
    let lines = sandbox.ok(format!("scroll convert {cbor:?} --to lines"));
    let lines = sandbox.write("f.jsonl", lines.stdout);
    sandbox.ok(format!("verify {lines:?}"));
}

#[test]
fn a_cut_or_stripped_scroll_is_noticed_on_the_host_that_sealed_it() {
    let sandbox = ready();
    let path = signed(&sandbox, "a.json", 4);
    let head = sandbox.ok(format!("scroll head {path}")).stdout;
    let head = head.trim();
    let lines = sandbox.ok(format!("scroll convert {path} --to lines"));
    let kept: Vec<&str> = lines.stdout.lines().collect();
    let cut = sandbox.write("cut.jsonl", format!("{}\n", kept[..3].join("\n")));
    let cut = cut.to_str().unwrap();
    let ran = sandbox.exits(1, format!("verify --json {cut:?}"));
    assert_eq!(verdict(&ran), "rolled_back");
    let tail = sandbox.write("tail.jsonl", format!("{}\n", kept[1..].join("\n")));
    let ran = sandbox.exits(1, format!("verify --json {tail:?}"));
    assert_eq!(verdict(&ran), "truncated");
    let stripped: String = kept
        .iter()
        .map(|line| {
            let mut turn: Value = serde_json::from_str(line).unwrap();
            turn.as_object_mut().unwrap().remove("sig");
            format!("{turn}\n")
        })
        .collect();
    let stripped = sandbox.write("stripped.jsonl", stripped);
    let ran = sandbox.exits(1, format!("verify --json {stripped:?}"));
    assert_eq!(verdict(&ran), "tampered");
    let elsewhere = Sandbox::new();
    let copy = elsewhere.write("cut.jsonl", format!("{}\n", kept[..3].join("\n")));
    let copy = copy.to_str().unwrap();
    for (flags, expected) in [
        (&*format!("--expect-head {head}"), "truncated"),
        ("--expect-length 4", "truncated"),
        ("--expect-length 3", "unknown_signer"),
        ("--max-age 1d", "rolled_back"),
        ("--max-age 1d --now 2023-11-15T00:00:00Z", "unknown_signer"),
    ] {
        let ran = elsewhere.sh(format!("scroll verify {copy} --json {flags}"));
        assert_eq!(verdict(&ran), expected);
    }
}

#[test]
fn a_live_scroll_grows_and_survives_a_torn_write() {
    let sandbox = ready();
    let live = sandbox.path("live.jsonl");
    let live = live.to_str().unwrap();
    let append = format!("scroll seal --key self-scroll --append {live}");
    piped(&sandbox, &append, &turn(0, "a")).exits(0);
    piped(
        &sandbox,
        &append,
        &format!("{}\n{}\n", turn(1, "b"), turn(2, "c")),
    )
    .exits(0);
    sandbox.ok(format!("verify {live}"));
    let mut bytes = fs::read(live).unwrap();
    bytes.extend_from_slice(b"{\"hash\":\"sha2");
    fs::write(live, &bytes).unwrap();
    let ran = sandbox.exits(3, format!("verify --json {live}"));
    assert_eq!(verdict(&ran), "unsigned_tail");
    piped(&sandbox, &append, &turn(3, "d"))
        .exits(0)
        .warns("torn");
    let ran = sandbox.ok(format!("verify --json {live}"));
    assert_eq!(ran.json()["results"][0]["stats"]["events"], 4);
    piped(&sandbox, &append, &turn(9, "e")).exits(2);
}

// T-SCR-20
#[test]
fn a_turn_that_comes_through_a_pipe_is_sealed_before_the_pipe_ends() {
    let sandbox = ready();
    let live = sandbox.path("live.jsonl");
    let arguments = "scroll seal --key self-scroll --append";
    let mut child = sandbox
        .command()
        .args(words(arguments))
        .arg(&live)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    for number in 0..2 {
        writeln!(pipe, "{}", turn(number, "a")).unwrap();
        pipe.flush().unwrap();
        let written = || fs::read(&live).unwrap_or_default();
        let lines = || written().iter().filter(|byte| **byte == b'\n').count() as u64;
        let waited = (0..600).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            lines() == number + 1
        });
        assert!(waited, "turn {number} was not written");
    }
    drop(pipe);
    assert!(child.wait().unwrap().success());
}

// T-SCR-17
#[test]
fn converting_makes_no_good_scroll_of_one_in_two_forms() {
    let sandbox = ready();
    let arguments = "scroll seal --cbor --to lines";
    let lines = piped(&sandbox, arguments, &turns(2)).exits(0).stdout;
    let mut lines = lines.split_inclusive('\n');
    let first = lines.next().unwrap().to_owned();
    let item = |name: &str, lines: &str| {
        let (from, to) = (
            sandbox.write(name, lines),
            sandbox.path(format!("{name}.cbor")),
        );
        sandbox.ok(format!("scroll convert {from:?} --to cbor --out {to:?}"));
        fs::read(to).unwrap()
    };
    let both = format!("{first}{}", lines.next().unwrap());
    let second = item("both", &both)[item("first", &first).len()..].to_vec();
    let mixed = [first.into_bytes(), second, b"\n".to_vec()].concat();
    let mixed = sandbox.write("mixed.jsonl", mixed);
    let mixed = mixed.to_str().unwrap();
    let ran = sandbox.exits(1, format!("verify --json {mixed:?}"));
    assert_eq!(verdict(&ran), "tampered");
    let ran = sandbox.exits(1, format!("scroll convert {mixed:?} --to array"));
    assert_eq!(ran.stdout, "");
    sandbox.exits(2, format!("scroll head {mixed:?}"));
}

// T-SCR-16
#[test]
fn a_scroll_whose_beginning_was_spoilt_stays_in_sight() {
    let sandbox = ready();
    let path = signed(&sandbox, "a.json", 2);
    let whole = read(path);
    let pretty: Value = serde_json::from_str(&whole).unwrap();
    let pretty = serde_json::to_string_pretty(&pretty).unwrap();
    for text in [
        format!("\u{feff}{whole}"),
        whole.replacen('[', "", 1).replacen('{', "", 1),
        whole.replacen(':', "\":", 1),
        pretty.replacen('{', "", 1),
    ] {
        for name in ["b.json", "b.jsonl"] {
            let spoilt = sandbox.write(name, &text);
            let ran = sandbox.sh(format!("verify --json {spoilt:?}"));
            assert_ne!(verdict(&ran.exits(1)), "verified");
        }
    }
    let quoting = sandbox.write("quoting.md", format!("# Turns\n\n```\n{whole}```\n"));
    let ran = sandbox.sh(format!("verify --json {quoting:?}"));
    assert_ne!(ran.json()["results"][0]["format"], "scroll");
}

// T-SCR-58
#[test]
fn no_lines_of_another_kind_around_a_scroll_hide_it() {
    let sandbox = ready();
    let path = signed(&sandbox, "a.json", 5);
    let turns: Vec<Value> = serde_json::from_str(&read(path)).unwrap();
    let lines: String = turns.iter().map(|turn| format!("{turn}\n")).collect();
    let (few, many) = ("{}\n".repeat(40), "{}\n".repeat(5_000));
    let others = "{\"note\":\"seen\"}\n".repeat(200);
    for text in [
        format!("{lines}{{}}\n"),
        format!("{lines}{many}"),
        format!("{lines}{others}"),
        format!("{few}{lines}{many}"),
    ] {
        for name in ["b.jsonl", "b.json", "b"] {
            let file = sandbox.write(name, &text);
            let ran = sandbox.exits(1, format!("verify --json {file:?}")).json();
            let result = &ran["results"][0];
            assert_eq!(result["format"], "scroll", "{name}: {result}");
            assert_eq!(result["verdict"], "tampered", "{name}: {result}");
        }
    }
}

// T-SCR-34
#[test]
fn digits_of_a_timestamp_that_no_hash_covers_are_listed_and_shown_nowhere_else() {
    let sandbox = ready();
    let path = signed(&sandbox, "a.json", 2);
    let text = read(&path);
    let written = text.replace("1700000000000000000", "1700000000000000001");
    let inexact = sandbox.write("inexact.json", &written);
    let inexact = inexact.to_str().unwrap();
    let listed = "timestamp_ns=1700000000000000001 (turn 0; covered: 1700000000000000000)";
    for verify in ["verify", "scroll verify"] {
        let ran = sandbox.ok(format!("{verify} --json {inexact}"));
        assert_eq!(verdict(&ran), "verified");
        let report = &ran.json()["results"][0];
        assert_eq!(report["unauthenticated"][0], listed);
        assert_eq!(report["findings"][0]["code"], "timestamp_inexact");
        assert_eq!(report["findings"][0]["severity"], "note");
        sandbox
            .ok(format!("{verify} {inexact}"))
            .prints(&format!("nothing covers   {listed}"));
        let strict = sandbox.exits(3, format!("{verify} --strict-digits --json {inexact}"));
        assert_eq!(verdict(&strict), "partial");
        let report = &strict.json()["results"][0];
        assert_eq!(report["findings"][0]["code"], "number_inexact");
        sandbox.ok(format!("{verify} --profile scroll-v0.1 {inexact}"));
    }
    for convert in [
        "scroll to markdown",
        "scroll to atif",
        "scroll to anthropic",
        "scroll to openai",
        "scroll convert --to lines",
    ] {
        let of_exact = sandbox.ok(format!("{convert} {path}")).stdout;
        let shown = sandbox.ok(format!("{convert} {inexact}")).stdout;
        assert_eq!(
            shown.replace("inexact.json", "a.json"),
            of_exact,
            "{convert}"
        );
    }
}

// T-SCR-05
#[test]
fn a_scroll_that_lost_a_digit_or_a_byte_is_reported_with_the_place() {
    let sandbox = ready();
    let path = signed(&sandbox, "a.json", 2);
    let text = read(&path);
    let turns = turns(2).replacen(
        "\"top_p\":1",
        "\"top_p\":1,\"most\":100000000000000000000",
        1,
    );
    let turns = sandbox.write("amount.turns", turns);
    let amount = sandbox.path("amount.json");
    sandbox.ok(format!(
        "scroll seal {turns:?} --key self-scroll --out {amount:?}"
    ));
    let changed = read(&amount).replacen("100000000000000000000", "100000000000000000001", 1);
    let inexact = sandbox.write("inexact.json", changed);
    let inexact = inexact.to_str().unwrap();
    let ran = sandbox.exits(3, format!("verify --json {inexact:?}"));
    assert_eq!(verdict(&ran), "partial");
    sandbox.ok(format!("verify --profile scroll-v0.1 {inexact:?}"));
    sandbox.ok(format!("scroll verify --profile scroll-v0.1 {inexact:?}"));
    let empty = sandbox.write("empty.json", "[]");
    sandbox.exits(3, format!("scroll verify {empty:?}"));
    sandbox.sh(format!("seal {path}")).fails_with("scroll seal");
    assert_eq!(text, read(&path));
}

/// The lines of the manifest that describe files of `kind`.
fn manifest(folder: &Path, kind: &str) -> Vec<Value> {
    let text = read(folder.join("manifest.jsonl"));
    let entries = text.lines().map(|line| serde_json::from_str(line).unwrap());
    entries
        .filter(|entry: &Value| entry["kind"] == kind)
        .collect()
}

#[test]
fn the_official_vectors_get_their_expected_answers() {
    let Some(folder) = shared("corpus/agent-scroll-conformance") else {
        return;
    };
    let sandbox = Sandbox::new();
    let canon = manifest(&folder, "canon");
    assert_eq!(canon.len(), 20);
    for entry in canon {
        let file = folder.join(entry["file"].text());
        let ran = sandbox.ok(format!("scroll canon {file:?}"));
        let hex: String = ran
            .stdout
            .bytes()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(hex, entry["expect_hex"], "{}", entry["id"]);
    }
    let key = "cecc1507dc1ddd7295951c290888f095adb9044d1b73d696e6df065d683bd4fc";
    let mut seen = (0, 0);
    for path in fs::read_dir(folder.join("vectors")).unwrap() {
        let path = path.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let text = read(&path);
        let path = path.to_str().unwrap();
        let is_signed = text.contains("\"sig\"");
        let pinned = if is_signed {
            format!("--key {key}")
        } else {
            String::new()
        };
        let ran = sandbox.sh(format!("verify --json {path} {pinned}"));
        let expected = if is_signed { "verified" } else { "consistent" };
        assert_eq!(verdict(&ran), expected, "{path}");
        let compat = format!("scroll verify --compat {path} {pinned}");
        assert_eq!(sandbox.ok(compat).stdout, "ok\n");
        seen.0 += 1;
    }
    for path in fs::read_dir(folder.join("vectors/mutations")).unwrap() {
        let path = path.unwrap().path();
        let path = path.to_str().unwrap();
        let ran = sandbox.exits(1, format!("verify --json {path}"));
        assert_eq!(verdict(&ran), "tampered", "{path}");
        let failures = &ran.json()["results"][0]["compat"]["agent_scroll"]["failures"];
        let expected = json!([{"turn": 0, "reason": "BadHash"}]);
        assert_eq!(*failures, expected, "{path}");
        seen.1 += 1;
    }
    assert_eq!(seen, (20, 20));
}
