//! How a file ends, and heads that a verifier holds (§6, §7 C and D).

use super::script::record;
use super::{ALL, Set, open, verified, want};
use crate::forge::{Forge, Manifest, THREAD, authority, hex, key};
use threadseal_core::key::Signer as _;

pub(super) fn add(set: &mut Set) {
    short(set);
    ended(set);
    torn(set);
    heads(set);
    head_of_another(set);
    heads_and_faults(set);
    threads(set);
}

fn line_1() -> Forge {
    Forge::bare(&Manifest::of(authority().public_key(), 7).text(), 7, THREAD)
}

fn short(set: &mut Set) {
    let no_seal = || want("tampered", &["seal_0_missing"], 0);
    let mut file = |name: &str, rule: &str, out: &[u8], want| {
        let mut forge = line_1();
        forge.out = out.to_vec();
        set.add(&format!("file-{name}"), rule, &forge, want);
    };
    let line = line_1().out;
    file("empty", "§7 C: no good seal", b"", no_seal());
    file("of-line-1", "§7 C: no good seal", &line, no_seal());
    file(
        "of-line-1-without-lf",
        "§7 C: line 1 has no LF",
        &line[..line.len() - 1],
        no_seal(),
    );
    file(
        "of-half-a-line-1",
        "§7 C: line 1 has no LF",
        &line[..99],
        no_seal(),
    );
    file(
        "of-line-1-and-a-torn-line",
        "§7 C: no good seal",
        &[line.as_slice(), b"{\"time"].concat(),
        no_seal(),
    );
    let missing = || want("tampered", &["manifest_missing"], 0);
    file("of-a-lf", "§7 A 1", b"\n", missing());
    file("of-no-manifest", "§7 A 1", b"{}\n", missing());
    let whole = record("b1 t c f1").out;
    let behind = &whole[line.len()..];
    file("without-line-1", "§7 A 1, C", behind, missing());
    file(
        "with-an-empty-line-1",
        "§7 A 1",
        &[b"\n", whole.as_slice()].concat(),
        missing(),
    );
    file(
        "with-a-byte-order-mark",
        "§7 A 1",
        &[b"\xef\xbb\xbf", whole.as_slice()].concat(),
        missing(),
    );
    let mut crlf = Vec::new();
    for line in whole.split_inclusive(|byte| *byte == b'\n') {
        crlf.extend_from_slice(&line[..line.len() - 1]);
        crlf.extend_from_slice(b"\r\n");
    }
    file("with-crlf", "§1: LF alone ends a line", &crlf, missing());
    let seal = record("b1").out;
    file(
        "with-seal-0-without-lf",
        "§7 C: no good seal",
        &seal[..seal.len() - 1],
        no_seal(),
    );
}

fn ended(set: &mut Set) {
    for (name, words, want) in [
        ("not-final", "b1 t s1", open()),
        (
            "with-events",
            "b1 t s1 t",
            want("unsigned_tail", &["end_unproved", "unsigned_tail"], ALL),
        ),
        (
            "with-a-fault",
            "b1 t s1 j",
            want(
                "unsigned_tail",
                &["end_unproved", "line_malformed", "unsigned_tail"],
                ALL,
            ),
        ),
    ] {
        set.add(
            &format!("record-{name}"),
            "§7 D 8, 9: the end",
            &record(words),
            want,
        );
    }
}

fn torn(set: &mut Set) {
    let torn = |more: &[&'static str]| {
        want(
            "unsigned_tail",
            &[&["torn_tail", "unsigned_tail"], more].concat(),
            ALL,
        )
    };
    for (name, words, bytes, more) in [
        (
            "line-behind-the-end",
            "b1 t c f1",
            "{\"timestamp\":17",
            &[][..],
        ),
        (
            "line-behind-a-seal",
            "b1 t s1",
            "{\"timestamp\":17",
            &["end_unproved"],
        ),
        (
            "line-behind-a-fault",
            "b1 t s1 j",
            "{",
            &["end_unproved", "line_malformed"],
        ),
    ] {
        let mut forge = record(words);
        forge.out.extend_from_slice(bytes.as_bytes());
        set.add(&format!("torn-{name}"), "§7 D 8: no LF", &forge, torn(more));
    }
    let mut forge = record("b1 t s1 t");
    forge.seal(&authority());
    forge.out.pop();
    forge.seals.pop();
    let rule = "§7 A: a line ends in LF";
    set.add("torn-checkpoint", rule, &forge, torn(&["end_unproved"]));
    let mut forge = record("b1 s1 c f1");
    forge.out.truncate(forge.out.len() - 40);
    forge.seals.pop();
    set.add(
        "torn-final-checkpoint",
        rule,
        &forge,
        torn(&["end_unproved"]),
    );
}

