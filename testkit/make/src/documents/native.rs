//! Native seals: `spec/documents.md` §2 to §4, §8.1 steps 1, 2, 8 and 9.

use super::forge::{Seal, TEXTS};
use super::{Adder, Want};
use crate::forge::{hex, key};
use crate::list::Options;
use threadseal_core::digest::Digest;

const JSON: &str = "\"a\": 1, \"thread_id\": \"agency/1\"";

pub(super) fn add(add: &mut Adder) {
    kinds(add);
    edits(add);
    claims(add);
    signers(add);
    heads(add);
    files(add);
}

fn text_of(kind: &str) -> String {
    match kind {
        "markdown" => "# Manners\n\nBe kind.\n".to_owned(),
        "toml" => "a = 1\n".to_owned(),
        "javascript" => "const a = 1;\n".to_owned(),
        _ => "a = 1\n".to_owned(),
    }
}

fn shell() -> (Vec<u8>, String) {
    Seal::of("shell").text("#!/bin/sh\necho ok\n")
}

fn asking(head: &str, exact: bool) -> Options {
    Options {
        head: Some(head.to_owned()),
        exact,
        ..Options::default()
    }
}

fn verified() -> Want {
    Want::new("verified", &[])
}

fn kinds(add: &mut Adder) {
    for (kind, ending, _, _) in TEXTS {
        let (bytes, head) = Seal::of(kind).text(&text_of(kind));
        let name = format!("{kind}-sealed");
        add.add((&name, ending), "§3 place 1", &bytes, verified());
        let name = format!("{kind}-sealed-and-its-head");
        let want = verified().asked(asking(&head, true));
        add.add((&name, ending), "§8.1 step 8: it passes", &bytes, want);
        let text = text_of(kind);
        let (seal, _) = Seal::of(kind).beside(text.as_bytes());
        let name = format!("{kind}-sealed-beside");
        add.files(
            (&name, ending),
            "§3 place 4",
            text.as_bytes(),
            Some(&seal),
            verified(),
        );
        let edited = text.replacen('a', "b", 1);
        let name = format!("{kind}-sealed-beside-edited");
        let want = Want::new("tampered", &["seal_mismatch"]);
        add.files(
            (&name, ending),
            "§8.1 step 2.2",
            edited.as_bytes(),
            Some(&seal),
            want,
        );
    }
    let (bytes, head) = Seal::of("json").json(JSON);
    add.add(("json-sealed", ".json"), "§3 place 2", &bytes, verified());
    let want = verified().asked(asking(&head, true));
    add.add(
        ("json-sealed-and-its-head", ".json"),
        "§8.1 step 8",
        &bytes,
        want,
    );
    let file = format!("{{{JSON}}}\n");
    let (seal, _) = Seal::of("json").beside(file.as_bytes());
    add.files(
        ("json-sealed-beside", ".json"),
        "§3 place 4",
        file.as_bytes(),
        Some(&seal),
        verified(),
    );
    let edited = file.replacen('1', "2", 1);
    let want = Want::new("tampered", &["seal_mismatch"]);
    add.files(
        ("json-sealed-beside-edited", ".json"),
        "§8.1 step 2.2",
        edited.as_bytes(),
        Some(&seal),
        want,
    );
    // A claim in a file with a seal beside it is none of that seal's.
    let want = verified();
    let (bytes, _) = Seal::of("shell").text("echo ok\n");
    let (seal, _) = Seal::of("shell").beside(&bytes);
    add.files(
        ("sealed-inside-and-beside", ".sh"),
        "§8.1 step 2: the seal beside has a report of its own",
        &bytes,
        Some(&seal),
        want,
    );
}

fn edits(add: &mut Adder) {
    let (bytes, _) = shell();
    let text = String::from_utf8(bytes).expect("UTF-8");
    for (name, from, to, codes) in [
        ("edited", "echo ok", "echo no", &["seal_mismatch"][..]),
        (
            "edited-time",
            "20260218T1030",
            "20260218T1031",
            &["seal_mismatch"],
        ),
        ("edited-record", "0909-0-", "090a-0-", &["seal_mismatch"]),
        ("edited-seq", "-0-2026", "-1-2026", &["seal_mismatch"]),
        (
            "edited-line-end",
            "echo ok\n",
            "echo ok\r\n",
            &["seal_mismatch"],
        ),
    ] {
        let edited = text.replacen(from, to, 1);
        assert_ne!(edited, text, "{name}");
        let want = Want::new("tampered", codes);
        add.add((name, ".sh"), "§8.1 step 2.2", edited.as_bytes(), want);
    }
    for (name, from, to) in [
        ("spelled-seq-01", "-0-2026", "-01-2026"),
        (
            "spelled-time-that-does-not-exist",
            "20260218T1030",
            "20260230T1030",
        ),
        ("spelled-version-2", "signed:1-", "signed:2-"),
        ("spelled-record-upper-case", "0909-0-", "090A-0-"),
        ("spelled-kind-unknown", "1-shell", "1-shells"),
    ] {
        let edited = text.replacen(from, to, 1);
        assert_ne!(edited, text, "{name}");
        let want = Want::new("malformed", &["seal_unreadable"]);
        add.add(
            (name, ".sh"),
            "§8.1 step 2: §2 does not allow it",
            edited.as_bytes(),
            want,
        );
    }
    let mut cut = text.clone();
    cut.pop();
    add.add(
        ("without-the-last-lf", ".sh"),
        "§8.1 step 2: the line ends with LF",
        cut.as_bytes(),
        Want::new("malformed", &["seal_unreadable"]),
    );
    let behind = format!("{text}echo more\n");
    add.add(
        ("seal-not-last", ".sh"),
        "§8.1 step 2",
        behind.as_bytes(),
        Want::new("tampered", &["seal_not_last"]),
    );
}

