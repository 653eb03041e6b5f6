//! From key to key in proofs of turns: `spec/proofs.md`, "Keys", without `authority` events.

use super::{Adder, Verdict, ended_with};
use crate::forge::{Forge, Seal, authority, hex, key, rye_signature};
use crate::proof_forge::{TurnProof, delegation, key_step, next_step};
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::key::Signer as _;

pub(super) fn add(add: &mut Adder) {
    closing(add);
    named(add);
    named_odd(add);
    split(add);
    announced(add);
    announced_odd(add);
    delegated(add);
}

fn of(forge: &Forge, turn: u64, keys: Vec<String>) -> TurnProof {
    TurnProof {
        keys,
        ..TurnProof::of_turn(forge, turn)
    }
}

/// Who signed the closing seal, without steps.
fn closing(add: &mut Adder) {
    type Alter = fn(&mut Seal);
    let key_hash = |line: String| blob(&line, |bytes| bytes[0] ^= 1);
    let bit = |line: String| blob(&line, |bytes| bytes[67] ^= 1);
    let stranger: Alter = |seal| {
        seal.by = key(9);
        seal.key = key(9).public_key().key_id().to_hex();
    };
    let cases: [(&str, Alter, Verdict, &str); 8] = [
        (
            "by-a-stranger",
            stranger,
            Verdict::forged("key_not_allowed"),
            "`key` is that of no key of the record",
        ),
        (
            "by-another",
            |seal| seal.by = key(9),
            Verdict::forged("signature_bad"),
            "another key signed than `key`",
        ),
        (
            "key-hash",
            |_| {},
            Verdict::forged("signature_bad"),
            "the key hash of the note is another one",
        ),
        (
            "signature-bit",
            |_| {},
            Verdict::forged("signature_bad"),
            "one bit of the signature",
        ),
        (
            "fp",
            |seal| seal.fp = "0123456789abcdef".to_owned(),
            Verdict::tampered("rye_key_changed"),
            "`fp` is not of `rye_key`",
        ),
        (
            "sig",
            |seal| seal.sig = rye_signature(&"ab".repeat(32)),
            Verdict::forged("rye_signature_bad"),
            "`sig` is over another hash",
        ),
        (
            "fp-and-sig",
            |seal| {
                seal.sig = rye_signature(&"ab".repeat(32));
                seal.fp = "0123456789abcdef".to_owned();
            },
            Verdict::tampered("rye_key_changed"),
            "`fp` is compared before `sig`",
        ),
        (
            "hash",
            |seal| seal.hash = "ab".repeat(32),
            Verdict::good(),
            "`hash` covers bytes that are not here: `prefix` is skipped",
        ),
    ];
    for (name, alter, verdict, rule) in cases {
        let forge = ended_with(|seal| {
            alter(seal);
            match name {
                "key-hash" => seal.alter = key_hash,
                "signature-bit" => seal.alter = bit,
                _ => {}
            }
        });
        let rule = format!("step 4, \"Taking\": {rule}");
        add.turn(
            &format!("closing-{name}"),
            &of(&forge, 1, Vec::new()),
            verdict,
            &rule,
        );
    }
}

/// The base64 behind the last blank, its bytes changed.
fn blob(line: &str, change: impl FnOnce(&mut Vec<u8>)) -> String {
    let at = line.rfind(' ').map_or(0, |at| at + 1);
    let (text, end) = line[at..].split_once("\\n").unwrap_or_default();
    let mut bytes = encoding::parse_base64(text).unwrap_or_default();
    change(&mut bytes);
    format!("{}{}\\n{end}", &line[..at], encoding::base64(&bytes))
}

fn naming(number: u8) -> String {
    format!("{{\"next_key\":\"{}\"}}", hex(&key(number)))
}

