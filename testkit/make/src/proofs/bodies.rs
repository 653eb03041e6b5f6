//! Commitments and bodies in proofs of turns: `spec/proofs.md`, "Bodies", steps 9 and 14.

use super::{Adder, Verdict};
use crate::forge::{Forge, Manifest, THREAD, authority};
use crate::proof_forge::TurnProof;
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::key::Signer as _;

pub(super) fn add(add: &mut Adder) {
    given(add);
    changed(add);
    commitments(add);
    redacted(add);
}

/// A body of the record, its salt of this byte.
#[derive(Clone, Copy)]
struct Body {
    json: &'static str,
    salt: u8,
    record: u8,
}

const FIRST: Body = Body {
    json: "\"caf\\u00e9\"",
    salt: 9,
    record: 7,
};
const SECOND: Body = Body {
    json: "{\"path\":\"a\"}",
    salt: 10,
    record: 7,
};

impl Body {
    fn digest(&self) -> Digest {
        let parts: [&[u8]; 3] = [&[self.record; 32], &[self.salt; 32], self.json.as_bytes()];
        Digest::tagged("threadseal/1 body", &parts)
    }

    /// What is in the line.
    fn commitment(&self) -> String {
        let kind = if self.json.starts_with('{') {
            "object"
        } else {
            "string"
        };
        let (digest, bytes) = (self.digest(), self.json.len());
        format!(
            "{{\"$body\":{{\"commitment\":\"{digest}\",\"bytes\":{bytes},\"kind\":\"{kind}\"}}}}"
        )
    }

    /// Its line in the file of bodies, with another text or salt under its commitment.
    fn line_with(&self, json: &str, salt: u8) -> String {
        let (digest, salt) = (self.digest(), encoding::hex(&[salt; 32]));
        format!("{{\"commitment\":\"{digest}\",\"salt\":\"{salt}\",\"body\":{json}}}")
    }

    fn line(&self) -> String {
        self.line_with(self.json, self.salt)
    }

    fn payload(&self) -> String {
        format!("{{\"content\":{}}}", self.commitment())
    }
}

/// A turn of a record with detached bodies, that these lines end.
fn detached(write: impl FnOnce(&mut Forge)) -> TurnProof {
    let manifest = Manifest::of(authority().public_key(), 7).with("bodies", "\"detached\"");
    let mut forge = Forge::bare(&manifest.text(), 7, THREAD);
    forge.seal(&authority()).turn();
    write(&mut forge);
    forge.finish(&authority());
    TurnProof::of_turn(&forge, 1)
}

/// A turn with both bodies.
fn both() -> TurnProof {
    detached(|forge| {
        forge
            .event("note", &FIRST.payload())
            .event("note", &SECOND.payload());
    })
}

fn with(proof: &TurnProof, bodies: &[String]) -> TurnProof {
    TurnProof {
        bodies: bodies.to_vec(),
        ..proof.clone()
    }
}

fn unread() -> Verdict {
    Verdict::new("partial", &["bodies_unread"])
}

fn given(add: &mut Adder) {
    let none = detached(|_| {});
    add.turn(
        "bodies-none",
        &none,
        Verdict::good(),
        "step 14: no line has a commitment",
    );
    let both = both();
    let (first, second) = (FIRST.line(), SECOND.line());
    let cases = [
        (
            "bodies-given",
            vec![first.clone(), second.clone()],
            Verdict::good(),
            "each commitment has its body",
        ),
        ("bodies-left-out", vec![], unread(), "no body is given"),
        (
            "bodies-first-alone",
            vec![first],
            unread(),
            "a body is missing",
        ),
        (
            "bodies-second-alone",
            vec![second],
            unread(),
            "a body is missing",
        ),
    ];
    for (name, bodies, verdict, rule) in cases {
        add.turn(
            name,
            &with(&both, &bodies),
            verdict,
            &format!("step 14: {rule}"),
        );
    }
    let ends: [(&str, fn(&mut Forge), &str); 3] = [
        (
            "bodies-of-link",
            |f| _ = f.event("thread_handoff", &FIRST.payload()),
            "links have commitments",
        ),
        (
            "bodies-nested",
            |f| _ = f.event("note", &format!("{{\"a\":[1,{}]}}", FIRST.commitment())),
            "anywhere in a payload",
        ),
        (
            "bodies-in-text",
            |f| {
                _ = f.event(
                    "note",
                    &format!("{{\"a\":\"{}\"}}", FIRST.commitment().replace('"', "\\\"")),
                );
            },
            "not in a text",
        ),
    ];
    for (name, write, rule) in ends {
        let verdict = if name == "bodies-in-text" {
            Verdict::good()
        } else {
            unread()
        };
        let rule = format!("\"Bodies\": {rule}");
        add.turn(name, &detached(write), verdict, &rule);
    }
}