fn claims(add: &mut Adder) {
    let (bytes, _) = shell();
    let text = String::from_utf8(bytes).expect("UTF-8");
    let line = text.lines().last().expect("a line");
    let twice = format!("{line}\n{text}");
    add.add(
        ("claims-twice", ".sh"),
        "§8.1 step 2",
        twice.as_bytes(),
        Want::new("tampered", &["several_seals"]),
    );
    let (bytes, _) = Seal::of("yaml").text("a: 1\n");
    add.add(
        ("kind-of-another-file", ".py"),
        "§8.1 step 2.1",
        &bytes,
        Want::new("foreign", &["other_kind"]),
    );
    let (bytes, _) = Seal::of("json").json(JSON);
    let sealed = String::from_utf8(bytes).expect("UTF-8");
    let twice = sealed.replacen("{\"a\": 1", "{\"a\": 1, \"a\": 1", 1);
    add.add(
        ("name-twice", ".json"),
        "§8.1 step 2: the strict rules refuse it",
        twice.as_bytes(),
        Want::new("tampered", &["duplicate_key"]),
    );
    let lax = sealed.replacen("\"a\": 1", "\"a\": NaN", 1);
    add.add(
        ("not-strict", ".json"),
        "§8.1 steps 2 and 5",
        lax.as_bytes(),
        Want::new("malformed", &["nonstandard_json", "not_strict_json"]),
    );
    let respelled = sealed.replacen("\"_threadseal\"", "\"\\u005fthreadseal\"", 1);
    add.add(
        ("name-with-escapes", ".json"),
        "§3 place 2: spelled without escapes",
        respelled.as_bytes(),
        Want::new("malformed", &["seal_unreadable"]),
    );
    add.add(
        ("claim-that-is-a-number", ".json"),
        "§3: a claim, whatever its value",
        b"{\"_threadseal\": 7}\n",
        Want::new("malformed", &["seal_unreadable"]),
    );
    add.add(
        ("claim-indented", ".sh"),
        "§3: a quoted claim is none",
        b"  # threadseal:signed:1-shell\n",
        Want::new("unsigned", &["unsigned"]),
    );
    let (seal, _) = Seal::of("shell").beside(b"echo ok\n");
    for (name, seal) in [
        ("seal-file-with-a-line-more", [&seal[..], b"\n"].concat()),
        ("seal-file-without-its-lf", seal[..seal.len() - 1].to_vec()),
        ("seal-file-cut", seal[..60].to_vec()),
    ] {
        let want = Want::new("malformed", &["seal_unreadable"]);
        add.files(
            (name, ".sh"),
            "§3 place 4: it is that and nothing else",
            b"echo ok\n",
            Some(&seal),
            want,
        );
    }
}

fn signers(add: &mut Adder) {
    let (bytes, _) = Seal {
        key: 3,
        ..Seal::of("shell")
    }
    .text("echo ok\n");
    add.add(
        ("key-unknown", ".sh"),
        "§8.1 step 4",
        &bytes,
        Want::new("unknown_signer", &["unknown_signer"]),
    );
    let (seal, _) = Seal {
        key: 3,
        ..Seal::of("shell")
    }
    .beside(b"echo ok\n");
    let want = Want::new("unknown_signer", &["unknown_signer"]);
    add.files(
        ("key-unknown-beside", ".sh"),
        "§8.1 step 4",
        b"echo ok\n",
        Some(&seal),
        want,
    );
    let (bytes, _) = shell();
    let pinned = |number| Options {
        pins: vec![hex(&key(number))],
        ..Options::default()
    };
    add.add(
        ("key-pinned", ".sh"),
        "§8.1 step 4",
        &bytes,
        verified().asked(pinned(1)),
    );
    add.add(
        ("key-other-than-pinned", ".sh"),
        "§8.1 step 4",
        &bytes,
        Want::new("unknown_signer", &["other_signer"]).asked(pinned(3)),
    );
    let options = Options {
        trust: Some(vec![hex(&key(1))]),
        usage: Some("scroll"),
        ..Options::default()
    };
    add.add(
        ("key-of-another-usage", ".sh"),
        "§8.1 step 4: trusted for other things",
        &bytes,
        Want::new("unknown_signer", &["key_out_of_scope"]).asked(options),
    );
    let options = Options {
        profile: Some("rye"),
        ..Options::default()
    };
    add.add(
        ("native-seal-under-profile-rye", ".sh"),
        "§8.1 step 6: Rye's only",
        &bytes,
        Want::new("unsigned", &["unsigned"]).asked(options),
    );
}