/// Seal 1 (line 5), with altered values, names key 11; turn 2 is lines 6 to 8, and line 9 the end.
fn stepped(by: u8, last: u8, alter: impl FnOnce(&mut Seal)) -> Forge {
    let mut forge = Forge::begun();
    forge.turn().seal_with(&key(by), |seal| {
        seal.ext = naming(11);
        alter(seal);
    });
    forge.turn().finish(&key(last));
    forge
}

fn named(add: &mut Adder) {
    let forge = stepped(1, 11, |_| {});
    let step = next_step(&forge, 5);
    let rule = "\"Keys\": a step by `next_key`";
    add.turn("next", &of(&forge, 2, step.clone()), Verdict::good(), rule);
    let rule = "\"Keys\": the closing seal is by a key without a step to it";
    add.turn(
        "next-missing",
        &of(&forge, 2, Vec::new()),
        Verdict::forged("key_not_allowed"),
        rule,
    );
    let old = stepped(1, 1, |_| {});
    let rule = "\"Keys\": after a step the key before may not seal";
    add.turn(
        "next-by-old",
        &of(&old, 2, next_step(&old, 5)),
        Verdict::forged("key_not_allowed"),
        rule,
    );
    let rule = "\"Keys\": the proof need not show that the key was given up";
    add.turn(
        "next-left-out",
        &of(&old, 2, Vec::new()),
        Verdict::good(),
        rule,
    );
    let rule = "\"Keys\": a step once more: its seal is not by the key that is current then";
    let again = of(&forge, 2, [step.clone(), step].concat());
    add.turn("next-again", &again, Verdict::forged("signature_bad"), rule);
    let strange = stepped(9, 11, |_| {});
    let rule = "\"Keys\": the seal of a step is by a key of the record";
    let proof = of(&strange, 2, next_step(&strange, 5));
    add.turn(
        "next-by-a-stranger",
        &proof,
        Verdict::forged("signature_bad"),
        rule,
    );
    let rule = "\"Keys\": the closing seal itself may name a key";
    let mut naming_last = Forge::begun();
    naming_last
        .turn()
        .seal_with(&authority(), |seal| seal.ext = naming(11));
    add.turn(
        "closing-names-key",
        &of(&naming_last, 1, Vec::new()),
        Verdict::open(),
        rule,
    );
    let rule = "\"Keys\": the closing seal is the step, too: its number is not greater";
    let own = of(&naming_last, 1, next_step(&naming_last, 5));
    add.turn(
        "next-is-closing",
        &own,
        Verdict::forged("key_not_allowed"),
        rule,
    );
    let mut chain = Forge::begun();
    chain
        .turn()
        .seal_with(&authority(), |seal| seal.ext = naming(11));
    chain
        .turn()
        .seal_with(&key(11), |seal| seal.ext = naming(12));
    chain.turn().finish(&key(12));
    let steps = [next_step(&chain, 5), next_step(&chain, 8)];
    add.turn(
        "next-twice",
        &of(&chain, 3, steps.concat()),
        Verdict::good(),
        "\"Keys\": two steps",
    );
}