/// Step 9, bodies.
fn changed(add: &mut Adder) {
    let bad = || Verdict::tampered("body_changed");
    let both = both();
    let (first, second) = (FIRST.line(), SECOND.line());
    let foreign = Body { salt: 11, ..FIRST };
    let cases = [
        (
            "body-text",
            vec![FIRST.line_with("\"cafe\"", 9)],
            "another text",
        ),
        (
            "body-spelling",
            vec![FIRST.line_with("\"caf\\u00E9\"", 9)],
            "another spelling of the text",
        ),
        (
            "body-salt",
            vec![FIRST.line_with(FIRST.json, 10)],
            "another salt",
        ),
        (
            "body-of-no-commitment",
            vec![foreign.line()],
            "no line commits to it",
        ),
        (
            "bodies-swapped",
            vec![second.clone(), first.clone()],
            "in the order of their commitments",
        ),
        (
            "body-twice",
            vec![first.clone(), first.clone(), second],
            "each once",
        ),
    ];
    for (name, bodies, rule) in cases {
        let rule = format!("step 9, \"Bodies\", 2: {rule}");
        add.turn(name, &with(&both, &bodies), bad(), &rule);
    }
    let long = FIRST.payload().replacen("\"bytes\":11", "\"bytes\":12", 1);
    let long = detached(|forge| _ = forge.event("note", &long));
    let rule = "step 9, \"Bodies\", 2: another length than the commitment states";
    add.turn(
        "body-length",
        &with(&long, std::slice::from_ref(&first)),
        bad(),
        rule,
    );
    let elsewhere = Body { record: 8, ..FIRST };
    let of_another = detached(|forge| _ = forge.event("note", &elsewhere.payload()));
    let rule = "step 9, \"Bodies\", 2: a body of another record";
    add.turn(
        "body-of-another-record",
        &with(&of_another, &[elsewhere.line()]),
        bad(),
        rule,
    );
    let mut inline = Forge::begun();
    inline
        .turn()
        .event("note", &FIRST.payload())
        .finish(&authority());
    let inline = TurnProof::of_turn(&inline, 1);
    let rule = "step 9, \"Bodies\", 2: with inline bodies there is none";
    add.turn("body-inline", &with(&inline, &[first]), bad(), rule);
    let rule = "\"Bodies\": with inline bodies these bytes are no commitment";
    add.turn("bodies-inline", &inline, Verdict::good(), rule);
}

