//! Who vouches for a proof of a turn, and what else is done together: `spec/proofs.md`, steps 10 to 12.

use super::{Adder, Verdict, ended, trusting};
use crate::forge::{Forge, authority, hex, key};
use crate::list::Options;
use crate::proof_forge::{TurnProof, delegation, key_step, next_step};

pub(super) fn add(add: &mut Adder) {
    authority_alone(add);
    sealers(add);
    threads(add);
    salts(add);
}

fn unknown(code: &'static str) -> Verdict {
    Verdict::new("unknown_signer", &[code])
}

fn authority_alone(add: &mut Adder) {
    let proof = TurnProof::of_turn(&ended(), 1);
    let usage = |usage| Options {
        usage: Some(usage),
        ..trusting(&[1], &[])
    };
    let cases = [
        (
            "trust-none",
            trusting(&[], &[]),
            unknown("key_unknown"),
            "no key is trusted",
        ),
        (
            "trust-other",
            trusting(&[9], &[]),
            unknown("key_unknown"),
            "another key is trusted",
        ),
        (
            "trust-rye",
            usage("rye"),
            unknown("key_out_of_scope"),
            "trusted for Rye's formats",
        ),
        (
            "trust-observed",
            usage("observed"),
            unknown("key_out_of_scope"),
            "trusted for observed logs",
        ),
        (
            "pin-other",
            trusting(&[1], &[9]),
            unknown("other_signer"),
            "another key is pinned",
        ),
        (
            "pin-authority",
            trusting(&[], &[1]),
            Verdict::good(),
            "pinned, and not trusted",
        ),
        (
            "pin-two",
            trusting(&[], &[9, 1]),
            Verdict::good(),
            "one of two pinned keys",
        ),
    ];
    for (name, options, verdict, rule) in cases {
        let rule = format!("step 10 (keys-and-trust.md §8.2): {rule}");
        add.turn(name, &proof, verdict.asked(options), &rule);
    }
    let mut open = Forge::begun();
    open.turn().seal(&authority());
    let verdict = Verdict::new("unknown_signer", &["key_unknown", "turn_may_go_on"]);
    let rule = "steps 10 and 15: both are done, and the worst verdict counts";
    let proof = TurnProof::of_turn(&open, 1);
    add.turn(
        "trust-none-open",
        &proof,
        verdict.asked(trusting(&[], &[])),
        rule,
    );
    let mut changed = TurnProof::of_turn(&ended(), 1);
    changed.lines[1] = changed.lines[1].replace("go", "no");
    let rule = "steps 1 to 9 stop: trust is not reported after a fault";
    let verdict = Verdict::tampered("content_changed").asked(trusting(&[], &[]));
    add.turn("trust-none-changed", &changed, verdict, rule);
}

/// Sealers that are not the authority.
fn sealers(add: &mut Adder) {
    let mut delegate = Forge::begun();
    delegate.turn().finish(&key(11));
    let delegate = TurnProof {
        keys: delegation(&delegate, &authority(), &key(11)),
        ..TurnProof::of_turn(&delegate, 1)
    };
    let cases = [
        (
            "delegate-trusted-alone",
            trusting(&[11], &[]),
            Verdict::good(),
            "the sealer counts by its own standing",
        ),
        (
            "delegate-neither",
            trusting(&[9], &[]),
            unknown("key_unknown"),
            "neither counts",
        ),
        (
            "delegate-pinned",
            trusting(&[1], &[11]),
            Verdict::good(),
            "the sealer is pinned",
        ),
        (
            "delegate-authority-pinned",
            trusting(&[], &[1]),
            Verdict::good(),
            "the pinned authority vouches for it",
        ),
        (
            "delegate-other-pinned",
            trusting(&[1, 11], &[9]),
            unknown("other_signer"),
            "a third key is pinned",
        ),
    ];
    for (name, options, verdict, rule) in cases {
        let rule = format!("\"Signers\": {rule}");
        add.turn(name, &delegate, verdict.asked(options), &rule);
    }
    let mut stepped = Forge::begun();
    let named = format!("{{\"next_key\":\"{}\"}}", hex(&key(11)));
    stepped
        .turn()
        .seal_with(&authority(), |seal| seal.ext = named);
    stepped.turn().finish(&key(11));
    let stepped = TurnProof {
        keys: next_step(&stepped, 5),
        ..TurnProof::of_turn(&stepped, 2)
    };
    let cases = [
        (
            "next-trusted-alone",
            trusting(&[11], &[]),
            unknown("key_unknown"),
            "the key of the step before is judged, too",
        ),
        (
            "next-pinned",
            trusting(&[1, 11], &[11]),
            unknown("other_signer"),
            "the key of the step before is not pinned",
        ),
        (
            "next-authority-pinned",
            trusting(&[1, 11], &[1]),
            Verdict::good(),
            "the pinned authority vouches for both",
        ),
        (
            "next-both-pinned",
            trusting(&[], &[1, 11]),
            Verdict::good(),
            "both are pinned",
        ),
    ];
    for (name, options, verdict, rule) in cases {
        let rule = format!("\"Signers\": {rule}");
        add.turn(name, &stepped, verdict.asked(options), &rule);
    }
    let mut split = Forge::begun_by(&key(11));
    split.turn().finish(&key(11));
    let split = TurnProof::of_turn(&split, 1);
    let rule = "\"Signers\": the first key counts by its own standing";
    add.turn(
        "split-first-trusted",
        &split,
        Verdict::good().asked(trusting(&[11], &[])),
        rule,
    );
    let rule = "\"Signers\": neither the first key nor the authority counts";
    add.turn(
        "split-neither",
        &split,
        unknown("key_unknown").asked(trusting(&[9], &[])),
        rule,
    );
}

