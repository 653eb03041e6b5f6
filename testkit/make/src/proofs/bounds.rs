//! The shown lines of proofs of turns: `spec/proofs.md`, step 6, "A seal of the record", "Bounds".

use super::{Adder, Verdict, ended, respelled};
use crate::forge::{Forge, Seal, authority, key};
use crate::proof_forge::TurnProof;
use threadseal_core::digest::Digest;
use threadseal_core::key::Signer as _;

pub(super) fn add(add: &mut Adder) {
    lines(add);
    opening(add);
    inner(add);
    closing(add);
}

/// One turn that has ended, with this line as line 5.
fn with_line(line: impl FnOnce(&Forge) -> String) -> TurnProof {
    let mut forge = Forge::begun();
    forge.turn();
    let line = line(&forge);
    forge.line(line.as_bytes()).finish(&authority());
    TurnProof::of_turn(&forge, 1)
}

fn lines(add: &mut Adder) {
    let cases = [
        (
            "blank-in-frame",
            "\"salt\":",
            "\"salt\": ",
            "line_malformed",
            "no blank in the frame",
        ),
        (
            "blank-behind-payload",
            "{}}",
            "{} }",
            "line_malformed",
            "no blank in the frame",
        ),
        (
            "salt-upper-case",
            "\"salt\":\"",
            "\"salt\":\"A",
            "line_malformed",
            "32 lower-case digits",
        ),
        (
            "timestamp",
            "1771356405.",
            "01771356405.",
            "line_malformed",
            "no leading zeros",
        ),
        (
            "payload-array",
            "\"payload\":{}",
            "\"payload\":[]",
            "line_malformed",
            "the payload is an object",
        ),
        (
            "payload-duplicate",
            "{}}",
            "{\"a\":1,\"a\":2}}",
            "line_malformed",
            "the strict reading of the payload",
        ),
        (
            "thread",
            "testkit/odd",
            "testkit/other",
            "thread_id_changed",
            "the thread of line 1",
        ),
    ];
    for (name, from, to, code, rule) in cases {
        let proof = with_line(|forge| respelled(forge, "note", "{}", from, to));
        let rule = format!("step 6 (transcript.md §1): {rule}");
        add.turn(
            &format!("line-{name}"),
            &proof,
            Verdict::tampered(code),
            &rule,
        );
    }
    let rule = "step 6: an empty line of the record is no native line";
    add.turn(
        "line-is-empty",
        &with_line(|_| String::new()),
        Verdict::tampered("line_malformed"),
        rule,
    );
    let proof = with_line(|forge| respelled(forge, "note", "{}", "{}}", "{ \"\\u0061\" : 1e0 }}"));
    let rule = "step 6 (transcript.md §1): blanks and escapes inside a payload";
    add.turn("line-payload-spelling", &proof, Verdict::good(), rule);
}

/// Seal 0 with altered values opens the turn.
fn opened(alter: impl FnOnce(&mut Seal)) -> TurnProof {
    let manifest = crate::forge::Manifest::of(authority().public_key(), 7);
    let mut forge = Forge::bare(&manifest.text(), 7, crate::forge::THREAD);
    forge.seal_with(&authority(), alter);
    forge.turn().finish(&authority());
    TurnProof::of(&forge, 1, 2..=5, 6)
}

fn opening(add: &mut Adder) {
    let wrong = || Verdict::tampered("turn_bounds_wrong");
    type Alter = fn(&mut Seal);
    let cases: [(&str, Alter, Verdict, &str); 7] = [
        ("turn", |seal| seal.turn = 1, wrong(), "it counts N"),
        (
            "lines",
            |seal| seal.lines = 2,
            wrong(),
            "`lines` is not its place",
        ),
        (
            "root",
            |seal| seal.root = Digest::of(b""),
            Verdict::good(),
            "its root is not compared",
        ),
        (
            "seq",
            |seal| seal.seq = 5,
            Verdict::tampered("link_broken"),
            "the number of the next seal follows from it",
        ),
        (
            "signed-by-another",
            |seal| seal.by = key(9),
            Verdict::good(),
            "its signature is not checked",
        ),
        (
            "noted",
            |seal| seal.noted = Some((7, seal.root)),
            Verdict::tampered("checkpoint_altered"),
            "a seal of the record",
        ),
        (
            "ext-unknown",
            |seal| seal.ext = "{\"zeal\":1}".to_owned(),
            Verdict::new("malformed", &["ext_unknown"]),
            "a seal of the record",
        ),
    ];
    for (name, alter, verdict, rule) in cases {
        let rule = format!("step 6, \"Bounds\", the opening seal: {rule}");
        add.turn(&format!("opening-{name}"), &opened(alter), verdict, &rule);
    }
    let event = TurnProof::of(&ended(), 1, 3..=5, 6);
    add.turn(
        "opening-is-event",
        &event,
        wrong(),
        "step 6, \"Bounds\": the first shown line is a seal",
    );
    let mut other = TurnProof::of_turn(&ended(), 1);
    other.turn = 2;
    add.turn(
        "turn-of-another-number",
        &other,
        wrong(),
        "step 6, \"Bounds\": the opening seal counts N - 1",
    );
    let line_1 = TurnProof::of(&ended(), 1, 1..=5, 6);
    add.turn(
        "opening-is-line-1",
        &line_1,
        wrong(),
        "step 6, \"Bounds\": line 1 is no seal",
    );
}

