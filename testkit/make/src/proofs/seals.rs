//! Manifest, closing seal and root of proofs of turns: `spec/proofs.md`, "Checking", steps 2, 3 and 5.

use super::{Adder, Verdict, ended, ended_with};
use crate::forge::{Forge, Manifest, Seal, THREAD, authority, hex, key};
use crate::proof_forge::TurnProof;
use threadseal_core::digest::Digest;
use threadseal_core::key::Signer as _;

pub(super) fn add(add: &mut Adder) {
    good(add);
    manifests(add);
    closing(add);
    respelled(add);
    content(add);
}

fn of(forge: &Forge) -> TurnProof {
    TurnProof::of_turn(forge, 1)
}

/// What needs no odd record.
fn good(add: &mut Adder) {
    add.turn(
        "turn-ended",
        &of(&ended()),
        Verdict::good(),
        "step 15: the closing seal is final",
    );
    let mut forge = Forge::begun();
    forge.turn().seal(&authority());
    let rule = "step 15: the closing seal counts N, and is not final";
    add.turn("turn-open", &of(&forge), Verdict::open(), rule);
    forge.turn().seal(&authority());
    let rule = "step 15: the closing seal counts more than N";
    add.turn("turn-closed", &of(&forge), Verdict::good(), rule);
    let second = TurnProof::of_turn(&forge, 2);
    add.turn(
        "turn-second-open",
        &second,
        Verdict::open(),
        "step 15: the last turn is open",
    );
    let mut odd = Forge::begun();
    odd.seal_with(&authority(), |seal| seal.turn = 1);
    let rule = "\"Bounds\": the opening seal alone is shown, and the closing seal counts N";
    add.turn("turn-without-lines", &of(&odd), Verdict::open(), rule);
    let mut twice = Forge::begun();
    twice.turn().seal(&authority()).seal(&authority());
    let rule = "\"Bounds\": a closing seal of N directly behind a seal of N";
    add.turn("turn-seal-behind-seal", &of(&twice), Verdict::open(), rule);
    let mut seals = Forge::begun();
    seals
        .turn()
        .seal(&authority())
        .event("note", "{}")
        .seal(&authority());
    seals.event("note", "{}").finish(&authority());
    add.turn(
        "turn-of-three-seals",
        &of(&seals),
        Verdict::good(),
        "\"Bounds\": seals of N among the lines",
    );
}

/// A record with this line 1, sealed by `by`, of one turn that has ended.
fn of_manifest(manifest: &Manifest, thread: &str, by: u8) -> TurnProof {
    let mut forge = Forge::bare(&manifest.text(), 7, thread);
    forge.seal(&key(by)).turn().finish(&key(by));
    of(&forge)
}

