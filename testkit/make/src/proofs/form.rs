//! The bytes of a proof of a turn: `spec/proofs.md`, "Bytes" and step 1.

use super::{Adder, Verdict, ended};
use crate::forge::{authority, key};
use crate::proof_forge::{LogPart, TurnProof, delegation, key_step, lines, next_step};
use threadseal_core::digest::Digest;

const RULE: &str = "step 1: the file has the form of \"Bytes\"";

pub(super) fn add(add: &mut Adder) {
    numbers(add);
    order(add);
    texts(add);
    hashes(add);
    keys(add);
    log(add);
}

fn proof() -> TurnProof {
    TurnProof::of_turn(&ended(), 1)
}

fn malformed(add: &mut Adder, name: &str, text: &str) {
    let name = format!("form-{name}");
    add.bytes(
        "turn_proof",
        &name,
        text.as_bytes(),
        Verdict::malformed(),
        RULE,
    );
}

fn replaced(add: &mut Adder, cases: &[(&str, &str, &str)]) {
    let text = proof().text();
    for (name, from, to) in cases {
        assert!(text.contains(from), "{name} changes nothing");
        malformed(add, name, &text.replacen(from, to, 1));
    }
}

fn numbers(add: &mut Adder) {
    replaced(
        add,
        &[
            ("first-line", "proof of a turn", "proof of a Turn"),
            ("turn-zero", "turn 1\n", "turn 0\n"),
            ("turn-spelled-01", "turn 1\n", "turn 01\n"),
            ("turn-plus", "turn 1\n", "turn +1\n"),
            ("turn-blank", "turn 1\n", "turn  1\n"),
            ("turn-2-63", "turn 1\n", "turn 9223372036854775808\n"),
            ("turn-missing", "turn 1\n", ""),
            ("first-zero", "first 2\n", "first 0\n"),
            ("first-spelled-02", "first 2\n", "first 02\n"),
            ("first-2-63", "first 2\n", "first 9223372036854775808\n"),
            ("first-missing", "first 2\n", ""),
            (
                "first-before-turn",
                "turn 1\nfirst 2\n",
                "first 2\nturn 1\n",
            ),
        ],
    );
    let mut last = proof();
    last.turn = (1 << 63) - 1;
    let rule = "\"Bounds\": the opening seal counts N - 1 turns; N may be 2^63 - 1";
    add.turn(
        "turn-2-63-less-1",
        &last,
        Verdict::tampered("turn_bounds_wrong"),
        rule,
    );
}

fn order(add: &mut Adder) {
    let text = proof().text();
    let line = |word: &str| {
        let found = text.lines().find(|line| line.starts_with(word));
        format!("{}\n", found.unwrap_or_default())
    };
    let (manifest, shown, hash, seal) = (
        line("manifest "),
        line("line "),
        line("hash "),
        line("seal "),
    );
    let moved = |part: &str, before: &str| {
        let rest = text.replacen(part, "", 1);
        rest.replacen(before, &format!("{part}{before}"), 1)
    };
    let cases = [
        ("manifest-missing", text.replacen(&manifest, "", 1)),
        (
            "manifest-twice",
            text.replacen(&manifest, &format!("{manifest}{manifest}"), 1),
        ),
        ("manifest-after-line", moved(&shown, &manifest)),
        ("seal-missing", text.replacen(&seal, "", 1)),
        (
            "seal-twice",
            text.replacen(&seal, &format!("{seal}{seal}"), 1),
        ),
        ("seal-before-hash", moved(&seal, &hash)),
        ("hash-before-line", moved(&hash, &shown)),
        (
            "part-unknown",
            text.replacen(&seal, &format!("more\n{seal}"), 1),
        ),
        ("line-empty", text.replacen(&seal, &format!("\n{seal}"), 1)),
        ("behind", format!("{text}\n")),
        ("lf-missing", text.trim_end().to_owned()),
        ("empty", String::new()),
        (
            "first-line-alone",
            "threadseal/1 proof of a turn\n".to_owned(),
        ),
    ];
    for (name, text) in cases {
        malformed(add, name, &text);
    }
    let mut none = proof();
    none.lines.clear();
    malformed(add, "no-line", &none.text());
}

/// Bytes 0x20 to 0x7E alone, and texts that are not trimmed.
fn texts(add: &mut Adder) {
    replaced(
        add,
        &[
            ("cr", "turn 1\n", "turn 1\r\n"),
            ("tab-in-line", "\"go\"", "\"\t\""),
            ("delete-in-line", "\"go\"", "\"\u{7f}\""),
            ("not-ascii-in-line", "\"go\"", "\"caf\u{e9}\""),
            ("zero-in-line", "\"go\"", "\"\0\""),
        ],
    );
    let mut blank = proof();
    blank.lines[1].push(' ');
    let rule = "\"Bytes\": a text is not trimmed; step 5: it is another line";
    add.turn(
        "line-with-blank-behind",
        &blank,
        Verdict::tampered("content_changed"),
        rule,
    );
    let mut body = proof();
    body.bodies = vec!["{\"commitment\": \"\",\"salt\":\"\",\"body\":1}".to_owned()];
    malformed(add, "body-misspelled", &body.text());
    body.bodies = vec![String::new()];
    malformed(add, "body-empty", &body.text());
    let mut empty = proof();
    empty.manifest.clear();
    let rule = "\"Bytes\": a text may be empty; step 2: no native line";
    add.turn(
        "manifest-empty",
        &empty,
        Verdict::tampered("line_malformed"),
        rule,
    );
    let mut empty = proof();
    empty.seal.clear();
    let rule = "\"Bytes\": a text may be empty; step 3: no native line";
    add.turn(
        "seal-empty",
        &empty,
        Verdict::tampered("line_malformed"),
        rule,
    );
}