fn threads(add: &mut Adder) {
    let proof = TurnProof::of_turn(&ended(), 1);
    let asked = |thread: &str, trust: &[u8]| Options {
        thread: Some(thread.to_owned()),
        ..trusting(trust, &[])
    };
    let rule = "step 11: the thread that is expected";
    add.turn(
        "thread-expected",
        &proof,
        Verdict::good().asked(asked("testkit/odd", &[1])),
        rule,
    );
    let foreign = |codes: &[&'static str]| Verdict::new("foreign", codes);
    let verdict = foreign(&["thread_differs"]).asked(asked("testkit/other", &[1]));
    add.turn(
        "thread-other",
        &proof,
        verdict,
        "step 11: another thread is expected",
    );
    let verdict = foreign(&["key_unknown", "thread_differs"]).asked(asked("testkit/other", &[]));
    let rule = "steps 10 and 11: both are done, and the worst verdict counts";
    add.turn("thread-other-trust-none", &proof, verdict, rule);
}

/// The salt of a line.
fn salt(line: &str) -> &str {
    let (_, rest) = line.split_once("\"salt\":\"").unwrap_or_default();
    &rest[..32]
}

fn salts(add: &mut Adder) {
    let guessable = || Verdict::new("verified", &["siblings_guessable"]);
    let with = |of: usize| {
        let mut forge = Forge::begun();
        forge.turn();
        let line = forge.frame("note", "{}");
        let known = crate::proof_forge::lines(&forge)[of - 1].clone();
        let line = line.replacen(salt(&line), salt(&known), 1);
        forge.line(line.as_bytes()).finish(&authority());
        TurnProof::of_turn(&forge, 1)
    };
    for (name, of, rule) in [
        ("salts-of-line", 3, "two shown lines"),
        ("salts-of-opening", 2, "a line and the opening seal"),
        ("salts-of-manifest", 1, "a line and the manifest"),
    ] {
        add.turn(
            name,
            &with(of),
            guessable(),
            &format!("step 12: {rule} have one salt"),
        );
    }
    let mut forge = Forge::begun();
    forge.turn();
    let event = forge.frame("key", &format!("{{\"next\":\"{}\"}}", hex(&key(11))));
    let known = salt(&event).to_owned();
    forge.line(event.as_bytes()).seal(&authority()).turn();
    let line = forge.frame("note", "{}");
    let line = line.replacen(salt(&line), &known, 1);
    forge.line(line.as_bytes()).finish(&key(11));
    let proof = TurnProof {
        keys: key_step(&forge, 5, 6),
        ..TurnProof::of_turn(&forge, 2)
    };
    let rule = "step 12: a line and the event of a step have one salt";
    add.turn("salts-of-step", &proof, guessable(), rule);
    let mut doubled = Forge::begun();
    doubled.turn();
    let line = doubled.frame("note", "{}");
    doubled
        .line(line.as_bytes())
        .line(line.as_bytes())
        .finish(&authority());
    let rule = "step 12: equal lines are not two different lines";
    add.turn(
        "salts-of-equal-lines",
        &TurnProof::of_turn(&doubled, 1),
        Verdict::good(),
        rule,
    );
}