fn manifests(add: &mut Adder) {
    let manifest = || Manifest::of(authority().public_key(), 7);
    let quoted = |text: &str| format!("\"{text}\"");
    let small = format!("01{}", "00".repeat(31));
    let cases = [
        (
            "manifest-format-2",
            manifest().with("format", quoted("threadseal/2")),
            "`format`",
        ),
        (
            "manifest-limits",
            manifest().with("limits", "[]"),
            "`limits` is an object",
        ),
        (
            "manifest-bodies",
            manifest().with("bodies", quoted("beside")),
            "`bodies`",
        ),
        (
            "manifest-authority",
            manifest().with("authority", quoted(&small)),
            "a public key",
        ),
        (
            "manifest-delegation-null",
            manifest().with("key", quoted(&hex(&key(11)))),
            "`delegation` is null exactly where one key is both",
        ),
        (
            "manifest-parent",
            manifest().with("parent", quoted("x")),
            "`parent` is a head",
        ),
    ];
    for (name, manifest, rule) in cases {
        let proof = of_manifest(&manifest, THREAD, 1);
        let rule = format!("step 2 (transcript.md §2): {rule}");
        add.turn(name, &proof, Verdict::tampered("manifest_missing"), &rule);
    }
    let delegated =
        |by: u8, thread: &str| manifest().delegated(&key(by), key(11).public_key(), thread);
    let good = of_manifest(&delegated(1, THREAD), THREAD, 11);
    add.turn(
        "first-key",
        &good,
        Verdict::good(),
        "step 2: the authority lets the first key in",
    );
    let rule = "step 2: another key signed the delegation of line 1";
    let proof = of_manifest(&delegated(9, THREAD), THREAD, 11);
    add.turn(
        "first-key-by-another",
        &proof,
        Verdict::forged("delegation_bad"),
        rule,
    );
    let rule = "step 2: the delegation of line 1 is for another thread";
    let proof = of_manifest(&delegated(1, "testkit/other"), THREAD, 11);
    add.turn(
        "first-key-other-thread",
        &proof,
        Verdict::forged("delegation_bad"),
        rule,
    );
    for (name, thread) in [
        ("thread-with-dots", "testkit/../odd"),
        ("thread-empty-part", "testkit//odd"),
        ("thread-absolute", "/testkit"),
        ("thread-backslash", "testkit\\\\odd"),
        ("thread-control", "testkit\\u0085odd"),
    ] {
        let proof = of_manifest(&manifest(), thread, 1);
        let rule = "step 2: the thread id can be a path (transcript.md §1)";
        add.turn(
            name,
            &proof,
            Verdict::new("malformed", &["thread_id_bad"]),
            rule,
        );
    }
    let mut event = of(&ended());
    event.manifest.clone_from(&event.lines[1]);
    let rule = "step 2: an event in the place of line 1";
    add.turn(
        "manifest-is-event",
        &event,
        Verdict::tampered("manifest_missing"),
        rule,
    );
    let mut blank = of(&ended());
    blank.manifest = blank.manifest.replacen("\"payload\":", "\"payload\": ", 1);
    let rule = "step 2: line 1 is a native line";
    add.turn(
        "manifest-frame",
        &blank,
        Verdict::tampered("line_malformed"),
        rule,
    );
}

/// Closing seals of which one value is odd.
fn closing(add: &mut Adder) {
    type Alter = fn(&mut Seal);
    let cases: [(&str, Alter, Verdict, &str); 9] = [
        (
            "thread",
            |seal| seal.thread = "\"testkit/other\"".to_owned(),
            Verdict::tampered("thread_id_changed"),
            "another thread than line 1",
        ),
        (
            "thread-escaped",
            |seal| seal.thread = "\"testkit\\u002fodd\"".to_owned(),
            Verdict::tampered("line_malformed"),
            "the id in another spelling is no native line",
        ),
        (
            "ext-unknown",
            |seal| seal.ext = "{\"zeal\":\"1\"}".to_owned(),
            Verdict::new("malformed", &["ext_unknown"]),
            "a critical member of `ext`",
        ),
        (
            "ext-order",
            |seal| seal.ext = "{\"opt_b\":\"1\",\"opt_a\":\"1\"}".to_owned(),
            Verdict::tampered("checkpoint_malformed"),
            "members of `ext` are sorted",
        ),
        (
            "noted-lines",
            |seal| seal.noted = Some((seal.lines + 1, seal.root)),
            Verdict::tampered("checkpoint_altered"),
            "the note states other lines",
        ),
        (
            "noted-root",
            |seal| seal.noted = Some((seal.lines, Digest::of(b""))),
            Verdict::tampered("checkpoint_altered"),
            "the note states another root",
        ),
        (
            "origin",
            |seal| seal.origin = format!("threadseal/1/transcript/{}", Digest::of(b"")),
            Verdict::tampered("checkpoint_altered"),
            "the note names another record",
        ),
        (
            "edited",
            |seal| seal.alter = |line| line.replacen("\"turn\":1", "\"turn\":2", 1),
            Verdict::tampered("checkpoint_altered"),
            "the digest of another line",
        ),
        (
            "ext-opt",
            |seal| {
                seal.ext = "{\"fence\":7,\"opt_x\":\"1\",\"successor\":\"0808080808080808080808080808080808080808080808080808080808080808\"}".to_owned();
            },
            Verdict::good(),
            "members of `ext` that are known, and one that is ignored",
        ),
    ];
    for (name, alter, verdict, rule) in cases {
        let proof = of(&ended_with(alter));
        add.turn(
            &format!("closing-{name}"),
            &proof,
            verdict,
            &format!("step 3: {rule}"),
        );
    }
    let mut event = of(&ended());
    event.seal.clone_from(&event.lines[1]);
    let rule = "step 3: an event in the place of the closing seal";
    add.turn(
        "closing-is-event",
        &event,
        Verdict::tampered("checkpoint_malformed"),
        rule,
    );
}