fn hashes(add: &mut Adder) {
    let text = proof().text();
    let (before, rest) = text.split_once("hash ").unwrap_or_default();
    let (hash, rest) = rest.split_once('\n').unwrap_or_default();
    let cases = [
        ("hash-padding", hash.trim_end_matches('=').to_owned()),
        ("hash-31-bytes", format!("{}==", &hash[..42])),
        ("hash-trailing-bits", trailing(hash)),
        ("hash-empty", String::new()),
        ("hash-blank", format!("{hash} ")),
    ];
    for (name, hash) in cases {
        malformed(add, name, &format!("{before}hash {hash}\n{rest}"));
    }
    let mut many = proof();
    many.hashes = vec![Digest::of(b""); 126];
    let rule = "\"Bytes\": 126 hashes are read; step 5: they do not fit";
    add.turn(
        "hashes-126",
        &many,
        Verdict::tampered("content_changed"),
        rule,
    );
    many.hashes.push(Digest::of(b""));
    malformed(add, "hashes-127", &many.text());
}

/// Base64 of 32 bytes with its last digit one up: its trailing bits are not zero.
fn trailing(hash: &str) -> String {
    let (start, last) = hash.split_at(42);
    let digit = last.chars().next().map(|c| (u32::from(c) + 1, c));
    let next = digit.and_then(|(code, _)| char::from_u32(code));
    format!(
        "{start}{}=",
        next.filter(char::is_ascii_alphanumeric).unwrap_or('B')
    )
}

fn keys(add: &mut Adder) {
    let forge = ended();
    let with = |keys: Vec<String>| TurnProof {
        keys,
        ..TurnProof::of_turn(&forge, 1)
    };
    let good = delegation(&forge, &authority(), &key(11));
    let step = next_step(&forge, 2);
    let small = format!("01{}", "00".repeat(31));
    let public = good[0].split(' ').nth(1).unwrap_or_default();
    let seal = lines(&forge)[1].clone();
    let cases = [
        ("delegation-and-next", [good.clone(), step.clone()].concat()),
        ("next-and-delegation", [step, good.clone()].concat()),
        ("delegation-twice", [good.clone(), good.clone()].concat()),
        (
            "delegation-key-small-order",
            vec![good[0].replacen(public, &small, 1)],
        ),
        (
            "delegation-key-upper-case",
            vec![good[0].replacen(public, &public.to_uppercase(), 1)],
        ),
        (
            "delegation-signature-short",
            vec![good[0][..good[0].len() - 4].to_owned()],
        ),
        (
            "delegation-without-signature",
            vec![format!("delegation {public}")],
        ),
        ("key-without-seal", vec!["key {}".to_owned()]),
        (
            "key-with-two-seals",
            vec![
                "key {}".to_owned(),
                format!("seal {seal}"),
                format!("seal {seal}"),
            ],
        ),
        ("next-without-blank", vec!["next".to_owned()]),
        ("steps-1025", vec!["next ".to_owned(); 1025]),
    ];
    for (name, keys) in cases {
        malformed(add, name, &with(keys).text());
    }
    let rule = "\"Bytes\": 1,024 steps are read; step 4: the first is no native line";
    let many = with(vec!["next ".to_owned(); 1024]);
    add.turn(
        "steps-1024",
        &many,
        Verdict::tampered("line_malformed"),
        rule,
    );
    let mut long = key_step(&forge, 5, 6);
    let hash = long[1].clone();
    long.truncate(1);
    long.extend(vec![hash; 63]);
    long.push(format!("seal {}", lines(&forge)[5]));
    let rule = "\"Bytes\": 63 hashes of a step are read; \"Keys\": they do not fit";
    add.turn(
        "key-hashes-63",
        &with(long.clone()),
        Verdict::forged("key_step_bad"),
        rule,
    );
    long.insert(1, long[1].clone());
    malformed(add, "key-hashes-64", &with(long).text());
}

fn log(add: &mut Adder) {
    let with = |log: LogPart| TurnProof {
        log: Some(log),
        ..proof()
    };
    let good = with(LogPart::of("{}")).text();
    let (before, entry) = good.split_once("entry ").unwrap_or_default();
    let signature = good.lines().last().unwrap_or_default();
    let cases = [
        ("entry-alone", format!("{before}entry {{}}\n")),
        (
            "entry-missing",
            format!("{before}{}", entry.trim_start_matches("{}\n")),
        ),
        (
            "entry-not-ascii",
            good.replacen("entry {}", "entry {\u{e9}}", 1),
        ),
        (
            "log-extra",
            good.replacen("index 3", "extra AAAA\nindex 3", 1),
        ),
        (
            "log-index-spelled-03",
            good.replacen("index 3", "index 03", 1),
        ),
        ("log-first-line", good.replacen("@v1", "@v2", 1)),
        ("log-behind", format!("{good}\n")),
        ("log-signature-twice", format!("{good}{signature}\n")),
        (
            "log-no-signature",
            good.replacen(&format!("{signature}\n"), "", 1),
        ),
        (
            "log-size-spelled-05",
            good.replacen("log\n5\n", "log\n05\n", 1),
        ),
        ("log-lf-missing", good.trim_end().to_owned()),
    ];
    for (name, text) in cases {
        malformed(add, name, &text);
    }
    let long = "x".repeat(4096);
    let rule = "\"Bytes\": an entry of 4,096 bytes is read; \"The log part\": it is no head";
    let verdict = Verdict::tampered("anchor_bad");
    add.turn("entry-4096", &with(LogPart::of(&long)), verdict, rule);
    malformed(
        add,
        "entry-4097",
        &with(LogPart::of(&format!("{long}x"))).text(),
    );
}