/// Step 9, commitments.
fn commitments(add: &mut Adder) {
    let bad = || Verdict::tampered("event_malformed");
    let good = FIRST.payload();
    let digest = FIRST.digest().to_hex();
    let cases = [
        (
            "commitment-kind",
            good.replacen("\"string\"", "\"number\"", 1),
            "`kind` is string, object or array",
        ),
        (
            "commitment-bytes-text",
            good.replacen(":11,", ":\"11\",", 1),
            "`bytes` is a number",
        ),
        (
            "commitment-bytes-blank",
            good.replacen(":11,", ": 11,", 1),
            "no blank",
        ),
        (
            "commitment-upper-case",
            good.replacen(&digest, &digest.to_uppercase(), 1),
            "hex is lower case",
        ),
        (
            "commitment-short",
            good.replacen(&digest, &digest[2..], 1),
            "64 digits",
        ),
        (
            "commitment-more",
            good.replacen("}}", ",\"more\":1}}", 1),
            "no more members",
        ),
        (
            "commitment-cut",
            "{\"content\":{\"$body\":{\"commitment\":\"\"}}}".to_owned(),
            "all members",
        ),
    ];
    for (name, payload, rule) in cases {
        let proof = detached(|forge| _ = forge.event("note", &payload));
        let rule = format!("step 9, \"Bodies\", 1: {rule}");
        add.turn(name, &proof, bad(), &rule);
    }
    let twice = format!("{{\"a\":{0},\"b\":{0}}}", FIRST.commitment());
    let proof = detached(|forge| _ = forge.event("note", &twice));
    add.turn(
        "commitment-twice-in-line",
        &proof,
        bad(),
        "step 9, \"Bodies\", 1: no digest twice",
    );
    let proof = detached(|forge| {
        forge.event("note", &good).event("note", &good);
    });
    add.turn(
        "commitment-twice",
        &proof,
        bad(),
        "step 9, \"Bodies\", 1: no digest twice in the turn",
    );
    let mut inline = Forge::begun();
    let payload = good.replacen(":11,", ": 11,", 1);
    inline.turn().event("note", &payload).finish(&authority());
    let rule = "\"Bodies\": with inline bodies any spelling is free";
    add.turn(
        "commitment-inline",
        &TurnProof::of_turn(&inline, 1),
        Verdict::good(),
        rule,
    );
}

/// The payload that states that these bodies were dropped.
fn dropping(bodies: &[Body]) -> String {
    let digests = bodies.iter().map(|body| format!("\"{}\"", body.digest()));
    let digests: Vec<String> = digests.collect();
    let key = authority().public_key().key_id().to_hex();
    let digests = digests.join(",");
    format!("{{\"commitments\":[{digests}],\"key\":\"{key}\",\"by\":\"Ada\",\"why\":\"a name\"}}")
}

fn redacted(add: &mut Adder) {
    let dropped = || Verdict::new("verified", &["redacted"]);
    let first = detached(|forge| {
        forge
            .event("note", &FIRST.payload())
            .event("redacted", &dropping(&[FIRST]));
    });
    add.turn(
        "body-redacted",
        &first,
        dropped(),
        "step 14: a redacted commitment is a note",
    );
    let one = detached(|forge| {
        forge
            .event("note", &FIRST.payload())
            .event("note", &SECOND.payload());
        forge.event("redacted", &dropping(&[FIRST]));
    });
    let rule = "step 14: one is redacted, the other has its body";
    add.turn(
        "body-redacted-other-given",
        &with(&one, &[SECOND.line()]),
        dropped(),
        rule,
    );
    let verdict = Verdict::new("partial", &["redacted", "bodies_unread"]);
    let rule = "step 14: one is redacted, the other is left out";
    add.turn("body-redacted-other-left-out", &one, verdict, rule);
    let behind = detached(|forge| {
        forge.event("note", &FIRST.payload()).seal(&authority());
        forge
            .event("redacted", &dropping(&[FIRST]))
            .seal(&authority());
    });
    let rule = "\"Bodies\", 3: redacted under a later seal of the turn";
    add.turn("body-redacted-later", &behind, dropped(), rule);
    let adopted = detached(|forge| {
        forge.event("note", &FIRST.payload()).seal(&authority());
        super::events::adopt(forge, |forge| {
            forge.event("redacted", &dropping(&[FIRST]));
        });
    });
    let rule = "\"Bodies\", 3: a redaction that `tail_adopted` follows does not count";
    let verdict = Verdict::new("partial", &["tail_adopted", "bodies_unread"]);
    add.turn("body-redacted-in-tail", &adopted, verdict, rule);
    let before = detached(|forge| {
        forge.event("note", &FIRST.payload());
        forge
            .event("redacted", &dropping(&[FIRST]))
            .seal(&authority());
        super::events::adopt(forge, |forge| {
            forge.event("note", "{}");
        });
    });
    let rule = "\"Bodies\", 3: a seal is between redaction and `tail_adopted`";
    let verdict = Verdict::new("partial", &["redacted", "tail_adopted"]);
    add.turn("body-redacted-before-tail", &before, verdict, rule);
}
