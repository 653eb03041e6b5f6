//! Commitments to detached bodies, and redactions, in the record (§10).

use super::{ALL, Set, Want, verified, want};
use crate::forge::{Forge, Manifest, THREAD, authority, key};
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::key::{LocalSigner, Signer as _};

/// A body: its salt is 32 times this byte.
#[derive(Clone, Copy)]
pub(super) struct Body(pub(super) u8, pub(super) &'static str);

/// The body of every record that needs one.
pub(super) const ONE: Body = Body(9, "\"caf\\u00e9\"");
pub(super) const TWO: Body = Body(10, "{\"a\":[1,2]}");

impl Body {
    pub(super) fn commitment(self) -> String {
        let parts: [&[u8]; 3] = [&[7; 32], &[self.0; 32], self.1.as_bytes()];
        Digest::tagged("threadseal/1 body", &parts).to_hex()
    }

    fn kind(self) -> &'static str {
        match self.1.as_bytes().first() {
            Some(b'{') => "object",
            Some(b'[') => "array",
            _ => "string",
        }
    }

    /// What is in the place of the value.
    pub(super) fn reference(self) -> String {
        let (commitment, bytes, kind) = (self.commitment(), self.1.len(), self.kind());
        format!(
            "{{\"$body\":{{\"commitment\":\"{commitment}\",\"bytes\":{bytes},\"kind\":\"{kind}\"}}}}"
        )
    }

    /// Its line in the file of bodies.
    pub(super) fn line(self) -> String {
        let (commitment, salt, body) = (self.commitment(), encoding::hex(&[self.0; 32]), self.1);
        format!("{{\"commitment\":\"{commitment}\",\"salt\":\"{salt}\",\"body\":{body}}}\n")
    }
}

/// The first line of the file of bodies of this record.
pub(super) fn header(record: u8) -> String {
    let record = encoding::hex(&[record; 32]);
    format!("{{\"format\":\"threadseal-bodies/1\",\"record\":\"{record}\"}}\n")
}

/// A file of these bodies.
pub(super) fn file(bodies: &[Body]) -> String {
    let lines = bodies.iter().map(|body| body.line());
    header(7) + &lines.collect::<String>()
}

/// A record with detached bodies and seal 0.
pub(super) fn begun() -> Forge {
    let manifest = Manifest::of(authority().public_key(), 7).with("bodies", "\"detached\"");
    let mut forge = Forge::bare(&manifest.text(), 7, THREAD);
    forge.seal(&authority());
    forge
}

/// One with an event that commits to `ONE`, not sealed yet.
pub(super) fn detached() -> Forge {
    let mut forge = begun();
    forge.event("cognition_in", &format!("{{\"text\":{}}}", ONE.reference()));
    forge
}

/// The payload of a redaction of `ONE` that `sealer` seals.
fn redaction(sealer: &LocalSigner) -> String {
    let (commitment, key) = (ONE.commitment(), sealer.public_key().key_id());
    format!(
        "{{\"commitments\":[\"{commitment}\"],\"key\":\"{}\",\"by\":\"Ada\",\"why\":\"a name\"}}",
        key.to_hex()
    )
}

/// Appends a redaction of `ONE`.
pub(super) fn redact(forge: &mut Forge, sealer: &LocalSigner) {
    forge.event("redacted", &redaction(sealer));
}

pub(super) fn add(set: &mut Set) {
    places(set);
    spellings(set);
    no_commitments(set);
    redacted(set);
    redactions(set);
    redactions_misspelled(set);
    redactors(set);
    tails(set);
}

/// Where a commitment counts.
fn places(set: &mut Set) {
    for (name, event, payload) in [
        (
            "in-a-free-event",
            "note",
            format!("{{\"x\":{}}}", ONE.reference()),
        ),
        ("as-the-payload", "note", ONE.reference()),
    ] {
        let mut forge = begun();
        forge.event(event, &payload).finish(&authority());
        given_and_missing(set, name, &forge);
    }
    let mut forge = begun();
    forge.turn().event(
        "thread_error",
        &format!("{{\"error\":{}}}", ONE.reference()),
    );
    given_and_missing(set, "in-a-terminal-event", forge.end(&authority()));
    let mut forge = begun();
    let two = format!("{{\"a\":{},\"b\":{}}}", ONE.reference(), TWO.reference());
    forge.event("note", &two).finish(&authority());
    let (rule, both) = ("§10: two commitments in a line", file(&[ONE, TWO]));
    set.add_with(
        "bodies-two-in-a-line",
        rule,
        &forge,
        Some(&both),
        verified(),
    );
    let missing = want("tampered", &["body_missing"], ALL);
    set.add_with(
        "bodies-one-of-two-missing",
        rule,
        &forge,
        Some(&file(&[TWO])),
        missing,
    );
    let mut order = begun();
    order.event("note", &two).finish(&authority());
    let rule = "§10: bodies in another order";
    set.add_with(
        "bodies-in-another-order",
        rule,
        &order,
        Some(&file(&[TWO, ONE])),
        verified(),
    );
}