/// A turn of two seals; the first of them, line 5, with altered values.
fn inner_with(alter: impl FnOnce(&mut Seal)) -> TurnProof {
    let mut forge = Forge::begun();
    forge.turn().seal_with(&authority(), alter);
    forge.event("note", "{}").finish(&authority());
    TurnProof::of(&forge, 1, 2..=7, 8)
}

fn inner(add: &mut Adder) {
    let wrong = || Verdict::tampered("turn_bounds_wrong");
    let broken = || Verdict::tampered("link_broken");
    type Alter = fn(&mut Seal);
    let cases: [(&str, Alter, Verdict, &str); 13] = [
        ("turn-zero", |seal| seal.turn = 0, wrong(), "it counts N"),
        (
            "seq-skipped",
            |seal| seal.seq = 2,
            broken(),
            "`seq` is the next",
        ),
        (
            "seq-repeated",
            |seal| seal.seq = 0,
            broken(),
            "`seq` is the next",
        ),
        (
            "prev-null",
            |seal| seal.prev = "null".to_owned(),
            broken(),
            "`prev` is the seal before",
        ),
        (
            "prev-other",
            |seal| seal.prev = format!("\"{}\"", "ab".repeat(32)),
            broken(),
            "`prev` is the seal before",
        ),
        (
            "lines-more",
            |seal| seal.lines += 1,
            wrong(),
            "`lines` is its place",
        ),
        (
            "byte_offset",
            |seal| seal.byte_offset += 1,
            wrong(),
            "`byte_offset` is its place",
        ),
        (
            "root",
            |seal| seal.root = Digest::of(b""),
            Verdict::good(),
            "its root is not compared",
        ),
        (
            "by-a-stranger",
            |seal| seal.key = "ab".repeat(32),
            Verdict::good(),
            "its `key` is not judged",
        ),
        (
            "signed-by-another",
            |seal| seal.by = key(9),
            Verdict::good(),
            "its signature is not checked",
        ),
        (
            "thread",
            |seal| seal.thread = "\"testkit/other\"".to_owned(),
            Verdict::tampered("thread_id_changed"),
            "of the thread",
        ),
        (
            "ext-unknown",
            |seal| seal.ext = "{\"zeal\":1}".to_owned(),
            Verdict::new("malformed", &["ext_unknown"]),
            "a seal of the record",
        ),
        (
            "respelled",
            |seal| seal.respell = |line| line.replacen("\"hash\":", "\"hash\": ", 1),
            Verdict::tampered("checkpoint_malformed"),
            "one spelling",
        ),
    ];
    for (name, alter, verdict, rule) in cases {
        let rule = format!("step 6, \"Bounds\", a seal of the turn: {rule}");
        add.turn(&format!("inner-{name}"), &inner_with(alter), verdict, &rule);
    }
    let mut two = Forge::begun();
    two.turn()
        .seal(&authority())
        .turn()
        .seal(&authority())
        .finish(&authority());
    let proof = TurnProof::of(&two, 1, 2..=8, 10);
    let rule = "step 6, \"Bounds\": a seal of the next turn among the lines";
    add.turn("inner-of-next-turn", &proof, wrong(), rule);
}

fn closing(add: &mut Adder) {
    let wrong = || Verdict::tampered("turn_bounds_wrong");
    let broken = || Verdict::tampered("link_broken");
    let with = |alter: fn(&mut Seal)| TurnProof::of(&super::ended_with(alter), 1, 2..=5, 6);
    type Alter = fn(&mut Seal);
    let cases: [(&str, Alter, Verdict, &str); 5] = [
        (
            "seq-skipped",
            |seal| seal.seq = 2,
            broken(),
            "`seq` is the next",
        ),
        (
            "prev",
            |seal| seal.prev = format!("\"{}\"", "ab".repeat(32)),
            broken(),
            "`prev` is the seal before",
        ),
        (
            "byte_offset",
            |seal| seal.byte_offset += 1,
            wrong(),
            "of N: `byte_offset` is the byte behind the last line",
        ),
        (
            "turn-zero",
            |seal| seal.turn = 0,
            wrong(),
            "it counts less than N",
        ),
        (
            "turn-two",
            |seal| seal.turn = 2,
            wrong(),
            "of a higher count: the last shown line is a seal",
        ),
    ];
    for (name, alter, verdict, rule) in cases {
        let rule = format!("step 6, \"Bounds\", the closing seal: {rule}");
        add.turn(&format!("closing-{name}"), &with(alter), verdict, &rule);
    }
    let hidden = TurnProof::of(&ended(), 1, 2..=4, 6);
    let rule = "step 6, \"Bounds\": a line of the turn before the closing seal of N is not shown";
    add.turn("closing-line-hidden", &hidden, wrong(), rule);
    let mut two = Forge::begun();
    two.turn().seal_with(&authority(), |seal| seal.turn = 2);
    let alone = TurnProof::of(&two, 1, 2..=2, 5);
    let rule = "step 6, \"Bounds\": the opening seal alone, and a closing seal of a higher count";
    add.turn("closing-behind-opening", &alone, wrong(), rule);
    let mut three = Forge::begun();
    three
        .turn()
        .seal(&authority())
        .turn()
        .seal(&authority())
        .turn()
        .finish(&authority());
    let skipped = TurnProof::of(&three, 1, 2..=5, 12);
    let rule = "step 6, \"Bounds\": the closing seal is not the next one";
    add.turn("closing-seal-skipped", &skipped, broken(), rule);
    let rule = "step 6, \"Bounds\": seals of a turn that began before";
    let before = TurnProof::of(&three, 2, 2..=8, 12);
    add.turn("opening-of-earlier-turn", &before, wrong(), rule);
}