fn heads(add: &mut Adder) {
    let newer = Seal {
        seq: "1".to_owned(),
        ..Seal::of("shell")
    };
    let (bytes, head) = newer.text("echo ok\n");
    let (_, older) = Seal::of("shell").text("echo ok\n");
    let (_, fork) = newer.text("echo no\n");
    let (_, newest) = Seal {
        seq: "2".to_owned(),
        ..Seal::of("shell")
    }
    .text("echo ok\n");
    let (_, record) = Seal {
        record: 8,
        ..newer.clone()
    }
    .text("echo ok\n");
    let digest = head.rsplit(':').next().expect("a digest").to_owned();
    let other = Digest::of(b"other").to_string();
    for (name, asked, exact, verdict, codes) in [
        ("head-older", &older, false, "verified", &[][..]),
        (
            "head-older-exactly",
            &older,
            true,
            "open",
            &["head_not_last"],
        ),
        ("head-same", &head, true, "verified", &[]),
        ("head-digest", &digest, true, "verified", &[]),
        (
            "head-of-a-fork",
            &fork,
            false,
            "forked",
            &["other_than_head"],
        ),
        (
            "head-of-a-fork-exactly",
            &fork,
            true,
            "forked",
            &["other_than_head"],
        ),
        (
            "head-newer",
            &newest,
            false,
            "rolled_back",
            &["older_than_head"],
        ),
        (
            "head-of-another-record",
            &record,
            false,
            "foreign",
            &["other_record"],
        ),
        (
            "head-of-another-digest",
            &other,
            false,
            "foreign",
            &["other_head"],
        ),
    ] {
        let want = Want::new(verdict, codes).asked(asking(asked, exact));
        add.add((name, ".sh"), "§8.1 step 8", &bytes, want);
    }
    add.add(
        ("head-and-no-seal", ".sh"),
        "§8.1 step 8",
        b"echo ok\n",
        Want::new("tampered", &["seal_gone", "unsigned"]).asked(asking(&head, false)),
    );
    let options = Options {
        profile: Some("rye"),
        ..asking(&head, true)
    };
    add.add(
        ("head-under-profile-rye", ".sh"),
        "§8.1 step 8: compared whether the seal counts or not",
        &bytes,
        Want::new("unsigned", &["unsigned"]).asked(options),
    );
    let (bytes, _) = Seal::of("json").json(JSON);
    for (name, thread, verdict, codes) in [
        ("thread-same", "agency/1", "verified", &[][..]),
        (
            "thread-of-another",
            "agency/2",
            "foreign",
            &["other_thread"],
        ),
    ] {
        let options = Options {
            thread: Some(thread.to_owned()),
            ..Options::default()
        };
        let want = Want::new(verdict, codes).asked(options);
        add.add((name, ".json"), "§8.1 step 9", &bytes, want);
    }
    let (bytes, _) = shell();
    let options = Options {
        thread: Some("agency/1".to_owned()),
        ..Options::default()
    };
    add.add(
        ("thread-of-a-text", ".sh"),
        "§8.1 step 9: texts name none",
        &bytes,
        Want::new("foreign", &["thread_unnamed"]).asked(options),
    );
}

fn files(add: &mut Adder) {
    add.add(
        ("file-not-utf8", ".sh"),
        "§8.1 step 1",
        b"echo \xff\n",
        Want::new("malformed", &["not_utf8"]),
    );
    add.add(
        ("file-no-json", ".json"),
        "§8.1 step 1",
        b"{\"a\": 1,}\n",
        Want::new("malformed", &["not_json"]),
    );
    add.add(
        ("file-with-a-byte-order-mark", ".json"),
        "§8.1 step 1",
        b"\xef\xbb\xbf{}\n",
        Want::new("malformed", &["not_json"]),
    );
    add.add(
        ("file-unsigned", ".json"),
        "§8.1 step 6",
        b"{\"a\": 1}\n",
        Want::new("unsigned", &["unsigned"]),
    );
    add.add(
        ("file-unsigned-with-a-name-twice", ".json"),
        "§8.1 step 5: a warning without a claim",
        b"{\"a\": 1, \"a\": 1}\n",
        Want::new("unsigned", &["duplicate_key", "unsigned"]),
    );
}