fn given_and_missing(set: &mut Set, name: &str, forge: &Forge) {
    let rule = "§10: a commitment, and its body";
    set.add_with(
        &format!("body-{name}"),
        rule,
        forge,
        Some(&file(&[ONE])),
        verified(),
    );
    let missing = want("tampered", &["body_missing"], ALL);
    set.add(&format!("body-{name}-missing"), rule, forge, missing);
}

/// Bytes that begin like a commitment, and are spelled otherwise behind that.
fn spellings(set: &mut Set) {
    let (good, digest) = (ONE.reference(), ONE.commitment());
    for (name, text) in [
        ("upper-case", good.replace(&digest, &digest.to_uppercase())),
        (
            "bytes-with-leading-zero-and-sign",
            good.replace("\"bytes\":11", "\"bytes\":11.0"),
        ),
        ("kind-number", good.replace("\"string\"", "\"number\"")),
        (
            "member-more-inside",
            good.replace("\"string\"", "\"string\",\"x\":1"),
        ),
        ("member-more-behind", good.replace("}}", "},\"x\":1}")),
        ("blank-inside", good.replace(",\"bytes\"", ", \"bytes\"")),
        (
            "members-swapped",
            good.replace(
                "\"bytes\":11,\"kind\":\"string\"",
                "\"kind\":\"string\",\"bytes\":11",
            ),
        ),
    ] {
        let mut forge = begun();
        forge
            .event("note", &format!("{{\"x\":{text}}}"))
            .seal(&authority());
        let malformed = want("tampered", &["event_malformed"], 1);
        let rule = "§10: one spelling behind the first bytes";
        set.add_with(
            &format!("commitment-{name}"),
            rule,
            &forge,
            Some(&file(&[ONE])),
            malformed,
        );
    }
    let twice = format!("{{\"a\":{},\"b\":{}}}", ONE.reference(), ONE.reference());
    let once = format!("{{\"a\":{}}}", ONE.reference());
    let malformed = || want("tampered", &["event_malformed"], 1);
    let rule = "§10: a commitment occurs once in the record";
    let mut forge = begun();
    forge.event("note", &twice).seal(&authority());
    set.add_with(
        "commitment-twice-in-a-line",
        rule,
        &forge,
        Some(&file(&[ONE])),
        malformed(),
    );
    let mut forge = begun();
    forge
        .event("note", &once)
        .event("note", &once)
        .seal(&authority());
    set.add_with(
        "commitment-twice-in-two-lines",
        rule,
        &forge,
        Some(&file(&[ONE])),
        malformed(),
    );
    let mut forge = begun();
    forge
        .event("note", &once)
        .seal(&authority())
        .event("note", &once)
        .seal(&authority());
    let malformed = want("tampered", &["event_malformed"], 2);
    set.add_with(
        "commitment-twice-in-two-epochs",
        rule,
        &forge,
        Some(&file(&[ONE])),
        malformed,
    );
}

/// What is no commitment.
fn no_commitments(set: &mut Set) {
    let escaped = ONE.reference().replace('"', "\\\"");
    for (name, text) in [
        ("in-a-string", format!("\"{escaped}\"")),
        (
            "with-an-escaped-name",
            ONE.reference().replace("$body", "\\u0024body"),
        ),
        (
            "with-another-first-member",
            "{\"$body\":{\"bytes\":11}}".to_owned(),
        ),
    ] {
        let mut forge = begun();
        forge
            .event("note", &format!("{{\"x\":{text}}}"))
            .finish(&authority());
        let rule = "§10: these bytes are a commitment, others are not";
        set.add(&format!("no-commitment-{name}"), rule, &forge, verified());
    }
    let mut forge = Forge::begun();
    forge
        .event("note", &format!("{{\"x\":{}}}", ONE.reference()))
        .finish(&authority());
    set.add(
        "no-commitment-in-an-inline-record",
        "§10: these bytes mean nothing",
        &forge,
        verified(),
    );
    let mut forge = begun();
    forge.turn().finish(&authority());
    set.add(
        "bodies-none-and-no-file",
        "§10: no file until there is a body",
        &forge,
        verified(),
    );
    let header = header(7);
    set.add_with(
        "bodies-none-and-a-file",
        "§10: no body",
        &forge,
        Some(&header),
        verified(),
    );
}