fn named_odd(add: &mut Adder) {
    let bad = || Verdict::forged("key_step_bad");
    let plain = stepped(1, 11, |_| {});
    let rule = "\"Keys\": the seal of a step has `next_key`";
    add.turn(
        "next-names-none",
        &of(&plain, 2, next_step(&plain, 2)),
        bad(),
        rule,
    );
    let unknown = |seal: &mut Seal| {
        seal.ext = seal.ext.replacen('}', ",\"zeal\":\"1\"}", 1);
    };
    type Alter<'a> = &'a dyn Fn(&mut Seal);
    let cases: [(&str, Alter<'_>, Verdict, &str); 5] = [
        (
            "next-signed-by-another",
            &|seal| seal.by = key(9),
            Verdict::forged("signature_bad"),
            "its note verifies",
        ),
        (
            "next-ext-unknown",
            &unknown,
            Verdict::new("malformed", &["ext_unknown"]),
            "it is a seal of the record",
        ),
        (
            "next-thread",
            &|seal| seal.thread = "\"testkit/other\"".to_owned(),
            Verdict::tampered("thread_id_changed"),
            "it is a seal of the record",
        ),
        (
            "next-of-another-record",
            &|seal| seal.origin = format!("threadseal/1/transcript/{}", Digest::of(b"")),
            Verdict::tampered("checkpoint_altered"),
            "it is a seal of the record",
        ),
        (
            "next-names-itself",
            &|seal| seal.ext = naming(1),
            bad(),
            "K is no key that is current",
        ),
    ];
    for (name, alter, verdict, rule) in cases {
        let forge = stepped(1, 11, alter);
        let proof = of(&forge, 2, next_step(&forge, 5));
        add.turn(name, &proof, verdict, &format!("\"Keys\", `next`: {rule}"));
    }
    let mut back = Forge::begun();
    back.turn()
        .seal_with(&authority(), |seal| seal.ext = naming(11));
    back.turn().seal_with(&key(11), |seal| seal.ext = naming(1));
    back.turn().finish(&authority());
    let steps = [next_step(&back, 5), next_step(&back, 8)].concat();
    let rule = "\"Keys\": K is no key that was current";
    add.turn("next-names-earlier", &of(&back, 3, steps), bad(), rule);
    let mut ahead = Forge::begun();
    ahead
        .turn()
        .seal_with(&authority(), |seal| seal.ext = naming(11));
    ahead.turn().seal(&key(12));
    ahead
        .turn()
        .seal_with(&key(11), |seal| seal.ext = naming(12));
    let steps = [next_step(&ahead, 5), next_step(&ahead, 11)].concat();
    let proof = TurnProof {
        keys: steps,
        ..TurnProof::of(&ahead, 2, 5..=7, 8)
    };
    let rule = "\"Keys\": the number of the closing seal is greater than that of the last step";
    add.turn(
        "next-after-closing",
        &proof,
        Verdict::forged("key_not_allowed"),
        rule,
    );
}

/// Line 1 has another key than the authority.
fn split(add: &mut Adder) {
    let mut first = Forge::begun_by(&key(11));
    first.turn().finish(&authority());
    let rule = "\"Keys\": the authority may seal beside the first key";
    add.turn(
        "split-by-authority",
        &of(&first, 1, Vec::new()),
        Verdict::good(),
        rule,
    );
    let named = |by: u8, next: u8, last: u8| {
        let mut forge = Forge::begun_by(&key(11));
        forge
            .turn()
            .seal_with(&key(by), |seal| seal.ext = naming(next));
        forge.turn().finish(&key(last));
        of(&forge, 2, next_step(&forge, 5))
    };
    let rule = "\"Keys\": the authority makes the seal of a step";
    add.turn(
        "split-next-by-authority",
        &named(1, 12, 12),
        Verdict::good(),
        rule,
    );
    let rule = "\"Keys\": after a step the authority may seal as well";
    add.turn(
        "split-next-then-authority",
        &named(11, 12, 1),
        Verdict::good(),
        rule,
    );
    let rule = "\"Keys\": after a step the first key may not seal";
    add.turn(
        "split-next-then-first",
        &named(11, 12, 11),
        Verdict::forged("key_not_allowed"),
        rule,
    );
    let rule = "\"Keys\": K is not the authority where line 1 has another key";
    add.turn(
        "split-next-names-authority",
        &named(11, 1, 1),
        Verdict::forged("key_step_bad"),
        rule,
    );
}

/// Line 5 announces key 11 in this payload and frame, line 6 is seal 1; turn 2 is lines 7 to 9.
fn announcing(event: &dyn Fn(&Forge) -> String, alter: impl FnOnce(&mut Seal)) -> Forge {
    let mut forge = Forge::begun();
    forge.turn();
    let line = event(&forge);
    forge.line(line.as_bytes()).seal_with(&authority(), alter);
    forge.turn().finish(&key(11));
    forge
}

fn key_event(forge: &Forge) -> String {
    forge.frame("key", &format!("{{\"next\":\"{}\"}}", hex(&key(11))))
}

fn announced(add: &mut Adder) {
    let forge = announcing(&key_event, |_| {});
    let step = key_step(&forge, 5, 6);
    let rule = "\"Keys\": a step by a `key` event";
    add.turn("key", &of(&forge, 2, step.clone()), Verdict::good(), rule);
    let mut inside = Forge::begun();
    inside.turn();
    let line = key_event(&inside);
    inside
        .line(line.as_bytes())
        .seal(&authority())
        .finish(&key(11));
    let proof = of(&inside, 1, key_step(&inside, 5, 6));
    let rule = "\"Keys\": a step whose event and seal are shown, too";
    add.turn("key-shown", &proof, Verdict::good(), rule);
    let bad = |add: &mut Adder, name: &str, keys: Vec<String>, rule: &str| {
        let rule = format!("\"Keys\", `key`: {rule}");
        add.turn(
            name,
            &of(&forge, 2, keys),
            Verdict::forged("key_step_bad"),
            &rule,
        );
    };
    let without = vec![step[0].clone(), step[2].clone()];
    bad(
        add,
        "key-hash-missing",
        without,
        "a hash of the inclusion proof is missing",
    );
    let more = [step[..2].to_vec(), step[1..].to_vec()].concat();
    bad(add, "key-hash-more", more, "a hash is left");
    let event = key_step(&forge, 4, 6);
    bad(
        add,
        "key-is-no-key-event",
        event,
        "E is the line before the seal",
    );
    let mut far = Forge::begun();
    far.turn();
    let line = key_event(&far);
    far.line(line.as_bytes())
        .event("note", "{}")
        .seal(&authority());
    far.turn().finish(&key(11));
    let proof = of(&far, 2, key_step(&far, 5, 7));
    let rule = "\"Keys\", `key`: E is the line before the seal";
    add.turn(
        "key-line-between",
        &proof,
        Verdict::forged("key_step_bad"),
        rule,
    );
}

fn announced_odd(add: &mut Adder) {
    let respelled = |from: &'static str, to: &'static str| {
        move |forge: &Forge| key_event(forge).replacen(from, to, 1)
    };
    let naming_key = |number: u8| {
        move |forge: &Forge| forge.frame("key", &format!("{{\"next\":\"{}\"}}", hex(&key(number))))
    };
    type Event<'a> = &'a dyn Fn(&Forge) -> String;
    let cases: [(&str, Event<'_>, Verdict, &str); 7] = [
        (
            "key-blank",
            &respelled("{\"next\":", "{\"next\": "),
            Verdict::forged("key_step_bad"),
            "one spelling",
        ),
        (
            "key-more",
            &respelled("\"}}", "\",\"more\":1}}"),
            Verdict::forged("key_step_bad"),
            "no more members",
        ),
        (
            "key-type",
            &respelled("\"key\"", "\"keys\""),
            Verdict::forged("key_step_bad"),
            "a `key` event",
        ),
        (
            "key-frame",
            &respelled("\"payload\":", "\"payload\": "),
            Verdict::tampered("line_malformed"),
            "a native line",
        ),
        (
            "key-thread",
            &respelled("testkit/odd", "testkit/other"),
            Verdict::tampered("thread_id_changed"),
            "of the thread",
        ),
        (
            "key-names-current",
            &naming_key(1),
            Verdict::forged("key_step_bad"),
            "K is no key that is current",
        ),
        (
            "key-names-another",
            &naming_key(12),
            Verdict::forged("key_not_allowed"),
            "the closing seal is by K",
        ),
    ];
    for (name, event, verdict, rule) in cases {
        let forge = announcing(event, |_| {});
        let proof = of(&forge, 2, key_step(&forge, 5, 6));
        add.turn(name, &proof, verdict, &format!("\"Keys\", `key`: {rule}"));
    }
    let forge = announcing(&key_event, |seal| seal.ext = naming(12));
    let proof = of(&forge, 2, key_step(&forge, 5, 6));
    let rule = "\"Keys\", `key`: its seal has no `next_key`";
    add.turn(
        "key-under-next_key",
        &proof,
        Verdict::forged("key_step_bad"),
        rule,
    );
    let forge = announcing(&key_event, |seal| seal.by = key(9));
    let proof = of(&forge, 2, key_step(&forge, 5, 6));
    let rule = "\"Keys\", `key`: the note of its seal verifies";
    add.turn(
        "key-signed-by-another",
        &proof,
        Verdict::forged("signature_bad"),
        rule,
    );
    let mut aside = Forge::begun_by(&key(11));
    aside.turn();
    let line = naming_key(12)(&aside);
    aside.line(line.as_bytes()).seal(&authority());
    aside.turn().finish(&key(12));
    let proof = of(&aside, 2, key_step(&aside, 5, 6));
    let rule = "\"Keys\", `key`: its seal is by the current key, not by the authority beside it";
    add.turn(
        "split-key-by-authority",
        &proof,
        Verdict::forged("signature_bad"),
        rule,
    );
    let mut split = Forge::begun_by(&key(11));
    split.turn();
    let line = naming_key(1)(&split);
    split.line(line.as_bytes()).seal(&key(11));
    split.turn().finish(&authority());
    let proof = of(&split, 2, key_step(&split, 5, 6));
    let rule = "\"Keys\", `key`: K is not the authority where line 1 has another key";
    add.turn(
        "split-key-names-authority",
        &proof,
        Verdict::forged("key_step_bad"),
        rule,
    );
}

fn delegated(add: &mut Adder) {
    let record = |by: u8| {
        let mut forge = Forge::begun();
        forge.turn();
        let payload = forge.delegation(&authority(), &key(11));
        forge.event("delegation", &payload).finish(&key(by));
        forge
    };
    let forge = record(11);
    let with = |keys: Vec<String>| of(&forge, 1, keys);
    let rule = "\"Keys\": a delegate makes the closing seal";
    let good = delegation(&forge, &authority(), &key(11));
    add.turn("delegation", &with(good), Verdict::good(), rule);
    let rule = "\"Keys\": the closing seal is by a delegate without a delegation";
    add.turn(
        "delegation-missing",
        &with(Vec::new()),
        Verdict::forged("key_not_allowed"),
        rule,
    );
    let bad = || Verdict::forged("delegation_bad");
    let rule = "\"Keys\": another key signed the delegation";
    add.turn(
        "delegation-by-another",
        &with(delegation(&forge, &key(9), &key(11))),
        bad(),
        rule,
    );
    let other = delegation(&forge, &authority(), &key(12));
    let swapped = vec![other[0].replacen(&hex(&key(12)), &hex(&key(11)), 1)];
    let rule = "\"Keys\": the delegation of another key";
    add.turn("delegation-of-another", &with(swapped), bad(), rule);
    let elsewhere = delegation(&Forge::begun_by(&key(12)), &authority(), &key(11));
    let rule = "\"Keys\": a delegation for another record";
    add.turn(
        "delegation-of-another-record",
        &with(elsewhere),
        bad(),
        rule,
    );
    let rule = "\"Keys\": with a delegation, only the delegate may seal";
    let by_first = record(1);
    let keys = delegation(&by_first, &authority(), &key(11));
    add.turn(
        "delegation-not-used",
        &of(&by_first, 1, keys),
        Verdict::forged("key_not_allowed"),
        rule,
    );
    let mut hidden = Forge::begun();
    hidden.turn().finish(&key(11));
    let keys = delegation(&hidden, &authority(), &key(11));
    let rule = "\"Keys\": the event of the delegation need not be shown";
    add.turn(
        "delegation-not-shown",
        &of(&hidden, 1, keys),
        Verdict::good(),
        rule,
    );
}