/// Closing seals in another spelling, signed so.
fn respelled(add: &mut Adder) {
    type Respell = fn(String) -> String;
    let cases: [(&str, Respell, &'static str); 5] = [
        (
            "blank-in-frame",
            |line| line.replacen("\"payload\":", "\"payload\": ", 1),
            "line_malformed",
        ),
        (
            "blank-in-payload",
            |line| line.replacen("\"hash\":", "\"hash\": ", 1),
            "checkpoint_malformed",
        ),
        (
            "final-number",
            |line| line.replacen("\"final\":true", "\"final\":1", 1),
            "checkpoint_malformed",
        ),
        (
            "seq-01",
            |line| line.replacen("\"seq\":1", "\"seq\":01", 1),
            "line_malformed",
        ),
        (
            "ts-other",
            |line| line.replacen("26:45Z", "26:46Z", 1),
            "checkpoint_malformed",
        ),
    ];
    for (name, respell, code) in cases {
        let proof = of(&ended_with(|seal| seal.respell = respell));
        let rule = "step 3: the one spelling of the closing seal";
        add.turn(
            &format!("closing-{name}"),
            &proof,
            Verdict::tampered(code),
            rule,
        );
    }
}

/// Step 5.
fn content(add: &mut Adder) {
    let good = of(&ended());
    let changed = |edit: fn(&mut TurnProof)| {
        let mut proof = good.clone();
        edit(&mut proof);
        proof
    };
    let cases = [
        (
            "line-edited",
            changed(|p| p.lines[1] = p.lines[1].replace("go", "no")),
            "a line was edited",
        ),
        (
            "lines-swapped",
            changed(|p| p.lines.swap(1, 2)),
            "two lines changed places",
        ),
        (
            "line-dropped",
            changed(|p| _ = p.lines.remove(1)),
            "a line is missing",
        ),
        (
            "line-doubled",
            changed(|p| p.lines.insert(1, p.lines[1].clone())),
            "a line stands there twice",
        ),
        (
            "hash-changed",
            changed(|p| p.hashes[0] = Digest::of(b"")),
            "another hash",
        ),
        (
            "hash-missing",
            changed(|p| _ = p.hashes.pop()),
            "a hash is missing",
        ),
        (
            "hash-more",
            changed(|p| p.hashes.push(Digest::of(b""))),
            "a hash is left",
        ),
        (
            "first-lower",
            changed(|p| p.first = 1),
            "lines one place before",
        ),
        (
            "first-higher",
            changed(|p| p.first = 3),
            "lines one place behind: beyond the tree",
        ),
        (
            "first-last",
            changed(|p| p.first = (1 << 63) - 1),
            "numbers of lines near 2^63",
        ),
    ];
    for (name, proof, rule) in cases {
        let rule = format!("step 5: {rule}");
        add.turn(name, &proof, Verdict::tampered("content_changed"), &rule);
    }
    let root = of(&ended_with(|seal| seal.root = Digest::of(b"")));
    let rule = "step 5: the closing seal states another root";
    add.turn(
        "closing-root",
        &root,
        Verdict::tampered("content_changed"),
        rule,
    );
    let lines = of(&ended_with(|seal| seal.lines -= 1));
    let rule = "step 5: the closing seal states fewer lines";
    add.turn(
        "closing-lines-fewer",
        &lines,
        Verdict::tampered("content_changed"),
        rule,
    );
}