/// Bodies that were dropped.
fn redacted(set: &mut Set) {
    let note = |codes: &[&'static str]| want("verified", codes, ALL);
    let mut forge = detached();
    redact(&mut forge, &authority());
    forge.seal(&authority()).finish(&authority());
    let rule = "§10: redacted";
    set.add_with(
        "redacted",
        rule,
        &forge,
        Some(&header(7)),
        note(&["redacted"]),
    );
    set.add("redacted-and-no-file", rule, &forge, note(&["redacted"]));
    let there = note(&["redacted", "redaction_unfinished"]);
    set.add_with(
        "redacted-and-still-there",
        rule,
        &forge,
        Some(&file(&[ONE])),
        there,
    );

    let mut forge = detached();
    forge.finish(&authority());
    redact(&mut forge, &authority());
    let missing = want("tampered", &["body_missing", "unsigned_tail"], ALL);
    set.add(
        "redacted-behind-the-end-not-sealed",
        "§10: a sealed redaction",
        &forge,
        missing,
    );
    forge.end(&authority());
    set.add("redacted-behind-the-end", rule, &forge, note(&["redacted"]));

    let mut forge = detached();
    redact(&mut forge, &authority());
    redact(&mut forge, &authority());
    forge.seal(&authority()).finish(&authority());
    set.add(
        "redacted-twice",
        "§10: a note for each event",
        &forge,
        note(&["redacted"]),
    );

    let mut forge = begun();
    let two = format!("{{\"a\":{},\"b\":{}}}", ONE.reference(), TWO.reference());
    forge.event("note", &two);
    redact(&mut forge, &authority());
    forge.seal(&authority()).finish(&authority());
    set.add_with(
        "redacted-one-of-two",
        rule,
        &forge,
        Some(&file(&[TWO])),
        note(&["redacted"]),
    );
    let missing = want("tampered", &["body_missing", "redacted"], ALL);
    set.add(
        "redacted-one-of-two-the-other-missing",
        rule,
        &forge,
        missing,
    );
}

/// A redaction with this payload behind a sealed commitment, and a seal.
fn redaction_with(payload: &str) -> Forge {
    let mut forge = detached();
    forge
        .event("redacted", payload)
        .event("thread_resumed", "{}")
        .end(&authority());
    forge
}

fn redactions(set: &mut Set) {
    let good = redaction(&authority());
    let by = |by: &str| good.replace("\"Ada\"", &format!("\"{by}\""));
    let why = |why: &str| good.replace("\"a name\"", &format!("\"{why}\""));
    let long = "w".repeat(4096);
    for (name, payload) in [
        ("by-of-256-bytes", by(&"b".repeat(256))),
        ("why-of-4096-bytes", why(&long)),
    ] {
        let note = want("verified", &["redacted"], ALL);
        set.add(
            &format!("redaction-{name}"),
            "§10: allowed",
            &redaction_with(&payload),
            note,
        );
    }
    let one = ONE.commitment();
    for (name, payload) in [
        ("of-nothing", good.replace(&format!("\"{one}\""), "")),
        ("of-no-commitment", good.replace(&one, &TWO.commitment())),
        ("by-empty", by("")),
        ("by-of-257-bytes", by(&"b".repeat(257))),
        ("why-empty", why("")),
        ("why-of-4097-bytes", why(&"w".repeat(4097))),
    ] {
        refused(set, name, &payload);
    }
}

fn refused(set: &mut Set, name: &str, payload: &str) {
    let malformed = want("tampered", &["event_malformed"], 1);
    set.add(
        &format!("redaction-{name}"),
        "§10: redacted, refused",
        &redaction_with(payload),
        malformed,
    );
}

fn redactions_misspelled(set: &mut Set) {
    let good = redaction(&authority());
    let one = ONE.commitment();
    for (name, payload) in [
        ("escaped", good.replace("\"Ada\"", "\"\\u0041da\"")),
        (
            "commitment-upper-case",
            good.replace(&one, &one.to_uppercase()),
        ),
        ("member-more-behind", good.replace('}', ",\"x\":1}")),
        ("blank", good.replace(",\"by\"", ", \"by\"")),
        (
            "members-swapped",
            good.replace(
                "\"by\":\"Ada\",\"why\":\"a name\"",
                "\"why\":\"a name\",\"by\":\"Ada\"",
            ),
        ),
    ] {
        refused(set, name, &payload);
    }
}

fn redactors(set: &mut Set) {
    let mut forge = detached();
    forge.seal(&authority());
    redact(&mut forge, &key(9));
    forge.seal(&authority());
    let differs = want("tampered", &["redactor_differs"], 2);
    set.add("redaction-of-another-key", "§10, §7 B 10", &forge, differs);
    let mut forge = detached();
    forge.seal(&authority());
    redact(&mut forge, &authority());
    redact(&mut forge, &key(9));
    forge.seal(&authority());
    let malformed = || want("tampered", &["event_malformed"], 2);
    set.add(
        "redactions-of-two-keys",
        "§10: under one checkpoint",
        &forge,
        malformed(),
    );
    let mut forge = begun();
    redact(&mut forge, &authority());
    forge
        .event("note", &format!("{{\"x\":{}}}", ONE.reference()))
        .seal(&authority());
    let early = want("tampered", &["event_malformed"], 1);
    let rule = "§10: committed to in a line before";
    set.add_with(
        "redaction-before-the-commitment",
        rule,
        &forge,
        Some(&file(&[ONE])),
        early.clone(),
    );
    let mut forge = Forge::begun();
    forge.event("note", &format!("{{\"x\":{}}}", ONE.reference()));
    redact(&mut forge, &authority());
    forge.seal(&authority());
    set.add("redaction-in-an-inline-record", rule, &forge, early);
    let mut forge = detached();
    forge.seal(&authority()).event("thread_completed", "{}");
    redact(&mut forge, &authority());
    forge.end(&authority());
    let after = want("tampered", &["event_after_end"], 2);
    set.add("redaction-while-closing", "§4: closing", &forge, after);
}

/// Commitments and redactions that no seal covers, or that a `tail_adopted` names.
fn tails(set: &mut Set) {
    let adopt = |forge: &mut Forge| {
        let payload = super::script::Adopted::of(forge).text();
        forge
            .event("tail_adopted", &payload)
            .seal(&authority())
            .turn()
            .finish(&authority());
    };
    let rule = "§10: up to the last good seal, that no tail_adopted names";
    let mut forge = begun();
    forge.finish(&authority());
    forge.event("thread_resumed", &format!("{{\"x\":{}}}", ONE.reference()));
    let tail = want("unsigned_tail", &["unsigned_tail"], ALL);
    set.add("body-of-a-tail-missing", rule, &forge, tail);
    let mut forge = detached();
    adopt(&mut forge);
    let partial = || want("partial", &["tail_adopted"], ALL);
    set.add("body-of-an-adopted-tail-missing", rule, &forge, partial());
    let mut forge = detached();
    let payload = super::script::Adopted::of(&forge).text();
    forge.event("tail_adopted", &payload);
    let again = format!("{{\"x\":{}}}", ONE.reference());
    forge.event("note", &again).seal(&authority());
    let twice = want("tampered", &["event_malformed"], 1);
    let rule_4 = "§4: commitments in adopted lines count as recorded";
    set.add("commitment-of-an-adopted-tail-again", rule_4, &forge, twice);
    let mut forge = detached();
    forge.seal(&authority());
    redact(&mut forge, &authority());
    adopt(&mut forge);
    let missing: Want = want("tampered", &["body_missing", "tail_adopted"], ALL);
    set.add(
        "redaction-of-an-adopted-tail",
        "§10: redacts nothing",
        &forge,
        missing,
    );
    let mut forge = detached();
    forge.line(b"{}").seal(&authority());
    let fault = want("tampered", &["line_malformed"], 1);
    set.add(
        "body-missing-and-a-fault",
        "§10: after a failure bodies are not judged",
        &forge,
        fault,
    );
}