fn heads(set: &mut Set) {
    let ended = record("b1 s1 c f1");
    let opened = record("b1 s1 t s1");
    let head = |forge: &Forge, at: usize| forge.seals[at].head.clone();
    let not_last = |codes: &[&'static str]| want("open", codes, ALL);
    for (name, forge, at, exact, want) in [
        ("last-of-an-ended", &ended, 2, false, verified()),
        ("last-of-an-open", &opened, 2, false, verified()),
        ("last-of-an-open-exact", &opened, 2, true, verified()),
        ("earlier-of-an-ended", &ended, 0, false, verified()),
        (
            "earlier-of-an-open-exact",
            &opened,
            1,
            true,
            not_last(&["head_not_last"]),
        ),
    ] {
        let want = want.head(&head(forge, at), exact);
        set.add(&format!("head-{name}"), "§6: the head", forge, want);
    }
    let rule = "§6, §7 D 4: a head, and no one vouches";
    let unknown = want("unknown_signer", &["key_unknown"], 0);
    set.add(
        "head-and-no-trust",
        rule,
        &opened,
        unknown.trusting(&[]).head(&head(&opened, 2), false),
    );
    let digest = opened.seals[2]
        .head
        .rsplit(':')
        .next()
        .unwrap_or_default()
        .to_owned();
    set.add(
        "head-digest-alone",
        "report §3: heads",
        &opened,
        verified().head(&digest, false),
    );
    let missing = want("truncated", &["head_missing"], ALL).head(&"0".repeat(64), false);
    set.add(
        "head-digest-alone-of-none",
        "report §3: head_missing",
        &ended,
        missing,
    );
}

fn head_of_another(set: &mut Set) {
    let ended = record("b1 s1 c f1");
    let last = ended.seals[2].head.clone();
    let parts: Vec<&str> = last.split(':').collect();
    let [record_id, seq, size, digest] = parts[..] else {
        return;
    };
    let ahead = |seq: u64| format!("{record_id}:{seq}:{size}:{digest}");
    let others = "0".repeat(64);
    for (name, head, verdict, code) in [
        (
            "of-another-digest",
            format!("{record_id}:{seq}:{size}:{others}"),
            "forked",
            "head_differs",
        ),
        (
            "of-another-size",
            format!("{record_id}:{seq}:9:{digest}"),
            "forked",
            "head_differs",
        ),
        (
            "of-another-record",
            format!("{others}:{seq}:{size}:{digest}"),
            "foreign",
            "record_differs",
        ),
        ("ahead", ahead(3), "truncated", "head_ahead"),
    ] {
        let want = want(verdict, &[code], ALL).head(&head, false);
        set.add(
            &format!("head-{name}"),
            "§6: against an expected head",
            &ended,
            want,
        );
    }
    let longer = record("b1 t s1 t c f1 l f1");
    let cut = want("truncated", &["head_ahead"], ALL);
    set.add(
        "head-of-a-longer-copy",
        "§6: a lower last seq",
        &ended,
        cut.clone().head(&longer.seals[3].head, false),
    );
    set.add(
        "head-of-a-longer-copy-of-an-open",
        "§6, §7 D 9: a head is held",
        &record("b1 t s1"),
        cut.head(&last, false),
    );
    let fork = record("b1 t s1 e c f1");
    let forked = want("forked", &["head_differs"], ALL);
    set.add(
        "head-of-a-fork",
        "§6: another seal of that seq",
        &fork,
        forked.head(&last, false),
    );
}

fn heads_and_faults(set: &mut Set) {
    let faulty = record("b1 t s1 j s1");
    let behind = record("b1 t s1 e s1").seals[2].head.clone();
    let skipped = want("tampered", &["line_malformed"], 2);
    let rule = "§6: a fault before the place of the head";
    set.add(
        "head-behind-a-fault",
        rule,
        &faulty,
        skipped.clone().head(&behind, false),
    );
    set.add(
        "head-before-a-fault",
        "§6",
        &faulty,
        skipped.head(&faulty.seals[1].head, false),
    );
    let differs = want("tampered", &["head_differs", "line_malformed"], 2);
    let other = record("b1 e s1").seals[1].head.clone();
    set.add(
        "head-of-a-fork-and-a-fault",
        "§7 D: also after a failure",
        &faulty,
        differs.head(&other, false),
    );
    let mut tail = record("b1 t s1");
    let head = tail.seals[1].head.clone();
    tail.turn();
    let met = want("unsigned_tail", &["unsigned_tail"], ALL);
    set.add(
        "head-and-a-tail",
        "§7 D 8, 9",
        &tail,
        met.head(&head, false),
    );
}

fn threads(set: &mut Set) {
    let forge = record("b1 t c f1");
    set.add(
        "thread-asked-for",
        "§7 D 5",
        &forge,
        verified().thread(THREAD),
    );
    let other = want("foreign", &["thread_differs"], ALL);
    set.add(
        "thread-of-another-asked-for",
        "§7 D 5",
        &forge,
        other.clone().thread("testkit/other"),
    );
    let case = other.thread("Testkit/odd");
    set.add("thread-in-another-case-asked-for", "§7 D 5", &forge, case);
    let both = want("tampered", &["line_malformed", "thread_differs"], 1);
    let forge = record("b1 t j s1");
    set.add(
        "thread-of-another-and-a-fault",
        "§7 D 5: also after a failure",
        &forge,
        both.thread("x"),
    );
    let manifest =
        Manifest::of(authority().public_key(), 7).with("rye_key", format!("\"{}\"", hex(&key(9))));
    let mut forge = Forge::bare(&manifest.text(), 7, THREAD);
    forge.seal(&authority()).turn().finish(&authority());
    let rye = want("tampered", &["rye_key_changed"], 0);
    set.add("rye-key-of-another-manifest", "§7 B 9: fp", &forge, rye);
}
