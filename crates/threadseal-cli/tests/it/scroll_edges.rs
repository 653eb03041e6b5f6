//! Scrolls that a command must not make, must not cut a head from, and must not call complete.

use crate::prelude::*;
use crate::scroll::{signed, turn, turns, verdict};

const SEED: &str = "0101010101010101010101010101010101010101010101010101010101010101";

fn array(turns: &[String]) -> String {
    format!("[{}]", turns.join(","))
}

// T-SCR-13
#[test]
fn nothing_is_sealed_that_verify_would_call_cut_or_repeated() {
    let sandbox = ready();
    let cbor = turn(1, "b").replacen('{', r#"{"enc":"cbor","#, 1);
    for (input, said) in [
        (array(&[turn(1, "a")]), "`turn` is 1, not 0"),
        (array(&[turn(0, "a"), turn(2, "b")]), "`turn` is 2, not 1"),
        (array(&[turn(0, "a"), turn(0, "b")]), "`turn` is 0, not 1"),
        (array(&[turn(0, "a"), cbor]), "a chain has one encoding"),
    ] {
        let out = sandbox.path("out.json");
        let to_file = format!("scroll seal --out {out:?}");
        piped(&sandbox, &to_file, &input).fails_with(said);
        assert!(!out.exists(), "{said}");
        piped(&sandbox, "scroll seal", &input).fails_with(said);
    }
    let live = sandbox.path("live.jsonl");
    let append = format!("scroll seal --append {live:?}");
    piped(&sandbox, &append, &turn(1, "a")).fails_with("`turn` is 1, not 0");
    assert!(!live.exists());
}

#[test]
fn turns_before_a_bad_one_stay_appended_and_their_head_is_printed() {
    let sandbox = ready();
    let live = sandbox.path("live.jsonl");
    let path = live.to_str().unwrap();
    let append = format!("scroll seal --append {path}");
    let input = format!("{}\n{}\n{}\n", turn(0, "a"), turn(1, "b"), turn(7, "c"));
    let ran = piped(&sandbox, &append, &input)
        .exits(2)
        .warns("the 2 turns before the error are appended");
    let head = sandbox.ok(format!("scroll head {path}")).stdout;
    assert_eq!(ran.stdout, head);
    piped(&sandbox, &append, &turn(2, "c")).exits(0);
    assert_eq!(piped(&sandbox, &append, "{}").exits(2).stdout, "");
}

// T-SCR-13
#[test]
fn a_head_is_given_only_of_a_chain_that_verify_has_nothing_against() {
    let sandbox = ready();
    let whole = signed(&sandbox, "a.json", 3);
    let chain = json_file(&whole);
    let chain = chain.list();
    let suite = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testkit/scroll/attacks");
    let cut = serde_json::to_string(&chain[1..]).unwrap();
    let cut = sandbox.write("cut.json", cut);
    for path in [
        cut.to_str().unwrap().to_owned(),
        format!("{suite}/gap.json"),
        format!("{suite}/repeated-number.json"),
        format!("{suite}/enc-mixed.json"),
        format!("{suite}/swap-pubkey.json"),
        format!("{suite}/args-hash.json"),
        format!("{suite}/torn.jsonl"),
        format!("{suite}/unended.json"),
        format!("{suite}/empty.json"),
    ] {
        let ran = sandbox.sh(format!("scroll head {path}")).fails();
        assert_eq!(ran.stdout, "", "{path}");
    }
    sandbox.ok(format!("scroll head {whole:?}"));
}

// T-SCR-35
#[test]
fn converting_leaves_digits_out_only_when_it_is_asked_to() {
    let sandbox = ready();
    let turns = turn(0, "a").replace("\"top_p\":1", "\"top_p\":1,\"most\":100000000000000000000");
    let turns = sandbox.write("turns.json", turns);
    let path = sandbox.path("a.json");
    sandbox.ok(format!(
        "scroll seal {turns:?} --key self-scroll --out {path:?}"
    ));
    let text = read(&path);
    let inexact = text.replacen("100000000000000000000", "100000000000000000001", 1);
    let inexact = sandbox.write("inexact.json", inexact);
    let out = sandbox.path("out.jsonl");
    let convert = format!("scroll convert {inexact:?} --to lines");
    let to_file = format!("{convert} --out {out:?}");
    sandbox.sh(&to_file).fails_with("100000000000000000001");
    assert!(!out.exists());
    sandbox
        .ok(format!("{to_file} --anyway"))
        .warns("warning: turn at index 0: the number 100000000000000000001");
    sandbox.ok(format!("verify {out:?}"));
    // The digits of a timestamp do not count for the verdict.
    let moment = text.replacen("1700000000000000000", "1700000000000000001", 1);
    let moment = sandbox.write("moment.json", moment);
    let again = sandbox.path("again.jsonl");
    let to_file = format!("scroll convert {moment:?} --to lines --out {again:?}");
    sandbox
        .sh(format!("{to_file} --strict-digits"))
        .fails_with("1700000000000000001");
    assert!(!again.exists());
    sandbox
        .ok(&to_file)
        .warns("warning: turn at index 0: the number 1700000000000000001")
        .warns("its timestamp 1700000000000000000 is written");
    assert_eq!(read(&again), read(&out));
}

// T-SCR-38
#[test]
fn no_file_of_turns_that_its_seals_refute_becomes_a_scroll() {
    let sandbox = ready();
    let path = sandbox.write(
        "turns.jsonl",
        format!("{}\n{}\n", turn(0, "a"), turn(1, "b")),
    );
    let path = path.to_str().unwrap();
    sandbox.ok(format!("seal {path} --detached"));
    let seal = format!("scroll seal {path} --key self-scroll");
    sandbox.ok(&seal);
    fs::write(path, read(path).replace("\"a\"", "\"x\"")).unwrap();
    let live = sandbox.path("live.jsonl");
    for more in ["", &format!("--append {live:?}")] {
        let ran = sandbox.exits(1, format!("{seal} {more}"));
        assert_eq!(ran.stdout, "");
        ran.stderr.has("tampered");
    }
    assert!(!live.exists());
}

// T-SCR-35
#[test]
fn sealing_rounds_no_number_in_silence() {
    let sandbox = ready();
    let (live, out) = (sandbox.path("live.jsonl"), sandbox.path("out.json"));
    let moment = turn(0, "a").replace("1700000000000000000", "1700000000000000001");
    let amount = turn(0, "a").replace("\"top_p\":1", "\"top_p\":1,\"most\":100000000000000000001");
    for to in [format!("--append {live:?}"), format!("--out {out:?}")] {
        let ran = piped(&sandbox, &format!("scroll seal {to}"), &amount).exits(2);
        ran.warns("the number 100000000000000000001 at byte")
            .warns("--anyway");
        assert!(!live.exists() && !out.exists());
        piped(&sandbox, &format!("scroll seal {to}"), &moment)
            .exits(0)
            .warns("warning: turn at index 0: the number 1700000000000000001 at byte")
            .warns("its timestamp 1700000000000000000 is sealed");
        fs::remove_file(if live.exists() { &live } else { &out }).unwrap();
        piped(&sandbox, &format!("scroll seal --anyway {to}"), &amount)
            .exits(0)
            .warns("warning: turn at index 0: the number 100000000000000000001");
        let written = if live.exists() { &live } else { &out };
        read(written).has("\"most\":100000000000000000000");
        fs::remove_file(written).unwrap();
    }
}

#[test]
fn no_live_scroll_begins_where_this_host_knows_a_longer_one() {
    let sandbox = ready();
    signed(&sandbox, "whole.json", 3);
    let live = sandbox.path("live.jsonl");
    let append = format!("scroll seal --append {live:?}");
    piped(&sandbox, &append, &turns(3)).fails_with("begins with the same turn");
    assert!(!live.exists());
    piped(&sandbox, &append, &turn(0, "other")).exits(0);
    piped(&sandbox, &append, &turn(1, "more")).exits(0);
}

// T-SCR-12
#[test]
fn nul_bytes_that_a_crash_left_are_a_torn_tail() {
    let sandbox = ready();
    let live = sandbox.path("live.jsonl");
    let path = live.to_str().unwrap();
    let append = format!("scroll seal --key self-scroll --append {path}");
    piped(&sandbox, &append, &turn(0, "a")).exits(0);
    let whole = fs::read(&live).unwrap();
    for (number, tail) in [(1, &b"\0\0\0"[..]), (2, b"{\"ha\0\0"), (3, &[0; 9000])] {
        fs::write(&live, [&fs::read(&live).unwrap(), tail].concat()).unwrap();
        let ran = sandbox.exits(3, format!("verify --json {path}"));
        assert_eq!(verdict(&ran), "unsigned_tail");
        piped(&sandbox, &append, &turn(number, "b"))
            .exits(0)
            .warns("torn turn were moved");
        sandbox.ok(format!("verify {path}"));
    }
    assert!(fs::read(&live).unwrap().starts_with(&whole));
    let inside = [&whole[..], b"\0\0\n"].concat();
    let inside = sandbox.write("inside.jsonl", inside);
    let ran = sandbox.sh(format!("verify --json {inside:?}"));
    assert_eq!(verdict(&ran.exits(1)), "tampered");
}

#[test]
fn an_unended_line_that_no_turn_can_be_is_torn() {
    let sandbox = ready();
    let live = sandbox.path("live.jsonl");
    let path = live.to_str().unwrap();
    let append = format!("scroll seal --key self-scroll --append {path}");
    piped(&sandbox, &append, &turn(0, "a")).exits(0);
    let mut bytes = fs::read(&live).unwrap();
    bytes.resize(bytes.len() + (32 << 20) + 2, b'{');
    fs::write(&live, &bytes).unwrap();
    let ran = sandbox.exits(3, format!("verify --json {path}"));
    assert_eq!(verdict(&ran), "unsigned_tail");
    bytes.push(b'\n');
    let ended = sandbox.write("ended.jsonl", &bytes);
    let ran = sandbox.exits(1, format!("verify --json {ended:?}"));
    assert_eq!(verdict(&ran), "tampered");
    assert_eq!(
        ran.json()["results"][0]["findings"][0]["code"],
        "turn_too_long"
    );
}

#[test]
fn an_expected_head_with_another_size_is_another_head() {
    let sandbox = ready();
    let path = signed(&sandbox, "a.json", 2);
    let head = sandbox.ok(format!("scroll head {path}")).stdout;
    let parts: Vec<&str> = head.trim().split(':').collect();
    let size: u64 = parts[2].parse().unwrap();
    for (size, exit) in [(size, 0), (size + 1, 1), (0, 1)] {
        let head = [parts[0], parts[1], &size.to_string(), parts[3]].join(":");
        let ran = sandbox.sh(format!("scroll verify --json {path} --expect-head {head}"));
        let verdict = verdict(&ran.exits(exit));
        assert_eq!(verdict, if exit == 0 { "verified" } else { "forked" });
    }
}

#[test]
fn a_forged_first_line_makes_no_verified_scroll_of_a_transcript() {
    let sandbox = ready();
    let transcript = sandbox.write(
        "t.jsonl",
        "{\"thread_id\":\"t\",\"event_type\":\"x\",\"payload\":{}}\n",
    );
    sandbox.sh(format!("seal {transcript:?}"));
    let sealed = read(&transcript);
    let scroll = piped(
        &sandbox,
        &format!("scroll seal --key {SEED} --to lines"),
        &turns(1),
    );
    for first in [
        turn(0, "x"),
        "{\"version\":\"scroll/0.1\"}".to_owned(),
        scroll.stdout.trim().to_owned(),
    ] {
        let forged = sandbox.write("forged.jsonl", format!("{first}\n{sealed}"));
        let ran = sandbox.exits(1, format!("verify --json {forged:?}"));
        assert_ne!(ran.json()["results"][0]["verdict"], "verified");
    }
}

#[test]
fn a_scroll_on_standard_input_is_judged_like_a_file() {
    let sandbox = ready();
    let path = signed(&sandbox, "a.json", 4);
    let text = read(&path);
    let verify = "scroll verify --json";
    let ran = piped(
        &sandbox,
        verify,
        &format!("{}{text}", " \n".repeat(100_000)),
    )
    .exits(0);
    assert_eq!(verdict(&ran), "verified");
    assert_eq!(ran.json()["results"][0]["completeness"], "head");
    let lines = sandbox
        .ok(format!("scroll convert {path} --to lines"))
        .stdout;
    let cut: String = lines.split_inclusive('\n').take(3).collect();
    assert_eq!(
        verdict(&piped(&sandbox, verify, &cut).exits(1)),
        "rolled_back"
    );
    assert_eq!(verdict(&piped(&sandbox, verify, "").exits(1)), "malformed");
}

#[test]
fn length_and_age_are_asked_of_scrolls_by_verify_too() {
    let sandbox = ready();
    let path = signed(&sandbox, "a.json", 2);
    let path = path.as_str();
    for (flags, expected) in [
        ("--expect-length 2", "verified"),
        ("--expect-length 3", "truncated"),
        ("--max-age 1d", "rolled_back"),
        ("--max-age 1d --now 2023-11-15T00:00:00Z", "verified"),
    ] {
        let ran = sandbox.sh(format!("verify --json {path} {flags}"));
        assert_eq!(verdict(&ran), expected);
    }
    let other = sandbox.write("log.jsonl", "{\"type\":\"user\"}\n");
    sandbox
        .sh(format!("verify --max-age 1d {other:?}"))
        .fails_with("only scrolls have them");
    let folder = sandbox.work();
    sandbox
        .sh(format!("verify --expect-length 2 {folder:?}"))
        .fails_with("name one file");
}

#[test]
fn no_name_container_or_link_takes_a_changed_scroll_of_a_folder_out_of_sight() {
    let sandbox = ready();
    let path = signed(&sandbox, "source.json", 3);
    let changed = read(&path).replacen("\"hi\"", "\"ho\"", 1);
    let lines: Vec<Value> = serde_json::from_str(&changed).unwrap();
    let lines: String = lines.iter().map(|turn| format!("{turn}\n")).collect();
    let suite = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testkit/scroll/attacks");
    let sequence = fs::read(format!("{suite}/cbor-content.cbor")).unwrap();
    let folder = sandbox.path("mixed");
    fs::create_dir(&folder).unwrap();
    for name in ["array.json", "array", "array.txt", "array.md"] {
        fs::write(folder.join(name), &changed).unwrap();
    }
    for name in ["lines.jsonl", "lines", "lines.log", "lines.json"] {
        fs::write(folder.join(name), &lines).unwrap();
    }
    for name in ["sequence.cbor", "sequence", "sequence.bin"] {
        fs::write(folder.join(name), &sequence).unwrap();
    }
    let json = sandbox.exits(1, format!("verify --json {folder:?}")).json();
    let results = json["results"].list();
    assert_eq!(results.len(), 11);
    for result in results {
        let verdict = result["verdict"].text();
        assert!(
            ["tampered", "forged"].contains(&verdict),
            "{}: {verdict}",
            result["path"]
        );
    }
}

#[test]
fn a_signer_out_of_its_scope_window_or_favour_vouches_for_no_scroll() {
    let author = Sandbox::new();
    let whole = piped(&author, &format!("scroll seal --key {SEED}"), &turns(2)).exits(0);
    let key = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c";
    for (options, verdict) in [
        ("--usage scroll", "verified"),
        ("--usage native", "unknown_signer"),
        ("--usage scroll --formats json", "unknown_signer"),
        ("--usage scroll --threads a/*", "unknown_signer"),
        ("--usage scroll --not-after 2020-01-01", "unknown_signer"),
        ("--usage scroll --not-before 9000-01-01", "unknown_signer"),
    ] {
        let sandbox = ready();
        let path = sandbox.write("mixed/a.json", &whole.stdout);
        sandbox.write("mixed/notes.txt", "no record");
        let add = format!("trust add {key} --name ann");
        sandbox.ok(format!("{add} {options}"));
        let ran = sandbox.sh(format!("verify --json {:?}", path.parent().unwrap()));
        assert_eq!(self::verdict(&ran), verdict, "{options:?}");
        sandbox.ok("trust revoke ann");
        let ran = sandbox.sh(format!("scroll to openai {path:?}"));
        assert_ne!(ran.code, 0, "{options:?}");
        assert_eq!(ran.stdout, "");
    }
}

#[test]
fn a_link_in_a_folder_is_passed_over_and_counted_and_judged_where_it_is_named() {
    let sandbox = ready();
    fs::create_dir(sandbox.path("mixed")).unwrap();
    let path = signed(&sandbox, "mixed/good.json", 2);
    let changed = read(&path).replacen("\"hi\"", "\"ho\"", 1);
    let changed = sandbox.write("elsewhere.json", changed);
    let folder = sandbox.path("mixed");
    let link = folder.join("link.json");
    symlink(&changed, &link).unwrap();
    symlink(&folder, folder.join("circle")).unwrap();
    let ran = sandbox.ok(format!("verify --json {folder:?}"));
    assert_eq!(ran.json()["results"].list().len(), 1);
    assert_eq!(ran.json()["passed_over"], 2);
    let ran = sandbox.exits(1, format!("verify --json {link:?}"));
    assert_eq!(verdict(&ran), "tampered");
    fs::remove_file(&path).unwrap();
    sandbox.exits(2, format!("verify {folder:?}"));
}

#[test]
fn a_key_in_an_unknown_form_pins_no_signer() {
    let sandbox = Sandbox::new();
    let sealed = piped(&sandbox, &format!("scroll seal --key {SEED}"), &turns(1))
        .exits(0)
        .stdout;
    let sealed = sandbox.write("a.json", sealed);
    let good = "did:key:z6Mkon3Necd6NkkyfoGoHxid2znGc59LU3K7mubaRcFbLfLX";
    let method = &good["did:key:".len()..];
    let url = format!("{good}#{method}");
    for (key, exit) in [
        (good.to_owned(), 0),
        // Blanks around a key come from the line from which it was copied.
        (format!(" {good} "), 0),
        // A leading base58 digit of value zero; another multicodec (P-256, X25519).
        (good.replacen("z6Mk", "z16Mk", 1), 2),
        (
            "did:key:zDnaerDaTF5BXEavCrfRZEk316dpbLsfPDZ3WJ5hRTPFU2169".to_owned(),
            2,
        ),
        (
            "did:key:z6LSbysY2xFMRpGMhb7tFTLMpeuPRaqaWM1yECx2AtzE3KCc".to_owned(),
            2,
        ),
        (good.replacen(":z", ":m", 1), 2),
        (url, 2),
        ("00".repeat(32), 2),
        (format!("01{}", "00".repeat(31)), 2),
    ] {
        let ran = sandbox.sh(format!("scroll verify {sealed:?} --key {key:?}"));
        ran.exits(exit);
    }
}
